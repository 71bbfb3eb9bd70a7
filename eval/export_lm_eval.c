/* export_lm_eval.c - the files that lm-evaluation-harness 0.4 leaves behind with --log_samples. Prompts are not part of
 * a record, so `arguments` holds the question only; confidence and entropy are extra keys. */
#include "eval/cli.h"
#include "eval/export.h"
#include "eval/grade.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct task { char *name; const char *metric; int64_t n; double sum, sum_of_squares; struct text samples; };
struct export { struct task *tasks; int n_tasks; };

/* The metric's name in the harness, or in the data set's own one where the harness has none. */
static const char *metric_of(const char *task)
{
    static const struct { const char *grader, *metric; } names[] = {
        {"choice", "acc"}, {"mmbench", "acc"}, {"mmau", "acc"}, {"relaxed", "relaxed_accuracy"}, {"anls", "anls"},
        {"speech", "wer"}};
    const char *grader = grade_task_grader(task);
    for (size_t i = 0; grader && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].grader, grader) == 0)
            return names[i].metric;
    return "exact_match";
}

static struct task *task_of(struct export *x, const char *name)
{
    for (int i = 0; i < x->n_tasks; i++)
        if (strcmp(x->tasks[i].name, name) == 0)
            return &x->tasks[i];
    x->tasks = mem_grow(x->tasks, (size_t)x->n_tasks + 1, sizeof *x->tasks);
    x->tasks[x->n_tasks] = (struct task){.name = mem_strdup(name), .metric = metric_of(name)};
    return &x->tasks[x->n_tasks++];
}

static void copy_key(cJSON *to, const cJSON *from, const char *key, const char *as)
{
    const cJSON *v = json_get(from, key);
    if (v)
        cJSON_AddItemToObject(to, as, cJSON_Duplicate(v, true));
}

static double metric_value(const struct task *t, const cJSON *r)
{
    const cJSON *wer = json_get(r, "wer"), *score = json_get(r, "score");
    const double words = cJSON_GetNumberValue(json_get(wer, "words"));
    if (strcmp(t->metric, "wer") == 0 && words > 0)
        return cJSON_GetNumberValue(json_get(wer, "edits")) / words;
    return cJSON_IsNumber(score) ? score->valuedouble : cJSON_IsTrue(json_get(r, "correct"));
}

static cJSON *sample_of(const struct task *t, const cJSON *r, double value)
{
    cJSON *o = cJSON_CreateObject(), *doc, *list;
    cJSON_AddNumberToObject(o, "doc_id", (double)t->n);
    doc = cJSON_AddObjectToObject(o, "doc");
    copy_key(doc, r, "id", "id");
    copy_key(doc, r, "question", "question");
    copy_key(doc, r, "options", "choices");
    copy_key(doc, r, "subject", "subject");
    copy_key(doc, r, "gold", "answers");
    const cJSON *gold = json_get(r, "gold");
    const char *first = cJSON_IsArray(gold) ? cJSON_GetStringValue(cJSON_GetArrayItem(gold, 0))
                                            : cJSON_GetStringValue(gold);
    cJSON_AddStringToObject(o, "target", first ? first : "");
    cJSON *arguments = cJSON_AddObjectToObject(cJSON_AddObjectToObject(o, "arguments"), "gen_args_0");
    copy_key(arguments, r, "question", "arg_0");
    const char *output = json_string(r, "output"), *answer = json_string(r, "answer");
    list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, cJSON_CreateString(output ? output : ""));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "resps"), list);
    list = cJSON_AddArrayToObject(o, "filtered_resps");
    cJSON_AddItemToArray(list, cJSON_CreateString(answer ? answer : "[invalid]"));
    cJSON_AddStringToObject(o, "filter", "none");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "metrics"), cJSON_CreateString(t->metric));
    copy_key(o, r, "prompt_sha", "prompt_hash");
    cJSON_AddNumberToObject(o, t->metric, value);
    copy_key(o, r, "confidence", "confidence");
    copy_key(o, r, "entropy", "entropy");
    return o;
}

