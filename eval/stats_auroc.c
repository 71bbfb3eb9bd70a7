/* stats_auroc.c - AUROC, its variance by DeLong, average precision.
 *
 * psi(x, y) = 1 if the wrong answer scores above the right one, 1/2 on a tie, else 0. The structural component of a
 * wrong answer is the mean of psi over all right ones (V10), that of a right answer the mean over all wrong ones (V01):
 * both are read off running counts over the sorted blocks, so nothing is quadratic.
 */
#include "eval/stats.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

static const char one_class[] = "undefined_one_class: AUROC needs right and wrong answers";
static const char one_row[] = "undefined_one_row: DeLong's variance needs two right and two wrong answers";

struct totals { double wrong, right; };

static struct totals totals_of(const struct ranking *r)
{
    struct totals t = {0, 0};
    for (size_t b = 0; b < r->n_blocks; b++) {
        t.wrong += r->wrong[b];
        t.right += r->weight[b] - r->wrong[b];
    }
    return t;
}

struct figure auroc(const struct ranking *r)
{
    struct totals t = totals_of(r);
    if (r->sorted_loss)
        return figure_undefined("AUROC needs labels, not a loss");
    if (!(t.wrong > 0 && t.right > 0))
        return figure_undefined(one_class);
    double twice_won = 0, right_below = 0;      /* whole numbers without weights: exact up to 2^53 pairs */
    for (size_t b = 0; b < r->n_blocks; b++) {
        double right = r->weight[b] - r->wrong[b];
        twice_won += r->wrong[b] * (2 * right_below + right);
        right_below += right;
    }
    return figure_of(twice_won / (2 * t.wrong * t.right));
}

struct figure auprc(const struct ranking *r)
{
    struct totals t = totals_of(r);
    if (r->sorted_loss)
        return figure_undefined("AUPRC needs labels, not a loss");
    if (!(t.wrong > 0))
        return figure_undefined("AUPRC needs a wrong answer");
    double found = 0, flagged = 0, sum = 0;
    for (size_t b = r->n_blocks; b-- > 0;) {
        found += r->wrong[b];
        flagged += r->weight[b];
        sum += r->wrong[b] / t.wrong * (found / flagged);
    }
    return figure_of(sum);
}

static void intervals(struct delong *d)
{
    double a = d->auroc.value, half = NORMAL_975 * d->se.value;
    d->wald = interval_of(fmax(0, a - half), fmin(1, a + half));
    if (a <= 0 || a >= 1) {
        d->logit = interval_undefined("the logit interval is undefined at an AUROC of 0 or 1");
        return;
    }
    double centre = log(a) - log1p(-a);
    half /= a * (1 - a);
    d->logit = interval_of(1 / (1 + exp(-(centre - half))), 1 / (1 + exp(-(centre + half))));
}

struct delong delong(const struct ranking *r)
{
    struct delong d = {.auroc = auroc(r)};
    struct totals t = totals_of(r);
    const char *why = d.auroc.why ? d.auroc.why : r->weighted ? "DeLong's variance is not defined with weights"
                    : t.wrong < 2 || t.right < 2 ? one_row : NULL;
    if (why) {
        d.var = d.se = figure_undefined(why);
        d.wald = d.logit = interval_undefined(why);
        return d;
    }
    double s10 = 0, s01 = 0, right_below = 0, wrong_below = 0;
    for (size_t b = 0; b < r->n_blocks; b++) {
        double wrong = r->wrong[b], right = r->weight[b] - wrong;
        double v10 = (2 * right_below + right) / (2 * t.right) - d.auroc.value;
        double v01 = (2 * (t.wrong - wrong_below) - wrong) / (2 * t.wrong) - d.auroc.value;
        s10 += wrong * v10 * v10;
        s01 += right * v01 * v01;
        right_below += right;
        wrong_below += wrong;
    }
    d.var = figure_of(s10 / (t.wrong - 1) / t.wrong + s01 / (t.right - 1) / t.right);
    d.se = figure_of(sqrt(d.var.value));
    intervals(&d);
    return d;
}

struct interval delong_interval(const struct delong *d, size_t n_wrong)
{
    return n_wrong < 50 ? d->logit : d->wald;
}

/* Structural component of every row: V10 for a wrong one, V01 for a right one. */
static double *components(const double *score, enum orientation orientation, const uint8_t *wrong, size_t n,
                          double n_wrong, double n_right)
{
    struct keyed *a = NEW(struct keyed, n);
    double *v = NEW(double, n), right_below = 0, wrong_below = 0;
    for (size_t i = 0; i < n; i++)
        a[i] = (struct keyed){order_key(score[i], orientation == HIGHER_IS_RIGHT), i};
    order_sort(a, n);
    for (size_t i = 0, end; i < n; i = end) {
        double here_wrong = 0, here_right = 0;
        for (end = i; end < n && a[end].key == a[i].key; end++)
            *(wrong[a[end].row] ? &here_wrong : &here_right) += 1;
        for (size_t k = i; k < end; k++)
            v[a[k].row] = wrong[a[k].row] ? (2 * right_below + here_right) / (2 * n_right)
                                          : (2 * (n_wrong - wrong_below) - here_wrong) / (2 * n_wrong);
        wrong_below += here_wrong;
        right_below += here_right;
    }
    free(a);
    return v;
}

