/* cmd_parity.c - the verb `parity`: checkpoints side by side on the same text. */
#include "eval/cli.h"
#include "eval/proof.h"
#include "eval/replay.h"
#include "eval/stats.h"
#include "reports/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 64 << 20 };

struct parity_args {
    struct strings models, tasks;
    const char *mmproj, *probe, *text, *kernel, *activations, *replay;
    struct replay_options replayed;
    int64_t probe_layer, context, limit, threads;
    double bound, confidence_bound;
    bool json, layers;
};

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int check_sizes(const struct model_info *a, const struct model_info *b, struct err *e)
{
    const struct { const char *name; int first, other; } sizes[] = {
        {"layers", a->n_layers, b->n_layers}, {"channels (hidden_size)", a->hidden_size, b->hidden_size},
        {"tokens (vocab_size)", a->vocab_size, b->vocab_size}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].first != sizes[i].other)
            return err_input(e, "%s: %d %s were expected as in %s, not %d", b->path, sizes[i].first, sizes[i].name,
                             a->path, sizes[i].other);
    return 0;
}

/* run: whose answers are read, NULL: none. */
static int open_subjects(const struct parity_args *a, const struct records *run, struct subject *s, struct err *e)
{
    struct engine_options options = {.n_threads = (int)a->threads, .kernel = a->kernel, .mmproj = a->mmproj};
    if (run && replay_engine_options(run, &options, e))
        return -1;
    for (int i = 0; i < a->models.n; i++) {
        options.activations = i && a->activations ? a->activations : options.activations;
        if (engine_open(&s[i].m, a->models.at[i], &options, e) ||
            probe_open_for(&s[i].probe, s[i].m, a->probe, a->probe_layer, e) ||
            check_sizes(engine_info(s[0].m), engine_info(s[i].m), e))
            return -1;
    }
    return 0;
}

/* ---- texts ----------------------------------------------------------------------------------------------------- */

struct texts { struct ids *at; int n; };

/* A user's text in pieces of `context` tokens, each behind a <bos>. */
static int read_text(const struct parity_args *a, const struct engine *m, struct texts *t, struct err *e)
{
    struct text content = {0};
    struct ids all = {0};
    if (file_read(a->text, MAX_TEXT, &content, e))
        return -1;
    tokenize(engine_tokenizer(m), content.data ? content.data : "", content.len, &all);
    text_free(&content);
    if (a->limit && all.n > a->limit)
        all.n = (int)a->limit;
    const int piece = (int)a->context - 1;
    t->at = NEW(struct ids, all.n / piece + 1);
    for (int first = 0; first < all.n; first += piece) {
        struct ids *ids = &t->at[t->n++];
        ids_push(ids, engine_info(m)->bos_id);
        for (int i = first; i < first + piece && i < all.n; i++)
            ids_push(ids, all.id[i]);
    }
    ids_free(&all);
    return t->n ? 0 : err_input(e, "%s: it is empty", a->text);
}

static void built_in_texts(const struct engine *m, struct texts *t)
{
    t->at = NEW(struct ids, N_PROOF_PROMPTS);
    for (; t->n < N_PROOF_PROMPTS; t->n++)
        tokenize(engine_tokenizer(m), proof_prompts[t->n], strlen(proof_prompts[t->n]), &t->at[t->n]);
}

