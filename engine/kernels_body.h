/* kernels_body.h - the kernels themselves, written once over a vector of 16 floats. Each kernels_ISA.c defines that
 * vector, `v16`, its operations and the tile sizes, includes this file and so gets a table of its own. Every operation
 * is a single IEEE operation per lane, which is why all instruction sets give the same bits.
 *
 * To be defined before: KERNELS (the table), KERNELS_NAME, TILE_M, TILE_N (outputs kept in registers by gemm), v16,
 * v_set1, v_load, v_store, v_load_bf16, v_load_f16, v_add, v_sub, v_mul, v_div, v_fma (a b + c), v_max (a > b ? a : b),
 * v_min (a < b ? a : b), v_unless_less (a < b ? 0 : v), v_abs, v_copysign (magnitude, sign), v_exponent
 * (below), v_sum (the tree of kernels.h).
 */
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))

/* ---- loading --------------------------------------------------------------------------------------------------- */

INLINE size_t type_size(enum tensor_type type)
{
    return type == TENSOR_F32 ? 4 : 2;
}

INLINE v16 load_typed(enum tensor_type type, const uint8_t *p)
{
    return type == TENSOR_F32 ? v_load(p) : type == TENSOR_F16 ? v_load_f16(p) : v_load_bf16(p);
}

/* The first n < 16 elements, zeros behind them. */
INLINE v16 load_typed_part(enum tensor_type type, const uint8_t *p, int n)
{
    uint8_t padded[64] = {0};
    memcpy(padded, p, (size_t)n * type_size(type));
    return load_typed(type, padded);
}

INLINE v16 load_part(const float *p, int n)
{
    return load_typed_part(TENSOR_F32, (const uint8_t *)p, n);
}

INLINE void store_part(float *p, v16 v, int n)
{
    float all[16];
    v_store(all, v);
    memcpy(p, all, (size_t)n * sizeof *p);
}

/* y[i] = expression(v) for all i < n, v being x's vector at i. */
#define FOR_EACH(y, x, n, v, expression)                    \
    do {                                                    \
        int i_ = 0;                                         \
        for (; i_ + 16 <= (n); i_ += 16) {                  \
            const v16 v = v_load((x) + i_);                 \
            v_store((y) + i_, expression);                  \
        }                                                   \
        if (i_ < (n)) {                                     \
            const v16 v = load_part((x) + i_, (n) - i_);    \
            store_part((y) + i_, expression, (n) - i_);     \
        }                                                   \
    } while (0)

/* ---- elementary functions -------------------------------------------------------------------------------------- */

/* x = n ln 2 + r with n whole and |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to a whole number; v_exponent(t) of such a
 * sum t = n + 1.5 * 2^23 is 2^n, for -126 <= n <= 127. */
#define MAGIC 12582912.0f

INLINE v16 reduce_ln2(v16 x, v16 *n)
{
    *n = v_sub(v_fma(x, v_set1(0x1.715476p+0f), v_set1(MAGIC)), v_set1(MAGIC));
    const v16 r = v_fma(*n, v_set1(-0x1.62e430p-1f), x);
    return v_fma(*n, v_set1(0x1.05c610p-29f), r);
}

/* (e^r - 1 - r) / r^2 by its Taylor series; |r| <= 0.35 leaves a relative error of 2^-28 in e^r. */
INLINE v16 exp_tail(v16 r)
{
    v16 p = v_set1(1.0f / 5040);
    p = v_fma(p, r, v_set1(1.0f / 720));
    p = v_fma(p, r, v_set1(1.0f / 120));
    p = v_fma(p, r, v_set1(1.0f / 24));
    p = v_fma(p, r, v_set1(1.0f / 6));
    return v_fma(p, r, v_set1(0.5f));
}

/* e^x; 0 and infinity where float32 has no other answer. 2^n is applied in two halves, either of which is a normal
 * number. */
INLINE v16 v_exp(v16 x)
{
    v16 n;
    const v16 r = reduce_ln2(v_min(v_set1(89.0f), v_max(v_set1(-104.0f), x)), &n);
    const v16 p = v_add(v_fma(v_mul(r, r), exp_tail(r), r), v_set1(1.0f));
    const v16 half = v_fma(n, v_set1(0.5f), v_set1(MAGIC));
    const v16 rest = v_add(v_sub(n, v_sub(half, v_set1(MAGIC))), v_set1(MAGIC));
    return v_mul(v_mul(p, v_exponent(half)), v_exponent(rest));
}

