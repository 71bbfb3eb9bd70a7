/* parquet_thrift.c - footer and page headers: structs of the Thrift compact protocol, as parquet.thrift lays them out.
 *
 * A field begins with a byte: distance to the field before in the upper half (0: the id follows as a number), type in
 * the lower. Numbers are zigzag varints. Unknown fields are passed over.
 */
#include "datasets/parquet_format.h"

#include <string.h>

enum { T_STOP, T_TRUE, T_FALSE, T_I8, T_I16, T_I32, T_I64, T_DOUBLE, T_BINARY, T_LIST, T_SET, T_MAP, T_STRUCT };
enum { DEPTH_MAX = 32, FOOTER_MAX = 16 << 20, ELEMENTS_MAX = 65536 };

struct thrift { const uint8_t *p, *end; bool bad; };

static int take_byte(struct thrift *t)
{
    if (t->p >= t->end) {
        t->bad = true;
        return 0;
    }
    return *t->p++;
}

static uint64_t take_varint(struct thrift *t)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        int b = take_byte(t);
        v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return v;
    }
    t->bad = true;
    return 0;
}

static int64_t take_zigzag(struct thrift *t)
{
    uint64_t v = take_varint(t);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* The next field of a struct; false at its end. */
static bool take_field(struct thrift *t, int *id, int *type)
{
    int b = take_byte(t);
    *type = b & 15;
    if (t->bad || *type == T_STOP)
        return false;
    *id = b >> 4 ? *id + (b >> 4) : (int)take_zigzag(t);
    return !t->bad;
}

/* Element type and count of a list; each element takes a byte at least. */
static size_t take_list(struct thrift *t, int *type)
{
    int b = take_byte(t);
    uint64_t n = (uint64_t)b >> 4;
    *type = b & 15;
    if (n == 15)
        n = take_varint(t);
    if (n > (uint64_t)(t->end - t->p))
        t->bad = true;
    return t->bad ? 0 : (size_t)n;
}

static void pass(struct thrift *t, int type, int depth);

static void pass_bytes(struct thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->p))
        t->bad = true;
    else
        t->p += n;
}

static void pass_struct(struct thrift *t, int depth)
{
    int id = 0, type;
    while (take_field(t, &id, &type))
        pass(t, type, depth + 1);
}

/* In a list or map a boolean takes a byte, in a struct it is its field's type. */
static void pass_element(struct thrift *t, int type, int depth)
{
    if (type == T_TRUE || type == T_FALSE)
        take_byte(t);
    else
        pass(t, type, depth);
}

static void pass(struct thrift *t, int type, int depth)
{
    if (t->bad || depth > DEPTH_MAX) {
        t->bad = true;
    } else if (type == T_I8) {
        take_byte(t);
    } else if (type == T_I16 || type == T_I32 || type == T_I64) {
        take_varint(t);
    } else if (type == T_DOUBLE) {
        pass_bytes(t, 8);
    } else if (type == T_BINARY) {
        pass_bytes(t, take_varint(t));
    } else if (type == T_LIST || type == T_SET) {
        int element;
        for (size_t n = take_list(t, &element); n && !t->bad; n--)
            pass_element(t, element, depth + 1);
    } else if (type == T_MAP) {
        uint64_t n = take_varint(t);
        int types = n ? take_byte(t) : 0;
        if (n > (uint64_t)(t->end - t->p))      /* each pair takes two bytes at least */
            t->bad = true;
        for (; n && !t->bad; n--) {
            pass_element(t, types >> 4, depth + 1);
            pass_element(t, types & 15, depth + 1);
        }
    } else if (type == T_STRUCT) {
        pass_struct(t, depth);
    } else if (type != T_TRUE && type != T_FALSE) {
        t->bad = true;
    }
}

static int64_t take_int(struct thrift *t, int type)
{
    if (type == T_I8)
        return (int8_t)take_byte(t);
    if (type < T_I16 || type > T_I64)
        t->bad = true;
    return t->bad ? 0 : take_zigzag(t);
}

