/* suite.c - suite files: which hold-outs, where, and how they are asked. Format: datasets/suites/README.md. */
#include "datasets/reader.h"
#include "datasets/suites/builtin.h"

#include <stdlib.h>
#include <string.h>

enum { SUITE_BYTES_MAX = 1 << 20, TASKS_MAX = 256 };

static struct task_spec *new_task(struct suite *s)
{
    struct task_spec *bigger = ARENA_NEW(&s->arena, struct task_spec, s->n_tasks + 1);
    if (s->n_tasks)
        memcpy(bigger, s->tasks, (size_t)s->n_tasks * sizeof *bigger);
    s->tasks = bigger;
    struct task_spec *t = &s->tasks[s->n_tasks++];
    *t = (struct task_spec){.shots = -1, .max_tokens = -1};
    return t;
}

/* A text member kept in the arena; *out stays as it is if absent. */
static int take_text(struct suite *s, const cJSON *o, const char *key, const char **out, const char *where,
                     struct err *e)
{
    const cJSON *v = json_get(o, key);
    if (!v)
        return 0;
    if (!cJSON_IsString(v))
        return err_input(e, "%s: \"%s\" must be a text", where, key);
    *out = arena_strndup(&s->arena, v->valuestring, strlen(v->valuestring));
    return 0;
}

static int check_keys(const cJSON *o, const char *where, struct err *e)
{
    static const char *const keys[] = {"task", "format", "path", "split", "system", "prompt", "shots", "max_tokens",
                                       "grader", "extract", "normalizer", "contaminated", "where", "note"};
    const cJSON *v;
    cJSON_ArrayForEach(v, o) {
        bool known = false;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            known |= strcmp(v->string, keys[i]) == 0;
        if (!known)
            return err_input(e, "%s: unknown member \"%s\"; see datasets/suites/README.md", where, v->string);
    }
    return 0;
}

/* The path under root; of a list the first that exists, or else the first. */
static int take_path(struct suite *s, const cJSON *o, const char *root, const char *key, const char **out,
                     const char *where, struct err *e)
{
    const cJSON *v = json_get(o, key);
    const cJSON *one = cJSON_IsArray(v) ? v->child : v;
    for (; one; one = cJSON_IsArray(v) ? one->next : NULL) {
        if (!cJSON_IsString(one))
            return err_input(e, "%s: \"%s\" must be a text or a list of texts", where, key);
        bool relative = one->valuestring[0] != '/' && root;
        char *path = relative ? path_join(root, one->valuestring) : mem_strdup(one->valuestring);
        bool there = file_exists(path) || path_is_dir(path);
        if (!*out || there)
            *out = arena_strndup(&s->arena, path, strlen(path));
        free(path);
        if (there)
            break;
    }
    return 0;
}

static int take_task(struct suite *s, const cJSON *o, const char *root, const char *where, struct err *e)
{
    struct task_spec *t = new_task(s);
    int64_t shots, max_tokens;
    if (!cJSON_IsObject(o))
        return err_input(e, "%s: a task must be an object", where);
    if (check_keys(o, where, e) ||
        take_text(s, o, "task", &t->task, where, e) || take_text(s, o, "format", &t->format, where, e) ||
        take_path(s, o, root, "path", &t->path, where, e) ||
        take_path(s, o, root, "contaminated", &t->contaminated, where, e) ||
        take_text(s, o, "split", &t->split, where, e) ||
        take_text(s, o, "system", &t->system, where, e) || take_text(s, o, "prompt", &t->prompt, where, e) ||
        take_text(s, o, "grader", &t->grader, where, e) || take_text(s, o, "extract", &t->extract, where, e) ||
        take_text(s, o, "normalizer", &t->normalizer, where, e) || take_text(s, o, "where", &t->source, where, e) ||
        json_int(o, "shots", -1, 64, -1, &shots, where, e) ||
        json_int(o, "max_tokens", -1, 1 << 20, -1, &max_tokens, where, e))
        return -1;
    if (!t->task || !t->path)
        return err_input(e, "%s: each task needs \"task\" and \"path\"", where);
    if (!format_find(t->format ? t->format : t->task))
        return err_input(e, "%s: no format \"%s\"", where, t->format ? t->format : t->task);
    t->shots = (int)shots;
    t->max_tokens = (int)max_tokens;
    return 0;
}

