/* Distributions, risk control, thresholds and recalibration against ../shared/metrics/threshold.json. */
#include "eval/calib.h"
#include "eval/curve.h"
#include "eval/special.h"
#include "tests/metric_cases.h"

struct rows { size_t n; double *confidence, *local, *reference; uint8_t *wrong; };

static struct rows rows_of(const cJSON *records)
{
    size_t n = case_count(records), i = 0;
    struct rows r = {n, NEW(double, n), NEW(double, n), NEW(double, n), NEW(uint8_t, n)};
    const cJSON *rec;
    cJSON_ArrayForEach(rec, records) {
        r.confidence[i] = case_get(rec, "confidence");
        r.local[i] = case_get(rec, "local_correct");
        r.reference[i] = case_get(rec, "ref_correct");
        r.wrong[i] = r.local[i] == 0;
        i++;
    }
    return r;
}

static void rows_free(struct rows *r)
{
    free(r->confidence);
    free(r->local);
    free(r->reference);
    free(r->wrong);
}

static void check_figure(const char *id, const char *what, struct figure got, const cJSON *want)
{
    check_value(id, what, got.value, want, 1e-9);
    CHECK_MSG(isnan(got.value) == (got.why != NULL), "%s: %s is %g with reason %s", id, what, got.value,
              got.why ? got.why : "(none)");
}

static void check_sgr(const char *id, const struct ranking *r, double alpha, double delta, const cJSON *want)
{
    struct sgr s = selection_guaranteed_risk(r, alpha, delta);
    const cJSON *trace = json_get(want, "trace"), *step;
    CHECK_MSG(s.n_steps == (int)case_get(want, "iterations"), "%s: %d steps", id, s.n_steps);
    if (!CHECK_MSG((size_t)s.n_steps == case_count(trace), "%s: %d steps", id, s.n_steps))
        return;
    int i = 0;
    cJSON_ArrayForEach(step, trace) {
        struct sgr_step *got = &s.trace[i++];
        CHECK_MSG((double)got->z == case_get(step, "z") && (double)got->n_kept == case_get(step, "n_kept")
                  && (double)got->errors == case_get(step, "errors"), "%s: step %d", id, i);
        check_value(id, "threshold", got->threshold, json_get(step, "threshold"), 0);
        check_value(id, "bound", got->bound, json_get(step, "bound"), 1e-9);
    }
    check_figure(id, "threshold_last_valid", s.threshold_valid, json_get(want, "threshold_last_valid"));
}

static void risk_cases(void)
{
    NEED_CASES("threshold.json");
    const cJSON *c, *row;
    cJSON_ArrayForEach(c, json_get(cases_file, "risk_control")) {
        const char *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect");
        struct rows in = rows_of(json_get(c, "records"));
        size_t n_grid, g = 0;
        double *grid = case_numbers(json_get(c, "grid"), &n_grid);
        double alpha = 1 - case_get(c, "target_accuracy"), delta = case_get(c, "delta");
        struct ranking r;
        CHECK(ranking_make(&r, in.confidence, in.wrong, NULL, in.n, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL) == 0);
        struct risk_point *table = NEW(struct risk_point, n_grid);
        risk_table(&r, grid, n_grid, alpha, delta, table);
        CHECK(n_grid == case_count(json_get(want, "table")));
        cJSON_ArrayForEach(row, json_get(want, "table")) {
            struct risk_point *p = &table[g++];
            CHECK_MSG((double)p->n_kept == case_get(row, "n_kept") && (double)p->errors == case_get(row, "errors")
                      && p->lambda == case_get(row, "lambda"), "%s: row %zu", id, g);
            check_value(id, "p", p->p, json_get(row, "p"), 1e-9);
            check_value(id, "cp_upper", p->cp_upper, json_get(row, "cp_upper"), 1e-9);
        }
        struct risk_choice s = risk_choose(&r, table, n_grid, alpha, delta, case_get(c, "fixed_sequence_start"));
        check_figure(id, "empirical", s.empirical_lowest, json_get(want, "empirical_lowest"));
        check_figure(id, "pointwise", s.pointwise_cp_lowest, json_get(want, "pointwise_cp_lowest"));
        check_figure(id, "bonferroni", s.ltt_bonferroni, json_get(want, "ltt_bonferroni"));
        check_figure(id, "fixed sequence", s.ltt_fixed_sequence, json_get(want, "ltt_fixed_sequence"));
        check_figure(id, "crc", s.crc_joint, json_get(want, "crc_joint"));
        check_sgr(id, &r, alpha, delta, json_get(want, "sgr"));
        ranking_free(&r);
        free(table);
        free(grid);
        rows_free(&in);
    }
}

