/* parquet_write.c - pages, column chunks and the footer, the latter in Thrift's compact protocol. */
#include "eval/parquet_write.h"
#include "eval/cli.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { GROUP_ROWS = 65536, COMPRESSION = 3 };
/* Numbers of the format. */
enum { TYPE_BOOLEAN = 0, TYPE_INT64 = 2, TYPE_DOUBLE = 5, TYPE_BYTE_ARRAY = 6 };
enum { ENCODING_PLAIN = 0, ENCODING_RLE = 3, CODEC_ZSTD = 6, OPTIONAL = 1, CONVERTED_UTF8 = 0, DATA_PAGE = 0 };

struct chunk {
    struct text present;        /* one byte a row: is there a value? */
    struct text values;         /* PLAIN; booleans one byte each until the page is made */
    bool put;                   /* in the row being made */
};

struct parquet_writer {
    const struct parquet_column *columns;
    int n_columns;
    struct chunk *chunk;
    int64_t n_rows, group_rows;
    struct text file, groups, notes;
    int n_groups, n_notes;
};

/* ---- Thrift's compact protocol --------------------------------------------------------------------------------- */

enum { T_I32 = 5, T_I64 = 6, T_BINARY = 8, T_LIST = 9, T_STRUCT = 12 };

static void put_varint(struct text *t, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        text_putc(t, (int)(v & 0x7f) | 0x80);
    text_putc(t, (int)v);
}

static void put_zigzag(struct text *t, int64_t v) { put_varint(t, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63)); }

/* Field ids only grow; *last is the one before. */
static void put_field(struct text *t, int *last, int id, int type)
{
    text_putc(t, (id - *last) << 4 | type);
    *last = id;
}

static void put_i32(struct text *t, int *last, int id, int64_t v) { put_field(t, last, id, T_I32), put_zigzag(t, v); }
static void put_i64(struct text *t, int *last, int id, int64_t v) { put_field(t, last, id, T_I64), put_zigzag(t, v); }

static void put_binary(struct text *t, const char *s, size_t n)
{
    put_varint(t, n);
    text_put(t, s, n);
}

