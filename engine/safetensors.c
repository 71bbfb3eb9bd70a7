/* safetensors.c - the header of a .safetensors file: eight bytes of length, a JSON object that names each tensor's
 * type, shape and bytes, then the bytes. Format: github.com/huggingface/safetensors, "Format". The header is believed
 * only after every number in it has been compared with the size of the file. */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 << 20 };        /* the format's own limit */

/* Every type of the format, so that a file with a tensor nobody needs can still be opened. */
static const struct { const char *name; int bits; enum tensor_type type; } types[] = {
    {"F32", 32, TENSOR_F32},   {"F16", 16, TENSOR_F16},      {"BF16", 16, TENSOR_BF16},    {"F64", 64, TENSOR_OTHER},
    {"I64", 64, TENSOR_OTHER}, {"U64", 64, TENSOR_OTHER},    {"I32", 32, TENSOR_OTHER},    {"U32", 32, TENSOR_OTHER},
    {"I16", 16, TENSOR_OTHER}, {"U16", 16, TENSOR_OTHER},    {"I8", 8, TENSOR_OTHER},      {"U8", 8, TENSOR_OTHER},
    {"BOOL", 8, TENSOR_OTHER}, {"F8_E4M3", 8, TENSOR_OTHER}, {"F8_E5M2", 8, TENSOR_OTHER}, {"C64", 64, TENSOR_OTHER},
    {"F8_E8M0", 8, TENSOR_OTHER}, {"F4", 4, TENSOR_OTHER},   {"F6_E2M3", 6, TENSOR_OTHER}, {"F6_E3M2", 6, TENSOR_OTHER},
};

/* A whole number that a double holds exactly. */
static bool whole(const cJSON *v, uint64_t *out)
{
    if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble >= 9007199254740992.0 ||
        v->valuedouble != (double)(uint64_t)v->valuedouble)
        return false;
    *out = (uint64_t)v->valuedouble;
    return true;
}

static int read_shape(struct tensor *t, const cJSON *shape, uint64_t *elements, struct err *e)
{
    if (!cJSON_IsArray(shape))
        return err_input(e, "%s: tensor %s: key \"shape\": an array was expected", t->file, t->name);
    for (const cJSON *d = shape->child; d; d = d->next) {
        uint64_t n;
        if (t->n_dims == TENSOR_MAX_DIMS)
            return err_input(e, "%s: tensor %s: at most %d dimensions were expected", t->file, t->name,
                             TENSOR_MAX_DIMS);
        if (!whole(d, &n) || (n && *elements > (UINT64_MAX >> 4) / n))
            return err_input(e, "%s: tensor %s: key \"shape\": dimension %d is no size that fits in a file", t->file,
                             t->name, t->n_dims);
        *elements *= n;
        t->dim[t->n_dims++] = (int64_t)n;
    }
    return 0;
}

static int read_entry(struct tensor *t, const cJSON *entry, const uint8_t *bytes, uint64_t n_bytes, struct err *e)
{
    if (!cJSON_IsObject(entry) || cJSON_GetArraySize(entry) != 3)
        return err_input(e, "%s: tensor %s: an object of dtype, shape and data_offsets was expected", t->file, t->name);
    const char *dtype = json_string(entry, "dtype");
    size_t i = 0;
    while (dtype && i < sizeof types / sizeof *types && strcmp(types[i].name, dtype) != 0)
        i++;
    if (!dtype || i == sizeof types / sizeof *types)
        return err_input(e, "%s: tensor %s: key \"dtype\": a type such as BF16 was expected, not %.40s", t->file,
                         t->name, dtype ? dtype : "nothing");
    t->type = types[i].type;
    t->type_name = types[i].name;
    uint64_t elements = 1;
    if (read_shape(t, json_get(entry, "shape"), &elements, e))
        return -1;

    const cJSON *offsets = json_get(entry, "data_offsets");
    uint64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !whole(offsets->child, &begin) ||
        !whole(offsets->child->next, &end) || begin > end || end > n_bytes)
        return err_input(e, "%s: tensor %s: data_offsets within the file's %llu bytes of data were expected", t->file,
                         t->name, (unsigned long long)n_bytes);
    const uint64_t bits = (end - begin) * 8;
    if (bits % (uint64_t)types[i].bits || bits / (uint64_t)types[i].bits != elements)
        return err_input(e, "%s: tensor %s: its shape needs another number of bytes than its data_offsets give (%llu)",
                         t->file, t->name, (unsigned long long)(end - begin));
    t->data = bytes + begin;
    t->n_bytes = (size_t)(end - begin);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const uint8_t *)x->data < (const uint8_t *)y->data ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* The format wants the tensors to cover the data without holes, so that nothing can hide in a file. */
