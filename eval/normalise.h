/* normalise.h - speech transcripts made comparable, as the public scoring scripts do it (inside eval/).
 *
 * A word error rate means nothing without the name of its normaliser. Results are words joined by single blanks.
 */
#ifndef HANDOFF_NORMALISE_H
#define HANDOFF_NORMALISE_H

#include "eval/unicode.h"

/* Whisper's English normaliser (OpenAI, whisper/normalizers/english.py) with the four contractions (kinda, sorta,
 * dunno, cause) that the whisper-normalizer package adds. */
struct runes normalise_whisper(struct arena *a, struct runes s);
/* The same without them, as OpenAI's release 20250625. */
struct runes normalise_whisper_release(struct arena *a, struct runes s);
/* The Open ASR Leaderboard's of 2026: more fillers, names, compounds and acronyms; 's only behind pronouns. */
struct runes normalise_open_asr(struct arena *a, struct runes s);
/* GigaSpeech's scoring script: upper case, no hyphens, no fillers, no tags. */
struct runes normalise_gigaspeech(struct arena *a, struct runes s);

/* ---- stages that the English ones share ------------------------------------------------------------------------ */

/* `find` becomes `with`. `whole`: it starts and ends at a word's edge; otherwise it only ends there. A blank in `find`
 * stands for itself, '~' for any white space. */
struct replacement { const char *find, *with; bool whole; };
struct runes replace_all(struct arena *a, struct runes s, const struct replacement *table, size_t n);

/* Words replaced by the first table that has them; each is sorted by `from`. */
struct word_pair { const char *from, *to; };
struct word_table { const struct word_pair *pairs; size_t n; };
struct runes replace_words(struct arena *a, struct runes s, const struct word_table *tables, int n);
extern const struct word_table spelling_table;          /* British to American, as Whisper has it */

/* Lower case; bracketed parts and fillers (whole words of a list that NULL ends) taken out. */
struct runes english_strip(struct arena *a, struct runes s, const char *const *fillers);
/* Contractions and titles in full; `possessive` says what becomes of 's. */
struct runes english_expand(struct arena *a, struct runes s, const struct replacement *possessive, size_t n);
/* Commas in numbers, full stops, symbols and diacritics off; .%$ and currency signs stay for the numbers. */
struct runes english_symbols(struct arena *a, struct runes s);
/* Number words to digits, currency and percent signs, ordinals. */
struct runes english_numbers(struct arena *a, struct runes s);
/* Symbols that belong to no number go, blanks collapse. */
struct runes english_finish(struct arena *a, struct runes s);

#endif
