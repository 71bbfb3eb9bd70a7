/* ggml_types.c - the block formats of ggml, one reader a type. Each multiplies in ggml's own order, so that a value is
 * the same bits there and here. */
#include "engine/ggml_codes.h"
#include "engine/ggml_grids.h"
#include "engine/internal.h"

#include <math.h>
#include <string.h>

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

float ggml_half(const uint8_t *p)
{
    return half_to_f32(p, 0);
}

/* ---- 32 elements a block --------------------------------------------------------------------------------------- */

static void read_q4_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((b[2 + i] & 15) - 8) * d;
        y[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

static void read_q4_1(const uint8_t *b, float *y)
{
    float d = ggml_half(b), m = ggml_half(b + 2);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(b[4 + i] & 15) * d + m;
        y[i + 16] = (float)(b[4 + i] >> 4) * d + m;
    }
}

/* The fifth bits of all 32 values stand in one word. */
static int five_bits(const uint8_t *low, uint32_t high, int i)
{
    int nibble = i < 16 ? low[i] & 15 : low[i - 16] >> 4;
    return nibble | (int)(high >> i & 1) << 4;
}

static void read_q5_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    uint32_t high = get32(b + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(five_bits(b + 6, high, i) - 16) * d;
}

static void read_q5_1(const uint8_t *b, float *y)
{
    float d = ggml_half(b), m = ggml_half(b + 2);
    uint32_t high = get32(b + 4);
    for (int i = 0; i < 32; i++)
        y[i] = (float)five_bits(b + 8, high, i) * d + m;
}

static void read_q8_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(int8_t)b[2 + i] * d;
}

const int8_t ggml_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void read_iq4_nl(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)ggml_iq4_values[b[2 + i] & 15];
        y[i + 16] = d * (float)ggml_iq4_values[b[2 + i] >> 4];
    }
}

/* ---- four-bit floats ------------------------------------------------------------------------------------------- */

/* E2M1 values, doubled: the scales below are halved for it. */
const int8_t ggml_e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void read_mxfp4(const uint8_t *b, float *y)
{
    float d = ldexpf(1, b[0] - 128);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)ggml_e2m1_values[b[1 + i] & 15];
        y[i + 16] = d * (float)ggml_e2m1_values[b[1 + i] >> 4];
    }
}

/* Unsigned E4M3, halved. */
static float e4m3_half(uint8_t v)
{
    int exponent = v >> 3 & 15, mantissa = v & 7;
    if (v == 0 || v == 0x7f)
        return 0;
    return exponent ? ldexpf((float)(8 + mantissa), exponent - 11) : ldexpf((float)mantissa, -10);
}

static void read_nvfp4(const uint8_t *b, float *y)
{
    for (int group = 0; group < 4; group++, y += 16) {
        float d = e4m3_half(b[group]);
        const uint8_t *q = b + 4 + 8 * group;
        for (int i = 0; i < 8; i++) {
            y[i] = d * (float)ggml_e2m1_values[q[i] & 15];
            y[i + 8] = d * (float)ggml_e2m1_values[q[i] >> 4];
        }
    }
}

/* ---- one and two bits, ternary --------------------------------------------------------------------------------- */

static void read_q1_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int i = 0; i < 128; i++)
        y[i] = b[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

static void read_q2_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int i = 0; i < 64; i++)
        y[i] = (float)((b[2 + i / 4] >> (2 * (i % 4)) & 3) - 1) * d;
}

/* Five ternary digits a byte, as the fraction byte / 256 in base 3: multiplying by 3^k brings digit k to the front. */
static float trit(uint8_t byte, int k, float d)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint8_t q = (uint8_t)(byte * power[k]);
    return (float)((q * 3 >> 8) - 1) * d;
}

static void read_tq1_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b + 52);
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 32; i++)
            *y++ = trit(b[i], k, d);
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 16; i++)
            *y++ = trit(b[32 + i], k, d);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
            *y++ = trit(b[48 + i], k, d);
}

