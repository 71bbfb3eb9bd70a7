/* models.h - whole checkpoints against the logits.json, logits.safetensors and tensors.json beside them
 * (../shared/formats: the MLX models and the Cactus bundles have the same form). */
#ifndef HANDOFF_TESTS_MODELS_H
#define HANDOFF_TESTS_MODELS_H

#include "engine/engine.h"
#include "probe/probe.h"
#include "tests/golden.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

struct model_case {
    const char *model, *expected;           /* paths */
    double tolerance;                       /* of logits */
    bool has_probe;
};

static inline cJSON *models_json(const char *folder, const char *name)
{
    struct err e = {0};
    char *path = path_join(folder, name);
    cJSON *json = json_read_file(path, (size_t)64 << 20, &e);
    CHECK_MSG(json != NULL, "%s", e.msg);
    free(path);
    return json;
}

static inline double models_worst(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double off = fabs((double)a[i] - (double)b[i]);
        if (!(off <= worst))
            worst = off;
    }
    return worst;
}

static inline int models_best(const float *v, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}

static inline float models_margin(const float *v, int n)
{
    const int best = models_best(v, n);
    float second = -INFINITY;
    for (int i = 0; i < n; i++)
        second = i != best && v[i] > second ? v[i] : second;
    return v[best] - second;
}

/* The 12 greedy tokens, as far as no choice is closer than 0.01, and the probe over the rows at their positions. */
static inline void models_greedy(struct engine *m, struct seq *s, const float *first, const cJSON *want,
                                 const struct model_case *c, int k)
{
    const struct model_info *info = engine_info(m);
    const cJSON *greedy = json_get(want, "greedy"), *margins = json_get(want, "greedy_margin");
    const int n = cJSON_GetArraySize(greedy), vocab = info->vocab_size, hidden = info->hidden_size;
    float *logits = NEW(float, vocab), *rows = NEW(float, n * hidden);
    struct err e = {0};
    bool close = false;
    memcpy(logits, first, (size_t)vocab * sizeof *logits);
    for (int i = 0; i < n; i++) {
        const int32_t id = (int32_t)cJSON_GetArrayItem(greedy, i)->valuedouble;
        close |= cJSON_GetArrayItem(margins, i)->valuedouble <= 0.01;
        CHECK_MSG(close || models_best(logits, vocab) == id, "%s, prompt %d: token %d is %d, not %d", c->model, k, i,
                  models_best(logits, vocab), (int)id);
        struct step_input in = {.seq = s, .ids = &id, .n = 1, .n_needed = 1, .logits = logits, .tap_layer = 7,
                                .tap = rows + i * hidden};
        CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
    }
    if (c->has_probe) {
        struct probe *p;
        struct probe_result r;
        if (CHECK_MSG(probe_open(&p, engine_weights(m), m, &e) == 0, "%s: %s", c->model, e.msg)) {
            CHECK(probe_layer(p) == 7);
            CHECK_MSG(probe_score(p, rows, n, &r, &e) == 0, "%s", e.msg);
            const double off = fabs(r.confidence - json_get(want, "confidence")->valuedouble);
            CHECK_MSG(off < 1e-5, "%s, prompt %d: confidence is off by %g", c->model, k, off);
            probe_close(p);
        }
    }
    free(logits);
    free(rows);
}

static inline void models_prompt(struct engine *m, const struct golden *g, const cJSON *want,
                                 const struct model_case *c, int k)
{
    const struct model_info *info = engine_info(m);
    const cJSON *prompt = json_get(want, "prompt");
    const int n = cJSON_GetArraySize(prompt), vocab = info->vocab_size, hidden = info->hidden_size;
    char key[64];
    struct err e = {0};
    snprintf(key, sizeof key, "prompt%d.logits", k);
    struct golden_tensor logits = golden_get(g, key);
    snprintf(key, sizeof key, "prompt%d.argmax", k);
    struct golden_tensor argmax = golden_get(g, key);
    snprintf(key, sizeof key, "prompt%d.hidden_layer7", k);
    struct golden_tensor tapped = golden_get(g, key);
    if (CHECK_MSG(n > 0 && logits.n == vocab && argmax.n == n && tapped.n == n * hidden, "%s: prompt %d",
                  c->expected, k)) {
        int32_t *ids = NEW(int32_t, n);
        float *got = NEW(float, n * vocab), *tap = NEW(float, n * hidden);
        for (int i = 0; i < n; i++)
            ids[i] = (int32_t)cJSON_GetArrayItem(prompt, i)->valuedouble;
        struct seq *s = seq_new(m);
        struct step_input in = {.seq = s, .ids = ids, .n = n, .n_needed = n, .logits = got, .tap_layer = 7, .tap = tap};
        CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
        const float *last = got + (n - 1) * vocab;
        const double off = models_worst(last, logits.f32, vocab), tap_off = models_worst(tap, tapped.f32, tapped.n);
        CHECK_MSG(off < c->tolerance, "%s, prompt %d: logits are off by %g", c->model, k, off);
        CHECK_MSG(tap_off < c->tolerance, "%s, prompt %d: rows of layer 7 are off by %g", c->model, k, tap_off);
        for (int i = 0; i < n; i++)
            CHECK_MSG(models_margin(got + i * vocab, vocab) <= 0.01 ||
                      models_best(got + i * vocab, vocab) == argmax.i32[i], "%s, prompt %d: position %d", c->model, k,
                      i);
        models_greedy(m, s, last, want, c, k);
        seq_free(s);
        free(ids);
        free(got);
        free(tap);
    }
    free(logits.data);
    free(argmax.data);
    free(tapped.data);
}

