/* plots.h - the pictures of the report, one function each (inside reports/ only). */
#ifndef HANDOFF_PLOTS_H
#define HANDOFF_PLOTS_H

#include "reports/svg.h"

enum { N_SERIES_COLOURS = 6 };

/* AUROC of the probe and of entropy by hold-out, with intervals and the published figure as a tick. */
void plot_forest(struct text *out, bool alone, const struct auroc_run *run);
/* AUROC of the probe by hold-out, one colour a run. */
void plot_forest_runs(struct text *out, bool alone, const struct auroc_result *r);
void plot_roc(struct text *out, bool alone, const struct plot_task *t, const struct auroc_task *a);
void plot_risk(struct text *out, bool alone, const struct plot_task *t, const struct auroc_task *a);
void plot_histogram(struct text *out, bool alone, const struct plot_task *t);
void plot_reliability(struct text *out, bool alone, const struct auroc_task *a);
void plot_cascade(struct text *out, bool alone, const struct curve_task *c);
void plot_scatter(struct text *out, bool alone, const struct scatter *s, const char *base);

#endif
