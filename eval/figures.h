/* figures.h - what the report shows beyond the verbs' tables: curves of a score, scatters, samples, stamps. */
#ifndef HANDOFF_FIGURES_H
#define HANDOFF_FIGURES_H

#include "eval/inputs.h"

/* Of each task of the first run that is wanted, in the order of auroc_run_make. */
int figures_plots(struct plot_task **out, int *n, const struct inputs *in, const struct records *r, struct arena *a,
                  struct err *e);
/* At most max dots, spread evenly over the samples that both runs have. */
void figures_scatter(struct scatter *out, const struct inputs *in, const struct records *base, const struct records *r,
                     int max, struct arena *a);
/* Samples of the first run with every run's answer; at most max. */
int figures_samples(struct report_input *out, const struct inputs *in, const struct records *runs, int n_runs, int max,
                    struct arena *a, struct err *e);
/* What the stamps say, one row a key. */
void figures_stamps(struct report_input *out, const struct records *runs, int n_runs, struct arena *a);

#endif
