/* Numbers as GSM8K is graded: lm-eval's strict and flexible filters with its exact match, the data set's own script,
 * and a comparison as decimals. */
#include "eval/graders.h"

#include <stdlib.h>
#include <string.h>

static bool number_char(uint32_t c) { return (c >= '0' && c <= '9') || c == '.' || c == ','; }

/* First `#### (-?[0-9.,]+)`. */
static bool marked_number(struct runes s, struct runes *found)
{
    for (size_t i = 0; i < s.n; i++) {
        size_t at = i;
        if (s.at[i] != '#' || !take(s, &at, "#### "))
            continue;
        size_t start = at;
        take(s, &at, "-");
        size_t digits = at;
        while (number_char(rune_at(s, at)))
            at++;
        if (at > digits) {
            *found = runes_part(s, start, at);
            return true;
        }
    }
    return false;
}

/* Last match of `(-?[$0-9.,]{2,})|(-?[0-9]+)`. */
static bool last_number(struct runes s, struct runes *found)
{
    bool any = false;
    for (size_t i = 0; i < s.n;) {
        size_t at = i;
        take(s, &at, "-");
        size_t start = at;
        while (number_char(rune_at(s, at)) || rune_at(s, at) == '$')
            at++;
        if (at >= start + 2 || (at == start + 1 && s.at[start] >= '0' && s.at[start] <= '9')) {
            *found = runes_part(s, i, at);
            any = true;
            i = at;
        } else {
            i++;
        }
    }
    return any;
}

char *exact_form(struct arena *a, const char *s)
{
    for (const char *mark; (mark = strstr(s, "#### ")) != NULL;)
        s = mark + 5;
    char *out = arena_strndup(a, s, strlen(s));
    size_t n = 0;
    for (; *s; s++)
        if (*s != ',' && *s != '$')
            out[n++] = (char)(*s >= 'A' && *s <= 'Z' ? *s + 32 : *s);
    n -= n > 0 && out[n - 1] == '.';
    out[n] = 0;
    return out;
}

/* What the data set's script compares. */
static char *official_form(struct arena *a, const char *s)
{
    struct runes marked, text = runes_from(a, s);
    s = runes_text(a, marked_number(text, &marked) ? marked : runes_trim(text));
    char *out = arena_strndup(a, s, strlen(s));
    size_t n = 0;
    for (; *s; s++)
        if (*s != ',')
            out[n++] = *s;
    out[n] = 0;
    return out;
}

/* A decimal without superfluous zeros and signs ("-007.50" is "-7.5"); NULL if s is none. */
static char *decimal_form(struct arena *a, const char *s)
{
    char *text = exact_form(a, s), *out = ARENA_NEW(a, char, strlen(text) + 3);
    size_t len = strlen(text), n = 0;
    while (len > 0 && text[len - 1] == '.')
        text[--len] = 0;
    bool negative = *text == '-';
    text += negative;
    size_t whole = strspn(text, "0123456789"), rest = whole;
    if (text[rest] == '.')
        rest += 1 + strspn(text + rest + 1, "0123456789");
    if (text[rest] || rest == 0)
        return NULL;
    const char *first = text + strspn(text, "0");
    const char *end = text + rest;
    if (whole < rest)
        while (end[-1] == '0')
            end--;
    if (end[-1] == '.' && end > text)
        end--;
    if (first >= end)
        return arena_strndup(a, "0", 1);
    if (negative)
        out[n++] = '-';
    if (*first == '.')
        out[n++] = '0';
    memcpy(out + n, first, (size_t)(end - first));
    return out;
}

static bool same_number(struct grading *g, const char *answer, const char *gold)
{
    if (strcmp(g->extract, "official") == 0)
        return strcmp(official_form(g->a, answer), official_form(g->a, gold)) == 0;
    if (strncmp(g->extract, "numeric", 7) != 0)
        return strcmp(exact_form(g->a, answer), exact_form(g->a, gold)) == 0;
    const char *x = decimal_form(g->a, answer), *y = decimal_form(g->a, gold);
    return x && y && strcmp(x, y) == 0;
}

void grade_number(struct grading *g)
{
    struct runes found;
    bool official = strcmp(g->extract, "official") == 0;
    bool marked = official || strstr(g->extract, "strict");
    if (!(marked ? marked_number(g->text, &found) : last_number(g->text, &found))) {
        verdict_unparsed(g, marked ? "no \"#### \" before a number" : "no number");
        return;
    }
    const char *answer = runes_text(g->a, found);
    bool correct = false;
    for (int i = 0; i < g->in->n_gold && !correct; i++)
        correct = same_number(g, answer, g->in->gold[i]);
    verdict_answer(g, official ? official_form(g->a, answer) : answer, g->extract, correct);
}
