/* endpoint.h - questions under way at an OpenAI-compatible server, several at a time, asked again where that may help
 * (inside eval/ only).
 *
 * Asked again, with growing pauses (or those that Retry-After names): no connection, a connection that breaks, an
 * answer that does not come in time or that nobody can read, 408, 409, 425, 429 and 5xx. 400, 413, 415 and 422 speak of
 * the one question. Whatever else is the end: endpoint_step fails.
 */
#ifndef HANDOFF_ENDPOINT_H
#define HANDOFF_ENDPOINT_H

#include "eval/remote.h"

struct endpoint_settings {
    const char *url;            /* ".../v1", or that of chat/completions itself */
    const char *key;            /* bearer token, NULL: none; goes into no message */
    int concurrency, retries;
    double rps;                 /* requests a second at most, 0: as many as there are */
    double timeout_s;           /* for one answer */
};

struct endpoint;
int endpoint_open(struct endpoint **out, const struct endpoint_settings *s, struct err *e);
/* Drops what is under way; its `user` goes to `drop`. NULL is fine. */
void endpoint_close(struct endpoint *p, void (*drop)(void *user));
bool endpoint_has_room(const struct endpoint *p);
int endpoint_active(const struct endpoint *p);
/* body: the request, taken over; user comes back with the answer. */
void endpoint_ask(struct endpoint *p, struct text *body, void *user);
/* Lets things happen, and waits up to `ms` for the first of them. -1: no use in going on. */
int endpoint_step(struct endpoint *p, int ms, struct err *e);

struct endpoint_answer {
    void *user;
    struct err err;             /* code != 0: the server refuses this question */
    struct remote_answer answer;
    double first_ms, rest_ms;   /* until the first byte came, and from there to the last */
};
bool endpoint_take(struct endpoint *p, struct endpoint_answer *out);

#endif
