/* golden.h - reads the golden tensors in ../shared/model/goldens for tests (types F32, F64, I32, U8).
 *
 *     struct golden g;
 *     if (golden_open(&g, GOLDENS "audio_short.safetensors")) SKIP("no ../shared");
 *     struct golden_tensor mel = golden_get(&g, "audio_0.mel");
 *     ... mel.f32[i * mel.dim[1] + j] ...
 *     golden_close(&g);
 */
#ifndef HANDOFF_TESTS_GOLDEN_H
#define HANDOFF_TESTS_GOLDEN_H

#include <string.h>
#include "engine/base.h"

#define GOLDENS "../shared/model/goldens/"

struct golden { struct mapped file; cJSON *header; size_t data_at; };

/* data is NULL if there is no such tensor. The data are copied, hence aligned. */
struct golden_tensor {
    int n_dims;
    int64_t dim[4], n;
    union { void *data; const float *f32; const double *f64; const int32_t *i32; const uint8_t *u8; };
};

#if defined(__GNUC__)
__attribute__((unused))
#endif
static int golden_open(struct golden *g, const char *path)
{
    *g = (struct golden){0};
    struct err e = {0};
    uint64_t n = 0;
    if (map_open(&g->file, path, &e))
        return -1;
    if (g->file.size >= 8)
        memcpy(&n, g->file.data, 8);
    if (g->file.size < 8 || n > g->file.size - 8)
        return -1;
    g->data_at = 8 + (size_t)n;
    g->header = json_parse((const char *)g->file.data + 8, (size_t)n, path, &e);
    return g->header ? 0 : -1;
}

#if defined(__GNUC__)
__attribute__((unused))
#endif
static void golden_close(struct golden *g)
{
    cJSON_Delete(g->header);
    map_close(&g->file);
    *g = (struct golden){0};
}

/* The caller frees `data`. */
#if defined(__GNUC__)
__attribute__((unused))
#endif
static struct golden_tensor golden_get(const struct golden *g, const char *name)
{
    struct golden_tensor t = {.n = 1};
    const cJSON *entry = json_get(g->header, name), *dim;
    const cJSON *offsets = json_get(entry, "data_offsets");
    if (cJSON_GetArraySize(offsets) != 2)
        return t;
    cJSON_ArrayForEach(dim, json_get(entry, "shape"))
        if (t.n_dims < 4)
            t.n *= t.dim[t.n_dims++] = (int64_t)dim->valuedouble;
    size_t begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    size_t end = (size_t)cJSON_GetArrayItem(offsets, 1)->valuedouble;
    if (begin > end || end > g->file.size - g->data_at)
        return t;
    t.data = mem_alloc(end - begin, 1);
    memcpy(t.data, g->file.data + g->data_at + begin, end - begin);
    return t;
}

#endif
