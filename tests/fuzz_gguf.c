/* Opens any bytes as a GGUF file, reads every tensor that comes out of it, says what is odd about it, and makes its
 * documents: those of a decoder, whose tokenizer is used, or of a projector beside an empty configuration. */
#define _GNU_SOURCE                     /* memfd_create */
#include "engine/gguf_model.h"
#include "engine/tokenizer.h"
#include "tests/fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void use_tokenizer(const struct tokenizer *t)
{
    static const char text[] = "<bos><|turn>user\nHello, world: 3 + 4\n\n\xff\xe2\x96\x81 ab abc<turn|>";
    struct ids ids = {0};
    struct text back = {0};
    tokenize(t, text, sizeof text - 1, &ids);
    detokenize(t, ids.id, ids.n, true, &back);
    ids_free(&ids);
    text_free(&back);
}

static void read_documents(const char *path, const struct weights *w)
{
    struct mapped file;
    struct arena a = {0};
    struct gguf g;
    struct gguf_documents d;
    struct err e = {0};
    cJSON *config = cJSON_CreateObject(), *processor;
    if (map_open(&file, path, &e) == 0 && gguf_parse(&file, &a, &g, &e) == 0) {
        if (gguf_documents_read(&d, &g, w, &e) == 0) {
            struct tokenizer *t;
            if (tokenizer_read(&t, d.tokenizer, path, &e) == 0) {
                use_tokenizer(t);
                tokenizer_close(t);
            }
            gguf_documents_free(&d);
        }
        if (gguf_towers_read(config, &processor, &g, w, &e) == 0)
            cJSON_Delete(processor);
    }
    cJSON_Delete(config);
    arena_free(&a);
    map_close(&file);
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct weights *w;
    struct checkpoint_facts facts;
    struct err e = {0};
    char path[64];
    float values[300];
    const int fd = memfd_create("input", 0);
    if (fd < 0 || n < 4 || memcmp(data, "GGUF", 4) != 0 || write(fd, data, n) != (ssize_t)n) {
        close(fd);
        return 0;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (weights_open(&w, path, &e) == 0) {
        for (size_t i = 0; i < weights_count(w); i++) {
            const struct tensor *t = weights_at(w, i);
            const int64_t all = tensor_elements(t), take = all < 300 ? all : 300;
            tensor_read_f32(t, all - take, take, values);
        }
        read_documents(path, w);
        checkpoint_facts_read(&facts, path, w, true, &e);
        checkpoint_facts_free(&facts);
        weights_close(w);
    }
    close(fd);
    return 0;
}