static int take_suite(struct suite *s, const cJSON *o, const char *root, const char *where, struct err *e)
{
    const cJSON *tasks = json_get(o, "tasks"), *t;
    if (!cJSON_IsArray(tasks) || cJSON_GetArraySize(tasks) > TASKS_MAX)
        return err_input(e, "%s: a list \"tasks\" of at most %d was expected", where, TASKS_MAX);
    const char *system = NULL;
    if (take_text(s, o, "system", &system, where, e))
        return -1;
    cJSON_ArrayForEach(t, tasks) {
        if (take_task(s, t, root, where, e))
            return -1;
        struct task_spec *last = &s->tasks[s->n_tasks - 1];
        if (!last->system)
            last->system = system;
        for (int i = 0; i < s->n_tasks - 1; i++)
            if (strcmp(s->tasks[i].task, last->task) == 0)
                return err_input(e, "%s: the task \"%s\" occurs twice", where, last->task);
        if (cJSON_IsTrue(json_get(o, "skip_missing")) && !file_exists(last->path) && !path_is_dir(last->path)) {
            text_printf(&s->missing, "%s: not under %s; get it from %s\n", last->task, root ? root : ".",
                        last->source ? last->source : "its publisher");
            s->n_tasks--;
        }
    }
    const char *all = s->missing.data ? s->missing.data : "";
    return s->n_tasks ? 0 : err_input(e, "%s: none of its data sets is there; %.*s", where,
                                      (int)strcspn(all, "\n"), all);
}

static const struct builtin_suite *builtin(const char *name)
{
    for (const struct builtin_suite *b = builtin_suites; b->name; b++)
        if (strcmp(b->name, name) == 0)
            return b;
    return NULL;
}

int suite_open(struct suite *s, const char *name_or_path, const char *data_root, struct err *e)
{
    *s = (struct suite){0};
    const struct builtin_suite *b = builtin(name_or_path);
    cJSON *o;
    if (!b && !file_exists(name_or_path))
        return err_input(e, "%s: no such file; mini, paper or a suite file was expected", name_or_path);
    char *folder = NULL;
    if (b) {
        o = json_parse(b->text, b->size, name_or_path, e);
    } else {
        o = json_read_file(name_or_path, SUITE_BYTES_MAX, e);
        const char *base = path_base(name_or_path);
        folder = base > name_or_path ? mem_strndup(name_or_path, (size_t)(base - name_or_path)) : mem_strdup(".");
    }
    if (!o) {
        free(folder);
        return -1;
    }
    s->name = mem_strdup(b ? b->name : name_or_path);
    int rc = b && !data_root ?
             err_set(e, EXIT_USAGE, "--suite %s needs --data-root DIR, the folder with the data sets", b->name) :
             take_suite(s, o, data_root ? data_root : folder, name_or_path, e);
    cJSON_Delete(o);
    free(folder);
    if (rc)
        suite_close(s);
    return rc;
}

void suite_close(struct suite *s)
{
    free(s->name);
    text_free(&s->missing);
    arena_free(&s->arena);
    *s = (struct suite){0};
}

int suite_add(struct suite *s, const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return err_set(e, EXIT_USAGE, "--data \"%s\": TASK=PATH was expected", text);
    struct task_spec *t = new_task(s);
    t->task = arena_strndup(&s->arena, text, (size_t)(equals - text));
    t->path = arena_strndup(&s->arena, equals + 1, strlen(equals + 1));
    for (int i = 0; i < s->n_tasks - 1; i++)
        if (strcmp(s->tasks[i].task, t->task) == 0)
            return err_set(e, EXIT_USAGE, "the task \"%s\" is named twice", t->task);
    return 0;
}