static void bound_cases(void)
{
    NEED_CASES("threshold.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "binomial_bounds")) {
        double n = case_get(c, "n"), k = case_get(c, "k"), delta = case_get(c, "delta"), lo, hi;
        const cJSON *cp = json_get(c, "cp_two_sided"), *wilson = json_get(c, "wilson_two_sided");
        char id[64];
        snprintf(id, sizeof id, "%g of %g at %g", k, n, delta);
        check_value(id, "upper", clopper_pearson_upper(k, n, delta), json_get(c, "cp_upper_one_sided"), 1e-12);
        check_value(id, "lower", clopper_pearson_lower(k, n, delta), json_get(c, "cp_lower_one_sided"), 1e-12);
        check_value(id, "lo", clopper_pearson_lower(k, n, delta / 2), cJSON_GetArrayItem(cp, 0), 1e-12);
        check_value(id, "hi", clopper_pearson_upper(k, n, delta / 2), cJSON_GetArrayItem(cp, 1), 1e-12);
        wilson_interval(k, n, delta, &lo, &hi);
        check_value(id, "Wilson lo", lo, cJSON_GetArrayItem(wilson, 0), 1e-12);
        check_value(id, "Wilson hi", hi, cJSON_GetArrayItem(wilson, 1), 1e-12);
    }
    cJSON_ArrayForEach(c, json_get(cases_file, "hoeffding_bentkus")) {
        double n = case_get(c, "n"), rhat = case_get(c, "rhat"), alpha = case_get(c, "alpha");
        check_value("hoeffding-bentkus", "p", hoeffding_bentkus_p(n, rhat, alpha), json_get(c, "hoeffding_bentkus_p"),
                    1e-9);
        if (!cJSON_IsNull(json_get(c, "binomial_p")))
            check_value("binomial", "p", binomial_cdf(round(n * rhat), n, alpha), json_get(c, "binomial_p"), 1e-12);
    }
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
    check_value(id, what, got->rate, json_get(want, "rate"), 1e-9);
    check_value(id, what, got->metric, json_get(want, "metric"), 1e-9);
    CHECK_MSG(got->threshold == (cJSON_IsNull(threshold) ? INFINITY : case_number(threshold)),
              "%s: %s has threshold %.17g", id, what, got->threshold);
}

static void check_costs(const char *id, const struct curve *v, const cJSON *list)
{
    const cJSON *c;
    cJSON_ArrayForEach(c, list) {
        double c_handoff = case_get(c, "c_handoff"), c_wrong = case_get(c, "c_wrong");
        const struct curve_point *best = cheapest_point(v, c_handoff, c_wrong), *last = &v->points[v->n_points - 1];
        check_point(id, "cheapest", best, c);
        check_value(id, "cost", routing_cost(v, best, c_handoff, c_wrong), json_get(c, "cost"), 1e-9);
        check_value(id, "all local", routing_cost(v, v->points, c_handoff, c_wrong), json_get(c, "cost_all_local"),
                    1e-9);
        check_value(id, "all away", routing_cost(v, last, c_handoff, c_wrong), json_get(c, "cost_all_handoff"), 1e-9);
        check_value(id, "bayes", bayes_threshold(v->reference, c_handoff, c_wrong),
                    json_get(c, "bayes_threshold_if_calibrated"), 1e-9);
    }
}

