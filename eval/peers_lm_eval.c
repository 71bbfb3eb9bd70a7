/* lm-evaluation-harness 0.4.13: tasks mmlu_*_generative, mmlu_flan_n_shot_generative, mmlu_flan_cot_zeroshot,
 * arc_challenge_chat, gsm8k_cot, gsm8k_cot_llama and chartqa. An output that went on where the harness would have
 * stopped is cut there. */
#include "eval/graders.h"
#include "eval/peers.h"

#include <math.h>
#include <string.h>

#define PUNCTUATION "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"         /* string.punctuation */

/* Where `what` begins at or behind `from`, or the end. */
static size_t find(struct runes s, size_t from, const char *what)
{
    size_t i = from;
    for (size_t at = i; i < s.n && !take(s, &at, what); at = i)
        i++;
    return i < s.n ? i : s.n;
}

static struct runes up_to(struct runes s, const char *stop) { return runes_part(s, 0, find(s, 0, stop)); }

/* exact_match with ignore_case and ignore_punctuation. */
static bool same_letters(const struct peer_view *p, struct runes answer, struct runes gold)
{
    struct runes kept = {0};
    answer = runes_lower(p->a, answer);
    for (size_t i = 0; i < answer.n; i++)
        if (!in_set(answer.at[i], PUNCTUATION))
            runes_put(p->a, &kept, answer.at[i]);
    return runes_equal(kept, runes_lower(p->a, gold));
}

/* ---- multiple choice ------------------------------------------------------------------------------------------- */

/* The letter by its place, whatever the labels are. */
static struct runes letter(struct arena *a, int k)
{
    const char text[] = {(char)('A' + k), 0};
    return runes_from(a, text);
}

const char *lm_eval_first_line(const struct peer_view *p, bool *correct)
{
    struct runes line = runes_trim(up_to(p->text, "\n"));
    *correct = p->gold >= 0 && same_letters(p, line, letter(p->a, p->gold));
    return runes_text(p->a, line);
}

const char *lm_eval_arc_chat(const struct peer_view *p, bool *correct)
{
    struct runes answer = runes_trim(up_to(up_to(p->text, "\n\n"), "."));
    *correct = p->gold >= 0 && same_letters(p, answer, letter(p->a, p->gold));
    return runes_text(p->a, answer);
}

static struct runes in_parentheses(struct arena *a, int k)
{
    struct runes out = {0};
    runes_put(a, &out, '(');
    runes_put(a, &out, (uint32_t)('A' + k));
    runes_put(a, &out, ')');
    return out;
}

/* An option's text as the flexible filter looks for it: lower case, no punctuation. */
static struct runes bare_text(struct arena *a, struct runes s)
{
    struct runes out = {0};
    s = runes_lower(a, s);
    for (size_t i = 0; i < s.n; i++)
        if (!uni_punctuation(s.at[i]))
            runes_put(a, &out, s.at[i]);
    return out;
}

/* The first or last match of text0|text1|..., found as re.findall does: from left to right, the first option that
 * fits, an empty one only where no other match ended... which is then no answer. */
static struct runes find_text(struct runes s, const struct runes *text, int n, bool last)
{
    struct runes found = {0};
    bool advance = false;       /* an empty match was taken here: the next one must not be empty */
    for (size_t i = 0; i <= s.n;) {
        int k = 0;
        size_t end = i;
        while (k < n && !(text[k].n ? take_runes(s, &end, text[k]) : !advance))
            k++;
        if (k == n) {
            i++;
            advance = false;
            continue;
        }
        found = text[k];
        if (!last)
            break;
        advance = text[k].n == 0;
        i = end;
    }
    return runes_trim(found);
}

