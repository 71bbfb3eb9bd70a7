/* mel.h - mono samples to log-mel frames, the audio tower's input (inside engine/ only). GEMMA4.md 7.1. */
#ifndef HANDOFF_MEL_H
#define HANDOFF_MEL_H

#include "engine/base.h"

struct mel;
/* `processor` is processor_config.json or preprocessor_config.json; what it does not say (or NULL) is as Gemma 4 has
 * it. Settings that would need another computation are refused. */
int mel_open(struct mel **out, const cJSON *processor, struct err *e);
void mel_close(struct mel *m);                          /* NULL is fine */

int mel_rate(const struct mel *m);                      /* samples a second */
int mel_bands(const struct mel *m);                     /* numbers a frame */
int64_t mel_longest(const struct mel *m);               /* samples that the tower takes at once */
int64_t mel_frames(const struct mel *m, int64_t n);     /* frames of n samples; 0 if they are too few */
/* out [mel_frames(n), mel_bands]. Only reads *m: any number of threads may share it. */
void mel_compute(const struct mel *m, const float *samples, int64_t n, float *out);

#endif
