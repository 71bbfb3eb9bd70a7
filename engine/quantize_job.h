/* quantize_job.h - what the writers of the output formats share (inside engine/ only): the opened input, threads, and
 * the loop that takes a tensor through them row by row. quantize.c opens the job and has the format's writer do it. */
#ifndef HANDOFF_QUANTIZE_JOB_H
#define HANDOFF_QUANTIZE_JOB_H

#include "engine/documents.h"
#include "engine/imatrix.h"
#include "engine/internal.h"
#include "engine/quantize.h"

struct quantize_job {
    const struct quantize_request *request;
    struct quantize_report *report;
    const struct quantize_type *type;
    const char *name;           /* of the model: its folder's or file's, without an ending */
    struct weights *weights;    /* with the towers' and the probe's, all under names of a checkpoint folder */
    struct documents documents;
    struct config config;
    struct tokenizer *tokenizer;
    char *projector;            /* file with the towers of a GGUF input, or NULL */
    struct imatrix *imatrix;    /* or NULL */
    struct pool *pool;
    quantize_progress *see;
    void *see_arg;
    int64_t done, total;        /* bytes read; total: of the input's tensors */
};

/* An output format: a table of its types, ended by {0}, and what writes it. The writer reports each tensor and file. */
struct quantize_format {
    const struct quantize_type *types;
    int (*write)(struct quantize_job *job, struct err *e);
};
extern const struct quantize_format quantize_gguf, quantize_mlx, quantize_cq;

/* Turns row `row` of x[columns] into the bytes of the output; false: it cannot be (said in messages as `why`). */
struct row_coder {
    size_t row_bytes;
    bool (*code)(void *arg, int64_t row, float *x, int64_t columns, uint8_t *out);
    void *arg;
    const char *why;            /* "finite weights", what code expects of the row */
};
/* Takes rows that follow each other; called by one thread at a time, in order. */
typedef int row_sink(void *arg, const uint8_t *rows, int64_t first, int64_t n, struct err *e);
/* All elements of t as rows of `columns`, coded on all threads. Counts progress. */
int quantize_rows(struct quantize_job *job, const struct tensor *t, int64_t columns, const struct row_coder *coder,
                  row_sink *sink, void *arg, struct err *e);
/* Counts n bytes of the tensor's as read; fails if the caller has been asked to stop. */
int quantize_step(struct quantize_job *job, const char *tensor, int64_t n, struct err *e);

void quantize_report_tensor(struct quantize_report *r, const struct quantized *t);      /* takes over t->name */
/* Adds a file; the index for `quantized.file`. */
int quantize_report_file(struct quantize_report *r, const char *path);
/* Fails with 2 if the path exists and may not be replaced. */
int quantize_check_out(const struct quantize_job *job, const char *path, struct err *e);
/* Whether it is a tensor of a tower or its projector. */
bool quantize_is_tower(const struct tensor *t);

#endif
