/* Any bytes as a .safetensors file with quantised modules: merged, renamed, every tensor read. */
#include "engine/mlx.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static void read_all(const struct tensor *t)
{
    float v[61];
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; t->type != TENSOR_OTHER && i < n; i += 61)
        tensor_read_f32(t, i, n - i < 61 ? n - i : 61, v);
    if (t->type == TENSOR_CODED) {
        struct sha256 sha;
        char hex[65];
        sha256_init(&sha);
        t->codec->hash(t, &sha);
        sha256_hex(&sha, hex);
    }
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    static const char config[] = "{\"bits\":4,\"group_size\":64,\"m\":{\"bits\":3,\"group_size\":32},\"n\":true}";
    struct arena arena = {0};
    struct tensor_list list = {0};
    struct err e = {0};
    uint8_t *copy = mem_grow(NULL, n ? n : 1, 1);       /* so that reading behind the end is seen */
    memcpy(copy, data, n);
    const struct mapped file = {.data = copy, .size = n, .path = "fuzz.safetensors"};
    cJSON *quantization = json_parse(config, strlen(config), "config", &e);
    if (safetensors_parse(&file, &arena, &list, &e) == 0) {
        qsort(list.t, list.n, sizeof *list.t, by_name);
        mlx_in(&list);
        if (mlx_take(&arena, &list, quantization, &e) == 0)
            for (size_t i = 0; i < list.n; i++)
                read_all(&list.t[i]);
        else if (e.code != EXIT_BAD_INPUT || !*e.msg)
            abort();
    }
    cJSON_Delete(quantization);
    free(list.t);
    arena_free(&arena);
    free(copy);
    return 0;
}
