#define _GNU_SOURCE                     /* memmem */
#include "eval/reply.h"

#include <string.h>

void reply_start(struct reply *r, const struct tokenizer *t, const char *const *stops, int n_stops)
{
    *r = (struct reply){.stops = stops, .n_stops = n_stops};
    channels_start(&r->channels, t);
}

void reply_free(struct reply *r)
{
    channels_free(&r->channels);
    ids_free(&r->run);
    text_free(&r->content);
    text_free(&r->thought);
}

/* How many bytes at the end of s[0..len) may begin `stop`. */
static size_t begun(const char *s, size_t len, const char *stop)
{
    size_t n = strlen(stop) - 1;
    for (n = n < len ? n : len; n > 0; n--)
        if (memcmp(s + len - n, stop, n) == 0)
            return n;
    return 0;
}

/* Cuts the content before the first stop string; else holds back what may become one. */
static void look_for_stops(struct reply *r)
{
    const char *at = r->content.data ? r->content.data : "";
    size_t first = r->content.len, held = 0;
    for (int i = 0; i < r->n_stops; i++) {
        const char *found = memmem(at + r->sure, r->content.len - r->sure, r->stops[i], strlen(r->stops[i]));
        size_t n = begun(at + r->sure, r->content.len - r->sure, r->stops[i]);
        if (found && (size_t)(found - at) < first)
            first = (size_t)(found - at);
        r->stopped |= found != NULL;
        held = n > held ? n : held;
    }
    if (r->stopped) {
        r->content.len = first;
        r->content.data[first] = '\0';
        held = 0;
    }
    r->sure = r->content.len - held;
}

static void flush_run(struct reply *r)
{
    detokenize(r->channels.t, r->run.id, r->run.n, true, r->run_is_thought ? &r->thought : &r->content);
    r->run.n = 0;
}

static bool is_byte_piece(const struct tokenizer *t, int32_t id)
{
    const char *piece = tokenizer_piece(t, id);
    return piece && strlen(piece) == 6 && memcmp(piece, "<0x", 3) == 0 && piece[5] == '>';
}

enum token_part reply_push(struct reply *r, int32_t id)
{
    enum token_part part = channels_next(&r->channels, id);
    if (part != PART_MARKER && is_byte_piece(r->channels.t, id)) {
        if (r->run.n && r->run_is_thought != (part == PART_THOUGHT))
            flush_run(r);
        r->run_is_thought = part == PART_THOUGHT;
        ids_push(&r->run, id);
        return part;
    }
    flush_run(r);
    if (part != PART_MARKER)
        detokenize(r->channels.t, &id, 1, true, part == PART_THOUGHT ? &r->thought : &r->content);
    look_for_stops(r);
    return part;
}

void reply_end(struct reply *r)
{
    flush_run(r);
    look_for_stops(r);
    r->sure = r->content.len;
}
