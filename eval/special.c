/* special.c - the beta function carries the t and the binomial distribution.
 *
 * Powers such as x^a (1-x)^b / B(a, b) are computed by deviances (Loader 2000, "Fast and accurate computation of
 * binomial probabilities"): large logarithms that cancel are never formed.
 */
#include "eval/special.h"

#include <math.h>

static const double two_pi = 6.283185307179586477, sqrt_half = 0.70710678118654752440;

double normal_cdf(double z)
{
    return 0.5 * erfc(-z * sqrt_half);
}

/* Hastings' approximation (Abramowitz and Stegun 26.2.23), then Halley's method on the distribution function. */
double normal_quantile(double p)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    double tail = fmin(p, 1 - p), t = sqrt(-2 * log(tail));
    double z = -(t - (2.515517 + t * (0.802853 + t * 0.010328))
                     / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
    for (int i = 0; i < 4; i++) {
        double step = (normal_cdf(z) - tail) * sqrt(two_pi) * exp(z * z / 2);
        z -= step / (1 + z * step / 2);
    }
    return p < 0.5 ? z : -z;
}

/* ln(Gamma(z)) minus Stirling's (z - 1/2) ln z - z + ln(2 pi)/2, z > 0. */
static double stirling_error(double z)
{
    double shift = 0;
    for (; z < 16; z++)                         /* Gamma(z + 1) = z Gamma(z) */
        shift += (z + 0.5) * log1p(1 / z) - 1;
    double q = 1 / (z * z);
    return shift + (1.0 / 12 - q * (1.0 / 360 - q * (1.0 / 1260 - q * (1.0 / 1680 - q / 1188)))) / z;
}

/* x ln(x / m) + m - x without cancellation near x = m; x >= 0, m > 0, off = x - m. */
static double deviance(double x, double m, double off)
{
    if (x == 0)
        return m;
    double v = off / (x + m);
    if (fabs(v) > 0.1)
        return x * log(x / m) - off;
    double sum = off * v, term = 2 * x * v, v2 = v * v;
    for (int j = 3; j < 60; j += 2) {
        term *= v2;
        double next = sum + term / j;
        if (next == sum)
            break;
        sum = next;
    }
    return sum;
}

/* x^a y^b / B(a, b) with y = 1 - x. */
static double beta_power(double x, double y, double a, double b)
{
    double s = a + b, off = x < y ? a - s * x : s * y - b;      /* by the one that is not rounded next to 1 */
    return sqrt(a / s * b / two_pi) * exp(stirling_error(s) - stirling_error(a) - stirling_error(b)
                                           - deviance(a, s * x, off) - deviance(b, s * y, -off));
}

/* Continued fraction of I_x(a, b) (DLMF 8.17.22) by the modified Lentz algorithm; converges fast for
 * x < (a + 1) / (a + b + 2), in about sqrt(a + b) steps at worst. */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double f = d;
    for (int m = 1; m < 1000000; m++) {
        double numerator[2] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                               -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double change = 1;
        for (int k = 0; k < 2; k++) {
            d = 1 + numerator[k] * d;
            c = 1 + numerator[k] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            f *= c * d;
            change = c * d;
        }
        if (fabs(change - 1) < 1e-15)
            break;
    }
    return f;
}

/* I_x(a, b) with y = 1 - x given apart: neither is lost next to 1. */
static double beta_cdf_of(double x, double y, double a, double b)
{
    if (!(x > 0))
        return x <= 0 ? 0 : NAN;
    if (!(y > 0))
        return 1;
    double power = beta_power(x, y, a, b);
    return x < (a + 1) / (a + b + 2) ? power * beta_fraction(x, a, b) / a : 1 - power * beta_fraction(y, b, a) / b;
}

double beta_cdf(double x, double a, double b)
{
    return beta_cdf_of(x, 1 - x, a, b);
}

/* Newton's method inside a shrinking bracket. */
double beta_quantile(double p, double a, double b)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? 0 : p == 1 ? 1 : NAN;
    double lo = 0, hi = 1, x = a / (a + b);
    for (int i = 0; i < 400; i++) {
        double miss = beta_cdf(x, a, b) - p;
        *(miss > 0 ? &hi : &lo) = x;
        double next = x - miss * x * (1 - x) / beta_power(x, 1 - x, a, b);
        if (fabs(next - x) <= 2e-16 * x)
            return next;
        x = next > lo && next < hi ? next : lo + (hi - lo) / 2;
    }
    return x;
}

double student_t_quantile(double p, double df)
{
    double y = beta_quantile(fabs(2 * p - 1), 0.5, df / 2), t = sqrt(df * y / (1 - y));
    return p < 0.5 ? -t : t;
}

double binomial_pmf(double k, double n, double p)
{
    if (!(k >= 0 && k <= n))
        return 0;
    if (k == 0)
        return exp(n * log1p(-p));
    if (k == n)
        return exp(n * log(p));
    if (!(p > 0 && p < 1))
        return 0;
    double off = k - n * p;
    return sqrt(n / (two_pi * k * (n - k)))
         * exp(stirling_error(n) - stirling_error(k) - stirling_error(n - k) - deviance(k, n * p, off)
               - deviance(n - k, n * (1 - p), -off));
}

double binomial_cdf(double k, double n, double p)
{
    return k < 0 ? 0 : k >= n ? 1 : beta_cdf_of(1 - p, p, n - k, k + 1);
}

double clopper_pearson_upper(double k, double n, double delta)
{
    return k >= n ? 1 : beta_quantile(1 - delta, k + 1, n - k);
}

double clopper_pearson_lower(double k, double n, double delta)
{
    return k <= 0 ? 0 : beta_quantile(delta, k, n - k + 1);
}

void wilson_interval(double k, double n, double delta, double *lo, double *hi)
{
    *lo = 0;
    *hi = 1;
    if (!(n > 0))
        return;
    double z = normal_quantile(1 - delta / 2), p = k / n, q = z * z / n;
    double centre = (p + q / 2) / (1 + q), half = z * sqrt(p * (1 - p) / n + q / (4 * n)) / (1 + q);
    *lo = k > 0 ? fmax(0, centre - half) : 0;
    *hi = k < n ? fmin(1, centre + half) : 1;
}
