/* quantize_mlx.c - MLX output: a folder as mlx-lm's convert makes it, towers and probe included. Matrices whose rows
 * are whole groups become codes; all else is kept in the model's 16-bit type, as there, and the probe in float32. */
#include "engine/mlx.h"
#include "engine/quantize_folder.h"
#include "engine/safetensors_write.h"
#include "engine/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHARD ((uint64_t)5 << 30)

static const struct quantize_type types[] = {
    {"mlx-8", "MLX", "affine; groups of 32, 64 (unless --group says so) or 128"}, {"mlx-6", "MLX", "affine"},
    {"mlx-5", "MLX", "affine"}, {"mlx-4", "MLX", "affine"}, {"mlx-3", "MLX", "affine"}, {"mlx-2", "MLX", "affine"},
    {"mlx-mxfp8", "MLX", "E4M3, groups of 32 with a power of two"},
    {"mlx-mxfp4", "MLX", "E2M1, groups of 32 with a power of two"},
    {"mlx-nvfp4", "MLX", "E2M1, groups of 16 with a scale in E4M3"}, {0}};

/* ---- what the files hold --------------------------------------------------------------------------------------- */

/* A tensor and where its parts are: number `first` of the writer is the weight, scales and biases follow. */
struct item {
    const struct tensor *t;
    size_t first;
    bool coded;
    enum tensor_type type;      /* of plain numbers, or of scales and biases */
    int64_t columns;
};

struct output {
    struct quantize_job *job;
    struct mlx_format format;
    enum tensor_type type;      /* of the model */
    struct arena arena;
    struct item *item;
    size_t n;
    struct st_writer writer;
    struct staging staging;
    uint64_t parameters;
    bool has_probe;
};

static const char *const type_names[] = {[TENSOR_F32] = "F32", [TENSOR_F16] = "F16", [TENSOR_BF16] = "BF16"};

static size_t type_bytes(enum tensor_type type)
{
    return type == TENSOR_F32 ? 4 : 2;
}

static int choose_format(struct output *o, struct err *e)
{
    const char *name = o->job->type->name + strlen("mlx-");
    const int group = o->job->request->group;
    if (name[1] == '\0') {
        o->format = (struct mlx_format){MLX_AFFINE, *name - '0', group ? group : 64};
        if (o->format.group != 32 && o->format.group != 64 && o->format.group != 128)
            return err_set(e, EXIT_USAGE, "--group: 32, 64 or 128 was expected, not %d", group);
        return 0;
    }
    o->format = strcmp(name, "mxfp4") == 0   ? (struct mlx_format){MLX_MXFP4, 4, 32}
                : strcmp(name, "mxfp8") == 0 ? (struct mlx_format){MLX_MXFP8, 8, 32}
                                             : (struct mlx_format){MLX_NVFP4, 4, 16};
    if (group && group != o->format.group)
        return err_set(e, EXIT_USAGE, "--group: type %s has groups of %d", o->job->type->name, o->format.group);
    return 0;
}

