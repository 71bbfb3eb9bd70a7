/* Needed rows on E2B's layers (35, every fifth one full, the last 20 without keys and values of their own), at small
 * widths with random weights: rows that nobody asks for stop early, and no bit of the others changes. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "tests/test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { LAYERS = 35, SHARED = 20, HIDDEN = 64, HEADS = 8, HEAD = 8, FULL_HEAD = 16, MLP = 96, PLE = 16, VOCAB = 896,
       WINDOW = 64, PROMPT = 500, TAP = 28 };

static struct engine *m;

/* ---- the checkpoint -------------------------------------------------------------------------------------------- */

struct maker { struct text header, data; uint32_t seed; };

/* columns 0: a vector. Values lie evenly around `middle`. */
static void add(struct maker *k, float middle, float spread, int rows, int columns, const char *fmt, ...)
{
    char name[96];
    va_list ap;
    const size_t from = k->data.len;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    for (int i = 0; i < rows * (columns ? columns : 1); i++) {
        k->seed = k->seed * 1664525u + 1013904223u;
        text_put(&k->data, &(float){middle + spread * ((float)(k->seed >> 8) * 0x1p-23f - 1)}, sizeof(float));
    }
    text_printf(&k->header, "%s\"model.%s\":{\"dtype\":\"F32\",\"shape\":[%d", k->header.len > 1 ? "," : "", name,
                rows);
    if (columns)
        text_printf(&k->header, ",%d", columns);
    text_printf(&k->header, "],\"data_offsets\":[%zu,%zu]}", from, k->data.len);
}

static void add_layer(struct maker *k, int i)
{
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                        "post_feedforward_layernorm", "post_per_layer_input_norm"};
    const int d = i % 5 == 4 ? FULL_HEAD : HEAD, mlp = i < LAYERS - SHARED ? MLP : 2 * MLP;
    add(k, 0, 0.2f, HEADS * d, HIDDEN, "layers.%d.self_attn.q_proj.weight", i);
    add(k, 0, 0.2f, HIDDEN, HEADS * d, "layers.%d.self_attn.o_proj.weight", i);
    add(k, 1, 0.1f, d, 0, "layers.%d.self_attn.q_norm.weight", i);
    if (i < LAYERS - SHARED) {
        add(k, 0, 0.2f, d, HIDDEN, "layers.%d.self_attn.k_proj.weight", i);
        add(k, 0, 0.2f, d, HIDDEN, "layers.%d.self_attn.v_proj.weight", i);
        add(k, 1, 0.1f, d, 0, "layers.%d.self_attn.k_norm.weight", i);
    }
    add(k, 0, 0.2f, mlp, HIDDEN, "layers.%d.mlp.gate_proj.weight", i);
    add(k, 0, 0.2f, mlp, HIDDEN, "layers.%d.mlp.up_proj.weight", i);
    add(k, 0, 0.2f, HIDDEN, mlp, "layers.%d.mlp.down_proj.weight", i);
    add(k, 0, 0.2f, PLE, HIDDEN, "layers.%d.per_layer_input_gate.weight", i);
    add(k, 0, 0.2f, HIDDEN, PLE, "layers.%d.per_layer_projection.weight", i);
    for (size_t n = 0; n < sizeof norms / sizeof *norms; n++)
        add(k, 1, 0.2f, HIDDEN, 0, "layers.%d.%s.weight", i, norms[n]);
    add(k, 0.8f, 0.1f, 1, 0, "layers.%d.layer_scalar", i);
}

