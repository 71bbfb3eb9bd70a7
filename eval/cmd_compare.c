/* cmd_compare.c - the verb `compare`: did a new quant, or a new build, make it worse? */
#include "eval/compares.h"
#include "eval/engines.h"
#include "eval/split.h"

#include <stdlib.h>

static struct inputs in = INPUTS_DEFAULT;
static struct compare_options o = COMPARE_OPTIONS_DEFAULT;
static const char *junit;
static struct split_options split;
static bool detail, replay, engines;
static double tolerance = 1e-3;

static const struct option options[] = {
    FORMAT_OPTIONS(in),
    INPUT_OPTIONS(in),
    INPUT_PAIR_OPTIONS(in),
    {"--margin", OPT_DOUBLE, &o.margin, "X",
     "so much less of the answers right still counts as no worse (default 0.01)"},
    {"--auroc-margin", OPT_DOUBLE, &o.auroc_margin, "X", "the same for the AUROC (default 0.02)"},
    {"--alpha", OPT_DOUBLE, &o.alpha, "A", "level of the two-sided tests (default 0.05)"},
    {"--threshold", OPT_DOUBLE, &o.threshold, "T", "the threshold in use, for handoff flips (default 0.85)"},
    {"--bootstrap", OPT_INT, &o.resamples, "N", "resamples for the AUROC difference (1000; over 200000 samples: jackknife)"},
    {"--seed", OPT_INT, &o.seed, "N", "seed of the bootstrap (default 1)"},
    {"--threads", OPT_INT, &o.threads, "N", "threads of the bootstrap and of --replay (all); never change a result"},
    {"--detail", OPT_FLAG, &detail, NULL, "with --csv or --md: the drift table as well"},
    {"--replay", OPT_FLAG, &replay, NULL, "split the drift: both checkpoints read the base's answers once more"},
    {"--model-base", OPT_STRING, &split.model_base, "M", "with --replay: where BASE's checkpoint lies now"},
    {"--model-new", OPT_STRING, &split.model_new, "M", "with --replay: where NEW's checkpoint lies now"},
    {"--data", OPT_STRINGS, &split.replay.data, "TASK=PATH", "with --replay: where a data set lies now"},
    {"--limit", OPT_INT, &split.replay.limit, "N", "with --replay: the first N answers of each hold-out"},
    {"--engines", OPT_FLAG, &engines, NULL, "runs of two engines: where their samples part ways"},
    {"--tolerance", OPT_DOUBLE, &tolerance, "X", "with --engines: of confidence, log-probability, entropy (0.001)"},
    {"--junit", OPT_STRING, &junit, "FILE", "write the verdicts as JUnit XML for CI"},
    {0}};

static const struct usage usage = {
    "compare", "BASE NEW [options]",
    "Paired regression check of a new run against its base: answers that flipped (McNemar), change of the AUROC, drift\n"
    "of the confidence and of its order, handoffs that changed sides. Exit status 1 if it regressed; ok and undecided\n"
    "give 0. --replay shows how much of the drift is the weights', the arithmetic's, and due to other answers.",
    options, "handoff compare tests/data/records/bf16.jsonl tests/data/records/q4.jsonl"};

static int check(const struct strings *sources, struct err *e)
{
    if (sources->n != 2)
        return err_set(e, EXIT_USAGE, "compare: two runs, BASE and NEW, were expected; see \"handoff compare --help\"");
    if (!(o.margin >= 0 && o.margin <= 1) || !(o.auroc_margin >= 0 && o.auroc_margin <= 1))
        return err_set(e, EXIT_USAGE, "--margin and --auroc-margin: numbers from 0 to 1 were expected");
    if (!(o.alpha > 0 && o.alpha < 1) || !(o.threshold >= 0 && o.threshold <= 1))
        return err_set(e, EXIT_USAGE, "--alpha and --threshold: numbers between 0 and 1 were expected");
    if (o.resamples && cli_range("--bootstrap", (double)o.resamples, 100, 1000000, e))
        return -1;
    if (!replay && (split.model_base || split.model_new || split.replay.data.n || split.replay.limit))
        return err_set(e, EXIT_USAGE, "compare: --model-base, --model-new, --data and --limit go with --replay");
    if (cli_range("--limit", (double)split.replay.limit, 0, 1e15, e) ||
        cli_range("--threads", (double)o.threads, 0, 1024, e))
        return -1;
    return inputs_check(&in, e);
}

static int add_split(struct compare_result *result, struct drift_split *parts, const struct records *r,
                     struct arena *a, struct err *e)
{
    if (!replay)
        return 0;
    split.threads = o.threads;
    split.resamples = o.resamples ? o.resamples : AUTO_RESAMPLES;
    split.seed = o.seed;
    result->split = parts;
    return drift_split_make(parts, &in, &split, &r[0], &r[1], a, e);
}

static int print_result(const struct compare_result *result, struct err *e)
{
    struct text out = {0}, xml = {0};
    int failed = 0;
    if (junit) {
        report_compare_junit(result, &xml);
        failed = file_write_atomic(junit, xml.data, xml.len, e);
    }
    report_compare(result, inputs_format(&in), detail, &out);
    failed = failed || cli_print(&out, e);
    text_free(&out);
    text_free(&xml);
    return failed;
}

/* Stamps of two engines have little in common, so they are not asked. */
static int compare_engines(const struct strings *sources, struct err *e)
{
    struct records r[2] = {0};
    struct engines_result result;
    struct arena arena = {0};
    struct text out = {0};
    if (sources->n != 2 || !(tolerance >= 0))
        return err_set(e, EXIT_USAGE, "compare --engines: two runs and a --tolerance from 0 up were expected");
    int failed = inputs_check(&in, e) || inputs_open(&in, sources->at[0], &r[0], e) ||
                 inputs_open(&in, sources->at[1], &r[1], e) ||
                 engines_compare(&result, &in, &r[0], &r[1], tolerance, &arena, e) ? -1 : 0;
    if (!failed) {
        report_engines(&result, inputs_format(&in), &out);
        failed = cli_print(&out, e);
    }
    records_close(&r[0]);
    records_close(&r[1]);
    arena_free(&arena);
    text_free(&out);
    return failed;
}

int cmd_compare(int argc, char **argv)
{
    struct strings sources = {0};
    struct err e = {0};
    struct records r[2] = {0};
    struct compare_result result = {0};
    struct drift_split parts = {0};
    struct arena arena = {0};
    int stop = cli_parse(&usage, argc, argv, &sources, &e);
    if (stop)
        return cli_end(stop, &e);
    if (engines) {
        stop = compare_engines(&sources, &e) ? -1 : 0;
        free(sources.at);
        return stop ? cli_end(stop, &e) : EXIT_DONE;
    }
    o.give_back = !replay;
    in.replays = replay;
    int failed = check(&sources, &e) || inputs_open(&in, sources.at[0], &r[0], &e) ||
                 inputs_open(&in, sources.at[1], &r[1], &e) || stamps_check(&in, &r[0], &r[1], &e) ||
                 compare_result_make(&result, &in, &o, &r[0], &r[1], &arena, &e) ||
                 add_split(&result, &parts, r, &arena, &e) || print_result(&result, &e);
    records_close(&r[0]);
    records_close(&r[1]);
    free(sources.at);
    free(split.replay.data.at);
    arena_free(&arena);
    if (failed)
        return cli_fail(&e);
    return result.verdict == VERDICT_REGRESSED ? EXIT_CHECK_FAILED : EXIT_DONE;
}
