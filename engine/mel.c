/* mel.c - the log-mel front end: frames, Hann window, FFT, magnitudes, triangular filters, logarithm.
 *
 * All in double with our own elementary functions from IEEE operations: a C library's last bits depend on its version
 * and on the CPU, and a frame's hash must not. */
#include "engine/mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct filter { int first, n; double *weight; };        /* bins [first, first + n) */

struct mel {
    int64_t rate, bands, frame, hop, fft, longest;
    double low_hz, high_hz, floor;
    double *window;             /* [frame] */
    double *cosine, *sine;      /* [fft / 2]: of 2 pi k / fft */
    int *reversed;              /* [fft / 2]: bit-reversed index */
    struct filter *filters;     /* [bands] */
    struct arena memory;
};

static const double pi = 3.14159265358979323846, ln2 = 0.69314718055994530942, ln10 = 2.30258509299404568402;

/* ---- elementary functions -------------------------------------------------------------------------------------- */

/* log x for normal x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)). */
static double log_of(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752440) {
        m *= 2;
        e--;
    }
    double t = (m - 1) / (m + 1), t2 = t * t, sum = 0;
    for (int k = 25; k >= 1; k -= 2)
        sum = sum * t2 + 1.0 / k;
    return e * ln2 + 2 * t * sum;
}

static double exp_of(double x)
{
    double k = floor(x / ln2 + 0.5), r = x - k * ln2, sum = 1;
    for (int i = 16; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)k);
}

/* Taylor's series of cos (odd = 0) or sin (odd = 1) on [0, pi / 4]. */
static double circular_series(double a, int odd)
{
    double sum = 1;
    for (int i = 20 + odd; i >= 2; i -= 2)
        sum = 1 - sum * a * a / (i * (i - 1));
    return odd ? sum * a : sum;
}

/* cos(2 pi k / n), 0 <= k <= n: the symmetries of the circle bring the angle into the first eighth. */
static double cos_of_part(double k, double n)
{
    if (2 * k > n)
        k = n - k;
    double sign = 1;
    if (4 * k > n) {
        k = n / 2 - k;
        sign = -1;
    }
    if (8 * k > n)
        return sign * circular_series(2 * pi * (n / 4 - k) / n, 1);
    return sign * circular_series(2 * pi * k / n, 0);
}

/* ---- set-up ---------------------------------------------------------------------------------------------------- */

static int read_number(const cJSON *config, const char *key, double lo, double hi, double fallback, double *out,
                       struct err *e)
{
    const cJSON *v = json_get(config, key);
    *out = v ? v->valuedouble : fallback;
    if (v && !(cJSON_IsNumber(v) && *out >= lo && *out <= hi))
        return err_input(e, "processor config: feature_extractor.%s: a number from %g to %g was expected", key, lo, hi);
    return 0;
}

/* Settings under which the frames would be computed in another way. */
static int refuse_other_ways(const cJSON *config, struct err *e)
{
    double unused;
    if (read_number(config, "preemphasis", 0, 0, 0, &unused, e) || read_number(config, "dither", 0, 0, 0, &unused, e) ||
        read_number(config, "input_scale_factor", 1, 1, 1, &unused, e))
        return -1;
    static const char *const per_band[] = {"per_bin_mean", "per_bin_stddev"};
    for (int i = 0; i < 2; i++) {
        const cJSON *v = json_get(config, per_band[i]);
        if (v && !cJSON_IsNull(v))
            return err_input(e, "processor config: feature_extractor.%s: null was expected", per_band[i]);
    }
    return 0;
}

