/* config.c - config.json and generation_config.json of a Gemma 4 checkpoint. A key that would need arithmetic which
 * this engine does not do is refused: a model that runs wrongly is worse than one that does not run. */
#include "engine/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 1 << 20, MAX_LAYERS = 1024, MAX_VOCAB = 1 << 24, MAX_POSITIONS = 1 << 24 };

/* Reads keys of one object until the first fault; the error is kept and later calls do nothing. */
struct reader {
    const cJSON *json;
    const char *where;
    struct err *e;
    bool bad;
};

#define REFUSE(r, ...) ((r)->bad = (r)->bad || err_input((r)->e, __VA_ARGS__))

/* A fallback below lo makes the key required. */
static int read_int(struct reader *r, const char *key, int lo, int hi, int fallback)
{
    int64_t value = 0;
    if (!r->bad)
        r->bad = json_int(r->json, key, lo, hi, fallback, &value, r->where, r->e) != 0;
    return (int)value;
}

static double read_positive(struct reader *r, const cJSON *json, const char *key, double max)
{
    const cJSON *v = json_get(json, key);
    if (r->bad)
        return 1;
    if (!cJSON_IsNumber(v) || !(v->valuedouble > 0) || v->valuedouble > max) {
        REFUSE(r, "%s: key \"%s\": a number above 0 and up to %g was expected", r->where, key, max);
        return 1;
    }
    return v->valuedouble;
}

/* Null, false, 0 or absent. */
static void expect_unset(struct reader *r, const char *key, const char *why)
{
    const cJSON *v = json_get(r->json, key);
    if (v && !cJSON_IsNull(v) && !cJSON_IsFalse(v) && !(cJSON_IsNumber(v) && v->valuedouble == 0))
        REFUSE(r, "%s: key \"%s\" is set, but %s not supported (a model like Gemma 4 E2B was expected)", r->where, key,
               why);
}

static bool read_bool(struct reader *r, const char *key, bool fallback)
{
    const cJSON *v = json_get(r->json, key);
    if (v && !cJSON_IsNull(v) && !cJSON_IsBool(v))
        REFUSE(r, "%s: key \"%s\": true or false was expected", r->where, key);
    return v && cJSON_IsBool(v) ? cJSON_IsTrue(v) : fallback;
}

/* ---- what kind of model ---------------------------------------------------------------------------------------- */

static void check_family(struct reader *r)
{
    const cJSON *classes = json_get(r->json, "architectures");
    const cJSON *class = cJSON_IsArray(classes) ? classes->child : NULL;
    const char *name = cJSON_IsString(class) ? class->valuestring : NULL;
    const char *type = json_string(r->json, "model_type");
    if (name && strncmp(name, "Gemma4", 6) != 0)
        REFUSE(r, "%s: key \"architectures\": a Gemma4 class was expected, not \"%s\"", r->where, name);
    const bool known = type && (strcmp(type, "gemma4") == 0 || strcmp(type, "gemma4_text") == 0);
    if (!known && (json_get(r->json, "model_type") || !name))
        REFUSE(r, "%s: key \"model_type\": \"gemma4\" or \"gemma4_text\" was expected, not \"%s\"", r->where,
               type ? type : "");
}

static void check_arithmetic(struct reader *r)
{
    expect_unset(r, "attention_k_eq_v", "attention with keys as values is");
    expect_unset(r, "enable_moe_block", "a mixture of experts is");
    expect_unset(r, "num_experts", "a mixture of experts is");
    expect_unset(r, "use_bidirectional_attention", "bidirectional attention is");
    expect_unset(r, "attention_bias", "a bias in attention is");
    const char *activation = json_string(r->json, "hidden_activation");
    if (json_get(r->json, "hidden_activation") && (!activation || strcmp(activation, "gelu_pytorch_tanh") != 0))
        REFUSE(r, "%s: key \"hidden_activation\": \"gelu_pytorch_tanh\" was expected, not \"%s\"", r->where,
               activation ? activation : "");
    if (!read_bool(r, "tie_word_embeddings", true))
        REFUSE(r, "%s: key \"tie_word_embeddings\": true was expected, an output matrix of its own is not supported",
               r->where);
}

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

