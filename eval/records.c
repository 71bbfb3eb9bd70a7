/* records.c - streams a record file into rows; the index over them and the texts behind them. */
#define _GNU_SOURCE
#include "eval/records.h"
#include "eval/record_line.h"
#include "eval/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BLOCK = 1 << 20, MAX_LINE = 64 << 20, MAX_TASKS = 4096 };

/* The publisher's order; other tasks follow by name. */
static const char *const known_tasks[] = {
    "mmlu", "mmlu-pro", "arc-easy", "arc-challenge", "gsm8k", "mmbench", "chartqa", "docvqa", "mmau", "gigaspeech",
    "earnings22", "librispeech"};

/* ---- rows and their hash table --------------------------------------------------------------------------------- */

struct loader {
    struct records *r;
    struct line_reader lines;
    int64_t line_no, cap;
    const char *path;
    bool run_directory, keep_group_keys;
    uint32_t *group_slots;              /* hash table over group_key; group */
    uint64_t n_group_slots;
    uint64_t last_task_hash;            /* runs of one task are the rule: skip the search */
    int last_task;
};

static void slots_put(struct records *r, uint32_t row)
{
    uint64_t mask = r->n_slots - 1, at = r->rows[row].key & mask;
    while (r->slots[at])
        at = (at + 1) & mask;
    r->slots[at] = row + 1;
}

static void slots_make(struct records *r, uint64_t n_slots)
{
    free(r->slots);
    r->n_slots = n_slots;
    r->slots = NEW(uint32_t, n_slots);
    for (int64_t i = 0; i < r->n; i++)
        slots_put(r, (uint32_t)i);
}

const struct record *records_find(const struct records *r, uint64_t key)
{
    if (!r->n_slots)
        return NULL;
    uint64_t mask = r->n_slots - 1;
    for (uint64_t at = key & mask; r->slots[at]; at = (at + 1) & mask)
        if (r->rows[r->slots[at] - 1].key == key)
            return &r->rows[r->slots[at] - 1];
    return NULL;
}

/* The slot of a group, or the free one where it belongs. */
static uint32_t *group_slot(const struct loader *l, uint64_t hash)
{
    uint64_t mask = l->n_group_slots - 1, at = (hash >> 1) & mask;
    while (l->group_slots[at] && l->r->group_key[l->group_slots[at] - 1] != hash)
        at = (at + 1) & mask;
    return &l->group_slots[at];
}

static uint32_t group_number(struct loader *l, uint64_t hash)
{
    struct records *r = l->r;
    if (!hash)
        return 0;
    if ((uint64_t)r->n_groups * 4 >= l->n_group_slots * 3) {
        free(l->group_slots);
        l->n_group_slots = l->n_group_slots ? l->n_group_slots * 2 : 1024;
        l->group_slots = NEW(uint32_t, l->n_group_slots);
        r->group_key = mem_grow(r->group_key, (size_t)l->n_group_slots, sizeof *r->group_key);
        for (int64_t i = 0; i < r->n_groups; i++)
            *group_slot(l, r->group_key[i]) = (uint32_t)i + 1;
    }
    uint32_t *slot = group_slot(l, hash);
    if (!*slot) {
        r->group_key[r->n_groups] = hash;
        *slot = (uint32_t)++r->n_groups;
    }
    return *slot;
}

static int task_index(struct loader *l, const struct line_fields *f, int *task, struct err *e)
{
    struct records *r = l->r;
    if (l->last_task < r->n_tasks && l->last_task_hash == f->task_hash && r->n_tasks) {
        *task = l->last_task;
        return 0;
    }
    int t = 0;
    while (t < r->n_tasks && (strlen(r->tasks[t].name) != f->task_len ||
                              memcmp(r->tasks[t].name, f->task, f->task_len) != 0))
        t++;
    if (t == r->n_tasks) {
        if (t == MAX_TASKS)
            return err_input(e, "%s:%" PRId64 ": more than %d tasks in one file", l->path, l->line_no, MAX_TASKS);
        r->tasks = mem_grow(r->tasks, (size_t)t + 1, sizeof *r->tasks);
        r->tasks[t] = (struct record_task){.name = mem_strndup(f->task, f->task_len)};
        memcpy(r->tasks[t].modality, f->modality, sizeof f->modality);
        r->n_tasks++;
    }
    l->last_task = *task = t;
    l->last_task_hash = f->task_hash;
    return 0;
}

