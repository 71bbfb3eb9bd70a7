/* compares.c - a new run against its base: answers, confidences, order and handoffs on the same samples. */
#include "eval/compares.h"
#include "eval/special.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Both runs' columns of some samples, row by row. */
struct pairs {
    size_t n, cap, n_scored;            /* n_scored: rows with both confidences, kept in front apart from n */
    uint8_t *wrong_a, *wrong_b;
    double *confidence_a, *confidence_b;        /* [n_scored] */
    uint8_t *scored_wrong_a, *scored_wrong_b;   /* [n_scored] */
    uint32_t *group;                    /* [n_scored] */
    size_t n_groups;
    size_t changed;                     /* wrong in both with another answer */
    size_t differing;                   /* in anything that a figure looks at */
    double unparsed, runaway;           /* new - base, counts */
};

static void pairs_reserve(struct pairs *p, size_t more)
{
    p->cap = p->n + more;
    p->wrong_a = mem_grow(p->wrong_a, p->cap, 1);
    p->wrong_b = mem_grow(p->wrong_b, p->cap, 1);
    p->scored_wrong_a = mem_grow(p->scored_wrong_a, p->cap, 1);
    p->scored_wrong_b = mem_grow(p->scored_wrong_b, p->cap, 1);
    p->confidence_a = mem_grow(p->confidence_a, p->cap, sizeof(double));
    p->confidence_b = mem_grow(p->confidence_b, p->cap, sizeof(double));
    p->group = mem_grow(p->group, p->cap, sizeof(uint32_t));
}

static void pairs_free(struct pairs *p)
{
    free(p->wrong_a);
    free(p->wrong_b);
    free(p->scored_wrong_a);
    free(p->scored_wrong_b);
    free(p->confidence_a);
    free(p->confidence_b);
    free(p->group);
}

static void pairs_add(struct pairs *p, const struct columns *c, size_t i, const struct record *twin,
                      struct wrong_rule rule)
{
    const struct record *row = c->row[i];
    bool wrong = c->wrong[i], wrong_b = record_wrong(twin, rule);
    p->wrong_a[p->n] = wrong;
    p->wrong_b[p->n++] = wrong_b;
    p->differing += wrong != wrong_b || row->flags != twin->flags || row->answer != twin->answer ||
                    row->confidence != twin->confidence || row->entropy != twin->entropy || row->score != twin->score;
    p->changed += wrong && wrong_b && row->answer != twin->answer;
    p->unparsed += ((twin->flags & REC_UNPARSED) != 0) - ((row->flags & REC_UNPARSED) != 0);
    p->runaway += ((twin->flags & REC_RUNAWAY) != 0) - ((row->flags & REC_RUNAWAY) != 0);
    if (isnan(c->confidence[i]) || !(twin->flags & REC_HAS_CONFIDENCE))
        return;
    size_t k = p->n_scored++;
    p->confidence_a[k] = c->confidence[i];
    p->confidence_b[k] = twin->confidence;
    p->scored_wrong_a[k] = wrong;
    p->scored_wrong_b[k] = wrong_b;
    p->group[k] = c->group[i];
}

struct work {
    const struct inputs *in;
    const struct compare_options *o;
    struct records *base, *fresh;
    struct arena *arena;
};

static void set_answers(struct compare_task *t, const struct pairs *p)
{
    struct mcnemar m = mcnemar(p->wrong_a, p->wrong_b, p->n);
    double n = (double)p->n;
    t->n = (int64_t)p->n;
    t->accuracy_base = figure_of((double)(m.both + m.only_a) / n);
    t->accuracy_new = figure_of((double)(m.both + m.only_b) / n);
    t->accuracy_delta = m.delta;
    t->ci95 = m.wald;
    if (m.only_a + m.only_b == 0 && p->n) {     /* Wald's interval has no width there; this one holds for none of n */
        double most = clopper_pearson_upper(0, n, 0.025);
        t->ci95 = interval_of(-most, most);
    }
    t->mcnemar_p = figure_of(m.p_exact);
    t->mcnemar_mid_p = t->holm_p = figure_of(m.p_mid);
    t->lost = (int64_t)m.only_a;
    t->gained = (int64_t)m.only_b;
    t->changed = (int64_t)p->changed;
    t->identical = p->differing == 0;
    t->unparsed_delta = figure_of(p->unparsed / n);
    t->runaway_delta = figure_of(p->runaway / n);
}

