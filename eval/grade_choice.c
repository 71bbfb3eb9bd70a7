/* The letter (or digit) of a multiple-choice answer: nine rules, the first that fits decides. No harness has an
 * official rule for generated answers; these read what people write and never guess. */
#include "eval/graders.h"

#include <string.h>

static const char bare_strip[] = "*_`()[]{}.:;,\"'$<>!";

/* ---- 0: clean -------------------------------------------------------------------------------------------------- */

/* Behind a tag such as <b> or </span class=x>, or i if there is none. `no_close` is where no '>' follows any more. */
static size_t skip_tag(struct runes s, size_t i, size_t *no_close)
{
    static const char *const names[] = {"br", "b", "i", "u", "em", "strong", "p", "span"};
    size_t at = i + 1;
    if (rune_at(s, i) != '<' || i >= *no_close)
        return i;
    take(s, &at, "/");
    bool known = false;
    for (size_t k = 0; k < sizeof names / sizeof names[0] && !known; k++) {
        size_t end = at;
        if (take_any_case(s, &end, names[k]) && !uni_word(rune_at(s, end))) {
            known = true;
            at = end;
        }
    }
    if (!known)
        return i;
    while (at < s.n && s.at[at] != '>')
        at++;
    if (at == s.n)
        *no_close = i;
    return at == s.n ? i : at + 1;
}

static struct runes without_tags(struct arena *a, struct runes s)
{
    struct runes out = {.at = ARENA_NEW(a, uint32_t, s.n + 1), .cap = s.n + 1};
    size_t no_close = s.n;
    for (size_t i = 0; i < s.n;) {
        size_t end = skip_tag(s, i, &no_close);
        if (end > i)
            i = end;
        else
            out.at[out.n++] = s.at[i++];
    }
    return runes_trim(out);
}

/* ---- 1: bare --------------------------------------------------------------------------------------------------- */

static struct runes strip_bare(struct runes s)
{
    while (s.n && (uni_space(s.at[0]) || in_set(s.at[0], bare_strip)))
        s.at++, s.n--;
    while (s.n && (uni_space(s.at[s.n - 1]) || in_set(s.at[s.n - 1], bare_strip)))
        s.n--;
    return s;
}

static int bare(struct runes s, const struct labels *l)
{
    int found = -1;
    struct runes word;
    for (size_t at = 0; runes_word(s, &at, &word);) {
        word = strip_bare(word);
        if (word.n == 0)
            continue;
        int k = find_label(word, l);
        if (k < 0 || (found >= 0 && k != found))
            return -1;
        found = k;
    }
    return found;
}

/* ---- 2: phrase ------------------------------------------------------------------------------------------------- */

/* answer | option | choice, is / would be / should be, colon, "option", decoration: up to where the label stands.
 * *shortest is the first place where it could (decoration may belong to an unusual label). */
static bool take_head(struct runes s, size_t *i, size_t *shortest)
{
    size_t at = *i;
    if (!uni_boundary(s, at) || !(take_any_case(s, &at, "answer") || take_any_case(s, &at, "option") ||
                                  take_any_case(s, &at, "choice")) || !uni_boundary(s, at))
        return false;
    size_t verb = skip_space(s, at);
    if (verb > at) {
        size_t end = verb, be;
        if (take_any_case(s, &end, "is")) {
            at = end;
        } else if (take_any_case(s, &end, "would") || take_any_case(s, &end, "should")) {
            be = skip_space(s, end);
            if (be > end && take_any_case(s, &be, "be"))
                at = be;
        }
    }
    at = skip_space(s, at);
    if (in_set(rune_at(s, at), ":="))
        at++;
    at = skip_space(s, at);
    size_t word = at;
    if ((take_any_case(s, &word, "option") || take_any_case(s, &word, "choice")) && skip_space(s, word) > word)
        at = skip_space(s, word);
    *shortest = at;
    *i = skip_set(s, at, "*_`\"'([{\\$");
    return true;
}

/* l: the same label in lower case, which counts only where its line ends. */
static int take_lower_label(struct runes s, size_t *i, const struct labels *l)
{
    for (int k = 0; k < l->n; k++) {
        size_t at = *i;
        if (!take_runes(s, &at, l->lower[k]))
            continue;
        size_t end = skip_set(s, at, ")].,;:*}\"'`$"), line = end;
        bool ends = false;
        while (line < s.n && uni_space(s.at[line]) && !ends)
            ends = s.at[line++] == '\n';
        if (ends || line == s.n) {
            *i = at;
            return k;
        }
    }
    return -1;
}

typedef int (*label_matcher)(struct runes, size_t *, const struct labels *);

/* The last match of head and label; *end is behind it. */
static int last_phrase(struct runes s, const struct labels *l, label_matcher matcher, size_t *end)
{
    int found = -1;
    for (size_t i = 0; i < s.n;) {
        size_t at = i, shortest;
        int k = -1;
        if (take_head(s, &at, &shortest)) {
            size_t boxed = at;
            if (take(s, &boxed, "boxed{"))
                k = matcher(s, &boxed, l);
            if (k >= 0)
                at = boxed;
            for (size_t from = at; k < 0; from--) {
                size_t here = from;
                k = matcher(s, &here, l);
                if (k >= 0)
                    at = here;
                if (from == shortest)
                    break;
            }
        }
        if (k >= 0) {
            found = k;
            *end = at;
        }
        i = k >= 0 ? at : i + 1;
    }
    return found;
}

