/* media.c - is a picture or sound whole, and what is it? The engine decodes for the model; here the header, the
 * structure and, for sounds, the samples are checked, so that a damaged file is refused when the data are read.
 *
 * PNG: chunk structure and CRCs. JPEG: markers up to the frame header, end mark. WAV: the header against the file's
 * length before libsndfile, which shortens silently; samples in floating point must be finite. FLAC: decoded once, as
 * its header claims a length and a checksum. Ogg and MP3: their headers.
 */
#include "datasets/reader.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <nettle/md5.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SIDE_MAX = 16384 };
static const uint64_t pixels_max = (uint64_t)64 << 20;
static const double seconds_max = 2.5 * 3600;

struct picture { const char *format, *mode; uint32_t width, height; int bits, colour; };

static unsigned be16(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }
static unsigned le16(const uint8_t *p) { return (unsigned)p[1] << 8 | p[0]; }
static uint32_t be32(const uint8_t *p) { return (uint32_t)be16(p) << 16 | be16(p + 2); }
static uint32_t le32(const uint8_t *p) { return (uint32_t)le16(p + 2) << 16 | le16(p); }

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static int check_size(const struct picture *p, const char *name, struct err *e)
{
    if (p->width == 0 || p->height == 0)
        return fault(e, "E_IMAGE", "%s: a %s of %u x %u pixels", name, p->format, p->width, p->height);
    if (p->width > SIDE_MAX || p->height > SIDE_MAX || (uint64_t)p->width * p->height > pixels_max)
        return fault(e, "E_TOO_LARGE", "%s: a %s of %u x %u pixels; at most 64 million, %d a side, are read", name,
                     p->format, p->width, p->height, SIDE_MAX);
    return 0;
}

/* PNG (ISO 15948): length, type, data, CRC of each chunk, from IHDR to IEND. */
static int read_png(const uint8_t *b, size_t n, const char *name, struct picture *p, struct err *e)
{
    bool data = false;
    p->format = "png";
    for (size_t at = 8; ; ) {
        if (n - at < 12 || be32(b + at) > n - at - 12)
            return fault(e, "E_IMAGE", "%s: the PNG ends inside a chunk at byte %zu", name, at);
        uint32_t len = be32(b + at);
        const uint8_t *type = b + at + 4, *body = b + at + 8;
        if (at == 8) {
            if (memcmp(type, "IHDR", 4) != 0 || len != 13)
                return fault(e, "E_IMAGE", "%s: the PNG does not begin with its header chunk", name);
            p->width = be32(body);
            p->height = be32(body + 4);
            p->bits = body[8];
            p->colour = body[9];
            if (check_size(p, name, e))
                return -1;
        }
        if ((uint32_t)crc32(0, type, len + 4) != be32(body + len))
            return fault(e, "E_IMAGE", "%s: the PNG chunk at byte %zu has a wrong CRC", name, at);
        data |= memcmp(type, "IDAT", 4) == 0;
        if (memcmp(type, "IEND", 4) == 0)
            break;
        at += 12 + (size_t)len;
    }
    static const char *const modes[] = {"L", NULL, "RGB", "P", "LA", NULL, "RGBA"};
    p->mode = p->colour <= 6 ? modes[p->colour] : NULL;
    if (!data || !p->mode)
        return fault(e, "E_IMAGE", "%s: the PNG has no picture data or an unknown colour type", name);
    if (p->colour == 0)
        p->mode = p->bits == 1 ? "1" : p->bits == 16 ? "I;16" : "L";
    return 0;
}

