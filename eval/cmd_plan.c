/* cmd_plan.c - the verb `plan`: how many samples a question needs, and how long they take. */
#include "eval/inputs.h"
#include "eval/paired.h"
#include "eval/planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct inputs in = INPUTS_DEFAULT;
static double difference = 0.01, accuracy_difference = 0.03, half_width = 0.02, alpha = 0.05, power = 0.8;
static double auroc_guess = 0.8, wrong_rate = 0.2, correlation = 0.9, discordant = 0.05, ms;
static const char *against;

static const struct option options[] = {
    {"--against", OPT_STRING, &against, "RUN",
     "second run of the same samples: correlation and flips are taken from it"},
    {"--difference", OPT_DOUBLE, &difference, "X", "change of AUROC to detect (default 0.01)"},
    {"--accuracy-difference", OPT_DOUBLE, &accuracy_difference, "X",
     "change of the share right to detect (default 0.03)"},
    {"--half-width", OPT_DOUBLE, &half_width, "X", "wanted interval of an AUROC, +- X (default 0.02)"},
    {"--alpha", OPT_DOUBLE, &alpha, "A", "level of the two-sided tests (default 0.05)"},
    {"--power", OPT_DOUBLE, &power, "P", "chance to detect it (default 0.8)"},
    {"--auroc", OPT_DOUBLE, &auroc_guess, "A", "without a run: expected AUROC (default 0.8)"},
    {"--wrong", OPT_DOUBLE, &wrong_rate, "R", "without a run: expected share of wrong answers (default 0.2)"},
    {"--correlation", OPT_DOUBLE, &correlation, "R", "of the two AUROCs on the same samples (default 0.9)"},
    {"--discordant", OPT_DOUBLE, &discordant, "R", "share of samples that are right in one run only (default 0.05)"},
    {"--ms", OPT_DOUBLE, &ms, "MS", "time of one sample (default: from the run)"},
    FORMAT_OPTIONS(in),
    INPUT_OPTIONS(in),
    INPUT_PAIR_OPTIONS(in),
    {0}};

static const struct usage usage = {
    "plan", "[RUN] [options]",
    "How many samples it takes to see a difference, hold-out by hold-out: from a run's own AUROC, share of wrong answers\n"
    "and speed, or from guesses. Hanley and McNeil 1982 for the AUROC, McNemar's test for the answers.",
    options, "handoff plan tests/data/records/bf16.jsonl --against tests/data/records/q4.jsonl"};

struct rates { double auroc, wrong, correlation, discordant, ms; };

static void fill_task(struct plan_task *t, const struct rates *r)
{
    double total = r->discordant > accuracy_difference ? r->discordant : accuracy_difference;
    struct auroc_plan p = {r->auroc, r->auroc - difference, r->wrong, r->correlation, alpha, power};
    t->auroc = r->auroc;
    t->wrong_rate = r->wrong;
    t->correlation = r->correlation;
    t->discordant = total;
    t->ms = r->ms;
    t->n_auroc_difference = plan_auroc_difference(&p);
    t->n_half_width = plan_auroc_half_width(r->auroc, r->wrong, half_width);
    t->n_accuracy = plan_mcnemar_pairs((total + accuracy_difference) / 2, (total - accuracy_difference) / 2, alpha,
                                       power);
}

/* Confidences of the samples that have one in both runs. */
struct both { double *a, *b; size_t n; };

/* Share right in one run only, and the confidences whose correlation stands in for that of the two AUROCs. */
static int read_pair(struct both *both, struct rates *r, struct columns *c, const struct records *run,
                     const struct records *with, int task, struct err *e)
{
    const struct record **other = NEW(const struct record *, c->n);
    int failed = columns_pair(c, &in, run, with, task, other, e);
    size_t differ = 0;
    *both = (struct both){NEW(double, c->n), NEW(double, c->n), 0};
    for (size_t i = 0; !failed && i < c->n; i++) {
        differ += c->wrong[i] != record_wrong(other[i], (struct wrong_rule){in.tau, in.cut});
        if (!(other[i]->flags & REC_HAS_CONFIDENCE) || isnan(c->confidence[i]))
            continue;
        both->a[both->n] = c->confidence[i];
        both->b[both->n++] = other[i]->confidence;
    }
    r->discordant = (double)differ / (double)c->n;
    free(other);
    return failed;
}

static void auroc_and_share(struct rates *r, const struct columns *c)
{
    struct ranking ranking;
    double wrong = 0;
    for (size_t i = 0; i < c->n; i++)
        wrong += c->wrong[i];
    r->wrong = c->n ? wrong / (double)c->n : NAN;
    if (c->has_confidence &&
        ranking_make(&ranking, c->confidence, c->wrong, NULL, c->n, HIGHER_IS_RIGHT, NAN_IS_EXCLUDED, NULL) == 0) {
        struct figure f = auroc(&ranking);
        r->auroc = f.why ? NAN : f.value;
        ranking_free(&ranking);
    }
}

