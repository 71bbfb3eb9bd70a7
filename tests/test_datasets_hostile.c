/* Damaged and malicious inputs: each ends as the fixtures' manifest says, in bounded time and memory. */
#include "datasets/datasets.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* A sanitizer's own memory is not counted. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#define HOSTILE "../shared/datasets/hostile/"

static const char *task_of(const char *reader)
{
    static const char *const pairs[][2] = {{"mmlu", "mmlu"}, {"arc", "arc-easy"}, {"gsm8k", "gsm8k"}, {"mmau", "mmau"},
                                           {"mmbench", "mmbench"}, {"chartqa", "chartqa"},
                                           {"librispeech", "librispeech"}, {"gigaspeech", "gigaspeech"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strncmp(reader, pairs[i][0], strlen(pairs[i][0])) == 0)
            return pairs[i][1];
    return "";
}

struct outcome { bool file_failed, row_refused, warned; int n; char class_name[32]; char text[4096]; };

/* The class in the last parentheses of a message. */
static void take_class(const char *message, struct outcome *o)
{
    const char *open = strstr(message, "(E_");
    for (const char *next = open; (next = next ? strstr(next + 1, "(E_") : NULL);)
        open = next;
    if (open)
        snprintf(o->class_name, sizeof o->class_name, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
}

static void read_all(const char *task, const char *path, struct outcome *o)
{
    struct task_spec spec = {.task = task, .path = path, .split = "all"};
    struct dataset *d;
    struct err e = {0};
    struct sample s;
    int got;
    *o = (struct outcome){0};
    if (dataset_open(&d, &spec, &e)) {
        o->file_failed = true;
        take_class(e.msg, o);
        snprintf(o->text, sizeof o->text, "%s", e.msg);
        CHECK_MSG(e.code == EXIT_BAD_INPUT, "%s: exit %d", path, e.code);
        return;
    }
    while ((got = dataset_next(d, &s, &e)) > 0)
        o->n++;
    o->file_failed = got < 0;
    o->row_refused = dataset_skipped(d) > 0;
    o->warned = strstr(dataset_notes(d), "warning: ") != NULL;
    take_class(got < 0 ? e.msg : dataset_notes(d), o);
    snprintf(o->text, sizeof o->text, "%s%s", got < 0 ? e.msg : "", dataset_notes(d));
    dataset_close(d);
}

/* "A|B" holds one of its parts. */
static bool among(const char *classes, const char *one)
{
    size_t n = strlen(one);
    for (const char *p = classes; n && (p = strstr(p, one)); p++)
        if ((p == classes || p[-1] == '|') && (p[n] == '\0' || p[n] == '|'))
            return true;
    return false;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check_case(const cJSON *c)
{
    const char *path = json_string(c, "path"), *expect = json_string(c, "expect"), *level = json_string(c, "level");
    char full[512];
    struct outcome o;
    snprintf(full, sizeof full, HOSTILE "%s", path);
    double begin = seconds();
    read_all(task_of(json_string(c, "reader")), full, &o);
    CHECK_MSG(seconds() - begin < 5, "%s took %.1f s", path, seconds() - begin);
    bool fine = !o.file_failed && !o.row_refused;
    bool as_expected = (fine && !o.warned && among(expect, "OK")) || (fine && o.warned && among(expect, "OK_WARN")) ||
                       (!fine && among(expect, o.class_name));
    CHECK_MSG(as_expected, "%s (%s): %s expected, got %s: %.700s", path, json_string(c, "what"), expect,
              fine ? o.warned ? "OK_WARN" : "OK" : o.class_name, o.text);
    if (!fine && strcmp(level, "row") == 0)
        CHECK_MSG(!o.file_failed, "%s: the file as a whole was refused: %.300s", path, o.text);
    if (!fine && strcmp(level, "file") == 0)
        CHECK_MSG(o.file_failed, "%s: only rows were refused: %.300s", path, o.text);
}

static void manifest(void)
{
    struct text t = {0};
    struct err e = {0};
    if (!file_exists(HOSTILE "manifest.jsonl"))
        SKIP("no fixtures");
    CHECK_MSG(file_read(HOSTILE "manifest.jsonl", 1 << 20, &t, &e) == 0, "%s", e.msg);
    int n = 0;
    for (char *line = t.data, *end; line && *line; line = end, n++) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        cJSON *c = json_parse(line, (size_t)(end - line), "manifest", &e);
        if (CHECK_MSG(c != NULL, "%s", e.msg))
            check_case(c);
        cJSON_Delete(c);
    }
    CHECK(n > 90);
    text_free(&t);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#ifndef SANITIZED
    CHECK_MSG(usage.ru_maxrss < 256 * 1024, "%ld KiB", usage.ru_maxrss);
#endif
}

int main(void)
{
    RUN(manifest);
    return test_report();
}
