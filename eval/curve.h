/* curve.h - quality of a cascade against the share of queries it hands off.
 *
 * Rule: a query is handed off iff its confidence < t, strictly; equal confidences move as one block. One point for each
 * handoff set that some threshold gives. A metric is a ratio of sums, sum(value) / sum(weight), in which a row handed
 * off contributes `reference` in place of `local`: accuracy and scores (weight 1 each) or corpus WER (edits and words,
 * lower is better).
 *
 *     struct cascade c = {.n = n, .confidence = conf, .local = right_here, .reference = right_there};
 *     struct curve v;
 *     if (curve_make(&v, &c, MISSING_IS_ERROR, e) < 0) return -1;
 *     struct match m = curve_match(&v, v.reference);       // the share to hand off to be as good as the reference
 *     curve_free(&v);
 *
 * Memory: 48 bytes a row while the curve is made, 32 a point afterwards. Undefined figures are NaN and, in a struct
 * figure, say why.
 */
#ifndef HANDOFF_CURVE_H
#define HANDOFF_CURVE_H

#include "eval/stats.h"

#define TARGET_SLACK 1e-12                      /* a target counts as reached this close below it */

struct cascade {
    size_t n;
    const double *confidence;                   /* [n]; NaN: missing */
    const double *local, *reference;            /* [n] 0/1, a score in [0, 1], or edits */
    const double *weight;                       /* [n] words; NULL: one a row */
    bool lower_is_better;
};

enum missing_policy { MISSING_IS_ERROR, MISSING_HANDED_OFF };

/* threshold: the smallest confidence kept, to be used as t; INFINITY: everything is handed off; NaN: no threshold gives
 * this point (nothing handed off although a confidence is missing). */
struct curve_point { size_t n_handoff; double rate, threshold, metric; };

struct curve {
    size_t n, n_missing, n_points;              /* n_points >= 1 */
    struct curve_point *points;                 /* by rising rate, from nothing to everything handed off */
    double local, reference;                    /* the metric at the two ends */
    bool lower_is_better;
};

/* Fails on no rows, a missing confidence (policy), values that are not finite, weights below 0 or of sum 0. */
int curve_make(struct curve *v, const struct cascade *c, enum missing_policy policy, struct err *e);
void curve_free(struct curve *v);

/* Does a metric reach the target (to TARGET_SLACK)? */
bool curve_reaches(const struct curve *v, double metric, double target);

/* The target within `points` of the reference: reference - points, or + points for WER. points = 0.01: one point. */
double curve_within(const struct curve *v, double points);

struct match {
    const struct curve_point *first;            /* smallest rate that reaches the target; NULL: none does */
    const struct curve_point *conservative;     /* smallest rate from which every larger one does; NULL: none */
    double first_interpolated;                  /* rate, randomising inside one block; NaN: never */
    double random_rate;                         /* smallest rate of random routing that does on average; NaN: none */
    bool only_full_handoff;                     /* nothing less than rate 1 does */
};
struct match curve_match(const struct curve *v, double target);

struct curve_summary {
    double auc, auc_random;                     /* area of the metric over the rate */
    struct figure apgr;                         /* (auc - local) / (reference - local); undefined without a gap */
    struct figure apgr_10_budgets;              /* RouteLLM's ten budgets; undefined unless the reference is better */
    bool reference_not_better;
    const struct curve_point *best;             /* the best metric, at its smallest rate */
};
struct curve_summary curve_summary(const struct curve *v);

/* Call-performance threshold: smallest rate that recovers the share x of the gap, attainable and interpolated.
 * Undefined unless the reference is better. */
struct recovery { struct figure rate_step, rate_interpolated; };
struct recovery curve_recovery(const struct curve *v, double x);

/* The point that threshold t gives. */
const struct curve_point *curve_at(const struct curve *v, double t);
/* Largest attainable rate <= rate, and the nearest one (ties to the smaller). */
const struct curve_point *curve_not_exceed(const struct curve *v, double rate);
const struct curve_point *curve_closest(const struct curve *v, double rate);

