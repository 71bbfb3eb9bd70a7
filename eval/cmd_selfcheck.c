/* cmd_selfcheck.c - the verb `selfcheck`: the same bits however the work is cut, on this checkpoint and machine.
 *
 * A few prompts are continued greedily; every logit and every tapped hidden value that decides an answer goes into a
 * hash. The hash must not change with the batch, the threads, the pieces of a prompt, a copied prefix, the rows asked
 * for, or the kernel.
 */
#include "engine/engine.h"
#include "eval/cli.h"
#include "eval/proof.h"
#include "eval/sampling.h"
#include "probe/probe.h"

#include <stdlib.h>
#include <string.h>

enum { N_PROMPTS = N_PROOF_PROMPTS, N_STEPS = 8 };

struct variant {
    const char *name;
    int together;               /* sequences in one step */
    int piece;                  /* tokens of a prompt per step, 0: all */
    bool all_rows;              /* ask for every row of the prompt */
    bool fork;                  /* compute half of the prompt, go on in a copy */
    int n_threads;              /* 0: all */
    const char *kernel;
};

static const struct variant variants[] = {
    {.name = "one sequence at a time", .together = 1},
    {.name = "all sequences together", .together = N_PROMPTS},
    {.name = "prompts in pieces of 1", .together = 1, .piece = 1},
    {.name = "prompts in pieces of 7", .together = N_PROMPTS, .piece = 7},
    {.name = "all rows of the prompts", .together = N_PROMPTS, .all_rows = true},
    {.name = "prefix copied", .together = 1, .fork = true},
    {.name = "one thread", .together = N_PROMPTS, .n_threads = 1},
    {.name = "three threads", .together = N_PROMPTS, .n_threads = 3},
    {.name = "generic kernel", .together = N_PROMPTS, .kernel = "generic"},
};

struct walk { struct ids ids; int n_prompt; struct seq *seq; struct sha256 hash; float *logits, *tap; };

struct selfcheck_args { const char *model, *mmproj, *probe; int64_t probe_layer; };

struct check {
    struct engine *m;
    int tap_layer;
    const struct variant *v;
    struct walk walk[N_PROMPTS];
    double *wide;
};

struct piece { int which, from, count; };

static int feed(struct check *c, const struct piece *p, int n, struct err *e)
{
    struct step_input in[N_PROMPTS];
    for (int i = 0; i < n; i++) {
        struct walk *w = &c->walk[p[i].which];
        in[i] = (struct step_input){.seq = w->seq, .ids = w->ids.id + p[i].from, .n = p[i].count, .logits = w->logits,
                                    .n_needed = c->v->all_rows ? p[i].count : 1, .tap = w->tap,
                                    .tap_layer = c->tap_layer};
    }
    return engine_step(c->m, in, n, e);
}

/* The last row of what feed() gave: hashed, and its best token taken. */
static void take(struct check *c, const struct piece *p)
{
    struct walk *w = &c->walk[p->which];
    size_t vocab = (size_t)engine_info(c->m)->vocab_size, hidden = (size_t)engine_info(c->m)->hidden_size;
    size_t row = c->v->all_rows ? (size_t)p->count - 1 : 0;
    const float *logits = w->logits + row * vocab;
    sha256_update(&w->hash, logits, vocab * sizeof *logits);
    sha256_update(&w->hash, w->tap + row * hidden, hidden * sizeof *w->tap);
    for (size_t i = 0; i < vocab; i++)
        c->wide[i] = logits[i];
    ids_push(&w->ids, sample_token(c->wide, (int)vocab, 0, 0, NULL));
}

static int prefill(struct check *c, int first, int n, struct err *e)
{
    struct piece p[N_PROMPTS];
    for (;;) {
        int k = 0;
        for (int i = first; i < first + n; i++) {
            int at = seq_length(c->walk[i].seq), left = c->walk[i].n_prompt - at, count = left;
            if (c->v->piece && c->v->piece < left)
                count = c->v->piece;
            if (c->v->fork && at == 0 && left > 1)
                count = left / 2;
            if (left)
                p[k++] = (struct piece){i, at, count};
        }
        if (k == 0)
            return 0;
        if (feed(c, p, k, e))
            return -1;
        for (int i = 0; i < k; i++) {
            struct walk *w = &c->walk[p[i].which];
            if (c->v->fork && p[i].from == 0) {
                struct seq *copy = seq_fork(w->seq);
                seq_free(w->seq);
                w->seq = copy;
            }
            if (seq_length(w->seq) == w->n_prompt)
                take(c, &p[i]);
        }
    }
}

