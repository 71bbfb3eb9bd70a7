/* selfcheck.c - a few prompts, two of them longer than a sliding window and alike but for their ends, are continued
 * greedily; every logit and every tapped hidden value that decides an answer goes into a hash. The hash must not change
 * with the batch, the threads, the pieces of a prompt, a copied prefix, the rows asked for, or the kernel. */
#include "eval/selfcheck.h"
#include "eval/parity.h"
#include "eval/prefix.h"
#include "eval/proof.h"
#include "eval/sampling.h"
#include "probe/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_LONG = 2, N_PROMPTS = N_PROOF_PROMPTS + N_LONG, N_STEPS = 8, LONG_TOKENS = 560, LONGEST_SOURCE = 3,
       MIN_LONG_PIECE = 16 };

enum copying { NO_COPY, COPY_MEMORY, COPY_BYTES };
enum storing { NO_STORE, STORE_COLD, STORE_WARM };

struct way {
    const char *name;
    int together;               /* sequences in one step */
    int piece;                  /* tokens of a prompt per step (of a long one at least 16), 0: all */
    bool all_rows;              /* take every row of the prompt through all layers */
    enum copying copying;       /* compute half of the prompt, go on in a copy */
    enum storing storing;       /* take what prompts share from a prefix store */
    int n_threads;              /* 0: as the options say */
    const char *kernel;         /* NULL: likewise */
};

static const struct way ways[] = {
    {.name = "one sequence at a time", .together = 1},
    {.name = "all sequences together", .together = N_PROMPTS},
    {.name = "prompts in pieces of 1", .together = 1, .piece = 1},
    {.name = "prompts in pieces of 7", .together = N_PROMPTS, .piece = 7},
    {.name = "prompts in pieces of 64", .together = 3, .piece = 64},
    {.name = "prompts in pieces of 300", .together = N_PROMPTS, .piece = 300},
    {.name = "all rows of the prompts", .together = N_PROMPTS, .all_rows = true},
    {.name = "prefix copied", .together = 1, .copying = COPY_MEMORY},
    {.name = "prefix written and read", .together = 1, .copying = COPY_BYTES},
    {.name = "prefix store, cold", .together = 2, .storing = STORE_COLD},
    {.name = "prefix store, warm", .together = N_PROMPTS, .storing = STORE_WARM},
    {.name = "one thread", .together = N_PROMPTS, .n_threads = 1},
    {.name = "three threads", .together = N_PROMPTS, .n_threads = 3},
    {.name = "generic kernel", .together = N_PROMPTS, .kernel = "generic"},
};

struct walk { struct ids ids; int n_prompt; struct seq *seq; struct sha256 hash; float *logits, *tap; };

struct check {
    struct engine *m;
    int tap_layer;
    const struct way *way;
    struct prefix_store *store;             /* NULL: none */
    struct walk walk[N_PROMPTS];
    double *wide;
};

/* A piece of one walk. */
struct piece { int which, from, count; };

/* One step; only its last row's logits and tap are kept. */
static int step(struct check *c, const struct piece *p, int n, struct err *e)
{
    struct step_input in[N_PROMPTS];
    for (int i = 0; i < n; i++) {
        struct walk *w = &c->walk[p[i].which];
        in[i] = (struct step_input){.seq = w->seq, .ids = w->ids.id + p[i].from, .n = p[i].count, .logits = w->logits,
                                    .n_needed = 1, .tap = w->tap, .tap_layer = c->tap_layer};
    }
    return engine_step(c->m, in, n, e);
}

/* All rows but the last of each piece, through all layers. */
static int pass_rows(struct check *c, struct piece *p, int n, struct err *e)
{
    const size_t hidden = (size_t)engine_info(c->m)->hidden_size;
    struct step_input in[N_PROMPTS];
    float *tap[N_PROMPTS];
    for (int i = 0; i < n; i++) {
        struct walk *w = &c->walk[p[i].which];
        const int rows = p[i].count - 1;
        tap[i] = NEW(float, (size_t)rows * hidden + 1);
        in[i] = (struct step_input){.seq = w->seq, .ids = w->ids.id + p[i].from, .n = rows, .n_needed = rows,
                                    .tap = tap[i], .tap_layer = c->tap_layer};
        p[i] = (struct piece){p[i].which, p[i].from + rows, 1};
    }
    const int failed = engine_step(c->m, in, n, e);
    for (int i = 0; i < n; i++)
        free(tap[i]);
    return failed;
}

/* The last row of a step: hashed, and its best token taken. */
static void take(struct check *c, struct walk *w)
{
    const size_t vocab = (size_t)engine_info(c->m)->vocab_size, hidden = (size_t)engine_info(c->m)->hidden_size;
    sha256_update(&w->hash, w->logits, vocab * sizeof *w->logits);
    sha256_update(&w->hash, w->tap, hidden * sizeof *w->tap);
    for (size_t i = 0; i < vocab; i++)
        c->wide[i] = w->logits[i];
    ids_push(&w->ids, sample_token(c->wide, (int)vocab, 0, 0, NULL));
}

