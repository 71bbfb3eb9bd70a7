/* curves.c - runs paired by sample to cascade curves, match rates and costs. */
#include "eval/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cascades --------------------------------------------------------------------------------------------------- */

static double row_value(const struct record *row)
{
    return row->flags & REC_HAS_WER ? row->wer.edits : record_score(row);
}

void cascade_columns_make(struct cascade_columns *out, const struct columns *c, const struct record *const *other)
{
    bool graded = c->graded;
    *out = (struct cascade_columns){.local = NEW(double, c->n), .reference = NEW(double, c->n)};
    if (c->wer)
        out->weight = NEW(double, c->n);
    for (size_t i = 0; i < c->n; i++) {
        out->local[i] = row_value(c->row[i]);
        out->reference[i] = row_value(other[i]);
        graded |= out->reference[i] > 0 && out->reference[i] < 1;
        if (c->wer)
            out->weight[i] = c->row[i]->wer.words;
    }
    out->metric = c->wer ? "wer" : graded ? "score" : "accuracy";
    out->cascade = (struct cascade){.n = c->n, .confidence = c->confidence, .local = out->local,
                                    .reference = out->reference, .weight = out->weight, .lower_is_better = c->wer};
}

void cascade_columns_free(struct cascade_columns *c)
{
    free(c->local);
    free(c->reference);
    free(c->weight);
    *c = (struct cascade_columns){0};
}

/* ---- one task ---------------------------------------------------------------------------------------------------- */

struct work {
    const struct inputs *in;
    const struct curve_options *o;
    const struct curve_models *m;
    struct arena *arena;
    struct columns c;
    struct cascade_columns cc;
    struct cascade by_confidence, by_entropy;   /* of samples or of groups */
    bool grouped, has_entropy, last;            /* last: of the tasks that are wanted */
    double mean_ms;
    const struct record **reference, **target, **middle;
    double *entropy;                            /* as a confidence: its negative */
    struct curve_task *t;
};

static struct curve_row *thin(struct arena *a, const struct curve *v, int64_t max, int *n)
{
    size_t want = max > 1 && (size_t)max < v->n_points ? (size_t)max : v->n_points;
    struct curve_row *rows = ARENA_NEW(a, struct curve_row, want);
    for (size_t i = 0; i < want; i++) {
        const struct curve_point *p = &v->points[want == v->n_points ? i : i * (v->n_points - 1) / (want - 1)];
        rows[i] = (struct curve_row){p->rate, p->threshold, p->metric};
    }
    *n = (int)want;
    return rows;
}

static struct figure rate_or(double rate, const char *why)
{
    return isnan(rate) ? figure_undefined(why) : figure_of(rate);
}

static const char never[] = "infeasible: no share of handed-off queries reaches the target";

static void match_figures(struct work *w, const struct curve *v)
{
    struct curve_task *t = w->t;
    struct match m = curve_match(v, t->target);
    struct match_figures *f = &t->match;
    f->first = m.first ? figure_of(m.first->rate) : figure_undefined(never);
    f->conservative = m.conservative ? figure_of(m.conservative->rate) : figure_undefined(never);
    f->first_threshold = m.first ? m.first->threshold : NAN;
    f->conservative_threshold = m.conservative ? m.conservative->threshold : NAN;
    f->only_full_handoff = m.only_full_handoff;
    t->random_rate = rate_or(m.random_rate, never);
    double one_point = t->lower_is_better ? t->target + 0.01 : t->target - 0.01;
    struct match within = curve_match(v, one_point);
    t->within_1pt = within.first ? figure_of(within.first->rate) : figure_undefined(never);
}