static struct text config(void)
{
    struct text t = {0};
    text_puts(&t, "{\"architectures\":[\"Gemma4E2BItHybridForCausalLM\"],\"model_type\":\"gemma4_text\",");
    text_printf(&t, "\"hidden_size\":%d,\"num_hidden_layers\":%d,\"intermediate_size\":%d,\"num_attention_heads\":%d,",
                HIDDEN, LAYERS, MLP, HEADS);
    text_printf(&t, "\"num_key_value_heads\":1,\"head_dim\":%d,\"global_head_dim\":%d,\"sliding_window\":%d,", HEAD,
                FULL_HEAD, WINDOW);
    text_printf(&t, "\"num_kv_shared_layers\":%d,\"hidden_size_per_layer_input\":%d,\"vocab_size\":%d,", SHARED, PLE,
                VOCAB);
    text_printf(&t, "\"vocab_size_per_layer_input\":%d,\"layer_types\":[", VOCAB);
    for (int i = 0; i < LAYERS; i++)
        text_printf(&t, "%s\"%s_attention\"", i ? "," : "", i % 5 == 4 ? "full" : "sliding");
    text_puts(&t, "],\"use_double_wide_mlp\":true,\"final_logit_softcapping\":30.0,\"rms_norm_eps\":1e-6,"
                  "\"hidden_activation\":\"gelu_pytorch_tanh\",\"tie_word_embeddings\":true,"
                  "\"attention_k_eq_v\":false,\"enable_moe_block\":false,\"max_position_embeddings\":2048,"
                  "\"pad_token_id\":0,\"bos_token_id\":2,\"eos_token_id\":1,\"rope_parameters\":{\"full_attention\":"
                  "{\"partial_rotary_factor\":0.25,\"rope_theta\":1000000.0,\"rope_type\":\"proportional\"},"
                  "\"sliding_attention\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}}}");
    return t;
}

static void write_file(const char *folder, const char *name, const void *data, size_t n)
{
    struct err e = {0};
    char *path = path_join(folder, name);
    CHECK_MSG(file_write_atomic(path, data, n, &e) == 0, "%s", e.msg);
    free(path);
}

static void make_checkpoint(const char *folder)
{
    struct maker k = {.seed = 1};
    struct text file = {0}, tokenizer = {0}, json = config();
    struct err e = {0};
    text_puts(&k.header, "{");
    add(&k, 0, 0.05f, VOCAB, HIDDEN, "embed_tokens.weight");
    add(&k, 0, 0.05f, VOCAB, LAYERS * PLE, "embed_tokens_per_layer.weight");
    add(&k, 0, 0.2f, LAYERS * PLE, HIDDEN, "per_layer_model_projection.weight");
    add(&k, 1, 0.2f, PLE, 0, "per_layer_projection_norm.weight");
    add(&k, 1, 0.2f, HIDDEN, 0, "norm.weight");
    for (int i = 0; i < LAYERS; i++)
        add_layer(&k, i);
    text_puts(&k.header, "}");
    text_put(&file, &(uint64_t){k.header.len}, 8);
    text_put(&file, k.header.data, k.header.len);
    text_put(&file, k.data.data, k.data.len);
    CHECK_MSG(file_read("datasets/mini/checkpoint/tokenizer.json", (size_t)64 << 20, &tokenizer, &e) == 0, "%s", e.msg);
    write_file(folder, "model.safetensors", file.data, file.len);
    write_file(folder, "config.json", json.data, json.len);
    write_file(folder, "tokenizer.json", tokenizer.data, tokenizer.len);
    text_free(&file), text_free(&tokenizer), text_free(&json), text_free(&k.header), text_free(&k.data);
}

/* ---- the rows -------------------------------------------------------------------------------------------------- */

/* What comes out of the last `n` rows of the prompt, computed in pieces (0: at once). */
struct outcome { int n; float *logits, *tap, *hidden; };

