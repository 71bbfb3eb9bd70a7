/* quantize_cq.c - Cactus output: a bundle as the Cactus converter makes it without calibration and without compiled
 * graphs. Which tensor gets which code is the converter's rule for Gemma 4: matrices of the decoder as asked for,
 * embeddings in 4 bits under a rotation of whole rows, the per-layer table as asked for; norms, towers, and rows that
 * are no whole groups of 128 in float16. */
#include "engine/quantize_cq.h"

#include "engine/cq.h"
#include "engine/cq_encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct quantize_type types[] = {{"cq4", "Cactus", "4 bits and a norm for 128 columns"},
                                             {"cq3", "Cactus", "3 bits"}, {"cq2", "Cactus", "2 bits"},
                                             {"cq1", "Cactus", "1 bit"}, {0}};

enum { MAX_ROTATION = 8192 };           /* columns; the file holds the matrix */

struct item {
    const struct tensor *t;
    const char *file, *component, *why;     /* why: it is float16, NULL: it is not */
    struct cq_target target;
    uint64_t bytes;
};

struct output {
    struct quantize_job *job;
    struct arena arena;
    struct staging staging;
    struct cq_common common;
    struct item *item;
    size_t n;
    int bits;
};

/* ---- the converter's rules ------------------------------------------------------------------------------------- */

static bool has(const char *s, const char *part)
{
    return strstr(s, part) != NULL;
}

static const char *component_of(const char *file)
{
    return has(file, "vision_") ? "vision" : has(file, "audio_") ? "audio"
           : strcmp(file, "token_embeddings.weights") == 0 || strcmp(file, "embed_tokens_per_layer.weights") == 0
             ? "embedding" : "language";
}

/* Sets precision and layout of a tensor; the first rule that fits wins. */
static void choose(const struct output *o, struct item *it)
{
    const struct tensor *t = it->t;
    struct cq_target *c = &it->target;
    const char *file = it->file;
    const bool table = strcmp(file, "embed_tokens_per_layer.weights") == 0;
    const bool head = strcmp(file, "token_embeddings.weights") == 0 || strcmp(file, "output_weight.weights") == 0;
    const int64_t rows = t->n_dims == 2 ? t->dim[0] : 0, columns = t->n_dims == 2 ? t->dim[1] : 0;
    *c = (struct cq_target){.n_dims = t->n_dims, .scale = cq_scale(file),
                            .any_value = has(file, "put_min") || has(file, "put_max")};
    memcpy(c->dim, t->dim, sizeof c->dim);
    it->why = has(file, "norm") ? "norm tensor"
              : strcmp(file, "embed_vision_proj.weights") == 0 ? "vision embedding projection scale-sensitive"
              : has(file, ".bias") ? "bias tensor"
              : t->n_dims != 2 ? "non-2d tensor"
              : has(file, "position_embedding") ? "position embedding tensor"
              : !table && !head && columns % CQ_GROUP ? "input width is not aligned to CQ group size 128"
              : !table && !head && strcmp(it->component, "language") != 0 ? "gemma4 media tower accuracy"
              : head && (columns % 8 || columns > MAX_ROTATION) ? "input width has no rotation" : NULL;
    if (it->why)
        return;
    c->bits = head ? 4 : o->bits;
    c->orthogonal = head;
    c->blocks_of_4 = rows % 4 == 0 && (head ? columns % 32 == 0 : !table);
}

/* The tensors of a text-only checkpoint count as those of the multimodal one. */
static const char *full_name(struct output *o, const struct tensor *t)
{
    const char *prefix = o->job->config.prefix;
    const size_t n = strlen(prefix);
    if (quantize_is_tower(t) || strncmp(t->name, prefix, n) != 0)
        return t->name;
    return arena_printf(&o->arena, "model.language_model.%s", t->name + n);
}

