/* match.h - small matchers over code points, the words in which the extraction rules are written (inside eval/).
 *
 * Each takes a position and moves it behind what matched. They are the pieces of the reference harnesses' regular
 * expressions, which POSIX ones cannot express; all are linear.
 */
#ifndef HANDOFF_MATCH_H
#define HANDOFF_MATCH_H

#include "eval/unicode.h"

size_t skip_space(struct runes s, size_t i);                            /* \s* */
size_t skip_set(struct runes s, size_t i, const char *ascii_set);       /* [set]* */
bool in_set(uint32_t c, const char *ascii_set);
bool take(struct runes s, size_t *i, const char *ascii);                /* exactly this text */
bool take_any_case(struct runes s, size_t *i, const char *lower);       /* as re.IGNORECASE compares */
bool take_runes(struct runes s, size_t *i, struct runes what);
bool ascii_alnum(uint32_t c);
/* The code point at i, 0 behind the end. */
uint32_t rune_at(struct runes s, size_t i);

/* The labels of a question's options; `lower` in lower case. */
struct labels { int n; struct runes *label, *lower; const char *const *text; };

/* Index of the first label at *i that is not followed by an ASCII letter or digit, or -1. */
int take_label(struct runes s, size_t *i, const struct labels *l);
/* Index of the label that equals s in any case (an exact match goes first), or -1. */
int find_label(struct runes s, const struct labels *l);

#endif
