/* export.h - records in the forms of other tools (inside eval/ only). */
#ifndef HANDOFF_EXPORT_H
#define HANDOFF_EXPORT_H

#include "engine/base.h"

/* Calls see(arg, record, where) for every record of a run directory or bare JSONL file, in order. */
int export_each(const char *run, int (*see)(void *arg, const cJSON *record, const char *where, struct err *e),
                void *arg, struct err *e);
/* run.json of a run directory; NULL for bare records and folders without one. */
int export_stamp(cJSON **out, const char *run, struct err *e);

/* One Parquet file with a row a record. */
int export_parquet(const char *run, const char *out, struct err *e);
/* lm-evaluation-harness: results.json and samples_TASK.jsonl in the folder `out`, made if it is not there. */
int export_lm_eval(const char *run, const char *out, struct err *e);

#endif
