/* cmd_status.c - the verb `status`: how far a run is. */
#include "eval/cli.h"

#include <stdlib.h>
#include <string.h>

struct task_count { char *task; int64_t n, errors, unparsed; };

static struct task_count *count_of(struct task_count **counts, int *n, const char *task)
{
    for (int i = 0; i < *n; i++)
        if (strcmp((*counts)[i].task, task) == 0)
            return &(*counts)[i];
    *counts = mem_grow(*counts, (size_t)*n + 1, sizeof **counts);
    (*counts)[*n] = (struct task_count){.task = mem_strdup(task)};
    return &(*counts)[(*n)++];
}

static int count_line(struct task_count **counts, int *n, const char *line, size_t len, const char *where,
                      struct err *e)
{
    cJSON *r = json_parse(line, len, where, e);
    const char *task = json_string(r, "task"), *status = json_string(r, "status");
    int failed = r ? 0 : -1;
    if (r && !task)
        failed = err_input(e, "%s: a record with a task was expected", where);
    if (!failed) {
        struct task_count *c = count_of(counts, n, task);
        c->n++;
        c->errors += status && strcmp(status, "error") == 0;
        c->unparsed += status && strcmp(status, "unparsed") == 0;
    }
    cJSON_Delete(r);
    return failed;
}

static int status(const char *dir, struct err *e)
{
    char *run = path_join(dir, "run.json"), *records = path_join(dir, "records.jsonl");
    cJSON *stamp = json_read_file(run, (size_t)64 << 20, e);
    struct text content = {0}, out = {0};
    text_puts(&content, "");
    struct task_count *counts = NULL;
    int n = 0, failed = stamp ? file_read(records, SIZE_MAX / 4, &content, e) : -1;
    const char *at = content.data, *end = at + content.len, *newline;
    for (int64_t number = 1; !failed && at < end && (newline = memchr(at, '\n', (size_t)(end - at))); number++) {
        struct text where = {0};
        text_printf(&where, "%s:%lld", records, (long long)number);
        failed = count_line(&counts, &n, at, (size_t)(newline - at), where.data, e);
        text_free(&where);
        at = newline + 1;
    }
    if (!failed) {
        text_printf(&out, "%s: %s\n", dir,
                    cJSON_IsTrue(json_get(stamp, "complete")) ? "complete" : "not complete; its command goes on");
        for (int i = 0; i < n; i++)
            text_printf(&out, "%-16s %8lld records  %lld unparsed  %lld errors\n", counts[i].task,
                        (long long)counts[i].n, (long long)counts[i].unparsed, (long long)counts[i].errors);
        failed = cli_print(&out, e);
    }
    for (int i = 0; i < n; i++)
        free(counts[i].task);
    free(counts);
    text_free(&content);
    text_free(&out);
    cJSON_Delete(stamp);
    free(run);
    free(records);
    return failed;
}

int cmd_status(int argc, char **argv)
{
    struct strings dirs = {0};
    const struct option options[] = {{0}};
    const struct usage usage = {"status", "RUN...", "How far a run is.", options, "handoff status demo-out/mini"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &dirs, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = dirs.n ? 0 : err_set(&e, EXIT_USAGE, "status: a run directory is needed");
    for (int i = 0; i < dirs.n && !failed; i++)
        failed = status(dirs.at[i], &e);
    free(dirs.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
