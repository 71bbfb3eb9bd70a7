/* Checkpoint folders that are not what they should be: each is refused with one line that names file, place and
 * expectation. Every case is tiny-a with one thing changed. */
#define _GNU_SOURCE                     /* mkdtemp */
#include "engine/engine.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define TINY "../shared/model/tiny-a-hybrid"

static char folder[] = "/tmp/handoff-checkpoint-XXXXXX";
static const char *const parts[] = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                    "chat_template.jinja", "model.safetensors"};
enum { N_PARTS = sizeof parts / sizeof *parts };

static struct text read_part(const char *from, const char *name)
{
    struct text t = {0};
    struct err e = {0};
    char *path = path_join(from, name);
    CHECK_MSG(file_read(path, 1 << 30, &t, &e) == 0, "%s", e.msg);
    free(path);
    return t;
}

static void write_part(const char *name, const void *data, size_t n)
{
    struct err e = {0};
    char *path = path_join(folder, name);
    CHECK_MSG(file_write_atomic(path, data, n, &e) == 0, "%s", e.msg);
    free(path);
}

static void remove_part(const char *name)
{
    char *path = path_join(folder, name);
    unlink(path);
    free(path);
}

static void fill_folder(void)
{
    for (int i = 0; i < N_PARTS; i++) {
        struct text t = read_part(TINY, parts[i]);
        write_part(parts[i], t.data, t.len);
        text_free(&t);
    }
}

/* Opens the folder; NULL as `want` says that it must open. */
static void expect(const char *want, const char *what)
{
    struct engine *m = NULL;
    struct err e = {0};
    const int bad = engine_open(&m, folder, &(struct engine_options){.n_threads = 1}, &e);
    if (!want) {
        CHECK_MSG(!bad, "%s: %s", what, e.msg);
    } else {
        CHECK_MSG(bad && !m, "%s was taken", what);
        CHECK_MSG(!bad || e.code == EXIT_BAD_INPUT, "%s: code %d", what, e.code);
        CHECK_MSG(!bad || (strstr(e.msg, want) && strstr(e.msg, folder) && !strchr(e.msg, '\n')),
                  "%s: \"%s\" lacks \"%s\"", what, e.msg, want);
    }
    engine_close(m);
}

/* One key of config.json set to another JSON value; NULL removes it. */
static void with_key(const char *key, const char *value, const char *want)
{
    struct text t = read_part(TINY, "config.json"), out = {0};
    struct err e = {0};
    cJSON *config = json_parse(t.data, t.len, "config.json", &e);
    cJSON_DeleteItemFromObjectCaseSensitive(config, key);
    if (value)
        cJSON_AddItemToObject(config, key, json_parse(value, strlen(value), key, &e));
    json_print(&out, config);
    write_part("config.json", out.data, out.len);
    expect(want, key);
    cJSON_Delete(config);
    text_free(&out);
    write_part("config.json", t.data, t.len);
    text_free(&t);
}

static void whole(void)
{
    expect(NULL, "an unchanged checkpoint");
    remove_part("chat_template.jinja");
    expect(NULL, "no chat template");
    fill_folder();
}

static void unknown_models(void)
{
    with_key("model_type", "\"llama\"", "model_type");
    with_key("model_type", "7", "model_type");
    with_key("architectures", "[\"LlamaForCausalLM\"]", "LlamaForCausalLM");
    with_key("architectures", "[\"Gemma3ForCausalLM\"]", "Gemma3ForCausalLM");
    with_key("attention_k_eq_v", "true", "attention_k_eq_v");
    with_key("enable_moe_block", "true", "enable_moe_block");
    with_key("num_experts", "8", "num_experts");
    with_key("use_bidirectional_attention", "\"vision\"", "use_bidirectional_attention");
    with_key("use_bidirectional_attention", "true", "use_bidirectional_attention");
    with_key("attention_bias", "true", "attention_bias");
    with_key("hidden_activation", "\"gelu\"", "hidden_activation");
    with_key("tie_word_embeddings", "false", "tie_word_embeddings");
    with_key("num_global_key_value_heads", "2", "num_global_key_value_heads");
    with_key("rope_parameters", "{}", "sliding_attention");
    with_key("rope_parameters", "{\"sliding_attention\":{\"rope_type\":\"yarn\",\"rope_theta\":1e4},"
             "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6}}", "rope_type");
    with_key("rope_parameters", "{\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":-1},"
             "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6}}", "rope_theta");
}

