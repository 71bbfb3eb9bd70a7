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
    if (records_open(r, source, &(struct records_options){.entropy = in->entropy}, e))
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

struct grouped { uint64_t group; uint32_t row; };

static int compare_grouped(const void *a, const void *b)
{
    const struct grouped *x = a, *y = b;
    return x->group != y->group ? (x->group < y->group ? -1 : 1) : x->row < y->row ? -1 : x->row > y->row;
}

/* Numbers the groups; a row without one is a group of its own. Numbers follow first appearance. */
static void number_groups(struct columns *c)
{
    struct grouped *g = NEW(struct grouped, c->n);
    size_t k = 0;
    c->group = NEW(uint32_t, c->n);
    for (size_t i = 0; i < c->n; i++)
        if (c->row[i]->group)
            g[k++] = (struct grouped){c->row[i]->group, (uint32_t)i};
    if (k)
        qsort(g, k, sizeof *g, compare_grouped);
    uint32_t *leader = NEW(uint32_t, c->n);
    for (size_t i = 0; i < c->n; i++)
        leader[i] = (uint32_t)i;
    for (size_t i = 1; i < k; i++)
        if (g[i].group == g[i - 1].group)
            leader[g[i].row] = leader[g[i - 1].row];
    for (size_t i = 0; i < c->n; i++)
        c->group[i] = leader[i] == i ? (uint32_t)c->n_groups++ : c->group[leader[i]];
    free(leader);
    free(g);
}

static void columns_alloc(struct columns *c, size_t n)
{
    c->confidence = NEW(double, n);
    c->entropy = NEW(double, n);
    c->score = NEW(double, n);
    c->wrong = NEW(uint8_t, n);
    c->row = NEW(const struct record *, n);
}

int columns_make(struct columns *c, const struct inputs *in, const struct records *r, int task, struct err *e)
{
    const struct record_task *t = &r->tasks[task];
    const struct wrong_rule rule = {in->tau, in->cut};
    *c = (struct columns){.wer = t->wer, .graded = t->graded};
    for (int64_t i = 0; i < t->n; i++) {
        c->has_confidence |= (records_row(r, task, i)->flags & REC_HAS_CONFIDENCE) != 0;
        c->has_entropy |= (records_row(r, task, i)->flags & REC_HAS_ENTROPY) != 0;
    }
    columns_alloc(c, (size_t)t->n);
    for (int64_t i = 0; i < t->n; i++) {
        const struct record *row = records_row(r, task, i);
        bool has = row->flags & REC_HAS_CONFIDENCE;
        if (c->has_confidence && !has && strcmp(in->missing, "drop") == 0) {
            c->n_dropped++;
            continue;
        }
        if (c->has_confidence && !has && strcmp(in->missing, "error") == 0) {
            columns_free(c);
            return err_input(e, "%s:%" PRId64 ": this record of \"%s\" has no confidence though others have; "
                             "--missing drop leaves such records out", r->path, records_line(r, row), t->name);
        }
        c->confidence[c->n] = has ? row->confidence : NAN;
        c->entropy[c->n] = row->flags & REC_HAS_ENTROPY ? row->entropy : NAN;
        c->n_no_entropy += !(row->flags & REC_HAS_ENTROPY);
        c->score[c->n] = record_score(row);
        c->wrong[c->n] = record_wrong(row, rule);
        c->row[c->n++] = row;
    }
    number_groups(c);
    return 0;
}

void columns_free(struct columns *c)
{
    free(c->confidence);
    free(c->entropy);
    free(c->score);
    free(c->wrong);
    free(c->row);
    free(c->group);
    *c = (struct columns){0};
}
