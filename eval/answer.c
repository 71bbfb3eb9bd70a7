/* answer.c - continuous batching: prompts join and finished sequences leave between two steps. */
#include "eval/answer.h"
#include "eval/channels.h"
#include "eval/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    bool used;
    struct answer_request request;
    struct seq *seq;
    struct answer answer;
    float *rows;                /* [n_rows, dim], the probe's input */
    int n_rows, cap_rows;
    uint64_t rng;
    /* What its row of logits says, once a step is done. */
    double *wide;               /* [vocab], the row in double */
    int32_t next;
    struct token_stats stats;
};

struct batcher {
    struct engine *m;
    const struct probe *probe;
    int n_slots;
    struct slot *slots;
    struct answer *finished;
    int n_finished, cap_finished;
    float *tap, *logits;        /* [n_slots, hidden], [n_slots, vocab] */
    const int *layers;          /* whose outputs are kept */
    int n_layers;
    float *hidden;              /* [n_slots, all levels, hidden], NULL: none are kept */
};

const char *answer_stop_name(enum answer_stop s)
{
    static const char *const names[] = {"eos", "length", "context", "asked"};
    return names[s];
}

void answer_free(struct answer *a)
{
    ids_free(&a->tokens);
    free(a->steps);
    free(a->label_logprob);
    free(a->hidden);
    seq_free(a->seq);
    *a = (struct answer){0};
}

struct batcher *batcher_new(struct engine *m, const struct probe *p, int batch)
{
    const struct model_info *info = engine_info(m);
    struct batcher *b = NEW(struct batcher, 1);
    b->m = m;
    b->probe = p;
    b->n_slots = batch;
    b->slots = NEW(struct slot, batch);
    b->tap = NEW(float, (size_t)batch * (size_t)info->hidden_size);
    b->logits = NEW(float, (size_t)batch * (size_t)info->vocab_size);
    return b;
}

void batcher_keep_hidden(struct batcher *b, const int *layers, int n)
{
    const struct model_info *info = engine_info(b->m);
    b->layers = layers;
    b->n_layers = n;
    b->hidden = NEW(float, (size_t)b->n_slots * (size_t)(info->n_layers + 1) * (size_t)info->hidden_size);
}

static void slot_clear(struct slot *s)
{
    seq_free(s->seq);
    ids_free(&s->request.prompt);
    free(s->request.soft);
    free(s->rows);
    *s = (struct slot){.wide = s->wide};
}

void batcher_free(struct batcher *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->n_slots; i++) {
        answer_free(&b->slots[i].answer);
        slot_clear(&b->slots[i]);
        free(b->slots[i].wide);
    }
    for (int i = 0; i < b->n_finished; i++)
        answer_free(&b->finished[i]);
    free(b->slots);
    free(b->finished);
    free(b->tap);
    free(b->hidden);
    free(b->logits);
    free(b);
}

bool batcher_has_room(const struct batcher *b)
{
    return batcher_active(b) < b->n_slots;
}

int batcher_active(const struct batcher *b)
{
    int n = 0;
    for (int i = 0; i < b->n_slots; i++)
        n += b->slots[i].used;
    return n;
}

static void finish(struct batcher *b, struct slot *s)
{
    if (b->n_finished == b->cap_finished) {
        b->cap_finished = b->cap_finished * 2 + 8;
        b->finished = mem_grow(b->finished, (size_t)b->cap_finished, sizeof *b->finished);
    }
    b->finished[b->n_finished++] = s->answer;
    s->answer = (struct answer){0};
    slot_clear(s);
}

bool batcher_take(struct batcher *b, struct answer *out)
{
    if (b->n_finished == 0)
        return false;
    *out = b->finished[0];
    memmove(b->finished, b->finished + 1, (size_t)--b->n_finished * sizeof *b->finished);
    return true;
}

