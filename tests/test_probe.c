/* The probe against its goldens (../shared/model/probe, computed with NumPy in float64). */
#include "probe/probe.h"
#include "tests/test.h"

#include <stdlib.h>

#define CASES "../shared/model/probe/cases.json"
#define ROWS "../shared/model/probe/rows.safetensors"
#define PROBE "../shared/model/probe/probe.safetensors"

static float uniform_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (float)(z >> 40) * 0x1p-23f - 1;
}

static float *generate_rows(const char *kind, uint64_t seed, int64_t rows, int dim)
{
    float *x = NEW(float, rows * dim);
    for (int64_t i = 0; i < rows * dim; i++) {
        int64_t row = i / dim, channel = i % dim;
        x[i] = uniform_at(seed, (uint64_t)i);
        if (strcmp(kind, "plain") == 0)
            x[i] *= 4;
        else if (strcmp(kind, "large") == 0)
            x[i] *= 1e4f;
        else if (strcmp(kind, "spike") == 0 && channel == 5)
            x[i] = 3000;
        else if (strcmp(kind, "same_rows") == 0)
            x[i] = x[channel];
        else if (strcmp(kind, "ramp") == 0)
            x[i] *= ldexpf(1, (int)(row % 12) - 6);
    }
    return x;
}

/* cJSON keeps numbers as doubles; the seeds need all 64 bits, so they are read from the text. */
static uint64_t seed_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    at = at ? strstr(at, "\"seed\":") : NULL;
    return at ? strtoull(at + 7, NULL, 10) : 0;
}

static void goldens(void)
{
    struct err e = {0};
    struct weights *w = NULL, *stored = NULL;
    struct probe *p = NULL;
    struct text text = {0};
    if (!file_exists(CASES))
        SKIP("no " CASES);
    if (!CHECK_MSG(!weights_open(&w, PROBE, &e) && !probe_open(&p, w, NULL, &e) && !weights_open(&stored, ROWS, &e) &&
                   !file_read(CASES, 1 << 24, &text, &e), "%s", e.msg))
        return;
    cJSON *cases = json_parse(text.data, text.len, CASES, &e);
    const cJSON *c;
    int n = 0;
    cJSON_ArrayForEach(c, cases) {
        const char *name = json_string(c, "name"), *kind = json_string(c, "kind");
        int64_t rows = json_get(c, "rows")->valueint, dim = probe_dim(p);
        float *x = cJSON_IsTrue(json_get(c, "stored"))
                       ? weights_read(stored, name, 2, (const int64_t[]){rows, dim}, &e)
                       : generate_rows(kind, seed_of(text.data, name), rows, (int)dim);
        struct probe_result r = {0};
        if (CHECK_MSG(x && !probe_score(p, x, (int)rows, &r, &e), "%s: %s", name, e.msg)) {
            double expected = json_get(c, "confidence")->valuedouble;
            double tolerance = strcmp(kind, "offset") == 0 ? 5e-5 : 1e-5;
            CHECK_MSG(fabs(r.confidence - expected) <= tolerance, "%s: confidence %.9g, not %.9g", name, r.confidence,
                      expected);
            CHECK_MSG(fabs(r.logit - json_get(c, "logit")->valuedouble) <= 1e-4, "%s: logit %.9g", name, r.logit);
            CHECK(r.rows == (rows < 1024 ? rows : 1024));
            CHECK_NEAR(r.p_wrong + r.confidence, 1, 1e-12);
        }
        free(x);
        n++;
    }
    CHECK(n == 30);
    cJSON_Delete(cases);
    text_free(&text);
    probe_close(p);
    weights_close(w);
    weights_close(stored);
}

static void small_confidence_keeps_its_digits(void)
{
    struct err e = {0};
    struct weights *w = NULL;
    struct probe *p = NULL;
    if (!file_exists(PROBE))
        SKIP("no " PROBE);
    if (!CHECK(!weights_open(&w, PROBE, &e) && !probe_open(&p, w, NULL, &e)))
        return;
    float *x = generate_rows("plain", 7, 3, probe_dim(p));
    struct probe_result r;
    CHECK(!probe_score(p, x, 3, &r, &e));
    CHECK_NEAR(log(r.confidence / r.p_wrong), -r.logit, 1e-9);
    free(x);
    probe_close(p);
    weights_close(w);
}

static void refuses(void)
{
    struct err e = {0};
    struct weights *w = NULL;
    struct probe *p = NULL;
    if (!file_exists(PROBE))
        SKIP("no " PROBE);
    if (!CHECK(!weights_open(&w, PROBE, &e) && !probe_open(&p, w, NULL, &e)))
        return;
    float *x = generate_rows("plain", 7, 2, probe_dim(p));
    struct probe_result r;
    CHECK(probe_score(p, x, 0, &r, &e) == -1 && e.code == EXIT_BAD_INPUT);
    x[probe_dim(p) + 3] = NAN;
    CHECK(probe_score(p, x, 2, &r, &e) == -1 && e.code == EXIT_BAD_INPUT);
    CHECK_STR(e.msg, "hidden row 1, channel 3: a finite number was expected");
    free(x);
    probe_close(p);
    weights_close(w);
    p = NULL;
    if (CHECK(!weights_open(&w, ROWS, &e)))
        CHECK(!probe_in(w) && probe_open(&p, w, NULL, &e) == -1 && e.code == EXIT_BAD_INPUT);
    weights_close(w);
}

int main(void)
{
    RUN(goldens);
    RUN(small_confidence_keeps_its_digits);
    RUN(refuses);
    return test_report();
}
