/* store.h - a run directory: run.json (the stamp) and records.jsonl (one line per finished sample), written so that a
 * run can be killed at any instant and resumed by the same command (inside eval/ only).
 *
 * A line is appended by one write(). A torn last line is cut off when the run is opened again. records.jsonl is always
 * in the order of the samples; only after --retry-errors it is put back into order at the end.
 */
#ifndef HANDOFF_STORE_H
#define HANDOFF_STORE_H

#include "engine/base.h"

struct store;

/* Opens or makes DIR for appending. `stamp` is taken over: its member "identity" must equal that of a run which is
 * already there (else the error says what differs). With retry_errors, records whose status is "error" are dropped so
 * that they are done again. Kernels that made earlier records are kept in the stamp as "earlier_kernels". Only one
 * process may hold a run. */
int store_open(struct store **out, const char *dir, cJSON *stamp, bool retry_errors, struct err *e);
void store_close(struct store *s);
/* The same after a failure: a folder that store_open made, and in which no record stands, goes away again. */
void store_abandon(struct store *s);

/* Tells the store that this sample comes next in order. 1: it is done already, -1: it is done but with another prompt
 * (the data changed under the run), 0: to do. */
int store_expect(struct store *s, const char *task, const char *id, const char *prompt_sha, struct err *e);
/* Lines will come in any order; store_finish puts them right. */
void store_unordered(struct store *s);
int store_append(struct store *s, const struct text *line, struct err *e);      /* line without its newline */
int64_t store_count(const struct store *s);             /* records now in the file */
cJSON *store_stamp(struct store *s);                    /* to add to before store_finish */
/* Puts the records into order if they are not, and writes the stamp with "complete" as given. all_expected: every sample
 * of the data sets was told to store_expect, so that a complete run with a record of another one is refused. */
int store_finish(struct store *s, bool complete, bool all_expected, struct err *e);

#endif
