/* Handoff curves against ../shared/metrics/handoff.json, their properties, groups, costs and tiers. */
#include "eval/curve.h"
#include "tests/metric_cases.h"

struct rows { double *confidence, *local, *reference, *weight; struct cascade c; };

static void generate_g2(struct rows *r, const cJSON *g)
{
    uint64_t x = (uint64_t)case_get(g, "seed");
    size_t n = r->c.n;
    for (size_t i = 0; i < n; i++) {
        double a = lcg_draw(&x), b = lcg_draw(&x), c = lcg_draw(&x), d = lcg_draw(&x);
        r->local[i] = a < 0.7;
        r->confidence[i] = on_grid(a < 0.7 ? 1 - (1 - b) * c : b * c, case_get(g, "quantise"));
        r->reference[i] = d < (a < 0.7 ? 0.95 : 0.6);
    }
}

static struct rows rows_of(const cJSON *c)
{
    const cJSON *records = json_get(c, "records"), *g = json_get(c, "generator"), *rec;
    const char *metric = json_string(c, "metric");
    bool wer = strcmp(metric, "wer") == 0, score = strcmp(metric, "score") == 0;
    size_t n = g ? (size_t)case_get(g, "n") : case_count(records), i = 0;
    struct rows r = {NEW(double, n), NEW(double, n), NEW(double, n), wer ? NEW(double, n) : NULL, {0}};
    r.c = (struct cascade){n, r.confidence, r.local, r.reference, r.weight, wer};
    if (g) {
        generate_g2(&r, g);
        return r;
    }
    cJSON_ArrayForEach(rec, records) {
        r.confidence[i] = case_get(rec, "confidence");
        r.local[i] = case_get(rec, wer ? "local_edits" : score ? "local_score" : "local_correct");
        r.reference[i] = case_get(rec, wer ? "ref_edits" : score ? "ref_score" : "ref_correct");
        if (wer)
            r.weight[i] = case_get(rec, "words");
        i++;
    }
    return r;
}

static void rows_free(struct rows *r)
{
    free(r->confidence);
    free(r->local);
    free(r->reference);
    free(r->weight);
}

static void check_point(const char *id, const char *what, const struct curve_point *got, const cJSON *want)
{
    if (cJSON_IsNull(want)) {
        CHECK_MSG(got == NULL, "%s: %s should not exist", id, what);
        return;
    }
    if (!CHECK_MSG(got != NULL, "%s: %s is missing", id, what))
        return;
    const cJSON *threshold = json_get(want, "threshold");
    CHECK_MSG((double)got->n_handoff == case_get(want, "n_handoff"), "%s: %s hands off %zu", id, what, got->n_handoff);
    check_value(id, what, got->rate, json_get(want, "rate"), 1e-9);
    check_value(id, what, got->metric, json_get(want, "metric"), 1e-9);
    if (cJSON_IsString(threshold) && strcmp(threshold->valuestring, "none") == 0)
        CHECK_MSG(isnan(got->threshold), "%s: %s has threshold %g", id, what, got->threshold);
    else if (cJSON_IsNull(threshold))
        CHECK_MSG(got->threshold == INFINITY, "%s: %s has threshold %g", id, what, got->threshold);
    else
        CHECK_MSG(got->threshold == case_number(threshold), "%s: %s has threshold %.17g", id, what, got->threshold);
}

static void check_target(const char *id, const struct curve *v, const struct oracle *o, const cJSON *want)
{
    const char *name = json_string(want, "target");
    double target = strcmp(name, "reference") == 0 ? v->reference
                  : strcmp(name, "reference_within_0.5pt") == 0 ? curve_within(v, 0.005)
                  : strcmp(name, "reference_within_1pt") == 0 ? curve_within(v, 0.01)
                  : atof(name + strlen("fixed_"));
    if (json_get(want, "target_metric"))
        check_value(id, name, target, json_get(want, "target_metric"), 1e-9);
    struct match m = curve_match(v, target);
    check_point(id, "first", m.first, json_get(want, "match_first"));
    check_point(id, "conservative", m.conservative, json_get(want, "match_conservative"));
    if (!json_get(want, "random_rate"))
        return;
    check_value(id, "interpolated", m.first_interpolated, json_get(want, "match_first_interpolated_rate"), 1e-9);
    check_value(id, "random_rate", m.random_rate, json_get(want, "random_rate"), 1e-9);
    check_value(id, "oracle_rate", oracle_rate(o, target), json_get(want, "oracle_rate"), 1e-9);
    CHECK_MSG(m.only_full_handoff == cJSON_IsTrue(json_get(want, "only_full_handoff")), "%s: only_full_handoff", id);
}