static double mean_of(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

static void no_confidence(struct compare_task *t)
{
    static const char why[] = "no confidence is recorded in both runs";
    t->auroc_base = t->auroc_new = t->auroc_delta = t->auroc_p = t->auroc_holm_p = figure_undefined(why);
    t->confidence_base = t->confidence_new = t->confidence_drift = t->ks = t->spearman = t->kendall_tau_b =
        t->pair_flip_rate = t->rate_base = t->rate_new = figure_undefined(why);
    t->auroc_ci95 = t->drift_ci95 = interval_undefined(why);
}

static void set_confidence(struct compare_task *t, const struct pairs *p, double threshold)
{
    size_t n = p->n_scored;
    no_confidence(t);
    if (n == 0)
        return;
    struct drift d = drift(p->confidence_a, p->confidence_b, n);
    struct ks ks = ks_two_sample(p->confidence_a, n, p->confidence_b, n);
    struct rank_agreement order = rank_agreement(p->confidence_a, p->confidence_b, n);
    struct handoff_flips flips = handoff_flips(p->confidence_a, p->confidence_b, n, threshold);
    t->confidence_base = figure_of(mean_of(p->confidence_a, n));
    t->confidence_new = figure_of(mean_of(p->confidence_b, n));
    t->confidence_drift = d.mean;
    t->drift_ci95 = d.t;
    t->ks = ks.d;
    t->spearman = order.spearman;
    t->kendall_tau_b = order.kendall_tau_b;
    t->pair_flip_rate = order.flip_rate;
    t->handoff_flips = (int64_t)(flips.only_a_hands_off + flips.only_b_hands_off);
    t->rate_base = figure_of((double)(flips.only_a_hands_off + flips.both_hand_off) / (double)n);
    t->rate_new = figure_of((double)(flips.only_b_hands_off + flips.both_hand_off) / (double)n);
}

static struct figure set_auroc(struct compare_task *t, const struct pairs *p, const struct compare_options *o)
{
    t->jackknife = o->resamples == 0 && p->n_scored > JACKKNIFE_ROWS;
    struct resampling how = {.seed = (uint64_t)o->seed, .n_threads = (int)o->threads,
                             .n_resamples = t->jackknife ? 0 : o->resamples ? (size_t)o->resamples : AUTO_RESAMPLES};
    if (p->n_scored == 0)
        return t->auroc_delta;
    if (p->n_groups < p->n_scored) {
        how.group = p->group;
        how.n_groups = p->n_groups;
    }
    struct auroc_change c = auroc_change(p->confidence_a, p->scored_wrong_a, p->confidence_b, p->scored_wrong_b,
                                         p->n_scored, &how);
    t->auroc_base = c.a;
    t->auroc_new = c.b;
    t->auroc_delta = c.delta;
    t->auroc_ci95 = c.ci95;
    t->auroc_p = t->auroc_holm_p = c.p;
    return c.se;
}

/* Group numbers without gaps, over the rows that have both confidences. */
static void renumber(struct pairs *p, size_t n_groups)
{
    uint32_t *now = NEW(uint32_t, n_groups);
    for (size_t i = 0; i < p->n_scored; i++) {
        uint32_t *g = &now[p->group[i]];
        if (*g == 0)
            *g = (uint32_t)++p->n_groups;
        p->group[i] = *g - 1;
    }
    free(now);
}

/* all: collects the pairs of every task, NULL if there is only one. */
static int make_task(struct compare_task *t, struct figure *auroc_se, const struct work *w, int task,
                     struct pairs *all, bool last, struct err *e)
{
    struct columns c;
    struct pairs one = {0};
    const struct wrong_rule rule = {w->in->tau, w->in->cut};
    if (columns_make(&c, w->in, w->base, task, e))
        return -1;
    const struct record **other = NEW(const struct record *, c.n);
    int failed = columns_pair(&c, w->in, w->base, w->fresh, task, other, e);
    if (last && w->o->give_back) {
        records_forget_keys(w->base);
        records_forget_keys(w->fresh);
    }
    if (!failed) {
        t->task = w->base->tasks[task].name;
        pairs_reserve(&one, c.n);
        if (all)
            pairs_reserve(all, c.n);
        for (size_t i = 0; i < c.n; i++) {
            pairs_add(&one, &c, i, other[i], rule);
            if (all)
                pairs_add(all, &c, i, other[i], rule);
        }
        renumber(&one, c.n_groups);
    }
    free(other);
    columns_free(&c);
    if (last && w->o->give_back) {
        records_forget_rows(w->base);
        records_forget_rows(w->fresh);
    }
    if (!failed) {
        set_answers(t, &one);
        set_confidence(t, &one, w->o->threshold);
        *auroc_se = set_auroc(t, &one, w->o);
    }
    pairs_free(&one);
    return failed;
}

/* ---- verdicts --------------------------------------------------------------------------------------------------- */

static double se_of(struct interval wald)
{
    return wald.why ? NAN : (wald.hi - wald.lo) / (2 * NORMAL_975);
}

/* Holm over the hold-outs; NaN stays out. */
static void adjust_p(struct compare_task *tasks, int n)
{
    double *p = NEW(double, n);
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < n; i++) {
            struct figure f = which ? tasks[i].auroc_p : tasks[i].mcnemar_mid_p;
            p[i] = f.why ? NAN : f.value;
        }
        holm_adjust(p, (size_t)n, p);
        for (int i = 0; i < n; i++)
            if (!isnan(p[i]))
                *(which ? &tasks[i].auroc_holm_p : &tasks[i].holm_p) = figure_of(p[i]);
    }
    free(p);
}

