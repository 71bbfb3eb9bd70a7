/* stamp.c - fingerprints of model, tokenizer, template, data and code, decode settings, kernel, machine. */
#define _GNU_SOURCE
#include "eval/stamp.h"
#include "eval/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef HANDOFF_COMMIT
#define HANDOFF_COMMIT "unknown"
#endif

static void add_string(cJSON *o, const char *key, const char *value)
{
    if (value)
        cJSON_AddStringToObject(o, key, value);
    else
        cJSON_AddNullToObject(o, key);
}

static cJSON *model_identity(const struct engine *m)
{
    const struct model_info *info = engine_info(m);
    cJSON *o = cJSON_CreateObject();
    char hex[65];
    weights_fingerprint(engine_weights(m), hex);
    cJSON_AddStringToObject(o, "architecture", info->architecture);
    cJSON_AddStringToObject(o, "fingerprint", hex);
    struct document_sha sha;
    engine_document_sha(m, &sha);
    add_string(o, "config_sha", sha.config);
    add_string(o, "tokenizer_sha", sha.tokenizer);
    add_string(o, "template_sha", *sha.chat_template ? sha.chat_template : NULL);
    return o;
}

static cJSON *task_identity(const struct task_spec *t)
{
    cJSON *o = cJSON_CreateObject();
    add_string(o, "task", t->task);
    add_string(o, "format", t->format);
    add_string(o, "split", t->split);
    add_string(o, "system", t->system);
    add_string(o, "prompt", t->prompt);
    cJSON_AddNumberToObject(o, "shots", t->shots);
    cJSON_AddNumberToObject(o, "max_tokens", t->max_tokens);
    add_string(o, "grader", t->grader);
    add_string(o, "extract", t->extract);
    add_string(o, "normalizer", t->normalizer);
    struct mapped list;
    if (t->contaminated && map_open(&list, t->contaminated, NULL) == 0) {
        char hex[65];
        sha256_hex_of(list.data, list.size, hex);
        add_string(o, "contaminated_sha", hex);
        map_close(&list);
    }
    return o;
}

static void add_tasks(cJSON *identity, struct dataset *const *datasets, int n_tasks)
{
    cJSON *tasks = cJSON_AddArrayToObject(identity, "tasks");
    for (int i = 0; i < n_tasks; i++)
        cJSON_AddItemToArray(tasks, task_identity(dataset_spec(datasets[i])));
}

static void add_shard(cJSON *identity, int shard, int n_shards)
{
    cJSON *pair = cJSON_AddArrayToObject(identity, "shard");
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(shard));
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(n_shards));
}

static void add_time(cJSON *o, const char *key)
{
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    cJSON_DeleteItemFromObjectCaseSensitive(o, key);
    cJSON_AddStringToObject(o, key, text);
}

static void add_machine(cJSON *o, const struct model_info *info)
{
    cJSON *machine = cJSON_AddObjectToObject(o, "machine");
    char model[128] = "unknown";
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %127[^\n]", model) == 1)
            break;
    if (f)
        fclose(f);
    cJSON_AddStringToObject(machine, "cpu", model);
    cJSON_AddNumberToObject(machine, "threads", info->n_threads);
}

cJSON *stamp_new(const struct engine *m, struct dataset *const *datasets, int n_tasks,
                 const struct stamp_settings *settings)
{
    const struct model_info *info = engine_info(m);
    cJSON *stamp = cJSON_CreateObject();
    cJSON_AddStringToObject(stamp, "handoff", HANDOFF_VERSION);
    cJSON_AddStringToObject(stamp, "commit", HANDOFF_COMMIT);
    cJSON_AddStringToObject(stamp, "model_path", info->path);
    add_string(stamp, "mmproj_path", settings->mmproj);
    add_string(stamp, "probe_path", settings->probe);
    cJSON_AddStringToObject(stamp, "kernel", info->kernel);
    add_machine(stamp, info);
    cJSON *identity = cJSON_AddObjectToObject(stamp, "identity");
    cJSON_AddItemToObject(identity, "model", model_identity(m));
    cJSON_AddStringToObject(identity, "activations", info->activations);
    cJSON *decode = cJSON_AddObjectToObject(identity, "decode");
    cJSON_AddStringToObject(decode, "sampling", "greedy");
    cJSON *probe = cJSON_AddObjectToObject(identity, "probe");
    cJSON_AddBoolToObject(probe, "present", settings->has_probe);
    if (settings->has_probe)
        cJSON_AddNumberToObject(probe, "layer", settings->probe_layer);
    if (settings->probe_sha[0])
        cJSON_AddStringToObject(probe, "fingerprint", settings->probe_sha);
    cJSON *media = cJSON_AddObjectToObject(identity, "media");
    cJSON_AddNumberToObject(media, "image_tokens", settings->image_tokens);
    cJSON_AddNumberToObject(media, "max_audio_s", settings->max_audio_s);
    add_shard(identity, settings->shard, settings->n_shards);
    if (settings->trace)
        cJSON_AddTrueToObject(identity, "trace");
    if (settings->trace_hidden)
        cJSON_AddStringToObject(identity, "trace_hidden", settings->trace_hidden);
    add_tasks(identity, datasets, n_tasks);
    cJSON *definitions = cJSON_AddObjectToObject(stamp, "definitions");
    cJSON_AddStringToObject(definitions, "confidence", "1 - p_wrong; probe rows: one per generated token, the stop "
                                                       "token's row included, the first 1024");
    cJSON_AddStringToObject(definitions, "entropy", "nats; softmax over the whole vocabulary of the soft-capped "
                                                    "logits; mean over answer tokens without stop token and thoughts");
    cJSON_AddStringToObject(definitions, "logprob", "mean over the same tokens");
    cJSON_AddStringToObject(definitions, "margin", "smallest gap between the two best logits over the same tokens");
    add_time(stamp, "started");
    return stamp;
}

