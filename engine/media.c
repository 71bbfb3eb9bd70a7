/* media.c - pictures and sounds to soft tokens, with a folder of what has been encoded before. Soft tokens depend on
 * the media's bytes, the tower's weights and the settings only, so several models that share a tower share the folder.
 * A file of it that is damaged in any way is ignored and written again. */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

/* To be raised with every change that gives a tower or a front end other results. */
#define MEDIA_VERSION "handoff media 1"

/* ---- keys ------------------------------------------------------------------------------------------------------ */

/* SHA-256 over what the soft tokens of a kind depend on besides the media. Reads the tower's weights, so it is made
 * once and only if a cache is in use. */
static const char *tower_key(struct engine *m, enum media_kind kind)
{
    static const char *const prefixes[2][2] = {{"model.vision_tower.", "model.embed_vision."},
                                               {"model.audio_tower.", "model.embed_audio."}};
    char *key = kind == MEDIA_IMAGE ? m->vision_key : m->audio_key;
    if (*key)
        return key;
    struct sha256 sha;
    struct text settings = {0};
    sha256_init(&sha);
    text_printf(&settings, MEDIA_VERSION " %d %d ", (int)kind, m->image_tokens);
    json_print(&settings, json_get(m->config_json, kind == MEDIA_IMAGE ? "vision_config" : "audio_config"));
    if (m->processor_json)
        json_print(&settings, m->processor_json);
    sha256_update(&sha, settings.data, settings.len);
    for (size_t i = 0; i < weights_count(m->weights); i++) {
        const struct tensor *t = weights_at(m->weights, i);
        if (strncmp(t->name, prefixes[kind][0], strlen(prefixes[kind][0])) != 0 &&
            strncmp(t->name, prefixes[kind][1], strlen(prefixes[kind][1])) != 0)
            continue;
        sha256_update(&sha, t->name, strlen(t->name) + 1);
        sha256_update(&sha, t->type_name, strlen(t->type_name) + 1);
        sha256_update(&sha, t->data, t->n_bytes);
    }
    sha256_hex(&sha, key);
    text_free(&settings);
    return key;
}

static void cache_key(struct engine *m, const struct media *media, const char *media_sha, char key[65])
{
    struct text t = {0};
    text_printf(&t, "%s %s %a %a %a", tower_key(m, media->kind), media_sha, media->begin_s, media->end_s,
                media->max_s);
    sha256_hex_of(t.data, t.len, key);
    text_free(&t);
}

/* ---- one file of the cache: head, parts, soft tokens, then the SHA-256 of all that as 64 digits ------------------ */

struct head {
    char magic[8];
    char key[64], input_sha[64];
    double seconds;
    int32_t n_parts, n_tokens, hidden_size, zero;
};
static const char magic[8] = "handsoft";

static char *cache_path(const struct engine *m, const char *key)
{
    struct text name = {0};
    text_printf(&name, "%s.soft", key);
    char *path = path_join(m->media_cache, name.data);
    text_free(&name);
    return path;
}

static bool parse_entry(const struct engine *m, const uint8_t *data, size_t size, const char *key,
                        struct media_tokens *out)
{
    struct head head;
    char sha[65];
    if (size < sizeof head + 64)
        return false;
    sha256_hex_of(data, size - 64, sha);
    memcpy(&head, data, sizeof head);
    if (memcmp(sha, data + size - 64, 64) != 0 || memcmp(head.magic, magic, sizeof magic) != 0 ||
        memcmp(head.key, key, sizeof head.key) != 0 || head.n_parts < 1 || head.n_tokens < 1 ||
        head.hidden_size != m->config.hidden_size)
        return false;
    const size_t parts = (size_t)head.n_parts * sizeof(int), width = (size_t)head.hidden_size * sizeof(float);
    if (size - sizeof head - 64 < parts || (size - sizeof head - 64 - parts) / width != (size_t)head.n_tokens ||
        (size - sizeof head - 64 - parts) % width)
        return false;
    int *part_tokens = mem_grow(NULL, parts, 1);
    memcpy(part_tokens, data + sizeof head, parts);
    int64_t sum = 0;
    bool good = true;
    for (int i = 0; i < head.n_parts; i++) {
        good = good && part_tokens[i] >= 0;
        sum += part_tokens[i];
    }
    if (!good || sum != head.n_tokens) {
        free(part_tokens);
        return false;
    }
    *out = (struct media_tokens){.n_parts = head.n_parts, .part_tokens = part_tokens, .n_tokens = head.n_tokens,
                                 .seconds = head.seconds};
    out->soft = mem_grow(NULL, (size_t)head.n_tokens, width);
    memcpy(out->soft, data + sizeof head + parts, (size_t)head.n_tokens * width);
    memcpy(out->input_sha, head.input_sha, sizeof head.input_sha);
    return true;
}

