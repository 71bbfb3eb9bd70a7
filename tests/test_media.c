/* Encoding through the engine: the folder of soft tokens changes nothing but the time. */
#define _GNU_SOURCE                     /* mkdtemp */
#include "engine/engine.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL "../shared/model/tiny-a"
#define MEDIA "../shared/model/media/"

static char folder[] = "/tmp/handoff-media-XXXXXX";

enum { N = 4 };
static const char *const names[N] = {MEDIA "gray.png", MEDIA "speech.wav", MEDIA "photo.jpg", MEDIA "broken.png"};
static struct text bytes[N];
static struct media media[N];

static void read_media(void)
{
    struct err e = {0};
    for (int i = 0; i < N; i++) {
        media[i] = (struct media){.kind = i == 1 ? MEDIA_AUDIO : MEDIA_IMAGE, .name = names[i]};
        if (i == N - 1)
            text_puts(&bytes[i], "\x89PNG\r\n\x1a\nnothing");
        else
            CHECK_MSG(file_read(names[i], 1 << 26, &bytes[i], &e) == 0, "%s", e.msg);
        media[i].bytes = bytes[i].data;
        media[i].n_bytes = bytes[i].len;
    }
}

static struct engine *open_model(const char *path, const char *cache, int image_tokens)
{
    struct engine *m;
    struct err e = {0};
    if (engine_open(&m, path, &(struct engine_options){.n_threads = 2, .media_cache = cache,
                                                       .image_tokens = image_tokens}, &e)) {
        CHECK_MSG(0, "%s", e.msg);
        exit(1);
    }
    return m;
}

/* Everything but the time. */
static bool same(const struct media_tokens *a, const struct media_tokens *b, int width)
{
    return a->n_parts == b->n_parts && a->n_tokens == b->n_tokens && a->seconds == b->seconds &&
           strcmp(a->media_sha, b->media_sha) == 0 && strcmp(a->input_sha, b->input_sha) == 0 &&
           memcmp(a->part_tokens, b->part_tokens, (size_t)a->n_parts * sizeof(int)) == 0 &&
           memcmp(a->soft, b->soft, (size_t)a->n_tokens * (size_t)width * sizeof(float)) == 0;
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; (entry = readdir(d));)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Calls change() for the path of every file of the cache. */
static void for_each_file(void (*change)(const char *path))
{
    DIR *d = opendir(folder);
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.')
            continue;
        char *path = path_join(folder, entry->d_name);
        change(path);
        free(path);
    }
    closedir(d);
}

static long place;              /* where damage() strikes; -1: the middle */

static void damage(const char *path)
{
    struct text t = {0};
    struct err e = {0};
    CHECK(file_read(path, 1 << 26, &t, &e) == 0);
    t.data[place < 0 ? (long)t.len / 2 : place] ^= 1;
    CHECK(file_write_atomic(path, t.data, t.len, &e) == 0);
    text_free(&t);
}

static void cut(const char *path)
{
    CHECK(truncate(path, place) == 0);
}

static void drop(const char *path)
{
    unlink(path);
}

/* Encodes all four and compares with `want`; `hits` says whether the good ones must come from the cache. */
static void encode_again(struct engine *m, const struct media_tokens *want, bool hits, const char *what)
{
    struct media_tokens got[N];
    struct err errs[N];
    CHECK_MSG(engine_encode(m, media, N, got, errs) == 1, "%s: %s", what, errs[0].msg);
    for (int i = 0; i < N - 1; i++) {
        CHECK_MSG(same(&want[i], &got[i], engine_info(m)->hidden_size), "%s: %s", what, names[i]);
        CHECK_MSG((got[i].encode_ms == 0) == hits, "%s: %s took %g ms", what, names[i], got[i].encode_ms);
    }
    CHECK_MSG(errs[N - 1].code == EXIT_BAD_INPUT && strstr(errs[N - 1].msg, "broken.png"), "%s", errs[N - 1].msg);
    for (int i = 0; i < N; i++)
        media_tokens_free(&got[i]);
}

