/* parquet_stream.c - a compressed page bit by bit. Writers put a whole row group of pictures into one page of hundreds
 * of megabytes; of it only the value at hand is ever expanded. */
#include "datasets/parquet_format.h"

#include <brotli/decode.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Snappy copies from what came out before; every known writer works in blocks of 64 KiB and never reaches further. */
enum { HISTORY = 1 << 20, STEP = 1 << 16, COPY_MAX = 64, ZSTD_WINDOW_LOG = 25 };

struct pq_stream {
    int codec;
    const uint8_t *in, *end;
    uint8_t *buf;               /* up to `at`: history; up to `have`: not yet read */
    size_t at, have, cap;
    uint64_t left;              /* to be read, of what the page says it holds */
    size_t literal;             /* snappy: rest of a literal */
    z_stream gzip;
    ZSTD_DStream *zstd;
    BrotliDecoderState *brotli;
};

bool pq_stream_can(int codec)
{
    return codec == PQ_SNAPPY || codec == PQ_GZIP || codec == PQ_ZSTD || codec == PQ_BROTLI;
}

bool pq_snappy_length(const uint8_t **p, const uint8_t *end, uint64_t *length)
{
    *length = 0;
    for (int shift = 0; shift <= 28; shift += 7) {
        if (*p == end)
            return false;
        uint8_t byte = *(*p)++;
        *length |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return true;
    }
    return false;
}

bool pq_snappy_tag(const uint8_t **p, const uint8_t *end, size_t *literal, size_t *copy, size_t *distance)
{
    unsigned tag = *(*p)++, kind = tag & 3;
    size_t len = tag >> 2, extra = kind == 0 ? (len >= 60 ? len - 59 : 0) : kind == 3 ? 4 : kind, number = 0;
    if (extra > (size_t)(end - *p))
        return false;
    for (size_t i = 0; i < extra; i++)
        number |= (size_t)(*p)[i] << (8 * i);
    *p += extra;
    *literal = kind ? 0 : (extra ? number : len) + 1;
    *copy = kind == 0 ? 0 : kind == 1 ? (len & 7) + 4 : len + 1;
    *distance = kind == 1 ? (size_t)(tag >> 5) << 8 | number : number;
    return true;
}

struct pq_stream *pq_stream_open(int codec, const uint8_t *in, size_t n, uint64_t total)
{
    struct pq_stream *s = NEW(struct pq_stream, 1);
    uint64_t length = total;
    *s = (struct pq_stream){.codec = codec, .in = in, .end = in + n, .left = total};
    bool ok = true;
    if (codec == PQ_SNAPPY)
        ok = pq_snappy_length(&s->in, s->end, &length) && length == total;
    else if (codec == PQ_GZIP)
        ok = inflateInit2(&s->gzip, 15 + 32) == Z_OK;
    else if (codec == PQ_ZSTD)
        ok = (s->zstd = ZSTD_createDStream()) != NULL &&
             !ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG));
    else
        ok = (s->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL)) != NULL;
    if (ok)
        return s;
    pq_stream_close(s);
    return NULL;
}

void pq_stream_close(struct pq_stream *s)
{
    if (!s)
        return;
    if (s->codec == PQ_GZIP)
        inflateEnd(&s->gzip);
    ZSTD_freeDStream(s->zstd);
    if (s->brotli)
        BrotliDecoderDestroyInstance(s->brotli);
    free(s->buf);
    free(s);
}

const uint8_t *pq_stream_at(const struct pq_stream *s) { return s->in; }

/* ---- each of these appends at most `room` bytes behind `have`; false if the page is damaged --------------------- */

static bool unsnap_some(struct pq_stream *s, size_t room)
{
    const size_t limit = s->have + room;
    while (s->literal ? s->have < limit : s->in < s->end && limit - s->have >= COPY_MAX) {
        size_t copy = 0, distance = 0, n = s->literal < limit - s->have ? s->literal : limit - s->have;
        if (n) {
            if (n > (size_t)(s->end - s->in))
                return false;
            memcpy(s->buf + s->have, s->in, n);
            s->in += n;
            s->have += n;
            s->literal -= n;
            continue;
        }
        if (!pq_snappy_tag(&s->in, s->end, &s->literal, &copy, &distance) ||
            (copy && (distance == 0 || distance > s->have)))
            return false;
        for (size_t i = 0; i < copy; i++, s->have++)            /* may overlap itself */
            s->buf[s->have] = s->buf[s->have - distance];
    }
    return true;
}

static bool inflate_some(struct pq_stream *s, size_t room)
{
    z_stream *z = &s->gzip;
    z->next_in = (Bytef *)(uintptr_t)s->in;
    z->avail_in = (uInt)(s->end - s->in);
    z->next_out = s->buf + s->have;
    z->avail_out = (uInt)room;
    int rc = inflate(z, Z_NO_FLUSH);
    if (rc == Z_STREAM_END && z->avail_in)                      /* several members */
        rc = inflateReset(z);
    s->in = z->next_in;
    s->have += room - z->avail_out;
    return rc == Z_OK || rc == Z_STREAM_END;
}

static bool unzstd_some(struct pq_stream *s, size_t room)
{
    ZSTD_inBuffer in = {s->in, (size_t)(s->end - s->in), 0};
    ZSTD_outBuffer out = {s->buf + s->have, room, 0};
    bool ok = !ZSTD_isError(ZSTD_decompressStream(s->zstd, &out, &in));
    s->in += in.pos;
    s->have += out.pos;
    return ok;
}

