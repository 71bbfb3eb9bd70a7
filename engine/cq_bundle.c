/* cq_bundle.c - a Cactus bundle as a checkpoint: its tensors by the manifest (or the rules for names), and its
 * documents, made from config.txt where config.json is missing. */
#include "engine/cq.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JSON = 64 << 20, MAX_SHAPE = 1 << 30 };

static const char *const manifests[] = {"conversion_manifest.json", "weights_manifest.json"};

bool cq_is_bundle(const char *path)
{
    static const char *const others[] = {"model.safetensors", "model.safetensors.index.json"};
    static const char *const own[] = {"config.txt", "conversion_manifest.json", "weights_manifest.json"};
    int found = 0;
    if (!path_is_dir(path)) {
        struct mapped m;
        if (map_open(&m, path, NULL))
            return false;
        const bool archive = bundle_is_archive(&m);
        map_close(&m);
        return archive;
    }
    for (size_t i = 0; i < 5; i++) {
        char *name = path_join(path, i < 2 ? others[i] : own[i - 2]);
        found = file_exists(name) ? found + (i < 2 ? 100 : 1) : found;
        free(name);
    }
    return found > 0 && found < 100;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

static cJSON *read_json(struct bundle *b, const char *name, struct err *e)
{
    const struct mapped *m = bundle_file(b, name, e);
    if (m && m->size > MAX_JSON) {
        err_input(e, "%s: at most %d bytes were expected, not %zu", m->path, MAX_JSON, m->size);
        return NULL;
    }
    return m ? json_parse((const char *)m->data, m->size, m->path, e) : NULL;
}

static int add_tensor(struct arena *a, struct bundle *b, const char *file, const char *name,
                      const struct cq_shape *shape, struct tensor_list *out, struct err *e)
{
    struct tensor t;
    const struct mapped *m = bundle_file(b, file, e);
    if (!m || cq_tensor(a, m, name, shape, &t, e))
        return -1;
    tensor_list_push(out, &t);
    return 0;
}

/* One record of a manifest. Tensors that were made out of others are left out. */
static int add_record(struct arena *a, struct bundle *b, const cJSON *record, const char *manifest,
                      struct tensor_list *out, struct err *e)
{
    const char *name = json_string(record, "hf_name"), *transform = json_string(record, "transform");
    const char *file = json_string(record, "output_file") ? json_string(record, "output_file")
                                                          : json_string(record, "output_name");
    const cJSON *scale = json_get(record, "scale_factor"), *shape = json_get(record, "shape"), *d;
    struct cq_shape s = {.scale = 1};
    if (!name || !file || (transform && strcmp(transform, "none") != 0))
        return 0;
    if (!bundle_has(b, file))
        return err_input(e, "%s/%s: tensor %s: the file %s was expected in the bundle", bundle_path(b), manifest, name,
                         file);
    if (scale && !cJSON_IsNull(scale))
        s.scale = cJSON_IsNumber(scale) ? scale->valuedouble : 0;
    if (!(s.scale >= 0x1p-20 && s.scale <= 0x1p20))
        return err_input(e, "%s/%s: tensor %s: key \"scale_factor\": a number from 2^-20 to 2^20 was expected",
                         bundle_path(b), manifest, name);
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > 4)
        return err_input(e, "%s/%s: tensor %s: key \"shape\": at most 4 sizes were expected", bundle_path(b), manifest,
                         name);
    cJSON_ArrayForEach(d, shape) {
        if (!cJSON_IsNumber(d) || !(d->valuedouble >= 1 && d->valuedouble <= MAX_SHAPE) ||
            d->valuedouble != floor(d->valuedouble))
            return err_input(e, "%s/%s: tensor %s: key \"shape\": sizes from 1 to %d were expected", bundle_path(b),
                             manifest, name, MAX_SHAPE);
        s.dim[s.n_dims++] = (int64_t)d->valuedouble;
    }
    return add_tensor(a, b, file, arena_strndup(a, name, strlen(name)), &s, out, e);
}

static int tensors_by_manifest(struct arena *a, struct bundle *b, const char *manifest, struct tensor_list *out,
                               struct err *e)
{
    cJSON *json = read_json(b, manifest, e);
    const cJSON *list = cJSON_IsObject(json) ? json_get(json, "weights") : json;
    int bad = json ? 0 : -1;
    if (json && (!cJSON_IsArray(list) || !list->child))
        bad = err_input(e, "%s/%s: a list of records was expected", bundle_path(b), manifest);
    for (const cJSON *record = bad ? NULL : list->child; record && !bad; record = record->next)
        bad = add_record(a, b, record, manifest, out, e);
    cJSON_Delete(json);
    return bad;
}

