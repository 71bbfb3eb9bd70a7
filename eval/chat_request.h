/* chat_request.h - the body of POST /v1/chat/completions, checked (inside eval/ only).
 *
 * Understood: model, messages (text, image_url with a data: URI, input_audio), max_tokens, max_completion_tokens,
 * temperature, top_p, seed, stop, stream, stream_options.include_usage, logprobs, top_logprobs,
 * chat_template_kwargs.enable_thinking. What would change the answer and is not done here is refused; other members
 * are passed over. Nothing is ever read from a path or fetched.
 */
#ifndef HANDOFF_CHAT_REQUEST_H
#define HANDOFF_CHAT_REQUEST_H

#include "eval/answer.h"
#include "eval/conversation.h"

enum { CHAT_MAX_STOPS = 16, CHAT_MAX_TOP = 20 };

struct chat_limits {
    int max_tokens;             /* generated, for one request; also what a request gets that names no number */
    int max_media;              /* pictures and sounds of one request */
};

struct chat_request {
    struct conversation c;
    struct decode_settings settings;
    int n_stops;
    char *stops[CHAT_MAX_STOPS];
    bool stream, include_usage, logprobs;
    int top_logprobs;           /* alternatives for each token, 0..CHAT_MAX_TOP */
};

/* Why a request is refused, as it goes over the wire. */
struct fault {
    int status;                 /* of HTTP; 0: none */
    const char *code;           /* "context_length_exceeded"; NULL: none */
    char param[96];             /* the member that it is about; "": none */
    struct err err;
};
/* Fills *f and returns -1; param may be NULL. */
int fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt, ...)
    PRINTF_LIKE(5, 6);

int chat_request_read(struct chat_request *r, const char *body, size_t len, const struct chat_limits *limits,
                      struct fault *f);
void chat_request_free(struct chat_request *r);

#endif
