/* Each native form of each hold-out against the fixtures' normalised records, and prompts against their goldens. */
#define _GNU_SOURCE
#include "datasets/datasets.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define FIXTURES "../shared/datasets/fixtures/"

/* Every line of `expected` of the data set `name` (all if NULL), as a list. */
static cJSON *expected_lines(const char *path, const char *name)
{
    struct text t = {0};
    struct err e = {0};
    cJSON *list = cJSON_CreateArray();
    CHECK_MSG(file_read(path, (size_t)64 << 20, &t, &e) == 0, "%s", e.msg);
    for (char *line = t.data, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        cJSON *o = json_parse(line, (size_t)(end - line), path, &e);
        CHECK_MSG(o != NULL, "%s", e.msg);
        if (o && (!name || strcmp(json_string(o, "dataset"), name) == 0))
            cJSON_AddItemToArray(list, o);
        else
            cJSON_Delete(o);
    }
    text_free(&t);
    return list;
}

static bool same(const cJSON *a, const cJSON *b, double tolerance)
{
    if (a->type != b->type)
        return false;
    if (cJSON_IsNumber(a))
        return fabs(a->valuedouble - b->valuedouble) <= tolerance;
    if (cJSON_IsString(a))
        return strcmp(a->valuestring, b->valuestring) == 0;
    if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b))
        return false;
    double inner = json_get(a, "duration_tolerance_s") ? json_get(a, "duration_tolerance_s")->valuedouble : tolerance;
    for (const cJSON *x = a->child, *y = b->child; x; x = x->next, y = y ? y->next : NULL) {
        const cJSON *other = cJSON_IsObject(a) ? json_get(b, x->string) : y;
        bool duration = cJSON_IsObject(a) && strcmp(x->string, "duration_s") == 0;
        if (!other || !same(x, other, duration ? inner : 1e-9))
            return false;
    }
    return true;
}

/* Field by field. A meta that the fixture leaves out may be there. */
static void compare(const cJSON *want, const char *line, const char *where)
{
    struct err e = {0};
    cJSON *got = json_parse(line, strlen(line), where, &e);
    if (!CHECK_MSG(got != NULL, "%s: %s", where, e.msg))
        return;
    const cJSON *field;
    cJSON_ArrayForEach(field, want) {
        const cJSON *mine = json_get(got, field->string);
        char *a = cJSON_PrintUnformatted(field), *b = mine ? cJSON_PrintUnformatted(mine) : NULL;
        bool duration = strcmp(field->string, "media") == 0;
        CHECK_MSG(mine && same(field, mine, duration ? 1e-6 : 1e-9), "%s, %s of %s: %.600s instead of %.600s", where,
                  field->string, json_string(want, "id"), b ? b : "nothing", a);
        free(a);
        free(b);
    }
    cJSON_Delete(got);
}

static const cJSON *by_id(const cJSON *list, const char *split, const char *id)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, list)
        if (strcmp(json_string(o, "split"), split) == 0 && strcmp(json_string(o, "id"), id) == 0)
            return o;
    return NULL;
}

/* All samples of a form, each equal to its expected record; within a split in the expected order. */
static void check_form(const char *task, const char *form, const char *path)
{
    char expected[512], where[512];
    snprintf(expected, sizeof expected, FIXTURES "%s/expected.jsonl", form);
    snprintf(where, sizeof where, FIXTURES "%s%s", form, path);
    struct task_spec spec = {.task = task, .path = where, .split = "all"};
    struct dataset *d;
    struct err e = {0};
    struct sample s;
    if (!CHECK_MSG(dataset_open(&d, &spec, &e) == 0, "%s: %s", where, e.msg))
        return;
    cJSON *want = NULL;
    const cJSON *before = NULL;
    struct text line = {0};
    int got, n = 0;
    while ((got = dataset_next(d, &s, &e)) > 0) {
        if (!want)
            want = expected_lines(expected, s.dataset);
        const cJSON *o = by_id(want, s.split, s.id);
        if (CHECK_MSG(o != NULL, "%s: unexpected sample %s %s", where, s.split, s.id)) {
            text_clear(&line);
            sample_print(&s, &line);
            compare(o, line.data, where);
            bool in_order = !before || strcmp(json_string(before, "split"), s.split) != 0 || before->next == o;
            CHECK_MSG(in_order, "%s: %s is out of order", where, s.id);
            before = o;
        }
        n++;
    }
    CHECK_MSG(got == 0, "%s: %s", where, e.msg);
    CHECK_MSG(want && n == cJSON_GetArraySize(want), "%s: %d samples, %d were expected", where, n,
              want ? cJSON_GetArraySize(want) : 0);
    CHECK_MSG(dataset_skipped(d) == 0, "%s", dataset_notes(d));
    text_free(&line);
    cJSON_Delete(want);
    dataset_close(d);
}

