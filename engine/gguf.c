/* gguf.c - the container: header, metadata, tensor infos, data.
 *
 * Everything is little-endian. Strings are a u64 length and bytes. Tensor data begins at the first multiple of
 * general.alignment behind the infos; offsets count from there.
 */
#include "engine/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 65536, MAX_TENSORS = 1 << 20, MAX_NAME = 255, MAX_KEY = 65535 };

struct reader { const struct mapped *m; const uint8_t *at, *end; struct err *e; const char *what; };

static size_t left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

static int ends(const struct reader *r)
{
    return err_input(r->e, "%s: byte %zu: the file ends inside %s", r->m->path, (size_t)(r->at - r->m->data), r->what);
}

static uint64_t little(const uint8_t *p, int n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

static int get(struct reader *r, int n, uint64_t *out)
{
    *out = 0;
    if (left(r) < (size_t)n)
        return ends(r);
    *out = little(r->at, n);
    r->at += n;
    return 0;
}

static int get_string(struct reader *r, size_t max, const char **s, size_t *len)
{
    uint64_t n;
    if (get(r, 8, &n))
        return -1;
    if (n > left(r))
        return ends(r);
    if (n > max)
        return err_input(r->e, "%s: %s: a string of at most %zu bytes was expected, not %" PRIu64, r->m->path, r->what,
                         max, n);
    *s = (const char *)r->at;
    *len = (size_t)n;
    r->at += n;
    return 0;
}

/* ---- metadata -------------------------------------------------------------------------------------------------- */

static int size_of_kind(enum gguf_kind k)
{
    static const int size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return size[k];
}

static int skip_strings(struct reader *r, uint64_t count)
{
    const char *s;
    size_t len;
    for (uint64_t i = 0; i < count; i++)
        if (get_string(r, SIZE_MAX, &s, &len))
            return -1;
    return 0;
}

static int skip_elements(struct reader *r, enum gguf_kind kind, uint64_t count)
{
    if (kind == GGUF_STRING)
        return skip_strings(r, count);
    uint64_t size = (uint64_t)size_of_kind(kind);
    if (count > left(r) / size)
        return ends(r);
    r->at += count * size;
    return 0;
}

static int get_kind(struct reader *r, bool array_allowed, enum gguf_kind *kind)
{
    uint64_t v;
    if (get(r, 4, &v))
        return -1;
    if (v > GGUF_F64 || (v == GGUF_ARRAY && !array_allowed))
        return err_input(r->e, "%s: %s: a value type from 0 to 12 was expected%s, not %" PRIu64, r->m->path, r->what,
                         array_allowed ? "" : " (no array in an array)", v);
    *kind = (enum gguf_kind)v;
    return 0;
}

static int get_value(struct reader *r, struct arena *a, struct gguf_value *v)
{
    const char *key;
    size_t len;
    r->what = "a metadata key";
    if (get_string(r, MAX_KEY, &key, &len))
        return -1;
    v->key = arena_strndup(a, key, len);
    r->what = v->key;
    if (strlen(v->key) != len || len == 0)
        return err_input(r->e, "%s: byte %zu: a metadata key without NUL was expected", r->m->path,
                         (size_t)(r->at - r->m->data));
    if (get_kind(r, true, &v->kind))
        return -1;
    v->count = 1;
    if (v->kind == GGUF_ARRAY && (get_kind(r, false, &v->element) || get(r, 8, &v->count)))
        return -1;
    v->at = r->at;
    if (skip_elements(r, v->kind == GGUF_ARRAY ? v->element : v->kind, v->count))
        return -1;
    v->n_bytes = (size_t)(r->at - v->at);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct gguf_value *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static int check_keys(struct reader *r, const struct gguf *g)
{
    const struct gguf_value **sorted = NEW(const struct gguf_value *, g->n_values + 1);
    int bad = 0;
    for (size_t i = 0; i < g->n_values; i++)
        sorted[i] = &g->values[i];
    qsort(sorted, g->n_values, sizeof *sorted, by_key);
    for (size_t i = 1; i < g->n_values && !bad; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            bad = err_input(r->e, "%s: metadata key %s stands there twice", r->m->path, sorted[i]->key);
    free(sorted);
    return bad;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* Bytes of a tensor; the product of its dimensions and the row's block count are checked. */
static int tensor_bytes(struct reader *r, struct gguf_tensor *t)
{
    uint64_t elements = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->ne[i] == 0 || t->ne[i] > INT64_MAX / elements)
            return err_input(r->e, "%s: tensor %s: dimension %d is %" PRIu64, r->m->path, t->name, i, t->ne[i]);
        elements *= t->ne[i];
    }
    uint64_t block = (uint64_t)t->type->block_elements, bytes = (uint64_t)t->type->block_bytes;
    if ((t->n_dims ? t->ne[0] : 1) % block)
        return err_input(r->e, "%s: tensor %s: rows of a multiple of %" PRIu64 " were expected for %s, not %" PRIu64,
                         r->m->path, t->name, block, t->type->name, t->n_dims ? t->ne[0] : 1);
    if (elements / block > r->m->size / bytes)
        return err_input(r->e, "%s: tensor %s: larger than the file", r->m->path, t->name);
    t->n_bytes = (size_t)(elements / block * bytes);
    return 0;
}

static int get_tensor(struct reader *r, struct arena *a, struct gguf_tensor *t, uint64_t *offset)
{
    const char *name;
    size_t len;
    uint64_t n_dims, type;
    r->what = "a tensor's name";
    if (get_string(r, MAX_NAME, &name, &len))
        return -1;
    t->name = arena_strndup(a, name, len);
    r->what = t->name;
    if (strlen(t->name) != len || len == 0)
        return err_input(r->e, "%s: byte %zu: a tensor's name without NUL was expected", r->m->path,
                         (size_t)(r->at - r->m->data));
    if (get(r, 4, &n_dims))
        return -1;
    if (n_dims > 4)
        return err_input(r->e, "%s: tensor %s: at most 4 dimensions were expected, not %" PRIu64, r->m->path, t->name,
                         n_dims);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < t->n_dims; i++)
        if (get(r, 8, &t->ne[i]))
            return -1;
    if (get(r, 4, &type) || get(r, 8, offset))
        return -1;
    t->type = ggml_type_of((uint32_t)type);
    if (!t->type)
        return err_input(r->e, "%s: tensor %s: type %" PRIu64 " is not a known tensor type", r->m->path, t->name, type);
    return tensor_bytes(r, t);
}

static int by_data(const void *a, const void *b)
{
    const struct gguf_tensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

static int by_tensor_name(const void *a, const void *b)
{
    const struct gguf_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* No name twice, no byte in two tensors. */
static int check_tensors(struct reader *r, const struct gguf *g)
{
    const struct gguf_tensor **t = NEW(const struct gguf_tensor *, g->n_tensors + 1);
    int bad = 0;
    for (size_t i = 0; i < g->n_tensors; i++)
        t[i] = &g->tensors[i];
    qsort(t, g->n_tensors, sizeof *t, by_tensor_name);
    for (size_t i = 1; i < g->n_tensors && !bad; i++)
        if (strcmp(t[i - 1]->name, t[i]->name) == 0)
            bad = err_input(r->e, "%s: tensor %s stands there twice", r->m->path, t[i]->name);
    qsort(t, g->n_tensors, sizeof *t, by_data);
    for (size_t i = 1; i < g->n_tensors && !bad; i++)
        if (t[i - 1]->data + t[i - 1]->n_bytes > t[i]->data)
            bad = err_input(r->e, "%s: tensors %s and %s overlap", r->m->path, t[i - 1]->name, t[i]->name);
    free(t);
    return bad;
}

static int read_alignment(struct reader *r, const struct gguf *g, uint64_t *alignment)
{
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    double value = 32;
    if (v && !gguf_number(v, 0, &value))
        value = 0;
    *alignment = value >= 1 && value <= 1 << 30 ? (uint64_t)value : 0;
    if (*alignment == 0 || (*alignment & (*alignment - 1)))
        return err_input(r->e, "%s: general.alignment: a power of two was expected, not %g", r->m->path, value);
    return 0;
}

static int get_tensors(struct reader *r, struct arena *a, struct gguf *g)
{
    uint64_t *offset = NEW(uint64_t, g->n_tensors + 1), alignment = 0;
    int bad = read_alignment(r, g, &alignment);
    for (size_t i = 0; i < g->n_tensors && !bad; i++)
        bad = get_tensor(r, a, &g->tensors[i], &offset[i]);
    uint64_t at = (uint64_t)(r->at - r->m->data);
    uint64_t data = alignment ? (at + alignment - 1) / alignment * alignment : 0;
    for (size_t i = 0; i < g->n_tensors && !bad; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        if (offset[i] % alignment)
            bad = err_input(r->e, "%s: tensor %s: an offset of a multiple of %" PRIu64 " was expected, not %" PRIu64,
                            r->m->path, t->name, alignment, offset[i]);
        else if (data > r->m->size || offset[i] > r->m->size - data || t->n_bytes > r->m->size - data - offset[i])
            bad = err_input(r->e, "%s: tensor %s: %zu bytes at %" PRIu64 " were expected, the file ends at %zu",
                            r->m->path, t->name, t->n_bytes, data + offset[i], r->m->size);
        else
            t->data = r->m->data + data + offset[i];
    }
    free(offset);
    return bad || check_tensors(r, g);
}

/* ---- the interface --------------------------------------------------------------------------------------------- */

bool gguf_is(const struct mapped *m)
{
    return m->size >= 4 && memcmp(m->data, "GGUF", 4) == 0;
}

int gguf_parse(const struct mapped *m, struct arena *a, struct gguf *out, struct err *e)
{
    struct reader r = {.m = m, .at = m->data, .end = m->data + m->size, .e = e, .what = "the header"};
    uint64_t magic, version, n_tensors, n_values;
    *out = (struct gguf){.file = m};
    if (!gguf_is(m))
        return err_input(e, "%s: not a GGUF file", m->path);
    if (get(&r, 4, &magic) || get(&r, 4, &version))
        return -1;
    if (version != 2 && version != 3)
        return err_input(e, "%s: GGUF version 2 or 3 was expected, not %" PRIu64, m->path, version);
    if (get(&r, 8, &n_tensors) || get(&r, 8, &n_values))
        return -1;
    /* A value takes at least 13 bytes, a tensor 24: counts beyond that are lies. */
    if (n_values > MAX_VALUES || n_values > left(&r) / 13 || n_tensors > MAX_TENSORS || n_tensors > left(&r) / 24)
        return err_input(e, "%s: %" PRIu64 " metadata values and %" PRIu64 " tensors do not fit the file", m->path,
                         n_values, n_tensors);
    out->n_values = (size_t)n_values;
    out->n_tensors = (size_t)n_tensors;
    out->values = ARENA_NEW(a, struct gguf_value, n_values);
    out->tensors = ARENA_NEW(a, struct gguf_tensor, n_tensors);
    for (size_t i = 0; i < out->n_values; i++)
        if (get_value(&r, a, &out->values[i]))
            return -1;
    return check_keys(&r, out) || get_tensors(&r, a, out) ? -1 : 0;
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    for (size_t i = 0; i < g->n_values; i++)
        if (strcmp(g->values[i].key, key) == 0)
            return &g->values[i];
    return NULL;
}

bool gguf_equals(const struct gguf *g, const char *key, const char *s)
{
    const struct gguf_value *v = gguf_find(g, key);
    const char *value;
    size_t len;
    return v && gguf_string(v, &value, &len) && strlen(s) == len && memcmp(s, value, len) == 0;
}

bool gguf_number(const struct gguf_value *v, uint64_t i, double *out)
{
    enum gguf_kind kind = v->kind == GGUF_ARRAY ? v->element : v->kind;
    if (kind == GGUF_STRING || kind == GGUF_ARRAY || i >= v->count)
        return false;
    const int size = size_of_kind(kind);
    const uint8_t *p = v->at + i * (uint64_t)size;
    const uint64_t bits = little(p, size);
    float f;
    switch (kind) {
    case GGUF_F32: memcpy(&f, p, 4); *out = f; break;
    case GGUF_F64: memcpy(out, p, 8); break;
    case GGUF_I8: *out = (int8_t)bits; break;
    case GGUF_I16: *out = (int16_t)bits; break;
    case GGUF_I32: *out = (int32_t)bits; break;
    case GGUF_I64: *out = (double)(int64_t)bits; break;
    default: *out = (double)bits;
    }
    return true;
}

bool gguf_string(const struct gguf_value *v, const char **s, size_t *len)
{
    if (v->kind != GGUF_STRING)
        return false;
    *len = (size_t)little(v->at, 8);
    *s = (const char *)v->at + 8;
    return true;
}

void gguf_strings(const struct gguf_value *v, void (*see)(void *arg, uint64_t i, const char *s, size_t len), void *arg)
{
    const uint8_t *p = v->at;
    for (uint64_t i = 0; i < v->count; i++) {
        size_t len = (size_t)little(p, 8);
        see(arg, i, (const char *)p + 8, len);
        p += 8 + len;
    }
}