static void read_tq2_0(const uint8_t *b, float *y)
{
    float d = ggml_half(b + 64);
    for (int part = 0; part < 64; part += 32)
        for (int shift = 0; shift < 8; shift += 2)
            for (int i = 0; i < 32; i++)
                *y++ = (float)((b[part + i] >> shift & 3) - 1) * d;
}

/* ---- K-quants: 256 elements a block, scales of scales ---------------------------------------------------------- */

static void read_q2_k(const uint8_t *b, float *y)
{
    const uint8_t *scales = b, *q = b + 16;
    float d = ggml_half(b + 80), dmin = ggml_half(b + 82);
    for (int half_block = 0; half_block < 2; half_block++, q += 32)
        for (int shift = 0; shift < 8; shift += 2)
            for (int part = 0; part < 32; part += 16) {
                float dl = d * (float)(*scales & 15), ml = dmin * (float)(*scales >> 4);
                scales++;
                for (int i = 0; i < 16; i++)
                    *y++ = dl * (float)(q[part + i] >> shift & 3) - ml;
            }
}

/* Sixteen 6-bit scales in 12 bytes: low nibbles in the first eight, two high bits each in the last four. */
int ggml_q3_scale(const uint8_t *s, int i)
{
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    return (low | (s[8 + i % 4] >> (2 * (i / 4)) & 3) << 4) - 32;
}

static void read_q3_k(const uint8_t *b, float *y)
{
    const uint8_t *high = b, *q = b + 32, *scales = b + 96;
    float d = ggml_half(b + 108);
    int is = 0;
    for (int bit = 0; bit < 8; bit++) {
        const uint8_t *low = q + 32 * (bit / 4);
        for (int part = 0; part < 32; part += 16) {
            float dl = d * (float)ggml_q3_scale(scales, is++);
            for (int i = part; i < part + 16; i++) {
                int v = (low[i] >> (2 * (bit % 4)) & 3) - (high[i] >> bit & 1 ? 0 : 4);
                *y++ = dl * (float)v;
            }
        }
    }
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes. */
void ggml_q4_scale_min(const uint8_t *s, int i, int *scale, int *min)
{
    if (i < 4) {
        *scale = s[i] & 63;
        *min = s[i + 4] & 63;
    } else {
        *scale = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
        *min = s[i + 4] >> 4 | s[i] >> 6 << 4;
    }
}

static void read_q4_k(const uint8_t *b, float *y)
{
    float d = ggml_half(b), dmin = ggml_half(b + 2);
    for (int group = 0; group < 8; group++) {
        int scale, min;
        ggml_q4_scale_min(b + 4, group, &scale, &min);
        float dl = d * (float)scale, ml = dmin * (float)min;
        const uint8_t *q = b + 16 + 32 * (group / 2);
        for (int i = 0; i < 32; i++)
            *y++ = dl * (float)(group % 2 ? q[i] >> 4 : q[i] & 15) - ml;
    }
}

static void read_q5_k(const uint8_t *b, float *y)
{
    float d = ggml_half(b), dmin = ggml_half(b + 2);
    const uint8_t *high = b + 16;
    for (int group = 0; group < 8; group++) {
        int scale, min;
        ggml_q4_scale_min(b + 4, group, &scale, &min);
        float dl = d * (float)scale, ml = dmin * (float)min;
        const uint8_t *q = b + 48 + 32 * (group / 2);
        for (int i = 0; i < 32; i++) {
            int v = (group % 2 ? q[i] >> 4 : q[i] & 15) + (high[i] >> group & 1) * 16;
            *y++ = dl * (float)v - ml;
        }
    }
}

static void read_q6_k(const uint8_t *b, float *y)
{
    float d = ggml_half(b + 208);
    for (int part = 0; part < 2; part++, y += 128) {
        const uint8_t *low = b + 64 * part, *high = b + 128 + 32 * part;
        const uint8_t *scale = b + 192 + 8 * part;
        for (int i = 0; i < 32; i++)
            for (int k = 0; k < 4; k++) {
                int nibble = k < 2 ? low[i + 32 * k] & 15 : low[i + 32 * (k - 2)] >> 4;
                int v = (nibble | (high[i] >> (2 * k) & 3) << 4) - 32;
                y[i + 32 * k] = d * (float)(int8_t)scale[i / 16 + 2 * k] * (float)v;
            }
    }
}

/* ---- IQ types: points of a lattice and signs ------------------------------------------------------------------- */

/* Seven sign bits; the eighth makes their number even. */
static uint32_t even_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (seven & 127) | (parity & 1) << 7;
}

