/* The embedded checkpoint over the embedded hold-outs against what PyTorch answered (../shared/demo): every answer
 * token by token, entropy and confidence, and the accuracies and AUROCs of its table. */
#define _GNU_SOURCE
#include "engine/base.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define REFERENCE "../shared/demo/reference_outputs/demo.bf16.jsonl"

/* RESULTS.md, "Demo model, bf16 weights": samples, share correct, AUROC of the probe (without the stop token's row) and
 * of the entropy, to three digits. */
struct row { const char *task; int n; double correct, probe, entropy; };
static const struct row table[] = {
    {"mmlu", 200, 0.665, 0.864, 0.900},          {"mmlu-pro", 200, 0.270, 0.656, 0.694},
    {"arc-easy", 200, 0.865, 0.864, 0.892},      {"arc-challenge", 200, 0.720, 0.806, 0.863},
    {"gsm8k", 200, 0.195, 0.827, 0.740},         {"mmbench", 200, 0.350, 0.671, 0.688},
    {"chartqa", 200, 0.600, 0.714, 0.702},       {"docvqa", 200, 0.130, 0.605, 0.472},
    {"mmau", 150, 0.793, 0.695, 0.846},          {"asr-clean", 150, 0.967, 0.486, 0.910},
    {"asr-noisy", 150, 0.587, 0.468, 0.871},     {"asr-accented", 150, 0.667, 0.600, 0.830}};
enum { N_TASKS = sizeof table / sizeof *table, MAX_SAMPLES = 200 };

struct scores { int n; double wrong[MAX_SAMPLES], p_wrong[MAX_SAMPLES], entropy[MAX_SAMPLES]; };

static int task_index(const char *name)
{
    char hyphens[64];
    snprintf(hyphens, sizeof hyphens, "%s", name);
    for (char *p = hyphens; *p; p++)
        *p = *p == '_' ? '-' : *p;
    for (int i = 0; i < N_TASKS; i++)
        if (strcmp(table[i].task, hyphens) == 0)
            return i;
    return -1;
}

