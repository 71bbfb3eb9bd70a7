/* gguf_model.c - a decoder's GGUF metadata to config.json and tokenizer.json. */
#include "engine/gguf_model.h"

#include "engine/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STOPS = 32, MAX_TEMPLATE = 16 << 20 };

/* ---- metadata -------------------------------------------------------------------------------------------------- */

static const char *const architectures[] = {"gemma4", "gemma-4-e2b-it-hybrid"};

const char *gguf_decoder_architecture(const struct gguf *g)
{
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (gguf_equals(g, "general.architecture", architectures[i]))
            return architectures[i];
    return NULL;
}

enum gguf_content gguf_content(const struct gguf *g)
{
    return gguf_decoder_architecture(g) ? GGUF_DECODER
           : gguf_equals(g, "general.architecture", "clip") ? GGUF_PROJECTOR : GGUF_OTHER;
}

static double read_number(struct gguf_reader *r, const char *name, uint64_t i, const double *fallback)
{
    struct text key = {0};
    double v = 0;
    text_printf(&key, "%s.%s", r->prefix, name);
    const struct gguf_value *value = gguf_find(r->g, key.data);
    const bool absent = !value && fallback;
    if (absent)
        v = *fallback;
    const bool ok = absent || (value && gguf_number(value, value->kind == GGUF_ARRAY ? i : 0, &v) && isfinite(v));
    if (!ok && !r->bad) {
        r->bad = true;
        err_input(r->e, "%s: metadata key %s: a number%s was expected", r->g->file->path, key.data,
                  value ? " for every layer" : "");
    }
    text_free(&key);
    return ok ? v : 0;
}

double gguf_read(struct gguf_reader *r, const char *name, uint64_t i)
{
    return read_number(r, name, i, NULL);
}

double gguf_read_or(struct gguf_reader *r, const char *name, double fallback)
{
    return read_number(r, name, 0, &fallback);
}

double gguf_decimal(double v)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.7g", v);
    return strtod(digits, NULL);
}

static double token_id(const struct gguf *g, const char *key, double fallback)
{
    const struct gguf_value *v = gguf_find(g, key);
    double id;
    return v && gguf_number(v, 0, &id) ? id : fallback;
}

/* ---- configuration --------------------------------------------------------------------------------------------- */

/* Pairs that turn in full layers have the divisor 1 in rope_freqs, those behind them a huge one. Without the tensor a
 * quarter turns. */
static double rotary_share(struct gguf_reader *r, const struct weights *w)
{
    const struct tensor *t = weights_find(w, "rope_freqs.weight");
    if (!t)
        return 0.25;
    const int64_t n = tensor_elements(t);
    int64_t turning = 0, still = 0;
    float f = 0;
    for (int64_t k = 0; k < n && t->type == TENSOR_F32; k++) {
        tensor_read_f32(t, k, 1, &f);
        turning += f == 1 && still == 0;
        still += f > 1e10f;
    }
    if ((turning + still != n || turning == 0) && !r->bad) {
        r->bad = true;
        err_input(r->e, "%s: tensor rope_freqs.weight: ones, then numbers above 1e10 were expected", t->file);
    }
    /* A little more, so that share times the head size does not fall below the number of pairs. */
    return turning == n ? 1 : ((double)turning + 1e-6) / (double)n;
}

static void add_rope(cJSON *all, const char *kind, const char *type, double theta, double share)
{
    cJSON *o = cJSON_AddObjectToObject(all, kind);
    cJSON_AddStringToObject(o, "rope_type", type);
    cJSON_AddNumberToObject(o, "rope_theta", theta);
    if (share < 1)
        cJSON_AddNumberToObject(o, "partial_rotary_factor", share);
}

static void add_layers(struct gguf_reader *r, cJSON *c, int n_layers)
{
    cJSON *types = cJSON_AddArrayToObject(c, "layer_types");
    double first = gguf_read(r, "feed_forward_length", 0), last = first;
    for (int i = 0; i < n_layers && !r->bad; i++) {
        bool sliding = gguf_read(r, "attention.sliding_window_pattern", (uint64_t)i) != 0;
        cJSON_AddItemToArray(types, cJSON_CreateString(sliding ? "sliding_attention" : "full_attention"));
        last = gguf_read(r, "feed_forward_length", (uint64_t)i);
    }
    cJSON_AddNumberToObject(c, "intermediate_size", first);
    cJSON_AddBoolToObject(c, "use_double_wide_mlp", last == 2 * first);
}

