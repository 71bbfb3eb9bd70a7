/* gguf_towers.c - a projector file's metadata to vision_config and audio_config. Much of what these say is not in the
 * file: it is fixed by the projector's type, and repeated here; sizes that only the tensors know are read off them. */
#include "engine/gguf_model.h"

#include <string.h>

/* Dimension `dim` of a tensor of this rank, 0 if there is none: the tower's own checks then name it. */
static double size_of(const struct weights *w, const char *name, int n_dims, int dim)
{
    const struct tensor *t = weights_find(w, name);
    return t && t->n_dims == n_dims ? (double)t->dim[dim] : 0;
}

/* Whether any linear layer of the tower has bounds. */
static bool is_bounded(const struct weights *w, const char *prefix)
{
    for (size_t i = 0; i < weights_count(w); i++) {
        const char *name = weights_at(w, i)->name;
        const size_t n = strlen(name);
        if (strncmp(name, prefix, strlen(prefix)) == 0 && n > 10 && strcmp(name + n - 10, ".input_min") == 0)
            return true;
    }
    return false;
}

/* Every number of the array is `want`, or there is no such key. */
static bool all_are(const struct gguf *g, const char *key, double want)
{
    const struct gguf_value *v = gguf_find(g, key);
    double x;
    for (uint64_t i = 0; v && i < v->count; i++)
        if (!gguf_number(v, i, &x) || x != want)
            return false;
    return true;
}

static bool is_true(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = gguf_find(g, key);
    double x;
    return v && gguf_number(v, 0, &x) && x != 0;
}

/* A file for one tower alone may leave its name out of the key. */
static int check_type(const struct gguf *g, const char *tower_key, const char *want, struct err *e)
{
    const char *key = gguf_find(g, tower_key) ? tower_key : "clip.projector_type";
    return gguf_equals(g, key, want) ? 0
        : err_input(e, "%s: metadata key %s: \"%s\" was expected", g->file->path, tower_key, want);
}

static int add_vision(cJSON *config, const struct gguf *g, const struct weights *w, struct err *e)
{
    struct gguf_reader r = {.g = g, .prefix = "clip.vision", .e = e};
    if (check_type(g, "clip.vision.projector_type", "gemma4v", e))
        return -1;
    if (!all_are(g, "clip.vision.image_mean", 0) || !all_are(g, "clip.vision.image_std", 1))
        return err_input(e, "%s: metadata keys clip.vision.image_mean, image_std: zeros and ones were expected",
                         g->file->path);
    cJSON *c = cJSON_AddObjectToObject(config, "vision_config");
    cJSON_AddNumberToObject(c, "hidden_size", gguf_read(&r, "embedding_length", 0));
    cJSON_AddNumberToObject(c, "num_hidden_layers", gguf_read(&r, "block_count", 0));
    cJSON_AddNumberToObject(c, "num_attention_heads", gguf_read(&r, "attention.head_count", 0));
    cJSON_AddNumberToObject(c, "head_dim", size_of(w, "model.vision_tower.encoder.layers.0.self_attn.q_norm.weight",
                                                   1, 0));
    cJSON_AddNumberToObject(c, "intermediate_size", gguf_read(&r, "feed_forward_length", 0));
    cJSON_AddNumberToObject(c, "patch_size", gguf_read(&r, "patch_size", 0));
    cJSON_AddNumberToObject(c, "pooling_kernel_size", gguf_read_or(&r, "projector.scale_factor", 3));
    cJSON_AddNumberToObject(c, "rms_norm_eps", gguf_decimal(gguf_read(&r, "attention.layer_norm_epsilon", 0)));
    cJSON_AddNumberToObject(c, "position_embedding_size",
                            size_of(w, "model.vision_tower.patch_embedder.position_embedding_table", 3, 1));
    const double budget = gguf_read_or(&r, GGUF_IMAGE_TOKENS, 0);
    if (budget > 0)
        cJSON_AddNumberToObject(config, "vision_soft_tokens_per_image", budget);
    cJSON_AddBoolToObject(c, "standardize", weights_find(w, "model.vision_tower.std_bias") != NULL);
    cJSON_AddBoolToObject(c, "use_clipped_linears", is_bounded(w, "model.vision_tower."));
    return r.bad ? -1 : 0;
}

/* The epsilon in older files is wrong; every model of this type was made with the same. */
static int add_audio(cJSON *config, cJSON *processor, const struct gguf *g, const struct weights *w, struct err *e)
{
    static const char *const convolutions[] = {
        "model.audio_tower.subsample_conv_projection.layer0.conv.weight",
        "model.audio_tower.subsample_conv_projection.layer1.conv.weight"};
    struct gguf_reader r = {.g = g, .prefix = "clip.audio", .e = e};
    if (check_type(g, "clip.audio.projector_type", "gemma4a", e))
        return -1;
    cJSON *c = cJSON_AddObjectToObject(config, "audio_config");
    cJSON_AddNumberToObject(c, "hidden_size", gguf_read(&r, "embedding_length", 0));
    cJSON_AddNumberToObject(c, "num_hidden_layers", gguf_read(&r, "block_count", 0));
    cJSON_AddNumberToObject(c, "num_attention_heads", gguf_read(&r, "attention.head_count", 0));
    cJSON_AddNumberToObject(c, "rms_norm_eps", 1e-6);
    cJSON *channels = cJSON_AddArrayToObject(c, "subsampling_conv_channels");
    for (int i = 0; i < 2; i++)
        cJSON_AddItemToArray(channels, cJSON_CreateNumber(size_of(w, convolutions[i], 4, 0)));
    cJSON_AddNumberToObject(c, "conv_kernel_size",
                            size_of(w, "model.audio_tower.layers.0.lconv1d.depthwise_conv1d.weight", 3, 2));
    cJSON_AddNumberToObject(c, "output_proj_dims", size_of(w, "model.audio_tower.output_proj.weight", 2, 0));
    cJSON_AddBoolToObject(c, "use_clipped_linears", is_bounded(w, "model.audio_tower."));
    cJSON *frames = cJSON_AddObjectToObject(processor, "feature_extractor");
    cJSON_AddNumberToObject(frames, "feature_size", gguf_read_or(&r, "num_mel_bins", 128));
    return r.bad ? -1 : 0;
}

int gguf_towers_read(cJSON *config, cJSON **processor, const struct gguf *g, const struct weights *w, struct err *e)
{
    const bool vision = is_true(g, "clip.has_vision_encoder"), audio = is_true(g, "clip.has_audio_encoder");
    *processor = NULL;
    if (gguf_content(g) != GGUF_PROJECTOR || (!vision && !audio))
        return err_input(e, "%s: a projector file (general.architecture clip, with a vision or audio encoder) was "
                         "expected", g->file->path);
    *processor = cJSON_CreateObject();
    if ((vision && add_vision(config, g, w, e)) || (audio && add_audio(config, *processor, g, w, e))) {
        cJSON_Delete(*processor);
        *processor = NULL;
        return -1;
    }
    return 0;
}