static struct outcome outcome_of(int needed, int piece)
{
    const size_t n = (size_t)needed;
    struct outcome o = {needed, NEW(float, n * VOCAB), NEW(float, n * HIDDEN), NEW(float, n * HIDDEN * (LAYERS + 1))};
    int32_t ids[PROMPT];
    struct seq *s = seq_new(m);
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)((uint32_t)i * 2654435761u >> 8) % 800 + 40;
    for (int at = 0, count; at < PROMPT; at += count) {
        struct err e = {0};
        count = PROMPT - needed - at > 0 && piece ? (PROMPT - needed - at < piece ? PROMPT - needed - at : piece)
                                                  : PROMPT - at;
        const bool last = at + count == PROMPT;
        const struct step_input in = {.seq = s, .ids = ids + at, .n = count, .n_needed = last ? needed : 0,
                                      .logits = o.logits, .tap = o.tap, .tap_layer = TAP, .hidden = o.hidden};
        CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
    }
    seq_free(s);
    return o;
}

static void outcome_free(struct outcome *o)
{
    free(o->logits), free(o->tap), free(o->hidden);
}

static void check_last(const struct outcome *all, int needed, int piece)
{
    struct outcome o = outcome_of(needed, piece);
    const size_t skip = (size_t)(all->n - needed), n = (size_t)needed;
    CHECK_MSG(memcmp(o.logits, all->logits + skip * VOCAB, n * VOCAB * sizeof(float)) == 0, "logits, %d of %d", needed,
              piece);
    CHECK_MSG(memcmp(o.tap, all->tap + skip * HIDDEN, n * HIDDEN * sizeof(float)) == 0, "tap, %d of %d", needed, piece);
    const size_t levels = HIDDEN * (LAYERS + 1);
    CHECK_MSG(memcmp(o.hidden, all->hidden + skip * levels, n * levels * sizeof(float)) == 0, "hidden, %d of %d",
              needed, piece);
    outcome_free(&o);
}

static void needed_equal_full(void)
{
    static const int needed[] = {1, 2, 33, 257, PROMPT}, pieces[] = {0, 1, 64, 100, 256};
    struct outcome all = outcome_of(PROMPT, 0);
    bool finite = true;
    float lo = all.logits[0], hi = lo;
    for (int i = 0; i < PROMPT * VOCAB; i++) {
        finite &= isfinite(all.logits[i]) != 0;
        lo = fminf(lo, all.logits[i]);
        hi = fmaxf(hi, all.logits[i]);
    }
    CHECK_MSG(finite && hi - lo > 1, "logits from %g to %g", (double)lo, (double)hi);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++)
            check_last(&all, needed[i], pieces[k]);
    outcome_free(&all);
}

/* The last layer with keys and values of its own makes only these for rows that nobody needs. */
static void work(void)
{
    struct row_work w;
    engine_work(m, &w);
    double below = 0, above = 0;
    for (int i = 0; i < LAYERS; i++) {
        const bool owns = i < LAYERS - SHARED, early = i < LAYERS - SHARED - 1;
        const double d = i % 5 == 4 ? FULL_HEAD : HEAD, mlp = owns ? MLP : 2 * MLP;
        const double rest = (2 * HEADS * d + 3 * mlp + 3 * PLE) * HIDDEN;
        below += (owns ? 2 * d * HIDDEN : 0) + (early ? rest : 0);
        above += early ? 0 : rest;
    }
    CHECK_NEAR(w.below, below, 0);
    CHECK_NEAR(w.above, above, 0);
    CHECK_NEAR(w.head, (double)VOCAB * HIDDEN, 0);
}

int main(void)
{
    char folder[] = "/tmp/handoff-rows-XXXXXX";
    static const char *const names[] = {"model.safetensors", "config.json", "tokenizer.json"};
    struct err e = {0};
    if (!CHECK(mkdtemp(folder) != NULL))
        return test_report();
    make_checkpoint(folder);
    if (CHECK_MSG(engine_open(&m, folder, &(struct engine_options){.n_threads = 2}, &e) == 0, "%s", e.msg)) {
        RUN(needed_equal_full);
        RUN(work);
    }
    engine_close(m);
    for (int i = 0; i < 3; i++) {
        char *path = path_join(folder, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
    return test_report();
}
