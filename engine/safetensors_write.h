/* safetensors_write.h - writes a checkpoint's safetensors: model.safetensors, or model-00001-of-0000N.safetensors, and
 * model.safetensors.index.json (inside engine/ only). All tensors are named first; their bytes follow in any order. */
#ifndef HANDOFF_SAFETENSORS_WRITE_H
#define HANDOFF_SAFETENSORS_WRITE_H

#include "engine/internal.h"
#include "engine/staging.h"

/* A tensor of the file. `dtype` is the format's name: "BF16", "U32". */
struct st_tensor {
    char *name;
    const char *dtype;
    int n_dims;
    int64_t dim[TENSOR_MAX_DIMS];
    uint64_t n_bytes;
    int shard;                  /* set by st_begin, as is the place of its bytes */
    uint64_t at;
};

struct st_writer {
    struct st_tensor *t;
    size_t n, cap;
    struct staged_file *shards;
    int n_shards;
    char (*shard_names)[48];
};

/* The next tensor gets number w->n. */
void st_add(struct st_writer *w, const char *name, const char *dtype, int n_dims, const int64_t *dim);
/* Deals the tensors out to shards of at most `max_shard` bytes (a larger tensor has one of its own), as they come, and
 * writes the headers with {"format": format}. */
int st_begin(struct st_writer *w, const struct staging *s, const char *format, uint64_t max_shard, struct err *e);
/* Bytes [first, first + n) of tensor i. */
int st_put(const struct st_writer *w, size_t i, uint64_t first, const void *data, size_t n, struct err *e);
/* Closes the shards and writes the index. total_parameters: unquantised numbers, for the index's metadata. */
int st_finish(struct st_writer *w, const struct staging *s, uint64_t total_parameters, struct err *e);
void st_free(struct st_writer *w);                      /* harmless on {0} */

#endif
