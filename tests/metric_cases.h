/* metric_cases.h - reading the reference cases of ../shared/metrics, for the tests of the statistics.
 *
 * Doubles may be "nan", "inf", "-inf"; null is an undefined figure. CHECK_FIGURE holds a figure against such a value.
 */
#ifndef HANDOFF_METRIC_CASES_H
#define HANDOFF_METRIC_CASES_H

#include "engine/base.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define MAYBE_UNUSED __attribute__((unused))
#else
#define MAYBE_UNUSED
#endif

static cJSON *cases_file;

/* Reads ../shared/metrics/NAME once per program; false if it is absent. */
MAYBE_UNUSED static bool cases_open(const char *name)
{
    struct err e = {0};
    char path[256];
    snprintf(path, sizeof path, "../shared/metrics/%s", name);
    if (!cases_file && file_exists(path)) {
        cases_file = json_read_file(path, 16u << 20, &e);
        CHECK_MSG(cases_file != NULL, "%s", e.msg);
    }
    return cases_file != NULL;
}

#define NEED_CASES(name) do { if (!cases_open(name)) SKIP("../shared/metrics/" name " is absent"); } while (0)

/* A number, or "nan", "inf", "-inf"; null and an absent value read as NaN. */
MAYBE_UNUSED static double case_number(const cJSON *v)
{
    if (cJSON_IsNumber(v))
        return v->valuedouble;
    if (cJSON_IsBool(v))
        return cJSON_IsTrue(v);
    if (!cJSON_IsString(v) || strcmp(v->valuestring, "nan") == 0)
        return NAN;
    return strcmp(v->valuestring, "-inf") == 0 ? -INFINITY : INFINITY;
}

MAYBE_UNUSED static double case_get(const cJSON *object, const char *key)
{
    return case_number(json_get(object, key));
}

MAYBE_UNUSED static size_t case_count(const cJSON *list)
{
    return (size_t)cJSON_GetArraySize(list);
}

/* A list of numbers; the caller frees it. */
MAYBE_UNUSED static double *case_numbers(const cJSON *list, size_t *n)
{
    double *v = NEW(double, case_count(list) + 1);
    const cJSON *item;
    *n = 0;
    cJSON_ArrayForEach(item, list)
        v[(*n)++] = case_number(item);
    return v;
}

MAYBE_UNUSED static uint8_t *case_labels(const cJSON *list)
{
    uint8_t *v = NEW(uint8_t, case_count(list) + 1);
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, list)
        v[n++] = case_number(item) != 0;
    return v;
}

/* Expected value `want` (number, or null for undefined) against a value that is NaN where undefined. */
MAYBE_UNUSED static void check_value(const char *id, const char *what, double got, const cJSON *want, double tolerance)
{
    double w = case_number(want);
    if (!want)
        CHECK_MSG(false, "%s: the case has no %s", id, what);
    else if (isnan(w))
        CHECK_MSG(isnan(got), "%s: %s is %.17g, not undefined", id, what, got);
    else
        CHECK_MSG(fabs(got - w) <= tolerance || got == w, "%s: %s is %.17g, not %.17g", id, what, got, w);
}

/* The generator of the cases: u = (x >> 11) * 2^-53. */
MAYBE_UNUSED static double lcg_draw(uint64_t *x)
{
    *x = UINT64_C(6364136223846793005) * *x + UINT64_C(1442695040888963407);
    return (double)(*x >> 11) * 0x1p-53;
}

MAYBE_UNUSED static double on_grid(double v, double steps)
{
    return isnan(steps) ? v : floor(v * steps + 0.5) / steps;
}

#endif
