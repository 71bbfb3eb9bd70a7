/* imatrix.h - importance matrices as llama-imatrix writes them (inside engine/ only): for each matrix the mean square
 * of the activations that meet its columns. Both forms are read: GGUF ("NAME.in_sum2" and "NAME.counts"), and the older
 * .dat. Formats: llama.cpp, common/imatrix-loader.cpp. */
#ifndef HANDOFF_IMATRIX_H
#define HANDOFF_IMATRIX_H

#include "engine/base.h"

/* One matrix's, by its name in GGUF files. Values are finite and not negative. */
struct imatrix_entry { const char *name; const float *value; int64_t n; };
struct imatrix {
    struct arena arena;
    struct imatrix_entry *entry;            /* sorted by name */
    size_t n;
    const char *dataset;        /* the first that it was made with, NULL: not said */
    int64_t chunks;             /* of that data, 0: not said */
};
int imatrix_open(struct imatrix **out, const char *path, struct err *e);
void imatrix_close(struct imatrix *m);                  /* NULL is fine */
const struct imatrix_entry *imatrix_find(const struct imatrix *m, const char *name);    /* NULL if absent */

#endif
