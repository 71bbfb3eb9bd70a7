/* import.c - rows of other tools become records: graded by our rules where they can be, with the tool's own verdict
 * kept as `origin`. Nothing is written before everything was read without a fault. */
#include "eval/cli.h"
#include "eval/grade.h"
#include "eval/import.h"
#include "eval/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts { int64_t rows, graded, theirs, differ, errors, no_confidence; };

struct import {
    struct importer im;
    struct text lines;          /* all records */
    struct text keys;           /* "task<TAB>id" of each, NUL behind each */
    struct counts n;
    cJSON *sources;
};

/* ---- one record ------------------------------------------------------------------------------------------------ */

static void add_text(cJSON *o, const char *key, const char *value)
{
    cJSON_AddItemToObject(o, key, value ? cJSON_CreateString(value) : cJSON_CreateNull());
}

static void add_number(cJSON *o, const char *key, double value)
{
    cJSON_AddItemToObject(o, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

static void add_list(cJSON *o, const char *key, const char *const *value, int n)
{
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(value[i]));
}

/* The rules for this row's answer; NULL if it must be left to the tool's own verdict. */
static const char *grader_of(const struct import *x, const struct import_row *row)
{
    if (!row->output || !row->n_gold || (x->im.options->theirs && row->correct >= 0))
        return NULL;
    const char *known = grade_task_grader(row->task);
    if (known && (strcmp(row->task, "jsonl") != 0))
        return known;
    return row->correct >= 0 ? NULL : row->n_options ? "choice" : "text";
}

static int judge(struct import *x, const struct import_row *row, struct verdict *v, bool *speech, struct err *e)
{
    const char *grader = grader_of(x, row);
    if (grader) {
        const struct import_options *o = x->im.options;
        struct grade_input in = {.grader = grader, .normalizer = o->normalizer ? o->normalizer : o->kind->normalizer,
                                 .output = row->output, .n_gold = row->n_gold, .gold = row->gold,
                                 .n_options = row->n_options, .labels = row->labels, .options = row->options,
                                 .truncated = row->stop && strcmp(row->stop, "eos") != 0};
        *speech = strcmp(grader, "speech") == 0;
        if (grade(&in, &x->im.arena, v, e))
            return -1;
        x->n.graded++;
        x->n.differ += row->correct >= 0 && v->correct != (row->correct == 1);
        return 0;
    }
    if (row->correct < 0 && row->wer_words < 0)
        return err_input(e, "neither a verdict nor an answer with its gold to grade");
    *v = (struct verdict){.status = GRADE_OK, .answer = row->answer, .correct = row->correct == 1, .scored = true,
                          .score = isfinite(row->score) && row->score >= 0 && row->score <= 1 ? row->score
                                                                                               : row->correct == 1};
    x->n.theirs++;
    return 0;
}

static void add_wer(cJSON *o, const struct import_row *row, const struct verdict *v, bool speech)
{
    if (!speech && (row->wer_words < 0 || row->wer_edits < 0))
        return;
    cJSON *wer = cJSON_AddObjectToObject(o, "wer");
    cJSON_AddNumberToObject(wer, "edits", speech ? v->edits : (double)row->wer_edits);
    cJSON_AddNumberToObject(wer, "words", speech ? v->words : (double)row->wer_words);
    if (!speech)
        return;
    cJSON_AddNumberToObject(wer, "sub", v->sub);
    cJSON_AddNumberToObject(wer, "del", v->del);
    cJSON_AddNumberToObject(wer, "ins", v->ins);
}

static void add_origin(cJSON *o, const struct import *x, const struct import_row *row, const struct table_row *at)
{
    cJSON *origin = cJSON_AddObjectToObject(o, "origin");
    cJSON_AddStringToObject(origin, "kind", x->im.options->kind->name);
    cJSON_AddStringToObject(origin, "file", path_base(at->file));
    cJSON_AddNumberToObject(origin, "row", (double)at->number);
    if (row->metric)
        cJSON_AddStringToObject(origin, "metric", row->metric);
    if (row->correct >= 0)
        cJSON_AddBoolToObject(origin, "correct", row->correct == 1);
    if (isfinite(row->score))
        cJSON_AddNumberToObject(origin, "score", row->score);
    if (x->im.filter)
        cJSON_AddStringToObject(origin, "filter", x->im.filter);
}

/* A trailer in the output is the confidence that its engine stated, unless a column gives one. */
static double confidence_of(const struct import_row *row)
{
    enum trailer_status status;
    double stated = NAN;
    if (isfinite(row->confidence) || !row->output)
        return row->confidence;
    trailer_strip(row->output, strlen(row->output), &status, &stated);
    return status == TRAILER_OK ? stated : NAN;
}

static void add_answer(cJSON *o, const struct import_row *row, double confidence)
{
    add_number(o, "confidence", confidence);
    add_number(o, "p_wrong", 1 - confidence);
    if (isfinite(row->entropy))
        cJSON_AddNumberToObject(cJSON_AddObjectToObject(o, "entropy"), "mean", row->entropy);
    if (isfinite(row->logprob))
        cJSON_AddNumberToObject(o, "logprob", row->logprob);
    if (row->tokens >= 0)
        cJSON_AddNumberToObject(o, "tokens", (double)row->tokens);
    if (row->prompt_tokens >= 0)
        cJSON_AddNumberToObject(o, "prompt_tokens", (double)row->prompt_tokens);
    if (row->stop)
        cJSON_AddStringToObject(o, "stop", row->stop);
    if (row->option_logprob) {
        cJSON *options = cJSON_AddObjectToObject(o, "option_logprobs");
        for (int i = 0; i < row->n_options; i++)
            add_number(options, row->labels[i], row->option_logprob[i]);
    }
    if (row->question)
        cJSON_AddStringToObject(o, "question", row->question);
    if (row->n_options) {
        add_list(o, "labels", row->labels, row->n_options);
        add_list(o, "options", row->options, row->n_options);
    }
    if (row->ms >= 0) {
        cJSON *ms = cJSON_AddObjectToObject(o, "ms");
        cJSON_AddNumberToObject(ms, "decode", row->ms);
    }
}

static cJSON *head_of(const struct import_row *row)
{
    cJSON *o = cJSON_CreateObject();
    add_text(o, "id", row->id);
    add_text(o, "task", row->task);
    if (row->modality)
        add_text(o, "modality", row->modality);
    add_text(o, "group", row->group ? row->group : "");
    if (row->subject)
        add_text(o, "subject", row->subject);
    return o;
}

static cJSON *error_record(const struct import_row *row)
{
    cJSON *o = head_of(row);
    add_text(o, "output", row->output);
    add_text(o, "status", "error");
    add_text(o, "error", row->error);
    add_text(o, "correct", NULL);
    add_text(o, "confidence", NULL);
    return o;
}

static cJSON *record(struct import *x, const struct import_row *row, struct err *e)
{
    struct verdict v;
    bool speech = false;
    if (judge(x, row, &v, &speech, e))
        return NULL;
    const double confidence = confidence_of(row);
    if (confidence < 0 || confidence > 1) {
        err_input(e, "a confidence between 0 and 1 was expected, not %g", confidence);
        return NULL;
    }
    x->n.no_confidence += !isfinite(confidence);
    cJSON *o = head_of(row);
    add_text(o, "output", row->output);
    add_text(o, "answer", v.answer);
    add_list(o, "gold", row->gold, row->n_gold);
    add_text(o, "status", grade_status_name(v.status));
    cJSON_AddBoolToObject(o, "correct", v.correct);
    cJSON_AddNumberToObject(o, "score", v.score);
    add_wer(o, row, &v, speech);
    if (!v.scored)
        cJSON_AddBoolToObject(o, "scored", false);
    add_answer(o, row, confidence);
    return o;
}

static const char *modality_of(const char *task)
{
    static const char *const seen[] = {"mmbench", "chartqa", "docvqa"}, *const heard[] = {"mmau", "gigaspeech",
                                                                                          "earnings22", "librispeech"};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        if (strcmp(task, seen[i]) == 0)
            return "image";
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++)
        if (strcmp(task, heard[i]) == 0)
            return "audio";
    return grade_task_grader(task) && strcmp(task, "jsonl") != 0 ? "text" : NULL;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static int import_row(struct import *x, const struct table_row *at, struct err *e)
{
    struct importer *im = &x->im;
    const struct import_options *o = im->options;
    struct import_row row = {.task = o->task ? o->task : im->file_task, .correct = -1, .score = NAN, .confidence = NAN,
                             .entropy = NAN, .logprob = NAN, .tokens = -1, .prompt_tokens = -1, .wer_edits = -1,
                             .wer_words = -1, .ms = NAN};
    int got = o->kind->row(im, at->value, &row, e);
    if (got <= 0)
        return got;
    if (!row.task)
        return err_input(e, "no task: neither the row nor the file's name says it; name one with --task");
    if (!row.id || !*row.id)
        row.id = arena_printf(&im->arena, "%s/%lld", row.task, (long long)im->index);
    if (!row.modality)
        row.modality = modality_of(row.task);
    x->n.rows++;
    x->n.errors += row.error != NULL;
    cJSON *r = row.error ? error_record(&row) : record(x, &row, e);
    if (!r)
        return -1;
    add_origin(r, x, &row, at);
    json_print(&x->lines, r);
    text_putc(&x->lines, '\n');
    cJSON_Delete(r);
    text_puts(&x->keys, row.task);
    text_putc(&x->keys, '\t');
    text_puts(&x->keys, row.id);
    text_put(&x->keys, "", 1);
    return 0;
}

/* The part of a name such as samples_gsm8k_2026-... or 2026-..._gsm8k_x.eval that a task can be read off. */
static const char *task_of_file(struct import *x, const char *path)
{
    static const char *const lead[] = {"samples_"};
    char *name = arena_strndup(&x->im.arena, path_base(path), strlen(path_base(path)));
    const char *at = name;
    const char *named = strstr(name, lead[0]);
    if (named) {
        at = named + strlen(lead[0]);
        char *date = strstr(name, "_20");
        if (date && date > at)
            *date = '\0';
        return import_task_name(&x->im, at);
    }
    for (; *at; at++) {
        const char *task = at == name || strchr("_- .", at[-1]) ? import_task_name(&x->im, at) : NULL;
        if (task && modality_of(task))
            return task;
    }
    return NULL;
}

static int import_file(struct import *x, const char *path, struct err *e)
{
    struct table *t;
    struct table_row at;
    struct importer *im = &x->im;
    if (table_open(&t, path, im->options->kind->inside, e))
        return -1;
    int failed = 0, got = 0;
    const int64_t before = x->n.rows;
    im->index = im->done = im->right = 0;
    free(im->filter);
    im->filter = im->options->filter ? mem_strdup(im->options->filter) : NULL;
    while (!failed && (got = table_next(t, &at, e)) > 0) {
        im->file_task = task_of_file(x, path);
        struct err inner = {0};
        if (import_row(x, &at, &inner))
            failed = err_set(e, inner.code, "%s:%lld: %s", at.file, (long long)at.number, inner.msg);
        im->index++;
        arena_free(&im->arena);
    }
    failed = failed || got < 0 ? -1 : 0;
    if (!failed && x->n.rows == before)
        failed = err_input(e, "%s: no sample of %s in it; is --from right?", path, im->options->kind->help);
    table_close(t);
    return failed;
}

static int add_source(struct import *x, const char *path, struct err *e)
{
    struct mapped m;
    char hex[65];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(x->sources, o);
    cJSON_AddStringToObject(o, "file", path_base(path));
    if (path_is_dir(path))
        return 0;
    if (map_open(&m, path, e))
        return -1;
    sha256_hex_of(m.data, m.size, hex);
    cJSON_AddStringToObject(o, "sha256", hex);
    map_close(&m);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_unique(const struct import *x, struct err *e)
{
    const char **key = NEW(const char *, x->n.rows), *at = x->keys.data;
    int failed = 0;
    for (int64_t i = 0; i < x->n.rows; i++, at += strlen(at) + 1)
        key[i] = at;
    qsort(key, (size_t)x->n.rows, sizeof *key, by_text);
    for (int64_t i = 1; i < x->n.rows && !failed; i++)
        if (strcmp(key[i - 1], key[i]) == 0)
            failed = err_input(e, "sample \"%s\" of task %.*s occurs twice; import one run at a time",
                               strchr(key[i], '\t') + 1, (int)strcspn(key[i], "\t"), key[i]);
    free(key);
    return failed;
}

/* ---- the run directory ----------------------------------------------------------------------------------------- */

static cJSON *stamp_of(struct import *x)
{
    cJSON *stamp = cJSON_CreateObject();
    cJSON_AddStringToObject(stamp, "handoff", HANDOFF_VERSION);
    cJSON *identity = cJSON_AddObjectToObject(stamp, "identity");
    cJSON *source = cJSON_AddObjectToObject(identity, "import");
    cJSON_AddStringToObject(source, "kind", x->im.options->kind->name);
    cJSON_AddStringToObject(source, "verdicts", x->im.options->theirs ? "of the tool" : "graded again where possible");
    cJSON_AddItemToObject(source, "files", x->sources);
    return stamp;
}

static int write_run(struct import *x, const char *out, struct err *e)
{
    struct store *store;
    if (store_open(&store, out, stamp_of(x), false, e))
        return -1;
    int failed = store_count(store) ? err_set(e, EXIT_USAGE, "%s holds records already; choose another --out", out) : 0;
    for (char *at = x->lines.data; !failed && at && *at;) {
        char *end = strchr(at, '\n');
        *end = '\0';
        struct text line = {at, (size_t)(end - at), 0};
        failed = store_append(store, &line, e);
        at = end + 1;
    }
    if (!failed)
        failed = store_finish(store, true, false, e);
    if (failed)
        store_abandon(store);
    else
        store_close(store);
    return failed;
}

static int tell(const struct import *x, const char *out, struct err *e)
{
    const struct counts *n = &x->n;
    struct text t = {0};
    text_printf(&t, "%lld records in %s", (long long)n->rows, out);
    if (n->errors)
        text_printf(&t, ", %lld of them errors", (long long)n->errors);
    text_puts(&t, "\n");
    if (n->graded)
        text_printf(&t, "graded by our rules: %lld; %lld verdicts differ from those of the tool (kept as \"origin\")\n",
                    (long long)n->graded, (long long)n->differ);
    if (n->theirs)
        text_printf(&t, "verdicts of the tool: %lld\n", (long long)n->theirs);
    if (n->no_confidence)
        text_printf(&t, "without a confidence: %lld; good as a reference (curve --reference %s)\n",
                    (long long)n->no_confidence, out);
    int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

int import_files(const struct import_options *o, const struct strings *files, const char *out, struct err *e)
{
    struct import x = {.im = {.options = o}, .sources = cJSON_CreateArray()};
    int failed = 0;
    for (int i = 0; i < files->n && !failed; i++)
        failed = import_file(&x, files->at[i], e) || add_source(&x, files->at[i], e) ? -1 : 0;
    if (!failed)
        failed = check_unique(&x, e);
    if (!failed) {
        failed = write_run(&x, out, e);
        x.sources = NULL;
    }
    if (!failed)
        failed = tell(&x, out, e);
    cJSON_Delete(x.sources);
    text_free(&x.lines);
    text_free(&x.keys);
    arena_free(&x.im.arena);
    free(x.im.filter);
    return failed;
}
