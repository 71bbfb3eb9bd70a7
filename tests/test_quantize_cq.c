/* quantize to Cactus bundles: against those that the Cactus converter made of the same checkpoint, file by file. */
#define _GNU_SOURCE                     /* mkdtemp */
#include "engine/bundle.h"
#include "engine/internal.h"
#include "engine/quantize.h"
#include "tests/models.h"

#include <dirent.h>
#include <unistd.h>

#define MODEL "../shared/model/tiny-a"
#define CQ "../shared/formats/cq/bundles/"

static char folder[64];
static char out[128];

static void remove_out(void)
{
    DIR *dir = opendir(out);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *file = path_join(out, entry->d_name);
            unlink(file);
            free(file);
        }
    if (dir)
        closedir(dir);
    rmdir(out);
}

static int quantize(const struct quantize_request *q, struct err *e)
{
    struct quantize_report r;
    const int bad = quantize_checkpoint(q, NULL, NULL, &r, e);
    quantize_report_free(&r);
    return bad;
}

/* ---- tensor files ---------------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

struct tally { int files, same; size_t bytes, other; };

/* A file of both bundles; the orthogonal matrix may be off by a unit of float16 here and there, and with it codes. */
static void compare_file(struct bundle *own, struct bundle *want, const char *name, struct tally *t)
{
    struct err e = {0};
    if (!CHECK_MSG(bundle_has(own, name), "no file %s", name))
        return;
    const struct mapped *a = bundle_file(own, name, &e), *b = bundle_file(want, name, &e);
    if (!CHECK_MSG(a && b && a->size == b->size, "%s: another size", name))
        return;
    size_t other = 0;
    for (size_t i = 0; i < a->size; i++)
        other += a->data[i] != b->data[i];
    t->files++;
    t->same += other == 0;
    t->bytes += a->size;
    if (strcmp(name, "token_embeddings.weights") == 0)
        CHECK_MSG(other < a->size / 200, "%s: %zu of %zu bytes", name, other, a->size);
    else
        t->other += other;
}

/* The manifests name the same tensors with the same files, shapes, precisions, scales and reasons. */
static void compare_manifests(struct bundle *own, struct bundle *want)
{
    static const char name[] = "conversion_manifest.json";
    static const char *const keys[] = {"output_file", "shape", "precision", "bits", "scale_factor", "status",
                                       "component", "fallback_reason", "transform", "bytes"};
    struct err e = {0};
    const struct mapped *a = bundle_file(own, name, &e), *b = bundle_file(want, name, &e);
    cJSON *ours = json_parse((const char *)a->data, a->size, name, &e);
    cJSON *theirs = json_parse((const char *)b->data, b->size, name, &e);
    const cJSON *r, *x;
    int n = 0;
    cJSON_ArrayForEach(r, theirs) {
        const cJSON *found = NULL;
        if (strncmp(json_string(r, "output_file"), "model_", 6) == 0)
            continue;                       /* buffers of the model object */
        cJSON_ArrayForEach(x, ours)
            if (strcmp(json_string(x, "hf_name"), json_string(r, "hf_name")) == 0)
                found = x;
        if (!CHECK_MSG(found != NULL, "%s is not in the manifest", json_string(r, "hf_name")))
            continue;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            const cJSON *p = json_get(found, keys[i]), *q = json_get(r, keys[i]);
            const bool shared = i == 7 && cJSON_IsString(q) && strstr(q->valuestring, "shared KV");
            const bool bias = i == 7 && cJSON_IsString(q) && strstr(q->valuestring, "bias");
            CHECK_MSG(shared || bias || cJSON_Compare(p, q, true), "%s: %s", json_string(r, "hf_name"), keys[i]);
        }
        n++;
    }
    CHECK_MSG(n > 400 && cJSON_GetArraySize(ours) == n, "%d of %d records", n, cJSON_GetArraySize(ours));
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
}