static void summary_figures(struct work *w, const struct curve *v)
{
    struct curve_task *t = w->t;
    static const double shares[3] = {0.2, 0.5, 0.8};
    struct curve_summary s = curve_summary(v);
    t->auc = s.auc;
    t->auc_random = s.auc_random;
    t->apgr = s.apgr;
    t->reference_not_better = s.reference_not_better;
    for (int i = 0; i < 3; i++)
        t->cpt[i] = curve_recovery(v, shares[i]).rate_step;
    struct threshold_effect at = threshold_effect(&w->by_confidence, w->o->threshold);
    t->at_default.rate = at.rate;
    t->at_default.metric = at.metric;
    t->at_default.kept = at.kept;
    struct oracle oracle = oracle_make(&w->by_confidence);
    t->oracle_rate = rate_or(oracle_rate(&oracle, t->target), never);
    t->auc_oracle = oracle_auc(&oracle);
    size_t n = oracle.n < 200 ? oracle.n : 200;
    struct curve_row *rows = ARENA_NEW(w->arena, struct curve_row, n + 1);
    for (size_t i = 0; i <= n; i++) {
        size_t k = n ? oracle.n * i / n : 0;
        rows[i] = (struct curve_row){oracle.n ? (double)k / (double)oracle.n : 0, NAN, oracle.metric[k]};
    }
    t->oracle = rows;
    t->n_oracle = (int)n + 1;
    oracle_free(&oracle);
}

static void entropy_figures(struct work *w)
{
    struct curve_task *t = w->t;
    struct curve v;
    t->entropy_rate = t->apgr_entropy = figure_undefined("no entropy is recorded for every sample");
    if (!w->has_entropy || curve_make(&v, &w->by_entropy, MISSING_HANDED_OFF, NULL))
        return;
    struct match m = curve_match(&v, t->target);
    t->entropy_rate = m.first ? figure_of(m.first->rate) : figure_undefined(never);
    t->apgr_entropy = curve_summary(&v).apgr;
    t->entropy = thin(w->arena, &v, w->o->max_points, &t->n_entropy);
    curve_free(&v);
}

/* ---- bootstrap -------------------------------------------------------------------------------------------------- */

/* Metric of a resample in which the share `rate` of least confidence is handed off (fractions inside a row count in
 * part, so that the band is smooth). rows: by rising confidence. */
struct band_data { const struct cascade *c; const uint32_t *rows; double rate; };

static double metric_at_rate(const uint32_t *count, const void *data)
{
    const struct band_data *b = data;
    const struct cascade *c = b->c;
    double total = 0, seen = 0, value = 0, weight = 0;
    for (size_t i = 0; i < c->n; i++)
        total += count[i];
    for (size_t i = 0; i < c->n; i++) {
        size_t row = b->rows[i];
        double k = count[row], off = b->rate * total - seen;
        off = off < 0 ? 0 : off > k ? k : off;
        value += off * c->reference[row] + (k - off) * c->local[row];
        weight += k * (c->weight ? c->weight[row] : 1);
        seen += k;
    }
    return weight > 0 ? value / weight : NAN;
}

struct by_confidence { double confidence; uint32_t row; };

static int compare_confidence(const void *a, const void *b)
{
    const struct by_confidence *x = a, *y = b;
    return x->confidence != y->confidence ? (x->confidence < y->confidence ? -1 : 1) : x->row < y->row ? -1 : 1;
}

static void band(struct work *w, const struct resampling *how)
{
    const struct cascade *c = &w->by_confidence;
    enum { N_RATES = 21 };
    struct by_confidence *sorted = NEW(struct by_confidence, c->n);
    uint32_t *rows = NEW(uint32_t, c->n);
    struct band_row *out = ARENA_NEW(w->arena, struct band_row, N_RATES);
    for (size_t i = 0; i < c->n; i++)
        sorted[i] = (struct by_confidence){isnan(c->confidence[i]) ? -1 : c->confidence[i], (uint32_t)i};
    qsort(sorted, c->n, sizeof *sorted, compare_confidence);
    for (size_t i = 0; i < c->n; i++)
        rows[i] = sorted[i].row;
    for (int i = 0; i < N_RATES; i++) {
        struct band_data data = {c, rows, (double)i / (N_RATES - 1)};
        struct interval ci = bootstrap_interval(how, c->n, metric_at_rate, &data);
        out[i] = (struct band_row){data.rate, ci.lo, ci.hi};
    }
    w->t->band = out;
    w->t->n_band = N_RATES;
    free(sorted);
    free(rows);
}

static void bootstrap(struct work *w, const double *target_value)
{
    struct curve_task *t = w->t;
    t->match.ci95 = interval_undefined("no bootstrap was asked for");
    if (w->o->resamples == 0)
        return;
    struct resampling how = {(uint64_t)w->o->seed, (size_t)w->o->resamples, (int)w->o->threads, NULL, 0};
    if (!w->grouped && w->c.n_groups < w->c.n) {
        how.group = w->c.group;
        how.n_groups = w->c.n_groups;
    }
    struct goal goal = {.target = target_value};
    t->match.ci95 = match_rate_bootstrap(&w->by_confidence, &goal, MATCH_FIRST, &how);
    if (w->o->bands) {
        how.n_resamples = how.n_resamples < 400 ? how.n_resamples : 400;
        band(w, &how);
    }
}

