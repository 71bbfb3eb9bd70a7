/* kernels_neon.c - the kernels for 64-bit ARM: a vector is four registers. */
#include "engine/kernels.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <string.h>

#ifndef KERNELS
#define KERNELS kernels_neon
#define KERNELS_NAME "neon"
#endif
enum { TILE_M = 2, TILE_N = 2, PACKED_M = 4 };

typedef struct { float32x4_t q[4]; } v16;
#define V static inline __attribute__((always_inline)) v16
#define FOUR(expression)                    \
    do {                                    \
        v16 r;                              \
        for (int i = 0; i < 4; i++)         \
            r.q[i] = (expression);          \
        return r;                           \
    } while (0)

static inline float32x4_t bf16_quarter(const uint8_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
static inline float32x4_t f16_quarter(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
static inline float32x4_t exponent_quarter(float32x4_t t)
{
    const uint32x4_t n = vaddq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(127u - 0x4b400000u));
    return vreinterpretq_f32_u32(vshlq_n_u32(n, 23));
}

V v_set1(float a) { FOUR(vdupq_n_f32(a)); }
V v_load(const void *p) { FOUR(vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p + 16 * i))); }
static inline void v_store(float *p, v16 v)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, v.q[i]);
}
V v_load_bf16(const uint8_t *p) { FOUR(bf16_quarter(p + 8 * i)); }
V v_load_f16(const uint8_t *p) { FOUR(f16_quarter(p + 8 * i)); }
V v_add(v16 a, v16 b) { FOUR(vaddq_f32(a.q[i], b.q[i])); }
V v_sub(v16 a, v16 b) { FOUR(vsubq_f32(a.q[i], b.q[i])); }
V v_mul(v16 a, v16 b) { FOUR(vmulq_f32(a.q[i], b.q[i])); }
V v_div(v16 a, v16 b) { FOUR(vdivq_f32(a.q[i], b.q[i])); }
V v_fma(v16 a, v16 b, v16 c) { FOUR(vfmaq_f32(c.q[i], a.q[i], b.q[i])); }
V v_max(v16 a, v16 b) { FOUR(vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i])); }
V v_min(v16 a, v16 b) { FOUR(vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i])); }
V v_unless_less(v16 a, v16 b, v16 v)
{
    FOUR(vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v.q[i]), vcltq_f32(a.q[i], b.q[i]))));
}
V v_abs(v16 a) { FOUR(vabsq_f32(a.q[i])); }
V v_copysign(v16 a, v16 sign) { FOUR(vbslq_f32(vdupq_n_u32(0x80000000u), sign.q[i], a.q[i])); }
V v_exponent(v16 t) { FOUR(exponent_quarter(t.q[i])); }

static inline float v_sum(v16 v)
{
    const float32x4_t four = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

typedef struct { int32x4_t q[4]; } i16;
typedef struct { uint8x16_t q[4]; } w64;
typedef float32x4_t w_table;            /* the first level */
#define FOUR_OF(type, expression)           \
    do {                                    \
        type r;                             \
        for (int i = 0; i < 4; i++)         \
            r.q[i] = (expression);          \
        return r;                           \
    } while (0)

static inline int32x4_t i8_quarter(const uint8_t *p)
{
    int8_t four[8] = {0};
    memcpy(four, p, 4);
    return vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(four))));
}
static inline uint32x4_t u8_quarter(const uint8_t *p)
{
    uint8_t four[8] = {0};
    memcpy(four, p, 4);
    return vmovl_u16(vget_low_u16(vmovl_u8(vld1_u8(four))));
}
/* The four products of a lane, then two rounds of sums of neighbours. */
static inline int32x4_t dot_quarter(int32x4_t acc, uint8x16_t code, int16x4_t x)
{
    const int16x8_t lo = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(code)));
    const int16x8_t hi = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(code)));
    const int32x4_t a = vpaddq_s32(vmull_s16(vget_low_s16(lo), x), vmull_s16(vget_high_s16(lo), x));
    const int32x4_t b = vpaddq_s32(vmull_s16(vget_low_s16(hi), x), vmull_s16(vget_high_s16(hi), x));
    return vaddq_s32(acc, vpaddq_s32(a, b));
}
static inline float32x4_t nibble_quarter(uint8x16_t w, int j, float32x4_t first)
{
    const uint32x4_t code = vandq_u32(vshlq_u32(vreinterpretq_u32_u8(w), vdupq_n_s32(-4 * j)), vdupq_n_u32(15));
    return vaddq_f32(vcvtq_f32_u32(code), first);
}
static inline float32x4_t byte_quarter(uint8x16_t w, int j)
{
    const uint32x4_t s = vreinterpretq_u32_u8(veorq_u8(w, vdupq_n_u8(128)));
    const uint32x4_t top = vandq_u32(vshlq_u32(s, vdupq_n_s32(24 - 8 * j)), vdupq_n_u32(0xff000000u));
    return vcvtq_f32_s32(vreinterpretq_s32_u32(top));
}

static inline i16 i_set1(int32_t a) { FOUR_OF(i16, vdupq_n_s32(a)); }
V v_from_i(i16 a) { FOUR(vcvtq_f32_s32(a.q[i])); }
V v_load_i8(const uint8_t *p) { FOUR(vcvtq_f32_s32(i8_quarter(p + 4 * i))); }
V v_load_u8(const uint8_t *p) { FOUR(vcvtq_f32_u32(u8_quarter(p + 4 * i))); }
static inline w64 w_load(const uint8_t *p) { FOUR_OF(w64, vld1q_u8(p + 16 * i)); }
static inline w64 w_low(w64 w) { FOUR_OF(w64, vandq_u8(w.q[i], vdupq_n_u8(15))); }
static inline w64 w_high(w64 w) { FOUR_OF(w64, vshrq_n_u8(w.q[i], 4)); }
static inline i16 i_dot4(i16 acc, w64 code, const int8_t *x, bool narrow)
{
#ifdef __ARM_FEATURE_DOTPROD
    /* The instruction takes signed bytes: codes above 127 go in as 127 and the rest. */
    int32_t four;
    memcpy(&four, x, sizeof four);
    const int8x16_t all = vreinterpretq_s8_s32(vdupq_n_s32(four));
    for (int i = 0; i < 4; i++) {
        const uint8x16_t low = narrow ? code.q[i] : vandq_u8(code.q[i], vdupq_n_u8(127));
        acc.q[i] = vdotq_s32(acc.q[i], vreinterpretq_s8_u8(low), all);
        if (!narrow)
            acc.q[i] = vaddq_s32(acc.q[i], vshlq_n_s32(vdotq_s32(vdupq_n_s32(0), vreinterpretq_s8_u8(
                vshrq_n_u8(code.q[i], 7)), all), 7));
    }
    return acc;
#else
    int8_t four[8] = {0};
    memcpy(four, x, 4);
    const int16x4_t wide = vget_low_s16(vmovl_s8(vld1_s8(four)));
    (void)narrow;
    FOUR_OF(i16, dot_quarter(acc.q[i], code.q[i], wide));
#endif
}
static inline w_table w_table_load(const float *levels) { return vdupq_n_f32(levels[0]); }
V w_nibble(w64 w, int j, w_table first) { FOUR(nibble_quarter(w.q[i], j, first)); }
V w_byte(w64 w, int j) { FOUR(byte_quarter(w.q[i], j)); }

#include "engine/kernels_body.h"
#endif
