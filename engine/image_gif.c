/* GIF, first frame. Decoded here, because a transparent pixel must show its colour as in the other formats (stb_image
 * leaves it out), and because a frame that is not whole must be an error (stb_image cannot tell). */
#include "engine/image.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CODES = 4096 };

static uint32_t le16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static int cut(const char *name, size_t n, struct err *e)
{
    return err_input(e, "%s: truncated GIF: it ends at byte %zu, inside the first frame", name, n);
}

/* Moves *at behind a chain of sub-blocks; their content is appended to *data unless that is NULL. */
static int sub_blocks(const uint8_t *p, size_t n, size_t *at, struct text *data)
{
    while (*at < n) {
        size_t len = p[(*at)++];
        if (len == 0)
            return 0;
        if (len > n - *at)
            return -1;
        if (data)
            text_put(data, p + *at, len);
        *at += len;
    }
    return -1;
}

/* Moves *at to the first image descriptor, over extensions; a graphic control among them may name a transparent
 * colour. */
static int find_frame(const uint8_t *p, size_t n, size_t *at, int *transparent, const char *name, struct err *e)
{
    while (*at < n && p[*at] == 0x21) {
        if (n - *at >= 8 && p[*at + 1] == 0xf9 && p[*at + 2] == 4)
            *transparent = p[*at + 3] & 1 ? p[*at + 6] : 0;
        *at += 2;
        if (sub_blocks(p, n, at, NULL))
            return cut(name, n, e);
    }
    if (*at >= n || n - *at < 10)
        return cut(name, n, e);
    if (p[*at] != 0x2c)
        return err_input(e, "%s: damaged GIF: no picture in it, byte %zu is %02x", name, *at, p[*at]);
    return 0;
}

struct lzw { uint16_t prefix[MAX_CODES], length[MAX_CODES]; uint8_t first[MAX_CODES], last[MAX_CODES]; };

/* Writes the string of a code, which its table holds from its end to its start, to out[0 .. room). */
static size_t put_code(const struct lzw *t, int code, uint8_t *out, size_t room)
{
    size_t len = t->length[code];
    for (size_t i = len; i-- > 0; code = t->prefix[code])
        if (i < room)
            out[i] = t->last[code];
    return len < room ? len : room;
}

static void add_code(struct lzw *t, int code, int prefix, uint8_t last)
{
    t->prefix[code] = (uint16_t)prefix;
    t->length[code] = (uint16_t)(t->length[prefix] + 1);
    t->first[code] = t->first[prefix];
    t->last[code] = last;
}

/* Variable-length LZW, least significant bit first, codes of min_bits + 1 to 12 bits. Returns the number of pixels
 * written, fewer than `want` if the data end early or hold an impossible code. */
static size_t lzw_decode(const uint8_t *p, size_t n, int min_bits, uint8_t *out, size_t want)
{
    struct lzw *t = NEW(struct lzw, 1);
    int clear = 1 << min_bits, next = clear + 2, bits = min_bits + 1, previous = -1, n_window = 0;
    size_t pixels = 0;
    uint32_t window = 0;
    for (int i = 0; i < clear; i++) {
        t->length[i] = 1;
        t->first[i] = t->last[i] = (uint8_t)i;
    }
    for (size_t at = 0; pixels < want; ) {
        if (n_window < bits) {
            if (at == n)
                break;
            window |= (uint32_t)p[at++] << n_window;
            n_window += 8;
            continue;
        }
        int code = (int)(window & ((1U << bits) - 1));
        window >>= bits;
        n_window -= bits;
        if (code == clear) {
            next = clear + 2;
            bits = min_bits + 1;
            previous = -1;
            continue;
        }
        bool grows = previous >= 0 && next < MAX_CODES;
        if (code == clear + 1 || code > next || (code == next && !grows))
            break;
        if (grows) {
            add_code(t, next, previous, t->first[code == next ? previous : code]);
            if (++next == 1 << bits && bits < 12)
                bits++;
        }
        pixels += put_code(t, code, out + pixels, want - pixels);
        previous = code;
    }
    free(t);
    return pixels;
}