/* config.json's word, else the type of the embeddings; BF16, Gemma 4's own, where these are codes. */
static enum tensor_type model_type(const struct quantize_job *job)
{
    static const struct { const char *name; enum tensor_type type; } types_by_name[] = {
        {"float32", TENSOR_F32}, {"float16", TENSOR_F16}, {"bfloat16", TENSOR_BF16}};
    const cJSON *config = job->documents.config.json, *text = json_get(config, "text_config");
    const char *said = json_string(config, "torch_dtype");
    said = said ? said : json_string(config, "dtype");
    said = said ? said : json_string(text, "dtype");
    for (size_t i = 0; said && i < 3; i++)
        if (strcmp(types_by_name[i].name, said) == 0)
            return types_by_name[i].type;
    struct text name = {0};
    text_printf(&name, "%sembed_tokens.weight", job->config.prefix);
    const struct tensor *t = weights_find(job->weights, name.data);
    text_free(&name);
    return t && t->type <= TENSOR_BF16 ? t->type : TENSOR_BF16;
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

static void add_part(struct output *o, const char *name, const char *part, const char *dtype, int64_t rows,
                     int64_t columns)
{
    struct text full = {0};
    text_printf(&full, "%.*s%s", (int)(strlen(name) - strlen("weight")), name, part);
    st_add(&o->writer, full.data, dtype, 2, (int64_t[]){rows, columns});
    text_free(&full);
}

static void add_codes(struct output *o, const struct tensor *t, const char *name, struct item *it)
{
    const struct mlx_format *f = &o->format;
    const int64_t rows = t->dim[0], groups = t->dim[1] / f->group;
    add_part(o, name, "weight", "U32", rows, t->dim[1] * f->bits / 32);
    add_part(o, name, "scales", f->mode == MLX_AFFINE ? type_names[o->type] : "U8", rows, groups);
    if (f->mode == MLX_AFFINE)
        add_part(o, name, "biases", type_names[o->type], rows, groups);
    it->coded = true;
    it->columns = t->dim[1];
}

/* A convolution's channels, dimension 1, move to the end. */
static void add_plain(struct output *o, const struct tensor *t, const char *name, struct item *it)
{
    int64_t dim[TENSOR_MAX_DIMS];
    memcpy(dim, t->dim, sizeof dim);
    if (mlx_is_convolution(t)) {
        memmove(dim + 1, dim + 2, (size_t)(t->n_dims - 2) * sizeof *dim);
        dim[t->n_dims - 1] = t->dim[1];
        it->columns = tensor_elements(t) / t->dim[0];
    }
    st_add(&o->writer, name, type_names[it->type], t->n_dims, dim);
}

/* Rows of a plain tensor pass together in pieces of some size. */
static int64_t plain_columns(const struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    return t->n_dims > 1 && t->dim[0] > 0 ? n / t->dim[0] : n;
}

static void plan_tensor(struct output *o, const struct tensor *t)
{
    struct quantize_job *job = o->job;
    const bool nested = json_get(job->documents.config.json, "text_config") != NULL;
    const bool useless = t->type == TENSOR_OTHER || !tensor_elements(t);
    const char *name = useless || (job->request->no_towers && quantize_is_tower(t)) ? NULL
                       : mlx_name(&o->arena, t->name, nested, job->config.n_layers, job->config.n_kv_shared_layers);
    struct item *it = &o->item[o->n];
    if (!name) {
        if (useless || strncmp(t->name, "model.", 6) != 0)
            text_printf(&job->report->notes, "left out: tensor %s (%s)\n", t->name, t->type_name);
        return;
    }
    const bool probe = strncmp(name, "handoff_probe.", 14) == 0;
    if (probe && job->request->no_probe)
        return;
    *it = (struct item){.t = t, .first = o->writer.n, .type = probe ? TENSOR_F32 : o->type,
                        .columns = plain_columns(t)};
    if (t->n_dims == 2 && mlx_quantises(name) && t->dim[1] % o->format.group == 0 && t->dim[1] % 32 == 0) {
        add_codes(o, t, name, it);
    } else {
        if (t->n_dims == 2 && mlx_quantises(name)) {
            job->report->n_fallbacks++;
            text_printf(&job->report->notes, "%s: rows of %lld are no whole groups of %d; it stays %s\n", name,
                        (long long)t->dim[1], o->format.group, type_names[o->type]);
        }
        add_plain(o, t, name, it);
    }
    o->has_probe |= probe;
    o->parameters += (uint64_t)tensor_elements(t);
    o->n++;
}

/* ---- coding ---------------------------------------------------------------------------------------------------- */

/* A row is its codes, then its scales, then its biases. */
struct coding { const struct output *o; const struct item *it; size_t codes, scales, biases; };

static bool finite_plain(const float *x, int64_t n, enum tensor_type type)
{
    bool ok = true;
    for (int64_t i = 0; i < n; i++)
        ok &= isfinite(x[i]) && (type != TENSOR_F16 || fabsf(x[i]) < 65520);
    return ok;
}

static bool code_row(void *arg, int64_t row, float *x, int64_t columns, uint8_t *out)
{
    const struct coding *c = arg;
    const struct mlx_format *f = &c->o->format;
    const size_t size = type_bytes(c->it->type), bytes = (size_t)(f->group * f->bits / 8);
    bool ok = finite_plain(x, columns, TENSOR_F32);
    (void)row;
    for (int64_t g = 0; ok && g < columns / f->group; g++) {
        float parameters[2] = {0};
        uint32_t plain;
        uint8_t *scale = out + c->codes + (size_t)g * (f->mode == MLX_AFFINE ? size : 1);
        mlx_encode(f, x + g * f->group, out + (size_t)g * bytes, &parameters[0], &parameters[1], scale);
        for (size_t i = 0; i < 2 && f->mode == MLX_AFFINE; i++) {
            f32_to_plain(c->it->type, &parameters[i], 1, &plain);
            memcpy(scale + i * c->scales, &plain, size);
        }
        ok = finite_plain(parameters, 2, c->it->type);
    }
    return ok;
}

/* Bounds and the like may be infinite, but must not become so. */
static bool copy_row(void *arg, int64_t row, float *x, int64_t columns, uint8_t *out)
{
    const struct coding *c = arg;
    const struct tensor *t = c->it->t;
    (void)row;
    for (int64_t i = 0; i < columns; i++)
        if (c->it->type == TENSOR_F16 && isfinite(x[i]) && fabsf(x[i]) >= 65520)
            return false;
    if (!mlx_is_convolution(t)) {
        f32_to_plain(c->it->type, x, columns, out);
        return true;
    }
    const int64_t channels = t->dim[1], pixels = columns / channels;
    const size_t size = type_bytes(c->it->type);
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t k = 0; k < channels; k++) {
            uint32_t plain;
            f32_to_plain(c->it->type, &x[k * pixels + p], 1, &plain);
            memcpy(out + (size_t)(p * channels + k) * size, &plain, size);
        }
    return true;
}

