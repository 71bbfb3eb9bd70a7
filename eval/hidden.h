/* hidden.h - hidden.bin of a run: the hidden rows of its answers, for fitting probes (inside eval/ only).
 *
 * One block a sample, appended before its record: a head of six 32-bit little-endian numbers (magic "HH01", bytes of the
 * key, rows, layers, width, 0), the layers' numbers, the key "TASK\nID" padded with zeros to a multiple of 4, and
 * float32 [rows, layers, width]. Rows are those that the probe reads: one per generated token. A torn block at the end
 * is cut off when the run goes on; of two blocks with one key the later counts.
 */
#ifndef HANDOFF_HIDDEN_H
#define HANDOFF_HIDDEN_H

#include "engine/base.h"

enum { HIDDEN_LAYERS_MAX = 64 };
struct hidden_layers { int n, layer[HIDDEN_LAYERS_MAX]; };
/* "3", "3,28" or "all"; each in [0, n_layers). */
int hidden_layers_parse(struct hidden_layers *l, const char *text, int n_layers, struct err *e);

struct hidden_writer;
int hidden_writer_open(struct hidden_writer **out, const char *dir, const struct hidden_layers *l, int width,
                       struct err *e);
void hidden_writer_close(struct hidden_writer *w);      /* NULL is fine */
/* rows: [n, layers, width]. */
int hidden_write(struct hidden_writer *w, const char *task, const char *id, const float *rows, int n, struct err *e);

/* A run's rows, mapped. */
struct hidden_file;
int hidden_open(struct hidden_file **out, const char *dir, struct err *e);
void hidden_close(struct hidden_file *f);
struct hidden_layers hidden_layers_of(const struct hidden_file *f);
int hidden_width(const struct hidden_file *f);
/* A sample's rows [*n, layers, width]; NULL if it has none. */
const float *hidden_find(const struct hidden_file *f, const char *task, const char *id, int *n);

#endif
