/* Cactus Quants against ../shared/formats/cq: every tensor file, whole bundles, probe files, and what must not load. */
#define _GNU_SOURCE                     /* mkdtemp, realpath */
#include "engine/cq.h"
#include "tests/models.h"

#include <dirent.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#define CQ "../shared/formats/cq/"
#define CQ4 CQ "bundles/tiny-a-cq4"

static char folder[] = "/tmp/handoff-cq-XXXXXX";

/* ---- tensor files ---------------------------------------------------------------------------------------------- */

static const struct cq_shape stored = {.n_dims = -1, .scale = 1};

/* The values within 2e-7 of the norm of their group (128 columns, or a row with an orthogonal rotation, and before the
 * input scale [columns] is divided out; FP16, INT8 and INT4 exactly), in one piece and in pieces. */
static void check_values(const char *name, const struct tensor *t, const struct golden_tensor *want,
                         const float *scale, bool codes)
{
    const int64_t n = tensor_elements(t), width = !codes ? 1 : strstr(name, "orth") ? t->dim[1] : 128;
    float *got = NEW(float, n);
    if (CHECK_MSG(want->data && want->n == n, "%s: %lld numbers", name, (long long)n)) {
        tensor_read_f32(t, 0, n, got);
        for (int64_t i = 0; i < n; i++) {
            const int64_t group = i / width * width;
            double squares = 0;
            for (int64_t k = group; codes && k < group + width; k++)
                squares += pow((double)want->f32[k] * (scale ? (double)scale[k % t->dim[1]] : 1), 2);
            const double off = fabs((double)got[i] - (double)want->f32[i]);
            const double allowed = 2e-7 * sqrt(squares) / (scale ? (double)scale[i % t->dim[1]] : 1);
            CHECK_MSG(off <= (codes ? allowed : 0), "%s: element %lld is %.9g, not %.9g", name, (long long)i,
                      (double)got[i], (double)want->f32[i]);
        }
        for (int64_t first = 0; first + 7 <= n; first += 61) {
            float piece[7];
            tensor_read_f32(t, first, 7, piece);
            CHECK_MSG(memcmp(piece, got + first, sizeof piece) == 0, "%s: the piece at %lld", name, (long long)first);
        }
    }
    free(got);
}

/* Two rows of activations through linear(), which works in code space, against the expected weights. */
static void check_product(const char *name, const struct tensor *t, const struct golden_tensor *want)
{
    const int64_t rows = t->dim[0], width = t->dim[1];
    const struct compute c = {.k = kernels_find(NULL)};
    float *x = NEW(float, 2 * width), *y = NEW(float, 2 * rows);
    for (int64_t i = 0; i < 2 * width; i++)
        x[i] = (float)((i * 37 + 11) % 41 - 20) / 8;
    linear(&c, t, x, (size_t)width, 2, y, (size_t)rows);
    for (int64_t m = 0; m < 2 && want->n == rows * width; m++)
        for (int64_t n = 0; n < rows; n++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < width; k++) {
                const double p = (double)x[m * width + k] * (double)want->f32[n * width + k];
                sum += p;
                size += fabs(p);
            }
            CHECK_MSG(fabs((double)y[m * rows + n] - sum) <= 2e-6 * size + 1e-12, "%s: product [%lld, %lld]", name,
                      (long long)m, (long long)n);
        }
    free(x);
    free(y);
}

static void check_file(const cJSON *c, struct arena *a)
{
    const char *name = json_string(c, "name");
    char path[256];
    struct mapped file = {0};
    struct golden g;
    struct tensor t;
    struct err e = {0};
    snprintf(path, sizeof path, CQ "tensors/%s/%s", name, json_string(c, "file"));
    if (!CHECK_MSG(map_open(&file, path, &e) == 0, "%s", e.msg))
        return;
    snprintf(path, sizeof path, CQ "tensors/%s/expected.safetensors", name);
    if (CHECK_MSG(cq_tensor(a, &file, name, &stored, &t, &e) == 0, "%s", e.msg) && CHECK(golden_open(&g, path) == 0)) {
        struct golden_tensor want = golden_get(&g, "dequant"), scale = golden_get(&g, "input_scale_f32");
        const bool codes = strncmp(t.type_name, "CQ", 2) == 0;
        check_values(name, &t, &want, scale.f32, codes);
        if (codes)
            check_product(name, &t, &want);
        free(want.data);
        free(scale.data);
        golden_close(&g);
    }
    map_close(&file);
}

