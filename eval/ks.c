/* ks.c - Kolmogorov-Smirnov: have two samples the same distribution?
 *
 * One-sample distribution by three methods, each where it is good: Smirnov's finite sum for the tail, the matrix power
 * of Marsaglia, Tsang and Wang (2003) for small n, the expansion of Pelz and Good (1976) for large n; the choice
 * follows Simard and L'Ecuyer (2011).
 */
#include "eval/paired.h"
#include "eval/order.h"
#include "eval/special.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATH_CELLS 4e7

static const double pi = 3.14159265358979323846;

/* P(D+_n >= d), one-sided; all terms are positive. */
static double smirnov_sf(double n, double d)
{
    double sum = 0, last = floor(n * (1 - d));
    for (double j = 0; j <= last; j++) {
        double p = d + j / n;
        sum += binomial_pmf(j, n, p) / p;
    }
    return fmin(1, d * sum);
}

static void matrix_product(const double *a, const double *b, double *c, size_t m)
{
    memset(c, 0, m * m * sizeof *c);
    for (size_t i = 0; i < m; i++)
        for (size_t k = 0; k < m; k++)
            for (size_t j = 0; j < m; j++)
                c[i * m + j] += a[i * m + k] * b[k * m + j];
}

/* The matrix of Marsaglia, Tsang and Wang: m = 2k - 1, h = k - n d. */
static double *kolmogorov_matrix(size_t m, double h)
{
    double *a = NEW(double, m * m);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            a[i * m + j] = j <= i + 1;
    for (size_t i = 0; i < m; i++) {
        a[i * m] -= pow(h, (double)(i + 1));
        a[(m - 1) * m + i] -= pow(h, (double)(m - i));
    }
    a[(m - 1) * m] += 2 * h > 1 ? pow(2 * h - 1, (double)m) : 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < i + 1 && j < m; j++)
            for (size_t f = 2; f <= i - j + 1; f++)
                a[i * m + j] /= (double)f;
    return a;
}

/* P(D_n < d) = n! / n^n times the middle element of the n-th power, scaled on the way. */
static double kolmogorov_by_matrix(size_t n, double d)
{
    size_t k = (size_t)((double)n * d) + 1, m = 2 * k - 1, middle = (k - 1) * m + k - 1;
    double *base = kolmogorov_matrix(m, (double)k - (double)n * d), *power = NEW(double, m * m);
    double *product = NEW(double, m * m), *swap;
    int base_exponent = 0, exponent = 0;
    for (size_t i = 0; i < m; i++)
        power[i * m + i] = 1;
    for (size_t e = n; e; e >>= 1) {
        if (e & 1) {
            matrix_product(power, base, product, m);
            swap = power, power = product, product = swap;
            exponent += base_exponent;
        }
        matrix_product(base, base, product, m);
        swap = base, base = product, product = swap;
        base_exponent *= 2;
        if (base[middle] > 0x1p300) {
            for (size_t i = 0; i < m * m; i++)
                base[i] *= 0x1p-300;
            base_exponent += 300;
        }
        if (power[middle] > 0x1p300) {
            for (size_t i = 0; i < m * m; i++)
                power[i] *= 0x1p-300;
            exponent += 300;
        }
    }
    double s = power[middle];
    for (size_t i = 1; i <= n; i++) {
        s *= (double)i / (double)n;
        if (s < 0x1p-300) {
            s *= 0x1p300;
            exponent -= 300;
        }
    }
    free(base);
    free(power);
    free(product);
    return ldexp(s, exponent);
}

