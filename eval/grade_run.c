/* grade_run.c - a finished run graded once more, without the model. */
#include "eval/cli.h"
#include "eval/grade_verb.h"
#include "eval/stamp.h"

#include <stdlib.h>
#include <string.h>

struct rescoring {
    const struct grade_args *g;
    cJSON *stamp;
    struct tallies tallies;
    struct calls calls;
    const char *normalizer;     /* of the calls */
    struct file_out out;        /* with --write */
};

/* How the run graded this task: from its stamp, unless the command line says otherwise. */
static void manner_of(const struct rescoring *s, const cJSON *record, struct grade_input *in)
{
    const char *task = json_string(record, "task"), *own = json_string(record, "grader");
    const cJSON *spec;
    in->grader = own;
    in->wrong_above = s->g->tau;
    cJSON_ArrayForEach(spec, json_get(json_get(s->stamp, "identity"), "tasks")) {
        const char *name = json_string(spec, "task");
        if (!name || !task || strcmp(name, task) != 0)
            continue;
        in->grader = own ? own : json_string(spec, "grader");
        in->extract = json_string(spec, "extract");
        in->normalizer = json_string(spec, "normalizer");
    }
    if (!in->grader && task)
        in->grader = grade_task_grader(task);
    /* An extractor belongs to some tasks of a run; the others stay as they were. */
    if (s->g->extract && in->grader && has_extractor(in->grader, s->g->extract))
        in->extract = s->g->extract;
    if (s->g->normalizer)
        in->normalizer = s->g->normalizer;
}

static void replace(cJSON *record, const char *key, cJSON *value)
{
    if (json_get(record, key))
        cJSON_ReplaceItemInObjectCaseSensitive(record, key, value);
    else
        cJSON_AddItemToObject(record, key, value);
}

static void write_verdict(cJSON *record, const struct verdict *v, bool speech)
{
    replace(record, "answer", v->answer ? cJSON_CreateString(v->answer) : cJSON_CreateNull());
    replace(record, "status", cJSON_CreateString(grade_status_name(v->status)));
    replace(record, "correct", cJSON_CreateBool(v->correct));
    replace(record, "score", cJSON_CreateNumber(v->score));
    if (!speech)
        return;
    cJSON *wer = cJSON_CreateObject();
    const struct { const char *key; int value; } part[] = {
        {"edits", v->edits}, {"words", v->words}, {"sub", v->sub}, {"del", v->del}, {"ins", v->ins}};
    for (int i = 0; i < 5; i++)
        cJSON_AddNumberToObject(wer, part[i].key, part[i].value);
    replace(record, "wer", wer);
    if (!v->scored)
        replace(record, "scored", cJSON_CreateFalse());
    else
        cJSON_DeleteItemFromObjectCaseSensitive(record, "scored");
}

/* What the record said before. */
static bool add_before(struct score *s, const cJSON *record)
{
    bool right = cJSON_IsTrue(json_get(record, "correct"));
    const cJSON *edits = json_get(json_get(record, "wer"), "edits"), *words = json_get(json_get(record, "wer"), "words");
    s->n++;
    s->right += right;
    if (!cJSON_IsFalse(json_get(record, "scored")) && cJSON_IsNumber(edits) && cJSON_IsNumber(words)) {
        s->edits += (int64_t)edits->valuedouble;
        s->words += (int64_t)words->valuedouble;
    }
    groups_add(&s->groups, json_string(record, "group"), right);
    return right;
}

