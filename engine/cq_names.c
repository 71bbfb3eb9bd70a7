/* cq_names.c - which tensor of a checkpoint a file of a bundle holds, where no manifest says so. */
#include "engine/cq.h"

#include <stdio.h>
#include <string.h>

/* Stems of files, and the names without "weight"; `bounded` layers have ".linear" in front of it, and bounds beside. */
struct name { const char *file, *tensor; bool bounded; };

static const struct name whole_names[] = {
    {"token_embeddings", "model.language_model.embed_tokens", false},
    {"output_weight", "lm_head", false},
    {"embed_tokens_per_layer", "model.language_model.embed_tokens_per_layer", false},
    {"per_layer_model_proj", "model.language_model.per_layer_model_projection", false},
    {"per_layer_proj_norm", "model.language_model.per_layer_projection_norm", false},
    {"output_norm", "model.language_model.norm", false},
    {"embed_vision_proj", "model.embed_vision.embedding_projection", false},
    {"embed_audio_proj", "model.embed_audio.embedding_projection", false},
    {"vision_patch_embedder_input_proj", "model.vision_tower.patch_embedder.input_proj", false},
    {"vision_patch_embedder_position_embedding_table", "model.vision_tower.patch_embedder.position_embedding_table",
     false},
    {"vision_std_bias", "model.vision_tower.std_bias", false},
    {"vision_std_scale", "model.vision_tower.std_scale", false},
    {"audio_output_proj", "model.audio_tower.output_proj", false},
    {"audio_subsample_conv_projection_input_proj", "model.audio_tower.subsample_conv_projection.input_proj_linear",
     false},
    {"audio_subsample_conv_projection_conv_0_conv", "model.audio_tower.subsample_conv_projection.layer0.conv", false},
    {"audio_subsample_conv_projection_conv_0_norm", "model.audio_tower.subsample_conv_projection.layer0.norm", false},
    {"audio_subsample_conv_projection_conv_1_conv", "model.audio_tower.subsample_conv_projection.layer1.conv", false},
    {"audio_subsample_conv_projection_conv_1_norm", "model.audio_tower.subsample_conv_projection.layer1.norm", false},
    {0},
};

static const struct name decoder_names[] = {
    {"input_norm", "input_layernorm", false},
    {"post_attn_norm", "post_attention_layernorm", false},
    {"pre_ffn_norm", "pre_feedforward_layernorm", false},
    {"post_ffn_norm", "post_feedforward_layernorm", false},
    {"post_per_layer_norm", "post_per_layer_input_norm", false},
    {"attn_q", "self_attn.q_proj", false},
    {"attn_k", "self_attn.k_proj", false},
    {"attn_v", "self_attn.v_proj", false},
    {"attn_output", "self_attn.o_proj", false},
    {"attn_q_norm", "self_attn.q_norm", false},
    {"attn_k_norm", "self_attn.k_norm", false},
    {"ffn_gate", "mlp.gate_proj", false},
    {"ffn_up", "mlp.up_proj", false},
    {"ffn_down", "mlp.down_proj", false},
    {"per_layer_gate", "per_layer_input_gate", false},
    {"per_layer_proj", "per_layer_projection", false},
    {"layer_scalar", "layer_scalar", false},
    {0},
};

static const struct name vision_names[] = {
    {"input_layernorm", "input_layernorm", false},
    {"post_attention_layernorm", "post_attention_layernorm", false},
    {"pre_feedforward_layernorm", "pre_feedforward_layernorm", false},
    {"post_feedforward_layernorm", "post_feedforward_layernorm", false},
    {"self_attn_q_proj", "self_attn.q_proj", true},
    {"self_attn_k_proj", "self_attn.k_proj", true},
    {"self_attn_v_proj", "self_attn.v_proj", true},
    {"self_attn_o_proj", "self_attn.o_proj", true},
    {"self_attn_q_norm", "self_attn.q_norm", false},
    {"self_attn_k_norm", "self_attn.k_norm", false},
    {"mlp_gate_proj", "mlp.gate_proj", true},
    {"mlp_up_proj", "mlp.up_proj", true},
    {"mlp_down_proj", "mlp.down_proj", true},
    {0},
};