void batcher_add(struct batcher *b, struct answer_request *r)
{
    int i = 0;
    while (b->slots[i].used)
        i++;
    struct slot *s = &b->slots[i];
    const struct model_info *info = engine_info(b->m);
    *s = (struct slot){.used = true, .request = *r, .seq = r->seq, .rng = r->settings.seed, .wide = s->wide};
    r->prompt = (struct ids){0};
    r->soft = NULL;
    r->seq = NULL;
    s->answer.user = r->user;
    s->answer.prompt_tokens = s->request.prompt.n;
    if (s->request.prompt.n < 1)
        err_input(&s->answer.err, "the prompt is empty");
    else if (s->request.prompt.n >= info->max_positions)
        err_input(&s->answer.err, "the prompt has %d tokens, the model takes %d", s->request.prompt.n,
                  info->max_positions - 1);
    if (s->answer.err.code) {
        finish(b, s);
        return;
    }
    s->answer.steps = NEW(struct token_stats, s->request.settings.max_tokens);
    s->answer.prefill_ms = s->request.prefill_ms;
    if (!s->seq)
        s->seq = seq_new(b->m);
    if (!s->wide)
        s->wide = NEW(double, info->vocab_size);
}

/* Which generated tokens are the answer: not the stop token, not a leading thought channel and not its markers. */
static void mark_answer_tokens(const struct batcher *b, const struct answer *a, bool *is_answer)
{
    struct channels c;
    channels_start(&c, engine_tokenizer(b->m));
    int n = a->tokens.n - (a->stop == STOP_EOS);
    for (int i = 0; i < n; i++)
        is_answer[i] = channels_next(&c, a->tokens.id[i]) == PART_ANSWER;
    channels_free(&c);
}

static void summarise(const struct batcher *b, struct answer *a)
{
    bool *is_answer = NEW(bool, a->tokens.n);
    double *entropy = NEW(double, a->tokens.n), logprob = 0;
    mark_answer_tokens(b, a, is_answer);
    a->margin = INFINITY;
    for (int i = 0; i < a->tokens.n; i++) {
        if (!is_answer[i])
            continue;
        entropy[a->n_answer_tokens++] = a->steps[i].entropy;
        logprob += a->steps[i].logprob;
        a->margin = fmin(a->margin, a->steps[i].margin);
    }
    a->entropy = entropy_summarise(entropy, a->n_answer_tokens);
    a->logprob = a->n_answer_tokens ? logprob / a->n_answer_tokens : NAN;
    if (!a->n_answer_tokens)
        a->margin = NAN;
    free(is_answer);
    free(entropy);
}

static void complete(struct batcher *b, struct slot *s)
{
    struct answer *a = &s->answer;
    summarise(b, a);
    if (b->probe) {
        a->has_probe = probe_score(b->probe, s->rows, s->n_rows, &a->probe, &a->err) == 0;
        bool stop_row = a->stop == STOP_EOS && a->tokens.n == s->n_rows;
        int n = s->n_rows - (stop_row ? 1 : 0);
        if (a->has_probe && n > 0)
            probe_score(b->probe, s->rows, n, &a->probe_without_stop, &a->err);
    }
    if (s->request.keep_seq) {
        a->seq = s->seq;
        s->seq = NULL;
    }
    finish(b, s);
}

static void keep_row(struct batcher *b, struct slot *s, const float *row)
{
    if (!b->probe || s->n_rows == probe_max_rows(b->probe))
        return;
    size_t dim = (size_t)probe_dim(b->probe);
    if (s->n_rows == s->cap_rows) {
        s->cap_rows = s->cap_rows * 2 + 16;
        s->rows = mem_grow(s->rows, (size_t)s->cap_rows * dim, sizeof *s->rows);
    }
    memcpy(s->rows + (size_t)s->n_rows++ * dim, row, dim * sizeof *row);
}

/* all: [levels, hidden]; level l + 1 is the output of layer l. */
static void keep_hidden(const struct batcher *b, struct answer *a, const float *all)
{
    enum { ROWS_MAX = 1024 };
    const size_t dim = (size_t)engine_info(b->m)->hidden_size, row = (size_t)b->n_layers * dim;
    if (!b->hidden || a->n_hidden == ROWS_MAX)
        return;
    if (a->n_hidden % 16 == 0)
        a->hidden = mem_grow(a->hidden, ((size_t)a->n_hidden + 16) * row, sizeof *a->hidden);
    for (int i = 0; i < b->n_layers; i++)
        memcpy(a->hidden + (size_t)a->n_hidden * row + (size_t)i * dim, all + ((size_t)b->layers[i] + 1) * dim,
               dim * sizeof *all);
    a->n_hidden++;
}

static void label_logprobs(struct slot *s, const double *logits, int n, const struct token_stats *st, int32_t chosen)
{
    const struct answer_request *r = &s->request;
    s->answer.label_logprob = NEW(double, r->n_labels);
    for (int i = 0; i < r->n_labels; i++)
        s->answer.label_logprob[i] = r->label_ids[i] >= 0 && r->label_ids[i] < n
                                         ? st->logprob + logits[r->label_ids[i]] - logits[chosen] : NAN;
}

