/* documents.c - the documents of a checkpoint folder, a Cactus bundle, or GGUF files. */
#define _GNU_SOURCE                     /* opendir */
#include "engine/documents.h"

#include "engine/cq.h"
#include "engine/gguf_model.h"
#include "engine/tokenizer.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JSON = 16 << 20, MAX_TOKENIZER = 64 << 20 };

/* ---- a folder -------------------------------------------------------------------------------------------------- */

/* A file that may be absent. */
static int read_json(struct document *d, const char *folder, const char *name, size_t max_bytes, bool required,
                     struct err *e)
{
    d->where = path_join(folder, name);
    if (!required && !file_exists(d->where))
        return 0;
    d->json = json_read_file(d->where, max_bytes, e);
    return d->json ? 0 : -1;
}

/* chat_template.jinja, or else the key "chat_template" of tokenizer_config.json. */
static int read_template(struct documents *d, const char *folder, struct err *e)
{
    struct document config = {0};
    d->template_where = path_join(folder, "chat_template.jinja");
    if (file_exists(d->template_where)) {
        d->has_template = true;
        return file_read(d->template_where, MAX_JSON, &d->chat_template, e);
    }
    const int bad = read_json(&config, folder, "tokenizer_config.json", MAX_JSON, false, e);
    const char *source = bad ? NULL : json_string(config.json, "chat_template");
    if (source) {
        d->has_template = true;
        text_puts(&d->chat_template, source);
        free(d->template_where);
        d->template_where = mem_strdup(config.where);
    }
    cJSON_Delete(config.json);
    free(config.where);
    return bad;
}

static int open_folder(struct documents *d, const char *path, struct err *e)
{
    if (read_json(&d->config, path, "config.json", MAX_JSON, true, e) ||
        read_json(&d->generation, path, "generation_config.json", MAX_JSON, false, e) ||
        read_json(&d->tokenizer, path, "tokenizer.json", MAX_TOKENIZER, true, e) || read_template(d, path, e) ||
        read_json(&d->processor, path, "processor_config.json", MAX_JSON, false, e))
        return -1;
    if (d->processor.json)
        return 0;
    free(d->processor.where);
    return read_json(&d->processor, path, "preprocessor_config.json", MAX_JSON, false, e);
}

/* The ids of the placeholders in prompts, where the configuration of a model without towers leaves them out. */
static void add_placeholders(struct documents *d)
{
    const cJSON *t;
    for (const struct gguf_mark *mark = gguf_marks; mark->key; mark++)
        cJSON_ArrayForEach(t, json_get(d->tokenizer.json, "added_tokens")) {
            const char *content = json_string(t, "content");
            const cJSON *id = json_get(t, "id");
            if (content && cJSON_IsNumber(id) && strcmp(content, mark->piece) == 0 &&
                !json_get(d->config.json, mark->key))
                cJSON_AddNumberToObject(d->config.json, mark->key, id->valuedouble);
        }
}

/* ---- GGUF ------------------------------------------------------------------------------------------------------ */

static int read_model(struct documents *d, const char *path, const struct weights *w, struct err *e)
{
    struct mapped file;
    struct arena a = {0};
    struct gguf g;
    struct gguf_documents made = {0};
    if (map_open(&file, path, e))
        return -1;
    const int bad = gguf_parse(&file, &a, &g, e) || gguf_documents_read(&made, &g, w, e);
    d->architecture = made.architecture;
    d->config = (struct document){made.config, mem_strdup(path)};
    d->tokenizer = (struct document){made.tokenizer, mem_strdup(path)};
    d->has_template = made.has_template;
    d->chat_template = made.chat_template;
    d->template_where = mem_strdup(path);
    arena_free(&a);
    map_close(&file);
    return bad ? -1 : 0;
}

