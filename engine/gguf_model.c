/* gguf_model.c - GGUF metadata to config.json, tokenizer.json and tensor names. */
#include "engine/gguf_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const architectures[] = {"gemma4", "gemma-4-e2b-it-hybrid"};

/* ---- names ----------------------------------------------------------------------------------------------------- */

static const char *const whole_names[][2] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
    {"output_norm.weight", "model.norm.weight"},
};

static const char *const layer_names[][2] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {"post_norm.weight", "post_per_layer_input_norm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"inp_gate.weight", "per_layer_input_gate.weight"},
    {"proj.weight", "per_layer_projection.weight"},
    {"layer_output_scale.weight", "layer_scalar"},
};

const char *gguf_tensor_name(struct arena *a, const char *name)
{
    int layer, used = 0;
    for (size_t i = 0; i < sizeof whole_names / sizeof *whole_names; i++)
        if (strcmp(name, whole_names[i][0]) == 0)
            return whole_names[i][1];
    if (sscanf(name, "blk.%d.%n", &layer, &used) == 1 && used)
        for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++)
            if (strcmp(name + used, layer_names[i][0]) == 0)
                return arena_printf(a, "model.layers.%d.%s", layer, layer_names[i][1]);
    return name;
}

/* ---- metadata -------------------------------------------------------------------------------------------------- */

struct source { const struct gguf *g; const char *architecture; struct err *e; bool bad; };

static const char *architecture_of(const struct gguf *g)
{
    const struct gguf_value *v = gguf_find(g, "general.architecture");
    const char *s;
    size_t len;
    for (size_t i = 0; v && gguf_string(v, &s, &len) && i < sizeof architectures / sizeof *architectures; i++)
        if (strlen(architectures[i]) == len && memcmp(architectures[i], s, len) == 0)
            return architectures[i];
    return NULL;
}

bool gguf_is_gemma4(const struct gguf *g)
{
    return architecture_of(g) != NULL;
}

/* Element i of key "ARCHITECTURE.name"; a scalar counts for every i. */
static double number(struct source *s, const char *name, uint64_t i)
{
    struct text key = {0};
    double v = 0;
    text_printf(&key, "%s.%s", s->architecture, name);
    const struct gguf_value *value = gguf_find(s->g, key.data);
    bool ok = value && gguf_number(value, value->kind == GGUF_ARRAY ? i : 0, &v);
    if (!ok && !s->bad) {
        s->bad = true;
        err_input(s->e, "%s: metadata key %s: a number%s was expected", s->g->file->path, key.data,
                  value ? " for every layer" : "");
    }
    text_free(&key);
    return v;
}

static double token_id(const struct source *s, const char *key, double fallback)
{
    const struct gguf_value *v = gguf_find(s->g, key);
    double id;
    return v && gguf_number(v, 0, &id) ? id : fallback;
}

/* Pairs that turn in full layers have the divisor 1 in rope_freqs, the others a huge one. Without it a quarter turns. */
static double rotary_share(const struct source *s)
{
    for (size_t i = 0; i < s->g->n_tensors; i++) {
        const struct gguf_tensor *t = &s->g->tensors[i];
        if (strcmp(t->name, "rope_freqs.weight") != 0 || t->type->id != 0 || t->n_dims != 1)
            continue;
        uint64_t turning = 0;
        for (uint64_t k = 0; k < t->ne[0]; k++) {
            float f;
            memcpy(&f, t->data + 4 * k, 4);
            turning += f < 1e10f;
        }
        return (double)turning / (double)t->ne[0];
    }
    return 0.25;
}

static void add_rope(cJSON *all, const char *kind, const char *type, double theta, double share)
{
    cJSON *o = cJSON_AddObjectToObject(all, kind);
    cJSON_AddStringToObject(o, "rope_type", type);
    cJSON_AddNumberToObject(o, "rope_theta", theta);
    if (share < 1)
        cJSON_AddNumberToObject(o, "partial_rotary_factor", share);
}

static void add_layers(struct source *s, cJSON *c, int n_layers)
{
    cJSON *types = cJSON_AddArrayToObject(c, "layer_types");
    double first = number(s, "feed_forward_length", 0), last = first;
    for (int i = 0; i < n_layers && !s->bad; i++) {
        bool sliding = number(s, "attention.sliding_window_pattern", (uint64_t)i) != 0;
        cJSON_AddItemToArray(types, cJSON_CreateString(sliding ? "sliding_attention" : "full_attention"));
        last = number(s, "feed_forward_length", (uint64_t)i);
    }
    cJSON_AddNumberToObject(c, "intermediate_size", first);
    cJSON_AddBoolToObject(c, "use_double_wide_mlp", last == 2 * first);
}

