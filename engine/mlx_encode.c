/* mlx_encode.c - one group of numbers to MLX's codes: the same codes, scales and biases as mlx.core.quantize's.
 *
 * Affine: the end of the range with the larger magnitude, `edge`, gets a code of its own and is kept exactly, and the
 * scale is stretched so that 0 is a code too. The other modes: the scale takes the largest magnitude to the largest
 * code (as a power of two that is no smaller for mxfp4 and mxfp8), and each number goes to the nearest code, the even
 * one on a tie. */
#include "engine/mlx.h"

#include <math.h>
#include <string.h>

/* Values of `bits` bits each, least significant first. */
static void pack(const uint8_t *q, int n, int bits, uint8_t *codes)
{
    for (int k = 0; k < n; k += 8, codes += bits) {
        uint64_t word = 0;
        for (int j = 0; j < 8; j++)
            word |= (uint64_t)q[k + j] << j * bits;
        for (int b = 0; b < bits; b++)
            codes[b] = (uint8_t)(word >> 8 * b);
    }
}

static void encode_affine(const struct mlx_format *f, const float *x, uint8_t *q, float *scale, float *bias)
{
    const float levels = (float)((1 << f->bits) - 1);
    float lo = x[0], hi = x[0];
    for (int i = 1; i < f->group; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    if (f->bits == 1) {
        *scale = fmaxf(hi - lo, 1e-7f);
        *bias = lo;
    } else {
        const bool low_edge = fabsf(lo) > fabsf(hi);
        const float step = fmaxf((hi - lo) / levels, 1e-7f), edge = low_edge ? lo : hi;
        *scale = low_edge ? step : -step;
        const float steps = rintf(edge / *scale);
        *bias = steps != 0 ? edge : 0;
        *scale = steps != 0 ? edge / steps : *scale;
    }
    for (int i = 0; i < f->group; i++)
        q[i] = (uint8_t)fminf(fmaxf(rintf((x[i] - *bias) / *scale), 0), levels);
}

/* The nearest of E2M1's magnitudes, the smaller one on a tie. There is no -0. */
static unsigned to_e2m1(float v)
{
    const float a = fabsf(v);
    const unsigned code = a > 5 ? 7 : a > 3.5f ? 6 : a > 2.5f ? 5 : a > 1.75f ? 4 : a > 1.25f ? 3 : a > 0.75f ? 2
                          : a > 0.25f ? 1 : 0;
    return v < 0 && code ? code | 8 : code;
}

/* The nearest number of E4M3, even on a tie; what is too large becomes the largest, 448. */
static unsigned to_e4m3(float v)
{
    const float a = fabsf(v);
    int exponent;
    unsigned code;
    frexpf(a, &exponent);                       /* a = m 2^exponent, 1/2 <= m < 1 */
    if (a >= 448)
        code = 0x7e;
    else if (a < 0x1p-6f)                       /* steps of 2^-9 */
        code = (unsigned)rintf(ldexpf(a, 9));
    else                                        /* a carry of the fraction raises the exponent, as it should */
        code = (unsigned)(exponent + 6) * 8 + (unsigned)rintf(ldexpf(a, 4 - exponent)) - 8;
    return signbit(v) ? code | 0x80 : code;
}

/* The smallest power of two that is not below v. */
static unsigned to_e8m0(float v)
{
    int exponent;
    const float m = frexpf(v, &exponent);
    if (v == 0)
        return 127;                             /* of a group of zeros: 1 */
    exponent -= m == 0.5f;
    return exponent < -127 ? 0 : (unsigned)(exponent + 127);
}

static void encode_floats(const struct mlx_format *f, const float *x, uint8_t *q, uint8_t *scale_code)
{
    float largest = 0;
    for (int i = 0; i < f->group; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    largest /= f->bits == 4 ? 6 : 448;
    *scale_code = (uint8_t)(f->mode == MLX_NVFP4 ? to_e4m3(largest) : to_e8m0(largest));
    const float scale = f->mode == MLX_NVFP4 ? mlx_e4m3(*scale_code) : mlx_e8m0(*scale_code);
    for (int i = 0; i < f->group; i++) {
        const float v = scale == 0 ? 0 : x[i] / scale;
        q[i] = (uint8_t)(f->bits == 4 ? to_e2m1(v) : to_e4m3(v));
    }
}

void mlx_encode(const struct mlx_format *f, const float *x, uint8_t *codes, float *scale, float *bias,
                uint8_t *scale_code)
{
    uint8_t q[MLX_MAX_GROUP];
    if (f->mode == MLX_AFFINE)
        encode_affine(f, x, q, scale, bias);
    else
        encode_floats(f, x, q, scale_code);
    pack(q, f->group, f->bits, codes);
}
