/* Pillow's 8-bit bicubic resize, bit for bit: weights in double, rounded to 22-bit fixed point, one direction into an
 * 8-bit intermediate, then the other. */
#include "engine/image.h"

#include <stdlib.h>
#include <string.h>

enum { WEIGHT_BITS = 22, CHANNELS = 3 };

/* Output i is the sum of weight[i * most + j] * input[first[i] + j], j < count[i]. */
struct taps { int most; int *first, *count; int32_t *weight; };

/* Keys' cubic with a = -0.5, evaluated in Pillow's order. */
static double cubic(double x)
{
    const double a = -0.5;
    if (x < 0)
        x = -x;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static struct taps taps_new(int n_in, int n_out)
{
    double scale = (double)n_in / n_out, wide = scale < 1 ? 1 : scale, support = 2 * wide;
    struct taps t = {.most = (int)support * 2 + 3, .first = NEW(int, n_out), .count = NEW(int, n_out)};
    t.weight = mem_alloc((size_t)n_out * (size_t)t.most, sizeof *t.weight);
    double *w = NEW(double, t.most);
    for (int i = 0; i < n_out; i++) {
        double centre = (i + 0.5) * scale, sum = 0;
        int lo = (int)(centre - support + 0.5), hi = (int)(centre + support + 0.5);
        if (lo < 0)
            lo = 0;
        if (hi > n_in)
            hi = n_in;
        for (int j = 0; j < hi - lo; j++) {
            w[j] = cubic((j + lo - centre + 0.5) * (1 / wide));
            sum += w[j];
        }
        t.first[i] = lo;
        t.count[i] = hi - lo;
        for (int j = 0; j < hi - lo; j++) {
            double v = (sum != 0 ? w[j] / sum : w[j]) * (1 << WEIGHT_BITS);
            t.weight[(size_t)i * (size_t)t.most + (size_t)j] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
        }
    }
    free(w);
    return t;
}

static void taps_free(struct taps *t)
{
    free(t->first);
    free(t->count);
    free(t->weight);
}

static uint8_t clamp8(int32_t sum)
{
    sum = sum < 0 ? 0 : sum >> WEIGHT_BITS;
    return (uint8_t)(sum > 255 ? 255 : sum);
}

/* in [rows, n_in, 3] -> out [rows, n_out, 3] */
static void resize_x(const uint8_t *in, int rows, int n_in, int n_out, uint8_t *out)
{
    struct taps t = taps_new(n_in, n_out);
    for (int y = 0; y < rows; y++, in += (size_t)n_in * CHANNELS) {
        for (int x = 0; x < n_out; x++, out += CHANNELS) {
            const int32_t *w = t.weight + (size_t)x * (size_t)t.most;
            const uint8_t *p = in + (size_t)t.first[x] * CHANNELS;
            int32_t r = 1 << (WEIGHT_BITS - 1), g = r, b = r;
            for (int j = 0; j < t.count[x]; j++, p += CHANNELS) {
                r += w[j] * p[0];
                g += w[j] * p[1];
                b += w[j] * p[2];
            }
            out[0] = clamp8(r);
            out[1] = clamp8(g);
            out[2] = clamp8(b);
        }
    }
    taps_free(&t);
}

/* in [n_in, width, 3] -> out [n_out, width, 3] */
static void resize_y(const uint8_t *in, int width, int n_in, int n_out, uint8_t *out)
{
    struct taps t = taps_new(n_in, n_out);
    size_t stride = (size_t)width * CHANNELS;
    int32_t *sum = mem_alloc(stride, sizeof *sum);
    for (int y = 0; y < n_out; y++, out += stride) {
        for (size_t x = 0; x < stride; x++)
            sum[x] = 1 << (WEIGHT_BITS - 1);
        for (int j = 0; j < t.count[y]; j++) {
            int32_t w = t.weight[(size_t)y * (size_t)t.most + (size_t)j];
            const uint8_t *p = in + (size_t)(t.first[y] + j) * stride;
            for (size_t x = 0; x < stride; x++)
                sum[x] += w * p[x];
        }
        for (size_t x = 0; x < stride; x++)
            out[x] = clamp8(sum[x]);
    }
    free(sum);
    taps_free(&t);
}

/* Pillow 13 begins with the direction y where the height shrinks by more than twice what the width does (older ones
 * always begin with x); the two orders differ by the rounding in between. */
void image_resize(const struct image *in, int width, int height, struct image *out)
{
    bool y_first = in->height > height && in->height - height > 2 * (in->width - width);
    *out = (struct image){width, height, mem_alloc((size_t)width * (size_t)height, CHANNELS)};
    if (width == in->width && height == in->height) {
        memcpy(out->rgb, in->rgb, (size_t)width * (size_t)height * CHANNELS);
    } else if (height == in->height) {
        resize_x(in->rgb, height, in->width, width, out->rgb);
    } else if (width == in->width) {
        resize_y(in->rgb, width, in->height, height, out->rgb);
    } else if (y_first) {
        uint8_t *between = mem_alloc((size_t)in->width * (size_t)height, CHANNELS);
        resize_y(in->rgb, in->width, in->height, height, between);
        resize_x(between, height, in->width, width, out->rgb);
        free(between);
    } else {
        uint8_t *between = mem_alloc((size_t)width * (size_t)in->height, CHANNELS);
        resize_x(in->rgb, in->height, in->width, width, between);
        resize_y(between, width, in->height, height, out->rgb);
        free(between);
    }
}
