/* curve_cost.c - what a cascade costs, and the best trade of cost against quality with three tiers.
 *
 * With both thresholds on one confidence the queries, sorted by it, fall into three stretches: [0, i) to the frontier
 * model, [i, j) to the middle one, [j, n) stay. Cost and quality of the pair (i, j) are each a sum A(i) + B(j), so the
 * hull over all i <= j is found by halving: pairs with i in the left half and j in the right one form a Minkowski sum
 * of two hulls, whose hull merges their edges by slope; the rest lies inside one of the halves. No pair is enumerated.
 */
#include "eval/curve.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

struct cost cost_at(const struct cost_model *m, double rate)
{
    return (struct cost){m->local_ms + rate * m->remote_ms, m->local_price + rate * m->call_price};
}

/* A pair of cuts, or one of them; quality is a sum that is better when higher. */
struct corner { double cost, quality; size_t low, high; };
struct chain { struct corner *v; size_t n, cap; };

static void chain_add(struct chain *c, struct corner p)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->v = mem_grow(c->v, c->cap, sizeof *c->v);
    }
    c->v[c->n++] = p;
}

/* Does b lie on or below the line from a to c? */
static bool is_inside(const struct corner *a, const struct corner *b, const struct corner *c)
{
    return (b->quality - a->quality) * (c->cost - a->cost) <= (c->quality - a->quality) * (b->cost - a->cost);
}

/* Adds a corner whose cost is at least that of all before it, keeping the chain concave and rising. */
static void hull_add(struct chain *c, struct corner p)
{
    if (c->n && p.quality <= c->v[c->n - 1].quality)
        return;
    if (c->n && p.cost <= c->v[c->n - 1].cost)
        c->n--;
    while (c->n >= 2 && is_inside(&c->v[c->n - 2], &c->v[c->n - 1], &p))
        c->n--;
    chain_add(c, p);
}

struct search {
    struct corner *a, *b;                       /* [n_cuts]: parts of the pair that depend on one cut */
    struct chain left, right, found;
};

static void merge_hulls(struct search *s)
{
    size_t i = 0, j = 0;
    for (;;) {
        const struct corner *a = &s->left.v[i], *b = &s->right.v[j];
        chain_add(&s->found, (struct corner){a->cost + b->cost, a->quality + b->quality, a->low, b->high});
        bool more_a = i + 1 < s->left.n, more_b = j + 1 < s->right.n;
        if (!more_a && !more_b)
            return;
        bool step_a = more_a;
        if (more_a && more_b)
            step_a = (a[1].quality - a->quality) * (b[1].cost - b->cost)
                   >= (b[1].quality - b->quality) * (a[1].cost - a->cost);
        *(step_a ? &i : &j) += 1;
    }
}

/* All pairs lo <= i <= j < hi; depth is the logarithm of their number. */
static void search_pairs(struct search *s, size_t lo, size_t hi)
{
    if (hi - lo == 1) {
        chain_add(&s->found, (struct corner){s->a[lo].cost + s->b[lo].cost, s->a[lo].quality + s->b[lo].quality, lo,
                                             lo});
        return;
    }
    size_t mid = lo + (hi - lo) / 2;
    s->left.n = s->right.n = 0;
    for (size_t i = lo; i < mid; i++)
        hull_add(&s->left, s->a[i]);
    for (size_t j = mid; j < hi; j++)
        hull_add(&s->right, s->b[j]);
    merge_hulls(s);
    search_pairs(s, lo, mid);
    search_pairs(s, mid, hi);
}

/* The hull of everything found. */
static struct chain final_hull(const struct chain *found)
{
    struct chain hull = {0};
    struct keyed *order = NEW(struct keyed, found->n);
    for (size_t i = 0; i < found->n; i++)
        order[i] = (struct keyed){order_key(found->v[i].cost, 0), i};
    order_sort(order, found->n);
    for (size_t i = 0; i < found->n; i++)
        hull_add(&hull, found->v[order[i].row]);
    free(order);
    return hull;
}

static bool tiers_valid(const struct tiers *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (isnan(t->confidence[i]) || !isfinite(t->value[0][i]) || !isfinite(t->value[1][i])
            || !isfinite(t->value[2][i]))
            return false;
    return t->n > 0 && t->cost[1] >= 0 && t->cost[2] >= t->cost[1] && isfinite(t->cost[2]);
}

/* Cuts between distinct confidences: at[k] rows lie below cut k, first[k] is the smallest confidence above it. */
struct cuts { size_t n; size_t *at; double *first; };

static struct cuts make_parts(const struct tiers *t, struct search *s, double *weight)
{
    struct keyed *order = order_of(t->confidence, t->n);
    struct cuts c = {0, NEW(size_t, t->n + 1), NEW(double, t->n + 1)};
    double sign = t->lower_is_better ? -1 : 1, sum[3] = {0, 0, 0};
    s->a = NEW(struct corner, t->n + 1);
    s->b = NEW(struct corner, t->n + 1);
    *weight = 0;
    for (size_t i = 0; i <= t->n; i++) {
        if (i == 0 || i == t->n || order[i].key != order[i - 1].key) {
            double k = (double)i;
            c.at[c.n] = i;
            c.first[c.n] = i < t->n ? t->confidence[order[i].row] : INFINITY;
            s->a[c.n] = (struct corner){k * (t->cost[2] - t->cost[1]), sign * (sum[2] - sum[1]), c.n, 0};
            s->b[c.n] = (struct corner){k * t->cost[1], sign * (sum[1] - sum[0]), 0, c.n};
            c.n++;
        }
        if (i < t->n) {
            for (int k = 0; k < 3; k++)
                sum[k] += t->value[k][order[i].row];
            *weight += t->weight ? t->weight[order[i].row] : 1;
        }
    }
    for (size_t k = 0; k < c.n; k++)            /* what stays on the device */
        s->b[k].quality += sign * sum[0];
    free(order);
    return c;
}

size_t tier_frontier(const struct tiers *t, struct tier_point **points)
{
    struct search s = {0};
    double weight, n = (double)t->n, sign = t->lower_is_better ? -1 : 1;
    *points = NULL;
    if (!tiers_valid(t))
        return 0;
    struct cuts c = make_parts(t, &s, &weight);
    search_pairs(&s, 0, c.n);
    struct chain hull = final_hull(&s.found);
    *points = NEW(struct tier_point, hull.n);
    for (size_t i = 0; i < hull.n; i++) {
        const struct corner *p = &hull.v[i];
        double low = (double)c.at[p->low], high = (double)c.at[p->high];
        (*points)[i] = (struct tier_point){t->cost[0] + p->cost / n, sign * p->quality / weight, c.first[p->low],
                                           c.first[p->high], {(n - high) / n, (high - low) / n, low / n}};
    }
    free(s.a);
    free(s.b);
    free(s.left.v);
    free(s.right.v);
    free(s.found.v);
    free(hull.v);
    free(c.at);
    free(c.first);
    return hull.n;
}