static bool cache_load(const struct engine *m, const char *key, struct media_tokens *out)
{
    char *path = cache_path(m, key);
    struct mapped file = {0};
    struct err ignored = {0};
    const bool found = file_exists(path) && map_open(&file, path, &ignored) == 0 &&
                       parse_entry(m, file.data, file.size, key, out);
    map_close(&file);
    free(path);
    return found;
}

/* A cache that cannot be written is only slower: the answer is there already. */
static void cache_store(struct engine *m, const char *key, const struct media_tokens *t)
{
    struct head head = {.seconds = t->seconds, .n_parts = t->n_parts, .n_tokens = t->n_tokens,
                        .hidden_size = m->config.hidden_size};
    struct text file = {0};
    struct err fault = {0};
    char sha[65];
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.key, key, sizeof head.key);
    memcpy(head.input_sha, t->input_sha, sizeof head.input_sha);
    text_put(&file, &head, sizeof head);
    text_put(&file, t->part_tokens, (size_t)t->n_parts * sizeof *t->part_tokens);
    text_put(&file, t->soft, (size_t)t->n_tokens * (size_t)m->config.hidden_size * sizeof *t->soft);
    sha256_hex_of(file.data, file.len, sha);
    text_put(&file, sha, 64);
    char *path = cache_path(m, key);
    if (file_write_atomic(path, file.data, file.len, &fault) && !m->cache_fault.code)
        m->cache_fault = fault;
    free(path);
    text_free(&file);
}

/* ---- encoding -------------------------------------------------------------------------------------------------- */

/* Encodes those items of one kind that are still to do (todo[i] set), all at once. */
static void encode_kind(struct engine *m, enum media_kind kind, const struct media *media, const bool *todo, int n,
                        struct media_tokens *out, struct err *errs)
{
    struct media *part = NEW(struct media, n);
    struct media_tokens *tokens = NEW(struct media_tokens, n);
    struct err *faults = NEW(struct err, n);
    int *place = NEW(int, n), n_part = 0;
    for (int i = 0; i < n; i++) {
        if (!todo[i] || media[i].kind != kind)
            continue;
        place[n_part] = i;
        part[n_part++] = media[i];
    }
    const double start = clock_ms();
    if (n_part && kind == MEDIA_IMAGE)
        vision_encode(m->vision, &m->compute, part, n_part, tokens, faults);
    else if (n_part)
        audio_encode(m->audio, &m->compute, part, n_part, tokens, faults);
    const double each = n_part ? (clock_ms() - start) / n_part : 0;
    for (int i = 0; i < n_part; i++) {
        out[place[i]] = tokens[i];
        out[place[i]].encode_ms = each;
        errs[place[i]] = faults[i];
    }
    free(part);
    free(tokens);
    free(faults);
    free(place);
}

int engine_encode(struct engine *m, const struct media *media, int n, struct media_tokens *out, struct err *errs)
{
    struct keys { char media[65], cache[65]; } *key = NEW(struct keys, n);
    bool *todo = NEW(bool, n);
    int failed = 0;
    for (int i = 0; i < n; i++) {
        const bool able = media[i].kind == MEDIA_IMAGE ? m->vision != NULL : m->audio != NULL;
        out[i] = (struct media_tokens){0};
        errs[i] = (struct err){0};
        sha256_hex_of(media[i].bytes, media[i].n_bytes, key[i].media);
        if (!able)
            err_input(&errs[i], "%s: the checkpoint %s has no %s tower%s", media[i].name, m->path,
                      media[i].kind == MEDIA_IMAGE ? "vision" : "audio",
                      m->n_projectors > 1 ? " (several mmproj files lie beside it: name one with --mmproj)" : "");
        else if (m->media_cache)
            cache_key(m, &media[i], key[i].media, key[i].cache);
        todo[i] = able && !(m->media_cache && cache_load(m, key[i].cache, &out[i]));
    }
    encode_kind(m, MEDIA_IMAGE, media, todo, n, out, errs);
    encode_kind(m, MEDIA_AUDIO, media, todo, n, out, errs);
    for (int i = 0; i < n; i++) {
        memcpy(out[i].media_sha, key[i].media, sizeof key[i].media);
        const bool cut = media[i].max_s > 0 && out[i].seconds > media[i].max_s;
        out[i].used_seconds = cut ? media[i].max_s : out[i].seconds;
        failed += errs[i].code != 0;
        if (todo[i] && !errs[i].code && m->media_cache)
            cache_store(m, key[i].cache, &out[i]);
    }
    free(key);
    free(todo);
    return failed;
}

void media_tokens_free(struct media_tokens *t)
{
    free(t->part_tokens);
    free(t->soft);
    *t = (struct media_tokens){0};
}
