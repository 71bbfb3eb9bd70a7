/* Prompts of the goldens: the rendered text with its media gives prompt_ids. */
#define _GNU_SOURCE
#include "engine/internal.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdlib.h>

enum { HIDDEN = 4 };

static struct placeholder read_placeholder(const cJSON *config, const char *token, const char *begin, const char *end)
{
    return (struct placeholder){(int32_t)json_get(config, token)->valuedouble,
                                (int32_t)json_get(config, begin)->valuedouble,
                                (int32_t)json_get(config, end)->valuedouble};
}

/* As much of an engine as prompts need. */
static bool open_engine(struct engine *m)
{
    struct err e = {0};
    cJSON *config = json_read_file("../shared/model/tiny-a/config.json", 1 << 20, &e);
    *m = (struct engine){.config = {.hidden_size = HIDDEN}};
    if (!config || tokenizer_open(&m->tokenizer, "../shared/model/tiny-a/tokenizer.json", &e))
        return false;
    m->config.image = read_placeholder(config, "image_token_id", "boi_token_id", "eoi_token_id");
    m->config.audio = read_placeholder(config, "audio_token_id", "boa_token_id", "eoa_token_id");
    cJSON_Delete(config);
    return true;
}

struct inputs { struct media_tokens media[8]; enum media_kind kinds[8]; int counts[8], n; };

/* Adds one item per count; its soft tokens are filled with the item's number. */
static void add_media(struct inputs *in, const cJSON *counts, enum media_kind kind)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, counts) {
        int i = in->n++;
        in->counts[i] = (int)v->valuedouble;
        in->kinds[i] = kind;
        in->media[i] = (struct media_tokens){.n_parts = 1, .part_tokens = &in->counts[i], .n_tokens = in->counts[i],
                                             .soft = NEW(float, in->counts[i] * HIDDEN)};
        for (int k = 0; k < in->counts[i] * HIDDEN; k++)
            in->media[i].soft[k] = (float)i;
    }
}

static bool ids_equal(const struct ids *ids, const cJSON *expected)
{
    bool same = ids->n == cJSON_GetArraySize(expected);
    const cJSON *v = same ? expected->child : NULL;
    for (int i = 0; same && v; v = v->next)
        same = v->valuedouble == ids->id[i++];
    return same;
}

static void check_golden(const struct engine *m, const cJSON *golden)
{
    const char *text = json_string(golden, "text"), *name = json_string(golden, "name");
    struct inputs in = {.n = 0};
    struct ids ids = {0};
    struct err e = {0};
    float *soft;
    int n_tokens = 0;
    add_media(&in, json_get(golden, "audio_soft_tokens"), MEDIA_AUDIO);
    add_media(&in, json_get(golden, "image_soft_tokens"), MEDIA_IMAGE);
    for (int i = 0; i < in.n; i++)
        n_tokens += in.counts[i];
    CHECK_MSG(engine_prompt(m, text, strlen(text), in.media, in.kinds, in.n, &ids, &soft, &e) == 0, "%s: %s", name,
              e.msg);
    CHECK_MSG(ids_equal(&ids, json_get(golden, "prompt_ids")), "%s: ids", name);
    /* Walk the soft tokens beside the ids: each must be of the item that its placeholder stands for. */
    int image = cJSON_GetArraySize(json_get(golden, "audio_soft_tokens")), audio = 0, row = 0;
    for (int i = 0; i < ids.n; i++) {
        bool is_image = ids.id[i] == m->config.image.token, is_audio = ids.id[i] == m->config.audio.token;
        if (is_image || is_audio) {
            CHECK_MSG(soft[row * HIDDEN] == (float)(is_image ? image : audio), "%s: soft token %d", name, row);
            row++;
        }
        image += ids.id[i] == m->config.image.end;
        audio += ids.id[i] == m->config.audio.end;
    }
    CHECK_MSG(row == n_tokens, "%s: %d soft tokens, not %d", name, row, n_tokens);
    for (int i = 0; i < in.n; i++)
        free(in.media[i].soft);
    free(soft);
    ids_free(&ids);
}

static void prompts_of_the_goldens(void)
{
    struct engine m;
    int n = 0;
    DIR *folder = opendir("../shared/model/goldens");
    if (!folder)
        SKIP("../shared is absent");
    CHECK(open_engine(&m));
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0 || strcmp(entry->d_name, "index.json") == 0)
            continue;
        struct err e = {0};
        char *path = path_join("../shared/model/goldens", entry->d_name);
        struct text file = {0};
        CHECK_MSG(file_read(path, 1 << 24, &file, &e) == 0, "%s", e.msg);
        /* Some answers hold \u0000, which strict reading refuses; prompts do not. */
        cJSON *golden = cJSON_ParseWithLength(file.data, file.len);
        if (CHECK_MSG(golden != NULL, "%s", path))
            check_golden(&m, golden);
        cJSON_Delete(golden);
        text_free(&file);
        free(path);
        n++;
    }
    CHECK(n == 26);
    closedir(folder);
    tokenizer_close(m.tokenizer);
}

static void a_sound_in_parts(void)
{
    struct engine m;
    if (!file_exists("../shared/model/tiny-a/tokenizer.json"))
        SKIP("../shared is absent");
    CHECK(open_engine(&m));
    int parts[2] = {2, 1};
    float rows[3 * HIDDEN] = {0}, *soft;
    struct media_tokens sound = {.n_parts = 2, .part_tokens = parts, .n_tokens = 3, .soft = rows};
    struct ids ids = {0};
    struct err e = {0};
    int32_t t = m.config.audio.token, b = m.config.audio.begin, end = m.config.audio.end;
    int32_t expected[] = {2, b, t, t, end, b, t, end};
    CHECK(engine_prompt(&m, "<bos><|audio|>", 14, &sound, (enum media_kind[]){MEDIA_AUDIO}, 1, &ids, &soft, &e) == 0);
    CHECK(ids.n == 8 && memcmp(ids.id, expected, sizeof expected) == 0);
    free(soft);
    ids_free(&ids);
    tokenizer_close(m.tokenizer);
}

static void counts_that_disagree(void)
{
    struct engine m;
    if (!file_exists("../shared/model/tiny-a/tokenizer.json"))
        SKIP("../shared is absent");
    CHECK(open_engine(&m));
    int part = 1;
    float row[HIDDEN] = {0}, *soft;
    struct media_tokens image = {.n_parts = 1, .part_tokens = &part, .n_tokens = 1, .soft = row};
    enum media_kind kind = MEDIA_IMAGE;
    struct ids ids = {0};
    struct err e = {0};
    CHECK(engine_prompt(&m, "<bos><|image|><|image|>", 23, &image, &kind, 1, &ids, &soft, &e) == -1);
    CHECK_STR(e.msg, "the prompt has 2 image placeholders, but 1 image file was given");
    CHECK(engine_prompt(&m, "<|audio|>", 9, NULL, NULL, 0, &ids, &soft, &e) == -1);
    CHECK_STR(e.msg, "the prompt has 1 audio placeholder, but 0 audio files were given");
    m.config.image = (struct placeholder){-1, -1, -1};
    CHECK(engine_prompt(&m, "x", 1, &image, &kind, 1, &ids, &soft, &e) == -1);
    CHECK_STR(e.msg, "this checkpoint takes no image: config.json names no placeholder for it");
    CHECK(e.code == EXIT_BAD_INPUT && ids.n == 0 && !soft);
    tokenizer_close(m.tokenizer);
}

int main(void)
{
    RUN(prompts_of_the_goldens);
    RUN(a_sound_in_parts);
    RUN(counts_that_disagree);
    return test_report();
}
