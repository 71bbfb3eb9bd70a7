/* npy.c - magic, version, a Python dictionary as header, then the raw array (NumPy's format specification 1.0-3.0). */
#include "eval/npy.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[6] = "\x93NUMPY";

struct header { char kind[8]; bool fortran; int n_dims; int64_t dim[2]; size_t data_at; };

/* The text behind "'key':" in the header's dictionary, NULL if it is not there. */
static const char *value_of(const char *dict, const char *key)
{
    const char *at = strstr(dict, key);
    at = at ? strchr(at, ':') : NULL;
    return at ? at + 1 + strspn(at + 1, " ") : NULL;
}

static int parse_shape(const char *at, struct header *h)
{
    if (!at || *at++ != '(')
        return -1;
    for (;;) {
        at += strspn(at, " ,");
        if (*at == ')')
            return 0;
        char *end;
        long long v = strtoll(at, &end, 10);
        if (end == at || v < 0 || h->n_dims == 2)
            return -1;
        h->dim[h->n_dims++] = v;
        at = end;
    }
}

static int parse_header(const struct mapped *m, struct header *h, struct err *e)
{
    *h = (struct header){0};
    size_t fixed = m->size > 6 && m->data[6] == 1 ? 10 : 12, length = 0;
    if (m->size < fixed || memcmp(m->data, magic, sizeof magic) != 0 || m->data[6] < 1 || m->data[6] > 3)
        return err_input(e, "%s: not a .npy file", m->path);
    for (size_t i = fixed; i-- > 8;)
        length = length << 8 | m->data[i];
    if (length > m->size - fixed || length > 65536)
        return err_input(e, "%s: header of %zu bytes does not fit the file", m->path, length);
    char *dict = mem_strndup((const char *)m->data + fixed, length);
    const char *descr = value_of(dict, "'descr'"), *fortran = value_of(dict, "'fortran_order'");
    int bad = !descr || !fortran || sscanf(descr, "'%7[^']'", h->kind) != 1 ||
              parse_shape(value_of(dict, "'shape'"), h) || h->n_dims == 0;
    h->fortran = fortran && strncmp(fortran, "True", 4) == 0;
    h->data_at = fixed + length;
    free(dict);
    return bad ? err_input(e, "%s: a .npy header with a vector or matrix was expected", m->path) : 0;
}

static int convert(const struct mapped *m, const struct header *h, int64_t n, float **out, struct err *e)
{
    bool f2 = strcmp(h->kind, "<f2") == 0, f4 = strcmp(h->kind, "<f4") == 0, f8 = strcmp(h->kind, "<f8") == 0;
    if (!f2 && !f4 && !f8)
        return err_input(e, "%s: float16, float32 or float64 was expected, not %s", m->path, h->kind);
    size_t size = f2 ? 2 : f4 ? 4 : 8, have = (m->size - h->data_at) / size;
    if ((uint64_t)n != have || (m->size - h->data_at) % size)
        return err_input(e, "%s: %lld numbers are announced, behind the header lie %zu bytes", m->path, (long long)n,
                         m->size - h->data_at);
    const uint8_t *data = m->data + h->data_at;
    float *values = NEW(float, n);
    if (f8) {
        for (int64_t i = 0; i < n; i++) {
            double v;
            memcpy(&v, data + 8 * i, 8);
            values[i] = (float)v;
        }
    } else {
        struct tensor t = {.name = "array", .file = m->path, .type = f2 ? TENSOR_F16 : TENSOR_F32, .n_dims = 1,
                           .dim = {n}, .data = data, .n_bytes = (size_t)n * size};
        tensor_read_f32(&t, 0, n, values);
    }
    *out = values;
    return 0;
}

int npy_read(const char *path, float **out, int64_t *rows, int64_t *cols, struct err *e)
{
    struct mapped m;
    struct header h;
    if (map_open(&m, path, e))
        return -1;
    int failed = parse_header(&m, &h, e);
    if (!failed && h.fortran && h.n_dims == 2 && h.dim[0] > 1 && h.dim[1] > 1)
        failed = err_input(e, "%s: C order was expected (numpy.ascontiguousarray makes it)", path);
    if (!failed) {
        *rows = h.n_dims == 2 ? h.dim[0] : 1;
        *cols = h.dim[h.n_dims - 1];
        if (*cols && *rows > INT32_MAX / *cols)
            failed = err_input(e, "%s: too large", path);
        else
            failed = convert(&m, &h, *rows * *cols, out, e);
    }
    map_close(&m);
    return failed;
}

int npy_write(const char *path, const float *data, int n_dims, const int64_t *dim, struct err *e)
{
    struct text t = {0}, dict = {0};
    size_t n = 1;
    text_puts(&dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < n_dims; i++) {
        text_printf(&dict, "%lld,%s", (long long)dim[i], i + 1 < n_dims ? " " : "");
        n *= (size_t)dim[i];
    }
    text_puts(&dict, "), }");
    while ((10 + dict.len + 1) % 64)
        text_putc(&dict, ' ');
    text_putc(&dict, '\n');
    text_put(&t, magic, sizeof magic);
    const uint8_t version_and_length[4] = {1, 0, (uint8_t)(dict.len & 255), (uint8_t)(dict.len >> 8)};
    text_put(&t, version_and_length, 4);
    text_put(&t, dict.data, dict.len);
    text_put(&t, data, n * sizeof *data);
    int failed = file_write_atomic(path, t.data, t.len, e);
    text_free(&t);
    text_free(&dict);
    return failed;
}
