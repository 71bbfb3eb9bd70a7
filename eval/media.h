/* media.h - the pictures and sounds of the report's samples, from the data sets that the run's stamp names (inside
 * eval/ only). */
#ifndef HANDOFF_MEDIA_H
#define HANDOFF_MEDIA_H

#include "eval/inputs.h"

/* "image/png", "audio/flac", ... as the first bytes say; NULL if they say nothing. */
const char *media_type(const void *bytes, size_t n);

/* Fills media_type and media (base64) of the rows, of each task until its share of max_bytes is used up. Data that is
 * no longer there, or has changed, is left out with a line in `notes`. rows: the samples of `r`; task_names[row.task]. */
void media_embed(struct sample_row *rows, int n_rows, const char *const *task_names, int n_tasks,
                 const struct records *r, size_t max_bytes, struct arena *a, struct text *notes);

#endif
