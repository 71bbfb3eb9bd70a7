/* cq_encode.c - rows to codes, and the fixed parts of a tensor file. */
#include "engine/cq_encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 84, ALIGNMENT = 32, FP16 = 1, CQ1 = 3 };
enum { ORTHOGONAL = 2, BLOCKS_OF_4 = 4 };

/* ---- the fixed parts ------------------------------------------------------------------------------------------- */

static void put_number(struct text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_putc(t, (int)(v >> 8 * i & 0xff));
}

static void put_halves(struct text *t, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        f32_to_plain(TENSOR_F16, x + i, 1, &h);
        put_number(t, h, 2);
    }
}

static void pad(struct text *t, uint64_t from)
{
    while ((from + t->len) % ALIGNMENT)
        text_putc(t, 0);
}

static void put_header(struct cq_file *f, uint64_t blob, uint64_t data)
{
    const struct cq_target *t = &f->t;
    text_put(&f->head, "CACT", 4);
    put_number(&f->head, (t->orthogonal ? ORTHOGONAL : 0u) | (t->blocks_of_4 ? BLOCKS_OF_4 : 0u), 4);
    put_number(&f->head, ALIGNMENT, 4);
    put_number(&f->head, t->n_dims ? (uint64_t)t->n_dims : 1, 4);
    for (int i = 0; i < 4; i++)
        put_number(&f->head, t->bits && i == 1 ? (uint64_t)f->width : i < t->n_dims ? (uint64_t)t->dim[i]
                             : i == 0 ? 1 : 0, 8);
    put_number(&f->head, t->bits ? (uint64_t)(CQ1 + t->bits - 1) : FP16, 4);
    put_number(&f->head, data, 8);
    put_number(&f->head, blob, 8);
    put_number(&f->head, t->bits ? (uint64_t)f->group : 0, 4);
    put_number(&f->head, t->bits ? (uint64_t)f->n_groups : 0, 4);
    put_number(&f->head, t->n_dims ? (uint64_t)t->dim[0] : 1, 8);
    pad(&f->head, 0);
}

/* What lies behind the norms: signs and permutation, or the matrix. */
static void put_rotation(struct cq_file *f, const float *matrix)
{
    if (matrix) {
        put_halves(&f->middle, matrix, f->width * f->width);
        return;
    }
    text_put(&f->middle, f->signs->left, CQ_GROUP);
    text_put(&f->middle, f->signs->right, CQ_GROUP);
    for (int i = 0; i < CQ_GROUP; i++)
        put_number(&f->middle, f->signs->perm[i], 4);
}

/* In blocks of four rows, the code book is stored so that it spans -127 to 127, and the norms make up for it. */
static void put_codebook(struct cq_file *f)
{
    const int n = 1 << f->t.bits;
    float stored[16];
    f->norm_factor = 1;
    if (f->t.blocks_of_4 && !f->t.orthogonal) {
        float largest = 0;
        for (int q = 0; q < n; q++)
            largest = fmaxf(largest, fabsf(f->codebook[q]));
        f->norm_factor = (float)((double)largest / 127);
    }
    for (int q = 0; q < n; q++)
        stored[q] = f->codebook[q] / f->norm_factor;
    put_halves(&f->head, stored, n);
    for (int64_t i = 0; i < 2 * f->width; i++)      /* input scale and its reciprocal */
        put_number(&f->head, 0x3c00, 2);
}

static void plan_plain(struct cq_file *f)
{
    int64_t n = 1;
    for (int i = 0; i < f->t.n_dims; i++)
        n *= f->t.dim[i];
    put_header(f, 0, 2 * (uint64_t)n);
    f->norms_at = f->codes_at = f->head.len;
    f->size = f->codes_at + 2 * (uint64_t)n;
    f->units = f->t.n_dims > 1 ? f->t.dim[0] : 1;
    f->unit_rows = 1;
    f->unit_columns = n / f->units;
    f->unit_codes = 2 * (size_t)f->unit_columns;
}

/* Rows that pass together. With a matrix of its own a unit of many saves reading that matrix for each row. */
static int rows_of_unit(const struct cq_target *t)
{
    int rows = t->orthogonal ? 64 : t->blocks_of_4 ? 4 : 1;
    while (t->dim[0] % rows)
        rows /= 2;
    return rows;
}

