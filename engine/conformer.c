/* conformer.c - the audio tower. Two convolutions reduce time and pitch to a quarter, conformer layers follow (half a
 * feed-forward step, attention to the near past, a causal convolution, the other half), two projections end it. */
#include "engine/conformer.h"

#include "engine/clipped.h"
#include "engine/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The source has a table of 13 relative positions and a mask that lets a row see 12 of them. */
enum { CONTEXT_LEFT = 13, N_KEYS = CONTEXT_LEFT - 1, CONV = 3, TASK_ROWS = 16 };

struct feed_forward {
    float *pre_norm, *post_norm;        /* [width] */
    struct clipped up, down;            /* [inner, width], [width, inner] */
};

struct layer {
    struct feed_forward ffn[2];
    float *norm_pre_attention, *norm_post_attention, *norm_out;         /* [width] */
    struct clipped q, k, v, post;
    const struct tensor *relative_k;    /* [width, width] */
    float *q_scale;                     /* [head_dim] */
    float *conv_pre_norm, *conv_norm;   /* [width] */
    struct clipped conv_start, conv_end;
    float *taps;                        /* [n_taps, width]: the depthwise convolution, oldest first */
};

/* One of the two convolutions. */
struct conv {
    int channels_in, channels_out, bands_in, bands_out;
    float *w;           /* first: [time, band, out]; second: [out, time, band, in] */
    float *norm;        /* [out] */
};

struct conformer {
    int width, n_layers, n_heads, head_dim, n_taps, output_width, soft_width;
    float eps, logit_cap, residual, k_scale;
    struct conv conv[2];
    float *ones;                        /* [channels]: a sum is a product with them */
    const struct tensor *input_proj;    /* [width, bands * channels] */
    struct layer *layers;
    float *positions;                   /* [N_KEYS, width]: sines and cosines of how far a key lies in the past */
    const struct tensor *output_proj, *embedding;
    float *output_bias;
    struct arena memory;
};

/* ---- set-up ---------------------------------------------------------------------------------------------------- */

static const char *const where = "config.json: audio_config";

static int read_real(const cJSON *config, const char *key, double lo, double hi, double fallback, float *out,
                     struct err *e)
{
    const cJSON *v = json_get(config, key);
    double x = v && cJSON_IsNumber(v) ? v->valuedouble : v ? NAN : fallback;
    *out = (float)x;
    if (x >= lo && x <= hi)
        return 0;
    return err_input(e, "%s: key \"%s\": a number from %g to %g was expected", where, key, lo, hi);
}

static int read_int(const cJSON *config, const char *key, int64_t lo, int64_t hi, int64_t fallback, int *out,
                    struct err *e)
{
    int64_t v;
    if (json_int(config, key, lo, hi, fallback, &v, where, e))
        return -1;
    *out = (int)v;
    return 0;
}

/* What would be computed in another way. */
static int refuse_other_ways(const cJSON *config, struct err *e)
{
    int unused;
    const char *activation = json_string(config, "hidden_act");
    if (activation && strcmp(activation, "silu") != 0)
        return err_input(e, "%s: key \"hidden_act\": \"silu\" was expected", where);
    if (read_int(config, "attention_context_left", CONTEXT_LEFT, CONTEXT_LEFT, CONTEXT_LEFT, &unused, e) ||
        read_int(config, "attention_context_right", 0, 0, 0, &unused, e) ||
        read_int(config, "attention_chunk_size", N_KEYS, N_KEYS, N_KEYS, &unused, e))
        return -1;
    return 0;
}

