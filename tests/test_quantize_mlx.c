/* quantize to MLX: folders against those that mlx-lm made of the same checkpoint, tensor by tensor and byte by byte, and
 * what must not be written. */
#define _GNU_SOURCE                     /* mkdtemp */
#include "engine/internal.h"
#include "engine/quantize.h"
#include "tests/models.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "../shared/model/tiny-a"
#define MLX "../shared/formats/mlx/models/"

static char folder[] = "/tmp/handoff-quantize-mlx-XXXXXX";

static char *inside(const char *name)
{
    return path_join(folder, name);
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *file = path_join(path, entry->d_name);
            unlink(file);
            free(file);
        }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static int quantize(const struct quantize_request *q, struct err *e)
{
    struct quantize_report r;
    const int bad = quantize_checkpoint(q, NULL, NULL, &r, e);
    quantize_report_free(&r);
    return bad;
}

/* ---- against mlx-lm's own -------------------------------------------------------------------------------------- */

static const struct tensor *find(const struct tensor_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->t[i].name, name) == 0)
            return &l->t[i];
    return NULL;
}

static bool is_tower(const char *name)
{
    return strstr(name, "vision_tower.") || strstr(name, "audio_tower.") || strstr(name, "embed_vision.") ||
           strstr(name, "embed_audio.");
}

static void parse(const char *path, struct mapped *file, struct arena *a, struct tensor_list *l)
{
    struct err e = {0};
    char *name = path_join(path, "model.safetensors");
    CHECK_MSG(map_open(file, name, &e) == 0 && safetensors_parse(file, a, l, &e) == 0, "%s", e.msg);
    free(name);
}

/* Every tensor of mlx-lm's file is in ours, with the same type, shape and bytes; besides there are only towers, and the
 * probe where mlx-lm had none. */
static void check_same(const char *ours, const char *theirs, bool has_probe)
{
    struct mapped files[2] = {0};
    struct arena a = {0};
    struct tensor_list own = {0}, want = {0};
    size_t towers = 0, probe = 0;
    parse(ours, &files[0], &a, &own);
    parse(theirs, &files[1], &a, &want);
    for (size_t i = 0; i < want.n; i++) {
        const struct tensor *w = &want.t[i], *t = find(&own, w->name);
        if (!CHECK_MSG(t != NULL, "%s: no tensor %s", ours, w->name))
            continue;
        CHECK_MSG(strcmp(t->type_name, w->type_name) == 0 && t->n_dims == w->n_dims &&
                  memcmp(t->dim, w->dim, sizeof t->dim) == 0, "%s: type or shape", w->name);
        CHECK_MSG(t->n_bytes == w->n_bytes && memcmp(t->data, w->data, t->n_bytes) == 0, "%s: other bytes", w->name);
    }
    for (size_t i = 0; i < own.n; i++) {
        towers += is_tower(own.t[i].name);
        probe += strncmp(own.t[i].name, "handoff_probe.", 14) == 0;
    }
    CHECK_MSG(want.n > 200 && towers > 100 && own.n == want.n + towers + (has_probe ? 0 : probe) && probe == 11,
              "%s: %zu tensors, %zu of mlx-lm's, %zu of towers, %zu of the probe", ours, own.n, want.n, towers, probe);
    free(own.t);
    free(want.t);
    arena_free(&a);
    map_close(&files[0]);
    map_close(&files[1]);
}

/* Numbers that Transformers wants with a point have one. */
static void check_points(const char *ours)
{
    struct text t = {0};
    struct err e = {0};
    char *path = path_join(ours, "config.json");
    CHECK_MSG(file_read(path, 1 << 20, &t, &e) == 0, "%s", e.msg);
    CHECK(t.len && strstr(t.data, "\"final_logit_softcapping\": 30.0,") && strstr(t.data, "\"rope_theta\": 1000000.0,") &&
          strstr(t.data, "\"hidden_size\": 128,"));
    text_free(&t);
    free(path);
}

