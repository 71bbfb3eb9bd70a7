/* cmd_merge.c - the verb `merge`: the shards of a run into one, in the order of an undivided run.
 *
 * Shard I of N holds the samples I, I + N, I + 2N, ... of every task, so record k of a task in shard I is the
 * (k * N + I)-th: taking the shards in turn restores the order.
 */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "eval/stamp.h"
#include "eval/store.h"

#include <stdlib.h>
#include <string.h>

struct shard {
    const char *dir;
    cJSON *stamp;
    int number;                 /* 1-based */
    struct text records;
    const char *at;             /* next record */
};

static int read_shard(struct shard *s, const char *dir, int n, struct err *e)
{
    char *run = path_join(dir, "run.json"), *records = path_join(dir, "records.jsonl");
    s->dir = dir;
    s->stamp = stamp_read(dir, e);
    const cJSON *shard = json_get(json_get(s->stamp, "identity"), "shard");
    int failed = s->stamp ? 0 : -1;
    if (!failed && cJSON_GetArraySize(shard) != 2)
        failed = err_input(e, "%s: key \"identity\".\"shard\": [I, N] was expected", run);
    if (!failed) {
        s->number = cJSON_GetArrayItem(shard, 0)->valueint;
        int of = cJSON_GetArrayItem(shard, 1)->valueint;
        if (of != n || s->number < 1 || s->number > n)
            failed = err_input(e, "%s is shard %d of %d; all %d were expected, %d were given", dir, s->number, of, of,
                               n);
        else if (!cJSON_IsTrue(json_get(s->stamp, "complete")))
            failed = err_input(e, "%s is not complete; run its command again first", dir);
    }
    if (!failed)
        failed = file_read(records, SIZE_MAX / 4, &s->records, e);
    if (!failed && s->records.len && s->records.data[s->records.len - 1] != '\n')
        failed = err_input(e, "%s: the last line is torn; run the shard's command again first", records);
    s->at = s->records.data;
    free(run);
    free(records);
    return failed;
}

static int by_number(const void *a, const void *b)
{
    return ((const struct shard *)a)->number - ((const struct shard *)b)->number;
}

/* The task named in the record at s->at; "" at the end. */
static void task_at(const struct shard *s, struct text *task)
{
    text_clear(task);
    text_puts(task, "");
    const char *end = s->at ? strchr(s->at, '\n') : NULL;
    if (!end)
        return;
    cJSON *r = cJSON_ParseWithLength(s->at, (size_t)(end - s->at));
    const char *name = json_string(r, "task");
    text_puts(task, name ? name : "");
    cJSON_Delete(r);
}

static int short_of(const struct shard *s, int ended, int i, struct text *task, struct text *mine, struct err *e)
{
    err_input(e, "%s: records of \"%s\" are missing: %s has more of them; run the shard's command again first",
              s[ended].dir, task->data, s[i].dir);
    text_free(task);
    text_free(mine);
    return -1;
}

/* One record from each shard in turn, as long as they are of the same task. */
static int interleave(struct shard *s, int n, struct text *out, struct err *e)
{
    struct text task = {0}, mine = {0};
    for (bool any = true; any;) {
        any = false;
        task_at(&s[0], &task);
        if (task.len == 0)
            break;
        int ended = -1;             /* the first shard that has no more of this task: then no later turn may have */
        for (bool more = true; more;) {
            more = false;
            for (int i = 0; i < n; i++) {
                task_at(&s[i], &mine);
                if (mine.len == 0 || strcmp(mine.data, task.data) != 0) {
                    ended = ended < 0 ? i : ended;
                    continue;
                }
                if (ended >= 0)
                    return short_of(s, ended, i, &task, &mine, e);
                const char *end = strchr(s[i].at, '\n') + 1;
                text_put(out, s[i].at, (size_t)(end - s[i].at));
                s[i].at = end;
                more = any = true;
            }
        }
    }
    text_free(&task);
    text_free(&mine);
    for (int i = 0; i < n; i++)
        if (s[i].at && *s[i].at)
            return err_input(e, "%s: its records do not follow the tasks of shard 1", s[i].dir);
    return 0;
}

