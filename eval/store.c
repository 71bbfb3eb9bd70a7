/* store.c - run directories that survive being killed. */
#define _GNU_SOURCE
#include "eval/store.h"
#include "eval/record_line.h"
#include "eval/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct done { const char *key, *prompt_sha; int64_t line; bool expected; };     /* key: task, a newline, id */

struct store {
    char *dir, *run_path, *records_path;
    bool made_dir;              /* it was not there before */
    int fd, lock;
    cJSON *stamp;
    bool was_complete;          /* run.json says so, and nothing was appended since */
    struct arena arena;
    struct done *table;         /* open addressing, n_slots is a power of two */
    size_t n_slots, n_done;
    const char **order;         /* keys in the order of the samples */
    size_t n_order, cap_order;
    int64_t n_lines;
    int64_t last_line;          /* of the last sample found done */
    bool gap;                   /* a sample was to do */
    bool shuffled;              /* a done sample stands before an earlier one, or behind a gap that is filled now */
};

/* ---- the table of finished samples ----------------------------------------------------------------------------- */

static uint64_t hash_of(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h ^ h >> 32;
}

static struct done *find_slot(const struct store *s, const char *key)
{
    size_t i = hash_of(key) & (s->n_slots - 1);
    while (s->table[i].key && strcmp(s->table[i].key, key) != 0)
        i = (i + 1) & (s->n_slots - 1);
    return &s->table[i];
}

static void table_grow(struct store *s)
{
    struct done *old = s->table;
    size_t n_old = s->n_slots;
    s->n_slots = n_old ? n_old * 2 : 1024;
    s->table = NEW(struct done, s->n_slots);
    for (size_t i = 0; i < n_old; i++)
        if (old[i].key)
            *find_slot(s, old[i].key) = old[i];
    free(old);
}

static bool table_add(struct store *s, const char *key, const char *prompt_sha, int64_t line)
{
    if (s->n_done * 2 >= s->n_slots)
        table_grow(s);
    struct done *slot = find_slot(s, key);
    if (slot->key)
        return false;
    *slot = (struct done){.key = key, .prompt_sha = prompt_sha, .line = line};
    s->n_done++;
    return true;
}

static char *make_key(struct arena *a, const char *task, const char *id)
{
    return arena_printf(a, "%s\n%s", task, id);
}

/* ---- reading what is there ------------------------------------------------------------------------------------- */

/* A record that the verbs behind `run` would refuse. */
static int check_record(struct line_reader *reader, const char *line, size_t len, const char *where, struct err *e)
{
    struct line_fields fields;
    struct err fault = {0};
    return line_parse(reader, line, len, &fields, &fault) ? err_input(e, "%s: %s", where, fault.msg) : 0;
}

/* *drop: an error that is to be done again. */
static int read_record(struct store *s, struct line_reader *reader, const char *line, size_t len, int64_t number, bool retry_errors, bool *drop,
                       struct err *e)
{
    struct text where = {0};
    text_printf(&where, "%s:%lld", s->records_path, (long long)number);
    cJSON *r = check_record(reader, line, len, where.data, e) ? NULL : json_parse(line, len, where.data, e);
    const char *task = json_string(r, "task"), *id = json_string(r, "id"), *status = json_string(r, "status");
    const char *prompt_sha = json_string(r, "prompt_sha");
    int failed = r ? 0 : -1;
    if (r && (!task || !id || !status))
        failed = err_input(e, "%s: a record with task, id and status was expected", where.data);
    if (!failed) {
        *drop = retry_errors && strcmp(status, "error") == 0;
        char *sha = arena_strndup(&s->arena, prompt_sha ? prompt_sha : "", prompt_sha ? strlen(prompt_sha) : 0);
        if (!*drop && !table_add(s, make_key(&s->arena, task, id), sha, number))
            failed = err_input(e, "%s: sample %s of %s stands here twice", where.data, id, task);
    }
    cJSON_Delete(r);
    text_free(&where);
    return failed;
}

/* Reads all whole lines; `keep` collects those that stay. A last line without a newline was torn by a kill. */
static int read_lines(struct store *s, const struct text *content, bool retry_errors, struct text *keep,
                      struct err *e)
{
    const char *at = content->data, *end = content->data + content->len;
    struct line_reader reader;
    int failed = line_reader_init(&reader, "mean");
    for (int64_t number = 1; at < end && !failed; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            break;
        bool drop = false;
        size_t len = (size_t)(newline - at);
        failed = read_record(s, &reader, at, len, number, retry_errors, &drop, e);
        if (failed)
            break;
        if (!drop) {
            text_put(keep, at, len + 1);
            s->n_lines++;
        }
        at = newline + 1;
    }
    line_reader_free(&reader);
    return failed;
}

static int load_records(struct store *s, bool retry_errors, struct err *e)
{
    struct text content = {0}, keep = {0};
    int failed = 0;
    if (file_exists(s->records_path)) {
        failed = file_read(s->records_path, SIZE_MAX / 4, &content, e);
        if (!failed && content.len)
            failed = read_lines(s, &content, retry_errors, &keep, e);
        if (!failed && keep.len != content.len)
            failed = file_write_atomic(s->records_path, keep.data, keep.len, e);
    }
    text_free(&content);
    text_free(&keep);
    return failed;
}

