/* selfcheck.h - the same bits however the work is cut: a hash over everything that decides answers, computed in several
 * ways (inside eval/ only). */
#ifndef HANDOFF_SELFCHECK_H
#define HANDOFF_SELFCHECK_H

#include "engine/engine.h"

struct selfcheck_args {
    const char *model;
    struct engine_options options;          /* some ways take other threads, or another kernel */
    const char *probe;                      /* file of the probe, NULL: the checkpoint's own */
    int64_t probe_layer;                    /* -1: as the checkpoint says */
};

/* The ways are numbered from 0; the first is the plainest. */
int selfcheck_count(void);
const char *selfcheck_name(int way);
int selfcheck_hash(const struct selfcheck_args *a, int way, char hex[65], struct err *e);
/* All ways until one differs; *way is then its number, else -1. */
int selfcheck_all(const struct selfcheck_args *a, char hex[65], int *way, struct err *e);

/* What rounding the activations to 8 bits alone does to the answers of the checks: the float32 answers, read by both. */
struct rounding_effect {
    int n_packed;               /* matrices that it concerns; 0: it changes nothing, and nothing was computed */
    int n_answers;
    double mean, largest;       /* change of confidence, absolute; NAN without a probe */
    double kl_mean, same_top;   /* nats and share, over the positions of the answers */
};
int selfcheck_rounding(const struct selfcheck_args *a, struct rounding_effect *out, struct err *e);

#endif
