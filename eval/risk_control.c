/* risk_control.c - thresholds that keep the error among kept answers below alpha, with a guarantee or without. */
#include "eval/calib.h"
#include "eval/special.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

#define RISK_SLACK 1e-12                        /* alpha = 1 - 0.9 is not 0.1 */

static const char none[] = "no threshold certifiable";

static double risk_p(double k, double n, double alpha)
{
    return n > 0 ? binomial_cdf(k, n, alpha) : 1;
}

void risk_table(const struct ranking *r, const double *grid, size_t n_grid, double alpha, double delta,
                struct risk_point *table)
{
    double kept = 0, errors = 0;
    size_t b = 0;
    for (size_t g = n_grid; g-- > 0;) {
        for (; b < r->n_blocks && r->score[b] >= grid[g]; b++) {
            kept += r->weight[b];
            errors += r->wrong[b];
        }
        table[g] = (struct risk_point){grid[g], (size_t)kept, (size_t)errors, risk_p(errors, kept, alpha),
                                       clopper_pearson_upper(errors, kept, delta)};
    }
}

/* Conformal risk control: n/(n+1) R + 1/(n+1) <= alpha, with R = errors among all n rows, those handed off included. */
static bool crc_holds(const struct ranking *r, const struct risk_point *p, double alpha)
{
    double n = (double)(r->n + r->n_excluded);
    return ((double)p->errors + 1) / (n + 1) <= alpha + RISK_SLACK;
}

static struct figure fixed_sequence(const struct risk_point *table, size_t n_grid, double delta, double start)
{
    struct figure best = figure_undefined(none);
    for (size_t g = n_grid; g-- > 0;) {
        if (table[g].lambda > start + RISK_SLACK)
            continue;
        if (table[g].p > delta)
            break;
        best = figure_of(table[g].lambda);
    }
    return best;
}

struct risk_choice risk_choose(const struct ranking *r, const struct risk_point *table, size_t n_grid, double alpha,
                               double delta, double start)
{
    struct figure f = figure_undefined(none);
    struct risk_choice c = {f, f, f, fixed_sequence(table, n_grid, delta, start), f};
    for (size_t g = n_grid; g-- > 0;) {
        const struct risk_point *p = &table[g];
        struct figure here = figure_of(p->lambda);
        if (p->n_kept > 0 && (double)p->errors <= (alpha + RISK_SLACK) * (double)p->n_kept)
            c.empirical_lowest = here;
        if (p->p <= delta)
            c.pointwise_cp_lowest = here;
        if (p->p <= delta / (double)n_grid)
            c.ltt_bonferroni = here;
        if (crc_holds(r, p, alpha))
            c.crc_joint = here;
    }
    return c;
}

struct sgr selection_guaranteed_risk(const struct ranking *r, double alpha, double delta)
{
    struct sgr s = {.threshold_valid = figure_undefined(none)};
    while (s.n_steps < 63 && UINT64_C(1) << s.n_steps < r->n)
        s.n_steps++;
    double *kept = NEW(double, r->n_blocks + 1), *errors = NEW(double, r->n_blocks + 1);
    for (size_t b = 0; b < r->n_blocks; b++) {  /* among the blocks 0..b, the most trusted ones */
        kept[b] = r->weight[b] + (b ? kept[b - 1] : 0);
        errors[b] = r->wrong[b] + (b ? errors[b - 1] : 0);
    }
    size_t lo = 1, hi = r->n;
    for (int i = 0; i < s.n_steps; i++) {
        size_t z = lo + (hi - lo + 1) / 2, first = 0, last = r->n_blocks - 1;
        double rank = (double)(r->n - z + 1);   /* the z-th smallest confidence is the rank-th largest */
        while (first < last) {
            size_t mid = first + (last - first) / 2;
            if (kept[mid] >= rank)
                last = mid;
            else
                first = mid + 1;
        }
        double bound = clopper_pearson_upper(errors[first], kept[first], delta / s.n_steps);
        s.trace[i] = (struct sgr_step){z, r->score[first], (size_t)kept[first], (size_t)errors[first], bound};
        if (bound < alpha) {
            hi = z;
            s.threshold_valid = figure_of(r->score[first]);
        } else {
            lo = z;
        }
    }
    free(kept);
    free(errors);
    return s;
}

static double relative_entropy(double a, double b)
{
    double left = a > 0 ? a * log(a / b) : 0, right = a < 1 ? (1 - a) * log((1 - a) / (1 - b)) : 0;
    return left + right;
}

double hoeffding_bentkus_p(double n, double rhat, double alpha)
{
    double hoeffding = exp(-n * relative_entropy(fmin(rhat, alpha), alpha));
    double bentkus = exp(1) * binomial_cdf(ceil(n * rhat - 1e-9), n, alpha);
    return fmin(1, fmin(hoeffding, bentkus));
}

double zero_error_minimum(double target_accuracy, double delta)
{
    return ceil(log(delta) / log(target_accuracy) - 1e-12);
}

struct kept_accuracy kept_accuracy_lowest(const struct ranking *r, double accuracy)
{
    struct kept_accuracy best = {figure_undefined("no threshold keeps answers of this accuracy"), NAN, NAN};
    double kept = 0, errors = 0, n = (double)(r->n + r->n_excluded);
    for (size_t b = 0; b < r->n_blocks; b++) {
        kept += r->weight[b];
        errors += r->wrong[b];
        if ((kept - errors) / kept >= accuracy - RISK_SLACK)
            best = (struct kept_accuracy){figure_of(r->score[b]), kept / n, (kept - errors) / kept};
    }
    return best;
}
