/* tokenize.c - text to ids and back.
 *
 * Added tokens are cut out first (leftmost, then longest). Each stretch between them is one BPE word: its characters,
 * blanks read as U+2581, are merged pair by pair, lowest rank first, leftmost among equals. A heap of candidate pairs
 * makes that n log n, so a stretch may be a whole document.
 */
#include "engine/tokenizer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"          /* U+FFFD */
#define BLANK "\xe2\x96\x81"                /* U+2581, stands for a blank in pieces */

void ids_push(struct ids *v, int32_t id)
{
    if (v->n == v->cap) {
        size_t cap = v->cap ? 2 * (size_t)v->cap : 64;
        v->id = mem_grow(v->id, cap <= INT_MAX ? cap : SIZE_MAX, sizeof *v->id);
        v->cap = (int)cap;
    }
    v->id[v->n++] = id;
}

void ids_free(struct ids *v)
{
    free(v->id);
    *v = (struct ids){0};
}

/* ---- BPE of one stretch ---------------------------------------------------------------------------------------- */

enum { NO_RANK = -1, NO_SYMBOL = -1 };

struct symbol {
    int32_t id;                 /* -1: merged into the symbol before it */
    int prev, next;             /* neighbours, NO_SYMBOL at the ends */
    int64_t rank;               /* of the merge with the next symbol, NO_RANK if none */
    int32_t merged;             /* what that merge gives */
};

/* Scratch of one call, reused from stretch to stretch. */
struct bpe {
    const struct tokenizer *t;
    struct symbol *symbol;
    int n, cap;
    uint64_t *heap;             /* rank << 32 | symbol; stale entries are skipped when they come up */
    size_t n_heap, heap_cap;
};

static void heap_push(struct bpe *b, uint64_t key)
{
    if (b->n_heap == b->heap_cap) {
        b->heap_cap = b->heap_cap ? 2 * b->heap_cap : 256;
        b->heap = mem_grow(b->heap, b->heap_cap, sizeof *b->heap);
    }
    size_t i = b->n_heap++;
    for (; i > 0 && b->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = key;
}

static uint64_t heap_pop(struct bpe *b)
{
    uint64_t top = b->heap[0], last = b->heap[--b->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < b->n_heap) {
        if (child + 1 < b->n_heap && b->heap[child + 1] < b->heap[child])
            child++;
        if (b->heap[child] >= last)
            break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = last;
    return top;
}

static void push_symbol(struct bpe *b, int32_t id)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * (size_t)b->cap : 256;
        b->symbol = mem_grow(b->symbol, cap <= INT_MAX ? cap : SIZE_MAX, sizeof *b->symbol);
        b->cap = (int)cap;
    }
    b->symbol[b->n] = (struct symbol){id, b->n - 1, b->n + 1, NO_RANK, -1};
    b->n++;
}

/* Characters as pieces; one that is no piece becomes the byte pieces of its UTF-8 form. */
static void split_characters(struct bpe *b, const char *s, size_t len)
{
    b->n = 0;
    for (size_t i = 0; i < len;) {
        size_t n = (size_t)utf8_decode(s + i, len - i, NULL), n_piece = s[i] == ' ' ? strlen(BLANK) : n;
        const char *c = s[i] == ' ' ? BLANK : s + i;
        int32_t id = tokenizer_lookup(b->t, c, n_piece);
        if (id >= 0 && b->t->piece[id].in_model)
            push_symbol(b, id);
        else
            for (size_t k = 0; k < n_piece; k++)
                push_symbol(b, b->t->byte_id[(unsigned char)c[k]]);
        i += n;
    }
    if (b->n)
        b->symbol[b->n - 1].next = NO_SYMBOL;
}

/* Looks up what symbol i and its right neighbour merge to. */
static void offer(struct bpe *b, int i)
{
    struct symbol *s = &b->symbol[i];
    const struct merge *m = s->next == NO_SYMBOL ? NULL : tokenizer_merge(b->t, s->id, b->symbol[s->next].id);
    s->rank = m ? (int64_t)m->rank : NO_RANK;
    if (m) {
        s->merged = m->merged;
        heap_push(b, (uint64_t)m->rank << 32 | (uint32_t)i);
    }
}

static void merge_symbols(struct bpe *b)
{
    while (b->n_heap) {
        uint64_t key = heap_pop(b);
        int i = (int)(uint32_t)key;
        struct symbol *s = &b->symbol[i];
        if (s->rank != (int64_t)(key >> 32))
            continue;           /* stale: one of the two has been merged away since */
        struct symbol *right = &b->symbol[s->next];
        s->id = s->merged;
        s->next = right->next;
        right->id = -1;
        right->rank = NO_RANK;
        if (s->next != NO_SYMBOL)
            b->symbol[s->next].prev = i;
        offer(b, i);
        if (s->prev != NO_SYMBOL)
            offer(b, s->prev);
    }
}

