/* parquet.c - columns, pages and the assembly of rows.
 *
 * Each leaf of the schema tree is a column with its own position: a sequence of (repetition level, definition level,
 * value), as in the Dremel paper (Melnik et al., 2010). A row is put together by walking the tree: a definition level
 * below a node's own says that the node is null or its list empty, a repetition level equal to a list's own says that
 * the list goes on. All columns below a node must agree on that.
 */
#include "datasets/parquet.h"

#include "datasets/parquet_format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { DEPTH_MAX = 24, COLUMNS_MAX = 2048, LEVEL_ITEMS_MAX = 1 << 20, PAGE_VALUES_MAX = 1 << 24, RATIO_MAX = 200,
       STREAM_LEVELS_MAX = 8 << 20, RELEASE_STEP = 1 << 20 };
/* A page, and all pages that are held at a time. Larger compressed pages of byte strings are never held whole: they
 * count with the most that is held of them, which is a value, what its codec looks back to, and a dictionary's last
 * values. Dictionaries are worth more in memory. */
static const int64_t page_max = 64 << 20, pages_max = 160 << 20, stream_max = 40 << 20, dictionary_max = 64 << 20;
static const int64_t stream_page_from = 256 << 10, stream_dictionary_from = 32 << 20;

struct node {
    const struct pq_element *el;
    struct node *children;
    int n_children, max_def, max_rep;
    int first_leaf, n_leaves;           /* columns below it */
};

struct column {
    const struct node *leaf;
    const struct pq_chunk *chunk;
    uint64_t at, end;                   /* in the file, of the chunk's rest */
    uint64_t released;
    int64_t chunk_left, page_left;      /* levels to come */
    uint8_t *page, *dictionary_page;
    const uint8_t *dictionary_released;         /* of a streamed dictionary */
    struct pq_stream *stream;           /* a page that is not held, and its levels */
    uint8_t *stream_levels[2];
    size_t page_size, dictionary_size;  /* as counted in `held` */
    bool large;                         /* the page expanded beyond the ratio */
    struct pq_hybrid rep, def;
    struct pq_decoder decoder;
    struct pq_dictionary dictionary;
    bool has_dictionary, loaded;        /* loaded: rep_level and def_level are of the next entry */
    uint32_t rep_level, def_level;
};

struct parquet {
    const uint8_t *data;
    size_t size;
    const char *file;
    bool release;
    int64_t stream_page_from, stream_dictionary_from;   /* sizes from which pages are not held */
    struct arena arena;
    struct pq_footer footer;
    struct node root;
    struct column *columns;
    int n_columns, group;
    int64_t row_in_group, held, row;
    struct err refused;                 /* why the row at hand cannot be used; code 0: it can */
};

/* ---- schema tree ------------------------------------------------------------------------------------------------- */

static int build_node(struct parquet *p, struct node *n, int *next, int depth, int def, int rep, struct err *e)
{
    if (*next >= p->footer.n_elements || depth > DEPTH_MAX)
        return fault(e, "E_FOOTER", "%s: the schema is no tree of at most %d levels", p->file, DEPTH_MAX);
    n->el = &p->footer.elements[(*next)++];
    n->max_def = def + (depth > 0 && n->el->repetition != PQ_REQUIRED);
    n->max_rep = rep + (depth > 0 && n->el->repetition == PQ_REPEATED);
    n->first_leaf = p->n_columns;
    n->n_children = n->el->n_children;
    if (n->el->type >= 0) {
        if (p->n_columns >= COLUMNS_MAX)
            return fault(e, "E_TOO_LARGE", "%s: more than %d columns", p->file, COLUMNS_MAX);
        p->n_columns++;
    } else if (n->n_children > p->footer.n_elements - *next || (n->n_children == 0 && depth > 0)) {
        return fault(e, "E_FOOTER", "%s: a group with %d members in a schema of %d", p->file, n->n_children,
                     p->footer.n_elements);
    }
    n->children = ARENA_NEW(&p->arena, struct node, n->n_children + 1);
    for (int i = 0; i < n->n_children; i++)
        if (build_node(p, &n->children[i], next, depth + 1, n->max_def, n->max_rep, e))
            return -1;
    n->n_leaves = p->n_columns - n->first_leaf;
    return 0;
}

static void bind_leaves(struct parquet *p, const struct node *n)
{
    if (n->el->type >= 0)
        p->columns[n->first_leaf].leaf = n;
    for (int i = 0; i < n->n_children; i++)
        bind_leaves(p, &n->children[i]);
}