static void copy_seq(struct check *c, struct walk *w)
{
    struct seq *copy = NULL;
    if (c->way->copying == COPY_MEMORY) {
        copy = seq_fork(w->seq);
    } else {
        struct text bytes = {0};
        seq_save(w->seq, &bytes);
        copy = seq_load(c->m, seq_length(w->seq), bytes.data, bytes.len);
        text_free(&bytes);
    }
    if (!copy) {
        sha256_update(&w->hash, "lost", 4);
        return;
    }
    seq_free(w->seq);
    w->seq = copy;
}

static struct piece next_piece(const struct check *c, int which)
{
    const struct walk *w = &c->walk[which];
    const int at = seq_length(w->seq), left = w->n_prompt - at;
    int piece = c->way->piece, count = left;
    if (piece && piece < MIN_LONG_PIECE && which >= N_PROOF_PROMPTS)
        piece = MIN_LONG_PIECE;
    if (piece && piece < left)
        count = piece;
    if (c->way->copying && at == 0 && left > 1)
        count = left / 2;
    return (struct piece){which, at, count};
}

static int prefill(struct check *c, int first, int n, struct err *e)
{
    for (;;) {
        struct piece p[N_PROMPTS];
        int k = 0;
        for (int i = first; i < first + n; i++)
            if (seq_length(c->walk[i].seq) < c->walk[i].n_prompt)
                p[k++] = next_piece(c, i);
        if (k == 0)
            return 0;
        if ((c->way->all_rows && pass_rows(c, p, k, e)) || step(c, p, k, e))
            return -1;
        for (int i = 0; i < k; i++) {
            struct walk *w = &c->walk[p[i].which];
            if (seq_length(w->seq) == w->n_prompt)
                take(c, w);
            else if (c->way->copying && p[i].from == 0)
                copy_seq(c, w);
        }
    }
}

static int decode(struct check *c, int first, int n, struct err *e)
{
    struct piece p[N_PROMPTS];
    for (int i = 1; i < N_STEPS; i++) {
        for (int k = 0; k < n; k++)
            p[k] = (struct piece){first + k, c->walk[first + k].ids.n - 1, 1};
        if (step(c, p, n, e))
            return -1;
        for (int k = 0; k < n; k++)
            take(c, &c->walk[first + k]);
    }
    return 0;
}

/* Begins every walk with what the store has for it. */
static int begin_from_store(struct check *c, struct err *e)
{
    struct prefix_prompt prompts[N_PROMPTS];
    int shared[N_PROMPTS];
    for (int i = 0; i < N_PROMPTS; i++)
        prompts[i] = (struct prefix_prompt){c->walk[i].ids.id, c->walk[i].n_prompt, NULL};
    for (int i = 0; i < N_PROMPTS; i++) {
        struct seq *s;
        if (prefix_begin(c->store, &prompts[i], prompts + i + 1, N_PROMPTS - i - 1, shared, &s, e))
            return -1;
        if (s) {
            seq_free(c->walk[i].seq);
            c->walk[i].seq = s;
        }
    }
    return 0;
}

/* The long prompts repeat one of the others beyond any window of the known checkpoints, and end differently. */
static void make_prompt(const struct check *c, int which, struct ids *ids)
{
    const struct model_info *info = engine_info(c->m);
    const struct tokenizer *t = engine_tokenizer(c->m);
    const int room = info->max_positions - 4 * N_STEPS, length = room < LONG_TOKENS ? room : LONG_TOKENS;
    const char *text = proof_prompts[which < N_PROOF_PROMPTS ? which : LONGEST_SOURCE];
    tokenize(t, text, strlen(text), ids);
    if (which < N_PROOF_PROMPTS)
        return;
    for (int i = 0; ids->n > 0 && ids->n < length; i++)
        ids_push(ids, ids->id[i]);
    text = which % 2 ? " But" : " So then";
    tokenize(t, text, strlen(text), ids);
}

static void start_walk(struct check *c, int which)
{
    const struct model_info *info = engine_info(c->m);
    struct walk *w = &c->walk[which];
    *w = (struct walk){.seq = seq_new(c->m), .logits = NEW(float, info->vocab_size),
                       .tap = NEW(float, info->hidden_size)};
    make_prompt(c, which, &w->ids);
    w->n_prompt = w->ids.n;
    sha256_init(&w->hash);
}

static void end_walk(struct walk *w, struct sha256 *all)
{
    char hex[65];
    sha256_hex(&w->hash, hex);
    sha256_update(all, hex, 64);
    seq_free(w->seq);
    ids_free(&w->ids);
    free(w->logits);
    free(w->tap);
}

