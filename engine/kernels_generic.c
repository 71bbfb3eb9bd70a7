/* kernels_generic.c - the kernels in plain C: for CPUs without a table of their own, and the oracle for the others. */
#include "engine/kernels.h"

#include <math.h>
#include <string.h>

#define KERNELS kernels_generic
#define KERNELS_NAME "generic"
enum { TILE_M = 1, TILE_N = 1, PACKED_M = 1 };

typedef struct { float f[16]; } v16;

#define EACH(expression)                    \
    do {                                    \
        v16 r;                              \
        for (int i = 0; i < 16; i++)        \
            r.f[i] = (expression);          \
        return r;                           \
    } while (0)

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint32_t load_u16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

static float half_to_float(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 0)
        return copysignf((float)fraction * 0x1p-24f, from_bits(sign));
    return from_bits(sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13);
}

static v16 v_set1(float a) { EACH(a); }
static v16 v_load(const void *p) { v16 r; memcpy(&r, p, sizeof r); return r; }
static void v_store(float *p, v16 v) { memcpy(p, &v, sizeof v); }
static v16 v_load_bf16(const uint8_t *p) { EACH(from_bits(load_u16(p + 2 * i) << 16)); }
static v16 v_load_f16(const uint8_t *p) { EACH(half_to_float(load_u16(p + 2 * i))); }
static v16 v_add(v16 a, v16 b) { EACH(a.f[i] + b.f[i]); }
static v16 v_sub(v16 a, v16 b) { EACH(a.f[i] - b.f[i]); }
static v16 v_mul(v16 a, v16 b) { EACH(a.f[i] * b.f[i]); }
static v16 v_div(v16 a, v16 b) { EACH(a.f[i] / b.f[i]); }
static v16 v_fma(v16 a, v16 b, v16 c) { EACH(fmaf(a.f[i], b.f[i], c.f[i])); }
static v16 v_max(v16 a, v16 b) { EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]); }
static v16 v_min(v16 a, v16 b) { EACH(a.f[i] < b.f[i] ? a.f[i] : b.f[i]); }
static v16 v_unless_less(v16 a, v16 b, v16 v) { EACH(a.f[i] < b.f[i] ? 0 : v.f[i]); }
static v16 v_abs(v16 a) { EACH(fabsf(a.f[i])); }
static v16 v_copysign(v16 a, v16 sign) { EACH(copysignf(a.f[i], sign.f[i])); }
static v16 v_exponent(v16 t) { EACH(from_bits((to_bits(t.f[i]) - 0x4b400000u + 127u) << 23)); }

static float v_sum(v16 v)
{
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            v.f[i] += v.f[i + half];
    return v.f[0];
}

typedef struct { int32_t i[16]; } i16;
typedef struct { uint8_t b[64]; } w64;
typedef struct { float level[16]; } w_table;

static i16 i_set1(int32_t a)
{
    i16 r;
    for (int i = 0; i < 16; i++)
        r.i[i] = a;
    return r;
}
static v16 v_from_i(i16 a) { EACH((float)a.i[i]); }
static v16 v_load_i8(const uint8_t *p) { EACH((float)(int8_t)p[i]); }
static v16 v_load_u8(const uint8_t *p) { EACH((float)p[i]); }
static w64 w_load(const uint8_t *p) { w64 w; memcpy(&w, p, sizeof w); return w; }
static w64 w_low(w64 w)
{
    for (int i = 0; i < 64; i++)
        w.b[i] &= 15;
    return w;
}
static w64 w_high(w64 w)
{
    for (int i = 0; i < 64; i++)
        w.b[i] >>= 4;
    return w;
}
static i16 i_dot4(i16 acc, w64 code, const int8_t *x, bool narrow)
{
    (void)narrow;
    for (int i = 0; i < 64; i++)
        acc.i[i / 4] += code.b[i] * x[i % 4];
    return acc;
}
static w_table w_table_load(const float *levels) { w_table t; memcpy(&t, levels, sizeof t); return t; }
static v16 w_nibble(w64 w, int j, w_table t) { EACH(t.level[w.b[4 * i + j / 2] >> j % 2 * 4 & 15]); }
static v16 w_byte(w64 w, int j) { EACH((float)((w.b[4 * i + j] - 128) * (1 << 24))); }

#include "engine/kernels_body.h"
