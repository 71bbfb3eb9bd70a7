/* sound.c - sound files through libsndfile and libsoxr. Neither library reports all damage, so the containers' own
 * lengths are checked here first. */
#include "engine/sound.h"

#include <math.h>
#include <sndfile.h>
#include <soxr.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_S = 3600, MIN_RATE = 1000, MAX_RATE = 192000, MAX_CHANNELS = 64, BLOCK = 1 << 14 };
static const double segment_slack_s = 0.1;

/* ---- what the container itself says ---------------------------------------------------------------------------- */

static uint32_t le16(const uint8_t *p) { return (uint32_t)(p[0] | p[1] << 8); }
static uint32_t le32(const uint8_t *p) { return le16(p) | le16(p + 2) << 16; }

static bool tag_is(const uint8_t *p, const char *tag)
{
    return memcmp(p, tag, 4) == 0;
}

/* Only uncompressed samples: PCM, float, A-law, mu-law. `size` bytes of the fmt chunk are there. */
static int check_wav_format(const uint8_t *fmt, uint32_t size, const char *name, struct err *e)
{
    if (size < 16)
        return err_input(e, "%s: fmt chunk of %u bytes, at least 16 were expected", name, size);
    uint32_t tag = le16(fmt), channels = le16(fmt + 2), rate = le32(fmt + 4);
    if (tag == 0xfffe && size >= 26)
        tag = le16(fmt + 24);                       /* WAVE_FORMAT_EXTENSIBLE: the sub-format's first two bytes */
    if (tag != 1 && tag != 3 && tag != 6 && tag != 7)
        return err_input(e, "%s: WAV encoding 0x%04x is not supported (PCM, float, A-law, mu-law are)", name, tag);
    if (channels == 0 || channels > MAX_CHANNELS)
        return err_input(e, "%s: fmt chunk says %u channels, 1 to %d were expected", name, channels, MAX_CHANNELS);
    if (rate < MIN_RATE || rate > MAX_RATE)
        return err_input(e, "%s: fmt chunk says %u samples a second, %d to %d were expected", name, rate, MIN_RATE,
                         MAX_RATE);
    return 0;
}

/* Lengths that programs write which cannot go back to fill in the true one (ffmpeg, several recorders, sox). */
static bool is_streaming_length(uint32_t n)
{
    return n == 0xffffffffu || n == 0x7fffffffu || n == 0x7ffff000u;
}

static int check_wav(const uint8_t *d, size_t n, const char *name, struct err *e)
{
    bool has_format = false;
    for (size_t at = 12; n - at >= 8;) {
        uint32_t size = le32(d + at + 4);
        size_t there = n - at - 8;
        if (tag_is(d + at, "data")) {
            if (!has_format)
                return err_input(e, "%s: no fmt chunk before the data chunk", name);
            if (size == 0 || there == 0)
                return err_input(e, "%s: no samples (data chunk of %u bytes)", name, size);
            if (size > there && !is_streaming_length(size))
                return err_input(e, "%s: cut short: data chunk of %u bytes, the file has %zu of them", name, size,
                                 there);
            return 0;
        }
        if (size > there)
            return err_input(e, "%s: cut short: chunk at byte %zu has %u bytes, the file has %zu of them", name, at,
                             size, there);
        if (tag_is(d + at, "fmt ")) {
            if (check_wav_format(d + at + 8, size, name, e))
                return -1;
            has_format = true;
        }
        at += 8 + (size_t)size;
        at += (size & 1) && at < n;
    }
    return err_input(e, "%s: cut short or damaged: no data chunk", name);
}

/* CRC-32 of Ogg: polynomial 0x04c11db7, not reflected, start 0, the field itself counted as zero (RFC 3533). */
static uint32_t ogg_crc(const uint8_t *d, size_t n)
{
    static const uint32_t nibble[16] = {
        0x00000000, 0x04c11db7, 0x09823b6e, 0x0d4326d9, 0x130476dc, 0x17c56b6b, 0x1a864db2, 0x1e475005,
        0x2608edb8, 0x22c9f00f, 0x2f8ad6d6, 0x2b4bcb61, 0x350c9b64, 0x31cd86d3, 0x3c8ea00a, 0x384fbdbd};
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = i >= 22 && i < 26 ? 0 : d[i];
        crc = crc << 4 ^ nibble[(crc >> 28) ^ (byte >> 4)];
        crc = crc << 4 ^ nibble[(crc >> 28) ^ (byte & 15)];
    }
    return crc;
}