static int walk_all(struct check *c, struct err *e)
{
    const struct way *v = c->way;
    int failed = 0;
    c->wide = NEW(double, engine_info(c->m)->vocab_size);
    for (int i = 0; i < N_PROMPTS; i++)
        start_walk(c, i);
    for (int pass = 0; pass < (int)v->storing && !failed; pass++)
        failed = begin_from_store(c, e);
    for (int first = 0; first < N_PROMPTS && !failed; first += v->together) {
        const int n = v->together < N_PROMPTS - first ? v->together : N_PROMPTS - first;
        failed = prefill(c, first, n, e) || decode(c, first, n, e) ? -1 : 0;
    }
    free(c->wide);
    return failed;
}

static void end_walks(struct check *c, char hex[65])
{
    struct sha256 all;
    sha256_init(&all);
    for (int i = 0; i < N_PROMPTS; i++)
        end_walk(&c->walk[i], &all);
    sha256_hex(&all, hex);
}

int selfcheck_count(void)
{
    return (int)(sizeof ways / sizeof *ways);
}

const char *selfcheck_name(int way)
{
    return ways[way].name;
}

int selfcheck_hash(const struct selfcheck_args *a, int way, char hex[65], struct err *e)
{
    struct check c = {.way = &ways[way]};
    struct probe *probe = NULL;
    struct engine_options options = a->options;
    options.n_threads = c.way->n_threads ? c.way->n_threads : options.n_threads;
    options.kernel = c.way->kernel ? c.way->kernel : options.kernel;
    if (engine_open(&c.m, a->model, &options, e))
        return -1;
    if (probe_open_for(&probe, c.m, a->probe, a->probe_layer, e)) {
        engine_close(c.m);
        return -1;
    }
    if (probe)
        c.tap_layer = probe_layer(probe);
    probe_close(probe);
    const struct prefix_settings store = {.memory_bytes = (size_t)256 << 20, .identity = ""};
    if (c.way->storing)
        c.store = prefix_open(c.m, &store);
    const int failed = walk_all(&c, e);
    end_walks(&c, hex);
    prefix_close(c.store);
    engine_close(c.m);
    return failed;
}

int selfcheck_all(const struct selfcheck_args *a, char hex[65], int *way, struct err *e)
{
    char other[65];
    *way = -1;
    if (selfcheck_hash(a, 0, hex, e))
        return -1;
    for (int i = 1; i < selfcheck_count() && *way < 0; i++) {
        if (selfcheck_hash(a, i, other, e))
            return -1;
        if (strcmp(hex, other) != 0)
            *way = i;
    }
    return 0;
}

/* ---- rounded activations --------------------------------------------------------------------------------------- */

/* Both checkpoints read what the first one has answered. */
static int read_answers(const struct check *c, const struct subject *s, struct rounding_effect *out, struct err *e)
{
    struct parity_pass *pass = parity_begin(s, 2);
    struct parity p;
    struct reading r[2];
    int failed = 0;
    double sum = 0;
    parity_init(pass, &p);
    for (int i = 0; i < N_PROMPTS && !failed; i++) {
        const struct walk *w = &c->walk[i];
        const struct passage passage = {.ids = w->ids.id, .n = w->ids.n, .first = w->n_prompt - 1, .after = -1};
        failed = parity_read(pass, &passage, &p, r, e);
        const double change = fabs(r[1].confidence - r[0].confidence);
        sum += change;
        out->largest = i == 0 || change > out->largest ? change : out->largest;
    }
    if (!failed) {
        out->n_answers = N_PROMPTS;
        out->mean = sum / N_PROMPTS;
        out->kl_mean = parity_mean_kl(&p);
        out->same_top = (double)p.n_same_top / (double)p.n;
    }
    parity_free(&p);
    parity_end(pass);
    return failed;
}

int selfcheck_rounding(const struct selfcheck_args *a, struct rounding_effect *out, struct err *e)
{
    struct check c = {.way = &ways[0]};
    struct subject s[2] = {{0}};
    char hex[65];
    int failed = 0;
    *out = (struct rounding_effect){.mean = NAN, .largest = NAN};
    for (int i = 0; i < 2 && !failed; i++) {
        struct engine_options options = a->options;
        options.activations = i ? "int8" : "float32";
        failed = engine_open(&s[i].m, a->model, &options, e) ||
                 probe_open_for(&s[i].probe, s[i].m, a->probe, a->probe_layer, e);
        out->n_packed = failed ? 0 : engine_info(s[i].m)->n_packed;
        if (!out->n_packed)
            break;
    }
    if (!failed && out->n_packed) {
        c.m = s[0].m;
        failed = walk_all(&c, e) || read_answers(&c, s, out, e);
        end_walks(&c, hex);
    }
    for (int i = 0; i < 2; i++) {
        probe_close(s[i].probe);
        engine_close(s[i].m);
    }
    return failed ? -1 : 0;
}
