/* tasks.c - hold-outs from the command line, and their samples one after another. */
#define _GNU_SOURCE
#include "eval/tasks.h"

#include <stdlib.h>
#include <string.h>

/* ---- hold-outs ------------------------------------------------------------------------------------------------- */

int task_args_check(const struct task_args *a, struct err *e)
{
    if (!a->suite && !a->data.n)
        return err_set(e, EXIT_USAGE, "run: --suite or --data TASK=PATH is missing; see \"handoff run --help\"");
    return cli_range("--limit", (double)a->limit, 0, 1e15, e) ||
           cli_range("--max-tokens", (double)a->max_tokens, 0, 1 << 20, e) ||
           cli_range("--shots", (double)a->shots, -1, 1000, e) ? -1 : 0;
}

static int read_shard(const char *text, int *shard, int *n, struct err *e)
{
    char rest;
    *shard = *n = 1;
    if (text && (sscanf(text, "%d/%d%c", shard, n, &rest) != 2 || *n < 1 || *shard < 1 || *shard > *n))
        return err_set(e, EXIT_USAGE, "--shard: I/N with 1 <= I <= N was expected, not \"%s\"", text);
    return 0;
}

/* Keeps the tasks that --only names, in the order of the suite. */
static int select_tasks(struct suite *s, const char *only, struct err *e)
{
    for (const char *at = only; *at;) {
        size_t len = strcspn(at, ",");
        bool found = false;
        for (int i = 0; i < s->n_tasks; i++)
            found |= strlen(s->tasks[i].task) == len && memcmp(s->tasks[i].task, at, len) == 0;
        if (!found)
            return err_set(e, EXIT_USAGE, "--only: the suite has no task \"%.*s\"", (int)len, at);
        at += len + (at[len] == ',');
    }
    int kept = 0;
    for (int i = 0; i < s->n_tasks; i++) {
        const char *name = s->tasks[i].task, *at = only;
        size_t len = strlen(name);
        while ((at = strstr(at, name)) && !((at == only || at[-1] == ',') && (at[len] == ',' || !at[len])))
            at += len;
        if (at)
            s->tasks[kept++] = s->tasks[i];
    }
    s->n_tasks = kept;
    return 0;
}

int tasks_open(struct tasks *t, const struct task_args *a, struct err *e)
{
    *t = (struct tasks){0};
    if (read_shard(a->shard, &t->shard, &t->n_shards, e))
        return -1;
    if (a->suite) {
        const bool mini = !a->data_root && strcmp(a->suite, "mini") == 0;
        char *shipped = mini ? cli_shipped("datasets/mini") : NULL;
        const char *root = a->data_root ? a->data_root : shipped;
        if (mini && !shipped)
            return err_set(e, EXIT_USAGE, "--suite mini: the embedded hold-outs do not lie beside this program; name "
                           "the source's datasets/mini with --data-root DIR, or install with \"make install\"");
        int failed = suite_open(&t->suite, a->suite, root, e);
        free(shipped);
        if (!failed && t->suite.missing.len)
            fputs(t->suite.missing.data, stderr);
        if (failed || (a->only && select_tasks(&t->suite, a->only, e)))
            return -1;
    }
    for (int i = 0; i < a->data.n; i++)
        if (suite_add(&t->suite, a->data.at[i], e))
            return -1;
    t->datasets = NEW(struct dataset *, t->suite.n_tasks);
    for (int i = 0; i < t->suite.n_tasks; i++) {
        struct task_spec *spec = &t->suite.tasks[i];
        if (a->shots >= 0)
            spec->shots = (int)a->shots;
        if (a->max_tokens)
            spec->max_tokens = (int)a->max_tokens;
        if (dataset_open(&t->datasets[i], spec, e))
            return -1;
    }
    return 0;
}

void tasks_close(struct tasks *t)
{
    for (int i = 0; t->datasets && i < t->suite.n_tasks; i++)
        dataset_close(t->datasets[i]);
    free(t->datasets);
    suite_close(&t->suite);
    *t = (struct tasks){0};
}

int tasks_print_notes(const struct tasks *t, struct err *e)
{
    struct text out = {0};
    for (int i = 0; i < t->suite.n_tasks; i++)
        text_puts(&out, dataset_notes(t->datasets[i]));
    int failed = cli_print(&out, e);
    text_free(&out);
    for (int i = 0; i < t->suite.n_tasks && !failed; i++)
        if (dataset_skipped(t->datasets[i]) > 0 && dataset_count(t->datasets[i]) == 0)
            failed = err_input(e, "%s: none of its rows can be used (\"handoff inspect --data %s=%s\" says why)",
                               dataset_spec(t->datasets[i])->path, dataset_spec(t->datasets[i])->task,
                               dataset_spec(t->datasets[i])->path);
    return failed;
}

/* ---- samples --------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_ids(struct id_filter *f, const char *path, struct err *e)
{
    if (file_read(path, (size_t)256 << 20, &f->content, e))
        return -1;
    char *at = f->content.data ? f->content.data : NULL;
    while (at && *at) {
        char *end = at + strcspn(at, "\r\n");
        bool more = *end != '\0';
        *end = '\0';
        if (*at) {
            f->line = mem_grow(f->line, f->n + 1, sizeof *f->line);
            f->line[f->n++] = at;
        }
        at = more ? end + 1 : end;
    }
    if (f->n == 0)
        return err_input(e, "%s: no sample id; one id per line was expected", path);
    qsort(f->line, f->n, sizeof *f->line, by_text);
    return 0;
}

static bool wanted_id(const struct id_filter *f, const char *task, const char *id)
{
    if (!f->line)
        return true;
    struct text both = {0};
    text_printf(&both, "%s\t%s", task, id);
    const char *key = both.data;
    bool found = bsearch(&id, f->line, f->n, sizeof *f->line, by_text) ||
                 bsearch(&key, f->line, f->n, sizeof *f->line, by_text);
    text_free(&both);
    return found;
}

int selection_open(struct selection *s, struct dataset *const *datasets, int n_tasks, int64_t limit,
                   const char *ids_file, int shard, int n_shards, struct err *e)
{
    *s = (struct selection){.datasets = datasets, .n_tasks = n_tasks, .limit = limit, .shard = shard,
                            .n_shards = n_shards};
    return ids_file ? read_ids(&s->ids, ids_file, e) : 0;
}

void selection_close(struct selection *s)
{
    free(s->ids.line);
    text_free(&s->ids.content);
    *s = (struct selection){0};
}

int selection_next(struct selection *s, struct dataset **d, struct sample *sample, struct err *e)
{
    while (s->task < s->n_tasks) {
        *d = s->datasets[s->task];
        int got = s->limit && s->index >= s->limit ? 0 : dataset_next(*d, sample, e);
        if (got < 0)
            return -1;
        if (got == 0) {
            s->task++;
            s->index = 0;
        } else if (wanted_id(&s->ids, dataset_spec(*d)->task, sample->id) && s->index++ % s->n_shards == s->shard - 1) {
            return 1;
        }
    }
    return 0;
}

int64_t selection_count(const struct selection *s)
{
    int64_t total = 0;
    for (int i = 0; i < s->n_tasks; i++) {
        int64_t n = dataset_count(s->datasets[i]);
        if (n < 0 && !s->limit)
            return -1;
        if (s->limit && (n < 0 || n > s->limit))
            n = s->limit;
        total += (n + s->n_shards - s->shard) / s->n_shards;
    }
    return s->ids.line ? -1 : total;
}
