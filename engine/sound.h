/* sound.h - encoded sound files to mono samples (inside engine/ only).
 *
 *     struct sound s;
 *     if (sound_decode(&media, 16000, &s, &e)) ...
 *     ... s.samples[s.n] ...
 *     free(s.samples);
 *
 * May be called from several threads at once.
 */
#ifndef HANDOFF_SOUND_H
#define HANDOFF_SOUND_H

#include "engine/engine.h"

struct sound {
    float *samples;             /* [n], mono, nominally in [-1, 1]; from malloc */
    int64_t n;                  /* at least 1 */
    double seconds;             /* of the part that was asked for, before resampling */
};

/* Decodes a WAV, FLAC, Ogg (Opus, Vorbis) or MP3 file in memory; its first bytes say which it is, never its name.
 * Channels are averaged; if the file has another rate, libsoxr's HQ recipe brings it to `rate` Hz, and the length is
 * ceil(n * rate / file rate) as librosa.load() has it.
 *
 * Given media->end_s, only [begin_s, end_s) is decoded, by seeking. A segment may end up to 0.1 s behind the end of the
 * file (time stamps are rounded, and MP3 lengths are vague); what is missing is left out.
 *
 * Refused: what is damaged or shorter than its own headers say, samples that are NaN or infinite, no samples at all,
 * more than an hour, an impossible segment. */
int sound_decode(const struct media *media, int rate, struct sound *out, struct err *e);

/* Where to cut sound that is longer than one stretch: how many of the n samples the next stretch takes, at most
 * `longest`. A cut falls into the middle of the quietest 20 ms within the last fifteenth (2 s of 30 s) of the longest
 * possible stretch, so that it rarely goes through a word; of equally quiet places the last one is taken. */
int64_t sound_stretch(const float *samples, int64_t n, int64_t longest, int rate);

#endif