cJSON *stamp_new_remote(struct dataset *const *datasets, int n_tasks, const struct stamp_remote *r)
{
    static const char *const unknown[] = {"weights", "tokenizer", "chat template", "arithmetic", "rows of the probe",
                                          "preparation of pictures and sounds"};
    cJSON *stamp = cJSON_CreateObject(), *identity, *server, *decode, *definitions;
    cJSON_AddStringToObject(stamp, "handoff", HANDOFF_VERSION);
    cJSON_AddStringToObject(stamp, "commit", HANDOFF_COMMIT);
    cJSON_AddStringToObject(stamp, "model_path", r->model);
    identity = cJSON_AddObjectToObject(stamp, "identity");
    server = cJSON_AddObjectToObject(identity, "endpoint");
    cJSON_AddStringToObject(server, r->command ? "command" : "url", r->command ? r->command : r->url);
    cJSON_AddStringToObject(server, "model", r->model);
    cJSON_AddBoolToObject(server, "stream", r->stream);
    cJSON_AddNumberToObject(server, "top_logprobs", r->top_logprobs);
    if (r->extra)
        cJSON_AddItemToObject(server, "extra", cJSON_Duplicate(r->extra, true));
    decode = cJSON_AddObjectToObject(identity, "decode");
    cJSON_AddStringToObject(decode, "sampling", json_get(r->extra, "temperature") ? "as asked for" : "greedy");
    add_shard(identity, r->shard, r->n_shards);
    add_tasks(identity, datasets, n_tasks);
    cJSON_AddItemToObject(stamp, "unknown", cJSON_CreateStringArray(unknown, sizeof unknown / sizeof *unknown));
    definitions = cJSON_AddObjectToObject(stamp, "definitions");
    cJSON_AddStringToObject(definitions, "confidence", "what the server says: a member of its answer, else the trailer "
                                                       "(four decimals)");
    cJSON_AddStringToObject(definitions, "entropy", "nats; what the server says, else from top_logprobs: a lower "
                                                    "bound, with the largest mean that is possible beside it");
    cJSON_AddStringToObject(definitions, "logprob", "mean over the tokens of \"logprobs\" without thoughts");
    cJSON_AddStringToObject(definitions, "decode", "temperature 0 was asked for");
    add_time(stamp, "started");
    return stamp;
}

void stamp_close(cJSON *stamp, struct dataset *const *datasets, int n_tasks, bool to_its_end)
{
    cJSON_DeleteItemFromObjectCaseSensitive(stamp, "data");
    cJSON *data = cJSON_AddArrayToObject(stamp, "data");
    for (int i = 0; i < n_tasks; i++) {
        cJSON *o = cJSON_CreateObject();
        const struct task_spec *spec = dataset_spec(datasets[i]);
        add_string(o, "task", spec->task);
        add_string(o, "path", spec->path);
        if (to_its_end) {
            char hex[65];
            dataset_fingerprint(datasets[i], hex);
            cJSON_AddNumberToObject(o, "samples", (double)dataset_read(datasets[i]));
            cJSON_AddStringToObject(o, "sha", hex);
        }
        cJSON_AddNumberToObject(o, "refused_rows", (double)dataset_skipped(datasets[i]));
        add_string(o, "notes", dataset_notes(datasets[i]));
        cJSON_AddItemToArray(data, o);
    }
    add_time(stamp, "finished");
}

cJSON *stamp_read(const char *dir, struct err *e)
{
    char *path = path_join(dir, "run.json");
    cJSON *stamp = json_read_file(path, (size_t)64 << 20, e);
    if (stamp && !cJSON_IsObject(stamp)) {
        err_input(e, "%s: an object was expected, the stamp of a run", path);
        cJSON_Delete(stamp);
        stamp = NULL;
    }
    free(path);
    return stamp;
}

/* Follows the first difference into objects, and into arrays of one length; entries that name a task are called by it. */
static void follow_difference(const cJSON **one, const cJSON **other, struct text *path)
{
    const cJSON *a = *one, *b = *other, *member;
    if (cJSON_IsArray(a) && cJSON_IsArray(b) && cJSON_GetArraySize(a) == cJSON_GetArraySize(b)) {
        int i = 0;
        for (a = a->child, b = b->child; cJSON_Compare(a, b, true); a = a->next, b = b->next)
            i++;
        const char *task = json_string(a, "task");
        if (task)
            text_printf(path, "[%s]", task);
        else
            text_printf(path, "[%d]", i);
    } else if (cJSON_IsObject(a) && cJSON_IsObject(b)) {
        const char *name = NULL;
        cJSON_ArrayForEach(member, a)
            name = name || cJSON_Compare(member, json_get(b, member->string), true) ? name : member->string;
        cJSON_ArrayForEach(member, b)
            name = name || json_get(a, member->string) ? name : member->string;
        text_printf(path, "%s%s", path->len ? "." : "", name);
        a = json_get(a, name);
        b = json_get(b, name);
    } else {
        return;
    }
    *one = a;
    *other = b;
    follow_difference(one, other, path);
}

static void put_value(struct text *out, const cJSON *value)
{
    struct text t = {0};
    if (value)
        json_print(&t, value);
    text_printf(out, t.len > 200 ? "%.200s..." : "%s", value ? t.data : "absent");
    text_free(&t);
}

void stamp_difference(const cJSON *one, const cJSON *other, struct text *out)
{
    text_clear(out);
    follow_difference(&one, &other, out);
    text_puts(out, " is ");
    put_value(out, one);
    text_puts(out, " in the one and ");
    put_value(out, other);
    text_puts(out, " in the other");
}