/* Without a manifest only another tensor tells how much padding the per-layer table has. */
static int tensors_by_name(struct arena *a, struct bundle *b, struct tensor_list *out, struct err *e)
{
    for (size_t i = 0; i < bundle_count(b); i++) {
        const char *file = bundle_name(b, i), *name = cq_tensor_name(a, file);
        struct cq_shape s = {.n_dims = -1, .scale = cq_scale(file)};
        struct tensor rows, table;
        if (!name)
            continue;
        const size_t len = strlen(name);
        if (strcmp(name + len - 4, "_min") == 0 || strcmp(name + len - 4, "_max") == 0)
            s.n_dims = 0;
        if (strncmp(file, "embed_tokens_per_layer.", 23) == 0 && bundle_has(b, "per_layer_model_proj.weights")) {
            const struct cq_shape any = {.n_dims = -1, .scale = 1};
            const struct mapped *m = bundle_file(b, "per_layer_model_proj.weights", e), *own = bundle_file(b, file, e);
            if (!m || !own || cq_tensor(a, m, name, &any, &rows, e) || cq_tensor(a, own, name, &any, &table, e))
                return -1;
            s.n_dims = 2;
            s.dim[0] = table.dim[0];
            s.dim[1] = rows.dim[0];
        }
        if (add_tensor(a, b, file, name, &s, out, e))
            return -1;
    }
    return 0;
}

int cq_bundle_tensors(struct arena *a, struct bundle *b, struct tensor_list *out, struct err *e)
{
    static const char probe[] = "handoff_probe.bin";
    const size_t before = out->n;
    int i = 0;
    while (i < 2 && !bundle_has(b, manifests[i]))
        i++;
    if (i < 2 ? tensors_by_manifest(a, b, manifests[i], out, e) : tensors_by_name(a, b, out, e))
        return -1;
    if (out->n == before)
        return err_input(e, "%s: the tensors of a Cactus bundle (*.weights) were expected", bundle_path(b));
    const struct mapped *m = bundle_has(b, probe) ? bundle_file(b, probe, e) : NULL;
    if (bundle_has(b, probe) && (!m || cq_probe_tensors(a, m, out, e)))
        return -1;
    return 0;
}

/* ---- config.txt ------------------------------------------------------------------------------------------------ */

static cJSON *value_of(const char *s)
{
    char *end;
    const double v = strtod(s, &end);
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
        return cJSON_CreateBool(*s == 't');
    return *s && !*end && isfinite(v) ? cJSON_CreateNumber(v) : cJSON_CreateString(s);
}

static void add_list(cJSON *o, const char *key, char *values)
{
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (char *at = values, *next; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        if (strcmp(key, "layer_types") == 0)
            cJSON_AddItemToArray(list, cJSON_CreateString(strcmp(at, "global") == 0 ? "full_attention" :
                                                          strcmp(at, "sliding") == 0 ? "sliding_attention" : at));
        else
            cJSON_AddItemToArray(list, value_of(at));
    }
}

static void add_rope(cJSON *config, const char *kind, const char *type, const char *theta, const char *share)
{
    cJSON *o = cJSON_AddObjectToObject(json_get(config, "rope_parameters") ? cJSON_GetObjectItemCaseSensitive(
                                       config, "rope_parameters") : cJSON_AddObjectToObject(config, "rope_parameters"),
                                       kind);
    cJSON_AddStringToObject(o, "rope_type", type);
    if (json_get(config, theta))
        cJSON_AddItemToObject(o, "rope_theta", cJSON_Duplicate(json_get(config, theta), true));
    if (share && json_get(config, share))
        cJSON_AddItemToObject(o, "partial_rotary_factor", cJSON_Duplicate(json_get(config, share), true));
}