static int check_chunks(struct parquet *p, struct err *e)
{
    for (int g = 0; g < p->footer.n_row_groups; g++) {
        const struct pq_row_group *group = &p->footer.row_groups[g];
        if (group->n_chunks != p->n_columns)
            return fault(e, "E_FOOTER", "%s: row group %d has %d columns, the schema %d", p->file, g, group->n_chunks,
                         p->n_columns);
        for (int i = 0; i < p->n_columns; i++) {
            const struct pq_chunk *c = &group->chunks[i];
            int64_t begin = c->dictionary_offset > 0 && c->dictionary_offset < c->data_offset ? c->dictionary_offset :
                            c->data_offset;
            if (c->encrypted)
                return fault(e, "E_UNSUPPORTED", "%s: a column is encrypted", p->file);
            bool misplaced = c->num_values > 0 && (begin < 4 || c->compressed_size < 0 || begin > (int64_t)p->size ||
                                                   c->compressed_size > (int64_t)p->size - begin);
            if (c->type != p->columns[i].leaf->el->type || c->num_values < 0 || misplaced)
                return fault(e, "E_FOOTER", "%s: row group %d, column %s: wrong type, count or place", p->file, g,
                             p->columns[i].leaf->el->name);
        }
    }
    return 0;
}

int parquet_open(struct parquet **out, const void *data, size_t size, const char *file, bool release, struct err *e)
{
    struct parquet *p = NEW(struct parquet, 1);
    int next = 0;
    *p = (struct parquet){.data = data, .size = size, .file = file, .release = release, .group = -1,
                          .stream_page_from = stream_page_from, .stream_dictionary_from = stream_dictionary_from};
    int rc = pq_read_footer(data, size, file, &p->arena, &p->footer, e);
    if (!rc)
        rc = build_node(p, &p->root, &next, 0, 0, 0, e);
    if (!rc && next != p->footer.n_elements)
        rc = fault(e, "E_FOOTER", "%s: the schema has members outside its tree", file);
    p->columns = NEW(struct column, p->n_columns + 1);
    if (!rc) {
        bind_leaves(p, &p->root);
        rc = check_chunks(p, e);
    }
    if (rc) {
        parquet_close(p);
        p = NULL;
    }
    *out = p;
    return rc;
}

static void drop_page(struct parquet *p, struct column *c)
{
    p->held -= (int64_t)c->page_size;
    free(c->page);
    pq_stream_close(c->stream);
    free(c->stream_levels[0]);
    free(c->stream_levels[1]);
    c->page = c->stream_levels[0] = c->stream_levels[1] = NULL;
    c->stream = NULL;
    c->page_size = 0;
}

static void drop_dictionary(struct parquet *p, struct column *c)
{
    p->held -= (int64_t)(c->dictionary_size + c->dictionary.n * sizeof *c->dictionary.values);
    free(c->dictionary_page);
    pq_dictionary_free(&c->dictionary);
    c->dictionary_page = NULL;
    c->dictionary_size = 0;
    c->has_dictionary = false;
}

void parquet_close(struct parquet *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_columns && p->columns; i++) {
        drop_page(p, &p->columns[i]);
        drop_dictionary(p, &p->columns[i]);
        pq_decoder_free(&p->columns[i].decoder);
    }
    free(p->columns);
    arena_free(&p->arena);
    free(p);
}

void parquet_stream_from(struct parquet *p, int64_t bytes)
{
    p->stream_page_from = p->stream_dictionary_from = bytes;
}

int64_t parquet_rows(const struct parquet *p) { return p->footer.num_rows; }

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static const char *place(struct parquet *p, const struct column *c, char buf[256])
{
    snprintf(buf, 256, "%.180s: column %.40s, byte %llu", p->file, c->leaf->el->name, (unsigned long long)c->at);
    return buf;
}

static int page_fault(struct parquet *p, const struct column *c, const char *what, struct err *e)
{
    char where[256];
    bool unsupported = strncmp(what, "unsupported", 11) == 0;
    return fault(e, unsupported ? "E_UNSUPPORTED" : "E_DECOMPRESS", "%s: %s", place(p, c, where), what);
}

/* Memory for an expanded page, within the bounds of all that is held. */
static uint8_t *hold(struct parquet *p, struct column *c, int64_t n, struct err *e)
{
    char where[256];
    if (n > page_max || p->held + n > pages_max) {
        fault(e, "E_TOO_LARGE", "%s: a page of %lld bytes; at most %lld a page, %lld at a time, are read",
              place(p, c, where), (long long)n, (long long)page_max, (long long)pages_max);
        return NULL;
    }
    p->held += n;
    return mem_alloc((size_t)n + 1, 1);
}

