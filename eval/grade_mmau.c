/* MMAU's official rule: all words of the right choice occur and no word that only wrong choices have. */
#include "eval/graders.h"

#include <stdlib.h>
#include <string.h>

struct words { struct runes *at; int n; };

static int compare_words(const void *a, const void *b)
{
    const struct runes *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    for (size_t i = 0; i < n; i++)
        if (x->at[i] != y->at[i])
            return x->at[i] < y->at[i] ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

/* The set of `\w+` in lower case, sorted. */
static struct words words_of(struct arena *a, struct runes s)
{
    struct words w = {0};
    s = runes_lower(a, s);
    w.at = ARENA_NEW(a, struct runes, s.n / 2 + 1);
    for (size_t i = 0; i < s.n;) {
        size_t from = i;
        while (i < s.n && uni_word(s.at[i]))
            i++;
        if (i > from)
            w.at[w.n++] = runes_part(s, from, i);
        else
            i++;
    }
    if (w.n)
        qsort(w.at, (size_t)w.n, sizeof *w.at, compare_words);
    int kept = 0;
    for (int i = 0; i < w.n; i++)
        if (i == 0 || compare_words(&w.at[kept - 1], &w.at[i]) != 0)
            w.at[kept++] = w.at[i];
    w.n = kept;
    return w;
}

static bool has(const struct words *w, const struct runes *word)
{
    return w->n && bsearch(word, w->at, (size_t)w->n, sizeof *w->at, compare_words);
}

/* Would the prediction be right if `answer` were the right choice? */
static bool matches(const struct words *prediction, const struct words *answer, const struct words *choices, int n)
{
    if (prediction->n == 0)
        return false;
    for (int i = 0; i < answer->n; i++)
        if (!has(prediction, &answer->at[i]))
            return false;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < choices[k].n; i++)
            if (!has(answer, &choices[k].at[i]) && has(prediction, &choices[k].at[i]))
                return false;
    return true;
}

void grade_mmau(struct grading *g)
{
    const struct grade_input *in = g->in;
    if (strcmp(g->extract, "lenient") == 0 || !in->options) {
        grade_choice(g);
        return;
    }
    struct labels l = grade_labels(g->in, g->a);
    struct words prediction = words_of(g->a, g->text), *choice = ARENA_NEW(g->a, struct words, l.n + 1);
    for (int k = 0; k < l.n; k++)
        choice[k] = words_of(g->a, runes_from(g->a, l.text[k]));
    int chosen = -1;
    for (int k = 0; k < l.n && chosen < 0; k++)
        if (matches(&prediction, &choice[k], choice, l.n))
            chosen = k;
    bool correct = false;
    for (int i = 0; i < in->n_gold && !correct; i++) {
        const char *gold = in->gold[i];
        for (int k = 0; k < l.n && in->labels; k++)         /* a label stands for the text of its option */
            if (strcmp(in->gold[i], in->labels[k]) == 0 && option_is_gold(in, &l, k))
                gold = l.text[k];
        struct words answer = words_of(g->a, runes_from(g->a, gold));
        correct = matches(&prediction, &answer, choice, l.n);
    }
    if (chosen >= 0 || correct)
        verdict_answer(g, chosen >= 0 ? l.text[chosen] : in->gold[0], "word sets", correct);
    else
        verdict_unparsed(g, "no choice's words alone");
}
