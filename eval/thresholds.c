/* thresholds.c - the threshold that costs least. */
#include "eval/calib.h"
#include "eval/curve.h"

double routing_cost(const struct curve *v, const struct curve_point *p, double c_handoff, double c_wrong)
{
    return c_handoff * p->rate + c_wrong * (v->lower_is_better ? p->metric : 1 - p->metric);
}

const struct curve_point *cheapest_point(const struct curve *v, double c_handoff, double c_wrong)
{
    const struct curve_point *best = v->points;
    double least = routing_cost(v, best, c_handoff, c_wrong);
    for (size_t i = 1; i < v->n_points; i++) {
        double cost = routing_cost(v, &v->points[i], c_handoff, c_wrong);
        if (cost < least - TARGET_SLACK) {
            least = cost;
            best = &v->points[i];
        }
    }
    return best;
}

double bayes_threshold(double reference_accuracy, double c_handoff, double c_wrong)
{
    return reference_accuracy - c_handoff / c_wrong;
}