static bool is_probe(const char *name)
{
    return strncmp(name, "handoff_probe.", 14) == 0 || strncmp(name, "probe.", 6) == 0;
}

static void plan_tensor(struct output *o, const struct tensor *t)
{
    struct item *it = &o->item[o->n];
    if (is_probe(t->name) || (o->job->request->no_towers && quantize_is_tower(t)))
        return;
    *it = (struct item){.t = t, .file = cq_file_name(&o->arena, full_name(o, t))};
    if (!it->file || t->type == TENSOR_OTHER || t->n_dims > 4 || !tensor_elements(t)) {
        text_printf(&o->job->report->notes, "left out: tensor %s (%s)\n", t->name, t->type_name);
        return;
    }
    it->component = component_of(it->file);
    choose(o, it);
    o->n++;
}

/* ---- tensor files ---------------------------------------------------------------------------------------------- */

struct coding { const struct cq_file *f; struct staged_file out; };

static bool code_unit(void *arg, int64_t row, float *x, int64_t columns, uint8_t *out)
{
    const struct cq_file *f = ((const struct coding *)arg)->f;
    (void)row;
    for (int64_t i = 0; i < columns; i++)
        if (f->t.bits ? !isfinite(x[i]) : isnan(x[i]))
            return false;
    return cq_code_unit(f, x, out, out + f->unit_norms);
}

static int put_units(void *arg, const uint8_t *units, int64_t first, int64_t n, struct err *e)
{
    const struct coding *c = arg;
    const struct cq_file *f = c->f;
    const size_t size = f->unit_norms + f->unit_codes;
    uint8_t *norms = mem_alloc((size_t)n, size), *codes = norms + (size_t)n * f->unit_norms;
    for (int64_t i = 0; i < n; i++) {
        memcpy(norms + (size_t)i * f->unit_norms, units + (size_t)i * size, f->unit_norms);
        memcpy(codes + (size_t)i * f->unit_codes, units + (size_t)i * size + f->unit_norms, f->unit_codes);
    }
    const int bad = staged_put(&c->out, f->norms_at + (uint64_t)first * f->unit_norms, norms,
                               (size_t)n * f->unit_norms, e) ||
                    staged_put(&c->out, f->codes_at + (uint64_t)first * f->unit_codes, codes,
                               (size_t)n * f->unit_codes, e);
    free(norms);
    return bad;
}

static int write_tensor(struct output *o, struct item *it, struct err *e)
{
    struct cq_file f;
    cq_file_plan(&f, &it->target, &o->common, o->job->pool);
    struct coding c = {.f = &f};
    const struct row_coder coder = {.row_bytes = f.unit_norms + f.unit_codes, .code = code_unit, .arg = &c,
                                    .why = "numbers whose code float16 can hold"};
    int bad = staged_open(&c.out, &o->staging, it->file, e) || staged_put(&c.out, 0, f.head.data, f.head.len, e) ||
              (f.middle.len && staged_put(&c.out, f.codes_at - f.middle.len, f.middle.data, f.middle.len, e)) ||
              quantize_rows(o->job, it->t, f.unit_columns, &coder, put_units, &c, e);
    if (staged_close(&c.out, bad ? NULL : e))
        bad = -1;
    it->bytes = f.size;
    cq_file_free(&f);
    return bad ? -1 : 0;
}

/* ---- the probe ------------------------------------------------------------------------------------------------- */

static void put_u32(struct text *t, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        text_putc(t, (int)(v >> 8 * i & 0xff));
}

/* Appends the tensor `rest` of the probe, whatever spelling it has, of the given size. */
static int put_probe_part(struct output *o, const char *prefix, const char *rest, int n_dims, int64_t rows,
                          int64_t columns, struct text *out, struct err *e)
{
    const struct weights *w = o->job->weights;
    const char *name = arena_printf(&o->arena, "%s%s", prefix, rest);
    const char *other = arena_printf(&o->arena, "%s.weight", name);
    float *x = weights_read(w, weights_find(w, other) ? other : name, n_dims, (int64_t[]){rows, columns}, e);
    if (x)
        text_put(out, x, (size_t)(rows * (n_dims == 2 ? columns : 1)) * sizeof *x);
    free(x);
    return x ? 0 : -1;
}