/* vocab.txt but for ids 105 and 106, which the converter always takes for marks of turns. */
static void compare_vocabularies(struct bundle *own, struct bundle *want)
{
    struct err e = {0};
    struct text part[2][2] = {{{0}}};
    for (int i = 0; i < 2; i++) {
        const struct mapped *m = bundle_file(i ? want : own, "vocab.txt", &e);
        char *all = mem_strndup((const char *)m->data, m->size), *cut = strstr(all, "\n105\t"), *end;
        end = cut ? strstr(cut, "\n107\t") : NULL;
        if (CHECK_MSG(end != NULL, "vocab.txt: ids 105 and 107")) {
            text_put(&part[i][0], all, (size_t)(cut - all));
            text_puts(&part[i][1], end);
        }
        free(all);
    }
    for (int k = 0; k < 2; k++) {
        CHECK_STR(part[0][k].data, part[1][k].data);
        text_free(&part[0][k]);
        text_free(&part[1][k]);
    }
}

static void compare_bundles(const char *theirs)
{
    struct bundle *own = NULL, *want = NULL;
    struct err e = {0};
    struct tally t = {0};
    if (CHECK_MSG(bundle_open(&own, out, &e) == 0 && bundle_open(&want, theirs, &e) == 0, "%s", e.msg)) {
        for (size_t i = 0; i < bundle_count(want); i++) {
            const char *name = bundle_name(want, i);
            if ((ends_with(name, ".weights") && strncmp(name, "model_", 6) != 0) || ends_with(name, ".bias") ||
                strncmp(name, "handoff_probe.", 14) == 0 ||
                strcmp(name, "merges.txt") == 0 || strcmp(name, "tokenizer_config.txt") == 0 ||
                strcmp(name, "chat_template.jinja2") == 0)
                compare_file(own, want, name, &t);
        }
        CHECK_MSG(t.files > 400 && t.same >= t.files - 6 && t.other <= 10, "%d of %d files are the same, %zu of %zu "
                  "bytes differ", t.same, t.files, t.other, t.bytes);
        compare_manifests(own, want);
        compare_vocabularies(own, want);
    }
    bundle_close(own);
    bundle_close(want);
}

static void as_the_converter(void)
{
    static const struct { const char *type, *theirs; } cases[] = {
        {"cq4", CQ "tiny-a-cq4"}, {"CQ3", CQ "tiny-a-cq3.zip"}, {"cq2", CQ "tiny-a-cq2.zip"}};
    if (!path_is_dir(CQ) || !path_is_dir(MODEL))
        SKIP("no ../shared");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        const struct quantize_request q = {.in = MODEL, .out = out, .type = cases[i].type};
        if (CHECK_MSG(quantize(&q, &e) == 0, "%s", e.msg))
            compare_bundles(cases[i].theirs);
        remove_out();
    }
}

/* ---- reading it back ------------------------------------------------------------------------------------------- */

static void run_prompt(const char *path, float logits[1024])
{
    static const int32_t ids[] = {2, 36, 200, 201, 202, 37};
    struct engine *m;
    struct err e = {0};
    memset(logits, 0, 1024 * sizeof *logits);
    if (!CHECK_MSG(engine_open(&m, path, &(struct engine_options){.n_threads = 1}, &e) == 0, "%s", e.msg))
        return;
    struct seq *s = seq_new(m);
    struct step_input in = {.seq = s, .ids = ids, .n = 6, .n_needed = 1, .logits = logits};
    CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
    CHECK(engine_chat_template(m) != NULL);
    seq_free(s);
    engine_close(m);
}

/* A number of a turned group is as good as normally distributed, and its best code of one bit leaves 1 - 2/pi of the
 * mean square. */
static void check_error(const struct weights *source, const struct weights *w)
{
    const double expected = 1 - 2 / 3.14159265358979;
    int n = 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i), *s = weights_find(source, t->name);
        double error = 0, size = 0;
        if (strcmp(t->type_name, "CQ1") != 0 || !CHECK_MSG(s != NULL, "%s", t->name))
            continue;
        const int64_t elements = tensor_elements(t);
        float *a = NEW(float, 2 * elements), *b = a + elements;
        tensor_read_f32(s, 0, elements, a);
        tensor_read_f32(t, 0, elements, b);
        for (int64_t k = 0; k < elements; k++) {
            error += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
            size += (double)a[k] * (double)a[k];
        }
        CHECK_NEAR(error / size, expected, 0.03);
        free(a);
        n++;
    }
    CHECK_MSG(n > 60, "%d matrices", n);
}

