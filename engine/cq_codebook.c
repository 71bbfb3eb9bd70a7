/* cq_codebook.c - Lloyd and Max's quantiser of a coordinate x of a uniformly random point on the unit sphere in d
 * dimensions, whose density is proportional to (1 - x^2)^((d - 3) / 2), on a grid of 200001 points. */
#include "engine/cq_encode.h"

#include <math.h>
#include <stdlib.h>

enum { GRID = 200001, ROUNDS = 200 };

static double grid_at(int i)
{
    return i == GRID - 1 ? 1 : -1 + i * (2.0 / (GRID - 1));
}

/* The start: quantiles of the distribution. */
static void quantiles(const double *weight, int n, double *at)
{
    double all = 0, sum = 0;
    for (int i = 0; i < GRID; i++)
        all += weight[i];
    for (int i = 0, q = 0; i < GRID && q < n; i++) {
        const double before = sum / all, after = (sum + weight[i]) / all;
        for (double want = (q + 1.0) / (n + 1); q < n && want <= after; want = (++q + 1.0) / (n + 1))
            at[q] = i == 0 ? grid_at(0) : grid_at(i - 1) + (grid_at(i) - grid_at(i - 1)) * (want - before) /
                                                           (after - before);
        sum += weight[i];
    }
}

/* One round: the mean of each cell; its borders are half-way between values. Returns the largest move. */
static double improve(const double *weight, int n, double *at)
{
    double largest = 0, lower = -INFINITY;
    for (int q = 0, i = 0; q < n; q++) {
        const double upper = q + 1 < n ? (at[q] + at[q + 1]) / 2 : INFINITY;
        double sum = 0, moment = 0;
        for (; i < GRID && grid_at(i) < upper; i++) {
            sum += weight[i];
            moment += weight[i] * grid_at(i);
        }
        const double mean = sum > 0 ? moment / sum : at[q];
        largest = fmax(largest, fabs(mean - at[q]));
        if (q)
            at[q - 1] = lower;              /* the old values were needed until here */
        lower = mean;
    }
    at[n - 1] = lower;
    return largest;
}

void cq_codebook(int dim, int bits, float *out)
{
    const int n = 1 << bits;
    double *weight = NEW(double, GRID), at[16];
    for (int i = 0; i < GRID; i++)
        weight[i] = pow(1 - grid_at(i) * grid_at(i), (dim - 3) / 2.0);
    quantiles(weight, n, at);
    for (int round = 0; round < ROUNDS && improve(weight, n, at) >= 1e-8; round++)
        ;
    for (int q = 0; q < n; q++)
        out[q] = (float)at[q];
    free(weight);
}
