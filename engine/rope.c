/* rope.c - rotary positions. Angles are taken in double: at position 100 000 a float32 angle is off by 1e-2. Sine,
 * cosine, logarithm and exponential are our own, from IEEE operations alone, so that all systems get the same bits. */
#include "engine/internal.h"

#include <math.h>

/* ln x = 2 artanh((m - 1) / (m + 1)) + k ln 2 with x = m 2^k; the series converges like 1/9^n for m in [0.7, 1.5). */
static double natural_log(double x)
{
    int k;
    double m = frexp(x, &k);                        /* in [0.5, 1), exact */
    if (m < 0.70710678118654752) {
        m *= 2;
        k--;
    }
    const double t = (m - 1) / (m + 1), tt = t * t;
    double sum = 0;
    for (int n = 33; n >= 1; n -= 2)
        sum = sum * tt + 1.0 / n;
    return fma(k, 0x1.62e42fefa39efp-1, 2 * t * sum);
}

static double exponential(double x)
{
    const double n = nearbyint(x * 0x1.71547652b82fep+0);
    const double r = fma(-n, 0x1.abc9e3b39803fp-56, fma(-n, 0x1.62e42fefa39efp-1, x));
    double sum = 1;
    for (int i = 18; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)n);
}

/* Sine and cosine of 0 <= x < 2^24, by the Taylor series behind a reduction to [-pi/4, pi/4] in three parts. */
static void sine_cosine(double x, double *sine, double *cosine)
{
    const double n = nearbyint(x * 0x1.45f306dc9c883p-1);
    double r = fma(-n, 0x1.921fb54442d18p+0, x);
    r = fma(-n, 0x1.1a62633145c07p-54, r);
    const double rr = r * r;
    double s = 1, c = 1;
    for (int i = 18; i >= 2; i -= 2) {
        s = 1 - s * rr / (i * (i + 1));
        c = 1 - c * rr / (i * (i - 1));
    }
    s *= r;
    const int quarter = (int)n & 3;
    *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}

void rope_frequencies(struct attention_kind *kind)
{
    kind->frequency = NEW(double, kind->rope_pairs + 1);
    for (int c = 0; c < kind->rope_pairs; c++)
        kind->frequency[c] = exponential(-2.0 * c / kind->head_dim * natural_log(kind->rope_theta));
}

void rope_angles(const struct attention_kind *kind, int position, float *cosines, float *sines)
{
    for (int c = 0; c < kind->rope_pairs; c++) {
        double sine, cosine;
        sine_cosine(position * kind->frequency[c], &sine, &cosine);
        cosines[c] = (float)cosine;
        sines[c] = (float)sine;
    }
}

void rope_turn(const struct attention_kind *kind, const float *cosines, const float *sines, float *head)
{
    float *other = head + kind->head_dim / 2;
    for (int c = 0; c < kind->rope_pairs; c++) {
        const float a = head[c], b = other[c];
        head[c] = a * cosines[c] - b * sines[c];
        other[c] = b * cosines[c] + a * sines[c];
    }
}
