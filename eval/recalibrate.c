/* recalibrate.c - Platt's sigmoid and temperature scaling, fitted on the blocks of a ranking.
 *
 * Platt 1999; the fit is Newton's method with step halving (Lin, Lin and Weng 2007). Guo et al. 2017 (temperature).
 */
#include "eval/calib.h"

#include <math.h>

double clipped_logit(double confidence)
{
    double c = fmin(fmax(confidence, 1e-6), 1 - 1e-6);
    return log(c) - log1p(-c);
}

static double sigmoid(double z)
{
    return z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z));
}

/* -ln sigmoid(z) */
static double softplus_minus(double z)
{
    return z >= 0 ? log1p(exp(-z)) : -z + log1p(exp(z));
}

struct classes { double wrong, right; double lo[2], hi[2]; };    /* lowest and highest s of right [0] and wrong [1] */

static struct classes classes_of(const struct ranking *r)
{
    struct classes c = {0, 0, {INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    for (size_t b = 0; b < r->n_blocks; b++) {
        double s = clipped_logit(r->score[b]), rows[2] = {r->weight[b] - r->wrong[b], r->wrong[b]};
        c.right += rows[0];
        c.wrong += rows[1];
        for (int k = 0; k < 2; k++)
            if (rows[k] > 0) {
                c.lo[k] = fmin(c.lo[k], s);
                c.hi[k] = fmax(c.hi[k], s);
            }
    }
    return c;
}

static const char *why_not(const struct classes *c, bool smoothed)
{
    if (!(c->wrong > 0 && c->right > 0))
        return "one_class: needs right and wrong answers";
    if (c->lo[0] == c->hi[0] && c->lo[1] == c->hi[1] && c->lo[0] == c->lo[1])
        return "constant: every confidence is the same";
    if (!smoothed && (c->hi[1] <= c->lo[0] || c->hi[0] <= c->lo[1]))
        return "separable: the likelihood has no finite maximum";
    return NULL;
}

/* Sum of the negative log-likelihood of targets t_right and t_wrong, with gradient and Hessian in (a, b). */
struct loss { double value, ga, gb, haa, hab, hbb; };

static struct loss platt_loss(const struct ranking *r, double a, double b, double t_right, double t_wrong)
{
    struct loss l = {0};
    for (size_t i = 0; i < r->n_blocks; i++) {
        double s = clipped_logit(r->score[i]), z = a * s + b, p = sigmoid(z);
        double n = r->weight[i], y = (n - r->wrong[i]) * t_right + r->wrong[i] * t_wrong;       /* expected right */
        double miss = n * p - y, curvature = n * p * (1 - p);
        l.value += y * softplus_minus(z) + (n - y) * softplus_minus(-z);
        l.ga += miss * s;
        l.gb += miss;
        l.haa += curvature * s * s;
        l.hab += curvature * s;
        l.hbb += curvature;
    }
    return l;
}

static struct platt fit(const struct ranking *r, bool smoothed)
{
    struct classes c = classes_of(r);
    struct platt f = {NAN, NAN, NAN, why_not(&c, smoothed)};
    if (f.why)
        return f;
    double t_right = smoothed ? (c.right + 1) / (c.right + 2) : 1, t_wrong = smoothed ? 1 / (c.wrong + 2) : 0;
    f.a = 0;
    f.b = log((c.right + 1) / (c.wrong + 1));
    struct loss l = platt_loss(r, f.a, f.b, t_right, t_wrong);
    for (int i = 0; i < 200; i++) {
        double ridge = 1e-12 * (l.haa + l.hbb), haa = l.haa + ridge, hbb = l.hbb + ridge;
        double det = haa * hbb - l.hab * l.hab;
        double da = -(hbb * l.ga - l.hab * l.gb) / det, db = -(haa * l.gb - l.hab * l.ga) / det;
        /* Newton expects less of a fall than rounding hides: its last step is right, but cannot be checked. */
        bool last = -(l.ga * da + l.gb * db) <= 1e-13 * l.value;
        double step = 1;
        struct loss next = platt_loss(r, f.a + da, f.b + db, t_right, t_wrong);
        while (!last && !(next.value <= l.value) && step > 1e-10) {
            step /= 2;
            next = platt_loss(r, f.a + step * da, f.b + step * db, t_right, t_wrong);
        }
        if (!last && !(next.value <= l.value))
            break;                              /* rounding decides from here on */
        f.a += step * da;
        f.b += step * db;
        l = next;
        if (last || (fabs(da) < 1e-13 * (1 + fabs(f.a)) && fabs(db) < 1e-13 * (1 + fabs(f.b))))
            break;
    }
    f.nll = platt_loss(r, f.a, f.b, 1, 0).value / (c.wrong + c.right);
    return f;
}

struct platt platt_fit(const struct ranking *r)
{
    return fit(r, false);
}

struct platt platt_fit_smoothed(const struct ranking *r)
{
    return fit(r, true);
}

double platt_map(const struct platt *f, double confidence)
{
    return sigmoid(f->a * clipped_logit(confidence) + f->b);
}

/* The likelihood is convex in 1/t: its slope has one change of sign, found by bisection in ln t. */
struct temperature temperature_fit(const struct ranking *r)
{
    struct classes c = classes_of(r);
    struct temperature f = {NAN, NAN, NAN, false, NULL};
    double n = c.wrong + c.right;
    if (!(c.wrong > 0 && c.right > 0)) {
        f.why = "one_class: needs right and wrong answers";
        return f;
    }
    double lo = -5, hi = 5, cold = platt_loss(r, exp(5), 0, 1, 0).ga, hot = platt_loss(r, exp(-5), 0, 1, 0).ga;
    if (cold == 0 && hot == 0)
        hi = lo = 0;                            /* every logit is 0: no temperature changes anything */
    else if (cold <= 0)
        hi = lo;                                /* still falling at the sharpest map */
    else if (hot >= 0)
        lo = hi;
    f.at_bound = lo == hi && lo != 0;
    while (hi - lo > 1e-15 * (1 + fabs(lo))) {
        double mid = lo + (hi - lo) / 2;
        if (mid <= lo || mid >= hi)
            break;
        if (platt_loss(r, exp(-mid), 0, 1, 0).ga > 0)
            lo = mid;
        else
            hi = mid;
    }
    f.t = exp(lo);
    f.nll = platt_loss(r, 1 / f.t, 0, 1, 0).value / n;
    f.nll_before = platt_loss(r, 1, 0, 1, 0).value / n;
    return f;
}

double temperature_map(const struct temperature *f, double confidence)
{
    return sigmoid(clipped_logit(confidence) / f->t);
}
