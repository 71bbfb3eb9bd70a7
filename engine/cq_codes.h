/* cq_codes.h - what cq.c and cq_codes.c share: a CQ tensor whose parts have been found and checked. */
#ifndef HANDOFF_CQ_CODES_H
#define HANDOFF_CQ_CODES_H

#include "engine/internal.h"

enum cq_layout { CQ_ROWS, CQ_BLOCKS_OF_4, CQ_PANELS };
enum { CQ_GROUP = 128, CQ_MAX_WIDTH = 1 << 16 };

/* w[n][i] = norm[n][g] (sum_j codebook[index[n][j]] R[i][j]) / (input_scale[i] scale), where R is the stored matrix, or
 * that of a signed and permuted Hadamard transform of each group of 128. "Code space" is what R has not yet been
 * applied to. */
struct cq_codes {
    double scale;
    enum cq_layout layout;
    int bits, group;            /* columns that share a norm */
    int64_t rows, width, columns;           /* width: with padding; columns: without */
    int64_t n_groups;           /* of a row */
    float codebook[16];
    const uint8_t *norms;       /* float16, in the order of the layout */
    const uint8_t *indices;
    float *out_scale;           /* [width], 1 / (input_scale scale), times the left sign */
    float *right;               /* [128], right sign / sqrt(128); NULL: a stored matrix */
    uint8_t perm[CQ_GROUP];
    const uint8_t *matrix;      /* R, float16 [width, width] */
    uint16_t *transposed;       /* R transposed */
    const struct kernels *k;
};

extern const struct tensor_codec cq_codec;

/* The transform of x[128], in place, by Sylvester's matrix, which is its own transpose. */
void cq_hadamard(float *x);

#endif