static struct delong_pair pair_undefined(struct delong_pair d, const char *why)
{
    d.var_a = d.var_b = d.cov = NAN;
    d.var_delta = d.se_delta = d.z = d.p = figure_undefined(why);
    d.wald_delta = interval_undefined(why);
    return d;
}

/* Mean of the components over the wrong rows: the AUROC. */
static double mean_over_wrong(const double *v, const uint8_t *wrong, size_t n, double n_wrong)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += wrong[i] ? v[i] : 0;
    return sum / n_wrong;
}

/* The variance of the difference is taken from the differences of the components, not from three variances: it is then
 * exactly 0 for two scores that order the rows alike. */
static void pair_variances(struct delong_pair *d, const double *va, const double *vb, const uint8_t *wrong, size_t n,
                           double n_wrong, double n_right)
{
    double a = d->auroc_a.value, b = d->auroc_b.value, s[2][4] = {{0}};
    for (size_t i = 0; i < n; i++) {
        double x = va[i] - a, y = vb[i] - b, z = va[i] - vb[i] - d->delta.value, *t = s[wrong[i] != 0];
        t[0] += x * x;
        t[1] += y * y;
        t[2] += x * y;
        t[3] += z * z;
    }
    double part[4];
    for (int k = 0; k < 4; k++)
        part[k] = s[1][k] / (n_wrong - 1) / n_wrong + s[0][k] / (n_right - 1) / n_right;
    d->var_a = part[0];
    d->var_b = part[1];
    d->cov = part[2];
    d->var_delta = figure_of(part[3]);
    d->se_delta = figure_of(sqrt(part[3]));
}

static void pair_test(struct delong_pair *d)
{
    double delta = d->delta.value, se = d->se_delta.value;
    if (se > 0) {
        d->z = figure_of(delta / se);
        d->p = figure_of(erfc(fabs(d->z.value) / sqrt(2)));
    } else {
        d->z = figure_undefined("the difference has no variance");
        d->p = delta == 0 ? figure_of(1) : d->z;
    }
    d->wald_delta = interval_of(delta - NORMAL_975 * se, delta + NORMAL_975 * se);
}

struct delong_pair delong_paired(const double *score_a, enum orientation orientation_a,
                                 const double *score_b, enum orientation orientation_b,
                                 const uint8_t *wrong, size_t n)
{
    struct delong_pair d = {0};
    double n_wrong = 0;
    bool nan = false;
    for (size_t i = 0; i < n; i++) {
        n_wrong += wrong[i] != 0;
        nan |= isnan(score_a[i]) || isnan(score_b[i]);
    }
    double n_right = (double)n - n_wrong;
    if (nan || n_wrong == 0 || n_right == 0) {
        const char *why = nan ? "nan_score: a score is not a number" : one_class;
        d.auroc_a = d.auroc_b = d.delta = figure_undefined(why);
        return pair_undefined(d, why);
    }
    double *va = components(score_a, orientation_a, wrong, n, n_wrong, n_right);
    double *vb = components(score_b, orientation_b, wrong, n, n_wrong, n_right);
    d.auroc_a = figure_of(mean_over_wrong(va, wrong, n, n_wrong));
    d.auroc_b = figure_of(mean_over_wrong(vb, wrong, n, n_wrong));
    d.delta = figure_of(d.auroc_a.value - d.auroc_b.value);
    if (n_wrong < 2 || n_right < 2) {
        d = pair_undefined(d, one_row);
    } else {
        pair_variances(&d, va, vb, wrong, n, n_wrong, n_right);
        pair_test(&d);
    }
    free(va);
    free(vb);
    return d;
}

struct macro_mean macro_mean(const struct delong *tasks, size_t n_tasks)
{
    struct macro_mean m = {.mean = figure_of(0), .se = figure_of(0)};
    const char *why = n_tasks ? NULL : "a mean needs a hold-out", *why_se = why;
    double var = 0;
    for (size_t i = 0; i < n_tasks; i++) {
        why = why ? why : tasks[i].auroc.why;
        why_se = why_se ? why_se : tasks[i].var.why;
        m.mean.value += tasks[i].auroc.value / (double)n_tasks;
        var += tasks[i].var.value;
    }
    m.se = figure_of(sqrt(var) / (double)n_tasks);
    m.wald = interval_of(fmax(0, m.mean.value - NORMAL_975 * m.se.value),
                         fmin(1, m.mean.value + NORMAL_975 * m.se.value));
    if (why)
        m.mean = figure_undefined(why);
    if (why_se) {
        m.se = figure_undefined(why_se);
        m.wald = interval_undefined(why_se);
    }
    return m;
}
