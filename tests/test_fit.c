/* Training of probes: gradients against PyTorch's, a problem with a known answer, files, and independence of threads. */
#define _GNU_SOURCE
#include "probe/network.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

static float *floats(const cJSON *list)
{
    float *v = NEW(float, cJSON_GetArraySize(list) + 1);
    const cJSON *item;
    int n = 0;
    cJSON_ArrayForEach(item, list)
        v[n++] = (float)item->valuedouble;
    return v;
}

/* Tolerances are those of float32 sums of a few dozen terms near 1. */
static void check_gradient(const cJSON *c)
{
    const bool mean = strcmp(json_string(c, "pooling"), "mean") == 0;
    const cJSON *head = json_get(c, "head");
    const struct fit_settings s = {.dim = json_get(c, "dim")->valueint, .width = json_get(c, "width")->valueint,
                                   .head = {head->child->valueint, head->child->next->valueint},
                                   .pooling = mean ? POOL_MEAN : POOL_ATTENTION};
    struct network net;
    network_init(&net, &s);
    CHECK((int)net.n == cJSON_GetArraySize(json_get(c, "theta")));
    float *theta = floats(json_get(c, "theta")), *rows = floats(json_get(c, "rows")), *g = NEW(float, net.n);
    int counts[8], n = 0;
    bool wrong[8];
    double z[8];
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(c, "counts"))
        counts[n++] = item->valueint;
    n = 0;
    cJSON_ArrayForEach(item, json_get(c, "wrong"))
        wrong[n++] = cJSON_IsTrue(item);
    CHECK_NEAR(network_pass(&net, theta, &(struct network_batch){rows, counts, wrong, n}, g, z),
               json_get(c, "loss")->valuedouble, 2e-5);
    for (int i = 0; i < n; i++)
        CHECK_NEAR(z[i], cJSON_GetArrayItem(json_get(c, "z"), i)->valuedouble, 2e-5);
    int i = 0;
    cJSON_ArrayForEach(item, json_get(c, "gradient")) {
        CHECK_MSG(fabs(g[i] - item->valuedouble) < 2e-5, "%s: gradient %d is %g, not %g", json_string(c, "pooling"), i,
                  g[i], item->valuedouble);
        i++;
    }
    free(theta);
    free(rows);
    free(g);
}

static void gradients(void)
{
    struct err e = {0};
    cJSON *cases = json_read_file("tests/data/probe_fit.json", 1 << 20, &e);
    const cJSON *c;
    CHECK_MSG(cJSON_GetArraySize(cases) == 2, "%s", e.msg);
    cJSON_ArrayForEach(c, cases)
        check_gradient(c);
    cJSON_Delete(cases);
}

/* Noise rows, of which one in each sample says by its direction whether the answer is wrong: what attention is for. */
enum { N = 1200, ROWS = 4, DIM = 16 };

static uint64_t state = 7;
static float noise(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(state >> 11) * 0x1p-53 * 2 - 1);
}

static struct fit_sample *make_samples(float **rows)
{
    struct fit_sample *s = NEW(struct fit_sample, N);
    *rows = NEW(float, N * ROWS * DIM);
    for (int i = 0; i < N; i++) {
        float *at = *rows + (size_t)i * ROWS * DIM;
        const bool wrong = noise() > 0;
        for (int k = 0; k < ROWS * DIM; k++)
            at[k] = noise();
        float *telling = at + (size_t)(i % ROWS) * DIM;
        telling[0] = 6;
        telling[1] = wrong ? 3.0f : -3.0f;
        s[i] = (struct fit_sample){at, DIM, ROWS, wrong, i % 5 == 0};
    }
    return s;
}

static double share_right(const struct fit_sample *s, const double *p_wrong)
{
    int right = 0, n = 0;
    for (int i = 0; i < N; i++)
        if (s[i].validation) {
            right += (p_wrong[i] > 0.5) == s[i].wrong;
            n++;
        }
    return (double)right / n;
}

