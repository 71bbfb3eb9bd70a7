/* quantize_cq_documents.c - config.txt with its own names for what config.json says, vocab.txt and merges.txt beside
 * tokenizer.json, and the special tokens in two forms: as Cactus's engine reads them. */
#include "engine/quantize_cq.h"

#include "engine/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- config.txt ------------------------------------------------------------------------------------------------ */

struct lines { char **line; size_t n, cap; };

static void add_line(struct lines *l, const char *key, const char *value)
{
    const size_t len = strlen(key);
    struct text t = {0};
    for (size_t i = 0; i < l->n; i++)
        if (strncmp(l->line[i], key, len) == 0 && l->line[i][len] == '=')
            return;
    if (strpbrk(value, "\r\n") || strpbrk(key, "=\r\n"))
        return;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->line = mem_grow(l->line, l->cap, sizeof *l->line);
    }
    text_printf(&t, "%s=%s", key, value);
    l->line[l->n++] = text_take(&t);
}

/* A bare value; false for null, objects and lists of such. */
static bool put_value(struct text *t, const cJSON *v, const char *key)
{
    if (cJSON_IsBool(v)) {
        text_puts(t, cJSON_IsTrue(v) ? "true" : "false");
    } else if (cJSON_IsNumber(v)) {
        folder_put_number(t, key, v->valuedouble);
    } else if (cJSON_IsString(v)) {
        text_puts(t, v->valuestring);
    } else if (cJSON_IsArray(v) && v->child) {
        for (const cJSON *m = v->child; m; m = m->next) {
            if (cJSON_IsArray(m) || !put_value(t, m, key))
                return false;
            text_puts(t, m->next ? "," : "");
        }
    } else {
        return false;
    }
    return true;
}

static void add_value(struct lines *l, const char *key, const cJSON *v)
{
    struct text t = {0};
    if (v && put_value(&t, v, v->string))
        add_line(l, key, t.data);
    text_free(&t);
}

struct renamed { const char *key, *from; };

static void add_renamed(struct lines *l, const struct renamed *r, const cJSON *config)
{
    for (; r->key; r++)
        add_value(l, r->key, json_get(config, r->from));
}

static void add_text(struct lines *l, const cJSON *text)
{
    static const struct renamed keys[] = {
        {"num_layers", "num_hidden_layers"}, {"hidden_dim", "hidden_size"}, {"attention_heads", "num_attention_heads"},
        {"attention_kv_heads", "num_key_value_heads"}, {"attention_head_dim", "head_dim"},
        {"global_head_dim", "global_head_dim"}, {"ffn_intermediate_dim", "intermediate_size"},
        {"vocab_size", "vocab_size"}, {"vocab_size_per_layer_input", "vocab_size_per_layer_input"},
        {"hidden_size_per_layer_input", "hidden_size_per_layer_input"},
        {"num_kv_shared_layers", "num_kv_shared_layers"}, {"sliding_window", "sliding_window"},
        {"final_logit_softcapping", "final_logit_softcapping"}, {"layer_norm_eps", "rms_norm_eps"},
        {"tie_word_embeddings", "tie_word_embeddings"}, {"context_length", "max_position_embeddings"},
        {"attention_k_eq_v", "attention_k_eq_v"}, {"enable_moe_block", "enable_moe_block"}, {0}};
    const cJSON *rope = json_get(text, "rope_parameters"), *type;
    const cJSON *full = json_get(rope, "full_attention"), *sliding = json_get(rope, "sliding_attention");
    struct text types = {0};
    add_line(l, "model_type", "gemma4");
    add_renamed(l, keys, text);
    add_value(l, "rope_theta", json_get(full, "rope_theta"));
    add_value(l, "rope_local_base_freq", json_get(sliding, "rope_theta"));
    add_value(l, "global_partial_rotary_factor", json_get(full, "partial_rotary_factor"));
    cJSON_ArrayForEach(type, json_get(text, "layer_types"))
        text_printf(&types, "%s%s", types.len ? "," : "",
                    cJSON_IsString(type) && strcmp(type->valuestring, "full_attention") == 0 ? "global" : "sliding");
    if (types.len)
        add_line(l, "layer_types", types.data);
    text_free(&types);
}