static void give_reason(struct compare_task *t, const struct work *w, const char *what, struct figure delta,
                        struct interval ci, double margin)
{
    t->reason = arena_printf(w->arena, "%s changed by %+.3f [%+.3f, %+.3f]; the margin is %.3f", what, delta.value,
                             ci.lo, ci.hi, margin);
}

/* p: one-sided p values (already adjusted) for "worse by more than the margin", and plain ones for "not so". */
static void decide(struct compare_task *t, const struct work *w, const double regressed[2], const double ok[2])
{
    double level = w->o->alpha / 2;
    bool no_auroc = isnan(ok[1]);
    if (t->identical) {
        t->verdict = VERDICT_OK;
        t->reason = "identical records";
    } else if (regressed[0] < level) {
        t->verdict = VERDICT_REGRESSED;
        give_reason(t, w, "the share right", t->accuracy_delta, t->ci95, w->o->margin);
    } else if (regressed[1] < level) {
        t->verdict = VERDICT_REGRESSED;
        give_reason(t, w, "the AUROC", t->auroc_delta, t->auroc_ci95, w->o->auroc_margin);
    } else if (ok[0] <= level && (no_auroc || ok[1] <= level)) {
        t->verdict = VERDICT_OK;
        t->reason = "no worse than the margin";
    } else {
        t->verdict = VERDICT_UNDECIDED;
        t->reason = arena_printf(w->arena, "%" PRId64 " samples do not show that the %s is no worse than the margin",
                                 t->n, ok[0] > level ? "share right" : "AUROC");
    }
}

/* A difference without any spread is decided by its value. */
static struct margin_test test_margin(struct figure delta, double se, double margin)
{
    if (delta.why || isnan(se))
        return (struct margin_test){NAN, NAN};
    if (se <= 0)
        return (struct margin_test){delta.value < -margin ? 0 : 1, delta.value < -margin ? 1 : 0};
    return margin_test(delta.value, se, margin);
}

static void decide_all(struct compare_task *tasks, const struct figure *auroc_se, int n, const struct work *w)
{
    double *p = NEW(double, 2 * n), *ok = NEW(double, 2 * n);
    for (int i = 0; i < n; i++) {
        struct margin_test a = test_margin(tasks[i].accuracy_delta, se_of(tasks[i].ci95), w->o->margin);
        double se = auroc_se[i].why ? NAN : auroc_se[i].value;
        struct margin_test b = test_margin(tasks[i].auroc_delta, se, w->o->auroc_margin);
        p[2 * i] = a.regressed;
        p[2 * i + 1] = b.regressed;
        ok[2 * i] = a.ok;
        ok[2 * i + 1] = b.ok;
    }
    holm_adjust(p, 2 * (size_t)n, p);
    for (int i = 0; i < n; i++)
        decide(&tasks[i], w, &p[2 * i], &ok[2 * i]);
    free(p);
    free(ok);
}