static void check_quant(const char *id, const struct rows *in, double base_rate, const cJSON *want)
{
    struct cascade cascade = {in->n, in->confidence, in->local, in->reference, NULL, false};
    struct curve v;
    const cJSON *rate, *same = json_get(want, "match_bf16_rate_at_0.85"), *match = json_get(want, "match_reference");
    CHECK(curve_make(&v, &cascade, MISSING_IS_ERROR, NULL) == 0);
    check_value(id, "rate at 0.85", threshold_effect(&cascade, 0.85).rate, json_get(want, "rate_at_0.85"), 1e-9);
    cJSON_ArrayForEach(rate, json_get(want, "target_rate")) {
        check_point(id, "not_exceed", curve_not_exceed(&v, atof(rate->string)), json_get(rate, "not_exceed"));
        check_point(id, "closest", curve_closest(&v, atof(rate->string)), json_get(rate, "closest"));
    }
    check_value(id, "target rate", base_rate, json_get(same, "target_rate"), 1e-9);
    check_point(id, "base rate", curve_not_exceed(&v, base_rate), json_get(same, "not_exceed"));
    check_point(id, "base rate", curve_closest(&v, base_rate), json_get(same, "closest"));
    struct match m = curve_match(&v, v.reference), near = curve_match(&v, curve_within(&v, 0.01));
    check_point(id, "first", m.first, json_get(match, "first"));
    check_point(id, "conservative", m.conservative, json_get(match, "conservative"));
    check_point(id, "within a point", near.first, json_get(match, "first_within_1pt"));
    check_costs(id, &v, json_get(want, "cost"));
    curve_free(&v);
    struct ranking r;
    CHECK(ranking_make(&r, in->confidence, in->wrong, NULL, in->n, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL) == 0);
    for (int tenth = 8; tenth <= 9; tenth++) {
        const cJSON *kept = json_get(want, tenth == 8 ? "kept_accuracy_0.8_empirical" : "kept_accuracy_0.9_empirical");
        struct kept_accuracy k = kept_accuracy_lowest(&r, tenth / 10.0);
        if (cJSON_IsNull(kept)) {
            CHECK_MSG(k.threshold.why != NULL, "%s: kept accuracy should be unreachable", id);
            continue;
        }
        check_value(id, "kept threshold", k.threshold.value, json_get(kept, "threshold"), 0);
        check_value(id, "kept coverage", k.coverage, json_get(kept, "coverage"), 1e-9);
        check_value(id, "kept accuracy", k.accuracy, json_get(kept, "kept_accuracy"), 1e-9);
    }
    ranking_free(&r);
}

static void quant_cases(void)
{
    NEED_CASES("threshold.json");
    const cJSON *c, *quant;
    cJSON_ArrayForEach(c, json_get(cases_file, "quant_tables")) {
        struct rows base = rows_of(json_get(json_get(c, "quants"), "bf16"));
        struct cascade cascade = {base.n, base.confidence, base.local, base.reference, NULL, false};
        double base_rate = threshold_effect(&cascade, 0.85).rate;
        cJSON_ArrayForEach(quant, json_get(c, "quants")) {
            struct rows in = rows_of(quant);
            char id[64];
            snprintf(id, sizeof id, "%s %s", json_string(c, "id"), quant->string);
            check_quant(id, &in, base_rate, json_get(json_get(c, "expect"), quant->string));
            rows_free(&in);
        }
        rows_free(&base);
    }
}

/* Starts with the error the case names, if it names one. */
static bool refused(const char *id, const char *why, const cJSON *want)
{
    const char *error = json_string(want, "error");
    CHECK_MSG((error == NULL) == (why == NULL), "%s: reason is %s", id, why ? why : "(none)");
    if (error && why)
        CHECK_MSG(strncmp(why, error, strlen(error)) == 0, "%s: reason is %s", id, why);
    return error || why;
}