/* A letter in parentheses; else an option's text; else a letter behind a colon. */
static const char *flexible(const struct peer_view *p, struct runes s, bool last)
{
    const struct labels *l = &p->labels;
    struct runes found = {0};
    for (size_t i = 0; i + 2 < s.n && !(found.n && !last); i++)
        if (s.at[i] == '(' && s.at[i + 1] >= 'A' && s.at[i + 1] <= 'Z' && s.at[i + 2] == ')')
            found = runes_part(s, i, i + 3);
    if (!found.n && l->text) {
        struct runes *text = ARENA_NEW(p->a, struct runes, l->n + 1);
        for (int k = 0; k < l->n; k++)
            text[k] = bare_text(p->a, runes_trim(runes_from(p->a, l->text[k])));
        struct runes option = find_text(bare_text(p->a, s), text, l->n, last);
        found = option;
        for (int k = 0; k < l->n && option.n; k++)
            if (runes_equal(option, text[k]))
                found = in_parentheses(p->a, k);
    }
    for (size_t i = 0, mark = !found.n; mark && i < s.n && !(found.n && !last); i++) {
        size_t at = s.at[i] == ':' ? skip_space(s, i + 1) : s.n;
        if (at < s.n && s.at[at] >= 'A' && s.at[at] < 'A' + (uint32_t)l->n)
            found = in_parentheses(p->a, (int)(s.at[at] - 'A'));
    }
    return found.n ? runes_text(p->a, found) : NULL;
}

const char *lm_eval_flan(const struct peer_view *p, bool *correct)
{
    struct runes line = up_to(up_to(p->text, "\n"), "Q:");
    *correct = p->gold >= 0 && runes_equal(line, in_parentheses(p->a, p->gold));
    return runes_text(p->a, line);
}

const char *lm_eval_flan_flexible(const struct peer_view *p, bool *correct)
{
    const char *answer = flexible(p, up_to(up_to(p->text, "\n"), "Q:"), false);
    *correct = answer && p->gold >= 0 && runes_equal(runes_from(p->a, answer), in_parentheses(p->a, p->gold));
    return answer;
}

const char *lm_eval_flan_cot_flexible(const struct peer_view *p, bool *correct)
{
    const char *answer = flexible(p, up_to(p->text, "Q:"), true);
    *correct = answer && p->gold >= 0 && same_letters(p, runes_from(p->a, answer), letter(p->a, p->gold));
    return answer;
}

/* Behind the first "answer is ", "The answer: " or "The final answer: " that something follows: the line without its
 * last character. */
const char *lm_eval_flan_cot(const struct peer_view *p, bool *correct)
{
    static const char *const heads[] = {"answer is ", "The answer: ", "The final answer: "};
    struct runes s = up_to(p->text, "Q:");
    *correct = false;
    for (size_t i = 0; i < s.n; i++)
        for (size_t k = 0; k < 3; k++) {
            size_t at = i, end;
            if (!take(s, &at, heads[k]) || (end = find(s, at, "\n")) == at)
                continue;
            struct runes found = runes_part(s, at, end - 1);
            if (!found.n)
                return NULL;
            found = runes_trim(found);
            *correct = p->gold >= 0 && same_letters(p, found, letter(p->a, p->gold));
            return runes_text(p->a, found);
        }
    return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static bool number_char(uint32_t c) { return (c >= '0' && c <= '9') || c == '.' || c == ','; }

static bool exactly(const struct peer_view *p, const char *answer)
{
    return answer && strcmp(exact_form(p->a, answer), exact_form(p->a, p->in->gold[0])) == 0;
}

/* First `The answer is (-?[0-9.,]+).`, where the final period stands for any character. */
const char *lm_eval_gsm8k_cot(const struct peer_view *p, bool *correct)
{
    struct runes s = up_to(p->text, "Q:");
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (!take(s, &at, "The answer is "))
            continue;
        size_t start = at, digits;
        take(s, &at, "-");
        for (digits = at; number_char(rune_at(s, at));)
            at++;
        at -= at > digits && (at == s.n || s.at[at] == '\n');       /* one is given back for the final period */
        if (at == digits)
            continue;
        const char *answer = runes_text(p->a, runes_part(s, start, at));
        *correct = exactly(p, answer);
        return answer;
    }
    *correct = false;
    return NULL;
}

/* Last `The final answer is ` with a number as the flexible filter reads it. */
const char *lm_eval_gsm8k_llama(const struct peer_view *p, bool *correct)
{
    struct runes s = up_to(p->text, "Q:"), found = {0};
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i, end;
        if (!take(s, &at, "The final answer is "))
            continue;
        end = at;
        take(s, &end, "-");
        size_t start = end;
        while (number_char(rune_at(s, end)) || rune_at(s, end) == '$')
            end++;
        if (end >= start + 2 || (end == start + 1 && s.at[start] >= '0' && s.at[start] <= '9'))
            found = runes_part(s, at, end);
    }
    const char *answer = found.n ? runes_text(p->a, found) : NULL;
    *correct = exactly(p, answer);
    return answer;
}

