/* probe.c - the handoff probe: LayerNorm, projection, attention pooling over rows, a small head, a sigmoid.
 *
 *     n = (x - mean) / sqrt(var + eps) * norm.weight + norm.bias       over the channels of one row
 *     p = relu(proj.weight n + proj.bias)
 *     a = softmax over rows of (p . attn_query) / sqrt(width of p)
 *     u = sum_t a_t p_t
 *     z = head.4 relu(head.2 relu(head.0 u + b0) + b2) + b4;  confidence = sigmoid(-z)
 *
 * Everything is computed in double: hidden states have outlier channels, so the variance is taken around the mean, and
 * the result does not depend on the order in which a compiler would add floats.
 */
#include "probe/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const prefixes[] = {"handoff_probe.", "probe."};

static const char *find_prefix(const struct weights *w)
{
    char name[128];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        snprintf(name, sizeof name, "%sproj.weight", prefixes[i]);
        if (weights_find(w, name))
            return prefixes[i];
    }
    return NULL;
}

bool probe_in(const struct weights *w)
{
    return find_prefix(w) != NULL;
}

static float *read_tensor(const struct weights *w, const char *prefix, const char *rest, int n_dims,
                          const int64_t *dim, struct err *e)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", prefix, rest);
    return weights_read(w, name, n_dims, dim, e);
}

/* Rows of a matrix, whatever they are; 0 if it is absent (reading it then says so). */
static int64_t rows_of(const struct weights *w, const char *prefix, const char *rest)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", prefix, rest);
    const struct tensor *t = weights_find(w, name);
    return t && t->n_dims == 2 ? t->dim[0] : 0;
}

static int read_layer(const struct weights *w, const char *prefix, const char *part, int64_t out, int64_t in,
                      struct layer *l, struct err *e)
{
    char name[32];
    snprintf(name, sizeof name, "%s.weight", part);
    l->weight = read_tensor(w, prefix, name, 2, (const int64_t[]){out, in}, e);
    snprintf(name, sizeof name, "%s.bias", part);
    l->bias = l->weight ? read_tensor(w, prefix, name, 1, &out, e) : NULL;
    l->out = (int)out;
    l->in = (int)in;
    return l->bias ? 0 : -1;
}

static int read_tensors(struct probe *p, const struct weights *w, const char *prefix, struct err *e)
{
    static const char *const head[PROBE_HEAD_LAYERS] = {"head.0", "head.2", "head.4"};
    char name[128];
    snprintf(name, sizeof name, "%sproj.weight", prefix);
    const struct tensor *t = weights_find(w, name);
    const int64_t limit = 1 << 20;
    if (t->n_dims != 2 || t->dim[0] < 1 || t->dim[1] < 1 || t->dim[0] > limit || t->dim[1] > limit)
        return err_input(e, "%s: tensor %s: a matrix [width, hidden] was expected", t->file, name);
    int64_t width = t->dim[0], dim = t->dim[1];
    if (read_layer(w, prefix, "proj", width, dim, &p->proj, e))
        return -1;
    p->norm.out = p->norm.in = (int)dim;
    p->norm.weight = read_tensor(w, prefix, "norm.weight", 1, &dim, e);
    p->norm.bias = p->norm.weight ? read_tensor(w, prefix, "norm.bias", 1, &dim, e) : NULL;
    snprintf(name, sizeof name, "%sattn_query.weight", prefix);
    p->attn_query = p->norm.bias ? read_tensor(w, prefix, weights_find(w, name) ? "attn_query.weight" : "attn_query", 1,
                                               &width, e) : NULL;
    if (!p->attn_query)
        return -1;
    int64_t in = width;
    for (int i = 0; i < PROBE_HEAD_LAYERS; i++) {
        snprintf(name, sizeof name, "%s.weight", head[i]);
        int64_t out = i == PROBE_HEAD_LAYERS - 1 ? 1 : rows_of(w, prefix, name);
        if (read_layer(w, prefix, head[i], out, in, &p->head[i], e))
            return -1;
        in = out;
    }
    return 0;
}