static void contradictory_sizes(void)
{
    with_key("hidden_size", "64", "embed_tokens.weight");
    with_key("hidden_size", "0", "hidden_size");
    with_key("hidden_size", "1e9", "hidden_size");
    with_key("hidden_size", "128.5", "hidden_size");
    with_key("hidden_size", NULL, "hidden_size");
    with_key("vocab_size", "1025", "vocab_size");
    with_key("num_hidden_layers", "9", "layer_types");
    with_key("num_hidden_layers", "-1", "num_hidden_layers");
    with_key("num_kv_shared_layers", "10", "num_kv_shared_layers");
    with_key("num_kv_shared_layers", "8", "layer_types");
    with_key("num_kv_shared_layers", "5", "shape");
    with_key("num_attention_heads", "3", "q_proj");
    with_key("num_key_value_heads", "3", "num_key_value_heads");
    with_key("head_dim", "31", "head_dim");
    with_key("head_dim", "34", "q_proj");
    with_key("intermediate_size", "161", "gate_proj");
    with_key("use_double_wide_mlp", "false", "layers.6.mlp.gate_proj");
    with_key("use_double_wide_mlp", "\"yes\"", "use_double_wide_mlp");
    with_key("hidden_size_per_layer_input", "16", "shape");
    with_key("vocab_size_per_layer_input", "512", "vocab_size_per_layer_input");
    with_key("layer_types", "[\"sliding_attention\"]", "layer_types");
    with_key("sliding_window", "0", "sliding_window");
    with_key("rms_norm_eps", "0", "rms_norm_eps");
    with_key("rms_norm_eps", "null", "rms_norm_eps");
    with_key("final_logit_softcapping", "-30", "final_logit_softcapping");
    with_key("pad_token_id", "1024", "pad_token_id");
    with_key("text_config", "[]", "text_config");
    with_key("max_position_embeddings", "1e18", "max_position_embeddings");
}

static void other_files(void)
{
    write_part("config.json", "{\"model_type\":", 14);
    expect("config.json", "half a config");
    write_part("config.json", "[]", 2);
    expect("config.json", "a list as config");
    fill_folder();
    write_part("generation_config.json", "{\"eos_token_id\":[1,5000]}", 25);
    expect("eos_token_id", "a stop id outside the vocabulary");
    write_part("generation_config.json", "[", 1);
    expect("generation_config.json", "half a generation config");
    fill_folder();
    for (int i = 0; i < N_PARTS; i++) {
        if (strstr("config.json tokenizer.json model.safetensors", parts[i]) == NULL)
            continue;
        remove_part(parts[i]);
        expect(strcmp(parts[i], "model.safetensors") == 0 ? "model.safetensors" : parts[i], parts[i]);
        fill_folder();
    }
}

/* Writes model.safetensors with the two bytes of one bf16 element, or one letter of a name, changed. */
static void with_element(const char *name, int64_t i, uint16_t value, const char *want)
{
    struct weights *w;
    struct err e = {0};
    struct text t = read_part(TINY, "model.safetensors");
    CHECK(weights_open(&w, TINY, &e) == 0);
    const struct tensor *tensor = weights_find(w, name);
    uint64_t header = 0;
    memcpy(&header, t.data, 8);
    size_t offset = 8 + (size_t)header;
    for (size_t j = 0; j < weights_count(w); j++)
        if ((const uint8_t *)weights_at(w, j)->data < (const uint8_t *)tensor->data)
            offset += weights_at(w, j)->n_bytes;
    CHECK(memcmp(t.data + offset, tensor->data, tensor->n_bytes) == 0);
    memcpy(t.data + offset + 2 * i, &value, 2);
    weights_close(w);
    write_part("model.safetensors", t.data, t.len);
    text_free(&t);
    expect(want, name);
}

static void non_finite_weights(void)
{
    static const char *const names[] = {"model.embed_tokens.weight", "model.layers.3.mlp.down_proj.weight",
                                        "model.layers.9.self_attn.q_proj.weight", "model.norm.weight",
                                        "model.layers.0.layer_scalar", "model.per_layer_model_projection.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        with_element(names[i], 0, 0x7fc0, names[i]);
        with_element(names[i], 0, 0xff80, "finite");
    }
    with_element("model.embed_tokens.weight", 1024 * 128 - 1, 0x7f80, "finite");
    with_element("model.embed_tokens.weight", 5, 0x7f7f, NULL);
    fill_folder();
}

/* The table of per-layer embeddings is too large to be looked through at the start: a bad row is refused when used. */
static void non_finite_token(void)
{
    struct engine *m;
    struct err e = {0};
    const int32_t good = 41, bad = 42;
    with_element("model.embed_tokens_per_layer.weight", 42 * 320 + 319, 0x7fc0, NULL);
    CHECK(engine_open(&m, folder, NULL, &e) == 0);
    struct seq *s = seq_new(m);
    CHECK(engine_step(m, &(struct step_input){.seq = s, .ids = &good, .n = 1}, 1, &e) == 0);
    CHECK(engine_step(m, &(struct step_input){.seq = s, .ids = &bad, .n = 1}, 1, &e) == -1);
    CHECK_MSG(strstr(e.msg, "embed_tokens_per_layer") != NULL && strstr(e.msg, "42") != NULL, "%s", e.msg);
    CHECK(seq_length(s) == 1);
    seq_free(s);
    engine_close(m);
    fill_folder();
}

