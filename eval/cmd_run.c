/* cmd_run.c - the verb `run`. */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "eval/job.h"
#include "eval/runner.h"
#include "eval/selfcheck.h"
#include "eval/stamp.h"
#include "eval/summary.h"
#include "eval/tasks.h"

#include <stdlib.h>
#include <string.h>

struct run_args {
    struct task_args tasks;
    const char *model, *mmproj, *probe, *out, *kernel, *activations, *media_cache, *trace_hidden;
    int64_t threads, batch, image_tokens, probe_layer;
    double max_audio;
    bool dry_run, trace, retry_errors, no_prefix_cache, selfcheck;
};

struct opened {
    struct tasks tasks;
    struct engine *m;
    struct probe *probe;
};

static int check_args(const struct run_args *a, struct err *e)
{
    if (!a->model)
        return err_set(e, EXIT_USAGE, "run: --model is missing; see \"handoff run --help\"");
    if (!a->out && !a->dry_run)
        return err_set(e, EXIT_USAGE, "run: --out DIR is missing (or --dry-run)");
    return task_args_check(&a->tasks, e) || cli_range("--threads", (double)a->threads, 0, 1024, e) ||
           cli_range("--batch", (double)a->batch, 0, 1024, e) || cli_range("--max-audio", a->max_audio, 0, 1e9, e) ?
           -1 : 0;
}

static struct engine_options options_of(const struct run_args *a)
{
    return (struct engine_options){.n_threads = (int)a->threads, .kernel = a->kernel, .activations = a->activations,
                                   .image_tokens = (int)a->image_tokens, .media_cache = a->media_cache,
                                   .mmproj = a->mmproj};
}

static int open_model(const struct run_args *a, struct opened *o, struct err *e)
{
    const struct engine_options options = options_of(a);
    if (engine_open(&o->m, a->model, &options, e))
        return -1;
    if (!engine_chat_template(o->m))
        return err_input(e, "%s: no chat template (chat_template.jinja was expected)", a->model);
    return probe_open_for(&o->probe, o->m, a->probe, a->probe_layer, e);
}

