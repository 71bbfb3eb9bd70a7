/* Pictures: decoding, resizing and cutting against Pillow and the goldens, and what hostile files may not do.
 * tests/data/pictures was made, and its expected.txt computed, with Pillow (make.py there). */
#include "engine/image.h"

#include <stdlib.h>
#include <zlib.h>
#include "tests/golden.h"
#include "tests/test.h"

#define PICTURES "tests/data/pictures/"
#define HOSTILE "../shared/datasets/hostile/media/"

static int decode(struct image *out, const void *p, size_t n, struct err *e)
{
    *e = (struct err){0};
    int rc = image_decode(out, p, n, "picture", e);
    CHECK_MSG((rc == 0) == (out->rgb != NULL), "pixels although %s", e->msg);
    CHECK_MSG(rc == 0 || (e->code == EXIT_BAD_INPUT && strncmp(e->msg, "picture: ", 9) == 0), "message \"%s\"", e->msg);
    return rc;
}

static bool refused(const void *p, size_t n, const char *says)
{
    struct image im;
    struct err e;
    int rc = decode(&im, p, n, &e);
    image_free(&im);
    return CHECK_MSG(rc && strstr(e.msg, says), "\"%s\" was expected, not \"%s\"", says, rc ? e.msg : "a picture");
}

/* ---- equal to Pillow ------------------------------------------------------------------------------------------- */

static void check_hash(const struct image *im, const char *want, const char *name, const char *what)
{
    char hex[65];
    sha256_hex_of(im->rgb, (size_t)im->width * (size_t)im->height * 3, hex);
    CHECK_MSG(strcmp(hex, want) == 0, "%s: %s pixels differ from Pillow's", name, what);
}

static void as_pillow(void)
{
    struct text list = {0};
    struct err e = {0};
    int n = 0;
    if (!CHECK_MSG(file_read(PICTURES "expected.txt", 1 << 20, &list, &e) == 0, "%s", e.msg))
        return;
    for (char *line = strtok(list.data, "\n"); line; line = strtok(NULL, "\n"), n++) {
        char name[64], path[128], sha[65], resized_sha[65];
        int w, h, to_w, to_h;
        struct text file = {0};
        struct image im, resized;
        if (!CHECK(sscanf(line, "%63s %d %d %64s %d %d %64s", name, &w, &h, sha, &to_w, &to_h, resized_sha) == 7))
            continue;
        snprintf(path, sizeof path, PICTURES "%s", name);
        CHECK_MSG(file_read(path, 1 << 20, &file, &e) == 0, "%s", e.msg);
        if (CHECK_MSG(decode(&im, file.data, file.len, &e) == 0 && im.width == w && im.height == h, "%s: %d x %d, %s",
                      name, im.width, im.height, e.msg)) {
            check_hash(&im, sha, name, "decoded");
            image_resize(&im, to_w, to_h, &resized);
            check_hash(&resized, resized_sha, name, "resized");
            image_free(&resized);
        }
        image_free(&im);
        text_free(&file);
    }
    CHECK(n >= 80);
    text_free(&list);
}

static void same_pixels(const struct image *im, struct golden_tensor t, const char *name, const char *what)
{
    CHECK_MSG(t.dim[0] == im->height && t.dim[1] == im->width &&
              memcmp(t.u8, im->rgb, (size_t)t.n) == 0, "%s: %s pixels differ (%d x %d)", name, what, im->width,
              im->height);
}

static void check_golden(const struct golden *g, int index, const char *file, const char *name)
{
    static const struct image_grid grid = {16, 3, 70};
    static const char *const kinds[] = {"decoded", "resized", "positions", "patches"};
    struct golden_tensor want[4];
    char path[128];
    struct text bytes = {0};
    struct err e = {0};
    struct image im, fit = {0};
    int w = 0, h = 0;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "image_%d.%s", index, kinds[i]);
        want[i] = golden_get(g, path);
    }
    snprintf(path, sizeof path, "../shared/model/media/%s", file);
    CHECK_MSG(file_read(path, 1 << 24, &bytes, &e) == 0 && decode(&im, bytes.data, bytes.len, &e) == 0, "%s: %s", name,
              e.msg);
    if (want[0].data)
        same_pixels(&im, want[0], name, "decoded");
    CHECK(image_fit(im.width, im.height, &grid, &w, &h, name, &e) == 0);
    image_resize(&im, w, h, &fit);
    same_pixels(&fit, want[1], name, "resized");
    size_t n = (size_t)(w / 16 * (h / 16));
    float *patches = NEW(float, n * 768);
    int32_t *positions = NEW(int32_t, n * 2);
    image_patches(&fit, 16, patches, positions);
    CHECK_MSG(want[2].dim[0] == (int64_t)n && memcmp(positions, want[2].data, n * 8) == 0, "%s: positions", name);
    CHECK_MSG(!want[3].data || memcmp(patches, want[3].data, (size_t)want[3].n * 4) == 0, "%s: patches", name);
    free(patches);
    free(positions);
    for (int i = 0; i < 4; i++)
        free(want[i].data);
    image_free(&im);
    image_free(&fit);
    text_free(&bytes);
}

