/* clipped.c - linear layers with bounds on both sides. */
#include "engine/clipped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const bounds[] = {"input_min", "input_max", "output_min", "output_max"};

/* Bounds that the configuration does not speak of are part of the model all the same. */
static int refuse_bounds(const struct weights *w, const char *prefix, struct err *e)
{
    char name[512];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, bounds[i]);
        const struct tensor *t = weights_find(w, name);
        if (t)
            return err_input(e, "%s: tensor %s: config.json's use_clipped_linears says that there is no such bound",
                             t->file, name);
    }
    return 0;
}

static int read_bound(const struct weights *w, const char *prefix, const char *which, float *out, struct err *e)
{
    char name[512];
    snprintf(name, sizeof name, "%s.%s", prefix, which);
    const struct tensor *t = weights_tensor(w, name, 0, NULL, e);
    if (!t)
        return -1;
    tensor_read_f32(t, 0, 1, out);
    return isnan(*out) ? err_input(e, "%s: tensor %s: a number was expected, it is NaN", t->file, name) : 0;
}

int clipped_open(struct clipped *c, const struct weights *w, const char *prefix, int64_t out, int64_t in,
                 bool use_bounds, struct err *e)
{
    char name[512];
    snprintf(name, sizeof name, "%s.linear.weight", prefix);
    *c = (struct clipped){.w = weights_tensor(w, name, 2, (int64_t[]){out, in}, e)};
    if (!c->w)
        return -1;
    if (!use_bounds)
        return refuse_bounds(w, prefix, e);
    c->is_bounded = true;
    float *const to[] = {&c->in_min, &c->in_max, &c->out_min, &c->out_max};
    for (int i = 0; i < 4; i++)
        if (read_bound(w, prefix, bounds[i], to[i], e))
            return -1;
    if (c->in_min > c->in_max || c->out_min > c->out_max)
        return err_input(e, "%s: the bounds of %s: a minimum not above its maximum was expected", c->w->file, prefix);
    return 0;
}

/* Rows that one task clamps. */
enum { CLAMP_ROWS = 16 };

struct clamp_job {
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    int M, n;
    float lo, hi;
};

/* y = clamp(x); y may be x. A NaN stays one, so that damaged weights show. */
static void clamp_rows(void *arg, int task)
{
    const struct clamp_job *j = arg;
    int end = j->M < (task + 1) * CLAMP_ROWS ? j->M : (task + 1) * CLAMP_ROWS;
    for (int m = task * CLAMP_ROWS; m < end; m++) {
        const float *x = j->x + (size_t)m * j->x_stride;
        float *y = j->y + (size_t)m * j->y_stride;
        for (int i = 0; i < j->n; i++) {
            float v = x[i] < j->lo ? j->lo : x[i];
            y[i] = v > j->hi ? j->hi : v;
        }
    }
}

static void clamp_all(struct pool *pool, struct clamp_job job)
{
    pool_run(pool, (job.M + CLAMP_ROWS - 1) / CLAMP_ROWS, clamp_rows, &job);
}

void clipped_linear(const struct compute *compute, const struct clipped *c, const float *x, size_t x_stride, int M,
                    float *y, size_t y_stride)
{
    if (!c->is_bounded) {
        linear(compute, c->w, x, x_stride, M, y, y_stride);
        return;
    }
    int in = (int)c->w->dim[1], out = (int)c->w->dim[0];
    float *clamped = mem_grow(NULL, (size_t)M * (size_t)in, sizeof *clamped);
    clamp_all(compute->pool, (struct clamp_job){x, clamped, x_stride, (size_t)in, M, in, c->in_min, c->in_max});
    linear(compute, c->w, clamped, (size_t)in, M, y, y_stride);
    free(clamped);
    clamp_all(compute->pool, (struct clamp_job){y, y, y_stride, y_stride, M, out, c->out_min, c->out_max});
}