static bool no_fixtures(void) { return !path_is_dir(FIXTURES); }

#define FORM(function, ...) \
    static void function(void) { if (no_fixtures()) SKIP("no fixtures"); __VA_ARGS__ }

FORM(mmlu_official,
     check_form("mmlu", "mmlu/official", "/data.tar");
     check_form("mmlu", "mmlu/official", "");)
FORM(arc_official,
     check_form("arc-easy", "arc/official", "/ARC-V1-Feb2018.zip");
     check_form("arc-challenge", "arc/official", "/ARC-V1-Feb2018.zip");
     check_form("arc-challenge", "arc/official", "");)
FORM(gsm8k_official, check_form("gsm8k", "gsm8k/official", "");)
FORM(mmbench_official, check_form("mmbench", "mmbench/official", "/MMBench_DEV_EN.tsv");)
FORM(chartqa_official,
     check_form("chartqa", "chartqa/official", "");
     check_form("chartqa", "chartqa/official_zip", "/ChartQA Dataset.zip");
     check_form("chartqa", "chartqa/official_zip", "");)
FORM(docvqa_official,
     check_form("docvqa", "docvqa/official_rrc", "");
     check_form("docvqa", "docvqa/official_val_dir", "/val");
     check_form("docvqa", "docvqa/official_val_dir", "/val/val_v1.0.json");)
FORM(mmau_official,
     check_form("mmau", "mmau/official", "");
     check_form("mmau", "mmau/official", "/mmau-test-mini.json");)
FORM(librispeech_official,
     check_form("librispeech", "librispeech/official", "/LibriSpeech");
     check_form("librispeech", "librispeech/official_tar", "");)
FORM(gigaspeech_official,
     check_form("gigaspeech", "gigaspeech/official", "");
     check_form("gigaspeech", "gigaspeech/official", "/GigaSpeech.json");)
FORM(gigaspeech_chunks, check_form("gigaspeech", "gigaspeech/hf_targz", "");)
FORM(earnings22_official, check_form("earnings22", "earnings22/official", "/earnings22");)

FORM(mmlu_hub, check_form("mmlu", "mmlu/hf", "");)
FORM(mmlu_pro_hub, check_form("mmlu-pro", "mmlu_pro/hf", "");)
FORM(arc_hub, check_form("arc-easy", "arc/hf", ""); check_form("arc-challenge", "arc/hf", "");)
FORM(gsm8k_hub, check_form("gsm8k", "gsm8k/hf", "");)
FORM(mmbench_hub, check_form("mmbench", "mmbench/hf", "");)
FORM(chartqa_hub, check_form("chartqa", "chartqa/hf_lmms", ""); check_form("chartqa", "chartqa/hf_m4", "");)
FORM(docvqa_hub, check_form("docvqa", "docvqa/hf", "");)
FORM(mmau_hub, check_form("mmau", "mmau/hf_lmms", ""); check_form("mmau", "mmau/hf_nested", "");)
FORM(librispeech_hub, check_form("librispeech", "librispeech/hf", "");
     check_form("librispeech", "librispeech/hf_esb", "");)
FORM(gigaspeech_hub, check_form("gigaspeech", "gigaspeech/hf_parquet", "");)
FORM(earnings22_hub, check_form("earnings22", "earnings22/hf_esb", "");)

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

static void check_prompts(const char *task, const char *path, const char *expected, int shots)
{
    struct task_spec spec = {.task = task, .path = path, .split = "test", .prompt = "harness", .shots = shots};
    struct dataset *d;
    struct err e = {0};
    struct sample s;
    if (!CHECK_MSG(dataset_open(&d, &spec, &e) == 0, "%s", e.msg))
        return;
    cJSON *want = expected_lines(expected, NULL);
    int n = 0;
    while (dataset_next(d, &s, &e) > 0) {
        const cJSON *o, *found = NULL;
        cJSON_ArrayForEach(o, want)
            if (strcmp(json_string(o, "id"), s.id) == 0)
                found = o;
        if (!found)
            continue;
        struct text t = {0};
        struct arena a = {0};
        const char **continuations;
        CHECK_MSG(dataset_prompt_text(d, &s, &t, &e) == 0, "%s", e.msg);
        CHECK_STR(t.data, json_string(found, "prompt"));
        const cJSON *list = json_get(found, "continuations");
        int k = dataset_continuations(&s, &a, &continuations);
        if (list)
            CHECK(k == cJSON_GetArraySize(list));
        for (int i = 0; list && i < k; i++)
            CHECK_STR(continuations[i], cJSON_GetArrayItem(list, i)->valuestring);
        text_free(&t);
        arena_free(&a);
        n++;
    }
    CHECK_MSG(n > 0, "%s: no prompt was compared", path);
    cJSON_Delete(want);
    dataset_close(d);
}

