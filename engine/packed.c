/* packed.c - packing weights, and products with them over the thread pool. */
#include "engine/packed.h"

#include "engine/internal.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANELS_A_TASK = 4,
    ROWS_A_TASK = 256,
    SMALL = 1 << 20             /* fewer multiplications than this are not worth waking threads for */
};

/* ---- packing --------------------------------------------------------------------------------------------------- */

static size_t scale_bytes(const struct code_format *f)
{
    return f->scale_type == TENSOR_F32 ? 4 : 2;
}

static void lay_out(struct packed *p)
{
    const size_t K = (size_t)p->K, d_bytes = K / (size_t)p->f.per_scale * PANEL * scale_bytes(&p->f);
    const size_t inner = p->f.nested ? K / (size_t)p->f.block * PANEL : 0;
    p->d_at = K * PANEL * (size_t)p->f.bits / 8;
    p->min_d_at = p->d_at + d_bytes;
    p->scale_at = p->min_d_at + (p->f.minima ? d_bytes : 0);
    p->min_at = p->scale_at + inner;
    p->panel_bytes = (p->min_at + (p->f.minima ? inner : 0) + 63) / 64 * 64;
}

/* 32 codes of one row. */
static void put_stretch(const struct packed *p, uint8_t *panel, int row, int k, const uint8_t *code)
{
    uint8_t *out = panel + (size_t)(k / STRETCH) * STRETCH * PANEL * (size_t)p->f.bits / 8 + (size_t)row * 4;
    uint8_t halves[16];
    if (p->f.bits == 8) {
        for (int c = 0; c < 8; c++)
            memcpy(out + c * 64, code + 4 * c, 4);
        return;
    }
    for (int i = 0; i < 16; i++)
        halves[i] = (uint8_t)(code[i] | code[i + 16] << 4);
    for (int c = 0; c < 4; c++)
        memcpy(out + c * 64, halves + 4 * c, 4);
}

static void put_run(const struct packed *p, uint8_t *panel, int row, int k, const struct code_run *run)
{
    const size_t size = scale_bytes(&p->f), at = ((size_t)(k / p->f.per_scale) * PANEL + (size_t)row) * size;
    f32_to_plain(p->f.scale_type, &run->d, 1, panel + p->d_at + at);
    if (p->f.minima)
        f32_to_plain(p->f.scale_type, &run->min_d, 1, panel + p->min_d_at + at);
    for (int i = 0; p->f.nested && i < p->f.per_scale / p->f.block; i++) {
        const size_t inner = (size_t)(k / p->f.block + i) * PANEL + (size_t)row;
        panel[p->scale_at + inner] = (uint8_t)run->scale[i];
        if (p->f.minima)
            panel[p->min_at + inner] = run->min[i];
    }
}

struct packing { struct packed *p; const struct tensor *t; atomic_bool infinite; };

/* Runs of one row, until at least a stretch has come together. */
static int put_runs(struct packing *job, uint8_t *panel, int i, int row, int k)
{
    const struct packed *p = job->p;
    struct code_run run;
    uint8_t codes[MAX_RUN];
    int n = 0;
    while (n < STRETCH || n % STRETCH) {
        job->t->codec->read_codes(job->t, job->t->skip + (int64_t)(i * PANEL + row) * p->K + k + n, &run);
        if (!isfinite(run.d) || (p->f.minima && !isfinite(run.min_d)))
            atomic_store(&job->infinite, true);
        put_run(p, panel, row, k + n, &run);
        memcpy(codes + n, run.code, (size_t)p->f.per_scale);
        n += p->f.per_scale;
    }
    for (int in = 0; in < n; in += STRETCH)
        put_stretch(p, panel, row, k + in, codes + in);
    return n;
}

/* Rows behind the last stay zeros: their products are not used. */
static void pack_panel(void *arg, int i)
{
    struct packing *job = arg;
    const struct packed *p = job->p;
    uint8_t *panel = p->data + (size_t)i * p->panel_bytes;
    for (int row = 0; row < PANEL && i * PANEL + row < p->N; row++)
        for (int k = 0; k < p->K;)
            k += put_runs(job, panel, i, row, k);
}

