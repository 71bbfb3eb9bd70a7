/* AUROC, DeLong, average precision, selective prediction, calibration and the bootstrap against
 * ../shared/metrics/auroc.json, and their properties. */
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

static void check_selective(const char *id, const struct ranking *r, const cJSON *want)
{
    struct selective s = selective(r);
    CHECK_MSG(s.why == NULL, "%s: %s", id, s.why);
    check_value(id, "aurc", s.aurc, json_get(want, "aurc"), 1e-9);
    check_value(id, "aurc_optimal", s.aurc_optimal, json_get(want, "aurc_optimal"), 1e-9);
    check_value(id, "aurc_random", s.aurc_random, json_get(want, "aurc_random"), 1e-9);
    check_value(id, "e_aurc", s.e_aurc, json_get(want, "e_aurc"), 1e-9);
    check_value(id, "auarc", s.auarc, json_get(want, "auarc"), 1e-9);
    check_value(id, "augrc", s.augrc, json_get(want, "augrc"), 1e-9);
    check_figure(id, "prr", s.prr, json_get(want, "prr"));
    if (json_get(want, "prr_max_rejection_0.5"))
        check_figure(id, "prr_half", s.prr_half, json_get(want, "prr_max_rejection_0.5"));
    const cJSON *points = json_get(want, "risk_coverage"), *point;
    if (!points)
        return;
    struct coverage_point *got = NEW(struct coverage_point, r->n_blocks + 1);
    size_t n = risk_coverage(r, got), i = 0;
    if (CHECK_MSG(n == case_count(points), "%s: %zu points", id, n))
        cJSON_ArrayForEach(point, points) {
            const cJSON *score = json_get(point, "keep_if_conf_ge");
            score = score ? score : json_get(point, "keep_if_score_le");
            CHECK_MSG(got[i].score == case_number(score), "%s: point %zu at %.17g", id, i, got[i].score);
            check_value(id, "coverage", got[i].coverage, json_get(point, "coverage"), 1e-9);
            check_value(id, "risk", got[i++].risk, json_get(point, "risk"), 1e-9);
        }
    free(got);
}

static void check_bins(const char *id, const struct bin *got, size_t n, const cJSON *want, const char *lo,
                       const char *hi)
{
    const cJSON *bin;
    size_t i = 0;
    if (!CHECK_MSG(n == case_count(want), "%s: %zu bins", id, n))
        return;
    cJSON_ArrayForEach(bin, want) {
        CHECK_MSG((double)got[i].n == case_get(bin, "n"), "%s: bin %zu has %zu rows", id, i, got[i].n);
        check_value(id, lo, got[i].lo, json_get(bin, lo), 0);
        check_value(id, hi, got[i].hi, json_get(bin, hi), 0);
        check_value(id, "mean_conf", got[i].mean_confidence, json_get(bin, "mean_conf"), 1e-9);
        check_value(id, "acc", got[i++].accuracy, json_get(bin, "acc"), 1e-9);
    }
}

static void check_calibration(const struct rows *in, const cJSON *want)
{
    double *confidence = NEW(double, in->n);
    for (size_t i = 0; i < in->n; i++)
        confidence[i] = in->orientation == HIGHER_IS_RIGHT ? in->score[i] : 1 - in->score[i];
    struct calibration c = calibration(confidence, in->wrong, in->n);
    CHECK_MSG(c.why == NULL, "%s: %s", in->id, c.why);
    check_value(in->id, "brier", c.brier, json_get(want, "brier"), 1e-9);
    check_value(in->id, "log_loss", c.log_loss, json_get(want, "log_loss"), 1e-9);
    check_value(in->id, "ece", c.ece_15, json_get(want, "ece_15_equal_width"), 1e-9);
    check_value(in->id, "mce", c.mce_15, json_get(want, "mce_15_equal_width"), 1e-9);
    check_value(in->id, "ece 16", c.ece_16, json_get(want, "ece_16_equal_width"), 1e-9);
    check_value(in->id, "ece equal mass", c.ece_15_equal_mass, json_get(want, "ece_15_equal_mass"), 1e-9);
    struct bin bins[N_RELIABILITY_BINS];
    if (json_get(want, "bins_15_equal_width")) {
        reliability_equal_width(confidence, in->wrong, in->n, bins, N_RELIABILITY_BINS);
        check_bins(in->id, bins, N_RELIABILITY_BINS, json_get(want, "bins_15_equal_width"), "lo", "hi");
    }
    if (json_get(want, "bins_15_equal_mass")) {
        size_t used = reliability_equal_mass(confidence, in->wrong, in->n, bins, N_RELIABILITY_BINS);
        check_bins(in->id, bins, used, json_get(want, "bins_15_equal_mass"), "conf_min", "conf_max");
    }
    free(confidence);
}

