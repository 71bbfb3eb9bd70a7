/* Whole files of `quantize`: byte for byte what llama-quantize writes, the fixtures' tensors and metadata, and models
 * that compute what their source does. tests/data/quantize/peer.txt is made by scripts/quantize-goldens. */
#define _GNU_SOURCE                     /* mkdtemp, memmem */
#include "engine/gguf_mix.h"
#include "engine/gguf_model.h"
#include "engine/quantize.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "../shared/model/"
#define TINY "../shared/gguf/gguf-tiny-a/"
#define DATA "tests/data/quantize/"
#define MINI "datasets/mini/checkpoint"

static char folder[] = "/tmp/handoff-quantize-XXXXXX";

static char *in_folder(const char *name)
{
    return path_join(folder, name);
}

static int quantize(struct quantize_request q, const char *out_name, struct quantize_report *r, struct err *e)
{
    struct quantize_report own = {0};
    char *out = in_folder(out_name);
    q.out = out;
    q.n_threads = q.n_threads ? q.n_threads : 2;
    const int bad = quantize_checkpoint(&q, NULL, NULL, r ? r : &own, e);
    quantize_report_free(&own);
    free(out);
    return bad;
}

static bool made(struct quantize_request q, const char *out_name)
{
    struct err e = {0};
    return CHECK_MSG(quantize(q, out_name, NULL, &e) == 0, "%s as %s: %s", q.in, q.type, e.msg);
}

/* ---- against llama-quantize ------------------------------------------------------------------------------------ */

/* Thirty-five layers as in E2B; the names are in llama.cpp's order. */
static void mix_listing(const struct gguf_mix *mix, bool importances, struct text *out)
{
    static const struct { const char *name; int sliding, full; bool owner; } matrices[] = {
        {"attn_k", 256, 256, true}, {"attn_output", 256, 512, false}, {"attn_q", 256, 256, false},
        {"attn_v", 256, 256, true}, {"ffn_down", 0, 0, false}, {"ffn_gate", 256, 256, false},
        {"ffn_up", 256, 256, false}, {"inp_gate", 256, 256, false}, {"proj", 256, 256, false}};
    struct gguf_mixing m = {.mix = mix, .n_layers = 35, .n_attn_v = 15, .heads_per_kv = 4,
                            .has_importances = importances};
    text_printf(out, "per_layer_token_embd.weight %s\n",
                gguf_mix_type(&m, "per_layer_token_embd.weight", 35 * 256)->name);
    text_printf(out, "token_embd.weight %s\n", gguf_mix_type(&m, "token_embd.weight", 256)->name);
    CHECK(gguf_mix_type(&m, "per_layer_model_proj.weight", 256) == NULL);
    for (int layer = 0; layer < 35; layer++)
        for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
            const int columns = matrices[i].sliding == 0 ? (layer < 15 ? 256 : 512)
                                : layer % 5 == 4 ? matrices[i].full : matrices[i].sliding;
            char name[64];
            if (matrices[i].owner && layer >= 15)
                continue;
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, matrices[i].name);
            text_printf(out, "%s %s\n", name, gguf_mix_type(&m, name, columns)->name);
        }
    for (size_t i = 0; i < out->len; i++)
        if (out->data[i] >= 'A' && out->data[i] <= 'Z')
            out->data[i] = (char)(out->data[i] - 'A' + 'a');
}

static void check_mix(const char *sha, const char *type, const char *importances)
{
    struct text list = {0};
    char hex[65];
    mix_listing(gguf_mix_named(type), *importances != '-', &list);
    sha256_hex_of(list.data, list.len, hex);
    CHECK_MSG(strcmp(hex, sha) == 0, "mix %s, importances %s: other types than llama-quantize's", type, importances);
    text_free(&list);
}

static void check_file(const char *sha, const char *input, const char *type, const char *importances)
{
    struct err e = {0};
    struct text name = {0}, content = {0}, matrix = {0};
    char hex[65];
    text_printf(&name, "%s.gguf", input);
    text_printf(&matrix, DATA "%s", importances);
    char *in = in_folder(name.data), *out = in_folder("out.gguf");
    if (made((struct quantize_request){.in = in, .type = type, .force = true,
                                       .imatrix = *importances == '-' ? NULL : matrix.data}, "out.gguf") &&
        CHECK_MSG(file_read(out, 1 << 28, &content, &e) == 0, "%s", e.msg)) {
        sha256_hex_of(content.data, content.len, hex);
        CHECK_MSG(strcmp(hex, sha) == 0, "%s as %s, importances %s: another file than llama-quantize's", input, type,
                  importances);
    }
    text_free(&name);
    text_free(&content);
    text_free(&matrix);
    free(in);
    free(out);
}

