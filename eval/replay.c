/* replay.c - prompts made again from a run's data sets, and the run's own tokens behind them. */
#include "eval/replay.h"
#include "eval/job.h"
#include "eval/prefix.h"
#include "eval/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    AHEAD = 16,                 /* answers that are looked through for what their prompts share */
    PREFIX_MEMORY = 256 << 20   /* of keys and values kept of that, for each checkpoint */
};

struct player {
    const struct records *run;
    const struct replay_options *o;
    const struct subject *subjects;
    int n_subjects;
    double max_audio_s;
    struct parity_pass *pass;
    struct prefix_store **prefixes;         /* [n_subjects] */
    struct records_texts *texts;
    struct dataset *dataset;    /* of the task at hand */
    bool rewound;               /* it was opened again for the sample that is looked for */
    struct progress progress;
};

/* ---- the run --------------------------------------------------------------------------------------------------- */

int replay_check(const struct records *run, struct err *e)
{
    if (!run->stamp)
        return err_input(e, "%s: a run directory was expected: without its run.json no prompt can be made again",
                         run->path);
    if (!cJSON_IsTrue(json_get(run->stamp, "complete")))
        return err_input(e, "%s: the run is not complete; its command goes on with it", run->name);
    return 0;
}

static const cJSON *identity(const struct records *run, const char *key)
{
    return json_get(json_get(run->stamp, "identity"), key);
}

int replay_engine_options(const struct records *run, struct engine_options *o, struct err *e)
{
    const char *activations = json_string(json_get(run->stamp, "identity"), "activations");
    int64_t image_tokens;
    if (activations && strcmp(activations, "float32") != 0 && strcmp(activations, "int8") != 0)
        return err_input(e, "%s: run.json: activations float32 or int8 were expected, not \"%s\"", run->name,
                         activations);
    o->activations = activations;
    if (json_int(identity(run, "media"), "image_tokens", 0, 1 << 20, 0, &image_tokens, run->name, e))
        return -1;
    o->image_tokens = (int)image_tokens;
    return 0;
}

int replay_check_model(const struct records *run, const struct engine *m, struct err *e)
{
    const char *want = json_string(identity(run, "model"), "fingerprint");
    char hex[65];
    weights_fingerprint(engine_weights(m), hex);
    return want && strcmp(want, hex) == 0 ? 0
        : err_input(e, "%s: the checkpoint that made %s was expected (fingerprint %.12s..., not %.12s...)",
                    engine_info(m)->path, run->name, want ? want : "none", hex);
}

/* ---- data sets ------------------------------------------------------------------------------------------------- */

static const cJSON *named_task(const cJSON *list, const char *task)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, list)
        if (json_string(one, "task") && strcmp(json_string(one, "task"), task) == 0)
            return one;
    return NULL;
}

/* Where a task's data lie now. */
static const char *data_path(const struct player *p, const char *task)
{
    const size_t n = strlen(task);
    for (int i = 0; i < p->o->data.n; i++)
        if (strncmp(p->o->data.at[i], task, n) == 0 && p->o->data.at[i][n] == '=')
            return p->o->data.at[i] + n + 1;
    return json_string(named_task(json_get(p->run->stamp, "data"), task), "path");
}

static int open_dataset(struct player *p, const char *task, struct err *e)
{
    const cJSON *t = named_task(identity(p->run, "tasks"), task);
    struct task_spec spec = {.task = task, .format = json_string(t, "format"), .path = data_path(p, task),
                             .split = json_string(t, "split"), .system = json_string(t, "system"),
                             .prompt = json_string(t, "prompt"), .grader = json_string(t, "grader"),
                             .extract = json_string(t, "extract"), .normalizer = json_string(t, "normalizer")};
    int64_t shots, max_tokens;
    if (!t || !spec.path)
        return err_input(e, "%s: run.json says nothing of the data of \"%s\"; name them with --data %s=PATH",
                         p->run->name, task, task);
    if (json_int(t, "shots", -1, 1000, -1, &shots, p->run->name, e) ||
        json_int(t, "max_tokens", 0, 1 << 20, 0, &max_tokens, p->run->name, e))
        return -1;
    spec.shots = (int)shots;
    spec.max_tokens = (int)max_tokens;
    dataset_close(p->dataset);
    p->dataset = NULL;
    if (dataset_open(&p->dataset, &spec, e) == 0)
        return 0;
    if (!file_exists(spec.path) && !path_is_dir(spec.path))
        err_input(e, "%s: the data of \"%s\" were expected here; --data %s=PATH names another place", spec.path, task,
                  task);
    return -1;
}

