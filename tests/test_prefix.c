/* Shared beginnings of prompts: the same bits as computing every prompt from its first token, from memory, from disk, and
 * with files that are damaged. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "eval/prefix.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

enum { SHARED = 400, OWN = 20, N = 6, STAGE = 60 };

static struct engine *m;
static char folder[] = "/tmp/handoff-prefix-XXXXXX", dir[64];

static int vocab(void)
{
    return engine_info(m)->vocab_size;
}

/* Prompt i: SHARED tokens that all have, STAGE more that it shares with one other, and its own. */
struct made { int32_t ids[SHARED + STAGE + OWN]; struct prefix_prompt p; };

static void make(struct made *x, int i)
{
    for (int k = 0; k < SHARED + STAGE + OWN; k++) {
        const unsigned seed = (unsigned)(k < SHARED ? k : k < SHARED + STAGE ? k + i / 2 * 1000 : k + i * 100000);
        x->ids[k] = (int32_t)(seed * 2654435761u >> 8) % 800 + 40;
    }
    x->p = (struct prefix_prompt){x->ids, SHARED + STAGE + OWN, NULL};
}

static void check_step(const struct step_input *in)
{
    struct err e = {0};
    CHECK_MSG(engine_step(m, in, 1, &e) == 0, "%s", e.msg);
}

/* The logits behind a prompt of which `s` holds the beginning (NULL: none of it), and behind three tokens more. */
static void logits_of(const struct prefix_prompt *p, struct seq *s, float *logits)
{
    const int have = s ? seq_length(s) : 0;
    s = s ? s : seq_new(m);
    check_step(&(struct step_input){.seq = s, .ids = p->ids + have, .n = p->n - have, .n_needed = 1, .logits = logits,
                                    .soft = have ? NULL : p->soft});
    check_step(&(struct step_input){.seq = s, .ids = (const int32_t[]){7, 8, 9}, .n = 3, .n_needed = 3,
                                    .logits = logits + vocab()});
    seq_free(s);
}

static bool same_logits(const struct prefix_prompt *p, struct seq *s)
{
    float *cold = NEW(float, 4 * vocab()), *warm = NEW(float, 4 * vocab());
    logits_of(p, NULL, cold);
    logits_of(p, s, warm);
    const bool same = memcmp(cold, warm, 4 * (size_t)vocab() * sizeof *cold) == 0;
    free(cold);
    free(warm);
    return same;
}

/* Runs all prompts through a store. Returns how many tokens it saved. */
static int64_t walk(const struct prefix_settings *settings, bool remove)
{
    struct made made[N];
    struct prefix_prompt prompts[N];
    int shared[N];
    struct prefix_store *store = prefix_open(m, settings);
    for (int i = 0; i < N; i++) {
        make(&made[i], i);
        prompts[i] = made[i].p;
    }
    for (int i = 0; i < N; i++) {
        struct seq *s;
        struct err e = {0};
        CHECK_MSG(prefix_begin(store, &prompts[i], prompts + i + 1, N - i - 1, shared, &s, &e) == 0, "%s", e.msg);
        if (i + 1 < N)
            CHECK(shared[0] == (i % 2 ? SHARED : SHARED + STAGE));
        CHECK_MSG(same_logits(&prompts[i], s), "prompt %d", i);
    }
    const struct prefix_counts counts = prefix_counts(store);
    CHECK(counts.prompt_tokens == N * (SHARED + STAGE + OWN));
    if (remove)
        prefix_remove_files(store);
    prefix_close(store);
    return counts.saved;
}

/* Three stages of two prompts: the first of all computes SHARED, the first of a pair STAGE more. */
static const int64_t all_saved = (N - 1) * SHARED + N / 2 * STAGE;

