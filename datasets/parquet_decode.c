/* parquet_decode.c - encodings of levels and values (Encodings.md of the format), read one value at a time so that a
 * page is never expanded. Every step checks the page's end. */
#include "datasets/parquet_format.h"

#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        *v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return true;
    }
    return false;
}

static int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

/* `width` bits from bit `at` on, least significant first. The caller has checked the end. */
static uint64_t take_bits(const uint8_t *p, uint64_t at, int width)
{
    uint64_t v = 0;
    for (int have = 0; have < width;) {
        uint64_t byte = (at + (uint64_t)have) / 8;
        int from = (int)((at + (uint64_t)have) % 8), n = 8 - from < width - have ? 8 - from : width - have;
        v |= (uint64_t)(p[byte] >> from & ((1 << n) - 1)) << have;
        have += n;
    }
    return v;
}

static uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static uint64_t le64(const uint8_t *p) { return (uint64_t)le32(p + 4) << 32 | le32(p); }

/* ---- runs and packed groups -------------------------------------------------------------------------------------- */

void pq_hybrid_start(struct pq_hybrid *h, const uint8_t *p, const uint8_t *end, int width)
{
    *h = (struct pq_hybrid){.p = p, .end = end, .width = width};
}

bool pq_hybrid_next(struct pq_hybrid *h, uint32_t *value)
{
    while (h->run == 0) {
        uint64_t header;
        if (!take_varint(&h->p, h->end, &header))
            return false;
        h->packed = header & 1;
        h->run = header >> 1;
        size_t rest = (size_t)(h->end - h->p), bytes = (size_t)(h->width + 7) / 8;
        if (h->packed) {                        /* groups of eight, the last one may be cut short */
            uint64_t most = h->width ? rest * 8 / (uint64_t)h->width / 8 + 1 : UINT32_MAX;
            h->run = (h->run < most ? h->run : most) * 8;
            h->packed_at = 0;
        } else {
            if (bytes > rest)
                return false;
            h->value = 0;
            for (size_t i = 0; i < bytes; i++)
                h->value |= (uint32_t)h->p[i] << (8 * i);
            h->p += bytes;
        }
    }
    if (h->packed) {
        uint64_t end_bit = h->packed_at + (uint64_t)h->width;
        if (end_bit > (uint64_t)(h->end - h->p) * 8)
            return false;
        h->value = (uint32_t)take_bits(h->p, h->packed_at, h->width);
        h->packed_at = end_bit;
        if (h->run == 1)
            h->p += (end_bit + 7) / 8;
    }
    h->run--;
    *value = h->value;
    return true;
}

/* ---- delta ------------------------------------------------------------------------------------------------------- */

bool pq_delta_start(struct pq_delta *d, const uint8_t *p, const uint8_t *end)
{
    uint64_t block, minis, first;
    *d = (struct pq_delta){.p = p, .end = end, .first = true};
    if (!take_varint(&d->p, end, &block) || !take_varint(&d->p, end, &minis) || !take_varint(&d->p, end, &d->left) ||
        !take_varint(&d->p, end, &first))
        return false;
    d->value = unzigzag(first);
    d->n_minis = minis;
    if (minis == 0 || minis > 512 || block % 128 || block == 0 || block > 1 << 20 || block % minis ||
        block / minis % 8 || d->left > INT32_MAX)
        return false;
    d->per_mini = block / minis;
    d->mini = minis;                            /* the next delta begins a block */
    d->in_mini = d->per_mini;
    return true;
}

/* Moves to the next miniblock, reading a block header where one is due. */
static bool next_mini(struct pq_delta *d)
{
    if (d->widths)
        d->p += (d->per_mini * (uint64_t)d->width + 7) / 8 <= (uint64_t)(d->end - d->p) ?
                (d->per_mini * (uint64_t)d->width + 7) / 8 : (uint64_t)(d->end - d->p);
    d->mini++;
    if (d->mini >= d->n_minis) {
        uint64_t min_delta;
        if (!take_varint(&d->p, d->end, &min_delta) || d->n_minis > (uint64_t)(d->end - d->p))
            return false;
        d->min_delta = unzigzag(min_delta);
        d->widths = d->p;
        d->p += d->n_minis;
        d->mini = 0;
    }
    d->width = d->widths[d->mini];
    d->in_mini = 0;
    d->bit = 0;
    return d->width <= 64;
}