static void goldens(void)
{
    static const char *const cases[] = {"image_dot_gray", "image_exif", "image_gray", "image_jpeg", "image_landscape",
                                        "image_rgba", "image_wide", "mixed_image_audio", "mixed_two_of_each"};
    int n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct golden g;
        struct err e = {0};
        char path[128];
        const cJSON *m;
        snprintf(path, sizeof path, GOLDENS "%s.safetensors", cases[i]);
        if (golden_open(&g, path))
            SKIP("no ../shared");
        snprintf(path, sizeof path, GOLDENS "%s.json", cases[i]);
        cJSON *json = json_read_file(path, 1 << 24, &e);
        int index = 0;
        cJSON_ArrayForEach(m, json_get(json, "media"))
            if (strcmp(json_string(m, "type"), "image") == 0 && ++n)
                check_golden(&g, index++, json_string(m, "file"), cases[i]);
        cJSON_Delete(json);
        golden_close(&g);
    }
    CHECK(n == 10);
}

/* By hand from the rule; the first is the example of the specification. */
static void sizes(void)
{
    static const struct { int w, h, tokens, to_w, to_h; } cases[] = {
        {640, 480, 280, 912, 672}, {1, 1, 70, 384, 384}, {1, 1, 1120, 1584, 1584}, {16384, 1, 70, 3360, 48},
        {1, 16384, 280, 48, 13440}, {60, 1, 70, 3072, 48}, {1000, 10, 1120, 16032, 144}, {342, 256, 560, 1296, 960},
        {4000, 4000, 140, 528, 528}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image_grid grid = {16, 3, cases[i].tokens};
        struct err e = {0};
        int w = 0, h = 0;
        CHECK(image_fit(cases[i].w, cases[i].h, &grid, &w, &h, "", &e) == 0);
        CHECK_MSG(w == cases[i].to_w && h == cases[i].to_h, "%d x %d, %d tokens: %d x %d", cases[i].w, cases[i].h,
                  cases[i].tokens, w, h);
        CHECK(w / 48 * (h / 48) <= cases[i].tokens);
    }
}

/* ---- hostile files --------------------------------------------------------------------------------------------- */

static const char *const small[] = {"rgb_420.jpg", "progressive.jpg", "cmyk_444.jpg", "turned_6.jpg", "plain_2_8.png",
                                    "adam7_3_4.png", "plain_0_16.png", "palette_4.bmp", "565.bmp", "top_down.bmp",
                                    "plain.gif", "interlaced.gif", "animated.gif",
                                    "lossy_alpha.webp", "lossless.webp", "turned_6.webp"};
enum { N_SMALL = sizeof small / sizeof *small };

static void load(const char *name, struct text *file)
{
    char path[128];
    struct err e = {0};
    snprintf(path, sizeof path, PICTURES "%s", name);
    CHECK_MSG(file_read(path, 1 << 20, file, &e) == 0, "%s", e.msg);
}

/* Each cut is decoded from memory of just that size, so that a read behind the end is seen. A GIF may lose what comes
 * behind its first frame. */
static void every_truncation(void)
{
    for (int i = 0; i < N_SMALL; i++) {
        struct text file = {0};
        struct image whole, cut;
        struct err e;
        load(small[i], &file);
        CHECK(decode(&whole, file.data, file.len, &e) == 0);
        size_t pixels = (size_t)whole.width * (size_t)whole.height * 3, n_good = 0;
        bool gif = strstr(small[i], ".gif") != NULL;
        for (size_t n = 0; n < file.len; n++) {
            char *copy = mem_alloc(n + (n == 0), 1);
            memcpy(copy, file.data, n);
            if (decode(&cut, copy, n, &e) == 0) {
                n_good++;
                CHECK_MSG(gif && memcmp(cut.rgb, whole.rgb, pixels) == 0, "%s cut to %zu bytes is taken", small[i], n);
            }
            image_free(&cut);
            free(copy);
        }
        CHECK_MSG(!gif || (n_good > 0 && n_good < file.len - 40), "%s: %zu cuts are taken", small[i], n_good);
        image_free(&whole);
        text_free(&file);
    }
}

