/* The one place where stb_image is compiled: PNG and BMP from memory. It trusts its input more than it should, so
 * it only ever sees streams that image_png.c and image_bmp.c have checked and written anew. */
#include "engine/image.h"

#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_FAILURE_STRINGS
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS IMAGE_MAX_SIDE
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb/stb_image.h>

uint8_t *image_stb_rgb(const uint8_t *p, size_t n, int *width, int *height)
{
    return stbi_load_from_memory(p, (int)n, width, height, NULL, 3);
}

uint16_t *image_stb_grey16(const uint8_t *p, size_t n, int *width, int *height)
{
    return stbi_load_16_from_memory(p, (int)n, width, height, NULL, 1);
}