/* Whether a page of byte strings is a bomb, or is too much beside the others. */
static int check_streamed(struct parquet *p, struct column *c, const struct pq_page *page, int64_t held, struct err *e)
{
    char where[256];
    c->large = page->uncompressed_size > 1 << 20 && page->uncompressed_size / RATIO_MAX > page->compressed_size;
    if (c->large && page->uncompressed_size > page_max)
        return fault(e, "E_BOMB", "%s: a page of %lld bytes from %lld", place(p, c, where),
                     (long long)page->uncompressed_size, (long long)page->compressed_size);
    if (p->held + held > pages_max)
        return fault(e, "E_TOO_LARGE", "%s: more large pages side by side than are read", place(p, c, where));
    return 0;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* The dictionary's bytes: in place if nothing is compressed, streamed if large, else expanded. *at stays NULL if they
 * are streamed. */
static int open_dictionary(struct parquet *p, struct column *c, const struct pq_page *page, const uint8_t *body,
                           const uint8_t **at, struct err *e)
{
    char where[256];
    int64_t size = page->uncompressed_size;
    if (c->chunk->codec == PQ_PLAIN_CODEC) {
        *at = body;
        return page->compressed_size == size ? 0 : page_fault(p, c, "an uncompressed page with two sizes", e);
    }
    if (c->leaf->el->type == PQ_BYTES && size > p->stream_dictionary_from && pq_stream_can(c->chunk->codec)) {
        int64_t held = at_most(2 * size, dictionary_max);
        if (check_streamed(p, c, page, held, e))
            return -1;
        c->dictionary_size = (size_t)held;
        c->dictionary_released = body;
        p->held += held;
        return pq_dictionary_stream(&c->dictionary, c->chunk->codec, body, (size_t)page->compressed_size,
                                    (uint64_t)size) ? 0 : page_fault(p, c, "the compressed page is damaged", e);
    }
    c->dictionary_page = hold(p, c, size, e);
    if (!c->dictionary_page)
        return -1;
    c->dictionary_size = (size_t)size;
    *at = c->dictionary_page;
    return pq_decompress(c->chunk->codec, body, (size_t)page->compressed_size, c->dictionary_page, c->dictionary_size,
                         place(p, c, where), e);
}

static int start_dictionary(struct parquet *p, struct column *c, const struct pq_page *page, const uint8_t *body,
                            struct err *e)
{
    struct pq_decoder d = {0};
    const struct pq_element *el = c->leaf->el;
    const uint8_t *at = NULL;
    if (c->has_dictionary || page->num_values > page->uncompressed_size ||
        (page->encoding != PQ_PLAIN && page->encoding != PQ_PLAIN_DICTIONARY))
        return page_fault(p, c, "damaged dictionary", e);
    drop_dictionary(p, c);
    if (open_dictionary(p, c, page, body, &at, e))
        return -1;
    int64_t table = page->num_values * (int64_t)sizeof *c->dictionary.values;
    if (p->held + table > pages_max)
        return page_fault(p, c, "a dictionary beyond what is read", e);
    c->dictionary.values = NEW(struct pq_value, page->num_values + 1);
    c->dictionary.n = (size_t)page->num_values;
    p->held += table;
    c->has_dictionary = true;
    if (!at)
        return 0;
    pq_decoder_start(&d, el->type, el->type_length, PQ_PLAIN, at, at + page->uncompressed_size, page->num_values, NULL);
    for (size_t i = 0; i < c->dictionary.n; i++)
        if (!pq_decoder_next(&d, &c->dictionary.values[i]))
            return page_fault(p, c, "the dictionary is shorter than it says", e);
    return 0;
}

static int bit_width(int max) { int n = 0; while (max >> n) n++; return n; }

/* Levels of a v1 page stand before its values, each with its length. */
static int start_levels_v1(struct parquet *p, struct column *c, const struct pq_page *page, const uint8_t **at,
                           const uint8_t *end, struct err *e)
{
    struct { int max, encoding; struct pq_hybrid *h; } levels[] = {
        {c->leaf->max_rep, page->repetition_encoding, &c->rep}, {c->leaf->max_def, page->definition_encoding, &c->def}};
    for (int i = 0; i < 2; i++) {
        if (levels[i].max == 0)
            continue;
        if (levels[i].encoding != PQ_RLE)
            return page_fault(p, c, "unsupported encoding of levels", e);
        if (end - *at < 4)
            return page_fault(p, c, "the page ends before its levels", e);
        const uint8_t *q = *at;
        uint32_t n = (uint32_t)q[3] << 24 | (uint32_t)q[2] << 16 | (uint32_t)q[1] << 8 | q[0];
        if (n > (size_t)(end - q) - 4)
            return page_fault(p, c, "levels beyond the page", e);
        pq_hybrid_start(levels[i].h, q + 4, q + 4 + n, bit_width(levels[i].max));
        *at = q + 4 + n;
    }
    return 0;
}

/* The expanded page: in place if nothing is compressed, else in memory of its own. v2 levels are never compressed. */
static const uint8_t *expand(struct parquet *p, struct column *c, const struct pq_page *page, const uint8_t *body,
                             int64_t levels, struct err *e)
{
    char where[256];
    bool plain = c->chunk->codec == PQ_PLAIN_CODEC || !page->is_compressed;
    c->large = page->uncompressed_size > 1 << 20 && page->uncompressed_size / RATIO_MAX > page->compressed_size;
    if (plain) {
        if (page->compressed_size == page->uncompressed_size)
            return body;
        page_fault(p, c, "an uncompressed page with two sizes", e);
        return NULL;
    }
    c->page = hold(p, c, page->uncompressed_size, e);
    if (!c->page)
        return NULL;
    c->page_size = (size_t)page->uncompressed_size;
    memcpy(c->page, body, (size_t)levels);
    if (page->uncompressed_size == levels && page->compressed_size == levels)
        return c->page;
    return pq_decompress(c->chunk->codec, body + levels, (size_t)(page->compressed_size - levels), c->page + levels,
                         (size_t)(page->uncompressed_size - levels), place(p, c, where), e) ? NULL : c->page;
}

static bool to_be_streamed(const struct parquet *p, const struct column *c, const struct pq_page *page)
{
    return c->leaf->el->type == PQ_BYTES && page->encoding == PQ_PLAIN && page->is_compressed &&
           pq_stream_can(c->chunk->codec) && page->uncompressed_size > p->stream_page_from;
}

/* The levels of a v1 page come out of the stream before its values. */
static int stream_levels(struct parquet *p, struct column *c, const struct pq_page *page, struct err *e)
{
    struct { int max, encoding; struct pq_hybrid *h; } levels[] = {
        {c->leaf->max_rep, page->repetition_encoding, &c->rep}, {c->leaf->max_def, page->definition_encoding, &c->def}};
    for (int i = 0; i < 2; i++) {
        if (levels[i].max == 0)
            continue;
        if (levels[i].encoding != PQ_RLE)
            return page_fault(p, c, "unsupported encoding of levels", e);
        const uint8_t *q = pq_stream_read(c->stream, 4);
        uint32_t n = q ? (uint32_t)q[3] << 24 | (uint32_t)q[2] << 16 | (uint32_t)q[1] << 8 | q[0] : UINT32_MAX;
        q = n <= STREAM_LEVELS_MAX ? pq_stream_read(c->stream, n) : NULL;
        if (!q)
            return page_fault(p, c, "levels beyond the page, or damaged", e);
        c->stream_levels[i] = memcpy(mem_alloc((size_t)n + 1, 1), q, n);
        pq_hybrid_start(levels[i].h, c->stream_levels[i], c->stream_levels[i] + n, bit_width(levels[i].max));
    }
    return 0;
}

static int start_stream(struct parquet *p, struct column *c, const struct pq_page *page, const uint8_t *body,
                        int64_t levels, struct err *e)
{
    const int64_t most = at_most(2 * page->uncompressed_size, stream_max);
    if (check_streamed(p, c, page, most, e))
        return -1;
    c->page_size = (size_t)most;
    p->held += most;
    c->stream = pq_stream_open(c->chunk->codec, body + levels, (size_t)(page->compressed_size - levels),
                               (uint64_t)(page->uncompressed_size - levels));
    if (!c->stream)
        return page_fault(p, c, "the compressed page is damaged", e);
    if (page->kind == 3) {
        pq_hybrid_start(&c->rep, body, body + page->repetition_bytes, bit_width(c->leaf->max_rep));
        pq_hybrid_start(&c->def, body + page->repetition_bytes, body + levels, bit_width(c->leaf->max_def));
    } else if (stream_levels(p, c, page, e)) {
        return -1;
    }
    pq_decoder_start(&c->decoder, PQ_BYTES, 0, PQ_PLAIN, NULL, NULL, page->num_values, NULL);
    c->decoder.stream = c->stream;
    c->page_left = page->num_values;
    return 0;
}

static int start_data(struct parquet *p, struct column *c, const struct pq_page *page, const uint8_t *body,
                      struct err *e)
{
    int64_t levels = page->kind == 3 ? page->repetition_bytes + page->definition_bytes : 0;
    if (levels > page->uncompressed_size || levels > page->compressed_size)
        return page_fault(p, c, "levels beyond the page", e);
    if (page->num_values > PAGE_VALUES_MAX || page->num_values > c->chunk_left)
        return page_fault(p, c, "more values in the page than in the column", e);
    drop_page(p, c);
    if (to_be_streamed(p, c, page))
        return start_stream(p, c, page, body, levels, e);
    const uint8_t *at = expand(p, c, page, body, levels, e);
    if (!at)
        return -1;
    const uint8_t *end = at + page->uncompressed_size;
    if (page->kind == 3) {
        pq_hybrid_start(&c->rep, at, at + page->repetition_bytes, bit_width(c->leaf->max_rep));
        pq_hybrid_start(&c->def, at + page->repetition_bytes, at + levels, bit_width(c->leaf->max_def));
        at += levels;
    } else if (start_levels_v1(p, c, page, &at, end, e)) {
        return -1;
    }
    const struct pq_element *el = c->leaf->el;
    const char *wrong = pq_decoder_start(&c->decoder, el->type, el->type_length, page->encoding, at, end,
                                         page->num_values, c->has_dictionary ? &c->dictionary : NULL);
    if (wrong)
        return page_fault(p, c, wrong, e);
    c->page_left = page->num_values;
    return 0;
}

/* Gives back what lies before the position. */
static void release_behind(struct parquet *p, struct column *c, uint64_t at)
{
    if (!p->release || at < c->released + RELEASE_STEP)
        return;
    release_pages(p->data + c->released, p->data + at);
    c->released = at;
}

/* The same behind a value that was copied: what it was expanded from, or the value itself in the file. */
static void release_value(struct parquet *p, struct column *c, const struct pq_value *v)
{
    if (!p->release || c->leaf->el->type != PQ_BYTES)
        return;
    const uint8_t *at = c->stream ? pq_stream_at(c->stream) : pq_dictionary_at(&c->dictionary);
    if (c->stream)
        release_behind(p, c, (uint64_t)(at - p->data));
    else if (at && at >= c->dictionary_released + RELEASE_STEP) {
        release_pages(c->dictionary_released, at);
        c->dictionary_released = at;
    } else if (!at && v->n >= RELEASE_STEP / 8 && v->as.bytes >= p->data && v->as.bytes < p->data + p->size)
        release_pages(v->as.bytes, v->as.bytes + v->n);
}

static uint32_t page_crc(const struct parquet *p, const uint8_t *body, size_t n)
{
    uint32_t crc = 0;
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < RELEASE_STEP ? n - at : RELEASE_STEP;
        crc = (uint32_t)crc32(crc, body + at, (uInt)part);
        if (p->release && n > RELEASE_STEP)
            release_pages(body + at, body + at + part);
    }
    return crc;
}