static int print_change(const cJSON *record, bool before, const struct verdict *v, struct err *e)
{
    struct text t = {0};
    text_printf(&t, "%s  %s  %s -> %s  (%s)\n", json_string(record, "task"), json_string(record, "id"),
                before ? "right" : "wrong", v->correct ? "right" : "wrong",
                v->rule ? v->rule : grade_status_name(v->status));
    int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

static int regrade(struct rescoring *s, cJSON *record, const struct grade_input *in, struct arena *a, struct err *e)
{
    struct verdict v;
    if (grade(in, a, &v, e))
        return -1;
    struct tally *t = tally_of(&s->tallies, json_string(record, "task"), in->grader);
    bool before = add_before(&t->before, record);
    tally_add(t, &v, json_string(record, "group"));
    if (wants_band(s->g) && v.scored && tally_band(t, in, a, e))
        return -1;
    t->changed += before != v.correct;
    if (before != v.correct && print_change(record, before, &v, e))
        return -1;
    write_verdict(record, &v, strcmp(in->grader, "speech") == 0);
    return 0;
}

/* With --calls: the segment is kept for later. */
static void keep_segment(struct rescoring *s, const cJSON *record, const struct grade_input *in)
{
    const char *group = json_string(record, "group");
    const cJSON *gold = json_get(record, "gold");
    const char *reference = cJSON_IsArray(gold) && cJSON_IsString(gold->child) ? gold->child->valuestring : NULL;
    if (!s->g->calls || !in->grader || strcmp(in->grader, "speech") != 0 || !reference)
        return;
    struct text call = {0};
    text_printf(&call, "%s %s", json_string(record, "task"), group && *group ? group : json_string(record, "id"));
    calls_add(&s->calls, call.data, json_string(record, "id"), reference, json_string(record, "output"));
    text_free(&call);
    s->normalizer = in->normalizer;
}

static int see_record(void *arg, cJSON *record, const char *where, struct err *e)
{
    struct rescoring *s = arg;
    struct arena a = {0};
    struct grade_input in = {0};
    const char *task = json_string(record, "task"), *id = json_string(record, "id");
    const char *status = json_string(record, "status");
    int failed = 0;
    if (!task || !id || !status)
        return err_input(e, "%s: a record with task, id and status was expected", where);
    manner_of(s, record, &in);
    const cJSON *gold = json_get(record, "gold");
    bool has_gold = cJSON_IsArray(gold) ? cJSON_GetArraySize(gold) > 0 : gold && !cJSON_IsNull(gold);
    bool graded = has_gold && strcmp(status, "error") != 0;
    keep_segment(s, record, &in);
    if (graded && !in.grader)
        failed = err_input(e, "%s: no grader is known for task \"%s\"", where, task);
    else if (graded)
        failed = grade_line_input(record, &a, &in, where, e) || regrade(s, record, &in, &a, e) ? -1 : 0;
    if (!failed && s->g->write) {
        struct text line = {0};
        json_print(&line, record);
        text_putc(&line, '\n');
        failed = file_out_put(&s->out, line.data, line.len, e);
        text_free(&line);
    }
    arena_free(&a);
    return failed;
}

struct call_table { struct text text; int64_t edits, words, n; };

static int see_call(void *arg, const char *call, size_t n_segments, const struct verdict *v, struct err *e)
{
    struct call_table *t = arg;
    (void)e;
    text_printf(&t->text, "%-32s %8zu %8d %8d", call, n_segments, v->edits, v->words);
    if (v->scored)
        text_printf(&t->text, "  %.4f\n", (double)v->edits / v->words);
    else
        text_puts(&t->text, "  not scored\n");
    t->n++;
    t->edits += v->scored ? v->edits : 0;
    t->words += v->scored ? v->words : 0;
    return 0;
}

static int print_calls(struct rescoring *s, struct err *e)
{
    struct call_table t = {0};
    text_printf(&t.text, "\n%-32s %8s %8s %8s  WER\n", "whole calls", "segments", "errors", "words");
    int failed = calls_grade(&s->calls, s->normalizer, s->g->tau, see_call, &t, e);
    if (t.words)
        text_printf(&t.text, "%-32s %8zu %8lld %8lld  %.4f\n", "all calls", s->calls.n, (long long)t.edits,
                    (long long)t.words, (double)t.edits / (double)t.words);
    if (!failed && t.n == 0)
        failed = err_input(e, "--calls: there are no transcriptions in this run");
    if (!failed)
        failed = cli_print(&t.text, e);
    text_free(&t.text);
    return failed;
}

static int print_rescoring(struct rescoring *s, struct err *e)
{
    struct text t = {0};
    text_printf(&t, "%-16s %8s %8s %8s %8s %8s\n", "task", "n", "before", "now", "changed", "unparsed");
    for (int i = 0; i < s->tallies.n; i++) {
        const struct tally *y = &s->tallies.at[i];
        text_printf(&t, "%-16s %8lld %8.4f %8.4f %8lld %8lld\n", y->task, (long long)y->before.n,
                    (double)y->before.right / (double)y->before.n,
                    y->now.n ? (double)y->now.right / (double)y->now.n : 0, (long long)y->changed,
                    (long long)y->unparsed);
    }
    for (int i = 0; i < s->tallies.n; i++)
        tally_print(&t, &s->tallies.at[i], wants_band(s->g), true);
    int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

int grade_run(const struct grade_args *g, const char *dir, struct err *e)
{
    char *records = path_join(dir, "records.jsonl");
    struct rescoring s = {.g = g, .stamp = stamp_read(dir, e)};
    int failed = !s.stamp || (g->write && file_out_open(&s.out, g->write, e)) ? -1 : 0;
    if (!failed)
        failed = each_json_line(records, see_record, &s, e) || print_rescoring(&s, e) ||
                 (g->calls && print_calls(&s, e)) ? -1 : 0;
    if (!failed && g->write)
        failed = file_out_finish(&s.out, e);
    file_out_drop(&s.out);
    tallies_free(&s.tallies);
    calls_free(&s.calls);
    cJSON_Delete(s.stamp);
    free(records);
    return failed;
}