static void check_separation(const char *id, const struct ranking *r, const cJSON *want)
{
    CHECK_MSG((double)r->n == case_get(want, "n"), "%s: n is %zu", id, r->n);
    CHECK_MSG((double)r->n_wrong == case_get(want, "n_wrong"), "%s: n_wrong is %zu", id, r->n_wrong);
    check_figure(id, "auroc", auroc(r), json_get(want, "auroc"));
    check_figure(id, "auprc", auprc(r), json_get(want, "auprc"));
    if (json_get(want, "delong"))
        check_delong(id, r, json_get(want, "delong"));
    if (json_get(want, "aurc"))
        check_selective(id, r, want);
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
        if (json_get(want, "calibration"))
            check_calibration(&in, json_get(want, "calibration"));
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

/* The area of a continuous loss is that of labels when the loss is 0 or 1, and does not depend on its scale. */
static void continuous_loss(void)
{
    double score[400], loss[400];
    uint8_t wrong[400];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ranking by_label, by_loss;
        size_t n = draw_rows(seed, score, wrong);
        for (size_t i = 0; i < n; i++)
            loss[i] = wrong[i] ? 3.5 : 0;
        CHECK(ranking_make(&by_label, score, wrong, NULL, n, HIGHER_IS_WRONG, NAN_IS_ERROR, NULL) == 0);
        CHECK(ranking_make_loss(&by_loss, score, loss, n, HIGHER_IS_WRONG, NAN_IS_ERROR, NULL) == 0);
        struct selective a = selective(&by_label), b = selective(&by_loss);
        CHECK_NEAR(b.prr.value, a.prr.value, 1e-12);
        CHECK_NEAR(b.prr_half.value, a.prr_half.value, 1e-12);
        CHECK_NEAR(b.aurc, 3.5 * a.aurc, 1e-12);
        CHECK_NEAR(b.augrc, 3.5 * a.augrc, 1e-12);
        CHECK(auroc(&by_loss).why && auprc(&by_loss).why);
        ranking_free(&by_label);
        ranking_free(&by_loss);
    }
}

static void bootstrap_cases(void)
{
    NEED_CASES("auroc.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "bootstrap")) {
        struct rows in = rows_of(c);
        const cJSON *want = json_get(c, "ci95_percentile"), *tolerance = json_get(c, "tolerance_at_B_2000");
        struct resampling how = {.seed = 1, .n_resamples = 2000, .n_threads = 2};
        struct interval ci = auroc_bootstrap(in.score, in.orientation, in.wrong, in.n, &how);
        check_value(in.id, "low end", ci.lo, cJSON_GetArrayItem(want, 0),
                    case_number(cJSON_GetArrayItem(tolerance, 0)));
        check_value(in.id, "high end", ci.hi, cJSON_GetArrayItem(want, 1),
                    case_number(cJSON_GetArrayItem(tolerance, 1)));
        how.n_threads = 3;
        struct interval again = auroc_bootstrap(in.score, in.orientation, in.wrong, in.n, &how);
        CHECK_MSG(again.lo == ci.lo && again.hi == ci.hi, "%s: depends on the number of threads", in.id);
        how.seed = 2;
        again = auroc_bootstrap(in.score, in.orientation, in.wrong, in.n, &how);
        CHECK_MSG(again.lo != ci.lo || again.hi != ci.hi, "%s: does not depend on the seed", in.id);
        rows_free(&in);
    }
}

/* Of a mean: 1.96 standard errors either way, of rows or of groups of equal rows. */
static void bootstrap_of_a_mean(void)
{
    double v[700], squares = 0;
    uint32_t group[700];
    struct resampling how = {.seed = 3, .n_resamples = 4000, .n_threads = 1};
    for (size_t i = 0; i < 700; i++)
        v[i] = (double)(i % 7);                         /* mean 3, variance 4 */
    for (size_t i = 0; i < 700; i++)
        squares += (v[i] - 3) * (v[i] - 3);
    struct interval ci = mean_bootstrap(v, 700, &how);
    CHECK_NEAR(squares, 700 * 4, 0);
    CHECK_NEAR(ci.lo, 3 - NORMAL_975 * 2 / sqrt(700), 0.01);
    CHECK_NEAR(ci.hi, 3 + NORMAL_975 * 2 / sqrt(700), 0.01);
    for (size_t i = 0; i < 700; i++)
        group[i] = (uint32_t)(i % 7 + 7 * (i / 70));    /* 70 groups of ten equal rows */
    how.group = group;
    how.n_groups = 70;
    ci = mean_bootstrap(v, 700, &how);
    CHECK_NEAR(ci.hi - ci.lo, 2 * NORMAL_975 * 2 / sqrt(70), 0.05);
    CHECK(mean_bootstrap(v, 0, &how).why != NULL);
}