static void add_towers(struct lines *l, const cJSON *vision, const cJSON *audio)
{
    static const struct renamed pictures[] = {
        {"vision_hidden_size", "hidden_size"}, {"vision_embed_dim", "hidden_size"},
        {"vision_num_layers", "num_hidden_layers"}, {"vision_attention_heads", "num_attention_heads"},
        {"vision_kv_heads", "num_key_value_heads"}, {"vision_head_dim", "head_dim"},
        {"vision_intermediate_size", "intermediate_size"}, {"vision_patch_size", "patch_size"},
        {"vision_pooling_kernel_size", "pooling_kernel_size"},
        {"vision_position_embedding_size", "position_embedding_size"},
        {"vision_default_output_length", "default_output_length"}, {0}};
    static const struct renamed sounds[] = {
        {"audio_hidden_dim", "hidden_size"}, {"audio_num_layers", "num_hidden_layers"},
        {"audio_num_heads", "num_attention_heads"}, {"audio_conf_conv_kernel_size", "conv_kernel_size"},
        {"audio_chunk_size", "attention_chunk_size"}, {"audio_context_left", "attention_context_left"},
        {"audio_context_right", "attention_context_right"}, {"audio_logit_cap", "attention_logit_cap"},
        {"audio_residual_weight", "residual_weight"}, {"audio_rms_norm_eps", "rms_norm_eps"},
        {"audio_output_proj_dims", "output_proj_dims"}, {0}};
    const cJSON *channels = json_get(audio, "subsampling_conv_channels");
    add_renamed(l, pictures, vision);
    add_value(l, "vision_rope_theta", json_get(json_get(vision, "rope_parameters"), "rope_theta"));
    add_renamed(l, sounds, audio);
    add_value(l, "audio_sscp_conv0_channels", cJSON_GetArrayItem(channels, 0));
    add_value(l, "audio_sscp_conv1_channels", cJSON_GetArrayItem(channels, 1));
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int write_config_text(const struct staging *s, const cJSON *config, struct err *e)
{
    struct lines l = {0};
    struct text out = {0};
    const cJSON *text = json_get(config, "text_config"), *v;
    add_text(&l, text ? text : config);
    add_towers(&l, json_get(config, "vision_config"), json_get(config, "audio_config"));
    cJSON_ArrayForEach(v, config)
        add_value(&l, v->string, v);
    qsort(l.line, l.n, sizeof *l.line, by_bytes);
    for (size_t i = 0; i < l.n; i++) {
        text_printf(&out, "%s\n", l.line[i]);
        free(l.line[i]);
    }
    free(l.line);
    const int bad = staging_write(s, "config.txt", out.data, out.len, e);
    text_free(&out);
    return bad;
}

static int write_config(const struct quantize_job *job, const struct staging *s, struct err *e)
{
    cJSON *config = folder_config(job);
    const int bad = folder_json(s, "config.json", config, e) || write_config_text(s, config, e);
    cJSON_Delete(config);
    return bad ? -1 : 0;
}

/* ---- tokenizer ------------------------------------------------------------------------------------------------- */

static int write_vocabulary(const struct quantize_job *job, const struct staging *s, struct err *e)
{
    struct text out = {0};
    const cJSON *merge;
    for (int32_t id = 0; id < tokenizer_size(job->tokenizer); id++) {
        const char *piece = tokenizer_piece(job->tokenizer, id);
        if (piece)
            text_printf(&out, "%d\t%s\n", (int)id, piece);
    }
    int bad = staging_write(s, "vocab.txt", out.data, out.len, e);
    text_clear(&out);
    text_puts(&out, "#version: 0.2\n");
    cJSON_ArrayForEach(merge, json_get(json_get(job->documents.tokenizer.json, "model"), "merges")) {
        if (cJSON_IsString(merge))
            text_printf(&out, "%s\n", merge->valuestring);
        else
            text_printf(&out, "%s %s\n", merge->child->valuestring, merge->child->next->valuestring);
    }
    bad = bad || staging_write(s, "merges.txt", out.data, out.len, e);
    text_free(&out);
    return bad ? -1 : 0;
}

struct ids_of { const char *key; int32_t id; };

static void find_ids(const struct quantize_job *job, struct ids_of out[4])
{
    const struct config *c = &job->config;
    out[0] = (struct ids_of){"eos_token_id", c->n_eos ? c->eos_ids[0] : -1};
    out[1] = (struct ids_of){"pad_token_id", c->pad_id};
    out[2] = (struct ids_of){"bos_token_id", c->bos_id};
    out[3] = (struct ids_of){"unk_token_id", tokenizer_find(job->tokenizer, "<unk>")};
}

static int write_special_tokens(const struct quantize_job *job, const struct staging *s, struct err *e)
{
    struct ids_of ids[4];
    const cJSON *token;
    cJSON *json = cJSON_CreateObject();
    find_ids(job, ids);
    for (int i = 0; i < 4; i++)
        if (ids[i].id >= 0)
            cJSON_AddNumberToObject(json, ids[i].key, ids[i].id);
    cJSON_AddNumberToObject(json, "vocab_size", job->config.vocab_size);
    cJSON_AddNumberToObject(json, "model_max_length", job->config.max_positions);
    cJSON *by_id = cJSON_AddObjectToObject(json, "special_tokens");
    cJSON *list = cJSON_AddArrayToObject(json, "additional_special_tokens");
    cJSON_ArrayForEach(token, json_get(job->documents.tokenizer.json, "added_tokens")) {
        const cJSON *id = json_get(token, "id");
        const char *content = json_string(token, "content");
        char key[32];
        if (!cJSON_IsNumber(id) || !content)
            continue;
        snprintf(key, sizeof key, "%d", id->valueint);
        cJSON_AddStringToObject(by_id, key, content);
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "token", content);
        cJSON_AddNumberToObject(entry, "id", id->valueint);
        cJSON_AddItemToArray(list, entry);
    }
    if (job->documents.has_template)
        cJSON_AddStringToObject(json, "chat_template", job->documents.chat_template.data);
    const int bad = folder_json(s, "special_tokens.json", json, e);
    cJSON_Delete(json);
    return bad;
}