static void check_platt(const char *id, struct platt f, const cJSON *want, const double *query, size_t n_query)
{
    if (refused(id, f.why, want))
        return;
    check_value(id, "A", f.a, json_get(want, "A"), 1e-6);
    check_value(id, "B", f.b, json_get(want, "B"), 1e-6);
    if (json_get(want, "nll_mean"))
        check_value(id, "nll", f.nll, json_get(want, "nll_mean"), 1e-9);
    for (size_t i = 0; i < n_query; i++)
        check_value(id, "query", platt_map(&f, query[i]), cJSON_GetArrayItem(json_get(want, "query"), (int)i), 1e-6);
}

static void check_temperature(const char *id, struct temperature f, const cJSON *want, const double *query,
                              size_t n_query)
{
    if (refused(id, f.why, want))
        return;
    double loose = f.at_bound ? 1e-4 : 1e-5;
    CHECK_MSG(f.at_bound == cJSON_IsTrue(json_get(want, "at_bound")), "%s: at_bound", id);
    check_value(id, "T", f.t, json_get(want, "T"), loose);
    check_value(id, "nll", f.nll, json_get(want, "nll_mean"), 1e-6);
    check_value(id, "nll before", f.nll_before, json_get(want, "nll_mean_T1"), 1e-9);
    for (size_t i = 0; i < n_query; i++)
        check_value(id, "query", temperature_map(&f, query[i]), cJSON_GetArrayItem(json_get(want, "query"), (int)i),
                    loose);
}

static void check_isotonic(const char *id, const struct ranking *r, const cJSON *want, const double *query,
                           size_t n_query)
{
    struct isotonic f = isotonic_fit(r);
    const cJSON *blocks = json_get(want, "blocks"), *b;
    size_t i = 0;
    if (CHECK_MSG(f.n_blocks == case_count(blocks), "%s: %zu blocks", id, f.n_blocks))
        cJSON_ArrayForEach(b, blocks) {
            check_value(id, "x_min", f.blocks[i].x_min, json_get(b, "x_min"), 0);
            check_value(id, "x_max", f.blocks[i].x_max, json_get(b, "x_max"), 0);
            check_value(id, "value", f.blocks[i].value, json_get(b, "value"), 1e-9);
            CHECK_MSG((double)f.blocks[i].n == case_get(b, "n"), "%s: block %zu of %zu", id, i, f.blocks[i].n);
            i++;
        }
    check_value(id, "brier", f.brier, json_get(want, "brier_after"), 1e-9);
    for (i = 0; i < n_query; i++)
        check_value(id, "query", isotonic_map(&f, query[i]), cJSON_GetArrayItem(json_get(want, "query"), (int)i), 1e-9);
    isotonic_free(&f);
}

static void recalibration_cases(void)
{
    NEED_CASES("threshold.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "recalibration")) {
        const char *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect");
        size_t n, n_query;
        double *confidence = case_numbers(json_get(c, "confidence"), &n);
        double *query = case_numbers(json_get(c, "query"), &n_query);
        uint8_t *wrong = case_labels(json_get(c, "correct"));
        for (size_t i = 0; i < n; i++)
            wrong[i] = !wrong[i];
        struct ranking r;
        CHECK(ranking_make(&r, confidence, wrong, NULL, n, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL) == 0);
        check_platt(id, platt_fit(&r), json_get(want, "platt_mle"), query, n_query);
        if (json_get(want, "platt_targets"))
            check_platt(id, platt_fit_smoothed(&r), json_get(want, "platt_targets"), query, n_query);
        check_temperature(id, temperature_fit(&r), json_get(want, "temperature"), query, n_query);
        check_isotonic(id, &r, json_get(want, "isotonic"), query, n_query);
        ranking_free(&r);
        free(confidence);
        free(query);
        free(wrong);
    }
}