static void check_points(const char *id, const struct curve *v, const struct oracle *o, const cJSON *want)
{
    const cJSON *points = json_get(want, "curve"), *p;
    size_t i = 0;
    if (json_get(want, "n_points"))
        CHECK_MSG((double)v->n_points == case_get(want, "n_points"), "%s: %zu points", id, v->n_points);
    if (points && CHECK_MSG(v->n_points == case_count(points), "%s: %zu points", id, v->n_points))
        cJSON_ArrayForEach(p, points)
            check_point(id, "point", &v->points[i++], p);
    i = 0;
    cJSON_ArrayForEach(p, json_get(want, "oracle_curve")) {
        check_value(id, "oracle curve", o->metric[i], json_get(p, "metric"), 1e-9);
        check_value(id, "oracle curve", (double)i++ / (double)o->n, json_get(p, "rate"), 1e-9);
    }
}

static void check_summary(const char *id, const struct curve *v, const struct oracle *o, const cJSON *want)
{
    struct curve_summary s = curve_summary(v);
    check_value(id, "auc", s.auc, json_get(want, "auc"), 1e-9);
    check_value(id, "apgr", s.apgr.value, json_get(want, "apgr"), 1e-9);
    if (!json_get(want, "auc_random"))
        return;
    check_value(id, "auc_random", s.auc_random, json_get(want, "auc_random"), 1e-9);
    check_value(id, "auc_oracle", oracle_auc(o), json_get(want, "auc_oracle"), 1e-9);
    check_value(id, "oracle best", oracle_best(o), json_get(want, "oracle_best_metric"), 1e-9);
    double apgr_oracle = v->reference == v->local ? NAN : (oracle_auc(o) - v->local) / (v->reference - v->local);
    check_value(id, "apgr_oracle", apgr_oracle, json_get(want, "apgr_oracle"), 1e-9);
    check_point(id, "best point", s.best, json_get(want, "best_point"));
    CHECK_MSG(s.reference_not_better == cJSON_IsTrue(json_get(want, "reference_not_better")), "%s: not better", id);
    if (json_get(want, "apgr_10_budgets"))
        check_value(id, "ten budgets", s.apgr_10_budgets.value, json_get(want, "apgr_10_budgets"), 1e-9);
    else
        CHECK_MSG(s.apgr_10_budgets.why != NULL, "%s: ten budgets should be undefined", id);
    const cJSON *cpt = json_get(want, "cpt"), *x;
    if (cJSON_IsNull(cpt))
        CHECK_MSG(curve_recovery(v, 0.5).rate_step.why != NULL, "%s: cpt should be undefined", id);
    cJSON_ArrayForEach(x, cpt) {
        struct recovery r = curve_recovery(v, atof(x->string) / 100);
        check_value(id, "cpt step", r.rate_step.value, json_get(x, "rate_step"), 1e-9);
        check_value(id, "cpt interpolated", r.rate_interpolated.value, json_get(x, "rate_interpolated"), 1e-9);
    }
}

static void check_threshold(const char *id, const struct cascade *c, const struct curve *v, const cJSON *want)
{
    struct threshold_effect f = threshold_effect(c, 0.85);
    CHECK_MSG((double)f.n_handoff == case_get(want, "n_handoff"), "%s: 0.85 hands off %zu", id, f.n_handoff);
    check_value(id, "rate at 0.85", f.rate, json_get(want, "rate"), 1e-9);
    check_value(id, "metric at 0.85", f.metric, json_get(want, "metric"), 1e-9);
    if (json_get(want, "kept_metric"))
        check_value(id, "kept metric", f.kept, json_get(want, "kept_metric"), 1e-9);
    CHECK_MSG(curve_at(v, 0.85)->n_handoff == f.n_handoff, "%s: curve_at(0.85) hands off %zu", id,
              curve_at(v, 0.85)->n_handoff);
}

