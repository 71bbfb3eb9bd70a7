/* groups.h - answers that stand or fall together: a group counts if every answer in it is right (inside eval/). */
#ifndef HANDOFF_GROUPS_H
#define HANDOFF_GROUPS_H

#include "engine/base.h"

struct group_answer { char *group; bool correct; };
struct groups { struct group_answer *at; size_t n, cap; };

void groups_add(struct groups *g, const char *group, bool correct);    /* "" or NULL: no group, not counted */
/* Counts groups and those that are right; false if none has two answers, which says nothing. */
bool groups_count(struct groups *g, int64_t *n, int64_t *right);
void groups_free(struct groups *g);

#endif
