/* cq.c - the tensor files of Cactus Quants: a header of 84 bytes, a blob of what decoding needs, the data. Everything
 * in the header is compared with the size of the file before it is believed.
 *
 *      0 "CACT"   4 flags   8 alignment   12 dimensions   16 four sizes   48 precision   52 data bytes
 *     60 bytes of the blob   68 group size   72 groups of a row   76 first dimension without padding
 */
#include "engine/cq.h"
#include "engine/cq_codes.h"

#include <math.h>
#include <string.h>

enum { HEADER = 84, MAX_ALIGNMENT = 1 << 16 };
enum { INT8 = 0, FP16 = 1, FP32 = 2, CQ1 = 3, CQ4 = 6 };
/* Bit 1 means an orthogonal rotation in CQ files and nothing in others; bit 3 is for INT8 and INT4. */
enum { HAS_SCALES = 1, ORTHOGONAL = 2, BLOCKS_OF_4 = 4, PACKED_BLOCKS_OF_4 = 8, PANELS = 32 };

struct header {
    const struct mapped *file;
    struct err *e;
    uint32_t flags, n_dims, precision, group, groups;
    uint64_t dim[4], elements, row, blob_bytes, data_bytes, original;      /* row: elements behind one of dim[0] */
    const uint8_t *blob, *data;
};

#define REFUSE(h, ...) err_input((h)->e, __VA_ARGS__)

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t u64_at(const uint8_t *p)
{
    return u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

bool cq_is_tensor(const struct mapped *m)
{
    return m->size >= 4 && memcmp(m->data, "CACT", 4) == 0;
}

/* ---- header ---------------------------------------------------------------------------------------------------- */

static int read_sizes(struct header *h)
{
    const uint8_t *p = h->file->data;
    h->elements = 1;
    if (h->n_dims < 1 || h->n_dims > 4)
        return REFUSE(h, "%s: 1 to 4 dimensions were expected, not %u", h->file->path, h->n_dims);
    for (uint32_t i = 0; i < 4; i++) {
        h->dim[i] = u64_at(p + 16 + 8 * i);
        if (i < h->n_dims ? h->dim[i] < 1 || h->dim[i] > (UINT64_MAX >> 8) / h->elements : h->dim[i] != 0)
            return REFUSE(h, "%s: dimension %u: %s was expected, not %llu", h->file->path, i,
                          i < h->n_dims ? "a size that fits in a file" : "0", (unsigned long long)h->dim[i]);
        h->elements *= i < h->n_dims ? h->dim[i] : 1;
    }
    h->row = h->elements / h->dim[0];
    return 0;
}

static int read_header(struct header *h)
{
    const uint8_t *p = h->file->data;
    const uint64_t size = h->file->size;
    if (!cq_is_tensor(h->file) || size < HEADER)
        return REFUSE(h, "%s: a Cactus tensor file (CACT and a header of %d bytes) was expected", h->file->path,
                      HEADER);
    h->flags = u32_at(p + 4);
    const uint64_t alignment = u32_at(p + 8) ? u32_at(p + 8) : 32;
    h->n_dims = u32_at(p + 12);
    h->precision = u32_at(p + 48);
    h->data_bytes = u64_at(p + 52);
    h->blob_bytes = u64_at(p + 60);
    h->group = u32_at(p + 68);
    h->groups = u32_at(p + 72);
    h->original = u64_at(p + 76);
    if (alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)))
        return REFUSE(h, "%s: alignment: a power of two up to %d was expected, not %llu", h->file->path, MAX_ALIGNMENT,
                      (unsigned long long)alignment);
    if (read_sizes(h))
        return -1;
    const uint64_t blob = (HEADER + alignment - 1) & ~(alignment - 1);
    if (h->blob_bytes > size || h->data_bytes > size)
        return REFUSE(h, "%s: its header claims %llu and %llu bytes, but the file has %llu (is it whole?)",
                      h->file->path, (unsigned long long)h->blob_bytes, (unsigned long long)h->data_bytes,
                      (unsigned long long)size);
    const uint64_t data = (blob + h->blob_bytes + alignment - 1) & ~(alignment - 1);
    if (data + h->data_bytes != size)
        return REFUSE(h, "%s: %llu bytes were expected by its header, the file has %llu (is it whole?)", h->file->path,
                      (unsigned long long)(data + h->data_bytes), (unsigned long long)size);
    h->blob = p + blob;
    h->data = p + data;
    return 0;
}

static int expect_bytes(const struct header *h, uint64_t blob, uint64_t data)
{
    if (h->blob_bytes != blob || h->data_bytes != data)
        return REFUSE(h, "%s: %llu bytes of scales and %llu of data were expected for its shape, not %llu and %llu",
                      h->file->path, (unsigned long long)blob, (unsigned long long)data,
                      (unsigned long long)h->blob_bytes, (unsigned long long)h->data_bytes);
    return 0;
}