static int take_int32(struct thrift *t, int type)
{
    int64_t v = take_int(t, type);
    if (v < INT32_MIN || v > INT32_MAX)
        t->bad = true;
    return t->bad ? 0 : (int)v;
}

/* ---- schema ------------------------------------------------------------------------------------------------------ */

static void take_timestamp(struct thrift *t, struct pq_element *el)
{
    static const int64_t units[] = {1, 1000, 1000000, 1000000000};
    int id = 0, type, unit = 0, unit_type;
    el->meaning = PQ_TIMESTAMP;
    while (take_field(t, &id, &type)) {
        if (id != 2 || type != T_STRUCT) {
            pass(t, type, 1);
            continue;
        }
        while (take_field(t, &unit, &unit_type)) {
            el->per_second = unit >= 1 && unit <= 3 ? units[unit] : 1;
            pass(t, unit_type, 1);
        }
        unit = 0;
    }
}

static void take_decimal(struct thrift *t, struct pq_element *el)
{
    int id = 0, type;
    el->meaning = PQ_DECIMAL;
    while (take_field(t, &id, &type))
        if (id == 1)
            el->scale = take_int32(t, type);
        else
            pass(t, type, 1);
}

static void take_integer(struct thrift *t, struct pq_element *el)
{
    int id = 0, type;
    while (take_field(t, &id, &type)) {
        if (id == 2 && type == T_FALSE)
            el->meaning = PQ_UNSIGNED;
        pass(t, type, 1);
    }
}

static void take_logical_type(struct thrift *t, struct pq_element *el)
{
    int id = 0, type;
    while (take_field(t, &id, &type)) {
        if (type == T_STRUCT && id == 8)
            take_timestamp(t, el);
        else if (type == T_STRUCT && id == 5)
            take_decimal(t, el);
        else if (type == T_STRUCT && id == 10)
            take_integer(t, el);
        else
            pass(t, type, 1);
        if (id == 1 || id == 4 || id == 12)
            el->meaning = PQ_TEXT;
        else if (id == 2 || id == 3)
            el->meaning = id == 2 ? PQ_MAP : PQ_LIST;
        else if (id == 6)
            el->meaning = PQ_DATE;
    }
}

/* Older files say it by a "converted type" alone. */
static void take_converted(struct pq_element *el, int converted)
{
    if (el->meaning != PQ_AS_STORED)
        return;
    if (converted == 0 || converted == 4 || converted == 19)
        el->meaning = PQ_TEXT;
    else if (converted == 1 || converted == 2 || converted == 3)
        el->meaning = converted == 3 ? PQ_LIST : PQ_MAP;
    else if (converted == 5)
        el->meaning = PQ_DECIMAL;
    else if (converted == 6)
        el->meaning = PQ_DATE;
    else if (converted == 9 || converted == 10)
        el->meaning = PQ_TIMESTAMP;
    else if (converted >= 11 && converted <= 14)
        el->meaning = PQ_UNSIGNED;
    el->per_second = converted == 9 ? 1000 : converted == 10 ? 1000000 : el->per_second;
}

static void take_element(struct thrift *t, struct arena *a, struct pq_element *el)
{
    int id = 0, type;
    el->type = el->converted = -1;
    el->name = "";
    while (take_field(t, &id, &type)) {
        if (id == 4 && type == T_BINARY) {
            const uint64_t n = take_varint(t);
            const uint8_t *name = t->p;
            pass_bytes(t, n);
            if (!t->bad)
                el->name = arena_strndup(a, (const char *)name, (size_t)n);
        } else if (id == 10 && type == T_STRUCT) {
            take_logical_type(t, el);
        } else if (id == 1 || id == 2 || id == 3 || id == 5 || id == 6 || id == 7) {
            int *fields[] = {NULL, &el->type, &el->type_length, &el->repetition, NULL, &el->n_children,
                             &el->converted, &el->scale};
            *fields[id] = take_int32(t, type);
        } else {
            pass(t, type, 0);
        }
    }
    take_converted(el, el->converted);
    bool group = el->n_children > 0;
    if (group)
        el->type = -1;
    if (el->n_children < 0 || el->type > PQ_FIXED || el->type < -1 || el->repetition < 0 || el->repetition > 2 ||
        (el->type == PQ_FIXED && (el->type_length < 1 || el->type_length > 1 << 20)) || el->scale < 0 ||
        el->scale > 64 || !utf8_valid(el->name, strlen(el->name), NULL))
        t->bad = true;
}

