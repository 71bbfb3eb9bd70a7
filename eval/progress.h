/* progress.h - a line on the terminal while work goes on; silence in a pipe (inside eval/ only). */
#ifndef HANDOFF_PROGRESS_H
#define HANDOFF_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;                 /* standard error is a terminal */
    double start_ms, last_ms;
    int64_t total, before, done;        /* total -1: unknown; before: finished by an earlier session */
    const char *unit;           /* "samples" unless the caller changes it */
    int width;                  /* characters now on the line */
};
void progress_start(struct progress *p, int64_t total);
/* `what` names the task at hand. Draws at most ten times a second. */
void progress_update(struct progress *p, const char *what);
void progress_clear(struct progress *p);

#endif
