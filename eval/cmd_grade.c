/* cmd_grade.c - the verb `grade`: verdicts for outputs produced elsewhere; a run once more is in grade_run.c. */
#include "eval/cli.h"
#include "eval/grade_verb.h"

#include <stdlib.h>
#include <string.h>

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

struct file_job {
    const struct grade_args *g;
    const char *grader;         /* of the task; own questions name theirs */
    struct tallies tallies;
    struct calls calls;
};

/* MMBench: the question whose rotation this is; its copies are numbered index + k * 1000000. */
static const char *group_of(struct arena *a, const cJSON *line, const char *grader, const char *id)
{
    const char *group = json_get(line, "group") ? json_scalar(a, json_get(line, "group")) : NULL;
    if (!group && strcmp(grader, "mmbench") == 0 && *id && id[strspn(id, "0123456789")] == 0 && strlen(id) < 16)
        group = arena_printf(a, "%lld", strtoll(id, NULL, 10) % 1000000);
    return group ? group : "";
}

static int print_line(const struct file_job *j, const char *id, const struct grade_input *in, const struct verdict *v,
                      struct arena *a, struct err *e)
{
    struct text t = {0};
    text_putc(&t, '{');
    put_string(&t, "id", id);
    text_putc(&t, ',');
    put_verdict(&t, v, strcmp(in->grader, "speech") == 0);
    if (j->g->explain)
        put_explanation(&t, in, v, a);
    int failed = wants_band(j->g) ? put_band(&t, in, a, e) : 0;
    text_puts(&t, "}\n");
    if (!failed)
        failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

static int grade_line(struct file_job *j, const cJSON *line, const char *where, struct arena *a, struct err *e)
{
    const char *grader = j->grader, *id = json_scalar(a, json_get(line, "id"));
    struct verdict v;
    if (strcmp(j->g->task, "jsonl") == 0 && !(grader = own_grader(line)))
        return err_input(e, "%s: key \"type\": mcq, numeric, text, vqa_relaxed, vqa_anls or asr was expected", where);
    struct grade_input in = {.grader = grader, .normalizer = j->g->normalizer, .wrong_above = j->g->tau};
    if (j->g->extract && has_extractor(grader, j->g->extract))
        in.extract = j->g->extract;
    if (!id)
        return err_input(e, "%s: key \"id\" is missing", where);
    if (grade_line_input(line, a, &in, where, e))
        return -1;
    if (grade(&in, a, &v, e)) {
        struct err inner = *e;
        return err_set(e, inner.code, "%s: %s", where, inner.msg);
    }
    const char *group = group_of(a, line, grader, id);
    if (j->g->calls) {
        if (!*group || strcmp(grader, "speech") != 0)
            return err_input(e, "%s: --calls needs transcriptions with a \"group\", the call", where);
        calls_add(&j->calls, group, id, in.gold[0], in.output);
        return 0;
    }
    struct tally *t = tally_of(&j->tallies, j->g->task, grader);
    tally_add(t, &v, group);
    if (wants_band(j->g) && v.scored && tally_band(t, &in, a, e))
        return -1;
    return print_line(j, id, &in, &v, a, e);
}

static int see_line(void *arg, cJSON *line, const char *where, struct err *e)
{
    struct arena a = {0};
    int failed = grade_line(arg, line, where, &a, e);
    arena_free(&a);
    return failed;
}

static int see_call(void *arg, const char *call, size_t n_segments, const struct verdict *v, struct err *e)
{
    struct file_job *j = arg;
    struct text t = {0};
    text_putc(&t, '{');
    put_string(&t, "id", call);
    text_printf(&t, ",\"segments\":%zu,", n_segments);
    put_verdict(&t, v, true);
    text_puts(&t, "}\n");
    tally_add(tally_of(&j->tallies, j->g->task, "speech"), v, "");
    int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

/* What it comes to, on standard error: standard output has one verdict a line. */
static void print_summary(struct file_job *j)
{
    struct text t = {0};
    for (int i = 0; i < j->tallies.n; i++) {
        struct tally *y = &j->tallies.at[i];
        text_printf(&t, "%s: %lld of %lld right (%.4f), %lld unparsed\n", y->task, (long long)y->now.right,
                    (long long)y->now.n, y->now.n ? (double)y->now.right / (double)y->now.n : 0,
                    (long long)y->unparsed);
        tally_print(&t, y, wants_band(j->g), false);
    }
    fputs(t.data ? t.data : "", stderr);
    text_free(&t);
}

static int grade_file(const struct grade_args *g, const char *path, struct err *e)
{
    struct file_job j = {.g = g, .grader = g->task ? grade_task_grader(g->task) : NULL};
    if (!j.grader)
        return err_set(e, EXIT_USAGE, "grade: --task: %s is not a task; known are mmlu mmlu-pro arc-easy arc-challenge "
                       "gsm8k mmbench chartqa docvqa mmau gigaspeech earnings22 librispeech jsonl",
                       g->task ? g->task : "nothing");
    bool own = strcmp(j.grader, "text") == 0;
    if (!own && g->extract && !wants_band(g) && !has_extractor(j.grader, g->extract))
        return err_set(e, EXIT_USAGE, "grade: --extract: %s does not know \"%s\"; --extract all lists its ways",
                       g->task, g->extract);
    int failed = each_json_line(path, see_line, &j, e);
    if (!failed && g->calls)
        failed = calls_grade(&j.calls, g->normalizer, g->tau, see_call, &j, e);
    if (!failed)
        print_summary(&j);
    tallies_free(&j.tallies);
    calls_free(&j.calls);
    return failed;
}

int cmd_grade(int argc, char **argv)
{
    struct grade_args g = {0};
    struct strings files = {0};
    const struct option options[] = {
        {"--task", OPT_STRING, &g.task, "T", "whose rules: mmlu, gsm8k, docvqa, librispeech, ..."},
        {"--extract", OPT_STRING, &g.extract, "E", "how the answer is read (see README); all: every way in turn"},
        {"--normalizer", OPT_STRING, &g.normalizer, "N", "speech: whisper whisper-release open-asr gigaspeech none"},
        {"--explain", OPT_FLAG, &g.explain, NULL, "which rule fired, and what other harnesses would say"},
        {"--tau", OPT_DOUBLE, &g.tau, "X", "speech: wrong if the word error rate is above X (0)"},
        {"--calls", OPT_FLAG, &g.calls, NULL, "speech: the segments of a recording scored as one, WER by recording"},
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
    else if (g.write && !path_is_dir(files.at[0]))
        failed = err_set(&e, EXIT_USAGE, "grade: --write belongs to a run");
    else if (cli_range("--tau", g.tau, 0, 1e9, &e))
        failed = -1;
    else if (path_is_dir(files.at[0]))
        failed = grade_run(&g, files.at[0], &e);
    else
        failed = grade_file(&g, files.at[0], &e);
    free(files.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
