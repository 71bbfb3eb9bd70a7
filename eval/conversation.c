/* conversation.c - messages and their media files. */
#include "eval/conversation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES_FILE = 64 << 20 };

static void add_media(struct conversation *c, enum media_kind kind, const struct mapped *file, void *given, size_t n)
{
    const size_t more = (size_t)c->n_media + 1;
    c->media = mem_grow(c->media, more, sizeof *c->media);
    c->files = mem_grow(c->files, more, sizeof *c->files);
    c->given = mem_grow(c->given, more, sizeof *c->given);
    c->files[c->n_media] = *file;
    c->given[c->n_media] = given;
    c->media[c->n_media++] = (struct media){.kind = kind, .bytes = given ? given : file->data,
                                            .n_bytes = given ? n : file->size, .name = file->path};
}

int conversation_add_file(struct conversation *c, enum media_kind kind, const char *path, struct err *e)
{
    struct mapped file;
    if (map_open(&file, path, e))
        return -1;
    add_media(c, kind, &file, NULL, 0);
    return 0;
}

void conversation_add_bytes(struct conversation *c, enum media_kind kind, void *bytes, size_t n, const char *name)
{
    add_media(c, kind, &(struct mapped){.path = mem_strdup(name)}, bytes, n);
}

void conversation_drop_last(struct conversation *c)
{
    if (c->n_encoded == c->n_media)
        media_tokens_free(&c->encoded[--c->n_encoded]);
    c->n_media--;
    map_close(&c->files[c->n_media]);
    free(c->given[c->n_media]);
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
    char *found = name[0] == '/' ? mem_strdup(name) : path_join(dir, name);
    int failed = conversation_add_file(c, kind, found, e);
    free(found);
    return failed;
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
        failed = conversation_add_file(c, image ? MEDIA_IMAGE : MEDIA_AUDIO, image ? images[i] : audios[i - n_images],
                                       e);
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
    for (int i = 0; i < c->n_media; i++) {
        map_close(&c->files[i]);
        free(c->given[i]);
    }
    for (int i = 0; i < c->n_encoded; i++)
        media_tokens_free(&c->encoded[i]);
    free(c->encoded);
    free(c->files);
    free(c->given);
    free(c->media);
    cJSON_Delete(c->messages);
    *c = (struct conversation){0};
}

void conversation_limit_audio(struct conversation *c, double max_s)
{
    for (int i = 0; i < c->n_media; i++)
        c->media[i].max_s = max_s;
}

int conversation_render(const struct engine *m, const struct conversation *c, struct text *rendered, struct err *e)
{
    if (!engine_chat_template(m))
        return err_input(e, "%s: no chat template (chat_template.jinja was expected)", engine_info(m)->path);
    return chat_render(engine_chat_template(m), c->messages, true, c->enable_thinking, rendered, e);
}

int conversation_encode(struct engine *m, struct conversation *c, struct err *e)
{
    const int n = c->n_media - c->n_encoded;
    int failed = 0;
    if (n == 0)
        return 0;
    struct err *errs = NEW(struct err, n);
    c->encoded = mem_grow(c->encoded, (size_t)c->n_media, sizeof *c->encoded);
    engine_encode(m, c->media + c->n_encoded, n, c->encoded + c->n_encoded, errs);
    c->n_encoded = c->n_media;
    for (int i = 0; i < n && !failed; i++)
        if (errs[i].code) {
            *e = errs[i];
            failed = -1;
        }
    free(errs);
    return failed;
}

int conversation_expand(const struct engine *m, const struct conversation *c, const struct text *rendered,
                        struct ids *ids, float **soft, struct err *e)
{
    enum media_kind *kinds = NEW(enum media_kind, c->n_media);
    for (int i = 0; i < c->n_media; i++)
        kinds[i] = c->media[i].kind;
    int failed = engine_prompt(m, rendered->data ? rendered->data : "", rendered->len, c->encoded, kinds, c->n_media,
                               ids, soft, e);
    free(kinds);
    return failed;
}

int conversation_prompt(struct engine *m, struct conversation *c, struct ids *ids, float **soft, struct err *e)
{
    struct text rendered = {0};
    *soft = NULL;
    int failed = conversation_render(m, c, &rendered, e) || conversation_encode(m, c, e) ||
                 conversation_expand(m, c, &rendered, ids, soft, e);
    text_free(&rendered);
    return failed ? -1 : 0;
}
