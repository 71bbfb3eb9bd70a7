/* Every ggml type against ggml's own conversion, bit for bit (../shared/gguf/dequant). */
#include "engine/base.h"
#include "engine/ggml_types.h"
#include "tests/test.h"

#include <stdlib.h>

#define DIR "../shared/gguf/dequant/"
enum { ELEMENTS = 8 * 512 };

static uint64_t get64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

/* Where the data of the named tensor begins. These files have two tensors, "real" and "bits", and are not hostile. */
static const uint8_t *find_tensor(const struct mapped *m, const char *name)
{
    const uint8_t *info = NULL, *end = NULL;
    for (const uint8_t *p = m->data; p + 44 < m->data + m->size; p++)
        if (get64(p) == 4 && (memcmp(p + 8, "real", 4) == 0 || memcmp(p + 8, "bits", 4) == 0) && p[12] == 2) {
            if (memcmp(p + 8, name, 4) == 0)
                info = p;
            end = p + 8 + 4 + 4 + 16 + 4 + 8;
        }
    if (!info)
        return NULL;
    size_t base = ((size_t)(end - m->data) + 31) / 32 * 32;
    return m->data + base + get64(info + 8 + 4 + 4 + 16 + 4);
}

static void check_type(const char *name, int id, const char *which)
{
    const struct ggml_type *t = ggml_type_named(name);
    struct text path = {0}, expected = {0};
    struct err e = {0};
    struct mapped m;
    if (!CHECK_MSG(t && t->id == id, "type %s", name) || !t->read_block)
        return;
    text_printf(&path, DIR "%s.gguf", name);
    if (!CHECK_MSG(!map_open(&m, path.data, &e), "%s", e.msg))
        return;
    const uint8_t *data = find_tensor(&m, which);
    text_clear(&path);
    text_printf(&path, DIR "%s.%s.f32.bin", name, which);
    CHECK_MSG(!file_read(path.data, 1 << 20, &expected, &e), "%s", e.msg);
    float *y = NEW(float, ELEMENTS);
    for (int i = 0; data && i < ELEMENTS / t->block_elements; i++)
        t->read_block(data + (size_t)i * (size_t)t->block_bytes, y + i * t->block_elements);
    CHECK_MSG(data && expected.len == ELEMENTS * sizeof *y && memcmp(y, expected.data, expected.len) == 0,
              "%s, %s: other values than ggml's", name, which);
    free(y);
    map_close(&m);
    text_free(&path);
    text_free(&expected);
}

static void all_types(void)
{
    struct err e = {0};
    if (!file_exists(DIR "manifest.json"))
        SKIP("no " DIR);
    cJSON *manifest = json_read_file(DIR "manifest.json", 1 << 20, &e);
    const cJSON *t;
    int n = 0;
    cJSON_ArrayForEach(t, json_get(manifest, "types")) {
        const char *name = json_string(t, "type");
        const struct ggml_type *type = ggml_type_named(name);
        int id = json_get(t, "type_id")->valueint;
        CHECK_MSG(type && type->block_elements == json_get(t, "block_elements")->valueint &&
                  type->block_bytes == json_get(t, "block_bytes")->valueint, "%s: block size", name);
        check_type(name, id, "real");
        check_type(name, id, "bits");
        n++;
    }
    CHECK(n == 28);
    CHECK(!ggml_type_of(4) && !ggml_type_of(9) && !ggml_type_of(15) && !ggml_type_of(31) && !ggml_type_of(99));
    cJSON_Delete(manifest);
}

int main(void)
{
    RUN(all_types);
    return test_report();
}
