/* quantize_gguf.c - GGUF output: the decoder and the probe in the model file, the towers in a projector file beside it,
 * as llama.cpp's converter and llama-quantize divide and type them. */
#define _GNU_SOURCE                     /* strcasecmp */
#include "engine/gguf_metadata.h"
#include "engine/gguf_mix.h"
#include "engine/gguf_model.h"
#include "engine/quantize_blocks.h"
#include "engine/quantize_job.h"
#include "engine/vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct quantize_type types[] = {
    {"F32", "GGUF", "every number as it is"}, {"F16", "GGUF", "16 bits"}, {"BF16", "GGUF", "16 bits, range of F32"},
    {"Q8_0", "GGUF", "8.5 bits a weight"}, {"Q6_K", "GGUF", "6.6"},
    {"Q5_K_M", "GGUF", "5.5, sensitive matrices 6.6"}, {"Q5_K_S", "GGUF", "5.5"}, {"Q5_1", "GGUF", "6.0"},
    {"Q5_0", "GGUF", "5.5"}, {"Q4_K_M", "GGUF", "4.5, sensitive matrices 6.6"}, {"Q4_K_S", "GGUF", "4.5"},
    {"Q4_1", "GGUF", "5.0"}, {"Q4_0", "GGUF", "4.5"}, {"IQ4_NL", "GGUF", "4.5"}, {"IQ4_XS", "GGUF", "4.25"},
    {"Q3_K_L", "GGUF", "3.4, sensitive matrices 5.5"}, {"Q3_K_M", "GGUF", "3.4, sensitive matrices 4.5"},
    {"Q3_K_S", "GGUF", "3.4"}, {"Q2_K", "GGUF", "2.6, sensitive matrices 3.4"},
    {0}};

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* A tensor of the file: under its new name and in its new layout, with the type that it gets. */
struct item {
    struct tensor t;
    const struct ggml_type *type;
    const float *importance;    /* of its columns, or NULL */
    const char *from;           /* the input's type and bytes */
    size_t bytes_before;
};
struct file { struct arena arena; struct item *item; size_t n, cap; int64_t elements; };

static void add_item(struct file *f, const struct tensor *t, const struct tensor *from, const struct ggml_type *type)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 512;
        f->item = mem_grow(f->item, f->cap, sizeof *f->item);
    }
    f->item[f->n++] = (struct item){.t = *t, .type = type, .from = from->type_name, .bytes_before = from->n_bytes};
    f->elements += tensor_elements(t);
}