/* "B or C": a second label joined to the first. */
static bool joined_to_another(struct runes s, size_t i, const struct labels *l)
{
    i = skip_space(s, skip_set(s, i, ")]}*_`\"'"));
    if (!take(s, &i, "or") && !take(s, &i, "and") && !take(s, &i, "/") && !take(s, &i, "&"))
        return false;
    i = skip_set(s, skip_space(s, i), "([*");
    return take_label(s, &i, l) >= 0;
}

/* ---- 3 to 7 ---------------------------------------------------------------------------------------------------- */

static int boxed(struct runes s, const struct labels *l)
{
    int found = -1;
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (s.at[i] != '\\' || !take(s, &at, "\\boxed{"))
            continue;
        at = skip_space(s, at);
        take(s, &at, "\\text{");
        take(s, &at, "(");
        int k = -1;
        for (int j = 0; j < l->n && k < 0; j++) {
            size_t end = at;
            if (take_runes(s, &end, l->label[j])) {
                take(s, &end, ")");
                k = take(s, &end, "}") ? j : -1;
            }
        }
        found = k >= 0 ? k : found;
    }
    return found;
}

/* Index of the label in "(X)" (or "[X]") at i, or -1. */
static int enclosed(struct runes s, size_t i, const char *open, const char *close, const struct labels *l)
{
    if (!take(s, &i, open))
        return -1;
    for (int k = 0; k < l->n; k++) {
        size_t at = i;
        if (take_runes(s, &at, l->label[k]) && take(s, &at, close))
            return k;
    }
    return -1;
}

enum { NONE = -1, SEVERAL = -2 };
static int parenthesised(struct runes s, const struct labels *l)
{
    int found = NONE;
    for (size_t i = 0; i < s.n; i++) {
        int k = s.at[i] == '(' ? enclosed(s, i, "(", ")", l) : -1;
        if (k >= 0 && found >= 0 && k != found)
            return SEVERAL;
        found = k >= 0 ? k : found;
    }
    return found;
}

/* Behind a leading label: punctuation that is not a decimal point, the end of the line, or " -". */
static bool ends_label(struct runes s, size_t i)
{
    i = skip_set(s, i, "*_`");
    if (in_set(rune_at(s, i), ").:,;"))
        return uni_digit(rune_at(s, i + 1)) < 0;
    size_t at = i;
    while (at < s.n && uni_space(s.at[at]))
        if (s.at[at++] == '\n')
            return true;
    return at == s.n || (at > i && s.at[at] == '-');
}

static int leading(struct runes s, const struct labels *l)
{
    size_t i = 0;
    while (i < s.n && (uni_space(s.at[i]) || in_set(s.at[i], "*_`\"'")))
        i++;
    int k = enclosed(s, i, "(", ")", l);
    if (k < 0)
        k = enclosed(s, i, "[", "]", l);
    for (int j = 0; k < 0 && j < l->n; j++) {
        size_t at = i;
        if (take_runes(s, &at, l->label[j]) && ends_label(s, at))
            k = j;
    }
    return k;
}

static int last_line(struct runes s, const struct labels *l)
{
    size_t start = s.n;
    while (start > 0 && s.at[start - 1] != '\n')
        start--;
    struct runes line = strip_bare(runes_part(s, start, s.n));
    for (int k = 0; k < l->n; k++)
        if (runes_equal(line, l->label[k]))
            return k;
    return -1;
}

static bool has_phrase(struct runes s, struct runes phrase)
{
    for (size_t i = 0; phrase.n && i + phrase.n <= s.n; i++) {
        size_t end = i;
        if (s.at[i] == phrase.at[0] && (i == 0 || !uni_word(s.at[i - 1])) && take_runes(s, &end, phrase) &&
            !uni_word(rune_at(s, end)))
            return true;
    }
    return false;
}

static int option_text(struct grading *g, struct runes s, const struct labels *l)
{
    int found = NONE;
    struct runes text = runes_collapse(g->a, runes_lower(g->a, s));
    for (int k = 0; k < l->n && l->text; k++) {
        struct runes option = runes_collapse(g->a, runes_lower(g->a, runes_from(g->a, l->text[k])));
        if (!has_phrase(text, option))
            continue;
        if (found >= 0)
            return SEVERAL;
        found = k;
    }
    return found;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static void decide(struct grading *g, struct runes s, const struct labels *l)
{
    size_t end = 0;
    int k = bare(s, l), in_parentheses;
    if (k >= 0) {
        verdict_option(g, l, k, "bare");
        return;
    }
    k = last_phrase(s, l, take_label, &end);
    if (k < 0)
        k = last_phrase(s, l, take_lower_label, &end);
    if (k >= 0) {
        if (joined_to_another(s, end, l))
            verdict_unparsed(g, "ambiguous");
        else
            verdict_option(g, l, k, "phrase");
        return;
    }
    in_parentheses = parenthesised(s, l);
    if ((k = boxed(s, l)) >= 0)
        verdict_option(g, l, k, "boxed");
    else if (in_parentheses != SEVERAL && (k = leading(s, l)) >= 0)
        verdict_option(g, l, k, "leading");
    else if ((k = last_line(s, l)) >= 0)
        verdict_option(g, l, k, "last_line");
    else if (in_parentheses >= 0)
        verdict_option(g, l, in_parentheses, "parenthesised");
    else if ((k = option_text(g, s, l)) >= 0)
        verdict_option(g, l, k, "option_text");
    else
        verdict_unparsed(g, "unparsed");
}

void grade_choice(struct grading *g)
{
    struct labels l = grade_labels(g->in, g->a);
    struct runes s = without_tags(g->a, g->text);
    if (s.n == 0)
        verdict_unparsed(g, "empty");
    else
        decide(g, s, &l);
}