static void every_file(void)
{
    struct arena a = {0};
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    cJSON *cases = models_json(CQ "tensors", "cases.json");
    int n = 0;
    for (const cJSON *c = cases ? cases->child : NULL; c; c = c->next, n++)
        check_file(c, &a);
    CHECK_MSG(n == 46, "%d cases", n);
    cJSON_Delete(cases);
    arena_free(&a);
}

/* A lone file has the name of the file, and its stored values. */
static void lone_file(void)
{
    struct weights *w = NULL;
    struct err e = {0};
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    CHECK_MSG(weights_open(&w, CQ "tensors/cq3_padk_20x200/layer_2_ffn_down.weights", &e) == 0, "%s", e.msg);
    const struct tensor *t = w ? weights_find(w, "layer_2_ffn_down") : NULL;
    CHECK(t && t->dim[0] == 20 && t->dim[1] == 256 && strcmp(t->type_name, "CQ3") == 0);
    weights_close(w);
}

/* Padding is cut off where the shape is known; values are divided by the scale. */
static void shapes_and_scales(void)
{
    static const struct { const char *path; struct cq_shape shape; bool ok; } cases[] = {
        {"cq3_padk_20x200/layer_2_ffn_down.weights", {2, {20, 200}, 16}, true},
        {"cq3_padk_20x200/layer_2_ffn_down.weights", {2, {20, 257}, 1}, false},
        {"cq3_padk_20x200/layer_2_ffn_down.weights", {2, {19, 200}, 1}, false},
        {"cq3_padk_20x200/layer_2_ffn_down.weights", {1, {200}, 1}, false},
        {"int8_2d_il_10x70/w.weights", {2, {10, 70}, 2}, true},
        {"int8_1d_70/b.bias", {1, {70}, 4}, true},
        {"int4_2d_il_9x64/w.weights", {2, {9, 64}, 1}, true},
        {"fp16_1d_256/layer_0_input_norm.weights", {1, {256}, 0.0625}, true},
        {"fp16_scalar_1/layer_0_layer_scalar.weights", {0, {0}, 1}, true},
        {"fp16_2d_5x33/layer_0_router_proj.weights", {2, {5, 32}, 1}, false},
        {"fp16_1d_256/layer_0_input_norm.weights", {1, {257}, 1}, false}};
    struct arena a = {0};
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        struct mapped file;
        struct tensor all, t;
        struct err e = {0};
        snprintf(path, sizeof path, CQ "tensors/%s", cases[i].path);
        CHECK(map_open(&file, path, &e) == 0 && cq_tensor(&a, &file, "t", &stored, &all, &e) == 0);
        const bool ok = cq_tensor(&a, &file, "t", &cases[i].shape, &t, &e) == 0;
        CHECK_MSG(ok == cases[i].ok && (ok || strstr(e.msg, cases[i].path)), "%s: %s", cases[i].path, e.msg);
        for (int64_t k = 0; ok && k < tensor_elements(&t); k += 7) {
            const int64_t row = t.n_dims == 2 ? k / t.dim[1] : 0, column = t.n_dims == 2 ? k % t.dim[1] : k;
            float part, whole;
            tensor_read_f32(&t, k, 1, &part);
            tensor_read_f32(&all, row * (all.n_dims == 2 ? all.dim[1] : 0) + column, 1, &whole);
            CHECK_MSG(part == whole / (float)cases[i].shape.scale, "%s: element %lld", cases[i].path, (long long)k);
        }
        map_close(&file);
    }
    arena_free(&a);
}

/* ---- damaged files --------------------------------------------------------------------------------------------- */

struct damage { size_t at; int n; uint64_t value; const char *want; };

