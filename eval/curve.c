/* curve.c - the handoff curve and what is read off it. */
#include "eval/curve.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

static int check_rows(const struct cascade *c, enum missing_policy policy, size_t *n_missing, struct err *e)
{
    double weight = 0;
    *n_missing = 0;
    if (c->n == 0)
        return err_input(e, "a handoff curve needs at least one row");
    for (size_t i = 0; i < c->n; i++) {
        if (isnan(c->confidence[i])) {
            if (policy == MISSING_IS_ERROR)
                return err_input(e, "missing_confidence: row %zu has no confidence", i);
            ++*n_missing;
        }
        if (!isfinite(c->local[i]) || !isfinite(c->reference[i]))
            return err_input(e, "a value of row %zu is not a finite number", i);
        double w = c->weight ? c->weight[i] : 1;
        if (!(w >= 0 && isfinite(w)))
            return err_input(e, "the weight of row %zu is not a finite number >= 0", i);
        weight += w;
    }
    return weight > 0 ? 0 : err_input(e, "the rows have no weight: the metric is undefined");
}

/* Rows in the order in which they are handed off; missing confidences come first. */
static struct keyed *handoff_order(const struct cascade *c)
{
    struct keyed *a = NEW(struct keyed, c->n);
    for (size_t i = 0; i < c->n; i++)
        a[i] = (struct keyed){isnan(c->confidence[i]) ? 0 : order_key(c->confidence[i], 0), i};
    order_sort(a, c->n);
    return a;
}

int curve_make(struct curve *v, const struct cascade *c, enum missing_policy policy, struct err *e)
{
    *v = (struct curve){.n = c->n, .lower_is_better = c->lower_is_better};
    if (check_rows(c, policy, &v->n_missing, e) < 0)
        return -1;
    struct keyed *a = handoff_order(c);
    double weight = 0, sum = 0, all_reference = 0;
    v->n_points = 1;
    for (size_t i = 0; i < c->n; i++) {
        weight += c->weight ? c->weight[i] : 1;
        sum += c->local[i];
        all_reference += c->reference[i];
        v->n_points += i == 0 || a[i].key != a[i - 1].key;
    }
    v->local = sum / weight;
    v->reference = all_reference / weight;
    v->points = NEW(struct curve_point, v->n_points);
    size_t i = 0;
    for (size_t p = 0; p < v->n_points; p++) {
        double metric = p + 1 == v->n_points ? v->reference : p == 0 ? v->local : sum / weight;
        v->points[p] = (struct curve_point){i, (double)i / (double)c->n, INFINITY, metric};
        if (i < c->n)
            v->points[p].threshold = c->confidence[a[i].row];
        for (size_t from = i; i < c->n && a[i].key == a[from].key; i++)
            sum += c->reference[a[i].row] - c->local[a[i].row];
    }
    free(a);
    return 0;
}

void curve_free(struct curve *v)
{
    free(v->points);
    *v = (struct curve){0};
}

bool curve_reaches(const struct curve *v, double metric, double target)
{
    return v->lower_is_better ? metric <= target + TARGET_SLACK : metric >= target - TARGET_SLACK;
}

double curve_within(const struct curve *v, double points)
{
    return v->lower_is_better ? v->reference + points : v->reference - points;
}

/* Where the segment from a to b meets the target; b reaches it and a does not. */
static double crossing(const struct curve_point *a, const struct curve_point *b, double target)
{
    double share = (target - a->metric) / (b->metric - a->metric);
    return a->rate + fmin(share, 1) * (b->rate - a->rate);
}

static double random_rate(const struct curve *v, double target)
{
    if (curve_reaches(v, v->local, target))
        return 0;
    double share = (target - v->local) / (v->reference - v->local);
    return curve_reaches(v, v->reference, target) ? fmin(share, 1) : NAN;
}