/* ---- the stamp ------------------------------------------------------------------------------------------------- */

/* Results do not depend on the kernel, but the stamp says which ones made them. */
static void note_kernel(cJSON *stamp, const cJSON *old)
{
    const char *was = json_string(old, "kernel"), *is = json_string(stamp, "kernel");
    const cJSON *earlier = json_get(old, "earlier_kernels"), *one;
    cJSON *all = cJSON_IsArray(earlier) ? cJSON_Duplicate(earlier, true) : cJSON_CreateArray();
    bool known = !was || !is || strcmp(was, is) == 0;
    cJSON_ArrayForEach(one, all)
        known |= cJSON_IsString(one) && was && strcmp(one->valuestring, was) == 0;
    if (!known)
        cJSON_AddItemToArray(all, cJSON_CreateString(was));
    if (cJSON_GetArraySize(all))
        cJSON_AddItemToObject(stamp, "earlier_kernels", all);
    else
        cJSON_Delete(all);
}

static int other_run(const char *dir, const cJSON *was, const cJSON *is, struct err *e)
{
    struct text what = {0};
    stamp_difference(was, is, &what);
    err_set(e, EXIT_USAGE, "%s holds a run that differs from this one: %s; choose another --out, or remove it", dir,
            what.data);
    text_free(&what);
    return -1;
}

static int check_identity(struct store *s, const char *dir, struct err *e)
{
    if (!file_exists(s->run_path))
        return file_exists(s->records_path)
                   ? err_input(e, "%s: records without a run.json; choose another --out", dir) : 0;
    cJSON *old = stamp_read(dir, e);
    if (!old)
        return -1;
    const cJSON *was = json_get(old, "identity"), *is = json_get(s->stamp, "identity");
    int failed = 0;
    if (!cJSON_IsObject(was))
        failed = err_input(e, "%s: key \"identity\" is missing", s->run_path);
    else if (!cJSON_Compare(was, is, true))
        failed = other_run(dir, was, is, e);
    const cJSON *started = json_get(old, "started"), *counts = json_get(old, "prefix_cache");
    const cJSON *selfcheck = json_get(old, "selfcheck");
    if (!failed && started)
        cJSON_ReplaceItemInObjectCaseSensitive(s->stamp, "started", cJSON_Duplicate(started, true));
    if (!failed && counts)
        cJSON_AddItemToObject(s->stamp, "prefix_cache", cJSON_Duplicate(counts, true));
    if (!failed && selfcheck)
        cJSON_AddItemToObject(s->stamp, "selfcheck", cJSON_Duplicate(selfcheck, true));
    note_kernel(s->stamp, old);
    s->was_complete = cJSON_IsTrue(json_get(old, "complete"));
    cJSON_Delete(old);
    return failed;
}

static int write_stamp(struct store *s, bool complete, struct err *e)
{
    cJSON_DeleteItemFromObjectCaseSensitive(s->stamp, "complete");
    cJSON_AddBoolToObject(s->stamp, "complete", complete);
    char *pretty = cJSON_Print(s->stamp);
    struct text t = {0};
    text_printf(&t, "%s\n", pretty);
    int failed = file_write_atomic(s->run_path, t.data, t.len, e);
    cJSON_free(pretty);
    text_free(&t);
    return failed;
}

/* ---- the interface --------------------------------------------------------------------------------------------- */

/* *made: DIR itself was not there. */
static int make_dirs(const char *dir, bool *made, struct err *e)
{
    char *path = mem_strdup(dir);
    for (char *p = path + 1; ; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char held = *p;
        *p = '\0';
        *made = mkdir(path, 0777) == 0;
        if (!*made && errno != EEXIST) {
            err_machine(e, "%s: cannot be made", path);
            free(path);
            return -1;
        }
        *p = held;
        if (!held)
            break;
    }
    free(path);
    return 0;
}

static int open_for_append(struct store *s, const char *dir, bool retry_errors, struct err *e)
{
    /* The lock is on the folder: records.jsonl itself may be replaced by a repaired file. */
    s->lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return err_machine(e, "%s: cannot be opened", dir);
    if (flock(s->lock, LOCK_EX | LOCK_NB) != 0)
        return err_set(e, EXIT_MACHINE, "%s: another process is writing this run", dir);
    /* The stamp before the first record: killed in between, there must not be records that nobody can name. */
    if (check_identity(s, dir, e) || load_records(s, retry_errors, e) || (!s->was_complete && write_stamp(s, false, e)))
        return -1;
    s->fd = open(s->records_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return err_machine(e, "%s: cannot be opened for writing", s->records_path);
    return 0;
}

int store_open(struct store **out, const char *dir, cJSON *stamp, bool retry_errors, struct err *e)
{
    struct store *s = NEW(struct store, 1);
    s->dir = mem_strdup(dir);
    s->run_path = path_join(dir, "run.json");
    s->records_path = path_join(dir, "records.jsonl");
    s->stamp = stamp;
    s->fd = s->lock = -1;
    table_grow(s);
    *out = s;
    if (make_dirs(dir, &s->made_dir, e) || open_for_append(s, dir, retry_errors, e)) {
        store_abandon(s);
        *out = NULL;
        return -1;
    }
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->lock >= 0)
        close(s->lock);
    cJSON_Delete(s->stamp);
    free(s->dir);
    free(s->run_path);
    free(s->records_path);
    free(s->table);
    free(s->order);
    arena_free(&s->arena);
    free(s);
}

