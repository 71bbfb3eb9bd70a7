/* grade_tally.c - what the verdicts of `grade` come to, task by task. */
#include "eval/grade_verb.h"

#include <stdlib.h>
#include <string.h>

struct tally *tally_of(struct tallies *t, const char *task, const char *grader)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->at[i].task, task) == 0 && strcmp(t->at[i].grader, grader) == 0)
            return &t->at[i];
    t->at = mem_grow(t->at, (size_t)t->n + 1, sizeof *t->at);
    t->at[t->n] = (struct tally){.task = mem_strdup(task), .grader = mem_strdup(grader)};
    return &t->at[t->n++];
}

void tally_add(struct tally *t, const struct verdict *v, const char *group)
{
    struct score *s = &t->now;
    t->unparsed += v->status == GRADE_UNPARSED;
    t->not_scored += !v->scored;
    if (!v->scored)
        return;
    s->n++;
    s->right += v->correct;
    s->edits += v->edits;
    s->words += v->words;
    groups_add(&s->groups, group, v->correct);
}

int tally_band(struct tally *t, const struct grade_input *in, struct arena *a, struct err *e)
{
    const char *const *x = grade_extractors(in->grader);
    for (int k = 0; x[k] && k < BAND_MAX; k++) {
        struct grade_input each = *in;
        struct verdict v;
        each.extract = x[k];
        if (grade(&each, a, &v, e))
            return -1;
        t->band[k] += v.correct;
    }
    return 0;
}

static double share(int64_t part, int64_t all) { return all ? (double)part / (double)all : 0; }

static void print_groups(struct text *out, struct tally *t, bool before)
{
    int64_t n, right, n_before, right_before;
    if (strcmp(t->grader, "mmbench") != 0 || !groups_count(&t->now.groups, &n, &right))
        return;
    text_printf(out, "%s: every rotation right: ", t->task);
    if (before && groups_count(&t->before.groups, &n_before, &right_before))
        text_printf(out, "%.4f -> ", share(right_before, n_before));
    text_printf(out, "%.4f (%lld of %lld questions)\n", share(right, n), (long long)right, (long long)n);
}

void tally_print(struct text *out, struct tally *t, bool band, bool before)
{
    const char *const *x = grade_extractors(t->grader);
    print_groups(out, t, before);
    if (t->now.words) {
        text_printf(out, "%s: WER ", t->task);
        if (before && t->before.words)
            text_printf(out, "%.4f -> ", share(t->before.edits, t->before.words));
        text_printf(out, "%.4f (%lld errors, %lld words", share(t->now.edits, t->now.words), (long long)t->now.edits,
                    (long long)t->now.words);
        if (t->not_scored)
            text_printf(out, "; %lld not scored", (long long)t->not_scored);
        text_puts(out, ")\n");
    }
    if (!band || !x[1])
        return;
    text_printf(out, "%s: right by extractor:", t->task);
    for (int k = 0; x[k] && k < BAND_MAX; k++)
        text_printf(out, "%s %s %.4f", k ? "," : "", x[k], share(t->band[k], t->now.n));
    text_putc(out, '\n');
}

void tallies_free(struct tallies *t)
{
    for (int i = 0; i < t->n; i++) {
        free(t->at[i].task);
        free(t->at[i].grader);
        groups_free(&t->at[i].now.groups);
        groups_free(&t->at[i].before.groups);
    }
    free(t->at);
    *t = (struct tallies){0};
}
