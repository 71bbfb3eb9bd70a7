/* pipe.h - a command that reads questions and writes answers as lines of JSON (inside eval/ only).
 * scripts/adaptors/README.md is the protocol.
 *
 * A line that is no answer, an answer that does not come in time, and a command that ends are the end: step fails.
 */
#ifndef HANDOFF_PIPE_H
#define HANDOFF_PIPE_H

#include "eval/asker.h"

struct pipe_settings {
    const char *command;        /* for the shell */
    int concurrency;
    double timeout_s;           /* for one answer */
};
int pipe_open(struct asker **out, const struct pipe_settings *s, struct err *e);

#endif