/* The parts of the rows to their tensors. */
static int put_rows(void *arg, const uint8_t *rows, int64_t first, int64_t n, struct err *e)
{
    const struct coding *c = arg;
    const size_t sizes[] = {c->codes, c->scales, c->biases}, all = c->codes + c->scales + c->biases;
    size_t skip = 0;
    for (size_t part = 0; part < 3 && sizes[part]; skip += sizes[part++]) {
        uint8_t *scratch = mem_alloc((size_t)n, sizes[part]);
        for (int64_t r = 0; r < n; r++)
            memcpy(scratch + (size_t)r * sizes[part], rows + (size_t)r * all + skip, sizes[part]);
        const int bad = st_put(&c->o->writer, c->it->first + part, (uint64_t)first * sizes[part], scratch,
                               (size_t)n * sizes[part], e);
        free(scratch);
        if (bad)
            return -1;
    }
    return 0;
}

static void report(struct output *o, const struct item *it, int file)
{
    const struct st_tensor *w = &o->writer.t[it->first];
    struct quantized q = {.name = mem_strdup(w->name), .from = it->t->type_name, .to = w->dtype,
                          .elements = tensor_elements(it->t), .bytes_before = it->t->n_bytes, .file = file};
    const size_t n_parts = !it->coded ? 1 : o->format.mode == MLX_AFFINE ? 3 : 2;
    for (size_t i = 0; i < n_parts; i++)
        q.bytes += w[i].n_bytes;
    if (it->coded)
        q.to = o->job->type->name;
    quantize_report_tensor(o->job->report, &q);
}

static int write_tensor(struct output *o, const struct item *it, struct err *e)
{
    struct coding c = {.o = o, .it = it};
    struct row_coder coder = {.arg = &c};
    const int64_t groups = it->columns / o->format.group;
    if (it->coded) {
        c.codes = (size_t)(it->columns * o->format.bits / 8);
        c.scales = (size_t)groups * (o->format.mode == MLX_AFFINE ? type_bytes(it->type) : 1);
        c.biases = o->format.mode == MLX_AFFINE ? c.scales : 0;
        coder.code = code_row;
        coder.why = "finite weights";
    } else {
        c.codes = (size_t)it->columns * type_bytes(it->type);
        coder.code = copy_row;
        coder.why = "numbers that float16 can hold";
    }
    coder.row_bytes = c.codes + c.scales + c.biases;
    return quantize_rows(o->job, it->t, it->columns, &coder, put_rows, &c, e);
}

/* ---- documents ------------------------------------------------------------------------------------------------- */

static int write_model_file(const struct output *o, struct err *e)
{
    struct text t = {0};
    const char *at = strchr(mlx_model_file, '@');
    text_put(&t, mlx_model_file, (size_t)(at - mlx_model_file));
    text_puts(&t, json_get(o->job->documents.config.json, "text_config") ? "gemma4" : "gemma4_text");
    text_puts(&t, at + 1);
    const int bad = staging_write(&o->staging, MLX_MODEL_FILE, t.data, t.len, e);
    text_free(&t);
    return bad;
}

/* The settings that the model file reads: the probe's widths are those of its tensors. */
static void describe_probe(const struct output *o, cJSON *config)
{
    static const char *const tensors[] = {"handoff_probe.proj.weight", "handoff_probe.head.0.weight",
                                          "handoff_probe.head.2.weight"};
    int64_t width[3] = {0};
    for (size_t i = 0; i < o->writer.n; i++)
        for (size_t k = 0; k < 3; k++)
            if (strcmp(o->writer.t[i].name, tensors[k]) == 0)
                width[k] = o->writer.t[i].dim[0];
    cJSON_AddStringToObject(config, "model_file", MLX_MODEL_FILE);
    cJSON_DeleteItemFromObjectCaseSensitive(config, "probe_dim");
    cJSON_DeleteItemFromObjectCaseSensitive(config, "probe_head_dims");
    cJSON_AddNumberToObject(config, "probe_dim", (double)width[0]);
    cJSON *head = cJSON_AddArrayToObject(config, "probe_head_dims");
    for (size_t k = 1; k < 3; k++)
        cJSON_AddItemToArray(head, cJSON_CreateNumber((double)width[k]));
}

