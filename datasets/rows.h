/* rows.h - the rows of a table file, whatever its kind, each as a JSON value.
 *
 * A CSV row with a header and a parquet row are objects, a bare CSV row is an array of strings, a row of a text file is
 * a string, JSON rows are what they are. Binary cells (parquet) are nodes that row_bytes() understands.
 */
#ifndef HANDOFF_DATASETS_ROWS_H
#define HANDOFF_DATASETS_ROWS_H

#include "engine/base_archive.h"

enum row_kind {
    ROWS_CSV,           /* RFC 4180, first row is the header */
    ROWS_CSV_BARE,      /* without a header */
    ROWS_TSV,           /* tabs, header, cells quoted where needed */
    ROWS_PIPES,         /* '|', header, no quoting (Rev's .nlp) */
    ROWS_JSONL,         /* one value a line */
    ROWS_JSON,          /* elements of the array that the file is, or that it holds under `list_key` */
    ROWS_LINES,         /* text lines */
    ROWS_PARQUET
};

/* What rows_next and the mapping of a row to a sample answer. */
enum row_result { ROW_FATAL = -1, ROW_END = 0, ROW_OK = 1, ROW_REFUSED = 2, ROW_IGNORED = 3 };

struct row {
    cJSON *value;               /* valid until the next rows_next */
    const char *file;
    int64_t number;             /* counted from 1 as editors count lines or rows */
};

struct rows;
int rows_open(struct rows **out, struct archive *a, const struct member *m, enum row_kind kind, const char *list_key,
              struct err *e);
void rows_close(struct rows *r);
/* ROW_OK, ROW_END, ROW_REFUSED (e says why; the next call goes on), or ROW_FATAL. */
enum row_result rows_next(struct rows *r, struct row *row, struct err *e);
const char *rows_warning(const struct rows *r);         /* "" or one line */
int64_t rows_total(const struct rows *r);               /* -1 if only reading tells */

/* Whether the value is a binary cell; its bytes live until the next rows_next. */
bool row_bytes(const cJSON *node, const void **bytes, size_t *n);

/* ---- pieces, for tests and fuzzing ------------------------------------------------------------------------------- */

/* RFC 4180 over memory. Fields are NUL-terminated and live until the next csv_next. */
struct csv {
    const char *data;
    size_t size, at;
    char delimiter;
    bool quoting;
    int64_t line;               /* of the row read last, from 1 */
    int64_t next_line;
    struct text cells;
    size_t *starts;
    int n_fields, cap_fields;
    char **fields;
};
void csv_init(struct csv *c, const char *data, size_t size, char delimiter, bool quoting);
void csv_free(struct csv *c);
enum row_result csv_next(struct csv *c, const char *file, struct err *e);

#endif
