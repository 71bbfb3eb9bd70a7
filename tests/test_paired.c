/* Paired comparisons against ../shared/metrics: drift and McNemar (threshold.json), rank agreement (auroc.json). */
#include "eval/paired.h"
#include "tests/metric_cases.h"

static void check_rank(const char *id, const double *a, const double *b, size_t n, const cJSON *want)
{
    struct rank_agreement g = rank_agreement(a, b, n);
    check_value(id, "spearman", g.spearman.value, json_get(want, "spearman"), 1e-9);
    check_value(id, "kendall_tau_b", g.kendall_tau_b.value, json_get(want, "kendall_tau_b"), 1e-9);
    check_value(id, "pairs", (double)g.pairs, json_get(want, "pairs"), 0);
    CHECK_MSG(isnan(g.spearman.value) == (g.spearman.why != NULL), "%s: reason", id);
    const char *names[] = {"concordant", "discordant", "tied_only_a", "tied_only_b", "tied_both"};
    int64_t counts[] = {g.concordant, g.discordant, g.tied_only_a, g.tied_only_b, g.tied_both};
    for (int i = 0; i < 5; i++)
        if (json_get(want, names[i]))
            check_value(id, names[i], (double)counts[i], json_get(want, names[i]), 0);
    if (json_get(want, "flip_rate"))
        check_value(id, "flip_rate", g.flip_rate.value, json_get(want, "flip_rate"), 1e-9);
    if (json_get(want, "discordant_pairs")) {
        check_value(id, "discordant", (double)g.discordant, json_get(want, "discordant_pairs"), 0);
        check_value(id, "concordant", (double)g.concordant, json_get(want, "concordant_pairs"), 0);
    }
}

static void rank_cases(void)
{
    NEED_CASES("auroc.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "rank_agreement")) {
        size_t n;
        double *a = case_numbers(json_get(c, "a"), &n), *b = case_numbers(json_get(c, "b"), &n);
        check_rank(json_string(c, "id"), a, b, n, json_get(c, "expect"));
        free(a);
        free(b);
    }
    cJSON_Delete(cases_file);
    cases_file = NULL;
}

static void fill(const cJSON *records, double *confidence, uint8_t *wrong)
{
    const cJSON *rec;
    size_t i = 0;
    cJSON_ArrayForEach(rec, records) {
        confidence[i] = case_get(rec, "confidence");
        wrong[i++] = case_get(rec, "local_correct") == 0;
    }
}

static void check_interval(const char *id, const char *what, struct interval got, const cJSON *want)
{
    check_value(id, what, got.lo, cJSON_GetArrayItem(want, 0), 1e-9);
    check_value(id, what, got.hi, cJSON_GetArrayItem(want, 1), 1e-9);
}

static void check_answers(const char *id, const uint8_t *wrong_a, const uint8_t *wrong_b, size_t n, const cJSON *all)
{
    const cJSON *want = json_get(all, "mcnemar");
    struct mcnemar m = mcnemar(wrong_a, wrong_b, n);
    check_value(id, "both", (double)m.both, json_get(want, "both_correct"), 0);
    check_value(id, "only base", (double)m.only_a, json_get(want, "only_bf16_correct"), 0);
    check_value(id, "only quant", (double)m.only_b, json_get(want, "only_quant_correct"), 0);
    check_value(id, "neither", (double)m.neither, json_get(want, "both_wrong"), 0);
    check_value(id, "p_exact", m.p_exact, json_get(want, "p_exact"), 1e-9);
    check_value(id, "p_mid", m.p_mid, json_get(want, "p_mid"), 1e-9);
    check_value(id, "delta", m.delta.value, json_get(want, "accuracy_delta"), 1e-9);
    check_interval(id, "delta interval", m.wald, json_get(want, "ci95_wald_delta"));
    check_value(id, "answer flips", (double)(m.only_a + m.only_b) / (double)n, json_get(all, "answer_flip_rate"), 1e-9);
}

