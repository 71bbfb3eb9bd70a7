/* engines.c - the first difference of each sample, from what both records say. */
#include "eval/engines.h"
#include "eval/visible.h"

#include <math.h>
#include <string.h>

const char *engine_difference_name(enum engine_difference d)
{
    static const char *const names[] = {"same", "tokens", "media", "answer", "arithmetic", "probe", "untold"};
    return names[d];
}

static double number(const cJSON *record, const char *key)
{
    const cJSON *v = json_get(record, key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

/* Both known and apart; a figure that one of them lacks says nothing. */
static bool apart(double x, double y, double tolerance)
{
    return fabs(x - y) > tolerance;
}

/* Engines differ in what they leave around an answer: blanks, the trailer, a thought channel. */
static bool same_answer(const cJSON *x, const cJSON *y)
{
    const char *one = json_string(x, "output"), *two = json_string(y, "output");
    struct arena a = {0};
    struct visible v[2];
    if (!one || !two)
        return one == two;
    visible_answer(one, &a, &v[0]);
    visible_answer(two, &a, &v[1]);
    const bool same = strcmp(v[0].text, v[1].text) == 0;
    arena_free(&a);
    return same;
}

/* An entropy of the top few tokens is a bound, not the figure. */
static double entropy_of(const cJSON *record)
{
    return json_get(record, "entropy_truncated") ? NAN : number(json_get(record, "entropy"), "mean");
}

static enum engine_difference difference(const cJSON *x, const cJSON *y, double tolerance)
{
    const cJSON *input[2] = {json_get(x, "input_sha"), json_get(y, "input_sha")};
    const double logprob[2] = {number(x, "logprob"), number(y, "logprob")};
    const double entropy[2] = {entropy_of(x), entropy_of(y)};
    if (apart(number(x, "prompt_tokens"), number(y, "prompt_tokens"), 0))
        return ENGINE_TOKENS;
    if (input[0] && input[1] && !cJSON_Compare(input[0], input[1], true))
        return ENGINE_MEDIA;
    if (!same_answer(x, y))
        return ENGINE_ANSWER;
    if (apart(logprob[0], logprob[1], tolerance) || apart(entropy[0], entropy[1], tolerance))
        return ENGINE_ARITHMETIC;
    if (!apart(number(x, "confidence"), number(y, "confidence"), tolerance))
        return ENGINE_SAME;
    const bool told = isfinite(logprob[0] - logprob[1]) || isfinite(entropy[0] - entropy[1]);
    return told ? ENGINE_PROBE : ENGINE_UNTOLD;
}

static void count(struct engines_row *row, enum engine_difference d, double change)
{
    row->n++;
    row->count[d]++;
    if (!isfinite(change))
        return;
    row->n_drift++;
    row->drift[d] += change;
}

static void finish_row(struct engines_row *row)
{
    for (int d = 0; d < N_ENGINE_DIFFERENCES; d++)
        row->drift[d] = row->n_drift ? row->drift[d] / (double)row->n_drift : NAN;
}

struct pairing {
    const struct inputs *in;
    const struct records *base, *other;
    struct records_texts *texts[2];
    struct engines_result *out;
    double tolerance;
    struct arena *arena;
};

static int compare_pair(struct pairing *p, const struct record *x, const struct record *y, struct engines_row *row,
                        struct engines_row *all, struct err *e)
{
    cJSON *one = records_text(p->texts[0], x, e), *two = one ? records_text(p->texts[1], y, e) : NULL;
    if (two) {
        const enum engine_difference d = difference(one, two, p->tolerance);
        const double change = number(two, "confidence") - number(one, "confidence");
        count(row, d, change);
        count(all, d, change);
        if (!p->out->first[d])
            p->out->first[d] = arena_printf(p->arena, "%s %s", row->task, json_string(one, "id") ? json_string(one, "id")
                                                                                               : "");
    }
    cJSON_Delete(one);
    cJSON_Delete(two);
    return two ? 0 : -1;
}

/* Samples that only one of them has are left out with --common, else an error. */
static int compare_task(struct pairing *p, int task, struct engines_row *row, struct engines_row *all, struct err *e)
{
    const struct record_task *t = &p->base->tasks[task];
    row->task = t->name;
    for (int64_t i = 0; i < t->n; i++) {
        const struct record *x = records_row(p->base, task, i), *y = records_find(p->other, x->key);
        if (!y && !p->in->common)
            return err_input(e, "%s:%lld: %s has no such sample; --common compares those that both have", p->base->path,
                             (long long)records_line(p->base, x), p->other->name);
        if (y && compare_pair(p, x, y, row, all, e))
            return -1;
    }
    finish_row(row);
    return 0;
}

int engines_compare(struct engines_result *out, const struct inputs *in, const struct records *base,
                    const struct records *other, double tolerance, struct arena *a, struct err *e)
{
    struct engines_row *rows = ARENA_NEW(a, struct engines_row, base->n_tasks + 1), all = {.task = "all"};
    struct pairing p = {in, base, other, {NULL, NULL}, out, tolerance, a};
    *out = (struct engines_result){.base = base->name, .other = other->name, .tolerance = tolerance, .rows = rows};
    p.texts[0] = records_texts_open(base, e);
    p.texts[1] = p.texts[0] ? records_texts_open(other, e) : NULL;
    int failed = p.texts[1] ? 0 : -1;
    for (int t = 0; t < base->n_tasks && !failed; t++)
        if (inputs_want(in, base->tasks[t].name)) {
            failed = compare_task(&p, t, &rows[out->n_rows], &all, e);
            out->n_rows += rows[out->n_rows].n > 0;
        }
    records_texts_close(p.texts[0]);
    records_texts_close(p.texts[1]);
    if (!failed && all.n == 0)
        failed = err_input(e, "%s and %s have no sample in common", base->name, other->name);
    finish_row(&all);
    rows[out->n_rows++] = all;
    return failed;
}
