/* align.h - word-level edit distance with the counts of its alignment (inside eval/). */
#ifndef HANDOFF_ALIGN_H
#define HANDOFF_ALIGN_H

#include "eval/unicode.h"

struct edits { int total, sub, del, ins, words; };      /* words: of the reference */

/* Levenshtein over white-space-separated words. Among alignments of equal cost it counts the one that rapidfuzz (and
 * so jiwer) finds. */
struct edits align_words(struct arena *a, struct runes reference, struct runes hypothesis);
/* As kaldialign with merge_compounds: adjacent words of one side that together spell a word of the other are no
 * error. */
struct edits align_compounds(struct arena *a, struct runes reference, struct runes hypothesis);

#endif