static int64_t rows_of(struct output *o, const char *prefix, const char *rest, int dim)
{
    const struct tensor *t = weights_find(o->job->weights, arena_printf(&o->arena, "%s%s", prefix, rest));
    return t && t->n_dims == 2 ? t->dim[dim] : 0;
}

static int write_probe_file(struct output *o, const char *prefix, struct err *e)
{
    const int64_t feat = rows_of(o, prefix, "proj.weight", 1), t_h = rows_of(o, prefix, "proj.weight", 0);
    const int64_t h1 = rows_of(o, prefix, "head.0.weight", 0), h2 = rows_of(o, prefix, "head.2.weight", 0);
    const struct { const char *rest; int n_dims; int64_t rows, columns; } parts[] = {
        {"norm.weight", 1, feat, 1}, {"norm.bias", 1, feat, 1}, {"proj.weight", 2, t_h, feat}, {"proj.bias", 1, t_h, 1},
        {"attn_query", 1, t_h, 1}, {"head.0.weight", 2, h1, t_h}, {"head.0.bias", 1, h1, 1},
        {"head.2.weight", 2, h2, h1}, {"head.2.bias", 1, h2, 1}, {"head.4.weight", 2, 1, h2}, {"head.4.bias", 1, 1, 1}};
    struct text out = {0}, json = {0};
    int bad = 0;
    text_put(&out, "CHP10P6", 8);
    put_u32(&out, 1);
    put_u32(&out, (uint32_t)feat);
    put_u32(&out, (uint32_t)t_h);
    put_u32(&out, (uint32_t)h1);
    put_u32(&out, (uint32_t)h2);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !bad; i++)
        bad = put_probe_part(o, prefix, parts[i].rest, parts[i].n_dims, parts[i].rows, parts[i].columns, &out, e);
    const cJSON *layer = json_get(o->job->documents.config.json, "probe_layer");
    if (cJSON_IsNumber(layer))
        text_printf(&json, "{\n  \"format\": \"cactus_handoff_probe_v10p6\",\n  \"layer\": %d,\n"
                    "  \"feat_dim\": %lld,\n  \"t_h\": %lld\n}\n", layer->valueint, (long long)feat, (long long)t_h);
    bad = bad || staging_write(&o->staging, "handoff_probe.bin", out.data, out.len, e) ||
          (json.len && staging_write(&o->staging, "handoff_probe.json", json.data, json.len, e));
    text_free(&out);
    text_free(&json);
    return bad ? -1 : 0;
}

static int write_probe(struct output *o, struct err *e)
{
    static const char *const prefixes[] = {"handoff_probe.", "probe."};
    for (size_t i = 0; i < 2 && !o->job->request->no_probe; i++)
        if (rows_of(o, prefixes[i], "proj.weight", 0))
            return write_probe_file(o, prefixes[i], e);
    return 0;
}

/* ---- manifests ------------------------------------------------------------------------------------------------- */

static const char *precision_of(const struct item *it)
{
    static const char *const names[] = {"FP16", "CQ1", "CQ2", "CQ3", "CQ4"};
    return names[it->target.bits];
}

static void put_key(struct text *t, const char *key, const char *value)
{
    text_printf(t, ", \"%s\": ", key);
    if (value)
        json_put_string(t, value, strlen(value));
    else
        text_puts(t, "null");
}

