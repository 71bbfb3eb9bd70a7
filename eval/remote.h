/* remote.h - questions to an OpenAI-compatible server: the request, and what comes back (inside eval/ only).
 *
 *     struct remote_reply r;
 *     remote_start(&r);
 *     while (...) failed = remote_take(&r, bytes, n, &e);
 *     failed = remote_finish(&r, &answer, &e);
 *
 * A reply may be one JSON object or a stream of server-sent events, whatever was asked for. The confidence is the
 * top-level member of the object or of any chunk, else the trailer at the end of the content, else it is not known.
 */
#ifndef HANDOFF_REMOTE_H
#define HANDOFF_REMOTE_H

#include "engine/engine.h"
#include "eval/visible.h"
#include "probe/probe.h"

enum { REMOTE_MAX_REPLY = 32 << 20, REMOTE_MAX_TOP = 20 };
/* What the tokens are taken from that top_logprobs leaves out: Gemma's vocabulary. */
#define REMOTE_VOCABULARY 262144

struct remote_answer {
    struct text output;         /* without the trailer */
    struct text reasoning;      /* what the server gives apart from it */
    char stop[24];              /* "eos", "length", or the server's own word */
    enum trailer_status trailer;
    const char *confidence_from;            /* "field", "trailer", NULL: unknown */
    double confidence, p_wrong, probe_logit;            /* NAN: unknown */
    struct entropy_summary entropy;         /* NAN: unknown */
    int entropy_top;            /* > 0: it is a lower bound, from so many most likely tokens of each position, and */
    double entropy_most;        /* no mean above this one is possible */
    double logprob;             /* mean; NAN: unknown */
    int tokens, prompt_tokens;  /* -1: unknown */
    char model[128];            /* as the server calls itself; "": it does not */
};
void remote_answer_free(struct remote_answer *a);

struct remote_reply {
    size_t n_bytes;
    int form;                   /* not known yet, one object, or events */
    struct text pending;        /* the object so far, or the line or event that is not over */
    size_t looked_at;           /* bytes of it without a line break */
    struct text event;
    bool finished;              /* a finish_reason or [DONE] has come */
    struct trailer_stream stream;
    struct remote_answer a;
    /* Over the tokens of "logprobs". */
    int n_tokens, n_with_top, least_top;
    double sum_logprob, sum_low, sum_high, first_low, max_low;
    bool in_thought;
};
void remote_start(struct remote_reply *r);
/* The errors say what is wrong with the reply. */
int remote_take(struct remote_reply *r, const void *bytes, size_t n, struct err *e);
int remote_finish(struct remote_reply *r, struct remote_answer *a, struct err *e);
void remote_drop(struct remote_reply *r);               /* instead of remote_finish, or behind it */
/* "error.message" of an error's body, or its first bytes, in one line. */
void remote_error_text(const struct text *body, struct text *out);

struct remote_settings {
    const char *model;
    int max_tokens, top_logprobs;
    bool stream;
    const cJSON *extra;         /* further members of a request, instead of our own where they have the same name; null
                                   takes one out; NULL: none */
};
/* The body of a request. messages: as dataset_prompt gives them, the media in the order of their parts. */
int remote_request(const struct remote_settings *s, const cJSON *messages, const struct media *media, int n_media,
                   struct text *out, struct err *e);

#endif
