/* linear.c - a linear layer over the thread pool. The work is cut into blocks of output columns, and of rows where
 * there are many; a block's weights stay in the second-level cache while all its rows pass. Cutting never splits a
 * sum, so the cut may depend on anything. */
#include "engine/internal.h"

#include <stdlib.h>

enum {
    COLUMNS = 64,               /* output columns of a block */
    ROWS = 64,                  /* rows of a block */
    SMALL = 1 << 22             /* fewer multiplications than this are not worth waking threads for */
};

struct job {
    const struct kernels *k;
    const struct tensor *w;
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    int M, N, K, row_blocks;
    bool turned;                /* x is in the weights' own domain */
};

/* Coded weights are decoded for the block; from there on they are float32 weights like any others, with the same
 * sums. */
static void block(void *arg, int i)
{
    const struct job *j = arg;
    const int n = i / j->row_blocks * COLUMNS, m = i % j->row_blocks * ROWS;
    const int columns = j->N - n < COLUMNS ? j->N - n : COLUMNS;
    const size_t row_bytes = (size_t)j->K * (j->w->type == TENSOR_F32 ? 4 : 2);
    const bool coded = j->w->type == TENSOR_CODED;
    float *decoded = coded ? NEW(float, (size_t)columns * (size_t)j->K) : NULL;
    if (j->turned)
        j->w->codec->read_turned(j->w, n, columns, decoded);
    else if (coded)
        tensor_read_f32(j->w, (int64_t)n * j->K, (int64_t)columns * j->K, decoded);
    j->k->gemm(coded ? TENSOR_F32 : j->w->type,
               coded ? (const void *)decoded : (const uint8_t *)j->w->data + (size_t)n * row_bytes, columns, j->K,
               j->x + (size_t)m * j->x_stride, j->x_stride, j->M - m < ROWS ? j->M - m : ROWS,
               j->y + (size_t)m * j->y_stride + n, j->y_stride);
    free(decoded);
}

struct turning { const struct tensor *w; const float *x; float *out; size_t x_stride, width; };

static void turn_row(void *arg, int m)
{
    const struct turning *t = arg;
    t->w->codec->turn(t->w, t->x + (size_t)m * t->x_stride, t->out + (size_t)m * t->width);
}

void linear(const struct compute *c, const struct tensor *w, const float *x, size_t x_stride, int M, float *y,
            size_t y_stride)
{
    if (w->packed) {
        packed_linear(w->packed, c->k, c->pool, c->int8, x, x_stride, M, y, y_stride);
        return;
    }
    struct turning turning = {.w = w, .x = x, .x_stride = x_stride};
    struct job j = {.k = c->k, .w = w, .x = x, .y = y, .x_stride = x_stride, .y_stride = y_stride, .M = M,
                    .N = (int)w->dim[0], .K = 1, .row_blocks = (M + ROWS - 1) / ROWS};
    for (int i = 1; i < w->n_dims; i++)
        j.K *= (int)w->dim[i];
    const int columns = (j.N + COLUMNS - 1) / COLUMNS;
    const bool small = (int64_t)M * j.N * j.K < SMALL;
    struct pool *pool = small ? NULL : c->pool;
    if (w->type == TENSOR_CODED && w->codec->turn) {
        turning.width = (size_t)w->codec->turned_width(w);
        turning.out = NEW(float, (size_t)M * turning.width + 1);
        pool_run(pool, M, turn_row, &turning);
        j.turned = true;
        j.x = turning.out;
        j.x_stride = turning.width;
        j.K = (int)turning.width;
    }
    pool_run(pool, columns * j.row_blocks, block, &j);
    free(turning.out);
}