/* Without tokenizer.json: the same ids and texts for every line of the golden file. */
static void check_vocabulary(void)
{
    static const char *const parts[] = {"tokenizer.json", "special_tokens.json"};
    struct engine *plain = NULL, *m = NULL;
    struct text file = {0};
    struct err e = {0};
    int n = 0;
    char *json = path_join(out, parts[0]), *special = path_join(out, parts[1]);
    CHECK(unlink(json) == 0);
    CHECK_MSG(file_read("../shared/model/tokenizer/tiny-a.jsonl", 1 << 24, &file, &e) == 0, "%s", e.msg);
    if (CHECK_MSG(engine_open(&plain, MODEL, NULL, &e) == 0 && engine_open(&m, out, NULL, &e) == 0, "%s", e.msg)) {
        struct document_sha sha[2];
        engine_document_sha(plain, &sha[0]);
        engine_document_sha(m, &sha[1]);
        CHECK_STR(sha[1].tokenizer, sha[0].tokenizer);
        for (char *line = file.data, *stop; (stop = strchr(line, '\n')); line = stop + 1, n++) {
            struct ids a = {0}, b = {0};
            struct text s = {0}, t = {0};
            tokenize(engine_tokenizer(plain), line, (size_t)(stop - line), &a);     /* the line as it is will do */
            tokenize(engine_tokenizer(m), line, (size_t)(stop - line), &b);
            CHECK_MSG(a.n == b.n && memcmp(a.id, b.id, (size_t)a.n * sizeof *a.id) == 0, "ids of line %d", n + 1);
            detokenize(engine_tokenizer(plain), a.id, a.n, false, &s);
            detokenize(engine_tokenizer(m), a.id, a.n, false, &t);
            CHECK_STR(s.data, t.data);
            ids_free(&a);
            ids_free(&b);
            text_free(&s);
            text_free(&t);
        }
        for (int32_t id = 0; id < 1024; id++)
            CHECK_MSG(tokenizer_is_special(engine_tokenizer(plain), id) == tokenizer_is_special(engine_tokenizer(m), id),
                      "token %d is special", (int)id);
    }
    CHECK_MSG(n == 303, "%d lines", n);
    engine_close(plain);
    engine_close(m);
    unlink(special);
    CHECK(engine_open(&m, out, NULL, &e) && e.code == EXIT_BAD_INPUT && strstr(e.msg, "special_tokens.json"));
    free(json);
    free(special);
    text_free(&file);
}

/* Names and config.txt say what the manifest and config.json say; the number of threads changes nothing. */
static void runs(void)
{
    static const char *const parts[] = {"conversion_manifest.json", "weights_manifest.json", "config.json"};
    float logits[1024], again[1024];
    struct weights *source = NULL, *w = NULL;
    struct err e = {0};
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    for (int threads = 1; threads < 4; threads += 2) {
        const struct quantize_request q = {.in = MODEL, .out = out, .type = "cq1", .n_threads = threads};
        CHECK_MSG(quantize(&q, &e) == 0, "%s", e.msg);
        run_prompt(out, threads == 1 ? logits : again);
        if (threads == 1)
            remove_out();
    }
    CHECK(memcmp(logits, again, sizeof again) == 0);
    if (CHECK_MSG(weights_open(&source, MODEL, &e) == 0 && weights_open(&w, out, &e) == 0, "%s", e.msg))
        check_error(source, w);
    weights_close(source);
    weights_close(w);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *path = path_join(out, parts[i]);
        CHECK(unlink(path) == 0);
        free(path);
    }
    run_prompt(out, again);
    CHECK(memcmp(logits, again, sizeof again) == 0);
    check_vocabulary();
    remove_out();
}

