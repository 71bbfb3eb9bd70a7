/* AUROC, DeLong, average precision against ../shared/metrics/auroc.json, and their properties. */
#include "eval/stats.h"
#include "tests/metric_cases.h"


/* One case: rows as stored or from generator G1. */
struct rows { const char *id; enum orientation orientation; size_t n; double *score, *weight; uint8_t *wrong; };

static void generate_g1(struct rows *r, const cJSON *g)
{
    uint64_t x = (uint64_t)case_get(g, "seed");
    double p_wrong = case_get(g, "p_wrong"), steps = case_get(g, "quantise");
    r->n = (size_t)case_get(g, "n");
    r->score = NEW(double, r->n);
    r->wrong = NEW(uint8_t, r->n);
    for (size_t i = 0; i < r->n; i++) {
        double a = lcg_draw(&x), b = lcg_draw(&x), c = lcg_draw(&x);
        r->wrong[i] = a < p_wrong;
        r->score[i] = on_grid(c >= 0.6 ? b : r->wrong[i] ? b * b : sqrt(b), steps);
    }
}

static struct rows rows_of(const cJSON *c)
{
    struct rows r = {.id = json_string(c, "id")};
    r.orientation = strcmp(json_string(c, "orientation"), "confidence") == 0 ? HIGHER_IS_RIGHT : HIGHER_IS_WRONG;
    size_t n;
    if (json_get(c, "generator")) {
        generate_g1(&r, json_get(c, "generator"));
        return r;
    }
    r.score = case_numbers(json_get(c, "scores"), &r.n);
    r.wrong = case_labels(json_get(c, "labels"));
    r.weight = json_get(c, "weights") ? case_numbers(json_get(c, "weights"), &n) : NULL;
    return r;
}

static void rows_free(struct rows *r)
{
    free(r->score);
    free(r->wrong);
    free(r->weight);
}

static void check_interval(const char *id, const char *what, struct interval got, const cJSON *want)
{
    if (cJSON_IsNull(want)) {
        CHECK_MSG(got.why && isnan(got.lo), "%s: %s should be undefined", id, what);
        return;
    }
    CHECK_MSG(got.why == NULL, "%s: %s is undefined: %s", id, what, got.why);
    check_value(id, what, got.lo, cJSON_GetArrayItem(want, 0), 1e-9);
    check_value(id, what, got.hi, cJSON_GetArrayItem(want, 1), 1e-9);
}

static void check_figure(const char *id, const char *what, struct figure got, const cJSON *want)
{
    check_value(id, what, got.value, want, 1e-9);
    CHECK_MSG(isnan(got.value) == (got.why != NULL), "%s: %s is %g with reason %s", id, what, got.value,
              got.why ? got.why : "(none)");
}

static void check_delong(const char *id, const struct ranking *r, const cJSON *want)
{
    struct delong d = delong(r);
    if (cJSON_IsNull(want)) {
        CHECK_MSG(d.var.why && d.se.why && d.wald.why && d.logit.why, "%s: DeLong should be undefined", id);
        return;
    }
    check_figure(id, "auroc by DeLong", d.auroc, json_get(want, "auroc"));
    check_figure(id, "var", d.var, json_get(want, "var"));
    check_figure(id, "se", d.se, json_get(want, "se"));
    check_interval(id, "Wald interval", d.wald, json_get(want, "ci95_wald"));
    check_interval(id, "logit interval", d.logit, json_get(want, "ci95_logit"));
}

static void check_separation(const char *id, const struct ranking *r, const cJSON *want)
{
    CHECK_MSG((double)r->n == case_get(want, "n"), "%s: n is %zu", id, r->n);
    CHECK_MSG((double)r->n_wrong == case_get(want, "n_wrong"), "%s: n_wrong is %zu", id, r->n_wrong);
    check_figure(id, "auroc", auroc(r), json_get(want, "auroc"));
    check_figure(id, "auprc", auprc(r), json_get(want, "auprc"));
    if (json_get(want, "delong"))
        check_delong(id, r, json_get(want, "delong"));
    if (json_get(want, "error"))
        CHECK_MSG(strncmp(auroc(r).why, json_string(want, "error"), strlen(json_string(want, "error"))) == 0,
                  "%s: reason is %s", id, auroc(r).why);
}

static void nan_case(const struct rows *in, const cJSON *want)
{
    struct ranking r;
    struct err e = {0};
    CHECK(ranking_make(&r, in->score, in->wrong, in->weight, in->n, in->orientation, NAN_IS_ERROR, &e) < 0);
    CHECK((double)r.first_nan == case_get(json_get(want, "policy_error"), "first_index"));
    CHECK_MSG(strncmp(e.msg, "nan_score", 9) == 0, "%s: %s", in->id, e.msg);
    want = json_get(want, "policy_exclude");
    CHECK(ranking_make(&r, in->score, in->wrong, in->weight, in->n, in->orientation, NAN_IS_EXCLUDED, &e) == 0);
    CHECK((double)r.n_excluded == case_get(want, "n_excluded"));
    check_separation(in->id, &r, want);
    ranking_free(&r);
}

static void separation_cases(void)
{
    NEED_CASES("auroc.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "cases")) {
        struct rows in = rows_of(c);
        const cJSON *want = json_get(c, "expect");
        struct ranking r;
        struct err e = {0};
        if (json_get(want, "policy_error")) {
            nan_case(&in, want);
        } else if (CHECK_MSG(ranking_make(&r, in.score, in.wrong, in.weight, in.n, in.orientation, NAN_IS_ERROR, &e)
                             == 0, "%s: %s", in.id, e.msg)) {
            check_separation(in.id, &r, want);
            ranking_free(&r);
        }
        rows_free(&in);
    }
}

