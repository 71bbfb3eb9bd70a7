/* Block quantisers against ggml's own: the same source and importances, the blocks of its files. */
#include "engine/gguf.h"
#include "engine/quantize_blocks.h"
#include "tests/test.h"

#include <stdlib.h>

#define DEQUANT "../shared/gguf/dequant/"
#define TINY "../shared/gguf/gguf-tiny-a/"
enum { ROWS = 8, COLUMNS = 512, ALL = ROWS * COLUMNS };

static const char *const names[] = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K",
                                    "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"};
enum { N_TYPES = sizeof names / sizeof *names };

static bool read_floats(const char *name, size_t n, struct text *out)
{
    struct err e = {0};
    char path[128];
    snprintf(path, sizeof path, DEQUANT "%s", name);
    return file_read(path, 1 << 20, out, &e) == 0 && out->len == 4 * n;
}

static double allowed_error(const cJSON *manifest, const char *type)
{
    const cJSON *t;
    cJSON_ArrayForEach(t, json_get(manifest, "types"))
        if (strcmp(json_string(t, "type"), type) == 0)
            return json_get(t, "rel_rmse_real")->valuedouble * 1.02;
    return -1;
}

static double relative_error(const struct ggml_type *type, const uint8_t *blocks, const float *x, int64_t n)
{
    double difference = 0, square = 0;
    float y[256];
    const int size = type->block_elements;
    for (int64_t i = 0; i < n; i += size, blocks += type->block_bytes) {
        type->read_block(blocks, y);
        for (int k = 0; k < size; k++) {
            difference += ((double)y[k] - x[i + k]) * ((double)y[k] - x[i + k]);
            square += (double)x[i + k] * x[i + k];
        }
    }
    return sqrt(difference / square);
}

static void golden_blocks(void)
{
    struct text source = {0}, importance = {0};
    struct err e = {0};
    if (!path_is_dir(DEQUANT))
        SKIP("no " DEQUANT);
    cJSON *manifest = json_read_file(DEQUANT "manifest.json", 1 << 20, &e);
    CHECK(manifest && read_floats("source.f32.bin", ALL, &source) &&
          read_floats("imatrix.f32.bin", COLUMNS, &importance));
    for (int i = 0; i < N_TYPES; i++) {
        const struct ggml_type *type = ggml_type_named(names[i]);
        struct weights *w = NULL;
        char path[128];
        snprintf(path, sizeof path, DEQUANT "%s.gguf", names[i]);
        if (!CHECK_MSG(weights_open(&w, path, &e) == 0, "%s", e.msg))
            continue;
        const struct tensor *t = weights_find(w, "real");
        const size_t block = (size_t)type->block_bytes, row = (size_t)(COLUMNS / type->block_elements) * block;
        uint8_t *out = NEW(uint8_t, ROWS * row);
        const float *x = (const float *)source.data;
        int other = 0;
        for (int r = 0; r < ROWS; r++)
            quantize_row(type, x + r * COLUMNS, COLUMNS, (const float *)importance.data, out + (size_t)r * row);
        for (size_t b = 0; b < ROWS * row; b += block)
            other += memcmp(out + b, (const uint8_t *)t->data + b, block) != 0;
        if (type->read_block) {
            const double error = relative_error(type, out, x, ALL), allowed = allowed_error(manifest, names[i]);
            CHECK_MSG(error <= allowed, "%s: error %g, allowed %g", names[i], error, allowed);
        }
        CHECK_MSG(other == 0, "%s: %d of %zu blocks differ", names[i], other, ROWS * row / block);
        free(out);
        weights_close(w);
    }
    cJSON_Delete(manifest);
    text_free(&source);
    text_free(&importance);
}

/* The peer quantised the bf16 file without importances: every quantised tensor of its files, block by block. */
static void peer_files(void)
{
    static const char *const files[] = {"q8_0", "q4_0", "q4_k_m"};
    struct weights *from = NULL;
    struct err e = {0};
    if (!path_is_dir(TINY))
        SKIP("no " TINY);
    CHECK_MSG(weights_open(&from, TINY "tiny-a-hybrid-bf16.gguf", &e) == 0, "%s", e.msg);
    for (int f = 0; f < 3; f++) {
        struct weights *w = NULL;
        char path[128];
        int compared = 0;
        snprintf(path, sizeof path, TINY "tiny-a-hybrid-%s.gguf", files[f]);
        CHECK_MSG(weights_open(&w, path, &e) == 0, "%s", e.msg);
        for (size_t i = 0; i < weights_count(w); i++) {
            const struct tensor *t = weights_at(w, i), *s = weights_find(from, t->name);
            if (t->type != TENSOR_CODED || !s)
                continue;
            const int64_t n = tensor_elements(t), columns = t->dim[t->n_dims - 1];
            const size_t row = t->n_bytes / (size_t)(n / columns);
            uint8_t *out = NEW(uint8_t, t->n_bytes);
            float *x = NEW(float, columns);
            for (int64_t r = 0; r < n / columns; r++) {
                tensor_read_f32(s, r * columns, columns, x);
                quantize_row(gguf_stored_type(t), x, columns, NULL, out + (size_t)r * row);
            }
            CHECK_MSG(memcmp(out, t->data, t->n_bytes) == 0, "%s: %s (%s) differs", files[f], t->name, t->type_name);
            compared++;
            free(out);
            free(x);
        }
        CHECK_MSG(compared > 10, "%s: %d tensors compared", files[f], compared);
        weights_close(w);
    }
    weights_close(from);
}

int main(void)
{
    RUN(golden_blocks);
    RUN(peer_files);
    return test_report();
}
