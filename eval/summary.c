/* summary.c - counts over records.jsonl. */
#include "eval/groups.h"
#include "eval/summary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 64 << 20 };

struct task_sum {
    char *task;
    int64_t n, repeated, contaminated, errors, unparsed, judged, right, edits, words, fractions;
    double score;
    struct groups groups;
};

struct sums { struct task_sum *at; int n; };

static struct task_sum *sum_of(struct sums *s, const char *task)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->at[i].task, task) == 0)
            return &s->at[i];
    s->at = mem_grow(s->at, (size_t)s->n + 1, sizeof *s->at);
    s->at[s->n] = (struct task_sum){.task = mem_strdup(task)};
    return &s->at[s->n++];
}

static void count_record(struct task_sum *t, const cJSON *r)
{
    const char *status = json_string(r, "status"), *group = json_string(r, "group");
    const cJSON *correct = json_get(r, "correct"), *score = json_get(r, "score"), *wer = json_get(r, "wer");
    t->n++;
    t->repeated += json_string(r, "repeats") != NULL;
    t->contaminated += json_string(r, "contaminated") != NULL;
    t->errors += status && strcmp(status, "error") == 0;
    t->unparsed += status && strcmp(status, "unparsed") == 0;
    if (!cJSON_IsBool(correct) || cJSON_IsFalse(json_get(r, "scored")))
        return;
    t->judged++;
    t->right += cJSON_IsTrue(correct);
    if (cJSON_IsNumber(score)) {
        t->score += score->valuedouble;
        t->fractions += score->valuedouble > 0 && score->valuedouble < 1;
    }
    const cJSON *edits = json_get(wer, "edits"), *words = json_get(wer, "words");
    if (cJSON_IsNumber(edits) && cJSON_IsNumber(words)) {
        t->edits += (int64_t)edits->valuedouble;
        t->words += (int64_t)words->valuedouble;
    }
    groups_add(&t->groups, group, cJSON_IsTrue(correct));
}

static void put_task(struct text *out, struct task_sum *t)
{
    int64_t groups, all_right;
    text_printf(out, "%-16s %8lld %8lld %8lld", t->task, (long long)t->n, (long long)t->unparsed,
                (long long)t->errors);
    if (t->judged)
        text_printf(out, "  %7.4f", (double)t->right / (double)t->judged);
    else
        text_printf(out, "  %7s", "-");
    if (t->words)
        text_printf(out, "  WER %.4f", (double)t->edits / (double)t->words);
    else if (t->fractions)
        text_printf(out, "  score %.4f", t->score / (double)t->judged);
    if (!t->words && groups_count(&t->groups, &groups, &all_right))
        text_printf(out, "  every answer of a group right %.4f (%lld groups)", (double)all_right / (double)groups,
                    (long long)groups);
    if (t->repeated)
        text_printf(out, "  repeated %lld", (long long)t->repeated);
    if (t->contaminated)
        text_printf(out, "  contaminated %lld", (long long)t->contaminated);
    text_putc(out, '\n');
}

/* A last line without its end is a run's that is going on. */
static int count_lines(struct sums *s, const char *path, FILE *f, struct err *e)
{
    struct text line = {0}, where = {0};
    int failed = 0, got = 0;
    for (int64_t number = 1; !failed; number++) {
        text_clear(&where);
        text_printf(&where, "%s:%lld", path, (long long)number);
        got = line_read(f, &line, MAX_LINE, where.data, e);
        if (got <= 0 || feof(f))
            break;
        cJSON *r = json_parse(line.data, line.len, where.data, e);
        const char *task = json_string(r, "task");
        if (!r)
            failed = -1;
        else if (!task)
            failed = err_input(e, "%s: a record with a task was expected", where.data);
        else
            count_record(sum_of(s, task), r);
        cJSON_Delete(r);
    }
    text_free(&line);
    text_free(&where);
    return got < 0 ? -1 : failed;
}

int run_summary(const char *dir, struct text *out, struct err *e)
{
    char *path = path_join(dir, "records.jsonl");
    struct sums s = {0};
    FILE *f = fopen(path, "rb");
    int failed = f ? count_lines(&s, path, f, e) : err_input(e, "%s: cannot be opened: %s", path, strerror(errno));
    if (f)
        fclose(f);
    if (!failed) {
        text_printf(out, "%-16s %8s %8s %8s  %7s\n", "task", "samples", "unparsed", "errors", "right");
        for (int i = 0; i < s.n; i++)
            put_task(out, &s.at[i]);
    }
    for (int i = 0; i < s.n; i++) {
        groups_free(&s.at[i].groups);
        free(s.at[i].task);
    }
    free(s.at);
    free(path);
    return failed;
}
