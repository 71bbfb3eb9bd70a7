/* kernels_neon.c - the kernels for 64-bit ARM: a vector is four registers. */
#include "engine/kernels.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define KERNELS kernels_neon
#define KERNELS_NAME "neon"
enum { TILE_M = 2, TILE_N = 2 };

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
V v_abs(v16 a) { FOUR(vabsq_f32(a.q[i])); }
V v_copysign(v16 a, v16 sign) { FOUR(vbslq_f32(vdupq_n_u32(0x80000000u), sign.q[i], a.q[i])); }
V v_exponent(v16 t) { FOUR(exponent_quarter(t.q[i])); }

static inline float v_sum(v16 v)
{
    const float32x4_t four = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

#include "engine/kernels_body.h"
#endif