/* What threshold t does, straight from the rows: a missing confidence is handed off. kept is the metric of the kept
 * rows alone, NaN if there is none. */
struct threshold_effect { size_t n_handoff; double rate, metric, kept; };
struct threshold_effect threshold_effect(const struct cascade *c, double t);

/* ---- the best possible order: curve_oracle.c -------------------------------------------------------------------- */

/* Metric after handing off the k rows of largest gain, k = 0..n. */
struct oracle { size_t n; double *metric; bool lower_is_better; };
struct oracle oracle_make(const struct cascade *c);
void oracle_free(struct oracle *o);
double oracle_rate(const struct oracle *o, double target);      /* smallest k / n that reaches it; NaN: none */
double oracle_auc(const struct oracle *o);
double oracle_best(const struct oracle *o);

/* ---- groups: curve_groups.c ------------------------------------------------------------------------------------- */

/* Rows of one task, document or conversation that are handed off as a whole: by the smallest, the mean or the last
 * confidence among them (missing if one that counts is missing). */
enum group_rule { GROUP_MIN, GROUP_MEAN, GROUP_LAST };
/* Fills the four arrays of `out`, [n_groups] each, with the groups' confidence and sums; the rates of its curve are
 * shares of groups, its metric is unchanged. group: [c->n] in [0, n_groups); every group has rows.
 * The arrays belong to the caller (cascade_groups_free). */
struct cascade cascade_groups(const struct cascade *c, const uint32_t *group, size_t n_groups, enum group_rule rule);
void cascade_groups_free(struct cascade *groups);

/* ---- uncertainty of the match rate: curve_bootstrap.c ------------------------------------------------------------ */

enum match_rule { MATCH_FIRST, MATCH_CONSERVATIVE };
/* The target is found anew in each resample: the metric of `target` (NULL: of the reference) on the resampled rows,
 * relaxed by `points`; with `fixed` it is `value`. */
struct goal { const double *target; double points; bool fixed; double value; };
/* Rows are resampled jointly. An end at INFINITY: no rate reaches the target there. A missing confidence is handed off
 * first. */
struct interval match_rate_bootstrap(const struct cascade *c, const struct goal *goal, enum match_rule rule,
                                     const struct resampling *how);
/* Difference of two match rates a - b on the same rows (a quant against its base), paired; resamples in which one of
 * them is infeasible are drawn again. */
struct interval match_rate_bootstrap_delta(const struct cascade *a, const struct cascade *b, const struct goal *goal,
                                           enum match_rule rule, const struct resampling *how);

/* ---- cost: curve_cost.c ----------------------------------------------------------------------------------------- */

/* Every query runs on the device; a share of them goes to the other model as well. */
struct cost_model { double local_ms, remote_ms, local_price, call_price; };
struct cost { double ms, price; };              /* per query, on average */
struct cost cost_at(const struct cost_model *m, double rate);

/* Three tiers and two thresholds on the device's confidence: below `low` the query goes to the frontier model, from
 * there to below `high` to the middle one. cost[k]: of a query answered by tier k, on top of
 * cost[0], which every query pays; 0 <= cost[1] <= cost[2]. */
struct tiers {
    size_t n;
    const double *confidence;                   /* [n], not NaN */
    const double *value[3];                     /* device, middle, frontier: [n] 0/1, score or edits */
    const double *weight;                       /* [n] or NULL */
    bool lower_is_better;
    double cost[3];                             /* cost[0]: the device alone */
};
struct tier_point { double cost, metric, low, high, share[3]; };        /* cost per query */
/* Lower convex hull of cost over quality: by rising cost, each point better than the one before. *points belongs to the
 * caller. 0 points: no rows, a NaN, or costs out of order. */
size_t tier_frontier(const struct tiers *t, struct tier_point **points);

#endif
