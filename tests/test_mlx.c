/* MLX's quantised safetensors against ../shared/formats/mlx: each way of packing, whole checkpoints, and what must not
 * load. */
#define _GNU_SOURCE                     /* mkdtemp, realpath */
#include "engine/internal.h"
#include "tests/models.h"

#include <unistd.h>

#define MLX "../shared/formats/mlx/"

static char folder[] = "/tmp/handoff-mlx-XXXXXX";
static const char *const models[] = {"tiny-a-mlx-4bit-g64-hybrid", "tiny-a-mlx-6bit-g32", "tiny-a-mlx-mixed_3_6",
                                     "tiny-a-mlx-mxfp4"};
enum { N_MODELS = sizeof models / sizeof *models };

static void write_part(const char *name, const void *data, size_t n)
{
    struct err e = {0};
    char *path = path_join(folder, name);
    CHECK_MSG(file_write_atomic(path, data, n, &e) == 0, "%s", e.msg);
    free(path);
}

static void link_part(const char *from, const char *name)
{
    char *path = path_join(folder, name), *target = realpath(from, NULL);
    unlink(path);
    CHECK(target && symlink(target, path) == 0);
    free(path);
    free(target);
}

static void clear_folder(void)
{
    static const char *const parts[] = {"model.safetensors", "config.json", "tokenizer.json", "generation_config.json"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *path = path_join(folder, parts[i]);
        unlink(path);
        free(path);
    }
}

/* ---- every way of packing ------------------------------------------------------------------------------------- */

/* Opens the cases as a checkpoint whose config.json states bits and group sizes. */
static struct weights *open_cases(const cJSON *cases)
{
    cJSON *config = cJSON_CreateObject(), *q = cJSON_AddObjectToObject(config, "quantization");
    struct text t = {0};
    struct weights *w = NULL;
    struct err e = {0};
    cJSON_AddNumberToObject(q, "bits", 4);
    cJSON_AddNumberToObject(q, "group_size", 64);
    for (const cJSON *c = cases->child; c; c = c->next) {
        cJSON *entry = cJSON_AddObjectToObject(q, json_string(c, "name"));
        cJSON_AddNumberToObject(entry, "bits", json_get(c, "bits")->valuedouble);
        cJSON_AddNumberToObject(entry, "group_size", json_get(c, "group_size")->valuedouble);
    }
    json_print(&t, config);
    write_part("config.json", t.data, t.len);
    link_part(MLX "tensors/quant_cases.safetensors", "model.safetensors");
    CHECK_MSG(weights_open(&w, folder, &e) == 0, "%s", e.msg);
    clear_folder();
    text_free(&t);
    cJSON_Delete(config);
    return w;
}

static const struct tensor *part_of(const struct weights *w, const char *name, const char *part)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return weights_find(w, full);
}

/* The products of a matrix with three rows, within 1e-4 of the largest. */
static void check_product(const struct weights *w, const char *name, const struct tensor *t)
{
    const struct tensor *x = part_of(w, name, "x"), *want = part_of(w, name, "matmul_f32");
    if (!CHECK_MSG(x && want && x->dim[1] == t->dim[1] && want->dim[1] == t->dim[0], "%s: x, matmul_f32", name))
        return;
    const int64_t n = tensor_elements(want);
    const struct compute c = {.k = kernels_find(NULL)};
    float *in = NEW(float, tensor_elements(x)), *out = NEW(float, n), *expected = NEW(float, n);
    tensor_read_f32(x, 0, tensor_elements(x), in);
    tensor_read_f32(want, 0, n, expected);
    linear(&c, t, in, (size_t)t->dim[1], (int)x->dim[0], out, (size_t)t->dim[0]);
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    CHECK_MSG(models_worst(out, expected, n) <= 1e-4 * largest, "%s: the product is off by %g of %g", name,
              models_worst(out, expected, n), largest);
    free(in);
    free(out);
    free(expected);
}

/* Bit for bit. */
static void check_case(const struct weights *w, const cJSON *c)
{
    const char *name = json_string(c, "name");
    const struct tensor *t = part_of(w, name, "weight"), *want = part_of(w, name, "dequant_f32");
    const cJSON *shape = json_get(c, "shape");
    if (!CHECK_MSG(t && want && t->type == TENSOR_CODED && t->n_dims == 2, "%s: no coded tensor", name))
        return;
    CHECK_MSG((double)t->dim[0] == shape->child->valuedouble && (double)t->dim[1] == shape->child->next->valuedouble,
              "%s: shape [%lld, %lld]", name, (long long)t->dim[0], (long long)t->dim[1]);
    const int64_t n = tensor_elements(want);
    const bool affine = strncmp(name, "affine", 6) == 0;
    float *got = NEW(float, n), *expected = NEW(float, n);
    tensor_read_f32(t, 0, n, got);
    tensor_read_f32(want, 0, n, expected);
    for (int64_t i = 0; i < n; i++)
        CHECK_MSG(got[i] == expected[i], "%s: element %lld is %.9g, not %.9g", name, (long long)i, (double)got[i],
                  (double)expected[i]);
    for (int64_t first = 0; first + 7 <= n; first += 61) {        /* pieces that begin and end inside groups */
        float piece[7];
        tensor_read_f32(t, first, 7, piece);
        CHECK_MSG(memcmp(piece, got + first, sizeof piece) == 0, "%s: the piece at %lld", name, (long long)first);
    }
    if (affine)
        check_product(w, name, t);
    free(got);
    free(expected);
}