/* A frame on its screen. What it leaves open shows the transparent colour, or colour 0. */
struct frame {
    uint32_t screen_w, screen_h, x, y, w, h;
    bool interlaced;
    int min_bits, fill;
    uint8_t palette[256 * 3];
};

static int read_frame(struct frame *f, const uint8_t *p, size_t n, struct text *data, const char *name, struct err *e)
{
    if (n < 13)
        return cut(name, n, e);
    f->screen_w = le16(p + 6);
    f->screen_h = le16(p + 8);
    if (image_check_size(f->screen_w, f->screen_h, name, e))
        return -1;
    size_t n_palette = p[10] & 0x80 ? (size_t)2 << (p[10] & 7) : 0, palette_at = 13, at = 13 + n_palette * 3;
    if (find_frame(p, n, &at, &f->fill, name, e))
        return -1;
    const uint8_t *d = p + at;
    f->x = le16(d + 1), f->y = le16(d + 3), f->w = le16(d + 5), f->h = le16(d + 7);
    f->interlaced = d[9] & 0x40;
    if (f->w == 0 || f->h == 0 || f->x + f->w > f->screen_w || f->y + f->h > f->screen_h)
        return err_input(e, "%s: damaged GIF: a frame of %u x %u at %u, %u does not fit %u x %u", name, f->w, f->h,
                         f->x, f->y, f->screen_w, f->screen_h);
    at += 10;
    if (d[9] & 0x80) {
        n_palette = (size_t)2 << (d[9] & 7);
        palette_at = at;
        at += n_palette * 3;
    }
    if (n_palette == 0)
        return err_input(e, "%s: damaged GIF: it has no palette", name);
    if (at >= n)
        return cut(name, n, e);
    memcpy(f->palette, p + palette_at, n_palette * 3);
    f->min_bits = p[at++];
    if (f->min_bits < 1 || f->min_bits > 8)
        return err_input(e, "%s: damaged GIF: pixels of %d bits", name, f->min_bits);
    return sub_blocks(p, n, &at, data) ? cut(name, n, e) : 0;
}

/* Interlaced rows come as 0, 8, 16, ...; 4, 12, ...; 2, 6, ...; 1, 3, ... */
static void draw_frame(const struct frame *f, const uint8_t *index, struct image *out)
{
    static const uint32_t start[5] = {0, 4, 2, 1, 0}, step[5] = {8, 8, 4, 2, 1};
    for (int pass = f->interlaced ? 0 : 4; pass < (f->interlaced ? 4 : 5); pass++)
        for (uint32_t y = start[pass]; y < f->h; y += step[pass], index += f->w)
            for (uint32_t x = 0; x < f->w; x++)
                memcpy(out->rgb + ((size_t)(f->y + y) * f->screen_w + f->x + x) * 3, f->palette + 3 * index[x], 3);
}

int image_decode_gif(struct image *out, const uint8_t *p, size_t n, const char *name, struct err *e)
{
    struct frame f = {0};
    struct text data = {0};
    int rc = read_frame(&f, p, n, &data, name, e);
    size_t want = (size_t)f.w * f.h;
    /* a code of at least 3 bits adds at most one pixel to the longest string so far, which a table of 4096 bounds */
    if (rc == 0 && want / MAX_CODES > data.len)
        rc = err_input(e, "%s: damaged GIF: %zu bytes cannot hold %u x %u pixels", name, data.len, f.w, f.h);
    if (rc == 0) {
        uint8_t *index = mem_alloc(want, 1);
        size_t got = lzw_decode((const uint8_t *)data.data, data.len, f.min_bits, index, want);
        *out = (struct image){(int)f.screen_w, (int)f.screen_h, NULL};
        if (got == want) {
            out->rgb = mem_alloc((size_t)f.screen_w * f.screen_h, 3);
            for (size_t i = 0; i < (size_t)f.screen_w * f.screen_h; i++)
                memcpy(out->rgb + 3 * i, f.palette + 3 * f.fill, 3);
            draw_frame(&f, index, out);
        } else {
            rc = err_input(e, "%s: damaged GIF: the first frame's data end after %zu of %zu pixels", name, got, want);
        }
        free(index);
    }
    text_free(&data);
    return rc;
}
