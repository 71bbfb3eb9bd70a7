/* curve_oracle.c - the routing that knows both answers: an upper bound for every curve. */
#include "eval/curve.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

struct oracle oracle_make(const struct cascade *c)
{
    struct oracle o = {c->n, NEW(double, c->n + 1), c->lower_is_better};
    double sum = 0, weight = 0, sign = c->lower_is_better ? -1 : 1, *gain = o.metric + 1;
    for (size_t i = 0; i < c->n; i++) {
        gain[i] = -sign * (c->reference[i] - c->local[i]);      /* ascending order puts the largest gain first */
        sum += c->local[i];
        weight += c->weight ? c->weight[i] : 1;
    }
    order_doubles(gain, c->n);
    o.metric[0] = sum / weight;
    for (size_t k = 0; k < c->n; k++) {
        sum -= sign * gain[k];
        gain[k] = sum / weight;
    }
    return o;
}

void oracle_free(struct oracle *o)
{
    free(o->metric);
    *o = (struct oracle){0};
}

double oracle_rate(const struct oracle *o, double target)
{
    for (size_t k = 0; k <= o->n; k++)
        if (o->lower_is_better ? o->metric[k] <= target + TARGET_SLACK : o->metric[k] >= target - TARGET_SLACK)
            return (double)k / (double)o->n;
    return NAN;
}

double oracle_auc(const struct oracle *o)
{
    double sum = 0;
    for (size_t k = 0; k < o->n; k++)
        sum += (o->metric[k] + o->metric[k + 1]) / 2;
    return sum / (double)o->n;
}

double oracle_best(const struct oracle *o)
{
    double best = o->metric[0];
    for (size_t k = 1; k <= o->n; k++)
        best = o->lower_is_better ? fmin(best, o->metric[k]) : fmax(best, o->metric[k]);
    return best;
}
