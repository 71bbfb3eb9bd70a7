/* rows.c - CSV, JSON lines, JSON lists, text lines and parquet behind one iterator. */
#include "datasets/rows.h"

#include "datasets/parquet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_CONTEXT_MAX = 1 << 20, RELEASE_STEP = 8 << 20 };

struct rows {
    enum row_kind kind;
    struct blob blob;
    char *file;                 /* for messages */
    const char *data;
    size_t size, at;
    int64_t number;
    struct csv csv;
    cJSON *header;              /* array of column names */
    bool in_list, list_done, wrapped;
    struct parquet *parquet;
    cJSON *value;
    size_t released;            /* of a mapped file: bytes before this were given back */
    char warning[256];
};

static int open_header(struct rows *r, struct err *e)
{
    enum row_result rc = csv_next(&r->csv, r->file, e);
    if (rc == ROW_END)
        return fault(e, "E_EMPTY", "%s: no header line", r->file);
    if (rc != ROW_OK)
        return -1;
    r->header = cJSON_CreateArray();
    for (int i = 0; i < r->csv.n_fields; i++)
        cJSON_AddItemToArray(r->header, cJSON_CreateString(r->csv.fields[i]));
    return 0;
}

static void skip_bom(struct rows *r)
{
    if (r->size >= 3 && memcmp(r->data, "\xef\xbb\xbf", 3) == 0) {
        r->data += 3;
        r->size -= 3;
        snprintf(r->warning, sizeof r->warning, "%.150s begins with a byte order mark, which is skipped", r->file);
    }
}

static int open_json_list(struct rows *r, const char *key, struct err *e);

int rows_open(struct rows **out, struct archive *a, const struct member *m, enum row_kind kind, const char *list_key,
              struct err *e)
{
    struct rows *r = NEW(struct rows, 1);
    *out = r;
    r->kind = kind;
    bool single = strcmp(archive_form(a), "file") == 0;
    r->file = single ? mem_strdup(archive_path(a)) : path_join(archive_path(a), m->name);
    int rc = member_read(a, m, MEMBER_TEXT_MAX, &r->blob, e);
    r->data = r->blob.data;
    r->size = r->blob.size;
    if (!rc && kind != ROWS_PARQUET)
        skip_bom(r);
    if (!rc && (kind == ROWS_CSV || kind == ROWS_TSV || kind == ROWS_PIPES || kind == ROWS_CSV_BARE)) {
        csv_init(&r->csv, r->data, r->size, kind == ROWS_TSV ? '\t' : kind == ROWS_PIPES ? '|' : ',',
                 kind != ROWS_PIPES);
        rc = kind == ROWS_CSV_BARE ? 0 : open_header(r, e);
    }
    if (!rc && kind == ROWS_JSON)
        rc = open_json_list(r, list_key, e);
    if (!rc && kind == ROWS_PARQUET)
        rc = parquet_open(&r->parquet, r->data, r->size, r->file, r->blob.map.data != NULL, e);
    if (rc) {
        rows_close(r);
        *out = NULL;
        return -1;
    }
    return 0;
}

void rows_close(struct rows *r)
{
    if (!r)
        return;
    if (r->kind == ROWS_CSV || r->kind == ROWS_TSV || r->kind == ROWS_PIPES || r->kind == ROWS_CSV_BARE)
        csv_free(&r->csv);
    parquet_close(r->parquet);
    cJSON_Delete(r->value);
    cJSON_Delete(r->header);
    blob_free(&r->blob);
    free(r->file);
    free(r);
}

const char *rows_warning(const struct rows *r) { return r->warning; }
int64_t rows_total(const struct rows *r) { return r->parquet ? parquet_rows(r->parquet) : -1; }

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

