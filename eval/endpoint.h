/* endpoint.h - questions under way at an OpenAI-compatible server, several at a time, asked again where that may help
 * (inside eval/ only).
 *
 * Asked again, with growing pauses (or those that Retry-After names): no connection, a connection that breaks, an
 * answer that does not come in time or that nobody can read, 408, 409, 425, 429 and 5xx. 400, 413, 415 and 422 speak of
 * the one question. Whatever else is the end: step fails.
 */
#ifndef HANDOFF_ENDPOINT_H
#define HANDOFF_ENDPOINT_H

#include "eval/asker.h"

struct endpoint_settings {
    const char *url;            /* ".../v1", or that of chat/completions itself */
    const char *key;            /* bearer token, NULL: none; goes into no message */
    int concurrency, retries;
    double rps;                 /* requests a second at most, 0: as many as there are */
    double timeout_s;           /* for one answer */
};

int endpoint_open(struct asker **out, const struct endpoint_settings *s, struct err *e);

#endif
