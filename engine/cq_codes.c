/* cq_codes.c - decoding CQ tensors. A product with a matrix is cheaper in code space: its rows are then looked up in
 * the codebook, and each row of activations is turned once,
 *
 *     <w[n], x> = sum_g norm[n][g] <c[n][g], x'[g]>,   x' = R^T (x / (input_scale scale)),
 *
 * instead of every row of weights. */
#include "engine/cq_codes.h"

#include <stdlib.h>
#include <string.h>

/* ---- code space ------------------------------------------------------------------------------------------------ */

/* A row after the other: each a little-endian stream of codes. */
static void look_up_rows(const struct cq_codes *c, const float *values, int64_t row, int64_t g, float *out)
{
    const uint8_t *p = c->indices + (row * c->n_groups + g) * c->group * c->bits / 8;
    const unsigned mask = (1u << c->bits) - 1;
    for (int k = 0; k < c->group; k += 8, p += c->bits) {
        uint32_t codes = 0;
        for (int b = 0; b < c->bits; b++)
            codes |= (uint32_t)p[b] << 8 * b;
        for (int j = 0; j < 8; j++)
            out[k + j] = values[codes >> j * c->bits & mask];
    }
}

/* Four rows together, a group after the other. */
static void look_up_blocks(const struct cq_codes *c, const float *values, int64_t row, int64_t g, float *out)
{
    const uint8_t *p = c->indices + (row / 4 * c->n_groups + g) * c->group * c->bits / 2;
    const int r = (int)(row % 4);
    for (int k = 0; k < c->group; k++) {
        unsigned q;
        if (c->bits == 4) {
            q = p[k / 8 * 16 + r * 4 + k % 4] >> (k % 8 < 4 ? 0 : 4) & 15;
        } else if (c->bits == 3) {
            const uint8_t *six = p + k / 4 * 6;
            const int shift = 3 * (4 * r + k % 4), next = shift / 8 + 1 < 6 ? shift / 8 + 1 : 5;
            q = (unsigned)(six[shift / 8] | six[next] << 8) >> shift % 8 & 7;
        } else if (c->bits == 2) {
            q = p[k / 16 * 16 + k % 16 / 4 * 4 + r] >> 2 * (k % 4) & 3;
        } else {
            q = p[k / 32 * 16 + k % 32 / 8 * 4 + r] >> k % 8 & 1;
        }
        out[k] = values[q];
    }
}

/* 64 rows together, four columns after the other. */
static void look_up_panels(const struct cq_codes *c, const float *values, int64_t row, int64_t g, float *out)
{
    const int64_t panel = (row / 64 * c->n_groups + g) * (c->group / 4);
    for (int k = 0; k < c->group; k++) {
        const int64_t nibble = (panel + k / 4) * 256 + row % 64 * 4 + k % 4;
        out[k] = values[c->indices[nibble / 2] >> (nibble % 2 ? 4 : 0) & 15];
    }
}

/* One group of a row in code space, times its norm. */
static void look_up(const struct cq_codes *c, int64_t row, int64_t g, float *out)
{
    const int64_t at = c->layout == CQ_BLOCKS_OF_4 ? (row / 4 * c->n_groups + g) * 4 + row % 4 : row * c->n_groups + g;
    const float norm = half_to_f32(c->norms, (uint64_t)at);
    float values[16];
    for (int q = 0; q < 1 << c->bits; q++)
        values[q] = norm * c->codebook[q];
    if (c->layout == CQ_ROWS)
        look_up_rows(c, values, row, g, out);
    else if (c->layout == CQ_BLOCKS_OF_4)
        look_up_blocks(c, values, row, g, out);
    else
        look_up_panels(c, values, row, g, out);
}

void cq_hadamard(float *x)
{
    for (int half = 1; half < CQ_GROUP; half *= 2)
        for (int i = 0; i < CQ_GROUP; i += 2 * half)
            for (int j = i; j < i + half; j++) {
                const float a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

static void read_hadamard_group(const struct cq_codes *c, int64_t row, int64_t g, float *out)
{
    float code[CQ_GROUP];
    look_up(c, row, g, code);
    for (int j = 0; j < CQ_GROUP; j++)
        out[c->perm[j]] = code[j];
    for (int k = 0; k < CQ_GROUP; k++)
        out[k] *= c->right[k];
    cq_hadamard(out);
    for (int i = 0; i < CQ_GROUP; i++)
        out[i] *= c->out_scale[g * CQ_GROUP + i];
}

/* Columns [first, first + n) of one row. */
static void read_row(const struct cq_codes *c, int64_t row, int64_t first, int64_t n, float *out)
{
    if (c->right) {
        float values[CQ_GROUP];
        for (int64_t done = 0; done < n;) {
            const int64_t g = (first + done) / CQ_GROUP, skip = (first + done) % CQ_GROUP;
            const int64_t take = n - done < CQ_GROUP - skip ? n - done : CQ_GROUP - skip;
            read_hadamard_group(c, row, g, values);
            memcpy(out + done, values + skip, (size_t)take * sizeof *out);
            done += take;
        }
        return;
    }
    const size_t width = (size_t)c->width;
    float *code = NEW(float, 2 * width), *w = code + width;
    for (int64_t g = 0; g < c->n_groups; g++)
        look_up(c, row, g, code + g * c->group);
    c->k->gemm(TENSOR_F16, c->matrix, (int)width, (int)width, code, width, 1, w, width);
    for (int64_t i = 0; i < n; i++)
        out[i] = w[first + i] * c->out_scale[first + i];
    free(code);
}

static void read_values(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    const struct cq_codes *c = t->aux;
    for (int64_t done = 0; done < n;) {
        const int64_t row = (first + done) / c->columns, column = (first + done) % c->columns;
        const int64_t take = n - done < c->columns - column ? n - done : c->columns - column;
        read_row(c, row, column, take, out + done);
        done += take;
    }
}

static void hash_file(const struct tensor *t, struct sha256 *sha)
{
    const struct cq_codes *c = t->aux;
    sha256_update(sha, &c->scale, sizeof c->scale);
    sha256_update(sha, t->data, t->n_bytes);
}

/* ---- products -------------------------------------------------------------------------------------------------- */

static int64_t turned_width(const struct tensor *t)
{
    return ((const struct cq_codes *)t->aux)->width;
}

static void turn(const struct tensor *t, const float *x, float *out)
{
    const struct cq_codes *c = t->aux;
    const size_t width = (size_t)c->width;
    float *scaled = NEW(float, width);
    for (int64_t i = 0; i < c->columns; i++)
        scaled[i] = x[i] * c->out_scale[i];
    if (!c->right)
        c->k->gemm(TENSOR_F16, c->transposed, (int)width, (int)width, scaled, width, 1, out, width);
    for (int64_t g = 0; c->right && g < c->n_groups; g++) {
        float *v = scaled + g * CQ_GROUP;
        cq_hadamard(v);
        for (int j = 0; j < CQ_GROUP; j++)
            out[g * CQ_GROUP + j] = v[c->perm[j]] * c->right[c->perm[j]];
    }
    free(scaled);
}

static void read_turned(const struct tensor *t, int64_t row, int64_t n, float *out)
{
    const struct cq_codes *c = t->aux;
    const int64_t first = t->skip / c->columns + row;
    for (int64_t i = 0; i < n; i++)
        for (int64_t g = 0; g < c->n_groups; g++)
            look_up(c, first + i, g, out + i * c->width + g * c->group);
}

const struct tensor_codec cq_codec = {.read = read_values, .hash = hash_file, .is_finite = true,
                                      .turned_width = turned_width, .turn = turn, .read_turned = read_turned};