/* config.json states the same codes, and what mlx-lm needs besides. */
static void check_config(const char *ours, const char *theirs)
{
    cJSON *own = models_json(ours, "config.json"), *want = models_json(theirs, "config.json");
    cJSON *index = models_json(ours, "model.safetensors.index.json");
    static const char *const keys[] = {"quantization", "quantization_config", "vocab_size", "model_type"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK_MSG(cJSON_Compare(json_get(own, keys[i]), json_get(want, keys[i]), true), "%s: %s", ours, keys[i]);
    CHECK(json_get(json_get(index, "weight_map"), "handoff_probe.attn_query") != NULL);
    CHECK_STR(json_string(own, "model_file"), "gemma4_handoff.py");
    cJSON_Delete(own);
    cJSON_Delete(want);
    cJSON_Delete(index);
}

static void as_mlx_lm(void)
{
    static const struct { const char *type; int group; const char *theirs; } cases[] = {
        {"mlx-4", 0, "tiny-a-mlx-4bit-g64-hybrid"}, {"MLX-6", 32, "tiny-a-mlx-6bit-g32"},
        {"mlx-mxfp4", 0, "tiny-a-mlx-mxfp4"}};
    if (!path_is_dir(MLX) || !path_is_dir(MODEL))
        SKIP("no ../shared");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char theirs[256], expected[256];
        struct err e = {0};
        char *out = inside("out");
        snprintf(theirs, sizeof theirs, MLX "%s", cases[i].theirs);
        snprintf(expected, sizeof expected, MLX "%s-expected", cases[i].theirs);
        const struct quantize_request q = {.in = MODEL, .out = out, .type = cases[i].type, .group = cases[i].group};
        if (CHECK_MSG(quantize(&q, &e) == 0, "%s", e.msg)) {
            check_same(out, theirs, i == 0);
            check_config(out, theirs);
            check_points(out);
            if (i == 0)
                models_logits(&(struct model_case){out, expected, 1e-3, true});
        }
        remove_folder(out);
        free(out);
    }
}

/* ---- from other formats, threads, towers ----------------------------------------------------------------------- */

static void fingerprint(const char *path, char hex[65])
{
    struct weights *w = NULL;
    struct err e = {0};
    *hex = '\0';
    if (CHECK_MSG(weights_open(&w, path, &e) == 0, "%s", e.msg))
        weights_fingerprint(w, hex);
    weights_close(w);
}

static void any_threads(void)
{
    char hex[2][65];
    struct err e = {0};
    char *out[] = {inside("one"), inside("three")};
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    for (int i = 0; i < 2; i++) {
        const struct quantize_request q = {.in = MODEL, .out = out[i], .type = "mlx-3", .n_threads = 1 + 2 * i};
        CHECK_MSG(quantize(&q, &e) == 0, "%s", e.msg);
        fingerprint(out[i], hex[i]);
        remove_folder(out[i]);
        free(out[i]);
    }
    CHECK_STR(hex[0], hex[1]);
}

/* Plain tensors come back with the same numbers, those of towers in their own layout. */
static void towers_come_back(void)
{
    struct weights *source = NULL, *w = NULL;
    struct err e = {0};
    char *out = inside("out");
    size_t same = 0;
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    const struct quantize_request q = {.in = MODEL, .out = out, .type = "mlx-8"};
    CHECK_MSG(quantize(&q, &e) == 0 && weights_open(&source, MODEL, &e) == 0 && weights_open(&w, out, &e) == 0, "%s",
              e.msg);
    for (size_t i = 0; w && i < weights_count(source); i++) {
        const struct tensor *a = weights_at(source, i), *b = weights_find(w, a->name);
        if (!is_tower(a->name) || (b && b->type == TENSOR_CODED))
            continue;
        if (CHECK_MSG(b && b->n_bytes == a->n_bytes && memcmp(a->dim, b->dim, sizeof a->dim) == 0 &&
                      memcmp(a->data, b->data, a->n_bytes) == 0, "%s", a->name))
            same++;
    }
    CHECK_MSG(same > 100, "%zu tensors of towers", same);
    weights_close(source);
    weights_close(w);
    remove_folder(out);
    free(out);
}

