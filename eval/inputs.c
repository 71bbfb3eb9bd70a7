/* inputs.c - common options of the verbs on records; one task's rows as columns. */
#include "eval/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int inputs_check(const struct inputs *in, struct err *e)
{
    if (in->json + in->csv + in->md > 1)
        return err_set(e, EXIT_USAGE, "--json, --csv and --md: one of them at a time");
    if (!(in->tau >= 0))
        return err_set(e, EXIT_USAGE, "--tau: a word error rate of 0 or more was expected");
    if (!(in->cut >= 0 && in->cut <= 1))
        return err_set(e, EXIT_USAGE, "--cut: a score from 0 to 1 was expected");
    if (strcmp(in->missing, "error") != 0 && strcmp(in->missing, "drop") != 0 &&
        (strcmp(in->missing, "first") != 0 || !in->allow_first))
        return err_set(e, EXIT_USAGE, "--missing: error%s or drop was expected, not \"%s\"",
                       in->allow_first ? ", first" : "", in->missing);
    return 0;
}

enum report_format inputs_format(const struct inputs *in)
{
    return in->json ? FORMAT_JSON : in->csv ? FORMAT_CSV : in->md ? FORMAT_MARKDOWN : FORMAT_TERMINAL;
}

int inputs_open(const struct inputs *in, const char *source, struct records *r, struct err *e)
{
    if (records_open(r, source, &(struct records_options){in->entropy, in->keep_group_keys}, e))
        return -1;
    for (int i = 0; i < in->tasks.n; i++)
        if (records_task(r, in->tasks.at[i]) < 0) {
            err_input(e, "%s: has no task \"%s\"", r->path, in->tasks.at[i]);
            records_close(r);
            return -1;
        }
    if (r->notes.len)
        fprintf(stderr, "%s", r->notes.data);
    return 0;
}

bool inputs_want(const struct inputs *in, const char *task)
{
    for (int i = 0; i < in->tasks.n; i++)
        if (strcmp(in->tasks.at[i], task) == 0)
            return true;
    return in->tasks.n == 0;
}

struct definitions inputs_definitions(const struct inputs *in)
{
    return (struct definitions){.tau = in->tau, .cut = in->cut, .entropy = in->entropy, .threshold = 0.85};
}

/* ---- columns ---------------------------------------------------------------------------------------------------- */

/* Makes numbers of records (0: alone) into numbers without gaps by first appearance; returns how many there are. */
static size_t number_groups(uint32_t *group, size_t n)
{
    uint32_t last = 0, n_groups = 0;
    for (size_t i = 0; i < n; i++)
        last = group[i] > last ? group[i] : last;
    uint32_t *now = NEW(uint32_t, (size_t)last + 1);
    for (size_t i = 0; i < n; i++) {
        uint32_t *g = &now[group[i]];
        if (group[i] == 0)
            group[i] = n_groups++;
        else if (*g)
            group[i] = *g - 1;
        else
            group[i] = (*g = ++n_groups) - 1;
    }
    free(now);
    return n_groups;
}

uint32_t *groups_of(const struct record *const *row, size_t n, size_t *n_groups)
{
    uint32_t *group = NEW(uint32_t, n);
    for (size_t i = 0; i < n; i++)
        group[i] = row[i]->group;
    *n_groups = number_groups(group, n);
    return group;
}

/* Looks at the task's rows before any memory is asked for. */
static bool scan_task(struct columns *c, const struct records *r, int task)
{
    bool grouped = false;
    for (int64_t i = 0; i < r->tasks[task].n; i++) {
        const struct record *row = records_row(r, task, i);
        c->has_confidence |= (row->flags & REC_HAS_CONFIDENCE) != 0;
        c->has_entropy |= (row->flags & REC_HAS_ENTROPY) != 0;
        grouped |= row->group != 0;
    }
    return grouped;
}

static void columns_alloc(struct columns *c, size_t n, bool detached, bool grouped, bool entropy)
{
    c->confidence = NEW(double, n);
    c->entropy = entropy ? NEW(double, n) : NULL;
    c->score = detached && (c->wer || c->graded) ? NEW(double, n) : NULL;
    c->wrong = NEW(uint8_t, n);
    c->row = detached ? NULL : NEW(const struct record *, n);
    c->group = detached && !grouped ? NULL : NEW(uint32_t, n);
    c->flags = detached ? NEW(uint16_t, n) : NULL;
    c->words = detached && c->wer ? NEW(struct word_errors, n) : NULL;
}

static void take_row(struct columns *c, const struct record *row, struct wrong_rule rule)
{
    bool has = row->flags & REC_HAS_CONFIDENCE;
    c->confidence[c->n] = has ? row->confidence : NAN;
    if (c->entropy)
        c->entropy[c->n] = row->flags & REC_HAS_ENTROPY ? row->entropy : NAN;
    c->n_no_entropy += !(row->flags & REC_HAS_ENTROPY);
    c->wrong[c->n] = record_wrong(row, rule);
    if (c->score)
        c->score[c->n] = record_score(row);
    if (c->row)
        c->row[c->n] = row;
    if (c->group)
        c->group[c->n] = row->group;
    if (c->flags)
        c->flags[c->n] = row->flags;
    if (c->words)
        c->words[c->n] = (struct word_errors){row->wer.edits, row->wer.words};
    c->n++;
}

static int fill(struct columns *c, const struct inputs *in, const struct records *r, int task, bool detached,
                struct err *e)
{
    const struct record_task *t = &r->tasks[task];
    const struct wrong_rule rule = {in->tau, in->cut};
    *c = (struct columns){.wer = t->wer, .graded = t->graded};
    bool grouped = scan_task(c, r, task);
    columns_alloc(c, (size_t)t->n, detached, grouped, !in->no_entropy);
    for (int64_t i = 0; i < t->n; i++) {
        const struct record *row = records_row(r, task, i);
        bool missing = c->has_confidence && !(row->flags & REC_HAS_CONFIDENCE);
        if (missing && strcmp(in->missing, "drop") == 0) {
            c->n_dropped++;
            continue;
        }
        if (missing && strcmp(in->missing, "error") == 0) {
            columns_free(c);
            return err_input(e, "%s:%" PRId64 ": this record of \"%s\" has no confidence though others have; "
                             "--missing drop leaves such records out", r->path, records_line(r, row), t->name);
        }
        take_row(c, row, rule);
    }
    c->n_groups = c->group ? number_groups(c->group, c->n) : c->n;
    return 0;
}

int columns_make(struct columns *c, const struct inputs *in, const struct records *r, int task, struct err *e)
{
    return fill(c, in, r, task, false, e);
}

int columns_make_detached(struct columns *c, const struct inputs *in, const struct records *r, int task,
                          struct err *e)
{
    return fill(c, in, r, task, true, e);
}

void columns_free(struct columns *c)
{
    free(c->confidence);
    free(c->entropy);
    free(c->score);
    free(c->wrong);
    free(c->row);
    free(c->group);
    free(c->flags);
    free(c->words);
    *c = (struct columns){0};
}