static int n_panels(const struct packed *p)
{
    return (p->N + PANEL - 1) / PANEL;
}

bool packed_fits(const struct tensor *t)
{
    struct code_format f;
    return t->type == TENSOR_CODED && t->codec->code_format && t->n_dims == 2 && t->codec->code_format(t, &f) &&
           t->dim[1] % STRETCH == 0 && t->dim[1] % f.per_scale == 0 && t->skip % f.per_scale == 0;
}

struct packed *packed_new(const struct tensor *t)
{
    struct packed *p = NEW(struct packed, 1);
    t->codec->code_format(t, &p->f);
    p->N = (int)t->dim[0];
    p->K = (int)t->dim[1];
    lay_out(p);
    return p;
}

size_t packed_bytes(const struct packed *p)
{
    return (size_t)n_panels(p) * p->panel_bytes;
}

int packed_fill(struct packed *p, const struct tensor *t, struct pool *pool, struct err *e)
{
    struct packing job = {.p = p, .t = t};
    pool_run(pool, n_panels(p), pack_panel, &job);
    return job.infinite ? tensor_infinite(t, e) : 0;
}

/* ---- products -------------------------------------------------------------------------------------------------- */

struct product {
    const struct packed *p;
    const struct kernels *k;
    struct packed_rows rows;
    const float *x;
    int M, row_blocks;
    float *out;
    size_t x_stride, out_stride;
};

static void prepare_row(void *arg, int m)
{
    struct product *j = arg;
    j->k->packed_prepare(&j->p->f, &j->rows, j->x + (size_t)m * j->x_stride, m);
}

static void multiply(void *arg, int i)
{
    const struct product *j = arg;
    const int first = i / j->row_blocks * PANELS_A_TASK, m = i % j->row_blocks * ROWS_A_TASK;
    const int rows = j->M - m < ROWS_A_TASK ? j->M - m : ROWS_A_TASK;
    const int panels = n_panels(j->p) - first < PANELS_A_TASK ? n_panels(j->p) - first : PANELS_A_TASK;
    j->k->packed_gemm(j->p, first, panels, &j->rows, m, rows, j->out + first * PANEL, j->out_stride);
}

static void *new_rows(size_t n, size_t size)
{
    return mem_grow(NULL, n, size);
}

void packed_linear(const struct packed *p, const struct kernels *k, struct pool *pool, bool int8, const float *x,
                   size_t x_stride, int M, float *out, size_t out_stride)
{
    int lanes = 1;
    while (lanes < M && lanes < 16)
        lanes *= 2;
    const size_t rows = (size_t)((M + lanes - 1) / lanes * lanes), K = (size_t)p->K, blocks = K / (size_t)p->f.block;
    struct product j = {.p = p, .k = k, .x = x, .x_stride = x_stride, .M = M, .out = out, .out_stride = out_stride,
                        .row_blocks = (M + ROWS_A_TASK - 1) / ROWS_A_TASK,
                        .rows = {.K = p->K, .block = p->f.block, .lanes = lanes}};
    if ((int64_t)M * p->N * p->K < SMALL)
        pool = NULL;
    if (p->f.minima)
        j.rows.sum = new_rows(rows * blocks, sizeof(float));
    if (int8) {
        j.rows.q = new_rows(rows * K, 1);
        j.rows.scale = new_rows(rows * K / STRETCH, sizeof(float));
        j.rows.start = new_rows(rows * blocks, sizeof(int32_t));
    } else {
        j.rows.x = new_rows(rows * K, sizeof(float));
    }
    pool_run(rows * K < SMALL / 4 ? NULL : pool, M, prepare_row, &j);
    pool_run(pool, (n_panels(p) + PANELS_A_TASK - 1) / PANELS_A_TASK * j.row_blocks, multiply, &j);
    free(j.rows.x);
    free(j.rows.sum);
    free(j.rows.q);
    free(j.rows.scale);
    free(j.rows.start);
}