static void every_case(void)
{
    if (!file_exists(MLX "tensors/cases.json"))
        SKIP("no " MLX);
    cJSON *cases = models_json(MLX "tensors", "cases.json");
    struct weights *w = open_cases(cases);
    int n = 0;
    for (const cJSON *c = w ? cases->child : NULL; c; c = c->next, n++)
        check_case(w, c);
    CHECK_MSG(n > 60, "%d cases", n);
    weights_close(w);
    cJSON_Delete(cases);
}

/* ---- whole checkpoints ---------------------------------------------------------------------------------------- */

static void paths_of(int i, char model[256], char expected[256])
{
    snprintf(model, 256, MLX "models/%s", models[i]);
    snprintf(expected, 256, MLX "models/%s-expected", models[i]);
}

static void logits_and_confidence(void)
{
    char model[256], expected[256];
    if (!file_exists(MLX "tensors/cases.json"))
        SKIP("no " MLX);
    for (int i = 0; i < N_MODELS; i++) {
        paths_of(i, model, expected);
        models_logits(&(struct model_case){model, expected, 1e-3, strstr(model, "hybrid") != NULL});
    }
}

/* The file's names are MLX's; ours are those of a checkpoint folder of transformers. */
static const struct tensor *find_mlx(const struct weights *w, const char *name)
{
    static const char text[] = "language_model.model.";
    char full[256];
    if (strncmp(name, text, strlen(text)) != 0)
        return weights_find(w, name);
    snprintf(full, sizeof full, "model.language_model.%s", name + strlen(text));
    return weights_find(w, full);
}

static void check_type(const struct tensor *t, const cJSON *want)
{
    char name[32];
    const char *mode = json_string(want, "mode");
    if (!cJSON_IsTrue(json_get(want, "quantized"))) {
        CHECK_MSG(t->type != TENSOR_CODED, "%s: %s", t->name, t->type_name);
        return;
    }
    snprintf(name, sizeof name, "mlx-%dbit-g%d", json_get(want, "bits")->valueint,
             json_get(want, "group_size")->valueint);
    CHECK_STR(t->type_name, strcmp(mode, "affine") == 0 ? name : mode);
}

static void check_tensors(const char *model, const char *expected)
{
    struct weights *w = NULL;
    struct golden g;
    struct err e = {0};
    cJSON *all = models_json(expected, "tensors.json");
    char *path = path_join(expected, "dequant_subset.safetensors");
    int n = 0, rows = 0;
    if (CHECK_MSG(weights_open(&w, model, &e) == 0, "%s", e.msg) && CHECK(golden_open(&g, path) == 0)) {
        for (const cJSON *want = all ? all->child : NULL; want; want = want->next, n++) {
            const char *name = json_string(want, "name");
            const struct tensor *t = find_mlx(w, name);
            if (!CHECK_MSG(t != NULL, "%s: no tensor %s", model, name))
                continue;
            check_type(t, want);
            models_tensor(t, want, 1e-6);
            struct golden_tensor part = golden_get(&g, name);
            if (part.data) {
                float *got = NEW(float, part.n);
                tensor_read_f32(t, 0, part.n, got);
                CHECK_MSG(models_worst(got, part.f32, part.n) <= 1e-6, "%s: %s: rows are off", model, name);
                free(got);
                rows++;
            }
            free(part.data);
        }
        CHECK_MSG((size_t)n == weights_count(w), "%s: %zu tensors, not %d", model, weights_count(w), n);
        CHECK_MSG(rows > 50, "%s: rows of %d tensors", model, rows);
        golden_close(&g);
    }
    weights_close(w);
    cJSON_Delete(all);
    free(path);
}

static void tensors_of_checkpoints(void)
{
    char model[256], expected[256];
    if (!file_exists(MLX "tensors/cases.json"))
        SKIP("no " MLX);
    for (int i = 0; i < N_MODELS; i++) {
        paths_of(i, model, expected);
        check_tensors(model, expected);
    }
}