/* Answers pooled over hold-outs; AUROC as the mean difference over hold-outs (a pooled AUROC would measure how hard
 * each hold-out is). One primary endpoint: not adjusted. */
static void make_pooled(struct compare_task *t, const struct compare_task *tasks, const struct figure *auroc_se, int n,
                        const struct pairs *all, const struct work *w)
{
    double base = 0, fresh = 0, variance = 0;
    int k = 0;
    t->task = "all";
    set_answers(t, all);
    set_confidence(t, all, w->o->threshold);
    for (int i = 0; i < n; i++) {
        if (tasks[i].auroc_delta.why || auroc_se[i].why)
            continue;
        base += tasks[i].auroc_base.value;
        fresh += tasks[i].auroc_new.value;
        variance += auroc_se[i].value * auroc_se[i].value;
        k++;
    }
    double se = NAN;
    if (k) {
        se = sqrt(variance) / k;
        double delta = (fresh - base) / k;
        t->auroc_base = figure_of(base / k);
        t->auroc_new = figure_of(fresh / k);
        t->auroc_delta = figure_of(delta);
        t->auroc_ci95 = interval_of(delta - NORMAL_975 * se, delta + NORMAL_975 * se);
        struct margin_test zero = test_margin(t->auroc_delta, se, 0);
        double p = se > 0 ? fmin(1, 2 * fmin(zero.regressed, zero.ok)) : delta == 0;
        t->auroc_p = t->auroc_holm_p = figure_of(p);
    }
    struct margin_test a = test_margin(t->accuracy_delta, se_of(t->ci95), w->o->margin);
    struct margin_test b = test_margin(t->auroc_delta, se, w->o->auroc_margin);
    decide(t, w, (const double[]){a.regressed, b.regressed}, (const double[]){a.ok, b.ok});
}

int compare_result_make(struct compare_result *out, const struct inputs *in, const struct compare_options *o,
                        struct records *base, struct records *fresh, struct arena *a, struct err *e)
{
    struct inputs lean = *in;
    lean.no_entropy = true;
    struct work w = {&lean, o, base, fresh, a};
    struct compare_task *tasks = ARENA_NEW(a, struct compare_task, base->n_tasks + 1);
    struct figure *auroc_se = ARENA_NEW(a, struct figure, base->n_tasks + 1);
    struct pairs all = {0};
    int n = 0, failed = 0;
    *out = (struct compare_result){.definitions = inputs_definitions(in), .base = base->name, .fresh = fresh->name,
                                   .margin = o->margin, .auroc_margin = o->auroc_margin, .alpha = o->alpha,
                                   .tasks = tasks};
    out->definitions.threshold = o->threshold;
    out->definitions.resamples = o->resamples ? o->resamples : AUTO_RESAMPLES;
    out->definitions.seed = o->seed;
    int *wanted = ARENA_NEW(a, int, base->n_tasks);
    for (int i = 0; i < base->n_tasks; i++)
        if (inputs_want(in, base->tasks[i].name) && base->tasks[i].n > 0 &&
            !(in->common && records_task(fresh, base->tasks[i].name) < 0))
            wanted[n++] = i;
    for (int k = 0; k < n && !failed; k++)
        failed = make_task(&tasks[k], &auroc_se[k], &w, wanted[k], n > 1 ? &all : NULL, k == n - 1, e);
    if (!failed && n == 0)
        failed = err_input(e, "%s and %s have no task in common", base->path, fresh->path);
    if (!failed) {
        adjust_p(tasks, n);
        decide_all(tasks, auroc_se, n, &w);
        out->n_tasks = n;
        if (n > 1)
            make_pooled(&tasks[out->n_tasks++], tasks, auroc_se, n, &all, &w);
        out->verdict = tasks[out->n_tasks - 1].verdict;
        for (int i = 0; i < n; i++)
            if (tasks[i].verdict == VERDICT_REGRESSED)
                out->verdict = VERDICT_REGRESSED;
    }
    pairs_free(&all);
    return failed;
}
