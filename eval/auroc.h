/* auroc.h - the figures of `auroc` for one task and for a run (inside eval/ only). */
#ifndef HANDOFF_AUROC_H
#define HANDOFF_AUROC_H

#include "eval/inputs.h"

struct auroc_options {
    int64_t resamples, seed, threads;
    bool published, no_published;       /* by default only for hold-outs of 500 samples and more */
};

/* Texts and tables go into the arena and point into the records. last_use: the records' rows are given back as soon as
 * they are no longer needed, which keeps ten million records below 100 bytes each. */
int auroc_run_make(struct auroc_run *out, const struct inputs *in, const struct auroc_options *o, struct records *r,
                   bool last_use, struct arena *a, struct err *e);
/* The publisher's figures for a hold-out; NULL if it has none. */
const struct published *published_auroc(const char *task);

#endif
