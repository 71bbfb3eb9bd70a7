/* remote_request.c - a question in the form of the OpenAI API. */
#include "eval/base64.h"
#include "eval/media.h"
#include "eval/remote.h"

#include <string.h>

static void put_string(struct text *t, const char *s)
{
    json_put_string(t, s, strlen(s));
}

/* A picture as a data URI, a sound as base64 with the name of its format. */
static int put_media(const struct media *m, struct text *out, struct err *e)
{
    const char *type = media_type(m->bytes, m->n_bytes);
    const bool image = m->kind == MEDIA_IMAGE;
    if (!type || strncmp(type, image ? "image/" : "audio/", 6) != 0)
        return err_input(e, "%s: a %s was expected", m->name, image ? "PNG, JPEG, GIF, BMP or WebP picture"
                                                                     : "WAV, FLAC, Ogg or MP3 sound");
    if (image)
        text_printf(out, "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:%s;base64,", type);
    else
        text_printf(out, "{\"type\":\"input_audio\",\"input_audio\":{\"format\":\"%s\",\"data\":\"",
                    strcmp(type, "audio/mpeg") == 0 ? "mp3" : type + 6);
    base64_encode(m->bytes, m->n_bytes, out);
    text_puts(out, "\"}}");
    return 0;
}

static int put_parts(const cJSON *content, const struct media *media, int n_media, int *used, struct text *out,
                     struct err *e)
{
    const cJSON *part;
    int n = 0;
    text_putc(out, '[');
    cJSON_ArrayForEach(part, content) {
        const char *text = json_string(part, "text");
        text_puts(out, n++ ? "," : "");
        if (text) {
            text_puts(out, "{\"type\":\"text\",\"text\":");
            put_string(out, text);
            text_putc(out, '}');
        } else if (*used == n_media) {
            return err_input(e, "the conversation has more pictures and sounds than the sample");
        } else if (put_media(&media[(*used)++], out, e)) {
            return -1;
        }
    }
    text_putc(out, ']');
    return 0;
}

static void put_settings(const struct remote_settings *s, struct text *out)
{
    const cJSON *member;
    if (!json_get(s->extra, "max_tokens"))
        text_printf(out, ",\"max_tokens\":%d", s->max_tokens);
    if (!json_get(s->extra, "temperature"))
        text_puts(out, ",\"temperature\":0");
    if (s->top_logprobs)
        text_printf(out, ",\"logprobs\":true,\"top_logprobs\":%d", s->top_logprobs);
    if (s->stream)
        text_puts(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    cJSON_ArrayForEach(member, s->extra) {
        if (cJSON_IsNull(member))
            continue;
        text_putc(out, ',');
        put_string(out, member->string);
        text_putc(out, ':');
        json_print(out, member);
    }
}

int remote_request(const struct remote_settings *s, const cJSON *messages, const struct media *media, int n_media,
                   struct text *out, struct err *e)
{
    const cJSON *message;
    int n = 0, used = 0;
    text_puts(out, "{\"model\":");
    put_string(out, s->model);
    text_puts(out, ",\"messages\":[");
    cJSON_ArrayForEach(message, messages) {
        const cJSON *content = json_get(message, "content");
        text_puts(out, n++ ? ",{\"role\":" : "{\"role\":");
        put_string(out, json_string(message, "role") ? json_string(message, "role") : "user");
        text_puts(out, ",\"content\":");
        if (cJSON_IsArray(content)) {
            if (put_parts(content, media, n_media, &used, out, e))
                return -1;
        } else {
            json_print(out, content);
        }
        text_putc(out, '}');
    }
    if (used != n_media)
        return err_input(e, "the conversation has fewer pictures and sounds than the sample");
    text_putc(out, ']');
    put_settings(s, out);
    text_putc(out, '}');
    return 0;
}