static const struct name audio_names[] = {
    {"ffw_layer_start_pre_layer_norm", "feed_forward1.pre_layer_norm", false},
    {"ffw_layer_start_ffw_layer_1", "feed_forward1.ffw_layer_1", true},
    {"ffw_layer_start_ffw_layer_2", "feed_forward1.ffw_layer_2", true},
    {"ffw_layer_start_post_layer_norm", "feed_forward1.post_layer_norm", false},
    {"ffw_layer_end_pre_layer_norm", "feed_forward2.pre_layer_norm", false},
    {"ffw_layer_end_ffw_layer_1", "feed_forward2.ffw_layer_1", true},
    {"ffw_layer_end_ffw_layer_2", "feed_forward2.ffw_layer_2", true},
    {"ffw_layer_end_post_layer_norm", "feed_forward2.post_layer_norm", false},
    {"attention_pre_attn_norm", "norm_pre_attn", false},
    {"attention_attn_q_proj", "self_attn.q_proj", true},
    {"attention_attn_k_proj", "self_attn.k_proj", true},
    {"attention_attn_v_proj", "self_attn.v_proj", true},
    {"attention_attn_per_dim_scale", "self_attn.per_dim_scale", false},
    {"attention_attn_relative_position_embedding_pos_proj", "self_attn.relative_k_proj", false},
    {"attention_post", "self_attn.post", true},
    {"attention_post_norm", "norm_post_attn", false},
    {"lconv1d_pre_layer_norm", "lconv1d.pre_layer_norm", false},
    {"lconv1d_linear_start", "lconv1d.linear_start", true},
    {"lconv1d_depthwise_conv1d", "lconv1d.depthwise_conv1d", false},
    {"lconv1d_conv_norm", "lconv1d.conv_norm", false},
    {"lconv1d_linear_end", "lconv1d.linear_end", true},
    {"norm", "norm_out", false},
    {0},
};

static const struct { const char *begin, *tensor; const struct name *names; } layer_tables[] = {
    {"layer_", "model.language_model.layers.", decoder_names},
    {"vision_encoder_layers_", "model.vision_tower.encoder.layers.", vision_names},
    {"audio_conformer_", "model.audio_tower.layers.", audio_names}};
enum { N_LAYER_TABLES = sizeof layer_tables / sizeof *layer_tables };

static bool ends_with(const char *s, size_t len, const char *end)
{
    const size_t n = strlen(end);
    return len > n && memcmp(s + len - n, end, n) == 0;
}

/* The length of a file's name without its extension; 0 if it is none of a tensor. */
static size_t stem_length(const char *file)
{
    static const char *const ends[] = {".cq4p.weights", ".weights", ".bias"};
    const size_t len = strlen(file);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(file, len, ends[i]))
            return len - strlen(ends[i]);
    return 0;
}

/* "model.layers.3." and the like for a stem; *rest is what follows. */
static const struct name *table_of(const char *file, char prefix[64], const char **rest)
{
    for (size_t i = 0; i < N_LAYER_TABLES; i++) {
        const size_t begin = strlen(layer_tables[i].begin);
        if (strncmp(file, layer_tables[i].begin, begin) != 0)
            continue;
        const size_t digits = strspn(file + begin, "0123456789");
        if (digits && digits < 6 && file[begin + digits] == '_') {
            snprintf(prefix, 64, "%s%.*s.", layer_tables[i].tensor, (int)digits, file + begin);
            *rest = file + begin + digits + 1;
            return layer_tables[i].names;
        }
    }
    *prefix = '\0';
    *rest = file;
    return whole_names;
}

static const struct name *find_name(const struct name *names, const char *s, size_t len)
{
    for (; names->file; names++)
        if (strlen(names->file) == len && memcmp(names->file, s, len) == 0)
            return names;
    return NULL;
}

/* Names that are not those of a layer's weight. */
static bool is_bare(const char *tensor)
{
    static const char *const bare[] = {"layer_scalar", "per_dim_scale", "position_embedding_table", "std_bias",
                                       "std_scale"};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strstr(tensor, bare[i]))
            return true;
    return false;
}

