/* quantize_folder.c - copies of the input's documents; where it is no folder, what stood for them. */
#include "engine/quantize_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOCUMENT = 64 << 20 };

int folder_check_request(const struct quantize_job *job, struct err *e)
{
    if (job->request->imatrix || job->request->tower_type)
        return err_set(e, EXIT_USAGE, "%s goes with the types of GGUF, not with %s",
                       job->request->imatrix ? "--imatrix" : "--mmproj-type", job->type->name);
    return 0;
}

/* Transformers wants these with a point even where they are whole; the tree does not remember how they were written. */
static bool is_float_key(const char *key)
{
    static const char *const keys[] = {
        "attention_dropout", "attention_invalid_logits_value", "attention_logit_cap", "final_logit_softcapping",
        "gradient_clipping", "image_mean", "image_std", "initializer_range", "min_p", "partial_rotary_factor",
        "probe_layer_norm_eps", "repetition_penalty", "rescale_factor", "residual_weight", "rms_norm_eps", "rope_theta",
        "temperature", "top_p"};
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

void folder_put_number(struct text *t, const char *key, double v)
{
    json_put_double(t, v);
    if (is_float_key(key) && v == floor(v) && fabs(v) < 1e15)
        text_puts(t, ".0");
}

static void put_json(struct text *t, const cJSON *v, const char *key, int indent)
{
    const bool array = cJSON_IsArray(v);
    if (cJSON_IsNumber(v)) {
        folder_put_number(t, key, v->valuedouble);
        return;
    }
    if (!array && !cJSON_IsObject(v)) {
        json_print(t, v);
        return;
    }
    text_putc(t, array ? '[' : '{');
    for (const cJSON *m = v->child; m; m = m->next) {
        text_printf(t, "%s\n%*s", m == v->child ? "" : ",", 4 * (indent + 1), "");
        if (!array) {
            json_put_string(t, m->string, strlen(m->string));
            text_puts(t, ": ");
        }
        put_json(t, m, array ? key : m->string, indent + 1);
    }
    if (v->child)
        text_printf(t, "\n%*s", 4 * indent, "");
    text_putc(t, array ? ']' : '}');
}

int folder_json(const struct staging *s, const char *name, const cJSON *json, struct err *e)
{
    struct text t = {0};
    put_json(&t, json, NULL, 0);
    text_putc(&t, '\n');
    const int bad = staging_write(s, name, t.data, t.len, e);
    text_free(&t);
    return bad;
}

int folder_copy(const struct quantize_job *job, const struct staging *s, const char *name, bool *copied, struct err *e)
{
    struct text content = {0};
    char *path = path_join(job->request->in, name);
    *copied = path_is_dir(job->request->in) && file_exists(path);
    const int bad = *copied && (file_read(path, MAX_DOCUMENT, &content, e) ||
                                staging_write(s, name, content.data, content.len, e));
    free(path);
    text_free(&content);
    return bad ? -1 : 0;
}

int folder_document(const struct quantize_job *job, const struct staging *s, const char *name, const cJSON *json,
                    struct err *e)
{
    bool copied;
    if (folder_copy(job, s, name, &copied, e))
        return -1;
    return copied || !json ? 0 : folder_json(s, name, json, e);
}

static void add_missing(cJSON *object, const char *key, cJSON *value)
{
    if (json_get(object, key))
        cJSON_Delete(value);
    else
        cJSON_AddItemToObject(object, key, value);
}

int folder_tokenizer(const struct quantize_job *job, const struct staging *s, struct err *e)
{
    static const char *const whole[] = {"truncation", "padding", "pre_tokenizer", "post_processor"};
    static const char *const marks[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    bool copied;
    if (folder_copy(job, s, "tokenizer.json", &copied, e) || copied)
        return copied ? 0 : -1;
    cJSON *json = cJSON_Duplicate(job->documents.tokenizer.json, true), *token;
    cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    add_missing(json, "version", cJSON_CreateString("1.0"));
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        add_missing(json, whole[i], cJSON_CreateNull());
    cJSON_ArrayForEach(token, cJSON_GetObjectItemCaseSensitive(json, "added_tokens"))
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            add_missing(token, marks[i], cJSON_CreateBool(false));
    cJSON_DeleteItemFromObjectCaseSensitive(model, "skip_unknown_merges");
    if (json_get(json_get(model, "vocab"), "<unk>"))
        add_missing(model, "unk_token", cJSON_CreateString("<unk>"));
    add_missing(model, "fuse_unk", cJSON_CreateBool(true));
    const int bad = folder_json(s, "tokenizer.json", json, e);
    cJSON_Delete(json);
    return bad;
}

/* What other tools take for granted as it is in Gemma 4 E2B's config.json, and that a GGUF file does not say. */
static void complete_text_config(const struct quantize_job *job, cJSON *text)
{
    struct text name = {0};
    text_printf(&name, "%sembed_tokens_per_layer.weight", job->config.prefix);
    const struct tensor *table = weights_find(job->weights, name.data);
    text_free(&name);
    if (!json_get(text, "model_type"))
        cJSON_AddStringToObject(text, "model_type", "gemma4_text");
    if (!json_get(text, "hidden_activation"))
        cJSON_AddStringToObject(text, "hidden_activation", "gelu_pytorch_tanh");
    if (table && table->n_dims == 2 && !json_get(text, "vocab_size_per_layer_input"))
        cJSON_AddNumberToObject(text, "vocab_size_per_layer_input", (double)table->dim[0]);
}

cJSON *folder_config(const struct quantize_job *job)
{
    static const char *const foreign[] = {"_name_or_path", "model_file", "quantization", "quantization_config"};
    static const char *const of_towers[] = {"vision_config", "audio_config"};
    cJSON *config = cJSON_Duplicate(job->documents.config.json, true);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(config, foreign[i]);
    for (size_t i = 0; i < 2 && job->request->no_towers; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(config, of_towers[i]);
    cJSON *text = cJSON_GetObjectItemCaseSensitive(config, "text_config");
    complete_text_config(job, text ? text : config);
    return config;
}