/* One bit wrong: a PNG's checksums notice every one; elsewhere nothing may break. */
static void every_byte_wrong(void)
{
    for (int i = 0; i < N_SMALL; i++) {
        struct text file = {0};
        struct image im;
        struct err e;
        load(small[i], &file);
        bool png = strstr(small[i], ".png") != NULL;
        for (size_t at = 0; at < file.len; at++)
            for (int bit = 0; bit < 8; bit += 3) {
                file.data[at] = (char)(file.data[at] ^ 1 << bit);
                int rc = decode(&im, file.data, file.len, &e);
                CHECK_MSG(!png || rc, "%s with byte %zu changed is taken", small[i], at);
                image_free(&im);
                file.data[at] = (char)(file.data[at] ^ 1 << bit);
            }
        text_free(&file);
    }
}

static void put_chunk(struct text *t, const char *type, const void *data, size_t n)
{
    uint8_t be[4];
    uint32_t values[2] = {(uint32_t)n, 0};
    struct text body = {0};
    text_put(&body, type, 4);
    text_put(&body, data, n);
    values[1] = (uint32_t)crc32(0, (const Bytef *)body.data, (uInt)body.len);
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 4; i++)
            be[i] = (uint8_t)(values[v] >> (24 - 8 * i));
        text_put(t, be, 4);
        if (v == 0)
            text_put(t, body.data, body.len);
    }
    text_free(&body);
}