static cJSON *make_text_config(struct gguf_reader *r, const struct weights *w, int vocab_size)
{
    static const char *const keys[][2] = {
        {"hidden_size", "embedding_length"}, {"num_attention_heads", "attention.head_count"},
        {"num_key_value_heads", "attention.head_count_kv"}, {"head_dim", "attention.key_length_swa"},
        {"global_head_dim", "attention.key_length"}, {"sliding_window", "attention.sliding_window"},
        {"max_position_embeddings", "context_length"}, {"num_hidden_layers", "block_count"},
        {"hidden_size_per_layer_input", "embedding_length_per_layer_input"}};
    cJSON *c = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_AddNumberToObject(c, keys[i][0], gguf_read(r, keys[i][1], 0));
    cJSON_AddNumberToObject(c, "num_kv_shared_layers", gguf_read_or(r, "attention.shared_kv_layers", 0));
    cJSON_AddNumberToObject(c, "num_experts", gguf_read_or(r, "expert_count", 0));
    cJSON_AddNumberToObject(c, "final_logit_softcapping", gguf_read_or(r, "final_logit_softcapping", 30));
    cJSON_AddNumberToObject(c, "rms_norm_eps", gguf_decimal(gguf_read(r, "attention.layer_norm_rms_epsilon", 0)));
    cJSON_AddNumberToObject(c, "vocab_size", vocab_size);
    cJSON_AddBoolToObject(c, "tie_word_embeddings", !weights_find(w, "output.weight"));
    double n_layers = gguf_read(r, "block_count", 0);
    if (!r->bad && n_layers >= 1 && n_layers <= 4096)
        add_layers(r, c, (int)n_layers);
    cJSON *rope = cJSON_AddObjectToObject(c, "rope_parameters");
    add_rope(rope, "sliding_attention", "default", gguf_read(r, "rope.freq_base_swa", 0), 1);
    add_rope(rope, "full_attention", "proportional", gguf_read(r, "rope.freq_base", 0), rotary_share(r, w));
    cJSON_AddNumberToObject(c, "pad_token_id", token_id(r->g, "tokenizer.ggml.padding_token_id", 0));
    cJSON_AddNumberToObject(c, "bos_token_id", token_id(r->g, "tokenizer.ggml.bos_token_id", 2));
    return c;
}

/* The keys are those that this program's own converter writes; published files may have none. */
static void add_probe_settings(struct gguf_reader *r, cJSON *config)
{
    static const char *const keys[][2] = {{"probe_layer", "probe.layer"}, {"probe_max_tokens", "probe.max_tokens"},
                                          {"probe_layer_norm_eps", "probe.layer_norm_epsilon"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double v = gguf_read_or(r, keys[i][1], -1);
        if (v >= 0)
            cJSON_AddNumberToObject(config, keys[i][0], gguf_decimal(v));
    }
}

static cJSON *make_config(struct gguf_reader *r, const struct weights *w, int vocab_size)
{
    cJSON *c = cJSON_CreateObject();
    cJSON_AddStringToObject(c, "model_type", "gemma4");
    cJSON_AddItemToObject(c, "text_config", make_text_config(r, w, vocab_size));
    add_probe_settings(r, c);
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

static cJSON *make_tokenizer(struct vocabulary *v, const struct gguf_value *types)
{
    cJSON *added = cJSON_CreateArray();
    add_added(v, types, added);
    return tokenizer_json(v->vocab, v->merges, added);
}

static int find_piece(const struct vocabulary *v, const char *name)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->piece[i], name) == 0)
            return i;
    return -1;
}

/* The file's own list; else generation ends at these names whatever the file says, and at its own end token. */
static void add_stops(const struct gguf *g, const struct vocabulary *v, cJSON *eos)
{
    static const char *const stops[] = {"<eos>", "<turn|>", "<|tool_response>"};
    const struct gguf_value *all = gguf_find(g, GGUF_STOP_TOKENS);
    double own = token_id(g, "tokenizer.ggml.eos_token_id", -1), id;
    if (all && all->kind == GGUF_ARRAY && all->count > 0 && all->count <= MAX_STOPS) {
        for (uint64_t i = 0; i < all->count; i++)
            if (gguf_number(all, i, &id))
                cJSON_AddItemToArray(eos, cJSON_CreateNumber(id));
        return;
    }
    if (own >= 0)
        cJSON_AddItemToArray(eos, cJSON_CreateNumber(own));
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        const int named = find_piece(v, stops[i]);
        if (named >= 0 && named != own)
            cJSON_AddItemToArray(eos, cJSON_CreateNumber(named));
    }
}