/* ---- row groups -------------------------------------------------------------------------------------------------- */

static void take_chunk_metadata(struct thrift *t, struct pq_chunk *c)
{
    int id = 0, type;
    while (take_field(t, &id, &type)) {
        if (id == 1)
            c->type = take_int32(t, type);
        else if (id == 4)
            c->codec = take_int32(t, type);
        else if (id == 5)
            c->num_values = take_int(t, type);
        else if (id == 6)
            c->uncompressed_size = take_int(t, type);
        else if (id == 7)
            c->compressed_size = take_int(t, type);
        else if (id == 9)
            c->data_offset = take_int(t, type);
        else if (id == 11)
            c->dictionary_offset = take_int(t, type);
        else
            pass(t, type, 0);
    }
}

static void take_chunk(struct thrift *t, struct pq_chunk *c)
{
    int id = 0, type;
    c->type = -1;
    while (take_field(t, &id, &type)) {
        c->encrypted |= id == 8 || id == 9;
        if (id == 3 && type == T_STRUCT)
            take_chunk_metadata(t, c);
        else
            pass(t, type, 0);
    }
}

static void take_row_group(struct thrift *t, struct arena *a, struct pq_row_group *g)
{
    int id = 0, type, element;
    while (take_field(t, &id, &type)) {
        if (id == 1 && type == T_LIST && !g->chunks) {
            size_t n = take_list(t, &element);
            if (n > ELEMENTS_MAX || (n && element != T_STRUCT)) {
                t->bad = true;
                return;
            }
            g->chunks = ARENA_NEW(a, struct pq_chunk, n + 1);
            g->n_chunks = (int)n;
            for (size_t i = 0; i < n && !t->bad; i++)
                take_chunk(t, &g->chunks[i]);
        } else if (id == 3) {
            g->num_rows = take_int(t, type);
        } else {
            pass(t, type, 0);
        }
    }
}

static void take_footer(struct thrift *t, struct arena *a, struct pq_footer *f)
{
    int id = 0, type, element;
    while (take_field(t, &id, &type)) {
        bool schema = id == 2 && type == T_LIST && !f->elements, groups = id == 4 && type == T_LIST && !f->row_groups;
        if (id == 3) {
            f->num_rows = take_int(t, type);
        } else if (schema || groups) {
            size_t n = take_list(t, &element);
            if ((n && element != T_STRUCT) || (schema && n > ELEMENTS_MAX) || n > 1 << 20) {
                t->bad = true;
                return;
            }
            if (schema) {
                f->elements = ARENA_NEW(a, struct pq_element, n + 1);
                f->n_elements = (int)n;
            } else {
                f->row_groups = ARENA_NEW(a, struct pq_row_group, n + 1);
                f->n_row_groups = (int)n;
            }
            for (size_t i = 0; i < n && !t->bad; i++)
                schema ? take_element(t, a, &f->elements[i]) : take_row_group(t, a, &f->row_groups[i]);
        } else {
            pass(t, type, 0);
        }
    }
}

