/* image.h - from the bytes of a picture to the patches of the vision tower (inside engine/ only).
 *
 *     struct image in, fit;
 *     int w, h;
 *     if (image_decode(&in, bytes, n, "chart.png", &e)) ...
 *     if (image_fit(in.width, in.height, &grid, &w, &h, "chart.png", &e)) ...
 *     image_resize(&in, w, h, &fit);
 *     image_patches(&fit, 16, patches, positions);
 *
 * Pixels are what Python's Pillow gives for Image.open(...), exif_transpose(), convert("RGB") and resize(BICUBIC), to
 * the bit: the goldens and the published harnesses were made with it. All functions may be called from any thread.
 */
#ifndef HANDOFF_IMAGE_H
#define HANDOFF_IMAGE_H

#include "engine/base.h"

enum { IMAGE_MAX_SIDE = 16384, IMAGE_MAX_PIXELS = 64 << 20 };

struct image { int width, height; uint8_t *rgb; };     /* rgb: [height, width, 3] */
void image_free(struct image *im);                      /* harmless on {0} */

/* Decodes PNG, JPEG, BMP, WebP or GIF (first frame), recognised by content; turned as EXIF says. Alpha is dropped, not
 * blended. A damaged, cut, empty or oversized picture is an error that begins with `name`. */
int image_decode(struct image *out, const void *bytes, size_t n, const char *name, struct err *e);

/* How the tower sees a picture: squares of patch x patch pixels, pooled k x k into at most max_tokens soft tokens. */
struct image_grid { int patch, pool, max_tokens; };
/* Target size of a picture: the largest multiples of patch * pool that keep the aspect ratio within the budget
 * (GEMMA4.md 6.2). Fails for a shape so narrow that no size is left. */
int image_fit(int width, int height, const struct image_grid *grid, int *out_width, int *out_height,
              const char *name, struct err *e);

/* Pillow's bicubic with antialiasing, bit for bit; *out is new (a copy if the size is the same). */
void image_resize(const struct image *in, int width, int height, struct image *out);

/* patches: [n, patch * patch * 3] in [0, 1], inside a patch (row, column, channel); positions: [n, 2] as (column, row),
 * n = (width / patch) * (height / patch), row by row. Sides must be multiples of patch. */
void image_patches(const struct image *im, int patch, float *patches, int32_t *positions);

/* ---- formats --------------------------------------------------------------------------------------------------- */

/* Checks a size from a header against the limits above. */
int image_check_size(int64_t width, int64_t height, const char *name, struct err *e);
/* EXIF orientation 1..8 of a TIFF block ("II*\0..." or "MM\0*..."); 1 if it has none or is damaged. */
int image_exif_orientation(const uint8_t *tiff, size_t n);

/* Each decodes one format; *orientation is set where the format can carry one. */
int image_decode_jpeg(struct image *out, const uint8_t *p, size_t n, int *orientation, const char *name, struct err *e);
int image_decode_png(struct image *out, const uint8_t *p, size_t n, int *orientation, const char *name, struct err *e);
int image_decode_bmp(struct image *out, const uint8_t *p, size_t n, const char *name, struct err *e);
int image_decode_gif(struct image *out, const uint8_t *p, size_t n, const char *name, struct err *e);
int image_decode_webp(struct image *out, const uint8_t *p, size_t n, int *orientation, const char *name, struct err *e);

/* stb_image behind the checks of the formats above: 8-bit RGB, or 16-bit grey; NULL if it refuses. Caller frees. */
uint8_t *image_stb_rgb(const uint8_t *p, size_t n, int *width, int *height);
uint16_t *image_stb_grey16(const uint8_t *p, size_t n, int *width, int *height);

#endif
