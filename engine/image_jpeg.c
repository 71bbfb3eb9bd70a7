/* JPEG through libjpeg-turbo with its default settings, which is how Pillow calls it: equal to the bit. */
#include "engine/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

enum {
    MAX_SCANS = 200,            /* a progressive picture has about 10; each costs a pass over all coefficients */
    MAX_PIXELS_A_BYTE = 1024    /* the entropy coder needs at least one bit per 8 x 8 block, often shared by few */
};

struct jpeg_errors {
    struct jpeg_error_mgr base;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    char text[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr cinfo)
{
    struct jpeg_errors *errors = (struct jpeg_errors *)cinfo->err;
    cinfo->err->format_message(cinfo, errors->text);
    longjmp(errors->out, 1);
}

/* libjpeg carries on after damage and fills the rest with grey; for an evaluation that is a wrong picture. Warnings
 * that leave the pixels as they were meant pass. */
static void on_message(j_common_ptr cinfo, int level)
{
    if (level >= 0)
        return;
    switch (cinfo->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
        return;
    default:
        on_error(cinfo);
    }
}

static void no_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static void on_progress(j_common_ptr cinfo)
{
    struct jpeg_errors *errors = (struct jpeg_errors *)cinfo->err;
    if (((j_decompress_ptr)cinfo)->input_scan_number > MAX_SCANS) {
        snprintf(errors->text, sizeof errors->text, "more than %d scans", MAX_SCANS);
        longjmp(errors->out, 1);
    }
}

static int exif_of(j_decompress_ptr cinfo)
{
    for (jpeg_saved_marker_ptr m = cinfo->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && memcmp(m->data, "Exif\0\0", 6) == 0)
            return image_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

/* a b / 255, rounded */
static int mul255(int a, int b)
{
    int t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* CMYK as Adobe stores it, inverted, to RGB: each colour times K. Pillow's formula on the values turned back,
 * (255 - K) - C (255 - K) / 255, comes to the same for all of them. */
static void inverted_cmyk_to_rgb(const uint8_t *in, int n, uint8_t *rgb)
{
    for (int i = 0; i < n; i++, in += 4)
        for (int c = 0; c < 3; c++)
            *rgb++ = (uint8_t)mul255(in[c], in[3]);
}

static void grey_to_rgb(const uint8_t *in, int n, uint8_t *rgb)
{
    for (int i = 0; i < n; i++, rgb += 3)
        rgb[0] = rgb[1] = rgb[2] = in[i];
}

static int choose_output(j_decompress_ptr cinfo, const char *name, struct err *e)
{
    switch (cinfo->num_components) {
    case 1: cinfo->out_color_space = JCS_GRAYSCALE; return 0;
    case 3: cinfo->out_color_space = JCS_RGB; return 0;
    case 4: cinfo->out_color_space = JCS_CMYK; return 0;
    default:
        return err_input(e, "%s: JPEG with %d components; expected 1, 3 or 4", name, cinfo->num_components);
    }
}

static void read_rows(j_decompress_ptr cinfo, struct image *out, uint8_t *line)
{
    while (cinfo->output_scanline < cinfo->output_height) {
        uint8_t *to = out->rgb + (size_t)cinfo->output_scanline * (size_t)out->width * 3;
        uint8_t *row = cinfo->output_components == 3 ? to : line;
        jpeg_read_scanlines(cinfo, &row, 1);
        if (cinfo->output_components == 1)
            grey_to_rgb(line, out->width, to);
        else if (cinfo->output_components == 4)
            inverted_cmyk_to_rgb(line, out->width, to);
    }
}

int image_decode_jpeg(struct image *out, const uint8_t *p, size_t n, int *orientation, const char *name, struct err *e)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_errors errors;
    memset(&cinfo, 0, sizeof cinfo);
    memset(&errors, 0, sizeof errors);
    uint8_t *volatile line = NULL;
    volatile int rc = -1;
    cinfo.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = on_error;
    errors.base.emit_message = on_message;
    errors.base.output_message = no_output;
    errors.progress.progress_monitor = on_progress;
    if (setjmp(errors.out)) {
        rc = err_input(e, "%s: damaged JPEG: %s", name, errors.text);
        goto done;
    }
    jpeg_create_decompress(&cinfo);
    cinfo.progress = &errors.progress;
    jpeg_mem_src(&cinfo, p, (unsigned long)n);
    jpeg_save_markers(&cinfo, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&cinfo, TRUE);
    int64_t width = cinfo.image_width, height = cinfo.image_height;
    if (image_check_size(width, height, name, e) || choose_output(&cinfo, name, e))
        goto done;
    if (width * height > (int64_t)n * MAX_PIXELS_A_BYTE) {
        err_input(e, "%s: damaged JPEG: %zu bytes cannot hold %lld x %lld pixels", name, n, (long long)width,
                  (long long)height);
        goto done;
    }
    *orientation = exif_of(&cinfo);
    *out = (struct image){(int)width, (int)height, mem_alloc((size_t)width * (size_t)height, 3)};
    line = mem_alloc((size_t)width, 4);
    jpeg_start_decompress(&cinfo);
    read_rows(&cinfo, out, line);
    jpeg_finish_decompress(&cinfo);
    rc = 0;
done:
    jpeg_destroy_decompress(&cinfo);
    free(line);
    return rc;
}
