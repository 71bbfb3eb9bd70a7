/* engine.c - opening a checkpoint, and the checks in front of the decoder. */
#include "engine/cq.h"
#include "engine/documents.h"
#include "engine/internal.h"
#include "engine/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- opening --------------------------------------------------------------------------------------------------- */

bool tower_in(const cJSON *config, const struct weights *w, const char *key, const char *prefix)
{
    if (!cJSON_IsObject(json_get(config, key)))
        return false;
    for (size_t i = 0; i < weights_count(w); i++)
        if (strncmp(weights_at(w, i)->name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* The towers' tensors and their projectors, clip bounds aside: those may be infinite. */
static int check_towers_finite(const struct engine *m, struct err *e)
{
    const size_t all = weights_count(m->weights);
    const struct tensor **t = NEW(const struct tensor *, all);
    size_t n = 0;
    for (size_t i = 0; i < all; i++) {
        const struct tensor *one = weights_at(m->weights, i);
        const bool vision = strstr(one->name, "vision_tower.") || strstr(one->name, "embed_vision.");
        const bool audio = strstr(one->name, "audio_tower.") || strstr(one->name, "embed_audio.");
        if (((vision && m->vision) || (audio && m->audio)) && one->n_dims > 0 && one->type <= TENSOR_CODED)
            t[n++] = one;
    }
    const int bad = tensors_check_finite(m->compute.pool, t, n, e);
    free(t);
    return bad;
}

static int open_towers(struct engine *m, struct err *e)
{
    struct err fault = {0};
    int bad = 0;
    if (tower_in(m->config_json, m->weights, "vision_config", "model.vision_tower."))
        bad = vision_open(&m->vision, m->weights, m->config_json, m->processor_json, m->image_tokens, &fault);
    if (!bad && tower_in(m->config_json, m->weights, "audio_config", "model.audio_tower."))
        bad = audio_open(&m->audio, m->weights, m->config_json, m->processor_json, &fault);
    if (!bad)
        return check_towers_finite(m, e);
    /* They speak of config.json, whatever file stands for it. */
    const bool named = !m->projector || strstr(fault.msg, m->projector) || fault.code != EXIT_BAD_INPUT;
    return err_set(e, (enum exit_status)fault.code, "%s%s%s", named ? "" : m->projector, named ? "" : ": ", fault.msg);
}

static int open_tokenizer(struct engine *m, const struct document *d, struct err *e)
{
    if (tokenizer_read(&m->tokenizer, d->json, d->where, e))
        return -1;
    if (tokenizer_size(m->tokenizer) > m->config.vocab_size)
        return err_input(e, "%s: ids below config.json's vocab_size (%d) were expected, the largest is %d", d->where,
                         m->config.vocab_size, tokenizer_size(m->tokenizer) - 1);
    return 0;
}

static int open_documents(struct engine *m, struct err *e)
{
    struct documents d;
    if (documents_open(&d, m->path, m->projector, m->weights, e))
        return -1;
    int bad = config_read(&m->config, d.config.json, d.generation.json, m->weights, d.config.where, e) ||
              open_tokenizer(m, &d.tokenizer, e);
    if (!bad && d.has_template)
        bad = chat_template_open(&m->chat_template, d.chat_template.data ? d.chat_template.data : "",
                                 d.chat_template.len, d.template_where, e);
    if (d.has_template)
        sha256_hex_of(d.chat_template.data ? d.chat_template.data : "", d.chat_template.len, m->template_sha);
    m->architecture = d.architecture;
    m->config_json = d.config.json;
    m->processor_json = d.processor.json;
    d.config.json = d.processor.json = NULL;
    documents_close(&d);
    return bad;
}

/* Weights, then the documents; both may come from a second file with the towers. */
static int open_files(struct engine *m, const char *mmproj, struct err *e)
{
    documents_projector(&m->projector, &m->n_projectors, m->path, mmproj);
    return weights_open(&m->weights, m->path, e) ||
           documents_add_projector(m->weights, m->path, m->projector, e) || open_documents(m, e) ? -1 : 0;
}

static void fill_info(struct engine *m)
{
    const struct config *c = &m->config;
    const cJSON *classes = json_get(m->config_json, "architectures");
    const cJSON *class = cJSON_IsArray(classes) ? classes->child : NULL;
    m->info = (struct model_info){
        .path = m->path,
        .architecture = m->architecture ? m->architecture : cJSON_IsString(class) ? class->valuestring : "gemma4",
        .n_layers = c->n_layers, .hidden_size = c->hidden_size,
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads,
        .head_dim = c->kind[0].head_dim, .global_head_dim = c->kind[1].head_dim,
        .vocab_size = c->vocab_size, .sliding_window = c->kind[0].window,
        .n_kv_shared_layers = c->n_kv_shared_layers, .max_positions = c->max_positions,
        .has_vision = m->vision != NULL, .has_audio = m->audio != NULL,
        .bos_id = c->bos_id, .pad_id = c->pad_id, .n_eos = c->n_eos,
        .kernel = m->compute.k->name, .activations = m->compute.int8 ? "int8" : "float32",
        .n_packed = decoder_packed(m->decoder), .n_threads = pool_size(m->compute.pool)};
    memcpy(m->info.eos_ids, c->eos_ids, sizeof c->eos_ids);
}

static int open_compute(struct engine *m, const struct engine_options *o, struct err *e)
{
    m->compute.int8 = o->activations && strcmp(o->activations, "int8") == 0;
    if (o->activations && !m->compute.int8 && strcmp(o->activations, "float32") != 0)
        return err_set(e, EXIT_USAGE, "activations \"%s\": float32 or int8 was expected", o->activations);
    m->compute.k = kernels_find(o->kernel);
    if (!m->compute.k)
        return err_set(e, EXIT_USAGE, "kernel \"%s\": this CPU has no such instruction set (try generic)", o->kernel);
    return pool_open(&m->compute.pool, o->n_threads, e);
}

static int open_media_cache(struct engine *m, const char *folder, struct err *e)
{
    if (!folder)
        return 0;
    m->media_cache = mem_strdup(folder);
    if (mkdir(folder, 0777) == 0 || path_is_dir(folder))
        return 0;
    return errno == EEXIST ? err_input(e, "%s: a folder for encoded media was expected", folder)
                           : err_machine(e, "%s: the folder for encoded media cannot be made", folder);
}

int engine_open(struct engine **out, const char *path, const struct engine_options *options, struct err *e)
{
    static const struct engine_options defaults;
    const struct engine_options *o = options ? options : &defaults;
    *out = NULL;
    const size_t len = strlen(path);
    if (!path_is_dir(path) && !(len > 5 && strcmp(path + len - 5, ".gguf") == 0) && !cq_is_bundle(path))
        return err_input(e, "%s: a checkpoint folder with config.json, a .gguf file or a Cactus bundle was expected",
                         path);
    struct engine *m = NEW(struct engine, 1);
    m->path = mem_strdup(path);
    m->image_tokens = o->image_tokens;
    if (open_media_cache(m, o->media_cache, e) || open_compute(m, o, e) || open_files(m, o->mmproj, e) ||
        decoder_open(&m->decoder, &m->config, m->weights, &m->compute, e) || open_towers(m, e)) {
        engine_close(m);
        return -1;
    }
    fill_info(m);
    *out = m;
    return 0;
}

void engine_close(struct engine *m)
{
    if (!m)
        return;
    vision_close(m->vision);
    audio_close(m->audio);
    chat_template_close(m->chat_template);
    tokenizer_close(m->tokenizer);
    decoder_close(m->decoder);
    config_free(&m->config);
    cJSON_Delete(m->config_json);
    cJSON_Delete(m->processor_json);
    weights_close(m->weights);
    pool_free(m->compute.pool);
    free(m->media_cache);
    free(m->projector);
    free(m->path);
    free(m);
}

const struct model_info *engine_info(const struct engine *m)
{
    return &m->info;
}

const struct weights *engine_weights(const struct engine *m)
{
    return m->weights;
}

const char *engine_cache_fault(const struct engine *m)
{
    return m->cache_fault.code ? m->cache_fault.msg : NULL;
}

const cJSON *engine_config(const struct engine *m, const char *key)
{
    return json_get(m->config_json, key);
}

bool engine_is_eos(const struct engine *m, int32_t id)
{
    for (int i = 0; i < m->config.n_eos; i++)
        if (m->config.eos_ids[i] == id)
            return true;
    return false;
}

const struct tokenizer *engine_tokenizer(const struct engine *m)
{
    return m->tokenizer;
}

void engine_document_sha(const struct engine *m, struct document_sha *out)
{
    struct text t = {0};
    json_print(&t, m->config_json);
    if (m->processor_json)
        json_print(&t, m->processor_json);
    sha256_hex_of(t.data, t.len, out->config);
    tokenizer_fingerprint(m->tokenizer, out->tokenizer);
    memcpy(out->chat_template, m->template_sha, sizeof out->chat_template);
    text_free(&t);
}

const struct chat_template *engine_chat_template(const struct engine *m)
{
    return m->chat_template;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

static int check_input(const struct engine *m, const struct step_input *in, struct err *e)
{
    const struct config *c = &m->config;
    if (in->n < 0 || in->n_needed < 0 || in->n_needed > in->n)
        return err_set(e, EXIT_USAGE, "step: %d needed rows of %d were asked for", in->n_needed, in->n);
    if (in->tap && (in->tap_layer < 0 || in->tap_layer >= c->n_layers))
        return err_input(e, "%s: layer %d was asked for, but the model has the layers 0 to %d", m->path, in->tap_layer,
                         c->n_layers - 1);
    if (in->n > c->max_positions - in->seq->n)
        return err_input(e, "%s: %d more tokens behind %d were asked for, but the model has %d positions "
                         "(max_position_embeddings)", m->path, in->n, in->seq->n, c->max_positions);
    for (int i = 0; i < in->n; i++) {
        if (in->ids[i] < 0 || in->ids[i] >= c->vocab_size)
            return err_input(e, "%s: token id %d at position %d: an id below vocab_size (%d) was expected", m->path,
                             in->ids[i], in->seq->n + i, c->vocab_size);
        if (!decoder_token_finite(m->decoder, in->ids[i]))
            return err_input(e, "%s: tensor %sembed_tokens_per_layer.weight: finite weights were expected, row %d "
                             "holds infinite values or NaN", m->path, c->prefix, in->ids[i]);
    }
    return 0;
}

int engine_step(struct engine *m, const struct step_input *in, int n_in, struct err *e)
{
    int bad = 0, marked = 0;
    while (marked < n_in && !bad) {
        if (in[marked].seq->in_step)
            bad = err_set(e, EXIT_USAGE, "step: two inputs share a sequence");
        else
            in[marked++].seq->in_step = true;
    }
    for (int i = 0; i < marked; i++)
        in[i].seq->in_step = false;
    for (int i = 0; i < n_in && !bad; i++)
        bad = check_input(m, &in[i], e);
    if (!bad)
        decoder_step(m->decoder, in, n_in);
    return bad;
}

bool engine_takes_soft(const struct engine *m, int32_t id)
{
    return id >= 0 && (id == m->config.image.token || id == m->config.audio.token);
}

void engine_spread(const struct engine *m, int n, void (*task)(void *arg, int i), void *arg)
{
    pool_run(m->compute.pool, n, task, arg);
}
