/* test_mel.c - log-mel frames against the goldens and against a plain transform. */
#include "engine/mel.h"
#include "tests/golden.h"
#include "tests/test.h"

#include <stdlib.h>

static const double pi = 3.14159265358979323846;

static void frames_of_the_goldens(void)
{
    static const char *const cases[][2] = {
        {"audio_short", "0"}, {"audio_odd", "0"}, {"audio_speech", "0"}, {"audio_stereo44k", "0"},
        {"mixed_image_audio", "0"}, {"mixed_two_of_each", "0"}, {"mixed_two_of_each", "1"}};
    struct mel *m;
    struct err e = {0};
    CHECK_MSG(mel_open(&m, NULL, &e) == 0, "%s", e.msg);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256], name[64];
        struct golden g;
        snprintf(path, sizeof path, GOLDENS "%s.safetensors", cases[i][0]);
        if (golden_open(&g, path))
            SKIP("no ../shared");
        snprintf(name, sizeof name, "audio_%s.samples", cases[i][1]);
        struct golden_tensor samples = golden_get(&g, name);
        snprintf(name, sizeof name, "audio_%s.mel", cases[i][1]);
        struct golden_tensor want = golden_get(&g, name);
        int64_t n = mel_frames(m, samples.n);
        CHECK_MSG(n == want.dim[0] && mel_bands(m) == want.dim[1], "%s: %lld frames", cases[i][0], (long long)n);
        if (n == want.dim[0]) {
            float *got = NEW(float, n * mel_bands(m));
            mel_compute(m, samples.f32, samples.n, got);
            double worst = 0;
            for (int64_t k = 0; k < want.n; k++)
                worst = fmax(worst, fabs((double)got[k] - want.f32[k]));
            CHECK_NEAR(worst, 0, 3e-4);
            free(got);
        }
        free(samples.data);
        free(want.data);
        golden_close(&g);
    }
    mel_close(m);
}

/* The formulae of GEMMA4.md 7.1 written down as they stand, one frame, with the C library's functions. */
static void plain_frame(const float *samples, int64_t frame, double out[128])
{
    double magnitude[257], edge[130];
    for (int b = 0; b <= 256; b++) {
        double re = 0, im = 0;
        for (int j = 0; j < 320; j++) {
            int64_t at = 160 * frame - 160 + j;
            double v = at < 0 ? 0 : samples[at] * (0.5 - 0.5 * cos(2 * pi * j / 320));
            re += v * cos(2 * pi * b * j / 512);
            im -= v * sin(2 * pi * b * j / 512);
        }
        magnitude[b] = hypot(re, im);
    }
    for (int i = 0; i < 130; i++)
        edge[i] = 700 * (pow(10, 2595 * log10(1 + 8000 / 700.0) * i / 129 / 2595) - 1);
    for (int m = 0; m < 128; m++) {
        double sum = 0;
        for (int b = 0; b <= 256; b++) {
            double f = b * 31.25, up = (f - edge[m]) / (edge[m + 1] - edge[m]);
            double down = (edge[m + 2] - f) / (edge[m + 2] - edge[m + 1]);
            sum += fmax(0, fmin(up, down)) * magnitude[b];
        }
        out[m] = log(sum + 0.001);
    }
}

static void equals_a_plain_transform(void)
{
    enum { N = 1000 };
    float samples[N], got[8 * 128];
    uint32_t seed = 7;
    for (int i = 0; i < N; i++)
        samples[i] = (float)(int32_t)(seed = seed * 1664525u + 1013904223u) * 0x1p-31f;
    struct mel *m;
    struct err e = {0};
    CHECK_MSG(mel_open(&m, NULL, &e) == 0, "%s", e.msg);
    int64_t n = mel_frames(m, N);
    CHECK(n == 6);
    mel_compute(m, samples, N, got);
    double worst = 0;
    for (int f = 0; f < n; f++) {
        double want[128];
        plain_frame(samples, f, want);
        for (int b = 0; b < 128; b++)
            worst = fmax(worst, fabs(got[f * 128 + b] - want[b]));
    }
    CHECK_NEAR(worst, 0, 1e-6);             /* half a unit in float32's last place is 2.4e-7 */
    mel_close(m);
}

static void number_of_frames(void)
{
    struct mel *m;
    struct err e = {0};
    CHECK(mel_open(&m, NULL, &e) == 0);
    static const int64_t cases[][2] = {{0, 0}, {1, 0}, {160, 0}, {161, 1}, {320, 1}, {321, 2}, {480000, 2999}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(mel_frames(m, cases[i][0]) == cases[i][1], "%lld samples", (long long)cases[i][0]);
    CHECK(mel_longest(m) == 480000 && mel_rate(m) == 16000);
    float silence[161] = {0}, got[128];
    mel_compute(m, silence, 161, got);
    CHECK_NEAR(got[0], -6.907755279, 1e-6);
    CHECK_NEAR(got[127], -6.907755279, 1e-6);
    mel_close(m);
}

static void settings(void)
{
    static const struct { const char *json, *expected; } cases[] = {
        {"{\"feature_extractor\":{\"feature_size\":128,\"fft_length\":512,\"dither\":0.0,\"preemphasis\":0.0}}", NULL},
        {"{\"patch_size\":16}", NULL},
        {"{\"feature_extractor\":{\"feature_size\":0}}", "feature_size"},
        {"{\"feature_extractor\":{\"feature_size\":\"128\"}}", "feature_size"},
        {"{\"feature_extractor\":{\"fft_length\":500}}", "fft_length"},
        {"{\"feature_extractor\":{\"frame_length\":513}}", "frame_length"},
        {"{\"feature_extractor\":{\"frame_length\":1024}}", "frame_length"},
        {"{\"feature_extractor\":{\"hop_length\":0}}", "hop_length"},
        {"{\"feature_extractor\":{\"hop_length\":1e99}}", "hop_length"},
        {"{\"feature_extractor\":{\"sampling_rate\":-1}}", "sampling_rate"},
        {"{\"feature_extractor\":{\"max_frequency\":8001}}", "max_frequency"},
        {"{\"feature_extractor\":{\"min_frequency\":8000}}", "min_frequency"},
        {"{\"feature_extractor\":{\"mel_floor\":0}}", "mel_floor"},
        {"{\"feature_extractor\":{\"preemphasis\":0.97}}", "preemphasis"},
        {"{\"feature_extractor\":{\"dither\":0.1}}", "dither"},
        {"{\"feature_extractor\":{\"per_bin_mean\":[1]}}", "per_bin_mean"},
        {"{\"audio_seq_length\":0}", "audio_seq_length"},
        {"{\"audio_seq_length\":1,\"audio_ms_per_token\":1}", "less than a frame"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct mel *m = NULL;
        cJSON *config = json_parse(cases[i].json, strlen(cases[i].json), "test", &e);
        int status = mel_open(&m, config, &e);
        if (cases[i].expected)
            CHECK_MSG(status && e.code == EXIT_BAD_INPUT && strstr(e.msg, cases[i].expected), "%s: %s", cases[i].json,
                      e.msg);
        else
            CHECK_MSG(status == 0, "%s: %s", cases[i].json, e.msg);
        mel_close(m);
        cJSON_Delete(config);
    }
}

int main(void)
{
    RUN(frames_of_the_goldens);
    RUN(equals_a_plain_transform);
    RUN(number_of_frames);
    RUN(settings);
    return test_report();
}