static void peer_files(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    made((struct quantize_request){.in = "../shared/gguf/gguf-types/types-kquants.gguf", .type = "f32"},
         "kquants.gguf");
    made((struct quantize_request){.in = MODEL "tiny-a", .type = "F32", .no_probe = true, .no_towers = true},
         "tiny-a.gguf");
    FILE *f = fopen(DATA "peer.txt", "r");
    char sha[65], kind[8], input[16], type[16], importances[32];
    int n = 0;
    while (f && fscanf(f, "%64s %7s %15s %15s %31s", sha, kind, input, type, importances) == 5) {
        if (strcmp(kind, "mix") == 0)
            check_mix(sha, type, importances);
        else
            check_file(sha, input, type, importances);
        n++;
    }
    if (f)
        fclose(f);
    CHECK_MSG(n == 73, "%d lines of " DATA "peer.txt", n);
}

/* ---- against the fixtures -------------------------------------------------------------------------------------- */

struct opened { struct mapped file; struct arena arena; struct gguf g; };

static bool open_file(struct opened *o, const char *path)
{
    struct err e = {0};
    *o = (struct opened){0};
    return CHECK_MSG(map_open(&o->file, path, &e) == 0 && gguf_parse(&o->file, &o->arena, &o->g, &e) == 0, "%s", e.msg);
}

static void close_file(struct opened *o)
{
    arena_free(&o->arena);
    map_close(&o->file);
}