void store_abandon(struct store *s)
{
    if (s && s->made_dir && s->n_lines == 0) {
        unlink(s->records_path);
        unlink(s->run_path);
        rmdir(s->dir);
    }
    store_close(s);
}

int store_expect(struct store *s, const char *task, const char *id, const char *prompt_sha, struct err *e)
{
    char *key = make_key(&s->arena, task, id);
    if (s->n_order == s->cap_order) {
        s->cap_order = s->cap_order * 2 + 256;
        s->order = mem_grow(s->order, s->cap_order, sizeof *s->order);
    }
    s->order[s->n_order++] = key;
    struct done *d = find_slot(s, key);
    if (!d->key) {
        s->gap = true;
        return 0;
    }
    d->expected = true;
    s->shuffled |= s->gap || d->line < s->last_line;
    s->last_line = d->line;
    if (prompt_sha && d->prompt_sha[0] && strcmp(d->prompt_sha, prompt_sha) != 0)
        return err_input(e, "%s:%lld: sample %s of %s was asked with another prompt; the data set changed, choose "
                         "another --out", s->records_path, (long long)d->line, id, task);
    return 1;
}

void store_unordered(struct store *s)
{
    s->shuffled = true;
}

int store_append(struct store *s, const struct text *line, struct err *e)
{
    if (s->was_complete && write_stamp(s, false, e))
        return -1;
    s->was_complete = false;
    struct text whole = {0};
    text_printf(&whole, "%s\n", line->data);
    const char *at = whole.data;
    size_t left = whole.len;
    while (left) {
        ssize_t n = write(s->fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            text_free(&whole);
            return err_machine(e, "%s: cannot be written", s->records_path);
        }
        at += n;
        left -= (size_t)n;
    }
    text_free(&whole);
    s->n_lines++;
    return 0;
}

int64_t store_count(const struct store *s)
{
    return s->n_lines;
}

cJSON *store_stamp(struct store *s)
{
    return s->stamp;
}

struct line { const char *at; size_t len, rank; };

static int by_rank(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Rewrites the file in the order of the samples. Samples beyond this run's --limit or --ids keep their places behind. */
static int put_in_order(struct store *s, struct err *e)
{
    struct text content = {0}, sorted = {0};
    if (file_read(s->records_path, SIZE_MAX / 4, &content, e))
        return -1;
    free(s->table);
    s->table = NULL;
    s->n_slots = s->n_done = 0;
    table_grow(s);
    for (size_t i = 0; i < s->n_order; i++)
        table_add(s, s->order[i], "", (int64_t)i);
    struct line *lines = NEW(struct line, s->n_lines + 1);
    size_t n = 0;
    for (const char *at = content.data, *end = at + content.len; at < end; n++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        cJSON *r = cJSON_ParseWithLength(at, (size_t)(newline - at));
        const struct done *d = find_slot(s, make_key(&s->arena, json_string(r, "task"), json_string(r, "id")));
        lines[n] = (struct line){at, (size_t)(newline + 1 - at), d->key ? (size_t)d->line : s->n_order + n};
        cJSON_Delete(r);
        at = newline + 1;
    }
    qsort(lines, n, sizeof *lines, by_rank);
    for (size_t i = 0; i < n; i++)
        text_put(&sorted, lines[i].at, lines[i].len);
    int failed = file_write_atomic(s->records_path, sorted.data, sorted.len, e);
    free(lines);
    text_free(&content);
    text_free(&sorted);
    s->shuffled = false;
    return failed;
}

/* Records of samples that the data sets do not have would count in every figure. */
static int refuse_strangers(const struct store *s, struct err *e)
{
    const struct done *first = NULL;
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->table[i].key && !s->table[i].expected && (!first || s->table[i].line < first->line))
            first = &s->table[i];
    if (!first)
        return 0;
    int n = (int)strcspn(first->key, "\n");
    return err_input(e, "%s:%lld: the data have no sample %s of %.*s; remove this line, or choose another --out",
                     s->records_path, (long long)first->line, first->key + n + 1, n, first->key);
}

int store_finish(struct store *s, bool complete, bool all_expected, struct err *e)
{
    if (complete && all_expected && refuse_strangers(s, e))
        return -1;
    if (s->was_complete)
        return 0;
    if (complete && s->shuffled && s->n_lines && put_in_order(s, e))
        return -1;
    return write_stamp(s, complete, e);
}