static cJSON *read_lines(const char *path)
{
    struct text content = {0};
    struct err e = {0};
    cJSON *all = cJSON_CreateArray();
    if (file_read(path, 1 << 28, &content, &e) == 0)
        for (char *at = content.data, *end; (end = strchr(at, '\n')); at = end + 1) {
            cJSON *line = json_parse(at, (size_t)(end - at), path, &e);
            if (!CHECK_MSG(line != NULL, "%s", e.msg))
                break;
            cJSON_AddItemToArray(all, line);
        }
    text_free(&content);
    return all;
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *v = json_get(object, key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

/* "mmlu/test/chemistry/0" is the reference's "chemistry/0". */
static bool same_id(const char *ours, const char *theirs)
{
    size_t n = strlen(ours), m = strlen(theirs);
    return n >= m && strcmp(ours + n - m, theirs) == 0 && (n == m || ours[n - m - 1] == '/');
}

/* Tokens of the answer without the stop token. */
static bool same_tokens(const cJSON *record, const cJSON *reference)
{
    const cJSON *ours = json_get(json_get(record, "trace"), "tokens"), *theirs = json_get(reference, "output_ids");
    int n = cJSON_GetArraySize(theirs);
    if (cJSON_GetArraySize(ours) != n + 1)
        return false;
    const cJSON *a = ours->child, *b = theirs->child;
    for (int i = 0; i < n; i++, a = a->next, b = b->next)
        if (a->valueint != b->valueint)
            return false;
    return true;
}

static void compare(const cJSON *record, const cJSON *reference, struct scores *s)
{
    const char *id = json_string(record, "id"), *task = json_string(record, "task");
    double entropy = number(json_get(record, "entropy"), "mean");
    CHECK_MSG(same_id(id, json_string(reference, "id")), "%s %s is not %s", task, id, json_string(reference, "id"));
    CHECK_MSG(same_tokens(record, reference), "%s %s: answered \"%s\", not \"%s\"", task, id,
              json_string(record, "output"), json_string(reference, "text"));
    CHECK_MSG(number(record, "prompt_tokens") == number(reference, "n_prompt"), "%s %s: prompt tokens", task, id);
    CHECK_MSG(fabs(entropy - number(reference, "mean_entropy")) < 1e-3, "%s %s: entropy %g", task, id, entropy);
    CHECK_MSG(fabs(number(record, "confidence") - number(reference, "confidence_with_stop_row")) < 1e-3,
              "%s %s: confidence %g", task, id, number(record, "confidence"));
    CHECK_MSG(fabs(number(record, "confidence_without_stop") - number(reference, "confidence")) < 1e-3,
              "%s %s: confidence without the stop row", task, id);
    CHECK_MSG(cJSON_IsTrue(json_get(record, "correct")) == (number(reference, "correct") == 1), "%s %s: \"%s\" graded "
              "another way", task, id, json_string(record, "output"));
    s->wrong[s->n] = !cJSON_IsTrue(json_get(record, "correct"));
    s->p_wrong[s->n] = -number(record, "confidence_without_stop");
    s->entropy[s->n++] = entropy;
}

static double auroc_of(const struct scores *s, const double *score)
{
    double above = 0, pairs = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->n; k++)
            if (s->wrong[i] == 1 && s->wrong[k] == 0) {
                above += score[i] > score[k] ? 1 : score[i] == score[k] ? 0.5 : 0;
                pairs++;
            }
    return above / pairs;
}

static void check_table(const struct scores *scores, int first, int last)
{
    for (int i = first; i <= last; i++) {
        const struct row *r = &table[i];
        const struct scores *s = &scores[i];
        double right = 0;
        for (int k = 0; k < s->n; k++)
            right += 1 - s->wrong[k];
        CHECK_MSG(s->n == r->n, "%s: %d samples", r->task, s->n);
        CHECK_MSG(fabs(right / s->n - r->correct) < 6e-4, "%s: %.4f correct", r->task, right / s->n);
        CHECK_MSG(fabs(auroc_of(s, s->p_wrong) - r->probe) < 6e-4, "%s: probe %.4f", r->task, auroc_of(s, s->p_wrong));
        CHECK_MSG(fabs(auroc_of(s, s->entropy) - r->entropy) < 6e-4, "%s: entropy %.4f", r->task,
                  auroc_of(s, s->entropy));
    }
}

static void run_and_compare(int first, int last)
{
    char dir[] = "/tmp/handoff-demo-XXXXXX";
    struct text command = {0}, path = {0};
    const char *program = getenv("HANDOFF");
    if (!file_exists(REFERENCE))
        SKIP("no " REFERENCE);
    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    text_printf(&command, "%s run --model datasets/mini/checkpoint --suite mini --trace --out %s/run --only %s",
                program ? program : "build/handoff", dir, table[first].task);
    for (int i = first + 1; i <= last; i++)
        text_printf(&command, ",%s", table[i].task);
    text_puts(&command, " >/dev/null");
    if (!CHECK(system(command.data) == 0)) {
        text_free(&command);
        return;
    }
    text_printf(&path, "%s/run/records.jsonl", dir);
    cJSON *records = read_lines(path.data), *references = read_lines(REFERENCE);
    static struct scores scores[N_TASKS];
    memset(scores, 0, sizeof scores);
    const cJSON *record = records->child;
    for (const cJSON *reference = references->child; reference; reference = reference->next) {
        int task = task_index(json_string(reference, "task"));
        if (task < first || task > last)
            continue;
        if (!CHECK_MSG(record && task_index(json_string(record, "task")) == task, "a record of %s is missing",
                       table[task].task))
            break;
        compare(record, reference, &scores[task]);
        record = record->next;
    }
    CHECK(record == NULL);
    check_table(scores, first, last);
    cJSON_Delete(records);
    cJSON_Delete(references);
    text_clear(&command);
    text_printf(&command, "rm -r %s", dir);
    CHECK(system(command.data) == 0);
    text_free(&command);
    text_free(&path);
}

static void text_holdouts(void) { run_and_compare(0, 4); }
static void image_holdouts(void) { run_and_compare(5, 7); }
static void audio_holdouts(void) { run_and_compare(8, 11); }

int main(void)
{
    RUN(text_holdouts);
    RUN(image_holdouts);
    RUN(audio_holdouts);
    return test_report();
}
