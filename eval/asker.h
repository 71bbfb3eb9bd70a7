/* asker.h - whoever answers questions, several of them at a time: a server (endpoint.c) or a command (pipe.c) (inside
 * eval/ only).
 *
 *     while (asker->has_room(asker)) asker->ask(asker, &body, user);
 *     failed = asker->step(asker, 200, &e);
 *     while (asker->take(asker, &answer)) ...
 *     asker->close(asker, drop);
 */
#ifndef HANDOFF_ASKER_H
#define HANDOFF_ASKER_H

#include "eval/remote.h"

struct asker_answer {
    void *user;
    struct err err;             /* code != 0: this question is refused */
    struct remote_answer answer;
    double first_ms, rest_ms;   /* until the first byte came, and from there to the last */
};

struct asker {
    bool (*has_room)(const struct asker *p);
    int (*active)(const struct asker *p);
    /* body: the request as the OpenAI API has it, taken over; user comes back with the answer. */
    void (*ask)(struct asker *p, struct text *body, void *user);
    /* Lets things happen, and waits up to `ms` for the first of them. -1: no use in going on. */
    int (*step)(struct asker *p, int ms, struct err *e);
    bool (*take)(struct asker *p, struct asker_answer *out);
    /* Drops what is under way; its `user` goes to `drop`. */
    void (*close)(struct asker *p, void (*drop)(void *user));
};

#endif
