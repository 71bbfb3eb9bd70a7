/* Whole models in GGUF: the logits and greedy tokens of a float32 model with the dequantised weights
 * (../shared/gguf/gguf-tiny-a and gguf-types, "exact"), and the tokenizer of the metadata. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "tests/golden.h"
#include "tests/test.h"
#include "tests/tokenizer_lines.h"

#include <stdlib.h>

#define TINY "../shared/gguf/gguf-tiny-a/"
#define TYPES "../shared/gguf/gguf-types/"

static int best_of(const float *v, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}

static float gap_below(const float *v, int n, int best)
{
    float second = -INFINITY;
    for (int i = 0; i < n; i++)
        if (i != best && v[i] > second)
            second = v[i];
    return v[best] - second;
}

/* One prompt: its last logits within 2e-3, then greedy tokens as far as no choice is closer than twice that. */
static void check_prompt(struct engine *m, const struct golden *g, const char *file, const char *name)
{
    char key[96];
    struct err e = {0};
    snprintf(key, sizeof key, "%s.prompt_ids", name);
    struct golden_tensor ids = golden_get(g, key);
    snprintf(key, sizeof key, "%s.exact.logits", name);
    struct golden_tensor want = golden_get(g, key);
    snprintf(key, sizeof key, "%s.exact.gen", name);
    struct golden_tensor gen = golden_get(g, key);
    const int vocab = engine_info(m)->vocab_size;
    if (!CHECK_MSG(ids.data && want.data && gen.data && want.n == vocab, "%s: golden %s", file, name))
        return;
    float *logits = NEW(float, vocab);
    struct seq *s = seq_new(m);
    struct step_input in = {.seq = s, .ids = ids.i32, .n = (int)ids.n, .n_needed = 1, .logits = logits};
    CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
    double worst = 0;
    for (int i = 0; i < vocab; i++)
        worst = fmax(worst, fabs((double)logits[i] - (double)want.f32[i]));
    CHECK_MSG(worst < 2e-3, "%s, %s: logits are off by %g", file, name, worst);
    for (int64_t t = 0; t < gen.n; t++) {
        int32_t id = best_of(logits, vocab);
        if (gap_below(logits, vocab, id) < 4e-3f)
            break;
        CHECK_MSG(id == gen.i32[t], "%s, %s: token %d is %d, not %d", file, name, (int)t, (int)id, (int)gen.i32[t]);
        in = (struct step_input){.seq = s, .ids = &gen.i32[t], .n = 1, .n_needed = 1, .logits = logits};
        CHECK(engine_step(m, &in, 1, &e) == 0);
    }
    seq_free(s);
    free(logits);
    free(ids.data);
    free(want.data);
    free(gen.data);
}

static void check_file(const char *model, const char *goldens)
{
    struct engine *m = NULL;
    struct golden g;
    struct err e = {0};
    int n = 0;
    if (!CHECK_MSG(engine_open(&m, model, NULL, &e) == 0, "%s", e.msg) || !CHECK(golden_open(&g, goldens) == 0))
        return;
    for (const cJSON *t = g.header->child; t; t = t->next) {
        const char *end = strstr(t->string, ".prompt_ids");
        if (!end)
            continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(end - t->string), t->string);
        check_prompt(m, &g, model, name);
        n++;
    }
    CHECK_MSG(n > 2, "%s: %d prompts", goldens, n);
    golden_close(&g);
    engine_close(m);
}

static void tiny_models(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    check_file(TINY "tiny-a-plain-f16.gguf", TINY "logits-f16.safetensors");
    check_file(TINY "tiny-a-hybrid-bf16.gguf", TINY "logits-bf16.safetensors");
    check_file(TINY "tiny-a-hybrid-q8_0.gguf", TINY "logits-q8_0.safetensors");
    check_file(TINY "tiny-a-hybrid-q4_0.gguf", TINY "logits-q4_0.safetensors");
    check_file(TINY "tiny-a-hybrid-q4_k_m.gguf", TINY "logits-q4_k_m.safetensors");
}

static void every_type(void)
{
    if (!file_exists(TYPES "README.md"))
        SKIP("no " TYPES);
    check_file(TYPES "types-kquants.gguf", TYPES "types-kquants.logits.safetensors");
    check_file(TYPES "types-iquants.gguf", TYPES "types-iquants.logits.safetensors");
    check_file(TYPES "types-newer.gguf", TYPES "types-newer.logits.safetensors");
}

/* The same weights in both formats give the same bits. */
static void bf16_equals_safetensors(void)
{
    static const int32_t prompt[] = {2, 105, 300, 41, 700, 512, 9, 88};
    const char *const paths[] = {TINY "tiny-a-hybrid-bf16.gguf", "../shared/model/tiny-a-hybrid"};
    static float logits[2][1024];
    struct err e = {0};
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    for (int i = 0; i < 2; i++) {
        struct engine *m;
        if (!CHECK_MSG(engine_open(&m, paths[i], NULL, &e) == 0, "%s", e.msg))
            return;
        struct seq *s = seq_new(m);
        struct step_input in = {.seq = s, .ids = prompt, .n = 8, .n_needed = 1, .logits = logits[i]};
        CHECK(engine_step(m, &in, 1, &e) == 0);
        seq_free(s);
        engine_close(m);
    }
    CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0);
}

/* Every line of the tokenizer's goldens, as with tokenizer.json. */
static void tokenizer_of_the_metadata(void)
{
    struct engine *m = NULL;
    struct err e = {0};
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    if (CHECK_MSG(engine_open(&m, TINY "tiny-a-plain-f16.gguf", NULL, &e) == 0, "%s", e.msg))
        CHECK(check_lines(engine_tokenizer(m), "../shared/model/tokenizer/tiny-a.jsonl") == 303);
    engine_close(m);
}

/* Runs of the same tokenizer and template are comparable, whatever kind of file they lay in. */
static void same_documents_in_every_form(void)
{
    const char *const paths[] = {"../shared/model/tiny-a-hybrid", TINY "tiny-a-hybrid-q4_0.gguf",
                                 "../shared/formats/cq/bundles/tiny-a-cq4",
                                 "../shared/formats/mlx/models/tiny-a-mlx-6bit-g32", "datasets/mini/checkpoint"};
    struct document_sha sha[5];
    struct err e = {0};
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    for (int i = 0; i < 5; i++) {
        struct engine *m;
        if (!CHECK_MSG(engine_open(&m, paths[i], NULL, &e) == 0, "%s", e.msg))
            return;
        engine_document_sha(m, &sha[i]);
        engine_close(m);
    }
    for (int i = 1; i < 4; i++) {
        CHECK_STR(sha[i].tokenizer, sha[0].tokenizer);
        CHECK_STR(sha[i].chat_template, sha[0].chat_template);
    }
    CHECK(strcmp(sha[4].tokenizer, sha[0].tokenizer) != 0 && strlen(sha[4].tokenizer) == 64);
    CHECK(strcmp(sha[4].config, sha[0].config) != 0);
}

int main(void)
{
    RUN(same_documents_in_every_form);
    RUN(tiny_models);
    RUN(every_type);
    RUN(bf16_equals_safetensors);
    RUN(tokenizer_of_the_metadata);
    return test_report();
}
