/* The vision tower (GEMMA4.md 6.3). All pictures' patches are rows of one matrix in the linear layers; only attention
 * and pooling look at one picture at a time. Every sum is taken inside one task, so neither the number of threads nor
 * the company of other pictures changes a bit. */
#include "engine/vision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 32,          /* rows of a task */
    STRIP = 64          /* keys that a block meets at once: with 64 channels they stay in the first-level cache */
};

/* Everything that one pass needs; matrices are [n_rows, width]. */
struct pass {
    const struct vision *v;
    const struct compute *c;
    const struct vision_batch *b;
    const struct vision_layer *layer;
    int width;                  /* n_heads * head_dim */
    int *picture_of_block;      /* [n_blocks]: attention works on blocks of at most ROWS rows of one picture */
    int *row_of_block;
    int n_blocks;
    float *x;                   /* [, hidden] the stream */
    float *h;                   /* [, hidden] */
    float *q, *k, *v_rows;      /* [, width] */
    float *gate, *up;           /* [, mlp_size] */
    int *first_strip;           /* [n_pictures]: strips of the pictures before; a picture has ceil(n / STRIP) a head */
    float *keys;                /* per picture, head and strip: [head_dim, STRIP], zeros behind the last key */
    float *values;              /* per picture and head: [n, head_dim] */
    float *pooled;
};

static float *matrix(int rows, int width)
{
    return mem_grow(NULL, (size_t)rows * (size_t)width, sizeof(float));
}

static void for_rows(struct pass *p, void (*task)(void *, int))
{
    pool_run(p->c->pool, (p->b->n_rows + ROWS - 1) / ROWS, task, p);
}

static int end_row(const struct pass *p, int task)
{
    return (task + 1) * ROWS < p->b->n_rows ? (task + 1) * ROWS : p->b->n_rows;
}

/* ---- patches --------------------------------------------------------------------------------------------------- */

static void scale_patches(void *arg, int task)
{
    struct pass *p = arg;
    size_t n = (size_t)p->v->grid.patch * (size_t)p->v->grid.patch * 3;
    float *end = p->b->patches + (size_t)end_row(p, task) * n;
    for (float *at = p->b->patches + (size_t)task * ROWS * n; at < end; at++)
        *at = 2 * *at - 1;
}

static void add_positions(void *arg, int task)
{
    struct pass *p = arg;
    int n = p->v->hidden;
    float *row = matrix(1, n);
    for (int r = task * ROWS; r < end_row(p, task); r++)
        for (int axis = 0; axis < 2; axis++) {
            int64_t at = (int64_t)axis * p->v->n_positions + p->b->positions[2 * r + axis];
            tensor_read_f32(p->v->table, at * n, n, row);
            p->c->k->axpy(p->x + (size_t)r * (size_t)n, row, 1, n);
        }
    free(row);
}

/* ---- attention ------------------------------------------------------------------------------------------------- */

static void norm_before_attention(void *arg, int task)
{
    struct pass *p = arg;
    size_t n = (size_t)p->v->hidden;
    for (int r = task * ROWS; r < end_row(p, task); r++)
        p->c->k->rms_norm(p->h + (size_t)r * n, p->x + (size_t)r * n, p->layer->norm_in, (int)n, p->v->eps);
}

/* The first half of a head turns by the column, the second by the row. */
static void rope_2d(const struct vision *v, const int32_t position[2], float *head)
{
    int pairs = v->head_dim / 4;
    for (int axis = 0; axis < 2; axis++) {
        size_t at = (size_t)position[axis] * (size_t)pairs;
        rope_turn(&v->rope, v->cosines + at, v->sines + at, head + axis * v->head_dim / 2);
    }
}

static int strips_of(const struct pass *p, int picture)
{
    return (p->b->first_row[picture + 1] - p->b->first_row[picture] + STRIP - 1) / STRIP;
}

static float *strip_of(const struct pass *p, int picture, int head, int strip)
{
    size_t before = (size_t)p->first_strip[picture] * (size_t)p->v->n_heads;
    size_t index = before + (size_t)(head * strips_of(p, picture) + strip);
    return p->keys + index * STRIP * (size_t)p->v->head_dim;
}

static float *values_of(const struct pass *p, int picture, int head)
{
    size_t first = (size_t)p->b->first_row[picture], n = (size_t)p->b->first_row[picture + 1] - first;
    return p->values + first * (size_t)p->width + (size_t)head * n * (size_t)p->v->head_dim;
}

