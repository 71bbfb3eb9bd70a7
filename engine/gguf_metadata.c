/* gguf_metadata.c - documents of a checkpoint to GGUF metadata. */
#include "engine/gguf_metadata.h"

#include "engine/gguf_model.h"
#include "engine/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUANTIZATION_VERSION = 2 };      /* of ggml's block formats */
/* tokenizer.ggml.token_type */
enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

static void put_text(struct gguf_out *g, const char *key, const char *s)
{
    gguf_put_string(g, key, s, strlen(s));
}

/* ---- general --------------------------------------------------------------------------------------------------- */

/* "4.6B": two digits at least, as llama.cpp's gguf package rounds. */
static void put_size_label(struct gguf_out *g, int64_t n)
{
    static const struct { double above; char suffix; } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {0, 'K'}};
    size_t i = 0;
    while ((double)n <= units[i].above && i < 3)
        i++;
    char label[32];
    const double v = (double)n / (i == 3 ? 1e3 : units[i].above);
    const int digits = (int)nearbyint(v) >= 10 ? 2 : (int)nearbyint(v) > 0 ? 1 : 0;
    snprintf(label, sizeof label, "%.*f%c", 2 - digits, v, units[i].suffix);
    put_text(g, "general.size_label", label);
}

static void put_general(struct gguf_out *g, const struct quantize_job *job, const char *architecture, const char *type,
                        int file_type, int64_t n_elements)
{
    static const char *const sampling[][2] = {{"top_p", "general.sampling.top_p"}, {"min_p", "general.sampling.min_p"},
                                              {"temperature", "general.sampling.temp"},
                                              {"repetition_penalty", "general.sampling.penalty_repeat"}};
    const cJSON *generation = job->documents.generation.json, *top_k = json_get(generation, "top_k");
    put_text(g, "general.architecture", architecture);
    put_text(g, "general.type", type);
    if (cJSON_IsNumber(top_k))
        gguf_put_i32(g, "general.sampling.top_k", top_k->valueint);
    for (size_t i = 0; i < sizeof sampling / sizeof *sampling; i++) {
        const cJSON *v = json_get(generation, sampling[i][0]);
        if (cJSON_IsNumber(v))
            gguf_put_f32(g, sampling[i][1], (float)v->valuedouble);
    }
    put_text(g, "general.name", job->name);
    put_size_label(g, n_elements);
    gguf_put_u32(g, "general.file_type", (uint32_t)file_type);
    gguf_put_u32(g, "general.quantization_version", QUANTIZATION_VERSION);
}

/* ---- the decoder ----------------------------------------------------------------------------------------------- */

const char *gguf_architecture(bool with_probe)
{
    return with_probe ? "gemma-4-e2b-it-hybrid" : "gemma4";
}

struct prefixed { struct gguf_out *g; const char *prefix; char key[128]; };

static const char *key_of(struct prefixed *p, const char *name)
{
    snprintf(p->key, sizeof p->key, "%s.%s", p->prefix, name);
    return p->key;
}

static void put_layers(struct prefixed *p, const struct config *c)
{
    bool same = true;
    for (int i = 0; i < c->n_layers; i++)
        same &= c->layer[i].mlp_size == c->layer[0].mlp_size;
    if (same) {
        gguf_put_u32(p->g, key_of(p, "feed_forward_length"), (uint32_t)c->layer[0].mlp_size);
    } else {
        gguf_put_array(p->g, key_of(p, "feed_forward_length"), GGUF_I32, (uint64_t)c->n_layers);
        for (int i = 0; i < c->n_layers; i++)
            gguf_element_u32(p->g, (uint32_t)c->layer[i].mlp_size);
    }
    gguf_put_array(p->g, key_of(p, "attention.sliding_window_pattern"), GGUF_BOOL, (uint64_t)c->n_layers);
    for (int i = 0; i < c->n_layers; i++)
        gguf_element_bool(p->g, !c->layer[i].full);
}

