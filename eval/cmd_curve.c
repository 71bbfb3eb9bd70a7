/* cmd_curve.c - the verb `curve`. */
#include "eval/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct inputs in = INPUTS_DEFAULT;
static struct curve_options o = CURVE_OPTIONS_DEFAULT;
static const char *reference, *target, *middle;
static bool detail;

static const struct option options[] = {
    {"--reference", OPT_STRING, &reference, "REF", "run of the model that answers what is handed off (required)"},
    {"--target", OPT_STRING, &target, "RUN", "run whose quality is to be matched (default: the reference)"},
    FORMAT_OPTIONS(in),
    INPUT_OPTIONS(in),
    INPUT_PAIR_OPTIONS(in),
    {"--detail", OPT_FLAG, &detail, NULL, "more tables: areas, shares of the gap, the default threshold, tiers"},
    {"--threshold", OPT_DOUBLE, &o.threshold, "T", "show what this threshold does (default 0.85)"},
    {"--route", OPT_STRING, &o.route, "RULE", "hand off whole groups by their min, mean or last confidence"},
    {"--bootstrap", OPT_INT, &o.resamples, "N", "resamples for the interval of the match rate (default 1000; 0: none)"},
    {"--seed", OPT_INT, &o.seed, "N", "seed of the bootstrap (default 1)"},
    {"--threads", OPT_INT, &o.threads, "N", "threads of the bootstrap (all); never changes a result"},
    {"--points", OPT_INT, &o.max_points, "N", "points of a curve in the JSON (default 1000; 0: all)"},
    {"--remote-ms", OPT_DOUBLE, &o.remote_ms, "MS", "what a call of the reference takes"},
    {"--local-price", OPT_DOUBLE, &o.local_price, "P", "price of an answer on the device"},
    {"--call-price", OPT_DOUBLE, &o.call_price, "P", "price of a call of the reference"},
    {"--middle", OPT_STRING, &middle, "RUN", "run of a model between device and reference: three tiers"},
    {"--middle-price", OPT_DOUBLE, &o.middle_price, "P", "price of a call of the middle model"},
    {0}};

static const struct usage usage = {
    "curve", "RUN --reference REF [--target RUN] [options]",
    "What quality comes back for what share of handed-off queries, and the smallest share that matches the target:\n"
    "by the probe, beside random routing, the best possible order and token entropy. RUN and REF are run directories\n"
    "or JSONL files of records of the same samples.",
    options, "handoff curve tests/data/records/bf16.jsonl --reference tests/data/records/reference.jsonl"};

static int check(const struct strings *sources, struct err *e)
{
    if (sources->n != 1 || !reference)
        return err_set(e, EXIT_USAGE, "curve: one run and --reference were expected; see \"handoff curve --help\"");
    if (o.route && strcmp(o.route, "min") != 0 && strcmp(o.route, "mean") != 0 && strcmp(o.route, "last") != 0)
        return err_set(e, EXIT_USAGE, "--route: min, mean or last was expected, not \"%s\"", o.route);
    if (o.resamples < 0 || o.resamples > 1000000)
        return err_set(e, EXIT_USAGE, "--bootstrap: a number from 0 to 1000000 was expected");
    if (cli_range("--threshold", o.threshold, 0, 1, e) || cli_range("--points", (double)o.max_points, 0, 1e15, e) ||
        cli_range("--remote-ms", o.remote_ms, 0, INFINITY, e) ||
        cli_range("--local-price", o.local_price, 0, INFINITY, e) ||
        cli_range("--call-price", o.call_price, 0, INFINITY, e) ||
        cli_range("--middle-price", o.middle_price, 0, INFINITY, e) ||
        cli_range("--threads", (double)o.threads, 0, 1024, e))
        return -1;
    if (middle && o.middle_price > o.call_price)
        return err_set(e, EXIT_USAGE, "--middle-price: no more than --call-price was expected");
    return inputs_check(&in, e);
}

enum { RUN, REFERENCE, TARGET, MIDDLE, N_SOURCES };

static int make(struct records *r, const char *run, struct curve_result *result, struct arena *a, struct err *e)
{
    const char *const sources[N_SOURCES] = {run, reference, target, middle};
    for (int i = 0; i < N_SOURCES; i++)
        if (sources[i] && inputs_open(&in, sources[i], &r[i], e))
            return -1;
    struct curve_models m = {&r[RUN], &r[REFERENCE], target ? &r[TARGET] : NULL, middle ? &r[MIDDLE] : NULL, true};
    return curve_result_make(result, &in, &o, &m, a, e);
}

int cmd_curve(int argc, char **argv)
{
    struct strings sources = {0};
    struct err e = {0};
    in.allow_first = true;
    int stop = cli_parse(&usage, argc, argv, &sources, &e);
    if (stop)
        return cli_end(stop, &e);
    if (check(&sources, &e))
        return cli_fail(&e);
    struct records r[N_SOURCES] = {0};
    struct curve_result result;
    struct arena arena = {0};
    struct text out = {0};
    int failed = make(r, sources.at[0], &result, &arena, &e);
    if (!failed) {
        report_curve(&result, inputs_format(&in), detail, &out);
        failed = cli_print(&out, &e);
    }
    for (int i = 0; i < N_SOURCES; i++)
        records_close(&r[i]);
    free(sources.at);
    text_free(&out);
    arena_free(&arena);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