struct match curve_match(const struct curve *v, double target)
{
    struct match m = {NULL, NULL, NAN, random_rate(v, target), false};
    for (size_t i = v->n_points; i-- > 0 && curve_reaches(v, v->points[i].metric, target);)
        m.conservative = &v->points[i];
    size_t i = 0;
    while (i < v->n_points && !curve_reaches(v, v->points[i].metric, target))
        i++;
    if (i < v->n_points) {
        m.first = &v->points[i];
        m.first_interpolated = i == 0 ? 0 : crossing(m.first - 1, m.first, target);
        m.only_full_handoff = m.first->n_handoff == v->n;
    }
    return m;
}

static struct figure ten_budgets(const struct curve *v)
{
    if (v->lower_is_better ? v->reference >= v->local : v->reference <= v->local)
        return figure_undefined("the reference is not better");
    double sum = 0;
    for (int budget = 1; budget <= 10; budget++)
        sum += (curve_not_exceed(v, budget / 10.0)->metric - v->local) / (v->reference - v->local);
    return figure_of(sum / 10);
}

struct curve_summary curve_summary(const struct curve *v)
{
    struct curve_summary s = {.auc_random = (v->local + v->reference) / 2, .best = v->points};
    double sign = v->lower_is_better ? -1 : 1, gap = v->reference - v->local;
    for (size_t i = 1; i < v->n_points; i++) {
        const struct curve_point *p = &v->points[i];
        s.auc += (p->rate - p[-1].rate) * (p->metric + p[-1].metric) / 2;
        if (sign * (p->metric - s.best->metric) > TARGET_SLACK)
            s.best = p;
    }
    s.reference_not_better = sign * gap <= 0;
    s.apgr = gap == 0 ? figure_undefined("the reference is exactly as good: there is no gap to recover")
                      : figure_of((s.auc - v->local) / gap);
    s.apgr_10_budgets = ten_budgets(v);
    return s;
}

struct recovery curve_recovery(const struct curve *v, double x)
{
    if (v->lower_is_better ? v->reference >= v->local : v->reference <= v->local) {
        struct figure none = figure_undefined("the reference is not better");
        return (struct recovery){none, none};
    }
    struct match m = curve_match(v, v->local + x * (v->reference - v->local));
    if (!m.first) {
        struct figure none = figure_undefined("no rate recovers this much");
        return (struct recovery){none, none};
    }
    return (struct recovery){figure_of(m.first->rate), figure_of(m.first_interpolated)};
}

const struct curve_point *curve_at(const struct curve *v, double t)
{
    size_t lo = 0, hi = v->n_points - 1;        /* the last point's threshold is above every t */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v->points[mid].threshold >= t)      /* false for the NaN of a point that no threshold gives */
            hi = mid;
        else
            lo = mid + 1;
    }
    return &v->points[lo];
}

const struct curve_point *curve_not_exceed(const struct curve *v, double rate)
{
    size_t lo = 0, hi = v->n_points - 1;
    while (lo < hi) {
        size_t mid = hi - (hi - lo) / 2;
        if (v->points[mid].rate <= rate + TARGET_SLACK)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &v->points[lo];
}

const struct curve_point *curve_closest(const struct curve *v, double rate)
{
    const struct curve_point *below = curve_not_exceed(v, rate), *above = below + 1;
    if (below + 1 == v->points + v->n_points || above->rate - rate >= rate - below->rate - TARGET_SLACK)
        return below;
    return above;
}

struct threshold_effect threshold_effect(const struct cascade *c, double t)
{
    struct threshold_effect f = {0, NAN, NAN, NAN};
    double sum = 0, weight = 0, kept_sum = 0, kept_weight = 0;
    for (size_t i = 0; i < c->n; i++) {
        bool keep = c->confidence[i] >= t;
        double w = c->weight ? c->weight[i] : 1;
        f.n_handoff += !keep;
        sum += keep ? c->local[i] : c->reference[i];
        weight += w;
        kept_sum += keep ? c->local[i] : 0;
        kept_weight += keep ? w : 0;
    }
    if (c->n)
        f.rate = (double)f.n_handoff / (double)c->n;
    if (weight > 0)
        f.metric = sum / weight;
    if (kept_weight > 0)
        f.kept = kept_sum / kept_weight;
    return f;
}
