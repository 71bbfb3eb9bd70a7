#include "eval/groups.h"

#include <stdlib.h>
#include <string.h>

void groups_add(struct groups *g, const char *group, bool correct)
{
    if (!group || !*group)
        return;
    if (g->n == g->cap) {
        g->cap = g->cap * 2 + 64;
        g->at = mem_grow(g->at, g->cap, sizeof *g->at);
    }
    g->at[g->n++] = (struct group_answer){mem_strdup(group), correct};
}

static int by_group(const void *a, const void *b)
{
    return strcmp(((const struct group_answer *)a)->group, ((const struct group_answer *)b)->group);
}

bool groups_count(struct groups *g, int64_t *n, int64_t *right)
{
    *n = *right = 0;
    if (g->n)
        qsort(g->at, g->n, sizeof *g->at, by_group);
    for (size_t i = 0, end; i < g->n; i = end) {
        bool all = true;
        for (end = i; end < g->n && strcmp(g->at[end].group, g->at[i].group) == 0; end++)
            all &= g->at[end].correct;
        ++*n;
        *right += all;
    }
    return *n > 0 && (size_t)*n < g->n;
}

void groups_free(struct groups *g)
{
    for (size_t i = 0; i < g->n; i++)
        free(g->at[i].group);
    free(g->at);
    *g = (struct groups){0};
}
