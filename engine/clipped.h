/* clipped.h - linear layers of the towers with bounds on both sides (inside engine/ only). GEMMA4.md 6.1. */
#ifndef HANDOFF_CLIPPED_H
#define HANDOFF_CLIPPED_H

#include "engine/kernels.h"

struct clipped {
    const struct tensor *w;             /* dim = {out, in} */
    bool is_bounded;
    float in_min, in_max, out_min, out_max;
};

/* Finds PREFIX.linear.weight, which must be [out, in] (-1 takes what the file has), and with use_bounds its companions
 * PREFIX.input_min, .input_max, .output_min, .output_max: one number each, maybe infinite. */
int clipped_open(struct clipped *c, const struct weights *w, const char *prefix, int64_t out, int64_t in,
                 bool use_bounds, struct err *e);

/* y[m, :out] = clamp(W clamp(x[m, :in], in_min, in_max), out_min, out_max) for M rows. */
void clipped_linear(const struct compute *compute, const struct clipped *c, const float *x, size_t x_stride, int M,
                    float *y, size_t y_stride);

#endif
