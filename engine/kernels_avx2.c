/* kernels_avx2.c - the kernels for AVX2 with FMA and F16C: a vector is two registers. */
#include "engine/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#include <string.h>

#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"
enum { TILE_M = 2, TILE_N = 2, PACKED_M = 4 };

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
V v_unless_less(v16 a, v16 b, v16 v)
{
    return (v16){_mm256_and_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_NLT_UQ), v.lo),
                 _mm256_and_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_NLT_UQ), v.hi)};
}
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

typedef struct { __m256i lo, hi; } i16, w64;
typedef __m256 w_table;                 /* the first level */
#define PAIR(type, expression_lo, expression_hi) return (type){expression_lo, expression_hi}

static inline __m256 i8_half(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline __m256 u8_half(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline __m256i dot_half(__m256i acc, __m256i code, int32_t four, bool narrow)
{
    if (narrow) {
        const __m256i pairs = _mm256_maddubs_epi16(code, _mm256_set1_epi32(four));
        return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    const __m256i wide = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(four)));
    const __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi8(code, _mm256_setzero_si256()), wide);
    const __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi8(code, _mm256_setzero_si256()), wide);
    return _mm256_add_epi32(acc, _mm256_hadd_epi32(lo, hi));
}
static inline __m256 nibble_half(__m256i w, int j, __m256 first)
{
    const __m256i code = _mm256_and_si256(_mm256_srli_epi32(w, 4 * j), _mm256_set1_epi32(15));
    return _mm256_add_ps(_mm256_cvtepi32_ps(code), first);
}
static inline __m256 byte_half(__m256i w, int j)
{
    const __m256i top = _mm256_slli_epi32(_mm256_xor_si256(w, _mm256_set1_epi8(-128)), 24 - 8 * j);
    return _mm256_cvtepi32_ps(_mm256_and_si256(top, _mm256_set1_epi32((int)0xff000000)));
}
static inline __m256i low_half(__m256i w) { return _mm256_and_si256(w, _mm256_set1_epi8(15)); }

static inline i16 i_set1(int32_t a) { PAIR(i16, _mm256_set1_epi32(a), _mm256_set1_epi32(a)); }
V v_from_i(i16 a) { PAIR(v16, _mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)); }
V v_load_i8(const uint8_t *p) { PAIR(v16, i8_half(p), i8_half(p + 8)); }
V v_load_u8(const uint8_t *p) { PAIR(v16, u8_half(p), u8_half(p + 8)); }
static inline w64 w_load(const uint8_t *p)
{
    PAIR(w64, _mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 32)));
}
static inline w64 w_low(w64 w) { PAIR(w64, low_half(w.lo), low_half(w.hi)); }
static inline w64 w_high(w64 w)
{
    PAIR(w64, low_half(_mm256_srli_epi16(w.lo, 4)), low_half(_mm256_srli_epi16(w.hi, 4)));
}
static inline i16 i_dot4(i16 acc, w64 code, const int8_t *x, bool narrow)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    PAIR(i16, dot_half(acc.lo, code.lo, four, narrow), dot_half(acc.hi, code.hi, four, narrow));
}
static inline w_table w_table_load(const float *levels) { return _mm256_set1_ps(levels[0]); }
V w_nibble(w64 w, int j, w_table first) { PAIR(v16, nibble_half(w.lo, j, first), nibble_half(w.hi, j, first)); }
V w_byte(w64 w, int j) { PAIR(v16, byte_half(w.lo, j), byte_half(w.hi, j)); }

#include "engine/kernels_body.h"
#endif