static void put_sizes(struct prefixed *p, const struct config *c)
{
    const struct attention_kind *sliding = &c->kind[0], *full = &c->kind[1];
    const struct { const char *name; int v; } sizes[] = {
        {"block_count", c->n_layers}, {"context_length", c->max_positions}, {"embedding_length", c->hidden_size},
        {"attention.head_count", c->n_heads}, {"attention.head_count_kv", c->n_kv_heads},
        {"attention.key_length", full->head_dim}, {"attention.value_length", full->head_dim},
        {"attention.key_length_swa", sliding->head_dim}, {"attention.value_length_swa", sliding->head_dim},
        {"rope.dimension_count", full->head_dim}, {"rope.dimension_count_swa", sliding->head_dim},
        {"attention.sliding_window", sliding->window}, {"attention.shared_kv_layers", c->n_kv_shared_layers},
        {"embedding_length_per_layer_input", c->ple_size}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        gguf_put_u32(p->g, key_of(p, sizes[i].name), (uint32_t)sizes[i].v);
    gguf_put_f32(p->g, key_of(p, "rope.freq_base"), (float)full->rope_theta);
    gguf_put_f32(p->g, key_of(p, "rope.freq_base_swa"), (float)sliding->rope_theta);
    gguf_put_f32(p->g, key_of(p, "attention.layer_norm_rms_epsilon"), c->norm_eps);
    gguf_put_f32(p->g, key_of(p, "final_logit_softcapping"), c->logit_cap);
}

/* Also without the probe itself, which may come from another file. */
static void put_probe(struct prefixed *p, const cJSON *config)
{
    static const char *const whole[][2] = {{"probe_layer", "probe.layer"}, {"probe_max_tokens", "probe.max_tokens"}};
    for (size_t i = 0; i < 2; i++) {
        const cJSON *v = json_get(config, whole[i][0]);
        if (cJSON_IsNumber(v) && v->valueint >= 0)
            gguf_put_u32(p->g, key_of(p, whole[i][1]), (uint32_t)v->valueint);
    }
    const cJSON *eps = json_get(config, "probe_layer_norm_eps");
    if (cJSON_IsNumber(eps))
        gguf_put_f32(p->g, key_of(p, "probe.layer_norm_epsilon"), (float)eps->valuedouble);
}

/* ---- the tokenizer --------------------------------------------------------------------------------------------- */

/* Marks that the converter has shown in the output, so that parsers of answers can see them. */
static bool is_visible(const char *s)
{
    static const char *const marks[] = {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
                                        "<tool_response|>", "<|\"|>"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strcmp(s, marks[i]) == 0)
            return true;
    return false;
}

/* Added tokens that are not special stay normal, as the converter has them. */
static int token_type(const struct piece *piece)
{
    if (!piece->s)
        return UNUSED;
    if (piece->byte >= 0)
        return BYTE;
    return is_visible(piece->s) ? USER_DEFINED : piece->special ? CONTROL : NORMAL;
}

/* Ids without a piece get names, so that there are as many as rows of the embeddings. */
static void put_tokens(struct gguf_out *g, const struct tokenizer *t, int n)
{
    static const struct piece none = {.byte = -1};
    gguf_put_array(g, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        char name[32];
        const struct piece *piece = i < t->n_ids ? &t->piece[i] : &none;
        const int len = snprintf(name, sizeof name, "[PAD%d]", i);
        gguf_element_string(g, piece->s ? piece->s : name, piece->s ? piece->len : (size_t)len);
    }
    gguf_put_array(g, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)n);
    for (int i = 0; i < n; i++)
        gguf_element_f32(g, -1000);
    gguf_put_array(g, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)n);
    for (int i = 0; i < n; i++)
        gguf_element_u32(g, (uint32_t)token_type(i < t->n_ids ? &t->piece[i] : &none));
}