static int add_record(void *arg, const cJSON *r, const char *where, struct err *e)
{
    const char *name = json_string(r, "task"), *status = json_string(r, "status");
    if (!name || !*name || strchr(name, '/') || *name == '.')
        return err_input(e, "%s: key \"task\": a name without '/' was expected", where);
    if (status && strcmp(status, "error") == 0)
        return 0;
    struct task *t = task_of(arg, name);
    const double value = metric_value(t, r);
    cJSON *sample = sample_of(t, r, value);
    json_print(&t->samples, sample);
    text_putc(&t->samples, '\n');
    cJSON_Delete(sample);
    t->n++;
    t->sum += value;
    t->sum_of_squares += value * value;
    return 0;
}

/* Mean and its standard error sqrt(s^2 / n), as the harness has them. */
static cJSON *results_of(const struct export *x, const cJSON *stamp)
{
    cJSON *o = cJSON_CreateObject(), *results = cJSON_AddObjectToObject(o, "results");
    cJSON *samples = cJSON_AddObjectToObject(o, "n-samples"), *better = cJSON_AddObjectToObject(o, "higher_is_better");
    for (int i = 0; i < x->n_tasks; i++) {
        const struct task *t = &x->tasks[i];
        char mean_key[64], error_key[64];
        snprintf(mean_key, sizeof mean_key, "%s,none", t->metric);
        snprintf(error_key, sizeof error_key, "%s_stderr,none", t->metric);
        const double n = (double)t->n, mean = t->sum / n;
        const double variance = n > 1 ? fmax(0, t->sum_of_squares - n * mean * mean) / (n - 1) : NAN;
        cJSON *task = cJSON_AddObjectToObject(results, t->name);
        cJSON_AddStringToObject(task, "alias", t->name);
        cJSON_AddNumberToObject(task, "sample_len", n);
        cJSON_AddNumberToObject(task, mean_key, mean);
        if (n > 1)
            cJSON_AddNumberToObject(task, error_key, sqrt(variance / n));
        else
            cJSON_AddStringToObject(task, error_key, "N/A");
        cJSON *count = cJSON_AddObjectToObject(samples, t->name);
        cJSON_AddNumberToObject(count, "original", n);
        cJSON_AddNumberToObject(count, "effective", n);
        cJSON_AddBoolToObject(cJSON_AddObjectToObject(better, t->name), t->metric, strcmp(t->metric, "wer") != 0);
    }
    cJSON *config = cJSON_AddObjectToObject(o, "config");
    cJSON_AddStringToObject(config, "model", "handoff " HANDOFF_VERSION);
    const char *path = json_string(stamp, "model_path");
    cJSON_AddStringToObject(config, "model_args", path ? path : "");
    return o;
}

static int write_in(const char *dir, const char *name, const struct text *t, struct err *e)
{
    char *path = path_join(dir, name);
    int failed = file_write_atomic(path, t->data ? t->data : "", t->len, e);
    free(path);
    return failed;
}

int export_lm_eval(const char *run, const char *out, struct err *e)
{
    struct export x = {0};
    struct text t = {0}, name = {0};
    cJSON *stamp;
    int failed = export_stamp(&stamp, run, e) || export_each(run, add_record, &x, e) ? -1 : 0;
    if (!failed && mkdir(out, 0777) && errno != EEXIST)
        failed = err_machine(e, "%s: cannot be made", out);
    for (int i = 0; i < x.n_tasks; i++) {
        text_clear(&name);
        text_printf(&name, "samples_%s.jsonl", x.tasks[i].name);
        if (!failed)
            failed = write_in(out, name.data, &x.tasks[i].samples, e);
    }
    if (!failed) {
        cJSON *results = results_of(&x, stamp);
        json_print(&t, results);
        text_putc(&t, '\n');
        cJSON_Delete(results);
        failed = write_in(out, "results.json", &t, e);
    }
    for (int i = 0; i < x.n_tasks; i++) {
        free(x.tasks[i].name);
        text_free(&x.tasks[i].samples);
    }
    free(x.tasks);
    text_free(&t);
    text_free(&name);
    cJSON_Delete(stamp);
    return failed;
}