static void curve_cases(void)
{
    NEED_CASES("handoff.json");
    const cJSON *c, *target;
    cJSON_ArrayForEach(c, json_get(cases_file, "cases")) {
        const char *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect");
        struct rows r = rows_of(c);
        struct curve v;
        struct err e = {0};
        bool missing = strcmp(json_string(c, "kind"), "missing_confidence") == 0;
        CHECK_MSG((curve_make(&v, &r.c, MISSING_IS_ERROR, &e) < 0) == missing, "%s: default policy", id);
        if (missing)
            CHECK_MSG(strncmp(e.msg, "missing_confidence", 18) == 0, "%s: %s", id, e.msg);
        curve_free(&v);
        CHECK_MSG(curve_make(&v, &r.c, MISSING_HANDED_OFF, &e) == 0, "%s: %s", id, e.msg);
        struct oracle o = oracle_make(&r.c);
        check_value(id, "local", v.local, json_get(want, "local_metric"), 1e-9);
        check_value(id, "reference", v.reference, json_get(want, "reference_metric"), 1e-9);
        check_points(id, &v, &o, want);
        cJSON_ArrayForEach(target, json_get(want, "targets"))
            check_target(id, &v, &o, target);
        check_summary(id, &v, &o, want);
        check_threshold(id, &r.c, &v, json_get(want, "at_threshold_0.85"));
        oracle_free(&o);
        curve_free(&v);
        rows_free(&r);
    }
}

static void bootstrap_cases(void)
{
    NEED_CASES("handoff.json");
    const cJSON *list = json_get(cases_file, "bootstrap"), *c, *holder;
    cJSON_ArrayForEach(c, list) {
        const char *id = json_string(c, "id");
        cJSON_ArrayForEach(holder, list)
            if (strcmp(json_string(holder, "id"), json_string(c, "records_of")) == 0)
                break;
        struct rows r = rows_of(holder);
        bool first = strcmp(json_string(c, "rule"), "first") == 0;
        struct curve v;
        CHECK(curve_make(&v, &r.c, MISSING_IS_ERROR, NULL) == 0);
        double points = case_get(c, "tolerance_points");
        struct match m = curve_match(&v, curve_within(&v, points));
        check_value(id, "rate", (first ? m.first : m.conservative)->rate, json_get(c, "rate"), 1e-9);
        struct goal goal = {.points = points};
        struct resampling how = {.seed = 1, .n_resamples = 1000, .n_threads = 2};
        struct interval ci = match_rate_bootstrap(&r.c, &goal, first ? MATCH_FIRST : MATCH_CONSERVATIVE, &how);
        const cJSON *want = json_get(c, "ci95_percentile"), *tolerance = json_get(c, "tolerance_at_B_1000");
        for (int end = 0; end < 2; end++)
            check_value(id, end ? "high end" : "low end", end ? ci.hi : ci.lo, cJSON_GetArrayItem(want, end),
                        case_number(cJSON_GetArrayItem(tolerance, end)));
        curve_free(&v);
        rows_free(&r);
    }
}

static struct rows draw_rows(uint64_t seed, size_t n)
{
    struct rows r = {NEW(double, n), NEW(double, n), NEW(double, n), NULL, {0}};
    for (size_t i = 0; i < n; i++) {
        r.confidence[i] = floor(lcg_draw(&seed) * 20) / 20;
        r.local[i] = lcg_draw(&seed) < r.confidence[i];
        r.reference[i] = lcg_draw(&seed) < 0.9;
    }
    r.c = (struct cascade){n, r.confidence, r.local, r.reference, NULL, false};
    return r;
}