/* ---- cost and tiers --------------------------------------------------------------------------------------------- */

static void costs(struct work *w)
{
    struct curve_task *t = w->t;
    struct cost_model m = {w->mean_ms, w->o->remote_ms, w->o->local_price, w->o->call_price};
    struct cost local = cost_at(&m, 0), all = cost_at(&m, 1);
    struct cost match = cost_at(&m, t->match.first.why ? 1 : t->match.first.value);
    t->cost_local.ms = local.ms;
    t->cost_local.price = local.price;
    t->cost_reference.ms = all.ms;
    t->cost_reference.price = all.price;
    t->cost_match.ms = match.ms;
    t->cost_match.price = match.price;
}

static void tiers(struct work *w)
{
    if (!w->m->middle || w->grouped)
        return;
    double *middle = NEW(double, w->c.n);
    for (size_t i = 0; i < w->c.n; i++)
        middle[i] = row_value(w->middle[i]);
    struct tiers tiers = {.n = w->c.n, .confidence = w->c.confidence, .value = {w->cc.local, middle, w->cc.reference},
                          .weight = w->cc.weight, .lower_is_better = w->c.wer,
                          .cost = {w->o->local_price, w->o->middle_price, w->o->call_price}};
    struct tier_point *points = NULL;
    size_t n = tier_frontier(&tiers, &points);
    struct tier_row *rows = ARENA_NEW(w->arena, struct tier_row, n);
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct tier_row){points[i].cost, points[i].metric, points[i].low, points[i].high,
                                    {points[i].share[0], points[i].share[1], points[i].share[2]}};
    w->t->tiers = rows;
    w->t->n_tiers = (int)n;
    free(points);
    free(middle);
}

/* ---- putting it together ---------------------------------------------------------------------------------------- */

/* Behind the last task's cascades nobody asks for the rows again: ten million of them are most of the memory. */
static void give_back(struct work *w)
{
    if (!w->last || !w->m->give_back || w->m->target || w->m->middle)
        return;
    free(w->c.row);
    free(w->reference);
    w->c.row = NULL;
    w->reference = NULL;
    records_forget_rows(w->m->run);
    records_forget_rows(w->m->reference);
}

static void make_cascades(struct work *w)
{
    struct columns *c = &w->c;
    double ms = 0;
    for (size_t i = 0; i < c->n; i++)
        ms += c->row[i]->ms;
    w->mean_ms = ms / (double)c->n;
    cascade_columns_make(&w->cc, c, w->reference);
    give_back(w);
    w->by_confidence = w->by_entropy = w->cc.cascade;
    w->has_entropy = c->has_entropy && c->n_no_entropy == 0;
    w->entropy = NEW(double, c->n);
    for (size_t i = 0; i < c->n; i++)
        w->entropy[i] = -c->entropy[i];
    w->by_entropy.confidence = w->entropy;
    w->grouped = w->o->route != NULL;
    if (!w->grouped)
        return;
    enum group_rule rule = strcmp(w->o->route, "min") == 0 ? GROUP_MIN :
                           strcmp(w->o->route, "mean") == 0 ? GROUP_MEAN : GROUP_LAST;
    w->by_confidence = cascade_groups(&w->cc.cascade, c->group, c->n_groups, rule);
    struct cascade samples = w->by_entropy;
    w->by_entropy = cascade_groups(&samples, c->group, c->n_groups, rule);
}

/* The target's metric on the same rows, and its values per row (of groups: summed) for the bootstrap. */
static double *target_values(struct work *w)
{
    if (!w->m->target)
        return NULL;
    struct cascade_columns t;
    cascade_columns_make(&t, &w->c, w->target);
    double sum = 0, weight = 0;
    for (size_t i = 0; i < w->c.n; i++) {
        sum += t.reference[i];
        weight += t.weight ? t.weight[i] : 1;
    }
    w->t->target = sum / weight;
    double *values = NEW(double, w->c.n);
    for (size_t i = 0; i < w->c.n; i++)
        values[w->grouped ? w->c.group[i] : i] += t.reference[i];
    cascade_columns_free(&t);
    return values;
}

