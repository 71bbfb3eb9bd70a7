/* table.h - a table of figures that prints as aligned text, Markdown or CSV (inside reports/ only).
 *
 *     struct table t = {.title = "AUROC by hold-out"};
 *     table_column(&t, "hold-out", "task", ALIGN_LEFT);
 *     table_column(&t, "n", "n", ALIGN_RIGHT);
 *     table_text(&t, "mmlu"); table_int(&t, 200);
 *     table_terminal(&t, out);
 *     table_free(&t);
 *
 * Cells are filled row by row, left to right. A cell has a form for people (rounded) and one for CSV (all digits); an
 * interval is one cell for people and two fields in CSV.
 */
#ifndef HANDOFF_TABLE_H
#define HANDOFF_TABLE_H

#include "reports/report.h"

enum table_align { ALIGN_LEFT, ALIGN_RIGHT };

struct table_column { const char *head, *csv; enum table_align align; };
struct table_cell { const char *shown, *csv; };

struct table {
    const char *title;
    int n_columns, n_cells;
    struct table_column *columns;
    struct table_cell *cells;   /* [rows * n_columns] */
    int rule_before;            /* a line before this row (a mean, a total); 0: none */
    struct text notes;          /* lines below the table */
    struct arena arena;
};

/* csv NULL: the column is not in the CSV; "a,b": an interval's two fields. */
void table_column(struct table *t, const char *head, const char *csv, enum table_align align);
void table_cell(struct table *t, const char *shown, const char *csv);   /* both are copied */
void table_text(struct table *t, const char *s);
void table_int(struct table *t, int64_t v);
/* "-" if undefined, an empty CSV field. `format` is [+][.]PLACES[%]: a sign always, no zero before the point, percent. */
void table_figure(struct table *t, struct figure f, const char *format);
void table_number(struct table *t, double v, const char *format);
void table_interval(struct table *t, struct interval i, const char *format);
void table_p_value(struct table *t, struct figure p);
void table_threshold(struct table *t, double threshold);        /* INFINITY: "all", NaN: "-" */
void table_rule(struct table *t);       /* before the next row */
int table_rows(const struct table *t);
void table_free(struct table *t);

void table_terminal(const struct table *t, struct text *out);
void table_markdown(const struct table *t, struct text *out);
void table_csv(const struct table *t, struct text *out);
void table_html(const struct table *t, struct text *out);
/* In a format other than JSON, unless it has no rows; frees it. */
void table_print(struct table *t, enum report_format format, struct text *out);

/* Columns of a terminal that UTF-8 text takes: wide East Asian characters count two, combining marks none. */
int text_width(const char *s);
void put_number(struct text *out, const char *format, double v);
void put_interval(struct text *out, const char *format, struct interval i);
/* A p value: "<.001", ".034"; "-" if undefined. */
void put_p_value(struct text *t, struct figure p);

#endif
