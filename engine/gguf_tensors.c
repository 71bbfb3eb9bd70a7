/* gguf_tensors.c - the tensors of a GGUF file under the names and in the layouts of a checkpoint folder. Weights stay
 * where they lie; only small tensors that a converter has changed are copied and changed back. */
#include "engine/ggml_codes.h"
#include "engine/gguf_model.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 999, MAX_OWN = 1 << 26 };

/* ---- names ----------------------------------------------------------------------------------------------------- */

/* Names without their last part; `bounded` layers have ".linear" in front of "weight", and bounds beside it. */
struct name { const char *gguf, *folder; bool bounded; };

static const struct name whole_names[] = {
    {"token_embd.weight", "model.embed_tokens.weight", false},
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", false},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight", false},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", false},
    {"output_norm.weight", "model.norm.weight", false},
    {"v.patch_embd.weight", "model.vision_tower.patch_embedder.input_proj.weight", false},
    {"v.position_embd.weight", "model.vision_tower.patch_embedder.position_embedding_table", false},
    {"v.std_bias", "model.vision_tower.std_bias", false},
    {"v.std_scale", "model.vision_tower.std_scale", false},
    {"mm.input_projection.weight", "model.embed_vision.embedding_projection.weight", false},
    {"a.conv1d.0.weight", "model.audio_tower.subsample_conv_projection.layer0.conv.weight", false},
    {"a.conv1d.0.norm.weight", "model.audio_tower.subsample_conv_projection.layer0.norm.weight", false},
    {"a.conv1d.1.weight", "model.audio_tower.subsample_conv_projection.layer1.conv.weight", false},
    {"a.conv1d.1.norm.weight", "model.audio_tower.subsample_conv_projection.layer1.norm.weight", false},
    {"a.input_projection.weight", "model.audio_tower.subsample_conv_projection.input_proj_linear.weight", false},
    {"a.pre_encode.out.weight", "model.audio_tower.output_proj.weight", false},
    {"a.pre_encode.out.bias", "model.audio_tower.output_proj.bias", false},
    {"mm.a.input_projection.weight", "model.embed_audio.embedding_projection.weight", false},
    {0},
};

static const struct name decoder_names[] = {
    {"attn_norm", "input_layernorm", false},
    {"post_attention_norm", "post_attention_layernorm", false},
    {"ffn_norm", "pre_feedforward_layernorm", false},
    {"post_ffw_norm", "post_feedforward_layernorm", false},
    {"post_norm", "post_per_layer_input_norm", false},
    {"attn_q", "self_attn.q_proj", false},
    {"attn_k", "self_attn.k_proj", false},
    {"attn_v", "self_attn.v_proj", false},
    {"attn_output", "self_attn.o_proj", false},
    {"attn_q_norm", "self_attn.q_norm", false},
    {"attn_k_norm", "self_attn.k_norm", false},
    {"ffn_gate", "mlp.gate_proj", false},
    {"ffn_up", "mlp.up_proj", false},
    {"ffn_down", "mlp.down_proj", false},
    {"inp_gate", "per_layer_input_gate", false},
    {"proj", "per_layer_projection", false},
    {"layer_output_scale", "layer_scalar", false},
    {0},
};

static const struct name vision_names[] = {
    {"ln1", "input_layernorm", false},
    {"attn_q", "self_attn.q_proj", true},
    {"attn_k", "self_attn.k_proj", true},
    {"attn_v", "self_attn.v_proj", true},
    {"attn_out", "self_attn.o_proj", true},
    {"attn_q_norm", "self_attn.q_norm", false},
    {"attn_k_norm", "self_attn.k_norm", false},
    {"attn_post_norm", "post_attention_layernorm", false},
    {"ln2", "pre_feedforward_layernorm", false},
    {"ffn_gate", "mlp.gate_proj", true},
    {"ffn_up", "mlp.up_proj", true},
    {"ffn_down", "mlp.down_proj", true},
    {"ffn_post_norm", "post_feedforward_layernorm", false},
    {0},
};