static void read_rope(struct reader *r, const char *key, const char *type, struct attention_kind *kind)
{
    const cJSON *all = json_get(r->json, "rope_parameters"), *rope = cJSON_IsObject(all) ? json_get(all, key) : NULL;
    const char *have = cJSON_IsObject(rope) ? json_string(rope, "rope_type") : NULL;
    if (!cJSON_IsObject(rope)) {
        REFUSE(r, "%s: key \"rope_parameters\": an entry \"%s\" was expected", r->where, key);
        return;
    }
    if (!have || strcmp(have, type) != 0)
        REFUSE(r, "%s: key \"rope_parameters.%s.rope_type\": \"%s\" was expected, not \"%s\"", r->where, key, type,
               have ? have : "");
    kind->rope_theta = read_positive(r, rope, "rope_theta", 1e12);
    double share = 1;
    if (json_get(rope, "partial_rotary_factor"))
        share = read_positive(r, rope, "partial_rotary_factor", 1);
    kind->rope_pairs = (int)(share * kind->head_dim / 2);
}

static void read_sizes(struct reader *r, struct config *c)
{
    c->n_layers = read_int(r, "num_hidden_layers", 1, MAX_LAYERS, 0);
    c->hidden_size = read_int(r, "hidden_size", 1, MAX_SIZE, 0);
    c->n_heads = read_int(r, "num_attention_heads", 1, 4096, 0);
    c->n_kv_heads = read_int(r, "num_key_value_heads", 1, 4096, 0);
    c->vocab_size = read_int(r, "vocab_size", 1, MAX_VOCAB, 0);
    c->max_positions = read_int(r, "max_position_embeddings", 1, MAX_POSITIONS, 0);
    c->ple_size = read_int(r, "hidden_size_per_layer_input", 1, MAX_SIZE, 0);
    c->kind[0].head_dim = read_int(r, "head_dim", 2, 1 << 14, 0);
    c->kind[1].head_dim = read_int(r, "global_head_dim", 2, 1 << 14, 0);
    c->kind[0].window = read_int(r, "sliding_window", 1, MAX_POSITIONS, 0);
    c->n_kv_shared_layers = read_int(r, "num_kv_shared_layers", 0, MAX_LAYERS, 0);
    c->norm_eps = (float)read_positive(r, r->json, "rms_norm_eps", 1);
    c->logit_cap = (float)read_positive(r, r->json, "final_logit_softcapping", 1e6);
    if (r->bad)
        return;
    if (c->n_heads % c->n_kv_heads)
        REFUSE(r, "%s: key \"num_key_value_heads\": a divisor of num_attention_heads (%d) was expected, not %d",
               r->where, c->n_heads, c->n_kv_heads);
    if (read_int(r, "num_global_key_value_heads", 1, 4096, c->n_kv_heads) != c->n_kv_heads)
        REFUSE(r, "%s: key \"num_global_key_value_heads\": null or num_key_value_heads was expected", r->where);
    if (read_int(r, "vocab_size_per_layer_input", 1, MAX_VOCAB, c->vocab_size) != c->vocab_size)
        REFUSE(r, "%s: key \"vocab_size_per_layer_input\": vocab_size (%d) was expected", r->where, c->vocab_size);
    if (c->n_kv_shared_layers >= c->n_layers)
        REFUSE(r, "%s: key \"num_kv_shared_layers\": less than num_hidden_layers (%d) was expected", r->where,
               c->n_layers);
    for (int full = 0; full < 2; full++)
        if (c->kind[full].head_dim % 2)
            REFUSE(r, "%s: key \"%s\": an even number was expected", r->where, full ? "global_head_dim" : "head_dim");
    read_rope(r, "sliding_attention", "default", &c->kind[0]);
    read_rope(r, "full_attention", "proportional", &c->kind[1]);
}

/* A shared layer reads the last layer of its own kind that owns keys and values. */
static void read_layers(struct reader *r, struct config *c)
{
    const cJSON *types = json_get(r->json, "layer_types");
    const int mlp_size = read_int(r, "intermediate_size", 1, MAX_SIZE, 0);
    const bool double_wide = read_bool(r, "use_double_wide_mlp", false);
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != c->n_layers)
        REFUSE(r, "%s: key \"layer_types\": an array of num_hidden_layers (%d) entries was expected", r->where,
               c->n_layers);
    if (r->bad)
        return;
    c->layer = NEW(struct layer_config, c->n_layers);
    c->last_kv_layer = c->n_layers - c->n_kv_shared_layers - 1;
    int source[2] = {-1, -1}, l = 0;
    for (const cJSON *type = types->child; type; type = type->next, l++) {
        const char *name = cJSON_IsString(type) ? type->valuestring : "";
        struct layer_config *layer = &c->layer[l];
        const bool shared = l > c->last_kv_layer;
        layer->full = strcmp(name, "full_attention") == 0;
        if (!layer->full && strcmp(name, "sliding_attention") != 0)
            REFUSE(r, "%s: key \"layer_types\": entry %d: sliding_attention or full_attention was expected, not \"%s\"",
                   r->where, l, name);
        if (!shared)
            source[layer->full] = l;
        layer->kv_layer = source[layer->full];
        if (layer->kv_layer < 0)
            REFUSE(r, "%s: key \"layer_types\": layer %d shares keys and values, but no layer of its kind owns any",
                   r->where, l);
        layer->mlp_size = shared && double_wide ? 2 * mlp_size : mlp_size;
    }
}