/* Logits, tap, greedy tokens and confidence of every prompt. */
static inline void models_logits(const struct model_case *c)
{
    struct engine *m = NULL;
    struct golden g;
    struct err e = {0};
    char *path = path_join(c->expected, "logits.safetensors");
    cJSON *json = models_json(c->expected, "logits.json");
    int k = 0;
    if (CHECK_MSG(engine_open(&m, c->model, NULL, &e) == 0, "%s", e.msg) && CHECK(golden_open(&g, path) == 0)) {
        for (const cJSON *want = json ? json->child : NULL; want; want = want->next)
            models_prompt(m, &g, want, c, k++);
        CHECK_MSG(k == 3, "%s: %d prompts", c->model, k);
        CHECK(!c->has_probe == !probe_in(engine_weights(m)));
        golden_close(&g);
    }
    engine_close(m);
    cJSON_Delete(json);
    free(path);
}

/* The soft tokens of a picture or sound of ../shared/model/media against a golden of the unquantised model; returns how
 * far off they are. */
static inline double models_soft_tokens(struct engine *m, const char *file, const char *golden)
{
    const bool sound = strstr(file, ".wav") != NULL;
    char path[256];
    struct text bytes = {0};
    struct golden g;
    struct err e = {0}, err = {0};
    struct media_tokens got = {0};
    double off = INFINITY;
    snprintf(path, sizeof path, "../shared/model/media/%s", file);
    CHECK_MSG(file_read(path, 1 << 26, &bytes, &e) == 0, "%s", e.msg);
    const struct media media = {.kind = sound ? MEDIA_AUDIO : MEDIA_IMAGE, .bytes = bytes.data, .n_bytes = bytes.len,
                                .name = path};
    CHECK_MSG(engine_encode(m, &media, 1, &got, &err) == 0, "%s", err.msg);
    snprintf(path, sizeof path, GOLDENS "%s.safetensors", golden);
    if (CHECK(golden_open(&g, path) == 0)) {
        struct golden_tensor want = golden_get(&g, sound ? "audio_0.soft" : "image_0.soft");
        if (CHECK_MSG(got.soft && want.n == (int64_t)got.n_tokens * engine_info(m)->hidden_size, "%s: %d tokens", file,
                      got.n_tokens))
            off = models_worst(got.soft, want.f32, want.n);
        free(want.data);
        golden_close(&g);
    }
    media_tokens_free(&got);
    text_free(&bytes);
    return off;
}

/* Shape, sum, norm and samples of one tensor. `relative` bounds the error of a value by the largest one around it. */
static inline void models_tensor(const struct tensor *t, const cJSON *want, double relative)
{
    const cJSON *shape = json_get(want, "shape"), *pair;
    const int64_t n = tensor_elements(t);
    double sum = 0, squares = 0, largest = 0;
    CHECK_MSG(cJSON_GetArraySize(shape) == t->n_dims, "%s: rank %d", t->name, t->n_dims);
    for (int i = 0; i < t->n_dims && i < cJSON_GetArraySize(shape); i++)
        CHECK_MSG((double)t->dim[i] == cJSON_GetArrayItem(shape, i)->valuedouble, "%s: dimension %d", t->name, i);
    float *v = NEW(float, n);
    tensor_read_f32(t, 0, n, v);
    for (int64_t i = 0; i < n; i++) {
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
        largest = fmax(largest, fabs((double)v[i]));
    }
    CHECK_MSG(fabs(sum - json_get(want, "sum")->valuedouble) <= 1e-9 + relative * largest * sqrt((double)n) * 4,
              "%s: the sum is %.17g", t->name, sum);
    CHECK_MSG(fabs(sqrt(squares) - json_get(want, "l2")->valuedouble) <= 1e-9 + 1e-6 * sqrt(squares),
              "%s: the norm is %.17g", t->name, sqrt(squares));
    cJSON_ArrayForEach(pair, json_get(want, "samples")) {
        const int64_t i = (int64_t)pair->child->valuedouble;
        CHECK_MSG(i < n && fabs((double)v[i] - pair->child->next->valuedouble) <= relative * largest,
                  "%s: element %lld is %.9g, not %.9g", t->name, (long long)i, (double)v[i],
                  pair->child->next->valuedouble);
    }
    free(v);
}

#endif