static int files_in(const char *path, char *last, size_t size)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] != '.') {
            snprintf(last, size, "%s/%s", path, f->d_name);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static struct prefix_settings on_disk(const char *identity)
{
    return (struct prefix_settings){.memory_bytes = (size_t)64 << 20, .dir = dir, .disk_bytes = (size_t)64 << 20,
                                    .identity = identity};
}

static void in_memory(void)
{
    struct prefix_settings s = {.memory_bytes = (size_t)64 << 20, .identity = "x"};
    CHECK(walk(&s, false) == all_saved);
    s.memory_bytes = 1;                     /* the one in use stays, any other goes */
    CHECK(walk(&s, false) < all_saved);
}

static void kept_for_a_resume(void)
{
    struct prefix_settings s = on_disk("x");
    char path[512];
    CHECK(walk(&s, false) == all_saved);
    CHECK(files_in(dir, path, sizeof path) == 1 + N / 2);
    CHECK(walk(&s, false) == (int64_t)N * (SHARED + STAGE));
    s.memory_bytes = 1;
    CHECK(walk(&s, false) == (int64_t)N * (SHARED + STAGE));
    s = on_disk("another model");
    CHECK(walk(&s, false) == all_saved);
    s.worth_ms = 1e9;
    CHECK(walk(&s, true) == (int64_t)N * (SHARED + STAGE));
    CHECK(!path_is_dir(dir));
    CHECK(walk(&s, false) == all_saved && !path_is_dir(dir));
}

/* Any bit of a file turned, or its end cut off: computed again, with the same result. */
static void damaged_files(void)
{
    struct prefix_settings s = on_disk("x");
    char path[512];
    for (int how = 0; how < 6; how++) {
        struct text t = {0};
        struct err e = {0};
        CHECK(walk(&s, false) == all_saved);
        CHECK(files_in(dir, path, sizeof path) == 1 + N / 2);
        CHECK_MSG(file_read(path, (size_t)64 << 20, &t, &e) == 0, "%s", e.msg);
        const size_t at[] = {0, 20, 100, t.len / 2, t.len - 1};
        if (how < 5)
            t.data[at[how]] ^= 4;
        CHECK_MSG(file_write_atomic(path, t.data, how < 5 ? t.len : t.len - 4, &e) == 0, "%s", e.msg);
        text_free(&t);
        const int64_t saved = walk(&s, true);
        CHECK_MSG(saved < (int64_t)N * (SHARED + STAGE) && saved > 0, "%lld tokens", (long long)saved);
    }
}

static void bound_on_disk(void)
{
    struct prefix_settings s = on_disk("x");
    char path[512];
    struct text t = {0};
    walk(&s, false);
    CHECK(files_in(dir, path, sizeof path) > 0 && file_read(path, (size_t)64 << 20, &t, NULL) == 0);
    s.disk_bytes = t.len + t.len / 2;
    s.identity = "y";
    walk(&s, false);
    CHECK(files_in(dir, path, sizeof path) == 1);
    walk(&s, true);
    CHECK(!path_is_dir(dir));
    text_free(&t);
}

/* Two prompts with the same picture share it; another picture behind the same ids does not. */
static void soft_tokens(void)
{
    const cJSON *image = engine_config(m, "image_token_id");
    const size_t hidden = (size_t)engine_info(m)->hidden_size;
    enum { BEFORE = 40, SOFT = 40, ALL = 140 };
    int32_t ids[3][ALL];
    float *soft = NEW(float, 2 * SOFT * hidden);
    struct prefix_prompt p[3];
    int shared[2];
    struct err e = {0};
    struct seq *s;
    if (!CHECK(image != NULL))
        return;
    for (size_t i = 0; i < 2 * SOFT * hidden; i++)
        soft[i] = (float)(i * 2654435761u >> 20 & 255) / 255 - 0.5f;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < ALL; k++)
            ids[i][k] = k >= BEFORE && k < BEFORE + SOFT ? image->valueint : 30 + (k < 120 ? k : k + i * 7);
        p[i] = (struct prefix_prompt){ids[i], ALL, soft + (i == 2 ? SOFT * hidden : 0)};
    }
    const struct prefix_settings settings = {.memory_bytes = (size_t)64 << 20, .identity = "x"};
    struct prefix_store *store = prefix_open(m, &settings);
    float *cold = NEW(float, 4 * vocab()), *warm = NEW(float, 4 * vocab());
    for (int i = 0; i < 3; i++) {
        CHECK_MSG(prefix_begin(store, &p[i], p + i + 1, 2 - i, shared, &s, &e) == 0, "%s", e.msg);
        if (i == 0)
            CHECK(shared[0] == 120 && shared[1] == BEFORE);
        if (!CHECK(s && seq_length(s) == (i < 2 ? 120 : BEFORE)))
            return;
        logits_of(&p[i], NULL, cold);
        const int have = seq_length(s);
        check_step(&(struct step_input){.seq = s, .ids = p[i].ids + have, .n = ALL - have, .n_needed = 1, .logits = warm,
                                        .soft = i < 2 ? NULL : p[i].soft});
        CHECK_MSG(memcmp(cold, warm, (size_t)vocab() * sizeof *cold) == 0, "prompt %d", i);
        seq_free(s);
    }
    prefix_close(store);
    free(soft), free(cold), free(warm);
}

int main(void)
{
    struct err e = {0};
    if (!CHECK(mkdtemp(folder) != NULL) ||
        !CHECK_MSG(engine_open(&m, "datasets/mini/checkpoint", NULL, &e) == 0, "%s", e.msg))
        return test_report();
    snprintf(dir, sizeof dir, "%s/prefix", folder);
    RUN(in_memory);
    RUN(kept_for_a_resume);
    RUN(damaged_files);
    RUN(bound_on_disk);
    RUN(soft_tokens);
    engine_close(m);
    rmdir(folder);
    return test_report();
}