static const struct name audio_names[] = {
    {"ffn_norm", "feed_forward1.pre_layer_norm", false},
    {"ffn_up", "feed_forward1.ffw_layer_1", true},
    {"ffn_down", "feed_forward1.ffw_layer_2", true},
    {"ffn_post_norm", "feed_forward1.post_layer_norm", false},
    {"ffn_norm_1", "feed_forward2.pre_layer_norm", false},
    {"ffn_up_1", "feed_forward2.ffw_layer_1", true},
    {"ffn_down_1", "feed_forward2.ffw_layer_2", true},
    {"ffn_post_norm_1", "feed_forward2.post_layer_norm", false},
    {"attn_pre_norm", "norm_pre_attn", false},
    {"attn_q", "self_attn.q_proj", true},
    {"attn_k", "self_attn.k_proj", true},
    {"attn_v", "self_attn.v_proj", true},
    {"attn_out", "self_attn.post", true},
    {"attn_k_rel", "self_attn.relative_k_proj", false},
    {"per_dim_scale", "self_attn.per_dim_scale", false},
    {"attn_post_norm", "norm_post_attn", false},
    {"norm_conv", "lconv1d.conv_norm", false},              /* the converter's names of these two are crossed */
    {"conv_pw1", "lconv1d.linear_start", true},
    {"conv_dw", "lconv1d.depthwise_conv1d", false},
    {"conv_norm", "lconv1d.pre_layer_norm", false},
    {"conv_pw2", "lconv1d.linear_end", true},
    {"ln2", "norm_out", false},
    {0},
};

static const char *find_name(const struct name *names, const char *s, size_t len, bool *bounded)
{
    for (; names->gguf; names++)
        if (strlen(names->gguf) == len && memcmp(names->gguf, s, len) == 0) {
            *bounded = names->bounded;
            return names->folder;
        }
    return NULL;
}

/* The names within a layer are made of a stem and "weight" or a bound: "attn_q.input_min". */
static const char *layer_name(struct arena *a, const char *prefix, const char *number, size_t digits,
                              const struct name *names, const char *rest)
{
    const char *dot = strrchr(rest, '.');
    bool bounded;
    const char *stem = dot ? find_name(names, rest, (size_t)(dot - rest), &bounded) : NULL;
    if (!stem)
        return NULL;
    const bool weight = strcmp(dot, ".weight") == 0;
    const bool bare = strcmp(stem, "layer_scalar") == 0 || strcmp(stem, "self_attn.per_dim_scale") == 0;
    if (!weight && !bounded)
        return NULL;
    return arena_printf(a, "%slayers.%.*s.%s%s%s", prefix, (int)digits, number, stem,
                        weight && bounded ? ".linear" : "", bare ? "" : dot);
}

static const struct { const char *begin, *folder; const struct name *names; } layers[] = {
    {"blk.", "model.", decoder_names}, {"v.blk.", "model.vision_tower.encoder.", vision_names},
    {"a.blk.", "model.audio_tower.", audio_names}};
enum { N_LAYER_KINDS = sizeof layers / sizeof *layers };

const char *gguf_tensor_name(struct arena *a, const char *name)
{
    bool bounded;
    const char *found = find_name(whole_names, name, strlen(name), &bounded);
    for (size_t i = 0; i < N_LAYER_KINDS && !found; i++) {
        const size_t begin = strlen(layers[i].begin);
        if (strncmp(name, layers[i].begin, begin) != 0)
            continue;
        const size_t digits = strspn(name + begin, "0123456789");
        if (digits && name[begin + digits] == '.')
            found = layer_name(a, layers[i].folder, name + begin, digits, layers[i].names, name + begin + digits + 1);
    }
    return found ? found : name;
}

static bool is_bound(const char *s)
{
    static const char *const bounds[] = {".input_min", ".input_max", ".output_min", ".output_max"};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (strcmp(s, bounds[i]) == 0)
            return true;
    return false;
}

/* The inverse of layer_name: `rest` stands behind "layers.N.". */
static const char *file_layer_name(struct arena *a, const char *begin, const char *number, size_t digits,
                                   const struct name *names, const char *rest)
{
    for (; names->gguf; names++) {
        const size_t n = strlen(names->folder);
        if (strncmp(rest, names->folder, n) != 0)
            continue;
        const char *end = rest + n;
        const bool weight = strcmp(end, names->bounded ? ".linear.weight" : ".weight") == 0 || !*end;
        if (weight || (names->bounded && is_bound(end)))
            return arena_printf(a, "%s%.*s.%s%s", begin, (int)digits, number, names->gguf, weight ? ".weight" : end);
    }
    return NULL;
}

