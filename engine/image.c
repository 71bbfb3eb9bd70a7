/* Pictures: which format, which way up, which size, which patches. */
#include "engine/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void image_free(struct image *im)
{
    free(im->rgb);
    *im = (struct image){0};
}

int image_check_size(int64_t width, int64_t height, const char *name, struct err *e)
{
    if (width <= 0 || height <= 0)
        return err_input(e, "%s: the picture is %lld x %lld pixels; both sides must be at least 1", name,
                         (long long)width, (long long)height);
    if (width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE || width * height > IMAGE_MAX_PIXELS)
        return err_input(e, "%s: the picture says it is %lld x %lld pixels; at most %d a side and %d million in all "
                         "are read", name, (long long)width, (long long)height, IMAGE_MAX_SIDE, IMAGE_MAX_PIXELS >> 20);
    return 0;
}

/* ---- which way up ---------------------------------------------------------------------------------------------- */

static uint32_t tiff_int(const uint8_t *p, int bytes, bool little)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << 8 * (little ? i : bytes - 1 - i);
    return v;
}

/* EXIF 2.3: the first directory's entry 0x0112, one SHORT, its value in the entry itself. */
int image_exif_orientation(const uint8_t *tiff, size_t n)
{
    if (n < 8 || (memcmp(tiff, "II*\0", 4) && memcmp(tiff, "MM\0*", 4)))
        return 1;
    bool little = tiff[0] == 'I';
    size_t at = tiff_int(tiff + 4, 4, little);
    if (at > n - 2)
        return 1;
    uint32_t n_entries = tiff_int(tiff + at, 2, little);
    for (at += 2; n_entries-- > 0 && at <= n && n - at >= 12; at += 12) {
        const uint8_t *entry = tiff + at;
        if (tiff_int(entry, 2, little) != 0x0112)
            continue;
        uint32_t type = tiff_int(entry + 2, 2, little), value = 0;
        if (tiff_int(entry + 4, 4, little) == 1)
            value = type == 3 ? tiff_int(entry + 8, 2, little) : type == 4 ? tiff_int(entry + 8, 4, little) : 0;
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Orientation 2: mirrored, 3: turned by 180, 4: upside down, 5: transposed, 6: needs a quarter turn clockwise,
 * 7: transverse, 8: needs a quarter turn counter-clockwise. */
static void turn(struct image *im, int orientation)
{
    if (orientation <= 1)
        return;
    bool swap = orientation >= 5;
    bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    struct image out = {swap ? im->height : im->width, swap ? im->width : im->height, NULL};
    out.rgb = mem_alloc((size_t)out.width * (size_t)out.height, 3);
    uint8_t *to = out.rgb;
    for (int y = 0; y < out.height; y++)
        for (int x = 0; x < out.width; x++, to += 3) {
            int sx = swap ? y : x, sy = swap ? x : y;
            sx = flip_x ? im->width - 1 - sx : sx;
            sy = flip_y ? im->height - 1 - sy : sy;
            memcpy(to, im->rgb + ((size_t)sy * (size_t)im->width + (size_t)sx) * 3, 3);
        }
    image_free(im);
    *im = out;
}

/* ---- decoding -------------------------------------------------------------------------------------------------- */

static bool starts_with(const uint8_t *p, size_t n, const char *magic, size_t len)
{
    return n >= len && memcmp(p, magic, len) == 0;
}

int image_decode(struct image *out, const void *bytes, size_t n, const char *name, struct err *e)
{
    const uint8_t *p = bytes;
    int orientation = 1, rc;
    *out = (struct image){0};
    if (n == 0)
        return err_input(e, "%s: the picture has no bytes", name);
    if (n > INT32_MAX / 2)
        return err_input(e, "%s: a picture file of %zu bytes; at most 1 GiB is read", name, n);
    if (starts_with(p, n, "\x89PNG\r\n\x1a\n", 8))
        rc = image_decode_png(out, p, n, &orientation, name, e);
    else if (starts_with(p, n, "\xff\xd8\xff", 3))
        rc = image_decode_jpeg(out, p, n, &orientation, name, e);
    else if (starts_with(p, n, "BM", 2))
        rc = image_decode_bmp(out, p, n, name, e);
    else if (starts_with(p, n, "GIF87a", 6) || starts_with(p, n, "GIF89a", 6))
        rc = image_decode_gif(out, p, n, name, e);
    else if (starts_with(p, n, "RIFF", 4) && n >= 12 && memcmp(p + 8, "WEBP", 4) == 0)
        rc = image_decode_webp(out, p, n, &orientation, name, e);
    else
        return err_input(e, "%s: not a picture that can be read; expected PNG, JPEG, BMP, GIF or WebP", name);
    if (rc)
        image_free(out);
    else
        turn(out, orientation);
    return rc;
}

/* ---- size and patches ------------------------------------------------------------------------------------------ */

int image_fit(int width, int height, const struct image_grid *grid, int *out_width, int *out_height,
              const char *name, struct err *e)
{
    int unit = grid->patch * grid->pool;
    double max_patches = (double)grid->max_tokens * grid->pool * grid->pool;
    double f = sqrt(max_patches * (grid->patch * grid->patch) / ((double)height * width));
    int h = (int)floor(f * height / unit) * unit, w = (int)floor(f * width / unit) * unit;
    if (h == 0 && w == 0)
        return err_input(e, "%s: no size of %d x %d pixels fits a budget of %d soft tokens", name, width, height,
                         grid->max_tokens);
    if (h == 0) {
        h = unit;
        w = (width / height < grid->max_tokens ? width / height : grid->max_tokens) * unit;
    } else if (w == 0) {
        w = unit;
        h = (height / width < grid->max_tokens ? height / width : grid->max_tokens) * unit;
    }
    *out_width = w;
    *out_height = h;
    return 0;
}

void image_patches(const struct image *im, int patch, float *patches, int32_t *positions)
{
    size_t row = (size_t)im->width * 3, part = (size_t)patch * 3;
    for (int y = 0; y < im->height / patch; y++)
        for (int x = 0; x < im->width / patch; x++) {
            *positions++ = x;
            *positions++ = y;
            const uint8_t *from = im->rgb + (size_t)(y * patch) * row + (size_t)x * part;
            for (int i = 0; i < patch; i++, from += row)
                for (size_t j = 0; j < part; j++)
                    *patches++ = (float)(from[j] / 255.0);
        }
}
