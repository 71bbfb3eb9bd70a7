/* xlsx.h - the first sheet of an Excel workbook as rows of JSON (inside datasets/ only). */
#ifndef HANDOFF_DATASETS_XLSX_H
#define HANDOFF_DATASETS_XLSX_H

#include "datasets/rows.h"

/* Cells of the first row name the columns. A row is an object: numbers as numbers, true and false as such, everything
 * else as text; empty cells are absent. Formulas give the value that was stored with them. */
struct xlsx;
int xlsx_open(struct xlsx **out, struct archive *a, struct err *e);
/* The same from the two XML files; `sheet` must outlive it. */
int xlsx_parse(struct xlsx **out, const char *file, const char *shared, size_t n_shared, const char *sheet,
               size_t n_sheet, struct err *e);
void xlsx_close(struct xlsx *x);                        /* NULL is fine */
/* row->value lives until the next call. */
enum row_result xlsx_next(struct xlsx *x, struct row *row, struct err *e);

#endif