/* The sample with this id. Records stand in the order of the samples, so it is nearly always one of the next. */
static int find_sample(struct player *p, const char *task, const char *id, struct sample *s, struct err *e)
{
    for (p->rewound = false;;) {
        const int got = dataset_next(p->dataset, s, e);
        if (got < 0)
            return -1;
        if (got > 0 && strcmp(s->id, id) == 0)
            return 0;
        if (got > 0)
            continue;
        if (p->rewound)
            return err_input(e, "%s: no sample %s; the data set changed since %s", dataset_spec(p->dataset)->path, id,
                             p->run->name);
        if (open_dataset(p, task, e))
            return -1;
        p->rewound = true;
    }
}

/* ---- one answer ------------------------------------------------------------------------------------------------ */

/* The prompt as one subject sees it. */
struct prompt { struct ids ids; float *soft; };

static int make_prompt(const struct subject *s, const struct job *j, struct prompt *out, struct err *e)
{
    const int n = j->sample.n_media;
    struct media_tokens *encoded = NEW(struct media_tokens, n + 1);
    enum media_kind *kinds = NEW(enum media_kind, n + 1);
    struct err *errs = NEW(struct err, n + 1);
    int failed = 0;
    if (n)
        engine_encode(s->m, j->media, n, encoded, errs);
    for (int i = 0; i < n; i++) {
        kinds[i] = j->media[i].kind;
        if (errs[i].code && !failed) {
            *e = errs[i];
            failed = -1;
        }
    }
    if (!failed)
        failed = engine_prompt(s->m, j->rendered, strlen(j->rendered), encoded, kinds, n, &out->ids, &out->soft, e);
    for (int i = 0; i < n; i++)
        media_tokens_free(&encoded[i]);
    free(encoded);
    free(kinds);
    free(errs);
    return failed;
}

static int make_prompts(const struct player *p, const struct job *j, struct prompt *prompts, struct err *e)
{
    for (int k = 0; k < p->n_subjects; k++) {
        const struct ids *ids = &prompts[k].ids;
        if (make_prompt(&p->subjects[k], j, &prompts[k], e))
            return -1;
        if (ids->n != prompts[0].ids.n || memcmp(ids->id, prompts[0].ids.id, (size_t)ids->n * sizeof *ids->id) != 0)
            return err_input(e, "%s: the token ids of %s were expected for the prompt of %s; it has another tokenizer",
                             engine_info(p->subjects[k].m)->path, engine_info(p->subjects[0].m)->path, j->sample.id);
    }
    return 0;
}

static int read_output_ids(const struct player *p, const cJSON *record, const struct record *row, struct ids *out,
                           struct err *e)
{
    const cJSON *list = json_get(record, "output_ids"), *id;
    const int vocab = engine_info(p->subjects[0].m)->vocab_size;
    bool good = cJSON_IsArray(list) && list->child;
    cJSON_ArrayForEach(id, list) {
        good = good && cJSON_IsNumber(id) && id->valuedouble == id->valueint && id->valueint >= 0 &&
               id->valueint < vocab;
        if (good)
            ids_push(out, id->valueint);
    }
    return good ? 0 : err_input(e, "%s:%lld: \"output_ids\", the tokens of the answer, were expected%s", p->run->path,
                                (long long)records_line(p->run, row),
                                list ? "" : "; runs of earlier versions do not have them");
}

/* An answer about to be read. */
struct pending {
    struct replayed_answer *a;
    struct prompt *prompts;     /* [n_subjects] */
    bool stops;                 /* its last token is the stop token */
};

static void pending_free(struct pending *w, int n_subjects)
{
    for (int k = 0; w->prompts && k < n_subjects; k++) {
        ids_free(&w->prompts[k].ids);
        free(w->prompts[k].soft);
    }
    free(w->prompts);
    *w = (struct pending){0};
}

static int prepare_job(struct player *p, const struct job *j, const cJSON *record, struct pending *w, struct err *e)
{
    const char *sha = json_string(record, "prompt_sha"), *stop = json_string(record, "stop");
    if (j->err.code) {
        *e = j->err;
        return -1;
    }
    if (!sha || strcmp(sha, j->prompt_sha) != 0)
        return err_input(e, "%s: sample %s makes another prompt than in %s; the data set or the chat template changed",
                         dataset_spec(p->dataset)->path, j->sample.id, p->run->name);
    memcpy(w->a->prompt_sha, j->prompt_sha, sizeof w->a->prompt_sha);
    w->stops = stop && strcmp(stop, "eos") == 0;
    w->prompts = NEW(struct prompt, p->n_subjects);
    if (make_prompts(p, j, w->prompts, e))
        return -1;
    const int n = w->prompts[0].ids.n;
    return n + w->a->output.n <= engine_info(p->subjects[0].m)->max_positions ? 0
        : err_input(e, "%s: an answer of %d tokens behind a prompt of %d is longer than the model's context",
                    j->sample.id, w->a->output.n, n);
}

