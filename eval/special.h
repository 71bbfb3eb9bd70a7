/* special.h - distributions: normal, Student's t, beta, binomial.
 *
 * Accurate to 1e-12 for some thousand trials and to 1e-9 for 10^7.
 */
#ifndef HANDOFF_SPECIAL_H
#define HANDOFF_SPECIAL_H

#include <stdint.h>

double normal_cdf(double z);
double normal_quantile(double p);               /* -INFINITY at 0, INFINITY at 1, NaN outside */

/* Regularised incomplete beta function I_x(a, b), a, b > 0. */
double beta_cdf(double x, double a, double b);
double beta_quantile(double p, double a, double b);

double student_t_quantile(double p, double df);  /* p in (0, 1), df > 0 */

/* k successes in n trials of probability p. */
double binomial_pmf(double k, double n, double p);
double binomial_cdf(double k, double n, double p);

/* Clopper-Pearson bounds on the probability behind k of n, each at error delta; the trivial bound for n = 0. */
double clopper_pearson_upper(double k, double n, double delta);
double clopper_pearson_lower(double k, double n, double delta);
/* Wilson's score interval, two-sided at error delta; [0, 1] for n = 0. */
void wilson_interval(double k, double n, double delta, double *lo, double *hi);

#endif