/* libogg drops damaged pages and takes any end for the end. The last page of a stream says that it is the last. */
static int check_ogg(const uint8_t *d, size_t n, const char *name, struct err *e)
{
    for (size_t at = 0; at < n;) {
        const uint8_t *page = d + at;
        size_t there = n - at, size = 27;
        if (there < 4 || !tag_is(page, "OggS"))
            return err_input(e, "%s: byte %zu: an Ogg page was expected", name, at);
        if (there < 27 || there < 27 + (size_t)page[26])
            return err_input(e, "%s: cut short: byte %zu: half an Ogg page", name, at);
        for (int i = 0; i < page[26]; i++)
            size += page[27 + i];
        size += page[26];
        if (size > there)
            return err_input(e, "%s: cut short: Ogg page at byte %zu has %zu bytes, the file has %zu of them", name, at,
                             size, there);
        if (ogg_crc(page, size) != le32(page + 22))
            return err_input(e, "%s: Ogg page at byte %zu: the checksum is wrong", name, at);
        if (page[5] & 4)
            return 0;
        at += size;
    }
    return err_input(e, "%s: cut short: the Ogg stream has no last page", name);
}

/* One MPEG layer III frame header. Returns the frame's length in bytes, 0 if it is none. */
static size_t mp3_frame(const uint8_t *h, size_t n)
{
    static const uint16_t kbit[2][15] = {{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
                                         {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}};
    static const uint16_t hz[3] = {44100, 48000, 32000};
    if (n < 4 || h[0] != 0xff || (h[1] & 0xe6) != 0xe2)
        return 0;
    unsigned version = h[1] >> 3 & 3, rate = h[2] >> 2 & 3, bits = h[2] >> 4;       /* 3: MPEG 1, 2: 2, 0: 2.5 */
    if (version == 1 || rate == 3 || bits == 0 || bits == 15)
        return 0;
    unsigned is_first = version == 3, divisor = version == 3 ? 1 : version == 2 ? 2 : 4;
    return (is_first ? 144u : 72u) * kbit[is_first][bits] * 1000u / (hz[rate] / divisor) + (h[2] >> 1 & 1);
}

/* How many frames the file has by the Xing or Info tag in its first frame; 0 if there is no such tag. The tag does not
 * count the frame that it takes itself. */
static size_t mp3_promised_frames(const uint8_t *h, size_t n)
{
    bool is_first = (h[1] >> 3 & 3) == 3, is_mono = h[3] >> 6 == 3;
    size_t at = 4 + (is_first ? is_mono ? 17 : 32 : is_mono ? 9 : 17);
    if (n < at + 12 || !(tag_is(h + at, "Xing") || tag_is(h + at, "Info")) || !(h[at + 7] & 1))
        return 0;
    h += at + 8;
    return ((size_t)h[0] << 24 | (size_t)h[1] << 16 | (size_t)h[2] << 8 | h[3]) + 1;
}

/* What may follow the frames: a tag, or nothing but zeros. */
static bool is_mp3_trailer(const uint8_t *d, size_t n)
{
    if ((n == 128 && memcmp(d, "TAG", 3) == 0) || (n >= 8 && memcmp(d, "APETAGEX", 8) == 0) ||
        (n >= 11 && memcmp(d, "LYRICSBEGIN", 11) == 0))
        return true;
    while (n && d[n - 1] == 0)
        n--;
    return n == 0;
}

/* libmpg123 searches on behind any damage and takes any end for the end (and writes to stderr). */
static int check_mp3(const uint8_t *d, size_t n, const char *name, struct err *e)
{
    size_t at = 0, n_frames = 0;
    if (n >= 10 && memcmp(d, "ID3", 3) == 0)
        at = 10 + ((size_t)(d[6] & 127) << 21 | (size_t)(d[7] & 127) << 14 | (size_t)(d[8] & 127) << 7 | (d[9] & 127)) +
             (d[5] & 0x10 ? 10 : 0);
    if (at >= n)
        return err_input(e, "%s: cut short: nothing behind the ID3 tag", name);
    while (at < n && d[at] == 0)
        at++;
    size_t promised = 0;
    for (; at < n && !(n_frames && is_mp3_trailer(d + at, n - at)); n_frames++) {
        size_t size = mp3_frame(d + at, n - at);
        if (!size)
            return err_input(e, "%s: damaged: byte %zu: a layer III frame was expected", name, at);
        if (size > n - at)
            return err_input(e, "%s: cut short: frame at byte %zu has %zu bytes, the file has %zu of them", name, at,
                             size, n - at);
        if (n_frames == 0)
            promised = mp3_promised_frames(d + at, size);
        at += size;
    }
    if (n_frames < promised)
        return err_input(e, "%s: cut short: %zu frames were promised, %zu are there", name, promised, n_frames);
    return n_frames ? 0 : err_input(e, "%s: no samples", name);
}

/* Major format as libsndfile names it; 0 and *e if the file is none that is supported or is damaged. */
static int check_container(const uint8_t *d, size_t n, const char *name, struct err *e)
{
    if (n == 0) {
        err_input(e, "%s: the file is empty", name);
        return 0;
    }
    if (n >= 12 && tag_is(d, "RIFF") && tag_is(d + 8, "WAVE"))
        return check_wav(d, n, name, e) ? 0 : SF_FORMAT_WAV;
    if (n >= 4 && tag_is(d, "OggS"))
        return check_ogg(d, n, name, e) ? 0 : SF_FORMAT_OGG;
    if (n >= 4 && tag_is(d, "fLaC"))
        return SF_FORMAT_FLAC;
    if (n >= 4 && (memcmp(d, "ID3", 3) == 0 || (d[0] == 0xff && (d[1] & 0xe0) == 0xe0)))
        return check_mp3(d, n, name, e) ? 0 : SF_FORMAT_MPEG;
    err_input(e, "%s: neither WAV nor FLAC nor Ogg nor MP3 (it begins with %02x %02x %02x %02x)", name, d[0],
              n > 1 ? d[1] : 0, n > 2 ? d[2] : 0, n > 3 ? d[3] : 0);
    return 0;
}

/* ---- libsndfile on bytes in memory ----------------------------------------------------------------------------- */

struct bytes { const uint8_t *data; sf_count_t size, at; };

static sf_count_t bytes_size(void *user)
{
    return ((struct bytes *)user)->size;
}

static sf_count_t bytes_tell(void *user)
{
    return ((struct bytes *)user)->at;
}

static sf_count_t bytes_seek(sf_count_t offset, int whence, void *user)
{
    struct bytes *b = user;
    sf_count_t base = whence == SEEK_CUR ? b->at : whence == SEEK_END ? b->size : 0;
    if (offset < -base || offset > b->size - base)
        return -1;
    return b->at = base + offset;
}

static sf_count_t bytes_read(void *out, sf_count_t n, void *user)
{
    struct bytes *b = user;
    if (n > b->size - b->at)
        n = b->size - b->at;
    if (n <= 0)
        return 0;
    memcpy(out, b->data + b->at, (size_t)n);
    b->at += n;
    return n;
}

static sf_count_t bytes_write(const void *data, sf_count_t n, void *user)
{
    (void)data, (void)n, (void)user;
    return 0;
}

/* The part of the file to decode, in its own frames. */
struct span { sf_count_t first, n; bool is_open_ended; };

static int find_span(const struct media *m, const SF_INFO *info, struct span *out, struct err *e)
{
    bool is_known = info->frames > 0 && info->frames < SF_COUNT_MAX;
    double total_s = is_known ? (double)info->frames / info->samplerate : INFINITY;
    if (m->begin_s == 0 && m->end_s == 0) {
        if (is_known && total_s > LONGEST_S)
            return err_input(e, "%s: %.1f s of sound, at most %d s were expected (name a segment)", m->name, total_s,
                             LONGEST_S);
        *out = (struct span){0, is_known ? info->frames : (sf_count_t)LONGEST_S * info->samplerate, !is_known};
        return 0;
    }
    if (!(m->begin_s >= 0 && m->end_s > m->begin_s && m->end_s < 1e9))
        return err_input(e, "%s: segment from %g s to %g s: 0 <= begin < end was expected", m->name, m->begin_s,
                         m->end_s);
    if (!is_known)
        return err_input(e, "%s: the file does not say how long it is, so no segment of it can be taken", m->name);
    if (m->end_s > total_s + segment_slack_s || m->begin_s >= total_s)
        return err_input(e, "%s: segment from %g s to %g s: the sound has only %.3f s", m->name, m->begin_s, m->end_s,
                         total_s);
    if (m->end_s - m->begin_s > LONGEST_S)
        return err_input(e, "%s: segment of %g s, at most %d s were expected", m->name, m->end_s - m->begin_s,
                         LONGEST_S);
    sf_count_t first = (sf_count_t)llround(m->begin_s * info->samplerate);
    sf_count_t end = (sf_count_t)llround(m->end_s * info->samplerate);
    if (end > info->frames)
        end = info->frames;
    if (end <= first)
        return err_input(e, "%s: segment from %g s to %g s: no samples", m->name, m->begin_s, m->end_s);
    *out = (struct span){first, end - first, false};
    return 0;
}

/* ---- samples on their way -------------------------------------------------------------------------------------- */

struct sink {
    soxr_t resampler;           /* NULL: the rate is right already */
    float *samples;
    size_t n, cap;
};

static void sink_reserve(struct sink *s, size_t more)
{
    if (s->cap - s->n >= more)
        return;
    s->cap = s->n + more + s->cap / 2;
    s->samples = mem_grow(s->samples, s->cap, sizeof *s->samples);
}

/* Takes n mono samples; n = 0 says that there are no more. */
static int sink_put(struct sink *s, const float *mono, size_t n, const char *name, struct err *e)
{
    if (!s->resampler) {
        sink_reserve(s, n);
        if (n)
            memcpy(s->samples + s->n, mono, n * sizeof *mono);
        s->n += n;
        return 0;
    }
    size_t used = 0;
    for (;;) {
        size_t taken = 0, made = 0;
        sink_reserve(s, BLOCK);
        soxr_error_t failed = soxr_process(s->resampler, n ? mono + used : NULL, n - used, &taken,
                                           s->samples + s->n, BLOCK, &made);
        if (failed)
            return err_set(e, EXIT_MACHINE, "%s: resampling failed: %s", name, failed);
        used += taken;
        s->n += made;
        if (made < BLOCK && used >= n)
            return 0;
    }
}

/* Mean of the channels, summed in float32 in channel order as numpy.mean() does. */
static void mix(const float *interleaved, int channels, size_t n, float *mono)
{
    for (size_t i = 0; i < n; i++) {
        float sum = interleaved[i * (size_t)channels];
        for (int c = 1; c < channels; c++)
            sum += interleaved[i * (size_t)channels + (size_t)c];
        mono[i] = sum / (float)channels;
    }
}

/* index of the first sample that is NaN or infinite, n if there is none */
static size_t first_nonfinite(const float *x, size_t n)
{
    size_t i = 0;
    while (i < n && isfinite(x[i]))
        i++;
    return i;
}

/* Goes to a frame. libsndfile's seeking in Vorbis crashes on damaged streams, so there what lies before is decoded. */
static int go_to(SNDFILE *file, const SF_INFO *info, sf_count_t first, const char *name, struct err *e)
{
    static _Thread_local float skipped[BLOCK];
    if (first == 0)
        return 0;
    if ((info->format & SF_FORMAT_SUBMASK) != SF_FORMAT_VORBIS) {
        if (sf_seek(file, first, SEEK_SET) == first)
            return 0;
        return err_input(e, "%s: damaged: seeking to sample %lld failed", name, (long long)first);
    }
    for (sf_count_t at = 0, got, per_block = BLOCK / info->channels; at < first; at += got) {
        got = sf_readf_float(file, skipped, first - at < per_block ? first - at : per_block);
        if (got <= 0)
            return err_input(e, "%s: cut short: only %lld samples could be decoded", name, (long long)at);
    }
    return 0;
}

static int read_span(SNDFILE *file, const SF_INFO *info, const struct span *span, struct sink *sink, sf_count_t *n_read,
                     const char *name, struct err *e)
{
    static _Thread_local float block[BLOCK], mono[BLOCK];
    sf_count_t per_block = BLOCK / info->channels, done = 0;
    while (done < span->n) {
        sf_count_t want = span->n - done < per_block ? span->n - done : per_block;
        sf_count_t got = sf_readf_float(file, block, want);
        if (got <= 0 || got > want)
            break;
        mix(block, info->channels, (size_t)got, mono);
        size_t bad = first_nonfinite(mono, (size_t)got);
        if (bad < (size_t)got)
            return err_input(e, "%s: sample %lld is not finite (NaN or infinity)", name,
                             (long long)(span->first + done + (sf_count_t)bad));
        if (sink_put(sink, mono, (size_t)got, name, e))
            return -1;
        done += got;
    }
    *n_read = done;
    if (done == 0)
        return err_input(e, "%s: no samples could be decoded", name);
    if (sf_error(file))
        return err_input(e, "%s: damaged: decoding ends at sample %lld: %s", name, (long long)(span->first + done),
                         sf_strerror(file));
    if (done < span->n && !span->is_open_ended)
        return err_input(e, "%s: cut short: %lld samples were expected, %lld could be decoded", name,
                         (long long)span->n, (long long)done);
    float more[MAX_CHANNELS];
    if (span->is_open_ended && done == span->n && sf_readf_float(file, more, 1) == 1)
        return err_input(e, "%s: more than %d s of sound, at most that were expected (name a segment)", name,
                         LONGEST_S);
    return sink_put(sink, NULL, 0, name, e);
}

/* librosa cuts or pads what the resampler gives to this length, computed in double as it does. */
static void fit_length(struct sink *s, sf_count_t n_in, int rate_in, int rate)
{
    size_t want = (size_t)ceil((double)n_in * ((double)rate / rate_in));
    if (s->n < want) {
        sink_reserve(s, want - s->n);
        memset(s->samples + s->n, 0, (want - s->n) * sizeof *s->samples);
    }
    s->n = want;
}

static int decode_open(SNDFILE *file, const SF_INFO *info, const struct media *m, int rate, struct sound *out,
                       struct err *e)
{
    struct span span = {0};
    if (find_span(m, info, &span, e) || go_to(file, info, span.first, m->name, e))
        return -1;
    struct sink sink = {0};
    if (info->samplerate != rate) {
        soxr_error_t failed;
        soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
        soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
        soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
        sink.resampler = soxr_create(info->samplerate, rate, 1, &failed, &io, &quality, &runtime);
        if (failed)
            return err_set(e, EXIT_MACHINE, "%s: no resampler from %d Hz: %s", m->name, info->samplerate, failed);
    }
    sf_count_t n_read = 0;
    int status = read_span(file, info, &span, &sink, &n_read, m->name, e);
    if (status == 0 && sink.resampler)
        fit_length(&sink, n_read, info->samplerate, rate);
    if (status == 0 && first_nonfinite(sink.samples, sink.n) < sink.n)
        status = err_input(e, "%s: samples too large to be resampled: results are not finite", m->name);
    soxr_delete(sink.resampler);
    if (status) {
        free(sink.samples);
        return -1;
    }
    *out = (struct sound){sink.samples, (int64_t)sink.n, (double)n_read / info->samplerate};
    return 0;
}

static int check_info(const SF_INFO *info, int major, const char *name, struct err *e)
{
    int found = info->format & SF_FORMAT_TYPEMASK, coding = info->format & SF_FORMAT_SUBMASK;
    bool is_expected = found == major || (major == SF_FORMAT_WAV && found == SF_FORMAT_WAVEX);
    if (!is_expected || (found == SF_FORMAT_OGG && coding != SF_FORMAT_VORBIS && coding != SF_FORMAT_OPUS))
        return err_input(e, "%s: an encoding (0x%x) that is not supported", name, (unsigned)info->format);
    if (info->channels < 1 || info->channels > MAX_CHANNELS)
        return err_input(e, "%s: %d channels, 1 to %d were expected", name, info->channels, MAX_CHANNELS);
    if (info->samplerate < MIN_RATE || info->samplerate > MAX_RATE)
        return err_input(e, "%s: %d samples a second, %d to %d were expected", name, info->samplerate, MIN_RATE,
                         MAX_RATE);
    return 0;
}

int sound_decode(const struct media *m, int rate, struct sound *out, struct err *e)
{
    *out = (struct sound){0};
    int major = check_container(m->bytes, m->n_bytes, m->name, e);
    if (!major)
        return -1;
    struct bytes bytes = {m->bytes, (sf_count_t)m->n_bytes, 0};
    SF_VIRTUAL_IO io = {bytes_size, bytes_seek, bytes_read, bytes_write, bytes_tell};
    SF_INFO info = {0};
    SNDFILE *file = sf_open_virtual(&io, SFM_READ, &info, &bytes);
    if (!file)
        return err_input(e, "%s: damaged: the sound cannot be decoded", m->name);
    int status = check_info(&info, major, m->name, e);
    if (status == 0)
        status = decode_open(file, &info, m, rate, out, e);
    sf_close(file);
    return status;
}

/* ---- long sounds ----------------------------------------------------------------------------------------------- */

int64_t sound_stretch(const float *samples, int64_t n, int64_t longest, int rate)
{
    if (n <= longest)
        return n;
    int64_t hop = rate / 100, first = longest - longest / 15;
    if (hop < 1 || longest - first < 2 * hop)
        return longest;
    double quietest = INFINITY, before = INFINITY;
    int64_t cut = longest;
    for (int64_t at = longest - (longest - first) / hop * hop; at + hop <= longest; at += hop) {
        double energy = 0;
        for (int64_t i = at; i < at + hop; i++)
            energy += (double)samples[i] * samples[i];
        if (before + energy <= quietest) {
            quietest = before + energy;
            cut = at;
        }
        before = energy;
    }
    return cut;
}
