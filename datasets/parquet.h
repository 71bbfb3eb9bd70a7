/* parquet.h - Apache parquet files, row by row, each as a JSON object.
 *
 * Structs become objects, lists arrays, maps arrays of {key, value}; integers above 2^53 become strings. Byte strings
 * that are not declared as text are binary cells for row_bytes(). One page of each column is held at a time; of large
 * compressed pages and dictionaries of byte strings only the value at hand and some before it.
 */
#ifndef HANDOFF_DATASETS_PARQUET_H
#define HANDOFF_DATASETS_PARQUET_H

#include "datasets/rows.h"

struct parquet;
/* data stays mapped while open; `release` gives pages of a mapped file back to the system once they were read. */
int parquet_open(struct parquet **out, const void *data, size_t size, const char *file, bool release, struct err *e);
void parquet_close(struct parquet *p);
/* Pages of byte strings of more than so many bytes are not held (256 KiB, dictionaries 32 MiB). For tests. */
void parquet_stream_from(struct parquet *p, int64_t bytes);
int64_t parquet_rows(const struct parquet *p);
/* The caller deletes *value; binary cells live until the next call. */
enum row_result parquet_next(struct parquet *p, cJSON **value, struct err *e);

#endif
