/* cmd_grade.c - the verb `grade`: verdicts for outputs produced elsewhere, and for a finished run once more, without
 * the model. */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "eval/grade.h"
#include "eval/stamp.h"

#include <stdlib.h>
#include <string.h>

struct grading_args {
    const char *task, *extract, *normalizer, *write;
    bool explain;
};

static bool has_extractor(const char *grader, const char *name)
{
    const char *const *x = grade_extractors(grader);
    while (x && *x && strcmp(*x, name) != 0)
        x++;
    return x && *x;
}

/* ---- a line of JSON as the grader's input ---------------------------------------------------------------------- */

static const char *scalar(struct arena *a, const cJSON *v)
{
    struct text t = {0};
    if (cJSON_IsString(v))
        return v->valuestring;
    if (!cJSON_IsNumber(v))
        return NULL;
    text_put_double(&t, v->valuedouble);
    const char *copy = arena_strndup(a, t.data, t.len);
    text_free(&t);
    return copy;
}

/* A text, a number, or a list of them. -1: something else. */
static int list_of(struct arena *a, const cJSON *v, const char *const **out)
{
    int n = cJSON_IsArray(v) ? cJSON_GetArraySize(v) : v && !cJSON_IsNull(v) ? 1 : 0, i = 0;
    const char **list = ARENA_NEW(a, const char *, n);
    const cJSON *item;
    *out = list;
    if (!cJSON_IsArray(v)) {
        if (n)
            list[0] = scalar(a, v);
        return n && !list[0] ? -1 : n;
    }
    cJSON_ArrayForEach(item, v)
        if (!(list[i++] = scalar(a, item)))
            return -1;
    return n;
}

static int read_input(const cJSON *line, struct arena *a, struct grade_input *in, const char *where, struct err *e)
{
    const char *const *list;
    in->output = json_string(line, "output");
    if (!in->output)
        return err_input(e, "%s: key \"output\": a text was expected", where);
    in->n_gold = list_of(a, json_get(line, "gold"), &in->gold);
    if (in->n_gold < 0)
        return err_input(e, "%s: key \"gold\": a text, a number or a list of them was expected", where);
    int n_labels = list_of(a, json_get(line, "labels"), &list);
    in->labels = n_labels > 0 ? list : NULL;
    int n_options = list_of(a, json_get(line, "options"), &list);
    in->options = n_options > 0 ? list : NULL;
    if (n_labels < 0 || n_options < 0 || (n_labels && n_options && n_labels != n_options))
        return err_input(e, "%s: keys \"labels\" and \"options\": lists of equal length were expected", where);
    in->n_options = n_labels > n_options ? n_labels : n_options;
    const char *stop = json_string(line, "stop");
    in->truncated = stop && strcmp(stop, "eos") != 0;
    return 0;
}

/* ---- verdicts as JSON ------------------------------------------------------------------------------------------ */

static void put_string(struct text *t, const char *key, const char *s)
{
    text_printf(t, "\"%s\":", key);
    if (s)
        json_put_string(t, s, strlen(s));
    else
        text_puts(t, "null");
}

static void put_verdict(struct text *t, const struct verdict *v, bool speech)
{
    put_string(t, "answer", v->answer);
    text_printf(t, ",\"correct\":%s,\"score\":", v->correct ? "true" : "false");
    json_put_double(t, v->score);
    text_printf(t, ",\"status\":\"%s\"", grade_status_name(v->status));
    if (speech)
        text_printf(t, ",\"wer\":{\"edits\":%d,\"words\":%d,\"sub\":%d,\"del\":%d,\"ins\":%d}", v->edits, v->words,
                    v->sub, v->del, v->ins);
    if (!v->scored)
        text_puts(t, ",\"scored\":false");
}

