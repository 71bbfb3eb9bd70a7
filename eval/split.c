/* split.c - the parts of a drift, from answers read once more. */
#include "eval/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The checkpoints that read: the base's; the new one with the base's arithmetic; and with its own, if that differs. */
enum { BASE, NEW_AS_BASE, NEW_AS_NEW, MOST_SUBJECTS };

struct splitter {
    const struct inputs *in;
    const struct split_options *o;
    const struct records *base, *fresh;
    struct arena *arena;
    struct subject subjects[MOST_SUBJECTS];
    int n_subjects;
    struct records_texts *fresh_texts;
};

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

static const char *activations_of(const struct records *run)
{
    const char *s = json_string(json_get(run->stamp, "identity"), "activations");
    return s ? s : "float32";
}

static const char *moved_option(const struct splitter *s, const struct records *run)
{
    return run == s->base ? "--model-base" : "--model-new";
}

/* The checkpoint of `run` with the arithmetic of `as`. */
static int open_subject(struct splitter *s, const struct records *run, const struct records *as, struct err *e)
{
    struct subject *subject = &s->subjects[s->n_subjects++];
    const char *moved = run == s->base ? s->o->model_base : s->o->model_new;
    const char *path = moved ? moved : json_string(run->stamp, "model_path");
    const cJSON *layer = json_get(json_get(json_get(run->stamp, "identity"), "probe"), "layer");
    struct engine_options options = {.n_threads = (int)s->o->threads, .mmproj = json_string(run->stamp, "mmproj_path")};
    if (!path)
        return err_input(e, "%s: run.json names no model; %s does", run->name, moved_option(s, run));
    if (!file_exists(path) && !path_is_dir(path))
        return err_input(e, "%s: the checkpoint of %s was expected here; %s names another place", path, run->name,
                         moved_option(s, run));
    if (replay_engine_options(as, &options, e) || engine_open(&subject->m, path, &options, e) ||
        probe_open_for(&subject->probe, subject->m, json_string(run->stamp, "probe_path"),
                       cJSON_IsNumber(layer) ? (int64_t)layer->valuedouble : -1, e))
        return -1;
    return subject->probe ? 0 : err_input(e, "%s: no handoff probe, so there is no drift to split", path);
}

static int open_subjects(struct splitter *s, struct err *e)
{
    if (open_subject(s, s->base, s->base, e) || replay_check_model(s->base, s->subjects[BASE].m, e) ||
        open_subject(s, s->fresh, s->base, e) || replay_check_model(s->fresh, s->subjects[NEW_AS_BASE].m, e))
        return -1;
    if (strcmp(activations_of(s->base), activations_of(s->fresh)) == 0)
        return 0;
    return open_subject(s, s->fresh, s->fresh, e);
}

/* ---- samples --------------------------------------------------------------------------------------------------- */

/* Columns over the samples that have a confidence in both runs. */
struct parts {
    size_t n;
    int64_t n_changed;
    double *total, *weights, *arithmetic, *answers;
    const struct record **row;
};

static void parts_make(struct parts *p, size_t room)
{
    *p = (struct parts){.total = NEW(double, room), .weights = NEW(double, room), .arithmetic = NEW(double, room),
                        .answers = NEW(double, room), .row = NEW(const struct record *, room)};
}

static void parts_free(struct parts *p)
{
    free(p->total);
    free(p->weights);
    free(p->arithmetic);
    free(p->answers);
    free(p->row);
}

static void parts_add(struct parts *p, const struct replayed_answer *a, double now, int n_subjects, bool changed)
{
    const double then = a->row->confidence, as_base = a->readings[NEW_AS_BASE].confidence;
    const double as_new = a->readings[n_subjects - 1].confidence;
    p->total[p->n] = now - then;
    p->weights[p->n] = as_base - then;
    p->arithmetic[p->n] = as_new - as_base;
    p->answers[p->n] = now - as_new;
    p->row[p->n++] = a->row;
    p->n_changed += changed;
}

/* Whether the other run's record holds other tokens. */
static int is_changed(const struct splitter *s, const struct replayed_answer *a, const struct record *twin,
                      bool *changed, struct err *e)
{
    cJSON *record = records_text(s->fresh_texts, twin, e);
    const cJSON *list = json_get(record, "output_ids"), *id;
    const char *sha = json_string(record, "prompt_sha");
    int i = 0;
    if (!record)
        return -1;
    if (!cJSON_IsArray(list) || (!s->in->force && (!sha || strcmp(sha, a->prompt_sha) != 0))) {
        err_input(e, "%s:%lld: %s", s->fresh->path, (long long)records_line(s->fresh, twin),
                  cJSON_IsArray(list) ? "another prompt than in the base run; --force compares them all the same"
                                      : "\"output_ids\", the tokens of the answer, were expected");
        cJSON_Delete(record);
        return -1;
    }
    *changed = cJSON_GetArraySize(list) != a->output.n || !sha || strcmp(sha, a->prompt_sha) != 0;
    cJSON_ArrayForEach(id, list)
        if (!*changed)
            *changed = id->valuedouble != a->output.id[i++];
    cJSON_Delete(record);
    return 0;
}