static int read_sizes(struct mel *m, const cJSON *processor, struct err *e)
{
    const char *where = "processor config: feature_extractor";
    const cJSON *config = json_get(processor, "feature_extractor");
    if (!config && json_get(processor, "feature_extractor_type"))
        config = processor;                             /* a file of its own for the sound's settings */
    int64_t tokens, ms;
    if (json_int(config, "sampling_rate", 8000, 48000, 16000, &m->rate, where, e) ||
        json_int(config, "feature_size", 4, 1024, 128, &m->bands, where, e) ||
        json_int(config, "frame_length", 2, 1 << 14, 320, &m->frame, where, e) ||
        json_int(config, "hop_length", 40, 1 << 14, 160, &m->hop, where, e) ||
        json_int(config, "fft_length", 4, 1 << 14, 512, &m->fft, where, e) ||
        json_int(processor, "audio_seq_length", 1, 1 << 16, 750, &tokens, "processor config", e) ||
        json_int(processor, "audio_ms_per_token", 1, 10000, 40, &ms, "processor config", e) ||
        read_number(config, "min_frequency", 0, 1e5, 0, &m->low_hz, e) ||
        read_number(config, "max_frequency", 1, 1e5, 8000, &m->high_hz, e) ||
        read_number(config, "mel_floor", 1e-12, 1, 1e-3, &m->floor, e) || refuse_other_ways(config, e))
        return -1;
    if (m->fft & (m->fft - 1) || m->frame > m->fft || m->frame % 2)
        return err_input(e, "%s: fft_length %lld, frame_length %lld: a power of two, and an even number not above it, "
                         "were expected", where, (long long)m->fft, (long long)m->frame);
    if (m->low_hz >= m->high_hz || m->high_hz > (double)m->rate / 2)
        return err_input(e, "%s: min_frequency %g, max_frequency %g: a range within half the sampling_rate was "
                         "expected", where, m->low_hz, m->high_hz);
    m->longest = tokens * ms * m->rate / 1000;
    if (mel_frames(m, m->longest) < 1)
        return err_input(e, "processor config: audio_seq_length %lld times audio_ms_per_token %lld: less than a frame",
                         (long long)tokens, (long long)ms);
    return 0;
}

static double hz_to_mel(double hz)
{
    return 2595 / ln10 * log_of(1 + hz / 700);
}

static double mel_to_hz(double mel)
{
    return 700 * (exp_of(mel * ln10 / 2595) - 1);
}

/* Height of the triangle e[0], e[1], e[2] at hz. */
static double triangle(const double *e, double hz)
{
    double up = (hz - e[0]) / (e[1] - e[0]), down = (e[2] - hz) / (e[2] - e[1]);
    double height = up < down ? up : down;
    return height > 0 ? height : 0;
}

static void make_filters(struct mel *m)
{
    int n_bins = (int)m->fft / 2 + 1, n_edges = (int)m->bands + 2;
    double bin_hz = (double)m->rate / (double)m->fft;
    double low = hz_to_mel(m->low_hz), step = (hz_to_mel(m->high_hz) - low) / (n_edges - 1);
    double *edge = ARENA_NEW(&m->memory, double, n_edges);
    for (int i = 0; i < n_edges; i++)
        edge[i] = mel_to_hz(low + step * i);
    edge[n_edges - 1] = m->high_hz;
    m->filters = ARENA_NEW(&m->memory, struct filter, m->bands);
    for (int f = 0; f < (int)m->bands; f++) {
        struct filter *filter = &m->filters[f];
        int first = 0, end = n_bins;
        while (first < end && triangle(edge + f, first * bin_hz) == 0)
            first++;
        while (end > first && triangle(edge + f, (end - 1) * bin_hz) == 0)
            end--;
        filter->first = first;
        filter->n = end - first;
        filter->weight = ARENA_NEW(&m->memory, double, filter->n);
        for (int i = 0; i < filter->n; i++)
            filter->weight[i] = triangle(edge + f, (first + i) * bin_hz);
    }
}

static void make_tables(struct mel *m)
{
    int half = (int)m->fft / 2;
    m->window = ARENA_NEW(&m->memory, double, m->frame);
    for (int j = 0; j < (int)m->frame; j++)
        m->window[j] = 0.5 - 0.5 * cos_of_part(j, (double)m->frame);
    m->cosine = ARENA_NEW(&m->memory, double, half);
    m->sine = ARENA_NEW(&m->memory, double, half);
    m->reversed = ARENA_NEW(&m->memory, int, half);
    for (int k = 0; k < half; k++) {
        m->cosine[k] = cos_of_part(k, (double)m->fft);
        m->sine[k] = cos_of_part(4 * k < (int)m->fft ? (double)m->fft / 4 - k : k - (double)m->fft / 4, (double)m->fft);
        m->reversed[k] = m->reversed[k / 2] / 2 + (k & 1) * half / 2;
    }
}