static float *put_signed(float *y, const uint8_t *grid, int n, uint32_t signs, float scale)
{
    for (int i = 0; i < n; i++)
        *y++ = scale * (float)grid[i] * (signs >> i & 1 ? -1.f : 1.f);
    return y;
}

static void read_iq2_xxs(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int group = 0; group < 8; group++) {
        const uint8_t *q = b + 2 + 8 * group;
        uint32_t word = get32(q + 4);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (int i = 0; i < 4; i++)
            y = put_signed(y, grid_iq2_xxs[q[i]], 8, even_signs(word >> (7 * i) & 127), scale);
    }
}

static void read_iq2_xs(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int i = 0; i < 32; i++) {
        uint32_t q = get16(b + 2 + 2 * i), nibble = b[66 + i / 4] >> (i % 4 / 2 * 4) & 15;
        float scale = d * (0.5f + (float)nibble) * 0.25f;
        y = put_signed(y, grid_iq2_xs[q & 511], 8, even_signs(q >> 9), scale);
    }
}

static void read_iq2_s(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    const uint8_t *low = b + 2, *signs = b + 34, *high = b + 66, *scales = b + 74;
    for (int i = 0; i < 32; i++) {
        uint32_t index = low[i] | (uint32_t)(high[i / 4] >> (2 * (i % 4)) & 3) << 8;
        float scale = d * (0.5f + (float)(scales[i / 4] >> (i % 4 / 2 * 4) & 15)) * 0.25f;
        y = put_signed(y, grid_iq2_s[index], 8, signs[i], scale);
    }
}

static void read_iq3_xxs(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    const uint8_t *q = b + 2, *words = b + 66;
    for (int group = 0; group < 8; group++) {
        uint32_t word = get32(words + 4 * group);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        for (int i = 0; i < 4; i++) {
            uint32_t signs = even_signs(word >> (7 * i) & 127);
            y = put_signed(y, grid_iq3_xxs[*q++], 4, signs, scale);
            y = put_signed(y, grid_iq3_xxs[*q++], 4, signs >> 4, scale);
        }
    }
}

static void read_iq3_s(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    const uint8_t *low = b + 2, *high = b + 66, *signs = b + 74, *scales = b + 106;
    for (int i = 0; i < 64; i++) {
        uint32_t index = low[i] | (uint32_t)(high[i / 8] >> (i % 8) & 1) << 8;
        float scale = d * (float)(1 + 2 * (scales[i / 16] >> (i / 8 % 2 * 4) & 15));
        y = put_signed(y, grid_iq3_s[index], 4, (uint32_t)signs[i / 2] >> (i % 2 * 4), scale);
    }
}

static float *put_ternary(float *y, uint32_t index, float scale, float delta)
{
    for (int i = 0; i < 8; i++)
        *y++ = scale * ((float)grid_iq1_s[index][i] + delta);
    return y;
}