static void check_damage(const char *path, const struct damage *d, size_t n)
{
    struct text content = {0};
    struct arena a = {0};
    struct err e = {0};
    struct tensor t;
    CHECK_MSG(file_read(path, 1 << 20, &content, &e) == 0, "%s", e.msg);
    for (size_t i = 0; i < n && content.len; i++) {
        uint8_t *bytes = mem_alloc(content.len, 1);
        memcpy(bytes, content.data, content.len);
        memcpy(bytes + d[i].at, &d[i].value, (size_t)d[i].n);
        const struct mapped file = {.data = bytes, .size = content.len, .path = "damaged.weights"};
        e = (struct err){0};
        CHECK_MSG(cq_tensor(&a, &file, "t", &stored, &t, &e) && e.code == EXIT_BAD_INPUT && strstr(e.msg, d[i].want) &&
                  strstr(e.msg, "damaged.weights"), "%zu at %zu: \"%s\" lacks \"%s\"", i, d[i].at, e.msg, d[i].want);
        free(bytes);
    }
    for (size_t size = 0; size < content.len; size += size < 200 ? 1 : 97) {
        const struct mapped file = {.data = (const uint8_t *)content.data, .size = size, .path = "cut.weights"};
        CHECK_MSG(cq_tensor(&a, &file, "t", &stored, &t, &e), "%zu bytes were taken", size);
    }
    text_free(&content);
    arena_free(&a);
}

static void damaged_files(void)
{
    static const struct damage codes[] = {
        {0, 1, 'X', "CACT"}, {4, 4, 5, "known layout"}, {4, 4, 8, "known layout"}, {4, 4, 6, "at 4 bits"},
        {4, 4, 36, "known layout"}, {8, 4, 24, "alignment"}, {8, 4, 1u << 31, "alignment"}, {8, 4, 4096, "whole"},
        {12, 4, 0, "dimensions"}, {12, 4, 5, "dimensions"}, {12, 4, 3, "dimension 2"}, {16, 8, 0, "dimension 0"},
        {16, 8, UINT64_C(1) << 63, "dimension 0"}, {16, 8, 60, "for its shape"}, {16, 8, 62, "blocks of four"},
        {24, 8, UINT64_C(1) << 62, "dimension 1"}, {24, 8, 128, "rows are"}, {32, 8, 1, "dimension 2"},
        {48, 4, 7, "precision"}, {48, 4, 3, "expected for its shape"}, {48, 4, 1, "expected for its shape"},
        {52, 8, UINT64_MAX, "whole"}, {52, 8, 8191, "whole"}, {60, 8, UINT64_MAX - 50, "whole"},
        {68, 4, 64, "rows are"},
        {68, 4, 0, "rows are"}, {72, 4, 1, "rows are"}, {96, 2, 0x7c00, "finite"}, {96 + 32, 2, 0, "above 0"},
        {96 + 32, 2, 0xbc00, "above 0"}, {96 + 32, 2, 0x7e00, "finite"}, {96 + 32 + 1024, 2, 0xfc00, "finite"},
        {96 + 32 + 1024 + 256, 1, 0, "sign 0"}, {96 + 32 + 1024 + 256 + 255, 1, 2, "sign 127"},
        {96 + 32 + 1024 + 256 + 256, 4, 128, "permutation"}, {96 + 32 + 1024 + 256 + 256 + 508, 4, 0, "permutation"}};
    static const struct damage orthogonal[] = {{4, 4, 4, "128"}, {48, 4, 5, "4 bits"}, {72, 4, 2, "rows are"},
                                               {96 + 32 + 256 + 128 + 1000, 2, 0x7c01, "rotation"}};
    static const struct damage integers[] = {{4, 4, 8, "scales"}, {4, 4, 1, "blocks of four"},
                                             {68, 4, 0, "scales"}, {68, 4, 5, "scales"}, {76, 8, 0, "blocks of four"},
                                             {76, 8, 13, "blocks of four"}, {16, 8, 8, "expected"},
                                             {76, 8, 8, "blocks of four"}};
    static const struct damage panels[] = {{4, 4, 36, "known layout"}, {16, 8, 129, "expected for its shape"},
                                           {48, 4, 5, "known layout"}};
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    check_damage(CQ "tensors/cq4_64x256/layer_0_ffn_down.weights", codes, sizeof codes / sizeof *codes);
    check_damage(CQ "tensors/orth_64x64_interleaved/token_embeddings.weights", orthogonal,
                 sizeof orthogonal / sizeof *orthogonal);
    check_damage(CQ "tensors/int8_2d_il_10x70/w.weights", integers, sizeof integers / sizeof *integers);
    check_damage(CQ "tensors/panel_cq4_100x128/layer_0_attn_o.cq4p.weights", panels, sizeof panels / sizeof *panels);
}