const struct gguf_mark gguf_marks[] = {
    {"image_token_id", "<|image|>"}, {"boi_token_id", "<|image>"}, {"eoi_token_id", "<image|>"},
    {"audio_token_id", "<|audio|>"}, {"boa_token_id", "<|audio>"}, {"eoa_token_id", "<audio|>"},
    {"video_token_id", "<|video|>"}, {0}};

static void add_ids(const struct gguf *g, const struct vocabulary *v, cJSON *config)
{
    add_stops(g, v, cJSON_AddArrayToObject(config, "eos_token_id"));
    for (const struct gguf_mark *mark = gguf_marks; mark->key; mark++) {
        int id = find_piece(v, mark->piece);
        if (id >= 0)
            cJSON_AddNumberToObject(config, mark->key, id);
    }
}

static int check_vocabulary(const struct gguf *g, const struct gguf_value **tokens, const struct gguf_value **types,
                            const struct gguf_value **merges, struct err *e)
{
    const char *path = g->file->path;
    *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    *types = gguf_find(g, "tokenizer.ggml.token_type");
    *merges = gguf_find(g, "tokenizer.ggml.merges");
    if (!gguf_equals(g, "tokenizer.ggml.model", "gemma4"))
        return err_input(e, "%s: metadata key tokenizer.ggml.model: \"gemma4\" was expected", path);
    if (!*tokens || (*tokens)->kind != GGUF_ARRAY || (*tokens)->element != GGUF_STRING || (*tokens)->count > 1 << 21)
        return err_input(e, "%s: metadata key tokenizer.ggml.tokens: at most 2097152 strings were expected", path);
    if (!*types || (*types)->kind != GGUF_ARRAY || (*types)->count != (*tokens)->count)
        return err_input(e, "%s: metadata key tokenizer.ggml.token_type: a number for each token was expected", path);
    if (!*merges || (*merges)->kind != GGUF_ARRAY || (*merges)->element != GGUF_STRING || (*merges)->count > 1 << 22)
        return err_input(e, "%s: metadata key tokenizer.ggml.merges: at most 4194304 strings were expected", path);
    return 0;
}

static int read_template(struct gguf_documents *d, const struct gguf *g, struct err *e)
{
    const struct gguf_value *v = gguf_find(g, "tokenizer.chat_template");
    const char *s;
    size_t len;
    d->has_template = v && gguf_string(v, &s, &len);
    if (d->has_template && len > MAX_TEMPLATE)
        return err_input(e, "%s: metadata key tokenizer.chat_template: at most %d bytes were expected", g->file->path,
                         MAX_TEMPLATE);
    if (d->has_template)
        text_put(&d->chat_template, s, len);
    return 0;
}

static int refuse_architecture(const struct gguf *g, struct err *e)
{
    const struct gguf_value *v = gguf_find(g, "general.architecture");
    const char *s = "";
    size_t len = 0;
    if (v)
        gguf_string(v, &s, &len);
    return err_input(e, "%s: metadata key general.architecture: %s or %s was expected, not \"%.*s\"", g->file->path,
                     architectures[0], architectures[1], len < 64 ? (int)len : 64, s);
}

int gguf_documents_read(struct gguf_documents *d, const struct gguf *g, const struct weights *w, struct err *e)
{
    struct gguf_reader r = {.g = g, .prefix = gguf_decoder_architecture(g), .e = e};
    const struct gguf_value *tokens, *types, *merges;
    *d = (struct gguf_documents){.architecture = r.prefix};
    if (!r.prefix)
        return refuse_architecture(g, e);
    if (check_vocabulary(g, &tokens, &types, &merges, e))
        return -1;
    struct vocabulary v = {.n = (int)tokens->count, .vocab = cJSON_CreateObject(), .merges = cJSON_CreateArray()};
    v.piece = NEW(const char *, v.n + 1);
    v.merged = NEW(char *, merges->count + 1);
    v.n_merges = (size_t)merges->count;
    gguf_strings(tokens, see_piece, &v);
    gguf_strings(merges, see_merge, &v);
    qsort(v.merged, v.n_merges, sizeof *v.merged, by_text);
    if (w) {
        d->config = make_config(&r, w, v.n);
        add_ids(g, &v, d->config);
    }
    d->tokenizer = make_tokenizer(&v, types);
    r.bad |= read_template(d, g, e) != 0;
    free(v.piece);
    free(v.merged);
    arena_free(&v.arena);
    if (r.bad)
        gguf_documents_free(d);
    return r.bad ? -1 : 0;
}

void gguf_documents_free(struct gguf_documents *d)
{
    cJSON_Delete(d->config);
    cJSON_Delete(d->tokenizer);
    text_free(&d->chat_template);
    *d = (struct gguf_documents){0};
}
