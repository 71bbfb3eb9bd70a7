/* table.c - rows of the files that other tools write: one table, or a folder or zip of tables, one after another. */
#include "datasets/datasets.h"
#include "datasets/rows.h"
#include "datasets/xlsx.h"

#include <stdlib.h>
#include <string.h>

struct table {
    struct archive *archive;
    char *inside;
    size_t member;              /* the next to open */
    struct rows *rows;
    struct xlsx *xlsx;
    cJSON *whole;               /* a member that is a row itself */
    struct text name;
};

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* -1: not a table. */
static int kind_of(const char *name)
{
    static const struct { const char *end; enum row_kind kind; } kinds[] = {
        {".csv", ROWS_CSV}, {".tsv", ROWS_TSV}, {".jsonl", ROWS_JSONL}, {".json", ROWS_JSON},
        {".parquet", ROWS_PARQUET}, {".txt", ROWS_LINES}, {".log", ROWS_LINES}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (ends_with(name, kinds[i].end))
            return (int)kinds[i].kind;
    return -1;
}

int table_open(struct table **out, const char *path, const char *inside, struct err *e)
{
    struct table *t = NEW(struct table, 1);
    t->inside = mem_strdup(inside ? inside : "");
    int failed = archive_open(&t->archive, path, e);
    if (!failed && ends_with(path, ".xlsx"))
        failed = xlsx_open(&t->xlsx, t->archive, e);
    if (failed) {
        table_close(t);
        t = NULL;
    }
    *out = t;
    return failed;
}

void table_close(struct table *t)
{
    if (!t)
        return;
    rows_close(t->rows);
    xlsx_close(t->xlsx);
    cJSON_Delete(t->whole);
    archive_close(t->archive);
    text_free(&t->name);
    free(t->inside);
    free(t);
}

/* A member of the folder `inside` is one row. */
static enum row_result read_whole(struct table *t, const struct member *m, struct row *row, struct err *e)
{
    struct blob b = {0};
    if (member_read(t->archive, m, MEMBER_TEXT_MAX, &b, e))
        return ROW_FATAL;
    text_clear(&t->name);
    text_printf(&t->name, "%s/%s", archive_path(t->archive), m->name);
    cJSON_Delete(t->whole);
    t->whole = json_parse(b.data, b.size, t->name.data, e);
    blob_free(&b);
    *row = (struct row){.value = t->whole, .file = t->name.data, .number = 1};
    return t->whole ? ROW_OK : ROW_FATAL;
}

static bool below(const char *name, const char *folder)
{
    size_t n = strlen(folder);
    return n && strncmp(name, folder, n) == 0 && name[n] == '/';
}

/* The next row of this member, or of those behind it. */
static enum row_result next_row(struct table *t, struct row *row, struct err *e)
{
    if (t->xlsx)
        return xlsx_next(t->xlsx, row, e);
    const bool single = strcmp(archive_form(t->archive), "file") == 0;
    for (;;) {
        if (t->rows) {
            enum row_result got = rows_next(t->rows, row, e);
            if (got != ROW_END)
                return got;
            rows_close(t->rows);
            t->rows = NULL;
        }
        if (t->member == archive_count(t->archive))
            return ROW_END;
        const struct member *m = archive_member(t->archive, t->member++);
        int kind = kind_of(single ? archive_path(t->archive) : m->name);
        if (!single && below(m->name, t->inside) && kind == ROWS_JSON)
            return read_whole(t, m, row, e);
        if (single && kind < 0) {
            fault(e, "E_TYPE", "%s: a table was expected: .csv .tsv .json .jsonl .parquet .xlsx .txt",
                  archive_path(t->archive));
            return ROW_FATAL;
        }
        if ((single || (kind >= 0 && kind != ROWS_JSON)) &&
            rows_open(&t->rows, t->archive, m, (enum row_kind)kind, t->inside, e))
            return ROW_FATAL;
    }
}

int table_next(struct table *t, struct table_row *out, struct err *e)
{
    struct row row = {0};
    enum row_result got = next_row(t, &row, e);
    *out = (struct table_row){row.value, row.file, row.number};
    return got == ROW_OK ? 1 : got == ROW_END ? 0 : -1;
}