void cq_common(struct cq_common *c, int bits)
{
    cq_codebook(CQ_GROUP, bits, c->codebook);
    cq_signs(&c->signs);
}

static void set_codebook(struct cq_file *f, const struct cq_common *c)
{
    if (f->t.orthogonal)
        cq_codebook(f->group, f->t.bits, f->codebook);
    else
        memcpy(f->codebook, c->codebook, sizeof f->codebook);
    for (int q = 0; q + 1 < 1 << f->t.bits; q++) {
        const double middle = ((double)f->codebook[q] + (double)f->codebook[q + 1]) / 2;
        f->borders[q] = (float)middle;
        if ((double)f->borders[q] > middle)
            f->borders[q] = nextafterf(f->borders[q], -1);
    }
}

void cq_file_plan(struct cq_file *f, const struct cq_target *t, const struct cq_common *c, struct pool *pool)
{
    *f = (struct cq_file){.t = *t, .k = kernels_find(NULL), .signs = &c->signs};
    if (!t->bits) {
        plan_plain(f);
        return;
    }
    f->width = t->orthogonal ? t->dim[1] : (t->dim[1] + CQ_GROUP - 1) / CQ_GROUP * CQ_GROUP;
    f->group = t->orthogonal ? (int)f->width : CQ_GROUP;
    f->n_groups = f->width / f->group;
    f->unit_rows = rows_of_unit(t);
    f->units = t->dim[0] / f->unit_rows;
    f->unit_columns = f->unit_rows * t->dim[1];
    f->unit_norms = 2 * (size_t)(f->unit_rows * f->n_groups);
    f->unit_codes = (size_t)(f->unit_rows * f->width * t->bits / 8);
    set_codebook(f, c);
    float *matrix = t->orthogonal ? cq_orthogonal((int)f->width, pool) : NULL;
    const uint64_t norms = (uint64_t)f->units * f->unit_norms;
    put_rotation(f, matrix);
    const uint64_t blob = 2 * ((UINT64_C(1) << t->bits) + 2 * (uint64_t)f->width) + norms + f->middle.len;
    put_header(f, blob, (uint64_t)f->units * f->unit_codes);
    put_codebook(f);
    f->norms_at = f->head.len;
    pad(&f->middle, f->norms_at + norms);
    f->codes_at = f->norms_at + norms + f->middle.len;
    f->size = f->codes_at + (uint64_t)f->units * f->unit_codes;
    if (matrix) {
        const size_t n = (size_t)f->width;
        f->transposed = NEW(float, n * n);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                f->transposed[j * n + i] = matrix[i * n + j];
    }
    free(matrix);
}

void cq_file_free(struct cq_file *f)
{
    text_free(&f->head);
    text_free(&f->middle);
    free(f->transposed);
    *f = (struct cq_file){0};
}

/* ---- codes ----------------------------------------------------------------------------------------------------- */

/* The nearest values, the lower one on a tie, of eight numbers. */
static void nearest(const struct cq_file *f, const float *u, uint8_t *q)
{
    int codes[8] = {0};
    for (int i = 0; i + 1 < 1 << f->t.bits; i++)
        for (int k = 0; k < 8; k++)
            codes[k] += u[k] > f->borders[i];
    for (int k = 0; k < 8; k++)
        q[k] = (uint8_t)codes[k];
}

/* Code q of column k in row r of the unit: the places that cq_codes.c reads. */
static void put_code(const struct cq_file *f, uint8_t *codes, int64_t r, int64_t column, unsigned q)
{
    const int bits = f->t.bits;
    if (!f->t.blocks_of_4) {
        const uint64_t bit = (uint64_t)(r * f->width + column) * (uint64_t)bits;
        const unsigned shifted = q << bit % 8;
        codes[bit / 8] |= (uint8_t)shifted;
        if (shifted >> 8)
            codes[bit / 8 + 1] |= (uint8_t)(shifted >> 8);
        return;
    }
    uint8_t *p = codes + (r / 4 * f->n_groups + column / f->group) * f->group * bits / 2;
    const int k = (int)(column % f->group), row = (int)(r % 4);
    if (bits == 4) {
        p[k / 8 * 16 + row * 4 + k % 4] |= (uint8_t)(q << (k % 8 < 4 ? 0 : 4));
    } else if (bits == 3) {
        const int shift = 3 * (4 * row + k % 4);
        const unsigned shifted = q << shift % 8;
        p[k / 4 * 6 + shift / 8] |= (uint8_t)shifted;
        if (shifted >> 8)
            p[k / 4 * 6 + shift / 8 + 1] |= (uint8_t)(shifted >> 8);
    } else if (bits == 2) {
        p[k / 16 * 16 + k % 16 / 4 * 4 + row] |= (uint8_t)(q << 2 * (k % 4));
    } else {
        p[k / 32 * 16 + k % 32 / 8 * 4 + row] |= (uint8_t)(q << k % 8);
    }
}

