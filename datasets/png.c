/* png.c - the pixels of a plain PNG, for the content hash that `inspect` prints. The engine has its own decoders. */
#include "datasets/reader.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct png { uint32_t width, height; int bits, colour, channels; const uint8_t *palette; size_t n_palette; };

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* All IDAT chunks through one inflate into exactly n bytes. The chunk structure was checked before. */
static bool inflate_chunks(const uint8_t *b, size_t size, uint8_t *out, size_t n, struct png *p)
{
    z_stream z = {0};
    if (inflateInit(&z) != Z_OK)
        return false;
    z.next_out = out;
    z.avail_out = (uInt)n;
    int rc = Z_OK;
    for (size_t at = 8; size - at >= 12 && be32(b + at) <= size - at - 12; at += 12 + (size_t)be32(b + at)) {
        if (memcmp(b + at + 4, "PLTE", 4) == 0) {
            p->palette = b + at + 8;
            p->n_palette = be32(b + at) / 3;
        } else if (memcmp(b + at + 4, "IDAT", 4) == 0 && rc == Z_OK) {
            z.next_in = (Bytef *)(uintptr_t)(b + at + 8);
            z.avail_in = be32(b + at);
            rc = z.avail_in ? inflate(&z, Z_NO_FLUSH) : Z_OK;
            if (rc == Z_BUF_ERROR)
                rc = Z_OK;
        }
    }
    inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_out == 0;
}

/* PNG section 9.2: each row predicted from its left, upper and upper-left bytes. */
static bool unfilter(uint8_t *data, uint32_t height, size_t stride, size_t pixel)
{
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = data + y * (stride + 1) + 1, *up = y ? row - stride - 1 : NULL;
        int filter = row[-1];
        if (filter > 4)
            return false;
        for (size_t x = 0; x < stride; x++) {
            int a = x >= pixel ? row[x - pixel] : 0, b = up ? up[x] : 0, c = up && x >= pixel ? up[x - pixel] : 0;
            int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
            int paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
            int guess[] = {0, a, b, (a + b) / 2, paeth};
            row[x] = (uint8_t)(row[x] + guess[filter]);
        }
    }
    return true;
}

static bool to_rgb(const struct png *p, const uint8_t *data, size_t stride, uint8_t *rgb)
{
    for (uint32_t y = 0; y < p->height; y++) {
        const uint8_t *row = data + y * (stride + 1) + 1;
        for (uint32_t x = 0; x < p->width; x++, rgb += 3) {
            if (p->channels >= 3) {
                memcpy(rgb, row + (size_t)x * (size_t)p->channels, 3);
                continue;
            }
            int v = p->bits == 8 ? row[(size_t)x * (size_t)p->channels] :
                    row[(size_t)x * (size_t)p->bits / 8] >> (8 - p->bits - (int)(x * (uint32_t)p->bits % 8)) &
                    ((1 << p->bits) - 1);
            if (p->colour == 3) {
                if ((size_t)v >= p->n_palette)
                    return false;
                memcpy(rgb, p->palette + v * 3, 3);
            } else {
                memset(rgb, v * (255 / ((1 << p->bits) - 1)), 3);
            }
        }
    }
    return true;
}

bool png_rgb(const uint8_t *b, size_t n, uint8_t **rgb, size_t *n_rgb)
{
    static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
    if (n < 33 || memcmp(b, "\x89PNG\r\n\x1a\n", 8) != 0)
        return false;
    struct png p = {.width = be32(b + 16), .height = be32(b + 20), .bits = b[24], .colour = b[25]};
    p.channels = p.colour <= 6 ? channels[p.colour] : 0;
    bool bits_ok = p.bits == 8 || ((p.bits == 1 || p.bits == 2 || p.bits == 4) && (p.colour == 0 || p.colour == 3));
    if (!p.channels || !bits_ok || b[28] != 0 || !p.width || !p.height ||
        (uint64_t)p.width * p.height > (uint64_t)64 << 20)
        return false;
    size_t stride = ((size_t)p.width * (size_t)p.channels * (size_t)p.bits + 7) / 8;
    size_t pixel = ((size_t)p.channels * (size_t)p.bits + 7) / 8, raw = (stride + 1) * p.height;
    uint8_t *data = mem_alloc(raw, 1);
    *n_rgb = (size_t)p.width * p.height * 3;
    *rgb = mem_alloc(*n_rgb, 1);
    bool ok = inflate_chunks(b, n, data, raw, &p) && unfilter(data, p.height, stride, pixel) &&
              to_rgb(&p, data, stride, *rgb);
    free(data);
    if (!ok)
        free(*rgb);
    return ok;
}