/* ---- bundles --------------------------------------------------------------------------------------------------- */

static const struct { const char *path, *expected; } bundles[] = {
    {CQ4, CQ4 "-expected"}, {CQ "bundles/tiny-a-cq3.zip", CQ "bundles/tiny-a-cq3-expected"},
    {CQ "bundles/tiny-a-cq2.zip", CQ "bundles/tiny-a-cq2-expected"}};

static void logits_and_confidence(void)
{
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    for (int i = 0; i < 3; i++)
        models_logits(&(struct model_case){bundles[i].path, bundles[i].expected, 2e-3, true});
}

/* Towers are kept in float16, which holds all but the smallest of their bf16 weights. */
static void media(void)
{
    static const char *const cases[][2] = {{"gray.png", "image_gray"}, {"photo.jpg", "image_jpeg"},
                                           {"wide.png", "image_wide"}, {"short.wav", "audio_short"},
                                           {"speech.wav", "audio_speech"}};
    struct engine *m = NULL;
    struct err e = {0};
    if (!file_exists(CQ "tensors/cases.json") || !path_is_dir(GOLDENS))
        SKIP("no " CQ);
    if (CHECK_MSG(engine_open(&m, CQ4, NULL, &e) == 0, "%s", e.msg))
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const double off = models_soft_tokens(m, cases[i][0], cases[i][1]);
            CHECK_MSG(off <= 1e-4, "%s: soft tokens off by %g", cases[i][0], off);
                    }
    engine_close(m);
}

static void tensors_of_bundles(void)
{
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    for (int i = 0; i < 3; i++) {
        struct weights *w = NULL;
        struct err e = {0};
        struct golden g;
        char *path = path_join(bundles[i].expected, "dequant_subset.safetensors");
        cJSON *all = models_json(bundles[i].expected, "tensors.json");
        int n = 0, rows = 0;
        if (CHECK_MSG(weights_open(&w, bundles[i].path, &e) == 0, "%s", e.msg) && CHECK(golden_open(&g, path) == 0)) {
            for (const cJSON *want = all ? all->child : NULL; want; want = want->next, n++) {
                const char *name = json_string(want, "hf_name");
                const struct tensor *t = weights_find(w, name);
                if (!CHECK_MSG(t != NULL, "%s: no tensor %s", bundles[i].path, name))
                    continue;
                CHECK_STR(t->type_name, strcmp(json_string(want, "precision"), "FP16") == 0
                                        ? "F16" : json_string(want, "precision"));
                models_tensor(t, want, 1e-6);
                struct golden_tensor part = golden_get(&g, name);
                if (part.data) {
                    float *got = NEW(float, part.n);
                    tensor_read_f32(t, 0, part.n, got);
                    CHECK_MSG(models_worst(got, part.f32, part.n) <= 2e-6, "%s: rows are off by %g", name,
                              models_worst(got, part.f32, part.n));
                    free(got);
                    rows++;
                }
                free(part.data);
            }
            CHECK_MSG(n > 400 && rows > 50, "%s: %d tensors, rows of %d", bundles[i].path, n, rows);
            golden_close(&g);
        }
        weights_close(w);
        cJSON_Delete(all);
        free(path);
    }
}

/* ---- the same bundle in other forms ---------------------------------------------------------------------------- */

static void clear_folder(void)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char *path = path_join(folder, entry->d_name);
        unlink(path);
        free(path);
    }
    if (dir)
        closedir(dir);
}