static int read_sizes(struct conformer *c, const cJSON *config, int n_bands, struct err *e)
{
    if (!cJSON_IsObject(config))
        return err_input(e, "%s: an object was expected", where);
    if (read_int(config, "hidden_size", 4, 1 << 15, 0, &c->width, e) ||
        read_int(config, "num_hidden_layers", 1, 1024, 0, &c->n_layers, e) ||
        read_int(config, "num_attention_heads", 1, 1024, 0, &c->n_heads, e) ||
        read_int(config, "conv_kernel_size", 1, 64, 5, &c->n_taps, e) ||
        read_int(config, "output_proj_dims", 1, 1 << 16, 0, &c->output_width, e) ||
        read_real(config, "rms_norm_eps", 1e-12, 1e-2, 1e-6, &c->eps, e) ||
        read_real(config, "attention_logit_cap", 1e-3, 1e6, 50, &c->logit_cap, e) ||
        read_real(config, "residual_weight", -16, 16, 0.5, &c->residual, e) || refuse_other_ways(config, e))
        return -1;
    if (c->width % c->n_heads || c->width % 2)
        return err_input(e, "%s: hidden_size %d: an even multiple of num_attention_heads %d was expected", where,
                         c->width, c->n_heads);
    c->head_dim = c->width / c->n_heads;
    const cJSON *channels = json_get(config, "subsampling_conv_channels");
    for (int i = 0; i < 2; i++) {
        const cJSON *v = cJSON_GetArrayItem(channels, i);
        if (cJSON_GetArraySize(channels) != 2 || !cJSON_IsNumber(v) || !(v->valuedouble >= 1 && v->valuedouble <= 4096))
            return err_input(e, "%s: key \"subsampling_conv_channels\": two numbers from 1 to 4096 were expected",
                             where);
        struct conv *conv = &c->conv[i];
        conv->channels_in = i ? c->conv[0].channels_out : 1;
        conv->channels_out = (int)v->valuedouble;
        conv->bands_in = i ? c->conv[0].bands_out : n_bands;
        conv->bands_out = (conv->bands_in + 1) / 2;
    }
    return 0;
}

/* The checkpoint being opened. */
struct source {
    const struct weights *w;
    bool use_bounds;
    struct arena *memory;
    char prefix[256];
    struct err *e;
};

/* Tensor PREFIX.name as a float32 array of the given shape that belongs to the tower. NULL on error. */
static float *read_array(struct source *s, const char *name, int n_dims, const int64_t *dim)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", s->prefix, name);
    float *read = weights_read(s->w, full, n_dims, dim, s->e);
    if (!read)
        return NULL;
    size_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= (size_t)dim[i];
    float *kept = ARENA_NEW(s->memory, float, n);
    memcpy(kept, read, n * sizeof *kept);
    free(read);
    return kept;
}

static int read_vector(struct source *s, const char *name, int64_t n, float **out)
{
    *out = read_array(s, name, 1, &n);
    return *out ? 0 : -1;
}

static int find_matrix(struct source *s, const char *name, int64_t out_size, int64_t in_size, const struct tensor **out)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", s->prefix, name);
    *out = weights_tensor(s->w, full, 2, (int64_t[]){out_size, in_size}, s->e);
    return *out ? 0 : -1;
}

static int find_clipped(struct source *s, const char *name, int64_t out_size, int64_t in_size, struct clipped *out)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", s->prefix, name);
    return clipped_open(out, s->w, full, out_size, in_size, s->use_bounds, s->e);
}

static int open_conv(struct source *s, int i, struct conv *conv)
{
    char name[64];
    int in = conv->channels_in, out = conv->channels_out;
    snprintf(name, sizeof name, "layer%d.conv.weight", i);
    float *stored = read_array(s, name, 4, (int64_t[]){out, in, CONV, CONV});
    snprintf(name, sizeof name, "layer%d.norm.weight", i);
    if (!stored || read_vector(s, name, out, &conv->norm))
        return -1;
    conv->w = ARENA_NEW(s->memory, float, out * in * CONV * CONV);
    for (int o = 0; o < out; o++)
        for (int c = 0; c < in; c++)
            for (int tap = 0; tap < CONV * CONV; tap++) {
                int to = i == 0 ? tap * out + o : (o * CONV * CONV + tap) * in + c;
                conv->w[to] = stored[(o * in + c) * CONV * CONV + tap];
            }
    return 0;
}

static int open_feed_forward(struct source *s, const char *name, int width, struct feed_forward *f)
{
    char part[4][64];
    static const char *const parts[4] = {"pre_layer_norm.weight", "post_layer_norm.weight", "ffw_layer_1",
                                         "ffw_layer_2"};
    for (int i = 0; i < 4; i++)
        snprintf(part[i], sizeof part[i], "%s.%s", name, parts[i]);
    if (read_vector(s, part[0], width, &f->pre_norm) || read_vector(s, part[1], width, &f->post_norm) ||
        find_clipped(s, part[2], -1, width, &f->up))
        return -1;
    int64_t inner = f->up.w->dim[0];
    if (inner < 1 || inner > 1 << 20)
        return err_input(s->e, "%s: tensor %s: at least one and at most %d rows were expected", f->up.w->file,
                         f->up.w->name, 1 << 20);
    return find_clipped(s, part[3], width, inner, &f->down);
}