/* layer: -1, or what to use instead of the model's word. */
static int read_settings(struct probe *p, const struct engine *m, int64_t layer, struct err *e)
{
    p->layer = 28;
    p->max_rows = 1024;
    p->eps = 1e-5;
    if (!m)
        return 0;
    const struct model_info *info = engine_info(m);
    const cJSON *stated = engine_config(m, "probe_layer");
    const cJSON *rows = engine_config(m, "probe_max_tokens");
    const cJSON *eps = engine_config(m, "probe_layer_norm_eps");
    if (cJSON_IsNumber(stated))
        p->layer = stated->valueint;
    if (layer >= 0)
        p->layer = layer < info->n_layers ? (int)layer : info->n_layers;
    if (cJSON_IsNumber(rows))
        p->max_rows = rows->valueint;
    if (cJSON_IsNumber(eps))
        p->eps = eps->valuedouble;
    if (p->layer < 0 || p->layer >= info->n_layers)
        return err_input(e, "%s: probe_layer: a layer from 0 to %d was expected, not %d%s", info->path,
                         info->n_layers - 1, p->layer,
                         stated || layer >= 0 ? "" : " (the checkpoint does not name one: give it with --probe-layer)");
    if (p->max_rows < 1 || p->max_rows > 1 << 20)
        return err_input(e, "%s: probe_max_tokens: 1 to 1048576 was expected", info->path);
    if (!(p->eps >= 0 && p->eps < 1))
        return err_input(e, "%s: probe_layer_norm_eps: a number from 0 to 1 was expected", info->path);
    return 0;
}

static int open_probe(struct probe **out, const struct weights *w, const struct engine *m, int64_t layer, struct err *e)
{
    *out = NULL;
    const char *prefix = find_prefix(w);
    const char *file = weights_count(w) ? weights_at(w, 0)->file : "the file";
    if (!prefix)
        return err_input(e, "%s: no handoff probe (tensor handoff_probe.proj.weight was expected)", file);
    struct probe *p = NEW(struct probe, 1);
    int failed = read_tensors(p, w, prefix, e) || read_settings(p, m, layer, e);
    if (!failed && m && engine_info(m)->hidden_size != p->norm.in)
        failed = err_input(e, "%s: the probe reads rows of %d, but hidden_size is %d", file, p->norm.in,
                           engine_info(m)->hidden_size);
    if (failed) {
        probe_close(p);
        return -1;
    }
    *out = p;
    return 0;
}

int probe_open(struct probe **out, const struct weights *w, const struct engine *m, struct err *e)
{
    return open_probe(out, w, m, -1, e);
}

int probe_open_for(struct probe **out, const struct engine *m, const char *file, int64_t layer, struct err *e)
{
    struct weights *w;
    *out = NULL;
    if (!file)
        return probe_in(engine_weights(m)) ? open_probe(out, engine_weights(m), m, layer, e) : 0;
    if (weights_open(&w, file, e))
        return -1;
    const int failed = open_probe(out, w, m, layer, e);
    weights_close(w);
    return failed;
}

void probe_close(struct probe *p)
{
    if (!p)
        return;
    struct layer *all[] = {&p->norm, &p->proj, &p->head[0], &p->head[1], &p->head[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->weight);
        free(all[i]->bias);
    }
    free(p->attn_query);
    free(p);
}

int probe_layer(const struct probe *p)
{
    return p->layer;
}

int probe_dim(const struct probe *p)
{
    return p->norm.in;
}

int probe_max_rows(const struct probe *p)
{
    return p->max_rows;
}