/* Each is "left right" or ["left", "right"]; reading the tokenizer has made sure of that. */
static void put_merges(struct gguf_out *g, const cJSON *merges)
{
    gguf_put_array(g, "tokenizer.ggml.merges", GGUF_STRING, (uint64_t)cJSON_GetArraySize(merges));
    struct text both = {0};
    for (const cJSON *m = merges ? merges->child : NULL; m; m = m->next) {
        text_clear(&both);
        text_puts(&both, cJSON_IsString(m) ? m->valuestring : m->child->valuestring);
        if (!cJSON_IsString(m))
            text_printf(&both, " %s", m->child->next->valuestring);
        gguf_element_string(g, both.data, both.len);
    }
    text_free(&both);
}

static void put_ids(struct gguf_out *g, const struct quantize_job *job)
{
    static const char *const named[][2] = {{"<unk>", "tokenizer.ggml.unknown_token_id"},
                                           {"<mask>", "tokenizer.ggml.mask_token_id"}};
    const struct config *c = &job->config;
    gguf_put_u32(g, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos_id);
    gguf_put_u32(g, "tokenizer.ggml.eos_token_id", (uint32_t)c->eos_ids[0]);
    gguf_put_u32(g, "tokenizer.ggml.padding_token_id", (uint32_t)c->pad_id);
    for (size_t i = 0; i < 2; i++) {
        const int32_t id = tokenizer_find(job->tokenizer, named[i][0]);
        if (id >= 0)
            gguf_put_u32(g, named[i][1], (uint32_t)id);
    }
    gguf_put_array(g, GGUF_STOP_TOKENS, GGUF_I32, (uint64_t)c->n_eos);
    for (int i = 0; i < c->n_eos; i++)
        gguf_element_u32(g, (uint32_t)c->eos_ids[i]);
    gguf_put_bool(g, "tokenizer.ggml.add_bos_token", true);
    gguf_put_bool(g, "tokenizer.ggml.add_space_prefix", false);
}

void gguf_model_metadata(struct gguf_out *g, const struct quantize_job *job, bool with_probe, int file_type,
                         int64_t n_elements)
{
    struct prefixed p = {.g = g, .prefix = gguf_architecture(with_probe)};
    const struct documents *d = &job->documents;
    put_general(g, job, p.prefix, "model", file_type, n_elements);
    put_sizes(&p, &job->config);
    put_layers(&p, &job->config);
    put_probe(&p, d->config.json);
    put_text(g, "tokenizer.ggml.model", "gemma4");
    put_tokens(g, job->tokenizer, job->config.vocab_size);
    put_merges(g, json_get(json_get(d->tokenizer.json, "model"), "merges"));
    put_ids(g, job);
    if (d->has_template)
        gguf_put_string(g, "tokenizer.chat_template", d->chat_template.data ? d->chat_template.data : "",
                        d->chat_template.len);
}

void gguf_imatrix_metadata(struct gguf_out *g, const struct imatrix *m, const char *path)
{
    put_text(g, "quantize.imatrix.file", path_base(path));
    if (m->dataset)
        put_text(g, "quantize.imatrix.dataset", m->dataset);
    gguf_put_u32(g, "quantize.imatrix.entries_count", (uint32_t)m->n);
    if (m->chunks)
        gguf_put_u32(g, "quantize.imatrix.chunks_count", (uint32_t)m->chunks);
}

/* ---- another file's -------------------------------------------------------------------------------------------- */

void gguf_copy_metadata(struct gguf_out *g, const struct gguf *from, bool with_probe, int file_type)
{
    static const char *const own[] = {"general.architecture", "general.alignment", "general.file_type",
                                      "general.quantization_version", "quantize.imatrix.file",
                                      "quantize.imatrix.dataset", "quantize.imatrix.entries_count",
                                      "quantize.imatrix.chunks_count", "split.no", "split.count", "split.tensors.count"};
    const char *architecture = gguf_architecture(with_probe), *before = gguf_architecture(!with_probe);
    const size_t n = strlen(before);
    put_text(g, "general.architecture", architecture);
    for (size_t i = 0; i < from->n_values; i++) {
        const struct gguf_value *v = &from->values[i];
        bool skip = false;
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            skip |= strcmp(v->key, own[k]) == 0;
        if (skip)
            continue;
        struct text key = {0};
        if (strncmp(v->key, before, n) == 0 && v->key[n] == '.')
            text_printf(&key, "%s%s", architecture, v->key + n);
        else
            text_puts(&key, v->key);
        gguf_put_copy(g, key.data, v);
        text_free(&key);
    }
    gguf_put_u32(g, "general.quantization_version", QUANTIZATION_VERSION);
    gguf_put_u32(g, "general.file_type", (uint32_t)file_type);
}