/* q's factor: softplus(per_dim_scale) / (sqrt(head_dim) ln 2). */
static int open_q_scale(struct source *s, int head_dim, struct layer *l)
{
    if (read_vector(s, "self_attn.per_dim_scale", head_dim, &l->q_scale))
        return -1;
    for (int i = 0; i < head_dim; i++) {
        double v = l->q_scale[i], softplus = v > 30 ? v : log1p(exp(v));
        l->q_scale[i] = (float)(softplus / (sqrt(head_dim) * log(2)));
    }
    return 0;
}

static int open_depthwise(struct source *s, const struct conformer *c, struct layer *l)
{
    float *stored = read_array(s, "lconv1d.depthwise_conv1d.weight", 3, (int64_t[]){c->width, 1, c->n_taps});
    if (!stored)
        return -1;
    l->taps = ARENA_NEW(s->memory, float, c->width * c->n_taps);
    for (int ch = 0; ch < c->width; ch++)
        for (int i = 0; i < c->n_taps; i++)
            l->taps[i * c->width + ch] = stored[ch * c->n_taps + i];
    return 0;
}

static int open_layer(struct source *s, const struct conformer *c, int i, struct layer *l)
{
    int64_t n = c->width;
    snprintf(s->prefix, sizeof s->prefix, "model.audio_tower.layers.%d.", i);
    if (open_feed_forward(s, "feed_forward1", c->width, &l->ffn[0]) ||
        open_feed_forward(s, "feed_forward2", c->width, &l->ffn[1]) ||
        read_vector(s, "norm_pre_attn.weight", n, &l->norm_pre_attention) ||
        read_vector(s, "norm_post_attn.weight", n, &l->norm_post_attention) ||
        read_vector(s, "norm_out.weight", n, &l->norm_out) || find_clipped(s, "self_attn.q_proj", n, n, &l->q) ||
        find_clipped(s, "self_attn.k_proj", n, n, &l->k) || find_clipped(s, "self_attn.v_proj", n, n, &l->v) ||
        find_clipped(s, "self_attn.post", n, n, &l->post) ||
        find_matrix(s, "self_attn.relative_k_proj.weight", n, n, &l->relative_k) || open_q_scale(s, c->head_dim, l) ||
        read_vector(s, "lconv1d.pre_layer_norm.weight", n, &l->conv_pre_norm) ||
        read_vector(s, "lconv1d.conv_norm.weight", n, &l->conv_norm) ||
        find_clipped(s, "lconv1d.linear_start", 2 * n, n, &l->conv_start) ||
        find_clipped(s, "lconv1d.linear_end", n, n, &l->conv_end) || open_depthwise(s, c, l))
        return -1;
    return 0;
}

/* Row j: sin(j w_i), then cos(j w_i), w_i = 10000^(-i / (width / 2 - 1)). */
static void make_positions(struct conformer *c)
{
    int half = c->width / 2;
    c->positions = ARENA_NEW(&c->memory, float, N_KEYS * c->width);
    for (int j = 0; j < N_KEYS; j++)
        for (int i = 0; i < half; i++) {
            double angle = j * exp(-i * log(10000) / (half > 1 ? half - 1 : 1));
            c->positions[j * c->width + i] = (float)sin(angle);
            c->positions[j * c->width + half + i] = (float)cos(angle);
        }
}

