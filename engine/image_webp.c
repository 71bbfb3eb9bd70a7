/* WebP stills through libwebp. */
#include "engine/image.h"

#include <string.h>
#include <webp/decode.h>

static uint32_t le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Looks for an EXIF chunk; the chunks may stop anywhere. */
static int exif_of(const uint8_t *p, size_t n)
{
    for (size_t at = 12; at <= n && n - at >= 8;) {
        const size_t len = le32(p + at + 4), room = n - at - 8;
        if (len > room)
            return 1;
        if (memcmp(p + at, "EXIF", 4) == 0) {
            /* some writers keep JPEG's mark in front */
            const size_t mark = len >= 6 && memcmp(p + at + 8, "Exif\0\0", 6) == 0 ? 6 : 0;
            return image_exif_orientation(p + at + 8 + mark, len - mark);
        }
        at += 8 + len + (len & 1);
    }
    return 1;
}

int image_decode_webp(struct image *out, const uint8_t *p, size_t n, int *orientation, const char *name, struct err *e)
{
    WebPBitstreamFeatures f;
    if (n < 12 || le32(p + 4) > n - 8)
        return err_input(e, "%s: truncated WebP: it ends at byte %zu", name, n);
    if (WebPGetFeatures(p, n, &f) != VP8_STATUS_OK)
        return err_input(e, "%s: damaged WebP: its header cannot be read", name);
    if (f.has_animation)
        return err_input(e, "%s: animated WebP; only still pictures are read", name);
    if (image_check_size(f.width, f.height, name, e))
        return -1;
    const size_t size = (size_t)f.width * (size_t)f.height * 3;
    *out = (struct image){f.width, f.height, mem_alloc(size, 1)};
    *orientation = exif_of(p, n);
    if (!WebPDecodeRGBInto(p, n, out->rgb, size, 3 * f.width))
        return err_input(e, "%s: damaged or truncated WebP: its pixels cannot be decoded", name);
    return 0;
}
