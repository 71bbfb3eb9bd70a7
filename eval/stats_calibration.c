/* stats_calibration.c - does a confidence of 0.8 mean right in 80% of the cases? */
#include "eval/stats.h"
#include "eval/order.h"

#include <math.h>
#include <stdlib.h>

static void bin_add(struct bin *b, double confidence, bool wrong)
{
    b->n++;
    b->mean_confidence += confidence;
    b->accuracy += !wrong;
}

static void bin_finish(struct bin *b)
{
    b->mean_confidence = b->n ? b->mean_confidence / (double)b->n : NAN;
    b->accuracy = b->n ? b->accuracy / (double)b->n : NAN;
}

void reliability_equal_width(const double *confidence, const uint8_t *wrong, size_t n, struct bin *bins, size_t n_bins)
{
    double m = (double)n_bins;
    for (size_t b = 0; b < n_bins; b++)
        bins[b] = (struct bin){.lo = (double)b / m, .hi = (double)(b + 1) / m};
    for (size_t i = 0; i < n; i++) {
        double guess = ceil(confidence[i] * m) - 1;
        size_t b = guess > 0 ? (size_t)fmin(guess, m - 1) : 0;
        while (b > 0 && confidence[i] <= bins[b].lo)            /* the edges are the doubles b/m, not the products */
            b--;
        while (b + 1 < n_bins && confidence[i] > bins[b].hi)
            b++;
        bin_add(&bins[b], confidence[i], wrong[i]);
    }
    for (size_t b = 0; b < n_bins; b++)
        bin_finish(&bins[b]);
}

size_t reliability_equal_mass(const double *confidence, const uint8_t *wrong, size_t n, struct bin *bins,
                              size_t n_bins)
{
    struct keyed *order = order_of(confidence, n);
    size_t used = n < n_bins ? n : n_bins, k = 0;
    for (size_t b = 0; b < used; b++) {
        size_t end = k + n / used + (b < n % used);
        bins[b] = (struct bin){.lo = confidence[order[k].row], .hi = confidence[order[end - 1].row]};
        for (; k < end; k++)
            bin_add(&bins[b], confidence[order[k].row], wrong[order[k].row]);
        bin_finish(&bins[b]);
    }
    free(order);
    return used;
}

struct calibration_error calibration_error(const struct bin *bins, size_t n_bins)
{
    struct calibration_error e = {0, 0};
    double n = 0;
    for (size_t b = 0; b < n_bins; b++) {
        if (!bins[b].n)
            continue;
        double gap = fabs(bins[b].accuracy - bins[b].mean_confidence);
        e.expected += (double)bins[b].n * gap;
        e.maximum = fmax(e.maximum, gap);
        n += (double)bins[b].n;
    }
    e.expected = n > 0 ? e.expected / n : NAN;
    return e;
}

struct calibration calibration(const double *confidence, const uint8_t *wrong, size_t n)
{
    struct calibration c = {n ? NULL : "no rows", 0, 0, NAN, NAN, NAN, NAN};
    for (size_t i = 0; i < n && !c.why; i++)
        if (!(confidence[i] >= 0 && confidence[i] <= 1))
            c.why = "a confidence is not in [0, 1]";
    if (c.why) {
        c.brier = c.log_loss = NAN;
        return c;
    }
    for (size_t i = 0; i < n; i++) {
        double off = wrong[i] ? confidence[i] : 1 - confidence[i];
        double p = fmin(fmax(wrong[i] ? 1 - confidence[i] : confidence[i], 0x1p-52), 1 - 0x1p-52);
        c.brier += off * off;
        c.log_loss -= log(p);
    }
    c.brier /= (double)n;
    c.log_loss /= (double)n;
    struct bin bins[16];
    reliability_equal_width(confidence, wrong, n, bins, 16);
    c.ece_16 = calibration_error(bins, 16).expected;
    size_t used = reliability_equal_mass(confidence, wrong, n, bins, N_RELIABILITY_BINS);
    c.ece_15_equal_mass = calibration_error(bins, used).expected;
    reliability_equal_width(confidence, wrong, n, bins, N_RELIABILITY_BINS);
    struct calibration_error e = calibration_error(bins, N_RELIABILITY_BINS);
    c.ece_15 = e.expected;
    c.mce_15 = e.maximum;
    return c;
}