int mel_open(struct mel **out, const cJSON *processor, struct err *e)
{
    struct mel *m = NEW(struct mel, 1);
    *out = NULL;
    if (read_sizes(m, processor, e)) {
        mel_close(m);
        return -1;
    }
    make_tables(m);
    make_filters(m);
    *out = m;
    return 0;
}

void mel_close(struct mel *m)
{
    if (!m)
        return;
    arena_free(&m->memory);
    free(m);
}

int mel_rate(const struct mel *m) { return (int)m->rate; }
int mel_bands(const struct mel *m) { return (int)m->bands; }
int64_t mel_longest(const struct mel *m) { return m->longest; }

/* ---- frames ---------------------------------------------------------------------------------------------------- */

/* The reference cuts frames of one sample more than it uses, hence the 1. */
int64_t mel_frames(const struct mel *m, int64_t n)
{
    int64_t needed = m->frame / 2 + 1;
    return n < needed ? 0 : (n - needed) / m->hop + 1;
}

/* Complex FFT of n = fft / 2 numbers in place; the input is in bit-reversed order. */
static void fft_complex(const struct mel *m, double *re, double *im)
{
    int n = (int)m->fft / 2;
    for (int span = 1; span < n; span *= 2) {
        int turn = (int)m->fft / (2 * span);            /* the angle pi k / span is 2 pi k turn / fft */
        for (int start = 0; start < n; start += 2 * span)
            for (int k = 0; k < span; k++) {
                double c = m->cosine[k * turn], s = m->sine[k * turn];
                int a = start + k, b = a + span;
                double x = c * re[b] + s * im[b], y = c * im[b] - s * re[b];
                re[b] = re[a] - x;
                im[b] = im[a] - y;
                re[a] += x;
                im[a] += y;
            }
    }
}

/* Magnitudes [fft / 2 + 1] of a real signal [fft], taken as fft / 2 complex numbers z_k = x_2k + i x_2k+1: with Z its
 * transform, X_k = (Z_k + conj Z_n-k) / 2 - i e^(-2 pi i k / fft) (Z_k - conj Z_n-k) / 2. */
static void magnitudes(const struct mel *m, const double *signal, double *re, double *im, double *out)
{
    int n = (int)m->fft / 2;
    for (int k = 0; k < n; k++) {
        re[m->reversed[k]] = signal[2 * k];
        im[m->reversed[k]] = signal[2 * k + 1];
    }
    fft_complex(m, re, im);
    out[0] = fabs(re[0] + im[0]);
    out[n] = fabs(re[0] - im[0]);
    for (int k = 1; k < n; k++) {
        double even_re = (re[k] + re[n - k]) / 2, even_im = (im[k] - im[n - k]) / 2;
        double odd_re = (im[k] + im[n - k]) / 2, odd_im = (re[n - k] - re[k]) / 2;
        double c = m->cosine[k], s = m->sine[k];
        double x = even_re + c * odd_re + s * odd_im, y = even_im + c * odd_im - s * odd_re;
        out[k] = sqrt(x * x + y * y);
    }
}

void mel_compute(const struct mel *m, const float *samples, int64_t n, float *out)
{
    int half = (int)m->fft / 2;
    double *signal = NEW(double, m->fft), *re = NEW(double, half), *im = NEW(double, half);
    double *magnitude = NEW(double, half + 1);
    int64_t n_frames = mel_frames(m, n);
    for (int64_t f = 0; f < n_frames; f++) {
        int64_t start = f * m->hop - m->frame / 2;      /* half a frame of silence comes before the first sample */
        for (int64_t j = 0; j < m->frame; j++)
            signal[j] = start + j < 0 ? 0 : (double)samples[start + j] * m->window[j];
        magnitudes(m, signal, re, im, magnitude);
        for (int64_t b = 0; b < m->bands; b++) {
            const struct filter *filter = &m->filters[b];
            double sum = 0;
            for (int i = 0; i < filter->n; i++)
                sum += filter->weight[i] * magnitude[filter->first + i];
            out[f * m->bands + b] = (float)log_of(sum + m->floor);
        }
    }
    free(signal);
    free(re);
    free(im);
    free(magnitude);
}
