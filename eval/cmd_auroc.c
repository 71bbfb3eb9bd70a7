/* cmd_auroc.c - the verb `auroc`. */
#include "eval/auroc.h"
#include "eval/compares.h"
#include "reports/report.h"

#include <stdlib.h>

static struct inputs in = INPUTS_DEFAULT;
static struct auroc_options o = {.seed = 1};
static bool detail;

static const struct option options[] = {
    FORMAT_OPTIONS(in),
    INPUT_OPTIONS(in),
    {"--detail", OPT_FLAG, &detail, NULL, "more tables: selection, calibration, unparsed answers, other cuts"},
    {"--bootstrap", OPT_INT, &o.resamples, "N", "bootstrap intervals from N resamples of whole groups"},
    {"--seed", OPT_INT, &o.seed, "N", "seed of the bootstrap (default 1)"},
    {"--threads", OPT_INT, &o.threads, "N", "threads of the bootstrap (all); never changes a result"},
    {"--published", OPT_FLAG, &o.published, NULL, "published figures also beside hold-outs of under 500 samples"},
    {"--no-published", OPT_FLAG, &o.no_published, NULL, "no published figures"},
    {0}};

static const struct usage usage = {
    "auroc", "RUN... [options]",
    "How well the probe's confidence, and token entropy beside it, separate wrong answers from right ones: AUROC by\n"
    "hold-out with 95% intervals and a paired test. RUN is a run directory or a JSONL file of records with at least\n"
    "id, task, correct (or score, or wer) and confidence; of several runs each is compared with the first.",
    options, "handoff auroc tests/data/records/bf16.jsonl --detail"};

/* The same hold-outs in each further run against the first, on their common samples. A run with other samples needs
 * --common, as in `compare`. */
static int make_pairs(struct auroc_result *result, struct records *runs, int n_runs, struct arena *a,
                      struct err *e)
{
    struct auroc_pair *pairs = NULL;
    struct compare_options how = {.margin = 0.01, .auroc_margin = 0.02, .alpha = 0.05, .threshold = 0.85,
                                        .resamples = o.resamples, .seed = o.seed, .threads = o.threads};
    int n = 0, failed = 0;
    for (int i = 1; i < n_runs && !failed; i++) {
        struct compare_result c = {0};
        how.give_back = i == n_runs - 1;        /* the table is made: nobody needs the rows of either any more */
        failed = compare_result_make(&c, &in, &how, &runs[0], &runs[i], a, e);
        for (int t = 0; t < c.n_tasks && !failed; t++) {
            const struct compare_task *from = &c.tasks[t];
            pairs = mem_grow(pairs, (size_t)n + 1, sizeof *pairs);
            pairs[n++] = (struct auroc_pair){from->task, runs[i].name, from->n, from->auroc_delta, from->auroc_p,
                                             from->auroc_ci95, from->jackknife};
        }
    }
    struct auroc_pair *kept = ARENA_NEW(a, struct auroc_pair, n);
    for (int i = 0; i < n; i++)
        kept[i] = pairs[i];
    free(pairs);
    result->pairs = kept;
    result->n_pairs = n;
    return failed;
}

static int make(struct auroc_result *result, struct records *runs, const struct strings *sources, struct arena *a,
                struct err *e)
{
    struct auroc_run *made = ARENA_NEW(a, struct auroc_run, sources->n);
    result->definitions = inputs_definitions(&in);
    result->definitions.resamples = o.resamples;
    result->definitions.seed = o.seed;
    result->runs = made;
    for (int i = 0; i < sources->n; i++, result->n_runs++) {
        if (inputs_open(&in, sources->at[i], &runs[i], e))
            return -1;
        records_forget_keys(&runs[i]);          /* a tenth of the rows' memory that the table does without */
        if (auroc_run_make(&made[i], &in, &o, &runs[i], sources->n == 1, a, e))
            return -1;
    }
    for (int i = 0; i < sources->n && sources->n > 1; i++)
        records_index_keys(&runs[i]);
    return make_pairs(result, runs, sources->n, a, e);
}

int cmd_auroc(int argc, char **argv)
{
    struct strings sources = {0};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &sources, &e);
    if (stop)
        return cli_end(stop, &e);
    if (sources.n == 0)
        err_set(&e, EXIT_USAGE, "auroc: at least one run was expected; see \"handoff auroc --help\"");
    else if (o.resamples < 0 || o.resamples > 1000000)
        err_set(&e, EXIT_USAGE, "--bootstrap: a number from 0 to 1000000 was expected");
    else if (cli_range("--threads", (double)o.threads, 0, 1024, &e) == 0)
        inputs_check(&in, &e);
    if (e.code)
        return cli_fail(&e);
    struct records *runs = NEW(struct records, sources.n);
    struct auroc_result result = {0};
    struct arena arena = {0};
    struct text out = {0};
    int failed = make(&result, runs, &sources, &arena, &e);
    if (!failed) {
        report_auroc(&result, inputs_format(&in), detail, &out);
        failed = cli_print(&out, &e);
    }
    for (int i = 0; i < sources.n; i++)
        records_close(&runs[i]);
    free(runs);
    free(sources.at);
    text_free(&out);
    arena_free(&arena);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
