/* PNG: every chunk's length and CRC and the whole compressed stream are checked here; stb_image then decodes a stream
 * of just the chunks that matter. */
#include "engine/image.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct png {
    const char *name;
    uint32_t width, height;
    int depth, colour;          /* colour type as in IHDR */
    bool interlaced;
    int n_palette;
    int orientation;
    struct text idat;           /* all IDAT data joined */
    uint8_t palette[256 * 3];
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int read_ihdr(struct png *png, const uint8_t *p, size_t len, struct err *e)
{
    static const struct { int colour; const char *depths; } allowed[] = {
        {0, "\1\2\4\10\20"}, {2, "\10\20"}, {3, "\1\2\4\10"}, {4, "\10\20"}, {6, "\10\20"}};
    if (len != 13)
        return err_input(e, "%s: damaged PNG: IHDR of %zu bytes, expected 13", png->name, len);
    png->width = be32(p);
    png->height = be32(p + 4);
    if (image_check_size(png->width, png->height, png->name, e))
        return -1;
    png->depth = p[8];
    png->colour = p[9];
    png->interlaced = p[12] == 1;
    bool known = false;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        known |= allowed[i].colour == p[9] && p[8] && strchr(allowed[i].depths, p[8]);
    if (!known || p[10] || p[11] || p[12] > 1)
        return err_input(e, "%s: damaged PNG: colour type %d with %d bits, compression %d, filter %d, interlace %d do "
                         "not exist", png->name, p[9], p[8], p[10], p[11], p[12]);
    return 0;
}

static int read_chunk(struct png *png, const uint8_t *type, const uint8_t *p, size_t len, struct err *e)
{
    if (memcmp(type, "IDAT", 4) == 0) {
        text_put(&png->idat, p, len);
    } else if (memcmp(type, "PLTE", 4) == 0) {
        if (len == 0 || len % 3 || len > sizeof png->palette || png->n_palette || png->idat.len)
            return err_input(e, "%s: damaged PNG: PLTE of %zu bytes, or in the wrong place", png->name, len);
        memcpy(png->palette, p, len);
        png->n_palette = (int)len / 3;
    } else if (memcmp(type, "eXIf", 4) == 0) {
        png->orientation = image_exif_orientation(p, len);
    } else if (memcmp(type, "IHDR", 4) == 0 || (!(type[0] & 0x20) && memcmp(type, "IEND", 4))) {
        return err_input(e, "%s: damaged PNG: unexpected chunk \"%.4s\"", png->name, (const char *)type);
    }
    return 0;
}

static int read_chunks(struct png *png, const uint8_t *p, size_t n, struct err *e)
{
    for (size_t at = 8; ; ) {
        if (n - at < 12)
            return err_input(e, "%s: truncated PNG: it ends at byte %zu, before IEND", png->name, n);
        size_t len = be32(p + at);
        const uint8_t *type = p + at + 4;
        if (len > n - at - 12)
            return err_input(e, "%s: truncated PNG: chunk \"%.4s\" at byte %zu says %zu bytes, %zu are left", png->name,
                             (const char *)type, at, len, n - at - 12);
        if (crc32(0, type, (uInt)len + 4) != be32(type + 4 + len))
            return err_input(e, "%s: damaged PNG: wrong checksum of chunk \"%.4s\" at byte %zu", png->name,
                             (const char *)type, at);
        if (at == 8 && memcmp(type, "IHDR", 4))
            return err_input(e, "%s: damaged PNG: it does not begin with IHDR", png->name);
        if (at == 8 ? read_ihdr(png, type + 4, len, e) : read_chunk(png, type, type + 4, len, e))
            return -1;
        if (memcmp(type, "IEND", 4) == 0)
            return 0;
        at += len + 12;
    }
}