static int make_curve(struct work *w, struct err *e)
{
    struct curve_task *t = w->t;
    struct curve v;
    make_cascades(w);
    if (curve_make(&v, &w->by_confidence, MISSING_HANDED_OFF, e))
        return -1;
    t->n = (int64_t)v.n;
    t->metric = w->cc.metric;
    t->lower_is_better = v.lower_is_better;
    t->local = v.local;
    t->reference = t->target = v.reference;
    double *target = target_values(w);
    match_figures(w, &v);
    summary_figures(w, &v);
    entropy_figures(w);
    bootstrap(w, target);
    costs(w);
    tiers(w);
    t->points = thin(w->arena, &v, w->o->max_points, &t->n_points);
    curve_free(&v);
    free(target);
    return 0;
}

static int pair_all(struct work *w, int task, struct err *e)
{
    const struct curve_models *m = w->m;
    const struct records *others[3] = {m->reference, m->target, m->middle};
    const struct record ***rows[3] = {&w->reference, &w->target, &w->middle};
    for (int i = 0; i < 3; i++)
        *rows[i] = NEW(const struct record *, w->c.n);
    for (int pass = 0; pass < 2; pass++)        /* the second finds what the first left, in the same order */
        for (int i = 0; i < 3; i++)
            if (others[i] && columns_pair(&w->c, w->in, m->run, others[i], task, *rows[i], e))
                return -1;
    if (w->last && m->give_back) {
        records_forget_keys(m->run);
        records_forget_keys(m->reference);
    }
    return 0;
}

static int make_task(struct work *w, int task, struct err *e)
{
    const struct record_task *from = &w->m->run->tasks[task];
    if (columns_make(&w->c, w->in, w->m->run, task, e))
        return -1;
    w->t->task = from->name;
    int failed = 0;
    if (!w->c.has_confidence)
        failed = err_input(e, "%s: no record of \"%s\" has a confidence (a checkpoint without a probe?)",
                           w->m->run->path, from->name);
    failed = failed || pair_all(w, task, e) || make_curve(w, e);
    if (w->grouped) {
        cascade_groups_free(&w->by_confidence);
        cascade_groups_free(&w->by_entropy);
    }
    cascade_columns_free(&w->cc);
    columns_free(&w->c);
    free(w->entropy);
    free(w->reference);
    free(w->target);
    free(w->middle);
    return failed ? -1 : 0;
}

int curve_result_make(struct curve_result *out, const struct inputs *in, const struct curve_options *o,
                      const struct curve_models *m, struct arena *a, struct err *e)
{
    struct curve_task *tasks = ARENA_NEW(a, struct curve_task, m->run->n_tasks);
    *out = (struct curve_result){
        .definitions = inputs_definitions(in), .run = m->run->name, .reference = m->reference->name,
        .target = m->target ? m->target->name : m->reference->name, .route = o->route,
        .has_cost = o->remote_ms > 0 || o->local_price > 0 || o->call_price > 0, .remote_ms = o->remote_ms,
        .local_price = o->local_price, .call_price = o->call_price, .tasks = tasks,
        .tier_names = {m->run->name, m->middle ? m->middle->name : NULL, m->reference->name}};
    out->definitions.threshold = o->threshold;
    out->definitions.resamples = o->resamples;
    out->definitions.seed = o->seed;
    int *wanted = ARENA_NEW(a, int, m->run->n_tasks), n = 0;
    for (int i = 0; i < m->run->n_tasks; i++)
        if (inputs_want(in, m->run->tasks[i].name) && m->run->tasks[i].n > 0 &&
            !(in->common && records_task(m->reference, m->run->tasks[i].name) < 0))
            wanted[n++] = i;
    for (int k = 0; k < n; k++) {
        struct work w = {.in = in, .o = o, .m = m, .arena = a, .t = &tasks[out->n_tasks++], .last = k == n - 1};
        if (make_task(&w, wanted[k], e))
            return -1;
    }
    return out->n_tasks ? 0 : err_input(e, "%s and %s have no task in common", m->run->path, m->reference->path);
}
