/* stats_selective.c - risk against coverage: what is gained by keeping only the most trusted answers. */
#include "eval/stats.h"

#include <math.h>

/* Sums over k of E_k / k (all k, and the upper half of k) and of E_k. */
struct areas { double risk, risk_half, errors; };

/* Adds k = from+1 .. to, over which the errors grow evenly from e_from to e_to. */
static void add_stretch(struct areas *a, size_t from, size_t to, double e_from, double e_to, size_t half_from)
{
    double step = (e_to - e_from) / (double)(to - from);
    for (size_t k = from + 1; k <= to; k++) {
        double e = k == to ? e_to : e_from + (double)(k - from) * step;
        a->errors += e;
        a->risk += e / (double)k;
        if (k >= half_from)
            a->risk_half += e / (double)k;
    }
}

static struct areas areas_by_score(const struct ranking *r, size_t half_from)
{
    struct areas a = {0, 0, 0};
    size_t k = 0;
    double errors = 0;
    for (size_t b = 0; b < r->n_blocks; b++) {
        size_t to = k + (size_t)r->weight[b];
        add_stretch(&a, k, to, errors, errors + r->wrong[b], half_from);
        errors += r->wrong[b];
        k = to;
    }
    return a;
}

static struct areas areas_optimal(const struct ranking *r, size_t half_from)
{
    struct areas a = {0, 0, 0};
    double errors = 0;
    size_t n_right = r->n - r->n_wrong;
    if (!r->sorted_loss) {
        if (r->n_wrong)
            add_stretch(&a, n_right, r->n, 0, (double)r->n_wrong, half_from);
        return a;
    }
    for (size_t k = 0; k < r->n; k++) {
        add_stretch(&a, k, k + 1, errors, errors + r->sorted_loss[k], half_from);
        errors += r->sorted_loss[k];
    }
    return a;
}

/* A denominator that is only rounding counts as 0. */
static struct figure rejection_ratio(double random, double area, double optimal)
{
    if (!(random - optimal > 1e-12 * random))
        return figure_undefined("no ordering is better than another: PRR has no scale");
    return figure_of((random - area) / (random - optimal));
}

struct selective selective(const struct ranking *r)
{
    const char *why = r->weighted ? "selective metrics are not defined with weights" : r->n ? NULL : "no rows";
    struct selective s = {why, NAN, NAN, NAN, NAN, NAN, NAN, figure_undefined(why), figure_undefined(why)};
    if (why)
        return s;
    size_t n_half = r->n / 2, half_from = r->n - n_half + 1;
    struct areas by_score = areas_by_score(r, half_from), optimal = areas_optimal(r, half_from);
    double n = (double)r->n, total = 0;
    for (size_t b = 0; b < r->n_blocks; b++)
        total += r->wrong[b];
    s.aurc = by_score.risk / n;
    s.aurc_optimal = optimal.risk / n;
    s.aurc_random = total / n;
    s.e_aurc = s.aurc - s.aurc_optimal;
    s.auarc = 1 - s.aurc;
    s.augrc = by_score.errors / n / n;
    s.prr = rejection_ratio(s.aurc_random, s.aurc, s.aurc_optimal);
    s.prr_half = n_half == 0 ? figure_undefined("half of one row is none")
               : rejection_ratio(s.aurc_random, by_score.risk_half / (double)n_half,
                                 optimal.risk_half / (double)n_half);
    return s;
}

size_t risk_coverage(const struct ranking *r, struct coverage_point *points)
{
    double kept = 0, errors = 0;
    if (r->weighted)
        return 0;
    for (size_t b = 0; b < r->n_blocks; b++) {
        kept += r->weight[b];
        errors += r->wrong[b];
        points[b] = (struct coverage_point){r->score[b], kept / (double)r->n, errors / kept};
    }
    return r->n_blocks;
}