/* The keys of config.json that config.txt has under other names, or not at all. */
static void add_missing(cJSON *config, const struct weights *w)
{
    static const char *const keys[][2] = {
        {"num_hidden_layers", "num_layers"}, {"hidden_size", "hidden_dim"}, {"num_attention_heads", "attention_heads"},
        {"num_key_value_heads", "attention_kv_heads"}, {"head_dim", "attention_head_dim"},
        {"intermediate_size", "ffn_intermediate_dim"}, {"max_position_embeddings", "context_length"},
        {"rms_norm_eps", "layer_norm_eps"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_get(config, keys[i][0]) && json_get(config, keys[i][1]))
            cJSON_AddItemToObject(config, keys[i][0], cJSON_Duplicate(json_get(config, keys[i][1]), true));
    add_rope(config, "sliding_attention", "default", "rope_local_base_freq", NULL);
    add_rope(config, "full_attention", "proportional", "rope_theta", "global_partial_rotary_factor");
    const cJSON *layers = json_get(config, "num_hidden_layers"), *size = json_get(config, "intermediate_size");
    char name[96];
    snprintf(name, sizeof name, "model.language_model.layers.%d.mlp.gate_proj.weight",
             layers && layers->valuedouble >= 1 && layers->valuedouble < 1e6 ? layers->valueint - 1 : 0);
    const struct tensor *last = weights_find(w, name);
    cJSON_AddBoolToObject(config, "use_double_wide_mlp", last && size && last->n_dims == 2 &&
                          (double)last->dim[0] == 2 * size->valuedouble);
}

static cJSON *config_of_text(const struct mapped *m, const struct weights *w, struct err *e)
{
    if (m->size > 1 << 20 || memchr(m->data, '\0', m->size) || !utf8_valid((const char *)m->data, m->size, NULL)) {
        err_input(e, "%s: at most a megabyte of text was expected", m->path);
        return NULL;
    }
    cJSON *config = cJSON_CreateObject();
    char *text = mem_strndup((const char *)m->data, m->size);
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        char *value = strchr(line, '=');
        if (!value || value == line)
            continue;
        *value++ = '\0';
        if (json_get(config, line))
            continue;
        if (strcmp(line, "layer_types") == 0 || strcmp(line, "eos_token_id") == 0)
            add_list(config, line, value);
        else
            cJSON_AddItemToObject(config, line, value_of(value));
    }
    free(text);
    add_missing(config, w);
    return config;
}

/* ---- documents ------------------------------------------------------------------------------------------------- */

static int read_document(struct document *d, struct bundle *b, const char *name, struct err *e)
{
    free(d->where);
    d->where = path_join(bundle_path(b), name);
    if (!bundle_has(b, name))
        return 0;
    d->json = read_json(b, name, e);
    return d->json ? 0 : -1;
}

/* The probe's own file says which layer it reads. */
static int read_probe_layer(cJSON *config, struct bundle *b, struct err *e)
{
    static const char name[] = "handoff_probe.json";
    if (!cJSON_IsObject(config) || !bundle_has(b, name))
        return 0;
    cJSON *json = read_json(b, name, e);
    const cJSON *layer = json_get(json, "layer");
    if (cJSON_IsNumber(layer)) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, "probe_layer");
        cJSON_AddNumberToObject(config, "probe_layer", layer->valuedouble);
    }
    cJSON_Delete(json);
    return json ? 0 : -1;
}

static int read_config(struct documents *d, struct bundle *b, const struct weights *w, struct err *e)
{
    static const char *const names[] = {"config.json", "hf_config.json", "config.txt"};
    int i = 0;
    while (i < 3 && !bundle_has(b, names[i]))
        i++;
    if (i == 3)
        return err_input(e, "%s: config.json or config.txt was expected in this bundle", bundle_path(b));
    if (i < 2)
        return read_document(&d->config, b, names[i], e) || read_probe_layer(d->config.json, b, e);
    const struct mapped *m = bundle_file(b, names[i], e);
    d->config.where = path_join(bundle_path(b), names[i]);
    d->config.json = m ? config_of_text(m, w, e) : NULL;
    return !d->config.json || read_probe_layer(d->config.json, b, e);
}

int cq_bundle_documents(struct documents *d, struct bundle *b, const struct weights *w, struct err *e)
{
    static const char *const templates[] = {"chat_template.jinja2", "chat_template.jinja"};
    if (read_config(d, b, w, e) || read_document(&d->generation, b, "generation_config.json", e) ||
        cq_bundle_tokenizer(&d->tokenizer, b, e) ||
        read_document(&d->processor, b, "processor_config.json", e) ||
        (!d->processor.json && read_document(&d->processor, b, "preprocessor_config.json", e)))
        return -1;
    for (int i = 0; i < 2 && !d->has_template; i++) {
        const struct mapped *m = bundle_has(b, templates[i]) ? bundle_file(b, templates[i], e) : NULL;
        if (bundle_has(b, templates[i]) && !m)
            return -1;
        d->has_template = m != NULL;
        if (m) {
            d->template_where = mem_strdup(m->path);
            text_put(&d->chat_template, m->data, m->size);
        }
    }
    return 0;
}
