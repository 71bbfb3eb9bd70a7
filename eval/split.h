/* split.h - where the drift of the confidence between two runs comes from (inside eval/ only).
 *
 * Each answer of the base run is read by both checkpoints. With c(weights, arithmetic, text) the confidence,
 *
 *     weights    = c(new, base's, base's) - c(base, base's, base's)
 *     arithmetic = c(new, new's,  base's) - c(new,  base's, base's)
 *     answers    = c(new, new's,  new's)  - c(new,  new's,  base's)
 *
 * whose sum is the new run's confidence minus the base's. The first and the last term are what the records say.
 */
#ifndef HANDOFF_SPLIT_EVAL_H
#define HANDOFF_SPLIT_EVAL_H

#include "eval/inputs.h"
#include "eval/replay.h"

struct split_options {
    struct replay_options replay;
    const char *model_base, *model_new;     /* where the checkpoints lie now; NULL: where the stamps say */
    int64_t threads, resamples, seed;
};

/* Reads the checkpoints and the data of both runs; texts from the arena. */
int drift_split_make(struct drift_split *out, const struct inputs *in, const struct split_options *o,
                     const struct records *base, const struct records *fresh, struct arena *a, struct err *e);

#endif