/* ---- ids ------------------------------------------------------------------------------------------------------- */

static int32_t read_id(struct reader *r, const struct config *c, const char *key, int32_t fallback)
{
    const cJSON *v = json_get(r->json, key);
    if (!v || cJSON_IsNull(v))
        return fallback;
    return read_int(r, key, 0, c->vocab_size - 1, -1);
}

/* One number or a list. */
static void read_eos(struct reader *r, struct config *c)
{
    const cJSON *v = json_get(r->json, "eos_token_id");
    if (r->bad || !v || cJSON_IsNull(v))
        return;
    const int max = (int)(sizeof c->eos_ids / sizeof *c->eos_ids);
    const cJSON *id = cJSON_IsArray(v) ? v->child : v;
    for (int n = 0; id; id = cJSON_IsArray(v) ? id->next : NULL, n++) {
        if (n == max || !cJSON_IsNumber(id) || id->valuedouble != floor(id->valuedouble) || id->valuedouble < 0 ||
            id->valuedouble >= c->vocab_size) {
            REFUSE(r, "%s: key \"eos_token_id\": at most %d ids below vocab_size (%d) were expected", r->where, max,
                   c->vocab_size);
            return;
        }
        c->eos_ids[c->n_eos++] = (int32_t)id->valuedouble;
    }
}

/* `top` holds the multimodal ids, `text` the decoder's own, `generation` what overrides both. */
static void read_ids(struct reader *top, struct reader *text, struct reader *generation, struct config *c)
{
    c->pad_id = read_id(text, c, "pad_token_id", 0);
    c->bos_id = read_id(text, c, "bos_token_id", 2 < c->vocab_size ? 2 : 0);
    c->image = (struct placeholder){read_id(top, c, "image_token_id", -1), read_id(top, c, "boi_token_id", -1),
                                    read_id(top, c, "eoi_token_id", -1)};
    c->audio = (struct placeholder){read_id(top, c, "audio_token_id", -1), read_id(top, c, "boa_token_id", -1),
                                    read_id(top, c, "eoa_token_id", read_id(top, c, "eoa_token_index", -1))};
    c->video_id = read_id(top, c, "video_token_id", -1);
    if (generation->json) {
        c->bos_id = read_id(generation, c, "bos_token_id", c->bos_id);
        read_eos(generation, c);
    }
    if (c->n_eos == 0)
        read_eos(top, c);
    if (c->n_eos == 0)
        read_eos(text, c);
    if (c->n_eos == 0)
        REFUSE(text, "%s: key \"eos_token_id\" is missing here and in generation_config.json", text->where);
}

int32_t config_embedded_id(const struct config *c, int32_t id)
{
    return id == c->image.token || id == c->audio.token || id == c->video_id ? c->pad_id : id;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

int config_read(struct config *c, const cJSON *json, const cJSON *generation, const struct weights *w,
                const char *where, struct err *e)
{
    *c = (struct config){0};
    if (!cJSON_IsObject(json) || (generation && !cJSON_IsObject(generation)))
        return err_input(e, "%s: an object was expected%s", where,
                         cJSON_IsObject(json) ? " in the generation_config.json beside it" : "");
    const cJSON *nested = json_get(json, "text_config");
    if (nested && !cJSON_IsObject(nested))
        return err_input(e, "%s: key \"text_config\": an object was expected", where);
    struct reader top = {.json = json, .where = where, .e = e};
    struct reader text = {.json = nested ? nested : json, .where = where, .e = e};
    struct reader extra = {.json = generation, .where = where, .e = e};
    check_family(&top);
    if (top.bad)
        return -1;
    c->prefix = weights_find(w, "model.language_model.embed_tokens.weight") ? "model.language_model." : "model.";
    check_arithmetic(&text);
    read_sizes(&text, c);
    read_layers(&text, c);
    if (!text.bad)
        read_ids(&top, &text, &extra, c);
    if (!text.bad && !top.bad && !extra.bad) {
        rope_frequencies(&c->kind[0]);
        rope_frequencies(&c->kind[1]);
        return 0;
    }
    config_free(c);
    return -1;
}

void config_free(struct config *c)
{
    free(c->layer);
    free(c->kind[0].frequency);
    free(c->kind[1].frequency);
    *c = (struct config){0};
}
