/* calib.h - choosing a threshold, with or without a guarantee, and mending a confidence that is off.
 *
 * Kept answers are those with confidence >= lambda. Everything starts from a ranking by confidence (stats.h,
 * HIGHER_IS_RIGHT, no weights): one sort serves all. Rows without a confidence, excluded from the ranking, are handed
 * off. Thresholds that fit a rate or a reference are points of the handoff curve (curve.h); here are the others.
 */
#ifndef HANDOFF_CALIB_H
#define HANDOFF_CALIB_H

#include "eval/stats.h"

/* ---- risk control: risk_control.c ------------------------------------------------------------------------------- */

/* p = P(Bin(n_kept, alpha) <= errors), 1 if nothing is kept; cp_upper: Clopper-Pearson upper bound at delta. */
struct risk_point { double lambda; size_t n_kept, errors; double p, cp_upper; };
/* Fills table[n_grid] for the ascending grid. */
void risk_table(const struct ranking *r, const double *grid, size_t n_grid, double alpha, double delta,
                struct risk_point *table);

/* Smallest lambda of the grid by each rule; undefined: no threshold is certifiable. */
struct risk_choice {
    struct figure empirical_lowest;             /* observed error <= alpha; no guarantee */
    struct figure pointwise_cp_lowest;          /* p <= delta; not valid after searching a grid */
    struct figure ltt_bonferroni;               /* p <= delta / n_grid; valid (Learn then Test) */
    struct figure ltt_fixed_sequence;           /* walk down from `start`, set beforehand, to the first p > delta; valid */
    struct figure crc_joint;                    /* conformal risk control of "kept and wrong" at alpha */
};
struct risk_choice risk_choose(const struct ranking *r, const struct risk_point *table, size_t n_grid, double alpha,
                               double delta, double start);

/* Selection with guaranteed risk (Geifman and El-Yaniv 2017): binary search over the sorted confidences, delta shared
 * among the steps. `threshold_valid` is the last step's whose bound was below alpha. */
struct sgr_step { size_t z; double threshold; size_t n_kept, errors; double bound; };
struct sgr { int n_steps; struct sgr_step trace[64]; struct figure threshold_valid; };
struct sgr selection_guaranteed_risk(const struct ranking *r, double alpha, double delta);

/* Hoeffding-Bentkus p value for a mean loss in [0, 1]: H0 is mean > alpha, rhat was seen on n rows. */
double hoeffding_bentkus_p(double n, double rhat, double alpha);
/* The fewest kept answers that can certify `target_accuracy` at delta, if none of them is wrong. */
double zero_error_minimum(double target_accuracy, double delta);

/* Smallest observed confidence v such that the answers with confidence >= v reach this accuracy. No guarantee. */
struct kept_accuracy { struct figure threshold; double coverage, accuracy; };
struct kept_accuracy kept_accuracy_lowest(const struct ranking *r, double accuracy);

/* ---- cost: thresholds.c ----------------------------------------------------------------------------------------- */

struct curve;
struct curve_point;
/* c_handoff * rate + c_wrong * (1 - metric), or c_wrong * metric for WER. */
double routing_cost(const struct curve *v, const struct curve_point *p, double c_handoff, double c_wrong);
/* The cheapest point, ties to the smaller rate. */
const struct curve_point *cheapest_point(const struct curve *v, double c_handoff, double c_wrong);
/* Where a calibrated confidence would be cut: the reference's accuracy - c_handoff / c_wrong. */
double bayes_threshold(double reference_accuracy, double c_handoff, double c_wrong);

/* ---- recalibration: recalibrate.c, isotonic.c ------------------------------------------------------------------- */

/* Confidence as used by the maps: s = logit(c clipped to [1e-6, 1 - 1e-6]). */
double clipped_logit(double confidence);

/* confidence -> sigmoid(a s + b). */
struct platt { double a, b, nll; const char *why; };           /* nll: mean, in nats; why: NULL, or what failed */
struct platt platt_fit(const struct ranking *r);        /* maximum likelihood; "separable", "one_class", "constant" */
struct platt platt_fit_smoothed(const struct ranking *r);               /* Platt's targets; "one_class", "constant" */
double platt_map(const struct platt *f, double confidence);

/* confidence -> sigmoid(s / t), ln t in [-5, 5]. */
struct temperature { double t, nll, nll_before; bool at_bound; const char *why; };
struct temperature temperature_fit(const struct ranking *r);    /* "one_class" */
double temperature_map(const struct temperature *f, double confidence);

/* Pool-adjacent-violators: an increasing step function, linear between blocks, constant beyond the ends. */
struct isotonic_block { double x_min, x_max; size_t n; double value; };
struct isotonic { size_t n_blocks; struct isotonic_block *blocks; double brier; };      /* brier: on the fitted rows */
struct isotonic isotonic_fit(const struct ranking *r);          /* 0 blocks: no rows */
double isotonic_map(const struct isotonic *f, double confidence);
void isotonic_free(struct isotonic *f);

#endif