/* A PNG with a header of our choice whose data unfold to `raw` zero bytes. */
static void make_png(struct text *t, uint32_t w, uint32_t h, int depth, int colour, size_t raw)
{
    uint8_t head[13] = {(uint8_t)(w >> 24), (uint8_t)(w >> 16), (uint8_t)(w >> 8), (uint8_t)w,
                        (uint8_t)(h >> 24), (uint8_t)(h >> 16), (uint8_t)(h >> 8), (uint8_t)h,
                        (uint8_t)depth, (uint8_t)colour};
    uLongf size = compressBound(raw);
    Bytef *zeros = mem_alloc(raw + 1, 1), *packed = mem_alloc(size, 1);
    compress2(packed, &size, zeros, raw, 9);
    text_clear(t);
    text_put(t, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(t, "IHDR", head, sizeof head);
    put_chunk(t, "IDAT", packed, size);
    put_chunk(t, "IEND", "", 0);
    free(zeros);
    free(packed);
}

static void sizes_that_are_refused(void)
{
    struct text t = {0};
    make_png(&t, 20000, 20000, 8, 2, 100);
    refused(t.data, t.len, "20000 x 20000");
    make_png(&t, 16384, 16384, 1, 0, 100);
    refused(t.data, t.len, "16384 x 16384");
    make_png(&t, 0x80000001, 1, 8, 2, 100);
    refused(t.data, t.len, "2147483649 x 1");
    make_png(&t, 0, 10, 8, 2, 100);
    refused(t.data, t.len, "0 x 10");
    make_png(&t, 10, 0, 8, 2, 100);
    refused(t.data, t.len, "10 x 0");
    load("top_down.bmp", (text_clear(&t), &t));
    memcpy(t.data + 18, "\x20\x4e\0\0\x20\x4e\0\0", 8);
    refused(t.data, t.len, "20000 x 20000");
    memcpy(t.data + 18, "\7\0\0\0\0\0\0\x80", 8);
    refused(t.data, t.len, "x 2147483648");
    memcpy(t.data + 18, "\xff\xff\xff\xff\7\0\0\0", 8);
    refused(t.data, t.len, "-1 x 7");
    load("plain.gif", (text_clear(&t), &t));
    memcpy(t.data + 6, "\x20\x4e\x20\x4e", 4);
    refused(t.data, t.len, "20000 x 20000");
    memcpy(t.data + 6, "\0\0\7\0", 4);
    refused(t.data, t.len, "0 x 7");
    load("rgb_420.jpg", (text_clear(&t), &t));
    char *frame = NULL;
    for (size_t i = 0; i + 9 < t.len && !frame; i++)
        if (memcmp(t.data + i, "\xff\xc0", 2) == 0)
            frame = t.data + i;
    if (!CHECK(frame != NULL))
        return;
    memcpy(frame + 5, "\x4e\x20\x4e\x20", 4);
    refused(t.data, t.len, "20000 x 20000");
    memcpy(frame + 5, "\0\7\0\0", 4);
    refused(t.data, t.len, "damaged JPEG");
    memcpy(frame + 5, "\x1f\0\x1f\0", 4);
    refused(t.data, t.len, "cannot hold");
    text_free(&t);
}

static void bombs(void)
{
    struct text t = {0};
    make_png(&t, 8000, 8000, 16, 6, 1000);          /* 512 MB from a thousand bytes */
    refused(t.data, t.len, "unfold to 1000 bytes");
    make_png(&t, 1, 1, 8, 2, 50 << 20);             /* 50 MB for one pixel */
    refused(t.data, t.len, "expected 4");
    make_png(&t, 1, 1, 8, 2, 4);
    struct image im;
    struct err e;
    CHECK(decode(&im, t.data, t.len, &e) == 0 && im.width == 1 && im.height == 1);
    image_free(&im);
    load("plain.gif", (text_clear(&t), &t));
    size_t frame = 13 + 3 * ((size_t)2 << (t.data[10] & 7));
    while (frame < t.len && t.data[frame] != 0x2c)
        frame++;
    memcpy(t.data + 6, "\x80\x3e\xa0\x0f", 4);      /* 16000 x 4000 */
    memcpy(t.data + frame + 5, "\x80\x3e\xa0\x0f", 4);
    refused(t.data, t.len, "cannot hold");
    text_free(&t);
}

static void other_content(void)
{
    refused("", 0, "no bytes");
    refused("hello, world", 12, "not a picture");
    refused("RIFF\x08\0\0\0WEBPVP8 ", 16, "damaged WebP");
    refused("\x89PNG\r\n\x1a\n", 8, "truncated PNG");
    refused("\xff\xd8\xff", 3, "damaged JPEG");
    refused("BM", 2, "truncated BMP");
    refused("GIF89a", 6, "truncated GIF");
}

static void hostile_fixtures(void)
{
    static const struct { const char *name, *says; } cases[] = {
        {"chartqa_empty_image", "no bytes"}, {"chartqa_jpeg_named_png", NULL}, {"chartqa_png_bad_crc", "checksum"},
        {"chartqa_png_bomb", "60000 x 60000"}, {"chartqa_png_truncated", "truncated PNG"},
        {"chartqa_png_zero_width", "0 x 10"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        struct text file = {0};
        struct image im;
        struct err e = {0};
        snprintf(path, sizeof path, HOSTILE "%s/test/png/c1.png", cases[i].name);
        if (file_read(path, 1 << 24, &file, &e))
            SKIP("no ../shared");
        if (cases[i].says)
            refused(file.data ? file.data : "", file.len, cases[i].says);
        else
            CHECK(decode(&im, file.data, file.len, &e) == 0 && im.width == 320 && im.height == 240);
        if (!cases[i].says)
            image_free(&im);
        text_free(&file);
    }
}

static void orientation(void)
{
    static const char big[] = "MM\0*\0\0\0\x08\0\x02\x01\x0f\0\x02\0\0\0\x02xx\0\0"
                              "\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";
    CHECK(image_exif_orientation((const uint8_t *)big, sizeof big - 1) == 8);
    for (size_t n = 0; n < 34; n++) {
        uint8_t *copy = mem_alloc(n + 1, 1);
        memcpy(copy, big, n);
        uint8_t *exact = mem_grow(copy, n ? n : 1, 1);
        CHECK(image_exif_orientation(exact, n) == 1);
        free(exact);
    }
    static const char little[] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0";
    CHECK(image_exif_orientation((const uint8_t *)little, sizeof little - 1) == 1);
}

int main(void)
{
    RUN(as_pillow);
    RUN(goldens);
    RUN(sizes);
    RUN(every_truncation);
    RUN(every_byte_wrong);
    RUN(sizes_that_are_refused);
    RUN(bombs);
    RUN(other_content);
    RUN(hostile_fixtures);
    RUN(orientation);
    return test_report();
}
