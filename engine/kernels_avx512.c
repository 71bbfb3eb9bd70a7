/* kernels_avx512.c - the kernels for AVX-512 (F, BW, VL, DQ): a vector is one register. Files for newer instruction
 * sets include this one. */
#include "engine/kernels.h"

#ifdef __AVX512F__
#include <immintrin.h>
#include <string.h>

#ifndef KERNELS
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
#endif
enum { TILE_M = 4, TILE_N = 4, PACKED_M = 8 };

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
V v_unless_less(v16 a, v16 b, v16 v) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), v); }
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

typedef __m512i i16, w64;
typedef __m512 w_table;
#define I static inline __attribute__((always_inline)) __m512i

I i_set1(int32_t a) { return _mm512_set1_epi32(a); }
V v_from_i(i16 a) { return _mm512_cvtepi32_ps(a); }
V v_load_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
V v_load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
I w_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
I w_low(w64 w) { return _mm512_and_si512(w, _mm512_set1_epi8(15)); }
I w_high(w64 w) { return _mm512_and_si512(_mm512_srli_epi16(w, 4), _mm512_set1_epi8(15)); }
I i_dot4(i16 acc, w64 code, const int8_t *x, bool narrow)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
#ifdef __AVX512VNNI__
    (void)narrow;
    return _mm512_dpbusd_epi32(acc, code, _mm512_set1_epi32(four));
#else
    if (narrow) {
        const __m512i pairs = _mm512_maddubs_epi16(code, _mm512_set1_epi32(four));
        return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    }
    const __m512i wide = _mm512_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(four)));
    const __m512i lo = _mm512_madd_epi16(_mm512_unpacklo_epi8(code, _mm512_setzero_si512()), wide);
    const __m512i hi = _mm512_madd_epi16(_mm512_unpackhi_epi8(code, _mm512_setzero_si512()), wide);
    const __m512 a = _mm512_castsi512_ps(lo), b = _mm512_castsi512_ps(hi);
    const __m512i even = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88));
    return _mm512_add_epi32(acc, _mm512_add_epi32(even, _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd))));
#endif
}
static inline w_table w_table_load(const float *levels) { return _mm512_loadu_ps(levels); }
/* The permutation takes the low four bits of a lane as its index. */
V w_nibble(w64 w, int j, w_table table) { return _mm512_permutexvar_ps(_mm512_srli_epi32(w, 4 * (unsigned)j), table); }
V w_byte(w64 w, int j)
{
    const __m512i top = _mm512_maskz_shuffle_epi8(0x8888888888888888u, _mm512_xor_si512(w, _mm512_set1_epi8(-128)),
                                                  _mm512_set4_epi32((12 + j) << 24, (8 + j) << 24, (4 + j) << 24,
                                                                    j << 24));
    return _mm512_cvtepi32_ps(top);
}

#include "engine/kernels_body.h"
#endif
