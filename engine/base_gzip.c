/* base_gzip.c - random access into a gzip stream.
 *
 * The first pass runs through zlib's gzip mode, which checks the CRC at the end. On the way it remembers, every
 * `span` bytes, a restart point at a deflate block border: the input position to the bit and the 32 KiB window before
 * it. A later read starts at the nearest point in raw mode. Streams of several gzip members are one stream.
 */
#include "engine/base_archive.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { WINDOW = 32768, RATIO_MAX = 200, RATIO_FREE = 1 << 20, RELEASE_STEP = 8 << 20 };
static const uint64_t span = 8 << 20;

struct point { uint64_t out, in; int bits; unsigned window_len; uint8_t *window; };

struct gzip {
    const uint8_t *data;
    size_t size;
    char *path;
    z_stream z;
    bool raw;                   /* running from a restart point, without gzip's own checks */
    bool live, ended;
    uint64_t out;               /* decompressed bytes so far */
    uint64_t checked;           /* how far a pass with checks has come */
    const uint8_t *released;    /* input before this was given back to the system */
    struct point *points;
    size_t n_points;
};

struct gzip *gzip_open(const uint8_t *data, size_t size, const char *path)
{
    struct gzip *g = NEW(struct gzip, 1);
    g->data = data;
    g->size = size;
    g->released = data;
    g->path = mem_strdup(path);
    return g;
}

void gzip_close(struct gzip *g)
{
    if (!g)
        return;
    if (g->live)
        inflateEnd(&g->z);
    for (size_t i = 0; i < g->n_points; i++)
        free(g->points[i].window);
    free(g->points);
    free(g->path);
    free(g);
}

/* zlib counts input in 32 bits: it is fed in pieces. */
static void feed(struct gzip *g)
{
    size_t at = (size_t)(g->z.next_in - g->data);
    size_t rest = g->size - at;
    g->z.avail_in = (uInt)(rest < ((size_t)1 << 30) ? rest : (size_t)1 << 30);
}

static int restart(struct gzip *g, const struct point *p, struct err *e)
{
    if (g->live)
        inflateEnd(&g->z);
    g->z = (z_stream){0};
    g->live = g->ended = false;
    g->raw = p != NULL;
    if (inflateInit2(&g->z, p ? -15 : 15 + 16) != Z_OK)
        return err_set(e, EXIT_MACHINE, "%s: zlib cannot start", g->path);
    g->live = true;
    g->out = p ? p->out : 0;
    g->z.next_in = (Bytef *)(uintptr_t)(g->data + (p ? p->in : 0));
    if (p) {
        if (p->bits)
            inflatePrime(&g->z, p->bits, g->data[p->in - 1] >> (8 - p->bits));
        inflateSetDictionary(&g->z, p->window, p->window_len);
    }
    feed(g);
    return 0;
}

static void add_point(struct gzip *g)
{
    struct point *last = g->n_points ? &g->points[g->n_points - 1] : NULL;
    if (g->out < (last ? last->out + span : span))
        return;
    g->points = mem_grow(g->points, g->n_points + 1, sizeof *g->points);
    struct point *p = &g->points[g->n_points++];
    *p = (struct point){.out = g->out, .in = (uint64_t)(g->z.next_in - g->data), .bits = g->z.data_type & 7};
    p->window = mem_alloc(WINDOW, 1);
    p->window_len = WINDOW;
    inflateGetDictionary(&g->z, p->window, &p->window_len);
}

/* Behind a gzip member: another one, padding, or the end. */
static int next_stream(struct gzip *g, struct err *e)
{
    size_t at = (size_t)(g->z.next_in - g->data);
    if (g->raw)
        at += at + 8 <= g->size ? 8 : g->size - at;
    if (g->size - at < 18 || g->data[at] != 0x1f || g->data[at + 1] != 0x8b) {
        g->ended = true;
        return 0;
    }
    inflateEnd(&g->z);
    g->live = false;
    g->z = (z_stream){0};
    if (inflateInit2(&g->z, 15 + 16) != Z_OK)
        return err_set(e, EXIT_MACHINE, "%s: zlib cannot start", g->path);
    g->live = true;
    g->raw = false;
    g->z.next_in = (Bytef *)(uintptr_t)(g->data + at);
    feed(g);
    return 0;
}

/* One step of inflation into buf; the number of bytes that came out, 0 at the end. */
static int64_t step(struct gzip *g, uint8_t *buf, size_t n, struct err *e)
{
    for (;;) {
        if (g->ended || n == 0)
            return 0;
        if (g->z.avail_in == 0)
            feed(g);
        if (g->z.avail_in == 0)
            return fault(e, "E_TRUNCATED", "%s: the gzip stream ends before its end mark", g->path);
        g->z.next_out = buf;
        g->z.avail_out = (uInt)(n < WINDOW ? n : WINDOW);
        uInt before = g->z.avail_out;
        int rc = inflate(&g->z, Z_BLOCK);
        size_t got = before - g->z.avail_out;
        g->out += got;
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
            bool crc = g->z.msg && (strstr(g->z.msg, "check") || strstr(g->z.msg, "length check"));
            return fault(e, crc && !strstr(g->z.msg, "header") ? "E_CHECKSUM" : "E_DECOMPRESS",
                         "%s: gzip: %s at byte %lld", g->path, g->z.msg ? g->z.msg : "damaged data",
                         (long long)(g->z.next_in - g->data));
        }
        if (g->out > RATIO_FREE && g->out / RATIO_MAX > (uint64_t)(g->z.next_in - g->data))
            return fault(e, "E_BOMB", "%s: expands beyond %d:1", g->path, RATIO_MAX);
        if (g->out > g->checked)
            g->checked = g->out;
        if (g->z.next_in < g->released || g->z.next_in - g->released > RELEASE_STEP) {
            if (g->z.next_in > g->released)
                release_pages(g->released, g->z.next_in);
            g->released = g->z.next_in;
        }
        /* bit 7: at the end of a block, bit 6: of the last block */
        if (rc != Z_STREAM_END && (g->z.data_type & 128) && !(g->z.data_type & 64) && g->out == g->checked)
            add_point(g);
        if (rc == Z_STREAM_END && next_stream(g, e))
            return -1;
        if (got)
            return (int64_t)got;
    }
}

int64_t gzip_read(struct gzip *g, uint64_t at, void *buf, size_t n, struct err *e)
{
    if (!g->live || at < g->out) {
        const struct point *p = NULL;
        for (size_t i = 0; i < g->n_points && g->points[i].out <= at; i++)
            p = &g->points[i];
        if (restart(g, p, e))
            return -1;
    } else {
        const struct point *p = NULL;
        for (size_t i = 0; i < g->n_points && g->points[i].out <= at; i++)
            p = &g->points[i];
        if (p && p->out > g->out && restart(g, p, e))
            return -1;
    }
    uint8_t skipped[WINDOW];
    while (g->out < at) {
        uint64_t gap = at - g->out;
        int64_t got = step(g, skipped, gap < WINDOW ? (size_t)gap : WINDOW, e);
        if (got <= 0)
            return got;
    }
    size_t have = 0;
    while (have < n) {
        int64_t got = step(g, (uint8_t *)buf + have, n - have, e);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (int64_t)have;
}