/* Links all files of the bundle into the folder, but those named. */
static void link_bundle(const char *const *without)
{
    DIR *dir = opendir(CQ4);
    clear_folder();
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        bool left_out = entry->d_name[0] == '.';
        for (const char *const *name = without; *name; name++)
            left_out |= strcmp(entry->d_name, *name) == 0;
        char *from = path_join(CQ4, entry->d_name), *to = path_join(folder, entry->d_name);
        char *target = left_out ? NULL : realpath(from, NULL);
        CHECK(left_out || (target && symlink(target, to) == 0));
        free(from);
        free(to);
        free(target);
    }
    if (dir)
        closedir(dir);
}

static void write_part(const char *name, const void *data, size_t n)
{
    struct err e = {0};
    char *path = path_join(folder, name);
    unlink(path);
    CHECK_MSG(file_write_atomic(path, data, n, &e) == 0, "%s", e.msg);
    free(path);
}

/* The logits of a short prompt; all forms of a bundle must give the same bits. */
static void run_prompt(const char *path, float logits[1024], const char *what)
{
    static const int32_t ids[] = {2, 36, 200, 201, 202, 37};
    struct engine *m;
    struct err e = {0};
    memset(logits, 0, 1024 * sizeof *logits);
    if (!CHECK_MSG(engine_open(&m, path, &(struct engine_options){.n_threads = 1}, &e) == 0, "%s: %s", what, e.msg))
        return;
    struct seq *s = seq_new(m);
    struct step_input in = {.seq = s, .ids = ids, .n = 6, .n_needed = 1, .logits = logits};
    CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
    CHECK_MSG(engine_chat_template(m) != NULL, "%s: no chat template", what);
    seq_free(s);
    engine_close(m);
}

static void without_files(void)
{
    static const char *const none[] = {NULL}, *const manifests[] = {"conversion_manifest.json", "weights_manifest.json",
                                                                    NULL};
    static const char *const first[] = {"conversion_manifest.json", "config.json", NULL};
    static const char *const text[] = {"config.json", "hf_config.json", "handoff_probe.json", NULL};
    static const char *const *const cases[] = {none, manifests, first, text};
    float want[1024], got[1024];
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    run_prompt(CQ4, want, "the folder");
    for (int i = 0; i < 4; i++) {
        link_bundle(cases[i]);
        run_prompt(folder, got, *cases[i] ? *cases[i] : "nothing");
        CHECK_MSG(memcmp(want, got, sizeof want) == 0, "without %s: other logits", *cases[i] ? *cases[i] : "nothing");
    }
    clear_folder();
}