/* JPEG (ITU-T T.81 annex B): markers up to the frame header. */
static int read_jpeg(const uint8_t *b, size_t n, const char *name, struct picture *p, struct err *e)
{
    p->format = "jpeg";
    for (size_t at = 2; at + 4 <= n;) {
        if (b[at] != 0xff)
            break;
        unsigned marker = b[at + 1];
        if (marker == 0xff) {
            at++;
            continue;
        }
        size_t len = be16(b + at + 2);
        if (len < 2 || len > n - at - 2)
            break;
        bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
        if (frame && len >= 8) {
            p->height = be16(b + at + 5);
            p->width = be16(b + at + 7);
            p->mode = b[at + 9] == 1 ? "L" : b[at + 9] == 4 ? "CMYK" : "RGB";
            if (check_size(p, name, e))
                return -1;
            for (size_t i = n - 2; i > at; i--)         /* bytes may follow the end mark */
                if (b[i] == 0xff && b[i + 1] == 0xd9)
                    return 0;
            return fault(e, "E_IMAGE", "%s: the JPEG has no end mark: it is cut", name);
        }
        if (marker == 0xda)
            break;
        at += 2 + len;
    }
    return fault(e, "E_IMAGE", "%s: a JPEG without a frame header", name);
}

static int read_picture(const struct sample_media *m, struct picture *p, struct err *e)
{
    const uint8_t *b = m->bytes;
    size_t n = m->n_bytes;
    *p = (struct picture){.mode = "RGB"};
    if (n >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0)
        return read_png(b, n, m->name, p, e);
    if (n >= 4 && b[0] == 0xff && b[1] == 0xd8)
        return read_jpeg(b, n, m->name, p, e);
    if (n >= 10 && (memcmp(b, "GIF87a", 6) == 0 || memcmp(b, "GIF89a", 6) == 0)) {
        *p = (struct picture){.format = "gif", .mode = "P", .width = le16(b + 6), .height = le16(b + 8)};
        return check_size(p, m->name, e);
    }
    if (n >= 26 && memcmp(b, "BM", 2) == 0) {
        int32_t height = (int32_t)le32(b + 22);
        *p = (struct picture){.format = "bmp", .mode = "RGB", .width = le32(b + 18),
                              .height = height < 0 ? 0u - (uint32_t)height : (uint32_t)height};
        return check_size(p, m->name, e);
    }
    if (n >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0) {
        *p = (struct picture){.format = "webp", .mode = "RGB"};
        return fault(e, "E_UNSUPPORTED", "%s: WebP pictures are not read", m->name);
    }
    return fault(e, "E_IMAGE", "%s: %zu bytes that are no PNG, JPEG, GIF or BMP", m->name, n);
}

/* ---- sounds ------------------------------------------------------------------------------------------------------ */

struct memory { const uint8_t *bytes; sf_count_t n, at; };

static sf_count_t mem_length(void *user) { return ((struct memory *)user)->n; }
static sf_count_t mem_tell(void *user) { return ((struct memory *)user)->at; }
static sf_count_t mem_write(const void *p, sf_count_t n, void *user) { (void)p, (void)n, (void)user; return 0; }

static sf_count_t mem_seek(sf_count_t to, int whence, void *user)
{
    struct memory *m = user;
    to += whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->n : 0;
    return m->at = to < 0 ? 0 : to > m->n ? m->n : to;
}

static sf_count_t mem_read(void *p, sf_count_t n, void *user)
{
    struct memory *m = user;
    n = n < m->n - m->at ? n : m->n - m->at;
    if (n > 0)
        memcpy(p, m->bytes + m->at, (size_t)n);
    m->at += n;
    return n;
}

static SNDFILE *open_sound(const struct sample_media *m, struct memory *memory, SF_INFO *info)
{
    static SF_VIRTUAL_IO io = {mem_length, mem_seek, mem_read, mem_write, mem_tell};
    *memory = (struct memory){m->bytes, (sf_count_t)m->n_bytes, 0};
    *info = (SF_INFO){0};
    return sf_open_virtual(&io, SFM_READ, info, memory);
}

static bool is_wav(const struct sample_media *m)
{
    const uint8_t *b = m->bytes;
    return m->n_bytes >= 12 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WAVE", 4) == 0;
}

