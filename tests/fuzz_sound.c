/* fuzz_sound.c - any bytes as a sound file: decoding, whole and as a segment, cutting and log-mel frames. Ogg page
 * checksums are made right first, otherwise nothing mutated would get behind them. */
#include "engine/mel.h"
#include "engine/sound.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

static uint32_t page_checksum(const uint8_t *page, size_t n)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint32_t)page[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7u : 0);
    }
    return crc;
}

static void mend_ogg(uint8_t *d, size_t n)
{
    for (size_t at = 0, size; at + 27 <= n && memcmp(d + at, "OggS", 4) == 0; at += size) {
        size = 27 + (size_t)d[at + 26];
        if (at + size > n)
            return;
        for (int i = 0; i < d[at + 26]; i++)
            size += d[at + 27 + (size_t)i];
        if (at + size > n)
            return;
        memset(d + at + 22, 0, 4);
        uint32_t crc = page_checksum(d + at, size);
        for (int i = 0; i < 4; i++)
            d[at + 22 + (size_t)i] = (uint8_t)(crc >> 8 * i);
    }
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    static struct mel *mel;
    struct err e;
    if (!mel)
        mel_open(&mel, NULL, &e);
    uint8_t *copy = mem_alloc(n, 1);
    memcpy(copy, data, n);
    mend_ogg(copy, n);
    for (int pass = 0; pass < 2; pass++) {
        struct media m = {.kind = MEDIA_AUDIO, .bytes = copy, .n_bytes = n, .name = "input",
                          .begin_s = pass ? 0.05 : 0, .end_s = pass ? 0.25 : 0};
        struct sound s;
        if (sound_decode(&m, mel_rate(mel), &s, &e))
            continue;
        int64_t stretch = sound_stretch(s.samples, s.n, mel_longest(mel), mel_rate(mel));
        int64_t frames = mel_frames(mel, stretch);
        float *out = mem_alloc((size_t)frames * (size_t)mel_bands(mel), sizeof *out);
        mel_compute(mel, s.samples, stretch, out);
        free(out);
        free(s.samples);
    }
    free(copy);
    return 0;
}
