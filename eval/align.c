#include "eval/align.h"

#include <stdlib.h>
#include <string.h>

/* Words of one side: as numbers (equal words have equal numbers), and where each starts in the words run together. */
struct side { int n; int *word; size_t *start; struct runes joined; int *word_at; };

static int compare(const void *a, const void *b)
{
    const struct runes *x = *(const struct runes *const *)a, *y = *(const struct runes *const *)b;
    size_t n = x->n < y->n ? x->n : y->n;
    for (size_t i = 0; i < n; i++)
        if (x->at[i] != y->at[i])
            return x->at[i] < y->at[i] ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

static int split(struct arena *a, struct runes s, struct runes **words)
{
    struct runes word;
    int n = 0;
    *words = ARENA_NEW(a, struct runes, s.n / 2 + 2);
    for (size_t at = 0; runes_word(s, &at, &word);)
        (*words)[n++] = word;
    return n;
}

static struct side make_side(struct arena *a, const struct runes *words, int n)
{
    struct side side = {.n = n, .word = ARENA_NEW(a, int, n + 1), .start = ARENA_NEW(a, size_t, n + 1)};
    for (int i = 0; i < n; i++) {
        side.start[i] = side.joined.n;
        runes_add(a, &side.joined, words[i]);
    }
    side.start[n] = side.joined.n;
    side.word_at = ARENA_NEW(a, int, side.joined.n + 1);
    for (size_t i = 0; i <= side.joined.n; i++)
        side.word_at[i] = -1;
    for (int i = 0; i <= n; i++)
        side.word_at[side.start[i]] = i;
    return side;
}

/* Both sides split into words and numbered together. */
static void make_sides(struct arena *a, struct runes reference, struct runes hypothesis, struct side *r, struct side *h)
{
    struct runes *r_words, *h_words;
    int nr = split(a, reference, &r_words), nh = split(a, hypothesis, &h_words), number = 0;
    *r = make_side(a, r_words, nr);
    *h = make_side(a, h_words, nh);
    const struct runes **all = ARENA_NEW(a, const struct runes *, nr + nh + 1);
    for (int i = 0; i < nr; i++)
        all[i] = &r_words[i];
    for (int i = 0; i < nh; i++)
        all[nr + i] = &h_words[i];
    qsort(all, (size_t)(nr + nh), sizeof *all, compare);
    for (int i = 0; i < nr + nh; i++) {
        number += i > 0 && compare(&all[i - 1], &all[i]) != 0;
        if (all[i] >= r_words && all[i] < r_words + nr)
            r->word[all[i] - r_words] = number;
        else
            h->word[all[i] - h_words] = number;
    }
}

struct edits align_words(struct arena *a, struct runes reference, struct runes hypothesis)
{
    struct side r, h;
    make_sides(a, reference, hypothesis, &r, &h);
    int first = 0, nr = r.n, nh = h.n;
    while (first < nr && first < nh && r.word[first] == h.word[first])
        first++;
    while (nr > first && nh > first && r.word[nr - 1] == h.word[nh - 1])
        nr--, nh--;
    nr -= first;
    nh -= first;
    /* column[i]: reference words up to i against the hypothesis words so far */
    struct edits *column = ARENA_NEW(a, struct edits, nr + 1);
    for (int i = 0; i <= nr; i++)
        column[i] = (struct edits){.total = i, .del = i};
    for (int j = 1; j <= nh; j++) {
        struct edits diagonal = column[0];
        column[0] = (struct edits){.total = j, .ins = j};
        for (int i = 1; i <= nr; i++) {
            struct edits left = column[i], *up = &column[i - 1], *here = &column[i];
            bool same = r.word[first + i - 1] == h.word[first + j - 1];
            int best = diagonal.total + !same;
            best = up->total + 1 < best ? up->total + 1 : best;
            best = left.total + 1 < best ? left.total + 1 : best;
            if (best == up->total + 1) {
                *here = *up;
                here->del++;
            } else if (left.total == diagonal.total - 1) {
                *here = left;
                here->ins++;
            } else {
                *here = diagonal;
                here->sub += !same;
            }
            here->total = best;
            diagonal = left;
        }
    }
    struct edits e = column[nr];
    e.words = r.n;
    return e;
}

/* Number of words before position `to` of `many` that together spell word `w` of `one`; below 2 if they do not. */
static int compound(const struct side *many, int to, const struct side *one, int w)
{
    size_t end = many->start[to], length = one->start[w + 1] - one->start[w];
    if (length > end || many->word_at[end - length] < 0)
        return 0;
    int k = to - many->word_at[end - length];
    if (k < 2 || memcmp(many->joined.at + end - length, one->joined.at + one->start[w], length * sizeof(uint32_t)) != 0)
        return 0;
    return k;
}

static struct edits plain_step(struct edits diagonal, struct edits up, struct edits left, bool same)
{
    struct edits e;
    int sub = diagonal.total + !same, del = up.total + 1, ins = left.total + 1;
    if (sub < ins && sub < del) {
        e = diagonal;
        e.sub += !same;
        e.total = sub;
    } else if (del < ins) {
        e = up;
        e.del++;
        e.total = del;
    } else {
        e = left;
        e.ins++;
        e.total = ins;
    }
    return e;
}

/* The most words of `many` that run together to one word of `one`. */
static int longest_compound(const struct side *many, const struct side *one)
{
    int longest = 0;
    for (int to = 2; to <= many->n; to++)
        for (int w = 0; w < one->n; w++) {
            int k = compound(many, to, one, w);
            longest = k > longest ? k : longest;
        }
    return longest;
}

struct edits align_compounds(struct arena *a, struct runes reference, struct runes hypothesis)
{
    struct side r, h;
    make_sides(a, reference, hypothesis, &r, &h);
    int window = longest_compound(&h, &r) + 2;      /* columns kept: this one, and back to before a compound */
    struct edits **columns = ARENA_NEW(a, struct edits *, window);
    for (int k = 0; k < window && k <= h.n; k++)
        columns[k] = ARENA_NEW(a, struct edits, r.n + 1);
    for (int i = 0; i <= r.n; i++)
        columns[0][i] = (struct edits){.total = i, .del = i};
    for (int j = 1; j <= h.n; j++) {
        struct edits *now = columns[j % window], *before = columns[(j - 1) % window];
        now[0] = (struct edits){.total = j, .ins = j};
        for (int i = 1; i <= r.n; i++) {
            struct edits e = plain_step(before[i - 1], now[i - 1], before[i], r.word[i - 1] == h.word[j - 1]);
            int k = compound(&r, i, &h, j - 1);
            if (k >= 2 && before[i - k].total < e.total)
                e = before[i - k];
            k = compound(&h, j, &r, i - 1);
            if (k >= 2 && columns[(j - k) % window][i - 1].total < e.total)
                e = columns[(j - k) % window][i - 1];
            now[i] = e;
        }
    }
    struct edits e = columns[h.n % window][r.n];
    e.words = r.n;
    return e;
}