const char *gguf_file_name(struct arena *a, const char *name)
{
    static const char nested[] = "model.language_model.", probe[] = "handoff_probe.";
    if (strncmp(name, nested, sizeof nested - 1) == 0)
        name = arena_printf(a, "model.%s", name + sizeof nested - 1);
    if (strncmp(name, probe, sizeof probe - 1) == 0)
        return name + strlen("handoff_");
    for (const struct name *n = whole_names; n->gguf; n++)
        if (strcmp(n->folder, name) == 0)
            return n->gguf;
    for (size_t i = 0; i < N_LAYER_KINDS; i++) {
        const size_t folder = strlen(layers[i].folder), begin = folder + strlen("layers.");
        if (strncmp(name, layers[i].folder, folder) != 0 || strncmp(name + folder, "layers.", begin - folder) != 0)
            continue;
        const size_t digits = strspn(name + begin, "0123456789");
        if (digits && name[begin + digits] == '.')
            return file_layer_name(a, layers[i].begin, name + begin, digits, layers[i].names,
                                   name + begin + digits + 1);
    }
    return NULL;
}

/* ---- layouts --------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Numbers of its own instead of those in the file; only for what is not larger than MAX_OWN. */
static float *own_values(struct arena *a, struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    float *v = ARENA_NEW(a, float, n);
    tensor_read_f32(t, 0, n, v);
    t->type = TENSOR_F32;
    t->type_name = "F32";
    t->codec = NULL;
    t->data = v;
    t->n_bytes = (size_t)n * sizeof *v;
    return v;
}

/* A convolution [out, colour, row, column] becomes a linear layer [out, (row, column, colour)]. */
static void flatten_patches(struct arena *a, struct tensor *t)
{
    const int64_t out = t->dim[0], colours = t->dim[1], pixels = t->dim[2] * t->dim[3];
    float *v = own_values(a, t), *patch = ARENA_NEW(a, float, colours * pixels);
    for (int64_t o = 0; o < out; o++) {
        float *row = v + o * colours * pixels;
        for (int64_t c = 0; c < colours; c++)
            for (int64_t p = 0; p < pixels; p++)
                patch[p * colours + c] = row[c * pixels + p];
        memcpy(row, patch, (size_t)(colours * pixels) * sizeof *row);
    }
    t->n_dims = 2;
    t->dim[1] = colours * pixels;
}

/* The other way. */
static void unflatten_patches(struct arena *a, struct tensor *t, int patch)
{
    const int64_t out = t->dim[0], pixels = (int64_t)patch * patch, colours = t->dim[1] / pixels;
    float *v = own_values(a, t), *image = ARENA_NEW(a, float, colours * pixels);
    for (int64_t o = 0; o < out; o++) {
        float *row = v + o * colours * pixels;
        for (int64_t c = 0; c < colours; c++)
            for (int64_t p = 0; p < pixels; p++)
                image[c * pixels + p] = row[p * colours + c];
        memcpy(row, image, (size_t)(colours * pixels) * sizeof *row);
    }
    t->n_dims = 4;
    t->dim[1] = colours;
    t->dim[2] = t->dim[3] = patch;
}

static float softplus(float x)
{
    return x > 20 ? x : (float)log1p(exp((double)x));
}

static void apply_softplus(struct arena *a, struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    float *v = own_values(a, t);
    for (int64_t i = 0; i < n; i++)
        v[i] = softplus(v[i]);
}

/* It is stored behind the softplus that the tower applies: x = log(e^y - 1). Of the numbers that have this softplus
 * the one of 16 bits is taken, if there is one: checkpoints have such. */
static void undo_softplus(struct arena *a, struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    float *v = own_values(a, t);
    for (int64_t i = 0; i < n; i++) {
        const float x = v[i] > 20 ? v[i] : (float)log(expm1(v[i]));
        uint32_t bits;
        float brief;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x8000) & 0xffff0000;
        memcpy(&brief, &bits, sizeof brief);
        const float distance = fabsf(softplus(brief) - v[i]);
        v[i] = distance <= v[i] * FLT_EPSILON ? brief : x;
    }
}

