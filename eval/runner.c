/* runner.c - keeps the batcher fed, and writes records in the order of the samples.
 *
 * Jobs stand in one list from the moment their sample is read until their record is written. They start in the order
 * of the samples, but those that begin like the one before go first: while its keys and values are at hand. Answers
 * come back in any order; the list's head is written as soon as it is done, so records.jsonl always holds a prefix of
 * the work.
 */
#define _GNU_SOURCE
#include "eval/runner.h"
#include "eval/job.h"
#include "eval/progress.h"
#include "eval/tasks.h"
#include "eval/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BATCH = 8,            /* samples that are read together until the batch is known */
    WINDOW_BATCHES = 16,        /* jobs in the list, in batches: a long answer at its head holds back what is done */
    AHEAD = 64,                 /* jobs to look through for common beginnings */
    AHEAD_SOFT = 32 << 20       /* and bytes of their soft tokens */
};

struct runner {
    struct engine *m;
    struct selection selection;
    const struct run_settings *settings;
    struct store *store;
    const struct probe *probe;
    int batch;                  /* 0: not yet known */
    struct batcher *batcher;    /* NULL until there is something to do */
    struct job *first, *last;   /* the list */
    int n_listed, n_unstarted;
    size_t soft_bytes;          /* of jobs not started */
    bool all_read;
    struct progress progress;
};

/* The next sample that is not done yet, as a job: 1, 0 at the end, -1 on failure. */
static int next_job(struct runner *r, struct job **out, struct err *e)
{
    struct dataset *d;
    struct sample s;
    int got;
    while ((got = selection_next(&r->selection, &d, &s, e)) > 0) {
        struct job *j = job_new(r->m, d, &s, r->settings->max_audio_s);
        int done = store_expect(r->store, j->spec->task, j->sample.id, j->prompt_sha[0] ? j->prompt_sha : NULL, e);
        if (done == 0) {
            *out = j;
            return 1;
        }
        job_free(j);
        if (done < 0)
            return -1;
        r->progress.before++;
    }
    return got;
}

/* ---- the list of jobs ------------------------------------------------------------------------------------------ */

static size_t soft_bytes(const struct runner *r, const struct job *j)
{
    size_t tokens = 0;
    for (int i = 0; i < j->sample.n_media && j->soft; i++)
        tokens += (size_t)j->encoded[i].n_tokens;
    return tokens * (size_t)engine_info(r->m)->hidden_size * sizeof(float);
}

/* Reads up to a batch of samples and prepares them together. */
static int read_jobs(struct runner *r, struct err *e)
{
    const int most = r->batch ? r->batch : FIRST_BATCH;
    int n = 0, got = 1;
    struct job **jobs = NEW(struct job *, most);
    while (n < most && (got = next_job(r, &jobs[n], e)) > 0)
        n++;
    if (n && got >= 0)
        jobs_prepare(r->m, jobs, n);
    for (int i = 0; i < n; i++) {
        if (r->last)
            r->last->next = jobs[i];
        else
            r->first = jobs[i];
        r->last = jobs[i];
        r->n_listed++;
        r->n_unstarted++;
        r->soft_bytes += soft_bytes(r, jobs[i]);
    }
    r->all_read = got == 0;
    free(jobs);
    return got < 0 ? -1 : 0;
}

static int read_ahead(struct runner *r, struct err *e)
{
    const int window = WINDOW_BATCHES * r->batch > 2 * AHEAD ? WINDOW_BATCHES * r->batch : 2 * AHEAD;
    const int ahead = r->settings->prefixes || !r->batch ? AHEAD : 1;
    while (!r->all_read && r->n_unstarted < ahead && r->n_listed < window &&
           (r->n_unstarted == 0 || r->soft_bytes < AHEAD_SOFT))
        if (read_jobs(r, e))
            return -1;
    return 0;
}

/* Of the jobs that have most in common with the one started last, the first. */
static struct job *next_to_start(const struct runner *r)
{
    struct job *best = NULL;
    for (struct job *j = r->first; j; j = j->next)
        if (!j->started && (!best || j->shared > best->shared))
            best = j;
    return best;
}

