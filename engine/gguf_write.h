/* gguf_write.h - the header of a GGUF file under construction (inside engine/ only): metadata in the order of the
 * calls, then tensors whose data must follow in the order in which they were added. Version 3, alignment 32. */
#ifndef HANDOFF_GGUF_WRITE_H
#define HANDOFF_GGUF_WRITE_H

#include "engine/gguf.h"

struct gguf_out {
    struct text values, infos;  /* as they will lie in the file */
    uint64_t n_values, n_tensors;
    uint64_t data_bytes;        /* of the tensors so far, each padded */
};

void gguf_put_u32(struct gguf_out *g, const char *key, uint32_t v);
void gguf_put_i32(struct gguf_out *g, const char *key, int32_t v);
void gguf_put_f32(struct gguf_out *g, const char *key, float v);
void gguf_put_bool(struct gguf_out *g, const char *key, bool v);
void gguf_put_string(struct gguf_out *g, const char *key, const char *s, size_t len);
/* A value of another file as it is, under a key of its own. */
void gguf_put_copy(struct gguf_out *g, const char *key, const struct gguf_value *v);
/* An array: `count` calls of the element functions must follow. */
void gguf_put_array(struct gguf_out *g, const char *key, enum gguf_kind element, uint64_t count);
void gguf_element_u32(struct gguf_out *g, uint32_t v);          /* also I32 */
void gguf_element_f32(struct gguf_out *g, float v);
void gguf_element_bool(struct gguf_out *g, bool v);
void gguf_element_string(struct gguf_out *g, const char *s, size_t len);

/* dim: outermost first, as in struct tensor; rank 0 becomes rank 1. Returns the bytes of its data without padding; the
 * last dimension must be a multiple of the type's block. */
size_t gguf_add_tensor(struct gguf_out *g, const char *name, int n_dims, const int64_t *dim,
                       const struct ggml_type *type);
size_t gguf_row_bytes(const struct ggml_type *type, int64_t columns);
/* Everything in front of the data. */
int gguf_write_header(const struct gguf_out *g, const struct file_out *f, struct err *e);
/* The zeros behind n bytes of a tensor's data. */
int gguf_write_padding(const struct file_out *f, size_t n, struct err *e);
void gguf_out_free(struct gguf_out *g);                 /* harmless on {0} */

#endif