/* The next page of a column: its dictionary goes into place, a data page becomes current. */
static int next_page(struct parquet *p, struct column *c, struct err *e)
{
    struct pq_page page;
    char where[256];
    for (;;) {
        release_behind(p, c, c->at);
        size_t n = c->at < c->end ? pq_read_page_header(p->data + c->at, (size_t)(c->end - c->at), &page) : 0;
        if (!n)
            return page_fault(p, c, c->at < c->end ? "damaged page header" : "the column ends early", e);
        const uint8_t *body = p->data + c->at + n;
        if ((uint64_t)page.compressed_size > c->end - c->at - n)
            return page_fault(p, c, "a page beyond its column", e);
        if (page.has_crc && page_crc(p, body, (size_t)page.compressed_size) != page.crc)
            return fault(e, "E_CHECKSUM", "%s: the page has a wrong CRC", place(p, c, where));
        int rc = page.kind == 2 ? start_dictionary(p, c, &page, body, e) :
                 page.kind == 0 || page.kind == 3 ? start_data(p, c, &page, body, e) : 0;
        if (rc)
            return -1;
        c->at += n + (uint64_t)page.compressed_size;
        if (page.kind == 0 || page.kind == 3)
            return 0;
    }
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* Makes the levels of the next entry known. 1: there is one, 0: the column is at its end, -1. */
static int peek(struct parquet *p, struct column *c, struct err *e)
{
    if (c->loaded)
        return 1;
    if (c->chunk_left == 0)
        return 0;
    while (c->page_left == 0)
        if (next_page(p, c, e))
            return -1;
    c->rep_level = c->def_level = 0;
    if ((c->leaf->max_rep && !pq_hybrid_next(&c->rep, &c->rep_level)) ||
        (c->leaf->max_def && !pq_hybrid_next(&c->def, &c->def_level)) ||
        c->rep_level > (uint32_t)c->leaf->max_rep || c->def_level > (uint32_t)c->leaf->max_def)
        return page_fault(p, c, "damaged levels", e);
    c->loaded = true;
    return 1;
}

static int need_entry(struct parquet *p, struct column *c, struct err *e)
{
    int rc = peek(p, c, e);
    return rc == 0 ? page_fault(p, c, "the column ends before its rows", e) : rc < 0 ? -1 : 0;
}

static void consume(struct column *c)
{
    c->loaded = false;
    c->page_left--;
    c->chunk_left--;
}

/* ---- values to JSON ---------------------------------------------------------------------------------------------- */

/* A binary cell is a raw node that owns a copy; valuedouble is its length. */
static cJSON *binary_cell(const uint8_t *bytes, size_t n)
{
    cJSON *node = cJSON_CreateNull();
    node->type = cJSON_Raw;
    node->valuestring = mem_alloc(n + 1, 1);
    memcpy(node->valuestring, bytes, n);
    node->valuedouble = (double)n;
    return node;
}

bool row_bytes(const cJSON *node, const void **bytes, size_t *n)
{
    if (!cJSON_IsRaw(node))
        return false;
    *bytes = node->valuestring;
    *n = (size_t)node->valuedouble;
    return true;
}

/* Big-endian two's complement of up to 32 bytes as a decimal number with `scale` places. */
static cJSON *decimal_cell(const uint8_t *bytes, size_t n, int scale)
{
    uint8_t v[32];
    char digits[160];
    size_t at = sizeof digits;
    bool negative = n > 0 && bytes[0] & 0x80;
    for (size_t i = 0, carry = 1; i < n; i++) {         /* magnitude, least significant byte first */
        size_t b = negative ? (uint8_t)~bytes[n - 1 - i] + carry : bytes[n - 1 - i];
        v[i] = (uint8_t)b;
        carry = b >> 8;
    }
    digits[--at] = '\0';
    for (int place = 0; ; place++) {
        unsigned rest = 0;
        bool zero = true;
        for (size_t i = n; i-- > 0;) {
            rest = rest << 8 | v[i];
            v[i] = (uint8_t)(rest / 10);
            rest %= 10;
            zero &= v[i] == 0;
        }
        if (place == scale && scale > 0)
            digits[--at] = '.';
        digits[--at] = (char)('0' + rest);
        if (zero && place >= scale)
            break;
    }
    if (negative)
        digits[--at] = '-';
    return cJSON_CreateString(digits + at);
}

/* Days since 1970-01-01 as a civil date (H. Hinnant's algorithm). */
static void put_date(char *buf, size_t n, int64_t days)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 3 : mp - 9;
    snprintf(buf, n, "%04lld-%02d-%02d", (long long)(yoe + era * 400 + (month <= 2)), (int)month,
             (int)(doy - (153 * mp + 2) / 5 + 1));
}

