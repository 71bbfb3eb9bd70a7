/* xlsx.c - a workbook is a zip of XML: xl/sharedStrings.xml holds the texts, xl/worksheets/sheet1.xml the cells.
 *
 * The sheet is parsed as a stream that stops behind each row. Document types, and with them entities, are refused: no
 * spreadsheet program writes them.
 */
#include "datasets/xlsx.h"

#include <expat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 16384, FIELD_MAX = 32768 * 4, SHEET_MAX = 1 << 30 };

struct strings { struct text bytes; size_t *start; size_t n, cap; };

enum cell_kind { CELL_NUMBER, CELL_SHARED, CELL_BOOL, CELL_TEXT };

struct xlsx {
    char *file;                 /* for messages */
    struct blob blob;           /* owner of the sheet, if it came from an archive */
    const char *sheet;
    size_t n_sheet;
    bool begun;
    XML_Parser parser;
    struct strings shared;
    cJSON *header;              /* array of column names, NULL where a column has none */
    cJSON *row;                 /* object being made, or the header's array */
    cJSON *value;               /* the row handed out last */
    int64_t number;             /* of the row being parsed */
    int column, n_columns;
    enum cell_kind kind;
    bool in_value, row_done, in_phonetic;
    struct text text;
    const char *fault;
};

static void stop(struct xlsx *x, const char *fault)
{
    if (!x->fault)
        x->fault = fault;
    XML_StopParser(x->parser, XML_FALSE);
}

/* Names may carry a prefix ("x:row"). */
static bool is(const char *name, const char *local)
{
    const char *colon = strrchr(name, ':');
    return strcmp(colon ? colon + 1 : name, local) == 0;
}

