/* quantize_blocks.c - block layouts of ggml's quantised types, and the codes in them.
 *
 * Block layouts are those that ggml_types.c reads. Sums run in float32 in ascending order, as the reference's do, so
 * that the same choices are made. */
#include "engine/quantize_blocks.h"

#include "engine/quantize_search.h"

#include <math.h>
#include <string.h>

enum { SUPER = 256 };
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

static float of_largest_magnitude(const float *x, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    return largest;
}

/* ---- groups side by side --------------------------------------------------------------------------------------- */

/* `count` groups of `size` that follow each other; the lanes behind them repeat the last. */
static void gather(const float *x, int size, int count, lanes *out)
{
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < size; i++)
            out[i][l] = x[(l < count ? l : count - 1) * size + i];
}

/* Importance of a column times a softened magnitude: large values matter more, small ones never vanish. */
static lanes weigh(const lanes *x, const lanes *importance, int n, lanes variance, lanes *w)
{
    lanes sums = {0};
    for (int i = 0; i < n; i++) {
        const lanes v = variance + x[i] * x[i];
        for (int l = 0; l < LANES; l++)
            w[i][l] = importance[i][l] * sqrtf(v[l]);
        sums += w[i];
    }
    return sums;
}

static void squares(const lanes *x, int n, lanes *w)
{
    for (int i = 0; i < n; i++)
        w[i] = x[i] * x[i];
}

static void take_codes(const lanes *code, int n, int lane, uint8_t *q)
{
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)(int)code[i][lane];
}

/* ---- scales of scales ------------------------------------------------------------------------------------------ */

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
static void put_symmetric(float d, int bits, const uint8_t *q, uint8_t *out)
{
    put_half(out, d);
    if (bits == 5)
        put_fifth_bits(out + 2, q);
    put_nibbles(out + (bits == 5 ? 6 : 2), q);
}

static void block_symmetric(const float *x, int bits, uint8_t *out)
{
    const int top = 1 << (bits - 1);
    const float d = of_largest_magnitude(x, 32) / (float)-top, inverse = d != 0 ? 1 / d : 0;
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp((int)(x[i] * inverse + ((float)top + 0.5f)), 0, 2 * top - 1);
    put_symmetric(d, bits, q, out);
}

/* bits 4 or 5: Q4_1, Q5_1. */
static void put_affine(float d, float minus, int bits, const uint8_t *q, uint8_t *out)
{
    put_half(out, d);
    put_half(out + 2, -minus);
    if (bits == 5)
        put_fifth_bits(out + 4, q);
    put_nibbles(out + (bits == 5 ? 8 : 4), q);
}