static void close_all(struct opened *o)
{
    tasks_close(&o->tasks);
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
    for (int i = 0; i < o->tasks.suite.n_tasks && !failed; i++) {
        struct sample s;
        struct dataset *d = o->tasks.datasets[i];
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
    const double tokens_before = cJSON_IsNumber(tokens) ? tokens->valuedouble : 0;
    const double saved_before = cJSON_IsNumber(saved) ? saved->valuedouble : 0;
    cJSON_AddNumberToObject(sum, "prompt_tokens", (double)now.prompt_tokens + tokens_before);
    cJSON_AddNumberToObject(sum, "saved", (double)now.saved + saved_before);
    cJSON_DeleteItemFromObjectCaseSensitive(stamp, "prefix_cache");
    cJSON_AddItemToObject(stamp, "prefix_cache", sum);
}

static bool same_text(const cJSON *a, const cJSON *b, const char *key)
{
    return cJSON_Compare(json_get(a, key), json_get(b, key), true);
}

/* Notes in the stamp that the results do not depend on how the work is cut; once per run, kernel and build. */
static int note_selfcheck(const struct run_args *a, cJSON *stamp, struct err *e)
{
    const cJSON *was = json_get(stamp, "selfcheck");
    if (was && same_text(was, stamp, "kernel") && same_text(was, stamp, "commit"))
        return 0;
    const struct selfcheck_args args = {.model = a->model, .options = options_of(a), .probe = a->probe,
                                        .probe_layer = a->probe_layer};
    char hex[65];
    int way;
    if (selfcheck_all(&args, hex, &way, e))
        return -1;
    if (way >= 0)
        return err_set(e, EXIT_CHECK_FAILED, "selfcheck: \"%s\" gives other bits than \"%s\"", selfcheck_name(way),
                       selfcheck_name(0));
    cJSON *line = cJSON_CreateObject();
    cJSON_AddBoolToObject(line, "ok", true);
    cJSON_AddStringToObject(line, "sha256", hex);
    cJSON_AddNumberToObject(line, "variants", selfcheck_count());
    cJSON_AddItemToObject(line, "kernel", cJSON_Duplicate(json_get(stamp, "kernel"), true));
    cJSON_AddItemToObject(line, "commit", cJSON_Duplicate(json_get(stamp, "commit"), true));
    cJSON_DeleteItemFromObjectCaseSensitive(stamp, "selfcheck");
    cJSON_AddItemToObject(stamp, "selfcheck", line);
    return 0;
}

static int run(const struct run_args *a, struct opened *o, struct err *e)
{
    struct run_settings settings = {.limit = a->tasks.limit, .ids_file = a->tasks.ids, .batch = (int)a->batch,
                                    .trace = a->trace, .max_audio_s = a->max_audio, .shard = o->tasks.shard,
                                    .n_shards = o->tasks.n_shards};
    if (a->trace_hidden &&
        hidden_layers_parse(&settings.hidden_layers, a->trace_hidden, engine_info(o->m)->n_layers, e))
        return -1;
    struct stamp_settings stamped = {.shard = settings.shard, .n_shards = settings.n_shards,
                                     .has_probe = o->probe != NULL,
                                     .image_tokens = (int)a->image_tokens, .max_audio_s = a->max_audio,
                                     .mmproj = a->mmproj, .probe = a->probe, .trace = a->trace,
                                     .trace_hidden = a->trace_hidden,
                                     .probe_layer = o->probe ? probe_layer(o->probe) : 0};
    if (a->probe)
        probe_fingerprint(o->probe, stamped.probe_sha);
    cJSON *stamp = stamp_new(o->m, o->tasks.datasets, o->tasks.suite.n_tasks, &stamped);
    struct store *store;
    if (store_open(&store, a->out, stamp, a->retry_errors, e))
        return -1;
    if (a->selfcheck && note_selfcheck(a, stamp, e)) {
        store_abandon(store);
        return -1;
    }
    if (a->trace_hidden && hidden_writer_open(&settings.hidden, a->out, &settings.hidden_layers,
                                              engine_info(o->m)->hidden_size, e)) {
        store_abandon(store);
        return -1;
    }
    const volatile sig_atomic_t *stop_asked = cli_catch_signals();
    bool interrupted = false, all = !a->tasks.limit && !a->tasks.ids;
    const int64_t before = store_count(store);
    int batch = 0;
    if (!a->no_prefix_cache)
        settings.prefixes = open_prefixes(a, o->m, stamp);
    int failed = run_tasks(o->m, o->probe, o->tasks.datasets, o->tasks.suite.n_tasks, &settings, store, stop_asked,
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
    hidden_writer_close(settings.hidden);
    if (!failed) {
        stamp_close(store_stamp(store), o->tasks.datasets, o->tasks.suite.n_tasks, !interrupted);
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
        failed = tasks_print_notes(&o->tasks, e);
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

/* A server or a command instead of a model: other options. */
static bool asks_elsewhere(int argc, char **argv)
{
    static const char *const names[] = {"--endpoint", "--pipe"};
    for (int i = 1; i < argc; i++)
        for (int k = 0; k < 2; k++) {
            const size_t n = strlen(names[k]);
            if (strncmp(argv[i], names[k], n) == 0 && (argv[i][n] == '\0' || argv[i][n] == '='))
                return true;
        }
    return false;
}

int cmd_run(int argc, char **argv)
{
    struct run_args a = {.tasks.shots = -1, .probe_layer = -1};
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        TASK_OPTIONS(a.tasks),
        {"--out", OPT_STRING, &a.out, "DIR", "run directory; an unfinished run there goes on"},
        {"--batch", OPT_INT, &a.batch, "N", "samples in flight (measured); never changes a result"},
        {"--threads", OPT_INT, &a.threads, "N", "threads (all); never changes a result"},
        {"--kernel", OPT_STRING, &a.kernel, "K", "generic, avx2, avx512, avx512vnni, neon (the best there is)"},
        {"--activations", OPT_STRING, &a.activations, "K", "float32, or int8 in front of quantised weights"},
        {"--image-tokens", OPT_INT, &a.image_tokens, "N", "soft tokens an image may take: 70 140 280 560 1120"},
        {"--max-audio", OPT_DOUBLE, &a.max_audio, "S", "use at most S seconds of a sound (0: all, over 30 s in stretches)"},
        {"--media-cache", OPT_STRING, &a.media_cache, "DIR", "keep encoded pictures and sounds for further runs"},
        {"--no-prefix-cache", OPT_FLAG, &a.no_prefix_cache, NULL, "compute each time what prompts share"},
        {"--selfcheck", OPT_FLAG, &a.selfcheck, NULL, "first prove that the same bits come out of any batch"},
        {"--dry-run", OPT_FLAG, &a.dry_run, NULL, "show the first prompt of each task, run nothing"},
        {"--trace", OPT_FLAG, &a.trace, NULL, "record every token with its entropy"},
        {"--trace-hidden", OPT_STRING, &a.trace_hidden, "L", "record hidden rows of layers, 3 or 3,28 or all (probe fit)"},
        {"--retry-errors", OPT_FLAG, &a.retry_errors, NULL, "do samples again that ended in an error"},
        {0}};
    const struct usage usage = {
        "run", "--model M (--suite S | --data TASK=PATH ...) --out DIR [options]",
        "Runs a checkpoint over hold-outs and appends one record per sample. The same command resumes an interrupted\n"
        "run; a complete one is left as it is. With --endpoint URL an OpenAI-compatible server answers instead, with\n"
        "--pipe COMMAND any other engine: \"handoff run --endpoint --help\".",
        options, "handoff run --model datasets/mini/checkpoint --suite mini --limit 20 --out demo-out/quick"};
    if (asks_elsewhere(argc, argv))
        return cmd_run_endpoint(argc, argv);
    struct err e = {0};
    struct opened o = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = check_args(&a, &e) || tasks_open(&o.tasks, &a.tasks, &e) || open_model(&a, &o, &e);
    if (!failed)
        failed = a.dry_run ? dry_run(&a, &o, &e) : run(&a, &o, &e);
    close_all(&o);
    free(a.tasks.data.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
