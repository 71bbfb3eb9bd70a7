/* Checkpoint files: what is read is exact, and whatever is wrong with a file is said in one line. */
#define _GNU_SOURCE                     /* mkdtemp */
#include "engine/engine.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TINY "../shared/model/tiny-a"
#define SHARDED "../shared/model/tiny-a-sharded"

static char folder[] = "/tmp/handoff-weights-XXXXXX";

static void write_file(const char *name, const void *data, size_t n)
{
    struct err e = {0};
    char *path = path_join(folder, name);
    CHECK_MSG(file_write_atomic(path, data, n, &e) == 0, "%s", e.msg);
    free(path);
}

/* A safetensors file of a JSON header and n bytes of data. */
static struct text safetensors(const char *header, const void *data, size_t n)
{
    struct text t = {0};
    uint64_t length = strlen(header);
    uint8_t little[8];
    for (int i = 0; i < 8; i++)
        little[i] = (uint8_t)(length >> 8 * i);
    text_put(&t, little, 8);
    text_puts(&t, header);
    text_put(&t, data, n);
    return t;
}

/* Opens one file; the message must name the file and hold `part`. */
static void expect_refused(const char *path, const char *part)
{
    struct weights *w = NULL;
    struct err e = {0};
    CHECK_MSG(weights_open(&w, path, &e) == -1 && !w, "%s was taken (%s)", path, part);
    CHECK_MSG(e.code == EXIT_BAD_INPUT, "%s: code %d", part, e.code);
    CHECK_MSG(strstr(e.msg, part) && strstr(e.msg, path) && !strchr(e.msg, '\n'), "\"%s\" lacks \"%s\"", e.msg, part);
    weights_close(w);
}

static void expect_header_refused(const char *header, size_t n_data, const char *part)
{
    static const uint8_t zeros[256];
    struct text t = safetensors(header, zeros, n_data);
    char *path = path_join(folder, "bad.safetensors");
    write_file("bad.safetensors", t.data, t.len);
    expect_refused(path, part);
    free(path);
    text_free(&t);
}

static void values(void)
{
    /* 1, -2.5 and 3.140625 in bf16; 1, -2, the smallest subnormal, infinity in f16; one f32; an I64 */
    static const uint16_t bf16[] = {0x3f80, 0xc020, 0x4049}, f16[] = {0x3c00, 0xc000, 0x0001, 0x7c00};
    const float f32 = 0.1f;
    uint8_t data[26] = {0};
    memcpy(data, bf16, 6), memcpy(data + 6, f16, 8), memcpy(data + 14, &f32, 4);
    struct text t = safetensors("{\"__metadata__\":{\"format\":\"pt\"},"
                                "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]},"
                                "\"h\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[6,14]},"
                                "\"f\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[14,18]},"
                                "\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[18,26]},"
                                "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[18,18]}}  ", data, 26);
    write_file("good.safetensors", t.data, t.len);
    char *path = path_join(folder, "good.safetensors");
    struct weights *w;
    struct err e = {0};
    CHECK_MSG(weights_open(&w, path, &e) == 0, "%s", e.msg);
    CHECK(weights_count(w) == 5 && strcmp(weights_at(w, 0)->name, "b") == 0);
    float v[4];
    tensor_read_f32(weights_find(w, "b"), 0, 3, v);
    CHECK(v[0] == 1 && v[1] == -2.5f && v[2] == 3.140625f);
    tensor_read_f32(weights_find(w, "h"), 1, 3, v);
    CHECK(v[0] == -2 && v[1] == 0x1p-24f && isinf(v[2]));
    float *scalar = weights_read(w, "f", 0, NULL, &e);
    CHECK(scalar && *scalar == 0.1f);
    free(scalar);
    CHECK(tensor_elements(weights_find(w, "none")) == 0);
    CHECK(weights_find(w, "x") == NULL);
    CHECK(!weights_read(w, "h", 2, (int64_t[]){2, 2}, &e) && strstr(e.msg, "finite") && strstr(e.msg, "tensor h"));
    CHECK(!weights_read(w, "b", 1, (int64_t[]){4}, &e) && strstr(e.msg, "[4]") && strstr(e.msg, "[3]"));
    CHECK(!weights_read(w, "b", 2, (int64_t[]){3, 1}, &e) && strstr(e.msg, "shape"));
    CHECK(!weights_read(w, "i", 1, (int64_t[]){1}, &e) && strstr(e.msg, "I64"));
    CHECK(!weights_read(w, "gone", 1, (int64_t[]){-1}, &e) && strstr(e.msg, "missing") && strstr(e.msg, "gone"));
    float *any = weights_read(w, "b", 1, (int64_t[]){-1}, &e);
    CHECK(any != NULL);
    free(any);
    weights_close(w);
    free(path);
    text_free(&t);
}