static void put_explanation(struct text *t, const struct grade_input *in, const struct verdict *v, struct arena *a)
{
    struct peer peers[GRADE_PEERS];
    text_putc(t, ',');
    put_string(t, "rule", v->rule);
    if (v->reference) {
        text_putc(t, ',');
        put_string(t, "reference", v->reference);
        text_putc(t, ',');
        put_string(t, "hypothesis", v->hypothesis);
    }
    text_puts(t, ",\"peers\":[");
    int n = grade_peers(in, a, peers);
    for (int i = 0; i < n; i++) {
        text_puts(t, i ? ",{" : "{");
        put_string(t, "harness", peers[i].harness);
        text_putc(t, ',');
        put_string(t, "answer", peers[i].answer);
        text_printf(t, ",\"correct\":%s}", peers[i].correct ? "true" : "false");
    }
    text_putc(t, ']');
}

/* What every extractor of this grader makes of the output. */
static int put_band(struct text *t, const struct grade_input *in, struct arena *a, struct err *e)
{
    text_puts(t, ",\"band\":{");
    for (const char *const *x = grade_extractors(in->grader); *x; x++) {
        struct grade_input each = *in;
        struct verdict v;
        each.extract = *x;
        if (grade(&each, a, &v, e))
            return -1;
        text_printf(t, "%s\"%s\":{", x == grade_extractors(in->grader) ? "" : ",", *x);
        put_string(t, "answer", v.answer);
        text_printf(t, ",\"correct\":%s}", v.correct ? "true" : "false");
    }
    text_putc(t, '}');
    return 0;
}

/* ---- grade F.jsonl --------------------------------------------------------------------------------------------- */

/* Own questions say themselves what they are; without that, options make a choice. NULL: an unknown type. */
static const char *own_grader(const cJSON *line)
{
    static const struct { const char *type, *grader; } types[] = {
        {"mcq", "choice"},          {"numeric", "number"},   {"text", "text"},
        {"vqa_relaxed", "relaxed"}, {"vqa_anls", "anls"},    {"asr", "speech"}};
    const char *grader = json_string(line, "grader"), *type = json_string(line, "type");
    if (!grader && !type)
        return json_get(line, "options") || json_get(line, "labels") ? "choice" : "text";
    grader = grader ? grader : type;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, grader) == 0)
            return types[i].grader;
    return grade_extractors(grader) ? grader : NULL;
}

static int grade_line(const struct grading_args *g, const char *grader, const cJSON *line, const char *where,
                      struct err *e)
{
    if (g->task && strcmp(g->task, "jsonl") == 0 && !(grader = own_grader(line)))
        return err_input(e, "%s: key \"type\": mcq, numeric, text, vqa_relaxed, vqa_anls or asr was expected", where);
    struct arena a = {0};
    struct text t = {0};
    struct verdict v;
    bool band = g->extract && strcmp(g->extract, "all") == 0;
    struct grade_input in = {.grader = grader, .normalizer = g->normalizer};
    if (g->extract && has_extractor(grader, g->extract))
        in.extract = g->extract;
    const char *id = scalar(&a, json_get(line, "id"));
    int failed = id ? read_input(line, &a, &in, where, e) : err_input(e, "%s: key \"id\" is missing", where);
    if (!failed && grade(&in, &a, &v, e)) {
        struct err inner = *e;
        failed = err_set(e, inner.code, "%s: %s", where, inner.msg);
    }
    if (!failed) {
        text_putc(&t, '{');
        put_string(&t, "id", id);
        text_putc(&t, ',');
        put_verdict(&t, &v, strcmp(grader, "speech") == 0);
        if (g->explain)
            put_explanation(&t, &in, &v, &a);
        failed = band ? put_band(&t, &in, &a, e) : 0;
        text_puts(&t, "}\n");
    }
    if (!failed)
        failed = cli_print(&t, e);
    text_free(&t);
    arena_free(&a);
    return failed;
}

enum { MAX_LINE = 64 << 20 };