static int decode(struct check *c, int first, int n, struct err *e)
{
    struct piece p[N_PROMPTS];
    for (int step = 1; step < N_STEPS; step++) {
        for (int i = 0; i < n; i++)
            p[i] = (struct piece){first + i, c->walk[first + i].ids.n - 1, 1};
        if (feed(c, p, n, e))
            return -1;
        for (int i = 0; i < n; i++)
            take(c, &p[i]);
    }
    return 0;
}

static void start_walk(struct check *c, struct walk *w, const char *prompt)
{
    const struct model_info *info = engine_info(c->m);
    *w = (struct walk){.seq = seq_new(c->m)};
    tokenize(engine_tokenizer(c->m), prompt, strlen(prompt), &w->ids);
    w->n_prompt = w->ids.n;
    size_t rows = c->v->all_rows ? (size_t)w->n_prompt : 1;
    w->logits = NEW(float, rows * (size_t)info->vocab_size);
    w->tap = NEW(float, rows * (size_t)info->hidden_size);
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

/* The hash over all prompts, computed in this variant's way. */
static int hash_variant(const struct selfcheck_args *a, const struct variant *v, char hex[65], struct err *e)
{
    struct check c = {.v = v};
    struct probe *probe = NULL;
    struct sha256 all;
    const struct engine_options options = {.n_threads = v->n_threads, .kernel = v->kernel, .mmproj = a->mmproj};
    if (engine_open(&c.m, a->model, &options, e))
        return -1;
    if (probe_open_for(&probe, c.m, a->probe, a->probe_layer, e)) {
        engine_close(c.m);
        return -1;
    }
    if (probe)
        c.tap_layer = probe_layer(probe);
    probe_close(probe);
    c.wide = NEW(double, engine_info(c.m)->vocab_size);
    for (int i = 0; i < N_PROMPTS; i++)
        start_walk(&c, &c.walk[i], proof_prompts[i]);
    int failed = 0;
    for (int first = 0; first < N_PROMPTS && !failed; first += v->together)
        failed = prefill(&c, first, v->together, e) || decode(&c, first, v->together, e) ? -1 : 0;
    sha256_init(&all);
    for (int i = 0; i < N_PROMPTS; i++)
        end_walk(&c.walk[i], &all);
    sha256_hex(&all, hex);
    free(c.wide);
    engine_close(c.m);
    return failed;
}

static int selfcheck(const struct selfcheck_args *a, bool json, bool *same, struct err *e)
{
    enum { N = sizeof variants / sizeof *variants };
    char hex[N][65];
    struct text t = {0};
    *same = true;
    for (int i = 0; i < N; i++) {
        if (hash_variant(a, &variants[i], hex[i], e))
            return -1;
        bool equal = strcmp(hex[i], hex[0]) == 0;
        *same &= equal;
        if (!json)
            printf("%-26s %.16s  %s\n", variants[i].name, hex[i], i == 0 ? "" : equal ? "same bits" : "DIFFERENT");
        fflush(stdout);
        text_printf(&t, "%s{\"variant\":\"%s\",\"sha256\":\"%s\",\"same\":%s}", i ? "," : "{\"variants\":[",
                    variants[i].name, hex[i], equal ? "true" : "false");
    }
    text_printf(&t, "],\"same\":%s}\n", *same ? "true" : "false");
    int failed = json ? cli_print(&t, e) : 0;
    text_free(&t);
    return failed;
}

int cmd_selfcheck(int argc, char **argv)
{
    struct selfcheck_args a = {.probe_layer = -1};
    bool json = false, same = false;
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--json", OPT_FLAG, &json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "selfcheck", "--model M [--json]",
        "Proves on this checkpoint and machine that answers are the same bits whatever the batch, the threads, the\n"
        "pieces of a prompt, a copied prefix, the rows asked for, or the kernel. Exit status 1 if they are not.",
        options, "handoff selfcheck --model datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    if (!a.model) {
        err_set(&e, EXIT_USAGE, "selfcheck: --model is missing; see \"handoff selfcheck --help\"");
        return cli_fail(&e);
    }
    if (selfcheck(&a, json, &same, &e))
        return cli_fail(&e);
    return same ? EXIT_DONE : EXIT_CHECK_FAILED;
}
