/* Any bytes as a .safetensors file: opened, every tensor read. */
#include "engine/internal.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void read_all(const struct tensor *t)
{
    float v[64];
    const int64_t n = tensor_elements(t);
    if (t->type == TENSOR_OTHER)
        return;
    tensor_finite(t, 0, n);
    for (int64_t i = 0; i < n; i += 64)
        tensor_read_f32(t, i, n - i < 64 ? n - i : 64, v);
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct arena arena = {0};
    struct tensor_list list = {0};
    struct err e = {0};
    uint8_t *copy = mem_alloc(n + 1, 1);            /* so that reading behind the end is seen */
    copy = mem_grow(copy, n ? n : 1, 1);
    memcpy(copy, data, n);
    const struct mapped file = {.data = copy, .size = n, .path = "fuzz.safetensors"};
    if (safetensors_parse(&file, &arena, &list, &e) == 0)
        for (size_t i = 0; i < list.n; i++)
            read_all(&list.t[i]);
    else if (!e.code || !*e.msg)
        abort();
    free(list.t);
    arena_free(&arena);
    free(copy);
    return 0;
}
