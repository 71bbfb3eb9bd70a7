/* lmms-eval, as of August 2026: its reader of choices, and the tasks mmbench_en_dev (before the judge) and mmau. */
#include "eval/peers.h"

#include <string.h>

/* str.strip(c) for each c of the list in turn, in blanks. */
static struct runes stripped(struct arena *a, struct runes s, const char *set)
{
    struct runes out = {0};
    for (; *set; set++) {
        while (s.n && s.at[0] == (uint8_t)*set)
            s.at++, s.n--;
        while (s.n && s.at[s.n - 1] == (uint8_t)*set)
            s.n--;
    }
    runes_put(a, &out, ' ');
    runes_add(a, &out, s);
    runes_put(a, &out, ' ');
    return out;
}

/* Last place of label k between two texts, or -1. */
static int64_t last_place(struct runes s, const char *before, struct runes label, const char *behind)
{
    int64_t place = -1;
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (take(s, &at, before) && take_runes(s, &at, label) && take(s, &at, behind))
            place = (int64_t)i;
    }
    return place;
}

static int64_t first_place(struct runes s, size_t from, struct runes what)
{
    for (size_t i = from; i < s.n; i++) {
        size_t at = i;
        if (take_runes(s, &at, what))
            return (int64_t)i;
    }
    return -1;
}

/* ---- any choice ------------------------------------------------------------------------------------------------ */

static const char *const announcements[] = {
    "the answer is", "answer is", "the correct answer is", "correct answer is", "the best answer is", "best answer is",
    "the correct option is", "correct option is", "the best option is", "best option is", "the choice is", "choice is",
    "the correct choice is", "correct choice is", "i choose", "i select", "i pick", "my answer is", "my choice is",
    "옵션", "정답은", "답은", "답:", "答案是", "答案为", "选", "答えは"};

struct candidate { int label, priority; int64_t place; };

static void propose(struct candidate *best, int label, int priority, int64_t place)
{
    if (place >= 0 && (priority > best->priority || (priority == best->priority && place > best->place)))
        *best = (struct candidate){label, priority, place};
}

/* The label in the form of the highest priority; of several in that form the one that stands last. -1: none. */
static int pick_choice(const struct peer_view *p)
{
    static const struct { const char *before, *behind; int priority; } forms[] = {
        {"(", ")", 6}, {"", ".", 5}, {"", ":", 4}, {"", ")", 3}, {"", " ", 2}};
    const struct labels *l = &p->labels;
    struct runes trimmed = runes_trim(p->text);
    struct candidate best = {-1, -1, -1};
    if (!trimmed.n)
        return -1;
    struct runes s = stripped(p->a, trimmed, ",.!?;:'\""), lower = runes_lower(p->a, s), inner = runes_trim(s);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int k = 0; k < l->n; k++)
            propose(&best, k, forms[f].priority, last_place(s, forms[f].before, l->label[k], forms[f].behind));
    for (size_t f = 0; f < sizeof announcements / sizeof *announcements; f++) {
        struct runes phrase = runes_from(p->a, announcements[f]);
        int64_t at = first_place(lower, 0, phrase);
        for (int k = 0; k < l->n && at >= 0; k++)
            propose(&best, k, 7, first_place(s, (size_t)at + phrase.n, l->label[k]));
    }
    for (int k = 0; k < l->n; k++) {
        size_t start = 0, end = inner.n - (l->label[k].n < inner.n ? l->label[k].n : inner.n);
        if (take_runes(inner, &start, l->label[k]) && (inner.n == 1 || !uni_letter(inner.at[1])))
            propose(&best, k, 10, 0);
        if (take_runes(inner, &end, l->label[k]) && end == inner.n && (end == 1 || !uni_letter(inner.at[end - 2])))
            propose(&best, k, 9, (int64_t)s.n - 1);
    }
    for (int k = 0; k < l->n && best.priority <= 0; k++)
        propose(&best, k, 0, last_place(s, "", l->label[k], ""));
    return best.label;
}