/* Copies of a row in one group carry no information: the clustered interval is that of single rows. */
static void clustered_bootstrap(void)
{
    double score[400], many[1600], other[400];
    uint8_t wrong[400], many_wrong[1600];
    uint32_t group[1600];
    size_t n = draw_rows(7, score, wrong);
    for (size_t i = 0; i < 4 * n; i++) {
        group[i] = (uint32_t)(i % n);
        many[i] = score[i % n];
        many_wrong[i] = wrong[i % n];
    }
    struct resampling how = {.seed = 5, .n_resamples = 4000, .n_threads = 2};
    struct interval single = auroc_bootstrap(score, HIGHER_IS_WRONG, wrong, n, &how);
    struct interval naive = auroc_bootstrap(many, HIGHER_IS_WRONG, many_wrong, 4 * n, &how);
    how.group = group;
    how.n_groups = n;
    struct interval clustered = auroc_bootstrap(many, HIGHER_IS_WRONG, many_wrong, 4 * n, &how);
    CHECK_NEAR(clustered.lo, single.lo, 0.01);
    CHECK_NEAR(clustered.hi, single.hi, 0.01);
    CHECK(naive.hi - naive.lo < 0.6 * (single.hi - single.lo));
    for (size_t i = 0; i < n; i++)
        other[i] = -score[i];
    how.n_groups = n;
    struct interval none = auroc_bootstrap_delta(score, HIGHER_IS_WRONG, other, HIGHER_IS_RIGHT, wrong, n, &how);
    CHECK(none.lo == 0 && none.hi == 0);
    double one_class[] = {1, 2};
    CHECK(auroc_bootstrap(one_class, HIGHER_IS_WRONG, (uint8_t[]){1, 1}, 2, &how).why != NULL);
}

static void percentiles(void)
{
    double v[] = {1, 2, 4, INFINITY, INFINITY};
    CHECK(percentile_sorted(v, 5, 0) == 1 && percentile_sorted(v, 5, 1) == INFINITY);
    CHECK_NEAR(percentile_sorted(v, 5, 0.375), 3, 1e-15);
    CHECK(percentile_sorted(v, 5, 0.9) == INFINITY && percentile_sorted(v, 1, 0.3) == 1);
}

static void macro_means(void)
{
    struct delong t[2] = {{.auroc = figure_of(0.8), .var = figure_of(0.0009)},
                          {.auroc = figure_of(0.6), .var = figure_of(0.0016)}};
    struct macro_mean m = macro_mean(t, 2);
    CHECK_NEAR(m.mean.value, 0.7, 1e-15);
    CHECK_NEAR(m.se.value, 0.025, 1e-15);
    CHECK_NEAR(m.wald.lo, 0.7 - 0.025 * NORMAL_975, 1e-15);
    t[1].var = figure_undefined("one row");
    m = macro_mean(t, 2);
    CHECK(!m.mean.why && m.se.why && m.wald.why);
    t[1].auroc = figure_undefined("one class");
    CHECK(macro_mean(t, 2).mean.why && macro_mean(t, 0).mean.why);
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
    CHECK(auroc(&r).why && auprc(&r).why && delong(&r).se.why && selective(&r).why && selective(&r).prr.why);
    ranking_free(&r);
    double outside[] = {0.5, 1.5};
    CHECK(calibration(outside, wrong, 2).why && isnan(calibration(outside, wrong, 2).brier));
    CHECK(calibration(NULL, NULL, 0).why != NULL);
}

/* Counts of many rows are drawn in two rounds: as many as rows, each row once on average with variance 1 - 1/n, two rows
 * of one chunk or of two as good as independent. */
struct spread { size_t n; double sum, squares, near, far, last; int bad; };

static double look_at_counts(const uint32_t *count, const void *data)
{
    struct spread *s = (struct spread *)(uintptr_t)data;
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        double d = count[i] - 1.0;
        sum += count[i];
        s->squares += d * d;
        s->near += d * (count[(i + 1) % s->n] - 1.0);
        s->far += d * (count[(i + s->n / 2) % s->n] - 1.0);
        s->last += i >= s->n - 100 ? d : 0;
    }
    s->bad += sum != (double)s->n;
    return sum;
}

static void many_counts(void)
{
    enum { N = 100100, RESAMPLES = 40 };
    struct spread s = {.n = N};
    double values[RESAMPLES];
    struct resampling how = {.seed = 2, .n_resamples = RESAMPLES, .n_threads = 1};
    CHECK(bootstrap_values(&how, N, look_at_counts, &s, values) == 0 && s.bad == 0);
    const double all = (double)N * RESAMPLES, sigma = 1 / sqrt(all);
    CHECK_NEAR(s.squares / all, 1, 6 * 1.5 * sigma);            /* a Poisson count's squared deviation has variance 3 - 1 */
    CHECK_NEAR(s.near / all, 0, 5 * sigma);
    CHECK_NEAR(s.far / all, 0, 5 * sigma);
    CHECK_NEAR(s.last / (100.0 * RESAMPLES), 0, 5 / sqrt(100.0 * RESAMPLES));
}

int main(void)
{
    RUN(separation_cases);
    RUN(paired_cases);
    RUN(properties);
    RUN(continuous_loss);
    RUN(bootstrap_cases);
    RUN(bootstrap_of_a_mean);
    RUN(clustered_bootstrap);
    RUN(many_counts);
    RUN(percentiles);
    RUN(macro_means);
    RUN(refusals);
    cJSON_Delete(cases_file);
    return test_report();
}
