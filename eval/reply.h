/* reply.h - the text of an answer as it grows: what may be shown of it so far (inside eval/ only).
 *
 * Tokens come one by one. A run of byte pieces is text only when it is over, and an end of the text that may become a
 * stop string is held back, so what is shown once stays. Thoughts are kept apart from the content.
 */
#ifndef HANDOFF_REPLY_H
#define HANDOFF_REPLY_H

#include "eval/channels.h"

enum { REPLY_MAX_STOPS = 16 };

struct reply {
    struct channels channels;
    const char *const *stops;   /* [n_stops], not owned: the content ends before the first of them */
    int n_stops;
    struct ids run;             /* byte pieces that are not text yet */
    bool run_is_thought;
    struct text content, thought;
    size_t sure;                /* bytes of the content that stay, whatever comes */
    bool stopped;               /* a stop string has come */
};
void reply_start(struct reply *r, const struct tokenizer *t, const char *const *stops, int n_stops);
/* Which part the token belongs to. Not for a stop token. */
enum token_part reply_push(struct reply *r, int32_t id);
/* No more tokens: all of the content is sure. */
void reply_end(struct reply *r);
void reply_free(struct reply *r);

#endif
