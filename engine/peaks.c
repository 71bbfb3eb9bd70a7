/* peaks.c - loops of independent multiply-adds in the narrow types that some CPUs have instructions for, to measure
 * their limit. They are compiled here whatever the compiler is told to build for; the CPU is asked before one runs. */
#include "engine/peaks.h"

enum { CHAINS = 12 };

/* sum[c] = op(sum[c]) over and over; CHAINS of them hide the latency of one. */
#define CHAINED(type, zero, op) \
    type sum[CHAINS]; \
    for (int c = 0; c < CHAINS; c++) \
        sum[c] = zero; \
    for (int64_t r = 0; r < rounds; r++) \
        for (int c = 0; c < CHAINS; c++) \
            sum[c] = op

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f,avx512vnni"))) static float vnni(int64_t rounds)
{
    const __m512i a = _mm512_set1_epi32((int)rounds | 1), b = _mm512_set1_epi32(0x01010101);
    CHAINED(__m512i, _mm512_setzero_si512(), _mm512_dpbusd_epi32(sum[c], a, b));
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm512_add_epi32(sum[0], sum[c]);
    return (float)_mm512_reduce_add_epi32(sum[0]);
}

__attribute__((target("avx2"))) static float maddubs(int64_t rounds)
{
    const __m256i a = _mm256_set1_epi32((int)rounds | 1), b = _mm256_set1_epi32(0x01010101);
    const __m256i ones = _mm256_set1_epi16(1);
    CHAINED(__m256i, _mm256_setzero_si256(),
            _mm256_add_epi32(sum[c], _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_xor_si256(a, sum[c]), b), ones)));
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm256_add_epi32(sum[0], sum[c]);
    return (float)_mm256_extract_epi32(sum[0], 0);
}

__attribute__((target("avx512f,avx512bf16"))) static float bf16_pairs(int64_t rounds)
{
    const __m512i ones = _mm512_set1_epi32((int)(rounds & 1) | 0x3f803f80);
    CHAINED(__m512, _mm512_setzero_ps(), _mm512_dpbf16_ps(sum[c], (__m512bh)ones, (__m512bh)ones));
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm512_add_ps(sum[0], sum[c]);
    return _mm512_reduce_add_ps(sum[0]);
}

bool peak_int8(struct peak *p)
{
    const bool wide = __builtin_cpu_supports("avx512vnni");
    *p = wide ? (struct peak){vnni, CHAINS * 64} : (struct peak){maddubs, CHAINS * 32};
    return wide || __builtin_cpu_supports("avx2");
}

bool peak_bf16(struct peak *p)
{
    *p = (struct peak){bf16_pairs, CHAINS * 32};
    return __builtin_cpu_supports("avx512bf16");
}

#elif defined(__aarch64__) && defined(__linux__)
#include <arm_neon.h>
#include <sys/auxv.h>

enum { CAP_DOT_PRODUCT = 1 << 20, CAP2_I8MM = 1 << 13, CAP2_BF16 = 1 << 14 };      /* HWCAP_ASIMDDP, HWCAP2_... */

__attribute__((target("arch=armv8.2-a+dotprod"))) static float dot_product(int64_t rounds)
{
    const int8x16_t a = vdupq_n_s8((int8_t)rounds), b = vdupq_n_s8(1);
    CHAINED(int32x4_t, vdupq_n_s32(0), vdotq_s32(sum[c], a, b));
    for (int c = 1; c < CHAINS; c++)
        sum[0] = vaddq_s32(sum[0], sum[c]);
    return (float)vaddvq_s32(sum[0]);
}

__attribute__((target("arch=armv8.2-a+i8mm"))) static float matrix_product(int64_t rounds)
{
    const int8x16_t a = vdupq_n_s8((int8_t)rounds), b = vdupq_n_s8(1);
    CHAINED(int32x4_t, vdupq_n_s32(0), vmmlaq_s32(sum[c], a, b));
    for (int c = 1; c < CHAINS; c++)
        sum[0] = vaddq_s32(sum[0], sum[c]);
    return (float)vaddvq_s32(sum[0]);
}

__attribute__((target("arch=armv8.2-a+bf16"))) static float bf16_products(int64_t rounds)
{
    const bfloat16x8_t ones = vreinterpretq_bf16_u16(vdupq_n_u16((uint16_t)(0x3f80 | (rounds & 1))));
    CHAINED(float32x4_t, vdupq_n_f32(0), vbfmmlaq_f32(sum[c], ones, ones));
    for (int c = 1; c < CHAINS; c++)
        sum[0] = vaddq_f32(sum[0], sum[c]);
    return vaddvq_f32(sum[0]);
}

bool peak_int8(struct peak *p)
{
    const bool matrix = getauxval(AT_HWCAP2) & CAP2_I8MM;
    *p = matrix ? (struct peak){matrix_product, CHAINS * 32} : (struct peak){dot_product, CHAINS * 16};
    return matrix || getauxval(AT_HWCAP) & CAP_DOT_PRODUCT;
}

bool peak_bf16(struct peak *p)
{
    *p = (struct peak){bf16_products, CHAINS * 16};
    return getauxval(AT_HWCAP2) & CAP2_BF16;
}

#else

bool peak_int8(struct peak *p)
{
    *p = (struct peak){0};
    return false;
}

bool peak_bf16(struct peak *p)
{
    *p = (struct peak){0};
    return false;
}

#endif
