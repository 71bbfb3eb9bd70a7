/* curve_groups.c - handing off several rows as one. */
#include "eval/curve.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

struct cascade cascade_groups(const struct cascade *c, const uint32_t *group, size_t n_groups, enum group_rule rule)
{
    double *confidence = NEW(double, n_groups), *local = NEW(double, n_groups), *reference = NEW(double, n_groups);
    double *weight = NEW(double, n_groups);
    uint32_t *n_rows = NEW(uint32_t, n_groups);
    for (size_t i = 0; i < c->n; i++) {
        uint32_t g = group[i];
        double v = c->confidence[i];
        if (rule == GROUP_MEAN)
            confidence[g] += v;
        else if (rule == GROUP_LAST || n_rows[g] == 0 || isnan(v) || v < confidence[g])
            confidence[g] = v;                  /* a NaN minimum stays: nothing is below it */
        n_rows[g]++;
        local[g] += c->local[i];
        reference[g] += c->reference[i];
        weight[g] += c->weight ? c->weight[i] : 1;
    }
    for (size_t g = 0; g < n_groups && rule == GROUP_MEAN; g++)
        confidence[g] /= n_rows[g] ? n_rows[g] : 1;
    free(n_rows);
    return (struct cascade){n_groups, confidence, local, reference, weight, c->lower_is_better};
}

void cascade_groups_free(struct cascade *groups)
{
    free((void *)groups->confidence);
    free((void *)groups->local);
    free((void *)groups->reference);
    free((void *)groups->weight);
    *groups = (struct cascade){0};
}