static int add_record(struct loader *l, const struct line_fields *f, struct err *e)
{
    struct records *r = l->r;
    int task = 0;
    if (task_index(l, f, &task, e))
        return -1;
    if (f->is_error) {
        r->tasks[task].n_error++;
        r->n_error++;
        return 0;
    }
    if (f->not_scored) {
        r->tasks[task].n_unscored++;
        r->n_unscored++;
        return 0;
    }
    const struct record *twin = records_find(r, f->row.key);
    if (twin)
        return err_input(e, "%s:%" PRId64 ": task \"%.*s\" has the id \"%.*s\" a second time (first at byte %" PRIu64
                         "); every sample may stand once", l->path, l->line_no, (int)f->task_len, f->task,
                         (int)(f->id_len > 200 ? 200 : f->id_len), f->id, record_offset(twin));
    if (r->n == INT32_MAX)
        return err_input(e, "%s: more than %d records", l->path, INT32_MAX);
    if (r->n == l->cap) {
        l->cap = l->cap ? l->cap + l->cap / 2 : 1024;
        r->rows = mem_grow(r->rows, (size_t)l->cap, sizeof *r->rows);
    }
    struct record *row = &r->rows[r->n];
    *row = f->row;
    row->task = (uint16_t)task;
    row->group = group_number(l, f->group_hash);
    struct record_task *t = &r->tasks[task];
    if (t->n && t->wer != ((row->flags & REC_HAS_WER) != 0))
        return err_input(e, "%s:%" PRId64 ": task \"%s\" mixes records with \"wer\" and without it", l->path,
                         l->line_no, t->name);
    t->wer = (row->flags & REC_HAS_WER) != 0;
    t->graded |= !t->wer && (row->flags & REC_HAS_SCORE) && row->score > 0 && row->score < 1;
    t->n++;
    r->n++;
    if ((uint64_t)r->n * 4 > r->n_slots * 3)
        slots_make(r, r->n_slots ? r->n_slots * 2 : 1024);
    else
        slots_put(r, (uint32_t)(r->n - 1));
    return 0;
}

static int add_line(struct loader *l, const char *s, size_t len, uint64_t offset, bool ended, struct err *e)
{
    l->line_no++;
    if (len && s[len - 1] == '\r')
        len--;
    if (len == 0)
        return err_input(e, "%s:%" PRId64 ": empty line; a record was expected", l->path, l->line_no);
    struct line_fields f;
    struct err fault = {0};
    if (line_parse(&l->lines, s, len, &f, &fault)) {
        if (!ended && l->run_directory) {
            text_printf(&l->r->notes, "%s:%" PRId64 ": the last line is torn and was left out (the run is going on, "
                        "or was interrupted: run it again to complete it)\n", l->path, l->line_no);
            return 0;
        }
        return err_input(e, "%s:%" PRId64 ": %s%s", l->path, l->line_no, ended ? "" : "torn line: ", fault.msg);
    }
    if (offset >> 48)
        return err_input(e, "%s:%" PRId64 ": more than 2^48 bytes", l->path, l->line_no);
    f.row.offset_low = (uint32_t)offset;
    f.row.offset_high = (uint16_t)(offset >> 32);
    return add_record(l, &f, e);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static int stream(struct loader *l, int fd, struct err *e)
{
    size_t cap = 2 * READ_BLOCK, have = 0, scanned = 0;
    uint64_t base = 0;                  /* file offset of buf[0] */
    char *buf = mem_alloc(cap, 1);
    int rc = 0;
    for (;;) {
        if (cap - have < READ_BLOCK)
            buf = mem_grow(buf, cap += cap / 2, 1);
        ssize_t got = read(fd, buf + have, READ_BLOCK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rc = err_machine(e, "%s: cannot be read", l->path);
            break;
        }
        have += (size_t)got;
        size_t at = 0;
        for (char *nl; !rc && (nl = memchr(buf + scanned, '\n', have - scanned)); at = scanned) {
            rc = add_line(l, buf + at, (size_t)(nl - buf) - at, base + at, true, e);
            scanned = (size_t)(nl - buf) + 1;
        }
        scanned = have;
        if (rc || (got == 0 && have == at))
            break;
        if (got == 0) {
            rc = add_line(l, buf + at, have - at, base + at, false, e);
            break;
        }
        if (have - at > MAX_LINE) {
            rc = err_input(e, "%s:%" PRId64 ": line of more than %d bytes", l->path, l->line_no + 1, MAX_LINE);
            break;
        }
        memmove(buf, buf + at, have - at);
        base += at;
        have -= at;
        scanned = have;
    }
    free(buf);
    return rc;
}

static int task_rank(const char *name)
{
    int n = (int)(sizeof known_tasks / sizeof *known_tasks), i = 0;
    while (i < n && strcmp(known_tasks[i], name) != 0)
        i++;
    return i;
}

struct ranked { struct record_task task; int was; };

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    int rx = task_rank(x->task.name), ry = task_rank(y->task.name);
    return rx != ry ? (rx < ry ? -1 : 1) : strcmp(x->task.name, y->task.name);
}

