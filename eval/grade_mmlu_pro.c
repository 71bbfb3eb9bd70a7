/* MMLU-Pro's own three levels of extraction; lm-eval has the first only. Its last resort, a random guess, is left
 * out. */
#include "eval/graders.h"

#include <string.h>

static bool choice_letter(uint32_t c) { return c >= 'A' && c <= 'J'; }

/* First `answer is \(?([A-J])\)?`; 0 if there is none. */
static uint32_t answer_is(struct runes s)
{
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (s.at[i] != 'a' || !take(s, &at, "answer is "))
            continue;
        take(s, &at, "(");
        if (choice_letter(rune_at(s, at)))
            return s.at[at];
    }
    return 0;
}

/* `.*[aA]nswer:\s*([A-J])`: the last one of the first line that has one. */
static uint32_t answer_colon(struct runes s)
{
    uint32_t found = 0;
    for (size_t i = 0; i < s.n && !(s.at[i] == '\n' && found); i++) {
        size_t at = i + 1;
        if ((s.at[i] != 'a' && s.at[i] != 'A') || !take(s, &at, "nswer:"))
            continue;
        at = skip_space(s, at);
        if (choice_letter(rune_at(s, at)))
            found = s.at[at];
    }
    return found;
}

/* The last letter that stands alone. */
static uint32_t last_letter(struct runes s)
{
    for (size_t i = s.n; i > 0; i--)
        if (choice_letter(s.at[i - 1]) && uni_boundary(s, i - 1) && uni_boundary(s, i))
            return s.at[i - 1];
    return 0;
}

void grade_mmlu_pro(struct grading *g)
{
    if (strcmp(g->extract, "lenient") == 0) {
        grade_choice(g);
        return;
    }
    const char *rule = "answer is (X)";
    uint32_t letter = answer_is(g->text);
    bool all_levels = strcmp(g->extract, "official") == 0;
    if (!letter && all_levels) {
        rule = "answer: X";
        letter = answer_colon(g->text);
    }
    if (!letter && all_levels) {
        rule = "last letter";
        letter = last_letter(g->text);
    }
    if (!letter) {
        verdict_unparsed(g, "unparsed");
        return;
    }
    struct labels l = grade_labels(g->in, g->a);
    struct runes one = {.at = &letter, .n = 1};
    int k = find_label(one, &l);
    if (k >= 0)
        verdict_option(g, &l, k, rule);
    else                                    /* a letter that this question does not have */
        verdict_answer(g, runes_text(g->a, one), rule, false);
}
