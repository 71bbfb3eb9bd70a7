/* parity: its figures against a plain computation from whole softmaxes, and what the verb says of equal and of other
 * weights. */
#define _GNU_SOURCE
#include "eval/parity.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/wait.h>

#define BASE "../shared/model/tiny-a-hybrid"
#define TINY "../shared/gguf/gguf-tiny-a/"

enum { VOCAB = 1024, MOST = 64 };
static float logits[2][MOST * VOCAB];
static double p[2][MOST * VOCAB];

static void run_all(struct engine *m, const struct ids *ids, float *out)
{
    struct err e = {0};
    struct seq *s = seq_new(m);
    const struct step_input in = {.seq = s, .ids = ids->id, .n = ids->n, .n_needed = ids->n, .logits = out};
    CHECK_MSG(engine_step(m, &in, 1, &e) == 0, "%s", e.msg);
    seq_free(s);
}

static void softmax(const float *x, double *out)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += out[i] = exp(x[i]);          /* soft-capped: no overflow */
    for (int i = 0; i < VOCAB; i++)
        out[i] /= sum;
}

static int best_of(const double *x)
{
    int best = 0;
    for (int i = 1; i < VOCAB; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static void figures(void)
{
    static const char *const text = "<bos>The quick brown fox, 12 + 30 = 42.\n\nAnd so on; der Rest";
    struct subject s[2] = {0};
    struct parity got;
    struct ids ids = {0};
    struct err e = {0};
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    if (!CHECK_MSG(!engine_open(&s[0].m, BASE, NULL, &e) &&
                   !engine_open(&s[1].m, TINY "tiny-a-hybrid-q8_0.gguf", NULL, &e), "%s", e.msg))
        return;
    tokenize(engine_tokenizer(s[0].m), text, strlen(text), &ids);
    CHECK_MSG(ids.n > 20 && ids.n <= MOST, "%d tokens", ids.n);
    struct parity_pass *pass = parity_begin(s, 2);
    parity_init(pass, &got);
    const struct passage passage = {.ids = ids.id, .n = ids.n, .after = -1};
    CHECK_MSG(parity_read(pass, &passage, &got, NULL, &e) == 0, "%s", e.msg);
    parity_sort(&got);
    parity_end(pass);
    double kl_sum = 0, kl_max = 0, largest = 0, squares = 0, ratio = 0;
    int same = 0;
    for (int k = 0; k < 2; k++)
        run_all(s[k].m, &ids, logits[k]);
    for (int row = 0; row < ids.n; row++) {
        double kl = 0, *a = p[0] + row * VOCAB, *b = p[1] + row * VOCAB;
        for (int k = 0; k < 2; k++)
            softmax(logits[k] + row * VOCAB, p[k] + row * VOCAB);
        for (int i = 0; i < VOCAB; i++) {
            kl += a[i] * log(a[i] / b[i]);
            largest = fmax(largest, fabs((double)logits[0][row * VOCAB + i] - (double)logits[1][row * VOCAB + i]));
        }
        kl_sum += kl;
        kl_max = fmax(kl_max, kl);
        same += best_of(a) == best_of(b);
        if (row + 1 < ids.n) {
            const int t = ids.id[row + 1];
            squares += (a[t] - b[t]) * (a[t] - b[t]);
            ratio += log(b[t] / a[t]);
        }
    }
    double sum = 0;
    for (int64_t i = 0; i < got.n; i++)
        sum += got.kl[i];
    CHECK(got.n == ids.n && got.n_next == ids.n - 1 && got.n_same_top == same && same < ids.n && same > 0);
    CHECK_NEAR(sum, kl_sum, 1e-9);
    CHECK_NEAR(got.kl[got.n - 1], kl_max, 1e-9);
    CHECK_NEAR(got.logits, largest, 0);
    CHECK_NEAR(got.dp_squares, squares, 1e-12);
    CHECK_NEAR(got.log_ratio, ratio, 1e-9);
    CHECK(!got.has_confidence && kl_sum > 0.1);
    parity_free(&got);
    ids_free(&ids);
    engine_close(s[0].m);
    engine_close(s[1].m);
}

/* What `handoff parity ARGUMENTS --json` prints; its exit status must be the given one. */
static cJSON *parity(const char *arguments, int status)
{
    struct text command = {0}, out = {0};
    const char *program = getenv("HANDOFF");
    char part[4096];
    size_t n;
    text_printf(&command, "%s parity --json %s 2>/dev/null", program ? program : "build/handoff", arguments);
    FILE *f = popen(command.data, "r");
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        text_put(&out, part, n);
    const int ended = f ? pclose(f) : -1;
    CHECK_MSG(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "%s: status %d", command.data, ended);
    cJSON *json = out.len ? cJSON_ParseWithLength(out.data, out.len) : NULL;
    text_free(&command);
    text_free(&out);
    return json;
}

static double figure(const cJSON *json, int model, const char *key)
{
    const cJSON *v = json_get(cJSON_GetArrayItem(json_get(json, "models"), model), key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static void verb(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    cJSON *json = parity(BASE " " TINY "tiny-a-hybrid-bf16.gguf ../shared/model/tiny-a --probe-layer 7", 0);
    CHECK(cJSON_IsTrue(json_get(json, "same")));
    for (int k = 0; k < 2; k++)
        CHECK(figure(json, k, "logits") == 0 && figure(json, k, "confidence") == 0 && figure(json, k, "kl_max") == 0 &&
              figure(json, k, "same_top") == 1);
    cJSON_Delete(json);
    json = parity(BASE " " TINY "tiny-a-hybrid-q8_0.gguf --probe-layer 7", 1);
    CHECK(cJSON_IsFalse(json_get(json, "same")) && figure(json, 0, "confidence") > 0.001);
    CHECK(cJSON_GetArraySize(json_get(cJSON_GetArrayItem(json_get(json, "models"), 0), "layers")) == 11);
    cJSON_Delete(json);
    cJSON_Delete(parity(BASE " " TINY "tiny-a-hybrid-q8_0.gguf --probe-layer 7 --bound 100 --confidence-bound 1", 0));
    json = parity(BASE " " TINY "tiny-a-plain-f16.gguf --text ../shared/gguf/GGUF.md --limit 300 --context 100", 0);
    const cJSON *positions = json_get(json, "positions");
    CHECK(positions && positions->valueint == 304 && isnan(figure(json, 0, "confidence")));      /* 4 <bos> */
    cJSON_Delete(json);
    cJSON_Delete(parity(BASE, 2));
    cJSON_Delete(parity(BASE " " TINY "nothing.gguf", 3));
    cJSON_Delete(parity(BASE " ../shared/gguf/gguf-types/types-kquants.gguf", 3));
}

int main(void)
{
    RUN(figures);
    RUN(verb);
    return test_report();
}