/* RIFF/WAVE: the format chunk makes sense and the data chunk is as long as it says. 0xffffffff, 0x7fffffff and 0 with
 * bytes behind it are marks of streamed files. */
static int check_wav(const struct sample_media *m, char *warning, size_t warning_size, struct err *e)
{
    const uint8_t *b = m->bytes;
    bool format = false;
    for (size_t at = 12; m->n_bytes - at >= 8;) {
        uint32_t len = le32(b + at + 4);
        size_t rest = m->n_bytes - at - 8;
        if (memcmp(b + at, "fmt ", 4) == 0 && len >= 16 && rest >= 16) {
            format = true;
            if (le16(b + at + 10) == 0 || le32(b + at + 12) == 0)
                return fault(e, "E_AUDIO", "%s: a WAV of %u channels at %u Hz", m->name, le16(b + at + 10),
                             le32(b + at + 12));
        }
        if (memcmp(b + at, "data", 4) == 0) {
            if (!format)
                return fault(e, "E_AUDIO", "%s: a WAV without a format chunk before its data", m->name);
            if (len == 0 && rest == 0)
                return fault(e, "E_EMPTY_AUDIO", "%s: a WAV without samples", m->name);
            if (len == 0xffffffffu || len == 0x7fffffffu)
                snprintf(warning, warning_size, "a streamed WAV without its length; its data run to the end");
            else if (len > rest)
                return fault(e, "E_TRUNCATED", "%s: the WAV's data chunk says %u bytes, the file has %zu", m->name,
                             len, rest);
            return 0;
        }
        if (len > rest)
            break;
        at += 8 + (size_t)len + (len & 1 && len < rest);
    }
    return fault(e, "E_AUDIO", "%s: a WAV without a %s", m->name, format ? "data chunk" : "format chunk");
}

/* Whether all samples of a sound stored in floating point are finite. */
static bool all_finite(SNDFILE *f, const SF_INFO *info)
{
    enum { FRAMES = 4096 };
    int subtype = info->format & SF_FORMAT_SUBMASK;
    if (subtype != SF_FORMAT_FLOAT && subtype != SF_FORMAT_DOUBLE)
        return true;
    double *buf = NEW(double, (size_t)FRAMES * (size_t)info->channels);
    bool finite = true;
    for (sf_count_t got; finite && (got = sf_readf_double(f, buf, FRAMES)) > 0;)
        for (sf_count_t i = 0; i < got * info->channels && finite; i++)
            finite = isfinite(buf[i]);
    free(buf);
    return finite;
}

/* Decodes a FLAC, over whose samples (little-endian, as many bytes as they need) the header has an MD5; the frames that
 * came out. */
