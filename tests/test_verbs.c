/* The figures of the verbs on the demo checkpoint's outputs against its own table of results, which another program
 * made; the pairing of runs; the stamps. */
#include "eval/auroc.h"
#include "eval/compares.h"
#include "eval/curves.h"
#include "tests/metric_cases.h"

#include <stdlib.h>

#define DEMO "../shared/demo/"

static struct inputs in = INPUTS_DEFAULT;
static struct arena arena;
static struct err e;

/* The reference outputs in our record form; the figures there leave out the stop token's row. */
static bool load(struct records *r, const char *name)
{
    struct text path = {0}, content = {0}, out = {0};
    text_printf(&path, DEMO "reference_outputs/%s.jsonl", name);
    bool read = file_read(path.data, (size_t)1 << 26, &content, &e) == 0;
    for (char *line = strtok(read ? content.data : NULL, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *o = json_parse(line, strlen(line), name, &e);
        const cJSON *confidence = json_get(o, "confidence");
        text_puts(&out, "{\"id\":");
        json_print(&out, json_get(o, "id"));
        text_puts(&out, ",\"task\":");
        json_print(&out, json_get(o, "task"));
        text_puts(&out, ",\"correct\":");
        json_print(&out, json_get(o, "correct"));
        text_puts(&out, ",\"score\":");
        json_print(&out, json_get(o, "score"));
        if (confidence) {
            text_puts(&out, ",\"confidence\":");
            json_print(&out, confidence);
        }
        text_puts(&out, ",\"entropy\":{\"mean\":");
        json_print(&out, json_get(o, "mean_entropy"));
        text_puts(&out, "}}\n");
        cJSON_Delete(o);
    }
    bool ok = read && CHECK_MSG(records_parse(r, name, out.data, out.len, NULL, &e) == 0, "%s", e.msg);
    text_free(&path);
    text_free(&content);
    text_free(&out);
    return ok;
}

/* Cell `column` (from 0) of the row that starts with `task`, in the table below `heading` of RESULTS.md; NaN if absent. */
static double published_cell(const char *results, const char *heading, const char *task, int column)
{
    const char *at = strstr(results, heading);
    struct text start = {0};
    text_printf(&start, "\n| %s |", task);
    at = at ? strstr(at, start.data) : NULL;
    text_free(&start);
    for (int i = 0; at && i <= column; i++)
        at = strchr(at + 1, '|');
    return at ? atof(at + 1) : NAN;
}

static void auroc_of_the_demo(void)
{
    struct text results = {0};
    struct records r;
    struct auroc_run run;
    if (file_read(DEMO "RESULTS.md", 1 << 20, &results, &e) || !load(&r, "demo.bf16"))
        SKIP("no ../shared");
    CHECK(auroc_run_make(&run, &in, &(struct auroc_options){0}, &r, false, &arena, &e) == 0);
    CHECK(run.n_tasks == 12 && run.n_mean == 12);
    double sum = 0, sum_entropy = 0;
    for (int i = 0; i < run.n_tasks; i++) {
        const struct auroc_task *t = &run.tasks[i];
        double want = published_cell(results.data, "### Demo model, bf16 weights", t->task, 6);
        double entropy = published_cell(results.data, "### Demo model, bf16 weights", t->task, 7);
        CHECK_MSG(fabs(t->confidence.auroc.value - want) <= 0.00051, "%s: %.5f, not %.3f", t->task,
                  t->confidence.auroc.value, want);
        CHECK_MSG(fabs(t->entropy.auroc.value - entropy) <= 0.00051, "%s: entropy %.5f, not %.3f", t->task,
                  t->entropy.auroc.value, entropy);
        CHECK(t->confidence.ci95.lo < t->confidence.auroc.value && t->confidence.auroc.value < t->confidence.ci95.hi);
        sum += want;
        sum_entropy += entropy;
    }
    CHECK_NEAR(run.mean_confidence.value, sum / 12, 0.0005);
    CHECK_NEAR(run.mean_entropy.value, sum_entropy / 12, 0.0005);
    records_close(&r);
    text_free(&results);
}

static void match_of_the_demo(void)
{
    static const char heading[] = "### Handoff share needed to match the reference, per task";
    struct text results = {0};
    struct records r, reference;
    struct curve_result curves;
    struct curve_options o = CURVE_OPTIONS_DEFAULT;
    o.resamples = 0;
    if (file_read(DEMO "RESULTS.md", 1 << 20, &results, &e) || !load(&r, "demo.bf16") || !load(&reference, "reference"))
        SKIP("no ../shared");
    struct curve_models models = {&r, &reference, NULL, NULL, false};
    CHECK_MSG(curve_result_make(&curves, &in, &o, &models, &arena, &e) == 0, "%s", e.msg);
    int checked = 0;
    for (int i = 0; i < curves.n_tasks; i++) {
        const struct curve_task *t = &curves.tasks[i];
        if (strncmp(t->task, "asr", 3) == 0)
            continue;                   /* scored by the mean of utterances there */
        double want = published_cell(results.data, heading, t->task, 3);
        CHECK_MSG(fabs(t->match.first.value - want) <= 0.0051, "%s: matches at %.4f, not %.3f", t->task,
                  t->match.first.value, want);
        CHECK_NEAR(t->local, published_cell(results.data, heading, t->task, 1), 0.00051);
        CHECK_NEAR(t->reference, published_cell(results.data, heading, t->task, 2), 0.00051);
        checked++;
    }
    CHECK(checked == 9);
    records_close(&r);
    records_close(&reference);
    text_free(&results);
}

static void comparison_of_the_demo(void)
{
    struct records base, fresh;
    struct compare_result c;
    const struct compare_options o = COMPARE_OPTIONS_DEFAULT;
    if (!load(&base, "demo.bf16") || !load(&fresh, "demo.2bit-g32"))
        SKIP("no ../shared");
    CHECK(compare_result_make(&c, &in, &o, &base, &fresh, &arena, &e) == 0);
    const struct compare_task *all = &c.tasks[c.n_tasks - 1];
    CHECK_STR(all->task, "all");
    CHECK_NEAR(all->accuracy_base.value, 0.550, 0.00051);       /* RESULTS.md, effect of weight quantisation */
    CHECK_NEAR(all->accuracy_new.value, 0.515, 0.00051);
    CHECK_NEAR(all->confidence_drift.value, -0.0491, 0.000051);
    CHECK(c.verdict == VERDICT_REGRESSED && all->n == 2200);
    CHECK(compare_result_make(&c, &in, &o, &base, &base, &arena, &e) == 0);
    all = &c.tasks[c.n_tasks - 1];
    CHECK(c.verdict == VERDICT_OK && all->lost == 0 && all->gained == 0 && all->confidence_drift.value == 0);
    CHECK(all->ci95.lo < 0 && all->ci95.hi > 0);                /* none of 2200 changed is not a width of zero */
    records_close(&base);
    records_close(&fresh);
}

/* ---- pairing and stamps ----------------------------------------------------------------------------------------- */

static void open_text(struct records *r, const char *name, const char *s)
{
    CHECK_MSG(records_parse(r, name, s, strlen(s), NULL, &e) == 0, "%s", e.msg);
}

static int pair(const char *a, const char *b, bool common, size_t *n)
{
    struct records x, y;
    struct columns c;
    struct inputs with = in;
    with.common = common;
    open_text(&x, "a.jsonl", a);
    open_text(&y, "b.jsonl", b);
    CHECK(columns_make(&c, &with, &x, 0, &e) == 0);
    const struct record **other = NEW(const struct record *, c.n);
    int rc = columns_pair(&c, &with, &x, &y, 0, other, &e);
    *n = c.n;
    for (size_t i = 0; rc == 0 && i < c.n; i++)
        CHECK(other[i]->key == c.row[i]->key && c.group[i] < c.n_groups);
    free(other);
    columns_free(&c);
    records_close(&x);
    records_close(&y);
    return rc;
}

#define ROW(id) "{\"id\":\"" id "\",\"task\":\"t\",\"correct\":true,\"confidence\":0.5,\"group\":\"g" id "\"}\n"
#define SPEECH(id, words) "{\"id\":\"" id "\",\"task\":\"t\",\"wer\":{\"edits\":1,\"words\":" words "},\"confidence\":0.5}\n"

static void pairing(void)
{
    size_t n;
    CHECK(pair(ROW("1") ROW("2"), ROW("2") ROW("1"), false, &n) == 0 && n == 2);
    CHECK(pair(ROW("1") ROW("2"), ROW("2"), false, &n) == -1 && e.code == EXIT_BAD_INPUT &&
          strstr(e.msg, "is not in b.jsonl"));
    CHECK(pair(ROW("2"), ROW("1") ROW("2"), false, &n) == -1 && strstr(e.msg, "is not in a.jsonl"));
    CHECK(pair(ROW("1") ROW("2") ROW("3"), ROW("3") ROW("4"), true, &n) == 0 && n == 1);
    CHECK(pair(ROW("1"), ROW("2"), true, &n) == -1 && strstr(e.msg, "no sample of \"t\" is also in"));
    CHECK(pair(SPEECH("1", "7"), SPEECH("1", "7"), false, &n) == 0);
    CHECK(pair(SPEECH("1", "7"), SPEECH("1", "8"), false, &n) == -1 && strstr(e.msg, "normalised"));
    CHECK(pair(SPEECH("1", "7"), ROW("1"), false, &n) == -1 && strstr(e.msg, "word errors in one run only"));
}

static void groups(void)
{
    struct records r;
    struct columns c;
    open_text(&r, "g", "{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"confidence\":0.5,\"group\":\"x\"}\n"
              "{\"id\":\"2\",\"task\":\"t\",\"correct\":true,\"confidence\":0.5}\n"
              "{\"id\":\"3\",\"task\":\"t\",\"correct\":true,\"confidence\":0.5,\"group\":\"x\"}\n"
              "{\"id\":\"4\",\"task\":\"t\",\"correct\":true,\"confidence\":0.5}\n");
    CHECK(columns_make(&c, &in, &r, 0, &e) == 0);
    CHECK(c.n_groups == 3 && c.group[0] == 0 && c.group[1] == 1 && c.group[2] == 0 && c.group[3] == 2);
    columns_free(&c);
    records_close(&r);
}

static void stamps(void)
{
    struct records a, b;
    struct inputs forced = in;
    forced.force = true;
    open_text(&a, "a.jsonl", ROW("1"));
    open_text(&b, "b.jsonl", ROW("1"));
    CHECK(stamps_check(&in, &a, &b, &e) == 0);
    static const char exact[] = "{\"identity\":{\"activations\":\"float32\"}}";
    static const char rounded[] = "{\"identity\":{\"activations\":\"int8\"}}";
    a.stamp = json_parse(exact, sizeof exact - 1, "a", &e);
    b.stamp = json_parse(rounded, sizeof rounded - 1, "b", &e);
    CHECK(stamps_check(&in, &a, &b, &e) == -1 && strstr(e.msg, "identity.activations"));
    CHECK(stamps_check(&forced, &a, &b, &e) == 0);
    records_close(&a);
    records_close(&b);
}

/* AUROCs with labels of their own: equal to the plain one on each side, no spread for equal sides. */
static void changed_auroc(void)
{
    const double a[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, b[] = {0.6, 0.2, 0.3, 0.4, 0.4, 0.1};
    const uint8_t wrong_a[] = {1, 1, 0, 1, 0, 0}, wrong_b[] = {0, 1, 0, 1, 0, 1};
    const struct resampling how = {.seed = 1, .n_resamples = 200};
    struct auroc_change c = auroc_change(a, wrong_a, b, wrong_b, 6, &how);
    CHECK_NEAR(c.a.value, 8.0 / 9, 1e-15);          /* of nine pairs one is the wrong way round */
    CHECK_NEAR(c.b.value, 7.5 / 9, 1e-15);
    CHECK_NEAR(c.delta.value, -0.5 / 9, 1e-15);
    CHECK(c.ci95.lo < c.delta.value && c.delta.value < c.ci95.hi);
    c = auroc_change(a, wrong_a, a, wrong_a, 6, &how);
    CHECK(c.delta.value == 0 && c.se.value == 0 && c.p.value == 1);
    const uint8_t none[6] = {0};
    CHECK(auroc_change(a, wrong_a, b, none, 6, &how).delta.why != NULL);
}

/* By counting pairs of weighted rows. */
static double weighted_auroc(const double *v, const uint8_t *wrong, const double *w, size_t n)
{
    double won = 0, pairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (!wrong[i] && wrong[j]) {
                pairs += w[i] * w[j];
                won += w[i] * w[j] * (v[i] > v[j] ? 1 : v[i] == v[j] ? 0.5 : 0);
            }
    return won / pairs;
}

/* The infinitesimal jackknife is what its name says: squares of the derivatives by the rows' (or groups') weights, here
 * taken as difference quotients. On more rows it agrees with the bootstrap. */
static void jackknife(void)
{
    enum { N = 40, MANY = 4000 };
    double *a = NEW(double, MANY), *b = NEW(double, MANY), w[N];
    uint8_t *wrong_a = NEW(uint8_t, MANY), *wrong_b = NEW(uint8_t, MANY);
    uint32_t *group = NEW(uint32_t, MANY);
    uint64_t x = 5;
    for (int i = 0; i < MANY; i++) {
        wrong_a[i] = lcg_draw(&x) < 0.4;
        wrong_b[i] = lcg_draw(&x) < 0.2 ? !wrong_a[i] : wrong_a[i];
        double shared = lcg_draw(&x);
        a[i] = on_grid(0.7 * shared + 0.3 * !wrong_a[i] * lcg_draw(&x), 64);
        b[i] = on_grid(0.6 * shared + 0.4 * !wrong_b[i] * lcg_draw(&x), 64);
        group[i] = (uint32_t)i / 4;
    }
    for (uint32_t size = 1; size <= 4; size += 3) {
        struct resampling how = {.group = size > 1 ? group : NULL, .n_groups = N / 4};
        double square = 0;
        for (uint32_t g = 0; g < N / size; g++) {
            double moved[2];
            for (int up = 0; up < 2; up++) {
                for (uint32_t i = 0; i < N; i++)
                    w[i] = i / size == g ? 1 + (up ? 1e-5 : -1e-5) : 1;
                moved[up] = weighted_auroc(b, wrong_b, w, N) - weighted_auroc(a, wrong_a, w, N);
            }
            square += (moved[1] - moved[0]) / 2e-5 * (moved[1] - moved[0]) / 2e-5;
        }
        struct auroc_change c = auroc_change(a, wrong_a, b, wrong_b, N, &how);
        CHECK_NEAR(c.se.value, sqrt(square), 1e-8);
        CHECK_NEAR(c.ci95.hi - c.ci95.lo, 2 * 1.959963984540054 * c.se.value, 1e-12);
    }
    struct resampling how = {.seed = 3, .n_resamples = 4000, .n_threads = 2}, none = {0};
    struct auroc_change boot = auroc_change(a, wrong_a, b, wrong_b, MANY, &how);
    struct auroc_change c = auroc_change(a, wrong_a, b, wrong_b, MANY, &none);
    CHECK_MSG(fabs(c.se.value / boot.se.value - 1) < 0.05, "%g, by the bootstrap %g", c.se.value, boot.se.value);
    free(a);
    free(b);
    free(wrong_a);
    free(wrong_b);
    free(group);
}

int main(void)
{
    RUN(auroc_of_the_demo);
    RUN(match_of_the_demo);
    RUN(comparison_of_the_demo);
    RUN(pairing);
    RUN(groups);
    RUN(stamps);
    RUN(changed_auroc);
    RUN(jackknife);
    arena_free(&arena);
    return test_report();
}
