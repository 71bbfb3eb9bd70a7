/* Any bytes as a tensor file, a probe file or an archive of Cactus, by their magic: everything in it read. */
#define _GNU_SOURCE                     /* memfd_create */
#include "engine/cq.h"
#include "engine/tokenizer.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_READ = 1 << 14 };

static void read_tensor(const struct tensor *t)
{
    const int64_t n = tensor_elements(t), row = t->n_dims ? n / t->dim[0] : 1;
    float v[61];
    if (n < 1 || t->type == TENSOR_OTHER)
        abort();
    for (int64_t i = 0; i < n && i < MAX_READ; i += 61)
        tensor_read_f32(t, i, n - i < 61 ? n - i : 61, v);
    tensor_read_f32(t, n - 1, 1, v);
    if (t->type != TENSOR_CODED || !t->codec->turn || row > MAX_READ)
        return;
    const int64_t width = t->codec->turned_width(t);
    float *x = NEW(float, row), *out = NEW(float, width);
    t->codec->turn(t, x, out);
    t->codec->read_turned(t, t->dim[0] - 1, 1, out);
    free(x);
    free(out);
}

static void read_file(const struct mapped *file, struct arena *a, struct err *e)
{
    const struct cq_shape shapes[] = {{.n_dims = -1, .scale = 1}, {.n_dims = 2, .dim = {8, 100}, .scale = 16},
                                      {.n_dims = 1, .dim = {7}, .scale = 0.0625}, {.n_dims = 0, .scale = 1}};
    struct tensor t;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (cq_tensor(a, file, "t", &shapes[i], &t, e) == 0)
            read_tensor(&t);
        else if (e->code != EXIT_BAD_INPUT || !*e->msg)
            abort();
    }
}

static void read_vocabulary(const struct document *d, struct err *e)
{
    struct tokenizer *t;
    struct ids ids = {0};
    if (tokenizer_read(&t, d->json, d->where, e) == 0)
        tokenize(t, "ab\n\n c", 7, &ids);
    tokenizer_close(t);
    ids_free(&ids);
}

/* Archives are opened by path. */
static void read_archive(const uint8_t *data, size_t n, struct arena *a, struct err *e)
{
    struct bundle *b;
    struct tensor_list list = {0};
    char path[64];
    const int fd = memfd_create("bundle", 0);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (bundle_open(&b, path, e) == 0) {
        struct document d = {0};
        for (size_t i = 0; i < bundle_count(b); i++)
            bundle_file(b, bundle_name(b, i), e);
        if (cq_bundle_tokenizer(&d, b, e) == 0)
            read_vocabulary(&d, e);
        cJSON_Delete(d.json);
        free(d.where);
        if (cq_bundle_tensors(a, b, &list, e) == 0)
            for (size_t i = 0; i < list.n; i++)
                read_tensor(&list.t[i]);
        bundle_close(b);
    }
    free(list.t);
    close(fd);
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct arena arena = {0};
    struct tensor_list list = {0};
    struct err e = {0};
    uint8_t *copy = mem_grow(NULL, n ? n : 1, 1);       /* so that reading behind the end is seen */
    memcpy(copy, data, n);
    const struct mapped file = {.data = copy, .size = n, .path = "fuzz"};
    if (cq_is_probe(&file)) {
        if (cq_probe_tensors(&arena, &file, &list, &e) == 0)
            for (size_t i = 0; i < list.n; i++)
                read_tensor(&list.t[i]);
        free(list.t);
    } else if (bundle_is_archive(&file)) {
        read_archive(data, n, &arena, &e);
    } else {
        read_file(&file, &arena, &e);
    }
    arena_free(&arena);
    free(copy);
    return 0;
}