/* The rules for names and scales say what the manifest says. */
static void rules_for_names(void)
{
    struct arena a = {0};
    int n = 0;
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    cJSON *all = models_json(CQ4, "conversion_manifest.json");
    for (const cJSON *r = all ? all->child : NULL; r; r = r->next) {
        const char *file = json_string(r, "output_file"), *name = cq_tensor_name(&a, file);
        if (strncmp(file, "model_", 6) == 0) {
            CHECK_MSG(name == NULL, "%s: a buffer", file);
            continue;
        }
        CHECK_STR(name, json_string(r, "hf_name"));
        CHECK_STR(cq_file_name(&a, name), file);
        CHECK_MSG(cq_scale(file) == json_get(r, "scale_factor")->valuedouble, "%s: scale %g", file, cq_scale(file));
        n++;
    }
    CHECK_MSG(n > 400, "%d names", n);
    static const char *const none[] = {"layer_.weights", "layer_x_attn_q.weights", "layer_1_.weights", ".weights", "",
                                       "layer_1", "audio_conformer_9_norm", "layer_123456789_attn_q.weights",
                                       "vision_encoder_layers_0_input_layernorm_input_min.weights", "x.bias"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK_MSG(cq_tensor_name(&a, none[i]) == NULL, "%s has a name", none[i]);
    static const char *const homeless[] = {"model.language_model.layers.x.self_attn.q_proj.weight", "lm_head", "",
                                           "model.language_model.layers.1.self_attn.q_proj.linear.weight",
                                           "model.vision_tower.encoder.layers.0.mlp.up_proj.weight"};
    for (size_t i = 0; i < sizeof homeless / sizeof *homeless; i++)
        CHECK_MSG(cq_file_name(&a, homeless[i]) == NULL, "%s has a file", homeless[i]);
    cJSON_Delete(all);
    arena_free(&a);
}

static void expect_bundle(const char *path, const char *want)
{
    struct engine *m = NULL;
    struct err e = {0};
    CHECK_MSG(engine_open(&m, path, &(struct engine_options){.n_threads = 1}, &e) && e.code == EXIT_BAD_INPUT &&
              strstr(e.msg, want) && strstr(e.msg, folder) && !strchr(e.msg, '\n'), "\"%s\" lacks \"%s\"", e.msg, want);
    engine_close(m);
}

static void damaged_bundles(void)
{
    static const char *const files[][2] = {{"tokenizer.json", "tokenizer.json"}, {"layer_3_attn_q.weights", "attn_q"},
                                           {"config.json", "config.json or config.txt"}};
    static const char *const vocabularies[][3] = {
        {"vocab.txt", "", "an id and a tab"}, {"vocab.txt", "a\tb\n", "an id and a tab"},
        {"vocab.txt", "0\t\n1\tb\n", "token 0"}, {"vocab.txt", "0\ta\n1\tb", "token 1"},
        {"vocab.txt", "0\ta\n1", "token 0"}, {"vocab.txt", "0\ta\n\xff", "UTF-8"},
        {"vocab.txt", "99999999999999999999\ta\n", "an id"},
        {"merges.txt", "#version\nab\n", "offset 9"}, {"merges.txt", "#version\na \n", "offset 9"},
        {"merges.txt", "#version\na b", "offset 9"}, {"special_tokens.json", "[]", "an object"},
        {"special_tokens.json", "{\"special_tokens\":{\"x\":\"a\"}}", "ids and tokens"},
        {"special_tokens.json", "{\"special_tokens\":{\"-1\":\"a\"}}", "ids and tokens"},
        {"special_tokens.json", "{\"special_tokens\":{\"5\":7}}", "ids and tokens"},
        {"special_tokens.json", "{\"special_tokens\":{}}", "runs of line feeds"}};
    static const char *const manifest[][2] = {
        {"[]", "list of records"}, {"{}", "list of records"}, {"7", "list of records"}, {"[", "conversion_manifest"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"../../etc/passwd\",\"shape\":[1]}]", "expected in the bundle"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[1,1,1,1,1]}]", "4 sizes"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[0]}]", "sizes from 1"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[1e30]}]", "sizes from 1"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[127]},"
         "{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[127]}]", "without padding"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[128]},"
         "{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[128]}]", "already"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[128],\"scale_factor\":0}]", "scale"},
        {"[{\"hf_name\":\"x\",\"output_file\":\"output_norm.weights\",\"shape\":[128],\"scale_factor\":\"a\"}]",
         "scale"}};
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    for (size_t i = 0; i < 3; i++) {
        const char *const without[] = {files[i][0], i == 2 ? "hf_config.json" : i == 0 ? "vocab.txt" : "-",
                                       i == 2 ? "config.txt" : "-", NULL};
        link_bundle(without);
        expect_bundle(folder, files[i][1]);
    }
    const char *const projector[] = {"embed_vision_proj.weights", NULL};
    struct text content = {0};
    struct err e = {0};
    link_bundle(projector);
    CHECK_MSG(file_read(CQ4 "/embed_vision_proj.weights", 1 << 20, &content, &e) == 0, "%s", e.msg);
    memcpy(content.data + 96, (const uint8_t[]){0, 0x7e}, 2);       /* its first number */
    write_part("embed_vision_proj.weights", content.data, content.len);
    expect_bundle(folder, "embed_vision.embedding_projection.weight: finite");
    text_free(&content);
    const char *const without[] = {"conversion_manifest.json", "handoff_probe.bin", NULL};
    link_bundle(without);
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        const char *const tokenizer[] = {"tokenizer.json", NULL};
        link_bundle(tokenizer);
        write_part(vocabularies[i][0], vocabularies[i][1], strlen(vocabularies[i][1]));
        expect_bundle(folder, vocabularies[i][2]);
        expect_bundle(folder, vocabularies[i][0]);
    }
    link_bundle(without);
    for (size_t i = 0; i < sizeof manifest / sizeof *manifest; i++) {
        write_part("conversion_manifest.json", manifest[i][0], strlen(manifest[i][0]));
        expect_bundle(folder, manifest[i][1]);
    }
    clear_folder();
}