/* Every tensor that the decoder needs is missed when its name is another; dead ones and the probe's are not. */
static void missing_tensors(void)
{
    struct weights *w;
    struct err e = {0};
    struct text t = read_part(TINY, "model.safetensors");
    CHECK(weights_open(&w, TINY, &e) == 0);
    for (size_t i = 0; i < weights_count(w); i += i % 5 == 0 ? 1 : 3) {
        char quoted[304], name[300];
        snprintf(name, sizeof name, "%s", weights_at(w, i)->name);
        snprintf(quoted, sizeof quoted, "\"%s\"", name);
        char *at = memmem(t.data, t.len, quoted, strlen(quoted));
        int layer = -1;
        sscanf(name, "model.layers.%d.", &layer);
        const bool dead = layer >= 6 && (strstr(name, "k_proj") || strstr(name, "v_proj") || strstr(name, "k_norm"));
        at[1] = 'X';
        write_part("model.safetensors", t.data, t.len);
        expect(dead || strncmp(name, "handoff_probe", 13) == 0 ? NULL : name, name);
        at[1] = name[0];
    }
    weights_close(w);
    text_free(&t);
    fill_folder();
}

/* Writes model.safetensors anew with all weights widened to float32; with `twice` every key and value head is there a
 * second time. */
static void rewrite_as_f32(bool twice)
{
    struct weights *w;
    struct err e = {0};
    struct text header = {0}, data = {0};
    CHECK(weights_open(&w, TINY, &e) == 0);
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        const int64_t n = tensor_elements(t);
        const size_t begin = data.len;
        const bool doubled = twice && (strstr(t->name, "k_proj.weight") || strstr(t->name, "v_proj.weight"));
        float *v = malloc((size_t)n * sizeof *v);
        tensor_read_f32(t, 0, n, v);
        for (int copy = 0; copy <= doubled; copy++)
            text_put(&data, v, (size_t)n * sizeof *v);
        text_printf(&header, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[", i ? ',' : '{', t->name);
        for (int d = 0; d < t->n_dims; d++)
            text_printf(&header, "%s%lld", d ? "," : "", (long long)t->dim[d] * (d == 0 && doubled ? 2 : 1));
        text_printf(&header, "],\"data_offsets\":[%zu,%zu]}", begin, data.len);
        free(v);
    }
    text_putc(&header, '}');
    uint64_t length = header.len;
    struct text file = {0};
    text_put(&file, &length, 8);
    text_put(&file, header.data, header.len);
    text_put(&file, data.data, data.len);
    write_part("model.safetensors", file.data, file.len);
    weights_close(w);
    text_free(&header), text_free(&data), text_free(&file);
}

enum { VOCAB = 1024, PROMPT = 70 };

static void logits_of_prompt(float logits[VOCAB])
{
    struct engine *m;
    struct err e = {0};
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 50 + i * 31 % 900;
    CHECK_MSG(engine_open(&m, folder, &(struct engine_options){.n_threads = 2}, &e) == 0, "%s", e.msg);
    struct seq *s = seq_new(m);
    CHECK(engine_step(m, &(struct step_input){.seq = s, .ids = ids, .n = PROMPT, .n_needed = 1, .logits = logits}, 1,
                      &e) == 0);
    seq_free(s);
    engine_close(m);
}

/* bf16 widened to float32 is the same number, and two equal kv heads are one. */
static void other_shapes_same_model(void)
{
    float want[VOCAB], got[VOCAB];
    logits_of_prompt(want);
    rewrite_as_f32(false);
    logits_of_prompt(got);
    CHECK_MSG(memcmp(want, got, sizeof want) == 0, "weights as float32");
    rewrite_as_f32(true);
    struct text t = read_part(TINY, "config.json");
    char *key = strstr(t.data, "\"num_key_value_heads\": 1");
    CHECK(key != NULL);
    key[strlen("\"num_key_value_heads\": ")] = '2';
    write_part("config.json", t.data, t.len);
    text_free(&t);
    logits_of_prompt(got);
    CHECK_MSG(memcmp(want, got, sizeof want) == 0, "two equal kv heads");
    fill_folder();
}

int main(void)
{
    if (!path_is_dir(TINY)) {
        printf("  skipped: no " TINY "\n0 passed, 0 failed, 8 skipped\n");
        return 0;
    }
    if (!mkdtemp(folder))
        return 1;
    fill_folder();
    RUN(whole);
    RUN(unknown_models);
    RUN(contradictory_sizes);
    RUN(other_files);
    RUN(non_finite_weights);
    RUN(non_finite_token);
    RUN(missing_tensors);
    RUN(other_shapes_same_model);
    for (int i = 0; i < N_PARTS; i++)
        remove_part(parts[i]);
    rmdir(folder);
    return test_report();
}