static void check_confidence(const char *id, const double *a, const double *b, size_t n, const cJSON *want)
{
    struct drift d = drift(a, b, n);
    check_value(id, "mean", d.mean.value, json_get(want, "mean_drift"), 1e-9);
    check_value(id, "sd", d.sd.value, json_get(want, "sd_diff"), 1e-9);
    check_interval(id, "t interval", d.t, json_get(want, "ci95_t"));
    struct ks k = ks_two_sample(a, n, b, n);
    check_value(id, "ks", k.d.value, json_get(want, "ks_statistic"), 1e-9);
    check_value(id, "ks asymptotic p", k.p_asymptotic.value, json_get(want, "ks_p_asymptotic_scipy"), 1e-9);
    check_value(id, "ks exact p", k.p_exact.value, json_get(want, "ks_p_exact_scipy"), 1e-9);
    check_rank(id, a, b, n, want);
    const cJSON *flips = json_get(want, "handoff_flips_at_0.85");
    struct handoff_flips f = handoff_flips(a, b, n, 0.85);
    check_value(id, "both keep", (double)f.both_keep, json_get(flips, "both_keep"), 0);
    check_value(id, "only base", (double)f.only_a_hands_off, json_get(flips, "only_bf16_hands_off"), 0);
    check_value(id, "only quant", (double)f.only_b_hands_off, json_get(flips, "only_quant_hands_off"), 0);
    check_value(id, "both hand off", (double)f.both_hand_off, json_get(flips, "both_hand_off"), 0);
}

static void drift_cases(void)
{
    NEED_CASES("threshold.json");
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "drift")) {
        const char *id = json_string(c, "id");
        size_t n = case_count(json_get(c, "bf16"));
        double *a = NEW(double, n), *b = NEW(double, n);
        uint8_t *wrong_a = NEW(uint8_t, n), *wrong_b = NEW(uint8_t, n);
        CHECK(n == case_count(json_get(c, "quant")));
        fill(json_get(c, "bf16"), a, wrong_a);
        fill(json_get(c, "quant"), b, wrong_b);
        check_confidence(id, a, b, n, json_get(c, "expect"));
        check_answers(id, wrong_a, wrong_b, n, json_get(c, "expect"));
        free(a);
        free(b);
        free(wrong_a);
        free(wrong_b);
    }
    cJSON_ArrayForEach(c, json_get(cases_file, "mcnemar")) {
        size_t only_a = (size_t)case_get(c, "only_a"), only_b = (size_t)case_get(c, "only_b");
        check_value("mcnemar", "p_exact", mcnemar_of(7, only_a, only_b, 3).p_exact, json_get(c, "p_exact"), 1e-12);
    }
    cJSON_Delete(cases_file);
    cases_file = NULL;
}

/* Where two methods meet they agree; paths of unequal samples become those of equal ones. */
static void kolmogorov(void)
{
    /* Matrix up to n = 1000, carried on to 1001, and the expansion there, whose error is of order n^-2. */
    for (double z = 0.4; z < 2; z += 0.2) {
        double at_999 = kolmogorov_sf(999, z / sqrt(999)), at_1000 = kolmogorov_sf(1000, z / sqrt(1000));
        CHECK_NEAR(kolmogorov_sf(1001, z / sqrt(1001)), 2 * at_1000 - at_999, 1e-7);
    }
    double at = 2 / sqrt(60);                           /* the tail begins at n d^2 = 4 */
    CHECK_NEAR(kolmogorov_sf(60, at * (1 + 1e-9)), kolmogorov_sf(60, at * (1 - 1e-9)), 1e-10);
    CHECK_NEAR(kolmogorov_sf(1, 0.75), 0.5, 1e-13);     /* P(max(u, 1 - u) >= d) = 2 - 2 d */
    CHECK(kolmogorov_sf(10, 0.05) == 1 && kolmogorov_sf(10, 1) == 0 && isnan(kolmogorov_sf(0, 0.5)));
    double a[] = {1, 2, 3, 4, 5}, b[] = {3.5, 4.5, 6, 7};       /* D = 3/5, with 126 possible orders */
    struct ks k = ks_two_sample(a, 5, b, 4);
    CHECK_NEAR(k.d.value, 0.6, 1e-15);
    int extreme = 0, orders = 0;
    for (int mask = 0; mask < 512; mask++) {
        double x = 0, y = 0, most = 0;
        for (int i = 0; i < 9; i++) {
            *(mask >> i & 1 ? &x : &y) += 1;
            most = fmax(most, fabs(x / 5 - y / 4));
        }
        orders += x == 5;
        extreme += x == 5 && most >= 0.6 - 1e-12;
    }
    CHECK(orders == 126);
    CHECK_NEAR(k.p_exact.value, (double)extreme / orders, 1e-14);
    CHECK(ks_two_sample(a, 0, b, 4).d.why != NULL);
}