/* Whether each task's rows stand together. If so, their places are noted in `at`. */
static bool tasks_together(const struct records *r, int64_t *at)
{
    int n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (i && r->rows[i].task == r->rows[i - 1].task)
            continue;
        at[r->rows[i].task] = i;
        n++;
    }
    int wanted = 0;
    for (int t = 0; t < r->n_tasks; t++)
        wanted += r->tasks[t].n > 0;
    return n == wanted;
}

/* Puts the tasks in the publisher's order and groups the rows by task. */
static void index_tasks(struct records *r)
{
    struct ranked *ranked = NEW(struct ranked, r->n_tasks);
    int *now = NEW(int, r->n_tasks);
    int64_t *at = NEW(int64_t, r->n_tasks), *together = NEW(int64_t, r->n_tasks);
    for (int t = 0; t < r->n_tasks; t++)
        ranked[t] = (struct ranked){r->tasks[t], t};
    if (r->n_tasks)
        qsort(ranked, (size_t)r->n_tasks, sizeof *ranked, compare_ranked);
    int64_t first = 0;
    for (int t = 0; t < r->n_tasks; t++) {
        r->tasks[t] = ranked[t].task;
        r->tasks[t].first = at[t] = first;
        first += r->tasks[t].n;
        now[ranked[t].was] = t;
    }
    for (int64_t i = 0; i < r->n; i++)
        r->rows[i].task = (uint16_t)now[r->rows[i].task];
    if (tasks_together(r, together)) {
        for (int t = 0; t < r->n_tasks; t++)
            r->tasks[t].first = together[t];
    } else {
        r->order = NEW(uint32_t, r->n);
        for (int64_t i = 0; i < r->n; i++)
            r->order[at[r->rows[i].task]++] = (uint32_t)i;
    }
    free(together);
    free(ranked);
    free(now);
    free(at);
}

static int finish(struct loader *l, int rc, struct err *e)
{
    struct records *r = l->r;
    line_reader_free(&l->lines);
    free(l->group_slots);
    if (!rc && r->n == 0)
        rc = err_input(e, "%s: no record%s", l->path,
                       r->n_error ? " without status \"error\"" : r->n_unscored ? " with a verdict" : "s");
    if (rc) {
        records_close(r);
        return -1;
    }
    r->rows = mem_grow(r->rows, (size_t)r->n, sizeof *r->rows);
    if (!l->keep_group_keys) {
        free(r->group_key);
        r->group_key = NULL;
    }
    if (r->stamp && cJSON_IsFalse(json_get(r->stamp, "complete")))
        text_printf(&r->notes, "%s: the run is not complete; its command goes on\n", l->path);
    const cJSON *shard = json_get(json_get(r->stamp, "identity"), "shard");
    if (cJSON_GetArraySize(shard) == 2 && shard->child->next->valuedouble > 1)
        text_printf(&r->notes, "%s: shard %d of %d of a run (\"handoff merge\" puts them together)\n", l->path,
                    shard->child->valueint, shard->child->next->valueint);
    if (r->n_error)
        text_printf(&r->notes, "%s: %" PRId64 " record%s with status \"error\" left out\n", l->path, r->n_error,
                    r->n_error == 1 ? "" : "s");
    if (r->n_unscored)
        text_printf(&r->notes, "%s: %" PRId64 " record%s that the task does not score left out\n", l->path,
                    r->n_unscored, r->n_unscored == 1 ? "" : "s");
    index_tasks(r);
    return 0;
}

static char *display_name(const char *source)
{
    size_t len = strlen(source);
    while (len > 1 && source[len - 1] == '/')
        len--;
    size_t from = len;
    while (from > 0 && source[from - 1] != '/')
        from--;
    if (len - from > 6 && memcmp(source + len - 6, ".jsonl", 6) == 0)
        len -= 6;
    return mem_strndup(source + from, len - from);
}

static int start(struct loader *l, const struct records_options *o, struct err *e)
{
    const char *which = o && o->entropy ? o->entropy : "mean";
    l->keep_group_keys = o && o->keep_group_keys;
    if (line_reader_init(&l->lines, which))
        return err_set(e, EXIT_USAGE, "entropy \"%s\": one of mean, max, first, sum was expected", which);
    return 0;
}