static void cache_changes_nothing(void)
{
    struct engine *plain = open_model(MODEL, NULL, 0), *cached = open_model(MODEL, folder, 0);
    struct media_tokens want[N];
    struct err errs[N];
    CHECK(engine_encode(plain, media, N, want, errs) == 1);
    for (int i = 0; i < N - 1; i++)
        CHECK(want[i].n_tokens > 0 && strlen(want[i].media_sha) == 64 && strlen(want[i].input_sha) == 64);
    encode_again(cached, want, false, "first");
    CHECK(count_files() == N - 1);
    encode_again(cached, want, true, "second");
    static const long places[] = {0, 20, 100, 140, 150, 160, -1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        place = places[i];
        for_each_file(damage);
        encode_again(cached, want, false, "damaged");
        encode_again(cached, want, true, "written again");
    }
    for (place = 0; place < 400; place += 57) {
        for_each_file(cut);
        encode_again(cached, want, false, "cut");
    }
    for (int i = 0; i < N; i++)
        media_tokens_free(&want[i]);
    engine_close(plain);
    engine_close(cached);
}

/* Another size of pictures or another part of a sound is another entry. */
static void keys_differ(void)
{
    for_each_file(drop);
    struct engine *a = open_model(MODEL, folder, 70), *b = open_model(MODEL, folder, 140);
    struct media part[2] = {media[1], media[1]};
    struct media_tokens t[2];
    struct err errs[2];
    part[1].end_s = 0.5;
    CHECK(engine_encode(a, media, 1, t, errs) == 0);
    CHECK(engine_encode(b, media, 1, t + 1, errs + 1) == 0);
    CHECK(count_files() == 2 && t[0].n_tokens < t[1].n_tokens);
    media_tokens_free(&t[0]), media_tokens_free(&t[1]);
    CHECK(engine_encode(a, part, 2, t, errs) == 0);
    CHECK(count_files() == 4 && t[0].n_tokens > t[1].n_tokens);
    media_tokens_free(&t[0]), media_tokens_free(&t[1]);
    engine_close(a);
    engine_close(b);
    for_each_file(drop);
}

static void no_tower(void)
{
    struct engine *m = open_model("../shared/model/tiny-a-hybrid", NULL, 0);
    struct media_tokens t[2];
    struct err errs[2];
    CHECK(engine_encode(m, media, 2, t, errs) == 2);
    CHECK_MSG(errs[0].code == EXIT_BAD_INPUT && strstr(errs[0].msg, "vision"), "%s", errs[0].msg);
    CHECK_MSG(errs[1].code == EXIT_BAD_INPUT && strstr(errs[1].msg, "audio"), "%s", errs[1].msg);
    engine_close(m);
}

/* A copy of the checkpoint with a NaN in one tower tensor must not open. */
static void damaged_towers(void)
{
    static const char *const tensors[] = {"model.vision_tower.encoder.layers.1.mlp.up_proj.linear.weight",
                                          "model.embed_audio.embedding_projection.weight"};
    char copy[] = "/tmp/handoff-tower-XXXXXX";
    struct text command = {0}, content = {0}, path = {0};
    struct err e = {0};
    struct weights *w;
    struct engine *m;
    if (!CHECK(mkdtemp(copy) != NULL))
        return;
    text_printf(&command, "cp -r " MODEL "/. %s && chmod -R u+w %s", copy, copy);
    CHECK(system(command.data) == 0);
    text_printf(&path, "%s/model.safetensors", copy);
    for (int i = 0; i < 2; i++) {
        CHECK(file_read(MODEL "/model.safetensors", 1 << 26, &content, &e) == 0 && weights_open(&w, MODEL, &e) == 0);
        const struct tensor *t = weights_find(w, tensors[i]);
        /* The bytes of the tensor stand once in the file: that is where they are to be broken. */
        char *at = t ? memmem(content.data, content.len, t->data, t->n_bytes) : NULL;
        if (CHECK(at != NULL))
            memcpy(at + t->n_bytes / 2, "\xc0\x7f", 2);
        weights_close(w);
        CHECK(file_write_atomic(path.data, content.data, content.len, &e) == 0);
        CHECK(engine_open(&m, copy, NULL, &e) == -1 && e.code == EXIT_BAD_INPUT);
        CHECK_MSG(strstr(e.msg, tensors[i]) && strstr(e.msg, "finite"), "%s", e.msg);
    }
    text_clear(&command);
    text_printf(&command, "rm -r %s", copy);
    CHECK(system(command.data) == 0);
    text_free(&command);
    text_free(&content);
    text_free(&path);
}

int main(void)
{
    if (!path_is_dir(MODEL)) {
        printf("  skipped: no " MODEL "\n0 passed, 0 failed, 3 skipped\n");
        return 0;
    }
    if (!mkdtemp(folder))
        return 1;
    read_media();
    RUN(cache_changes_nothing);
    RUN(keys_differ);
    RUN(no_tower);
    for (int i = 0; i < N; i++)
        text_free(&bytes[i]);
    rmdir(folder);
    RUN(damaged_towers);
    return test_report();
}
