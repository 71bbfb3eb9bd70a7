/* quantize_search.c - the candidates of ggml's reference quantisers, four groups side by side. */
#include "engine/quantize_search.h"

#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

static const float tiny = 1e-15f;                       /* a group below this is taken as all zero */

/* The nearest whole number in [lo, hi], ties to even; lo where v is NaN. |lo|, |hi| < 2^22. */
static inline lanes nearest_in(lanes v, lanes lo, lanes hi)
{
#if defined(__SSE__)
    v = (lanes)_mm_min_ps(_mm_max_ps(v, lo), hi);
#else
    v = select_lanes(v > lo, v, lo);
    v = select_lanes(v < hi, v, hi);
#endif
    return (v + 12582912.f) - 12582912.f;
}

static inline lanes all(float v)
{
    return (lanes){v, v, v, v};
}

/* The first of the largest magnitude. */
static lanes largest_of(const lanes *x, int n)
{
    lanes largest = {0};
    for (int i = 0; i < n; i++)
        largest = select_lanes(magnitude(x[i]) > magnitude(largest), x[i], largest);
    return largest;
}

/* ---- signed codes ---------------------------------------------------------------------------------------------- */

lanes search_signed(const lanes *x, const lanes *w, int n, int top, lanes *code)
{
    const lanes lo = all((float)-top), hi = all((float)(top - 1)), largest = largest_of(x, n);
    const lane_mask zero = magnitude(largest) < tiny;
    lanes scale = {0}, best = {0}, chosen = {0};
    for (int k = 0; k < 19; k++) {
        const int step = k == 0 ? 0 : k <= 9 ? k - 10 : k - 9;          /* 0 first, then -9..-1, 1..9 */
        const lanes inverse = -((float)top + 0.1f * (float)step) / largest;
        lanes xl = {0}, ll = {0};
        for (int i = 0; i < n; i++) {
            const lanes c = nearest_in(inverse * x[i], lo, hi);
            xl += w[i] * x[i] * c;
            ll += w[i] * c * c;
        }
        const lanes fit = select_lanes(ll > 0, xl / ll, all(0));
        const lane_mask better = ((ll > 0) & (xl * xl > best * ll)) | -(k == 0);
        scale = select_lanes(better, fit, scale);
        best = select_lanes(better, fit * xl, best);
        chosen = select_lanes(better, inverse, chosen);
    }
    for (int i = 0; i < n; i++)
        code[i] = select_lanes(zero, all(0), nearest_in(chosen * x[i], lo, hi) + (float)top);
    return select_lanes(zero, all(0), scale);
}