static const char *choice(const struct peer_view *p, int k, bool *correct)
{
    *correct = k >= 0 && k == p->gold;
    return k < 0 ? NULL : runes_text(p->a, p->labels.label[k]);
}

const char *lmms_choice(const struct peer_view *p, bool *correct) { return choice(p, pick_choice(p), correct); }

/* ---- MMBench --------------------------------------------------------------------------------------------------- */

enum { LETTERS = 5 };           /* A to E, however many options there are */

/* The only letter that, with these signs around it, is a word of the answer; -1: none or several. */
static int only_letter(struct runes s, const char *before, const char *behind, bool *has_a, int *words)
{
    bool there[LETTERS] = {false};
    struct runes word;
    *words = 0;
    for (size_t at = 0; runes_word(s, &at, &word); ++*words)
        for (int k = 0; k < LETTERS; k++) {
            const char letter[] = {(char)('A' + k), 0};
            size_t i = 0;
            there[k] |= take(word, &i, before) && take(word, &i, letter) && take(word, &i, behind) && i == word.n;
        }
    int n = 0, found = -1;
    for (int k = 0; k < LETTERS; k++)
        if (there[k]) {
            n++;
            found = k;
        }
    *has_a = there[0];
    return n == 1 ? found : -1;
}

static int infer_option(const struct peer_view *p)
{
    static const struct { const char *before, *behind; } forms[] = {
        {"", "."}, {"", ","}, {"", ":"}, {"", ")"}, {"", ")."}, {"(", ")"}, {"(", ")."}, {":", ""}, {":", ","},
        {":", "."}, {":", ")"}, {":", ")."}};
    bool has_a, unused;
    int words, found = only_letter(p->text, "", "", &has_a, &words);
    if (found >= 0 && !(has_a && words > 3))        /* that A may be an article */
        return found;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        if ((found = only_letter(p->text, forms[f].before, forms[f].behind, &unused, &words)) >= 0)
            return found;
    return -1;
}

static int infer_text(const struct peer_view *p)
{
    const struct labels *l = &p->labels;
    struct runes s = runes_lower(p->a, p->text);
    int n = 0, found = -1;
    for (int k = 0; k < l->n && k < 4 && l->text; k++) {
        struct runes option = runes_lower(p->a, runes_from(p->a, l->text[k]));
        if (option.n == 0 || first_place(s, 0, option) >= 0) {
            n++;
            found = k;
        }
    }
    return n == 1 ? found : -1;
}

const char *lmms_mmbench(const struct peer_view *p, bool *correct)
{
    int k = infer_option(p);
    k = k >= 0 ? k : infer_text(p);
    const char letter[] = {(char)('A' + (k < 0 ? 0 : k)), 0};
    *correct = k >= 0 && k == p->gold;
    return k < 0 ? NULL : arena_strndup(p->a, letter, 1);
}

/* ---- MMAU ------------------------------------------------------------------------------------------------------ */

/* Only A to D are looked for; where it would choose at random, nothing. */
const char *lmms_mmau(const struct peer_view *p, bool *correct)
{
    static const struct { const char *before, *behind; } forms[] = {{"(", ")"}, {" ", " "}, {"", "."}};
    struct runes s = stripped(p->a, p->text, ",.!?;:'");
    int found = -1;
    for (size_t f = 0; f < 3 && found < 0; f++) {
        int64_t latest = -2;
        for (int k = 0; k < 4; k++) {
            const char text[] = {(char)('A' + k), 0};
            struct runes letter = runes_from(p->a, text);
            if (last_place(s, forms[f].before, letter, forms[f].behind) < 0)
                continue;
            int64_t place = last_place(s, " ", letter, " ");        /* of several the last that stands alone */
            if (place > latest) {
                latest = place;
                found = k;
            }
        }
    }
    *correct = found >= 0 && found == p->gold;
    const char letter[] = {(char)('A' + (found < 0 ? 0 : found)), 0};
    return found < 0 ? NULL : arena_strndup(p->a, letter, 1);
}