static cJSON *make_config(struct source *s, int vocab_size)
{
    static const char *const keys[][2] = {
        {"hidden_size", "embedding_length"}, {"num_attention_heads", "attention.head_count"},
        {"num_key_value_heads", "attention.head_count_kv"}, {"head_dim", "attention.key_length_swa"},
        {"global_head_dim", "attention.key_length"}, {"sliding_window", "attention.sliding_window"},
        {"num_kv_shared_layers", "attention.shared_kv_layers"}, {"max_position_embeddings", "context_length"},
        {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
        {"final_logit_softcapping", "final_logit_softcapping"}, {"num_hidden_layers", "block_count"}};
    cJSON *c = cJSON_CreateObject();
    cJSON_AddStringToObject(c, "model_type", "gemma4_text");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_AddNumberToObject(c, keys[i][0], number(s, keys[i][1], 0));
    /* float32 in the file; the nearest decimal is what was meant. */
    struct text eps = {0};
    text_printf(&eps, "%.7g", number(s, "attention.layer_norm_rms_epsilon", 0));
    cJSON_AddNumberToObject(c, "rms_norm_eps", strtod(eps.data, NULL));
    text_free(&eps);
    cJSON_AddNumberToObject(c, "vocab_size", vocab_size);
    double n_layers = number(s, "block_count", 0);
    if (!s->bad && n_layers >= 1 && n_layers <= 4096)
        add_layers(s, c, (int)n_layers);
    cJSON *rope = cJSON_AddObjectToObject(c, "rope_parameters");
    add_rope(rope, "sliding_attention", "default", number(s, "rope.freq_base_swa", 0), 1);
    add_rope(rope, "full_attention", "proportional", number(s, "rope.freq_base", 0), rotary_share(s));
    cJSON_AddNumberToObject(c, "pad_token_id", token_id(s, "tokenizer.ggml.padding_token_id", 0));
    cJSON_AddNumberToObject(c, "bos_token_id", token_id(s, "tokenizer.ggml.bos_token_id", 2));
    return c;
}

/* ---- tokenizer ------------------------------------------------------------------------------------------------- */

struct vocabulary {
    struct arena arena;
    const char **piece;         /* [n] */
    int n;
    char **merged;              /* [n_merges], sorted: what some merge builds */
    size_t n_merges;
    cJSON *vocab, *merges;
};

static void see_piece(void *arg, uint64_t i, const char *s, size_t len)
{
    struct vocabulary *v = arg;
    v->piece[i] = arena_strndup(&v->arena, s, len);
    cJSON_AddItemToObject(v->vocab, v->piece[i], cJSON_CreateNumber((double)i));
}

/* "left right": the separator is the first blank behind the first byte. */
static void see_merge(void *arg, uint64_t i, const char *s, size_t len)
{
    struct vocabulary *v = arg;
    char *both = arena_strndup(&v->arena, s, len);
    cJSON_AddItemToArray(v->merges, cJSON_CreateString(both));
    char *blank = len > 1 ? strchr(both + 1, ' ') : NULL;
    if (blank)
        memmove(blank, blank + 1, strlen(blank));
    v->merged[i] = both;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_byte_piece(const char *s)
{
    return strlen(s) == 6 && strncmp(s, "<0x", 3) == 0 && s[5] == '>';
}

/* Tokens that are cut out of a text before BPE: control, unknown and user-defined ones, and those that no merge can
 * build, which converters type as normal. */
static void add_added(struct vocabulary *v, const struct gguf_value *types, cJSON *added)
{
    for (int i = 0; i < v->n; i++) {
        const char *s = v->piece[i];
        double type = 1;
        size_t len = strlen(s);
        gguf_number(types, (uint64_t)i, &type);
        bool marked = type == 2 || type == 3 || type == 4;
        bool one = len > 0 && (size_t)utf8_decode(s, len, NULL) == len;
        if (!marked && (type == 6 || one || is_byte_piece(s) || len == 0 ||
                        bsearch(&s, v->merged, v->n_merges, sizeof *v->merged, by_text)))
            continue;
        cJSON *t = cJSON_CreateObject();
        cJSON_AddNumberToObject(t, "id", i);
        cJSON_AddStringToObject(t, "content", s);
        cJSON_AddBoolToObject(t, "normalized", false);
        cJSON_AddBoolToObject(t, "special", type == 2 || type == 3);
        cJSON_AddItemToArray(added, t);
    }
}

static cJSON *replace_step(const char *from, const char *to)
{
    cJSON *o = cJSON_CreateObject(), *pattern = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", "Replace");
    cJSON_AddStringToObject(pattern, "String", from);
    cJSON_AddItemToObject(o, "pattern", pattern);
    cJSON_AddStringToObject(o, "content", to);
    return o;
}

static cJSON *typed(const char *type)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", type);
    return o;
}

static cJSON *make_tokenizer(struct vocabulary *v, const struct gguf_value *types)
{
    cJSON *t = cJSON_CreateObject(), *model = typed("BPE"), *decoder = typed("Sequence");
    cJSON_AddBoolToObject(model, "byte_fallback", true);
    cJSON_AddItemToObject(model, "vocab", v->vocab);
    cJSON_AddItemToObject(model, "merges", v->merges);
    add_added(v, types, cJSON_AddArrayToObject(t, "added_tokens"));
    cJSON_AddItemToObject(t, "normalizer", replace_step(" ", "\xe2\x96\x81"));
    cJSON *steps = cJSON_AddArrayToObject(decoder, "decoders");
    cJSON_AddItemToArray(steps, replace_step("\xe2\x96\x81", " "));
    cJSON_AddItemToArray(steps, typed("ByteFallback"));
    cJSON_AddItemToArray(steps, typed("Fuse"));
    cJSON_AddItemToObject(t, "decoder", decoder);
    cJSON_AddItemToObject(t, "model", model);
    return t;
}

static int find_piece(const struct vocabulary *v, const char *name)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->piece[i], name) == 0)
            return i;
    return -1;
}