void probe_fingerprint(const struct probe *p, char hex[65])
{
    struct sha256 sha;
    struct text settings = {0};
    const struct layer *all[] = {&p->norm, &p->proj, &p->head[0], &p->head[1], &p->head[2]};
    sha256_init(&sha);
    text_printf(&settings, "%d %d %a", p->layer, p->max_rows, p->eps);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t out = (size_t)all[i]->out, in = i ? (size_t)all[i]->in : 1;
        text_printf(&settings, " %zu %zu", out, in);
        sha256_update(&sha, all[i]->weight, out * in * sizeof(float));
        sha256_update(&sha, all[i]->bias, out * sizeof(float));
    }
    sha256_update(&sha, p->attn_query, (size_t)p->proj.out * sizeof(float));
    sha256_update(&sha, settings.data, settings.len);
    sha256_hex(&sha, hex);
    text_free(&settings);
}

static void apply(const struct layer *l, const double *x, double *y, bool relu)
{
    for (int o = 0; o < l->out; o++) {
        const float *w = l->weight + (size_t)o * (size_t)l->in;
        double sum = 0;
        for (int i = 0; i < l->in; i++)
            sum += w[i] * x[i];
        sum += l->bias[o];
        y[o] = relu && sum < 0 ? 0 : sum;
    }
}

static int layer_norm(const struct probe *p, const float *x, double *y, int row, struct err *e)
{
    int n = p->norm.in;
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return err_input(e, "hidden row %d, channel %d: a finite number was expected", row, i);
        mean += x[i];
    }
    mean /= n;
    for (int i = 0; i < n; i++) {
        y[i] = x[i] - mean;
        var += y[i] * y[i];
    }
    double scale = 1 / sqrt(var / n + p->eps);
    for (int i = 0; i < n; i++)
        y[i] = y[i] * scale * p->norm.weight[i] + p->norm.bias[i];
    return 0;
}

/* u = sum over rows of softmax(score) p, both given per row. */
static void pool_rows(const double *projected, const double *score, int n, int width, double *u)
{
    double best = -INFINITY, total = 0;
    for (int t = 0; t < n; t++)
        best = fmax(best, score[t]);
    memset(u, 0, (size_t)width * sizeof *u);
    for (int t = 0; t < n; t++) {
        double a = exp(score[t] - best);
        total += a;
        for (int i = 0; i < width; i++)
            u[i] += a * projected[(size_t)t * (size_t)width + (size_t)i];
    }
    for (int i = 0; i < width; i++)
        u[i] /= total;
}

static double run_head(const struct probe *p, const double *u)
{
    double *a = NEW(double, p->head[0].out), *b = NEW(double, p->head[1].out), z;
    apply(&p->head[0], u, a, true);
    apply(&p->head[1], a, b, true);
    apply(&p->head[2], b, &z, false);
    free(a);
    free(b);
    return z;
}

static double sigmoid(double z)
{
    return z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z));
}

int probe_score(const struct probe *p, const float *rows, int n, struct probe_result *r, struct err *e)
{
    *r = (struct probe_result){0};
    if (n < 1)
        return err_input(e, "the probe needs at least one hidden row");
    n = n < p->max_rows ? n : p->max_rows;
    int width = p->proj.out, dim = p->norm.in, failed = 0;
    double *normed = NEW(double, dim), *projected = NEW(double, (size_t)n * (size_t)width);
    double *score = NEW(double, n), *u = NEW(double, width);
    for (int t = 0; t < n && !failed; t++) {
        double *at = projected + (size_t)t * (size_t)width;
        failed = layer_norm(p, rows + (size_t)t * (size_t)dim, normed, t, e);
        apply(&p->proj, normed, at, true);
        for (int i = 0; i < width; i++)
            score[t] += at[i] * p->attn_query[i];
        score[t] /= sqrt(width);
    }
    if (!failed) {
        pool_rows(projected, score, n, width, u);
        double z = run_head(p, u);
        *r = (struct probe_result){n, z, sigmoid(z), sigmoid(-z)};
        if (!isfinite(z))
            failed = err_input(e, "the probe's output is not finite");
    }
    free(normed);
    free(projected);
    free(score);
    free(u);
    return failed ? -1 : 0;
}
