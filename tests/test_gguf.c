/* GGUF files as weights: values, partial reads, the probe of a hybrid file, and files with one thing wrong. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define DEQUANT "../shared/gguf/dequant/"
#define HYBRID "../shared/gguf/gguf-tiny-a/tiny-a-hybrid-q4_k_m.gguf"

static char scratch[] = "/tmp/handoff-gguf-XXXXXX";

static void values(void)
{
    static const char *const types[] = {"F32", "F16", "BF16", "Q4_0", "Q6_K", "IQ3_S", "TQ1_0", "Q1_0"};
    if (!file_exists(HYBRID))
        SKIP("no " DEQUANT);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct text path = {0}, expected = {0};
        struct weights *w = NULL;
        struct err e = {0};
        text_printf(&path, DEQUANT "%s.gguf", types[i]);
        if (!CHECK_MSG(weights_open(&w, path.data, &e) == 0, "%s", e.msg))
            continue;
        text_clear(&path);
        text_printf(&path, DEQUANT "%s.bits.f32.bin", types[i]);
        CHECK(file_read(path.data, 1 << 20, &expected, &e) == 0);
        const struct tensor *t = weights_find(w, "bits");
        CHECK(t && t->n_dims == 2 && t->dim[0] == 8 && t->dim[1] == 512 && strcmp(t->type_name, types[i]) == 0);
        float all[4096], part[700];
        tensor_read_f32(t, 0, 4096, all);
        CHECK_MSG(memcmp(all, expected.data, sizeof all) == 0, "%s: other values", types[i]);
        for (int first = 0; first < 3000; first += 611) {
            tensor_read_f32(t, first, 700, part);
            CHECK_MSG(memcmp(part, all + first, sizeof part) == 0, "%s: other values from %d on", types[i], first);
        }
        struct tensor rest = *t;            /* the rows behind the first three, as the decoder cuts matrices */
        rest.skip = 3 * 512;
        rest.dim[0] = 5;
        if (t->type == TENSOR_CODED) {
            tensor_read_f32(&rest, 100, 700, part);
            CHECK_MSG(memcmp(part, all + 3 * 512 + 100, sizeof part) == 0, "%s: other rows", types[i]);
        }
        weights_close(w);
        text_free(&path);
        text_free(&expected);
    }
}

/* Its probe is the one of the safetensors checkpoint, float32 in both. */
static void probe_tensors(void)
{
    static const char *const names[] = {"norm.weight", "proj.weight", "attn_query", "head.2.weight", "head.4.bias"};
    struct weights *a = NULL, *b = NULL;
    struct err e = {0};
    if (!file_exists(HYBRID))
        SKIP("no " HYBRID);
    CHECK(weights_open(&a, HYBRID, &e) == 0 && weights_open(&b, "../shared/model/tiny-a-hybrid", &e) == 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char one[64], other[64];
        snprintf(one, sizeof one, "probe.%s", names[i]);
        snprintf(other, sizeof other, "handoff_probe.%s", names[i]);
        const struct tensor *x = weights_find(a, one), *y = weights_find(b, other);
        CHECK_MSG(x && y && x->n_bytes == y->n_bytes && memcmp(x->data, y->data, x->n_bytes) == 0, "%s", names[i]);
    }
    const struct tensor *embed = weights_find(a, "model.embed_tokens.weight");
    float *all = weights_read(a, "model.embed_tokens.weight", 2, (const int64_t[]){1024, 128}, &e), row[128];
    if (CHECK_MSG(embed && all && strcmp(embed->type_name, "Q8_0") == 0, "%s", e.msg)) {
        tensor_read_f32(embed, 77 * 128, 128, row);
        CHECK(memcmp(row, all + 77 * 128, sizeof row) == 0);
    }
    free(all);
    weights_close(a);
    weights_close(b);
}

/* ---- damage ---------------------------------------------------------------------------------------------------- */