static int write_config(const struct output *o, struct err *e)
{
    static const char *const modes[] = {[MLX_AFFINE] = "affine", [MLX_MXFP4] = "mxfp4", [MLX_MXFP8] = "mxfp8",
                                        [MLX_NVFP4] = "nvfp4"};
    static const char *const keys[] = {"quantization", "quantization_config"};
    cJSON *config = folder_config(o->job);
    for (size_t i = 0; i < 2; i++) {
        cJSON *q = cJSON_AddObjectToObject(config, keys[i]);
        cJSON_AddNumberToObject(q, "group_size", o->format.group);
        cJSON_AddNumberToObject(q, "bits", o->format.bits);
        cJSON_AddStringToObject(q, "mode", modes[o->format.mode]);
    }
    if (!json_get(config, "vocab_size"))            /* mlx-lm looks for it here, not in text_config */
        cJSON_AddNumberToObject(config, "vocab_size", o->job->config.vocab_size);
    if (o->has_probe)
        describe_probe(o, config);
    int bad = folder_json(&o->staging, "config.json", config, e);
    cJSON_Delete(config);
    return bad || (o->has_probe && write_model_file(o, e)) ? -1 : 0;
}

/* What mlx-lm's tokenizer wants besides tokenizer.json, where the input has no such file. */
static int write_tokenizer_config(const struct output *o, struct err *e)
{
    const struct config *c = &o->job->config;
    const struct { const char *key; int32_t id; } tokens[] = {
        {"bos_token", c->bos_id}, {"eos_token", c->n_eos ? c->eos_ids[0] : -1}, {"pad_token", c->pad_id}};
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "tokenizer_class", "PreTrainedTokenizerFast");
    cJSON_AddBoolToObject(json, "clean_up_tokenization_spaces", false);
    for (size_t i = 0; i < 3; i++) {
        const char *piece = tokens[i].id < 0 ? NULL : tokenizer_piece(o->job->tokenizer, tokens[i].id);
        if (piece)
            cJSON_AddStringToObject(json, tokens[i].key, piece);
    }
    const int bad = folder_json(&o->staging, "tokenizer_config.json", json, e);
    cJSON_Delete(json);
    return bad;
}

static int write_documents(const struct output *o, struct err *e)
{
    const struct documents *d = &o->job->documents;
    const struct { const char *name; const cJSON *json; } parts[] = {
        {"generation_config.json", d->generation.json},
        {"processor_config.json", d->processor.json}, {"preprocessor_config.json", NULL},
        {"special_tokens_map.json", NULL}, {"handoff_probe.json", NULL}};
    bool copied;
    if (write_config(o, e) || folder_tokenizer(o->job, &o->staging, e))
        return -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (folder_document(o->job, &o->staging, parts[i].name, parts[i].json, e))
            return -1;
    if (folder_copy(o->job, &o->staging, "tokenizer_config.json", &copied, e) ||
        (!copied && write_tokenizer_config(o, e)) ||
        folder_copy(o->job, &o->staging, "chat_template.jinja", &copied, e))
        return -1;
    return copied || !d->has_template ? 0
           : staging_write(&o->staging, "chat_template.jinja", d->chat_template.data, d->chat_template.len, e);
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static int write_weights(struct output *o, int file, struct err *e)
{
    if (st_begin(&o->writer, &o->staging, "mlx", MAX_SHARD, e))
        return -1;
    for (size_t i = 0; i < o->n; i++) {
        report(o, &o->item[i], file);
        if (write_tensor(o, &o->item[i], e))
            return -1;
    }
    return st_finish(&o->writer, &o->staging, o->parameters, e);
}

static int write_mlx(struct quantize_job *job, struct err *e)
{
    struct output o = {.job = job, .type = model_type(job)};
    if (folder_check_request(job, e) || choose_format(&o, e))
        return -1;
    char *path = staging_target(job->request->out, job->name, job->type->name);
    o.item = NEW(struct item, weights_count(job->weights));
    for (size_t i = 0; i < weights_count(job->weights); i++)
        plan_tensor(&o, weights_at(job->weights, i));
    int bad = staging_open(&o.staging, path, job->request->force, e);
    if (!bad && (write_documents(&o, e) || write_weights(&o, quantize_report_file(job->report, path), e) ||
                 staging_finish(&o.staging, e)))
        bad = -1;
    staging_abandon(&o.staging);
    st_free(&o.writer);
    arena_free(&o.arena);
    free(o.item);
    free(path);
    return bad;
}

const struct quantize_format quantize_mlx = {.types = types, .write = write_mlx};
