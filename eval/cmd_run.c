/* cmd_run.c - the verb `run`. */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "eval/job.h"
#include "eval/runner.h"
#include "eval/stamp.h"
#include "eval/summary.h"

#include <stdlib.h>
#include <string.h>

struct run_args {
    const char *model, *mmproj, *probe, *suite, *only, *data_root, *out, *ids, *shard, *kernel, *media_cache;
    struct strings data;
    int64_t limit, shots, threads, batch, max_tokens, image_tokens, probe_layer;
    double max_audio;
    bool dry_run, trace, retry_errors, no_prefix_cache;
};

struct opened {
    struct suite suite;
    struct engine *m;
    struct probe *probe;
    struct dataset **datasets;
};

static volatile sig_atomic_t stop_asked;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal}, hangup;
    /* A second Ctrl-C ends the program at once: nothing is lost by that either. */
    a.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)         /* nohup stays in force */
        sigaction(SIGHUP, &a, NULL);
}

static int read_shard(const char *text, int *shard, int *n, struct err *e)
{
    char rest;
    *shard = *n = 1;
    if (text && (sscanf(text, "%d/%d%c", shard, n, &rest) != 2 || *n < 1 || *shard < 1 || *shard > *n))
        return err_set(e, EXIT_USAGE, "--shard: I/N with 1 <= I <= N was expected, not \"%s\"", text);
    return 0;
}