/* Against counting all pairs. */
static void rank_by_force(void)
{
    enum { N = 137 };
    double a[N], b[N];
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t x = seed;
        int64_t discordant = 0, tied_both = 0;
        for (int i = 0; i < N; i++) {
            a[i] = floor(lcg_draw(&x) * 30);
            b[i] = floor(lcg_draw(&x) * 15) + a[i] / 3;
        }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i; j++) {
                discordant += (a[i] - a[j]) * (b[i] - b[j]) < 0;
                tied_both += a[i] == a[j] && b[i] == b[j];
            }
        struct rank_agreement g = rank_agreement(a, b, N);
        CHECK(g.discordant == discordant && g.tied_both == tied_both);
    }
    CHECK(rank_agreement(a, b, 1).spearman.why != NULL);
}

static void verdicts(void)
{
    double p[] = {0.01, 0.04, NAN, 0.03, 0.5}, adjusted[5];
    holm_adjust(p, 5, adjusted);
    CHECK_NEAR(adjusted[0], 0.04, 1e-15);
    CHECK_NEAR(adjusted[3], 0.09, 1e-15);
    CHECK_NEAR(adjusted[1], 0.09, 1e-15);       /* never below a smaller p's: 0.08 is raised */
    CHECK_NEAR(adjusted[4], 0.5, 1e-15);
    CHECK(isnan(adjusted[2]));
    CHECK(verdict_of(interval_of(-0.009, 0.02), 0.01) == VERDICT_OK);
    CHECK(verdict_of(interval_of(-0.05, -0.011), 0.01) == VERDICT_REGRESSED);
    CHECK(verdict_of(interval_of(-0.05, 0.001), 0.01) == VERDICT_UNDECIDED);
    CHECK(verdict_of(interval_of(0, 0), 0) == VERDICT_OK);
    CHECK(verdict_of(interval_undefined("no rows"), 0.01) == VERDICT_UNDECIDED);
    CHECK_STR(verdict_name(VERDICT_UNDECIDED), "undecided");
    struct margin_test t = margin_test(-0.03, 0.01, 0.01);
    CHECK_NEAR(t.regressed, 0.022750131948179209, 1e-14);
    CHECK_NEAR(t.ok, 1 - t.regressed, 1e-14);
    CHECK(margin_test(0, 0, 0.01).ok == 0 && isnan(margin_test(NAN, 0, 0).ok));
}

static void too_few_rows(void)
{
    double a[] = {0.5}, b[] = {0.6};
    struct drift d = drift(a, b, 1);
    CHECK_NEAR(d.mean.value, 0.1, 1e-15);
    CHECK(d.sd.why && d.t.why && drift(a, b, 0).mean.why);
    struct mcnemar m = mcnemar_of(0, 0, 0, 0);
    CHECK(m.p_exact == 1 && m.p_mid == 1 && m.delta.why && m.wald.why);
}

int main(void)
{
    RUN(rank_cases);
    RUN(drift_cases);
    RUN(kolmogorov);
    RUN(rank_by_force);
    RUN(verdicts);
    RUN(too_few_rows);
    return test_report();
}