/* Bytes of the filtered rows: one filter byte and the packed samples per row, for each of Adam7's passes. */
static int64_t raw_size(const struct png *png)
{
    static const uint8_t pass[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4},
                                       {1, 0, 2, 2}, {0, 1, 1, 2}};     /* first column, first row, steps */
    static const int samples[7] = {1, 0, 3, 1, 2, 0, 4};
    int64_t bits = png->depth * samples[png->colour], total = 0;
    if (!png->interlaced)
        return ((png->width * bits + 7) / 8 + 1) * png->height;
    for (int i = 0; i < 7; i++) {
        int64_t w = ((int64_t)png->width - pass[i][0] + pass[i][2] - 1) / pass[i][2];
        int64_t h = ((int64_t)png->height - pass[i][1] + pass[i][3] - 1) / pass[i][3];
        if (w > 0 && h > 0)
            total += ((w * bits + 7) / 8 + 1) * h;
    }
    return total;
}

/* The stream must be whole, with the right checksum, and hold as many bytes as the picture needs: stb_image tests
 * neither the checksum nor how far a stream unfolds. */
static int check_stream(const struct png *png, struct err *e)
{
    enum { SLACK = 1 << 16 };   /* some writers leave a few bytes behind the last row */
    int64_t need = raw_size(png), got = 0;
    uint8_t *scratch = mem_alloc(1 << 16, 1);
    z_stream z = {.next_in = (Bytef *)(void *)png->idat.data, .avail_in = (uInt)png->idat.len};
    int rc = inflateInit(&z);
    while (rc == Z_OK && got <= need + SLACK) {
        z.next_out = scratch;
        z.avail_out = 1 << 16;
        rc = inflate(&z, Z_NO_FLUSH);
        got += (1 << 16) - (int64_t)z.avail_out;
    }
    inflateEnd(&z);
    free(scratch);
    if (rc != Z_STREAM_END || got < need || got > need + SLACK)
        return err_input(e, "%s: damaged PNG: its data unfold to %lld%s bytes, expected %lld", png->name,
                         (long long)got, rc == Z_STREAM_END ? "" : " or more damaged", (long long)need);
    return 0;
}

static void put_chunk(struct text *t, const char *type, const void *data, size_t len)
{
    uint8_t size[4] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    text_put(t, size, 4);
    text_put(t, type, 4);
    text_put(t, data, len);
    text_put(t, "\0\0\0\0", 4);         /* a checksum nobody looks at any more */
}

/* 16-bit grey is clipped to 255 as Pillow does (mode I;16 to RGB); other 16-bit pictures keep the high byte. */
static int decode_clean(const struct png *png, const struct text *clean, struct image *out, struct err *e)
{
    int w = 0, h = 0;
    uint16_t *grey = NULL;
    const uint8_t *p = (const uint8_t *)clean->data;
    if (png->colour == 0 && png->depth == 16) {
        grey = image_stb_grey16(p, clean->len, &w, &h);
        size_t n = grey ? (size_t)w * (size_t)h : 0;
        out->rgb = grey ? mem_alloc(n, 3) : NULL;
        for (size_t i = 0; i < n * 3; i++)
            out->rgb[i] = (uint8_t)(grey[i / 3] > 255 ? 255 : grey[i / 3]);
        free(grey);
    } else {
        out->rgb = image_stb_rgb(p, clean->len, &w, &h);
    }
    if (!out->rgb || w != (int)png->width || h != (int)png->height)
        return err_input(e, "%s: damaged PNG: its rows cannot be decoded", png->name);
    out->width = w;
    out->height = h;
    return 0;
}

int image_decode_png(struct image *out, const uint8_t *p, size_t n, int *orientation, const char *name, struct err *e)
{
    struct png png = {.name = name, .orientation = 1};
    struct text clean = {0};
    int rc = read_chunks(&png, p, n, e);
    if (rc == 0 && png.colour == 3 && png.n_palette == 0)
        rc = err_input(e, "%s: damaged PNG: a palette picture without PLTE", name);
    if (rc == 0)
        rc = check_stream(&png, e);
    if (rc == 0) {
        text_put(&clean, p, 8 + 25);
        if (png.colour == 3)            /* padded, so that no pixel can point behind it */
            put_chunk(&clean, "PLTE", png.palette, sizeof png.palette);
        put_chunk(&clean, "IDAT", png.idat.data, png.idat.len);
        put_chunk(&clean, "IEND", "", 0);
        rc = decode_clean(&png, &clean, out, e);
    }
    *orientation = png.orientation;
    text_free(&png.idat);
    text_free(&clean);
    return rc;
}
