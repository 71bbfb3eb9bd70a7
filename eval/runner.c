/* runner.c - keeps the batcher fed in the order of the samples, and writes records in that same order.
 *
 * Jobs stand in one list from the moment their sample is read until their record is written. Answers come back in any
 * order; the list's head is written as soon as it is done, so records.jsonl always holds a prefix of the work.
 */
#define _GNU_SOURCE
#include "eval/runner.h"
#include "eval/job.h"
#include "eval/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many jobs may stand in the list, in batches: a long answer at its head holds back what is done behind it. */
enum { WINDOW_BATCHES = 16 };

struct id_filter { struct text content; const char **line; size_t n; };

struct runner {
    struct engine *m;
    struct dataset *const *datasets;
    int n_tasks, task;          /* the task being read */
    int64_t index;              /* running number within it */
    const struct run_settings *settings;
    struct store *store;
    struct batcher *batcher;
    struct job *first, *last, *unstarted;   /* the list; unstarted: the first job not yet given to the batcher */
    int n_listed;
    struct id_filter ids;
    struct progress progress;
};

/* ---- which samples --------------------------------------------------------------------------------------------- */

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

/* The next sample that belongs to this shard and is not done yet, as a job: 1, 0 at the end, -1 on failure. */
static int next_job(struct runner *r, struct job **out, struct err *e)
{
    const struct run_settings *set = r->settings;
    struct sample s;
    while (r->task < r->n_tasks) {
        struct dataset *d = r->datasets[r->task];
        const char *task = dataset_spec(d)->task;
        int got = set->limit && r->index >= set->limit ? 0 : dataset_next(d, &s, e);
        if (got < 0)
            return -1;
        if (got == 0) {
            r->task++;
            r->index = 0;
            continue;
        }
        if (!wanted_id(&r->ids, task, s.id))
            continue;
        if (r->index++ % set->n_shards != set->shard - 1)
            continue;
        struct job *j = job_new(r->m, d, &s, set->max_audio_s);
        int done = store_expect(r->store, task, j->sample.id, j->prompt_sha[0] ? j->prompt_sha : NULL, e);
        if (done == 0) {
            *out = j;
            return 1;
        }
        job_free(j);
        if (done < 0)
            return -1;
        r->progress.before++;
    }
    return 0;
}

/* ---- the list of jobs ------------------------------------------------------------------------------------------ */

/* Reads up to a batch of samples and prepares them together. 0 if there are no more. */
static int read_jobs(struct runner *r, struct err *e)
{
    int n = 0, got = 1, room = WINDOW_BATCHES * r->settings->batch - r->n_listed;
    struct job **jobs = NEW(struct job *, r->settings->batch);
    while (n < r->settings->batch && n < room && (got = next_job(r, &jobs[n], e)) > 0)
        n++;
    if (n && got >= 0)
        jobs_prepare(r->m, jobs, n);
    for (int i = 0; i < n; i++) {
        if (r->last)
            r->last->next = jobs[i];
        else
            r->first = jobs[i];
        r->last = jobs[i];
        if (!r->unstarted)
            r->unstarted = jobs[i];
        r->n_listed++;
    }
    free(jobs);
    return got < 0 ? -1 : n;
}

static void start_job(struct runner *r, struct job *j)
{
    if (j->err.code) {
        job_finish(r->m, j, NULL, r->settings->trace);
        return;
    }
    struct answer_request request = {.prompt = j->prompt, .soft = j->soft, .user = j,
                                     .settings = {.max_tokens = j->spec->max_tokens},
                                     .n_labels = j->sample.n_choices, .label_ids = j->label_ids};
    j->prompt = (struct ids){0};
    j->soft = NULL;
    batcher_add(r->batcher, &request);
}

static int fill_batcher(struct runner *r, struct err *e)
{
    while (batcher_has_room(r->batcher)) {
        if (!r->unstarted) {
            int got = read_jobs(r, e);
            if (got <= 0)
                return got;
        }
        struct job *j = r->unstarted;
        r->unstarted = j->next;
        start_job(r, j);
    }
    return 0;
}

static void take_answers(struct runner *r)
{
    struct answer a;
    while (batcher_take(r->batcher, &a)) {
        job_finish(r->m, a.user, &a, r->settings->trace);
        answer_free(&a);
    }
}

static int write_finished(struct runner *r, struct err *e)
{
    while (r->first && r->first->record.len) {
        struct job *j = r->first;
        if (store_append(r->store, &j->record, e))
            return -1;
        progress_update(&r->progress, j->spec->task);
        r->progress.done++;
        r->first = j->next;
        if (!r->first)
            r->last = NULL;
        r->n_listed--;
        job_free(j);
    }
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static int64_t count_samples(const struct runner *r)
{
    int64_t total = 0;
    for (int i = 0; i < r->n_tasks; i++) {
        int64_t n = dataset_count(r->datasets[i]);
        if (n < 0 && !r->settings->limit)
            return -1;
        if (r->settings->limit && (n < 0 || n > r->settings->limit))
            n = r->settings->limit;
        total += (n + r->settings->n_shards - r->settings->shard) / r->settings->n_shards;
    }
    return r->ids.line ? -1 : total;
}

static int run_loop(struct runner *r, const volatile sig_atomic_t *stop, bool *interrupted, struct err *e)
{
    for (;;) {
        if (fill_batcher(r, e))
            return -1;
        take_answers(r);
        if (write_finished(r, e))
            return -1;
        if (*stop) {
            *interrupted = true;
            return 0;
        }
        if (batcher_active(r->batcher) == 0 && !r->first)
            return 0;
        if (batcher_step(r->batcher, e))
            return -1;
    }
}

int run_tasks(struct engine *m, const struct probe *p, struct dataset *const *datasets, int n_tasks,
              const struct run_settings *settings, struct store *store, const volatile sig_atomic_t *stop,
              bool *interrupted, struct err *e)
{
    struct runner r = {.m = m, .datasets = datasets, .n_tasks = n_tasks, .settings = settings, .store = store};
    if (settings->ids_file && read_ids(&r.ids, settings->ids_file, e)) {
        text_free(&r.ids.content);
        return -1;
    }
    r.batcher = batcher_new(m, p, settings->batch);
    progress_start(&r.progress, count_samples(&r));
    int failed = run_loop(&r, stop, interrupted, e);
    progress_clear(&r.progress);
    batcher_free(r.batcher);
    while (r.first) {
        struct job *next = r.first->next;
        job_free(r.first);
        r.first = next;
    }
    free(r.ids.line);
    text_free(&r.ids.content);
    return failed;
}
