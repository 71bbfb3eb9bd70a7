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
    struct figure var_delta, se_delta, z, p;    /* two-sided; without variance z is undefined, p 1 if delta is 0 */
    struct interval wald_delta;
};
/* Scores must not be NaN (the caller leaves such rows out of both): every figure is then undefined. */
struct delong_pair delong_paired(const double *score_a, enum orientation orientation_a,
                                 const double *score_b, enum orientation orientation_b,
                                 const uint8_t *wrong, size_t n);

/* Unweighted mean over hold-outs with the interval that independent hold-outs give. Undefined if any one is: a mean
 * over another set of hold-outs is another figure. */
struct macro_mean { struct figure mean, se; struct interval wald; };
struct macro_mean macro_mean(const struct delong *tasks, size_t n_tasks);

/* ---- selective prediction: stats_selective.c -------------------------------------------------------------------- */

/* E_k is the expected number (or loss) of errors among the k most trusted, ties in random order. Areas are means over
 * k = 1..n of E_k / k; `optimal` has the errors last; prr_half uses k = n - floor(n/2) + 1 .. n only. */
struct selective {
    const char *why;                            /* not NULL: nothing is defined (no rows, or weights) */
    double aurc, aurc_optimal, aurc_random, e_aurc, auarc, augrc;
    struct figure prr, prr_half;                /* (random - aurc) / (random - optimal) */
};
struct selective selective(const struct ranking *r);

/* One point per distinct score: keep what is at least as trusted as `score`. */
struct coverage_point { double score, coverage, risk; };
/* Fills points[r->n_blocks], returns how many (0 with weights). */
size_t risk_coverage(const struct ranking *r, struct coverage_point *points);

/* ---- calibration: stats_calibration.c --------------------------------------------------------------------------- */

/* A bin of the reliability table: equal width (lo, hi], the first with 0 as well; equal mass: lo and hi are the
 * smallest and largest confidence in it. An empty bin has NaN means. */
struct bin { double lo, hi; size_t n; double mean_confidence, accuracy; };

/* Confidence must lie in [0, 1]. Fill bins[n_bins]; equal mass returns how many it used (fewer rows than bins: one row
 * a bin), sorting by (confidence, row), larger groups first. */
void reliability_equal_width(const double *confidence, const uint8_t *wrong, size_t n, struct bin *bins, size_t n_bins);
size_t reliability_equal_mass(const double *confidence, const uint8_t *wrong, size_t n, struct bin *bins,
                              size_t n_bins);
/* Expected (weighted mean) and maximum gap between confidence and accuracy. */
struct calibration_error { double expected, maximum; };
struct calibration_error calibration_error(const struct bin *bins, size_t n_bins);

enum { N_RELIABILITY_BINS = 15 };
struct calibration {
    const char *why;                            /* not NULL: nothing is defined (no rows, not all in [0, 1]) */
    double brier, log_loss;                     /* natural logarithm, p clipped to [2^-52, 1 - 2^-52] */
    double ece_15, mce_15, ece_16, ece_15_equal_mass;
};
struct calibration calibration(const double *confidence, const uint8_t *wrong, size_t n);

/* ---- bootstrap: bootstrap.c ------------------------------------------------------------------------------------- */

/* How to resample. With groups (of one speaker, one document) whole groups are drawn. Resample i uses a random stream
 * of its own, seeded by (seed, i): the result does not depend on n_threads. */
struct resampling {
    uint64_t seed;
    size_t n_resamples;
    int n_threads;                              /* below 1: all there are, at most 8 */
    const uint32_t *group;                      /* [n] in [0, n_groups), or NULL */
    size_t n_groups;
};

/* A statistic of a resample in which row i occurs count[i] times. NaN: undefined, draw again. It is called by several
 * threads at once. */
typedef double bootstrap_statistic(const uint32_t *count, const void *data);

/* Fills values[n_resamples]; returns -1 when the statistic stays undefined 10000 times in a row, or when n is 0 or
 * above 2^32 - 1. Rows are numbered as the statistic likes; group follows that numbering. */
int bootstrap_values(const struct resampling *how, size_t n, bootstrap_statistic *statistic, const void *data,
                     double *values);
/* 2.5% and 97.5% points (type 7) of the same. */
struct interval bootstrap_interval(const struct resampling *how, size_t n, bootstrap_statistic *statistic,
                                   const void *data);
/* Percentile with linear interpolation (type 7) of ascending v[n], n > 0, p in [0, 1]. */
double percentile_sorted(const double *v, size_t n, double p);

/* Percentile interval of the mean of v[n], none of them NaN. */
struct interval mean_bootstrap(const double *v, size_t n, const struct resampling *how);

/* Percentile intervals of an AUROC and of a paired difference a - b. Resamples with one class are drawn again. */
struct interval auroc_bootstrap(const double *score, enum orientation orientation, const uint8_t *wrong, size_t n,
                                const struct resampling *how);
struct interval auroc_bootstrap_delta(const double *score_a, enum orientation orientation_a,
                                      const double *score_b, enum orientation orientation_b,
                                      const uint8_t *wrong, size_t n, const struct resampling *how);

#endif
