#include "eval/planner.h"
#include "eval/special.h"

#include <math.h>
#include <stdbool.h>

double hanley_mcneil_var(double auroc, double n_wrong, double n_right)
{
    double a2 = auroc * auroc, q1 = auroc / (2 - auroc), q2 = 2 * a2 / (1 + auroc);
    return (auroc * (1 - auroc) + (n_wrong - 1) * (q1 - a2) + (n_right - 1) * (q2 - a2)) / (n_wrong * n_right);
}

static double var_at(double auroc, double wrong_rate, double n)
{
    return hanley_mcneil_var(auroc, n * wrong_rate, n * (1 - wrong_rate));
}

static double squared_error(const struct auroc_plan *p, double n)
{
    double v0 = var_at(p->auroc_a, p->wrong_rate, n), v1 = var_at(p->auroc_b, p->wrong_rate, n);
    return v0 + v1 - 2 * p->correlation * sqrt(v0 * v1);
}

/* Smallest whole n at which `enough` holds; it must stay true from there on. NaN above 10^15. */
static double smallest(bool (*enough)(const void *, double), const void *question)
{
    double lo = 1, hi = 2;
    while (!enough(question, hi)) {
        lo = hi;
        hi *= 2;
        if (hi > 1e15)
            return NAN;
    }
    while (hi - lo > 1) {
        double mid = floor((lo + hi) / 2);
        *(enough(question, mid) ? &hi : &lo) = mid;
    }
    return hi;
}

static bool difference_shows(const void *question, double n)
{
    const struct auroc_plan *p = question;
    double z = normal_quantile(1 - p->alpha / 2) + normal_quantile(p->power), gap = p->auroc_a - p->auroc_b;
    return z * z * squared_error(p, n) <= gap * gap;
}

static bool is_share(double v)
{
    return v > 0 && v < 1;
}

double plan_auroc_difference(const struct auroc_plan *p)
{
    if (!is_share(p->wrong_rate) || !is_share(p->alpha) || !is_share(p->power) || !is_share(p->auroc_a)
        || !is_share(p->auroc_b) || p->auroc_a == p->auroc_b || !(fabs(p->correlation) <= 1))
        return NAN;
    return smallest(difference_shows, p);
}

struct width { double auroc, wrong_rate, half; };

static bool narrow_enough(const void *question, double n)
{
    const struct width *w = question;
    return normal_quantile(0.975) * sqrt(var_at(w->auroc, w->wrong_rate, n)) <= w->half;
}

double plan_auroc_half_width(double auroc, double wrong_rate, double half_width)
{
    if (!is_share(auroc) || !is_share(wrong_rate) || !(half_width > 0))
        return NAN;
    return smallest(narrow_enough, &(struct width){auroc, wrong_rate, half_width});
}

double plan_mcnemar_pairs(double p_only_a, double p_only_b, double alpha, double power)
{
    double both = p_only_a + p_only_b, gap = p_only_a - p_only_b;
    if (!(p_only_a >= 0 && p_only_b >= 0 && both <= 1) || gap == 0 || !is_share(alpha) || !is_share(power))
        return NAN;
    double z_a = normal_quantile(1 - alpha / 2), z_b = normal_quantile(power);
    double root = z_a * sqrt(both) + z_b * sqrt(both - gap * gap);
    return ceil(root * root / (gap * gap));
}