bool pq_delta_next(struct pq_delta *d, int64_t *value)
{
    if (d->left == 0)
        return false;
    d->left--;
    if (d->first) {
        d->first = false;
        *value = d->value;
        return true;
    }
    if (d->in_mini == d->per_mini && !next_mini(d))
        return false;
    if (d->bit + (uint64_t)d->width > (uint64_t)(d->end - d->p) * 8)
        return false;
    uint64_t delta = take_bits(d->p, d->bit, d->width);
    d->bit += (uint64_t)d->width;
    d->in_mini++;
    d->value = (int64_t)((uint64_t)d->value + (uint64_t)d->min_delta + delta);
    *value = d->value;
    return true;
}

/* Where the bytes behind a delta sequence begin; NULL if it is damaged. The sequence itself stays at its start. */
static const uint8_t *behind_delta(struct pq_delta d, int64_t most)
{
    int64_t v;
    if (d.left > (uint64_t)most)
        return NULL;
    while (d.left)
        if (!pq_delta_next(&d, &v))
            return NULL;
    if (!d.widths)
        return d.p;
    uint64_t mini_bytes = (d.per_mini * (uint64_t)d.width + 7) / 8;
    return mini_bytes > (uint64_t)(d.end - d.p) ? NULL : d.p + mini_bytes;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int width_of(int type, int fixed)
{
    static const int widths[] = {0, 4, 8, 12, 4, 8, 0, 0};
    return type == PQ_FIXED ? fixed : widths[type];
}

static void from_bytes(int type, int width, const uint8_t *p, struct pq_value *v)
{
    float f;
    double g;
    v->n = (uint32_t)width;
    if (type == PQ_INT32) {
        v->as.i = (int32_t)le32(p);
    } else if (type == PQ_INT64) {
        v->as.i = (int64_t)le64(p);
    } else if (type == PQ_FLOAT) {
        uint32_t bits = le32(p);
        memcpy(&f, &bits, 4);
        v->as.f = (double)f;
    } else if (type == PQ_DOUBLE) {
        uint64_t bits = le64(p);
        memcpy(&g, &bits, 8);
        v->as.f = g;
    } else {
        v->as.bytes = p;
    }
}

static bool next_plain(struct pq_decoder *d, struct pq_value *v)
{
    size_t rest = (size_t)(d->end - d->p);
    if (d->type == PQ_BOOLEAN) {
        if (d->at / 8 >= rest)
            return false;
        v->as.i = d->p[d->at / 8] >> (d->at % 8) & 1;
        d->at++;
        return true;
    }
    if (d->type == PQ_BYTES) {
        if (rest < 4 || le32(d->p) > rest - 4)
            return false;
        v->n = le32(d->p);
        v->as.bytes = d->p + 4;
        d->p += 4 + (size_t)v->n;
        return true;
    }
    size_t width = (size_t)width_of(d->type, d->width);
    if (rest < width)
        return false;
    from_bytes(d->type, (int)width, d->p, v);
    d->p += width;
    return true;
}

static bool next_streamed(struct pq_decoder *d, struct pq_value *v)
{
    const uint8_t *length = pq_stream_read(d->stream, 4);
    if (!length)
        return false;
    v->n = le32(length);
    if (v->n > MEMBER_MEDIA_MAX)
        return pq_stream_skip(d->stream, v->n);
    v->as.bytes = pq_stream_read(d->stream, v->n);
    return v->as.bytes != NULL;
}

static bool next_stream_split(struct pq_decoder *d, struct pq_value *v)
{
    size_t width = (size_t)width_of(d->type, d->width);
    if (d->at >= d->n)
        return false;
    for (size_t k = 0; k < width; k++)
        d->scratch[k] = d->p[k * d->n + d->at];
    d->at++;
    from_bytes(d->type, (int)width, d->scratch, v);
    return true;
}

static bool next_delta_length(struct pq_decoder *d, struct pq_value *v)
{
    int64_t len;
    if (!pq_delta_next(&d->delta, &len) || len < 0 || (uint64_t)len > (uint64_t)(d->end - d->p))
        return false;
    v->as.bytes = d->p;
    v->n = (uint32_t)len;
    d->p += len;
    return true;
}

/* A prefix of the value before and a suffix. */
static bool next_delta_bytes(struct pq_decoder *d, struct pq_value *v)
{
    int64_t prefix;
    struct pq_value suffix;
    if (!pq_delta_next(&d->prefix, &prefix) || prefix < 0 || (uint64_t)prefix > d->last.len ||
        !next_delta_length(d, &suffix) || (uint64_t)prefix + suffix.n > 64 << 20)
        return false;
    d->last.len = (size_t)prefix;
    text_put(&d->last, suffix.as.bytes, suffix.n);
    v->as.bytes = (const uint8_t *)(d->last.data ? d->last.data : "");
    v->n = (uint32_t)d->last.len;
    return true;
}

const char *pq_decoder_start(struct pq_decoder *d, int type, int width, int encoding, const uint8_t *p,
                             const uint8_t *end, int64_t num_values, struct pq_dictionary *dictionary)
{
    struct text last = d->last;
    *d = (struct pq_decoder){.type = type, .width = width, .encoding = encoding, .p = p, .end = end, .last = last,
                             .dictionary = dictionary};
    d->last.len = 0;
    if (encoding == PQ_PLAIN_DICTIONARY)
        d->encoding = PQ_RLE_DICTIONARY;
    bool integer = type == PQ_INT32 || type == PQ_INT64, bytes = type == PQ_BYTES || type == PQ_FIXED;
    if (d->encoding == PQ_RLE_DICTIONARY) {
        if (!dictionary)
            return "no dictionary before its page";
        if (p < end && *p > 32)
            return "dictionary indices of more than 32 bits";
        pq_hybrid_start(&d->hybrid, p + (p < end), end, p < end ? *p : 0);
    } else if (encoding == PQ_RLE && type == PQ_BOOLEAN) {
        if (end - p < 4 || le32(p) > (size_t)(end - p) - 4)
            return "a run of booleans beyond its page";
        pq_hybrid_start(&d->hybrid, p + 4, p + 4 + le32(p), 1);
    } else if (encoding == PQ_DELTA_BINARY && integer) {
        return pq_delta_start(&d->delta, p, end) ? NULL : "damaged delta header";
    } else if (encoding == PQ_DELTA_LENGTH && type == PQ_BYTES) {
        d->p = pq_delta_start(&d->delta, p, end) ? behind_delta(d->delta, num_values) : NULL;
        return d->p ? NULL : "damaged delta lengths";
    } else if (encoding == PQ_DELTA_BYTES && bytes) {
        const uint8_t *suffixes = pq_delta_start(&d->prefix, p, end) ? behind_delta(d->prefix, num_values) : NULL;
        d->p = suffixes && pq_delta_start(&d->delta, suffixes, end) ? behind_delta(d->delta, num_values) : NULL;
        return d->p ? NULL : "damaged delta prefixes";
    } else if (encoding == PQ_STREAM_SPLIT && type != PQ_BOOLEAN && type != PQ_BYTES) {
        int w = width_of(type, width);
        d->n = (uint64_t)(end - p) / (uint64_t)w;
        return w > (int)sizeof d->scratch ? "unsupported width of a split stream" : NULL;
    } else if (encoding != PQ_PLAIN) {
        return "unsupported encoding";
    }
    return NULL;
}

bool pq_decoder_next(struct pq_decoder *d, struct pq_value *v)
{
    uint32_t index;
    *v = (struct pq_value){.n = 0};
    switch (d->encoding) {
    case PQ_RLE_DICTIONARY:
        return pq_hybrid_next(&d->hybrid, &index) && pq_dictionary_get(d->dictionary, index, v);
    case PQ_RLE:
        if (!pq_hybrid_next(&d->hybrid, &index))
            return false;
        v->as.i = index;
        return true;
    case PQ_DELTA_BINARY:
        if (!pq_delta_next(&d->delta, &v->as.i))
            return false;
        if (d->type == PQ_INT32)
            v->as.i = (int32_t)(uint32_t)(uint64_t)v->as.i;
        return true;
    case PQ_DELTA_LENGTH:
        return next_delta_length(d, v);
    case PQ_DELTA_BYTES:
        return next_delta_bytes(d, v);
    case PQ_STREAM_SPLIT:
        return next_stream_split(d, v);
    default:
        return d->stream ? next_streamed(d, v) : next_plain(d, v);
    }
}

void pq_decoder_free(struct pq_decoder *d) { text_free(&d->last); }