static int read_projector(struct documents *d, const char *path, const struct weights *w, struct err *e)
{
    struct mapped file;
    struct arena a = {0};
    struct gguf g;
    if (map_open(&file, path, e))
        return -1;
    cJSON_Delete(d->processor.json);
    free(d->processor.where);
    d->processor = (struct document){NULL, mem_strdup(path)};
    add_placeholders(d);
    const int bad = gguf_parse(&file, &a, &g, e) || gguf_towers_read(d->config.json, &d->processor.json, &g, w, e);
    arena_free(&a);
    map_close(&file);
    return bad ? -1 : 0;
}

static bool is_projector_name(const char *name)
{
    const size_t n = strlen(name);
    return strncmp(name, "mmproj", 6) == 0 && n > 11 && strcmp(name + n - 5, ".gguf") == 0;
}

void documents_projector(char **out, int *n_beside, const char *path, const char *asked)
{
    *out = NULL;
    *n_beside = 0;
    if (asked && strcmp(asked, "none") == 0)
        return;
    if (asked || path_is_dir(path) || cq_is_bundle(path)) {
        *out = asked ? mem_strdup(asked) : NULL;
        return;
    }
    char *folder = mem_strndup(path, (size_t)(path_base(path) - path));
    DIR *dir = opendir(*folder ? folder : ".");
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_projector_name(entry->d_name))
            continue;
        free(*out);
        *out = (*n_beside)++ ? NULL : path_join(*folder ? folder : ".", entry->d_name);
    }
    if (dir)
        closedir(dir);
    free(folder);
}

int documents_add_projector(struct weights *w, const char *path, const char *projector, struct err *e)
{
    for (size_t i = 0; projector && i < weights_count(w); i++)
        if (strstr(weights_at(w, i)->name, "vision_tower.") || strstr(weights_at(w, i)->name, "audio_tower."))
            return err_set(e, EXIT_USAGE, "%s: --mmproj goes with a model that has no towers; this one holds its own",
                           path);
    return projector ? weights_add(w, projector, e) : 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

int documents_open(struct documents *d, const char *path, const char *projector, const struct weights *w,
                   struct err *e)
{
    *d = (struct documents){0};
    struct bundle *bundle = weights_bundle(w);
    const int bad = (bundle ? cq_bundle_documents(d, bundle, w, e) : path_is_dir(path) ? open_folder(d, path, e)
                     : read_model(d, path, w, e)) || (projector && read_projector(d, projector, w, e));
    if (bad)
        documents_close(d);
    return bad ? -1 : 0;
}

void documents_close(struct documents *d)
{
    struct document *all[] = {&d->config, &d->generation, &d->processor, &d->tokenizer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cJSON_Delete(all[i]->json);
        free(all[i]->where);
    }
    text_free(&d->chat_template);
    free(d->template_where);
    *d = (struct documents){0};
}

static int open_folder_tokenizer(struct tokenizer **out, const char *path, struct err *e)
{
    struct document d = {0};
    struct bundle *b = NULL;
    const int bad = (cq_is_bundle(path) ? bundle_open(&b, path, e) || cq_bundle_tokenizer(&d, b, e)
                     : read_json(&d, path, "tokenizer.json", MAX_TOKENIZER, true, e)) ||
                    tokenizer_read(out, d.json, d.where, e);
    cJSON_Delete(d.json);
    free(d.where);
    bundle_close(b);
    return bad ? -1 : 0;
}

int tokenizer_open(struct tokenizer **out, const char *path, struct err *e)
{
    struct mapped file;
    struct arena a = {0};
    struct gguf g;
    struct gguf_documents made = {0};
    *out = NULL;
    if (path_is_dir(path) || cq_is_bundle(path))
        return open_folder_tokenizer(out, path, e);
    if (map_open(&file, path, e))
        return -1;
    const bool is_gguf = gguf_is(&file);
    if (is_gguf && gguf_parse(&file, &a, &g, e) == 0)
        gguf_documents_read(&made, &g, NULL, e);
    map_close(&file);
    arena_free(&a);
    if (!is_gguf)
        made.tokenizer = json_read_file(path, MAX_TOKENIZER, e);
    const int bad = made.tokenizer ? tokenizer_read(out, made.tokenizer, path, e) : -1;
    gguf_documents_free(&made);
    return bad;
}