/* Whether another checkpoint's tokenizer gives the same ids for the built-in prompts. */
static bool same_tokens(const struct engine *a, const struct engine *b)
{
    bool same = true;
    for (int i = 0; i < N_PROOF_PROMPTS && same; i++) {
        struct ids x = {0}, y = {0};
        tokenize(engine_tokenizer(a), proof_prompts[i], strlen(proof_prompts[i]), &x);
        tokenize(engine_tokenizer(b), proof_prompts[i], strlen(proof_prompts[i]), &y);
        same = x.n == y.n && memcmp(x.id, y.id, (size_t)x.n * sizeof *x.id) == 0;
        ids_free(&x);
        ids_free(&y);
    }
    return same;
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

static bool within(const struct parity_args *a, const struct parity *p, bool tokens)
{
    return tokens && p->logits <= a->bound && (!p->has_confidence || p->confidence <= a->confidence_bound);
}

static double relative(const struct level *l)
{
    return l->base_squares > 0 ? sqrt(l->squares / l->base_squares) : l->squares > 0 ? INFINITY : 0;
}

static void put_parity(struct text *t, const struct parity_args *a, const struct parity *p, int n_levels, bool tokens)
{
    const size_t n = (size_t)p->n;
    text_printf(t, "%s  %s\n", p->model, within(a, p, tokens) ? "within the bounds" : "BEYOND THE BOUNDS");
    if (!tokens)
        text_puts(t, "  other token ids for the same text\n");
    text_printf(t, "  logits        %.3g at most (bound %g)\n", p->logits, a->bound);
    if (p->has_confidence)
        text_printf(t, "  confidence    %.3g at most (bound %g)\n", p->confidence, a->confidence_bound);
    else
        text_puts(t, "  confidence    not compared: no probe in both\n");
    text_printf(t, "  KL divergence mean %.3g, median %.3g, 99%% %.3g, maximum %.3g nats\n", parity_mean_kl(p),
                percentile_sorted(p->kl, n, 0.5), percentile_sorted(p->kl, n, 0.99), p->kl[p->n - 1]);
    text_printf(t, "  same top      %.2f%% of %lld positions\n", 100 * (double)p->n_same_top / (double)p->n,
                (long long)p->n);
    if (p->n_next)
        text_printf(t, "  next token    probability changes by %.3g%% (RMS), perplexity by a factor of %.6f\n",
                    100 * sqrt(p->dp_squares / (double)p->n_next), exp(-p->log_ratio / (double)p->n_next));
    if (!a->layers && within(a, p, tokens))
        return;
    text_puts(t, "  output of     largest difference   relative (RMS)\n");
    for (int l = 0; l < n_levels; l++) {
        char name[32] = "the input";
        if (l)
            snprintf(name, sizeof name, "layer %d", l - 1);
        text_printf(t, "  %-12s  %18.3g   %.3g\n", name, p->level[l].largest, relative(&p->level[l]));
    }
}

static void put_key(struct text *t, const char *key, double v)
{
    text_printf(t, ",\"%s\":", key);
    json_put_double(t, v);
}

static void put_json(struct text *t, const struct parity_args *a, const struct parity *p, int n_levels, bool tokens)
{
    const size_t n = (size_t)p->n;
    text_puts(t, "{\"model\":");
    json_put_string(t, p->model, strlen(p->model));
    text_printf(t, ",\"within\":%s,\"same_tokens\":%s", within(a, p, tokens) ? "true" : "false",
                tokens ? "true" : "false");
    put_key(t, "logits", p->logits);
    put_key(t, "confidence", p->has_confidence ? p->confidence : NAN);
    put_key(t, "kl_mean", parity_mean_kl(p));
    put_key(t, "kl_median", percentile_sorted(p->kl, n, 0.5));
    put_key(t, "kl_99", percentile_sorted(p->kl, n, 0.99));
    put_key(t, "kl_max", p->kl[p->n - 1]);
    put_key(t, "same_top", (double)p->n_same_top / (double)p->n);
    put_key(t, "dp_rms", p->n_next ? sqrt(p->dp_squares / (double)p->n_next) : NAN);
    put_key(t, "perplexity_ratio", p->n_next ? exp(-p->log_ratio / (double)p->n_next) : NAN);
    text_puts(t, ",\"layers\":[");
    for (int l = 0; l < n_levels; l++) {
        text_puts(t, l ? ",{\"largest\":" : "{\"largest\":");
        json_put_double(t, p->level[l].largest);
        put_key(t, "relative", relative(&p->level[l]));
        text_putc(t, '}');
    }
    text_puts(t, "]}");
}

/* replay: the figures by task, NULL if the text is no run's. */
static int print_all(const struct parity_args *a, const struct subject *s, const struct parity *p, int64_t positions,
                     const struct replay_result *replay, bool *same, struct err *e)
{
    struct text t = {0};
    const int n_levels = engine_info(s[0].m)->n_layers + 1;
    *same = true;
    if (a->json)
        text_printf(&t, "{\"positions\":%lld,\"models\":[", (long long)positions);
    else
        text_printf(&t, "against %s, %lld positions of %s\n\n", a->models.at[0], (long long)positions,
                    a->replay ? a->replay : a->text ? a->text : "the built-in prompts");
    for (int k = 0; k + 1 < a->models.n; k++) {
        const bool tokens = same_tokens(s[0].m, s[k + 1].m);
        *same &= within(a, &p[k], tokens);
        if (a->json && k)
            text_putc(&t, ',');
        (a->json ? put_json : put_parity)(&t, a, &p[k], n_levels, tokens);
    }
    if (replay) {
        text_puts(&t, a->json ? "],\"replay\":" : "\n");
        report_replay(replay, a->json ? FORMAT_JSON : FORMAT_TERMINAL, &t);
    }
    if (a->json)
        text_printf(&t, "%s,\"same\":%s}\n", replay ? "" : "]", *same ? "true" : "false");
    const int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

static int read_texts(const struct parity_args *a, const struct subject *s, const struct texts *t, struct parity *p,
                      struct err *e)
{
    struct parity_pass *pass = parity_begin(s, a->models.n);
    int failed = 0;
    parity_init(pass, p);
    for (int i = 0; i < t->n && !failed; i++) {
        const struct passage passage = {.ids = t->at[i].id, .n = t->at[i].n, .after = -1};
        failed = parity_read(pass, &passage, p, NULL, e);
    }
    for (int k = 0; k + 1 < a->models.n; k++)
        parity_sort(&p[k]);
    parity_end(pass);
    return failed;
}

static int parity_of_texts(const struct parity_args *a, struct subject *s, bool *same, struct err *e)
{
    struct parity *p = NEW(struct parity, a->models.n);
    struct texts texts = {0};
    int64_t positions = 0;
    int failed = open_subjects(a, NULL, s, e);
    if (!failed && a->text)
        failed = read_text(a, s[0].m, &texts, e);
    else if (!failed)
        built_in_texts(s[0].m, &texts);
    for (int i = 0; i < texts.n; i++)
        positions += texts.at[i].n;
    if (!failed)
        failed = read_texts(a, s, &texts, p, e) || print_all(a, s, p, positions, NULL, same, e);
    for (int i = 0; i < texts.n; i++)
        ids_free(&texts.at[i]);
    for (int i = 0; i < a->models.n; i++)
        parity_free(&p[i]);
    free(texts.at);
    free(p);
    return failed;
}

static int parity_of_answers(const struct parity_args *a, struct subject *s, bool *same, struct err *e)
{
    struct records run = {0};
    struct replayed r = {0};
    struct replay_result result;
    struct arena arena = {0};
    struct replay_options o = a->replayed;
    o.limit = a->limit;
    o.tasks = &a->tasks;
    int failed = records_open(&run, a->replay, &(struct records_options){0}, e) || replay_check(&run, e) ||
                 open_subjects(a, &run, s, e) || replay_check_model(&run, s[0].m, e) ||
                 replay_run(&r, &run, &o, s, a->models.n, e);
    if (!failed) {
        replay_result_make(&result, &r, &run, s, &arena);
        failed = print_all(a, s, r.all, r.all[0].n, &result, same, e);
    }
    replayed_free(&r);
    records_close(&run);
    arena_free(&arena);
    return failed ? -1 : 0;
}

static int parity(const struct parity_args *a, bool *same, struct err *e)
{
    struct subject *s = NEW(struct subject, a->models.n);
    const int failed = a->replay ? parity_of_answers(a, s, same, e) : parity_of_texts(a, s, same, e);
    for (int i = 0; i < a->models.n; i++) {
        probe_close(s[i].probe);
        engine_close(s[i].m);
    }
    free(s);
    return failed;
}

static int check_args(const struct parity_args *a, struct err *e)
{
    if (a->models.n < 2)
        return err_set(e, EXIT_USAGE, "parity: two or more checkpoints are needed; see \"handoff parity --help\"");
    if (a->context < 2 || a->context > 1 << 17 || a->limit < 0 || a->threads < 0 || a->threads > 256 ||
        !(a->bound >= 0) || !(a->confidence_bound >= 0))
        return err_set(e, EXIT_USAGE, "parity: --context, --limit, --threads or a bound is out of range");
    if (a->replay && a->text)
        return err_set(e, EXIT_USAGE, "parity: --text and --replay: one of them at a time");
    if ((a->replayed.data.n || a->tasks.n) && !a->replay)
        return err_set(e, EXIT_USAGE, "parity: --task and --data go with --replay");
    return 0;
}

int cmd_parity(int argc, char **argv)
{
    struct parity_args a = {.probe_layer = -1, .context = 512, .bound = 2e-3, .confidence_bound = 2e-4};
    const struct option options[] = {
        {"--bound", OPT_DOUBLE, &a.bound, "D", "largest difference of a logit (0.002)"},
        {"--confidence-bound", OPT_DOUBLE, &a.confidence_bound, "D", "largest difference of a confidence (0.0002)"},
        {"--text", OPT_STRING, &a.text, "FILE", "this text instead of the built-in prompts"},
        {"--context", OPT_INT, &a.context, "N", "tokens of a piece of it (512)"},
        {"--limit", OPT_INT, &a.limit, "N", "at most its first N tokens; with --replay: first N answers of a task"},
        {"--replay", OPT_STRING, &a.replay, "RUN", "the answers of this run of the first model, prompts and all"},
        {"--task", OPT_STRINGS, &a.tasks, "NAME", "with --replay: only this hold-out; may be repeated"},
        {"--data", OPT_STRINGS, &a.replayed.data, "TASK=PATH", "where a data set of RUN lies now, if it moved"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "towers of .gguf models (the one mmproj*.gguf beside each); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "one handoff probe for all (each checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--layers", OPT_FLAG, &a.layers, NULL, "layer by layer, also within the bounds"},
        {"--threads", OPT_INT, &a.threads, "N", "threads (all); never changes a result"},
        {"--kernel", OPT_STRING, &a.kernel, "K", "generic, avx2, avx512, avx512vnni, neon (the best there is)"},
        {"--activations", OPT_STRING, &a.activations, "K", "float32, or int8 for all models but the first"},
        {"--json", OPT_FLAG, &a.json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "parity", "MODEL MODEL... [options]",
        "Compares checkpoints with the first one on the same tokens: logits, confidence, the divergence of their\n"
        "distributions, and the layers where a bound is exceeded. Exit status 1 if one is.",
        options, "handoff parity datasets/mini/checkpoint datasets/mini/checkpoint"};
    struct err e = {0};
    bool same = false;
    int stop = cli_parse(&usage, argc, argv, &a.models, &e);
    if (stop)
        return cli_end(stop, &e);
    const int failed = check_args(&a, &e) || parity(&a, &same, &e);
    free(a.models.at);
    free(a.replayed.data.at);
    free(a.tasks.at);
    return failed ? cli_fail(&e) : same ? EXIT_DONE : EXIT_CHECK_FAILED;
}
