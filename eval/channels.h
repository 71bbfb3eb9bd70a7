/* channels.h - which part of an output a generated token belongs to (inside eval/ only).
 *
 * A leading thought lies between the tokens <|channel> and <channel|>; the first line in it is the channel's name. A
 * channel with the name "final" is the answer itself.
 */
#ifndef HANDOFF_CHANNELS_H
#define HANDOFF_CHANNELS_H

#include "engine/engine.h"

enum token_part { PART_ANSWER, PART_THOUGHT, PART_MARKER };

struct channels {
    const struct tokenizer *t;
    int32_t open, close;        /* -1: the vocabulary has no such token */
    bool thought, named, answered;
    struct text name;
};
void channels_start(struct channels *c, const struct tokenizer *t);
/* The tokens of an output are given in order, without a stop token. */
enum token_part channels_next(struct channels *c, int32_t id);
void channels_free(struct channels *c);

#endif