/* Norm and rope of q, k, v per head; keys and values go where attention reads them. */
static void prepare_heads(void *arg, int block)
{
    struct pass *p = arg;
    const struct vision *v = p->v;
    const struct kernels *k = p->c->k;
    int picture = p->picture_of_block[block], first = p->b->first_row[picture], d = v->head_dim;
    int n = p->b->first_row[picture + 1] - first;
    for (int r = p->row_of_block[block]; r < p->row_of_block[block] + ROWS && r < first + n; r++)
        for (int head = 0; head < v->n_heads; head++) {
            const int32_t *position = p->b->positions + 2 * r;
            size_t at = (size_t)r * (size_t)p->width + (size_t)(head * d);
            float *key = p->k + at, *column = strip_of(p, picture, head, (r - first) / STRIP) + (r - first) % STRIP;
            k->rms_norm(p->q + at, p->q + at, p->layer->q_norm, d, v->eps);
            rope_2d(v, position, p->q + at);
            k->rms_norm(key, key, p->layer->k_norm, d, v->eps);
            rope_2d(v, position, key);
            for (int i = 0; i < d; i++)
                column[i * STRIP] = key[i];
            k->rms_norm(values_of(p, picture, head) + (size_t)(r - first) * (size_t)d, p->v_rows + at, NULL, d, v->eps);
        }
}

/* One head of one block of rows against all keys of its picture; the result replaces the queries. */
static void attend(void *arg, int task)
{
    struct pass *p = arg;
    const struct kernels *k = p->c->k;
    int block = task / p->v->n_heads, head = task % p->v->n_heads, d = p->v->head_dim;
    int picture = p->picture_of_block[block], row = p->row_of_block[block], end = p->b->first_row[picture + 1];
    int n = end - p->b->first_row[picture], m = end - row < ROWS ? end - row : ROWS, n_strips = strips_of(p, picture);
    size_t stride = (size_t)n_strips * STRIP, width = (size_t)p->width;
    float *q = p->q + (size_t)row * width + (size_t)(head * d), *values = values_of(p, picture, head);
    float *scores = mem_alloc((size_t)m * stride, sizeof *scores);
    for (int j = 0; j < n_strips; j++)
        k->weighted_sums(scores + j * STRIP, stride, q, width, m, strip_of(p, picture, head, j), STRIP, d, STRIP);
    for (int i = 0; i < m; i++) {
        k->softmax(scores + (size_t)i * stride, n);
        memset(q + (size_t)i * width, 0, (size_t)d * sizeof *q);
    }
    for (int j = 0; j < n; j += STRIP)
        k->weighted_sums(q, width, scores + j, stride, m, values + (size_t)j * (size_t)d, (size_t)d,
                         n - j < STRIP ? n - j : STRIP, d);
    free(scores);
}

static void linear_rows(struct pass *p, const struct clipped *w, const float *x, float *y)
{
    clipped_linear(p->c, w, x, (size_t)w->w->dim[1], p->b->n_rows, y, (size_t)w->w->dim[0]);
}

static void attention(struct pass *p)
{
    for_rows(p, norm_before_attention);
    linear_rows(p, &p->layer->q, p->h, p->q);
    linear_rows(p, &p->layer->k, p->h, p->k);
    linear_rows(p, &p->layer->v, p->h, p->v_rows);
    pool_run(p->c->pool, p->n_blocks, prepare_heads, p);
    pool_run(p->c->pool, p->n_blocks * p->v->n_heads, attend, p);
    linear_rows(p, &p->layer->o, p->q, p->h);
}

/* ---- between the linear layers --------------------------------------------------------------------------------- */

static void add_normed(struct pass *p, int r, const float *weight)
{
    size_t n = (size_t)p->v->hidden;
    float *h = p->h + (size_t)r * n;
    p->c->k->rms_norm(h, h, weight, (int)n, p->v->eps);
    p->c->k->axpy(p->x + (size_t)r * n, h, 1, (int)n);
}

static void after_attention(void *arg, int task)
{
    struct pass *p = arg;
    size_t n = (size_t)p->v->hidden;
    for (int r = task * ROWS; r < end_row(p, task); r++) {
        add_normed(p, r, p->layer->norm_attention);
        p->c->k->rms_norm(p->h + (size_t)r * n, p->x + (size_t)r * n, p->layer->norm_mlp_in, (int)n, p->v->eps);
    }
}

static void activate(void *arg, int task)
{
    struct pass *p = arg;
    size_t at = (size_t)task * ROWS * (size_t)p->v->mlp_size;
    p->c->k->gelu_tanh_mul(p->gate + at, p->up + at, (end_row(p, task) - task * ROWS) * p->v->mlp_size);
}

