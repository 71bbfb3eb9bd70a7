/* kernels.h - the arithmetic, behind a table filled once (inside engine/ only).
 *
 * The contract that makes results independent of batch size, threads and CPU:
 *   - dot(x, w): 16 running sums; sum j takes elements k = j, j + 16, j + 32, ... in ascending order, each by one
 *     fused multiply-add; elements behind the last multiple of 16 are taken as if both operands were padded with
 *     zeros; the 16 sums are then added as a tree: j with j + 8, then + 4, + 2, + 1.
 *   - every kernel of every instruction set does just this, so all give the same bits.
 *   - work is split by rows of x and by output columns only, never inside a sum.
 *   - exp, tanh, sin and cos are our own polynomials, built from IEEE operations alone.
 */
#ifndef HANDOFF_KERNELS_H
#define HANDOFF_KERNELS_H

#include "engine/packed.h"

/* ---- thread pool (pool.c) -------------------------------------------------------------------------------------- */

struct pool;
struct pool *pool_new(int n_threads);
/* The same with a user's number: 0 means as many as the process may run on, one out of range is wrong usage. */
int pool_open(struct pool **out, int n_threads, struct err *e);
void pool_free(struct pool *p);
int pool_size(const struct pool *p);
/* Calls task(arg, i) for every i in [0, n), in any order, on all threads; returns when all are done. `p` may be NULL:
 * then it is a plain loop. */
void pool_run(struct pool *p, int n, void (*task)(void *arg, int i), void *arg);

/* ---- table of instruction sets --------------------------------------------------------------------------------- */

struct kernels {
    const char *name;
    /* out[m * out_stride + n] = dot(x + m * x_stride, row n of w), m < M, n < N. w: N rows of K elements of the given
     * type, rows following each other. */
    void (*gemm)(enum tensor_type type, const void *w, int N, int K, const float *x, size_t x_stride, int M,
                 float *out, size_t out_stride);
    /* Row m of activations as products with such weights want it; rows m to m + M times n_panels panels, out from row 0
     * on and from the first panel's first column on (packed.h). */
    void (*packed_prepare)(const struct code_format *f, struct packed_rows *rows, const float *x, int m);
    void (*packed_gemm)(const struct packed *p, int panel, int n_panels, const struct packed_rows *rows, int m, int M,
                        float *out, size_t out_stride);
    float (*dot)(const float *a, const float *b, int n);                        /* in the order stated above */
    void (*axpy)(float *y, const float *x, float a, int n);                     /* y += a x, fused */
    /* y[i] += sum_j p[j] * rows[j * stride + i], i < n: as `count` calls of axpy in ascending j. */
    void (*weighted_sum)(float *y, const float *p, const float *rows, size_t stride, int count, int n);
    /* M such sums over the same rows: y[m * y_stride + i] += sum_j p[m * p_stride + j] * rows[j * stride + i]. */
    void (*weighted_sums)(float *y, size_t y_stride, const float *p, size_t p_stride, int M, const float *rows,
                          size_t stride, int count, int n);
    /* y = x / sqrt(mean(x^2) + eps) * w; w NULL: without weight. Sum of squares as dot(x, x). */
    void (*rms_norm)(float *y, const float *x, const float *w, int n, float eps);
    void (*gelu_tanh_mul)(float *gate, const float *up, int n);                 /* gate = gelu_tanh(gate) * up */
    void (*silu)(float *x, int n);
    void (*softmax)(float *x, int n);                                           /* in place; max subtracted */
    void (*softcap)(float *x, int n, float cap);                                /* x = cap tanh(x / cap) */
    float (*fma_rounds)(int64_t rounds);        /* 12 * 16 multiply-adds a round, for measuring the machine's limit */
    void (*bf16_to_f32)(float *out, const void *in, int n);
};

/* name NULL: the best that this CPU has; unknown or unsupported name: NULL. */
const struct kernels *kernels_find(const char *name);
/* Each is compiled where the compiler knows the instruction set; kernels_find asks the CPU. */
extern const struct kernels kernels_generic, kernels_avx2, kernels_avx512, kernels_avx512vnni, kernels_amx,
                            kernels_neon;

/* ---- linear layers (linear.c) ---------------------------------------------------------------------------------- */

/* y[m * y_stride + n] = sum_k x[m, k] W[n, k] for M rows, spread over the pool. W is dim = {N, K}; any further
 * dimensions count as part of K. */
struct compute {
    const struct kernels *k;
    struct pool *pool;
    bool int8;                  /* activations are rounded to 8 bits in front of packed weights */
};
void linear(const struct compute *c, const struct tensor *w, const float *x, size_t x_stride, int M, float *y,
            size_t y_stride);

#endif
