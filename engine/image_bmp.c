/* BMP: uncompressed, 1 to 32 bits a pixel, top-down or bottom-up. The header is checked and written anew in its
 * plainest form, with a full palette, before stb_image sees it. */
#include "engine/image.h"

#include <stdlib.h>
#include <string.h>

struct bmp {
    int64_t width, height;      /* height < 0: top row first */
    int bits;
    uint32_t masks[3];          /* red, green, blue; 16 and 32 bits only */
    int n_palette, entry;       /* colours and bytes a colour */
    size_t palette_at, pixels_at;
};

static uint32_t le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t le16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static void put32(struct text *t, uint32_t v)
{
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    text_put(t, b, 4);
}

/* Contiguous bits, at most 8 of them. */
static bool mask_ok(uint32_t mask)
{
    while (mask && !(mask & 1))
        mask >>= 1;
    return mask && mask < 256 && (mask & (mask + 1)) == 0;
}

static int read_masks(struct bmp *b, const uint8_t *p, size_t n, size_t header, const char *name, struct err *e)
{
    static const uint32_t bits16[3] = {31 << 10, 31 << 5, 31}, bits32[3] = {255 << 16, 255 << 8, 255};
    uint32_t compression = header == 12 ? 0 : le32(p + 30);
    if (compression != 0 && (compression != 3 || b->bits < 16 || b->bits == 24))
        return err_input(e, "%s: BMP with compression %u; only uncompressed ones are read", name, compression);
    if (compression == 3) {
        if (n < 66)
            return err_input(e, "%s: truncated BMP: %zu bytes", name, n);
        for (int i = 0; i < 3; i++) {
            b->masks[i] = le32(p + 54 + 4 * i);
            if (!mask_ok(b->masks[i]) || (b->bits == 16 && b->masks[i] > 0xffff))
                return err_input(e, "%s: damaged BMP: colour mask %08x", name, b->masks[i]);
        }
        if (b->masks[0] & b->masks[1] || b->masks[0] & b->masks[2] || b->masks[1] & b->masks[2])
            return err_input(e, "%s: damaged BMP: colour masks overlap", name);
        b->palette_at += header == 40 ? 12 : 0;
    } else {
        memcpy(b->masks, b->bits == 16 ? bits16 : bits32, sizeof b->masks);
    }
    return 0;
}

static int read_header(struct bmp *b, const uint8_t *p, size_t n, const char *name, struct err *e)
{
    if (n < 26)
        return err_input(e, "%s: truncated BMP: %zu bytes", name, n);
    size_t header = le32(p + 14);
    if (header != 12 && header != 40 && header != 52 && header != 56 && header != 108 && header != 124)
        return err_input(e, "%s: BMP with a header of %zu bytes; expected 12, 40, 52, 56, 108 or 124", name, header);
    if (n < 14 + header)
        return err_input(e, "%s: truncated BMP: %zu bytes", name, n);
    bool old = header == 12;
    b->width = old ? (int32_t)le16(p + 18) : (int32_t)le32(p + 18);
    b->height = old ? (int32_t)le16(p + 20) : (int32_t)le32(p + 22);
    b->bits = (int)le16(p + (old ? 24 : 28));
    b->entry = old ? 3 : 4;
    b->palette_at = 14 + header;
    b->pixels_at = le32(p + 10);
    if (image_check_size(b->width, b->height < 0 ? -b->height : b->height, name, e))
        return -1;
    if (le16(p + (old ? 22 : 26)) != 1 ||
        (b->bits != 1 && b->bits != 4 && b->bits != 8 && b->bits != 16 && b->bits != 24 && b->bits != 32))
        return err_input(e, "%s: damaged BMP: %u planes of %d bits", name, le16(p + (old ? 22 : 26)), b->bits);
    if (read_masks(b, p, n, header, name, e))
        return -1;
    size_t rows = (size_t)(b->height < 0 ? -b->height : b->height);
    size_t stride = ((size_t)b->width * (size_t)b->bits + 31) / 32 * 4;
    if (b->pixels_at < b->palette_at || b->pixels_at > n || n - b->pixels_at < stride * rows)
        return err_input(e, "%s: truncated BMP: %zu rows of %zu bytes do not fit behind byte %zu of %zu", name, rows,
                         stride, b->pixels_at, n);
    if (b->bits <= 8) {
        size_t room = (b->pixels_at - b->palette_at) / (size_t)b->entry, used = old ? 0 : le32(p + 46);
        size_t most = (size_t)1 << b->bits;
        b->n_palette = (int)(used && used < most ? used : most);
        if (room < (size_t)b->n_palette)
            b->n_palette = (int)room;
        if (b->n_palette == 0)
            return err_input(e, "%s: damaged BMP: it has no palette", name);
    }
    return 0;
}

/* 16 and 32 bits a pixel as blue, green, red bytes; a field of fewer than 8 bits is stretched to 0..255, rounded down
 * as Pillow does. */
static void put_fields(const struct bmp *b, const uint8_t *p, size_t rows, struct text *t)
{
    const size_t bytes = (size_t)b->bits / 8, stride = ((size_t)b->width * bytes + 3) / 4 * 4;
    for (size_t y = 0; y < rows; y++) {
        for (size_t x = 0; x < (size_t)b->width; x++) {
            const uint8_t *at = p + y * stride + x * bytes;
            const uint32_t pixel = bytes == 2 ? le16(at) : le32(at);
            for (int c = 2; c >= 0; c--) {
                const uint32_t lowest = b->masks[c] & (0 - b->masks[c]);
                text_putc(t, (int)((pixel & b->masks[c]) / lowest * 255 / (b->masks[c] / lowest)));
            }
        }
        text_put(t, "\0\0\0", (size_t)b->width % 4);
    }
}

static void write_clean(const struct bmp *b, const uint8_t *p, size_t n, struct text *t)
{
    const bool fields = b->bits == 16 || b->bits == 32;
    const uint32_t palette = b->bits <= 8 ? 256 * 4 : 0;
    text_put(t, "BM", 2);
    put32(t, 0);
    put32(t, 0);
    put32(t, 54 + palette);
    put32(t, 40);
    put32(t, (uint32_t)b->width);
    put32(t, (uint32_t)b->height);
    put32(t, 1 | (uint32_t)(fields ? 24 : b->bits) << 16);
    for (int i = 0; i < 6; i++)
        put32(t, 0);
    for (int i = 0; palette && i < 256; i++)        /* colours that the file does not name are black */
        put32(t, i >= b->n_palette ? 0 : le32(p + b->palette_at + (size_t)i * (size_t)b->entry) & 0xffffff);
    if (fields)
        put_fields(b, p + b->pixels_at, (size_t)(b->height < 0 ? -b->height : b->height), t);
    else
        text_put(t, p + b->pixels_at, n - b->pixels_at);
}

int image_decode_bmp(struct image *out, const uint8_t *p, size_t n, const char *name, struct err *e)
{
    struct bmp b = {0};
    struct text clean = {0};
    if (read_header(&b, p, n, name, e))
        return -1;
    write_clean(&b, p, n, &clean);
    out->rgb = image_stb_rgb((const uint8_t *)clean.data, clean.len, &out->width, &out->height);
    text_free(&clean);
    if (!out->rgb)
        return err_input(e, "%s: damaged BMP: its pixels cannot be decoded", name);
    return 0;
}
