/* cmd_run_endpoint.c - the verb `run` with --endpoint or --pipe: an OpenAI-compatible server, or a command, as the source
 * of records.
 *
 * A record is written as soon as its answer is there, in whatever order, and the file put into the order of the samples
 * at the end: answers may have been paid for.
 */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "eval/endpoint.h"
#include "eval/job.h"
#include "eval/pipe.h"
#include "eval/progress.h"
#include "eval/stamp.h"
#include "eval/store.h"
#include "eval/summary.h"
#include "eval/tasks.h"

#include <stdlib.h>
#include <string.h>

struct endpoint_args {
    struct task_args tasks;
    const char *url, *command, *model, *key_variable, *out;
    int64_t concurrency, retries, top_logprobs;
    double rps, timeout;
    bool stream, dry_run, retry_errors;
    const char *extra_text;
    cJSON *extra;
};

struct remote_run {
    const struct endpoint_args *a;
    struct selection selection;
    struct store *store;
    struct asker *server;
    struct progress progress;
    bool all_read;
    char answered_by[128];      /* as the server calls itself */
};

static int read_extra(struct endpoint_args *a, struct err *e)
{
    static const char *const ours[] = {"model", "messages", "stream", "stream_options", "logprobs", "top_logprobs"};
    if (!a->extra_text)
        return 0;
    struct err what = {0};
    a->extra = json_parse(a->extra_text, strlen(a->extra_text), "--extra", &what);
    if (!cJSON_IsObject(a->extra))
        return err_set(e, EXIT_USAGE, "%s", a->extra ? "--extra: a JSON object was expected" : what.msg);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (json_get(a->extra, ours[i]))
            return err_set(e, EXIT_USAGE, "--extra: \"%s\" is not for it to say", ours[i]);
    return 0;
}

static int check_args(const struct endpoint_args *a, struct err *e)
{
    const char *authority = a->url ? strstr(a->url, "://") : NULL;
    if ((a->url != NULL) == (a->command != NULL))
        return err_set(e, EXIT_USAGE, "run: one of --endpoint and --pipe was expected");
    if (a->command && (a->stream || a->key_variable || a->rps > 0))
        return err_set(e, EXIT_USAGE, "run: --stream, --api-key-env and --rps go with --endpoint");
    if (!a->model)
        return err_set(e, EXIT_USAGE, "run: --model-name is missing: what the server calls the model");
    if (!a->out && !a->dry_run)
        return err_set(e, EXIT_USAGE, "run: --out DIR is missing (or --dry-run)");
    if (authority && memchr(authority, '@', strcspn(authority + 3, "/?#") + 3))
        return err_set(e, EXIT_USAGE, "--endpoint: a URL without user and password was expected; see --api-key-env");
    if (a->key_variable && !getenv(a->key_variable))
        return err_set(e, EXIT_USAGE, "--api-key-env: there is no environment variable %s", a->key_variable);
    return task_args_check(&a->tasks, e) || cli_range("--concurrency", (double)a->concurrency, 1, 1024, e) ||
           cli_range("--retries", (double)a->retries, 0, 1000, e) || cli_range("--rps", a->rps, 0, 1e6, e) ||
           cli_range("--timeout", a->timeout, 0.1, 1e6, e) ||
           cli_range("--top-logprobs", (double)a->top_logprobs, 0, REMOTE_MAX_TOP, e) ? -1 : 0;
}

/* ---- questions ------------------------------------------------------------------------------------------------- */

static int make_request(const struct endpoint_args *a, struct job *j, struct text *body)
{
    const struct remote_settings set = {.model = a->model, .max_tokens = j->spec->max_tokens,
                                        .top_logprobs = (int)a->top_logprobs, .stream = a->stream,
                                        .extra = a->extra};
    for (int i = 0; i < j->sample.n_media && !j->err.code; i++)
        if (j->media[i].begin_s > 0 || j->media[i].end_s > 0)
            err_input(&j->err, "%s: a part of a recording cannot be sent; cut the recordings beforehand",
                      j->media[i].name);
    if (j->err.code)
        return -1;
    cJSON *messages = json_parse(j->rendered, strlen(j->rendered), j->sample.id, &j->err);
    int failed = messages ? remote_request(&set, messages, j->media, j->sample.n_media, body, &j->err) : -1;
    cJSON_Delete(messages);
    return failed;
}

static int write_record(struct remote_run *r, struct job *j, const struct asker_answer *a, struct err *e)
{
    if (a && a->err.code)
        j->err = a->err;
    job_finish_remote(j, a ? &a->answer : NULL, a ? a->first_ms : 0, a ? a->rest_ms : 0);
    int failed = store_append(r->store, &j->record, e);
    if (a && a->answer.model[0])
        memcpy(r->answered_by, a->answer.model, sizeof r->answered_by);
    r->progress.done++;
    progress_update(&r->progress, j->spec->task);
    job_free(j);
    return failed;
}

