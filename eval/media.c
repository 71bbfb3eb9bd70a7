/* media.c - finds a sample's picture or sound in its data set again, and writes it as base64. */
#include "eval/media.h"
#include "eval/base64.h"
#include "datasets/datasets.h"

#include <stdlib.h>
#include <string.h>

const char *media_type(const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    static const struct { size_t at; const char *magic, *type; } kinds[] = {
        {0, "\x89PNG", "image/png"}, {0, "\xff\xd8\xff", "image/jpeg"}, {0, "GIF8", "image/gif"}, {0, "BM", "image/bmp"},
        {8, "WEBP", "image/webp"}, {8, "WAVE", "audio/wav"}, {0, "fLaC", "audio/flac"}, {0, "OggS", "audio/ogg"},
        {0, "ID3", "audio/mpeg"}, {0, "\xff\xfb", "audio/mpeg"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i].magic);
        if (n >= kinds[i].at + len && memcmp(b + kinds[i].at, kinds[i].magic, len) == 0)
            return kinds[i].type;
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    const struct sample_row *x = *(struct sample_row *const *)a, *y = *(struct sample_row *const *)b;
    return strcmp(x->id, y->id);
}

static const cJSON *by_task(const cJSON *list, const char *task)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, list)
        if (json_string(one, "task") && strcmp(json_string(one, "task"), task) == 0)
            return one;
    return NULL;
}

static int open_data(struct dataset **d, const struct records *r, const char *task, struct err *e)
{
    const cJSON *settings = by_task(json_get(json_get(r->stamp, "identity"), "tasks"), task);
    struct task_spec spec = {.task = task, .format = json_string(settings, "format"),
                             .path = json_string(by_task(json_get(r->stamp, "data"), task), "path"),
                             .split = json_string(settings, "split"), .grader = json_string(settings, "grader"),
                             .shots = -1, .max_tokens = -1};
    if (!spec.path)
        return err_input(e, "the run's stamp does not say where \"%s\" lies", task);
    return dataset_open(d, &spec, e);
}

struct task_rows { struct sample_row **row; int n; };

/* Until the end of the data or of the bytes. Only samples with one whole picture or recording. */
static int embed_task(struct task_rows *t, struct dataset *d, size_t room, struct arena *a, struct err *e)
{
    struct sample s;
    struct text encoded = {0};
    int got;
    qsort(t->row, (size_t)t->n, sizeof *t->row, compare_ids);
    while ((got = dataset_next(d, &s, e)) > 0) {
        if (s.n_media != 1 || s.media[0].end_s > 0 || !s.media[0].bytes || s.media[0].n_bytes > room)
            continue;
        const char *type = media_type(s.media[0].bytes, s.media[0].n_bytes);
        struct sample_row key = {.id = s.id}, *key_at = &key;
        struct sample_row **found = bsearch(&key_at, t->row, (size_t)t->n, sizeof *t->row, compare_ids);
        if (!type || !found)
            continue;
        (*found)->media_type = type;
        text_clear(&encoded);
        base64_encode(s.media[0].bytes, s.media[0].n_bytes, &encoded);
        (*found)->media = arena_strndup(a, encoded.data, encoded.len);
        room -= s.media[0].n_bytes;
    }
    text_free(&encoded);
    return got;
}

void media_embed(struct sample_row *rows, int n_rows, const char *const *task_names, int n_tasks,
                 const struct records *r, size_t max_bytes, struct arena *a, struct text *notes)
{
    struct task_rows *tasks = NEW(struct task_rows, n_tasks);
    int n_with_media = 0;
    for (int i = 0; i < n_rows; i++) {
        struct task_rows *t = &tasks[rows[i].task];
        if (!rows[i].media_name || !rows[i].media_name[0])
            continue;
        n_with_media += t->n == 0;
        t->row = mem_grow(t->row, (size_t)t->n + 1, sizeof *t->row);
        t->row[t->n++] = &rows[i];
    }
    for (int i = 0; i < n_tasks; i++) {
        struct dataset *d = NULL;
        struct err e = {0};
        if (tasks[i].n && (open_data(&d, r, task_names[i], &e) ||
                           embed_task(&tasks[i], d, max_bytes / (size_t)n_with_media, a, &e)))
            text_printf(notes, "%s: pictures or sounds left out of the report: %s\n", task_names[i], e.msg);
        dataset_close(d);
        free(tasks[i].row);
    }
    free(tasks);
}