static int prepare(struct player *p, const char *task, struct replayed_answer *a, struct pending *w, struct err *e)
{
    struct sample s;
    *w = (struct pending){.a = a};
    cJSON *record = records_text(p->texts, a->row, e);
    const char *id = json_string(record, "id");
    int failed = !record || read_output_ids(p, record, a->row, &a->output, e) || find_sample(p, task, id, &s, e);
    if (!failed) {
        struct job *j = job_new(p->subjects[0].m, p->dataset, &s, p->max_audio_s);
        failed = prepare_job(p, j, record, w, e);
        job_free(j);
    }
    cJSON_Delete(record);
    return failed ? -1 : 0;
}

/* Sequences that hold what this prompt has in common with those behind it. */
static int begin(struct player *p, const struct pending *w, int n, struct seq **held, struct err *e)
{
    struct prefix_prompt others[AHEAD];
    int shared[AHEAD];
    for (int k = 0; k < p->n_subjects; k++) {
        const struct prefix_prompt mine = {w[0].prompts[k].ids.id, w[0].prompts[k].ids.n, NULL};
        int m = 0;
        for (int i = 1; i < n; i++)
            if (!w[i].prompts[k].soft)
                others[m++] = (struct prefix_prompt){w[i].prompts[k].ids.id, w[i].prompts[k].ids.n, NULL};
        if (prefix_begin(p->prefixes[k], &mine, others, m, shared, &held[k], e))
            return -1;
    }
    return 0;
}