/* Calls see(arg, line, where) for every line of a JSONL file. */
static int each_line(const char *path, int (*see)(void *arg, cJSON *line, const char *where, struct err *e), void *arg,
                     struct err *e)
{
    FILE *f = fopen(path, "r");
    struct text line = {0}, where = {0};
    int failed = 0;
    if (!f || path_is_dir(path)) {
        if (f)
            fclose(f);
        return err_input(e, "%s: a JSONL file was expected", path);
    }
    for (int64_t number = 1, more = 1; !failed && more == 1; number++) {
        text_clear(&where);
        text_printf(&where, "%s:%lld", path, (long long)number);
        more = line_read(f, &line, MAX_LINE, where.data, e);
        while (line.len && line.data[line.len - 1] == '\r')
            line.len--;
        failed = more < 0 ? -1 : 0;
        if (failed || line.len == 0)
            continue;
        cJSON *value = json_parse(line.data, line.len, where.data, e);
        failed = value ? see(arg, value, where.data, e) : -1;
        cJSON_Delete(value);
    }
    text_free(&line);
    text_free(&where);
    fclose(f);
    return failed;
}

struct file_job { const struct grading_args *g; const char *grader; };

static int see_line(void *arg, cJSON *line, const char *where, struct err *e)
{
    const struct file_job *j = arg;
    return grade_line(j->g, j->grader, line, where, e);
}

static int grade_file(const struct grading_args *g, const char *path, struct err *e)
{
    struct file_job j = {g, g->task ? grade_task_grader(g->task) : NULL};
    if (!j.grader)
        return err_set(e, EXIT_USAGE, "grade: --task: %s is not a task; known are mmlu mmlu-pro arc-easy arc-challenge "
                       "gsm8k mmbench chartqa docvqa mmau gigaspeech earnings22 librispeech jsonl",
                       g->task ? g->task : "nothing");
    bool own = strcmp(j.grader, "text") == 0;
    if (!own && g->extract && strcmp(g->extract, "all") != 0 && !has_extractor(j.grader, g->extract))
        return err_set(e, EXIT_USAGE, "grade: --extract: %s does not know \"%s\"; --extract all lists its ways",
                       g->task, g->extract);
    return each_line(path, see_line, &j, e);
}

/* ---- grade RUN ------------------------------------------------------------------------------------------------- */

struct tally { char *task; int64_t n, right_before, right_now, changed; };
struct rescoring {
    const struct grading_args *g;
    cJSON *stamp;
    struct tally *tallies;
    int n_tallies;
    struct text changes, rewritten;
};

static struct tally *tally_of(struct rescoring *s, const char *task)
{
    for (int i = 0; i < s->n_tallies; i++)
        if (strcmp(s->tallies[i].task, task) == 0)
            return &s->tallies[i];
    s->tallies = mem_grow(s->tallies, (size_t)s->n_tallies + 1, sizeof *s->tallies);
    s->tallies[s->n_tallies] = (struct tally){.task = mem_strdup(task)};
    return &s->tallies[s->n_tallies++];
}