/* tanh |x| = (e^2|x| - 1) / (e^2|x| + 1), with the numerator taken without cancellation. From 10 on it is 1. */
INLINE v16 v_tanh(v16 x)
{
    v16 n;
    const v16 a = v_min(v_set1(10.0f), v_abs(x));
    const v16 r = reduce_ln2(v_add(a, a), &n);
    const v16 q = v_fma(v_mul(r, r), exp_tail(r), r);
    const v16 s = v_exponent(v_add(n, v_set1(MAGIC)));
    const v16 e = v_fma(s, q, v_sub(s, v_set1(1.0f)));
    return v_copysign(v_div(e, v_add(e, v_set1(2.0f))), x);
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

static float dot(const float *a, const float *b, int n)
{
    v16 sum = v_set1(0);
    int k = 0;
    for (; k + 16 <= n; k += 16)
        sum = v_fma(v_load(a + k), v_load(b + k), sum);
    if (k < n)
        sum = v_fma(load_part(a + k, n - k), load_part(b + k, n - k), sum);
    return v_sum(sum);
}

static void axpy(float *y, const float *x, float a, int n)
{
    const v16 factor = v_set1(a);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(y + i, v_fma(factor, v_load(x + i), v_load(y + i)));
    if (i < n)
        store_part(y + i, v_fma(factor, load_part(x + i, n - i), load_part(y + i, n - i)), n - i);
}

static void weighted_sum(float *y, const float *p, const float *rows, size_t stride, int count, int n)
{
    int i = 0;
    for (; i + 64 <= n; i += 64) {
        v16 s0 = v_load(y + i), s1 = v_load(y + i + 16), s2 = v_load(y + i + 32), s3 = v_load(y + i + 48);
        const float *row = rows + i;
        for (int j = 0; j < count; j++, row += stride) {
            const v16 factor = v_set1(p[j]);
            s0 = v_fma(factor, v_load(row), s0);
            s1 = v_fma(factor, v_load(row + 16), s1);
            s2 = v_fma(factor, v_load(row + 32), s2);
            s3 = v_fma(factor, v_load(row + 48), s3);
        }
        v_store(y + i, s0);
        v_store(y + i + 16, s1);
        v_store(y + i + 32, s2);
        v_store(y + i + 48, s3);
    }
    for (int j = 0; i < n && j < count; j++)
        axpy(y + i, rows + (size_t)j * stride + i, p[j], n - i);
}

/* m rows of y, n vectors wide, kept in registers over all summands; m and n are constants after inlining. */
INLINE void weighted_tile(float *y, size_t y_stride, const float *p, size_t p_stride, const float *rows, size_t stride,
                          int count, const int m, const int n)
{
    v16 sum[TILE_M * TILE_N], row[TILE_N];
    for (int i = 0; i < m * n; i++)
        sum[i] = v_load(y + (size_t)(i / n) * y_stride + i % n * 16);
    for (int c = 0; c < count; c++, rows += stride) {
        for (int j = 0; j < n; j++)
            row[j] = v_load(rows + 16 * j);
        for (int i = 0; i < m; i++) {
            const v16 factor = v_set1(p[(size_t)i * p_stride + (size_t)c]);
            for (int j = 0; j < n; j++)
                sum[i * n + j] = v_fma(factor, row[j], sum[i * n + j]);
        }
    }
    for (int i = 0; i < m * n; i++)
        v_store(y + (size_t)(i / n) * y_stride + i % n * 16, sum[i]);
}

/* A few rows at a time, so that they come from the nearest cache for all but the first rows of y. */
enum { SUMMED_TOGETHER = 16 };

static void weighted_sums(float *y, size_t y_stride, const float *p, size_t p_stride, int M, const float *rows,
                          size_t stride, int count, int n)
{
    for (int c = 0; c < count; c += SUMMED_TOGETHER, rows += SUMMED_TOGETHER * stride) {
        const int some = count - c < SUMMED_TOGETHER ? count - c : SUMMED_TOGETHER;
        int m = 0;
        for (; m + TILE_M <= M; m += TILE_M) {
            float *out = y + (size_t)m * y_stride;
            const float *factors = p + (size_t)m * p_stride + c;
            int i = 0;
            for (; i + 16 * TILE_N <= n; i += 16 * TILE_N)
                weighted_tile(out + i, y_stride, factors, p_stride, rows + i, stride, some, TILE_M, TILE_N);
            for (; i + 16 <= n; i += 16)
                weighted_tile(out + i, y_stride, factors, p_stride, rows + i, stride, some, TILE_M, 1);
            for (int r = 0; i < n && r < TILE_M; r++)
                weighted_sum(out + (size_t)r * y_stride + i, factors + (size_t)r * p_stride, rows + i, stride, some,
                             n - i);
        }
        for (; m < M; m++)
            weighted_sum(y + (size_t)m * y_stride, p + (size_t)m * p_stride + c, rows, stride, some, n);
    }
}

/* An m by n tile of outputs; all sums stay in registers over K. m, n and type are constants after inlining. */
INLINE void gemm_tile(enum tensor_type type, const uint8_t *w, int K, const float *x, size_t x_stride, float *out,
                      size_t out_stride, const int m, const int n)
{
    const size_t size = type_size(type), w_stride = (size_t)K * size;
    v16 sum[TILE_M * TILE_N > 8 ? TILE_M * TILE_N : 8], column[TILE_N > 8 ? TILE_N : 8];
    for (int i = 0; i < m * n; i++)
        sum[i] = v_set1(0);
    int k = 0;
    for (; k + 16 <= K; k += 16) {
        for (int j = 0; j < n; j++)
            column[j] = load_typed(type, w + (size_t)j * w_stride + (size_t)k * size);
        for (int i = 0; i < m; i++) {
            const v16 row = v_load(x + (size_t)i * x_stride + k);
            for (int j = 0; j < n; j++)
                sum[i * n + j] = v_fma(row, column[j], sum[i * n + j]);
        }
    }
    if (k < K) {
        for (int j = 0; j < n; j++)
            column[j] = load_typed_part(type, w + (size_t)j * w_stride + (size_t)k * size, K - k);
        for (int i = 0; i < m; i++) {
            const v16 row = load_part(x + (size_t)i * x_stride + k, K - k);
            for (int j = 0; j < n; j++)
                sum[i * n + j] = v_fma(row, column[j], sum[i * n + j]);
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            out[(size_t)i * out_stride + (size_t)j] = v_sum(sum[i * n + j]);
}

/* m rows of x against all N rows of w. */
INLINE void gemm_rows(enum tensor_type type, const uint8_t *w, int N, int K, const float *x, size_t x_stride,
                      float *out, size_t out_stride, const int m, const int tile_n)
{
    const size_t w_stride = (size_t)K * type_size(type);
    int n = 0;
    for (; n + tile_n <= N; n += tile_n)
        gemm_tile(type, w + (size_t)n * w_stride, K, x, x_stride, out + n, out_stride, m, tile_n);
    for (; n < N; n++)
        gemm_tile(type, w + (size_t)n * w_stride, K, x, x_stride, out + n, out_stride, m, 1);
}

INLINE void gemm_typed(enum tensor_type type, const uint8_t *w, int N, int K, const float *x, size_t x_stride, int M,
                       float *out, size_t out_stride)
{
    int m = 0;
    for (; m + TILE_M <= M; m += TILE_M)
        gemm_rows(type, w, N, K, x + (size_t)m * x_stride, x_stride, out + (size_t)m * out_stride, out_stride, TILE_M,
                  TILE_N);
    x += (size_t)m * x_stride;
    out += (size_t)m * out_stride;
    if (TILE_M > 3 && M - m == 3)
        gemm_rows(type, w, N, K, x, x_stride, out, out_stride, 3, TILE_N);
    else if (TILE_M > 2 && M - m == 2)
        gemm_rows(type, w, N, K, x, x_stride, out, out_stride, 2, TILE_N);
    else if (M - m == 1)
        gemm_rows(type, w, N, K, x, x_stride, out, out_stride, 1, 2 * TILE_N);
}

static void gemm(enum tensor_type type, const void *w, int N, int K, const float *x, size_t x_stride, int M, float *out,
                 size_t out_stride)
{
    if (type == TENSOR_BF16)
        gemm_typed(TENSOR_BF16, w, N, K, x, x_stride, M, out, out_stride);
    else if (type == TENSOR_F16)
        gemm_typed(TENSOR_F16, w, N, K, x, x_stride, M, out, out_stride);
    else
        gemm_typed(TENSOR_F32, w, N, K, x, x_stride, M, out, out_stride);
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static void rms_norm(float *y, const float *x, const float *w, int n, float eps)
{
    const float scale = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);
    const v16 factor = v_set1(scale);
    FOR_EACH(y, x, n, v, v_mul(v, factor));
    if (!w)
        return;
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(y + i, v_mul(v_load(y + i), v_load(w + i)));
    for (; i < n; i++)
        y[i] *= w[i];
}

/* 0.5 z (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))) */
INLINE v16 gelu(v16 z)
{
    const v16 inner = v_mul(z, v_fma(v_mul(v_set1(0.044715f), z), z, v_set1(1.0f)));
    const v16 t = v_tanh(v_mul(v_set1(0.7978845608f), inner));
    return v_mul(v_mul(v_set1(0.5f), z), v_add(v_set1(1.0f), t));
}

static void gelu_tanh_mul(float *gate, const float *up, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(gate + i, v_mul(gelu(v_load(gate + i)), v_load(up + i)));
    if (i < n)
        store_part(gate + i, v_mul(gelu(load_part(gate + i, n - i)), load_part(up + i, n - i)), n - i);
}

INLINE v16 sigmoid_times(v16 x)
{
    return v_div(x, v_add(v_set1(1.0f), v_exp(v_sub(v_set1(0), x))));
}

static void silu(float *x, int n)
{
    FOR_EACH(x, x, n, v, sigmoid_times(v));
}

/* e^x of differences to the largest. Below e^-75 it is 0: such a share is lost in any sum of float32, but its products
 * would soon be too small for normal numbers, which costs CPUs a hundred times as long. */
INLINE v16 share(v16 x)
{
    const v16 least = v_set1(-75.0f);
    return v_unless_less(x, least, v_exp(v_max(least, x)));
}

static void softmax(float *x, int n)
{
    if (n == 0)
        return;
    float top = x[0];
    v16 tops = v_set1(top);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        tops = v_max(tops, v_load(x + i));
    float all[16];
    v_store(all, tops);
    for (int j = 0; j < 16; j++)
        top = all[j] > top ? all[j] : top;
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;

    const v16 offset = v_set1(top);
    FOR_EACH(x, x, n, v, share(v_sub(v, offset)));
    v16 sum = v_set1(0);
    for (i = 0; i + 16 <= n; i += 16)
        sum = v_add(sum, v_load(x + i));
    if (i < n)
        sum = v_add(sum, load_part(x + i, n - i));
    const v16 inverse = v_set1(1.0f / v_sum(sum));
    FOR_EACH(x, x, n, v, v_mul(v, inverse));
}

static void softcap(float *x, int n, float cap)
{
    const v16 limit = v_set1(cap);
    FOR_EACH(x, x, n, v, v_mul(limit, v_tanh(v_div(v, limit))));
}

static void bf16_to_f32(float *out, const void *in, int n)
{
    const uint8_t *p = in;
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(out + i, v_load_bf16(p + 2 * i));
    if (i < n)
        store_part(out + i, load_typed_part(TENSOR_BF16, p + 2 * i, n - i), n - i);
}

/* Independent chains of multiply-adds, as many as hide the latency of one. */
static float fma_rounds(int64_t rounds)
{
    enum { CHAINS = 12 };
    v16 sum[CHAINS];
    const v16 a = v_set1(0.5f), b = v_set1(0.25f);
    for (int c = 0; c < CHAINS; c++)
        sum[c] = v_set1((float)c);
    for (int64_t r = 0; r < rounds; r++)
        for (int c = 0; c < CHAINS; c++)
            sum[c] = v_fma(sum[c], a, b);
    for (int c = 1; c < CHAINS; c++)
        sum[0] = v_add(sum[0], sum[c]);
    return v_sum(sum[0]);
}

#include "engine/packed_body.h"

const struct kernels KERNELS = {
    .name = KERNELS_NAME,
    .gemm = gemm,
    .packed_prepare = packed_prepare,
    .packed_gemm = packed_gemm,
    .dot = dot,
    .axpy = axpy,
    .weighted_sum = weighted_sum,
    .weighted_sums = weighted_sums,
    .rms_norm = rms_norm,
    .gelu_tanh_mul = gelu_tanh_mul,
    .silu = silu,
    .softmax = softmax,
    .softcap = softcap,
    .bf16_to_f32 = bf16_to_f32,
    .fma_rounds = fma_rounds,
};