static void paired_cases(void)
{
    NEED_CASES("auroc.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "paired_delong")) {
        const char *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect"), *cov = json_get(want, "cov");
        size_t n;
        double *a = case_numbers(json_get(c, "scores_a"), &n), *b = case_numbers(json_get(c, "scores_b"), &n);
        uint8_t *wrong = case_labels(json_get(c, "labels"));
        enum orientation o = strcmp(json_string(c, "orientation"), "confidence") == 0 ? HIGHER_IS_RIGHT
                                                                                      : HIGHER_IS_WRONG;
        struct delong_pair d = delong_paired(a, o, b, o, wrong, n);
        check_figure(id, "auroc_a", d.auroc_a, json_get(want, "auroc_a"));
        check_figure(id, "auroc_b", d.auroc_b, json_get(want, "auroc_b"));
        check_figure(id, "diff", d.delta, json_get(want, "diff"));
        check_figure(id, "var_diff", d.var_delta, json_get(want, "var_diff"));
        check_figure(id, "z", d.z, json_get(want, "z"));
        check_figure(id, "p", d.p, json_get(want, "p_two_sided"));
        check_interval(id, "interval", d.wald_delta, json_get(want, "ci95_diff"));
        check_value(id, "var_a", d.var_a, cJSON_GetArrayItem(cJSON_GetArrayItem(cov, 0), 0), 1e-9);
        check_value(id, "cov", d.cov, cJSON_GetArrayItem(cJSON_GetArrayItem(cov, 0), 1), 1e-9);
        check_value(id, "var_b", d.var_b, cJSON_GetArrayItem(cJSON_GetArrayItem(cov, 1), 1), 1e-9);
        free(a);
        free(b);
        free(wrong);
    }
}

/* Random rows with ties, for the properties. */
static size_t draw_rows(uint64_t seed, double *score, uint8_t *wrong)
{
    size_t n = 20 + (size_t)(lcg_draw(&seed) * 300);
    for (size_t i = 0; i < n; i++) {
        wrong[i] = i < 2 || (i > 3 && lcg_draw(&seed) < 0.3);
        score[i] = floor(lcg_draw(&seed) * 64) / 64 + (wrong[i] ? 0.25 : 0);
    }
    return n;
}

static struct delong delong_of(const double *score, const uint8_t *wrong, size_t n, enum orientation o)
{
    struct ranking r;
    CHECK(ranking_make(&r, score, wrong, NULL, n, o, NAN_IS_ERROR, NULL) == 0);
    struct delong d = delong(&r);
    ranking_free(&r);
    return d;
}

static void properties(void)
{
    double score[400], other[400];
    uint8_t wrong[400], right[400];
    for (uint64_t seed = 1; seed <= 50; seed++) {
        size_t n = draw_rows(seed, score, wrong);
        struct delong d = delong_of(score, wrong, n, HIGHER_IS_WRONG);
        double won = 0, pairs = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                if (wrong[i] && !wrong[j]) {
                    won += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
                    pairs++;
                }
        CHECK_NEAR(d.auroc.value, won / pairs, 1e-14);
        for (size_t i = 0; i < n; i++) {
            right[i] = !wrong[i];
            other[i] = exp(3 * score[i]) - 7;
        }
        struct delong swapped = delong_of(score, right, n, HIGHER_IS_WRONG);
        CHECK_NEAR(swapped.auroc.value, 1 - d.auroc.value, 1e-14);
        CHECK_NEAR(swapped.var.value, d.var.value, 1e-15);
        struct delong turned = delong_of(score, wrong, n, HIGHER_IS_RIGHT);
        CHECK_NEAR(turned.auroc.value, 1 - d.auroc.value, 1e-14);
        CHECK(delong_of(other, wrong, n, HIGHER_IS_WRONG).auroc.value == d.auroc.value);
        struct delong_pair p = delong_paired(score, HIGHER_IS_WRONG, other, HIGHER_IS_WRONG, wrong, n);
        CHECK(p.delta.value == 0 && p.var_delta.value == 0 && p.z.why && p.p.value == 1);
        CHECK_NEAR(p.var_a, d.var.value, 1e-15);
    }
}

static void refusals(void)
{
    double score[] = {0.1, 0.2}, bad[] = {1, -1}, nan_pair[] = {0.1, NAN}, loss[] = {1, INFINITY};
    uint8_t wrong[] = {0, 1};
    struct ranking r;
    struct err e = {0};
    CHECK(ranking_make(&r, score, wrong, bad, 2, HIGHER_IS_WRONG, NAN_IS_ERROR, &e) < 0 && e.code == EXIT_BAD_INPUT);
    CHECK(ranking_make_loss(&r, score, loss, 2, HIGHER_IS_WRONG, NAN_IS_ERROR, &e) < 0);
    struct delong_pair d = delong_paired(score, HIGHER_IS_WRONG, nan_pair, HIGHER_IS_WRONG, wrong, 2);
    CHECK(d.p.why && isnan(d.p.value) && d.auroc_a.why);
    CHECK(ranking_make(&r, NULL, NULL, NULL, 0, HIGHER_IS_WRONG, NAN_IS_ERROR, &e) == 0);
    CHECK(auroc(&r).why && auprc(&r).why && delong(&r).se.why);
    ranking_free(&r);
}

int main(void)
{
    RUN(separation_cases);
    RUN(paired_cases);
    RUN(properties);
    RUN(refusals);
    cJSON_Delete(cases_file);
    return test_report();
}