/* Generation ends at these names whatever the file says, and at its own end token. */
static void add_ids(const struct source *s, const struct vocabulary *v, cJSON *config)
{
    static const char *const stops[] = {"<eos>", "<turn|>", "<|tool_response>"};
    static const char *const marks[][2] = {
        {"image_token_id", "<|image|>"}, {"boi_token_id", "<|image>"}, {"eoi_token_id", "<image|>"},
        {"audio_token_id", "<|audio|>"}, {"boa_token_id", "<|audio>"}, {"eoa_token_id", "<audio|>"},
        {"video_token_id", "<|video|>"}};
    cJSON *eos = cJSON_AddArrayToObject(config, "eos_token_id");
    double own = token_id(s, "tokenizer.ggml.eos_token_id", -1);
    if (own >= 0)
        cJSON_AddItemToArray(eos, cJSON_CreateNumber(own));
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        int id = find_piece(v, stops[i]);
        if (id >= 0 && id != own)
            cJSON_AddItemToArray(eos, cJSON_CreateNumber(id));
    }
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int id = find_piece(v, marks[i][1]);
        if (id >= 0)
            cJSON_AddNumberToObject(config, marks[i][0], id);
    }
}

static int check_vocabulary(const struct source *s, const struct gguf_value **tokens, const struct gguf_value **types,
                            const struct gguf_value **merges)
{
    const char *path = s->g->file->path, *name;
    size_t len;
    const struct gguf_value *model = gguf_find(s->g, "tokenizer.ggml.model");
    *tokens = gguf_find(s->g, "tokenizer.ggml.tokens");
    *types = gguf_find(s->g, "tokenizer.ggml.token_type");
    *merges = gguf_find(s->g, "tokenizer.ggml.merges");
    if (!model || !gguf_string(model, &name, &len) || len != 6 || memcmp(name, "gemma4", 6) != 0)
        return err_input(s->e, "%s: metadata key tokenizer.ggml.model: \"gemma4\" was expected", path);
    if (!*tokens || (*tokens)->kind != GGUF_ARRAY || (*tokens)->element != GGUF_STRING || (*tokens)->count > 1 << 21)
        return err_input(s->e, "%s: metadata key tokenizer.ggml.tokens: at most 2097152 strings were expected", path);
    if (!*types || (*types)->kind != GGUF_ARRAY || (*types)->count != (*tokens)->count)
        return err_input(s->e, "%s: metadata key tokenizer.ggml.token_type: a number for each token was expected", path);
    if (!*merges || (*merges)->kind != GGUF_ARRAY || (*merges)->element != GGUF_STRING)
        return err_input(s->e, "%s: metadata key tokenizer.ggml.merges: strings were expected", path);
    return 0;
}

static void read_template(struct gguf_documents *d, const struct gguf *g)
{
    const struct gguf_value *v = gguf_find(g, "tokenizer.chat_template");
    const char *s;
    size_t len;
    if (v && gguf_string(v, &s, &len))
        d->chat_template = mem_strndup(s, len);
}

int gguf_documents_read(struct gguf_documents *d, const struct gguf *g, struct err *e)
{
    struct source s = {.g = g, .architecture = architecture_of(g), .e = e};
    const struct gguf_value *tokens, *types, *merges;
    *d = (struct gguf_documents){0};
    if (!s.architecture)
        return err_input(e, "%s: metadata key general.architecture: %s or %s was expected", g->file->path,
                         architectures[0], architectures[1]);
    if (check_vocabulary(&s, &tokens, &types, &merges))
        return -1;
    struct vocabulary v = {.n = (int)tokens->count, .vocab = cJSON_CreateObject(), .merges = cJSON_CreateArray()};
    v.piece = NEW(const char *, v.n);
    v.merged = NEW(char *, merges->count);
    v.n_merges = (size_t)merges->count;
    gguf_strings(tokens, see_piece, &v);
    gguf_strings(merges, see_merge, &v);
    qsort(v.merged, v.n_merges, sizeof *v.merged, by_text);
    d->config = make_config(&s, v.n);
    add_ids(&s, &v, d->config);
    d->tokenizer = make_tokenizer(&v, types);
    read_template(d, g);
    free(v.piece);
    free(v.merged);
    arena_free(&v.arena);
    if (s.bad)
        gguf_documents_free(d);
    return s.bad ? -1 : 0;
}

void gguf_documents_free(struct gguf_documents *d)
{
    cJSON_Delete(d->config);
    cJSON_Delete(d->tokenizer);
    free(d->chat_template);
    *d = (struct gguf_documents){0};
}
