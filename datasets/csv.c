/* csv.c - RFC 4180: fields in quotes may hold delimiters, line breaks and doubled quotes; LF or CRLF end a row. */
#include "datasets/rows.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 4096 };

void csv_init(struct csv *c, const char *data, size_t size, char delimiter, bool quoting)
{
    *c = (struct csv){.data = data, .size = size, .delimiter = delimiter, .quoting = quoting, .next_line = 1};
}

void csv_free(struct csv *c)
{
    text_free(&c->cells);
    free(c->starts);
    free(c->fields);
    *c = (struct csv){0};
}

static void begin_field(struct csv *c)
{
    if (c->n_fields == c->cap_fields) {
        c->cap_fields = c->cap_fields ? c->cap_fields * 2 : 16;
        c->starts = mem_grow(c->starts, (size_t)c->cap_fields, sizeof *c->starts);
        c->fields = mem_grow(c->fields, (size_t)c->cap_fields, sizeof *c->fields);
    }
    c->starts[c->n_fields++] = c->cells.len;
}

/* A field in quotes; 0, or -1 if its end is missing. */
static int quoted_field(struct csv *c)
{
    c->at++;
    for (;;) {
        const char *from = c->data + c->at;
        const char *quote = memchr(from, '"', c->size - c->at);
        if (!quote)
            return -1;
        for (const char *p = from; (p = memchr(p, '\n', (size_t)(quote - p))); p++)
            c->next_line++;
        text_put(&c->cells, from, (size_t)(quote - from));
        c->at = (size_t)(quote - c->data) + 1;
        if (c->at >= c->size || c->data[c->at] != '"')
            return 0;
        text_putc(&c->cells, '"');
        c->at++;
    }
}

static void plain_field(struct csv *c)
{
    size_t from = c->at;
    while (c->at < c->size && c->data[c->at] != c->delimiter && c->data[c->at] != '\n')
        c->at++;
    size_t end = c->at;
    bool row_ends = c->at >= c->size || c->data[c->at] == '\n';
    if (row_ends && end > from && c->data[end - 1] == '\r')
        end--;
    text_put(&c->cells, c->data + from, end - from);
}

/* Whether the row goes on behind a field. */
static bool field_ends(struct csv *c)
{
    if (c->at < c->size && c->data[c->at] == c->delimiter) {
        c->at++;
        return false;
    }
    if (c->at < c->size && c->data[c->at] == '\r' && (c->at + 1 >= c->size || c->data[c->at + 1] == '\n'))
        c->at++;
    if (c->at < c->size && c->data[c->at] == '\n') {
        c->at++;
        c->next_line++;
    }
    return true;
}

static enum row_result check_row(struct csv *c, const char *file, struct err *e)
{
    size_t bad;
    for (int i = 0; i < c->n_fields; i++) {
        c->fields[i] = c->cells.data + c->starts[i];
        size_t end = i + 1 < c->n_fields ? c->starts[i + 1] - 1 : c->cells.len - 1;
        size_t len = end - c->starts[i];
        if (memchr(c->fields[i], '\0', len)) {
            fault(e, "E_CSV", "%s:%lld: field %d holds a NUL byte", file, (long long)c->line, i + 1);
            return ROW_REFUSED;
        }
        if (!utf8_valid(c->fields[i], len, &bad)) {
            fault(e, "E_UTF8", "%s:%lld: field %d is not UTF-8 at its byte %zu", file, (long long)c->line, i + 1, bad);
            return ROW_REFUSED;
        }
    }
    return ROW_OK;
}

enum row_result csv_next(struct csv *c, const char *file, struct err *e)
{
    /* blank lines between rows are no rows */
    while (c->at < c->size && (c->data[c->at] == '\n' ||
           (c->data[c->at] == '\r' && c->at + 1 < c->size && c->data[c->at + 1] == '\n'))) {
        c->next_line += c->data[c->at] == '\n';
        c->at++;
    }
    if (c->at >= c->size)
        return ROW_END;
    c->line = c->next_line;
    c->n_fields = 0;
    text_clear(&c->cells);
    bool stray = false;
    for (bool done = false; !done;) {
        begin_field(c);
        if (c->quoting && c->at < c->size && c->data[c->at] == '"') {
            if (quoted_field(c)) {
                fault(e, "E_CSV", "%s:%lld: the quote of field %d is never closed", file, (long long)c->line,
                      c->n_fields);
                return ROW_FATAL;
            }
            stray |= c->at < c->size && c->data[c->at] != c->delimiter && c->data[c->at] != '\n' &&
                     c->data[c->at] != '\r';
            if (stray)
                plain_field(c);
        } else {
            plain_field(c);
        }
        text_putc(&c->cells, '\0');
        done = field_ends(c);
        if (c->n_fields > FIELDS_MAX) {
            fault(e, "E_CSV", "%s:%lld: more than %d fields", file, (long long)c->line, FIELDS_MAX);
            return ROW_FATAL;
        }
    }
    enum row_result rc = check_row(c, file, e);
    if (rc == ROW_OK && stray) {
        fault(e, "E_CSV", "%s:%lld: text behind a closing quote", file, (long long)c->line);
        return ROW_REFUSED;
    }
    return rc;
}
