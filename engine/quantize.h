/* quantize.h - a checkpoint written again with other weights: GGUF files of the block-quantised types, folders in the
 * ways of MLX and Cactus.
 *
 *     struct quantize_request q = {.in = "checkpoint/", .out = "model-Q4_K_M.gguf", .type = "Q4_K_M"};
 *     struct quantize_report r = {0};
 *     if (quantize_checkpoint(&q, NULL, NULL, &r, &e)) ...
 *     quantize_report_free(&r);
 *
 * Weights are streamed: memory holds a few rows of each thread, never a whole matrix of a large model. A file appears
 * under its name when it is whole, or not at all. The bytes written depend neither on the number of threads nor on the
 * kernel. */
#ifndef HANDOFF_QUANTIZE_H
#define HANDOFF_QUANTIZE_H

#include "engine/engine.h"

struct quantize_request {
    const char *in;             /* any checkpoint that engine_open takes */
    const char *out;            /* the file (GGUF) or folder; in an existing folder: one named after model and type */
    const char *type;           /* a name of quantize_type_at, in any case */
    const char *mmproj;         /* towers of a GGUF input, as in engine_options */
    bool no_towers;             /* leave vision and audio out */
    const char *tower_type;     /* "F32", "F16", "BF16"; NULL: as the towers are stored. Those of a GGUF input are copied */
    const char *probe;          /* handoff probe from another file; NULL: the checkpoint's own, if it has one */
    bool no_probe;              /* leave it out: stock llama.cpp runs such a file */
    const char *imatrix;        /* importance matrix of llama-imatrix, NULL: none */
    int group;                  /* columns that share a scale in MLX's types: 32, 64 or 128; 0: as MLX does */
    bool force;                 /* replace files that are there already */
    int n_threads;              /* 0: as many as the process may run on */
};

/* A type that `type` may name. */
struct quantize_type { const char *name, *format, *about; };
const struct quantize_type *quantize_type_at(size_t i);         /* NULL behind the last */

/* One tensor that was written, in the order of the file. */
struct quantized {
    char *name;                 /* as in the file */
    const char *from, *to;      /* types */
    int64_t elements;
    size_t bytes_before, bytes;
    int file;                   /* index into files */
};
struct quantize_report {
    const char *type;           /* canonical name */
    struct quantized *tensor;
    size_t n, cap;
    char *files[4];             /* what was written: the towers first */
    int n_files;
    struct text notes;          /* lines for the user: what was left out */
    int n_fallbacks;            /* matrices that got another type than the mix wanted: their rows fit no block */
};
void quantize_report_free(struct quantize_report *r);           /* harmless on {0} */

/* `done` of `total` bytes of weights have been read, `tensor` is at hand; true: stop (exit status 4). */
typedef bool quantize_progress(void *arg, const char *tensor, int64_t done, int64_t total);

/* Wrong usage is 2 (unknown type, a file that is there already), a damaged or unsupported input 3, a full disk or a stop
 * 4. `see` may be NULL. The report is valid even after a failure. */
int quantize_checkpoint(const struct quantize_request *q, quantize_progress *see, void *arg,
                        struct quantize_report *report, struct err *e);

#endif
