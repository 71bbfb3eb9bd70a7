/* summary.c - counts over records.jsonl. */
#include "eval/summary.h"

#include <stdlib.h>
#include <string.h>

struct group_row { char *group; bool correct; };

struct task_sum {
    char *task;
    int64_t n, errors, unparsed, judged, right, edits, words, fractions;
    double score;
    struct group_row *rows;     /* of samples that name a group */
    size_t n_rows, cap_rows;
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
    if (!group || !*group)
        return;
    if (t->n_rows == t->cap_rows) {
        t->cap_rows = t->cap_rows * 2 + 64;
        t->rows = mem_grow(t->rows, t->cap_rows, sizeof *t->rows);
    }
    t->rows[t->n_rows++] = (struct group_row){mem_strdup(group), cJSON_IsTrue(correct)};
}

static int by_group(const void *a, const void *b)
{
    return strcmp(((const struct group_row *)a)->group, ((const struct group_row *)b)->group);
}

/* Groups, and those with every answer right; groups of one sample each say nothing. */
static bool count_groups(struct task_sum *t, int64_t *groups, int64_t *all_right)
{
    *groups = *all_right = 0;
    qsort(t->rows, t->n_rows, sizeof *t->rows, by_group);
    for (size_t i = 0, end; i < t->n_rows; i = end) {
        bool right = true;
        for (end = i; end < t->n_rows && strcmp(t->rows[end].group, t->rows[i].group) == 0; end++)
            right &= t->rows[end].correct;
        ++*groups;
        *all_right += right;
    }
    return *groups > 0 && (size_t)*groups < t->n_rows;
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
    if (t->n_rows && !t->words && count_groups(t, &groups, &all_right))
        text_printf(out, "  every answer of a group right %.4f (%lld groups)", (double)all_right / (double)groups,
                    (long long)groups);
    text_putc(out, '\n');
}

static int count_lines(struct sums *s, const char *path, const struct text *content, struct err *e)
{
    const char *at = content->data, *end = at + content->len, *newline;
    struct text where = {0};
    int failed = 0;
    for (int64_t number = 1; !failed && at < end && (newline = memchr(at, '\n', (size_t)(end - at))); number++) {
        text_clear(&where);
        text_printf(&where, "%s:%lld", path, (long long)number);
        cJSON *r = json_parse(at, (size_t)(newline - at), where.data, e);
        const char *task = json_string(r, "task");
        if (!r)
            failed = -1;
        else if (!task)
            failed = err_input(e, "%s: a record with a task was expected", where.data);
        else
            count_record(sum_of(s, task), r);
        cJSON_Delete(r);
        at = newline + 1;
    }
    text_free(&where);
    return failed;
}

int run_summary(const char *dir, struct text *out, struct err *e)
{
    char *path = path_join(dir, "records.jsonl");
    struct text content = {0};
    struct sums s = {0};
    text_puts(&content, "");
    int failed = file_read(path, SIZE_MAX / 4, &content, e) || count_lines(&s, path, &content, e) ? -1 : 0;
    if (!failed) {
        text_printf(out, "%-16s %8s %8s %8s  %7s\n", "task", "samples", "unparsed", "errors", "right");
        for (int i = 0; i < s.n; i++)
            put_task(out, &s.at[i]);
    }
    for (int i = 0; i < s.n; i++) {
        for (size_t k = 0; k < s.at[i].n_rows; k++)
            free(s.at[i].rows[k].group);
        free(s.at[i].rows);
        free(s.at[i].task);
    }
    free(s.at);
    text_free(&content);
    free(path);
    return failed;
}
