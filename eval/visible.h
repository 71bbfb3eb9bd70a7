/* visible.h - what a user sees of an output: the confidence trailer and the thought channel taken off.
 *
 * The trailer is the last line `[[hybrid:confidence=0.1234]]`: four decimals, at most 1, one line break before it (or
 * the start of the text), only blanks behind. Exactly that line break is taken off with it; anything else leaves the
 * text as it is. Thoughts lie between `<|channel>` and `<channel|>`.
 */
#ifndef HANDOFF_VISIBLE_H
#define HANDOFF_VISIBLE_H

#include "engine/base.h"

/* Malformed: the last line has `[[` and `hybrid` behind it, but is no trailer. */
enum trailer_status { TRAILER_MISSING, TRAILER_OK, TRAILER_MALFORMED };
const char *trailer_status_name(enum trailer_status s);         /* missing, ok, malformed */

/* Length of the text before the trailer (all of it if there is none). *confidence is set only if there is one. */
size_t trailer_strip(const char *s, size_t len, enum trailer_status *status, double *confidence);

/* The visible answer. Strings live in the arena. */
struct visible {
    const char *text;           /* trimmed */
    const char *untrimmed;      /* the same with its white space, for metrics that count it */
    const char *thought;        /* bodies of all thoughts, joined by a line break; NULL: there was none */
    bool has_trailer, malformed_trailer;
    bool truncated_thought;     /* a thought was never closed: there is no answer */
    double trailer_confidence;
};
void visible_answer(const char *output, struct arena *a, struct visible *v);

/* The same for a text that arrives in pieces: what may still become a trailer is held back. {0} is the start.
 *
 *     struct trailer_stream s = {0};
 *     while (...) { trailer_stream_push(&s, bytes, n, &shown); ... }
 *     status = trailer_stream_end(&s, &shown, &confidence);
 */
struct trailer_stream {
    struct text held;           /* could still become line break + trailer + blanks */
    int state;                  /* how far `held` matches that */
    bool started;               /* something was shown: a trailer now needs its line break */
    struct text last_line;      /* last line shown that is not blank: it may only look like a trailer */
    bool line_over;             /* a line break came behind last_line */
};
/* Appends to `shown` what is sure to belong to the answer. Pieces may end inside a UTF-8 character. */
void trailer_stream_push(struct trailer_stream *s, const char *bytes, size_t n, struct text *shown);
/* Releases what is held unless it is the trailer, and frees the stream's memory. */
enum trailer_status trailer_stream_end(struct trailer_stream *s, struct text *shown, double *confidence);

#endif
