/* ggml_codes.c - the codes in ggml's blocks, in the order of the columns. Layouts: ggml_types.c, which reads the same
 * blocks as floats. Codes of eight bits are kept with 128 for zero. */
#include "engine/ggml_codes.h"

#include <math.h>
#include <string.h>

enum { ZERO = 128 };

static void split_nibbles(const uint8_t *q, int n, uint8_t *low, uint8_t *high)
{
    for (int i = 0; i < n; i++) {
        low[i] = q[i] & 15;
        high[i] = q[i] >> 4;
    }
}

static void read_q4_0(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    split_nibbles(b + 2, 16, r->code, r->code + 16);
}

static void read_q4_1(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    r->min_d = -ggml_half(b + 2);
    split_nibbles(b + 4, 16, r->code, r->code + 16);
}

static void read_fives(const uint8_t *high, uint8_t zero, struct code_run *r)
{
    split_nibbles(high + 4, 16, r->code, r->code + 16);
    for (int i = 0; i < 32; i++)
        r->code[i] = (uint8_t)(r->code[i] + (high[i / 8] >> i % 8 & 1) * 16 + zero);
}

static void read_q5_0(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    read_fives(b + 2, ZERO - 16, r);
}

static void read_q5_1(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    r->min_d = -ggml_half(b + 2);
    read_fives(b + 4, ZERO, r);
}

static void read_q8_0(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    for (int i = 0; i < 32; i++)
        r->code[i] = b[2 + i] ^ 128;
}

/* 32 nibbles that stand for other numbers. */
static void read_levels(const uint8_t *q, const int8_t *values, uint8_t *code)
{
    split_nibbles(q, 16, code, code + 16);
    for (int i = 0; i < 32; i++)
        code[i] = (uint8_t)(values[code[i]] + ZERO);
}

static void read_iq4_nl(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    read_levels(b + 2, ggml_iq4_values, r->code);
}

static void read_mxfp4(const uint8_t *b, struct code_run *r)
{
    r->d = ldexpf(1, b[0] - 128);
    read_levels(b + 1, ggml_e2m1_values, r->code);
}

static void read_iq4_xs(const uint8_t *b, struct code_run *r)
{
    const uint32_t high = (uint32_t)b[2] | (uint32_t)b[3] << 8;
    r->d = ggml_half(b);
    for (int i = 0; i < 8; i++) {
        const int low = b[4 + i / 2] >> (i % 2 * 4) & 15;
        r->scale[i] = (int8_t)((low | (int)(high >> (2 * i) & 3) << 4) - 32);
        read_levels(b + 8 + 16 * i, ggml_iq4_values, r->code + 32 * i);
    }
}

static void read_q2_k(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b + 80);
    r->min_d = ggml_half(b + 82);
    for (int i = 0; i < 16; i++) {
        r->scale[i] = (int8_t)(b[i] & 15);
        r->min[i] = b[i] >> 4;
    }
    for (int i = 0; i < 256; i++)
        r->code[i] = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void read_q3_k(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b + 108);
    for (int i = 0; i < 16; i++)
        r->scale[i] = (int8_t)ggml_q3_scale(b + 96, i);
    for (int i = 0; i < 256; i++) {
        const int low = b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        r->code[i] = (uint8_t)(low + (b[i % 32] >> i / 32 & 1) * 4);
    }
}

static void read_scale_min(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b);
    r->min_d = ggml_half(b + 2);
    for (int i = 0; i < 8; i++) {
        int scale, min;
        ggml_q4_scale_min(b + 4, i, &scale, &min);
        r->scale[i] = (int8_t)scale;
        r->min[i] = (uint8_t)min;
    }
}

static void read_q4_k(const uint8_t *b, struct code_run *r)
{
    read_scale_min(b, r);
    for (int i = 0; i < 4; i++)
        split_nibbles(b + 16 + 32 * i, 32, r->code + 64 * i, r->code + 64 * i + 32);
}

static void read_q5_k(const uint8_t *b, struct code_run *r)
{
    read_scale_min(b, r);
    for (int i = 0; i < 4; i++)
        split_nibbles(b + 48 + 32 * i, 32, r->code + 64 * i, r->code + 64 * i + 32);
    for (int i = 0; i < 256; i++)
        r->code[i] = (uint8_t)(r->code[i] + (b[16 + i % 32] >> i / 32 & 1) * 16 + ZERO);
}

static void read_q6_k(const uint8_t *b, struct code_run *r)
{
    r->d = ggml_half(b + 208);
    memcpy(r->scale, b + 192, 16);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, k = i % 128 / 32, in = i % 32;
        const int nibble = b[64 * half + 32 * (k % 2) + in] >> (k / 2 * 4) & 15;
        const int high = b[128 + 32 * half + in] >> (2 * k) & 3;
        r->code[i] = (uint8_t)((nibble | high << 4) - 32 + ZERO);
    }
}

/* bits, block, per_scale, center, nested, minima, type of d */
static const struct ggml_codes table[] = {
    {2, {4, 32, 32, 8, false, false, TENSOR_F16}, read_q4_0},
    {3, {4, 32, 32, 0, false, true, TENSOR_F16}, read_q4_1},
    {6, {8, 32, 32, ZERO, false, false, TENSOR_F16}, read_q5_0},
    {7, {8, 32, 32, ZERO, false, true, TENSOR_F16}, read_q5_1},
    {8, {8, 32, 32, ZERO, false, false, TENSOR_F16}, read_q8_0},
    {10, {4, 16, 256, 0, true, true, TENSOR_F16}, read_q2_k},
    {11, {4, 16, 256, 4, true, false, TENSOR_F16}, read_q3_k},
    {12, {4, 32, 256, 0, true, true, TENSOR_F16}, read_q4_k},
    {13, {8, 32, 256, ZERO, true, true, TENSOR_F16}, read_q5_k},
    {14, {8, 16, 256, ZERO, true, false, TENSOR_F16}, read_q6_k},
    {20, {8, 32, 32, ZERO, false, false, TENSOR_F16}, read_iq4_nl},
    {23, {8, 32, 256, ZERO, true, false, TENSOR_F16}, read_iq4_xs},
    {39, {8, 32, 32, ZERO, false, false, TENSOR_F32}, read_mxfp4},
};

const struct ggml_codes *ggml_codes_of(const struct ggml_type *type)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].id == type->id)
            return &table[i];
    return NULL;
}