static const struct gguf_tensor *tensor_of(const struct gguf *g, const char *name)
{
    for (size_t i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    return NULL;
}

/* The fixtures have PyTorch's softplus, which is a last bit off here and there. */
static bool nearly(const struct gguf_tensor *a, const struct gguf_tensor *b)
{
    for (size_t i = 0; i < a->n_bytes; i += 4) {
        float x, y;
        memcpy(&x, a->data + i, 4);
        memcpy(&y, b->data + i, 4);
        if (fabsf(x - y) > 1.2e-7f * fabsf(y))
            return false;
    }
    return true;
}

static void same_tensors(const struct gguf *have, const struct gguf *want)
{
    CHECK_MSG(have->n_tensors == want->n_tensors, "%s: %zu tensors, not %zu", have->file->path, have->n_tensors,
              want->n_tensors);
    for (size_t i = 0; i < want->n_tensors; i++) {
        const struct gguf_tensor *b = &want->tensors[i], *a = tensor_of(have, b->name);
        if (!CHECK_MSG(a && a->type == b->type && a->n_dims == b->n_dims &&
                       memcmp(a->ne, b->ne, sizeof a->ne) == 0 && a->n_bytes == b->n_bytes,
                       "%s: %s is missing, or has another type or shape", have->file->path, b->name))
            continue;
        const bool soft = strstr(b->name, "per_dim_scale") != NULL;
        CHECK_MSG(soft ? nearly(a, b) : memcmp(a->data, b->data, a->n_bytes) == 0, "%s: %s has other bytes",
                  have->file->path, b->name);
    }
}

/* general.name is the input's. <|video|> is special in tokenizer.json, which the fixtures do not say. */
static void same_metadata(const struct gguf *have, const struct gguf *want)
{
    for (size_t i = 0; i < want->n_values; i++) {
        const struct gguf_value *b = &want->values[i], *a = gguf_find(have, b->key);
        if (strcmp(b->key, "general.name") == 0)
            continue;
        if (!CHECK_MSG(a && a->kind == b->kind && a->element == b->element && a->count == b->count &&
                       a->n_bytes == b->n_bytes, "%s: %s is missing or of another kind", have->file->path, b->key))
            continue;
        size_t different = 0;
        for (size_t k = 0; k < a->n_bytes; k++)
            different += a->at[k] != b->at[k];
        CHECK_MSG(different == (strcmp(b->key, "tokenizer.ggml.token_type") == 0), "%s: %s has another value",
                  have->file->path, b->key);
    }
}

static void compare(const char *name, const char *fixture)
{
    struct opened have, want;
    char *path = in_folder(name);
    if (open_file(&have, path) && open_file(&want, fixture)) {
        same_tensors(&have.g, &want.g);
        same_metadata(&have.g, &want.g);
    }
    close_file(&have);
    close_file(&want);
    free(path);
}

/* The fixtures were quantised from float32. */
static void fixtures(void)
{
    static const char *const types[] = {"q8_0", "q4_0", "q4_k_m"};
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    made((struct quantize_request){.in = MODEL "tiny-a-hybrid", .type = "BF16"}, "b.gguf");
    compare("b.gguf", TINY "tiny-a-hybrid-bf16.gguf");
    made((struct quantize_request){.in = MODEL "tiny-a-hybrid", .type = "F32"}, "f.gguf");
    char *from = in_folder("f.gguf");
    for (int i = 0; i < 3; i++) {
        char name[32], fixture[96];
        snprintf(name, sizeof name, "%s.gguf", types[i]);
        snprintf(fixture, sizeof fixture, TINY "tiny-a-hybrid-%s.gguf", types[i]);
        made((struct quantize_request){.in = from, .type = types[i], .n_threads = 1}, name);
        compare(name, fixture);
    }
    free(from);
}

static void projectors(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    made((struct quantize_request){.in = MODEL "tiny-a-sharded", .type = "F16", .no_probe = true, .tower_type = "f16"},
         "p.gguf");
    compare("mmproj-tiny-a-sharded-F16.gguf", TINY "mmproj-tiny-a-f16.gguf");
    compare("p.gguf", TINY "tiny-a-plain-f16.gguf");
    made((struct quantize_request){.in = MODEL "tiny-a", .type = "Q8_0"}, "q.gguf");
    compare("mmproj-tiny-a-BF16.gguf", TINY "mmproj-tiny-a-bf16.gguf");
}

/* ---- models ---------------------------------------------------------------------------------------------------- */

enum { N_MEDIA = 3, PROMPT = 40 };
struct outputs { float *logits, *tap; struct media_tokens media[N_MEDIA]; int vocab, hidden, n_eos, budget; };

static bool outputs_of(const char *model, const char *mmproj, const char *const *files, struct outputs *o)
{
    struct engine *m;
    struct err e = {0}, errs[N_MEDIA] = {0};
    struct media media[N_MEDIA] = {0};
    struct text bytes[N_MEDIA] = {0};
    int32_t ids[PROMPT];
    if (!CHECK_MSG(engine_open(&m, model, &(struct engine_options){.n_threads = 2, .mmproj = mmproj}, &e) == 0, "%s",
                   e.msg))
        return false;
    const struct model_info *info = engine_info(m);
    *o = (struct outputs){.vocab = info->vocab_size, .hidden = info->hidden_size, .n_eos = info->n_eos};
    o->logits = NEW(float, PROMPT * o->vocab);
    o->tap = NEW(float, PROMPT * o->hidden);
    for (int i = 0; i < PROMPT; i++)
        ids[i] = i ? (int32_t)(i * 7919 % o->vocab) : info->bos_id;
    struct seq *s = seq_new(m);
    CHECK(engine_step(m, &(struct step_input){.seq = s, .ids = ids, .n = PROMPT, .n_needed = PROMPT, .tap_layer = 3,
                                              .tap = o->tap, .logits = o->logits}, 1, &e) == 0);
    for (int i = 0; files && i < N_MEDIA; i++) {
        CHECK_MSG(file_read(files[i], 1 << 26, &bytes[i], &e) == 0, "%s", e.msg);
        media[i] = (struct media){.kind = strstr(files[i], ".wav") ? MEDIA_AUDIO : MEDIA_IMAGE, .name = files[i],
                                  .bytes = bytes[i].data, .n_bytes = bytes[i].len};
    }
    if (files)
        CHECK_MSG(engine_encode(m, media, N_MEDIA, o->media, errs) == 0, "%s%s%s", errs[0].msg, errs[1].msg,
                  errs[2].msg);
    for (int i = 0; i < N_MEDIA; i++)
        text_free(&bytes[i]);
    seq_free(s);
    engine_close(m);
    return true;
}

static void same_outputs(const char *what, struct outputs *a, struct outputs *b)
{
    CHECK_MSG(a->vocab == b->vocab && a->n_eos == b->n_eos, "%s: vocabulary or stop tokens", what);
    CHECK_MSG(memcmp(a->logits, b->logits, (size_t)(PROMPT * a->vocab) * sizeof(float)) == 0, "%s: logits", what);
    CHECK_MSG(memcmp(a->tap, b->tap, (size_t)(PROMPT * a->hidden) * sizeof(float)) == 0, "%s: tapped rows", what);
    for (int i = 0; i < N_MEDIA; i++) {
        const size_t n = (size_t)(a->media[i].n_tokens * a->hidden) * sizeof(float);
        CHECK_MSG(a->media[i].n_tokens == b->media[i].n_tokens &&
                  (n == 0 || memcmp(a->media[i].soft, b->media[i].soft, n) == 0), "%s: soft tokens of medium %d", what,
                  i);
    }
}

static void free_outputs(struct outputs *o)
{
    free(o->logits);
    free(o->tap);
    for (int i = 0; i < N_MEDIA; i++)
        media_tokens_free(&o->media[i]);
}

/* Files that keep every number give the source's bits, pictures and sounds included; no option is needed. */
static void lossless(void)
{
    static const char *const files[] = {MODEL "media/photo.jpg", MODEL "media/speech.wav", MODEL "media/wide.png"};
    static const char *const types[] = {"BF16", "F32"};
    struct outputs want, have;
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    if (!outputs_of(MODEL "tiny-a", NULL, files, &want))
        return;
    CHECK(want.media[0].n_tokens > 0 && want.media[1].n_tokens > 0);
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "l-%s.gguf", types[i]);
        made((struct quantize_request){.in = MODEL "tiny-a", .type = types[i], .tower_type = types[i]}, name);
        char *model = in_folder(name), mmproj[96];
        snprintf(mmproj, sizeof mmproj, "%s/mmproj-tiny-a-%s.gguf", folder, types[i]);
        if (outputs_of(model, mmproj, files, &have)) {
            same_outputs(types[i], &have, &want);
            free_outputs(&have);
        }
        free(model);
    }
    free_outputs(&want);
}