static void tokenize_stretch(struct bpe *b, const char *s, size_t len, struct ids *out)
{
    split_characters(b, s, len);
    for (int i = 0; i < b->n; i++)
        offer(b, i);
    merge_symbols(b);
    for (int i = 0; i < b->n; i++)
        if (b->symbol[i].id >= 0)
            ids_push(out, b->symbol[i].id);
}

/* ---- text to ids ----------------------------------------------------------------------------------------------- */

/* Bytes that one U+FFFD replaces: the longest beginning of a valid sequence, else one byte (the Unicode standard's
 * "maximal subpart"). A beginning of two or more bytes is valid if continuation bytes 0x80 complete it. */
static size_t invalid_length(const char *s, size_t len)
{
    for (size_t k = len < 3 ? len : 3; k >= 2; k--) {
        char tail[4] = {'\x80', '\x80', '\x80', '\x80'};
        memcpy(tail, s, k);
        if (utf8_decode(tail, 4, NULL) > (int)k)
            return k;
    }
    return 1;
}

static void replace_invalid(const char *s, size_t len, struct text *out)
{
    for (size_t i = 0; i < len;) {
        size_t n = (size_t)utf8_decode(s + i, len - i, NULL);
        if (n) {
            text_put(out, s + i, n);
            i += n;
        } else {
            text_puts(out, REPLACEMENT);
            i += invalid_length(s + i, len - i);
        }
    }
}

/* The longest added token that begins at s, -1 if none does. */
static int32_t added_token_at(const struct tokenizer *t, const char *s, size_t len)
{
    const struct added_lengths *a = &t->added[(unsigned char)s[0]];
    for (int i = 0; i < a->n; i++) {
        int32_t id = a->len[i] <= len ? tokenizer_lookup(t, s, a->len[i]) : -1;
        if (id >= 0 && t->piece[id].added)
            return id;
    }
    return -1;
}

static void tokenize_valid(const struct tokenizer *t, const char *s, size_t len, struct ids *out)
{
    struct bpe b = {.t = t};
    size_t start = 0;
    for (size_t i = 0; i < len;) {
        int32_t id = added_token_at(t, s + i, len - i);
        if (id < 0) {
            i++;
            continue;
        }
        tokenize_stretch(&b, s + start, i - start, out);
        ids_push(out, id);
        start = i += t->piece[id].len;
    }
    tokenize_stretch(&b, s + start, len - start, out);
    free(b.symbol);
    free(b.heap);
}

void tokenize(const struct tokenizer *t, const char *s, size_t len, struct ids *out)
{
    if (utf8_valid(s, len, NULL)) {
        tokenize_valid(t, s, len, out);
        return;
    }
    struct text valid = {0};
    replace_invalid(s, len, &valid);
    tokenize_valid(t, valid.data, valid.len, out);
    text_free(&valid);
}

/* ---- ids to text ----------------------------------------------------------------------------------------------- */

/* A run of byte pieces is text if it is UTF-8 as a whole; otherwise each of its bytes is unreadable. */
static void flush_bytes(struct text *run, struct text *out)
{
    if (utf8_valid(run->data ? run->data : "", run->len, NULL))
        text_put(out, run->data, run->len);
    else
        for (size_t i = 0; i < run->len; i++)
            text_puts(out, REPLACEMENT);
    text_clear(run);
}

static void put_piece(const struct piece *p, struct text *out)
{
    const char *s = p->s, *blank;
    for (; (blank = strstr(s, BLANK)); s = blank + strlen(BLANK)) {
        text_put(out, s, (size_t)(blank - s));
        text_putc(out, ' ');
    }
    text_puts(out, s);
}

void detokenize(const struct tokenizer *t, const int32_t *id, int n, bool show_special, struct text *out)
{
    struct text run = {0};
    for (int i = 0; i < n; i++) {
        const struct piece *p = tokenizer_piece(t, id[i]) ? &t->piece[id[i]] : NULL;
        if (!p || (p->special && !show_special))
            continue;
        if (p->byte >= 0) {
            text_putc(&run, p->byte);
            continue;
        }
        flush_bytes(&run, out);
        put_piece(p, out);
    }
    flush_bytes(&run, out);
    text_free(&run);
}
