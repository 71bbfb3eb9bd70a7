/* conformer.h - the audio tower: log-mel frames to soft tokens (inside engine/ only). GEMMA4.md 7.2 to 7.4.
 *
 * Many stretches of sound go through together, their rows one behind the other; no row looks over the border of its
 * stretch, so each gets the same bits alone or in company.
 */
#ifndef HANDOFF_CONFORMER_H
#define HANDOFF_CONFORMER_H

#include "engine/kernels.h"

struct conformer;
/* `config` is config.json; sizes must agree with the tensors. n_bands: numbers in a mel frame. */
int conformer_open(struct conformer **out, const struct weights *w, const cJSON *config, int n_bands, struct err *e);
void conformer_close(struct conformer *c);              /* NULL is fine */
int conformer_layers(const struct conformer *c);
int conformer_width(const struct conformer *c);         /* of a row inside the tower */
int conformer_output_width(const struct conformer *c);  /* of a row behind output_proj */
int conformer_soft_width(const struct conformer *c);    /* of a soft token */
int64_t conformer_tokens(int64_t n_frames);             /* rows that n frames become: a quarter, rounded up twice */

/* mel [n_frames, n_bands], n_frames >= 1. */
struct stretch { const float *mel; int n_frames; };

/* The stages, for n_rows = sum of conformer_tokens(n_frames) rows. `first` [n_rows] is, for each row, the number of the
 * first row of its stretch. */
void conformer_subsample(const struct conformer *c, const struct compute *compute, const struct stretch *stretches,
                         int n, float *x);                              /* x [n_rows, width] */
void conformer_layer(const struct conformer *c, const struct compute *compute, int layer, const int *first,
                     int n_rows, float *x);                             /* x in and out */
void conformer_project(const struct conformer *c, const struct compute *compute, int n_rows, const float *x,
                       float *output, float *soft);         /* [n_rows, output width], [n_rows, soft width] */

/* All of them. soft [n_rows, soft width]. */
void conformer_run(const struct conformer *c, const struct compute *compute, const struct stretch *stretches, int n,
                   float *soft);

#endif