/* ---- charts ---------------------------------------------------------------------------------------------------- */

/* The line that holds the answer: behind the last "answer:", markdown aside. */
static struct runes final_answer(const struct peer_view *p)
{
    struct runes s = {0}, answer = {0};
    for (size_t i = 0; i < p->text.n; i++) {        /* "answer**:**" becomes "answer:" */
        size_t at = i + 1;
        runes_put(p->a, &s, p->text.at[i]);
        if (!in_set(p->text.at[i], "aA") || !take(p->text, &at, "nswer"))
            continue;
        size_t colon = skip_set(p->text, at, "*");
        runes_puts(p->a, &s, "nswer");
        if (rune_at(p->text, colon) == ':') {
            runes_put(p->a, &s, ':');
            at = skip_set(p->text, colon + 1, "*");
        }
        i = at - 1;
    }
    struct runes lower = runes_lower(p->a, s);
    size_t from = s.n + 1;
    for (size_t i = 0; i < lower.n; i++) {
        size_t at = i;
        if (take(lower, &at, "answer:"))
            from = at;
    }
    if (from > s.n)
        return answer;
    struct runes rest = runes_trim(runes_part(s, from, s.n)), line = runes_trim(up_to(rest, "\n"));
    for (size_t i = 0; i < line.n; i++)
        if (!in_set(line.at[i], "*_[]()"))
            runes_put(p->a, &answer, line.at[i]);
    return answer;
}

/* With digits: end punctuation, commas and dollars go. Without: quotes around it. */
static struct runes chart_form(struct arena *a, struct runes s)
{
    bool digits = false;
    for (size_t i = 0; i < s.n && !digits; i++)
        digits = uni_digit(s.at[i]) >= 0;
    if (!digits && s.n && in_set(s.at[0], "\"'") && s.at[s.n - 1] == s.at[0])
        return s.n > 1 ? runes_part(s, 1, s.n - 1) : runes_part(s, 0, 0);
    if (!digits)
        return s;
    while (s.n && s.at[s.n - 1] != '%' && (in_set(s.at[s.n - 1], PUNCTUATION) || uni_space(s.at[s.n - 1])))
        s.n--;
    struct runes out = {0};
    for (size_t i = 0; i < s.n; i++)
        if (!in_set(s.at[i], ",$"))
            runes_put(a, &out, s.at[i]);
    return out;
}

static bool chart_number(struct arena *a, struct runes s, double *value, bool *percent)
{
    s = runes_trim(s);
    *percent = s.n && s.at[s.n - 1] == '%';
    while (s.n && s.at[s.n - 1] == '%')
        s.n--;
    return read_float(a, s, value);
}

static bool close_to(double mine, double theirs)
{
    return fabs(mine - theirs) / fmax(fabs(theirs), 1e-10) <= 0.05;
}

const char *lm_eval_chartqa(const struct peer_view *p, bool *correct)
{
    struct runes found = final_answer(p), mine = chart_form(p->a, found);
    struct runes gold = chart_form(p->a, runes_from(p->a, p->in->gold[0]));
    double x, y;
    bool x_percent, y_percent;
    *correct = false;
    if (!found.n)
        return NULL;
    if (chart_number(p->a, mine, &x, &x_percent) && chart_number(p->a, gold, &y, &y_percent)) {
        *correct = close_to(x, y) || close_to(x_percent ? x / 100 : x, y) || close_to(x, y_percent ? y / 100 : y);
    } else if (gold.n == 1 && uni_letter(gold.at[0]) && mine.n) {
        *correct = uni_lower(mine.at[0]) == uni_lower(gold.at[0]);
    } else {
        while (mine.n && in_set(mine.at[mine.n - 1], PUNCTUATION))
            mine.n--;
        *correct = runes_equal(runes_lower(p->a, mine), runes_lower(p->a, gold));
    }
    return runes_text(p->a, found);
}