/* ---- archives -------------------------------------------------------------------------------------------------- */

static void put_tar_member(struct text *tar, const char *name, char type, const void *data, size_t n)
{
    static const char zeros[512];
    char h[512] = {0};
    unsigned sum = 0;
    memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
    snprintf(h + 124, 12, "%011zo", n);
    h[156] = type;
    memcpy(h + 257, "ustar\0" "00", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    text_put(tar, h, 512);
    text_put(tar, data, n);
    text_put(tar, zeros, (512 - n % 512) % 512);
}

/* The whole bundle as a tar in one folder; long names in the way of GNU (pax false) or pax. */
static struct text tar_of_bundle(bool pax)
{
    struct text tar = {0}, content = {0};
    struct err e = {0};
    DIR *dir = opendir(CQ4);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[400], record[500];
        if (entry->d_name[0] == '.')
            continue;
        char *path = path_join(CQ4, entry->d_name);
        CHECK_MSG(file_read(path, 1 << 24, &content, &e) == 0, "%s", e.msg);
        snprintf(name, sizeof name, "./a-folder-with-a-name-that-makes-all-names-longer-than-they-may-be/%s",
                 entry->d_name);
        if (strlen(name) > 99 && pax) {
            size_t len = strlen(name) + 7, all = len + 3;
            snprintf(record, sizeof record, "%zu path=%s\n", all, name);
            CHECK(strlen(record) == all);
            put_tar_member(&tar, "PaxHeader", 'x', record, all);
        } else if (strlen(name) > 99) {
            put_tar_member(&tar, "././@LongLink", 'L', name, strlen(name) + 1);
        }
        put_tar_member(&tar, name, '0', content.data, content.len);
        free(path);
    }
    if (dir)
        closedir(dir);
    put_tar_member(&tar, "a-folder-with-a-name-that-makes-all-names-longer-than-they-may-be/components/x", '0', "x", 1);
    text_put(&tar, (const char[1024]){0}, 1024);
    text_free(&content);
    return tar;
}

static void write_gzip(const char *name, const struct text *t)
{
    char *path = path_join(folder, name);
    gzFile f = gzopen(path, "wb");
    CHECK(f && gzwrite(f, t->data, (unsigned)t->len) == (int)t->len && gzclose(f) == Z_OK);
    free(path);
}

static void tar_archives(void)
{
    float want[1024], got[1024];
    char path[128];
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    run_prompt(CQ4, want, "the folder");
    for (int pax = 0; pax < 2; pax++) {
        struct text tar = tar_of_bundle(pax);
        write_part("b.tar", tar.data, tar.len);
        write_gzip("b.tgz", &tar);
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/%s", folder, i ? "b.tgz" : "b.tar");
            run_prompt(path, got, path);
            CHECK_MSG(memcmp(want, got, sizeof want) == 0, "%s: other logits", path);
        }
        snprintf(path, sizeof path, "%s/b.tar", folder);
        tar.data[148] ^= 1;                 /* a checksum */
        write_part("b.tar", tar.data, tar.len);
        expect_bundle(path, "checksum at byte 0");
        tar.data[148] ^= 1;
        write_part("b.tar", tar.data, tar.len / 2);
        expect_bundle(path, "larger than the file");
        text_free(&tar);
    }
    clear_folder();
}