/* One record; `file_key` is what the manifest calls the file. */
static void put_record(struct text *t, const struct item *it, const char *file_key)
{
    text_puts(t, "{\"hf_name\": ");
    json_put_string(t, it->t->name, strlen(it->t->name));
    put_key(t, "source_name", it->t->name);
    put_key(t, file_key, it->file);
    text_puts(t, ", \"shape\": [");
    for (int i = 0; i < it->t->n_dims; i++)
        text_printf(t, "%s%lld", i ? ", " : "", (long long)it->t->dim[i]);
    text_puts(t, "]");
    put_key(t, "precision", precision_of(it));
    text_printf(t, ", \"bits\": ");
    if (it->target.bits)
        text_printf(t, "%d", it->target.bits);
    else
        text_puts(t, "null");
    text_puts(t, ", \"scale_factor\": ");
    json_put_double(t, it->target.scale);
    put_key(t, "status", it->why ? "fallback" : "converted");
    put_key(t, "component", it->component);
    put_key(t, "fallback_reason", it->why);
    put_key(t, "transform", "none");
    text_printf(t, ", \"bytes\": %llu}", (unsigned long long)it->bytes);
}

static int write_manifests(const struct output *o, struct err *e)
{
    struct text all = {0}, shorter = {0};
    text_puts(&all, "[\n");
    text_puts(&shorter, "{\"weights\": [\n");
    for (size_t i = 0; i < o->n; i++) {
        put_record(&all, &o->item[i], "output_file");
        put_record(&shorter, &o->item[i], "output_name");
        text_puts(&all, i + 1 < o->n ? ",\n" : "\n");
        text_puts(&shorter, i + 1 < o->n ? ",\n" : "\n");
    }
    text_puts(&all, "]\n");
    text_puts(&shorter, "]}\n");
    const int bad = staging_write(&o->staging, "conversion_manifest.json", all.data, all.len, e) ||
                    staging_write(&o->staging, "weights_manifest.json", shorter.data, shorter.len, e);
    text_free(&all);
    text_free(&shorter);
    return bad ? -1 : 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static int write_weights(struct output *o, int file, struct err *e)
{
    for (size_t i = 0; i < o->n; i++) {
        struct item *it = &o->item[i];
        if (write_tensor(o, it, e))
            return -1;
        quantize_report_tensor(o->job->report, &(struct quantized){
            .name = mem_strdup(it->t->name), .from = it->t->type_name, .to = precision_of(it),
            .elements = tensor_elements(it->t), .bytes_before = it->t->n_bytes, .bytes = (size_t)it->bytes,
            .file = file});
        if (it->why && has(it->why, "width") && strcmp(it->component, "language") == 0) {
            o->job->report->n_fallbacks++;
            text_printf(&o->job->report->notes, "%s: rows of %lld are no whole groups of %d; it becomes FP16\n",
                        it->file, (long long)it->t->dim[1], CQ_GROUP);
        }
    }
    return 0;
}

static int write_cq(struct quantize_job *job, struct err *e)
{
    struct output o = {.job = job, .bits = job->type->name[2] - '0'};
    if (folder_check_request(job, e))
        return -1;
    if (job->request->group && job->request->group != CQ_GROUP)
        return err_set(e, EXIT_USAGE, "--group: type %s has groups of %d", job->type->name, CQ_GROUP);
    char *path = staging_target(job->request->out, job->name, job->type->name);
    cq_common(&o.common, o.bits);
    o.item = NEW(struct item, weights_count(job->weights));
    for (size_t i = 0; i < weights_count(job->weights); i++)
        plan_tensor(&o, weights_at(job->weights, i));
    int bad = staging_open(&o.staging, path, job->request->force, e);
    if (!bad && (cq_write_documents(job, &o.staging, e) || write_probe(&o, e) ||
                 write_weights(&o, quantize_report_file(job->report, path), e) || write_manifests(&o, e) ||
                 staging_finish(&o.staging, e)))
        bad = -1;
    staging_abandon(&o.staging);
    arena_free(&o.arena);
    free(o.item);
    free(path);
    return bad;
}

const struct quantize_format quantize_cq = {.types = types, .write = write_cq};
