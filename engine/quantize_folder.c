/* quantize_folder.c - copies of the input's documents; where it is no folder, what stood for them. */
#include "engine/quantize_folder.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DOCUMENT = 64 << 20 };

int folder_json(const struct staging *s, const char *name, const cJSON *json, struct err *e)
{
    char *printed = cJSON_Print(json);
    if (!printed)
        return err_set(e, EXIT_MACHINE, "%s: no memory for it", name);
    const int bad = staging_write(s, name, printed, strlen(printed), e);
    cJSON_free(printed);
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
