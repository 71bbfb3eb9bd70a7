/* compares.h - the figures of `compare`: a new run against its base, sample by sample (inside eval/ only). */
#ifndef HANDOFF_COMPARES_H
#define HANDOFF_COMPARES_H

#include "eval/inputs.h"
#include "eval/paired.h"

struct compare_options {
    double margin, auroc_margin, alpha, threshold;
    int64_t resamples;          /* 0: AUTO_RESAMPLES, or the jackknife above JACKKNIFE_ROWS samples */
    int64_t seed, threads;
    bool give_back;             /* the rows of both runs go as soon as the last task has been read */
};
enum { AUTO_RESAMPLES = 1000, JACKKNIFE_ROWS = 200000 };
#define COMPARE_OPTIONS_DEFAULT {.margin = 0.01, .auroc_margin = 0.02, .alpha = 0.05, .threshold = 0.85, \
                                 .seed = 1}

int compare_result_make(struct compare_result *out, const struct inputs *in, const struct compare_options *o,
                        struct records *base, struct records *fresh, struct arena *a, struct err *e);

/* AUROC of two scores that each have labels of their own, on the same rows: difference b - a with the bootstrap's
 * standard error and percentile interval. With how->n_resamples 0 the infinitesimal jackknife takes its place: the
 * bootstrap's standard error to first order (Efron 1982), and the normal interval around the difference. A quant answers anew, so its labels differ from its base's; DeLong's paired
 * test, which needs common labels, does not apply. NaN scores must not occur. */
struct auroc_change { struct figure a, b, delta, se, p; struct interval ci95; };
struct auroc_change auroc_change(const double *confidence_a, const uint8_t *wrong_a, const double *confidence_b,
                                 const uint8_t *wrong_b, size_t n, const struct resampling *how);

#endif
