/* Token entropy and its aggregates against ../shared/metrics/entropy.json. */
#include "probe/probe.h"
#include "tests/metric_cases.h"

/* ent-020 has the logits 1e300, -1e300, 1e300: its 0 is 1e300 minus a log-sum-exp rounded to 1e300. One of two equal
 * tokens has the log-probability -ln 2, which is minus the entropy that the case gives. */
static void check_logprob(const char *id, double got, const cJSON *want)
{
    if (strcmp(id, "ent-020") == 0)
        CHECK_NEAR(got, -case_get(want, "entropy_nats"), 1e-12);
    else
        check_value(id, "logprob", got, json_get(want, "target_logprob"), 1e-9);
}

static void logit_cases(void)
{
    NEED_CASES("entropy.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "cases")) {
        const char *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect");
        size_t n;
        double *logits = case_numbers(json_get(c, "logits"), &n);
        struct token_stats s;
        struct err e = {0};
        int32_t target = json_get(c, "target") ? (int32_t)case_get(c, "target") : 0;
        int failed = token_stats(logits, (int)n, target, &s, &e);
        CHECK_MSG((failed < 0) == (json_get(want, "error") != NULL), "%s: %s", id, failed ? e.msg : "no error");
        if (failed == 0 && !json_get(want, "error")) {
            check_value(id, "entropy", s.entropy, json_get(want, "entropy_nats"), 1e-9);
            check_logprob(id, s.logprob, want);
            if (cJSON_IsNull(json_get(want, "top2_margin_logit")))
                CHECK_MSG(!isfinite(s.margin), "%s: margin is %g", id, s.margin);   /* one token only: no second best */
            else
                check_value(id, "margin", s.margin, json_get(want, "top2_margin_logit"), 1e-9);
        }
        free(logits);
    }
}

static double to_bfloat16(double v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    u += 0x7fff + (u >> 16 & 1);
    u &= 0xffff0000u;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Generator G3. */
static double *generate_g3(const cJSON *g, size_t *n)
{
    const char *kind = json_string(g, "kind");
    uint64_t x = (uint64_t)case_get(g, "seed");
    double lo = case_get(g, "lo"), hi = case_get(g, "hi");
    *n = (size_t)case_get(g, "vocab");
    double *v = NEW(double, *n);
    for (size_t i = 0; i < *n; i++) {
        if (strcmp(kind, "G3-constant") == 0)
            v[i] = case_get(g, "value");
        else
            v[i] = lo + (hi - lo) * lcg_draw(&x);
        if (strcmp(kind, "G3-float32") == 0)
            v[i] = (float)v[i];
        if (strcmp(kind, "G3-bfloat16") == 0)
            v[i] = to_bfloat16(v[i]);
        if (strcmp(kind, "G3-masked") == 0 && i % (size_t)case_get(g, "mask_mod") == 0)
            v[i] = -INFINITY;
    }
    if (strcmp(kind, "G3-peaked") == 0)
        v[(size_t)case_get(g, "index")] += case_get(g, "boost");
    return v;
}

static void large_vocabularies(void)
{
    NEED_CASES("entropy.json");
    const cJSON *c, *first;
    cJSON_ArrayForEach(c, json_get(cases_file, "large")) {
        const char *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect");
        size_t n, i = 0;
        double *logits = generate_g3(json_get(c, "generator"), &n);
        struct token_stats s = {0}, best = {0};
        cJSON_ArrayForEach(first, json_get(c, "first_logits"))
            check_value(id, "first logits", logits[i++], first, 0);
        CHECK_MSG(token_stats(logits, (int)n, 0, &s, NULL) == 0, "%s: token 0", id);
        check_value(id, "entropy", s.entropy, json_get(want, "entropy_nats"), 1e-9);
        check_value(id, "logprob of token 0", s.logprob, json_get(want, "logprob_at_0"), 1e-9);
        CHECK_MSG(token_stats(logits, (int)n, (int32_t)case_get(want, "argmax"), &best, NULL) == 0, "%s: best", id);
        CHECK_NEAR(best.logprob, case_get(want, "max_logit") - case_get(want, "logsumexp"), 1e-9);
        free(logits);
    }
}

/* The four selections of tokens, by the roles they take. */
static const struct { const char *name, *roles; } selections[] = {
    {"all_generated_including_eos", "answer eos thought control"}, {"excluding_eos", "answer thought control"},
    {"answer_only", "answer"}, {"answer_and_eos", "answer eos"},
};

static void sequence_aggregates(void)
{
    NEED_CASES("entropy.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "sequences"))
        for (int k = 0; k < 4; k++) {
            const char *id = json_string(c, "id");
            const cJSON *want = json_get(json_get(c, "expect"), selections[k].name), *role;
            size_t n_all, n = 0, i = 0;
            double *entropy = case_numbers(json_get(c, "token_entropy"), &n_all);
            cJSON_ArrayForEach(role, json_get(c, "roles")) {
                if (strstr(selections[k].roles, role->valuestring))
                    entropy[n++] = entropy[i];
                i++;
            }
            struct entropy_summary s = entropy_summarise(entropy, (int)n);
            if (cJSON_IsNull(want)) {
                CHECK_MSG(isnan(s.mean) && isnan(s.max) && isnan(s.first) && isnan(s.sum), "%s: %s", id,
                          selections[k].name);
            } else {
                CHECK_MSG((double)n == case_get(want, "n"), "%s: %s has %zu", id, selections[k].name, n);
                check_value(id, "mean", s.mean, json_get(want, "entropy_mean"), 1e-9);
                check_value(id, "max", s.max, json_get(want, "entropy_max"), 1e-9);
                check_value(id, "sum", s.sum, json_get(want, "entropy_sum"), 1e-9);
                check_value(id, "first", s.first, json_get(want, "entropy_first"), 1e-9);
            }
            free(entropy);
        }
}

static struct entropy_summary summary_of(const cJSON *sequence)
{
    size_t n;
    double *entropy = case_numbers(json_get(sequence, "token_entropy"), &n);
    struct entropy_summary s = entropy_summarise(entropy, (int)n);
    free(entropy);
    return s;
}

/* Which of two answers is the less certain depends on the aggregate. */
static void conventions(void)
{
    NEED_CASES("entropy.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "conventions")) {
        struct entropy_summary a = summary_of(json_get(c, "a")), b = summary_of(json_get(c, "b"));
        const cJSON *want = json_get(c, "expect");
        CHECK_STR(a.mean > b.mean ? "a" : "b", json_string(want, "mean"));
        CHECK_STR(a.max > b.max ? "a" : "b", json_string(want, "max"));
        CHECK_STR(a.sum > b.sum ? "a" : "b", json_string(want, "sum"));
        CHECK_STR(a.first > b.first ? "a" : "b", json_string(want, "first"));
    }
}

int main(void)
{
    RUN(logit_cases);
    RUN(large_vocabularies);
    RUN(sequence_aggregates);
    RUN(conventions);
    cJSON_Delete(cases_file);
    return test_report();
}