/* Puts the first tokens of the job's prompt into a sequence, if others share them. */
static int share_prefix(struct runner *r, struct job *j, struct answer_request *request, struct err *e)
{
    const double start = clock_ms();
    const struct prefix_prompt mine = {j->prompt.id, j->prompt.n, j->soft};
    struct prefix_prompt *others = NEW(struct prefix_prompt, r->n_unstarted + 1);
    struct job **of = NEW(struct job *, r->n_unstarted + 1);
    int *shared = NEW(int, r->n_unstarted + 1), n = 0;
    for (struct job *k = r->first; k; k = k->next)
        if (!k->started && !k->err.code) {
            of[n] = k;
            others[n++] = (struct prefix_prompt){k->prompt.id, k->prompt.n, k->soft};
        }
    const int failed = prefix_begin(r->settings->prefixes, &mine, others, n, shared, &request->seq, e);
    request->prefill_ms = clock_ms() - start;
    for (int i = 0; i < n; i++)
        of[i]->shared = shared[i];
    free(others);
    free(of);
    free(shared);
    return failed;
}

static int start_job(struct runner *r, struct job *j, struct err *e)
{
    j->started = true;
    r->n_unstarted--;
    r->soft_bytes -= soft_bytes(r, j);
    if (j->err.code) {
        job_finish(r->m, j, NULL, r->settings->trace);
        return 0;
    }
    struct answer_request request = {.soft = j->soft, .user = j, .settings = {.max_tokens = j->spec->max_tokens},
                                     .n_labels = j->sample.n_choices, .label_ids = j->label_ids};
    if (r->settings->prefixes && share_prefix(r, j, &request, e))
        return -1;
    request.prompt = j->prompt;
    j->prompt = (struct ids){0};
    j->soft = NULL;
    batcher_add(r->batcher, &request);
    return 0;
}

/* Once it is known that there is something to do, and how much at least. */
static int open_batcher(struct runner *r, struct err *e)
{
    if (read_ahead(r, e))
        return -1;
    if (!r->first)
        return 0;
    if (!r->batch && tune_batch(r->m, r->n_unstarted, &r->batch, e))
        return -1;
    r->batcher = batcher_new(r->m, r->probe, r->batch);
    if (r->settings->hidden)
        batcher_keep_hidden(r->batcher, r->settings->hidden_layers.layer, r->settings->hidden_layers.n);
    return 0;
}

static int fill_batcher(struct runner *r, struct err *e)
{
    if (!r->batcher && open_batcher(r, e))
        return -1;
    while (r->batcher && batcher_has_room(r->batcher)) {
        if (read_ahead(r, e))
            return -1;
        struct job *j = next_to_start(r);
        if (!j)
            return 0;
        if (start_job(r, j, e))
            return -1;
    }
    return 0;
}

static void take_answers(struct runner *r)
{
    struct answer a;
    while (r->batcher && batcher_take(r->batcher, &a)) {
        struct job *j = a.user;
        job_finish(r->m, j, &a, r->settings->trace);
        j->hidden = a.hidden;
        j->n_hidden = a.n_hidden;
        a.hidden = NULL;
        answer_free(&a);
    }
}

static int write_finished(struct runner *r, struct err *e)
{
    while (r->first && r->first->record.len) {
        struct job *j = r->first;
        if (j->hidden && hidden_write(r->settings->hidden, j->spec->task, j->sample.id, j->hidden, j->n_hidden, e))
            return -1;
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
        if (!r->first)
            return 0;
        if (batcher_step(r->batcher, e))
            return -1;
    }
}

int run_tasks(struct engine *m, const struct probe *p, struct dataset *const *datasets, int n_tasks,
              const struct run_settings *settings, struct store *store, const volatile sig_atomic_t *stop,
              bool *interrupted, int *batch, struct err *e)
{
    struct runner r = {.m = m, .probe = p, .settings = settings, .batch = settings->batch, .store = store};
    if (selection_open(&r.selection, datasets, n_tasks, settings->limit, settings->ids_file, settings->shard,
                       settings->n_shards, e)) {
        selection_close(&r.selection);
        return -1;
    }
    progress_start(&r.progress, selection_count(&r.selection));
    int failed = run_loop(&r, stop, interrupted, e);
    progress_clear(&r.progress);
    *batch = r.batcher ? r.batch : 0;
    batcher_free(r.batcher);
    while (r.first) {
        struct job *next = r.first->next;
        job_free(r.first);
        r.first = next;
    }
    selection_close(&r.selection);
    return failed;
}