static const char *attribute(const char **attributes, const char *name)
{
    for (; *attributes; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return NULL;
}

static void refuse_doctype(void *arg, const char *name, const char *sysid, const char *pubid, int has_subset)
{
    (void)name, (void)sysid, (void)pubid, (void)has_subset;
    stop(arg, "a document type, which no workbook has");
}

static void collect(void *arg, const char *s, int n)
{
    struct xlsx *x = arg;
    if (!x->in_value || x->in_phonetic)
        return;
    if (x->text.len + (size_t)n > FIELD_MAX)
        stop(x, "a cell of more than 128 KiB");
    else
        text_put(&x->text, s, (size_t)n);
}

/* ---- shared strings -------------------------------------------------------------------------------------------- */

/* A string is an <si> with <t>, or runs <r><t>; <rPh> is a reading aid and no part of it. */
static void shared_begin(void *arg, const char *name, const char **attributes)
{
    struct xlsx *x = arg;
    (void)attributes;
    if (is(name, "si"))
        text_clear(&x->text);
    else if (is(name, "rPh"))
        x->in_phonetic = true;
    else if (is(name, "t"))
        x->in_value = true;
}

static void shared_end(void *arg, const char *name)
{
    struct xlsx *x = arg;
    struct strings *s = &x->shared;
    if (is(name, "t")) {
        x->in_value = false;
    } else if (is(name, "rPh")) {
        x->in_phonetic = false;
    } else if (is(name, "si")) {
        if (s->n == s->cap) {
            s->cap = s->cap ? s->cap * 2 : 256;
            s->start = mem_grow(s->start, s->cap, sizeof *s->start);
        }
        s->start[s->n++] = s->bytes.len;
        text_put(&s->bytes, x->text.data ? x->text.data : "", x->text.len);
        text_put(&s->bytes, "", 1);
    }
}

/* ---- the sheet ------------------------------------------------------------------------------------------------- */

/* "BC12" -> 54; -1 for what is no such reference. */
static int column_of(const char *reference)
{
    int column = 0;
    const char *p = reference;
    for (; *p >= 'A' && *p <= 'Z' && column <= COLUMNS_MAX; p++)
        column = column * 26 + (*p - 'A' + 1);
    return p == reference || column > COLUMNS_MAX ? -1 : column - 1;
}

static void cell_begin(struct xlsx *x, const char **attributes)
{
    const char *reference = attribute(attributes, "r"), *type = attribute(attributes, "t");
    x->column = reference ? column_of(reference) : x->column + 1;
    if (x->column < 0 || x->column >= COLUMNS_MAX) {
        stop(x, "a cell reference such as B12 was expected");
        return;
    }
    x->kind = !type || strcmp(type, "n") == 0 ? CELL_NUMBER : strcmp(type, "s") == 0 ? CELL_SHARED :
              strcmp(type, "b") == 0 ? CELL_BOOL : CELL_TEXT;
    text_clear(&x->text);
}

static void sheet_begin(void *arg, const char *name, const char **attributes)
{
    struct xlsx *x = arg;
    if (is(name, "row") && x->row) {
        stop(x, "a row within a row");
    } else if (is(name, "row")) {
        const char *number = attribute(attributes, "r");
        x->number = number ? strtoll(number, NULL, 10) : x->number + 1;
        x->column = -1;
        x->row = x->header ? cJSON_CreateObject() : cJSON_CreateArray();
    } else if (is(name, "c") && x->row) {
        cell_begin(x, attributes);
    } else if (is(name, "rPh")) {
        x->in_phonetic = true;
    } else if (is(name, "v") || is(name, "t")) {
        x->in_value = true;
    }
}

/* NULL: an empty cell, or a fault. */
static cJSON *cell_value(struct xlsx *x)
{
    const char *text = x->text.data ? x->text.data : "";
    char *end;
    if (x->text.len == 0)
        return NULL;
    if (x->kind == CELL_TEXT)
        return cJSON_CreateString(text);
    if (x->kind == CELL_BOOL)
        return cJSON_CreateBool(strcmp(text, "1") == 0);
    double v = strtod(text, &end);
    if (*end || !isfinite(v)) {
        stop(x, "a cell that should hold a number does not");
        return NULL;
    }
    if (x->kind == CELL_NUMBER)
        return cJSON_CreateNumber(v);
    if (v < 0 || v >= (double)x->shared.n || v != floor(v)) {
        stop(x, "a cell names a shared string that is not there");
        return NULL;
    }
    return cJSON_CreateString(x->shared.bytes.data + x->shared.start[(size_t)v]);
}

static void header_cell(struct xlsx *x, cJSON *value)
{
    while (cJSON_GetArraySize(x->row) < x->column)
        cJSON_AddItemToArray(x->row, cJSON_CreateNull());
    if (cJSON_GetArraySize(x->row) == x->column)
        cJSON_AddItemToArray(x->row, value);
    else
        cJSON_Delete(value);
}

static void cell_end(struct xlsx *x)
{
    cJSON *value = cell_value(x);
    if (!value)
        return;
    if (!x->header) {
        header_cell(x, value);
        return;
    }
    const cJSON *name = cJSON_GetArrayItem(x->header, x->column);
    if (cJSON_IsString(name) && !cJSON_HasObjectItem(x->row, name->valuestring))
        cJSON_AddItemToObject(x->row, name->valuestring, value);
    else
        cJSON_Delete(value);
}

static void sheet_end(void *arg, const char *name)
{
    struct xlsx *x = arg;
    if (is(name, "v") || is(name, "t")) {
        x->in_value = false;
    } else if (is(name, "rPh")) {
        x->in_phonetic = false;
    } else if (is(name, "c") && x->row) {
        cell_end(x);
    } else if (is(name, "row") && x->row) {
        if (x->header)
            x->value = x->row;
        else
            x->header = x->row;
        x->row = NULL;
        if (x->value) {
            x->row_done = true;
            XML_StopParser(x->parser, XML_TRUE);
        }
    }
}

static const char shared_part[] = "xl/sharedStrings.xml";

/* ---- parsing --------------------------------------------------------------------------------------------------- */

static int parse_fault(struct xlsx *x, const char *part, struct err *e)
{
    return fault(e, "E_XML", "%s: %s, line %lu: %s", x->file, part, (unsigned long)XML_GetCurrentLineNumber(x->parser),
                 x->fault ? x->fault : XML_ErrorString(XML_GetErrorCode(x->parser)));
}

static void parser_open(struct xlsx *x, XML_StartElementHandler begin, XML_EndElementHandler end)
{
    x->parser = XML_ParserCreate("UTF-8");
    if (!x->parser)
        abort();
    XML_SetUserData(x->parser, x);
    XML_SetElementHandler(x->parser, begin, end);
    XML_SetCharacterDataHandler(x->parser, collect);
    XML_SetStartDoctypeDeclHandler(x->parser, refuse_doctype);
}

static int parse_shared(struct xlsx *x, const char *xml, size_t n, struct err *e)
{
    parser_open(x, shared_begin, shared_end);
    int failed = XML_Parse(x->parser, xml, (int)n, 1) == XML_STATUS_OK ? 0 : parse_fault(x, shared_part, e);
    XML_ParserFree(x->parser);
    x->parser = NULL;
    return failed;
}

static const struct member *first_sheet(const struct archive *a)
{
    static const char folder[] = "xl/worksheets/sheet";
    for (size_t i = 0; i < archive_count(a); i++)
        if (strncmp(archive_member(a, i)->name, folder, sizeof folder - 1) == 0)
            return archive_member(a, i);
    return NULL;
}

int xlsx_parse(struct xlsx **out, const char *file, const char *shared, size_t n_shared, const char *sheet,
               size_t n_sheet, struct err *e)
{
    struct xlsx *x = NEW(struct xlsx, 1);
    x->file = mem_strdup(file);
    if (n_shared && parse_shared(x, shared, n_shared, e)) {
        xlsx_close(x);
        *out = NULL;
        return -1;
    }
    x->sheet = sheet;
    x->n_sheet = n_sheet;
    parser_open(x, sheet_begin, sheet_end);
    *out = x;
    return 0;
}

int xlsx_open(struct xlsx **out, struct archive *a, struct err *e)
{
    const char *file = archive_path(a);
    const struct member *sheet = first_sheet(a), *shared = archive_find(a, shared_part);
    struct blob texts = {0}, cells = {0};
    *out = NULL;
    int failed = sheet ? 0 : fault(e, "E_XML", "%s: no xl/worksheets/sheet1.xml: no workbook", file);
    if (!failed && shared)
        failed = member_read(a, shared, SHEET_MAX, &texts, e);
    if (!failed)
        failed = member_read(a, sheet, SHEET_MAX, &cells, e);
    if (!failed)
        failed = xlsx_parse(out, file, texts.data, texts.size, cells.data, cells.size, e);
    if (!failed)
        (*out)->blob = cells;
    else
        blob_free(&cells);
    blob_free(&texts);
    return failed;
}

void xlsx_close(struct xlsx *x)
{
    if (!x)
        return;
    if (x->parser)
        XML_ParserFree(x->parser);
    cJSON_Delete(x->header);
    cJSON_Delete(x->row);
    cJSON_Delete(x->value);
    text_free(&x->text);
    text_free(&x->shared.bytes);
    free(x->shared.start);
    blob_free(&x->blob);
    free(x->file);
    free(x);
}

enum row_result xlsx_next(struct xlsx *x, struct row *row, struct err *e)
{
    cJSON_Delete(x->value);
    x->value = NULL;
    x->row_done = false;
    enum XML_Status status = x->begun ? XML_ResumeParser(x->parser)
                                      : XML_Parse(x->parser, x->sheet, (int)x->n_sheet, 1);
    x->begun = true;
    if (x->row_done) {
        *row = (struct row){.value = x->value, .file = x->file, .number = x->number};
        return ROW_OK;
    }
    if (status == XML_STATUS_OK || (!x->fault && XML_GetErrorCode(x->parser) == XML_ERROR_FINISHED))
        return ROW_END;
    parse_fault(x, "the sheet", e);
    return ROW_FATAL;
}