/* ---- shape ----------------------------------------------------------------------------------------------------- */

/* The tensor has `rows` rows of h->row stored elements; the wanted shape may leave out the end of each row, or be
 * another shape of the same size. Sets dim[] and *columns, the elements of a row that count. */
static int set_shape(const struct header *h, const struct cq_shape *want, uint64_t rows, struct tensor *t,
                     int64_t *columns)
{
    uint64_t wanted = 1;
    bool ok = want->n_dims <= 4;
    *columns = (int64_t)h->row;
    if (want->n_dims < 0) {
        t->n_dims = (int)h->n_dims;
        for (int i = 0; i < t->n_dims; i++)
            t->dim[i] = (int64_t)(i ? h->dim[i] : rows);
        return 0;
    }
    for (int i = 0; i < want->n_dims && ok; i++) {
        ok = want->dim[i] > 0 && (uint64_t)want->dim[i] <= (UINT64_MAX >> 8) / wanted;
        wanted *= ok ? (uint64_t)want->dim[i] : 1;
        t->dim[i] = want->dim[i];
    }
    t->n_dims = want->n_dims;
    if (ok && wanted == rows * h->row)
        return 0;
    if (ok && want->n_dims == 2 && h->n_dims == 2 && (uint64_t)want->dim[0] == rows &&
        (uint64_t)want->dim[1] < h->row) {
        *columns = want->dim[1];
        return 0;
    }
    if (ok && want->n_dims == 1 && h->n_dims == 1 && wanted < rows)
        return 0;
    return REFUSE(h, "%s: it holds [%llu, %llu] numbers, which is not the shape that its bundle states", h->file->path,
                  (unsigned long long)rows, (unsigned long long)h->row);
}

/* ---- plain numbers and INT8, INT4 ------------------------------------------------------------------------------ */

/* The scale is the first member of everything that codecs here keep. */
static void hash_file(const struct tensor *t, struct sha256 *sha)
{
    const double *scale = t->aux;
    sha256_update(sha, scale, sizeof *scale);
    sha256_update(sha, t->data, t->n_bytes);
}

struct integers {
    double scale;
    const uint8_t *values, *scales;         /* scales: float16 */
    int64_t row, groups, columns;           /* stored elements and groups of a row; elements that count */
    int group, bits;
    bool blocks_of_4;
};