/* A second time from its own output: nothing is left of the first codes. */
static void from_mlx(void)
{
    struct err e = {0};
    struct weights *w = NULL;
    char *first = inside("first"), *second = inside("second");
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    struct quantize_request q = {.in = MODEL, .out = first, .type = "mlx-8", .no_towers = true};
    CHECK_MSG(quantize(&q, &e) == 0, "%s", e.msg);
    q = (struct quantize_request){.in = first, .out = second, .type = "mlx-2", .group = 32};
    CHECK_MSG(quantize(&q, &e) == 0 && weights_open(&w, second, &e) == 0, "%s", e.msg);
    const struct tensor *t = w ? weights_find(w, "model.language_model.embed_tokens.weight") : NULL;
    CHECK(t && strcmp(t->type_name, "mlx-2bit-g32") == 0);
    for (size_t i = 0; w && i < weights_count(w); i++)
        CHECK_MSG(!is_tower(weights_at(w, i)->name), "%s", weights_at(w, i)->name);
    weights_close(w);
    remove_folder(first);
    remove_folder(second);
    free(first);
    free(second);
}

/* ---- failures -------------------------------------------------------------------------------------------------- */

static void refused(const struct quantize_request *q, int code, const char *want)
{
    struct err e = {0};
    CHECK_MSG(quantize(q, &e) && e.code == code && strstr(e.msg, want), "%d, \"%s\" lacks \"%s\"", e.code, e.msg, want);
}

static void wrong_usage(void)
{
    struct err e = {0};
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    char *out = inside("out"), *named = inside("tiny-a-mlx-4"), *file = inside("file");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "mlx-4", .group = 48}, EXIT_USAGE, "--group");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "mlx-nvfp4", .group = 32}, EXIT_USAGE, "16");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "mlx-7"}, EXIT_USAGE, "mlx-7");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "mlx-4", .imatrix = MODEL "/config.json"},
            EXIT_BAD_INPUT, "config.json");
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "mlx-4", .tower_type = "F16"}, EXIT_USAGE,
            "--mmproj-type");
    CHECK(!file_exists(out));
    CHECK(file_write_atomic(file, "x", 1, &e) == 0);
    refused(&(struct quantize_request){.in = MODEL, .out = file, .type = "mlx-4"}, EXIT_USAGE, "exists");
    refused(&(struct quantize_request){.in = MODEL, .out = file, .type = "mlx-4", .force = true}, EXIT_USAGE, "folder");
    unlink(file);
    const struct quantize_request q = {.in = MODEL, .out = folder, .type = "mlx-4"};     /* a folder: inside it */
    CHECK_MSG(quantize(&q, &e) == 0 && path_is_dir(named), "%s", e.msg);
    refused(&q, EXIT_USAGE, "--force");
    char *stray = path_join(named, "stray");
    CHECK(file_write_atomic(stray, "x", 1, &e) == 0);
    CHECK_MSG(quantize(&(struct quantize_request){.in = MODEL, .out = folder, .type = "mlx-4", .force = true}, &e) == 0,
              "%s", e.msg);
    CHECK(path_is_dir(named) && !file_exists(stray) && entries(folder) == 1);
    remove_folder(named);
    free(stray);
    free(named);
    free(file);
    free(out);
}

/* Files may not grow beyond a megabyte, as on a full disk: status 4, and nothing is left. */
static void full_disk(void)
{
    struct rlimit before, small;
    char *out = inside("out");
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = 1 << 20;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    refused(&(struct quantize_request){.in = MODEL, .out = out, .type = "mlx-4"}, EXIT_MACHINE, "cannot be written");
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_MSG(entries(folder) == 0, "%d entries are left", entries(folder));
    free(out);
}

static bool stop_at_once(void *arg, const char *tensor, int64_t done, int64_t total)
{
    (void)arg;
    (void)tensor;
    return done > total / 2;
}

static void interrupted(void)
{
    struct quantize_report r;
    struct err e = {0};
    char *out = inside("out");
    if (!path_is_dir(MODEL))
        SKIP("no ../shared");
    const struct quantize_request q = {.in = MODEL, .out = out, .type = "mlx-4"};
    CHECK(quantize_checkpoint(&q, stop_at_once, NULL, &r, &e) && e.code == EXIT_MACHINE);
    CHECK_MSG(entries(folder) == 0, "%d entries are left", entries(folder));
    quantize_report_free(&r);
    free(out);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    RUN(as_mlx_lm);
    RUN(any_threads);
    RUN(towers_come_back);
    RUN(from_mlx);
    RUN(wrong_usage);
    RUN(full_disk);
    RUN(interrupted);
    rmdir(folder);
    return test_report();
}
