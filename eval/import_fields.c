/* import_fields.c - careful looks into JSON that other tools wrote. */
#include "eval/cli.h"
#include "eval/import.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const cJSON *import_dig(const cJSON *value, const char *path)
{
    while (value && *path) {
        char step[128];
        size_t n = strcspn(path, ".");
        if (n >= sizeof step)
            return NULL;
        memcpy(step, path, n);
        step[n] = '\0';
        value = cJSON_IsArray(value) ? cJSON_GetArrayItem(value, isdigit((unsigned char)*step) ? atoi(step) : -1)
                                     : json_get(value, step);
        path += path[n] ? n + 1 : n;
    }
    return value;
}

const char *import_text(struct importer *im, const cJSON *value)
{
    if (cJSON_IsString(value))
        return arena_strndup(&im->arena, value->valuestring, strlen(value->valuestring));
    if (cJSON_IsBool(value))
        return cJSON_IsTrue(value) ? "true" : "false";
    if (!cJSON_IsNumber(value))
        return NULL;
    struct text t = {0};
    text_put_double(&t, value->valuedouble);
    const char *copy = arena_strndup(&im->arena, t.data, t.len);
    text_free(&t);
    return copy;
}

double import_number(const cJSON *value)
{
    if (cJSON_IsBool(value))
        return cJSON_IsTrue(value);
    if (cJSON_IsNumber(value))
        return value->valuedouble;
    if (!cJSON_IsString(value) || !*value->valuestring)
        return NAN;
    if (strcmp(value->valuestring, "True") == 0 || strcmp(value->valuestring, "true") == 0)
        return 1;
    if (strcmp(value->valuestring, "False") == 0 || strcmp(value->valuestring, "false") == 0)
        return 0;
    char *end;
    double v = strtod(value->valuestring, &end);
    return *end || !isfinite(v) ? NAN : v;
}

int64_t import_count(const cJSON *value)
{
    const double v = import_number(value);
    return v >= 0 && v <= 0x1p53 && v == floor(v) ? (int64_t)v : -1;
}

/* ['it''s', "a"] as Python prints a list of texts. -1: it is none. */
static int python_list(struct importer *im, const char *s, const char ***out)
{
    int n = 0, cap = 4;
    const char **list = mem_grow(NULL, (size_t)cap, sizeof *list);
    struct text item = {0};
    bool good = *s++ == '[', more = true;
    for (s += strspn(s, " "); good && more && *s != ']'; s += strspn(s, " ")) {
        const char quote = *s++;
        text_clear(&item);
        good = quote == '\'' || quote == '"';
        for (; good && *s && *s != quote; s++) {
            if (*s == '\\' && s[1])
                s++;
            text_putc(&item, *s);
        }
        good = good && *s++ == quote;
        if (!good)
            break;
        if (n == cap)
            list = mem_grow(list, (size_t)(cap *= 2), sizeof *list);
        list[n++] = arena_strndup(&im->arena, item.data ? item.data : "", item.len);
        s += strspn(s, " ");
        more = *s == ',';
        s += more;
    }
    good = good && s[0] == ']' && s[1] == '\0';
    *out = ARENA_NEW(&im->arena, const char *, n + 1);
    if (good)
        memcpy(*out, list, (size_t)n * sizeof *list);
    free(list);
    text_free(&item);
    return good ? n : -1;
}

int import_list(struct importer *im, const cJSON *value, const char ***out)
{
    if (cJSON_IsArray(value)) {
        int n = 0;
        const cJSON *item;
        *out = ARENA_NEW(&im->arena, const char *, cJSON_GetArraySize(value) + 1);
        cJSON_ArrayForEach(item, value)
            if (((*out)[n] = import_text(im, item)))
                n++;
        return n;
    }
    if (cJSON_IsString(value) && value->valuestring[0] == '[') {
        cJSON *parsed = json_parse(value->valuestring, strlen(value->valuestring), "", NULL);
        int n = cJSON_IsArray(parsed) ? import_list(im, parsed, out) : python_list(im, value->valuestring, out);
        cJSON_Delete(parsed);
        if (n >= 0)
            return n;
    }
    const char *one = import_text(im, value);
    *out = ARENA_NEW(&im->arena, const char *, 1);
    (*out)[0] = one;
    return one != NULL;
}

static const char **letters(struct importer *im, int n)
{
    const char **label = ARENA_NEW(&im->arena, const char *, n + 1);
    for (int i = 0; i < n; i++)
        label[i] = arena_printf(&im->arena, "%c", 'A' + i);
    return label;
}

void import_choices(struct importer *im, const cJSON *doc, struct import_row *out)
{
    static const char *const column[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J"};
    const cJSON *choices = json_get(doc, "choices") ? json_get(doc, "choices") : json_get(doc, "options");
    if (cJSON_IsObject(choices)) {
        const char **labels;
        out->n_options = import_list(im, json_get(choices, "text"), &out->options);
        if (import_list(im, json_get(choices, "label"), &labels) == out->n_options)
            out->labels = labels;
    } else if (cJSON_IsArray(choices) || (cJSON_IsString(choices) && choices->valuestring[0] == '[')) {
        out->n_options = import_list(im, choices, &out->options);
    } else {
        out->options = ARENA_NEW(&im->arena, const char *, 10);
        for (int i = 0; i < 10; i++) {
            const char *text = import_text(im, json_get(doc, column[i]));
            if (!text || !*text)
                break;
            out->options[out->n_options++] = text;
        }
    }
    if (out->n_options > 26)
        out->n_options = 0;
    if (out->n_options && !out->labels)
        out->labels = letters(im, out->n_options);
}

const char *import_task_name(struct importer *im, const char *name)
{
    static const struct { const char *begins, *task; } known[] = {
        {"mmlu-pro", "mmlu-pro"}, {"mmlupro", "mmlu-pro"}, {"mmlu", "mmlu"}, {"arc-easy", "arc-easy"},
        {"arc-challenge", "arc-challenge"}, {"gsm8k", "gsm8k"}, {"mmbench", "mmbench"}, {"chartqa", "chartqa"},
        {"docvqa", "docvqa"}, {"mmau", "mmau"}, {"gigaspeech", "gigaspeech"}, {"earnings22", "earnings22"},
        {"librispeech", "librispeech"}};
    char *plain = arena_strndup(&im->arena, name, strlen(name));
    for (char *p = plain; *p; p++)
        *p = *p == '_' || *p == ' ' || *p == '.' ? '-' : (char)tolower((unsigned char)*p);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(plain, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].task;
    return arena_strndup(&im->arena, name, strlen(name));
}