static enum row_result next_csv(struct rows *r, struct err *e)
{
    enum row_result rc = csv_next(&r->csv, r->file, e);
    if (rc != ROW_END)
        r->number = r->csv.line;
    if (rc != ROW_OK)
        return rc;
    if (!r->header) {
        r->value = cJSON_CreateArray();
        for (int i = 0; i < r->csv.n_fields; i++)
            cJSON_AddItemToArray(r->value, cJSON_CreateString(r->csv.fields[i]));
        return ROW_OK;
    }
    int columns = cJSON_GetArraySize(r->header);
    if (r->csv.n_fields != columns) {
        fault(e, "E_COLUMNS", "%s:%lld: %d fields, the header has %d", r->file, (long long)r->number, r->csv.n_fields,
              columns);
        return ROW_REFUSED;
    }
    r->value = cJSON_CreateObject();
    const cJSON *name = r->header->child;
    for (int i = 0; i < columns; i++, name = name->next)
        cJSON_AddItemToObject(r->value, name->valuestring, cJSON_CreateString(r->csv.fields[i]));
    return ROW_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Strict parsing with the class of the fault: bytes or escapes that are no UTF-8, or else the syntax. */
static cJSON *parse(const struct rows *r, const char *s, size_t len, struct err *e)
{
    size_t bad;
    char where[512];
    snprintf(where, sizeof where, "%.480s:%lld", r->file, (long long)r->number);
    if (!utf8_valid(s, len, &bad)) {
        fault(e, "E_UTF8", "%s: not UTF-8 at byte %zu", where, bad);
        return NULL;
    }
    struct err inner = {0};
    cJSON *v = json_parse(s, len, where, &inner);
    if (!v)
        fault(e, strstr(inner.msg, "surrogate") ? "E_UTF8" : "E_JSON", "%s", inner.msg);
    return v;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void skip_blanks(struct rows *r)
{
    while (r->at < r->size && is_blank(r->data[r->at])) {
        r->number += r->data[r->at] == '\n';
        r->at++;
    }
}

/* End of the value at r->at by counting brackets outside strings, without recursion; the parser checks the rest. */
static size_t value_end(const struct rows *r)
{
    size_t i = r->at, depth = 0;
    for (; i < r->size; i++) {
        char c = r->data[i];
        if (c == '"') {
            for (i++; i < r->size && r->data[i] != '"'; i++)
                i += r->data[i] == '\\';
            if (i >= r->size)
                return r->size;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}') {
            if (depth == 0)
                return i;
            depth--;
        } else if (depth > 0 || !(c == ',' || is_blank(c) || c == ':')) {
            continue;
        } else {
            return i;
        }
        if (depth == 0)
            return i + 1;
    }
    return r->size;
}

static int json_syntax(const struct rows *r, const char *expected, struct err *e)
{
    return fault(e, "E_JSON", "%s: at byte %zu %s was expected", r->file, r->at, expected);
}

static bool take(struct rows *r, char c)
{
    skip_blanks(r);
    if (r->at >= r->size || r->data[r->at] != c)
        return false;
    r->at++;
    return true;
}

/* In an object: over the members that are not wanted, to the list. 1: at the list, 0: the object ended, -1: error. */
static int find_list(struct rows *r, const char *key, struct err *e)
{
    while (!take(r, '}')) {
        skip_blanks(r);
        size_t end = value_end(r);
        cJSON *name = parse(r, r->data + r->at, end - r->at, e);
        if (!name)
            return -1;
        bool wanted = cJSON_IsString(name) && key && strcmp(name->valuestring, key) == 0;
        bool is_name = cJSON_IsString(name);
        cJSON_Delete(name);
        r->at = end;
        if (!is_name || !take(r, ':'))
            return json_syntax(r, "a name and ':'", e);
        skip_blanks(r);
        if (wanted && r->at < r->size && r->data[r->at] == '[')
            return 1;
        end = value_end(r);
        if (end - r->at <= JSON_CONTEXT_MAX) {
            cJSON *v = parse(r, r->data + r->at, end - r->at, e);
            if (!v)
                return -1;
            cJSON_Delete(v);
        }
        r->at = end;
        if (!take(r, ',')) {
            if (!take(r, '}'))
                return json_syntax(r, "',' or '}'", e);
            return 0;
        }
    }
    return 0;
}

static int open_json_list(struct rows *r, const char *key, struct err *e)
{
    r->number = 1;
    if (take(r, '{')) {
        r->wrapped = true;
        int rc = find_list(r, key, e);
        if (rc < 0)
            return -1;
        if (rc == 0)
            return fault(e, "E_COLUMNS", "%s: no list \"%s\"", r->file, key ? key : "");
    }
    if (!take(r, '['))
        return json_syntax(r, "a list", e);
    r->in_list = true;
    return 0;
}

/* Behind the list: nothing but the rest of the object around it. */
static enum row_result end_json_list(struct rows *r, struct err *e)
{
    r->list_done = true;
    if (r->wrapped && take(r, ',')) {
        if (find_list(r, NULL, e) < 0)
            return ROW_FATAL;
    } else if (r->wrapped && !take(r, '}')) {
        json_syntax(r, "'}'", e);
        return ROW_FATAL;
    }
    skip_blanks(r);
    if (r->at < r->size) {
        json_syntax(r, "the end", e);
        return ROW_FATAL;
    }
    return ROW_END;
}

static enum row_result next_json(struct rows *r, struct err *e)
{
    if (r->list_done)
        return ROW_END;
    bool first = r->in_list;
    r->in_list = false;
    if (take(r, ']'))
        return end_json_list(r, e);
    if (!first && !take(r, ',')) {
        json_syntax(r, "',' or ']'", e);
        return ROW_FATAL;
    }
    skip_blanks(r);
    size_t end = value_end(r);
    int64_t line = r->number;
    r->value = parse(r, r->data + r->at, end - r->at, e);
    if (!r->value)
        return ROW_FATAL;
    for (; r->at < end; r->at++)
        line += r->data[r->at] == '\n';
    r->number = line;
    return ROW_OK;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static enum row_result next_line(struct rows *r, struct err *e)
{
    for (;;) {
        if (r->at >= r->size)
            return ROW_END;
        const char *line = r->data + r->at;
        const char *end = memchr(line, '\n', r->size - r->at);
        size_t len = end ? (size_t)(end - line) : r->size - r->at;
        r->at += len + (end != NULL);
        r->number++;
        while (len && (line[len - 1] == '\r'))
            len--;
        size_t lead = 0;
        while (lead < len && is_blank(line[lead]))
            lead++;
        if (lead == len)
            continue;
        if (r->kind == ROWS_JSONL) {
            r->value = parse(r, line, len, e);
            return r->value ? ROW_OK : ROW_REFUSED;
        }
        size_t bad;
        if (!utf8_valid(line, len, &bad) || memchr(line, '\0', len)) {
            fault(e, "E_UTF8", "%s:%lld: the line is not UTF-8 text", r->file, (long long)r->number);
            return ROW_REFUSED;
        }
        char *copy = mem_strndup(line, len);
        r->value = cJSON_CreateString(copy);
        free(copy);
        return ROW_OK;
    }
}

/* ---- the one interface ------------------------------------------------------------------------------------------- */

/* A large table is read once from front to end: what lies behind need not stay in memory. */
static void release_behind(struct rows *r)
{
    size_t at = r->csv.data ? r->csv.at : r->at;
    if (!r->blob.map.data || r->parquet || at < r->released + RELEASE_STEP)
        return;
    release_pages(r->data + r->released, r->data + at);
    r->released = at;
}

enum row_result rows_next(struct rows *r, struct row *row, struct err *e)
{
    release_behind(r);
    cJSON_Delete(r->value);
    r->value = NULL;
    enum row_result rc;
    if (r->kind == ROWS_PARQUET) {
        rc = parquet_next(r->parquet, &r->value, e);
        r->number += rc != ROW_END;
    } else if (r->kind == ROWS_JSON) {
        rc = next_json(r, e);
    } else if (r->kind == ROWS_JSONL || r->kind == ROWS_LINES) {
        rc = next_line(r, e);
    } else {
        rc = next_csv(r, e);
    }
    *row = (struct row){.value = r->value, .file = r->file, .number = r->number};
    return rc;
}
