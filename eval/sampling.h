/* sampling.h - the next token from a row of logits (inside eval/ only). */
#ifndef HANDOFF_SAMPLING_H
#define HANDOFF_SAMPLING_H

#include <stdint.h>

/* temperature 0: the largest logit, the lowest id among equals. Otherwise a draw from softmax(logits / temperature)
 * restricted to the smallest set of most likely tokens whose probabilities reach top_p (0 counts as 1); *rng is the
 * state of the generator. logits: [n], finite or -inf. */
int32_t sample_token(const double *logits, int n, double temperature, double top_p, uint64_t *rng);

#endif