/* A config.json that states other bits and groups, or none, changes nothing. */
static void shapes_win(void)
{
    static const char *const stated[] = {"{\"bits\":8,\"group_size\":32,\"mode\":\"affine\"}", "null",
                                         "{\"bits\":2,\"group_size\":128}", "\"all\""};
    char model[256], expected[256], hex[2][65];
    struct weights *w = NULL;
    struct err e = {0};
    if (!file_exists(MLX "tensors/cases.json"))
        SKIP("no " MLX);
    for (int i = 0; i < N_MODELS; i++) {
        paths_of(i, model, expected);
        char *file = path_join(model, "model.safetensors");
        link_part(file, "model.safetensors");
        for (size_t k = 0; k < sizeof stated / sizeof *stated; k++) {
            struct text t = {0};
            text_printf(&t, "{\"quantization\":%s}", stated[k]);
            write_part("config.json", t.data, t.len);
            text_free(&t);
            CHECK_MSG(weights_open(&w, folder, &e) == 0, "%s", e.msg);
            weights_fingerprint(w, hex[0]);
            weights_close(w);
            CHECK(weights_open(&w, model, &e) == 0);
            weights_fingerprint(w, hex[1]);
            weights_close(w);
            CHECK_STR(hex[0], hex[1]);
        }
        free(file);
    }
    clear_folder();
}

/* ---- files of our own ------------------------------------------------------------------------------------------ */

struct part { const char *name, *dtype, *shape; size_t n_bytes; uint8_t fill; };

/* Writes tensors whose bytes are fill, fill + 1, ... and opens them. */
static struct weights *open_parts(const struct part *parts, size_t n, const char *quantization, struct err *e)
{
    struct text header = {0}, file = {0};
    struct weights *w = NULL;
    size_t at = 0;
    text_putc(&header, '{');
    for (size_t i = 0; i < n; at += parts[i++].n_bytes)
        text_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                    parts[i].name, parts[i].dtype, parts[i].shape, at, at + parts[i].n_bytes);
    text_putc(&header, '}');
    const uint64_t len = header.len;
    text_put(&file, &len, 8);
    text_put(&file, header.data, header.len);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < parts[i].n_bytes; k++)
            text_putc(&file, (uint8_t)(parts[i].fill + k));
    write_part("model.safetensors", file.data, file.len);
    struct text config = {0};
    text_printf(&config, "{\"quantization\":%s}", quantization);
    write_part("config.json", config.data, config.len);
    weights_open(&w, folder, e);
    text_free(&header);
    text_free(&file);
    text_free(&config);
    clear_folder();
    return w;
}
#define OPEN(quantization, ...) \
    open_parts((const struct part[]){__VA_ARGS__}, sizeof((const struct part[]){__VA_ARGS__}) / sizeof(struct part), \
               quantization, &e)

#define REFUSED(want, ...) do { \
        struct err e = {0}; \
        struct weights *w = OPEN("{\"bits\":4,\"group_size\":64}", __VA_ARGS__); \
        CHECK_MSG(!w && e.code == EXIT_BAD_INPUT && strstr(e.msg, want) && strstr(e.msg, "m.") && \
                  strstr(e.msg, folder), "\"%s\" lacks \"%s\"", e.msg, want); \
        weights_close(w); \
    } while (0)

static void damaged_modules(void)
{
    REFUSED("BF16, F16, F32 or U8", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "I32", "[2,1]", 8, 0});
    REFUSED("scales for its 2 rows", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[3,1]", 6, 0});
    REFUSED("scales for its 2 rows", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2]", 4, 0});
    REFUSED("scales for its 2 rows", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2,0]", 0, 0});
    REFUSED("scales for its 2 rows", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2,3]", 12, 0});
    REFUSED("scales for its 0 rows", {"m.weight", "U32", "[0,8]", 0, 0}, {"m.scales", "BF16", "[0,1]", 0, 0});
    REFUSED("biases", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2,1]", 4, 0});
    REFUSED("biases", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2,1]", 4, 0},
            {"m.biases", "F16", "[2,1]", 4, 0});
    REFUSED("biases", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2,1]", 4, 0},
            {"m.biases", "BF16", "[2,2]", 8, 0});
    REFUSED("no affine code", {"m.weight", "U32", "[2,7]", 56, 0}, {"m.scales", "BF16", "[2,1]", 4, 0},
            {"m.biases", "BF16", "[2,1]", 4, 0});
    REFUSED("neither nvfp4", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "U8", "[2,8]", 16, 0});
    REFUSED("one F32 number", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "U8", "[2,4]", 8, 0},
            {"m.global_scale", "F16", "[]", 2, 0});
    REFUSED("48 columns", {"m.embed_tokens.weight", "U32", "[2,8]", 64, 0},
            {"m.embed_tokens.scales", "BF16", "[2,1]", 4, 0}, {"m.embed_tokens.biases", "BF16", "[2,1]", 4, 0},
            {"m.norm.weight", "BF16", "[48]", 96, 0});
}