static int same_run(const struct shard *a, const struct shard *b, struct err *e)
{
    cJSON *one = cJSON_Duplicate(json_get(a->stamp, "identity"), true);
    cJSON *other = cJSON_Duplicate(json_get(b->stamp, "identity"), true);
    int failed = a->number == b->number ? err_input(e, "%s and %s are the same shard", a->dir, b->dir) : 0;
    cJSON_DeleteItemFromObjectCaseSensitive(one, "shard");
    cJSON_DeleteItemFromObjectCaseSensitive(other, "shard");
    if (!failed && !cJSON_Compare(one, other, true)) {
        struct text what = {0};
        stamp_difference(one, other, &what);
        failed = err_input(e, "%s and %s are not of one run: %s", a->dir, b->dir, what.data);
        text_free(&what);
    }
    cJSON_Delete(one);
    cJSON_Delete(other);
    return failed;
}

static int write_merged(struct shard *s, int n, const char *out_dir, struct err *e)
{
    struct text merged = {0};
    if (interleave(s, n, &merged, e)) {
        text_free(&merged);
        return -1;
    }
    cJSON *stamp = cJSON_Duplicate(s[0].stamp, true);
    cJSON *shard = cJSON_CreateIntArray((const int[]){1, 1}, 2);
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(stamp, "identity"), "shard", shard);
    struct store *store;
    int failed = store_open(&store, out_dir, stamp, false, e);
    if (!failed) {
        if (store_count(store))
            failed = err_set(e, EXIT_USAGE, "%s holds records already; choose another --out", out_dir);
        for (char *at = merged.data; !failed && at && *at;) {
            char *end = strchr(at, '\n');
            *end = '\0';
            struct text line = {at, (size_t)(end - at), 0};
            failed = store_append(store, &line, e);
            at = end + 1;
        }
        if (!failed)
            failed = store_finish(store, true, false, e);
        if (!failed)
            printf("%lld record%s in %s\n", (long long)store_count(store), store_count(store) == 1 ? "" : "s", out_dir);
        if (failed)
            store_abandon(store);
        else
            store_close(store);
    }
    text_free(&merged);
    return failed;
}

static int merge(const struct strings *dirs, const char *out, struct err *e)
{
    int n = dirs->n, failed = 0;
    struct shard *s = NEW(struct shard, n);
    for (int i = 0; i < n && !failed; i++)
        failed = read_shard(&s[i], dirs->at[i], n, e);
    if (!failed)
        qsort(s, (size_t)n, sizeof *s, by_number);
    for (int i = 1; i < n && !failed; i++)
        failed = same_run(&s[i - 1], &s[i], e);
    if (!failed)
        failed = write_merged(s, n, out, e);
    for (int i = 0; i < n; i++) {
        cJSON_Delete(s[i].stamp);
        text_free(&s[i].records);
    }
    free(s);
    return failed;
}

int cmd_merge(int argc, char **argv)
{
    const char *out = NULL;
    struct strings dirs = {0};
    const struct option options[] = {{"--out", OPT_STRING, &out, "DIR", "the merged run"}, {0}};
    const struct usage usage = {
        "merge", "SHARD... --out DIR", "Puts the finished shards of one run together, as if it had not been divided.",
        options,
        "for i in 1 2; do handoff run --model datasets/mini/checkpoint --suite mini --limit 20 \\\n"
        "      --shard $i/2 --out demo-out/shard$i; done\n"
        "  handoff merge demo-out/shard1 demo-out/shard2 --out demo-out/whole"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &dirs, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = dirs.n && out ? merge(&dirs, out, &e)
                               : err_set(&e, EXIT_USAGE, "merge: shards and --out are needed; see \"handoff merge "
                                         "--help\"");
    free(dirs.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
