/* quantize_blocks.c - scale searches and block layouts of ggml's quantised types.
 *
 * Block layouts are those that ggml_types.c reads. Sums run in float32 in ascending order, as the reference's do, so
 * that the same choices are made. */
#include "engine/quantize_blocks.h"

#include <math.h>
#include <string.h>

enum { SUPER = 256, MAX_GROUP = 32 };
static const float tiny = 1e-15f;                       /* a group below this is taken as all zero */

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static int nearest(float v)
{
    return (int)lrintf(v);
}

static uint16_t to_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const float a = fabsf(f);
    if (!(a < 65520.f))
        return sign | 0x7c00;
    if (a < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)lrintf(a * 0x1p24f));
    bits = (bits & 0x7fffffff) - (112u << 23);
    return (uint16_t)(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

static void put_half(uint8_t *p, float f)
{
    const uint16_t h = to_half(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* The value that a reader will see. */
static float as_half(float f)
{
    const uint16_t h = to_half(f);
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float v = exponent ? ldexpf((float)(mantissa | 1024), exponent - 25) : (float)mantissa * 0x1p-24f;
    return h & 0x8000 ? -v : v;
}

static float mean_square(const float *x, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum / (float)n;
}

/* Importance of a column times a softened magnitude: large values matter more, small ones never vanish. */
static float weigh(const float *x, const float *importance, int n, float variance, float *w)
{
    float sum = 0;
    for (int i = 0; i < n; i++) {
        w[i] = importance[i] * sqrtf(variance + x[i] * x[i]);
        sum += w[i];
    }
    return sum;
}

static float of_largest_magnitude(const float *x, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    return largest;
}

/* ---- scale searches -------------------------------------------------------------------------------------------- */

/* x ~ scale * (q - top), q in [0, 2 top). w NULL: weights x^2. */
static float fit_signed(const float *x, int n, int top, const float *w, uint8_t *q)
{
    const float largest = of_largest_magnitude(x, n);
    float scale = 0, best = 0;
    memset(q, 0, (size_t)n);
    if (fabsf(largest) < tiny)
        return 0;
    for (int k = 0; k < 19; k++) {
        const int step = k == 0 ? 0 : k <= 9 ? k - 10 : k - 9;          /* 0 first, then -9..-1, 1..9 */
        const float inverse = -((float)top + 0.1f * (float)step) / largest;
        float xl = 0, ll = 0;
        for (int i = 0; i < n; i++) {
            const float l = (float)clamp(nearest(inverse * x[i]), -top, top - 1), wi = w ? w[i] : x[i] * x[i];
            xl += wi * x[i] * l;
            ll += wi * l * l;
        }
        if (k && !(ll > 0 && xl * xl > best * ll))
            continue;
        for (int i = 0; i < n; i++)
            q[i] = (uint8_t)(clamp(nearest(inverse * x[i]), -top, top - 1) + top);
        scale = ll > 0 ? xl / ll : 0;
        best = scale * xl;
    }
    return scale;
}

/* x ~ scale * q - *minus, q in [0, top], *minus >= 0: for each candidate of the step the least-squares line. */
struct line_search { float first, step; int count; bool absolute; };

static float line_error(const float *x, const float *w, const uint8_t *q, int n, float scale, float min, bool absolute)
{
    float error = 0;
    for (int i = 0; i < n; i++) {
        const float d = scale * (float)q[i] + min - x[i];
        error += w[i] * (absolute ? fabsf(d) : d * d);
    }
    return error;
}

static float fit_line(const float *x, const float *w, int n, int top, struct line_search s, uint8_t *q, float *minus)
{
    float min = x[0], max = x[0], sw = 0, sx = 0;
    for (int i = 0; i < n; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
        sw += w[i];
        sx += w[i] * x[i];
    }
    min = min > 0 ? 0 : min;
    memset(q, 0, (size_t)n);
    *minus = -min;
    if (max <= min)
        return 0;
    const float low = min, range = max - min;
    float inverse = (float)top / range, scale = 1 / inverse;
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)clamp(nearest(inverse * (x[i] - low)), 0, top);
    float best = line_error(x, w, q, n, scale, min, s.absolute);
    /* Candidates start from the minimum of the best line so far. */
    for (int k = 0; k <= s.count; k++) {
        uint8_t trial[MAX_GROUP];
        float sl = 0, sll = 0, sxl = 0;
        inverse = (s.first + s.step * (float)k + (float)top) / (max - min);
        for (int i = 0; i < n; i++) {
            trial[i] = (uint8_t)clamp(nearest(inverse * (x[i] - min)), 0, top);
            const float l = (float)trial[i];
            sl += w[i] * l;
            sll += w[i] * l * l;
            sxl += w[i] * l * x[i];
        }
        const float det = sw * sll - sl * sl;
        if (!(det > 0))
            continue;
        float a = (sw * sxl - sx * sl) / det, b = (sll * sx - sl * sxl) / det;
        if (b > 0) {
            b = 0;
            a = sxl / sll;
        }
        const float error = line_error(x, w, trial, n, a, b, s.absolute);
        if (error < best) {
            memcpy(q, trial, (size_t)n);
            best = error;
            scale = a;
            min = b;
        }
    }
    *minus = -min;
    return scale;
}

static float positive_error(const float *x, const float *w, int n, int top, float inverse)
{
    float error = 0;
    for (int i = 0; i < n; i++) {
        const int l = nearest(inverse * x[i]);
        const float d = x[i] - 1 / inverse * (float)(l < top ? l : top);
        error += w[i] * d * d;
    }
    return error;
}

/* x ~ scale * q, x not negative, q in [0, top]: best of nine steps, then single values moved while that helps. */
static float fit_positive(const float *x, const float *w, int n, int top, uint8_t *q)
{
    float max = 0, xl = 0, ll = 0;
    for (int i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int i = 0; i < n; i++)
        q[i] = 0;
    if (max < tiny)
        return 0;
    float inverse = (float)top / max, best = positive_error(x, w, n, top, inverse);
    for (int step = -4; step <= 4; step++) {
        const float candidate = (0.1f * (float)step + (float)top) / max;
        const float error = step ? positive_error(x, w, n, top, candidate) : best;
        if (error < best) {
            best = error;
            inverse = candidate;
        }
    }
    for (int i = 0; i < n; i++) {
        q[i] = (uint8_t)clamp(nearest(inverse * x[i]), 0, top);
        xl += w[i] * x[i] * (float)q[i];
        ll += w[i] * (float)q[i] * (float)q[i];
    }
    bool changed = true;
    for (int round = 0; round < 5 && changed; round++) {
        changed = false;
        for (int i = 0; i < n; i++) {
            float a = xl - w[i] * x[i] * (float)q[i], b = ll - w[i] * (float)q[i] * (float)q[i];
            if (!(a > 0 && b > 0))
                continue;
            const int l = clamp(nearest(x[i] * b / a), 0, top);
            a += w[i] * x[i] * (float)l;
            b += w[i] * (float)l * (float)l;
            if (l != q[i] && a * a * ll > xl * xl * b) {
                q[i] = (uint8_t)l;
                xl = a;
                ll = b;
                changed = true;
            }
        }
    }
    return ll > 0 ? xl / ll : 0;
}

/* fit_signed for Q3_K without importances: weights x^2, then single values moved while that helps. */
static float fit_signed_refined(const float *x, int n, int top, uint8_t *q)
{
    const float largest = of_largest_magnitude(x, n);
    float xl = 0, ll = 0;
    int l[MAX_GROUP];
    memset(q, 0, (size_t)n);
    if (fabsf(largest) < tiny)
        return 0;
    for (int i = 0; i < n; i++) {
        l[i] = clamp(nearest(-(float)top / largest * x[i]), -top, top - 1);
        xl += x[i] * x[i] * x[i] * (float)l[i];
        ll += x[i] * x[i] * (float)l[i] * (float)l[i];
    }
    bool changed = true;
    for (int round = 0; round < 5 && changed; round++) {
        changed = false;
        for (int i = 0; i < n; i++) {
            const float w = x[i] * x[i];
            float a = xl - w * x[i] * (float)l[i], b = ll - w * (float)l[i] * (float)l[i];
            if (!(a > 0))
                continue;
            const int v = clamp(nearest(x[i] * b / a), -top, top - 1);
            a += w * x[i] * (float)v;
            b += w * (float)v * (float)v;
            if (v != l[i] && b > 0 && a * a * ll > xl * xl * b) {
                l[i] = v;
                xl = a;
                ll = b;
                changed = true;
            }
        }
    }
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)(l[i] + top);
    return ll > 0 ? xl / ll : 0;
}

/* ---- 32 elements a block --------------------------------------------------------------------------------------- */

static const struct line_search fine = {-0.9f, 0.05f, 36, false};

static void put_nibbles(uint8_t *p, const uint8_t *q)
{
    for (int i = 0; i < 16; i++)
        p[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void put_fifth_bits(uint8_t *p, const uint8_t *q)
{
    memset(p, 0, 4);
    for (int i = 0; i < 32; i++)
        p[i / 8] |= (uint8_t)(q[i] >> 4 << (i % 8));
}

/* bits 4 or 5: Q4_0, Q5_0. */
static void block_symmetric(const float *x, const float *importance, float variance, int bits, uint8_t *out)
{
    const int top = 1 << (bits - 1);
    float w[32], d;
    uint8_t q[32];
    if (importance) {
        weigh(x, importance, 32, variance, w);
        d = fit_signed(x, 32, top, w, q);
    } else {
        d = of_largest_magnitude(x, 32) / (float)-top;
        const float inverse = d != 0 ? 1 / d : 0;
        for (int i = 0; i < 32; i++)
            q[i] = (uint8_t)clamp((int)(x[i] * inverse + ((float)top + 0.5f)), 0, 2 * top - 1);
    }
    put_half(out, d);
    if (bits == 5)
        put_fifth_bits(out + 2, q);
    put_nibbles(out + (bits == 5 ? 6 : 2), q);
}

/* bits 4 or 5: Q4_1, Q5_1. */
static void block_affine(const float *x, const float *importance, float variance, int bits, uint8_t *out)
{
    const int top = (1 << bits) - 1;
    float w[32], d, minus;
    uint8_t q[32];
    if (importance) {
        weigh(x, importance, 32, variance, w);
        d = fit_line(x, w, 32, top, fine, q, &minus);
    } else {
        float min = x[0], max = x[0];
        for (int i = 1; i < 32; i++) {
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        d = (max - min) / (float)top;
        minus = -min;
        const float inverse = d != 0 ? 1 / d : 0;
        for (int i = 0; i < 32; i++)
            q[i] = (uint8_t)clamp((int)((x[i] - min) * inverse + 0.5f), 0, top);
    }
    put_half(out, d);
    put_half(out + 2, -minus);
    if (bits == 5)
        put_fifth_bits(out + 4, q);
    put_nibbles(out + (bits == 5 ? 8 : 4), q);
}

static void block_q8_0(const float *x, uint8_t *out)
{
    const float d = fabsf(of_largest_magnitude(x, 32)) / 127, inverse = d != 0 ? 1 / d : 0;
    put_half(out, d);
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

/* ---- 256 elements a block -------------------------------------------------------------------------------------- */

/* Codes of a group for the scale and minimum that a reader sees; left alone where the scale is 0. */
static void recode(const float *x, int n, float d, float minus, int lo, int hi, uint8_t *q)
{
    for (int i = 0; d != 0 && i < n; i++)
        q[i] = (uint8_t)(clamp(nearest((x[i] + minus) / d), lo, hi) - lo);
}

/* Scales of scales without importances: the largest gets the largest code. */
static float code_scales(const float *s, int n, int top, uint8_t *code)
{
    float max = 0;
    for (int i = 0; i < n; i++)
        max = s[i] > max ? s[i] : max;
    const float inverse = max > 0 ? (float)top / max : 0;
    for (int i = 0; i < n; i++)
        code[i] = (uint8_t)clamp(nearest(inverse * s[i]), 0, top);
    return max / (float)top;
}

/* Groups of a block as lines: codes q[256], and the coded scales and minima with their own scales d[0], d[1]. */
struct line_block { uint8_t q[SUPER], scale[16], min[16]; float d[2]; };

static void fit_line_block(const float *x, const float *importance, int size, int top, int scale_top,
                           struct line_block *b)
{
    const int n = SUPER / size;
    float scales[16], mins[16], sums[16];
    const float variance = (size == 16 ? 1.f : 2.f) * mean_square(x, SUPER);
    const struct line_search coarse = size == 16 ? (struct line_search){-0.5f, 0.1f, 15, true} :
                                      top == 15 ? (struct line_search){-1.f, 0.1f, 20, false}
                                                : (struct line_search){-0.5f, 0.1f, 15, false};
    for (int g = 0; g < n; g++) {
        const float *xg = x + g * size;
        float w[MAX_GROUP];
        if (importance) {
            sums[g] = weigh(xg, importance + g * size, size, variance, w);
        } else {
            const float rms = size == 16 ? 0 : sqrtf(mean_square(xg, size));
            for (int i = 0; i < size; i++)
                w[i] = rms + fabsf(xg[i]);
        }
        scales[g] = fit_line(xg, w, size, top, importance ? fine : coarse, b->q + g * size, &mins[g]);
    }
    b->d[0] = as_half(importance ? fit_positive(scales, sums, n, scale_top, b->scale)
                                 : code_scales(scales, n, scale_top, b->scale));
    b->d[1] = as_half(importance ? fit_positive(mins, sums, n, scale_top, b->min)
                                 : code_scales(mins, n, scale_top, b->min));
    for (int g = 0; g < n; g++)
        recode(x + g * size, size, b->d[0] * (float)b->scale[g], b->d[1] * (float)b->min[g], 0, top, b->q + g * size);
}

static void block_q2_k(const float *x, const float *importance, uint8_t *out)
{
    struct line_block b;
    fit_line_block(x, importance, 16, 3, 15, &b);
    for (int g = 0; g < 16; g++)
        out[g] = (uint8_t)(b.scale[g] | b.min[g] << 4);
    for (int i = 0; i < 64; i++) {
        const uint8_t *q = b.q + i / 32 * 128 + i % 32;
        out[16 + i] = (uint8_t)(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
    put_half(out + 80, b.d[0]);
    put_half(out + 82, b.d[1]);
}

/* bits 4 or 5: Q4_K, Q5_K. */
static void block_q45_k(const float *x, const float *importance, int bits, uint8_t *out)
{
    struct line_block b;
    fit_line_block(x, importance, 32, (1 << bits) - 1, 63, &b);
    put_half(out, b.d[0]);
    put_half(out + 2, b.d[1]);
    for (int g = 0; g < 4; g++) {
        out[4 + g] = (uint8_t)(b.scale[g] | b.scale[g + 4] >> 4 << 6);
        out[8 + g] = (uint8_t)(b.min[g] | b.min[g + 4] >> 4 << 6);
        out[12 + g] = (uint8_t)((b.scale[g + 4] & 15) | (b.min[g + 4] & 15) << 4);
    }
    uint8_t *low = out + 16;
    if (bits == 5) {
        memset(out + 16, 0, 32);
        for (int i = 0; i < SUPER; i++)
            out[16 + i % 32] |= (uint8_t)(b.q[i] >> 4 << (i / 32));
        low += 32;
    }
    for (int i = 0; i < 128; i++) {
        const uint8_t *q = b.q + i / 32 * 64 + i % 32;
        low[i] = (uint8_t)((q[0] & 15) | (q[32] & 15) << 4);
    }
}

static void block_q3_k(const float *x, const float *importance, uint8_t *out)
{
    float scales[16], sums[16], w[16], d;
    uint8_t q[SUPER], code[16];
    const float variance = 2 * mean_square(x, SUPER);
    for (int g = 0; g < 16; g++) {
        if (importance)
            sums[g] = weigh(x + 16 * g, importance + 16 * g, 16, variance, w);
        scales[g] = importance ? fit_signed(x + 16 * g, 16, 4, w, q + 16 * g)
                               : fit_signed_refined(x + 16 * g, 16, 4, q + 16 * g);
    }
    if (importance) {
        d = fit_signed(scales, 16, 32, sums, code);
    } else {
        const float largest = of_largest_magnitude(scales, 16), inverse = largest != 0 ? -32 / largest : 0;
        for (int g = 0; g < 16; g++)
            code[g] = (uint8_t)(inverse != 0 ? clamp(nearest(inverse * scales[g]), -32, 31) + 32 : 0);
        d = inverse != 0 ? 1 / inverse : 0;
    }
    memset(out, 0, 110);
    put_half(out + 108, d);
    for (int g = 0; g < 16; g++) {
        recode(x + 16 * g, 16, as_half(d) * (float)(code[g] - 32), 0, -4, 3, q + 16 * g);
        out[96 + g % 8] |= (uint8_t)((code[g] & 15) << (g / 8 * 4));
        out[104 + g % 4] |= (uint8_t)(code[g] >> 4 << (2 * (g / 4)));
    }
    for (int i = 0; i < SUPER; i++) {
        out[i % 32] |= (uint8_t)(q[i] >> 2 << (i / 32));
        out[32 + i / 128 * 32 + i % 32] |= (uint8_t)((q[i] & 3) << (i % 128 / 32 * 2));
    }
}

static void block_q6_k(const float *x, const float *importance, uint8_t *out)
{
    float scales[16];
    uint8_t q[SUPER];
    memset(out, 0, 210);
    for (int g = 0; g < 16; g++)
        scales[g] = fit_signed(x + 16 * g, 16, 32, importance ? importance + 16 * g : NULL, q + 16 * g);
    const float largest = of_largest_magnitude(scales, 16);
    if (fabsf(largest) < tiny)
        return;
    const float inverse = -128 / largest, d = as_half(1 / inverse);
    put_half(out + 208, d);
    for (int g = 0; g < 16; g++) {
        const int code = clamp(nearest(inverse * scales[g]), -128, 127);
        out[192 + g] = (uint8_t)(int8_t)code;
        recode(x + 16 * g, 16, d * (float)code, 0, -32, 31, q + 16 * g);
    }
    for (int i = 0; i < SUPER; i++) {
        const int part = i / 128, k = i % 128 / 32, at = i % 32;
        out[64 * part + at + 32 * (k % 2)] |= (uint8_t)((q[i] & 15) << (k / 2 * 4));
        out[128 + 32 * part + at] |= (uint8_t)(q[i] >> 4 << (2 * k));
    }
}

/* ---- IQ4: sixteen uneven levels -------------------------------------------------------------------------------- */

static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static int nearest_level(float v)
{
    int i = 0;
    while (i < 15 && !(v - (float)levels[i] < (float)levels[i + 1] - v))
        i++;
    return i;
}

/* Best scale of a group of 32: least squares for each way to place its largest value. */
static float fit_levels(const float *x, const float *w)
{
    const float largest = of_largest_magnitude(x, 32);
    float d = 0, best = 0;
    if (fabsf(largest) < tiny)
        return 0;
    for (int k = -8; k <= 7; k++) {
        const float first = -largest / (float)levels[0];
        const float inverse = k == -8 ? 1 / first : ((float)k + (float)levels[0]) / largest;
        float qx = 0, qq = 0;
        for (int i = 0; i < 32; i++) {
            const float q = (float)levels[nearest_level(inverse * x[i])];
            qx += w[i] * q * x[i];
            qq += w[i] * q * q;
        }
        if (k == -8 || (qq > 0 && qx * qx > best * qq)) {
            d = qq > 0 ? qx / qq : 0;           /* all importances may be 0 */
            best = d * qx;
        }
    }
    return d;
}

static float fit_group_levels(const float *x, const float *importance, float variance)
{
    float w[32];
    if (importance)
        weigh(x, importance, 32, variance, w);
    for (int i = 0; i < 32 && !importance; i++)
        w[i] = x[i] * x[i];
    return fit_levels(x, w);
}

static void put_levels(const float *x, float d, uint8_t *out)
{
    const float inverse = d != 0 ? 1 / d : 0;
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)nearest_level(inverse * x[i]);
    put_nibbles(out, q);
}

static void block_iq4_nl(const float *x, const float *importance, uint8_t *out)
{
    const float d = fit_group_levels(x, importance, 2 * mean_square(x, 32));
    put_half(out, d);
    put_levels(x, d, out + 2);
}

static void block_iq4_xs(const float *x, const float *importance, uint8_t *out)
{
    const float variance = 2 * mean_square(x, SUPER);
    float scales[8];
    for (int g = 0; g < 8; g++)
        scales[g] = fit_group_levels(x + 32 * g, importance ? importance + 32 * g : NULL, variance);
    const float d = -of_largest_magnitude(scales, 8) / 32, inverse = d != 0 ? 1 / d : 0;
    memset(out, 0, 8);
    put_half(out, d);
    for (int g = 0; g < 8; g++) {
        const int code = clamp(nearest(inverse * scales[g]), -32, 31);
        out[2 + g / 4] |= (uint8_t)((code + 32) >> 4 << (2 * (g % 4)));
        out[4 + g / 2] |= (uint8_t)(((code + 32) & 15) << (g % 2 * 4));
        put_levels(x + 32 * g, d * (float)code, out + 8 + 16 * g);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static void row_plain(int id, const float *x, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        if (id == 0)
            memcpy(out + 4 * i, x + i, 4);
        else if (id == 1)
            put_half(out + 2 * i, x[i]);
        else {
            bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
            out[2 * i] = (uint8_t)bits;
            out[2 * i + 1] = (uint8_t)(bits >> 8);
        }
    }
}

bool quantize_knows(const struct ggml_type *type)
{
    static const int ids[] = {0, 1, 30, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (type->id == ids[i])
            return true;
    return false;
}

void quantize_row(const struct ggml_type *type, const float *x, int64_t n, const float *importance, uint8_t *out)
{
    const float variance = mean_square(x, n);           /* of the whole row: for the types of 32 */
    if (type->block_elements == 1) {
        row_plain(type->id, x, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i += type->block_elements, out += type->block_bytes) {
        const float *at = x + i, *w = importance ? importance + i : NULL;
        switch (type->id) {
        case 2: block_symmetric(at, w, variance, 4, out); break;
        case 3: block_affine(at, w, variance, 4, out); break;
        case 6: block_symmetric(at, w, variance, 5, out); break;
        case 7: block_affine(at, w, variance, 5, out); break;
        case 8: block_q8_0(at, out); break;
        case 10: block_q2_k(at, w, out); break;
        case 11: block_q3_k(at, w, out); break;
        case 12: block_q45_k(at, w, 4, out); break;
        case 13: block_q45_k(at, w, 5, out); break;
        case 14: block_q6_k(at, w, out); break;
        case 20: block_iq4_nl(at, w, out); break;
        case 23: block_iq4_xs(at, w, out); break;
        }
    }
}
