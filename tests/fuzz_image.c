/* Decoding and shrinking of pictures: any bytes, and the same bytes as the rows of a PNG whose checksums are right. */
#include <stdlib.h>
#include <zlib.h>
#include "engine/image.h"
#include "tests/fuzz.h"

static void decode(const uint8_t *data, size_t n)
{
    static const struct image_grid grid = {16, 3, 70};
    struct image im, fit;
    struct err e = {0};
    int w, h;
    if (image_decode(&im, data, n, "fuzz", &e))
        return;
    if ((int64_t)im.width * im.height < 1 << 16 && image_fit(im.width, im.height, &grid, &w, &h, "fuzz", &e) == 0) {
        image_resize(&im, w / 8 + 1, h / 8 + 1, &fit);
        image_free(&fit);
    }
    image_free(&im);
}

static void put_chunk(struct text *t, const char *type, const void *data, size_t n)
{
    size_t at = t->len + 4;
    uint8_t size[4] = {0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    text_put(t, size, 4);
    text_put(t, type, 4);
    text_put(t, data, n);
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)t->data + at, (uInt)n + 4);
    uint8_t be[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8), (uint8_t)crc};
    text_put(t, be, 4);
}

/* Five bytes of header, three colours, the rest are filtered rows. */
static void as_rows(const uint8_t *data, size_t n)
{
    if (n < 15 || n > 1 << 16)
        return;
    uint8_t head[13] = {0, 0, 0, data[0], 0, 0, 0, data[1], data[2], data[3], 0, 0, data[4] & 1};
    uLongf size = compressBound(n - 14);
    Bytef *packed = mem_alloc(size, 1);
    struct text t = {0};
    compress2(packed, &size, data + 14, n - 14, 0);
    text_put(&t, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(&t, "IHDR", head, sizeof head);
    put_chunk(&t, "PLTE", data + 5, 9);
    put_chunk(&t, "IDAT", packed, size);
    put_chunk(&t, "IEND", "", 0);
    decode((const uint8_t *)t.data, t.len);
    text_free(&t);
    free(packed);
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    decode(data, n);
    as_rows(data, n);
    return 0;
}
