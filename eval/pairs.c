/* pairs.c - the same samples in two runs, and whether two runs may be compared at all. */
#include "eval/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void columns_keep(struct columns *c, size_t from, size_t to)
{
    c->confidence[to] = c->confidence[from];
    if (c->entropy)
        c->entropy[to] = c->entropy[from];
    c->wrong[to] = c->wrong[from];
    c->row[to] = c->row[from];
    c->group[to] = c->group[from];
}

/* Group numbers without gaps again. */
static void renumber_groups(struct columns *c)
{
    uint32_t *now = NEW(uint32_t, c->n_groups);
    uint32_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t *g = &now[c->group[i]];
        if (*g == 0)
            *g = ++n;
        c->group[i] = *g - 1;
    }
    c->n_groups = n;
    free(now);
}

static int lacking(const struct records *in_this, const struct record *row, const struct records *lacks,
                   const char *task, struct err *e)
{
    return err_input(e, "%s:%" PRId64 ": this sample of \"%s\" is not in %s; --common takes the samples that both have",
                     in_this->path, records_line(in_this, row), task, lacks->path);
}

int columns_pair(struct columns *c, const struct inputs *in, const struct records *r, const struct records *with,
                 int task, const struct record **other, struct err *e)
{
    const char *name = r->tasks[task].name;
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct record *twin = records_find(with, c->row[i]->key);
        if (!twin && !in->common)
            return lacking(r, c->row[i], with, name, e);
        if (!twin)
            continue;
        if ((twin->flags ^ c->row[i]->flags) & REC_HAS_WER)
            return err_input(e, "%s:%" PRId64 ": \"%s\" has word errors in one run only (%s)", with->path,
                             records_line(with, twin), name, r->path);
        if (c->wer && twin->wer.words != c->row[i]->wer.words)
            return err_input(e, "%s:%" PRId64 ": %d reference words, but %d in %s: the transcripts were normalised "
                             "differently", with->path, records_line(with, twin), twin->wer.words,
                             c->row[i]->wer.words, r->path);
        other[n] = twin;
        columns_keep(c, i, n++);
    }
    bool removed = n < c->n;
    c->n = n;
    int there = records_task(with, name);
    for (int64_t i = 0; !in->common && there >= 0 && i < with->tasks[there].n; i++)
        if (!records_find(r, records_row(with, there, i)->key))
            return lacking(with, records_row(with, there, i), r, name, e);
    if (n == 0)
        return err_input(e, "%s: no sample of \"%s\" is also in %s", r->path, name, with->path);
    if (removed)
        renumber_groups(c);
    return 0;
}

/* ---- stamps ----------------------------------------------------------------------------------------------------- */

static const cJSON *member(const cJSON *o, const char *path)
{
    while (o && *path) {
        char key[64];
        size_t n = strcspn(path, ".");
        if (n >= sizeof key)
            return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        o = json_get(o, key);
        path += n + (path[n] == '.');
    }
    return o;
}

static const cJSON *task_settings(const cJSON *stamp, const char *task)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, member(stamp, "identity.tasks"))
        if (json_string(one, "task") && strcmp(json_string(one, "task"), task) == 0)
            return one;
    return NULL;
}

static int differ(const struct records *a, const struct records *b, const char *what, const cJSON *x, const cJSON *y,
                  struct err *e)
{
    struct text left = {0}, right = {0};
    json_print(&left, x);
    json_print(&right, y);
    err_input(e, "%s and %s are not comparable: %s is %.200s in the one and %.200s in the other; --force compares them "
              "all the same", a->name, b->name, what, left.data, right.data);
    text_free(&left);
    text_free(&right);
    return -1;
}

int stamps_check(const struct inputs *in, const struct records *a, const struct records *b, struct err *e)
{
    static const char *const keys[] = {"identity.model.tokenizer_sha", "identity.model.template_sha",
                                       "identity.decode", "identity.activations"};
    if (in->force || !a->stamp || !b->stamp)
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *x = member(a->stamp, keys[i]), *y = member(b->stamp, keys[i]);
        if (in->replays && strcmp(keys[i], "identity.decode") != 0)
            continue;
        if (x && y && !cJSON_IsNull(x) && !cJSON_IsNull(y) && !cJSON_Compare(x, y, true))
            return differ(a, b, keys[i], x, y, e);
    }
    for (int t = 0; t < a->n_tasks; t++) {
        const char *task = a->tasks[t].name;
        const cJSON *x = task_settings(a->stamp, task), *y = task_settings(b->stamp, task);
        if (inputs_want(in, task) && x && y && !cJSON_Compare(x, y, true))
            return differ(a, b, task, x, y, e);
    }
    return 0;
}
