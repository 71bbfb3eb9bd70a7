/* gguf_mix.h - which tensor of a model gets which type (inside engine/ only). The names ("Q4_K_M"), their numbers in
 * general.file_type and the rules are those of llama.cpp's llama-quantize (src/llama-quant.cpp). */
#ifndef HANDOFF_GGUF_MIX_H
#define HANDOFF_GGUF_MIX_H

#include "engine/ggml_types.h"

#include <stdbool.h>

struct gguf_mix { const char *name; int file_type; const char *base; };
/* NULL for a name that is none. */
const struct gguf_mix *gguf_mix_named(const char *name);

/* By the number in general.file_type, also of mixes that this program does not write; NULL: llama.cpp names none so. */
const struct gguf_mix *gguf_mix_numbered(int file_type);
/* The type that a mix takes for rows that are no whole blocks of this one; NULL: none. */
const char *gguf_mix_fallback(const char *type);

/* What the rules look at besides a tensor. Tensors must be asked for in llama.cpp's order: by layer, then by name. */
struct gguf_mixing {
    const struct gguf_mix *mix;
    int n_layers, n_attn_v;     /* attn_v tensors in the model */
    int heads_per_kv;
    bool has_importances;
    int seen_attn_v, seen_ffn_down;         /* so far */
    bool fell_back;             /* set by the last call: rows of this length have no blocks of the wanted type */
};
/* The type of a matrix with rows of `columns`; NULL: it is not to be quantised but stays as it is. */
const struct ggml_type *gguf_mix_type(struct gguf_mixing *m, const char *name, int64_t columns);

#endif
