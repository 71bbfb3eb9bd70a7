/* parts.h - the weights of a probe (inside probe/ only). */
#ifndef HANDOFF_PROBE_PARTS_H
#define HANDOFF_PROBE_PARTS_H

#include "probe/probe.h"

enum { PROBE_HEAD_LAYERS = 3 };

struct layer { float *weight, *bias; int out, in; };

struct probe {
    int layer, max_rows;
    double eps;
    struct layer norm;          /* out = in = dim; weight [dim] */
    struct layer proj;          /* [width, dim] */
    float *attn_query;          /* [width] */
    struct layer head[PROBE_HEAD_LAYERS];
};

#endif