/* ---- towers ---------------------------------------------------------------------------------------------------- */

static uint32_t size_in(const cJSON *c, const char *key, int fallback)
{
    const cJSON *v = json_get(c, key);
    return (uint32_t)(cJSON_IsNumber(v) && v->valueint > 0 ? v->valueint : fallback);
}

static float real_in(const cJSON *c, const char *key, double fallback)
{
    const cJSON *v = json_get(c, key);
    return (float)(cJSON_IsNumber(v) ? v->valuedouble : fallback);
}

static void put_tower(struct prefixed *p, const struct quantize_job *job, const cJSON *c, uint32_t mlp_size)
{
    gguf_put_u32(p->g, key_of(p, "projection_dim"), (uint32_t)job->config.hidden_size);
    gguf_put_u32(p->g, key_of(p, "embedding_length"), size_in(c, "hidden_size", 0));
    gguf_put_u32(p->g, key_of(p, "feed_forward_length"), mlp_size);
    gguf_put_u32(p->g, key_of(p, "block_count"), size_in(c, "num_hidden_layers", 0));
    gguf_put_u32(p->g, key_of(p, "attention.head_count"), size_in(c, "num_attention_heads", 0));
    gguf_put_f32(p->g, key_of(p, "attention.layer_norm_epsilon"), real_in(c, "rms_norm_eps", 1e-6));
}

/* image_size has no meaning for this tower, but readers want it. */
static void put_vision(struct gguf_out *g, const struct quantize_job *job, const struct image_grid *grid)
{
    const cJSON *c = json_get(job->documents.config.json, "vision_config");
    struct prefixed p = {.g = g, .prefix = "clip.vision"};
    gguf_put_bool(g, "clip.has_vision_encoder", true);
    put_text(g, key_of(&p, "projector_type"), "gemma4v");
    put_tower(&p, job, c, size_in(c, "intermediate_size", 0));
    gguf_put_u32(g, key_of(&p, "image_size"), 224);
    gguf_put_u32(g, key_of(&p, "patch_size"), (uint32_t)grid->patch);
    if (grid->pool != 3)
        gguf_put_u32(g, key_of(&p, "projector.scale_factor"), (uint32_t)grid->pool);
    for (int std = 0; std < 2; std++) {
        gguf_put_array(g, key_of(&p, std ? "image_std" : "image_mean"), GGUF_F32, 3);
        for (int i = 0; i < 3; i++)
            gguf_element_f32(g, (float)std);
    }
    gguf_put_u32(g, key_of(&p, GGUF_IMAGE_TOKENS), (uint32_t)grid->max_tokens);
}

static void put_audio(struct gguf_out *g, const struct quantize_job *job)
{
    const cJSON *c = json_get(job->documents.config.json, "audio_config");
    struct prefixed p = {.g = g, .prefix = "clip.audio"};
    gguf_put_bool(g, "clip.has_audio_encoder", true);
    put_text(g, key_of(&p, "projector_type"), "gemma4a");
    put_tower(&p, job, c, 4 * size_in(c, "hidden_size", 0));
    gguf_put_u32(g, key_of(&p, "num_mel_bins"),
                 size_in(json_get(job->documents.processor.json, "feature_extractor"), "feature_size", 128));
}

void gguf_projector_metadata(struct gguf_out *g, const struct quantize_job *job, const struct image_grid *vision,
                             bool audio, int file_type, int64_t n_elements)
{
    put_general(g, job, "clip", "mmproj", file_type, n_elements);
    if (vision)
        put_vision(g, job, vision);
    if (audio)
        put_audio(g, job);
}
