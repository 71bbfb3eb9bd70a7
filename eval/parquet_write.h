/* parquet_write.h - a table of nullable columns as a Parquet file (inside eval/ only).
 *
 *     struct parquet_column columns[] = {{"id", PARQUET_STRING}, {"score", PARQUET_DOUBLE}};
 *     struct parquet_writer *w = parquet_writer_new(columns, 2);
 *     parquet_put_string(w, 0, "a", 1);
 *     parquet_end_row(w);                               -- a column that was not put is null
 *     parquet_finish(w, &bytes);
 *
 * Format: apache/parquet-format 2.10. Flat schema, row groups of 65536 rows, one data page (version 1) a column chunk,
 * PLAIN values, Zstandard.
 */
#ifndef HANDOFF_PARQUET_WRITE_H
#define HANDOFF_PARQUET_WRITE_H

#include "engine/base.h"

enum parquet_type { PARQUET_BOOL, PARQUET_INT64, PARQUET_DOUBLE, PARQUET_STRING };
struct parquet_column { const char *name; enum parquet_type type; };

struct parquet_writer;
/* `columns` must outlive the writer. */
struct parquet_writer *parquet_writer_new(const struct parquet_column *columns, int n);
void parquet_put_bool(struct parquet_writer *w, int column, bool v);
void parquet_put_int64(struct parquet_writer *w, int column, int64_t v);
void parquet_put_double(struct parquet_writer *w, int column, double v);
void parquet_put_string(struct parquet_writer *w, int column, const char *s, size_t n);
void parquet_end_row(struct parquet_writer *w);
/* Key-value metadata of the file. */
void parquet_note(struct parquet_writer *w, const char *key, const char *value);
/* The whole file into `out`; frees the writer. */
void parquet_finish(struct parquet_writer *w, struct text *out);

#endif
