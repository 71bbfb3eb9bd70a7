/* MMBench: VLMEvalKit's rule-based stage, which precedes its judge model. What it would send to the judge is
 * unparsed. */
#include "eval/graders.h"

#include <string.h>

enum { NOTHING = -1, REFUSED = -2 };

static bool contains(struct runes s, const char *ascii)
{
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (take(s, &at, ascii))
            return true;
    }
    return false;
}

static bool refuses(struct runes s)
{
    return contains(s, "Sorry, I can't help with images of people yet.") || contains(s, "I can't process this file.") ||
           contains(s, "I'm sorry, but without the image provided") || contains(s, "Cannot determine the answer");
}

/* Exactly one label among the words, and that among the last four; a word Z alone is a refusal. */
static int lone_label(struct grading *g, const struct labels *l)
{
    struct runes s = {.at = ARENA_NEW(g->a, uint32_t, g->text.n + 1), .n = g->text.n}, word;
    for (size_t i = 0; i < s.n; i++)
        s.at[i] = in_set(g->text.at[i], ".()[],:;!*#{}") ? ' ' : g->text.at[i];
    size_t *first = ARENA_NEW(g->a, size_t, l->n + 1), n = 0;       /* word number of the label's first place, from 1 */
    bool z = false;
    for (size_t at = 0; runes_word(s, &at, &word);) {
        n++;
        for (int k = 0; k < l->n; k++)
            if (!first[k] && runes_equal(word, l->label[k]))
                first[k] = n;
        z |= runes_is(word, "Z");
    }
    int count = 0, found = NOTHING;
    for (int k = 0; k < l->n; k++)
        if (first[k]) {
            count++;
            found = first[k] + 4 > n ? k : NOTHING;
        }
    return count == 1 ? found : count == 0 && z ? REFUSED : NOTHING;
}

/* `answer\s+is\s+\**([ABCD])` in any case, the first one. */
static int answer_is(struct runes s, const struct labels *l)
{
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (!take_any_case(s, &at, "answer"))
            continue;
        size_t is = skip_space(s, at), letter;
        if (is == at || !take_any_case(s, &is, "is") || (letter = skip_space(s, is)) == is)
            continue;
        letter = skip_set(s, letter, "*");
        uint32_t c = rune_at(s, letter) & ~(uint32_t)0x20;
        if (c < 'A' || c > 'D')
            continue;
        for (int k = 0; k < l->n; k++)
            if (l->label[k].n == 1 && l->label[k].at[0] == c)
                return k;
        return NOTHING;
    }
    return NOTHING;
}

/* The only option whose text occurs, unless the answer is over twice as long as all options together. */
static int option_text(struct grading *g, const struct labels *l)
{
    struct runes s = runes_lower(g->a, g->text);
    size_t total = 0;
    int found = NOTHING, count = 0;
    struct runes *option = ARENA_NEW(g->a, struct runes, l->n + 1);
    for (int k = 0; k < l->n && l->text; k++) {
        option[k] = runes_from(g->a, l->text[k]);
        total += option[k].n;
        option[k] = runes_lower(g->a, option[k]);
    }
    if (s.n > 2 * total)
        return NOTHING;
    for (int k = 0; k < l->n; k++) {
        bool occurs = false;
        for (size_t i = 0; i < s.n && option[k].n && !occurs; i++) {
            size_t at = i;
            occurs = s.at[i] == option[k].at[0] && take_runes(s, &at, option[k]);
        }
        count += occurs;
        found = occurs ? k : found;
    }
    return count == 1 ? found : NOTHING;
}

void grade_mmbench(struct grading *g)
{
    struct labels l = grade_labels(g->in, g->a);
    if (contains(g->text, "Failed to obtain answer via API")) {
        verdict_unparsed(g, "API failure");
        return;
    }
    int k = refuses(g->text) ? REFUSED : lone_label(g, &l);
    const char *rule = "lone label";
    if (k == NOTHING) {
        rule = "answer is X";
        k = answer_is(g->text, &l);
    }
    if (k == NOTHING) {
        rule = "option text";
        k = option_text(g, &l);
    }
    verdict_option(g, &l, k, k == NOTHING ? "unparsed" : rule);
    if (k == REFUSED) {
        g->v->status = GRADE_REFUSED;
        g->v->rule = "refusal";
    }
}
