/* grade_line.c - a line of JSON as the grader's input. */
#include "eval/grade_verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)64 << 20)

bool has_extractor(const char *grader, const char *name)
{
    const char *const *x = grade_extractors(grader);
    while (x && *x && strcmp(*x, name) != 0)
        x++;
    return x && *x;
}

bool wants_band(const struct grade_args *g) { return g->extract && strcmp(g->extract, "all") == 0; }

const char *json_scalar(struct arena *a, const cJSON *v)
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
            list[0] = json_scalar(a, v);
        return n && !list[0] ? -1 : n;
    }
    cJSON_ArrayForEach(item, v)
        if (!(list[i++] = json_scalar(a, item)))
            return -1;
    return n;
}

int grade_line_input(const cJSON *line, struct arena *a, struct grade_input *in, const char *where, struct err *e)
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

int each_json_line(const char *path, int (*see)(void *arg, cJSON *line, const char *where, struct err *e), void *arg,
                   struct err *e)
{
    FILE *f = path_is_dir(path) ? NULL : fopen(path, "r");
    struct text line = {0}, where = {0};
    int failed = 0, got = 1;
    if (!f)
        return err_input(e, "%s: a JSONL file was expected", path);
    for (int64_t number = 1; !failed && got > 0; number++) {
        text_clear(&where);
        text_printf(&where, "%s:%lld", path, (long long)number);
        got = line_read(f, &line, LINE_MAX_BYTES, where.data, e);
        size_t len = got > 0 ? line.len : 0;
        len -= len && line.data[len - 1] == '\r';
        if (got <= 0 || len == 0)
            continue;
        cJSON *value = json_parse(line.data, len, where.data, e);
        failed = value ? see(arg, value, where.data, e) : -1;
        cJSON_Delete(value);
    }
    text_free(&line);
    text_free(&where);
    fclose(f);
    return failed || got < 0 ? -1 : 0;
}