static int write_tokenizer_config(const struct quantize_job *job, const struct staging *s, struct err *e)
{
    struct ids_of ids[4];
    struct text out = {0};
    find_ids(job, ids);
    text_printf(&out, "vocab_size=%d\n", job->config.vocab_size);
    for (int i = 0; i < 4; i++)
        if (ids[i].id >= 0)
            text_printf(&out, "%s=%d\n", ids[i].key, (int)ids[i].id);
    text_printf(&out, "model_type=gemma4\nmodel_max_length=%d\ntokenizer_type=bpe\nvocab_format=id_tab_token\n"
                "normalizer=metaspace\ndecoder=replace_metaspace\nbyte_fallback=true\nhas_chat_template=%s\n",
                job->config.max_positions, job->documents.has_template ? "true" : "false");
    const int bad = staging_write(s, "tokenizer_config.txt", out.data, out.len, e);
    text_free(&out);
    return bad;
}

int cq_write_documents(const struct quantize_job *job, const struct staging *s, struct err *e)
{
    const struct documents *d = &job->documents;
    if (write_config(job, s, e) || folder_tokenizer(job, s, e) || write_vocabulary(job, s, e) ||
        write_special_tokens(job, s, e) || write_tokenizer_config(job, s, e) ||
        folder_document(job, s, "generation_config.json", d->generation.json, e) ||
        folder_document(job, s, "processor_config.json", d->processor.json, e) ||
        folder_document(job, s, "preprocessor_config.json", NULL, e))
        return -1;
    return !d->has_template ? 0
           : staging_write(s, "chat_template.jinja2", d->chat_template.data, d->chat_template.len, e);
}