static bool unbrotli_some(struct pq_stream *s, size_t room)
{
    size_t in_left = (size_t)(s->end - s->in), out_left = room;
    uint8_t *out = s->buf + s->have;
    bool ok = BrotliDecoderDecompressStream(s->brotli, &in_left, &s->in, &out_left, &out, NULL) !=
              BROTLI_DECODER_RESULT_ERROR;
    s->have += room - out_left;
    return ok;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Expands some more: room for `want` bytes is made, as much as fits is filled. */
static bool fill(struct pq_stream *s, size_t want)
{
    size_t room = (want > STEP ? want : STEP) + COPY_MAX, keep = s->at < HISTORY ? s->at : HISTORY, before;
    if (s->codec != PQ_SNAPPY)
        keep = 0;
    if (s->at > keep && s->cap < s->have + room) {
        memmove(s->buf, s->buf + s->at - keep, s->have - s->at + keep);
        s->have -= s->at - keep;
        s->at = keep;
    }
    if (s->cap < s->have + room) {
        s->cap = s->have + room;
        s->buf = mem_grow(s->buf, s->cap, 1);
    }
    before = s->have;
    bool ok = s->codec == PQ_SNAPPY ? unsnap_some(s, room) : s->codec == PQ_GZIP ? inflate_some(s, room) :
              s->codec == PQ_ZSTD ? unzstd_some(s, room) : unbrotli_some(s, room);
    return ok && s->have > before;
}

const uint8_t *pq_stream_read(struct pq_stream *s, size_t n)
{
    if (n > s->left)
        return NULL;
    while (s->have - s->at < n || !s->buf)
        if (!fill(s, n - (s->have - s->at)))
            return NULL;
    s->left -= n;
    s->at += n;
    return s->buf + s->at - n;
}

bool pq_stream_skip(struct pq_stream *s, uint64_t n)
{
    for (size_t part; n; n -= part) {
        part = n < STEP ? (size_t)n : STEP;
        if (!pq_stream_read(s, part))
            return false;
    }
    return true;
}

/* ---- dictionaries ------------------------------------------------------------------------------------------------ */

/* Indices rise as rows go on; those that point back mostly point to a row just before. */
enum { KEPT_MAX = 32 << 20, KEPT_OVERHEAD = 48, RESTARTS_MAX = 256 };

struct pq_lazy {
    int codec;
    const uint8_t *in;
    size_t in_n;
    uint64_t total;
    struct pq_stream *stream;
    size_t oldest, next;        /* values from oldest up to next are kept */
    uint64_t kept;
    int restarts;
};

bool pq_dictionary_stream(struct pq_dictionary *d, int codec, const uint8_t *in, size_t n, uint64_t total)
{
    d->lazy = NEW(struct pq_lazy, 1);
    *d->lazy = (struct pq_lazy){.codec = codec, .in = in, .in_n = n, .total = total,
                                .stream = pq_stream_open(codec, in, n, total)};
    return d->lazy->stream != NULL;
}

const uint8_t *pq_dictionary_at(const struct pq_dictionary *d)
{
    return d->lazy && d->lazy->stream ? pq_stream_at(d->lazy->stream) : NULL;
}

static void forget_oldest(struct pq_dictionary *d)
{
    struct pq_value *v = &d->values[d->lazy->oldest++];
    d->lazy->kept -= v->as.bytes ? (uint64_t)v->n + KEPT_OVERHEAD : 0;
    free((void *)(uintptr_t)v->as.bytes);
    *v = (struct pq_value){.n = 0};
}

static bool keep_next(struct pq_dictionary *d)
{
    struct pq_lazy *l = d->lazy;
    const uint8_t *length = pq_stream_read(l->stream, 4);
    if (!length)
        return false;
    struct pq_value *v = &d->values[l->next];
    v->n = (uint32_t)length[3] << 24 | (uint32_t)length[2] << 16 | (uint32_t)length[1] << 8 | length[0];
    if (v->n > MEMBER_MEDIA_MAX) {
        l->next++;
        return pq_stream_skip(l->stream, v->n);
    }
    const uint8_t *bytes = pq_stream_read(l->stream, v->n);
    if (!bytes)
        return false;
    while (l->oldest < l->next && l->kept + v->n + KEPT_OVERHEAD > KEPT_MAX)
        forget_oldest(d);
    v->as.bytes = memcpy(mem_alloc((size_t)v->n + 1, 1), bytes, v->n);
    l->kept += (uint64_t)v->n + KEPT_OVERHEAD;
    l->next++;
    return true;
}

bool pq_dictionary_get(struct pq_dictionary *d, uint32_t index, struct pq_value *v)
{
    struct pq_lazy *l = d->lazy;
    if (index >= d->n)
        return false;
    if (l && index < l->oldest) {
        if (++l->restarts > RESTARTS_MAX)
            return false;
        while (l->oldest < l->next)
            forget_oldest(d);
        pq_stream_close(l->stream);
        l->stream = pq_stream_open(l->codec, l->in, l->in_n, l->total);
        l->oldest = l->next = 0;
        if (!l->stream)
            return false;
    }
    while (l && l->next <= index)
        if (!keep_next(d))
            return false;
    *v = d->values[index];
    return true;
}

void pq_dictionary_free(struct pq_dictionary *d)
{
    while (d->lazy && d->lazy->oldest < d->lazy->next)
        forget_oldest(d);
    if (d->lazy)
        pq_stream_close(d->lazy->stream);
    free(d->lazy);
    free(d->values);
    *d = (struct pq_dictionary){0};
}
