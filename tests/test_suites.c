#define _GNU_SOURCE
/* The suites: the embedded twelve against the prompts and golds that the demo checkpoint's reference answers name, and
 * the rules of suite files. */
#include "datasets/datasets.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define REFERENCE "../shared/demo/reference_outputs/demo.bf16.jsonl"

struct demo_row { char task[32], id[64]; char *prompt; cJSON *gold; };
static struct demo_row *rows;
static int n_rows;

static void read_reference(void)
{
    struct text t = {0};
    struct err e = {0};
    if (!CHECK_MSG(file_read(REFERENCE, (size_t)64 << 20, &t, &e) == 0, "%s", e.msg))
        return;
    for (char *line = t.data, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        cJSON *o = json_parse(line, (size_t)(end - line), REFERENCE, &e);
        rows = mem_grow(rows, (size_t)n_rows + 1, sizeof *rows);
        struct demo_row *r = &rows[n_rows++];
        snprintf(r->task, sizeof r->task, "%s", json_string(o, "task"));
        for (char *p = r->task; *p; p++)
            *p = *p == '_' ? '-' : *p;
        snprintf(r->id, sizeof r->id, "%s", json_string(o, "id"));
        r->prompt = mem_strdup(json_string(o, "prompt"));
        r->gold = cJSON_DetachItemFromObject(o, "gold");
        cJSON_Delete(o);
    }
    text_free(&t);
}

static const struct demo_row *reference_of(const char *task, const char *id)
{
    for (int i = 0; i < n_rows; i++) {
        size_t n = strlen(id), k = strlen(rows[i].id);
        if (strcmp(rows[i].task, task) == 0 && n >= k && strcmp(id + n - k, rows[i].id) == 0 &&
            (n == k || id[n - k - 1] == '/'))
            return &rows[i];
    }
    return NULL;
}

static bool gold_matches(const struct sample *s, const cJSON *gold)
{
    if (cJSON_IsString(gold))
        return s->n_answers >= 1 && (s->type == ANSWER_SPEECH ? strlen(s->answers[0]) == strlen(gold->valuestring) :
                                     strcmp(s->answers[0], gold->valuestring) == 0);
    int i = 0;
    const cJSON *g;
    cJSON_ArrayForEach(g, gold)
        if (i >= s->n_answers || strcmp(s->answers[i++], g->valuestring) != 0)
            return false;
    return i == s->n_answers;
}

/* 2,200 samples: every prompt to the byte, every gold, each reference row once. */
static void mini_suite(void)
{
    if (!file_exists(REFERENCE))
        SKIP("no reference answers");
    read_reference();
    struct suite suite;
    struct err e = {0};
    if (!CHECK_MSG(suite_open(&suite, "mini", "datasets/mini", &e) == 0, "%s", e.msg))
        return;
    CHECK(suite.n_tasks == 12);
    int total = 0;
    for (int i = 0; i < suite.n_tasks; i++) {
        struct dataset *d;
        struct sample s;
        int got, n = 0;
        if (!CHECK_MSG(dataset_open(&d, &suite.tasks[i], &e) == 0, "%s", e.msg))
            continue;
        while ((got = dataset_next(d, &s, &e)) > 0) {
            const struct demo_row *r = reference_of(suite.tasks[i].task, s.id);
            struct text prompt = {0};
            CHECK_MSG(dataset_prompt_text(d, &s, &prompt, &e) == 0, "%s", e.msg);
            if (CHECK_MSG(r != NULL, "%s %s has no reference", suite.tasks[i].task, s.id)) {
                CHECK_STR(prompt.data, r->prompt);
                CHECK_MSG(gold_matches(&s, r->gold), "%s %s: gold %s", suite.tasks[i].task, s.id, s.answers[0]);
            }
            text_free(&prompt);
            n++;
        }
        CHECK_MSG(got == 0, "%s: %s", suite.tasks[i].task, e.msg);
        CHECK_MSG(dataset_skipped(d) == 0, "%s", dataset_notes(d));
        CHECK_MSG(dataset_count(d) == n, "%s: counted %lld, read %d", suite.tasks[i].task,
                  (long long)dataset_count(d), n);
        total += n;
        dataset_close(d);
    }
    CHECK_MSG(total == n_rows && total == 2200, "%d samples, %d references", total, n_rows);
    suite_close(&suite);
    for (int i = 0; i < n_rows; i++) {
        free(rows[i].prompt);
        cJSON_Delete(rows[i].gold);
    }
    free(rows);
}

