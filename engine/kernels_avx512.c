/* kernels_avx512.c - the kernels for AVX-512 (F, BW, VL, DQ): a vector is one register. */
#include "engine/kernels.h"

#ifdef __AVX512F__
#include <immintrin.h>

#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
enum { TILE_M = 4, TILE_N = 4 };

typedef __m512 v16;
#define V static inline __attribute__((always_inline)) v16

V v_set1(float a) { return _mm512_set1_ps(a); }
V v_load(const void *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, v16 v) { _mm512_storeu_ps(p, v); }
V v_load_bf16(const uint8_t *p)
{
    const __m256i h = _mm256_loadu_si256((const __m256i *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
V v_load_f16(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
V v_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
V v_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
V v_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
V v_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
V v_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
V v_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
V v_min(v16 a, v16 b) { return _mm512_min_ps(a, b); }
V v_abs(v16 a) { return _mm512_abs_ps(a); }
V v_copysign(v16 a, v16 sign)
{
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32(0x7fffffff), _mm512_castps_si512(a),
                                                         _mm512_castps_si512(sign), 0xca));
}
V v_exponent(v16 t)
{
    const __m512i n = _mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(127 - 0x4b400000));
    return _mm512_castsi512_ps(_mm512_slli_epi32(n, 23));
}

static inline float v_sum(v16 v)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#include "engine/kernels_body.h"
#endif
