/* calls.c - Earnings-22 scored by whole calls: the 2026 Open ASR Leaderboard joins the chunks of a call before it
 * normalises and aligns them. */
#include "eval/grade_verb.h"

#include <stdlib.h>
#include <string.h>

void calls_add(struct calls *c, const char *call, const char *id, const char *reference, const char *hypothesis)
{
    if (c->n == c->cap) {
        c->cap = c->cap * 2 + 64;
        c->at = mem_grow(c->at, c->cap, sizeof *c->at);
    }
    c->at[c->n++] = (struct segment){mem_strdup(call), mem_strdup(id), mem_strdup(reference),
                                     hypothesis ? mem_strdup(hypothesis) : NULL};
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* "call_9" before "call_10": runs of digits compare as numbers. */
static int compare_ids(const char *a, const char *b)
{
    while (*a && *b) {
        if (digit(*a) && digit(*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t x = strspn(a, "0123456789"), y = strspn(b, "0123456789");
            int order = x != y ? (x > y) - (x < y) : strncmp(a, b, x);
            if (order)
                return order;
            a += x;
            b += y;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

static int compare_segments(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    int order = compare_ids(x->call, y->call);
    order = order ? order : strcmp(x->call, y->call);
    order = order ? order : compare_ids(x->id, y->id);
    return order ? order : strcmp(x->id, y->id);
}

static void join(struct text *t, const char *s)
{
    if (s && *s)
        text_printf(t, "%s%s", t->len ? " " : "", s);
}

int calls_grade(struct calls *c, const char *normalizer, double tau,
                int (*see)(void *arg, const char *call, size_t n_segments, const struct verdict *v, struct err *e),
                void *arg, struct err *e)
{
    int failed = 0;
    if (c->n)
        qsort(c->at, c->n, sizeof *c->at, compare_segments);
    for (size_t i = 0, end; i < c->n && !failed; i = end) {
        struct arena a = {0};
        struct text reference = {0}, hypothesis = {0};
        struct verdict v;
        bool same = true;
        text_puts(&reference, "");
        text_puts(&hypothesis, "");
        for (end = i; end < c->n && strcmp(c->at[end].call, c->at[i].call) == 0; end++)
            same &= strcmp(c->at[end].reference, c->at[i].reference) == 0;
        for (size_t k = i; k < end; k++) {
            struct visible seen = {0};
            if (c->at[k].hypothesis)
                visible_answer(c->at[k].hypothesis, &a, &seen);
            join(&hypothesis, seen.text);
            if (k == i || !same)
                join(&reference, c->at[k].reference);
        }
        const char *gold = reference.data;
        struct grade_input in = {.grader = "speech", .normalizer = normalizer, .output = hypothesis.data,
                                 .gold = &gold, .n_gold = 1, .wrong_above = tau};
        failed = grade(&in, &a, &v, e) || see(arg, c->at[i].call, end - i, &v, e) ? -1 : 0;
        text_free(&reference);
        text_free(&hypothesis);
        arena_free(&a);
    }
    return failed;
}

void calls_free(struct calls *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->at[i].call);
        free(c->at[i].id);
        free(c->at[i].reference);
        free(c->at[i].hypothesis);
    }
    free(c->at);
    *c = (struct calls){0};
}
