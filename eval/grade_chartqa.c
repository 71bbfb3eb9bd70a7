/* ChartQA's relaxed correctness: 5% of the gold for numbers as Python's float() reads them, else the same text. */
#include "eval/graders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ASCII with every digit of any script as 0-9 and underscores between digits dropped; NULL if that is no number. */
static char *plain_number(struct arena *a, struct runes s)
{
    s = runes_trim(s);
    char *out = ARENA_NEW(a, char, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        int digit = uni_digit(s.at[i]);
        if (s.at[i] == '_') {
            if (i == 0 || uni_digit(s.at[i - 1]) < 0 || i + 1 == s.n || uni_digit(s.at[i + 1]) < 0)
                return NULL;
            continue;
        }
        if (digit < 0 && s.at[i] >= 128)
            return NULL;
        out[n++] = (char)(digit >= 0 ? '0' + digit : (int)uni_lower(s.at[i]));
    }
    return out;
}

static bool is_float_literal(const char *s)
{
    s += *s == '+' || *s == '-';
    if (strcmp(s, "inf") == 0 || strcmp(s, "infinity") == 0 || strcmp(s, "nan") == 0)
        return true;
    size_t whole = strspn(s, "0123456789"), fraction = 0;
    s += whole;
    if (*s == '.') {
        fraction = strspn(s + 1, "0123456789");
        s += 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*s == 'e') {
        s++;
        s += *s == '+' || *s == '-';
        size_t digits = strspn(s, "0123456789");
        if (digits == 0)
            return false;
        s += digits;
    }
    return *s == 0;
}

bool read_float(struct arena *a, struct runes s, double *value)
{
    const char *text = plain_number(a, s);
    if (!text || !is_float_literal(text))
        return false;
    *value = strtod(text, NULL);
    return true;
}

/* float(), with a trailing % as hundredths. */
static bool read_number(struct arena *a, struct runes s, double *value)
{
    bool percent = s.n > 0 && s.at[s.n - 1] == '%';
    while (s.n > 0 && s.at[s.n - 1] == '%')
        s.n--;
    if (!read_float(a, s, value))
        return false;
    *value /= percent ? 100.0 : 1.0;
    return true;
}

static bool is_year(const char *s)
{
    return (strncmp(s, "19", 2) == 0 || strncmp(s, "20", 2) == 0) && strspn(s, "0123456789") == 4 && !s[4];
}

static bool relaxed_equal(struct grading *g, struct runes answer, const char *gold)
{
    double mine = 0, theirs = 0;
    struct runes target = runes_from(g->a, gold);
    bool as_text = strcmp(g->extract, "exact-year") == 0 && is_year(gold);
    if (!as_text && read_number(g->a, answer, &mine) && read_number(g->a, target, &theirs) && theirs != 0)
        return fabs(mine - theirs) / fabs(theirs) <= 0.05;
    return runes_equal(runes_lower(g->a, answer), runes_lower(g->a, target));
}

void grade_relaxed(struct grading *g)
{
    struct runes answer = runes_trim(g->text);
    bool correct = false;
    for (int i = 0; i < g->in->n_gold && !correct; i++)
        correct = relaxed_equal(g, answer, g->in->gold[i]);
    if (answer.n || correct)
        verdict_answer(g, runes_text(g->a, answer), "relaxed", correct);
    else
        verdict_unparsed(g, "empty");
}