lanes search_signed_refined(const lanes *x, int n, int top, lanes *code)
{
    const lanes lo = all((float)-top), hi = all((float)(top - 1)), largest = largest_of(x, n);
    const lane_mask zero = magnitude(largest) < tiny;
    const lanes inverse = lo / largest;
    lanes xl = {0}, ll = {0};
    for (int i = 0; i < n; i++) {
        const lanes w = x[i] * x[i];
        code[i] = nearest_in(inverse * x[i], lo, hi);
        xl += w * x[i] * code[i];
        ll += w * code[i] * code[i];
    }
    lane_mask changed = {1};
    for (int round = 0; round < 5 && (changed[0] | changed[1] | changed[2] | changed[3]); round++) {
        changed = (lane_mask){0};
        for (int i = 0; i < n; i++) {
            const lanes v = x[i], w = v * v, c = code[i];
            const lanes a = xl - w * v * c, b = ll - w * c * c;
            const lanes moved = nearest_in(v * b / a, lo, hi);
            const lanes xl_then = a + w * v * moved, ll_then = b + w * moved * moved;
            const lane_mask better = (a > 0) & (moved != c) & (ll_then > 0) &
                                     (xl_then * xl_then * ll > xl * xl * ll_then);
            code[i] = select_lanes(better, moved, c);
            xl = select_lanes(better, xl_then, xl);
            ll = select_lanes(better, ll_then, ll);
            changed |= better;
        }
    }
    for (int i = 0; i < n; i++)
        code[i] = select_lanes(zero, all(0), code[i] + (float)top);
    return select_lanes(zero | ~(ll > 0), all(0), xl / ll);
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

/* Codes are nearest(inverse (x - low)); the line through them is scale code + min. */
struct line { lanes inverse, low, scale, min; };

static inline lanes line_code(const struct line *c, lanes x, lanes top)
{
    return nearest_in(c->inverse * (x - c->low), all(0), top);
}

static lanes line_error(const lanes *x, const lanes *w, int n, lanes top, bool absolute, const struct line *line)
{
    const struct line c = *line;
    lanes error = {0};
    for (int i = 0; i < n; i++) {
        const lanes d = c.scale * line_code(&c, x[i], top) + c.min - x[i];
        error += w[i] * (absolute ? magnitude(d) : d * d);
    }
    return error;
}

/* The least-squares line through the codes; the mask says where there is one. */
static lane_mask fit_line(const lanes *x, const lanes *w, int n, lanes top, lanes sw, lanes sx, struct line *line)
{
    struct line c = *line;
    lanes sl = {0}, sll = {0}, sxl = {0};
    for (int i = 0; i < n; i++) {
        const lanes code = line_code(&c, x[i], top), weighted = w[i] * code;
        sl += weighted;
        sll += weighted * code;
        sxl += weighted * x[i];
    }
    const lanes det = sw * sll - sl * sl;
    const lanes a = (sw * sxl - sx * sl) / det, b = (sll * sx - sl * sxl) / det;
    line->scale = select_lanes(b > 0, sxl / sll, a);
    line->min = select_lanes(b > 0, all(0), b);
    return det > 0;
}

/* Candidates start from the minimum of the best line so far. */
lanes search_line(const lanes *x, const lanes *w, int n, int top_code, struct line_search s, lanes *code, lanes *minus)
{
    const lanes top = all((float)top_code);
    lanes min = x[0], max = x[0], sw = {0}, sx = {0};
    for (int i = 0; i < n; i++) {
        min = select_lanes(x[i] < min, x[i], min);
        max = select_lanes(x[i] > max, x[i], max);
        sw += w[i];
        sx += w[i] * x[i];
    }
    min = select_lanes(min > 0, all(0), min);
    const lane_mask flat = max <= min;
    struct line best = {.inverse = top / (max - min), .low = min, .min = min};
    best.scale = 1 / best.inverse;
    lanes least = line_error(x, w, n, top, s.absolute, &best);
    for (int k = 0; k <= s.count; k++) {
        struct line c = {.inverse = (s.first + s.step * (float)k + top) / (max - best.min), .low = best.min};
        const lane_mask ok = fit_line(x, w, n, top, sw, sx, &c);
        const lanes error = line_error(x, w, n, top, s.absolute, &c);
        const lane_mask better = ok & (error < least);
        least = select_lanes(better, error, least);
        best.inverse = select_lanes(better, c.inverse, best.inverse);
        best.low = select_lanes(better, c.low, best.low);
        best.scale = select_lanes(better, c.scale, best.scale);
        best.min = select_lanes(better, c.min, best.min);
    }
    for (int i = 0; i < n; i++)
        code[i] = select_lanes(flat, all(0), line_code(&best, x[i], top));
    *minus = -select_lanes(flat, min, best.min);
    return select_lanes(flat, all(0), best.scale);
}

/* ---- no search ------------------------------------------------------------------------------------------------- */

/* Half a step away from zero, as roundf does it; |v| < 2^22. */
static inline lanes round_away(lanes v)
{
    const lanes t = (v + 12582912.f) - 12582912.f, rest = v - t;
    const lane_mask up = (rest == 0.5f) & (v > 0), down = (rest == -0.5f) & (v < 0);
    return t + select_lanes(up, all(1), all(0)) - select_lanes(down, all(1), all(0));
}

float code_bytes(const float *x, int8_t code[32])
{
    lanes v[8], largest = {0};
    memcpy(v, x, sizeof v);
    for (int i = 0; i < 8; i++)
        largest = select_lanes(magnitude(v[i]) > largest, magnitude(v[i]), largest);
    float d = 0;
    for (int l = 0; l < LANES; l++)
        d = largest[l] > d ? largest[l] : d;
    d /= 127;
    const float inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 8; i++) {
        const lanes q = round_away(v[i] * inverse);
        for (int l = 0; l < LANES; l++)
            code[4 * i + l] = (int8_t)q[l];
    }
    return d;
}

/* ---- uneven levels --------------------------------------------------------------------------------------------- */

static const float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Halfway between two levels; from there on the upper one is nearest. */
static inline float between(int j)
{
    return (levels[j] + levels[j + 1]) / 2;
}

static inline lanes level_near(lanes v)
{
    lanes q = all(levels[0]);
    for (int j = 0; j < 15; j++)
        q += (lanes)((v >= between(j)) & (lane_mask)all(levels[j + 1] - levels[j]));
    return q;
}

void code_levels(const float *x, float d, uint8_t code[32])
{
    const float inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i += LANES) {
        lanes v;
        lane_mask count = {0};
        memcpy(&v, x + i, sizeof v);
        v *= inverse;
        for (int j = 0; j < 15; j++)
            count -= v >= between(j);
        for (int l = 0; l < LANES; l++)
            code[i + l] = (uint8_t)count[l];
    }
}

/* Least squares for each way to place the largest value. */
lanes search_levels(const lanes *x, const lanes *w)
{
    const lanes largest = largest_of(x, MAX_GROUP);
    lanes scale = {0}, best = {0};
    for (int k = -8; k <= 7; k++) {
        const lanes inverse = k == -8 ? 1 / (-largest / levels[0]) : ((float)k + levels[0]) / largest;
        lanes qx = {0}, qq = {0};
        for (int i = 0; i < MAX_GROUP; i++) {
            const lanes q = level_near(inverse * x[i]);
            qx += w[i] * q * x[i];
            qq += w[i] * q * q;
        }
        const lanes fit = select_lanes(qq > 0, qx / qq, all(0));        /* all importances may be 0 */
        const lane_mask better = ((qq > 0) & (qx * qx > best * qq)) | -(k == -8);
        scale = select_lanes(better, fit, scale);
        best = select_lanes(better, fit * qx, best);
    }
    return select_lanes(magnitude(largest) < tiny, all(0), scale);
}
