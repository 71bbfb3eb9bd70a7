/* Sample-size formulae against ../shared/metrics/planner.json. */
#include "eval/calib.h"
#include "eval/planner.h"
#include "tests/metric_cases.h"

static void planner_cases(void)
{
    NEED_CASES("planner.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "auroc_difference")) {
        struct auroc_plan p = {case_get(c, "auroc_a"), case_get(c, "auroc_b"), case_get(c, "wrong_rate"),
                               case_get(c, "correlation"), case_get(c, "alpha"), case_get(c, "power")};
        check_value("auroc_difference", "n_total", plan_auroc_difference(&p), json_get(c, "n_total"), 0);
    }
    cJSON_ArrayForEach(c, json_get(cases_file, "mcnemar_pairs"))
        check_value("mcnemar_pairs", "n_pairs",
                    plan_mcnemar_pairs(case_get(c, "p_only_a_correct"), case_get(c, "p_only_b_correct"),
                                       case_get(c, "alpha"), case_get(c, "power")), json_get(c, "n_pairs"), 0);
    cJSON_ArrayForEach(c, json_get(cases_file, "hanley_mcneil"))
        check_value("hanley_mcneil", "var",
                    hanley_mcneil_var(case_get(c, "auroc"), case_get(c, "n_wrong"), case_get(c, "n_right")),
                    json_get(c, "hanley_mcneil_var"), 1e-12);
    cJSON_ArrayForEach(c, json_get(cases_file, "zero_error_minimum"))
        check_value("zero_error_minimum", "n", zero_error_minimum(case_get(c, "target_accuracy"), case_get(c, "delta")),
                    json_get(c, "n_min_zero_errors"), 0);
}

static void no_answer(void)
{
    struct auroc_plan same = {0.8, 0.8, 0.2, 0.5, 0.05, 0.8}, none = {0.8, 0.79, 0, 0.5, 0.05, 0.8};
    CHECK(isnan(plan_auroc_difference(&same)) && isnan(plan_auroc_difference(&none)));
    CHECK(isnan(plan_mcnemar_pairs(0.1, 0.1, 0.05, 0.8)) && isnan(plan_auroc_half_width(0.8, 0.2, 0)));
}

/* The planned n is enough, and one row fewer is not. */
static void half_width(void)
{
    double n = plan_auroc_half_width(0.8, 0.2, 0.03);
    CHECK(1.959963984540054 * sqrt(hanley_mcneil_var(0.8, 0.2 * n, 0.8 * n)) <= 0.03);
    CHECK(1.959963984540054 * sqrt(hanley_mcneil_var(0.8, 0.2 * (n - 1), 0.8 * (n - 1))) > 0.03);
}

int main(void)
{
    RUN(planner_cases);
    RUN(no_answer);
    RUN(half_width);
    cJSON_Delete(cases_file);
    return test_report();
}