static sf_count_t play_flac(SNDFILE *f, const SF_INFO *info, const struct sample_media *m, char *warning,
                            size_t warning_size)
{
    enum { FRAMES = 4096 };
    int bytes = (info->format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_24 ? 3 :
                (info->format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_S8 ? 1 : 2;
    size_t n = (size_t)FRAMES * (size_t)info->channels;
    int *buf = NEW(int, n);
    uint8_t *packed = NEW(uint8_t, n * 3), sum[16];
    struct md5_ctx md5;
    sf_count_t total = 0, got;
    md5_init(&md5);
    while ((got = sf_readf_int(f, buf, FRAMES)) > 0) {
        size_t k = 0;
        for (sf_count_t i = 0; i < got * info->channels; i++)
            for (int b = 4 - bytes; b < 4; b++)
                packed[k++] = (uint8_t)((uint32_t)buf[i] >> (8 * b));
        md5_update(&md5, k, packed);
        total += got;
    }
    md5_digest(&md5, sizeof sum, sum);
    free(buf);
    free(packed);
    static const uint8_t unknown[16];
    const uint8_t *stated = (const uint8_t *)m->bytes + 26;
    if (m->n_bytes >= 42 && memcmp(m->bytes, "fLaC", 4) == 0 && total == info->frames && memcmp(stated, unknown, 16) &&
        memcmp(stated, sum, 16))
        snprintf(warning, warning_size, "the samples do not have the MD5 that the FLAC header states");
    return total;
}

static int check_sound(const struct sample_media *m, char *warning, size_t warning_size, struct err *e)
{
    struct memory memory;
    SF_INFO info;
    if (m->n_bytes == 0)
        return fault(e, "E_AUDIO", "%s: empty", m->name);
    if (is_wav(m) && check_wav(m, warning, warning_size, e))
        return -1;
    SNDFILE *f = open_sound(m, &memory, &info);
    if (!f)
        return fault(e, "E_AUDIO", "%s: %s", m->name, sf_strerror(NULL));
    if (info.frames > (sf_count_t)1 << 40)      /* an Ogg without an end does not know its length */
        info.frames = 0;
    double seconds = info.samplerate > 0 ? (double)info.frames / info.samplerate : 0;
    int rc = 0;
    bool recording = m->end_s > 0, is_flac = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    if (info.channels < 1 || info.channels > 64 || info.samplerate < 1)
        rc = fault(e, "E_AUDIO", "%s: %d channels at %d Hz", m->name, info.channels, info.samplerate);
    else if (info.frames == 0)
        rc = fault(e, is_wav(m) ? "E_EMPTY_AUDIO" : "E_AUDIO", "%s: no samples", m->name);
    else if (seconds > seconds_max && !*warning)
        rc = fault(e, "E_TOO_LARGE", "%s: %.0f seconds; at most %.0f are read", m->name, seconds, seconds_max);
    else if (recording)
        rc = 0;                                 /* its segments are decoded one by one, by the engine */
    else if (is_flac && play_flac(f, &info, m, warning, warning_size) < info.frames)
        rc = fault(e, "E_AUDIO", "%s: fewer samples than its header says: it is cut or damaged", m->name);
    if (!rc && !recording && !is_flac && !all_finite(f, &info))
        rc = fault(e, "E_NONFINITE", "%s: a sample is infinite or not a number", m->name);
    if (!rc && m->end_s > seconds + 0.25)
        rc = fault(e, "E_SEGMENT", "%s: a segment from %.2f s to %.2f s, the sound has %.2f s", m->name, m->begin_s,
                   m->end_s, seconds);
    sf_close(f);
    return rc;
}

int media_check(const struct sample_media *m, char *warning, size_t warning_size, struct err *e)
{
    static const char pointer[] = "version https://git-lfs";
    struct picture p;
    if (m->n_bytes >= sizeof pointer - 1 && memcmp(m->bytes, pointer, sizeof pointer - 1) == 0)
        return fault(e, "E_MISSING_MEDIA", "%s: a Git LFS pointer stands for the file; fetch it (git lfs pull)",
                     m->name);
    if (m->end_s < 0 || m->begin_s < 0 || (m->end_s > 0 && m->end_s <= m->begin_s))
        return fault(e, "E_SEGMENT", "%s: a segment from %.2f s to %.2f s", m->name, m->begin_s, m->end_s);
    return m->kind == MODALITY_AUDIO ? check_sound(m, warning, warning_size, e) : read_picture(m, &p, e);
}

/* ---- description ------------------------------------------------------------------------------------------------- */

static void describe_picture(const struct sample_media *m, cJSON *o)
{
    struct picture p;
    struct err e = {0};
    char hex[65];
    uint8_t *rgb;
    size_t n;
    if (read_picture(m, &p, &e))
        return;
    cJSON_AddStringToObject(o, "format", p.format);
    cJSON_AddNumberToObject(o, "width", p.width);
    cJSON_AddNumberToObject(o, "height", p.height);
    cJSON_AddStringToObject(o, "mode", p.mode);
    if (png_rgb(m->bytes, m->n_bytes, &rgb, &n)) {
        sha256_hex_of(rgb, n, hex);
        cJSON_AddStringToObject(o, "rgb_sha256", hex);
        free(rgb);
    }
}

static void hash_pcm(SNDFILE *f, int channels, cJSON *o)
{
    enum { FRAMES = 4096 };
    short *buf = NEW(short, (size_t)FRAMES * (size_t)channels);
    struct sha256 sha;
    char hex[65];
    sf_count_t got;
    sha256_init(&sha);
    while ((got = sf_readf_short(f, buf, FRAMES)) > 0)
        for (sf_count_t i = 0; i < got * channels; i++) {
            uint16_t v = (uint16_t)buf[i];
            sha256_update(&sha, (uint8_t[]){(uint8_t)(v & 255), (uint8_t)(v >> 8)}, 2);
        }
    free(buf);
    sha256_hex(&sha, hex);
    cJSON_AddStringToObject(o, "pcm_s16_sha256", hex);
}

static void describe_sound(const struct sample_media *m, cJSON *o)
{
    static const struct { int code; const char *name; } subtypes[] = {
        {SF_FORMAT_PCM_16, "PCM_16"}, {SF_FORMAT_PCM_24, "PCM_24"}, {SF_FORMAT_PCM_32, "PCM_32"},
        {SF_FORMAT_PCM_U8, "PCM_U8"}, {SF_FORMAT_FLOAT, "FLOAT"}, {SF_FORMAT_DOUBLE, "DOUBLE"},
        {SF_FORMAT_OPUS, "OPUS"}, {SF_FORMAT_VORBIS, "VORBIS"}, {SF_FORMAT_MPEG_LAYER_III, "MPEG_LAYER_III"}};
    struct memory memory;
    SF_INFO info;
    SNDFILE *f = open_sound(m, &memory, &info);
    if (!f)
        return;
    int type = info.format & SF_FORMAT_TYPEMASK, subtype = info.format & SF_FORMAT_SUBMASK;
    bool lossy = type == SF_FORMAT_OGG || type == SF_FORMAT_MPEG;
    cJSON_AddStringToObject(o, "format", type == SF_FORMAT_FLAC ? "flac" : type == SF_FORMAT_OGG ? "ogg" :
                                         type == SF_FORMAT_MPEG ? "mp3" : "wav");
    for (size_t i = 0; i < sizeof subtypes / sizeof *subtypes; i++)
        if (subtypes[i].code == subtype)
            cJSON_AddStringToObject(o, "subtype", subtypes[i].name);
    cJSON_AddNumberToObject(o, "sample_rate", info.samplerate);
    cJSON_AddNumberToObject(o, "channels", info.channels);
    if (!lossy)
        cJSON_AddNumberToObject(o, "frames", (double)info.frames);
    double seconds = info.samplerate > 0 ? (double)info.frames / info.samplerate : 0;
    char rounded[64];
    snprintf(rounded, sizeof rounded, "%.6f", seconds);
    cJSON_AddNumberToObject(o, "duration_s", strtod(rounded, NULL));
    if (subtype == SF_FORMAT_PCM_16)
        hash_pcm(f, info.channels, o);
    if (lossy)
        cJSON_AddNumberToObject(o, "duration_tolerance_s", 0.12);
    sf_close(f);
}

cJSON *media_describe(const struct sample_media *m)
{
    cJSON *o = cJSON_CreateObject();
    char hex[65];
    sha256_hex_of(m->bytes, m->n_bytes, hex);
    cJSON_AddStringToObject(o, "kind", modality_name(m->kind));
    cJSON_AddStringToObject(o, "sha256", hex);
    cJSON_AddNumberToObject(o, "bytes", (double)m->n_bytes);
    if (m->kind == MODALITY_IMAGE)
        describe_picture(m, o);
    else
        describe_sound(m, o);
    if (m->end_s > 0) {
        cJSON *segment = cJSON_AddObjectToObject(o, "segment");
        cJSON_AddNumberToObject(segment, "begin_s", m->begin_s);
        cJSON_AddNumberToObject(segment, "end_s", m->end_s);
    }
    return o;
}
