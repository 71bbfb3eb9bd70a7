/* kernels_avx2.c - the kernels for AVX2 with FMA and F16C: a vector is two registers. */
#include "engine/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"
enum { TILE_M = 2, TILE_N = 2 };

typedef struct { __m256 lo, hi; } v16;
#define V static inline __attribute__((always_inline)) v16

static inline __m256 bf16_half(const uint8_t *p)
{
    const __m128i h = _mm_loadu_si128((const __m128i *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
static inline __m256 exponent_half(__m256 t)
{
    const __m256i n = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127 - 0x4b400000));
    return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}
static inline __m256 copysign_half(__m256 a, __m256 sign)
{
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, a), _mm256_and_ps(bit, sign));
}

V v_set1(float a) { return (v16){_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
V v_load(const void *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)}; }
static inline void v_store(float *p, v16 v) { _mm256_storeu_ps(p, v.lo); _mm256_storeu_ps(p + 8, v.hi); }
V v_load_bf16(const uint8_t *p) { return (v16){bf16_half(p), bf16_half(p + 16)}; }
V v_load_f16(const uint8_t *p)
{
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16)))};
}
V v_add(v16 a, v16 b) { return (v16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
V v_sub(v16 a, v16 b) { return (v16){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
V v_mul(v16 a, v16 b) { return (v16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
V v_div(v16 a, v16 b) { return (v16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
V v_fma(v16 a, v16 b, v16 c)
{
    return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
V v_max(v16 a, v16 b) { return (v16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
V v_min(v16 a, v16 b) { return (v16){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
V v_copysign(v16 a, v16 sign) { return (v16){copysign_half(a.lo, sign.lo), copysign_half(a.hi, sign.hi)}; }
V v_abs(v16 a) { return v_copysign(a, v_set1(0.0f)); }
V v_exponent(v16 t) { return (v16){exponent_half(t.lo), exponent_half(t.hi)}; }

static inline float v_sum(v16 v)
{
    const __m256 eight = _mm256_add_ps(v.lo, v.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#include "engine/kernels_body.h"
#endif
