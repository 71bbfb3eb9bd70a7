/* ggml_codes.h - ggml's block types as whole numbers with scales (inside engine/ only). */
#ifndef HANDOFF_GGML_CODES_H
#define HANDOFF_GGML_CODES_H

#include "engine/ggml_types.h"
#include "engine/packed.h"

struct ggml_codes {
    int id;                     /* of the type, as in GGUF files */
    struct code_format f;
    void (*read)(const uint8_t *block, struct code_run *run);           /* one block */
};
/* NULL for types whose values are no whole numbers times one scale for 16 or more of them. */
const struct ggml_codes *ggml_codes_of(const struct ggml_type *type);

/* Values of four-bit codes: IQ4_NL's and IQ4_XS's levels, and E2M1 floats doubled. */
extern const int8_t ggml_iq4_values[16], ggml_e2m1_values[16];
/* The scales and minima of Q4_K and Q5_K, i < 8, and the scales of Q3_K, i < 16. */
void ggml_q4_scale_min(const uint8_t *packed, int i, int *scale, int *min);
int ggml_q3_scale(const uint8_t *packed, int i);
float ggml_half(const uint8_t *p);

#endif