FORM(prompts,
     check_prompts("mmlu", FIXTURES "mmlu/official/data.tar", FIXTURES "mmlu/expected_prompts_5shot.jsonl", 5);
     check_prompts("mmlu", FIXTURES "mmlu/hf", FIXTURES "mmlu/expected_prompts_5shot.jsonl", 5);
     check_prompts("mmlu-pro", FIXTURES "mmlu_pro/hf", FIXTURES "mmlu_pro/expected_prompts_5shot.jsonl", 5);
     check_prompts("gsm8k", FIXTURES "gsm8k/official/test.jsonl", FIXTURES "gsm8k/expected_prompts_3shot.jsonl", 3);
     check_prompts("arc-easy", FIXTURES "arc/official/ARC-V1-Feb2018.zip", FIXTURES "arc/expected_prompts_0shot.jsonl",
                   0);
     check_prompts("arc-challenge", FIXTURES "arc/official/ARC-V1-Feb2018.zip",
                   FIXTURES "arc/expected_prompts_0shot.jsonl", 0);)

/* ---- integrity --------------------------------------------------------------------------------------------------- */

static void fingerprint_of(const char *path, char hex[65], char *notes, size_t n)
{
    struct task_spec spec = {.task = "gsm8k", .path = path};
    struct dataset *d;
    struct sample s;
    struct err e = {0};
    if (!CHECK_MSG(dataset_open(&d, &spec, &e) == 0, "%s", e.msg))
        return;
    while (dataset_next(d, &s, &e) > 0)
        ;
    dataset_fingerprint(d, hex);
    snprintf(notes, n, "%s", dataset_notes(d));
    dataset_close(d);
}

static void integrity(void)
{
    char dir[] = "/tmp/handoff-data-XXXXXX", path[64], first[65], again[65], other[65], notes[2048];
    const char *rows = "{\"question\":\"1+1?\",\"answer\":\"#### 2\"}\n{\"question\":\"1+2?\",\"answer\":\"#### 3\"}\n"
                       "{\"question\":\"1+1?\",\"answer\":\"#### 2\"}\n";
    struct err e = {0};
    struct dataset *d;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/test.jsonl", dir);
    CHECK(file_write_atomic(path, rows, strlen(rows), &e) == 0);
    fingerprint_of(path, first, notes, sizeof notes);
    CHECK_MSG(strstr(notes, "repeated questions (same choices, same media): 1") != NULL, "%s", notes);
    CHECK_MSG(strstr(notes, "1319: this is a part") != NULL, "%s", notes);
    fingerprint_of(dir, again, notes, sizeof notes);
    CHECK_STR(again, first);                    /* the same questions, wherever they lie */
    CHECK(file_write_atomic(path, rows, strlen(rows) / 3, &e) == 0);
    fingerprint_of(path, other, notes, sizeof notes);
    CHECK(strcmp(other, first) != 0);
    struct task_spec no_split = {.task = "gsm8k", .path = path, .split = "validation"};
    CHECK(dataset_open(&d, &no_split, &e) != 0 && strstr(e.msg, "there is test") && e.code == EXIT_BAD_INPUT);
    struct task_spec no_examples = {.task = "gsm8k", .path = path, .shots = 3};
    CHECK(dataset_open(&d, &no_examples, &e) != 0 && strstr(e.msg, "train"));
    struct task_spec default_examples = {.task = "gsm8k", .path = path, .shots = -1};
    if (CHECK_MSG(dataset_open(&d, &default_examples, &e) == 0, "%s", e.msg)) {
        CHECK(dataset_spec(d)->shots == 0 && strstr(dataset_notes(d), "without examples"));
        dataset_close(d);
    }
    struct task_spec unknown = {.task = "nope", .path = path};
    CHECK(dataset_open(&d, &unknown, &e) != 0 && e.code == EXIT_USAGE);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    RUN(integrity);
    RUN(mmlu_official);
    RUN(arc_official);
    RUN(gsm8k_official);
    RUN(mmbench_official);
    RUN(chartqa_official);
    RUN(docvqa_official);
    RUN(mmau_official);
    RUN(librispeech_official);
    RUN(gigaspeech_official);
    RUN(gigaspeech_chunks);
    RUN(earnings22_official);
    RUN(mmlu_hub);
    RUN(mmlu_pro_hub);
    RUN(arc_hub);
    RUN(gsm8k_hub);
    RUN(mmbench_hub);
    RUN(chartqa_hub);
    RUN(docvqa_hub);
    RUN(mmau_hub);
    RUN(librispeech_hub);
    RUN(gigaspeech_hub);
    RUN(earnings22_hub);
    RUN(prompts);
    return test_report();
}
