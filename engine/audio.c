/* audio.c - from sound files to soft tokens: decode, cut into stretches, log-mel frames, tower. */
#include "engine/towers.h"

#include "engine/conformer.h"
#include "engine/mel.h"
#include "engine/sound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that go through the tower together: some 30 s stretches, enough to make up for reading the weights. */
enum { GROUP_ROWS = 2048 };

struct audio {
    struct mel *mel;
    struct conformer *tower;
};

int audio_open(struct audio **out, const struct weights *w, const cJSON *config, const cJSON *processor, struct err *e)
{
    struct audio *a = NEW(struct audio, 1);
    *out = NULL;
    if (mel_open(&a->mel, processor, e) || conformer_open(&a->tower, w, config, mel_bands(a->mel), e)) {
        audio_close(a);
        return -1;
    }
    *out = a;
    return 0;
}

void audio_close(struct audio *a)
{
    if (!a)
        return;
    mel_close(a->mel);
    conformer_close(a->tower);
    free(a);
}

/* ---- from bytes to frames -------------------------------------------------------------------------------------- */

struct frames_job {
    const struct audio *a;
    const struct media *media;
    struct media_tokens *out;
    struct err *errs;
    float **mels;               /* [n]: the frames of all stretches, one stretch behind the other */
    struct stretch **stretches; /* [n][n_parts] */
};

/* Cuts one sound and computes its frames. A last stretch that is too short for a frame (10 ms) is left out. */
static void make_frames(const struct frames_job *j, int i, const struct sound *s)
{
    const struct mel *m = j->a->mel;
    struct media_tokens *out = &j->out[i];
    int n_parts = 0, rows = 0;
    size_t n_frames = 0, bands = (size_t)mel_bands(m);
    int64_t most = s->n / (mel_longest(m) - mel_longest(m) / 15) + 1;
    struct stretch *stretches = NEW(struct stretch, most);
    int *tokens = NEW(int, most);
    float *mel = NULL;
    struct sha256 sha;
    sha256_init(&sha);
    for (int64_t at = 0, n; at < s->n; at += n) {
        n = sound_stretch(s->samples + at, s->n - at, mel_longest(m), mel_rate(m));
        int64_t more = mel_frames(m, n);
        if (!more)
            continue;
        mel = mem_grow(mel, (n_frames + (size_t)more) * bands, sizeof *mel);
        mel_compute(m, s->samples + at, n, mel + n_frames * bands);
        sha256_update(&sha, &more, sizeof more);
        sha256_update(&sha, mel + n_frames * bands, (size_t)more * bands * sizeof *mel);
        stretches[n_parts].n_frames = (int)more;
        rows += tokens[n_parts++] = (int)conformer_tokens(more);
        n_frames += (size_t)more;
    }
    size_t at = 0;
    for (int p = 0; p < n_parts; at += (size_t)stretches[p++].n_frames * bands)
        stretches[p].mel = mel + at;
    *out = (struct media_tokens){.n_parts = n_parts, .part_tokens = tokens, .n_tokens = rows, .seconds = s->seconds};
    sha256_hex(&sha, out->input_sha);
    j->mels[i] = mel;
    j->stretches[i] = stretches;
}

static void frames_task(void *arg, int i)
{
    const struct frames_job *j = arg;
    struct sound s;
    if (sound_decode(&j->media[i], mel_rate(j->a->mel), &s, &j->errs[i]))
        return;
    const double most = j->media[i].max_s * mel_rate(j->a->mel);
    if (most > 0 && (double)s.n > most)
        s.n = (int64_t)most;
    if (mel_frames(j->a->mel, s.n) < 1)
        err_input(&j->errs[i], "%s: %lld samples at %d Hz: more than half a frame (10 ms) was expected",
                  j->media[i].name, (long long)s.n, mel_rate(j->a->mel));
    else
        make_frames(j, i, &s);
    free(s.samples);
}

/* ---- from frames to soft tokens -------------------------------------------------------------------------------- */

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Sends the stretches of all good sounds through the tower, GROUP_ROWS rows at a time; a sound's soft tokens may come
 * from two groups. */
static void run_groups(const struct frames_job *j, const struct compute *c, int n)
{
    const struct conformer *tower = j->a->tower;
    size_t width = (size_t)conformer_soft_width(tower), total = 0, done = 0;
    int n_stretches = 0;
    for (int i = 0; i < n; i++) {
        total += j->errs[i].code ? 0 : (size_t)j->out[i].n_tokens;
        n_stretches += j->errs[i].code ? 0 : j->out[i].n_parts;
    }
    struct stretch *all = NEW(struct stretch, n_stretches);
    for (int i = 0, at = 0; i < n; i++)
        for (int p = 0; !j->errs[i].code && p < j->out[i].n_parts; p++)
            all[at++] = j->stretches[i][p];
    float *soft = mem_grow(NULL, total * width, sizeof *soft);
    for (int from = 0, to; from < n_stretches; from = to) {
        size_t rows = 0;
        for (to = from; to < n_stretches && (to == from || rows < GROUP_ROWS); to++)
            rows += (size_t)conformer_tokens(all[to].n_frames);
        conformer_run(tower, c, all + from, to - from, soft + done * width);
        done += rows;
    }
    done = 0;
    for (int i = 0; i < n; i++) {
        if (j->errs[i].code)
            continue;
        size_t floats = (size_t)j->out[i].n_tokens * width;
        j->out[i].soft = mem_grow(NULL, floats, sizeof *soft);
        memcpy(j->out[i].soft, soft + done, floats * sizeof *soft);
        done += floats;
    }
    free(soft);
    free(all);
}

int audio_encode(const struct audio *a, const struct compute *c, const struct media *media, int n,
                 struct media_tokens *out, struct err *errs)
{
    struct frames_job job = {a, media, out, errs, NEW(float *, n), NEW(struct stretch *, n)};
    int n_failed = 0;
    for (int i = 0; i < n; i++) {
        out[i] = (struct media_tokens){0};
        errs[i] = (struct err){0};
    }
    pool_run(c->pool, n, frames_task, &job);
    run_groups(&job, c, n);
    for (int i = 0; i < n; i++) {
        size_t floats = (size_t)out[i].n_tokens * (size_t)conformer_soft_width(a->tower);
        if (!errs[i].code && !all_finite(out[i].soft, floats)) {
            err_input(&errs[i], "%s: the audio tower's result is not finite: its weights are damaged", media[i].name);
            free(out[i].soft);
            free(out[i].part_tokens);
            out[i] = (struct media_tokens){0};
        }
        n_failed += errs[i].code != 0;
        free(job.mels[i]);
        free(job.stretches[i]);
    }
    free(job.mels);
    free(job.stretches);
    return n_failed;
}