/* Every point is what its threshold does to the rows; the ends are the two models alone. */
static void properties(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rows r = draw_rows(seed, 30 + seed);
        r.confidence[seed] = NAN;
        struct curve v;
        CHECK(curve_make(&v, &r.c, MISSING_HANDED_OFF, NULL) == 0 && v.n_missing == 1);
        CHECK(v.points[0].n_handoff == 0 && v.points[0].metric == v.local && isnan(v.points[0].threshold));
        CHECK(v.points[v.n_points - 1].n_handoff == r.c.n && v.points[v.n_points - 1].metric == v.reference);
        for (size_t i = 1; i < v.n_points; i++) {
            struct threshold_effect f = threshold_effect(&r.c, v.points[i].threshold);
            CHECK(f.n_handoff == v.points[i].n_handoff && v.points[i].n_handoff > v.points[i - 1].n_handoff);
            CHECK_NEAR(f.metric, v.points[i].metric, 1e-12);
            CHECK(curve_at(&v, v.points[i].threshold) == &v.points[i]);
            CHECK(curve_not_exceed(&v, v.points[i].rate) == &v.points[i]);
            CHECK(curve_closest(&v, v.points[i].rate) == &v.points[i]);
        }
        curve_free(&v);
        rows_free(&r);
    }
}

static void paired_bootstrap(void)
{
    struct rows a = draw_rows(3, 400), b = draw_rows(3, 400);
    struct goal goal = {.points = 0.01};
    struct resampling how = {.seed = 9, .n_resamples = 300, .n_threads = 2};
    struct interval same = match_rate_bootstrap_delta(&a.c, &b.c, &goal, MATCH_FIRST, &how);
    CHECK(same.lo == 0 && same.hi == 0);
    for (size_t i = 0; i < b.c.n; i++)
        b.confidence[i] = 1 - b.confidence[i];  /* the worst order needs more handoffs */
    struct interval worse = match_rate_bootstrap_delta(&a.c, &b.c, &goal, MATCH_FIRST, &how);
    CHECK(worse.hi < 0);
    goal = (struct goal){.fixed = true, .value = 2};
    CHECK(match_rate_bootstrap(&a.c, &goal, MATCH_FIRST, &how).lo == INFINITY);
    CHECK(match_rate_bootstrap_delta(&a.c, &b.c, &goal, MATCH_FIRST, &how).why != NULL);
    goal = (struct goal){.target = a.local};    /* to be as good as oneself needs nothing */
    CHECK(match_rate_bootstrap(&a.c, &goal, MATCH_FIRST, &how).hi == 0);
    rows_free(&a);
    rows_free(&b);
}

static void groups(void)
{
    double confidence[] = {0.9, 0.2, 0.8, 0.6, 0.7, NAN}, local[] = {1, 0, 1, 1, 0, 1};
    double reference[] = {1, 1, 1, 0, 1, 1};
    uint32_t group[] = {0, 0, 1, 1, 1, 2};
    struct cascade c = {6, confidence, local, reference, NULL, false};
    struct cascade min = cascade_groups(&c, group, 3, GROUP_MIN), mean = cascade_groups(&c, group, 3, GROUP_MEAN);
    struct cascade last = cascade_groups(&c, group, 3, GROUP_LAST);
    CHECK(min.confidence[0] == 0.2 && min.confidence[1] == 0.6 && isnan(min.confidence[2]));
    CHECK_NEAR(mean.confidence[0], 0.55, 1e-15);
    CHECK_NEAR(mean.confidence[1], 0.7, 1e-15);
    CHECK(last.confidence[0] == 0.2 && last.confidence[1] == 0.7 && isnan(last.confidence[2]));
    struct curve v;
    CHECK(curve_make(&v, &min, MISSING_HANDED_OFF, NULL) == 0);
    CHECK(v.n == 3 && v.n_points == 4);
    CHECK_NEAR(v.local, 4.0 / 6, 1e-15);
    CHECK_NEAR(v.points[2].metric, 5.0 / 6, 1e-15);     /* groups 2 and 0 away, group 1 kept */
    CHECK_NEAR(v.points[2].rate, 2.0 / 3, 1e-15);
    curve_free(&v);
    cascade_groups_free(&min);
    cascade_groups_free(&mean);
    cascade_groups_free(&last);
}