/* Four rows and four columns together; INT4 then has the low halves of 16 bytes, and the high ones, of each 32. */
static float integer_at(const struct integers *q, int64_t row, int64_t column)
{
    const int64_t flat = row * q->row + column;
    const int64_t i = q->blocks_of_4 ? (row / 4 * (q->row / 4) + column / 4) * 16 + row % 4 * 4 + column % 4 : flat;
    const int64_t g = q->blocks_of_4 ? (row / 4 * q->groups + column / q->group) * 4 + row % 4 : flat / q->group;
    int v;
    if (q->bits == 8) {
        v = (int8_t)q->values[i];
    } else {
        v = q->values[i / 32 * 16 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15;
        v = v < 8 ? v : v - 16;
    }
    return (float)v * half_to_f32(q->scales, (uint64_t)g) / (float)q->scale;
}

static void read_integers(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    const struct integers *q = t->aux;
    for (int64_t i = 0; i < n; i++)
        out[i] = integer_at(q, (first + i) / q->columns, (first + i) % q->columns);
}

static const struct tensor_codec integer_codec = {.read = read_integers, .hash = hash_file};

static int open_integers(struct header *h, struct arena *a, const struct cq_shape *want, struct tensor *t)
{
    const bool blocks = h->flags & PACKED_BLOCKS_OF_4, four_bits = h->precision == CQ1;
    uint64_t rows = h->dim[0];
    if (!(h->flags & HAS_SCALES) || h->group < 1 || h->elements % h->group || (four_bits && !blocks))
        return REFUSE(h, "%s: scales (flag 1) of groups that divide its size were expected for integers",
                      h->file->path);
    if (blocks != (h->n_dims == 2) ||
        (blocks && (rows % 4 || h->row % 4 || h->row % h->group || (four_bits && h->row % 8) || h->original < 1 ||
                    h->original > rows || rows - h->original > 3)))
        return REFUSE(h, "%s: whole blocks of four rows and of groups of columns were expected", h->file->path);
    if (expect_bytes(h, 2 * (h->elements / h->group), four_bits ? h->elements / 2 : h->elements))
        return -1;
    rows = blocks ? h->original : rows;
    struct integers *q = ARENA_NEW(a, struct integers, 1);
    *q = (struct integers){.scale = want->scale, .values = h->data, .scales = h->blob, .row = (int64_t)h->row,
                           .group = (int)h->group, .groups = (int64_t)(h->row / h->group),
                           .bits = four_bits ? 4 : 8, .blocks_of_4 = blocks};
    if (set_shape(h, want, rows, t, &q->columns))
        return -1;
    t->type = TENSOR_CODED;
    t->type_name = four_bits ? "INT4" : "INT8";
    t->codec = &integer_codec;
    t->aux = q;
    return 0;
}

struct scaled { double scale; struct tensor stored; };

static void read_scaled(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    const struct scaled *s = t->aux;
    tensor_read_f32(&s->stored, first, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] /= (float)s->scale;
}

static const struct tensor_codec scaled_codec = {.read = read_scaled, .hash = hash_file};

static int open_floats(struct header *h, struct arena *a, const struct cq_shape *want, struct tensor *t)
{
    int64_t columns;
    if (expect_bytes(h, 0, h->elements * (h->precision == FP16 ? 2 : 4)) || set_shape(h, want, h->dim[0], t, &columns))
        return -1;
    if ((uint64_t)tensor_elements(t) != h->elements)
        return REFUSE(h, "%s: rows of plain numbers were expected without padding", h->file->path);
    t->type = h->precision == FP16 ? TENSOR_F16 : TENSOR_F32;
    t->type_name = h->precision == FP16 ? "F16" : "F32";
    t->n_bytes = (size_t)tensor_elements(t) * (h->precision == FP16 ? 2 : 4);
    if (want->scale == 1)
        return 0;
    struct scaled *s = ARENA_NEW(a, struct scaled, 1);
    *s = (struct scaled){want->scale, *t};
    t->type = TENSOR_CODED;
    t->codec = &scaled_codec;
    t->aux = s;
    return 0;
}

/* ---- CQ -------------------------------------------------------------------------------------------------------- */

static bool halves_finite(const uint8_t *p, uint64_t n)
{
    const struct tensor t = {.type = TENSOR_F16, .data = p};
    return tensor_finite(&t, 0, (int64_t)n);
}

/* Where the parts of the blob begin. */
struct parts { uint64_t norms, rotation, end; };

static struct parts find_parts(const struct header *h, const struct cq_codes *c, bool orthogonal)
{
    const uint64_t width = h->row, norms = h->dim[0] * (uint64_t)c->n_groups;
    struct parts p = {.norms = 2 * ((UINT64_C(1) << c->bits) + 2 * width)};
    p.rotation = p.norms + 2 * norms;
    if (c->layout == CQ_PANELS)             /* float32 norms of whole panels: derived data */
        p.rotation = (p.rotation + 3) / 4 * 4 + 4 * ((h->dim[0] + 63) / 64 * 64 * (uint64_t)c->n_groups);
    p.end = p.rotation + (orthogonal ? 2 * width * width * (c->layout == CQ_PANELS ? 2 : 1)
                                     : CQ_GROUP + CQ_GROUP + 4 * CQ_GROUP);
    return p;
}

static int read_hadamard(const struct header *h, struct arena *a, const uint8_t *p, struct cq_codes *c)
{
    const int8_t *left = (const int8_t *)p, *right = left + CQ_GROUP;
    bool seen[CQ_GROUP] = {false};
    c->right = ARENA_NEW(a, float, CQ_GROUP);
    for (int i = 0; i < CQ_GROUP; i++) {
        const uint32_t to = u32_at(p + 2 * CQ_GROUP + 4 * i);
        if ((left[i] != 1 && left[i] != -1) || (right[i] != 1 && right[i] != -1))
            return REFUSE(h, "%s: sign %d of its rotation: 1 or -1 was expected", h->file->path, i);
        if (to >= CQ_GROUP || seen[to])
            return REFUSE(h, "%s: entry %d of its permutation: each of 0 to %d once was expected", h->file->path, i,
                          CQ_GROUP - 1);
        seen[to] = true;
        c->perm[i] = (uint8_t)to;
        c->right[i] = (float)right[i] * sqrtf(1.0f / CQ_GROUP);
    }
    for (int64_t i = 0; i < c->width; i++)
        c->out_scale[i] *= (float)left[i % CQ_GROUP];
    return 0;
}

static int read_matrix(const struct header *h, struct arena *a, const uint8_t *p, struct cq_codes *c)
{
    const size_t n = (size_t)c->width;
    if (!halves_finite(p, n * n))
        return REFUSE(h, "%s: a finite rotation was expected, it holds infinite values or NaN", h->file->path);
    c->matrix = p;
    c->transposed = ARENA_NEW(a, uint16_t, n * n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            memcpy(&c->transposed[j * n + i], p + 2 * (i * n + j), 2);
    return 0;
}

/* The shape, layout and sizes of a CQ file. */
static int check_codes(struct header *h, struct cq_codes *c, bool orthogonal)
{
    c->layout = h->flags & PANELS ? CQ_PANELS : h->flags & BLOCKS_OF_4 ? CQ_BLOCKS_OF_4 : CQ_ROWS;
    c->bits = (int)h->precision - CQ1 + 1;
    if (h->flags & ~(uint32_t)(ORTHOGONAL | BLOCKS_OF_4 | PANELS) ||
        (c->layout == CQ_PANELS && (h->flags & BLOCKS_OF_4 || c->bits != 4)))
        return REFUSE(h, "%s: flags of a known layout were expected, not 0x%x", h->file->path, h->flags);
    if (h->n_dims != 2 || h->row > CQ_MAX_WIDTH * (orthogonal ? UINT64_C(1) : 1024) ||
        (uint64_t)h->group * h->groups != h->row)
        return REFUSE(h, "%s: a matrix was expected whose rows are %u groups of %u", h->file->path, h->groups,
                      h->group);
    if (orthogonal && c->layout != CQ_PANELS ? h->groups != 1 || h->group % 8 || c->bits != 4 : h->group != CQ_GROUP)
        return REFUSE(h, "%s: groups of %s were expected, not of %u columns at %d bits", h->file->path,
                      orthogonal ? "one row at 4 bits" : "128", h->group, c->bits);
    if (c->layout == CQ_BLOCKS_OF_4 && h->dim[0] % 4)
        return REFUSE(h, "%s: rows in blocks of four were expected, not %llu", h->file->path,
                      (unsigned long long)h->dim[0]);
    c->group = (int)h->group;
    c->n_groups = h->groups;
    c->rows = (int64_t)h->dim[0];
    c->width = (int64_t)h->row;
    const uint64_t rows = c->layout == CQ_PANELS ? (h->dim[0] + 63) / 64 * 64 : h->dim[0];
    return expect_bytes(h, find_parts(h, c, orthogonal).end, rows * h->row / 8 * (uint64_t)c->bits);
}

static int open_codes(struct header *h, struct arena *a, const struct cq_shape *want, struct tensor *t)
{
    static const char *const names[] = {"CQ1", "CQ2", "CQ3", "CQ4"};
    const bool orthogonal = h->flags & ORTHOGONAL;
    struct cq_codes *c = ARENA_NEW(a, struct cq_codes, 1);
    if (check_codes(h, c, orthogonal) || set_shape(h, want, h->dim[0], t, &c->columns))
        return -1;
    const struct parts parts = find_parts(h, c, orthogonal);
    const uint64_t entries = UINT64_C(1) << c->bits;
    if (!halves_finite(h->blob, entries + h->row) ||
        !halves_finite(h->blob + parts.norms, h->dim[0] * (uint64_t)c->n_groups))
        return REFUSE(h, "%s: a finite codebook, input scale and norms were expected", h->file->path);
    for (uint64_t q = 0; q < entries; q++)
        c->codebook[q] = half_to_f32(h->blob, q);
    c->out_scale = ARENA_NEW(a, float, h->row);
    for (uint64_t i = 0; i < h->row; i++) {
        const double s = (double)half_to_f32(h->blob, entries + i);
        if (s <= 0)
            return REFUSE(h, "%s: input scale %llu: a number above 0 was expected", h->file->path,
                          (unsigned long long)i);
        c->out_scale[i] = (float)(1 / (s * want->scale));
    }
    c->norms = h->blob + parts.norms;
    c->indices = h->data;
    c->k = kernels_find(NULL);
    c->scale = want->scale;
    if (orthogonal ? read_matrix(h, a, h->blob + parts.rotation, c) : read_hadamard(h, a, h->blob + parts.rotation, c))
        return -1;
    t->type = TENSOR_CODED;
    t->type_name = names[c->bits - 1];
    t->codec = &cq_codec;
    t->aux = c;
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

int cq_tensor(struct arena *a, const struct mapped *file, const char *name, const struct cq_shape *shape,
              struct tensor *out, struct err *e)
{
    struct header h = {.file = file, .e = e};
    struct tensor t = {.name = name, .file = file->path};
    if (read_header(&h))
        return -1;
    t.data = h.data;
    const bool integers = h.precision == INT8 || (h.precision == CQ1 && h.flags & HAS_SCALES);
    const int bad = integers ? open_integers(&h, a, shape, &t)
                    : h.precision == FP16 || h.precision == FP32 ? open_floats(&h, a, shape, &t)
                    : h.precision <= CQ4 ? open_codes(&h, a, shape, &t)
                    : REFUSE(&h, "%s: a precision from 0 to %d was expected, not %u", file->path, CQ4, h.precision);
    if (bad)
        return -1;
    if (t.type == TENSOR_CODED) {           /* header and scales are part of it */
        t.data = file->data;
        t.n_bytes = file->size;
    }
    *out = t;
    return 0;
}
