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

#endif