const char *cq_tensor_name(struct arena *a, const char *file)
{
    static const char *const bounds[] = {"input_min", "input_max", "output_min", "output_max"};
    char prefix[64];
    const char *rest;
    const size_t stem = stem_length(file);
    const struct name *names = table_of(file, prefix, &rest);
    if (!stem || file + stem <= rest)
        return NULL;
    size_t len = (size_t)(file + stem - rest);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const size_t bound = strlen(bounds[i]) + 1;
        if (len <= bound || rest[len - bound] != '_' || !ends_with(rest, len, bounds[i]))
            continue;
        const struct name *n = find_name(names, rest, len - bound);
        return n && n->bounded ? arena_printf(a, "%s%s.%s", prefix, n->tensor, bounds[i]) : NULL;
    }
    const struct name *n = find_name(names, rest, len);
    if (!n)
        return NULL;
    const char *part = ends_with(file, strlen(file), ".bias") ? ".bias" : is_bare(n->tensor) ? "" : ".weight";
    return arena_printf(a, "%s%s%s%s", prefix, n->tensor, n->bounded ? ".linear" : "", part);
}

/* What is left of a tensor's name behind the layer's part of it, as the end of a file's name; NULL: none. */
static const char *file_ending(const struct name *n, const char *tail)
{
    static const char *const bounds[] = {".input_min", ".input_max", ".output_min", ".output_max"};
    for (size_t i = 0; n->bounded && i < sizeof bounds / sizeof *bounds; i++)
        if (strcmp(tail, bounds[i]) == 0)
            return bounds[i];
    if (is_bare(n->tensor))
        return *tail ? NULL : ".weights";
    if (n->bounded) {
        if (strncmp(tail, ".linear", 7) != 0)
            return NULL;
        tail += 7;
    }
    return strcmp(tail, ".weight") == 0 ? ".weights" : strcmp(tail, ".bias") == 0 ? ".bias" : NULL;
}

const char *cq_file_name(struct arena *a, const char *tensor)
{
    char begin[64] = "";
    const struct name *names = whole_names;
    const char *rest = tensor;
    for (size_t i = 0; i < N_LAYER_TABLES; i++) {
        const size_t n = strlen(layer_tables[i].tensor);
        if (strncmp(tensor, layer_tables[i].tensor, n) != 0)
            continue;
        const size_t digits = strspn(tensor + n, "0123456789");
        if (!digits || digits > 5 || tensor[n + digits] != '.')
            return NULL;
        snprintf(begin, sizeof begin, "%s%.*s_", layer_tables[i].begin, (int)digits, tensor + n);
        names = layer_tables[i].names;
        rest = tensor + n + digits + 1;
    }
    for (; names->file; names++) {
        const size_t n = strlen(names->tensor);
        const char *end = strncmp(rest, names->tensor, n) == 0 ? file_ending(names, rest + n) : NULL;
        if (!end)
            continue;
        if (strstr(end, "put_"))            /* a bound */
            return arena_printf(a, "%s%s_%s.weights", begin, names->file, end + 1);
        return arena_printf(a, "%s%s%s", begin, names->file, end);
    }
    return NULL;
}

double cq_scale(const char *file)
{
    static const char *const sixteen[] = {"ffn_gate", "ffn_up", "per_layer_gate"};
    static const char *const sixteenth[] = {"token_embeddings", "output_weight", "embed_vision_proj",
                                            "embed_audio_proj"};
    static const char *const norms[] = {"input_norm", "post_attn_norm", "pre_ffn_norm", "post_ffn_norm",
                                        "post_per_layer_norm", "post_proj_norm", "router_scale"};
    const size_t layer = strncmp(file, "layer_", 6) == 0 ? strspn(file + 6, "0123456789") : 0;
    const char *rest = layer && file[6 + layer] == '_' ? file + 7 + layer : file;
    const size_t stem = stem_length(file);
    const size_t len = file + stem > rest ? (size_t)(file + stem - rest) : 0;
    for (size_t i = 0; i < sizeof sixteen / sizeof *sixteen; i++)
        if (strlen(sixteen[i]) == len && memcmp(sixteen[i], rest, len) == 0)
            return 16;
    for (size_t i = 0; i < sizeof sixteenth / sizeof *sixteenth; i++)
        if (strlen(sixteenth[i]) == len && memcmp(sixteenth[i], rest, len) == 0)
            return 1.0 / 16;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (strstr(file, norms[i]))
            return 1.0 / 16;
    return strcmp(file, "output_norm.weights") == 0 ? 16 : 1;
}