/* One sequence of a step, and where its rows came out. */
struct turn { const struct batcher *b; struct slot *slot; struct step_input *in; };

/* Chooses a sequence's next token. */
static void choose(void *arg, int i)
{
    const struct turn *t = (const struct turn *)arg + i;
    struct slot *s = t->slot;
    const int vocab = engine_info(t->b->m)->vocab_size;
    const struct decode_settings *d = &s->request.settings;
    for (int k = 0; k < vocab; k++)
        s->wide[k] = t->in->logits[k];
    s->next = sample_token(s->wide, vocab, d->temperature, d->top_p, &s->rng);
    token_stats(s->wide, vocab, s->next, &s->stats, &s->answer.err);
}

/* Takes that token. */
static void advance(struct batcher *b, struct slot *s, const struct step_input *in)
{
    const struct model_info *info = engine_info(b->m);
    struct answer *a = &s->answer;
    const struct decode_settings *d = &s->request.settings;
    const int32_t id = s->next;
    if (a->err.code) {
        finish(b, s);
        return;
    }
    keep_row(b, s, in->tap);
    keep_hidden(b, a, in->hidden);
    if (a->tokens.n == 0 && s->request.n_labels)
        label_logprobs(s, s->wide, info->vocab_size, &s->stats, id);
    a->steps[a->tokens.n] = s->stats;
    ids_push(&a->tokens, id);
    bool ended = true;
    if (engine_is_eos(b->m, id) && !d->ignore_eos)
        a->stop = STOP_EOS;
    else if (s->request.on_token && !s->request.on_token(a->user, a, s->wide))
        a->stop = STOP_ASKED;
    else if (a->tokens.n == d->max_tokens)
        a->stop = STOP_LENGTH;
    else if (seq_length(s->seq) >= info->max_positions)
        a->stop = STOP_CONTEXT;
    else
        ended = false;
    if (ended)
        complete(b, s);
}

/* What a sequence does next: the rest of its prompt, or its latest token. */
static struct step_input input_of(const struct batcher *b, const struct slot *s)
{
    const struct ids *prompt = &s->request.prompt, *tokens = &s->answer.tokens;
    struct step_input in = {.seq = s->seq, .n_needed = 1, .tap_layer = b->probe ? probe_layer(b->probe) : 0};
    if (tokens->n) {
        in.ids = tokens->id + tokens->n - 1;
        in.n = 1;
        return in;
    }
    const int have = seq_length(s->seq);
    in.ids = prompt->id + have;
    in.n = prompt->n - have;
    in.soft = s->request.soft;
    for (int i = 0; i < have && in.soft; i++)
        in.soft += engine_takes_soft(b->m, prompt->id[i]) ? engine_info(b->m)->hidden_size : 0;
    return in;
}

int batcher_step(struct batcher *b, struct err *e)
{
    const struct model_info *info = engine_info(b->m);
    struct step_input *in = NEW(struct step_input, b->n_slots);
    struct turn *turn = NEW(struct turn, b->n_slots);
    int n = 0, rows = 0;
    for (int i = 0; i < b->n_slots; i++) {
        if (!b->slots[i].used)
            continue;
        in[n] = input_of(b, &b->slots[i]);
        in[n].tap = b->tap + (size_t)n * (size_t)info->hidden_size;
        if (b->hidden)
            in[n].hidden = b->hidden + (size_t)n * (size_t)(info->n_layers + 1) * (size_t)info->hidden_size;
        in[n].logits = b->logits + (size_t)n * (size_t)info->vocab_size;
        rows += in[n].n;
        turn[n] = (struct turn){b, &b->slots[i], &in[n]};
        n++;
    }
    double start = clock_ms();
    int failed = n ? engine_step(b->m, in, n, e) : 0;
    if (!failed)
        engine_spread(b->m, n, choose, turn);
    double per_row = rows ? (clock_ms() - start) / rows : 0;
    for (int i = 0; i < n && !failed; i++) {
        struct slot *s = turn[i].slot;
        *(s->answer.tokens.n ? &s->answer.decode_ms : &s->answer.prefill_ms) += per_row * in[i].n;
        advance(b, s, &in[i]);
    }
    free(in);
    free(turn);
    return failed;
}
