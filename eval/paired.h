/* paired.h - two runs over the same rows: did the new one change, and is it worse?
 *
 * `a` is the base and `b` the new run; differences are b - a. NaN must have been left out of both. Undefined figures
 * are NaN and say why.
 */
#ifndef HANDOFF_PAIRED_H
#define HANDOFF_PAIRED_H

#include "eval/stats.h"

/* ---- confidence: paired.c --------------------------------------------------------------------------------------- */

struct drift { struct figure mean, sd; struct interval t; };    /* sample sd; Student's t interval */
struct drift drift(const double *a, const double *b, size_t n);

/* What each run does at threshold t (keep iff confidence >= t). */
struct handoff_flips { size_t both_keep, only_a_hands_off, only_b_hands_off, both_hand_off; };
struct handoff_flips handoff_flips(const double *a, const double *b, size_t n, double t);

/* ---- answers: paired.c ------------------------------------------------------------------------------------------ */

struct mcnemar {
    size_t n, both, only_a, only_b, neither;    /* right answers */
    double p_exact, p_mid;                      /* two-sided binomial */
    struct figure delta;                        /* accuracy b - a; undefined without rows */
    double se;
    struct interval wald;
};
struct mcnemar mcnemar(const uint8_t *wrong_a, const uint8_t *wrong_b, size_t n);
struct mcnemar mcnemar_of(size_t both, size_t only_a, size_t only_b, size_t neither);

/* ---- distributions: ks.c ---------------------------------------------------------------------------------------- */

/* Two-sample Kolmogorov-Smirnov. p_asymptotic: distribution of the one-sample statistic at the effective size
 * round(nm / (n + m)); p_exact counts paths: always for n = m, else up to nm = 4 10^7, beyond it is undefined. */
struct ks { struct figure d, p_asymptotic, p_exact; };
struct ks ks_two_sample(const double *a, size_t n_a, const double *b, size_t n_b);
/* P(D_n >= d) of the two-sided one-sample statistic. */
double kolmogorov_sf(double n, double d);

/* ---- order: rank_agreement.c ------------------------------------------------------------------------------------ */

struct rank_agreement {
    struct figure spearman, kendall_tau_b;      /* undefined for a constant vector */
    int64_t pairs, concordant, discordant, tied_only_a, tied_only_b, tied_both;
    struct figure flip_rate;                    /* discordant / pairs */
};
struct rank_agreement rank_agreement(const double *a, const double *b, size_t n);

/* ---- verdicts: paired.c ----------------------------------------------------------------------------------------- */

/* Holm's adjustment of n p values; NaN ones are left out and stay NaN. adjusted may be p. */
void holm_adjust(const double *p, size_t n, double *adjusted);

/* Non-inferiority of a difference (new - base, higher is better) at a margin >= 0: ok when the whole interval is at or
 * above -margin, regressed when it is wholly below, else undecided, also when it is undefined. */
enum verdict { VERDICT_OK, VERDICT_REGRESSED, VERDICT_UNDECIDED };
enum verdict verdict_of(struct interval ci, double margin);
const char *verdict_name(enum verdict v);       /* "ok", "regressed", "undecided" */

/* The same as two one-sided normal p values, for Holm's adjustment across tasks: a small `regressed` shows that the
 * difference is below -margin, a small `ok` that it is above. NaN when delta or se is. */
struct margin_test { double regressed, ok; };
struct margin_test margin_test(double delta, double se, double margin);

#endif