static void put_list(struct text *t, int *last, int id, int n, int type)
{
    put_field(t, last, id, T_LIST);
    if (n < 15) {
        text_putc(t, n << 4 | type);
    } else {
        text_putc(t, 0xf0 | type);
        put_varint(t, (uint64_t)n);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

struct parquet_writer *parquet_writer_new(const struct parquet_column *columns, int n)
{
    struct parquet_writer *w = NEW(struct parquet_writer, 1);
    w->columns = columns;
    w->n_columns = n;
    w->chunk = NEW(struct chunk, n);
    text_puts(&w->file, "PAR1");
    return w;
}

static struct text *put(struct parquet_writer *w, int column)
{
    w->chunk[column].put = true;
    return &w->chunk[column].values;
}

static void put_le(struct text *t, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        text_putc(t, (int)(v >> 8 * i & 0xff));
}

void parquet_put_bool(struct parquet_writer *w, int column, bool v) { text_putc(put(w, column), v); }
void parquet_put_int64(struct parquet_writer *w, int column, int64_t v) { put_le(put(w, column), (uint64_t)v, 8); }

void parquet_put_double(struct parquet_writer *w, int column, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_le(put(w, column), bits, 8);
}

void parquet_put_string(struct parquet_writer *w, int column, const char *s, size_t n)
{
    struct text *t = put(w, column);
    put_le(t, n, 4);
    text_put(t, s, n);
}

/* ---- pages ----------------------------------------------------------------------------------------------------- */

/* Bytes of 0 and 1 as bits, eight a byte, lowest first. */
static void put_bits(struct text *t, const struct text *flags)
{
    for (size_t i = 0; i < flags->len; i += 8) {
        int byte = 0;
        for (size_t j = i; j < flags->len && j < i + 8; j++)
            byte |= flags->data[j] << (j - i);
        text_putc(t, byte);
    }
}

/* Definition levels (one bit-packed run, behind its length), then the values. */
static void page_body(const struct chunk *c, enum parquet_type type, struct text *out)
{
    struct text levels = {0};
    put_varint(&levels, (c->present.len + 7) / 8 << 1 | 1);
    put_bits(&levels, &c->present);
    put_le(out, levels.len, 4);
    text_put(out, levels.data, levels.len);
    text_free(&levels);
    if (type == PARQUET_BOOL)
        put_bits(out, &c->values);
    else if (c->values.len)
        text_put(out, c->values.data, c->values.len);
}

static void page_header(struct text *t, size_t size, size_t packed, int64_t rows)
{
    int last = 0, inner = 0;
    put_i32(t, &last, 1, DATA_PAGE);
    put_i32(t, &last, 2, (int64_t)size);
    put_i32(t, &last, 3, (int64_t)packed);
    put_field(t, &last, 5, T_STRUCT);
    put_i32(t, &inner, 1, rows);
    put_i32(t, &inner, 2, ENCODING_PLAIN);
    put_i32(t, &inner, 3, ENCODING_RLE);
    put_i32(t, &inner, 4, ENCODING_RLE);
    text_putc(t, 0);
    text_putc(t, 0);
}

static int type_number(enum parquet_type type)
{
    static const int number[] = {TYPE_BOOLEAN, TYPE_INT64, TYPE_DOUBLE, TYPE_BYTE_ARRAY};
    return number[type];
}

/* Writes one column of the row group and appends its ColumnChunk to the group's list. Returns its bytes unpacked. */
static int64_t write_chunk(struct parquet_writer *w, int column)
{
    struct chunk *c = &w->chunk[column];
    struct text body = {0}, header = {0};
    page_body(c, w->columns[column].type, &body);
    const size_t bound = ZSTD_compressBound(body.len);
    char *packed = mem_alloc(bound, 1);
    const size_t n = ZSTD_compress(packed, bound, body.data, body.len, COMPRESSION);
    const int64_t at = (int64_t)w->file.len;
    page_header(&header, body.len, n, w->group_rows);
    text_put(&w->file, header.data, header.len);
    text_put(&w->file, packed, n);

    struct text *t = &w->groups;
    int last = 0, inner = 0;
    put_i64(t, &last, 2, at);
    put_field(t, &last, 3, T_STRUCT);
    put_i32(t, &inner, 1, type_number(w->columns[column].type));
    put_list(t, &inner, 2, 2, T_I32);
    put_zigzag(t, ENCODING_PLAIN);
    put_zigzag(t, ENCODING_RLE);
    put_list(t, &inner, 3, 1, T_BINARY);
    put_binary(t, w->columns[column].name, strlen(w->columns[column].name));
    put_i32(t, &inner, 4, CODEC_ZSTD);
    put_i64(t, &inner, 5, w->group_rows);
    put_i64(t, &inner, 6, (int64_t)(header.len + body.len));
    put_i64(t, &inner, 7, (int64_t)(header.len + n));
    put_i64(t, &inner, 9, at);
    text_putc(t, 0);
    text_putc(t, 0);
    const int64_t size = (int64_t)(header.len + body.len);
    free(packed);
    text_free(&body);
    text_free(&header);
    text_clear(&c->present);
    text_clear(&c->values);
    return size;
}

static void write_group(struct parquet_writer *w)
{
    int last = 0;
    int64_t size = 0;
    if (w->group_rows == 0)
        return;
    put_list(&w->groups, &last, 1, w->n_columns, T_STRUCT);
    for (int i = 0; i < w->n_columns; i++)
        size += write_chunk(w, i);
    put_i64(&w->groups, &last, 2, size);
    put_i64(&w->groups, &last, 3, w->group_rows);
    text_putc(&w->groups, 0);
    w->n_groups++;
    w->n_rows += w->group_rows;
    w->group_rows = 0;
}

void parquet_end_row(struct parquet_writer *w)
{
    for (int i = 0; i < w->n_columns; i++) {
        text_putc(&w->chunk[i].present, w->chunk[i].put);
        w->chunk[i].put = false;
    }
    if (++w->group_rows == GROUP_ROWS)
        write_group(w);
}

/* ---- the footer ------------------------------------------------------------------------------------------------ */

void parquet_note(struct parquet_writer *w, const char *key, const char *value)
{
    int last = 0;
    put_field(&w->notes, &last, 1, T_BINARY);
    put_binary(&w->notes, key, strlen(key));
    put_field(&w->notes, &last, 2, T_BINARY);
    put_binary(&w->notes, value, strlen(value));
    text_putc(&w->notes, 0);
    w->n_notes++;
}

static void put_schema(struct text *t, const struct parquet_writer *w)
{
    int last = 0;
    put_field(t, &last, 4, T_BINARY);
    put_binary(t, "records", 7);
    put_i32(t, &last, 5, w->n_columns);
    text_putc(t, 0);
    for (int i = 0; i < w->n_columns; i++) {
        last = 0;
        put_i32(t, &last, 1, type_number(w->columns[i].type));
        put_i32(t, &last, 3, OPTIONAL);
        put_field(t, &last, 4, T_BINARY);
        put_binary(t, w->columns[i].name, strlen(w->columns[i].name));
        if (w->columns[i].type == PARQUET_STRING)
            put_i32(t, &last, 6, CONVERTED_UTF8);
        text_putc(t, 0);
    }
}

void parquet_finish(struct parquet_writer *w, struct text *out)
{
    static const char maker[] = "handoff " HANDOFF_VERSION;
    int last = 0;
    write_group(w);
    struct text *t = &w->file;
    const size_t footer = t->len;
    put_i32(t, &last, 1, 1);
    put_list(t, &last, 2, w->n_columns + 1, T_STRUCT);
    put_schema(t, w);
    put_i64(t, &last, 3, w->n_rows);
    put_list(t, &last, 4, w->n_groups, T_STRUCT);
    text_put(t, w->groups.data ? w->groups.data : "", w->groups.len);
    if (w->n_notes) {
        put_list(t, &last, 5, w->n_notes, T_STRUCT);
        text_put(t, w->notes.data, w->notes.len);
    }
    put_field(t, &last, 6, T_BINARY);
    put_binary(t, maker, sizeof maker - 1);
    text_putc(t, 0);
    put_le(t, t->len - footer, 4);
    text_puts(t, "PAR1");
    *out = *t;
    for (int i = 0; i < w->n_columns; i++) {
        text_free(&w->chunk[i].present);
        text_free(&w->chunk[i].values);
    }
    text_free(&w->groups);
    text_free(&w->notes);
    free(w->chunk);
    free(w);
}
