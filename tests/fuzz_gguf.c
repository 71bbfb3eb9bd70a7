/* Opens any bytes as a GGUF file, reads every tensor that comes out of it, and makes its documents. */
#include "engine/gguf_model.h"
#include "engine/tokenizer.h"
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
    struct gguf g;
    struct gguf_documents d;
    if (gguf_is(&file) && gguf_parse(&file, &a, &g, &e) == 0 && gguf_documents_read(&d, &g, &e) == 0) {
        struct tokenizer *t;
        if (tokenizer_read(&t, d.tokenizer, "input", &e) == 0)
            tokenizer_close(t);
        gguf_documents_free(&d);
    }
    free(list.t);
    arena_free(&a);
    return 0;
}
