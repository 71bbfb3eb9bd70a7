/* engines.h - where two engines that answered the same questions part ways (inside eval/ only). */
#ifndef HANDOFF_ENGINES_H
#define HANDOFF_ENGINES_H

#include "eval/inputs.h"

/* Rows and texts live in the arena. tolerance: of confidence, log-probability and entropy. */
int engines_compare(struct engines_result *out, const struct inputs *in, const struct records *base,
                    const struct records *other, double tolerance, struct arena *a, struct err *e);

#endif