/* The next sample that is not done yet: asked, or written as an error if it cannot be. */
static int ask_next(struct remote_run *r, struct err *e)
{
    struct dataset *d;
    struct sample s;
    struct text body = {0};
    int got = selection_next(&r->selection, &d, &s, e);
    r->all_read = got == 0;
    if (got <= 0)
        return got;
    struct job *j = job_new_remote(d, &s);
    int done = store_expect(r->store, j->spec->task, j->sample.id, j->prompt_sha, e);
    if (done) {
        job_free(j);
        r->progress.before++;
        return done < 0 ? -1 : 0;
    }
    if (make_request(r->a, j, &body)) {
        text_free(&body);
        return write_record(r, j, NULL, e);
    }
    job_drop_media(j);
    r->server->ask(r->server, &body, j);
    return 0;
}

static int take_answers(struct remote_run *r, struct err *e)
{
    struct asker_answer a;
    int failed = 0;
    while (!failed && r->server->take(r->server, &a)) {
        failed = write_record(r, a.user, &a, e);
        remote_answer_free(&a.answer);
    }
    return failed;
}

static int ask_all(struct remote_run *r, const volatile sig_atomic_t *stop, bool *interrupted, struct err *e)
{
    while (!(*interrupted = *stop != 0)) {
        while (!r->all_read && r->server->has_room(r->server) && !*stop)
            if (ask_next(r, e))
                return -1;
        if (r->all_read && r->server->active(r->server) == 0)
            return 0;
        int failed = r->server->step(r->server, 200, e);
        struct err ignored;
        if (take_answers(r, failed ? &ignored : e) || failed)
            return -1;
    }
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------------------- */

static int dry_run(const struct endpoint_args *a, struct tasks *t, struct err *e)
{
    struct text out = {0};
    int failed = 0;
    for (int i = 0; i < t->suite.n_tasks && !failed; i++) {
        struct sample s;
        struct dataset *d = t->datasets[i];
        int got = dataset_next(d, &s, e);
        dataset_count(d);
        text_printf(&out, "=== %s: %s\n%s", dataset_spec(d)->task, dataset_spec(d)->path, dataset_notes(d));
        if (got > 0) {
            struct job *j = job_new_remote(d, &s);
            struct text body = {0};
            if (make_request(a, j, &body))
                text_printf(&out, "--- %s: %s\n", s.id, j->err.msg);
            else
                text_printf(&out, "--- %s, a request of %zu bytes\n%s\n", s.id, body.len, j->rendered);
            text_free(&body);
            job_free(j);
        }
        failed = got < 0 ? -1 : cli_print(&out, e);
        text_clear(&out);
    }
    text_free(&out);
    return failed;
}

static int open_server(const struct endpoint_args *a, struct asker **out, struct err *e)
{
    if (a->command)
        return pipe_open(out, &(struct pipe_settings){.command = a->command, .concurrency = (int)a->concurrency,
                                                      .timeout_s = a->timeout}, e);
    const struct endpoint_settings set = {.url = a->url, .key = a->key_variable ? getenv(a->key_variable) : NULL,
                                          .concurrency = (int)a->concurrency, .retries = (int)a->retries,
                                          .rps = a->rps, .timeout_s = a->timeout};
    return endpoint_open(out, &set, e);
}

/* Everything between the opened store and its end. */
static int ask_and_write(struct remote_run *r, const struct tasks *t, bool *interrupted, struct err *e)
{
    const struct endpoint_args *a = r->a;
    if (selection_open(&r->selection, t->datasets, t->suite.n_tasks, a->tasks.limit, a->tasks.ids, t->shard,
                       t->n_shards, e))
        return -1;
    store_unordered(r->store);
    progress_start(&r->progress, selection_count(&r->selection));
    int failed = ask_all(r, cli_catch_signals(), interrupted, e);
    progress_clear(&r->progress);
    if (failed)
        return -1;
    cJSON *stamp = store_stamp(r->store);
    if (r->answered_by[0])
        cJSON_AddStringToObject(stamp, "answered_by", r->answered_by);
    stamp_close(stamp, t->datasets, t->suite.n_tasks, !*interrupted);
    return store_finish(r->store, !*interrupted, !a->tasks.limit && !a->tasks.ids, e);
}

static void drop_job(void *user)
{
    job_free(user);
}

static int report(const struct endpoint_args *a, int64_t n, struct err *e)
{
    struct text t = {0};
    int failed = run_summary(a->out, &t, e);
    text_printf(&t, "%lld record%s in %s\n", (long long)n, n == 1 ? "" : "s", a->out);
    if (!failed)
        failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

static int run(const struct endpoint_args *a, struct tasks *t, struct err *e)
{
    struct remote_run r = {.a = a};
    const struct stamp_remote stamped = {.url = a->url, .command = a->command, .model = a->model, .stream = a->stream,
                                         .shard = t->shard, .n_shards = t->n_shards,
                                         .top_logprobs = (int)a->top_logprobs, .extra = a->extra};
    if (open_server(a, &r.server, e))
        return -1;
    if (store_open(&r.store, a->out, stamp_new_remote(t->datasets, t->suite.n_tasks, &stamped), a->retry_errors, e)) {
        r.server->close(r.server, drop_job);
        return -1;
    }
    bool interrupted = false;
    int failed = ask_and_write(&r, t, &interrupted, e);
    const int64_t n = store_count(r.store);
    if (failed && e->code == EXIT_MACHINE) {
        struct err why = *e;
        err_set(e, EXIT_MACHINE, "%.900s; %lld record%s in %s, the same command goes on from there", why.msg,
                (long long)n, n == 1 ? "" : "s", a->out);
    } else if (!failed && interrupted) {
        failed = err_set(e, EXIT_MACHINE, "interrupted with %lld record%s in %s; the same command goes on from there",
                         (long long)n, n == 1 ? "" : "s", a->out);
    } else if (!failed) {
        failed = tasks_print_notes(t, e);
    }
    r.server->close(r.server, drop_job);
    selection_close(&r.selection);
    if (failed)
        store_abandon(r.store);
    else
        store_close(r.store);
    return failed ? -1 : report(a, n, e);
}

int cmd_run_endpoint(int argc, char **argv)
{
    struct endpoint_args a = {.tasks.shots = -1, .concurrency = -1, .retries = 5, .timeout = 600};
    const struct option options[] = {
        {"--endpoint", OPT_STRING, &a.url, "URL", "the server: http://127.0.0.1:8080/v1"},
        {"--pipe", OPT_STRING, &a.command, "COMMAND", "instead: a command that answers lines of JSON (scripts/adaptors)"},
        {"--model-name", OPT_STRING, &a.model, "N", "what it calls the model"},
        {"--api-key-env", OPT_STRING, &a.key_variable, "VAR", "environment variable with the key"},
        TASK_OPTIONS(a.tasks),
        {"--out", OPT_STRING, &a.out, "DIR", "run directory; an unfinished run there goes on"},
        {"--concurrency", OPT_INT, &a.concurrency, "N", "questions under way at a time (8; 1 with --pipe)"},
        {"--rps", OPT_DOUBLE, &a.rps, "X", "questions a second at most (no limit)"},
        {"--retries", OPT_INT, &a.retries, "N", "further tries of a question that fails, with growing pauses (5)"},
        {"--timeout", OPT_DOUBLE, &a.timeout, "S", "seconds that an answer may take (600)"},
        {"--stream", OPT_FLAG, &a.stream, NULL, "ask for streams"},
        {"--top-logprobs", OPT_INT, &a.top_logprobs, "K", "ask for log-probabilities of the K most likely tokens"},
        {"--extra", OPT_STRING, &a.extra_text, "JSON", "further members of each request (null takes one out)"},
        {"--dry-run", OPT_FLAG, &a.dry_run, NULL, "show the first question of each task, ask nothing"},
        {"--retry-errors", OPT_FLAG, &a.retry_errors, NULL, "do samples again that ended in an error"},
        {0}};
    const struct usage usage = {
        "run", "(--endpoint URL | --pipe COMMAND) --model-name N (--suite S | --data TASK=PATH ...) --out DIR [options]",
        "An OpenAI-compatible server answers the hold-outs; its answers are graded and recorded as those of a model\n"
        "here. The confidence is a member of the answer (\"confidence\") or the trailer [[hybrid:confidence=0.7812]],\n"
        "or there is none: a reference model. The same command resumes an interrupted run.",
        options, "handoff serve --model datasets/mini/checkpoint --port 8080 & sleep 2\n"
        "  handoff run --endpoint http://127.0.0.1:8080/v1 --model-name checkpoint --suite mini --limit 5 \\\n"
        "    --out demo-out/served; kill $!"};
    struct err e = {0};
    struct tasks tasks = {0};
    if (argc == 3 && strcmp(argv[1], "--endpoint") == 0 && strcmp(argv[2], "--help") == 0)
        argv[1] = argv[2];
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    if (a.concurrency == -1)
        a.concurrency = a.command ? 1 : 8;
    int failed = check_args(&a, &e) || read_extra(&a, &e) || tasks_open(&tasks, &a.tasks, &e);
    if (!failed)
        failed = a.dry_run ? dry_run(&a, &tasks, &e) : run(&a, &tasks, &e);
    tasks_close(&tasks);
    free(a.tasks.data.at);
    cJSON_Delete(a.extra);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
