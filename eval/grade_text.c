/* Free text against accepted answers: equal in any case, blanks aside. */
#include "eval/graders.h"

static struct runes plain(struct arena *a, const char *s)
{
    return runes_collapse(a, runes_lower(a, runes_from(a, s)));
}

void grade_text(struct grading *g)
{
    struct runes answer = runes_trim(g->text);
    if (answer.n == 0) {
        verdict_unparsed(g, "empty");
        return;
    }
    struct runes mine = runes_collapse(g->a, runes_lower(g->a, answer));
    bool correct = false;
    for (int i = 0; i < g->in->n_gold && !correct; i++)
        correct = runes_equal(mine, plain(g->a, g->in->gold[i]));
    verdict_answer(g, runes_text(g->a, answer), "same text", correct);
}
