/* unicode.h - text as code points, with the character classes that Python harnesses go by (inside eval/).
 *
 *     struct runes s = runes_from(a, output);
 *     s = runes_trim(s);
 *     if (s.n && uni_word(s.at[0])) ...
 *
 * A `struct runes` is a view or a growing list; its memory belongs to the arena. Bytes that are not UTF-8 become
 * U+FFFD one by one, so every output can be graded.
 */
#ifndef HANDOFF_UNICODE_H
#define HANDOFF_UNICODE_H

#include "engine/base.h"

struct runes { uint32_t *at; size_t n, cap; };

struct runes runes_from(struct arena *a, const char *utf8);
char *runes_text(struct arena *a, struct runes s);              /* as UTF-8 */
void runes_put(struct arena *a, struct runes *s, uint32_t c);   /* a view becomes a copy first */
void runes_puts(struct arena *a, struct runes *s, const char *utf8);
void runes_add(struct arena *a, struct runes *s, struct runes more);
struct runes runes_part(struct runes s, size_t from, size_t to);        /* a view of [from, to) */
struct runes runes_trim(struct runes s);                        /* a view without white space at both ends */
bool runes_equal(struct runes a, struct runes b);
bool runes_is(struct runes s, const char *ascii);
struct runes runes_lower(struct arena *a, struct runes s);      /* str.lower() */
struct runes runes_upper(struct arena *a, struct runes s);      /* str.upper() */
size_t runes_upper_length(struct runes s);                      /* len(s.upper()) */
struct runes runes_collapse(struct arena *a, struct runes s);   /* " ".join(s.split()) */
struct runes runes_nfkd(struct arena *a, struct runes s);       /* unicodedata.normalize("NFKD", s) */
/* The next word of s from *at on, split at white space; false at the end. */
bool runes_word(struct runes s, size_t *at, struct runes *word);

bool uni_space(uint32_t c);             /* str.isspace(), \s */
bool uni_word(uint32_t c);              /* \w */
bool uni_letter(uint32_t c);            /* str.isalpha() */
bool uni_symbol(uint32_t c);            /* category M*, S* or P* */
bool uni_punctuation(uint32_t c);       /* category P* */
bool uni_mark(uint32_t c);              /* category Mn */
int uni_digit(uint32_t c);              /* decimal digit of any script (\d): 0..9, or -1 */
uint32_t uni_lower(uint32_t c);         /* simple lower case */
/* \b: a word character on exactly one side of position i (0..n). */
bool uni_boundary(struct runes s, size_t i);

#endif