static void damaged_archives(void)
{
    struct text zip = {0}, bomb = {0};
    struct err e = {0};
    char path[128];
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    CHECK(file_read(CQ "bundles/tiny-a-cq2.zip", 1 << 24, &zip, &e) == 0);
    snprintf(path, sizeof path, "%s/b.zip", folder);
    write_part("b.zip", zip.data, zip.len / 2);
    expect_bundle(path, "zip");
    for (size_t i = 2000; i < 60000; i++)   /* whatever members lie there */
        zip.data[i] = (char)(zip.data[i] ^ 0x55);
    write_part("b.zip", zip.data, zip.len);
    expect_bundle(path, "b.zip");
    char *zeros = mem_alloc((size_t)32 << 20, 1);
    put_tar_member(&bomb, "layer_0_attn_q.weights", '0', zeros, (size_t)32 << 20);
    snprintf(path, sizeof path, "%s/b.tgz", folder);
    write_gzip("b.tgz", &bomb);
    expect_bundle(path, "200:1");
    snprintf(path, sizeof path, "%s/bomb.zip", folder);
    zip_t *z = zip_open(path, ZIP_CREATE, NULL);
    CHECK(z && zip_file_add(z, "layer_0_attn_q.weights", zip_source_buffer(z, zeros, (size_t)32 << 20, 0), 0) >= 0 &&
          zip_close(z) == 0);
    expect_bundle(path, "200:1");
    free(zeros);
    text_free(&zip);
    text_free(&bomb);
    clear_folder();
}

/* ---- probes ---------------------------------------------------------------------------------------------------- */

static void check_probe(const cJSON *file, const struct golden *rows)
{
    char path[256];
    struct weights *w = NULL;
    struct probe *p = NULL;
    struct err e = {0};
    const cJSON *c;
    snprintf(path, sizeof path, CQ "probe/%s", json_string(file, "file"));
    if (!CHECK_MSG(weights_open(&w, path, &e) == 0, "%s", e.msg))
        return;
    CHECK_MSG(weights_count(w) == 11 && probe_open(&p, w, NULL, &e) == 0, "%s: %s", path, e.msg);
    cJSON_ArrayForEach(c, json_get(file, "cases")) {
        struct golden_tensor x = golden_get(rows, json_string(c, "tensor"));
        struct probe_result r;
        if (p && CHECK_MSG(x.data && x.dim[1] == probe_dim(p), "%s: rows", path)) {
            CHECK_MSG(probe_score(p, x.f32, (int)x.dim[0], &r, &e) == 0, "%s", e.msg);
            CHECK(r.rows == json_get(c, "tokens_used")->valueint);
            const double z = json_get(c, "logit")->valuedouble;
            CHECK_NEAR(r.logit, z, 1e-4 * fabs(z) + 1e-4);
            CHECK_NEAR(r.confidence, json_get(c, "confidence")->valuedouble, 1e-5);
            CHECK_NEAR(r.p_wrong, json_get(c, "p_wrong")->valuedouble, 1e-5);
        }
        free(x.data);
    }
    probe_close(p);
    weights_close(w);
}

static void probe_files(void)
{
    struct golden rows;
    int n = 0;
    if (!file_exists(CQ "probe/cases.json"))
        SKIP("no " CQ);
    cJSON *cases = models_json(CQ "probe", "cases.json");
    CHECK(golden_open(&rows, CQ "probe/rows.safetensors") == 0);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases, "probes")) {
        check_probe(c, &rows);
        n++;
    }
    CHECK_MSG(n >= 4, "%d probes", n);
    cJSON_ArrayForEach(c, json_get(cases, "malformed")) {
        char path[256];
        struct weights *w = NULL;
        struct err e = {0};
        snprintf(path, sizeof path, CQ "probe/%s", json_string(c, "file"));
        const bool loads = weights_open(&w, path, &e) == 0;
        CHECK_MSG(loads == cJSON_IsTrue(json_get(c, "loads")), "%s", path);
        CHECK_MSG(loads || (e.code == EXIT_BAD_INPUT && strstr(e.msg, path)), "%s: \"%s\"", path, e.msg);
        weights_close(w);
    }
    golden_close(&rows);
    cJSON_Delete(cases);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    RUN(every_file);
    RUN(lone_file);
    RUN(shapes_and_scales);
    RUN(damaged_files);
    RUN(logits_and_confidence);
    RUN(media);
    RUN(tensors_of_bundles);
    RUN(without_files);
    RUN(rules_for_names);
    RUN(damaged_bundles);
    RUN(tar_archives);
    RUN(damaged_archives);
    RUN(probe_files);
    rmdir(folder);
    return test_report();
}