int pq_read_footer(const uint8_t *data, size_t size, const char *file, struct arena *a, struct pq_footer *out,
                   struct err *e)
{
    *out = (struct pq_footer){.num_rows = -1};
    bool long_enough = size >= 12;
    if (long_enough && memcmp(data + size - 4, "PARE", 4) == 0)
        return fault(e, "E_UNSUPPORTED", "%s: the footer is encrypted", file);
    if (size > 19 && memcmp(data, "version https://git", 19) == 0)
        return fault(e, "E_MAGIC", "%s: a Git LFS pointer stands for the file; fetch it (git lfs pull)", file);
    if (!long_enough || memcmp(data, "PAR1", 4) != 0 || memcmp(data + size - 4, "PAR1", 4) != 0)
        return fault(e, "E_MAGIC", "%s: no parquet file: it must begin and end with PAR1", file);
    const uint8_t *tail = data + size - 8;
    uint32_t n = (uint32_t)tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 | (uint32_t)tail[3] << 24;
    if (n > size - 12)
        return fault(e, "E_FOOTER", "%s: a footer of %u bytes in a file of %zu", file, n, size);
    if (n > FOOTER_MAX)
        return fault(e, "E_TOO_LARGE", "%s: a footer of %u bytes, at most %d are read", file, n, FOOTER_MAX);
    struct thrift t = {tail - n, tail, false};
    take_footer(&t, a, out);
    if (t.bad || out->n_elements < 1 || out->num_rows < 0)
        return fault(e, "E_FOOTER", "%s: the footer is damaged", file);
    int64_t rows = 0;
    for (int i = 0; i < out->n_row_groups; i++) {
        int64_t k = out->row_groups[i].num_rows;
        if (k < 0 || k > out->num_rows - rows)
            return fault(e, "E_FOOTER", "%s: row group %d has %lld rows of %lld", file, i, (long long)k,
                         (long long)out->num_rows);
        rows += k;
    }
    if (rows != out->num_rows)
        return fault(e, "E_FOOTER", "%s: %lld rows in the row groups, the footer says %lld", file, (long long)rows,
                     (long long)out->num_rows);
    return 0;
}

/* ---- page headers ------------------------------------------------------------------------------------------------ */

/* v1: num_values, encoding, definition and repetition encoding; dictionary: the first two. */
static void take_page_v1(struct thrift *t, struct pq_page *p)
{
    int id = 0, type;
    while (take_field(t, &id, &type)) {
        if (id == 1)
            p->num_values = take_int(t, type);
        else if (id == 2)
            p->encoding = take_int32(t, type);
        else if (id == 3 && type == T_I32)
            p->definition_encoding = take_int32(t, type);
        else if (id == 4 && type == T_I32)
            p->repetition_encoding = take_int32(t, type);
        else
            pass(t, type, 0);
    }
}

static void take_page_v2(struct thrift *t, struct pq_page *p)
{
    int id = 0, type;
    while (take_field(t, &id, &type)) {
        if (id == 1)
            p->num_values = take_int(t, type);
        else if (id == 3)
            p->num_rows = take_int(t, type);
        else if (id == 4)
            p->encoding = take_int32(t, type);
        else if (id == 5)
            p->definition_bytes = take_int(t, type);
        else if (id == 6)
            p->repetition_bytes = take_int(t, type);
        else if (id == 7)
            p->is_compressed = type == T_TRUE;
        else
            pass(t, type, 0);
    }
}

size_t pq_read_page_header(const uint8_t *data, size_t n, struct pq_page *p)
{
    struct thrift t = {data, data + n, false};
    int id = 0, type;
    *p = (struct pq_page){.kind = -1, .is_compressed = true, .definition_encoding = PQ_RLE,
                          .repetition_encoding = PQ_RLE};
    while (take_field(&t, &id, &type)) {
        if (id == 1)
            p->kind = take_int32(&t, type);
        else if (id == 2)
            p->uncompressed_size = take_int(&t, type);
        else if (id == 3)
            p->compressed_size = take_int(&t, type);
        else if (id == 4) {
            p->crc = (uint32_t)take_int(&t, type);
            p->has_crc = true;
        } else if ((id == 5 || id == 7) && type == T_STRUCT)
            take_page_v1(&t, p);
        else if (id == 8 && type == T_STRUCT)
            take_page_v2(&t, p);
        else
            pass(&t, type, 0);
    }
    bool bad = t.bad || p->kind < 0 || p->uncompressed_size < 0 || p->compressed_size < 0 || p->num_values < 0 ||
               p->definition_bytes < 0 || p->repetition_bytes < 0;
    return bad ? 0 : (size_t)(t.p - data);
}
