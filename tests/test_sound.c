/* test_sound.c - decoding, mixing, resampling, segments, stretches, and what must be refused. */
#include "engine/sound.h"
#include "tests/golden.h"
#include "tests/test.h"

#include <stdlib.h>

static const double pi = 3.14159265358979323846;

#define FIXTURES "../shared/datasets/fixtures/"
#define HOSTILE "../shared/datasets/hostile/media/"

static int decode_bytes(const void *bytes, size_t n, double begin_s, double end_s, struct sound *s, struct err *e)
{
    struct media m = {.kind = MEDIA_AUDIO, .bytes = bytes, .n_bytes = n, .name = "sound", .begin_s = begin_s, .end_s = end_s};
    *e = (struct err){0};
    return sound_decode(&m, 16000, s, e);
}

static int decode_file(const char *path, double begin_s, double end_s, struct sound *s, struct err *e)
{
    struct mapped file;
    if (map_open(&file, path, e))
        return -1;
    int status = decode_bytes(file.data, file.size, begin_s, end_s, s, e);
    map_close(&file);
    return status;
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)a[i] - b[i]));
    return worst;
}

/* ---- against the reference ------------------------------------------------------------------------------------- */

static void samples_as_the_reference_has_them(void)
{
    static const struct { const char *golden, *tensor, *file; double tolerance; } cases[] = {
        {"audio_short", "audio_0.samples", "short.wav", 0},
        {"audio_odd", "audio_0.samples", "odd.wav", 0},
        {"audio_speech", "audio_0.samples", "speech.wav", 0},
        {"audio_stereo44k", "audio_0.samples", "stereo44k.wav", 1e-6},
        {"mixed_two_of_each", "audio_0.samples", "odd.wav", 0},
        {"mixed_two_of_each", "audio_1.samples", "short.wav", 0},
        {"mixed_image_audio", "audio_0.samples", "short.wav", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        struct golden g;
        snprintf(path, sizeof path, GOLDENS "%s.safetensors", cases[i].golden);
        if (golden_open(&g, path))
            SKIP("no ../shared");
        struct golden_tensor want = golden_get(&g, cases[i].tensor);
        struct sound s;
        struct err e;
        snprintf(path, sizeof path, "../shared/model/media/%s", cases[i].file);
        int status = decode_file(path, 0, 0, &s, &e);
        CHECK_MSG(status == 0, "%s: %s", path, e.msg);
        CHECK_MSG(s.n == want.n, "%s: %lld samples, not %lld", path, (long long)s.n, (long long)want.n);
        if (s.n == want.n)
            CHECK_NEAR(largest_difference(s.samples, want.f32, s.n), 0, cases[i].tolerance);
        free(s.samples);
        free(want.data);
        golden_close(&g);
    }
}

/* Every sound file named in an expected.jsonl: its length. */
static int check_expected_line(const char *folder, const char *path, const cJSON *media)
{
    struct sound s;
    struct err e = {0};
    double begin_s = 0, end_s = 0, want_s = json_get(media, "duration_s")->valuedouble;
    const cJSON *segment = json_get(media, "segment");
    if (segment) {
        begin_s = json_get(segment, "begin_s")->valuedouble;
        end_s = json_get(segment, "end_s")->valuedouble;
        want_s = end_s - begin_s;
    }
    const cJSON *slack = json_get(media, "duration_tolerance_s");
    int status = decode_file(path, begin_s, end_s, &s, &e);
    CHECK_MSG(status == 0, "%s: %s", folder, e.msg);
    if (status)
        return 0;
    CHECK_NEAR(s.seconds, want_s, slack && !segment ? slack->valuedouble : 1e-4);
    CHECK_NEAR((double)s.n, s.seconds * 16000, 1.0);
    free(s.samples);
    return 1;
}

static char *sha_of_file(const char *path, char hex[65])
{
    struct mapped file;
    struct err e;
    if (map_open(&file, path, &e))
        return NULL;
    sha256_hex_of(file.data, file.size, hex);
    map_close(&file);
    return hex;
}

static void every_fixture_format(void)
{
    static const struct { const char *expected, *files[8]; } sets[] = {
        {FIXTURES "mmau/official/expected.jsonl",
         {FIXTURES "mmau/official/test-mini-audios/1d5dbbd2-4b6a-41aa-a8e9-b6116e64679e.wav",
          FIXTURES "mmau/official/test-mini-audios/151ae673-a73f-4dcf-ac16-bafb0ac8f197.wav",
          FIXTURES "mmau/official/test-mini-audios/9a1a81f0-e748-484b-a772-8c2fb6272181.wav",
          FIXTURES "mmau/official/test-mini-audios/d66d7c61-58d6-4a5c-9884-0115af1feaa3.wav",
          FIXTURES "mmau/official/test-mini-audios/a2727e3d-a59d-4a08-85e0-37f4fc4186c2.wav"}},
        {FIXTURES "librispeech/official/expected.jsonl",
         {FIXTURES "librispeech/official/LibriSpeech/test-clean/90001/900010/90001-900010-0000.flac",
          FIXTURES "librispeech/official/LibriSpeech/test-other/90007/900071/90007-900071-0001.flac"}},
        {FIXTURES "gigaspeech/official/expected.jsonl",
         {FIXTURES "gigaspeech/official/audio/podcast/P0009/POD1000000901.opus",
          FIXTURES "gigaspeech/official/audio/youtube/Y0009/YOU1000000902.opus"}},
        {FIXTURES "earnings22/official/expected.jsonl",
         {FIXTURES "earnings22/official/earnings22/media/4499001.mp3",
          FIXTURES "earnings22/official/earnings22/media/4499002.mp3"}},
    };
    int n_decoded = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct text lines = {0};
        struct err e = {0};
        if (file_read(sets[i].expected, 1 << 24, &lines, &e))
            SKIP("no ../shared");
        for (char *line = strtok(lines.data, "\n"); line; line = strtok(NULL, "\n")) {
            cJSON *record = json_parse(line, strlen(line), sets[i].expected, &e);
            const cJSON *media = cJSON_GetArrayItem(json_get(record, "media"), 0);
            for (int f = 0; f < 8 && sets[i].files[f]; f++) {
                char hex[65];
                if (sha_of_file(sets[i].files[f], hex) && strcmp(hex, json_string(media, "sha256")) == 0)
                    n_decoded += check_expected_line(sets[i].expected, sets[i].files[f], media);
            }
            cJSON_Delete(record);
        }
        text_free(&lines);
    }
    CHECK(n_decoded >= 12);
}

