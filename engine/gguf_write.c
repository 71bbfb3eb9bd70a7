/* gguf_write.c - bytes of a GGUF header. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#include "engine/gguf_write.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };

static void put_number(struct text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_putc(t, (int)(v >> (8 * i) & 255));
}

static void put_name(struct text *t, const char *s, size_t len)
{
    put_number(t, len, 8);
    text_put(t, s, len);
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* ---- metadata -------------------------------------------------------------------------------------------------- */

static void put_key(struct gguf_out *g, const char *key, enum gguf_kind kind)
{
    put_name(&g->values, key, strlen(key));
    put_number(&g->values, kind, 4);
    g->n_values++;
}

void gguf_put_u32(struct gguf_out *g, const char *key, uint32_t v)
{
    put_key(g, key, GGUF_U32);
    put_number(&g->values, v, 4);
}

void gguf_put_i32(struct gguf_out *g, const char *key, int32_t v)
{
    put_key(g, key, GGUF_I32);
    put_number(&g->values, (uint32_t)v, 4);
}

void gguf_put_f32(struct gguf_out *g, const char *key, float v)
{
    put_key(g, key, GGUF_F32);
    put_number(&g->values, float_bits(v), 4);
}

void gguf_put_bool(struct gguf_out *g, const char *key, bool v)
{
    put_key(g, key, GGUF_BOOL);
    put_number(&g->values, v, 1);
}

void gguf_put_string(struct gguf_out *g, const char *key, const char *s, size_t len)
{
    put_key(g, key, GGUF_STRING);
    put_name(&g->values, s, len);
}

void gguf_put_copy(struct gguf_out *g, const char *key, const struct gguf_value *v)
{
    if (v->kind == GGUF_ARRAY)
        gguf_put_array(g, key, v->element, v->count);
    else
        put_key(g, key, v->kind);
    text_put(&g->values, v->at, v->n_bytes);
}

void gguf_put_array(struct gguf_out *g, const char *key, enum gguf_kind element, uint64_t count)
{
    put_key(g, key, GGUF_ARRAY);
    put_number(&g->values, element, 4);
    put_number(&g->values, count, 8);
}

void gguf_element_u32(struct gguf_out *g, uint32_t v)
{
    put_number(&g->values, v, 4);
}

void gguf_element_f32(struct gguf_out *g, float v)
{
    put_number(&g->values, float_bits(v), 4);
}

void gguf_element_bool(struct gguf_out *g, bool v)
{
    put_number(&g->values, v, 1);
}

void gguf_element_string(struct gguf_out *g, const char *s, size_t len)
{
    put_name(&g->values, s, len);
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

size_t gguf_row_bytes(const struct ggml_type *type, int64_t columns)
{
    return (size_t)(columns / type->block_elements) * (size_t)type->block_bytes;
}

static size_t padding(uint64_t n)
{
    return (size_t)((ALIGNMENT - n % ALIGNMENT) % ALIGNMENT);
}

size_t gguf_add_tensor(struct gguf_out *g, const char *name, int n_dims, const int64_t *dim,
                       const struct ggml_type *type)
{
    const int64_t columns = n_dims ? dim[n_dims - 1] : 1;
    int64_t rows = 1;
    put_name(&g->infos, name, strlen(name));
    put_number(&g->infos, (uint64_t)(n_dims ? n_dims : 1), 4);
    put_number(&g->infos, (uint64_t)columns, 8);
    for (int d = n_dims - 2; d >= 0; d--) {
        put_number(&g->infos, (uint64_t)dim[d], 8);
        rows *= dim[d];
    }
    put_number(&g->infos, (uint64_t)type->id, 4);
    put_number(&g->infos, g->data_bytes, 8);
    const size_t n = (size_t)rows * gguf_row_bytes(type, columns);
    g->data_bytes += n + padding(n);
    g->n_tensors++;
    return n;
}

int gguf_write_header(const struct gguf_out *g, const struct file_out *f, struct err *e)
{
    struct text head = {0};
    text_puts(&head, "GGUF");
    put_number(&head, VERSION, 4);
    put_number(&head, g->n_tensors, 8);
    put_number(&head, g->n_values, 8);
    const size_t n = head.len + g->values.len + g->infos.len;
    const int bad = file_out_put(f, head.data, head.len, e) || file_out_put(f, g->values.data, g->values.len, e) ||
                    file_out_put(f, g->infos.data, g->infos.len, e) || gguf_write_padding(f, n, e);
    text_free(&head);
    return bad ? -1 : 0;
}

int gguf_write_padding(const struct file_out *f, size_t n, struct err *e)
{
    static const uint8_t zeros[ALIGNMENT];
    return file_out_put(f, zeros, padding(n), e);
}

void gguf_out_free(struct gguf_out *g)
{
    text_free(&g->values);
    text_free(&g->infos);
    *g = (struct gguf_out){0};
}