int records_open(struct records *r, const char *source, const struct records_options *o, struct err *e)
{
    struct loader l = {.r = r};
    *r = (struct records){0};
    if (start(&l, o, e))
        return -1;
    r->name = display_name(source);
    l.run_directory = path_is_dir(source);
    r->path = l.run_directory ? path_join(source, "records.jsonl") : mem_strdup(source);
    l.path = r->path;
    int rc = 0;
    if (l.run_directory) {
        char *stamp = path_join(source, "run.json");
        if (file_exists(stamp)) {
            r->stamp = stamp_read(source, e);
            rc = r->stamp ? 0 : -1;
        }
        free(stamp);
    }
    int fd = -1;
    if (!rc) {
        fd = strcmp(source, "-") == 0 ? dup(STDIN_FILENO) : open(r->path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            rc = err_input(e, "%s: cannot be opened: %s", r->path, strerror(errno));
        else
            rc = stream(&l, fd, e);
    }
    if (fd >= 0)
        close(fd);
    return finish(&l, rc, e);
}

int records_parse(struct records *r, const char *name, const char *data, size_t n, const struct records_options *o,
                  struct err *e)
{
    struct loader l = {.r = r, .path = name};
    *r = (struct records){.name = display_name(name), .path = mem_strdup(name)};
    int rc = start(&l, o, e);
    for (size_t at = 0; !rc && at < n;) {
        const char *nl = memchr(data + at, '\n', n - at);
        size_t end = nl ? (size_t)(nl - data) : n;
        rc = add_line(&l, data + at, end - at, at, nl != NULL, e);
        at = end + 1;
    }
    return finish(&l, rc, e);
}

void records_forget_keys(struct records *r)
{
    free(r->slots);
    r->slots = NULL;
    r->n_slots = 0;
}

void records_index_keys(struct records *r)
{
    uint64_t n_slots = 1024;
    while ((uint64_t)r->n * 4 > n_slots * 3)
        n_slots *= 2;
    slots_make(r, n_slots);
}

void records_forget_rows(struct records *r)
{
    records_forget_keys(r);
    free(r->rows);
    free(r->order);
    free(r->group_key);
    r->rows = NULL;
    r->order = NULL;
    r->group_key = NULL;
}

void records_close(struct records *r)
{
    for (int t = 0; t < r->n_tasks; t++)
        free(r->tasks[t].name);
    free(r->tasks);
    records_forget_rows(r);
    free(r->name);
    free(r->path);
    cJSON_Delete(r->stamp);
    text_free(&r->notes);
    *r = (struct records){0};
}

/* ---- access ---------------------------------------------------------------------------------------------------- */

const struct record *records_row(const struct records *r, int task, int64_t i)
{
    const int64_t at = r->tasks[task].first + i;
    return &r->rows[r->order ? r->order[at] : at];
}

int records_task(const struct records *r, const char *name)
{
    for (int t = 0; t < r->n_tasks; t++)
        if (strcmp(r->tasks[t].name, name) == 0)
            return t;
    return -1;
}

int64_t records_line(const struct records *r, const struct record *row)
{
    int64_t line = 1;
    FILE *f = fopen(r->path, "rb");
    if (!f)
        return 0;
    char buf[65536];
    uint64_t at = 0;
    const uint64_t end = record_offset(row);
    for (size_t got; at < end && (got = fread(buf, 1, sizeof buf, f)) > 0; at += got)
        for (size_t i = 0; i < got && at + i < end; i++)
            line += buf[i] == '\n';
    fclose(f);
    return line;
}

struct records_texts { FILE *file; const struct records *r; char *line; size_t cap; };

struct records_texts *records_texts_open(const struct records *r, struct err *e)
{
    FILE *f = fopen(r->path, "rb");
    if (!f) {
        err_input(e, "%s: cannot be opened again for its texts: %s", r->path, strerror(errno));
        return NULL;
    }
    struct records_texts *t = NEW(struct records_texts, 1);
    t->file = f;
    t->r = r;
    return t;
}

cJSON *records_text(struct records_texts *t, const struct record *row, struct err *e)
{
    ssize_t len = -1;
    if (fseeko(t->file, (off_t)record_offset(row), SEEK_SET) == 0)
        len = getline(&t->line, &t->cap, t->file);
    if (len <= 0) {
        err_input(e, "%s: changed while it was read", t->r->path);
        return NULL;
    }
    while (len > 0 && (t->line[len - 1] == '\n' || t->line[len - 1] == '\r'))
        len--;
    return json_parse(t->line, (size_t)len, t->r->path, e);
}

void records_texts_close(struct records_texts *t)
{
    if (!t)
        return;
    fclose(t->file);
    free(t->line);
    free(t);
}

bool record_wrong(const struct record *row, struct wrong_rule rule)
{
    if (row->flags & REC_HAS_WER)
        return (double)row->wer.edits > rule.tau * (double)row->wer.words;
    if (row->flags & REC_HAS_CORRECT)
        return !(row->flags & REC_CORRECT);
    return row->score < rule.cut;
}

double record_score(const struct record *row)
{
    if (row->flags & REC_HAS_WER) {
        if (row->wer.words == 0)
            return row->wer.edits == 0;
        double score = 1 - (double)row->wer.edits / (double)row->wer.words;
        return score > 0 ? score : 0;
    }
    if (row->flags & REC_HAS_SCORE)
        return row->score;
    return (row->flags & REC_CORRECT) != 0;
}
