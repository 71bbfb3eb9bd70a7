/* Opens any bytes as a GGUF file and reads every tensor that comes out of it. */
#include "engine/gguf.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct arena a = {0};
    struct tensor_list list = {0};
    struct err e = {0};
    const struct mapped file = {data, n, (char *)(uintptr_t)"input"};
    float values[300];
    if (gguf_is(&file) && gguf_tensors(&file, &a, &list, &e) == 0)
        for (size_t i = 0; i < list.n; i++) {
            const int64_t all = tensor_elements(&list.t[i]), take = all < 300 ? all : 300;
            tensor_read_f32(&list.t[i], all - take, take, values);
        }
    free(list.t);
    arena_free(&a);
    return 0;
}