static void learns_and_is_kept_in_every_file(void)
{
    static const char *const names[] = {"p.safetensors", "p.gguf", "p.bin"};
    float *rows;
    struct fit_sample *s = make_samples(&rows);
    struct fit_settings settings = {.layer = 5, .dim = DIM, .width = 8, .head = {16, 8}, .seed = 3, .n_threads = 2};
    struct probe *p, *again;
    struct fit_report report, other;
    double *p_wrong, *p_again;
    struct err e = {0};
    char dir[] = "/tmp/handoff-fit-XXXXXX";
    if (!CHECK(mkdtemp(dir) && probe_fit(&p, s, N, &settings, &p_wrong, &report, NULL, NULL, &e) == 0))
        return;
    CHECK_MSG(share_right(s, p_wrong) > 0.97, "%g of the validation samples", share_right(s, p_wrong));
    settings.n_threads = 1;
    CHECK(probe_fit(&again, s, N, &settings, &p_again, &other, NULL, NULL, &e) == 0);
    CHECK(memcmp(p_wrong, p_again, N * sizeof *p_wrong) == 0 && report.best_epoch == other.best_epoch);
    for (int f = 0; f < 3; f++) {
        char *path = path_join(dir, names[f]);
        struct weights *w = NULL;
        struct probe *read = NULL;
        if (CHECK_MSG(probe_save(p, (enum probe_file)f, path, &e) == 0 && weights_open(&w, path, &e) == 0 &&
                      probe_open(&read, w, NULL, &e) == 0, "%s: %s", names[f], e.msg))
            for (int i = 0; i < N; i += 97) {
                struct probe_result r;
                CHECK(probe_score(read, s[i].rows, ROWS, &r, &e) == 0);
                CHECK_NEAR(r.p_wrong, p_wrong[i], 2e-5);
            }
        probe_close(read);
        weights_close(w);
        unlink(path);
        free(path);
    }
    rmdir(dir);
    probe_close(p);
    probe_close(again);
    free(p_wrong);
    free(p_again);
    free(s);
    free(rows);
}

/* The telling row is not always the last: attention must beat the last row by far. */
static void variants(void)
{
    float *rows;
    struct fit_sample *s = make_samples(&rows);
    struct probe *p;
    struct fit_report report;
    double *p_wrong;
    struct err e = {0};
    struct fit_settings settings = {.dim = DIM, .width = 8, .head = {16, 8}, .pooling = POOL_LAST, .seed = 3};
    CHECK(probe_fit(&p, s, N, &settings, &p_wrong, &report, NULL, NULL, &e) == 0 && p == NULL);
    CHECK(share_right(s, p_wrong) < 0.7);               /* 1/4 + 3/4 / 2 */
    free(p_wrong);
    settings.pooling = POOL_MEAN;
    settings.linear = true;
    settings.rate = 0.02;
    CHECK(probe_fit(&p, s, N, &settings, &p_wrong, &report, NULL, NULL, &e) == 0 && p == NULL);
    CHECK(share_right(s, p_wrong) > 0.78);              /* about 0.83: three rows of noise in each mean */
    free(p_wrong);
    settings.linear = false;
    settings.rate = 0;
    CHECK(probe_fit(&p, s, N, &settings, &p_wrong, &report, NULL, NULL, &e) == 0 && p != NULL);
    struct probe_result r;
    CHECK(p && probe_score(p, s[3].rows, ROWS, &r, &e) == 0);
    CHECK_NEAR(r.p_wrong, p_wrong[3], 2e-5);
    probe_close(p);
    free(p_wrong);
    free(s);
    free(rows);
}

static void refusals(void)
{
    float *rows;
    struct fit_sample *s = make_samples(&rows);
    struct fit_settings settings = {.dim = DIM, .seed = 1};
    struct probe *p;
    struct fit_report report;
    struct err e = {0};
    rows[5] = NAN;
    CHECK(probe_fit(&p, s, N, &settings, NULL, &report, NULL, NULL, &e) != 0 && e.code == EXIT_BAD_INPUT);
    rows[5] = 0;
    for (int i = 0; i < N; i++)
        s[i].wrong = false;
    CHECK(probe_fit(&p, s, N, &settings, NULL, &report, NULL, NULL, &e) != 0 && e.code == EXIT_BAD_INPUT);
    CHECK(strstr(e.msg, "right and wrong") != NULL);
    free(s);
    free(rows);
}

int main(void)
{
    RUN(gradients);
    RUN(learns_and_is_kept_in_every_file);
    RUN(variants);
    RUN(refusals);
    return test_report();
}