/* The norm of a group, which becomes a unit vector, and the stored norm. False: it is too large for float16. */
static bool take_norm(const struct cq_file *f, float *x, uint16_t *stored)
{
    double squares = 0;
    for (int i = 0; i < f->group; i++)
        squares += (double)x[i] * (double)x[i];
    float norm = fmaxf((float)sqrt(squares), 1e-8f);
    for (int i = 0; i < f->group; i++)
        x[i] /= norm;
    const float factors[] = {1, (float)f->t.scale, f->norm_factor};
    for (int i = 0; i < 3; i++) {
        norm *= factors[i];
        f32_to_plain(TENSOR_F16, &norm, 1, stored);
        norm = half_to_f32(stored, 0);
    }
    return isfinite(norm);
}

/* u[j] = (left x H / sqrt(128) right)[perm[j]] */
static void turn_group(const struct cq_file *f, const float *x, float *u)
{
    float v[CQ_GROUP];
    for (int i = 0; i < CQ_GROUP; i++)
        v[i] = x[i] * (float)f->signs->left[i];
    cq_hadamard(v);
    for (int j = 0; j < CQ_GROUP; j++)
        u[j] = v[f->signs->perm[j]] * sqrtf(1.0f / CQ_GROUP) * (float)f->signs->right[f->signs->perm[j]];
}

static bool code_plain(const struct cq_file *f, const float *x, uint8_t *codes)
{
    for (int64_t i = 0; i < f->unit_columns; i++) {
        const float v = x[i] * (float)f->t.scale;
        uint16_t h;
        f32_to_plain(TENSOR_F16, &v, 1, &h);
        if (isnan(v) || (!f->t.any_value && (h & 0x7c00) == 0x7c00))
            return false;
        memcpy(codes + 2 * i, &h, 2);
    }
    return true;
}

bool cq_code_unit(const struct cq_file *f, const float *x, uint8_t *norms, uint8_t *codes)
{
    if (!f->t.bits)
        return code_plain(f, x, codes);
    const size_t width = (size_t)f->width, n = (size_t)f->unit_rows * width;
    float *unit = NEW(float, 2 * n), *turned = unit + n;
    bool ok = true;
    memset(codes, 0, f->unit_codes);
    for (int64_t r = 0; r < f->unit_rows; r++) {
        memcpy(unit + (size_t)r * width, x + r * f->t.dim[1], (size_t)f->t.dim[1] * sizeof *x);
        for (int64_t g = 0; g < f->n_groups; g++) {
            uint16_t norm;
            float *group = unit + (size_t)r * width + g * f->group;
            ok &= take_norm(f, group, &norm);
            const int64_t at = f->t.blocks_of_4 ? (r / 4 * f->n_groups + g) * 4 + r % 4 : r * f->n_groups + g;
            memcpy(norms + 2 * at, &norm, 2);
            if (!f->t.orthogonal)
                turn_group(f, group, turned + (size_t)r * width + g * f->group);
        }
    }
    if (f->t.orthogonal)
        f->k->gemm(TENSOR_F32, f->transposed, (int)width, (int)width, unit, width, f->unit_rows, turned, width);
    for (int64_t r = 0; ok && r < f->unit_rows; r++)
        for (int64_t k = 0; k < f->width; k += 8) {
            uint8_t q[8];
            nearest(f, turned + (size_t)(r * f->width + k), q);
            for (int i = 0; i < 8; i++)
                put_code(f, codes, r, k + i, q[i]);
        }
    free(unit);
    return ok;
}
