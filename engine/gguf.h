/* gguf.h - GGUF files (inside engine/ only): the container, its metadata, and its tensors.
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
    size_t n_bytes;             /* of the value, from `at` on */
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

const struct gguf_value *gguf_find(const struct gguf *g, const char *key);      /* NULL if absent */
/* Whether there is such a string value and it equals `s`. */
bool gguf_equals(const struct gguf *g, const char *key, const char *s);
/* A scalar of any number or bool kind, or element i of an array of those; false if it is none. */
bool gguf_number(const struct gguf_value *v, uint64_t i, double *out);
/* A string value; *s points into the file and has no NUL behind it. */
bool gguf_string(const struct gguf_value *v, const char **s, size_t *len);
/* Calls see(arg, i, s, len) for each string of an array. */
void gguf_strings(const struct gguf_value *v, void (*see)(void *arg, uint64_t i, const char *s, size_t len), void *arg);

/* ---- tensors (gguf_tensors.c) ---------------------------------------------------------------------------------- */

/* Appends the tensors, dimensions outermost first. Those of a Gemma 4 decoder, and of a projector file for one, have
 * the names and layouts of a checkpoint folder; all others are left as they are. `first` is the part of a split file
 * that has the metadata, g itself where there are no parts. */
void gguf_tensors(const struct gguf *g, const struct gguf *first, struct arena *a, struct tensor_list *out);

/* The ggml type whose blocks the tensor's bytes are, wherever it comes from; NULL if they are none. */
const struct ggml_type *gguf_stored_type(const struct tensor *t);

/* Checks that g is part `index` (from 0) of *n_parts, by its metadata and the name of its file. Part 0 sets *n_parts
 * (1: not split) and *n_tensors, the tensors that all parts are said to hold (-1: it does not say). */
int gguf_split(const struct gguf *g, int index, int *n_parts, int64_t *n_tensors, struct err *e);
/* The path of another part, from that of part 0. The caller frees it. */
char *gguf_part_path(const char *path, int index, int n_parts);


#endif
