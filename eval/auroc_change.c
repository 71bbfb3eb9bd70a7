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

static void set_se(struct auroc_change *out, double se)
{
    out->se = figure_of(se);
    out->p = figure_of(se > 0 ? 2 * normal_cdf(-fabs(out->delta.value) / se) : out->delta.value == 0 ? 1 : 0);
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
    set_se(out, se);
    out->ci95 = interval_of(percentile_sorted(values, n, 0.025), percentile_sorted(values, n, 0.975));
}

/* Adds sign times what each row's weight does to the AUROC: how many of the other class it beats (ties half), against
 * their mean, over its own class. */
static void add_influence(double *influence, double sign, const struct side *s, size_t n, double auroc)
{
    double all[2] = {0, 0}, before[2] = {0, 0};         /* right, wrong */
    for (size_t i = 0; i < n; i++)
        all[s->wrong[i] != 0]++;
    for (size_t i = 0, j; i < n; i = j) {
        double here[2] = {0, 0};
        for (j = i; j < n && s->rows[j].key == s->rows[i].key; j++)
            here[s->wrong[s->rows[j].row] != 0]++;
        double right_beats = (before[1] + 0.5 * here[1]) / all[1];
        double wrong_is_beaten = (all[0] - before[0] - 0.5 * here[0]) / all[0];
        for (size_t k = i; k < j; k++) {
            size_t row = s->rows[k].row;
            influence[row] += sign * (s->wrong[row] ? (wrong_is_beaten - auroc) / all[1]
                                                    : (right_beats - auroc) / all[0]);
        }
        before[0] += here[0];
        before[1] += here[1];
    }
}

/* Rows that stand or fall together add up before they are squared. */
static void jackknife(struct auroc_change *out, const struct both *both, const struct resampling *how)
{
    size_t n = both->n, n_groups = how->group ? how->n_groups : 0;
    double *influence = NEW(double, n), *of_group = NEW(double, n_groups), square = 0;
    add_influence(influence, -1, &both->side[0], n, out->a.value);
    add_influence(influence, 1, &both->side[1], n, out->b.value);
    for (size_t i = 0; i < n; i++) {
        if (how->group)
            of_group[how->group[i]] += influence[i];
        else
            square += influence[i] * influence[i];
    }
    for (size_t g = 0; g < n_groups; g++)
        square += of_group[g] * of_group[g];
    double se = sqrt(square);
    set_se(out, se);
    out->ci95 = interval_of(out->delta.value - NORMAL_975 * se, out->delta.value + NORMAL_975 * se);
    free(influence);
    free(of_group);
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
        if (how->n_resamples == 0)
            jackknife(&out, &both, how);
        else if (how->n_resamples >= 2 && bootstrap_values(how, n, resampled_delta, &both, values) == 0)
            spread(&out, values, how->n_resamples);
        else
            out.se.why = out.p.why = out.ci95.why = "the bootstrap could not be done";
        free(values);
    }
    free(rows[0]);
    free(rows[1]);
    return out;
}