static double relative_rms(const float *a, const float *b, int n)
{
    double squares = 0, base = 0;
    for (int i = 0; i < n; i++) {
        squares += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        base += (double)b[i] * b[i];
    }
    return sqrt(squares / base);
}

/* A quantised file computes what its own decoded weights do; only the order of the sums differs. */
static void quantised(void)
{
    static const char *const types[] = {"Q4_K_M", "IQ4_XS", "Q8_0"};
    struct outputs want, have;
    for (int i = 0; i < 3; i++) {
        made((struct quantize_request){.in = MINI, .type = types[i], .no_towers = true, .force = true}, "z.gguf");
        char *coded = in_folder("z.gguf"), *plain = in_folder("y.gguf");
        made((struct quantize_request){.in = coded, .mmproj = "none", .type = "F32", .force = true}, "y.gguf");
        if (outputs_of(coded, "none", NULL, &have) && outputs_of(plain, "none", NULL, &want)) {
            CHECK_NEAR(relative_rms(have.logits, want.logits, PROMPT * want.vocab), 0, 2e-6);
            CHECK_NEAR(relative_rms(have.tap, want.tap, PROMPT * want.hidden), 0, 2e-6);
            free_outputs(&have);
            free_outputs(&want);
        }
        free(coded);
        free(plain);
    }
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

static void refused(int code, const char *part, struct quantize_request q, const char *out)
{
    struct err e = {0};
    const bool failed = quantize(q, out, NULL, &e) != 0;
    CHECK_MSG(failed && e.code == code && strstr(e.msg, part), "code %d: \"%s\" was expected, "
              "not %d: \"%s\"", code, part, e.code, e.msg);
}

static int count_temporaries(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(d));)
        n += strstr(entry->d_name, ".tmp.") != NULL;
    closedir(d);
    return n;
}

static bool stop_half_way(void *arg, const char *tensor, int64_t done, int64_t total)
{
    (void)arg;
    (void)tensor;
    return done > total / 2;
}