/* Expansion of P(D_n <= d) in 1/sqrt(n) to the third order; the series run over k + 1/2 and over k. */
static double kolmogorov_by_expansion(double n, double d)
{
    double z = sqrt(n) * d, z2 = z * z, z4 = z2 * z2, z6 = z4 * z2, sum[4] = {0}, even2 = 0, even3 = 0;
    for (int k = 40; k >= 0; k--) {             /* k + 1/2 and -(k + 1/2) together: hence the factor 2 below */
        double u = pi * pi * (k + 0.5) * (k + 0.5), e = exp(-u / (2 * z2));
        sum[0] += e;
        sum[1] += (u - z2) * e;
        sum[2] += ((6 * z6 + 2 * z4) + u * (2 * z4 - 5 * z2) + u * u * (1 - 2 * z2)) * e;
        sum[3] += (u * u * u * (5 - 30 * z2) + u * u * (-60 * z2 + 212 * z4) + u * (135 * z4 - 96 * z6)
                   - (30 * z6 + 90 * z6 * z2)) * e;
        double v = pi * pi * k * k, f = exp(-v / (2 * z2));
        even2 += v * f;
        even3 += (3 * v * z2 - v * v) * f;
    }
    double root = sqrt(pi / 2);
    double k0 = 2 * root / z * sum[0], k1 = root / (3 * z4) * sum[1];
    double k2 = root / (36 * z6 * z) * sum[2] - root / (18 * z2 * z) * even2;
    double k3 = root / (3240 * z6 * z4) * sum[3] + root / (108 * z6) * even3;
    return k0 + k1 / sqrt(n) + k2 / n + k3 / (n * sqrt(n));
}

double kolmogorov_sf(double n, double d)
{
    if (!(n >= 1) || isnan(d))
        return NAN;
    if (d <= 0.5 / n)
        return 1;
    if (d >= 1)
        return 0;
    if (n * d * d > 4)                          /* both sides at once is then below 10^-13 */
        return fmin(1, 2 * smirnov_sf(n, d));
    double cdf = n <= 1000 ? kolmogorov_by_matrix((size_t)n, d) : kolmogorov_by_expansion(n, d);
    return fmin(1, fmax(0, 1 - cdf));
}

/* P(D >= h/n) for two samples of n: reflected paths. Telescoped from the innermost term, as all factors are below 1. */
static double exact_equal(size_t n, size_t h)
{
    double p = 0;
    if (h == 0)
        return 1;
    for (size_t k = n / h + 1; k-- > 0;) {
        double factor = 1;
        for (size_t j = 0; j < h && factor > 0; j++)
            factor *= (double)n - (double)(k * h) - (double)j > 0
                    ? ((double)n - (double)(k * h) - (double)j) / ((double)n + (double)(k * h) + (double)j + 1) : 0;
        p = factor * (1 - p);
    }
    return fmin(1, 2 * p);
}

/* Share of the lattice paths from (0, 0) to (m, n) that touch |i/m - j/n| >= d; a path's steps are drawn backwards, so
 * each cell holds the probability of having stayed inside. */
static double exact_unequal(size_t m, size_t n, double d)
{
    double *inside = NEW(double, n + 1), bound = d - 1e-12;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            double x = (double)i, y = (double)j, from_left = i ? inside[j] : 0, from_below = j ? inside[j - 1] : 0;
            inside[j] = i + j == 0 ? 1 : (x * from_left + y * from_below) / (x + y);
            if (fabs(x / (double)m - y / (double)n) >= bound)
                inside[j] = 0;
        }
    double p = 1 - inside[n];
    free(inside);
    return p;
}

struct ks ks_two_sample(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct figure none = figure_undefined("needs a row in each sample");
    struct ks k = {none, none, none};
    if (n_a == 0 || n_b == 0)
        return k;
    struct keyed *x = order_of(a, n_a), *y = order_of(b, n_b);
    double d = 0, n = (double)n_a, m = (double)n_b;
    size_t i = 0, j = 0;
    while (i < n_a && j < n_b) {
        uint64_t at = x[i].key < y[j].key ? x[i].key : y[j].key;
        while (i < n_a && x[i].key == at)
            i++;
        while (j < n_b && y[j].key == at)
            j++;
        d = fmax(d, fabs((double)i / n - (double)j / m));
    }
    free(x);
    free(y);
    k.d = figure_of(d);
    k.p_asymptotic = figure_of(kolmogorov_sf(fmax(1, rint(n * m / (n + m))), d));
    k.p_exact = n_a == n_b ? figure_of(exact_equal(n_a, (size_t)(d * n + 0.5)))
              : d == 0 ? figure_of(1)
              : n * m <= MAX_PATH_CELLS ? figure_of(exact_unequal(n_a, n_b, d))
              : figure_undefined("the samples are too large for an exact p value");
    return k;
}
