/* stats.h - how well a score separates wrong answers from right ones, and how sure one can be of it.
 *
 * Pure functions on arrays. Label 1 = the answer is wrong (the positive class). One sort turns scores and labels into a
 * `struct ranking`, the table of distinct scores; every figure about the order of a score follows from that table in
 * linear time:
 *
 *     struct ranking r;
 *     if (ranking_make(&r, confidence, wrong, NULL, n, HIGHER_IS_RIGHT, NAN_IS_ERROR, e) < 0) return -1;
 *     struct delong d = delong(&r);            // d.auroc.value, or d.auroc.why if it is undefined
 *     ranking_free(&r);
 *
 * A figure that is undefined has value NaN and says why; no function invents 0 or 0.5. Intervals are at 95%.
 * Definitions: DeLong et al. 1988, Sun and Xu 2014 (mid-ranks), Geifman et al. 2019 (AURC), Traub et al. 2024 (AUGRC).
 */
#ifndef HANDOFF_STATS_H
#define HANDOFF_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define NORMAL_975 1.959963984540054            /* the 97.5% point of the normal distribution */

struct figure { double value; const char *why; };               /* why == NULL: defined */
struct interval { double lo, hi; const char *why; };
struct figure figure_of(double value);
struct figure figure_undefined(const char *why);
struct interval interval_of(double lo, double hi);
struct interval interval_undefined(const char *why);

/* ---- the ranking ------------------------------------------------------------------------------------------------ */

enum orientation { HIGHER_IS_WRONG, HIGHER_IS_RIGHT };          /* entropy, p_wrong / confidence */
enum nan_policy { NAN_IS_ERROR, NAN_IS_EXCLUDED };

/* Distinct scores from the most trusted to the least trusted. Without weights `weight` counts rows and `wrong` counts
 * wrong ones; with a loss in place of labels `wrong` is the sum of the losses. Rows of zero weight are counted in n and
 * n_wrong, but are in no block. */
struct ranking {
    size_t n, n_wrong;                          /* rows used; wrong ones (0 when a loss is given) */
    size_t n_excluded, first_nan;               /* rows without a score; the first of them, SIZE_MAX if none */
    bool weighted;
    size_t n_blocks;
    double *score, *weight, *wrong;             /* [n_blocks] each */
    double *sorted_loss;                        /* [n] ascending; NULL when labels are given */
};

/* weight may be NULL; weights are finite and >= 0. Fails on a NaN score (unless excluded) and on a bad weight. On
 * failure r holds nothing, but first_nan. */
int ranking_make(struct ranking *r, const double *score, const uint8_t *wrong, const double *weight, size_t n,
                 enum orientation orientation, enum nan_policy policy, struct err *e);
/* The same for a continuous loss (a WER, 1 - ANLS), for the selective metrics only; losses are finite. */
int ranking_make_loss(struct ranking *r, const double *score, const double *loss, size_t n,
                      enum orientation orientation, enum nan_policy policy, struct err *e);
void ranking_free(struct ranking *r);

/* ---- separation: stats_auroc.c ---------------------------------------------------------------------------------- */

/* P(s+ > s-) + P(s+ = s-)/2; undefined with one class. */
struct figure auroc(const struct ranking *r);
/* Average precision of finding wrong answers: sum (R_k - R_k-1) P_k over distinct thresholds. */
struct figure auprc(const struct ranking *r);

struct delong {
    struct figure auroc, var, se;               /* var, se: undefined with one row in a class, and with weights */
    struct interval wald, logit;                /* wald is clipped to [0, 1]; logit is undefined at AUROC 0 and 1 */
};
struct delong delong(const struct ranking *r);
/* The interval to print: logit below 50 wrong answers, else Wald; undefined where the chosen one is. */
struct interval delong_interval(const struct delong *d, size_t n_wrong);

/* Two scores of the same rows (confidence against entropy, a quant against its base). */
struct delong_pair {
    struct figure auroc_a, auroc_b, delta;      /* delta = a - b */
    double var_a, var_b, cov;
    struct figure var_delta, se_delta, z, p;    /* two-sided; z is undefined at zero variance, p is 1 if delta is 0 too */
    struct interval wald_delta;
};
/* Scores must not be NaN (the caller leaves such rows out of both): every figure is then undefined. */
struct delong_pair delong_paired(const double *score_a, enum orientation orientation_a,
                                 const double *score_b, enum orientation orientation_b,
                                 const uint8_t *wrong, size_t n);

#endif