/* Tensors of whole numbers that belong to no module, or to one of unknown width, stay what they are: no weights. */
static void raw_parts(void)
{
    struct err e = {0};
    struct weights *w = OPEN("null", {"a.weight", "U32", "[2,8]", 64, 0}, {"b.scales", "U8", "[2,4]", 8, 0});
    CHECK(w && weights_count(w) == 2 && !weights_tensor(w, "a.weight", 2, (int64_t[]){2, -1}, &e) &&
          strstr(e.msg, "U32"));
    weights_close(w);
    w = OPEN("null", {"m.weight", "U32", "[2,8]", 64, 0}, {"m.scales", "BF16", "[2,2]", 8, 0},
             {"m.biases", "BF16", "[2,2]", 8, 0});
    CHECK(w && weights_count(w) == 3 && weights_find(w, "m.weight")->type == TENSOR_OTHER);
    weights_close(w);
    w = OPEN("null", {"m.weight", "U32", "[2,3]", 24, 0}, {"m.scales", "BF16", "[2,1]", 4, 0},
             {"m.biases", "BF16", "[2,1]", 4, 0});
    CHECK(w && weights_count(w) == 1 && weights_find(w, "m.weight")->dim[1] == 32);       /* only 3 bits fit */
    weights_close(w);
}

/* Every part of a module counts in the fingerprint. */
static void fingerprints(void)
{
    struct part parts[] = {{"m.weight", "U32", "[2,3]", 24, 0}, {"m.scales", "BF16", "[2,1]", 4, 0},
                           {"m.biases", "BF16", "[2,1]", 4, 0}};
    char hex[4][65];
    struct err e = {0};
    for (int i = 0; i < 4; i++) {
        if (i < 3)
            parts[i].fill = 7;
        struct weights *w = open_parts(parts, 3, "null", &e);
        if (!CHECK_MSG(w != NULL, "%s", e.msg))
            return;
        weights_fingerprint(w, hex[i]);
        weights_close(w);
        if (i < 3)
            parts[i].fill = 0;
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            CHECK(strcmp(hex[i], hex[k]) != 0);
}

/* mlx-vlm's convolutions, channels last: element (o, c, p) of ours is (o, p, c) of the file's. */
static void layouts_of_towers(void)
{
    static const char last[] = "audio_tower.subsample_conv_projection.layer1.conv.weight";
    static const char first[] = "audio_tower.subsample_conv_projection.layer0.conv.weight";
    static const char depth[] = "audio_tower.layers.0.lconv1d.depthwise_conv1d.weight";
    struct err e = {0};
    struct weights *w = OPEN("null", {last, "BF16", "[2,3,3,5]", 180, 0}, {first, "BF16", "[2,5,3,3]", 180, 0},
                             {depth, "F16", "[4,5,1]", 40, 0}, {"vision_tower.x", "F16", "[1]", 2, 0},
                             {"language_model.model.norm.weight", "F16", "[1]", 2, 0});
    char name[128];
    float a[90], b[90];
    if (!CHECK_MSG(w != NULL, "%s", e.msg))
        return;
    snprintf(name, sizeof name, "model.%s", last);
    const struct tensor *t = weights_tensor(w, name, 4, (int64_t[]){2, 5, 3, 3}, &e);
    snprintf(name, sizeof name, "model.%s", first);
    const struct tensor *same = weights_tensor(w, name, 4, (int64_t[]){2, 5, 3, 3}, &e);
    snprintf(name, sizeof name, "model.%s", depth);
    CHECK(weights_tensor(w, name, 3, (int64_t[]){4, 1, 5}, &e) && weights_find(w, "model.vision_tower.x") &&
          weights_find(w, "model.language_model.norm.weight"));
    if (CHECK_MSG(t && same, "%s", e.msg)) {
        tensor_read_f32(t, 0, 90, a);
        tensor_read_f32(same, 0, 90, b);        /* the bytes of both are 0, 1, 2, ... */
        for (int o = 0; o < 2; o++)
            for (int c = 0; c < 5; c++)
                for (int p = 0; p < 9; p++)
                    CHECK(a[(o * 5 + c) * 9 + p] == b[(o * 9 + p) * 5 + c]);
    }
    weights_close(w);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    RUN(every_case);
    RUN(logits_and_confidence);
    RUN(tensors_of_checkpoints);
    RUN(shapes_win);
    RUN(damaged_modules);
    RUN(raw_parts);
    RUN(fingerprints);
    RUN(layouts_of_towers);
    rmdir(folder);
    return test_report();
}