static void expect_refused(const char *data, size_t n, const char *what, const char *pattern)
{
    struct weights *w = NULL;
    struct err e = {0};
    char path[64];
    snprintf(path, sizeof path, "%s/x.gguf", scratch);
    CHECK(file_write_atomic(path, data, n, &e) == 0);
    int rc = weights_open(&w, path, &e);
    CHECK_MSG(rc == -1 && e.code == EXIT_BAD_INPUT && strstr(e.msg, path), "%s: %s", what, rc ? e.msg : "accepted");
    if (rc && pattern)
        CHECK_MSG(strstr(e.msg, pattern) != NULL, "%s: \"%s\" does not say \"%s\"", what, e.msg, pattern);
    weights_close(w);
}

static void put(struct text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_putc(t, (int)(v >> (8 * i) & 255));
}

static void put_name(struct text *t, const char *s)
{
    put(t, strlen(s), 8);
    text_puts(t, s);
}

/* A file with one u32 value and two Q4_0 tensors of 32 elements, each part of which can be given another value. */
struct recipe { uint64_t version, tensors, values, alignment, kind, name_len, dims, ne, type, offset; };
#define SOUND {3, 2, 1, 32, 4, 1, 1, 32, 2, 32}

static struct text build(struct recipe r)
{
    struct text t = {0};
    text_puts(&t, "GGUF");
    put(&t, r.version, 4), put(&t, r.tensors, 8), put(&t, r.values, 8);
    put_name(&t, "general.alignment"), put(&t, r.kind, 4), put(&t, r.alignment, 4);
    put_name(&t, "a"), put(&t, 1, 4), put(&t, 32, 8), put(&t, 2, 4), put(&t, 0, 8);
    put(&t, r.name_len, 8), text_puts(&t, "b"), put(&t, r.dims, 4), put(&t, r.ne, 8), put(&t, r.type, 4);
    put(&t, r.offset, 8);
    while (t.len % 32)
        text_putc(&t, 0);
    for (int i = 0; i < 64; i++)
        text_putc(&t, i);
    return t;
}

static void refuse(struct recipe r, const char *what, const char *pattern)
{
    struct text t = build(r);
    expect_refused(t.data, t.len, what, pattern);
    text_free(&t);
}

static void damaged(void)
{
    struct weights *w = NULL;
    struct err e = {0};
    struct text good = build((struct recipe)SOUND);
    char path[64];
    snprintf(path, sizeof path, "%s/good.gguf", scratch);
    CHECK(file_write_atomic(path, good.data, good.len, &e) == 0);
    CHECK_MSG(weights_open(&w, path, &e) == 0 && weights_count(w) == 2, "%s", e.msg);
    weights_close(w);
    for (size_t n = 4; n < good.len - 14; n++)          /* 14: behind the last tensor there is only padding */
        expect_refused(good.data, n, "cut", NULL);
    struct recipe r = SOUND;
#define WITH(field, value, pattern) do { struct recipe x = r; x.field = (value); refuse(x, #field " " #value, pattern); } while (0)
    WITH(version, 1, "version");
    WITH(tensors, 3, NULL);
    WITH(tensors, (uint64_t)1 << 63, "do not fit");
    WITH(values, (uint64_t)1 << 63, "do not fit");
    WITH(values, 2, NULL);
    WITH(kind, 13, "value type");
    WITH(kind, 9, NULL);
    WITH(alignment, 0, "power of two");
    WITH(alignment, 24, "power of two");
    WITH(name_len, (uint64_t)1 << 63, "ends inside");
    WITH(dims, 5, "dimensions");
    WITH(ne, 33, "multiple of 32");
    WITH(ne, 0, "dimension 0");
    WITH(ne, (uint64_t)1 << 63, "dimension 0");
    WITH(ne, (uint64_t)1 << 40, "larger than the file");
    WITH(type, 4, "type 4");
    WITH(type, 99, "type 99");
    WITH(offset, 33, "multiple of 32");
    WITH(offset, 0, "overlap");
    WITH(offset, ((uint64_t)1 << 63) + 32, "the file ends");
    char *first = memmem(good.data, good.len, "\1\0\0\0\0\0\0\0a", 9);
    if (CHECK(first != NULL)) {
        first[8] = 'b';
        expect_refused(good.data, good.len, "one name twice", "twice");
    }
    text_free(&good);
}

int main(void)
{
    if (!mkdtemp(scratch))
        return 1;
    RUN(values);
    RUN(probe_tensors);
    RUN(damaged);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", scratch);
    return system(command) ? 1 : test_report();
}