/* ---- failures -------------------------------------------------------------------------------------------------- */

static void refused(const struct quantize_request *q, int code, const char *want)
{
    struct err e = {0};
    CHECK_MSG(quantize(q, &e) && e.code == code && strstr(e.msg, want) && !strchr(e.msg, '\n'),
              "%d, \"%s\" lacks \"%s\"", e.code, e.msg, want);
    CHECK_MSG(!file_exists(out), "%s is there", out);
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        CHECK_MSG(!strstr(entry->d_name, ".tmp."), "%s is left", entry->d_name);
    if (dir)
        closedir(dir);
}

/* A checkpoint whose tensor has `value`, two bytes, somewhere. */
static void damage(const char *name, uint16_t value)
{
    static const char *const parts[] = {"config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"};
    struct text content = {0};
    struct weights *w = NULL;
    struct err e = {0};
    CHECK_MSG(weights_open(&w, MODEL, &e) == 0, "%s", e.msg);
    const struct tensor *t = w ? weights_find(w, name) : NULL;
    CHECK_MSG(t != NULL, "%s", name);
    for (size_t i = 0; t && i < 4; i++) {
        char *from = path_join(MODEL, parts[i]), *to = path_join(folder, parts[i]);
        CHECK_MSG(file_read(from, 1 << 24, &content, &e) == 0, "%s", e.msg);
        for (size_t at = 0; i == 3 && at + t->n_bytes <= content.len; at++)
            if (memcmp(content.data + at, t->data, t->n_bytes) == 0) {
                memcpy(content.data + at + t->n_bytes / 4 * 2, &value, 2);
                break;
            }
        CHECK_MSG(file_write_atomic(to, content.data, content.len, &e) == 0, "%s", e.msg);
        free(from);
        free(to);
    }
    weights_close(w);
    text_free(&content);
}

static void bad_numbers(void)
{
    static const struct { const char *name; uint16_t value; const char *types[3]; } cases[] = {
        {"model.language_model.layers.0.mlp.gate_proj.weight", 0x7fc0, {"cq4", "mlx-4", "mlx-nvfp4"}},
        {"model.language_model.layers.3.self_attn.o_proj.weight", 0xff80, {"cq1", "mlx-2", "mlx-mxfp8"}},
        {"model.language_model.embed_tokens.weight", 0x7f80, {"cq2", "mlx-8", NULL}},
        {"model.language_model.layers.0.mlp.gate_proj.weight", 0x4800, {"cq3", NULL}},     /* 131072: times 16 */
        {"model.language_model.layers.0.mlp.down_proj.weight", 0x4800, {"cq4", NULL}}};    /* kept in float16 */
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        damage(cases[i].name, cases[i].value);
        for (size_t k = 0; k < 3 && cases[i].types[k]; k++)
            refused(&(struct quantize_request){.in = folder, .out = out, .type = cases[i].types[k]}, EXIT_BAD_INPUT,
                    cases[i].name);
    }
    static const char *const parts[] = {"config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char *path = path_join(folder, parts[i]);
        unlink(path);
        free(path);
    }
}

static void wrong_usage(void)
{
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "cq4", .group = 64}, EXIT_USAGE, "128");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "cq5"}, EXIT_USAGE, "cq5");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "cq4", .tower_type = "F32"}, EXIT_USAGE,
            "--mmproj-type");
    refused(&(struct quantize_request){.in = MODEL, .out = "/nonexistent/x", .type = "cq4"}, EXIT_MACHINE,
            "/nonexistent/x");
}

int main(void)
{
    /* In memory where there is such a place: each bundle is synced to disk. */
    snprintf(folder, sizeof folder, "%s/handoff-quantize-cq-XXXXXX", path_is_dir("/dev/shm") ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    snprintf(out, sizeof out, "%s/out", folder);
    RUN(as_the_converter);
    RUN(runs);
    RUN(bad_numbers);
    RUN(wrong_usage);
    rmdir(folder);
    return test_report();
}