static double mean_ms(const struct records *run, int task)
{
    double time = 0;
    for (int64_t i = 0; i < run->tasks[task].n; i++)
        time += records_row(run, task, i)->ms;
    return time / (double)run->tasks[task].n;
}

/* last: the rows of both runs are given back before anything is ranked. */
static int plan_of_task(struct plan_task *t, struct records *run, struct records *with, int task, bool last,
                        struct err *e)
{
    struct columns c;
    struct both both = {0};
    struct rates r = {.auroc = NAN, .correlation = correlation, .discordant = discordant, .ms = ms};
    if (with ? columns_make(&c, &in, run, task, e) : columns_make_detached(&c, &in, run, task, e))
        return -1;
    t->task = run->tasks[task].name;
    if (!(ms > 0))
        r.ms = mean_ms(run, task);
    int failed = 0;
    if (with)
        failed = read_pair(&both, &r, &c, run, with, task, e);
    t->n = (int64_t)c.n;
    if (last) {
        records_forget_rows(run);
        if (with)
            records_forget_rows(with);
    }
    if (!failed) {
        auroc_and_share(&r, &c);
        struct figure rho = both.n > 2 ? rank_agreement(both.a, both.b, both.n).spearman : figure_undefined("too few");
        r.correlation = rho.why ? r.correlation : fmin(rho.value, 0.99);
        fill_task(t, &r);
    }
    free(both.a);
    free(both.b);
    columns_free(&c);
    return failed;
}

static int check(const struct strings *sources, struct err *e)
{
    if (sources->n > 1 || (against && sources->n == 0))
        return err_set(e, EXIT_USAGE, "plan: at most one run was expected, and one for --against");
    const struct { const char *name; double v; } shares[] = {
        {"--difference", difference}, {"--accuracy-difference", accuracy_difference}, {"--half-width", half_width},
        {"--alpha", alpha}, {"--power", power}, {"--auroc", auroc_guess}, {"--wrong", wrong_rate},
        {"--discordant", discordant}};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        if (!(shares[i].v > 0 && shares[i].v < 1))
            return err_set(e, EXIT_USAGE, "%s: a number between 0 and 1 was expected", shares[i].name);
    if (!(correlation >= 0 && correlation < 1))
        return err_set(e, EXIT_USAGE, "--correlation: a number from 0 to below 1 was expected");
    return cli_range("--ms", ms, 0, INFINITY, e) || inputs_check(&in, e) ? -1 : 0;
}

static int make(struct plan_result *out, struct records r[2], const struct strings *sources, struct arena *a,
                struct err *e)
{
    *out = (struct plan_result){.difference = difference, .accuracy_difference = accuracy_difference,
                                .half_width = half_width, .alpha = alpha, .power = power};
    if (sources->n == 0) {
        struct plan_task *t = ARENA_NEW(a, struct plan_task, 1);
        t->task = "guess";
        fill_task(t, &(struct rates){auroc_guess, wrong_rate, correlation, discordant, ms});
        out->tasks = t;
        out->n_tasks = 1;
        return 0;
    }
    if (inputs_open(&in, sources->at[0], &r[0], e) || (against && inputs_open(&in, against, &r[1], e)))
        return -1;
    struct plan_task *tasks = ARENA_NEW(a, struct plan_task, r[0].n_tasks);
    out->tasks = tasks;
    int *wanted = ARENA_NEW(a, int, r[0].n_tasks), n = 0;
    for (int i = 0; i < r[0].n_tasks; i++)
        if (inputs_want(&in, r[0].tasks[i].name) && r[0].tasks[i].n)
            wanted[n++] = i;
    if (!against)
        records_forget_keys(&r[0]);
    for (int k = 0; k < n; k++)
        if (plan_of_task(&tasks[out->n_tasks++], &r[0], against ? &r[1] : NULL, wanted[k], k == n - 1, e))
            return -1;
    return 0;
}

int cmd_plan(int argc, char **argv)
{
    struct strings sources = {0};
    struct err e = {0};
    struct records r[2] = {0};
    struct plan_result result;
    struct arena arena = {0};
    struct text out = {0};
    in.no_entropy = true;
    int stop = cli_parse(&usage, argc, argv, &sources, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = check(&sources, &e) || make(&result, r, &sources, &arena, &e);
    if (!failed) {
        report_plan(&result, inputs_format(&in), &out);
        failed = cli_print(&out, &e);
    }
    records_close(&r[0]);
    records_close(&r[1]);
    free(sources.at);
    text_free(&out);
    arena_free(&arena);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