/* v = whole * unit + rest with 0 <= rest < unit, without overflow for any v. */
static void split_number(int64_t v, int64_t unit, int64_t *whole, int64_t *rest)
{
    *rest = v % unit + (v % unit < 0 ? unit : 0);
    *whole = v / unit - (v % unit < 0);
}

static cJSON *time_cell(const struct pq_element *el, int64_t v)
{
    char date[64], text[128];
    if (el->meaning == PQ_DATE) {
        put_date(date, sizeof date, v);
        return cJSON_CreateString(date);
    }
    int64_t unit = el->per_second > 0 ? el->per_second : 1, second, day, fraction, in_day;
    split_number(v, unit, &second, &fraction);
    split_number(second, 86400, &day, &in_day);
    put_date(date, sizeof date, day);
    int used = snprintf(text, sizeof text, "%sT%02d:%02d:%02d", date, (int)(in_day / 3600), (int)(in_day / 60 % 60),
                        (int)(in_day % 60));
    if (fraction)
        snprintf(text + used, sizeof text - (size_t)used, ".%0*lld", unit == 1000 ? 3 : unit == 1000000 ? 6 : 9,
                 (long long)fraction);
    return cJSON_CreateString(text);
}

static cJSON *integer_cell(const struct pq_element *el, int64_t v)
{
    char text[32];
    uint64_t u = el->type == PQ_INT32 ? (uint32_t)v : (uint64_t)v;
    bool is_unsigned = el->meaning == PQ_UNSIGNED, exact = is_unsigned ? u <= (uint64_t)1 << 53 :
                       v <= (int64_t)1 << 53 && v >= -((int64_t)1 << 53);
    if (exact)
        return cJSON_CreateNumber(is_unsigned ? (double)u : (double)v);
    if (is_unsigned)
        snprintf(text, sizeof text, "%llu", (unsigned long long)u);
    else
        snprintf(text, sizeof text, "%lld", (long long)v);
    return cJSON_CreateString(text);
}