static void read_iq1_s(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    for (int group = 0; group < 8; group++) {
        uint32_t high = get16(b + 34 + 2 * group);
        float scale = d * (float)(2 * (high >> 12 & 7) + 1), delta = high & 0x8000 ? -0.125f : 0.125f;
        for (int i = 0; i < 4; i++)
            y = put_ternary(y, b[2 + 4 * group + i] | (high >> (3 * i) & 7) << 8, scale, delta);
    }
}

/* The block's scale is spread over the top nibbles of the four scale words. */
static void read_iq1_m(const uint8_t *b, float *y)
{
    const uint8_t *low = b, *high = b + 32, *scales = b + 48;
    uint32_t packed = 0;
    for (int i = 0; i < 4; i++)
        packed |= get16(scales + 2 * i) >> 12 << (4 * i);
    const uint8_t bytes[2] = {(uint8_t)packed, (uint8_t)(packed >> 8)};
    float d = ggml_half(bytes);
    for (int i = 0; i < 32; i++) {
        uint32_t nibble = high[i / 2] >> (i % 2 * 4) & 15, three = get16(scales + i / 8 * 2) >> (i / 2 % 4 * 3) & 7;
        y = put_ternary(y, low[i] | (nibble & 7) << 8, d * (float)(2 * three + 1), nibble & 8 ? -0.125f : 0.125f);
    }
}

static void read_iq4_xs(const uint8_t *b, float *y)
{
    float d = ggml_half(b);
    uint32_t high = get16(b + 2);
    for (int group = 0; group < 8; group++, y += 32) {
        int scale = (b[4 + group / 2] >> (group % 2 * 4) & 15) | (int)(high >> (2 * group) & 3) << 4;
        float dl = d * (float)(scale - 32);
        const uint8_t *q = b + 8 + 16 * group;
        for (int i = 0; i < 16; i++) {
            y[i] = dl * (float)ggml_iq4_values[q[i] & 15];
            y[i + 16] = dl * (float)ggml_iq4_values[q[i] >> 4];
        }
    }
}

static const struct ggml_type types[] = {
    {"F32", 0, 1, 4, NULL}, {"F16", 1, 1, 2, NULL}, {"BF16", 30, 1, 2, NULL},
    {"Q4_0", 2, 32, 18, read_q4_0}, {"Q4_1", 3, 32, 20, read_q4_1},
    {"Q5_0", 6, 32, 22, read_q5_0}, {"Q5_1", 7, 32, 24, read_q5_1}, {"Q8_0", 8, 32, 34, read_q8_0},
    {"Q2_K", 10, 256, 84, read_q2_k}, {"Q3_K", 11, 256, 110, read_q3_k}, {"Q4_K", 12, 256, 144, read_q4_k},
    {"Q5_K", 13, 256, 176, read_q5_k}, {"Q6_K", 14, 256, 210, read_q6_k},
    {"IQ2_XXS", 16, 256, 66, read_iq2_xxs}, {"IQ2_XS", 17, 256, 74, read_iq2_xs}, {"IQ2_S", 22, 256, 82, read_iq2_s},
    {"IQ3_XXS", 18, 256, 98, read_iq3_xxs}, {"IQ3_S", 21, 256, 110, read_iq3_s},
    {"IQ1_S", 19, 256, 50, read_iq1_s}, {"IQ1_M", 29, 256, 56, read_iq1_m},
    {"IQ4_NL", 20, 32, 18, read_iq4_nl}, {"IQ4_XS", 23, 256, 136, read_iq4_xs},
    {"TQ1_0", 34, 256, 54, read_tq1_0}, {"TQ2_0", 35, 256, 66, read_tq2_0},
    {"MXFP4", 39, 32, 17, read_mxfp4}, {"NVFP4", 40, 64, 36, read_nvfp4},
    {"Q1_0", 41, 128, 18, read_q1_0}, {"Q2_0", 42, 64, 18, read_q2_0},
};

const struct ggml_type *ggml_type_of(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)types[i].id == id)
            return &types[i];
    return NULL;
}

const struct ggml_type *ggml_type_named(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}