#define ONE(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void damaged_headers(void)
{
    expect_header_refused("{\"a\":1}", 0, "tensor a");
    expect_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor a");
    expect_header_refused("{}", 0, "no tensors");
    expect_header_refused("{\"a\"", 0, "bad.safetensors");
    expect_header_refused("[1]", 0, "'{'");
    expect_header_refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    expect_header_refused(ONE("Q4", "[1]", "[0,4]"), 4, "dtype");
    expect_header_refused(ONE("F32", "[2]", "[0,4]"), 4, "shape");
    expect_header_refused(ONE("F32", "[-1]", "[0,4]"), 4, "shape");
    expect_header_refused(ONE("F32", "[1.5]", "[0,6]"), 6, "shape");
    expect_header_refused(ONE("F32", "\"1\"", "[0,4]"), 4, "shape");
    expect_header_refused(ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "dimensions");
    expect_header_refused(ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, "shape");
    expect_header_refused(ONE("F32", "[4611686018427387904,4]", "[0,0]"), 0, "shape");
    expect_header_refused(ONE("F32", "[1]", "[0,8]"), 4, "data_offsets");
    expect_header_refused(ONE("F32", "[1]", "[4,0]"), 4, "data_offsets");
    expect_header_refused(ONE("F32", "[1]", "[-4,0]"), 4, "data_offsets");
    expect_header_refused(ONE("F32", "[1]", "[0]"), 4, "data_offsets");
    expect_header_refused(ONE("F32", "[1]", "[0,1e300]"), 4, "data_offsets");
    expect_header_refused(ONE("F32", "[1]", "[4,8]"), 8, "begins at offset 4");
    expect_header_refused(ONE("F32", "[1]", "[0,4]"), 8, "belong to no tensor");
    expect_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "tensor b");
    expect_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "already");
}

static void wrong_header_lengths(void)
{
    static const uint64_t lengths[] = {0, 1, 79, 81, 1u << 20, 101u << 20, (uint64_t)1 << 40, UINT64_MAX,
                                       UINT64_MAX - 7};
    char *path = path_join(folder, "length.safetensors");
    struct text t = safetensors(ONE("F32", "[1]", "[0,4]"), "\0\0\0", 4);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int b = 0; b < 8; b++)
            t.data[b] = (char)(lengths[i] >> 8 * b);
        write_file("length.safetensors", t.data, t.len);
        expect_refused(path, "length.safetensors");
    }
    text_free(&t);
    free(path);
}

/* A whole checkpoint's file cut anywhere is refused. */
static void truncations(void)
{
    struct text all = {0};
    struct err e = {0};
    if (!path_is_dir(TINY))
        SKIP("no " TINY);
    CHECK(file_read(TINY "/model.safetensors", 1 << 30, &all, &e) == 0);
    char *path = path_join(folder, "cut.safetensors");
    uint64_t state = 7;
    for (int i = 0; i < 200; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const size_t n = (size_t)(state >> 33) % (i % 2 ? all.len : 60000);
        write_file("cut.safetensors", all.data, n);
        expect_refused(path, "cut.safetensors");
    }
    text_free(&all);
    free(path);
}

static void shards(void)
{
    struct weights *one, *many = NULL;
    struct err e = {0};
    char a[65], b[65];
    if (!path_is_dir(SHARDED))
        SKIP("no " SHARDED);
    CHECK_MSG(weights_open(&one, TINY, &e) == 0 && weights_open(&many, SHARDED, &e) == 0, "%s", e.msg);
    weights_fingerprint(one, a);
    weights_fingerprint(many, b);
    CHECK_STR(a, b);
    weights_close(one);
    weights_close(many);
}

static void hostile_indexes(void)
{
    static const char *const bad[][2] = {
        {"{}", "weight_map"}, {"{\"weight_map\":{}}", "weight_map"}, {"{\"weight_map\":[1]}", "weight_map"},
        {"{\"weight_map\":{\"a\":\"../good.safetensors\"}}", "tensor a"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "tensor a"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "tensor a"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "tensor a"}, {"{\"weight_map\":{\"a\":5}}", "tensor a"},
        {"{\"weight_map\":{\"a\":\"good.safetensors\"}}", "tensor a"}, {"{\"weight_map\"", "index.json"},
        {"{\"weight_map\":{\"b\":\"missing.safetensors\"}}", "missing.safetensors"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weights *w = NULL;
        struct err e = {0};
        write_file("model.safetensors.index.json", bad[i][0], strlen(bad[i][0]));
        CHECK_MSG(weights_open(&w, folder, &e) == -1 && !w, "%s was taken", bad[i][0]);
        CHECK_MSG(strstr(e.msg, bad[i][1]) != NULL, "\"%s\" lacks \"%s\"", e.msg, bad[i][1]);
    }
    const char *good = "{\"metadata\":{\"total_size\":26},\"weight_map\":{\"b\":\"good.safetensors\"}}";
    struct weights *w = NULL;
    struct err e = {0};
    write_file("model.safetensors.index.json", good, strlen(good));
    CHECK_MSG(weights_open(&w, folder, &e) == 0, "%s", e.msg);
    weights_close(w);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    RUN(values);
    RUN(damaged_headers);
    RUN(wrong_header_lengths);
    RUN(truncations);
    RUN(shards);
    RUN(hostile_indexes);
    static const char *const made[] = {"good.safetensors", "bad.safetensors", "length.safetensors", "cut.safetensors",
                                       "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char *path = path_join(folder, made[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
    return test_report();
}