/* A value that cannot be used refuses the row; a null takes its place. */
static cJSON *refused_cell(struct parquet *p, const struct column *c, const char *class_name, const char *what)
{
    if (!p->refused.code)
        fault(&p->refused, class_name, "%s:%lld: column %s: %s", p->file, (long long)p->row, c->leaf->el->name, what);
    return cJSON_CreateNull();
}

static cJSON *bytes_cell(struct parquet *p, const struct column *c, const struct pq_value *v)
{
    const struct pq_element *el = c->leaf->el;
    if (v->n > MEMBER_MEDIA_MAX)
        return refused_cell(p, c, c->large ? "E_BOMB" : "E_TOO_LARGE", "a value of more than 16 MiB");
    if (el->meaning == PQ_DECIMAL && v->n <= 32)
        return decimal_cell(v->as.bytes, v->n, el->scale);
    if (el->meaning != PQ_TEXT)
        return binary_cell(v->as.bytes, v->n);
    if (memchr(v->as.bytes, '\0', v->n) || !utf8_valid((const char *)v->as.bytes, v->n, NULL))
        return refused_cell(p, c, "E_UTF8", "the text is not UTF-8, or holds a NUL");
    char *copy = mem_strndup((const char *)v->as.bytes, v->n);
    cJSON *node = cJSON_CreateNull();
    node->type = cJSON_String;
    node->valuestring = copy;
    return node;
}

