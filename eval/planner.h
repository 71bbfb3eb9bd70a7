/* planner.h - how many samples does a question need?
 *
 * Hanley and McNeil 1982 for the variance of an AUROC that is not yet measured; normal approximations for the tests.
 * Counts are whole numbers as doubles; NaN when the question has no answer (equal AUROCs, rates outside (0, 1)).
 */
#ifndef HANDOFF_PLANNER_H
#define HANDOFF_PLANNER_H

double hanley_mcneil_var(double auroc, double n_wrong, double n_right);

/* Total n for a two-sided test that two correlated AUROCs on the same rows differ. */
struct auroc_plan { double auroc_a, auroc_b, wrong_rate, correlation, alpha, power; };
double plan_auroc_difference(const struct auroc_plan *p);
/* Total n for which the 95% interval of one AUROC is at most +- half_width. */
double plan_auroc_half_width(double auroc, double wrong_rate, double half_width);
/* Pairs for McNemar's test of two accuracies, from the rates of the two kinds of discordant pairs. */
double plan_mcnemar_pairs(double p_only_a, double p_only_b, double alpha, double power);

#endif
