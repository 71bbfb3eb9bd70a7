#include "eval/channels.h"

#include <string.h>

void channels_start(struct channels *c, const struct tokenizer *t)
{
    *c = (struct channels){.t = t, .open = tokenizer_find(t, "<|channel>"), .close = tokenizer_find(t, "<channel|>")};
}

void channels_free(struct channels *c)
{
    text_free(&c->name);
}

enum token_part channels_next(struct channels *c, int32_t id)
{
    if (!c->answered && id == c->open) {
        c->thought = true;
        c->named = false;
        text_clear(&c->name);
        return PART_MARKER;
    }
    if (!c->answered && id == c->close) {
        c->thought = false;
        return PART_MARKER;
    }
    if (c->thought && !c->named) {
        detokenize(c->t, &id, 1, true, &c->name);
        c->named = memchr(c->name.data ? c->name.data : "", '\n', c->name.len) != NULL;
        if (c->named && strncmp(c->name.data, "final\n", 6) == 0) {
            c->thought = false;
            c->answered = true;
        }
        return PART_MARKER;
    }
    c->answered |= !c->thought;
    return c->thought ? PART_THOUGHT : PART_ANSWER;
}