static int open_tower(struct conformer *c, const struct weights *w, const cJSON *root, int n_bands, struct err *e)
{
    const cJSON *config = json_get(root, "audio_config"), *bounds = json_get(config, "use_clipped_linears");
    if (read_sizes(c, config, n_bands, e))
        return -1;
    if (bounds && !cJSON_IsBool(bounds))
        return err_input(e, "%s: key \"use_clipped_linears\": true or false was expected", where);
    struct source s = {w, !cJSON_IsFalse(bounds), &c->memory, "model.audio_tower.subsample_conv_projection.", e};
    int flat = c->conv[1].bands_out * c->conv[1].channels_out;
    if (open_conv(&s, 0, &c->conv[0]) || open_conv(&s, 1, &c->conv[1]) ||
        find_matrix(&s, "input_proj_linear.weight", c->width, flat, &c->input_proj))
        return -1;
    c->layers = ARENA_NEW(&c->memory, struct layer, c->n_layers);
    for (int i = 0; i < c->n_layers; i++)
        if (open_layer(&s, c, i, &c->layers[i]))
            return -1;
    if (weights_expect_layers(w, "model.audio_tower.layers.", c->n_layers, where, e))
        return -1;
    snprintf(s.prefix, sizeof s.prefix, "model.");
    const cJSON *nested = json_get(root, "text_config");         /* a folder with the decoder alone has none */
    int64_t hidden;
    if (json_int(nested ? nested : root, "hidden_size", 1, 1 << 16, 0, &hidden, "config.json: text_config", e) ||
        find_matrix(&s, "audio_tower.output_proj.weight", c->output_width, c->width, &c->output_proj) ||
        read_vector(&s, "audio_tower.output_proj.bias", c->output_width, &c->output_bias) ||
        find_matrix(&s, "embed_audio.embedding_projection.weight", hidden, c->output_width, &c->embedding))
        return -1;
    c->soft_width = (int)hidden;
    make_positions(c);
    int channels = c->conv[0].channels_out;
    if (c->conv[1].channels_out > channels)
        channels = c->conv[1].channels_out;
    c->ones = ARENA_NEW(&c->memory, float, channels);
    for (int i = 0; i < channels; i++)
        c->ones[i] = 1;
    c->k_scale = (float)(log(1 + exp(1)) / log(2));
    return 0;
}