static void file_free(struct file *f)
{
    arena_free(&f->arena);
    free(f->item);
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Layers in their order, what is in none in front; then by name: the order that the mixes count in. */
static int by_layer(const void *a, const void *b)
{
    const char *x = ((const struct item *)a)->t.name, *y = ((const struct item *)b)->t.name;
    int layer[2] = {-1, -1};
    sscanf(x, "blk.%d.", &layer[0]);
    sscanf(y, "blk.%d.", &layer[1]);
    return layer[0] != layer[1] ? (layer[0] < layer[1] ? -1 : 1) : strcmp(x, y);
}

/* ---- the model file -------------------------------------------------------------------------------------------- */

/* Pairs of a full layer that turn have the divisor 1, the others one that stops them. */
static void add_rope_divisors(struct file *f, const struct attention_kind *full)
{
    const int n = full->head_dim / 2;
    float *divisor = ARENA_NEW(&f->arena, float, n);
    for (int i = 0; i < n; i++)
        divisor[i] = i < full->rope_pairs ? 1 : 1e30f;
    const struct tensor t = {.name = "rope_freqs.weight", .file = "", .type = TENSOR_F32, .type_name = "F32",
                             .n_dims = 1, .dim = {n}, .data = divisor, .n_bytes = (size_t)n * sizeof *divisor};
    add_item(f, &t, &t, ggml_type_named("F32"));
}

static bool is_gguf(const struct quantize_job *job)
{
    return !path_is_dir(job->request->in) && !weights_bundle(job->weights);
}

static bool is_probe(const char *name)
{
    return strncmp(name, "probe.", 6) == 0;
}

/* Everything that is not a tower's, under the file's names. Of a GGUF input also tensors that are unknown here. */
static void collect_model(struct file *f, struct quantize_job *job, bool *with_probe)
{
    bool has_divisors = false;
    for (size_t i = 0; i < weights_count(job->weights); i++) {
        struct tensor t = *weights_at(job->weights, i);
        if (quantize_is_tower(&t))
            continue;
        const char *name = gguf_file_name(&f->arena, t.name);
        if (!name && is_gguf(job))
            name = t.name;
        if (!name || t.type == TENSOR_OTHER || t.n_dims > 4) {
            text_printf(&job->report->notes, "left out: tensor %s (%s)\n", t.name, t.type_name);
            continue;
        }
        if (is_probe(name) && job->request->no_probe)
            continue;
        *with_probe |= is_probe(name);
        has_divisors |= strcmp(name, "rope_freqs.weight") == 0;
        t.name = name;
        add_item(f, &t, &t, NULL);
    }
    if (!has_divisors)
        add_rope_divisors(f, &job->config.kind[1]);
    qsort(f->item, f->n, sizeof *f->item, by_layer);
}

/* Matrices get the mix's type; vectors, norms and the probe stay float32. */
static void choose_types(struct file *f, struct quantize_job *job, const struct gguf_mix *mix)
{
    const struct ggml_type *f32 = ggml_type_named("F32"), *base = ggml_type_named(mix->base);
    struct gguf_mixing m = {.mix = mix, .n_layers = job->config.n_layers, .has_importances = job->imatrix,
                            .heads_per_kv = job->config.n_heads / job->config.n_kv_heads};
    for (size_t i = 0; i < f->n; i++)
        m.n_attn_v += strstr(f->item[i].t.name, "attn_v.weight") != NULL;
    for (size_t i = 0; i < f->n; i++) {
        struct item *it = &f->item[i];
        const struct tensor *t = &it->t;
        const struct ggml_type *mixed = NULL, *stored = gguf_stored_type(t);
        const bool matrix = t->n_dims >= 2 && !ends_with(t->name, "_norm.weight") &&
                            !is_probe(t->name);
        if (matrix && base->block_elements > 1)
            mixed = gguf_mix_type(&m, t->name, t->dim[t->n_dims - 1]);
        it->type = !matrix ? f32 : base->block_elements == 1 ? base : mixed ? mixed : stored ? stored : f32;
        job->report->n_fallbacks += mixed && m.fell_back;
    }
}

/* Embeddings are looked up, not multiplied: tools that count them do so in another way. */
static int find_importances(struct file *f, struct quantize_job *job, struct err *e)
{
    int missing = 0;
    for (size_t i = 0; i < f->n && job->imatrix; i++) {
        struct item *it = &f->item[i];
        const struct imatrix_entry *entry = imatrix_find(job->imatrix, it->t.name);
        const int64_t columns = it->t.n_dims ? it->t.dim[it->t.n_dims - 1] : 1;
        if (it->type->block_elements == 1 || gguf_stored_type(&it->t) == it->type)
            continue;
        if (entry && entry->n == columns)
            it->importance = entry->value;
        else if (entry && !strstr(it->t.name, "token_embd"))
            return err_input(e, "%s: importances of %s: %lld columns were expected, not %lld", job->request->imatrix,
                             it->t.name, (long long)columns, (long long)entry->n);
        missing += !it->importance;
    }
    if (missing)
        text_printf(&job->report->notes, "%d matrices have no importances in %s\n", missing, job->request->imatrix);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

struct coding { const struct ggml_type *type; const float *importance; bool any_value; };

static bool code_row(void *arg, int64_t row, float *x, int64_t columns, uint8_t *out)
{
    const struct coding *c = arg;
    const float limit = c->type->id == 1 ? 65520 : INFINITY;
    int beyond = 0;
    (void)row;
    for (int64_t i = 0; i < columns; i++)
        beyond |= !(fabsf(x[i]) < limit);
    const bool fits = !beyond;
    if (fits || c->any_value)
        quantize_row(c->type, x, columns, c->importance, out);
    return fits || c->any_value;
}

struct sink { const struct file_out *out; size_t row_bytes; };

static int write_rows(void *arg, const uint8_t *rows, int64_t first, int64_t n, struct err *e)
{
    const struct sink *s = arg;
    (void)first;
    return file_out_put(s->out, rows, (size_t)n * s->row_bytes, e);
}

static int copy_tensor(struct quantize_job *job, const struct tensor *t, const struct file_out *out, struct err *e)
{
    enum { PIECE = 8 << 20 };
    int bad = 0;
    for (size_t at = 0; at < t->n_bytes && !bad; at += PIECE) {
        const size_t n = t->n_bytes - at < PIECE ? t->n_bytes - at : PIECE;
        const uint8_t *piece = (const uint8_t *)t->data + at;
        bad = file_out_put(out, piece, n, e) || quantize_step(job, t->name, (int64_t)n, e);
        weights_forget(job->weights, piece, n);
    }
    return bad;
}

static int write_tensor(struct quantize_job *job, const struct item *it, const struct file_out *out, struct err *e)
{
    const struct tensor *t = &it->t;
    const int64_t columns = t->n_dims ? t->dim[t->n_dims - 1] : 1;
    if (gguf_stored_type(t) == it->type)
        return copy_tensor(job, t, out, e);
    /* The bounds of a clipped layer may be infinite. */
    struct coding c = {.type = it->type, .importance = it->importance,
                       .any_value = ends_with(t->name, "put_min") || ends_with(t->name, "put_max")};
    struct sink s = {out, gguf_row_bytes(it->type, columns)};
    const struct row_coder coder = {s.row_bytes, code_row, &c,
                                    it->type->id == 1 ? "finite weights that fit in F16" : "finite weights"};
    return quantize_rows(job, t, columns, &coder, write_rows, &s, e);
}

static int write_data(struct quantize_job *job, const struct file *f, const struct gguf_out *g,
                      const struct file_out *out, int index, struct err *e)
{
    if (gguf_write_header(g, out, e))
        return -1;
    for (size_t i = 0; i < f->n; i++) {
        const struct item *it = &f->item[i];
        const struct tensor *t = &it->t;
        const int64_t n = tensor_elements(t), columns = t->n_dims ? t->dim[t->n_dims - 1] : 1;
        const size_t bytes = (size_t)(columns ? n / columns : 0) * gguf_row_bytes(it->type, columns);
        if (write_tensor(job, it, out, e) || gguf_write_padding(out, bytes, e))
            return -1;
        const struct quantized done = {.name = mem_strdup(t->name), .from = it->from, .to = it->type->name,
                                       .elements = n, .bytes_before = it->bytes_before, .bytes = bytes, .file = index};
        quantize_report_tensor(job->report, &done);
    }
    return 0;
}

/* g has the metadata. `out` is left for file_out_finish. */
static int write_file(struct quantize_job *job, const struct file *f, struct gguf_out *g, const char *path,
                      struct file_out *out, struct err *e)
{
    for (size_t i = 0; i < f->n; i++)
        gguf_add_tensor(g, f->item[i].t.name, f->item[i].t.n_dims, f->item[i].t.dim, f->item[i].type);
    if (file_out_open(out, path, e))
        return -1;
    if (write_data(job, f, g, out, quantize_report_file(job->report, path), e)) {
        file_out_drop(out);
        return -1;
    }
    return 0;
}

/* The metadata of a GGUF input are copied: there may be more in them than this program knows. */
static int copy_metadata(struct gguf_out *g, const char *path, bool with_probe, int file_type, struct err *e)
{
    struct mapped input;
    struct arena a = {0};
    struct gguf from;
    if (map_open(&input, path, e))
        return -1;
    const int bad = gguf_parse(&input, &a, &from, e);
    if (!bad)
        gguf_copy_metadata(g, &from, with_probe, file_type);
    arena_free(&a);
    map_close(&input);
    return bad;
}

static int put_metadata(struct gguf_out *g, const struct quantize_job *job, const struct file *f, bool with_probe,
                        int file_type, struct err *e)
{
    int bad = 0;
    if (is_gguf(job))
        bad = copy_metadata(g, job->request->in, with_probe, file_type, e);
    else
        gguf_model_metadata(g, job, with_probe, file_type, f->elements);
    if (job->imatrix)
        gguf_imatrix_metadata(g, job->imatrix, job->request->imatrix);
    return bad;
}

static int write_model(struct quantize_job *job, const char *path, struct err *e)
{
    struct file f = {0};
    struct gguf_out g = {0};
    bool with_probe = false;
    const struct gguf_mix *mix = gguf_mix_named(job->type->name);
    collect_model(&f, job, &with_probe);
    choose_types(&f, job, mix);
    struct file_out out;
    const int bad = find_importances(&f, job, e) || put_metadata(&g, job, &f, with_probe, mix->file_type, e) ||
                    write_file(job, &f, &g, path, &out, e) || file_out_finish(&out, e);
    gguf_out_free(&g);
    file_free(&f);
    return bad;
}

/* ---- the projector file ---------------------------------------------------------------------------------------- */

/* Convolutions and tables stay float32 as the converter has them; so do vectors. ggml has no convolution of BF16. */
static bool is_wide(const struct tensor *t, const char *type)
{
    const bool audio = strstr(t->name, "audio_tower.") != NULL;
    return t->n_dims < 2 || ends_with(t->name, "_norm.weight") || strstr(t->name, "position_embedding_table") ||
           (strstr(t->name, "patch_embedder") && strcmp(type, "F16") != 0) || (audio && (strstr(t->name, ".conv") || strstr(t->name, "_conv")));
}

/* What was asked for, or the type that all matrices have, or else F32. */
static const char *tower_type(const struct quantize_job *job, struct err *e)
{
    static const char *const known[] = {"F32", "F16", "BF16"};
    const char *asked = job->request->tower_type, *stored = NULL;
    for (size_t i = 0; asked && i < 3; i++)
        if (strcasecmp(asked, known[i]) == 0)
            return known[i];
    if (asked) {
        err_set(e, EXIT_USAGE, "type \"%s\" for the towers: F32, F16 or BF16 was expected", asked);
        return NULL;
    }
    for (size_t i = 0; i < weights_count(job->weights); i++) {
        const struct tensor *t = weights_at(job->weights, i);
        if (!quantize_is_tower(t) || is_wide(t, "BF16"))
            continue;
        if (t->type > TENSOR_BF16 || (stored && strcmp(stored, tensor_type_name(t->type)) != 0))
            return known[0];
        stored = tensor_type_name(t->type);
    }
    return stored ? stored : known[0];
}

/* The towers as the engine would open them; both NULL if there are none. */
struct towers { struct vision *vision; struct audio *audio; };

static int open_towers(struct towers *t, const struct quantize_job *job, struct err *e)
{
    const cJSON *config = job->documents.config.json, *processor = job->documents.processor.json;
    *t = (struct towers){0};
    if (tower_in(config, job->weights, "vision_config", "model.vision_tower.") &&
        vision_open(&t->vision, job->weights, config, processor, 0, e))
        return -1;
    return tower_in(config, job->weights, "audio_config", "model.audio_tower.") &&
           audio_open(&t->audio, job->weights, config, processor, e) ? -1 : 0;
}

static void close_towers(struct towers *t)
{
    vision_close(t->vision);
    audio_close(t->audio);
}

static void collect_towers(struct file *f, struct quantize_job *job, const struct towers *towers, const char *type)
{
    for (size_t i = 0; i < weights_count(job->weights); i++) {
        struct tensor t = *weights_at(job->weights, i);
        const bool audio = strstr(t.name, "audio_tower.") || strstr(t.name, "embed_audio.");
        if (!quantize_is_tower(&t) || !(audio ? towers->audio != NULL : towers->vision != NULL))
            continue;
        const bool wide = is_wide(&t, type);
        const char *name = gguf_file_name(&f->arena, t.name);
        if (!name || t.type == TENSOR_OTHER || t.n_dims > 4) {
            text_printf(&job->report->notes, "left out: tensor %s (%s)\n", t.name, t.type_name);
            continue;
        }
        gguf_projector_layout(&f->arena, &t, towers->vision ? towers->vision->grid.patch : 1);
        t.name = name;
        add_item(f, &t, weights_at(job->weights, i), ggml_type_named(wide ? "F32" : type));
    }
}

/* A file of this name may be there from an earlier quant of the same model: it stays if it has the same bytes. */
static int keep_or_finish(const struct quantize_job *job, struct file_out *out, struct err *e)
{
    struct mapped before = {0}, now = {0};
    if (job->request->force || !file_exists(out->path))
        return file_out_finish(out, e);
    const int bad = map_open(&before, out->path, e) || map_open(&now, out->temporary, e);
    const bool same = !bad && before.size == now.size && memcmp(before.data, now.data, now.size) == 0;
    if (!bad && !same)
        err_set(e, EXIT_USAGE, "%s: it exists already, with other towers (--force replaces it)", out->path);
    map_close(&before);
    map_close(&now);
    file_out_drop(out);
    return same ? 0 : -1;
}

static int write_towers(struct quantize_job *job, const struct towers *towers, const char *folder, struct err *e)
{
    struct file f = {0};
    struct gguf_out g = {0};
    struct file_out out;
    struct text name = {0};
    const char *type = tower_type(job, e);
    if (!type)
        return -1;
    text_printf(&name, "%smmproj-%s-%s.gguf", folder, job->name, type);
    collect_towers(&f, job, towers, type);
    gguf_projector_metadata(&g, job, towers->vision ? &towers->vision->grid : NULL, towers->audio != NULL,
                            gguf_mix_named(type)->file_type, f.elements);
    int bad = write_file(job, &f, &g, name.data, &out, e) || keep_or_finish(job, &out, e);
    gguf_out_free(&g);
    file_free(&f);
    text_free(&name);
    return bad ? -1 : 0;
}

/* A projector file stays what it is. */
static int copy_projector(struct quantize_job *job, const char *folder, struct err *e)
{
    struct mapped from;
    struct file_out out;
    struct text name = {0};
    const char *base = path_base(job->projector);
    if (map_open(&from, job->projector, e))
        return -1;
    text_printf(&name, "%s%s%s", folder, strncmp(base, "mmproj", 6) == 0 ? "" : "mmproj-", base);
    int bad = file_out_open(&out, name.data, e);
    if (!bad) {
        quantize_report_file(job->report, name.data);
        bad = file_out_put(&out, from.data, from.size, e);
        if (bad)
            file_out_drop(&out);
        bad = bad || keep_or_finish(job, &out, e);
    }
    text_free(&name);
    map_close(&from);
    return bad ? -1 : 0;
}

static int write_projector(struct quantize_job *job, const char *model_path, struct err *e)
{
    char *folder = mem_strndup(model_path, (size_t)(path_base(model_path) - model_path)), *found = NULL;
    struct towers towers = {0};
    int bad = 0, n_beside = 0;
    if (job->projector && job->request->tower_type)
        bad = err_set(e, EXIT_USAGE, "--mmproj-type: the towers of a GGUF model are copied as they are");
    else if (job->projector)
        bad = copy_projector(job, folder, e);
    else if (!job->request->no_towers)
        bad = open_towers(&towers, job, e) ||
              ((towers.vision || towers.audio) && write_towers(job, &towers, folder, e));
    close_towers(&towers);
    documents_projector(&found, &n_beside, model_path, NULL);
    if (!bad && n_beside > 1)
        text_printf(&job->report->notes, "%d files mmproj*.gguf lie beside the model: name one with --mmproj\n",
                    n_beside);
    free(found);
    free(folder);
    return bad ? -1 : 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

/* A name of its own if a folder was given. */
static char *out_path(const struct quantize_job *job)
{
    const char *out = job->request->out;
    if (!path_is_dir(out))
        return mem_strdup(out);
    struct text name = {0};
    text_printf(&name, "%s-%s.gguf", job->name, job->type->name);
    char *path = path_join(out, name.data);
    text_free(&name);
    return path;
}

static int write_gguf(struct quantize_job *job, struct err *e)
{
    char *path = out_path(job);
    const int bad = quantize_check_out(job, path, e) || write_projector(job, path, e) || write_model(job, path, e);
    free(path);
    return bad;
}

const struct quantize_format quantize_gguf = {types, write_gguf};
