/* curve_bootstrap.c - how sure is a match rate? Rows are put in handoff order once; a resample is a count for each. */
#include "eval/curve.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

/* One row at its place in the handoff order; `row` is its number in the resample's counts. */
struct step { double local, reference, target, weight; uint32_t row; bool ends_block; };
struct walk { size_t n; struct step *steps; struct goal goal; enum match_rule rule; bool lower_is_better; };

static struct keyed *handoff_order(const struct cascade *c)
{
    struct keyed *a = NEW(struct keyed, c->n);
    for (size_t i = 0; i < c->n; i++)
        a[i] = (struct keyed){isnan(c->confidence[i]) ? 0 : order_key(c->confidence[i], 0), i};
    order_sort(a, c->n);
    return a;
}

static struct walk walk_make(const struct cascade *c, const struct goal *goal, enum match_rule rule)
{
    struct walk w = {c->n, NEW(struct step, c->n), *goal, rule, c->lower_is_better};
    struct keyed *a = handoff_order(c);
    for (size_t i = 0; i < c->n; i++) {
        size_t row = a[i].row;
        w.steps[i] = (struct step){c->local[row], c->reference[row],
                                   goal->target ? goal->target[row] : c->reference[row],
                                   c->weight ? c->weight[row] : 1, (uint32_t)row,
                                   i + 1 == c->n || a[i + 1].key != a[i].key};
    }
    free(a);
    return w;
}

/* Rate at which the resample matches; INFINITY: none; NaN: the metric is undefined. */
static double match_rate(const uint32_t *count, const void *data)
{
    const struct walk *w = data;
    double local = 0, target = 0, weight = 0, total = 0;
    for (size_t i = 0; i < w->n; i++) {
        double k = count[w->steps[i].row];
        local += k * w->steps[i].local;
        target += k * w->steps[i].target;
        weight += k * w->steps[i].weight;
        total += k;
    }
    if (!(weight > 0))
        return NAN;
    double sign = w->lower_is_better ? -1 : 1;
    double goal = w->goal.fixed ? w->goal.value : target / weight - sign * w->goal.points;
    double needed = sign * goal - TARGET_SLACK, sum = local, handed = 0;
    double rate = sign * sum / weight >= needed ? 0 : INFINITY;         /* where the present stretch of success began */
    for (size_t i = 0; i < w->n && !(w->rule == MATCH_FIRST && rate != INFINITY); i++) {
        double k = count[w->steps[i].row];
        sum += k * (w->steps[i].reference - w->steps[i].local);
        handed += k;
        if (!w->steps[i].ends_block)
            continue;
        if (sign * sum / weight < needed)
            rate = INFINITY;
        else if (rate == INFINITY)
            rate = handed / total;
    }
    return rate;
}

static double match_rate_delta(const uint32_t *count, const void *data)
{
    const struct walk *w = data;
    double a = match_rate(count, &w[0]), b = match_rate(count, &w[1]);
    return isinf(a) || isinf(b) ? NAN : a - b;
}

/* Answers that are right or wrong and count alike: a byte a row, in handoff order, and whole numbers. */
enum { LOCAL = 1, REFERENCE = 2, TARGET = 4, ENDS_BLOCK = 8 };
struct binary_walk { size_t n; uint8_t *steps; struct goal goal; enum match_rule rule; };

static bool all_binary(const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] != 0 && v[i] != 1)
            return false;
    return true;
}

static double binary_match_rate(const uint32_t *count, const void *data)
{
    const struct binary_walk *w = data;
    int64_t local = 0, target = 0, total = 0, handed = 0;
    for (size_t i = 0; i < w->n; i++) {
        uint32_t k = count[i];
        local += w->steps[i] & LOCAL ? k : 0;
        target += w->steps[i] & TARGET ? k : 0;
        total += k;
    }
    double goal = w->goal.fixed ? w->goal.value : (double)target / (double)total - w->goal.points;
    int64_t needed = (int64_t)ceil((goal - TARGET_SLACK) * (double)total), sum = local;
    double rate = sum >= needed ? 0 : INFINITY;
    for (size_t i = 0; i < w->n && !(w->rule == MATCH_FIRST && rate != INFINITY); i++) {
        uint8_t step = w->steps[i];
        sum += count[i] * (int64_t)((step >> 1 & 1) - (step & 1));
        handed += count[i];
        if (!(step & ENDS_BLOCK))
            continue;
        if (sum < needed)
            rate = INFINITY;
        else if (rate == INFINITY)
            rate = (double)handed / (double)total;
    }
    return rate;
}

/* Rows are exchangeable: counts are drawn in handoff order, so that nothing is looked up. Groups follow. */
static struct interval in_order(const struct cascade *c, const struct goal *goal, enum match_rule rule,
                                const struct resampling *how, bool binary)
{
    struct resampling sorted = *how;
    uint32_t *group = how->group ? NEW(uint32_t, c->n) : NULL;
    struct interval ci;
    if (binary) {
        const double *target = goal->target ? goal->target : c->reference;
        struct binary_walk w = {c->n, NEW(uint8_t, c->n), *goal, rule};
        struct keyed *a = handoff_order(c);
        for (size_t i = 0; i < c->n; i++) {
            size_t row = a[i].row;
            w.steps[i] = (uint8_t)((c->local[row] != 0 ? LOCAL : 0) | (c->reference[row] != 0 ? REFERENCE : 0) |
                                   (target[row] != 0 ? TARGET : 0) |
                                   (i + 1 == c->n || a[i + 1].key != a[i].key ? ENDS_BLOCK : 0));
            if (group)
                group[i] = how->group[row];
        }
        free(a);
        sorted.group = group;
        ci = bootstrap_interval(&sorted, c->n, binary_match_rate, &w);
        free(w.steps);
    } else {
        struct walk w = walk_make(c, goal, rule);
        for (size_t i = 0; i < c->n; i++) {
            if (group)
                group[i] = how->group[w.steps[i].row];
            w.steps[i].row = (uint32_t)i;
        }
        sorted.group = group;
        ci = bootstrap_interval(&sorted, c->n, match_rate, &w);
        free(w.steps);
    }
    free(group);
    return ci;
}

struct interval match_rate_bootstrap(const struct cascade *c, const struct goal *goal, enum match_rule rule,
                                     const struct resampling *how)
{
    if (c->n == 0 || c->n > UINT32_MAX)
        return interval_undefined("the bootstrap needs between 1 and 2^32 rows");
    bool binary = !c->weight && !c->lower_is_better && all_binary(c->local, c->n) && all_binary(c->reference, c->n) &&
                  (!goal->target || all_binary(goal->target, c->n));
    return in_order(c, goal, rule, how, binary);
}

struct interval match_rate_bootstrap_delta(const struct cascade *a, const struct cascade *b, const struct goal *goal,
                                           enum match_rule rule, const struct resampling *how)
{
    if (a->n == 0 || a->n > UINT32_MAX || a->n != b->n)
        return interval_undefined("a paired bootstrap needs the same rows twice");
    struct walk w[2] = {walk_make(a, goal, rule), walk_make(b, goal, rule)};
    struct interval ci = bootstrap_interval(how, a->n, match_rate_delta, w);
    free(w[0].steps);
    free(w[1].steps);
    return ci;
}
