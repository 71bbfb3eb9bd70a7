/* conversation.c - messages and their media files. */
#include "eval/conversation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES_FILE = 64 << 20 };

static int add_media(struct conversation *c, enum media_kind kind, char *path, struct err *e)
{
    c->media = mem_grow(c->media, (size_t)c->n_media + 1, sizeof *c->media);
    c->files = mem_grow(c->files, (size_t)c->n_media + 1, sizeof *c->files);
    struct mapped *f = &c->files[c->n_media];
    int failed = map_open(f, path, e);
    free(path);
    if (failed)
        return -1;
    c->media[c->n_media++] = (struct media){.kind = kind, .bytes = f->data, .n_bytes = f->size, .name = f->path};
    return 0;
}

/* 1 and *kind if this part of a message's content is a picture or a sound. */
static int media_kind_of(const cJSON *part, enum media_kind *kind)
{
    const char *type = json_string(part, "type");
    if (!type)
        return 0;
    *kind = strstr(type, "audio") ? MEDIA_AUDIO : MEDIA_IMAGE;
    return strcmp(type, "image") == 0 || strcmp(type, "image_url") == 0 || strcmp(type, "audio") == 0 ||
           strcmp(type, "input_audio") == 0;
}

static int add_part(struct conversation *c, const cJSON *part, const char *path, const char *dir, struct err *e)
{
    enum media_kind kind;
    const char *type = json_string(part, "type");
    if (!media_kind_of(part, &kind)) {
        if (type && strcmp(type, "text") == 0 && json_string(part, "text"))
            return 0;
        return err_input(e, "%s: a part of a message has the type \"%s\"; text (with \"text\"), image or audio was "
                         "expected", path, type ? type : "");
    }
    const char *const keys[] = {kind == MEDIA_AUDIO ? "audio" : "image", "path", "url", "file"};
    const char *name = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !name; i++)
        name = json_string(part, keys[i]);
    if (!name)
        return err_input(e, "%s: a part of type \"%s\" names no file (\"%s\": \"FILE\" was expected)", path,
                         type, keys[0]);
    if (strstr(name, "://"))
        return err_input(e, "%s: \"%.100s\": a file was expected, nothing is fetched", path, name);
    return add_media(c, kind, name[0] == '/' ? mem_strdup(name) : path_join(dir, name), e);
}

static int add_all_media(struct conversation *c, const char *path, struct err *e)
{
    char *dir = mem_strndup(path, (size_t)(path_base(path) - path));
    const cJSON *message, *part;
    int failed = 0;
    cJSON_ArrayForEach(message, c->messages) {
        if (!failed && !json_string(message, "role"))
            failed = err_input(e, "%s: every message needs a \"role\"", path);
        const cJSON *content = json_get(message, "content");
        bool calls = json_get(message, "tool_calls") || json_get(message, "tool_responses");
        if (!failed && !cJSON_IsArray(content) && !cJSON_IsString(content) && !calls)
            failed = err_input(e, "%s: every message needs a \"content\": a text or an array of parts", path);
        if (cJSON_IsArray(content))
            cJSON_ArrayForEach(part, content)
                failed = failed ? failed : add_part(c, part, path, dir[0] ? dir : ".", e);
    }
    free(dir);
    return failed;
}

int conversation_read(struct conversation *c, const char *path, struct err *e)
{
    *c = (struct conversation){0};
    cJSON *file = json_read_file(path, MAX_MESSAGES_FILE, e);
    if (!file)
        return -1;
    const cJSON *messages = cJSON_IsArray(file) ? file : json_get(file, "messages");
    c->enable_thinking = cJSON_IsTrue(json_get(file, "enable_thinking"));
    int failed = 0;
    if (!cJSON_IsArray(messages) || cJSON_GetArraySize(messages) == 0)
        failed = err_input(e, "%s: an array of at least one message, or an object with \"messages\", was expected",
                           path);
    else
        c->messages = cJSON_Duplicate(messages, true);
    cJSON_Delete(file);
    if (!failed)
        failed = add_all_media(c, path, e);
    if (failed)
        conversation_free(c);
    return failed;
}

static void add_typed_part(cJSON *content, const char *type, const char *text)
{
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", type);
    if (text)
        cJSON_AddStringToObject(part, "text", text);
    cJSON_AddItemToArray(content, part);
}

int conversation_make(struct conversation *c, const char *prompt, const char *const *images, int n_images,
                      const char *const *audios, int n_audios, struct err *e)
{
    *c = (struct conversation){.messages = cJSON_CreateArray()};
    cJSON *message = cJSON_CreateObject(), *content = cJSON_CreateArray();
    cJSON_AddStringToObject(message, "role", "user");
    int failed = 0;
    for (int i = 0; i < n_images + n_audios && !failed; i++) {
        bool image = i < n_images;
        add_typed_part(content, image ? "image" : "audio", NULL);
        failed = add_media(c, image ? MEDIA_IMAGE : MEDIA_AUDIO,
                           mem_strdup(image ? images[i] : audios[i - n_images]), e);
    }
    add_typed_part(content, "text", prompt);
    cJSON_AddItemToObject(message, "content", content);
    cJSON_AddItemToArray(c->messages, message);
    if (failed)
        conversation_free(c);
    return failed;
}

void conversation_free(struct conversation *c)
{
    for (int i = 0; i < c->n_media; i++)
        map_close(&c->files[i]);
    free(c->files);
    free(c->media);
    cJSON_Delete(c->messages);
    *c = (struct conversation){0};
}

void conversation_limit_audio(struct conversation *c, double max_s)
{
    for (int i = 0; i < c->n_media; i++)
        c->media[i].max_s = max_s;
}

int conversation_prompt(struct engine *m, const struct conversation *c, struct ids *ids, float **soft, struct err *e)
{
    struct text rendered = {0};
    struct media_tokens *encoded = NEW(struct media_tokens, c->n_media);
    struct err *errs = NEW(struct err, c->n_media);
    enum media_kind *kinds = NEW(enum media_kind, c->n_media);
    int failed = 0;
    *soft = NULL;
    if (!engine_chat_template(m))
        failed = err_input(e, "%s: no chat template (chat_template.jinja was expected)", engine_info(m)->path);
    if (!failed)
        failed = chat_render(engine_chat_template(m), c->messages, true, c->enable_thinking, &rendered, e);
    if (!failed && c->n_media && engine_encode(m, c->media, c->n_media, encoded, errs) > 0) {
        for (int i = 0; i < c->n_media && !failed; i++)
            if (errs[i].code) {
                *e = errs[i];
                failed = -1;
            }
    }
    for (int i = 0; i < c->n_media; i++)
        kinds[i] = c->media[i].kind;
    if (!failed)
        failed = engine_prompt(m, rendered.data, rendered.len, encoded, kinds, c->n_media, ids, soft, e);
    for (int i = 0; i < c->n_media; i++)
        media_tokens_free(&encoded[i]);
    free(encoded);
    free(errs);
    free(kinds);
    text_free(&rendered);
    return failed;
}
