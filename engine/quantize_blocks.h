/* quantize_blocks.h - float32 rows to ggml's quantised blocks (inside engine/ only); the inverse of ggml_types.h.
 *
 * Scales are found as ggml's reference quantisers find them: a search over a few candidates for the least weighted
 * squared error. The weight of a column is its importance (mean squared activation) where one is given. */
#ifndef HANDOFF_QUANTIZE_BLOCKS_H
#define HANDOFF_QUANTIZE_BLOCKS_H

#include "engine/ggml_types.h"

#include <stdbool.h>

/* Whether quantize_row knows the type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K..Q6_K, IQ4_NL, IQ4_XS. */
bool quantize_knows(const struct ggml_type *type);
/* One row x[n] of finite numbers; n is a multiple of the type's block_elements. importance: [n], not negative, or NULL.
 * out takes n / block_elements * block_bytes bytes. */
void quantize_row(const struct ggml_type *type, const float *x, int64_t n, const float *importance, uint8_t *out);

#endif
