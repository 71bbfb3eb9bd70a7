/* gguf.h - GGUF files (inside engine/ only): the container, its metadata, and what it says about a Gemma 4 checkpoint.
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3. */
#ifndef HANDOFF_GGUF_H
#define HANDOFF_GGUF_H

#include "engine/ggml_types.h"
#include "engine/internal.h"

enum gguf_kind { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
                 GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64 };

/* One value of the metadata, still in the mapped file. An array's elements follow each other at `at`. */
struct gguf_value {
    const char *key;            /* NUL-terminated copy */
    enum gguf_kind kind, element;           /* element: of an array */
    uint64_t count;             /* elements of an array; 1 otherwise */
    const uint8_t *at;
};

struct gguf_tensor {
    const char *name;
    int n_dims;
    uint64_t ne[4];             /* fastest first, as in the file */
    const struct ggml_type *type;
    const uint8_t *data;
    size_t n_bytes;
};

struct gguf {
    const struct mapped *file;
    size_t n_values, n_tensors;
    struct gguf_value *values;  /* in file order */
    struct gguf_tensor *tensors;
};

bool gguf_is(const struct mapped *m);                   /* by its magic */
/* Everything in the header is checked against the file. Memory comes from the arena. */
int gguf_parse(const struct mapped *m, struct arena *a, struct gguf *out, struct err *e);

/* Appends its tensors, dimensions outermost first; those of a Gemma 4 decoder under the names that a checkpoint folder
 * has, all others under the names of the file. */
int gguf_tensors(const struct mapped *m, struct arena *a, struct tensor_list *out, struct err *e);

const struct gguf_value *gguf_find(const struct gguf *g, const char *key);      /* NULL if absent */
/* A scalar of any number or bool kind, or element i of an array of those; false if it is none. */
bool gguf_number(const struct gguf_value *v, uint64_t i, double *out);
/* A string value; *s points into the file and has no NUL behind it. */
bool gguf_string(const struct gguf_value *v, const char **s, size_t *len);
/* Calls see(arg, i, s, len) for each string of an array. */
void gguf_strings(const struct gguf_value *v, void (*see)(void *arg, uint64_t i, const char *s, size_t len), void *arg);

#endif