static cJSON *value_cell(struct parquet *p, const struct column *c, const struct pq_value *v)
{
    const struct pq_element *el = c->leaf->el;
    uint8_t big_endian[8];
    switch (el->type) {
    case PQ_BOOLEAN:
        return cJSON_CreateBool(v->as.i != 0);
    case PQ_INT32:
    case PQ_INT64:
        if (el->meaning == PQ_TIMESTAMP || (el->meaning == PQ_DATE && v->as.i == (int32_t)v->as.i))
            return time_cell(el, v->as.i);
        for (int i = 0; i < 8; i++)
            big_endian[i] = (uint8_t)((uint64_t)v->as.i >> (56 - 8 * i));
        return el->meaning == PQ_DECIMAL ? decimal_cell(big_endian, 8, el->scale) : integer_cell(el, v->as.i);
    case PQ_FLOAT:
    case PQ_DOUBLE:
        return isfinite(v->as.f) ? cJSON_CreateNumber(v->as.f) : cJSON_CreateNull();
    default:
        return bytes_cell(p, c, v);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static cJSON *read_node(struct parquet *p, const struct node *n, struct err *e);

/* Whether all columns below a node are below its own definition level (null or empty): they must agree. */
static int take_absent(struct parquet *p, const struct node *n, bool *absent, struct err *e)
{
    for (int i = 0; i < n->n_leaves; i++) {
        struct column *c = &p->columns[n->first_leaf + i];
        if (need_entry(p, c, e))
            return -1;
        bool mine = c->def_level < (uint32_t)n->max_def;
        if (i && mine != *absent)
            return page_fault(p, c, "columns disagree about a null", e);
        *absent = mine;
    }
    for (int i = 0; *absent && i < n->n_leaves; i++)
        consume(&p->columns[n->first_leaf + i]);
    return 0;
}

/* One occurrence of a node that is there: an object or a value. */
static cJSON *read_present(struct parquet *p, const struct node *n, struct err *e)
{
    if (n->el->type < 0) {
        cJSON *o = cJSON_CreateObject();
        for (int i = 0; i < n->n_children; i++) {
            cJSON *v = read_node(p, &n->children[i], e);
            if (!v) {
                cJSON_Delete(o);
                return NULL;
            }
            cJSON_AddItemToObject(o, n->children[i].el->name, v);
        }
        return o;
    }
    struct column *c = &p->columns[n->first_leaf];
    struct pq_value v;
    if (need_entry(p, c, e))
        return NULL;
    if (!pq_decoder_next(&c->decoder, &v)) {
        page_fault(p, c, c->stream ? "the compressed page is damaged, or ends before its values" :
                   "the page ends before its values", e);
        return NULL;
    }
    consume(c);
    cJSON *cell = value_cell(p, c, &v);
    release_value(p, c, &v);
    return cell;
}

/* Whether the list goes on: the next repetition level of every column below is the list's own. */
static int list_goes_on(struct parquet *p, const struct node *n, bool *more, struct err *e)
{
    for (int i = 0; i < n->n_leaves; i++) {
        struct column *c = &p->columns[n->first_leaf + i];
        int rc = peek(p, c, e);
        if (rc < 0)
            return -1;
        bool mine = rc > 0 && c->rep_level >= (uint32_t)n->max_rep;
        if ((i && mine != *more) || (mine && c->rep_level > (uint32_t)n->max_rep))
            return page_fault(p, c, "columns disagree about the length of a list", e);
        *more = mine;
    }
    return 0;
}

static cJSON *read_list(struct parquet *p, const struct node *n, struct err *e)
{
    bool absent = true, more = true;
    cJSON *list = cJSON_CreateArray(), *last = NULL;
    if (n->n_leaves == 0 || take_absent(p, n, &absent, e)) {
        cJSON_Delete(list);
        return NULL;
    }
    for (int items = 0; !absent && more; items++) {
        cJSON *v = read_present(p, n, e);
        if (!v || items >= LEVEL_ITEMS_MAX || list_goes_on(p, n, &more, e)) {
            if (v && items >= LEVEL_ITEMS_MAX)
                fault(e, "E_TOO_LARGE", "%s: a list of more than %d items", p->file, LEVEL_ITEMS_MAX);
            cJSON_Delete(v);
            cJSON_Delete(list);
            return NULL;
        }
        if (last) {                     /* cJSON would walk the list; append at its end */
            last->next = v;
            v->prev = last;
            list->child->prev = v;
        } else {
            cJSON_AddItemToArray(list, v);
        }
        last = v;
    }
    return list;
}

/* A list's own group and its "list.element" are taken off: what is left is an array of elements. */
static cJSON *unwrap(const struct node *n, cJSON *group)
{
    const struct node *middle = &n->children[0];
    cJSON *list = cJSON_DetachItemViaPointer(group, group->child);
    cJSON_Delete(group);
    bool plain = n->el->meaning == PQ_MAP || middle->el->type >= 0 || middle->n_children != 1 ||
                 strcmp(middle->el->name, "array") == 0;
    if (plain)
        return list;
    cJSON *out = cJSON_CreateArray(), *last = NULL;
    while (list->child) {
        cJSON *item = list->child, *rest = item->next;
        cJSON *element = cJSON_DetachItemViaPointer(item, item->child);
        list->child = rest;             /* the item is unhooked by hand, the array being emptied from its front */
        if (rest)
            rest->prev = item->prev;
        item->next = item->prev = NULL;
        cJSON_Delete(item);
        free(element->string);
        element->string = NULL;
        if (last) {
            last->next = element;
            element->prev = last;
            out->child->prev = element;
        } else {
            cJSON_AddItemToArray(out, element);
        }
        last = element;
    }
    free(list->string);
    list->string = NULL;
    cJSON_Delete(list);
    return out;
}

static cJSON *read_node(struct parquet *p, const struct node *n, struct err *e)
{
    if (n->el->repetition == PQ_REPEATED)
        return read_list(p, n, e);
    bool absent = false;
    if (n->el->repetition == PQ_OPTIONAL && take_absent(p, n, &absent, e))
        return NULL;
    if (absent)
        return cJSON_CreateNull();
    cJSON *v = read_present(p, n, e);
    bool list = (n->el->meaning == PQ_LIST || n->el->meaning == PQ_MAP) && n->n_children == 1 &&
                n->children[0].el->repetition == PQ_REPEATED;
    return v && list ? unwrap(n, v) : v;
}

static void begin_group(struct parquet *p)
{
    const struct pq_row_group *g = &p->footer.row_groups[p->group];
    for (int i = 0; i < p->n_columns; i++) {
        struct column *c = &p->columns[i];
        drop_page(p, c);
        drop_dictionary(p, c);
        c->chunk = &g->chunks[i];
        bool dictionary = c->chunk->dictionary_offset > 0 && c->chunk->dictionary_offset < c->chunk->data_offset;
        c->at = c->released = (uint64_t)(dictionary ? c->chunk->dictionary_offset : c->chunk->data_offset);
        c->end = c->at + (uint64_t)c->chunk->compressed_size;
        c->chunk_left = c->chunk->num_values;
        c->page_left = 0;
        c->loaded = false;
    }
}

enum row_result parquet_next(struct parquet *p, cJSON **value, struct err *e)
{
    *value = NULL;
    while (p->group < 0 || p->row_in_group == p->footer.row_groups[p->group].num_rows) {
        if (p->group + 1 >= p->footer.n_row_groups)
            return ROW_END;
        p->group++;
        p->row_in_group = 0;
        begin_group(p);
    }
    p->row_in_group++;
    p->row++;
    p->refused = (struct err){0};
    *value = read_present(p, &p->root, e);
    if (!*value)
        return ROW_FATAL;
    if (!p->refused.code)
        return ROW_OK;
    cJSON_Delete(*value);
    *value = NULL;
    if (e)
        *e = p->refused;
    return ROW_REFUSED;
}