static void refusals(void)
{
    const struct quantize_request good = {.in = MINI, .type = "q8_0", .no_towers = true};
    struct quantize_request q = good;
    struct quantize_report r;
    struct err e = {0};
    made(good, "there.gguf");
    refused(EXIT_USAGE, "exists already", good, "there.gguf");
    q.type = "Q9_K";
    refused(EXIT_USAGE, "unknown", q, "x.gguf");
    q = (struct quantize_request){.in = MINI, .type = "q8_0", .tower_type = "q8_0"};
    refused(EXIT_USAGE, "F32, F16 or BF16", q, "x.gguf");
    q = good;
    q.in = "tests/data";
    refused(EXIT_BAD_INPUT, "model.safetensors", q, "x.gguf");
    q = good;
    q.imatrix = DATA "importances.gguf";        /* of a model with other widths */
    q.in = MODEL "tiny-a";
    if (path_is_dir(q.in))
        refused(EXIT_BAD_INPUT, "columns were expected", q, "x.gguf");
    q = good;
    q.force = true;
    q.out = "/dev/full";
    q.n_threads = 1;
    const bool failed = quantize_checkpoint(&q, NULL, NULL, &r, &e) != 0;
    CHECK_MSG(failed && e.code == EXIT_MACHINE, "%d %s", e.code, e.msg);
    quantize_report_free(&r);
    char *out = in_folder("stopped.gguf");
    q = good;
    q.out = out;
    CHECK(quantize_checkpoint(&q, stop_half_way, NULL, &r, &e) != 0 && e.code == EXIT_MACHINE && !file_exists(out));
    quantize_report_free(&r);
    CHECK(count_temporaries() == 0);
    free(out);
}

/* A model that could not run is refused before anything is written: here a layer lacks a matrix. */
static void incomplete_model(void)
{
    static const char *const files[] = {"config.json", "generation_config.json", "tokenizer.json"};
    static const char name[] = "model.language_model.layers.1.mlp.up_proj.weight";
    struct err e = {0};
    struct text content = {0};
    char *sub = in_folder("broken");
    CHECK(mkdir(sub, 0777) == 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *from = path_join(MINI, files[i]), *to = path_join(sub, files[i]);
        CHECK(file_read(from, 1 << 26, &content, &e) == 0 && file_write_atomic(to, content.data, content.len, &e) == 0);
        free(from);
        free(to);
    }
    char *to = path_join(sub, "model.safetensors");
    CHECK(file_read(MINI "/model.safetensors", 1 << 26, &content, &e) == 0);
    char *found = memmem(content.data, content.len, name, strlen(name));
    if (CHECK(found != NULL)) {
        memcpy(found, "Model", 5);
        CHECK(file_write_atomic(to, content.data, content.len, &e) == 0);
        refused(EXIT_BAD_INPUT, name, (struct quantize_request){.in = sub, .type = "q8_0", .no_towers = true}, "x.gguf");
    }
    DIR *d = opendir(sub);
    for (const struct dirent *entry; d && (entry = readdir(d));)
        unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
    rmdir(sub);
    text_free(&content);
    free(sub);
    free(to);
}

/* A projector of the same name stays if it is the same, and is not overwritten if it is not. */
static void projector_there(void)
{
    const struct quantize_request q = {.in = MINI, .type = "q8_0"};
    struct err e = {0};
    struct text before = {0}, now = {0};
    made(q, "m1.gguf");
    made(q, "m2.gguf");
    char *path = in_folder("mmproj-checkpoint-BF16.gguf");
    if (CHECK_MSG(file_read(path, 1 << 26, &before, &e) == 0, "%s", e.msg)) {
        before.data[before.len - 1] ^= 1;
        CHECK(file_write_atomic(path, before.data, before.len, &e) == 0);
        refused(EXIT_USAGE, "other towers", q, "m3.gguf");
        CHECK(file_read(path, 1 << 26, &now, &e) == 0 && now.len == before.len &&
              memcmp(now.data, before.data, now.len) == 0);
    }
    text_free(&before);
    text_free(&now);
    free(path);
}

static void clean_up(void)
{
    DIR *d = opendir(folder);
    for (const struct dirent *entry; d && (entry = readdir(d));)
        unlinkat(dirfd(d), entry->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    RUN(peer_files);
    RUN(fixtures);
    RUN(projectors);
    RUN(lossless);
    RUN(quantised);
    RUN(refusals);
    RUN(incomplete_model);
    RUN(projector_there);
    clean_up();
    return test_report();
}