static void after_mlp(void *arg, int task)
{
    struct pass *p = arg;
    for (int r = task * ROWS; r < end_row(p, task); r++)
        add_normed(p, r, p->layer->norm_mlp);
}

static void mlp(struct pass *p)
{
    linear_rows(p, &p->layer->gate, p->h, p->gate);
    linear_rows(p, &p->layer->up, p->h, p->up);
    for_rows(p, activate);
    linear_rows(p, &p->layer->down, p->gate, p->h);
}

/* ---- pooling --------------------------------------------------------------------------------------------------- */

/* Mean over pool x pool patches, times sqrt(hidden). */
static void pool_picture(void *arg, int picture)
{
    struct pass *p = arg;
    const struct vision *v = p->v;
    int n = v->hidden, pool = v->grid.pool, columns = p->b->picture[picture]->width / v->grid.patch;
    float scale = (float)(sqrt(n) / (pool * pool));
    float *out = p->pooled + (size_t)p->b->first_pooled[picture] * (size_t)n;
    int n_out = p->b->first_pooled[picture + 1] - p->b->first_pooled[picture];
    for (int i = 0; i < n_out; i++, out += n) {
        int left = i % (columns / pool) * pool, top = i / (columns / pool) * pool;
        for (int c = 0; c < n; c++)
            out[c] = 0;
        for (int j = 0; j < pool * pool; j++) {
            int row = p->b->first_row[picture] + (top + j / pool) * columns + left + j % pool;
            p->c->k->axpy(out, p->x + (size_t)row * (size_t)n, 1, n);
        }
        for (int c = 0; c < n; c++) {
            out[c] *= scale;
            if (v->std_bias)
                out[c] = (out[c] - v->std_bias[c]) * v->std_scale[c];
        }
    }
}

static void project(const struct vision *v, const struct compute *c, int n, const float *pooled, float *soft)
{
    float *h = matrix(n, v->hidden);
    for (int i = 0; i < n; i++)
        c->k->rms_norm(h + (size_t)i * (size_t)v->hidden, pooled + (size_t)i * (size_t)v->hidden, NULL, v->hidden,
                       v->eps);
    linear(c, v->projector, h, (size_t)v->hidden, n, soft, (size_t)v->soft_width);
    free(h);
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static void cut_pictures(struct pass *p)
{
    const struct vision_batch *b = p->b;
    int most = b->n_rows / ROWS + b->n_pictures, n_strips = 0;
    p->picture_of_block = NEW(int, most);
    p->row_of_block = NEW(int, most);
    p->first_strip = NEW(int, b->n_pictures);
    for (int i = 0; i < b->n_pictures; i++) {
        p->first_strip[i] = n_strips;
        n_strips += strips_of(p, i);
        for (int row = b->first_row[i]; row < b->first_row[i + 1]; row += ROWS) {
            p->picture_of_block[p->n_blocks] = i;
            p->row_of_block[p->n_blocks++] = row;
        }
    }
    p->keys = mem_alloc((size_t)n_strips * STRIP, (size_t)p->width * sizeof *p->keys);
}

void vision_tower(const struct vision *v, const struct compute *c, const struct vision_batch *b, float *pooled,
                  float *soft)
{
    struct pass p = {.v = v, .c = c, .b = b, .width = v->n_heads * v->head_dim, .pooled = pooled};
    p.x = matrix(b->n_rows, v->hidden);
    p.h = matrix(b->n_rows, v->hidden);
    float **wide[] = {&p.q, &p.k, &p.v_rows, &p.values};
    for (int i = 0; i < 4; i++)
        *wide[i] = matrix(b->n_rows, p.width);
    p.gate = matrix(b->n_rows, v->mlp_size);
    p.up = matrix(b->n_rows, v->mlp_size);
    cut_pictures(&p);
    size_t patch_size = (size_t)v->grid.patch * (size_t)v->grid.patch * 3;
    for_rows(&p, scale_patches);
    linear(c, v->patch_proj, b->patches, patch_size, b->n_rows, p.x, (size_t)v->hidden);
    for_rows(&p, add_positions);
    for (int i = 0; i < v->n_layers; i++) {
        p.layer = &v->layers[i];
        attention(&p);
        for_rows(&p, after_attention);
        mlp(&p);
        for_rows(&p, after_mlp);
    }
    pool_run(c->pool, b->n_pictures, pool_picture, &p);
    project(v, c, b->n_pooled, pooled, soft);
    for (int i = 0; i < 4; i++)
        free(*wide[i]);
    free(p.keys);
    free(p.first_strip);
    free(p.x);
    free(p.h);
    free(p.gate);
    free(p.up);
    free(p.picture_of_block);
    free(p.row_of_block);
}