/* Reads w[0]; w[1 .. n-1] follow. */
static int read_answer(struct player *p, const struct pending *w, int n, struct parity *parity, struct err *e)
{
    const struct ids *prompt = &w->prompts[0].ids, *output = &w->a->output;
    const float **soft = NEW(const float *, p->n_subjects);
    struct seq **held = NEW(struct seq *, p->n_subjects);
    struct ids all = {0};
    for (int i = 0; i < prompt->n; i++)
        ids_push(&all, prompt->id[i]);
    for (int i = 0; i + 1 < output->n; i++)
        ids_push(&all, output->id[i]);
    for (int k = 0; k < p->n_subjects; k++)
        soft[k] = w->prompts[k].soft;
    const struct passage passage = {.ids = all.id, .n = all.n, .first = prompt->n - 1, .stops = w->stops,
                                    .after = output->id[output->n - 1], .soft = soft[0] ? soft : NULL, .held = held};
    w->a->readings = NEW(struct reading, p->n_subjects);
    int failed = soft[0] ? 0 : begin(p, w, n, held, e);
    if (failed) {
        for (int k = 0; k < p->n_subjects; k++)
            seq_free(held[k]);
    } else {
        failed = parity_read(p->pass, &passage, parity, w->a->readings, e);
    }
    ids_free(&all);
    free(soft);
    free(held);
    return failed;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static bool wanted(const struct player *p, const struct record_task *t)
{
    const struct strings *names = p->o->tasks;
    bool found = !names || names->n == 0;
    for (int i = 0; !found && i < names->n; i++)
        found = strcmp(names->at[i], t->name) == 0;
    return found && t->n > 0;
}

static int64_t wanted_answers(const struct player *p, const struct record_task *t)
{
    return !wanted(p, t) ? 0 : p->o->limit && p->o->limit < t->n ? p->o->limit : t->n;
}

/* How far the run's own checkpoint is from what it once said; far off, nothing else would mean anything. */
static int check_self(struct replayed *out, const struct player *p, const struct replayed_answer *a, struct err *e)
{
    enum { PER_MILLION = 1000 };        /* room for the rounding of another version's sums */
    const double now = a->readings[0].confidence, then = a->row->confidence;
    if (!(a->row->flags & REC_HAS_CONFIDENCE) || isnan(now))
        return 0;
    out->self_difference = fmax(isnan(out->self_difference) ? 0 : out->self_difference, fabs(now - then));
    return fabs(now - then) * 1e6 <= PER_MILLION ? 0
        : err_input(e, "%s:%lld: the run's own checkpoint gives this answer the confidence %.6f again, not the "
                    "recorded %.6f; it had other media, another probe, or was made by another version", p->run->path,
                    (long long)records_line(p->run, a->row), now, then);
}

static int replay_answers(struct replayed *out, struct player *p, int task, struct replayed_task *r, int64_t n,
                          struct err *e)
{
    struct pending waiting[AHEAD] = {{0}};
    int n_waiting = 0, failed = 0;
    int64_t n_prepared = 0;
    while (r->n < n && !failed) {
        for (; n_waiting < AHEAD && n_prepared < n && !failed; n_prepared++) {
            struct replayed_answer *a = &r->answers[n_prepared];
            a->row = records_row(p->run, task, n_prepared);
            failed = prepare(p, r->task, a, &waiting[n_waiting++], e);
        }
        if (!failed)
            failed = read_answer(p, waiting, n_waiting, r->parity, e) || check_self(out, p, waiting[0].a, e);
        pending_free(&waiting[0], p->n_subjects);
        memmove(waiting, waiting + 1, (size_t)--n_waiting * sizeof *waiting);
        r->n++;
        p->progress.done++;
        progress_update(&p->progress, r->task);
    }
    while (n_waiting)
        pending_free(&waiting[--n_waiting], p->n_subjects);
    r->n = n_prepared;                  /* those that a failure left unread are freed as well */
    return failed;
}

static int replay_task(struct replayed *out, struct player *p, int task, struct err *e)
{
    const struct record_task *t = &p->run->tasks[task];
    struct replayed_task *r = &out->tasks[out->n_tasks++];
    const int64_t n = wanted_answers(p, t);
    *r = (struct replayed_task){.task = t->name, .answers = NEW(struct replayed_answer, n),
                                .parity = NEW(struct parity, p->n_subjects)};
    parity_init(p->pass, r->parity);
    const int failed = open_dataset(p, t->name, e) || replay_answers(out, p, task, r, n, e);
    for (int k = 0; k + 1 < p->n_subjects; k++) {
        parity_add(p->pass, &out->all[k], &r->parity[k]);
        parity_sort(&r->parity[k]);
    }
    return failed ? -1 : 0;
}

int replay_run(struct replayed *out, const struct records *run, const struct replay_options *o,
               const struct subject *subjects, int n_subjects, struct err *e)
{
    struct player p = {.run = run, .o = o, .subjects = subjects, .n_subjects = n_subjects};
    const cJSON *audio = json_get(identity(run, "media"), "max_audio_s");
    int64_t n = 0;
    int failed = 0;
    *out = (struct replayed){.n_subjects = n_subjects, .tasks = NEW(struct replayed_task, run->n_tasks),
                             .all = NEW(struct parity, n_subjects), .self_difference = NAN};
    if (!engine_chat_template(subjects[0].m))
        return err_input(e, "%s: no chat template", engine_info(subjects[0].m)->path);
    if (!(p.texts = records_texts_open(run, e)))
        return -1;
    p.max_audio_s = cJSON_IsNumber(audio) ? audio->valuedouble : 0;
    p.pass = parity_begin(subjects, n_subjects);
    p.prefixes = NEW(struct prefix_store *, n_subjects);
    for (int k = 0; k < n_subjects; k++)
        p.prefixes[k] = prefix_open(subjects[k].m, &(struct prefix_settings){.memory_bytes = PREFIX_MEMORY,
                                                                             .identity = ""});
    parity_init(p.pass, out->all);
    for (int t = 0; t < run->n_tasks; t++)
        n += wanted_answers(&p, &run->tasks[t]);
    progress_start(&p.progress, n);
    for (int t = 0; t < run->n_tasks && !failed; t++)
        if (wanted(&p, &run->tasks[t]))
            failed = replay_task(out, &p, t, e);
    progress_clear(&p.progress);
    if (!failed && n == 0)
        failed = err_input(e, "%s: it has no answer to replay", run->path);
    for (int k = 0; k + 1 < n_subjects; k++)
        parity_sort(&out->all[k]);
    dataset_close(p.dataset);
    records_texts_close(p.texts);
    parity_end(p.pass);
    for (int k = 0; k < n_subjects; k++)
        prefix_close(p.prefixes[k]);
    free(p.prefixes);
    return failed;
}

void replayed_free(struct replayed *r)
{
    for (int t = 0; t < r->n_tasks; t++) {
        for (int64_t i = 0; i < r->tasks[t].n; i++) {
            ids_free(&r->tasks[t].answers[i].output);
            free(r->tasks[t].answers[i].readings);
        }
        for (int k = 0; k + 1 < r->n_subjects; k++)
            parity_free(&r->tasks[t].parity[k]);
        free(r->tasks[t].answers);
        free(r->tasks[t].parity);
    }
    for (int k = 0; k + 1 < r->n_subjects; k++)
        parity_free(&r->all[k]);
    free(r->tasks);
    free(r->all);
    *r = (struct replayed){0};
}
