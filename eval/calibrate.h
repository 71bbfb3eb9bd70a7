/* calibrate.h - the figures of `calibrate`: thresholds and confidence maps per quant (inside eval/ only). */
#ifndef HANDOFF_CALIBRATE_H
#define HANDOFF_CALIBRATE_H

#include "eval/inputs.h"

struct calibrate_options {
    bool split, per_task;
    int64_t seed;
    double threshold, rate, accuracy, delta, start, cost_handoff, cost_wrong;
};

/* runs[0..n_runs): the quants; baseline and reference may be NULL (reference also for its answers). give_back: the rows
 * of all of them go as soon as the last quant's have been read. */
struct calibrate_models { int n_runs; struct records *runs, *baseline, *reference; bool give_back; };

int calibrate_result_make(struct calibrate_result *out, const struct inputs *in, const struct calibrate_options *o,
                          const struct calibrate_models *m, struct arena *a, struct err *e);

#endif