/* How the run graded this task: from its stamp, unless the command line says otherwise. */
static void manner_of(const struct rescoring *s, const cJSON *record, struct grade_input *in)
{
    const char *task = json_string(record, "task"), *own = json_string(record, "grader");
    const cJSON *spec;
    in->grader = own;
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

static int rescore(void *arg, cJSON *record, const char *where, struct err *e)
{
    struct rescoring *s = arg;
    struct arena a = {0};
    struct verdict v;
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
    if (graded && !in.grader)
        failed = err_input(e, "%s: no grader is known for task \"%s\"", where, task);
    if (graded && !failed)
        failed = read_input(record, &a, &in, where, e) || grade(&in, &a, &v, e) ? -1 : 0;
    if (graded && !failed) {
        bool before = cJSON_IsTrue(json_get(record, "correct"));
        struct tally *t = tally_of(s, task);
        t->n++;
        t->right_before += before;
        t->right_now += v.correct;
        if (before != v.correct) {
            t->changed++;
            text_printf(&s->changes, "%s  %s  %s -> %s  (%s)\n", task, id, before ? "right" : "wrong",
                        v.correct ? "right" : "wrong", v.rule ? v.rule : grade_status_name(v.status));
        }
        write_verdict(record, &v, strcmp(in.grader, "speech") == 0);
    }
    if (!failed && s->g->write) {
        json_print(&s->rewritten, record);
        text_putc(&s->rewritten, '\n');
    }
    arena_free(&a);
    return failed;
}

static int print_rescoring(struct rescoring *s, struct err *e)
{
    struct text t = {0};
    text_printf(&t, "%s%-16s %8s %8s %8s %8s\n", s->changes.data ? s->changes.data : "", "task", "n", "before", "now",
                "changed");
    for (int i = 0; i < s->n_tallies; i++) {
        const struct tally *y = &s->tallies[i];
        text_printf(&t, "%-16s %8lld %8.4f %8.4f %8lld\n", y->task, (long long)y->n,
                    (double)y->right_before / (double)y->n, (double)y->right_now / (double)y->n, (long long)y->changed);
    }
    int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

static int grade_run(const struct grading_args *g, const char *dir, struct err *e)
{
    char *records = path_join(dir, "records.jsonl");
    struct rescoring s = {.g = g, .stamp = stamp_read(dir, e)};
    int failed = !s.stamp ? -1 : each_line(records, rescore, &s, e);
    if (!failed)
        failed = print_rescoring(&s, e);
    if (!failed && g->write)
        failed = file_write_atomic(g->write, s.rewritten.data ? s.rewritten.data : "", s.rewritten.len, e);
    for (int i = 0; i < s.n_tallies; i++)
        free(s.tallies[i].task);
    free(s.tallies);
    text_free(&s.changes);
    text_free(&s.rewritten);
    cJSON_Delete(s.stamp);
    free(records);
    return failed;
}

int cmd_grade(int argc, char **argv)
{
    struct grading_args g = {0};
    struct strings files = {0};
    const struct option options[] = {
        {"--task", OPT_STRING, &g.task, "T", "whose rules: mmlu, gsm8k, docvqa, librispeech, ..."},
        {"--extract", OPT_STRING, &g.extract, "E", "how the answer is read (see README); all: every way in turn"},
        {"--normalizer", OPT_STRING, &g.normalizer, "N", "speech: whisper whisper-release open-asr gigaspeech none"},
        {"--explain", OPT_FLAG, &g.explain, NULL, "which rule fired, and what other harnesses would say"},
        {"--write", OPT_STRING, &g.write, "FILE", "of a run: its records with the new verdicts"},
        {0}};
    const struct usage usage = {
        "grade", "--task T F.jsonl [options]   or   grade RUN [options]",
        "Verdicts for outputs produced elsewhere: lines of {\"id\", \"output\", \"gold\"} and, for choices, \"labels\"\n"
        "and \"options\"; own questions (jsonl) may name their \"type\". Of a run directory: its records graded\n"
        "once more, without the model.",
        options, "handoff grade --task gsm8k tests/data/outputs.jsonl --extract all"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &files, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed;
    if (files.n != 1)
        failed = err_set(&e, EXIT_USAGE, "grade: one file or run was expected; see \"handoff grade --help\"");
    else if (g.normalizer && !grade_knows_normalizer(g.normalizer))
        failed = err_set(&e, EXIT_USAGE, "grade: --normalizer: whisper, whisper-release, open-asr, gigaspeech or none "
                         "was expected, not \"%s\"", g.normalizer);
    else if (path_is_dir(files.at[0]))
        failed = grade_run(&g, files.at[0], &e);
    else
        failed = grade_file(&g, files.at[0], &e);
    free(files.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
