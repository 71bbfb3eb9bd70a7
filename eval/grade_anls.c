/* DocVQA's ANLS: one minus the edit distance over the longer length, best gold, 0 below 0.5.
 *
 * As in the common scripts the distance is taken between lower-cased, blank-collapsed texts but divided by the longer
 * raw length (of the upper-cased texts, in code points), so padding raises the score. "paper" divides by the collapsed
 * length and wants more than 0.5. */
#include "eval/graders.h"

#include <stdlib.h>
#include <string.h>

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edit distance, or more than `limit` if it is more: only a band of that width is computed. */
static size_t distance_within(struct runes s, struct runes t, size_t limit)
{
    if (s.n > t.n) {
        struct runes swap = s;
        s = t;
        t = swap;
    }
    if (t.n - s.n > limit)
        return limit + 1;
    size_t *row = NEW(size_t, s.n + 1), beyond = limit + 1;
    for (size_t i = 0; i <= s.n; i++)
        row[i] = i;
    for (size_t j = 1; j <= t.n; j++) {
        size_t lo = j > limit ? j - limit : 1, hi = j + limit < s.n ? j + limit : s.n;
        size_t diagonal = row[lo - 1], best = beyond;
        row[lo - 1] = lo == 1 ? j : beyond;
        for (size_t i = lo; i <= hi; i++) {
            size_t above = i == j + limit ? beyond : row[i];
            row[i] = min3(above + 1, row[i - 1] + 1, diagonal + (s.at[i - 1] != t.at[j - 1]));
            diagonal = above;
            best = row[i] < best ? row[i] : best;
        }
        if (best > limit && row[lo - 1] > limit) {
            free(row);
            return beyond;
        }
    }
    size_t d = row[s.n];
    free(row);
    return d;
}

static size_t longer(size_t a, size_t b) { return a > b ? a : b; }

static double similarity(struct grading *g, struct runes mine, const char *gold)
{
    bool paper = strcmp(g->extract, "paper") == 0;
    struct runes raw = runes_from(g->a, gold), theirs = runes_collapse(g->a, runes_lower(g->a, raw));
    size_t length = paper ? longer(mine.n, theirs.n) : longer(runes_upper_length(raw), runes_upper_length(g->text));
    if (length == 0)
        return 1;
    size_t d = distance_within(mine, theirs, length / 2 + 1);
    double score = 1 - (double)d / (double)length;
    return score < 0.5 || (paper && score <= 0.5) ? 0 : score;
}

void grade_anls(struct grading *g)
{
    struct runes mine = runes_collapse(g->a, runes_lower(g->a, g->text));
    double best = 0;
    for (int i = 0; i < g->in->n_gold; i++) {
        double score = similarity(g, mine, g->in->gold[i]);
        best = score > best ? score : best;
    }
    if (mine.n || best > 0)
        verdict_answer(g, runes_text(g->a, runes_trim(g->text)), "ANLS", best >= 0.5);
    else
        verdict_unparsed(g, "empty");
    g->v->score = best;
}
