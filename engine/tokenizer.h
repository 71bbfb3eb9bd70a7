/* tokenizer.h - what tokenizer.c (reading tokenizer.json) and tokenize.c (using it) share. */
#ifndef HANDOFF_ENGINE_TOKENIZER_H
#define HANDOFF_ENGINE_TOKENIZER_H

#include "engine/engine.h"

struct piece {
    const char *s;              /* NUL-terminated; NULL: no piece has this id */
    uint32_t len;
    bool in_model;              /* a piece of the BPE vocabulary */
    bool added;                 /* cut out of the text before BPE */
    bool special;
    int16_t byte;               /* value of a byte piece "<0xNN>", else -1 */
};

/* The pair (left, right) becomes `merged`; the lowest rank goes first. */
struct merge { int32_t left, right, merged; uint32_t rank; };

/* Lengths of the added tokens that begin with one byte, longest first. */
struct added_lengths { uint32_t *len; int n; };

struct tokenizer {
    struct arena arena;
    struct piece *piece;        /* [n_ids] */
    int n_ids;
    int32_t *by_name;           /* hash table of ids, -1: free; size by_name_mask + 1 */
    size_t by_name_mask;
    struct merge *merge;        /* hash table by (left, right), left == -1: free; size merge_mask + 1 */
    size_t merge_mask;
    int32_t byte_id[256];
    struct added_lengths added[256];        /* by first byte */
};

/* tokenizer.json of Gemma's kind (BPE with byte fallback, blanks as U+2581) out of its parts, for checkpoints that keep
 * these elsewhere; takes them over. Merges of pieces that are not in the vocabulary are skipped. */
cJSON *tokenizer_json(cJSON *vocab, cJSON *merges, cJSON *added_tokens);
/* tokenizer_open on JSON that has been read already. */
int tokenizer_read(struct tokenizer **out, const cJSON *json, const char *where, struct err *e);
/* Id of the piece with these bytes, -1 if there is none. */
int32_t tokenizer_lookup(const struct tokenizer *t, const char *s, size_t len);
/* NULL if the pair does not merge. */
const struct merge *tokenizer_merge(const struct tokenizer *t, int32_t left, int32_t right);

#endif