/* A segment found by seeking is the same sound as that stretch of the whole; lossy decoders need some samples to
 * settle behind a seek. */
static void segments_equal_the_whole(void)
{
    static const struct { const char *file; double tolerance; } cases[] = {
        {FIXTURES "librispeech/official/LibriSpeech/test-clean/90001/900010/90001-900010-0000.flac", 0},
        {FIXTURES "mmau/official/test-mini-audios/1d5dbbd2-4b6a-41aa-a8e9-b6116e64679e.wav", 0},
        {FIXTURES "gigaspeech/official/audio/podcast/P0009/POD1000000901.opus", 2e-3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sound whole, part;
        struct err e;
        if (decode_file(cases[i].file, 0, 0, &whole, &e))
            SKIP("no ../shared");
        CHECK_MSG(decode_file(cases[i].file, 0.5, 1.75, &part, &e) == 0, "%s", e.msg);
        CHECK_MSG(part.n == 20000, "%s: %lld samples", cases[i].file, (long long)part.n);
        CHECK_NEAR(largest_difference(part.samples, whole.samples + 8000, 20000), 0, cases[i].tolerance);
        free(part.samples);
        free(whole.samples);
    }
}

/* MP3 at 24 kHz: the resampler sees other neighbours at the ends of a segment, so only its middle is compared. */
static void segment_of_an_mp3(void)
{
    const char *file = FIXTURES "earnings22/official/earnings22/media/4499001.mp3";
    struct sound whole, part;
    struct err e;
    if (decode_file(file, 0, 0, &whole, &e))
        SKIP("no ../shared");
    CHECK_MSG(decode_file(file, 2.0, 4.0, &part, &e) == 0, "%s", e.msg);
    CHECK(part.n == 32000);
    CHECK_NEAR(largest_difference(part.samples + 2000, whole.samples + 34000, 28000), 0, 1e-3);
    free(part.samples);
    free(whole.samples);
}

/* ---- made here ------------------------------------------------------------------------------------------------- */

struct wav { int tag, channels, rate, bits; };

static void put_le(struct text *t, uint32_t v, int n)
{
    for (int i = 0; i < n; i++)
        text_putc(t, (int)(v >> 8 * i & 0xff));
}

static struct text make_wav(const struct wav *w, const void *data, uint32_t n)
{
    struct text t = {0};
    text_puts(&t, "RIFF");
    put_le(&t, 36 + n, 4);
    text_puts(&t, "WAVEfmt ");
    put_le(&t, 16, 4);
    put_le(&t, (uint32_t)w->tag, 2);
    put_le(&t, (uint32_t)w->channels, 2);
    put_le(&t, (uint32_t)w->rate, 4);
    put_le(&t, (uint32_t)(w->rate * w->channels * w->bits / 8), 4);
    put_le(&t, (uint32_t)(w->channels * w->bits / 8), 2);
    put_le(&t, (uint32_t)w->bits, 2);
    text_puts(&t, "data");
    put_le(&t, n, 4);
    text_put(&t, data, n);
    return t;
}

static void channels_are_averaged(void)
{
    const float frames[3][3] = {{0.5f, 0.25f, -0.75f}, {1, 1, 1}, {0, 0.3f, 0}};
    struct text wav = make_wav(&(struct wav){3, 3, 16000, 32}, frames, sizeof frames);
    struct sound s;
    struct err e;
    CHECK_MSG(decode_bytes(wav.data, wav.len, 0, 0, &s, &e) == 0, "%s", e.msg);
    CHECK(s.n == 3);
    CHECK_NEAR(s.samples[0], 0, 0);
    CHECK_NEAR(s.samples[1], 1, 0);
    CHECK_NEAR(s.samples[2], 0.3f / 3, 0);
    CHECK_NEAR(s.seconds, 3 / 16000.0, 1e-12);
    free(s.samples);
    text_free(&wav);
}

/* 10 kHz lies above half of 16 kHz and must vanish; 1 kHz must come through with its phase. */
static void resampling_does_not_alias(void)
{
    static float tone[48000];
    for (int i = 0; i < 48000; i++)
        tone[i] = (float)(0.4 * sin(2 * pi * 1000 * i / 48000.0) + 0.4 * sin(2 * pi * 10000 * i / 48000.0));
    struct text wav = make_wav(&(struct wav){3, 1, 48000, 32}, tone, sizeof tone);
    struct sound s;
    struct err e;
    CHECK_MSG(decode_bytes(wav.data, wav.len, 0, 0, &s, &e) == 0, "%s", e.msg);
    CHECK(s.n == 16000);
    double worst = 0;
    for (int i = 500; i < 15500; i++)
        worst = fmax(worst, fabs(s.samples[i] - 0.4 * sin(2 * pi * 1000 * i / 16000.0)));
    CHECK_NEAR(worst, 0, 1e-5);
    free(s.samples);
    text_free(&wav);
}

/* Refused with a message in which `expected` occurs. */
static void check_refused(const struct text *bytes, double begin_s, double end_s, const char *expected)
{
    struct sound s;
    struct err e;
    int status = decode_bytes(bytes->data, bytes->len, begin_s, end_s, &s, &e);
    CHECK_MSG(status == -1 && e.code == EXIT_BAD_INPUT, "not refused: %s", expected);
    CHECK_MSG(strstr(e.msg, expected) != NULL, "\"%s\" is not in \"%s\"", expected, e.msg);
}

static void impossible_wavs(void)
{
    static const int16_t pcm[1600];
    static const struct { struct wav format; const char *expected; } cases[] = {
        {{1, 0, 16000, 16}, "0 channels"},       {{1, 65, 16000, 16}, "65 channels"},
        {{1, 1, 0, 16}, "0 samples a second"},   {{1, 1, 999, 16}, "999 samples a second"},
        {{1, 1, 192001, 16}, "192001 samples"},  {{0x11, 1, 16000, 4}, "encoding 0x0011"},
        {{0x55, 1, 16000, 16}, "encoding 0x0055"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text wav = make_wav(&cases[i].format, pcm, sizeof pcm);
        check_refused(&wav, 0, 0, cases[i].expected);
        text_free(&wav);
    }
    struct text wav = make_wav(&(struct wav){1, 1, 16000, 16}, pcm, 0);
    check_refused(&wav, 0, 0, "no samples");
    text_free(&wav);
    float values[4] = {0, 0.5f, NAN, 0};
    wav = make_wav(&(struct wav){3, 1, 16000, 32}, values, sizeof values);
    check_refused(&wav, 0, 0, "sample 2 is not finite");
    text_free(&wav);
    values[2] = -INFINITY;
    wav = make_wav(&(struct wav){3, 2, 44100, 32}, values, sizeof values);
    check_refused(&wav, 0, 0, "sample 1 is not finite");
    text_free(&wav);
    struct text other = {0};
    text_puts(&other, "FORM\0\0\0\0AIFF");
    check_refused(&other, 0, 0, "neither WAV nor FLAC");
    text_free(&other);
    check_refused(&(struct text){"", 0, 0}, 0, 0, "empty");
}

static void impossible_segments(void)
{
    static const int16_t pcm[16000];
    struct text wav = make_wav(&(struct wav){1, 1, 16000, 16}, pcm, sizeof pcm);
    check_refused(&wav, -0.5, 0.5, "0 <= begin < end");
    check_refused(&wav, 0.5, 0.25, "0 <= begin < end");
    check_refused(&wav, 0.5, 0.5, "0 <= begin < end");
    check_refused(&wav, 0.5, 0, "0 <= begin < end");
    check_refused(&wav, NAN, 1, "0 <= begin < end");
    check_refused(&wav, 0, NAN, "0 <= begin < end");
    check_refused(&wav, 0, INFINITY, "0 <= begin < end");
    check_refused(&wav, 0.2, 9, "has only 1.000 s");
    check_refused(&wav, 1.0, 1.05, "has only 1.000 s");
    check_refused(&wav, 0.5, 0.50001, "no samples");
    struct sound s;
    struct err e;
    CHECK(decode_bytes(wav.data, wav.len, 0.75, 1.08, &s, &e) == 0);        /* a rounded end is let through */
    CHECK(s.n == 4000);
    free(s.samples);
    text_free(&wav);
}

static void more_than_an_hour(void)
{
    size_t n = (size_t)8000 * 3601;
    uint8_t *ulaw = NEW(uint8_t, n);
    memset(ulaw, 0xff, n);
    struct text wav = make_wav(&(struct wav){7, 1, 8000, 8}, ulaw, (uint32_t)n);
    check_refused(&wav, 0, 0, "at most 3600 s");
    check_refused(&wav, 0.2, 3600.8, "at most 3600 s");
    struct sound s;
    struct err e;
    CHECK_MSG(decode_bytes(wav.data, wav.len, 3599.5, 3600.5, &s, &e) == 0, "%s", e.msg);
    CHECK(s.n == 16000);
    free(s.samples);
    text_free(&wav);
    free(ulaw);
}

static void hostile_files(void)
{
    static const struct { const char *file, *expected; double begin_s, end_s; } cases[] = {
        {"mmau_wav_no_samples/test-mini-audios/x.wav", "no samples", 0, 0},
        {"mmau_wav_nan/test-mini-audios/x.wav", "not finite", 0, 0},
        {"mmau_wav_inf/test-mini-audios/x.wav", "not finite", 0, 0},
        {"mmau_wav_truncated/test-mini-audios/x.wav", "cut short", 0, 0},
        {"mmau_wav_huge_header/test-mini-audios/x.wav", "cut short", 0, 0},
        {"mmau_wav_rate_zero/test-mini-audios/x.wav", "0 samples a second", 0, 0},
        {"mmau_wav_channels_zero/test-mini-audios/x.wav", "0 channels", 0, 0},
        {"mmau_wav_garbage/test-mini-audios/x.wav", "", 0, 0},
        {"mmau_wav_stream_header/test-mini-audios/x.wav", NULL, 0, 0},
        {"libri_flac_truncated/LibriSpeech/test-clean/9/8/9-8-0000.flac", "", 0, 0},
        {"libri_flac_bad_md5/LibriSpeech/test-clean/9/8/9-8-0000.flac", NULL, 0, 0},
        {"giga_segment_past_end/audio/podcast/P1/A.opus", "the sound has only", 0.2, 9},
        {"giga_segment_reversed/audio/podcast/P1/A.opus", "begin < end", 0.8, 0.2},
        {"giga_segment_negative/audio/podcast/P1/A.opus", "begin < end", -1, 0.5},
        {"giga_opus_truncated/audio/podcast/P1/A.opus", "", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        struct mapped file;
        struct sound s;
        struct err e;
        snprintf(path, sizeof path, HOSTILE "%s", cases[i].file);
        if (map_open(&file, path, &e))
            SKIP("no ../shared");
        int status = decode_bytes(file.data, file.size, cases[i].begin_s, cases[i].end_s, &s, &e);
        if (!cases[i].expected) {
            CHECK_MSG(status == 0 && s.n > 1000, "%s: %s", path, e.msg);
            free(s.samples);
        } else {
            CHECK_MSG(status == -1 && e.code == EXIT_BAD_INPUT && strstr(e.msg, cases[i].expected), "%s: \"%s\"", path,
                      e.msg);
        }
        map_close(&file);
    }
}

/* A file cut anywhere is refused. */
static void cut_anywhere(void)
{
    static const char *const files[] = {
        FIXTURES "mmau/official/test-mini-audios/1d5dbbd2-4b6a-41aa-a8e9-b6116e64679e.wav",
        FIXTURES "librispeech/official/LibriSpeech/test-clean/90002/900021/90002-900021-0001.flac",
        FIXTURES "gigaspeech/official/audio/podcast/P0009/POD1000000901.opus",
        FIXTURES "earnings22/official/earnings22/media/4499002.mp3",
    };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct mapped file;
        struct err e = {0};
        if (map_open(&file, files[f], &e))
            SKIP("no ../shared");
        int n_passed = 0, n = 0;
        for (size_t cut = 0; cut < file.size; cut += cut < 300 ? 1 : cut < 2000 ? 37 : 997, n++) {
            uint8_t *exact = mem_alloc(cut, 1);         /* its own block, so that ASan sees a read behind its end */
            memcpy(exact, file.data, cut);
            struct sound s;
            if (decode_bytes(exact, cut, 0, 0, &s, &e) == 0) {
                n_passed++;
                free(s.samples);
            } else
                CHECK_MSG(e.code == EXIT_BAD_INPUT && e.msg[0], "%s cut at %zu", files[f], cut);
            free(exact);
        }
        CHECK_MSG(n_passed == 0, "%s: %d of %d cuts went unseen", files[f], n_passed, n);
        map_close(&file);
    }
}

/* An MP3 without its Info frame does not say how long it is: half a frame at its end is seen all the same. */
static void mp3_without_a_length(void)
{
    struct mapped file;
    struct sound s;
    struct err e = {0};
    if (map_open(&file, FIXTURES "earnings22/official/earnings22/media/4499001.mp3", &e))
        SKIP("no ../shared");
    size_t first = 0;
    CHECK(memcmp(file.data + first, "\xff\xf3", 2) == 0);
    for (first = 1; memcmp(file.data + first, "\xff\xf3", 2); first++)
        ;
    struct text bytes = {0};
    text_put(&bytes, file.data + first, file.size - first);
    CHECK_MSG(decode_bytes(bytes.data, bytes.len, 0, 0, &s, &e) == 0, "%s", e.msg);
    CHECK_NEAR(s.seconds, 12.772, 0.12);
    free(s.samples);
    bytes.len -= 7;
    check_refused(&bytes, 0, 0, "cut short: frame at byte");
    text_puts(&bytes, "1234567");
    size_t middle = bytes.len / 2;
    memset(bytes.data + middle, 0x55, 1000);
    check_refused(&bytes, 0, 0, "a layer III frame was expected");
    text_free(&bytes);
    map_close(&file);
}

/* libogg drops a page with a wrong checksum and goes on: the gap must not pass. */
static void damaged_ogg_page(void)
{
    struct mapped file;
    struct err e = {0};
    if (map_open(&file, FIXTURES "gigaspeech/official/audio/podcast/P0009/POD1000000901.opus", &e))
        SKIP("no ../shared");
    struct text bytes = {0};
    text_put(&bytes, file.data, file.size);
    bytes.data[file.size / 2] ^= 1;
    check_refused(&bytes, 0, 0, "checksum is wrong");
    check_refused(&bytes, 0.5, 1, "checksum is wrong");
    text_free(&bytes);
    map_close(&file);
}

/* Vorbis: a segment is the same samples as that stretch of the whole. Float results of the decoder are exact. */
static void segment_of_a_vorbis(void)
{
    struct text bytes = {0};
    struct err e = {0};
    struct sound whole, part;
    CHECK_MSG(file_read("tests/fuzz/sound/stereo.ogg", 1 << 20, &bytes, &e) == 0, "%s", e.msg);
    CHECK_MSG(decode_bytes(bytes.data, bytes.len, 0, 0, &whole, &e) == 0, "%s", e.msg);
    CHECK_NEAR(whole.seconds, 6000 / 22050.0, 1e-9);
    CHECK_MSG(decode_bytes(bytes.data, bytes.len, 0.1, 0.2, &part, &e) == 0, "%s", e.msg);
    CHECK(part.n == 1600);
    CHECK_NEAR(largest_difference(part.samples + 200, whole.samples + 1800, 1200), 0, 1e-3);
    free(whole.samples);
    free(part.samples);
    text_free(&bytes);
}

/* ---- stretches ------------------------------------------------------------------------------------------------- */

static void stretches(void)
{
    enum { LONGEST = 480000, N = 500000 };
    float *x = NEW(float, N);
    CHECK(sound_stretch(x, 1, LONGEST, 16000) == 1);
    CHECK(sound_stretch(x, LONGEST, LONGEST, 16000) == LONGEST);
    CHECK(sound_stretch(x, LONGEST + 1, LONGEST, 16000) == LONGEST - 160);      /* all silent: the last place */
    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? 0.5f : -0.5f;
    for (int i = 460000; i < 460800; i++)       /* a pause of 50 ms; 448000 is where the search begins */
        x[i] = 0.001f;
    for (int i = 440000; i < 441600; i++)       /* quieter still, but too early */
        x[i] = 0;
    int64_t cut = sound_stretch(x, N, LONGEST, 16000);
    CHECK_MSG(cut >= 460160 && cut <= 460640, "cut at %lld", (long long)cut);
    CHECK(sound_stretch(x, 100, 10, 16000) == 10);                              /* too short to search */
    free(x);
}

int main(void)
{
    RUN(samples_as_the_reference_has_them);
    RUN(every_fixture_format);
    RUN(segments_equal_the_whole);
    RUN(segment_of_an_mp3);
    RUN(channels_are_averaged);
    RUN(resampling_does_not_alias);
    RUN(impossible_wavs);
    RUN(impossible_segments);
    RUN(more_than_an_hour);
    RUN(hostile_files);
    RUN(cut_anywhere);
    RUN(mp3_without_a_length);
    RUN(damaged_ogg_page);
    RUN(segment_of_a_vorbis);
    RUN(stretches);
    return test_report();
}