/* An answer that stayed the same has no part of its own: the new checkpoint must give its recorded confidence again. */
static int check_unchanged(const struct splitter *s, const struct replayed_answer *a, const struct record *twin,
                           struct err *e)
{
    const double read = a->readings[s->n_subjects - 1].confidence;
    return fabs(read - twin->confidence) <= 1e-3 ? 0
        : err_input(e, "%s:%lld: the checkpoint gives this answer the confidence %.6f again, not the recorded %.6f; "
                    "it had other media, another probe, or was made by another version", s->fresh->path,
                    (long long)records_line(s->fresh, twin), read, twin->confidence);
}

static int add_answers(const struct splitter *s, const struct replayed_task *t, struct parts *one, struct parts *all,
                       struct err *e)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct replayed_answer *a = &t->answers[i];
        const struct record *twin = records_find(s->fresh, a->row->key);
        bool changed = false;
        if (!twin || !(twin->flags & REC_HAS_CONFIDENCE) || !(a->row->flags & REC_HAS_CONFIDENCE))
            continue;
        if (is_changed(s, a, twin, &changed, e) || (!changed && check_unchanged(s, a, twin, e)))
            return -1;
        parts_add(one, a, twin->confidence, s->n_subjects, changed);
        parts_add(all, a, twin->confidence, s->n_subjects, changed);
    }
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static struct split_row make_row(const struct splitter *s, const char *task, const struct parts *p,
                                 const struct parity *parity)
{
    const int64_t resamples = s->o->resamples, seed = s->o->seed;
    return (struct split_row){.task = task, .n = (int64_t)p->n, .n_changed = p->n_changed,
                              .total = estimate_mean(p->total, p->row, p->n, resamples, seed),
                              .weights = estimate_mean(p->weights, p->row, p->n, resamples, seed),
                              .arithmetic = estimate_mean(p->arithmetic, p->row, p->n, resamples, seed),
                              .answers = estimate_mean(p->answers, p->row, p->n, resamples, seed),
                              .kl_mean = figure_of(parity_mean_kl(parity)),
                              .same_top = figure_of((double)parity->n_same_top / (double)parity->n)};
}

static void put_part(struct text *t, const char *before, struct estimate part)
{
    text_puts(t, before);
    if (part.mean.why)
        text_puts(t, "undefined");
    else if (part.ci95.why)
        text_printf(t, "%+.4f", part.mean.value);
    else
        text_printf(t, "%+.4f [%+.4f, %+.4f]", part.mean.value, part.ci95.lo, part.ci95.hi);
}

static const char *summary_of(const struct splitter *s, const struct split_row *r)
{
    const char *base = activations_of(s->base), *fresh = activations_of(s->fresh);
    struct text t = {0};
    put_part(&t, "Of the drift of ", r->total);
    put_part(&t, ", ", r->weights);
    put_part(&t, " is the weights', ", r->arithmetic);
    if (strcmp(base, fresh) == 0)
        text_printf(&t, " the arithmetic's (%s in both)", base);
    else
        text_printf(&t, " the arithmetic's (%s, then %s)", base, fresh);
    put_part(&t, ", and ", r->answers);
    text_printf(&t, " comes from %lld of %lld answers that changed.", (long long)r->n_changed, (long long)r->n);
    const char *kept = arena_strndup(s->arena, t.data, t.len);
    text_free(&t);
    return kept;
}

static int make_rows(struct drift_split *out, const struct splitter *s, const struct replayed *r, struct err *e)
{
    struct split_row *rows = ARENA_NEW(s->arena, struct split_row, r->n_tasks + 1);
    struct parts all;
    size_t room = 0;
    int failed = 0, n = 0;
    for (int t = 0; t < r->n_tasks; t++)
        room += (size_t)r->tasks[t].n;
    parts_make(&all, room);
    for (int t = 0; t < r->n_tasks && !failed; t++) {
        struct parts one;
        parts_make(&one, (size_t)r->tasks[t].n);
        failed = add_answers(s, &r->tasks[t], &one, &all, e);
        if (!failed)
            rows[n++] = make_row(s, r->tasks[t].task, &one, &r->tasks[t].parity[0]);
        parts_free(&one);
    }
    if (!failed && n > 1)
        rows[n++] = make_row(s, "all", &all, &r->all[0]);
    if (!failed)
        *out = (struct drift_split){activations_of(s->base), activations_of(s->fresh), r->self_difference, n, rows,
                                    summary_of(s, &rows[n - 1])};
    parts_free(&all);
    return failed;
}

int drift_split_make(struct drift_split *out, const struct inputs *in, const struct split_options *o,
                     const struct records *base, const struct records *fresh, struct arena *a, struct err *e)
{
    struct splitter s = {.in = in, .o = o, .base = base, .fresh = fresh, .arena = a};
    struct replay_options replay = o->replay;
    struct replayed r = {0};
    replay.tasks = &in->tasks;
    int failed = replay_check(base, e) || replay_check(fresh, e) || open_subjects(&s, e);
    if (!failed && !(s.fresh_texts = records_texts_open(fresh, e)))
        failed = -1;
    if (!failed)
        failed = replay_run(&r, base, &replay, s.subjects, s.n_subjects, e) || make_rows(out, &s, &r, e);
    replayed_free(&r);
    if (s.fresh_texts)
        records_texts_close(s.fresh_texts);
    for (int k = 0; k < s.n_subjects; k++) {
        probe_close(s.subjects[k].probe);
        engine_close(s.subjects[k].m);
    }
    return failed ? -1 : 0;
}