/* Distributions against sums and identities. */
static void distributions(void)
{
    for (double n = 1; n < 60; n += 7)
        for (double p = 0.03; p < 1; p += 0.19) {
            double sum = 0;
            for (double k = 0; k < n; k++) {
                double choose = 1;
                for (double j = 0; j < k; j++)
                    choose *= (n - j) / (j + 1);
                double pmf = choose * pow(p, k) * pow(1 - p, n - k);
                CHECK_NEAR(binomial_pmf(k, n, p), pmf, 1e-13 * pmf + 1e-300);
                sum += pmf;
                CHECK_NEAR(binomial_cdf(k, n, p), sum, 1e-13);
            }
            CHECK(binomial_cdf(n, n, p) == 1 && binomial_cdf(-1, n, p) == 0);
        }
    for (double z = -6; z <= 6; z += 0.25)
        CHECK_NEAR(normal_quantile(normal_cdf(z)), z, z > 5 ? 1e-8 : 1e-10);
    CHECK_NEAR(normal_quantile(0.975), NORMAL_975, 1e-15);
    CHECK_NEAR(student_t_quantile(0.975, 1), tan(0.475 * acos(-1)), 1e-11);
    CHECK_NEAR(student_t_quantile(0.975, 2), 0.95 * sqrt(2 / (1 - 0.95 * 0.95)), 1e-12);
    CHECK_NEAR(student_t_quantile(0.025, 2), -0.95 * sqrt(2 / (1 - 0.95 * 0.95)), 1e-12);
    double z3 = pow(NORMAL_975, 3);             /* the expansion of t about z */
    CHECK_NEAR(student_t_quantile(0.975, 1e7), NORMAL_975 + (z3 + NORMAL_975) / 4e7, 1e-9);
    CHECK(isnan(normal_quantile(-1)) && normal_quantile(1) == INFINITY);
    double k = 3e6, n = 1e8;                    /* far out, the normal approximation with its first correction holds */
    double sd = sqrt(n * 0.03 * 0.97), skew = 0.94 / (6 * sd) * 0.3989422804014327;
    CHECK_NEAR(binomial_cdf(k, n, 0.03), 0.5 + 0.3989422804014327 / (2 * sd) + skew, 1e-9);
}

static void maps_refuse(void)
{
    double confidence[] = {0.7, 0.7, 0.7};
    uint8_t wrong[] = {0, 1, 0};
    struct ranking r;
    CHECK(ranking_make(&r, confidence, wrong, NULL, 3, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL) == 0);
    CHECK(strncmp(platt_fit(&r).why, "constant", 8) == 0);
    struct isotonic f = isotonic_fit(&r);
    CHECK_NEAR(isotonic_map(&f, 0.1), 2.0 / 3, 1e-15);
    CHECK(isnan(isotonic_map(&f, NAN)));
    isotonic_free(&f);
    ranking_free(&r);
    CHECK(ranking_make(&r, NULL, NULL, NULL, 0, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL) == 0);
    CHECK(platt_fit(&r).why && temperature_fit(&r).why && kept_accuracy_lowest(&r, 0.5).threshold.why);
    CHECK(selection_guaranteed_risk(&r, 0.1, 0.1).threshold_valid.why != NULL);
    f = isotonic_fit(&r);
    CHECK(f.n_blocks == 0 && isnan(isotonic_map(&f, 0.5)));
    isotonic_free(&f);
    ranking_free(&r);
    CHECK(zero_error_minimum(0.95, 0.05) == 59 && zero_error_minimum(0.99, 0.05) == 299);
}

int main(void)
{
    RUN(distributions);
    RUN(bound_cases);
    RUN(risk_cases);
    RUN(quant_cases);
    RUN(recalibration_cases);
    RUN(maps_refuse);
    cJSON_Delete(cases_file);
    return test_report();
}