static void restore_layout(struct arena *a, struct tensor *t)
{
    const bool bound = ends_with(t->name, "put_min") || ends_with(t->name, "put_max");
    if (bound && t->n_dims == 1 && t->dim[0] == 1)
        t->n_dims = 0;
    const bool small = tensor_elements(t) <= MAX_OWN;
    if (ends_with(t->name, "patch_embedder.input_proj.weight") && t->n_dims == 4 && small)
        flatten_patches(a, t);
    if (ends_with(t->name, "self_attn.per_dim_scale") && small)
        undo_softplus(a, t);
    if (ends_with(t->name, "depthwise_conv1d.weight") && t->n_dims == 2) {
        t->n_dims = 3;
        t->dim[2] = t->dim[1];
        t->dim[1] = 1;
    }
}

void gguf_projector_layout(struct arena *a, struct tensor *t, int patch)
{
    const bool small = tensor_elements(t) <= MAX_OWN;
    if (ends_with(t->name, "patch_embedder.input_proj.weight") && t->n_dims == 2 && small &&
        t->dim[1] % ((int64_t)patch * patch) == 0)
        unflatten_patches(a, t, patch);
    if (ends_with(t->name, "self_attn.per_dim_scale") && small)
        apply_softplus(a, t);
    if (ends_with(t->name, "depthwise_conv1d.weight") && t->n_dims == 3 && t->dim[1] == 1) {
        t->n_dims = 2;
        t->dim[1] = t->dim[2];
    }
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

/* Whole blocks are decoded; what lies outside the range is dropped. */
static void read_blocks(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    const struct ggml_type *type = t->aux;
    float values[GGML_MAX_BLOCK];
    const int size = type->block_elements;
    for (int64_t done = 0; done < n;) {
        const int64_t block = (first + done) / size, skip = (first + done) % size;
        const int64_t take = n - done < size - skip ? n - done : size - skip;
        const uint8_t *bytes = (const uint8_t *)t->data + block * type->block_bytes;
        if (take == size) {
            type->read_block(bytes, out + done);
        } else {
            type->read_block(bytes, values);
            memcpy(out + done, values + skip, (size_t)take * sizeof *out);
        }
        done += take;
    }
}

static bool block_format(const struct tensor *t, struct code_format *out)
{
    const struct ggml_codes *codes = ggml_codes_of(t->aux);
    if (codes)
        *out = codes->f;
    return codes != NULL;
}

static void read_block_codes(const struct tensor *t, int64_t first, struct code_run *out)
{
    const struct ggml_type *type = t->aux;
    ggml_codes_of(type)->read((const uint8_t *)t->data + first / type->block_elements * type->block_bytes, out);
}

const struct tensor_codec ggml_codec = {.read = read_blocks, .code_format = block_format,
                                        .read_codes = read_block_codes};

const struct ggml_type *gguf_stored_type(const struct tensor *t)
{
    return t->codec == &ggml_codec && t->skip == 0 ? t->aux : t->type == TENSOR_CODED || t->type == TENSOR_OTHER ? NULL
           : ggml_type_named(tensor_type_name(t->type));
}

static enum tensor_type type_of(const struct ggml_type *t)
{
    return t->read_block ? TENSOR_CODED : strcmp(t->name, "F32") == 0 ? TENSOR_F32 :
           strcmp(t->name, "F16") == 0 ? TENSOR_F16 : TENSOR_BF16;
}

/* One matrix with the rows of queries, keys and values, which llama.cpp reads as well: three that follow each other.
 * False if it is none, or has other sizes than the metadata say. */
static bool split_qkv(const struct gguf *first, const char *name, const struct tensor *t, struct arena *a,
                      struct tensor_list *out)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    struct err ignored;
    struct gguf_reader r = {.g = first, .prefix = gguf_decoder_architecture(first), .e = &ignored};
    int layer, end = 0;
    if (sscanf(name, "blk.%5d.attn_qkv.weight%n", &layer, &end) != 1 || !end || name[end] || layer < 0 ||
        t->n_dims != 2 || t->dim[0] < 1)
        return false;
    const uint64_t i = (uint64_t)layer;
    const bool sliding = gguf_read(&r, "attention.sliding_window_pattern", i) != 0;
    const double head = gguf_read(&r, sliding ? "attention.key_length_swa" : "attention.key_length", i);
    const double queries = head * gguf_read(&r, "attention.head_count", i);
    const double keys = head * gguf_read(&r, "attention.head_count_kv", i);
    if (r.bad || !(queries >= 1) || !(keys >= 1) || queries + 2 * keys != (double)t->dim[0])
        return false;
    const size_t row_bytes = t->n_bytes / (size_t)t->dim[0];
    size_t at = 0;
    for (int k = 0; k < 3; k++) {
        struct tensor part = *t;
        part.name = gguf_tensor_name(a, arena_printf(a, "blk.%d.%s.weight", layer, parts[k]));
        part.dim[0] = (int64_t)(k ? keys : queries);
        part.data = (const uint8_t *)t->data + at;
        part.n_bytes = (size_t)part.dim[0] * row_bytes;
        at += part.n_bytes;
        tensor_list_push(out, &part);
    }
    return true;
}