static int check_args(const struct run_args *a, struct err *e)
{
    if (!a->model)
        return err_set(e, EXIT_USAGE, "run: --model is missing; see \"handoff run --help\"");
    if (!a->suite && !a->data.n)
        return err_set(e, EXIT_USAGE, "run: --suite or --data TASK=PATH is missing; see \"handoff run --help\"");
    if (!a->out && !a->dry_run)
        return err_set(e, EXIT_USAGE, "run: --out DIR is missing (or --dry-run)");
    return cli_range("--limit", (double)a->limit, 0, 1e15, e) ||
           cli_range("--threads", (double)a->threads, 0, 1024, e) ||
           cli_range("--batch", (double)a->batch, 0, 1024, e) ||
           cli_range("--max-tokens", (double)a->max_tokens, 0, 1 << 20, e) ||
           cli_range("--shots", (double)a->shots, -1, 1000, e) || cli_range("--max-audio", a->max_audio, 0, 1e9, e) ?
           -1 : 0;
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

static int open_tasks(const struct run_args *a, struct opened *o, struct err *e)
{
    if (a->suite) {
        const bool mini = !a->data_root && strcmp(a->suite, "mini") == 0;
        char *shipped = mini ? cli_shipped("datasets/mini") : NULL;
        const char *root = a->data_root ? a->data_root : shipped;
        if (mini && !shipped)
            return err_set(e, EXIT_USAGE, "--suite mini: the embedded hold-outs do not lie beside this program; name "
                           "the source's datasets/mini with --data-root DIR, or install with \"make install\"");
        int failed = suite_open(&o->suite, a->suite, root, e);
        free(shipped);
        if (!failed && o->suite.missing.len)
            fputs(o->suite.missing.data, stderr);
        if (failed || (a->only && select_tasks(&o->suite, a->only, e)))
            return -1;
    }
    for (int i = 0; i < a->data.n; i++)
        if (suite_add(&o->suite, a->data.at[i], e))
            return -1;
    o->datasets = NEW(struct dataset *, o->suite.n_tasks);
    for (int i = 0; i < o->suite.n_tasks; i++) {
        struct task_spec *t = &o->suite.tasks[i];
        if (a->shots >= 0)
            t->shots = (int)a->shots;
        if (a->max_tokens)
            t->max_tokens = (int)a->max_tokens;
        if (dataset_open(&o->datasets[i], t, e))
            return -1;
    }
    return 0;
}

static int open_model(const struct run_args *a, struct opened *o, struct err *e)
{
    struct engine_options options = {.n_threads = (int)a->threads, .kernel = a->kernel,
                                     .image_tokens = (int)a->image_tokens, .media_cache = a->media_cache,
                                     .mmproj = a->mmproj};
    if (engine_open(&o->m, a->model, &options, e))
        return -1;
    if (!engine_chat_template(o->m))
        return err_input(e, "%s: no chat template (chat_template.jinja was expected)", a->model);
    return probe_open_for(&o->probe, o->m, a->probe, a->probe_layer, e);
}

static void close_all(struct opened *o)
{
    for (int i = 0; o->datasets && i < o->suite.n_tasks; i++)
        dataset_close(o->datasets[i]);
    free(o->datasets);
    suite_close(&o->suite);
    probe_close(o->probe);
    engine_close(o->m);
}

/* The first prompt of a task, as the model will see it, and how many tokens it is, those of its media included. */
static void show_prompt(struct opened *o, struct dataset *d, const struct sample *s, double max_audio, struct text *out)
{
    struct job *j = job_new(o->m, d, s, max_audio);
    jobs_prepare(o->m, &j, 1);
    if (j->err.code)
        text_printf(out, "--- %s: %s\n", s->id, j->err.msg);
    else
        text_printf(out, "--- %s, %d token%s, at most %d generated\n%s\n", s->id, j->prompt.n,
                    j->prompt.n == 1 ? "" : "s", dataset_spec(d)->max_tokens, j->rendered);
    job_free(j);
}

static int dry_run(const struct run_args *a, struct opened *o, struct err *e)
{
    struct text out = {0};
    int failed = 0;
    for (int i = 0; i < o->suite.n_tasks && !failed; i++) {
        struct sample s;
        struct dataset *d = o->datasets[i];
        int got = dataset_next(d, &s, e);
        dataset_count(d);
        text_printf(&out, "=== %s: %s\n%s", dataset_spec(d)->task, dataset_spec(d)->path, dataset_notes(d));
        if (got > 0)
            show_prompt(o, d, &s, a->max_audio, &out);
        failed = got < 0 ? -1 : cli_print(&out, e);
        text_clear(&out);
    }
    text_free(&out);
    return failed;
}

/* What was found and what was refused; a data set of which nothing was usable is an error. */
static int print_notes(const struct opened *o, struct err *e)
{
    struct text t = {0};
    for (int i = 0; i < o->suite.n_tasks; i++)
        text_puts(&t, dataset_notes(o->datasets[i]));
    int failed = cli_print(&t, e);
    text_free(&t);
    for (int i = 0; i < o->suite.n_tasks && !failed; i++)
        if (dataset_skipped(o->datasets[i]) > 0 && dataset_count(o->datasets[i]) == 0)
            failed = err_input(e, "%s: none of its rows can be used (\"handoff inspect --data %s=%s\" says why)",
                               dataset_spec(o->datasets[i])->path, dataset_spec(o->datasets[i])->task,
                               dataset_spec(o->datasets[i])->path);
    return failed;
}

enum { PREFIX_MEMORY = 256 << 20, PREFIX_DISK = 1 << 30 };
static const double prefix_worth_ms = 200;      /* of computing, to be written to disk */

/* What prompts begin with is kept in the run's own folder: its stamp says all that keys and values depend on. */
static struct prefix_store *open_prefixes(const struct run_args *a, struct engine *m, const cJSON *stamp)
{
    struct text identity = {0};
    char *dir = path_join(a->out, "prefix");
    json_print(&identity, json_get(stamp, "identity"));
    text_printf(&identity, "\n%s\n%s", json_string(stamp, "kernel"), json_string(stamp, "commit"));
    const struct prefix_settings settings = {.memory_bytes = PREFIX_MEMORY, .dir = dir, .disk_bytes = PREFIX_DISK,
                                             .worth_ms = prefix_worth_ms, .identity = identity.data};
    struct prefix_store *p = prefix_open(m, &settings);
    free(dir);
    text_free(&identity);
    return p;
}

/* Adds this session's counts to those of earlier ones. */
static void stamp_prefixes(cJSON *stamp, const struct prefix_store *p)
{
    const struct prefix_counts now = prefix_counts(p);
    const cJSON *was = json_get(stamp, "prefix_cache");
    const cJSON *tokens = json_get(was, "prompt_tokens"), *saved = json_get(was, "saved");
    cJSON *sum = cJSON_CreateObject();
    cJSON_AddNumberToObject(sum, "prompt_tokens", (double)now.prompt_tokens + (cJSON_IsNumber(tokens) ? tokens->valuedouble : 0));
    cJSON_AddNumberToObject(sum, "saved", (double)now.saved + (cJSON_IsNumber(saved) ? saved->valuedouble : 0));
    cJSON_DeleteItemFromObjectCaseSensitive(stamp, "prefix_cache");
    cJSON_AddItemToObject(stamp, "prefix_cache", sum);
}

static int run(const struct run_args *a, struct opened *o, struct err *e)
{
    struct run_settings settings = {.limit = a->limit, .ids_file = a->ids, .batch = (int)a->batch, .trace = a->trace,
                                    .max_audio_s = a->max_audio};
    if (read_shard(a->shard, &settings.shard, &settings.n_shards, e))
        return -1;
    struct stamp_settings stamped = {.shard = settings.shard, .n_shards = settings.n_shards,
                                     .has_probe = o->probe != NULL,
                                     .image_tokens = (int)a->image_tokens, .max_audio_s = a->max_audio,
                                     .mmproj = a->mmproj, .probe = a->probe, .trace = a->trace,
                                     .probe_layer = o->probe ? probe_layer(o->probe) : 0};
    if (a->probe)
        probe_fingerprint(o->probe, stamped.probe_sha);
    cJSON *stamp = stamp_new(o->m, o->datasets, o->suite.n_tasks, &stamped);
    struct store *store;
    if (store_open(&store, a->out, stamp, a->retry_errors, e))
        return -1;
    catch_signals();
    bool interrupted = false, all = !a->limit && !a->ids;
    const int64_t before = store_count(store);
    int batch = 0;
    if (!a->no_prefix_cache)
        settings.prefixes = open_prefixes(a, o->m, stamp);
    int failed = run_tasks(o->m, o->probe, o->datasets, o->suite.n_tasks, &settings, store, &stop_asked,
                           &interrupted, &batch, e);
    int64_t n = store_count(store);
    if (!failed && batch) {
        cJSON_DeleteItemFromObjectCaseSensitive(stamp, "batch");
        cJSON_AddNumberToObject(stamp, "batch", batch);
        if (settings.prefixes)
            stamp_prefixes(stamp, settings.prefixes);
    }
    if (!failed && !interrupted && settings.prefixes)
        prefix_remove_files(settings.prefixes);
    prefix_close(settings.prefixes);
    if (!failed) {
        stamp_close(store_stamp(store), o->datasets, o->suite.n_tasks, !interrupted);
        failed = store_finish(store, !interrupted, all, e);
    }
    if (engine_cache_fault(o->m))
        fprintf(stderr, "%s (the media cache; the run does not need it)\n", engine_cache_fault(o->m));
    const cJSON *earlier = cJSON_GetArrayItem(json_get(store_stamp(store), "earlier_kernels"), 0);
    if (cJSON_IsString(earlier) && before && n > before)
        fprintf(stderr, "%s: earlier records were made with the kernel %s; the results do not depend on it\n", a->out,
                earlier->valuestring);
    if (!failed && interrupted)
        failed = err_set(e, EXIT_MACHINE, "interrupted with %lld record%s in %s; the same command goes on from there",
                         (long long)n, n == 1 ? "" : "s", a->out);
    else if (!failed)
        failed = print_notes(o, e);
    if (failed)
        store_abandon(store);
    else
        store_close(store);
    struct text t = {0};
    if (!failed)
        failed = run_summary(a->out, &t, e);
    text_printf(&t, "%lld record%s in %s\n", (long long)n, n == 1 ? "" : "s", a->out);
    if (!failed)
        failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

int cmd_run(int argc, char **argv)
{
    struct run_args a = {.shots = -1, .probe_layer = -1};
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "towers of a .gguf model (the one mmproj*.gguf beside it); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--suite", OPT_STRING, &a.suite, "S", "mini, paper, or a suite file"},
        {"--only", OPT_STRING, &a.only, "T,T,...", "only these tasks of the suite"},
        {"--data-root", OPT_STRING, &a.data_root, "DIR", "where the suite's paths begin"},
        {"--data", OPT_STRINGS, &a.data, "TASK=PATH", "one more hold-out (may be repeated)"},
        {"--out", OPT_STRING, &a.out, "DIR", "run directory; an unfinished run there goes on"},
        {"--limit", OPT_INT, &a.limit, "N", "first N samples of each task (0: all)"},
        {"--ids", OPT_STRING, &a.ids, "FILE", "only these samples: one id per line, or TASK<TAB>id"},
        {"--shard", OPT_STRING, &a.shard, "I/N", "this process takes every N-th sample; see \"handoff merge\""},
        {"--shots", OPT_INT, &a.shots, "N", "few-shot examples (default: as the task has it)"},
        {"--max-tokens", OPT_INT, &a.max_tokens, "N", "limit of generated tokens (0: as the task has it)"},
        {"--batch", OPT_INT, &a.batch, "N", "samples in flight (measured); never changes a result"},
        {"--threads", OPT_INT, &a.threads, "N", "threads (all); never changes a result"},
        {"--kernel", OPT_STRING, &a.kernel, "K", "generic, avx2, avx512, neon (the best there is)"},
        {"--image-tokens", OPT_INT, &a.image_tokens, "N", "soft tokens an image may take: 70 140 280 560 1120"},
        {"--max-audio", OPT_DOUBLE, &a.max_audio, "S", "use at most S seconds of a sound (0: all, over 30 s in stretches)"},
        {"--media-cache", OPT_STRING, &a.media_cache, "DIR", "keep encoded pictures and sounds for further runs"},
        {"--no-prefix-cache", OPT_FLAG, &a.no_prefix_cache, NULL, "compute what prompts share each time (same results)"},
        {"--dry-run", OPT_FLAG, &a.dry_run, NULL, "show the first prompt of each task, run nothing"},
        {"--trace", OPT_FLAG, &a.trace, NULL, "record every token with its entropy"},
        {"--retry-errors", OPT_FLAG, &a.retry_errors, NULL, "do samples again that ended in an error"},
        {0}};
    const struct usage usage = {
        "run", "--model M (--suite S | --data TASK=PATH ...) --out DIR [options]",
        "Runs a checkpoint over hold-outs and appends one record per sample. The same command resumes an interrupted\n"
        "run; a complete one is left as it is.",
        options, "handoff run --model datasets/mini/checkpoint --suite mini --limit 20 --out demo-out/quick"};
    struct err e = {0};
    struct opened o = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = check_args(&a, &e) || open_tasks(&a, &o, &e) || open_model(&a, &o, &e);
    if (!failed)
        failed = a.dry_run ? dry_run(&a, &o, &e) : run(&a, &o, &e);
    close_all(&o);
    free(a.data.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