static void block_affine(const float *x, int bits, uint8_t *out)
{
    const int top = (1 << bits) - 1;
    float min = x[0], max = x[0];
    uint8_t q[32];
    for (int i = 1; i < 32; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    const float d = (max - min) / (float)top, inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp((int)((x[i] - min) * inverse + 0.5f), 0, top);
    put_affine(d, -min, bits, q, out);
}

static void put_levels(const float *x, float d, uint8_t *out)
{
    uint8_t q[32];
    code_levels(x, d, q);
    put_nibbles(out, q);
}

/* Up to four blocks whose scales are searched for: Q4_0, Q4_1, Q5_0 and Q5_1 with importances, IQ4_NL always. The
 * variance is that of the whole row; IQ4_NL takes that of each block. */
static void blocks_searched(const struct ggml_type *type, const float *x, const float *importance, float variance,
                            int count, uint8_t *out)
{
    const int bits = type->id == 6 || type->id == 7 ? 5 : 4;
    const bool affine = type->id == 3 || type->id == 7, uneven = type->id == 20;
    lanes xs[32], w[32], code[32], scale, minus = {0}, variances;
    uint8_t q[32];
    gather(x, 32, count, xs);
    for (int l = 0; l < LANES; l++)
        variances[l] = uneven ? 2 * mean_square(x + 32 * (l < count ? l : count - 1), 32) : variance;
    squares(xs, 32, w);
    if (importance) {
        gather(importance, 32, count, code);
        weigh(xs, code, 32, variances, w);
    }
    scale = uneven ? search_levels(xs, w) : affine ? search_line(xs, w, 32, (1 << bits) - 1, fine, code, &minus)
            : search_signed(xs, w, 32, 1 << (bits - 1), code);
    for (int l = 0; l < count; l++, out += type->block_bytes) {
        if (uneven) {
            put_half(out, scale[l]);
            put_levels(x + 32 * l, scale[l], out + 2);
            continue;
        }
        take_codes(code, 32, l, q);
        if (affine)
            put_affine(scale[l], minus[l], bits, q, out);
        else
            put_symmetric(scale[l], bits, q, out);
    }
}

static void block_q8_0(const float *x, uint8_t *out)
{
    int8_t code[32];
    put_half(out, code_bytes(x, code));
    memcpy(out + 2, code, sizeof code);
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

/* Four groups of it, from group g on. */
static void fit_lines(const float *x, const float *importance, int size, int top, struct line_search s, int g,
                      float variance, struct line_block *b, float *scales, float *mins, float *sums)
{
    lanes xs[MAX_GROUP], w[MAX_GROUP], code[MAX_GROUP], minus;
    gather(x + g * size, size, LANES, xs);
    if (importance) {
        gather(importance + g * size, size, LANES, code);
        const lanes sum = weigh(xs, code, size, variance + (lanes){0}, w);
        memcpy(sums + g, &sum, sizeof sum);
    } else {
        lanes rms = {0};
        for (int i = 0; i < size && size == 32; i++)
            rms += xs[i] * xs[i];
        for (int l = 0; l < LANES; l++)
            rms[l] = sqrtf(rms[l] / 32.f);
        for (int i = 0; i < size; i++)
            w[i] = rms + magnitude(xs[i]);
    }
    const lanes scale = search_line(xs, w, size, top, s, code, &minus);
    memcpy(scales + g, &scale, sizeof scale);
    memcpy(mins + g, &minus, sizeof minus);
    for (int l = 0; l < LANES; l++)
        take_codes(code, size, l, b->q + (g + l) * size);
}

static void fit_line_block(const float *x, const float *importance, int size, int top, int scale_top,
                           struct line_block *b)
{
    const int n = SUPER / size;
    float scales[16], mins[16], sums[16];
    const float variance = importance ? (size == 16 ? 1.f : 2.f) * mean_square(x, SUPER) : 0;
    const struct line_search coarse = size == 16 ? (struct line_search){-0.5f, 0.1f, 15, true} :
                                      top == 15 ? (struct line_search){-1.f, 0.1f, 20, false}
                                                : (struct line_search){-0.5f, 0.1f, 15, false};
    for (int g = 0; g < n; g += LANES)
        fit_lines(x, importance, size, top, importance ? fine : coarse, g, variance, b, scales, mins, sums);
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
    float scales[16], sums[16], d;
    uint8_t q[SUPER], code[16];
    const float variance = importance ? 2 * mean_square(x, SUPER) : 0;
    for (int g = 0; g < 16; g += LANES) {
        lanes xs[16], w[16], codes[16], scale;
        gather(x + 16 * g, 16, LANES, xs);
        if (importance) {
            gather(importance + 16 * g, 16, LANES, codes);
            const lanes sum = weigh(xs, codes, 16, variance + (lanes){0}, w);
            memcpy(sums + g, &sum, sizeof sum);
            scale = search_signed(xs, w, 16, 4, codes);
        } else {
            scale = search_signed_refined(xs, 16, 4, codes);
        }
        memcpy(scales + g, &scale, sizeof scale);
        for (int l = 0; l < LANES; l++)
            take_codes(codes, 16, l, q + 16 * (g + l));
    }
    if (importance) {
        lanes xs[16], w[16], codes[16];
        gather(scales, 16, 1, xs);
        gather(sums, 16, 1, w);
        d = search_signed(xs, w, 16, 32, codes)[0];
        take_codes(codes, 16, 0, code);
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
    for (int g = 0; g < 16; g += LANES) {
        lanes xs[16], w[16], codes[16];
        gather(x + 16 * g, 16, LANES, xs);
        if (importance)
            gather(importance + 16 * g, 16, LANES, w);
        else
            squares(xs, 16, w);
        const lanes scale = search_signed(xs, w, 16, 32, codes);
        memcpy(scales + g, &scale, sizeof scale);
        for (int l = 0; l < LANES; l++)
            take_codes(codes, 16, l, q + 16 * (g + l));
    }
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

static void block_iq4_xs(const float *x, const float *importance, uint8_t *out)
{
    const float variance = importance ? 2 * mean_square(x, SUPER) : 0;
    float scales[8];
    for (int g = 0; g < 8; g += LANES) {
        lanes xs[32], w[32], weights[32];
        gather(x + 32 * g, 32, LANES, xs);
        squares(xs, 32, w);
        if (importance) {
            gather(importance + 32 * g, 32, LANES, weights);
            weigh(xs, weights, 32, variance + (lanes){0}, w);
        }
        const lanes scale = search_levels(xs, w);
        memcpy(scales + g, &scale, sizeof scale);
    }
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

static void put_block(const struct ggml_type *type, const float *x, const float *importance, uint8_t *out)
{
    switch (type->id) {
    case 2: block_symmetric(x, 4, out); break;
    case 3: block_affine(x, 4, out); break;
    case 6: block_symmetric(x, 5, out); break;
    case 7: block_affine(x, 5, out); break;
    case 8: block_q8_0(x, out); break;
    case 10: block_q2_k(x, importance, out); break;
    case 11: block_q3_k(x, importance, out); break;
    case 12: block_q45_k(x, importance, 4, out); break;
    case 13: block_q45_k(x, importance, 5, out); break;
    case 14: block_q6_k(x, importance, out); break;
    case 23: block_iq4_xs(x, importance, out); break;
    }
}

void quantize_row(const struct ggml_type *type, const float *x, int64_t n, const float *importance, uint8_t *out)
{
    const int size = type->block_elements;
    if (size == 1) {
        row_plain(type->id, x, n, out);
    } else if (type->id == 20 || (importance && size == 32 && type->id != 8)) {
        const float variance = importance ? mean_square(x, n) : 0;
        for (int64_t i = 0; i < n; i += 32 * LANES)
            blocks_searched(type, x + i, importance ? importance + i : NULL, variance,
                            n - i < 32 * LANES ? (int)(n - i) / 32 : LANES, out + i / 32 * type->block_bytes);
    } else {
        for (int64_t i = 0; i < n; i += size)
            put_block(type, x + i, importance ? importance + i : NULL, out + i / size * type->block_bytes);
    }
}
