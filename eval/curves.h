/* curves.h - the figures of `curve` for a run and the models its queries may go to (inside eval/ only). */
#ifndef HANDOFF_CURVES_H
#define HANDOFF_CURVES_H

#include "eval/curve.h"
#include "eval/inputs.h"

struct curve_options {
    int64_t resamples, seed, threads;
    int64_t max_points;                 /* of a curve in the result; 0: all */
    double threshold;                   /* the default one to show the effect of */
    const char *route;                  /* NULL, min, mean, last: groups are handed off as a whole */
    double remote_ms, local_price, call_price, middle_price;
    bool bands;
};
#define CURVE_OPTIONS_DEFAULT {.resamples = 1000, .seed = 1, .max_points = 1000, .threshold = 0.85}

/* The models beside the run. target NULL: the reference; middle NULL: two tiers. give_back: the rows of run and
 * reference are not needed by the caller any more and go as soon as the last task has been read. */
struct curve_models { struct records *run, *reference, *target, *middle; bool give_back; };

int curve_result_make(struct curve_result *out, const struct inputs *in, const struct curve_options *o,
                      const struct curve_models *m, struct arena *a, struct err *e);

/* What the cascade of a task is made of: c's rows with the reference's answers. Values are edits and weights words for
 * transcription, else scores with weight NULL. */
struct cascade_columns { struct cascade cascade; double *local, *reference, *weight; const char *metric; };
void cascade_columns_make(struct cascade_columns *out, const struct columns *c, const struct record *const *other);
void cascade_columns_free(struct cascade_columns *c);

#endif