void gguf_tensors(const struct gguf *g, const struct gguf *first, struct arena *a, struct tensor_list *out)
{
    const enum gguf_content content = gguf_content(first);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *from = &g->tensors[i];
        struct tensor t = {.name = content == GGUF_OTHER ? from->name : gguf_tensor_name(a, from->name),
                           .file = g->file->path, .type_name = from->type->name, .type = type_of(from->type),
                           .codec = from->type->read_block ? &ggml_codec : NULL, .aux = from->type,
                           .n_dims = from->n_dims, .data = from->data, .n_bytes = from->n_bytes};
        for (int d = 0; d < t.n_dims; d++)
            t.dim[d] = (int64_t)from->ne[t.n_dims - 1 - d];
        if (content == GGUF_PROJECTOR)
            restore_layout(a, &t);
        if (content != GGUF_DECODER || !split_qkv(first, from->name, &t, a, out))
            tensor_list_push(out, &t);
    }
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

/* "-00001-of-00003.gguf" */
enum { PART_SUFFIX = 20 };

static void part_suffix(char out[PART_SUFFIX + 1], int index, int n_parts)
{
    snprintf(out, PART_SUFFIX + 1, "-%05u-of-%05u.gguf", (unsigned)(index + 1) % 1000, (unsigned)n_parts % 1000);
}

char *gguf_part_path(const char *path, int index, int n_parts)
{
    struct text t = {0};
    char suffix[PART_SUFFIX + 1];
    part_suffix(suffix, index, n_parts);
    text_put(&t, path, strlen(path) - PART_SUFFIX);
    text_puts(&t, suffix);
    return text_take(&t);
}

static int64_t whole_number(const struct gguf *g, const char *key, int64_t fallback)
{
    const struct gguf_value *v = gguf_find(g, key);
    double d;
    if (!v)
        return fallback;
    return gguf_number(v, 0, &d) && d >= 0 && d <= 1e9 && d == floor(d) ? (int64_t)d : -2;
}

int gguf_split(const struct gguf *g, int index, int *n_parts, int64_t *n_tensors, struct err *e)
{
    const char *path = g->file->path;
    const int64_t count = whole_number(g, "split.count", 0), number = whole_number(g, "split.no", 0);
    char suffix[PART_SUFFIX + 1];
    *n_tensors = whole_number(g, "split.tensors.count", -1);
    if (*n_tensors == -2)
        return err_input(e, "%s: metadata key split.tensors.count: a number was expected", path);
    if (index == 0 && (count == 0 || count == 1)) {
        *n_parts = 1;
        return 0;
    }
    if (count < 0 || count > MAX_PARTS)
        return err_input(e, "%s: metadata key split.count: a number up to %d was expected", path, MAX_PARTS);
    if (index == 0)
        *n_parts = (int)count;
    else if (count != *n_parts)
        return err_input(e, "%s: metadata key split.count: %d as in the first part was expected, not %lld", path,
                         *n_parts, (long long)count);
    if (number != index)
        return err_input(e, "%s: metadata key split.no: part %d was expected here, not %lld%s", path, index,
                         (long long)number, index == 0 ? " (give the first part, -00001-of-...)" : "");
    part_suffix(suffix, index, *n_parts);
    if (!ends_with(path, suffix))
        return err_input(e, "%s: a split file whose name ends in %s was expected", path, suffix);
    return 0;
}
