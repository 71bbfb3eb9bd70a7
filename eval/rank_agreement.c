/* rank_agreement.c - do two runs order the rows alike? Kendall's tau by counting inversions (Knight 1966). */
#include "eval/paired.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Mean rank of each row; *tied receives the pairs of rows with equal values. */
static double *mean_ranks(const double *v, size_t n, int64_t *tied)
{
    struct keyed *order = order_of(v, n);
    double *rank = NEW(double, n);
    *tied = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && order[end].key == order[i].key; end++)
            ;
        for (size_t k = i; k < end; k++)
            rank[order[k].row] = (double)(i + end + 1) / 2;
        *tied += (int64_t)((end - i) * (end - i - 1) / 2);
    }
    free(order);
    return rank;
}

static struct figure correlation(const double *x, const double *y, size_t n)
{
    double mean = ((double)n + 1) / 2, xx = 0, yy = 0, xy = 0;  /* mean ranks always have this mean */
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
        xy += (x[i] - mean) * (y[i] - mean);
    }
    return xx > 0 && yy > 0 ? figure_of(xy / sqrt(xx) / sqrt(yy)) : figure_undefined("a constant vector has no order");
}

/* Pairs i < j with v[i] > v[j], counted while runs are merged; v is left in some order. */
static int64_t inversions(double *v, size_t n)
{
    double *buffer = NEW(double, n), *from = v, *to = buffer;
    int64_t count = 0;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            size_t i = lo, j = mid;
            for (size_t k = lo; k < hi; k++) {
                if (j < hi && (i == mid || from[j] < from[i])) {
                    to[k] = from[j++];
                    count += (int64_t)(mid - i);
                } else {
                    to[k] = from[i++];
                }
            }
        }
        double *swap = from;
        from = to;
        to = swap;
    }
    free(buffer);
    return count;
}

/* Rows by (a, b): b in the order of a, rising inside ties of a. Counts the pairs tied in both. */
static double *b_in_order_of_a(const double *rank_a, const double *rank_b, size_t n, int64_t *tied_both)
{
    struct keyed *order = order_of(rank_b, n);
    for (size_t i = 0; i < n; i++)
        order[i].key = order_key(rank_a[order[i].row], 0);
    order_sort(order, n);
    double *b = NEW(double, n);
    int64_t run = 0;
    *tied_both = 0;
    for (size_t i = 0; i < n; i++) {
        b[i] = rank_b[order[i].row];
        run = i > 0 && order[i].key == order[i - 1].key && b[i] == b[i - 1] ? run + 1 : 0;
        *tied_both += run;
    }
    free(order);
    return b;
}

struct rank_agreement rank_agreement(const double *a, const double *b, size_t n)
{
    struct figure none = figure_undefined("needs two rows");
    struct rank_agreement g = {.spearman = none, .kendall_tau_b = none, .flip_rate = none};
    if (n < 2)
        return g;
    int64_t tied_a, tied_b, tied_both;
    double *rank_a = mean_ranks(a, n, &tied_a), *rank_b = mean_ranks(b, n, &tied_b);
    double *sequence = b_in_order_of_a(rank_a, rank_b, n, &tied_both);
    g.spearman = correlation(rank_a, rank_b, n);
    g.pairs = (int64_t)(n * (n - 1) / 2);
    g.discordant = inversions(sequence, n);
    g.tied_only_a = tied_a - tied_both;
    g.tied_only_b = tied_b - tied_both;
    g.tied_both = tied_both;
    g.concordant = g.pairs - tied_a - tied_b + tied_both - g.discordant;
    double untied_a = (double)(g.pairs - tied_a), untied_b = (double)(g.pairs - tied_b);
    g.kendall_tau_b = untied_a > 0 && untied_b > 0
                    ? figure_of((double)(g.concordant - g.discordant) / sqrt(untied_a) / sqrt(untied_b))
                    : figure_undefined("a constant vector has no order");
    g.flip_rate = figure_of((double)g.discordant / (double)g.pairs);
    free(rank_a);
    free(rank_b);
    free(sequence);
    return g;
}