int conformer_open(struct conformer **out, const struct weights *w, const cJSON *config, int n_bands, struct err *e)
{
    struct conformer *c = NEW(struct conformer, 1);
    *out = NULL;
    if (open_tower(c, w, config, n_bands, e)) {
        conformer_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

void conformer_close(struct conformer *c)
{
    if (!c)
        return;
    arena_free(&c->memory);
    free(c);
}

int conformer_layers(const struct conformer *c) { return c->n_layers; }
int conformer_width(const struct conformer *c) { return c->width; }
int conformer_output_width(const struct conformer *c) { return c->output_width; }
int conformer_soft_width(const struct conformer *c) { return c->soft_width; }

int64_t conformer_tokens(int64_t n_frames)
{
    return ((n_frames + 1) / 2 + 1) / 2;
}

/* ---- subsampling ----------------------------------------------------------------------------------------------- */

struct conv_job {
    const struct conformer *c;
    const struct kernels *k;
    const struct conv *conv;
    const float *in;            /* [times_in, bands_in, channels_in] */
    int times_in;
    float *out;                 /* [times_out, bands_out, channels_out] */
};

/* LayerNorm over n channels, without bias, then ReLU; in place. The variance is taken around the mean. */
static void norm_relu(const struct conv_job *j, float *x)
{
    int n = j->conv->channels_out;
    float mean = j->k->dot(x, j->c->ones, n) / (float)n;
    for (int i = 0; i < n; i++)
        x[i] -= mean;
    float scale = 1 / sqrtf(j->k->dot(x, x, n) / (float)n + j->c->eps);
    for (int i = 0; i < n; i++) {
        float y = x[i] * scale * j->conv->norm[i];
        x[i] = y < 0 ? 0 : y;
    }
}

/* The first convolution: 9 numbers become many channels, so the sum runs over the taps, all channels at once. */
static void conv_first(void *arg, int t)
{
    const struct conv_job *j = arg;
    int bands = j->conv->bands_in, channels = j->conv->channels_out;
    for (int b = 0; b < j->conv->bands_out; b++) {
        float *out = j->out + ((size_t)t * (size_t)j->conv->bands_out + (size_t)b) * (size_t)channels;
        memset(out, 0, (size_t)channels * sizeof *out);
        for (int tap = 0; tap < CONV * CONV; tap++) {
            int time = 2 * t - 1 + tap / CONV, band = 2 * b - 1 + tap % CONV;
            if (time >= 0 && time < j->times_in && band >= 0 && band < bands)
                j->k->axpy(out, j->conv->w + tap * channels, j->in[(size_t)time * (size_t)bands + (size_t)band],
                           channels);
        }
        norm_relu(j, out);
    }
}

/* The second: many channels in, few out; a row of patches [bands_out, time, band, in] times the weights. */
static void conv_second(void *arg, int t)
{
    const struct conv_job *j = arg;
    int in = j->conv->channels_in, bands = j->conv->bands_in, n_out = j->conv->bands_out;
    size_t patch = (size_t)(CONV * CONV * in);
    float *patches = NEW(float, (size_t)n_out * patch);
    for (int b = 0; b < n_out; b++)
        for (int tap = 0; tap < CONV * CONV; tap++) {
            int time = 2 * t - 1 + tap / CONV, band = 2 * b - 1 + tap % CONV;
            if (time < 0 || time >= j->times_in || band < 0 || band >= bands)
                continue;
            const float *from = j->in + ((size_t)time * (size_t)bands + (size_t)band) * (size_t)in;
            memcpy(patches + (size_t)b * patch + (size_t)(tap * in), from, (size_t)in * sizeof *patches);
        }
    int channels = j->conv->channels_out;
    float *out = j->out + (size_t)t * (size_t)(n_out * channels);
    j->k->gemm(TENSOR_F32, j->conv->w, channels, (int)patch, patches, patch, n_out, out, (size_t)channels);
    for (int b = 0; b < n_out; b++)
        norm_relu(j, out + b * channels);
    free(patches);
}

void conformer_subsample(const struct conformer *c, const struct compute *compute, const struct stretch *stretches,
                         int n, float *x)
{
    size_t flat = (size_t)(c->conv[1].bands_out * c->conv[1].channels_out);
    size_t half_row = (size_t)(c->conv[0].bands_out * c->conv[0].channels_out);
    int most_frames = 0;
    int64_t n_rows = 0;
    for (int i = 0; i < n; i++) {
        most_frames = stretches[i].n_frames > most_frames ? stretches[i].n_frames : most_frames;
        n_rows += conformer_tokens(stretches[i].n_frames);
    }
    float *half = mem_grow(NULL, (size_t)((most_frames + 1) / 2) * half_row, sizeof *half);
    float *quarter = mem_grow(NULL, (size_t)n_rows * flat, sizeof *quarter), *at = quarter;
    for (int i = 0; i < n; i++) {
        int n_half = (stretches[i].n_frames + 1) / 2, n_quarter = (n_half + 1) / 2;
        struct conv_job first = {c, compute->k, &c->conv[0], stretches[i].mel, stretches[i].n_frames, half};
        struct conv_job second = {c, compute->k, &c->conv[1], half, n_half, at};
        pool_run(compute->pool, n_half, conv_first, &first);
        pool_run(compute->pool, n_quarter, conv_second, &second);
        at += (size_t)n_quarter * flat;
    }
    linear(compute, c->input_proj, quarter, flat, (int)n_rows, x, (size_t)c->width);
    free(half);
    free(quarter);
}

/* ---- a layer --------------------------------------------------------------------------------------------------- */

/* A layer under way. h is what the present step works on; x += ... ends the step. */
struct pass {
    const struct conformer *c;
    const struct compute *compute;
    const struct layer *layer;
    const int *first;
    int n_rows;
    float *x, *h, *q, *k, *v;           /* [n_rows, width] */
    float *wide;                        /* [n_rows, wide_size] */
    int wide_size;
    float *relative;                    /* [N_KEYS, width]: r_j */
    const float *norm;                  /* of the present step */
    float scale;
};

/* Runs a step for all rows, TASK_ROWS at a time. */
struct rows_job { struct pass *p; void (*row)(const struct pass *p, int t); };

static void rows_task(void *arg, int task)
{
    const struct rows_job *j = arg;
    int end = (task + 1) * TASK_ROWS < j->p->n_rows ? (task + 1) * TASK_ROWS : j->p->n_rows;
    for (int t = task * TASK_ROWS; t < end; t++)
        j->row(j->p, t);
}

static void each_row(struct pass *p, void (*row)(const struct pass *p, int t))
{
    struct rows_job job = {p, row};
    pool_run(p->compute->pool, (p->n_rows + TASK_ROWS - 1) / TASK_ROWS, rows_task, &job);
}

static float *row_of(const struct pass *p, float *base, int t)
{
    return base + (size_t)t * (size_t)p->c->width;
}

static void norm_row(const struct pass *p, int t)
{
    p->compute->k->rms_norm(row_of(p, p->h, t), row_of(p, p->x, t), p->norm, p->c->width, p->c->eps);
}

static void add_row(const struct pass *p, int t)
{
    p->compute->k->axpy(row_of(p, p->x, t), row_of(p, p->h, t), p->scale, p->c->width);
}

static void normed_add_row(const struct pass *p, int t)
{
    float *h = row_of(p, p->h, t);
    p->compute->k->rms_norm(h, h, p->norm, p->c->width, p->c->eps);
    add_row(p, t);
}

static void silu_row(const struct pass *p, int t)
{
    p->compute->k->silu(p->wide + (size_t)t * (size_t)p->wide_size, p->wide_size);
}

static void apply(const struct pass *p, const struct clipped *l, const float *in, float *out)
{
    clipped_linear(p->compute, l, in, (size_t)l->w->dim[1], p->n_rows, out, (size_t)l->w->dim[0]);
}

/* x += 0.5 rms(down(silu(up(rms(x))))) */
static void feed_forward(struct pass *p, const struct feed_forward *f)
{
    p->norm = f->pre_norm;
    each_row(p, norm_row);
    apply(p, &f->up, p->h, p->wide);
    p->wide_size = (int)f->up.w->dim[0];
    each_row(p, silu_row);
    apply(p, &f->down, p->wide, p->h);
    p->norm = f->post_norm;
    p->scale = p->c->residual;
    each_row(p, normed_add_row);
}

/* One head of one row: scores with itself and up to 11 rows before it, capped, softmax, mean of the values. */
static void attend(const struct pass *p, int t, int head)
{
    const struct conformer *c = p->c;
    const struct kernels *k = p->compute->k;
    int d = c->head_dim, n = t - p->first[t] + 1 < N_KEYS ? t - p->first[t] + 1 : N_KEYS;
    size_t at = (size_t)(head * d);
    const float *q = row_of(p, p->q, t) + at;
    float *out = row_of(p, p->h, t) + at, s[N_KEYS];
    for (int j = 0; j < n; j++)
        s[j] = k->dot(q, row_of(p, p->k, t - j) + at, d) + k->dot(q, row_of(p, p->relative, j) + at, d);
    k->softcap(s, n, c->logit_cap);
    k->softmax(s, n);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int j = 0; j < n; j++)
        k->axpy(out, row_of(p, p->v, t - j) + at, s[j], d);
}

static void attend_row(const struct pass *p, int t)
{
    for (int head = 0; head < p->c->n_heads; head++)
        attend(p, t, head);
}

/* Only k takes k's factor, not the relative term. */
static void scale_row(const struct pass *p, int t)
{
    float *q = row_of(p, p->q, t), *k = row_of(p, p->k, t);
    int d = p->c->head_dim;
    for (int head = 0; head < p->c->n_heads; head++)
        for (int i = 0; i < d; i++)
            q[head * d + i] *= p->layer->q_scale[i];
    for (int i = 0; i < p->c->width; i++)
        k[i] *= p->c->k_scale;
}

static void attention(struct pass *p)
{
    const struct layer *l = p->layer;
    size_t width = (size_t)p->c->width;
    p->norm = l->norm_pre_attention;
    each_row(p, norm_row);
    apply(p, &l->q, p->h, p->q);
    apply(p, &l->k, p->h, p->k);
    apply(p, &l->v, p->h, p->v);
    linear(p->compute, l->relative_k, p->c->positions, width, N_KEYS, p->relative, width);
    each_row(p, scale_row);
    each_row(p, attend_row);
    apply(p, &l->post, p->h, p->q);
    float *result = p->q;
    p->q = p->h;
    p->h = result;
    p->norm = l->norm_post_attention;
    p->scale = 1;
    each_row(p, normed_add_row);
}

/* v = first half of wide * sigmoid(second half), with sigmoid(u) = (1 + tanh(u / 2)) / 2. */
static void glu_row(const struct pass *p, int t)
{
    int n = p->c->width;
    float *u = p->wide + (size_t)t * (size_t)(2 * n), *gate = u + n, *v = row_of(p, p->v, t);
    p->compute->k->softcap(gate, n, 2);
    for (int i = 0; i < n; i++)
        v[i] = u[i] * (0.5f + 0.25f * gate[i]);
}

/* h = silu(rms(causal convolution of v)); rows before the stretch count as zero. */
static void depthwise_row(const struct pass *p, int t)
{
    int n = p->c->width, n_taps = p->c->n_taps;
    const struct kernels *k = p->compute->k;
    float *h = row_of(p, p->h, t);
    memset(h, 0, (size_t)n * sizeof *h);
    for (int i = 0; i < n_taps; i++) {
        int from = t - (n_taps - 1) + i;
        if (from < p->first[t])
            continue;
        const float *v = row_of(p, p->v, from), *w = p->layer->taps + i * n;
        for (int ch = 0; ch < n; ch++)
            h[ch] += w[ch] * v[ch];
    }
    k->rms_norm(h, h, p->layer->conv_norm, n, p->c->eps);
    k->silu(h, n);
}

static void convolution(struct pass *p)
{
    p->norm = p->layer->conv_pre_norm;
    each_row(p, norm_row);
    apply(p, &p->layer->conv_start, p->h, p->wide);
    each_row(p, glu_row);
    each_row(p, depthwise_row);
    apply(p, &p->layer->conv_end, p->h, p->q);
    float *result = p->q;
    p->q = p->h;
    p->h = result;
    p->scale = 1;
    each_row(p, add_row);
}

static void norm_out_row(const struct pass *p, int t)
{
    float *x = row_of(p, p->x, t);
    p->compute->k->rms_norm(x, x, p->norm, p->c->width, p->c->eps);
}

void conformer_layer(const struct conformer *c, const struct compute *compute, int layer, const int *first, int n_rows,
                     float *x)
{
    const struct layer *l = &c->layers[layer];
    size_t rows = (size_t)n_rows * (size_t)c->width;
    int64_t widest = 2 * c->width;
    for (int i = 0; i < 2; i++)
        widest = l->ffn[i].up.w->dim[0] > widest ? l->ffn[i].up.w->dim[0] : widest;
    float *buffer = mem_grow(NULL, 4 * rows + (size_t)(n_rows * widest) + N_KEYS * (size_t)c->width, sizeof *buffer);
    struct pass p = {.c = c, .compute = compute, .layer = l, .first = first, .n_rows = n_rows, .x = x, .h = buffer,
                     .q = buffer + rows, .k = buffer + 2 * rows, .v = buffer + 3 * rows,
                     .relative = buffer + 4 * rows, .wide = buffer + 4 * rows + N_KEYS * (size_t)c->width};
    feed_forward(&p, &l->ffn[0]);
    attention(&p);
    convolution(&p);
    feed_forward(&p, &l->ffn[1]);
    p.norm = l->norm_out;
    each_row(&p, norm_out_row);
    free(buffer);
}

/* ---- out ------------------------------------------------------------------------------------------------------- */

void conformer_project(const struct conformer *c, const struct compute *compute, int n_rows, const float *x,
                       float *output, float *soft)
{
    size_t n = (size_t)c->output_width;
    linear(compute, c->output_proj, x, (size_t)c->width, n_rows, output, n);
    float *normed = mem_grow(NULL, (size_t)n_rows * n, sizeof *normed);
    for (int t = 0; t < n_rows; t++) {
        compute->k->axpy(output + (size_t)t * n, c->output_bias, 1, (int)n);
        compute->k->rms_norm(normed + (size_t)t * n, output + (size_t)t * n, NULL, (int)n, c->eps);
    }
    linear(compute, c->embedding, normed, n, n_rows, soft, (size_t)c->soft_width);
    free(normed);
}

void conformer_run(const struct conformer *c, const struct compute *compute, const struct stretch *stretches, int n,
                   float *soft)
{
    int n_rows = 0;
    for (int i = 0; i < n; i++)
        n_rows += (int)conformer_tokens(stretches[i].n_frames);
    int *first = NEW(int, n_rows);
    for (int i = 0, t = 0; i < n; i++)
        for (int start = t, end = t + (int)conformer_tokens(stretches[i].n_frames); t < end; t++)
            first[t] = start;
    float *x = mem_grow(NULL, (size_t)n_rows * (size_t)c->width, sizeof *x);
    float *output = mem_grow(NULL, (size_t)n_rows * (size_t)c->output_width, sizeof *output);
    conformer_subsample(c, compute, stretches, n, x);
    for (int i = 0; i < c->n_layers; i++)
        conformer_layer(c, compute, i, first, n_rows, x);
    conformer_project(c, compute, n_rows, x, output, soft);
    free(output);
    free(x);
    free(first);
}
