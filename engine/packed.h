/* packed.h - weights that are whole numbers with scales, in the order in which the kernels read them (inside engine/
 * only).
 *
 *     w[k] = d[k / per_scale] scale[k / block] (code[k] - center) - min_d[k / per_scale] min[k / block]
 *
 * holds for ggml's block types and MLX's affine codes alike; where there are no inner scales, scale and min are 1. The
 * rows of a matrix are cut into panels of 16. A panel has, for each stretch of 32 columns, the codes of all its rows in
 * groups of four columns: 16 rows x 4 bytes, so that a 32-bit lane belongs to a row. Codes of four bits share bytes: the
 * low halves are columns 0 to 15, the high halves columns 16 to 31. Behind the codes: d, min_d, scale, min, 16 rows side
 * by side each.
 *
 * The arithmetic, the same bits on every CPU: a block's sum t = sum_k x[k] (code[k] - center), one fused multiply-add
 * for each k in ascending order; then acc = fma(t, d scale, acc) and, with minima, acc = fma(-min_d min, sum_k x[k],
 * acc), block by block. With activations of 8 bits x[k] is a whole number of [-127, 127] times a scale for each 32
 * columns, so that t is exact, and acc = fma(t, d scale x_scale, acc).
 */
#ifndef HANDOFF_PACKED_H
#define HANDOFF_PACKED_H

#include "engine/engine.h"

enum { PANEL = 16, STRETCH = 32, MAX_RUN = 256 };

struct code_format {
    int bits;                   /* 4 or 8, of a packed code */
    int block;                  /* 16 or 32: columns with one scale */
    int per_scale;              /* columns with one d: a multiple of block, MAX_RUN at most */
    int center;
    bool nested, minima;        /* whether there are inner scales; min_d (and min) */
    enum tensor_type scale_type;        /* of d and min_d: holds them exactly */
};

/* per_scale columns of one row. */
struct code_run {
    uint8_t code[MAX_RUN];
    float d, min_d;
    int8_t scale[MAX_RUN / 16];
    uint8_t min[MAX_RUN / 16];
};

struct packed {
    struct code_format f;
    int N, K;
    size_t d_at, min_d_at, scale_at, min_at, panel_bytes;       /* within a panel */
    uint8_t *data;              /* [panels][panel_bytes]; whoever made the packed matrix owns it */
};

/* Rows of activations as the kernels take them: float32 with sums, or whole numbers. What belongs to a column, a stretch
 * or a block of columns lies side by side for `lanes` rows: [M / lanes][columns, stretches or blocks][lanes]. */
struct packed_rows {
    int K, block;
    int lanes;                  /* 1, 2, 4, 8 or 16 */
    float *x;                   /* float32 activations; NULL: 8 bits */
    float *sum;                 /* the sum of each block (8 bits: of q times scale); NULL: no minima */
    int8_t *q;                  /* 8 bits, 32 of each stretch; NULL: float32 */
    float *scale;               /* of each stretch */
    int32_t *start;             /* of each block -center sum of q */
};

struct pool;
struct kernels;
/* Whether the tensor's values have such a form, with rows of whole stretches and runs. */
bool packed_fits(const struct tensor *t);
/* For a tensor that fits: the layout, still without data. The caller frees it. */
struct packed *packed_new(const struct tensor *t);
size_t packed_bytes(const struct packed *p);                    /* of data, a multiple of 64 */
/* Fills data, which is zeros; an error if values are infinite or NaN. */
int packed_fill(struct packed *p, const struct tensor *t, struct pool *pool, struct err *e);
/* out[m * out_stride + n] for M rows of x, with activations rounded to 8 bits or not. */
void packed_linear(const struct packed *p, const struct kernels *k, struct pool *pool, bool int8, const float *x,
                   size_t x_stride, int M, float *out, size_t out_stride);

#endif