static int check_cover(struct tensor *t, size_t n, const struct mapped *file, const uint8_t *bytes, struct err *e)
{
    qsort(t, n, sizeof *t, by_place);
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++) {
        if ((const uint8_t *)t[i].data != at)
            return err_input(e, "%s: tensor %s: its data begins at offset %lld, but the tensor before it ends at %lld",
                             file->path, t[i].name, (long long)((const uint8_t *)t[i].data - bytes),
                             (long long)(at - bytes));
        at += t[i].n_bytes;
    }
    if (at != file->data + file->size)
        return err_input(e, "%s: %lld bytes behind the last tensor's data belong to no tensor", file->path,
                         (long long)(file->data + file->size - at));
    return 0;
}

/* Appends the entries of a header; metadata is only checked to be an object of strings. */
static int read_header(const cJSON *header, const struct mapped *file, const uint8_t *bytes, struct arena *a,
                       struct tensor_list *out, struct err *e)
{
    const size_t first = out->n;
    const uint64_t n_bytes = (uint64_t)(file->data + file->size - bytes);
    for (const cJSON *entry = header->child; entry; entry = entry->next) {
        if (strcmp(entry->string, "__metadata__") == 0) {
            if (!cJSON_IsObject(entry))
                return err_input(e, "%s: key \"__metadata__\": an object was expected", file->path);
            for (const cJSON *m = entry->child; m; m = m->next)
                if (!cJSON_IsString(m))
                    return err_input(e, "%s: key \"__metadata__\": only strings were expected in it", file->path);
            continue;
        }
        struct tensor t = {.name = arena_strndup(a, entry->string, strlen(entry->string)), .file = file->path};
        if (read_entry(&t, entry, bytes, n_bytes, e))
            return -1;
        tensor_list_push(out, &t);
    }
    if (out->n == first)
        return err_input(e, "%s: it holds no tensors", file->path);
    return check_cover(out->t + first, out->n - first, file, bytes, e);
}

int safetensors_parse(const struct mapped *file, struct arena *a, struct tensor_list *out, struct err *e)
{
    uint64_t length = 0;
    if (file->size < 8)
        return err_input(e, "%s: a safetensors file of at least 8 bytes was expected, it has %zu", file->path,
                         file->size);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | file->data[i];
    if (length > MAX_HEADER && file->data[file->size > 8 ? 8 : 0] != '{')
        return err_input(e, "%s: a file of tensors was expected: safetensors, GGUF or Cactus", file->path);
    if (length > MAX_HEADER || length > file->size - 8)
        return err_input(e, "%s: its header claims %llu bytes, but the file has %zu (is it a whole safetensors file?)",
                         file->path, (unsigned long long)length, file->size);
    if (length == 0 || file->data[8] != '{')
        return err_input(e, "%s: its header does not begin with '{' (a safetensors file was expected)", file->path);
    cJSON *header = json_parse((const char *)file->data + 8, (size_t)length, file->path, e);
    if (!header)
        return -1;
    const int bad = read_header(header, file, file->data + 8 + length, a, out, e);
    cJSON_Delete(header);
    return bad;
}
