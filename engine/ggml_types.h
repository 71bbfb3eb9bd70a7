/* ggml_types.h - ggml's block-quantised tensor types (inside engine/ only): sizes and exact dequantisation.
 * Layouts: ggml's block structs as documented with the GGUF format; codebooks in ggml_grids.h. */
#ifndef HANDOFF_GGML_TYPES_H
#define HANDOFF_GGML_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum { GGML_MAX_BLOCK = 256 };           /* elements */
struct ggml_type {
    const char *name;           /* "Q4_K" */
    int id;                     /* in GGUF files */
    int block_elements, block_bytes;
    /* One block to float32, the same bits as ggml's own conversion; NULL for F32, F16 and BF16. */
    void (*read_block)(const uint8_t *block, float *out);
};
/* NULL for ids that are not weights of a file (activation formats, integers, removed types). */
const struct ggml_type *ggml_type_of(uint32_t id);
const struct ggml_type *ggml_type_named(const char *name);

#endif
