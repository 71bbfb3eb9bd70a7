/* auroc_change.c - difference of two AUROCs on the same rows, each with its own labels, by the bootstrap. */
#include "eval/compares.h"
#include "eval/order.h"
#include "eval/special.h"

#include <math.h>
#include <stdlib.h>

/* One run: rows by rising confidence, so that the more suspicious ones come first. */
struct side { const struct keyed *rows; const uint8_t *wrong; };
struct both { struct side side[2]; size_t n; };

/* AUROC of a resample: pairs in which the wrong answer has the lower confidence, ties half. NaN with one class. */
static double resampled_auroc(const struct side *s, const uint32_t *count, size_t n)
{
    double won = 0, wrong_before = 0, right_total = 0;
    for (size_t i = 0; i < n;) {
        double wrong = 0, right = 0;
        size_t j = i;
        for (; j < n && s->rows[j].key == s->rows[i].key; j++) {
            double k = count[s->rows[j].row];
            if (s->wrong[s->rows[j].row])
                wrong += k;
            else
                right += k;
        }
        won += right * (wrong_before + 0.5 * wrong);
        wrong_before += wrong;
        right_total += right;
        i = j;
    }
    return wrong_before > 0 && right_total > 0 ? won / (wrong_before * right_total) : NAN;
}

static double resampled_delta(const uint32_t *count, const void *data)
{
    const struct both *b = data;
    return resampled_auroc(&b->side[1], count, b->n) - resampled_auroc(&b->side[0], count, b->n);
}

static void spread(struct auroc_change *out, double *values, size_t n)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += values[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        square += (values[i] - mean) * (values[i] - mean);
    double se = sqrt(square / (double)(n - 1));
    order_doubles(values, n);
    out->se = figure_of(se);
    out->ci95 = interval_of(percentile_sorted(values, n, 0.025), percentile_sorted(values, n, 0.975));
    out->p = figure_of(se > 0 ? 2 * normal_cdf(-fabs(out->delta.value) / se) : out->delta.value == 0 ? 1 : 0);
}

struct auroc_change auroc_change(const double *confidence_a, const uint8_t *wrong_a, const double *confidence_b,
                                 const uint8_t *wrong_b, size_t n, const struct resampling *how)
{
    static const char one_class[] = "AUROC needs right and wrong answers in both runs";
    struct keyed *rows[2] = {order_of(confidence_a, n), order_of(confidence_b, n)};
    struct both both = {{{rows[0], wrong_a}, {rows[1], wrong_b}}, n};
    struct auroc_change out = {figure_undefined(one_class), figure_undefined(one_class), figure_undefined(one_class),
                               figure_undefined(one_class), figure_undefined(one_class), interval_undefined(one_class)};
    uint32_t *once = NEW(uint32_t, n);
    for (size_t i = 0; i < n; i++)
        once[i] = 1;
    double a = resampled_auroc(&both.side[0], once, n), b = resampled_auroc(&both.side[1], once, n);
    free(once);
    if (!isnan(a) && !isnan(b)) {
        out.a = figure_of(a);
        out.b = figure_of(b);
        out.delta = figure_of(b - a);
        double *values = NEW(double, how->n_resamples);
        if (how->n_resamples >= 2 && bootstrap_values(how, n, resampled_delta, &both, values) == 0)
            spread(&out, values, how->n_resamples);
        else
            out.se.why = out.p.why = out.ci95.why = "the bootstrap could not be done";
        free(values);
    }
    free(rows[0]);
    free(rows[1]);
    return out;
}
