/* ranking.c - one sort, then a table of distinct scores. */
#include "eval/stats.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

struct figure figure_of(double value)
{
    return (struct figure){value, NULL};
}

struct figure figure_undefined(const char *why)
{
    return (struct figure){NAN, why};
}

struct interval interval_of(double lo, double hi)
{
    return (struct interval){lo, hi, NULL};
}

struct interval interval_undefined(const char *why)
{
    return (struct interval){NAN, NAN, why};
}

struct rows { const double *score, *loss, *weight; const uint8_t *wrong; size_t n; };

static int check_rows(struct ranking *r, const struct rows *in, enum nan_policy policy, struct err *e)
{
    for (size_t i = 0; i < in->n; i++) {
        if (isnan(in->score[i])) {
            if (r->first_nan == SIZE_MAX)
                r->first_nan = i;
            if (policy == NAN_IS_ERROR)
                return err_input(e, "nan_score: the score of row %zu is not a number", i);
            r->n_excluded++;
        }
        if (in->weight && !(in->weight[i] >= 0 && isfinite(in->weight[i])))
            return err_input(e, "the weight of row %zu is not a finite number >= 0", i);
        if (in->loss && !isfinite(in->loss[i]))
            return err_input(e, "the loss of row %zu is not a finite number", i);
    }
    return 0;
}

/* Sorted rows without NaN scores and zero weights; counts n and n_wrong on the way. */
static struct keyed *sorted_rows(struct ranking *r, const struct rows *in, int descending, size_t *n_sorted)
{
    struct keyed *a = NEW(struct keyed, in->n ? in->n : 1);
    size_t k = 0;
    for (size_t i = 0; i < in->n; i++) {
        if (isnan(in->score[i]))
            continue;
        if (in->loss)
            r->sorted_loss[r->n] = in->loss[i];
        r->n++;
        r->n_wrong += in->wrong && in->wrong[i];
        if (!in->weight || in->weight[i] > 0)
            a[k++] = (struct keyed){order_key(in->score[i], descending), i};
    }
    order_sort(a, k);
    *n_sorted = k;
    return a;
}

static void fill_blocks(struct ranking *r, const struct rows *in, const struct keyed *a, size_t n_sorted)
{
    for (size_t i = 0; i < n_sorted; i++)
        r->n_blocks += i == 0 || a[i].key != a[i - 1].key;
    r->score = NEW(double, r->n_blocks ? r->n_blocks : 1);
    r->weight = NEW(double, r->n_blocks ? r->n_blocks : 1);
    r->wrong = NEW(double, r->n_blocks ? r->n_blocks : 1);
    size_t b = 0;
    for (size_t i = 0; i < n_sorted; i++) {
        size_t row = a[i].row;
        if (i > 0 && a[i].key != a[i - 1].key)
            b++;
        double w = in->weight ? in->weight[row] : 1;
        r->score[b] = in->score[row];
        r->weight[b] += w;
        r->wrong[b] += in->loss ? in->loss[row] : in->wrong[row] ? w : 0;
    }
}

static int make(struct ranking *r, const struct rows *in, enum orientation orientation, enum nan_policy policy,
                struct err *e)
{
    *r = (struct ranking){.first_nan = SIZE_MAX, .weighted = in->weight != NULL};
    if (check_rows(r, in, policy, e) < 0)
        return -1;
    if (in->loss)
        r->sorted_loss = NEW(double, in->n ? in->n : 1);
    size_t n_sorted;
    struct keyed *a = sorted_rows(r, in, orientation == HIGHER_IS_RIGHT, &n_sorted);
    fill_blocks(r, in, a, n_sorted);
    free(a);
    if (in->loss)
        order_doubles(r->sorted_loss, r->n);
    return 0;
}

int ranking_make(struct ranking *r, const double *score, const uint8_t *wrong, const double *weight, size_t n,
                 enum orientation orientation, enum nan_policy policy, struct err *e)
{
    return make(r, &(struct rows){.score = score, .wrong = wrong, .weight = weight, .n = n}, orientation, policy, e);
}

int ranking_make_loss(struct ranking *r, const double *score, const double *loss, size_t n,
                      enum orientation orientation, enum nan_policy policy, struct err *e)
{
    return make(r, &(struct rows){.score = score, .loss = loss, .n = n}, orientation, policy, e);
}

void ranking_free(struct ranking *r)
{
    free(r->score);
    free(r->weight);
    free(r->wrong);
    free(r->sorted_loss);
    *r = (struct ranking){.first_nan = SIZE_MAX};
}
