/* paired.c - drift of the confidence, flips of answers and handoffs, verdicts. */
#include "eval/paired.h"
#include "eval/order.h"
#include "eval/special.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

struct drift drift(const double *a, const double *b, size_t n)
{
    struct drift d = {figure_undefined("no rows"), figure_undefined("needs two rows"),
                      interval_undefined("needs two rows")};
    double sum = 0, squares = 0;
    if (n == 0)
        return d;
    for (size_t i = 0; i < n; i++)
        sum += b[i] - a[i];
    d.mean = figure_of(sum / (double)n);
    for (size_t i = 0; i < n; i++)
        squares += (b[i] - a[i] - d.mean.value) * (b[i] - a[i] - d.mean.value);
    if (n < 2)
        return d;
    d.sd = figure_of(sqrt(squares / (double)(n - 1)));
    double half = student_t_quantile(0.975, (double)(n - 1)) * d.sd.value / sqrt((double)n);
    d.t = interval_of(d.mean.value - half, d.mean.value + half);
    return d;
}

struct handoff_flips handoff_flips(const double *a, const double *b, size_t n, double t)
{
    struct handoff_flips f = {0, 0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        bool keep_a = a[i] >= t, keep_b = b[i] >= t;
        ++*(keep_a ? keep_b ? &f.both_keep : &f.only_b_hands_off : keep_b ? &f.only_a_hands_off : &f.both_hand_off);
    }
    return f;
}

struct mcnemar mcnemar_of(size_t both, size_t only_a, size_t only_b, size_t neither)
{
    struct mcnemar m = {both + only_a + only_b + neither, both, only_a, only_b, neither, 1, 1,
                        figure_undefined("no rows"), NAN, interval_undefined("no rows")};
    double a = (double)only_a, b = (double)only_b, n = (double)m.n, least = fmin(a, b);
    if (a + b > 0) {
        double at_least = binomial_pmf(least, a + b, 0.5);
        m.p_exact = fmin(1, 2 * binomial_cdf(least, a + b, 0.5));
        m.p_mid = a == b ? 1 - at_least : m.p_exact - at_least;
    }
    if (m.n) {
        m.delta = figure_of((b - a) / n);
        m.se = sqrt(a + b - (b - a) * (b - a) / n) / n;
        m.wald = interval_of(m.delta.value - NORMAL_975 * m.se, m.delta.value + NORMAL_975 * m.se);
    }
    return m;
}

struct mcnemar mcnemar(const uint8_t *wrong_a, const uint8_t *wrong_b, size_t n)
{
    size_t count[2][2] = {{0, 0}, {0, 0}};
    for (size_t i = 0; i < n; i++)
        count[wrong_a[i] != 0][wrong_b[i] != 0]++;
    return mcnemar_of(count[0][0], count[0][1], count[1][0], count[1][1]);
}

void holm_adjust(const double *p, size_t n, double *adjusted)
{
    struct keyed *order = NEW(struct keyed, n ? n : 1);
    size_t tests = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(p[i]))
            adjusted[i] = NAN;
        else
            order[tests++] = (struct keyed){order_key(p[i], 0), i};
    }
    order_sort(order, tests);
    double least = 0;
    for (size_t k = 0; k < tests; k++) {
        least = fmax(least, fmin(1, (double)(tests - k) * p[order[k].row]));
        adjusted[order[k].row] = least;
    }
    free(order);
}

enum verdict verdict_of(struct interval ci, double margin)
{
    if (ci.why || isnan(ci.lo) || isnan(ci.hi))
        return VERDICT_UNDECIDED;
    return ci.lo >= -margin ? VERDICT_OK : ci.hi < -margin ? VERDICT_REGRESSED : VERDICT_UNDECIDED;
}

const char *verdict_name(enum verdict v)
{
    return v == VERDICT_OK ? "ok" : v == VERDICT_REGRESSED ? "regressed" : "undecided";
}

/* Without variance the difference is what it is: p is 0 or 1. */
struct margin_test margin_test(double delta, double se, double margin)
{
    double off = delta + margin, z = se > 0 ? off / se : off >= 0 ? INFINITY : -INFINITY;
    if (isnan(delta) || isnan(se))
        return (struct margin_test){NAN, NAN};
    return (struct margin_test){normal_cdf(z), normal_cdf(-z)};
}