static void media_before_text(void)
{
    struct task_spec spec = {.task = "chartqa", .path = "datasets/mini/chartqa", .system = "Be brief.", .shots = -1};
    struct dataset *d;
    struct sample s;
    struct err e = {0};
    if (!CHECK_MSG(dataset_open(&d, &spec, &e) == 0, "%s", e.msg))
        return;
    CHECK(dataset_next(d, &s, &e) == 1);
    cJSON *m = dataset_prompt(d, &s, &e);
    CHECK_STR(json_string(cJSON_GetArrayItem(m, 0), "role"), "system");
    const cJSON *parts = json_get(cJSON_GetArrayItem(m, 1), "content");
    CHECK_STR(json_string(cJSON_GetArrayItem(parts, 0), "type"), "image");
    CHECK_STR(json_string(cJSON_GetArrayItem(parts, 1), "type"), "text");
    cJSON_Delete(m);
    dataset_close(d);
}

static void write_file(const char *path, const char *text)
{
    struct err e = {0};
    CHECK_MSG(file_write_atomic(path, text, strlen(text), &e) == 0, "%s", e.msg);
}

/* A suite of a user's own, beside his data. */
static void own_suite(void)
{
    char dir[] = "/tmp/handoff-suite-XXXXXX", suite_path[64], data_path[64];
    struct suite suite;
    struct err e = {0};
    CHECK(mkdtemp(dir) != NULL);
    snprintf(suite_path, sizeof suite_path, "%s/mine.json", dir);
    snprintf(data_path, sizeof data_path, "%s/q.jsonl", dir);
    write_file(data_path,
               "{\"id\":\"a\",\"question\":\"Two?\",\"choices\":{\"x\":\"1\",\"y\":\"2\"},\"answer\":\"2\"}\n"
               "{\"id\":\"b\",\"question\":\"One?\",\"choices\":[\"1\",\"2\"],\"answer\":0,\"group\":7}\n"
               "{\"id\":\"c\",\"question\":\"Bad\",\"choices\":[\"1\",\"2\"],\"answer\":\"Z\"}\n");
    write_file(suite_path, "{\"tasks\":[{\"task\":\"mine\",\"format\":\"jsonl\",\"path\":\"q.jsonl\",\"max_tokens\":5,"
                           "\"prompt\":\"{question} {label0}/{label1} {x}\"}]}");
    if (CHECK_MSG(suite_open(&suite, suite_path, NULL, &e) == 0, "%s", e.msg)) {
        struct dataset *d;
        struct sample s;
        CHECK_MSG(dataset_open(&d, &suite.tasks[0], &e) == 0, "%s", e.msg);
        CHECK_STR(dataset_spec(d)->grader, "choice");
        CHECK(dataset_spec(d)->max_tokens == 5);
        CHECK(dataset_next(d, &s, &e) == 1);
        CHECK_STR(s.answers[0], "y");
        CHECK(s.answer_index == 1);
        struct text t = {0};
        CHECK(dataset_prompt_text(d, &s, &t, &e) != 0);         /* {x} is no placeholder */
        CHECK(strstr(e.msg, "{x}") != NULL);
        text_free(&t);
        CHECK(dataset_next(d, &s, &e) == 1);
        CHECK_STR(s.answers[0], "A");
        CHECK_STR(s.group, "7");
        CHECK(dataset_next(d, &s, &e) == 0);
        CHECK(dataset_skipped(d) == 1 && strstr(dataset_notes(d), "E_LABEL"));
        dataset_close(d);
        suite_close(&suite);
    }
    write_file(suite_path, "{\"tasks\":[{\"task\":\"mine\",\"format\":\"jsonl\",\"path\":\"q.jsonl\",\"shot\":5}]}");
    CHECK(suite_open(&suite, suite_path, NULL, &e) != 0 && strstr(e.msg, "\"shot\""));
    unlink(suite_path);
    unlink(data_path);
    rmdir(dir);
}

static void paper_suite(void)
{
    struct suite suite;
    struct err e = {0};
    CHECK(suite_open(&suite, "paper", NULL, &e) != 0 && e.code == EXIT_USAGE);
    if (CHECK_MSG(suite_open(&suite, "paper", "datasets/mini", &e) == 0, "%s", e.msg)) {
        CHECK(suite.n_tasks > 0 && suite.n_tasks < 12);
        CHECK(suite.missing.len && strstr(suite.missing.data, "gigaspeech: not under"));
        suite_close(&suite);
    }
}

int main(void)
{
    RUN(mini_suite);
    RUN(media_before_text);
    RUN(own_suite);
    RUN(paper_suite);
    return test_report();
}