static double tier_gain(double cost, double quality, double slope)
{
    return quality - slope * cost;
}

/* For every price of quality the frontier holds the best pair of thresholds, found here by trying all. */
static void tiers_by_force(void)
{
    enum { N = 60 };
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t x = seed;
        double confidence[N], value[3][N];
        for (size_t i = 0; i < N; i++) {
            confidence[i] = floor(lcg_draw(&x) * 25) / 25;
            value[0][i] = lcg_draw(&x) < confidence[i];
            value[1][i] = lcg_draw(&x) < 0.75;
            value[2][i] = lcg_draw(&x) < 0.92;
        }
        struct tiers t = {N, confidence, {value[0], value[1], value[2]}, NULL, false, {0.1, 1, 4}};
        struct tier_point *p;
        size_t n = tier_frontier(&t, &p);
        CHECK(n > 1 && p[0].cost == 0.1 && p[0].share[0] == 1);
        for (double slope = 0; slope < 1; slope += 0.01) {
            double best = -INFINITY, hull = -INFINITY;
            for (int lo = 0; lo <= 26; lo++)
                for (int hi = lo; hi <= 26; hi++) {
                    double cost = 0, quality = 0;
                    for (size_t i = 0; i < N; i++) {
                        int tier = confidence[i] < lo / 25.0 ? 2 : confidence[i] < hi / 25.0 ? 1 : 0;
                        cost += t.cost[0] + (tier ? t.cost[tier] : 0);
                        quality += value[tier][i];
                    }
                    best = fmax(best, tier_gain(cost / N, quality / N, slope));
                }
            for (size_t i = 0; i < n; i++)
                hull = fmax(hull, tier_gain(p[i].cost, p[i].metric, slope));
            CHECK_NEAR(hull, best, 1e-12);
        }
        for (size_t i = 0; i < n; i++) {
            double quality = 0, rows[3] = {0, 0, 0};
            for (size_t k = 0; k < N; k++) {
                int tier = confidence[k] < p[i].low ? 2 : confidence[k] < p[i].high ? 1 : 0;
                quality += value[tier][k] / N;
                rows[tier] += 1.0 / N;
            }
            CHECK_NEAR(p[i].metric, quality, 1e-12);
            CHECK_NEAR(p[i].share[1], rows[1], 1e-12);
            CHECK_NEAR(p[i].share[2], rows[2], 1e-12);
            CHECK(i == 0 || (p[i].cost > p[i - 1].cost && p[i].metric > p[i - 1].metric));
        }
        free(p);
    }
}

static void costs_and_refusals(void)
{
    struct cost_model m = {40, 900, 0, 0.01};
    struct cost at = cost_at(&m, 0.25);
    CHECK_NEAR(at.ms, 265, 1e-12);
    CHECK_NEAR(at.price, 0.0025, 1e-15);
    double confidence[] = {0.5, 0.6}, value[] = {0, 1}, bad[] = {0, NAN}, no_words[] = {0, 0};
    struct curve v;
    struct err e = {0};
    CHECK(curve_make(&v, &(struct cascade){0}, MISSING_IS_ERROR, &e) < 0 && e.code == EXIT_BAD_INPUT);
    CHECK(curve_make(&v, &(struct cascade){2, confidence, bad, value, NULL, false}, MISSING_IS_ERROR, &e) < 0);
    CHECK(curve_make(&v, &(struct cascade){2, confidence, value, value, no_words, true}, MISSING_IS_ERROR, &e) < 0);
    struct tier_point *p;
    struct tiers t = {2, bad, {value, value, value}, NULL, false, {0, 1, 2}};
    CHECK(tier_frontier(&t, &p) == 0 && p == NULL);
}

int main(void)
{
    RUN(curve_cases);
    RUN(bootstrap_cases);
    RUN(properties);
    RUN(paired_bootstrap);
    RUN(groups);
    RUN(tiers_by_force);
    RUN(costs_and_refusals);
    cJSON_Delete(cases_file);
    return test_report();
}
