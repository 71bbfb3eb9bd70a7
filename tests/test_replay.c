/* parity --replay and compare --replay: a run's own answers read once more, against the records, against a plain
 * computation in one step, and what is refused. */
#define _GNU_SOURCE
#include "eval/stats.h"
#include "engine/engine.h"
#include "probe/probe.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MINI "datasets/mini/checkpoint"
static char scratch[] = "/tmp/handoff-replay-XXXXXX";

/* What a command prints, on both streams; its exit status. $H is the program, $T the scratch folder. */
static int shell(const char *command, struct text *out)
{
    struct text whole = {0};
    const char *program = getenv("HANDOFF");
    char part[4096];
    size_t n;
    text_printf(&whole, "T=%s; H=%s; { %s; } 2>&1", scratch, program ? program : "build/handoff", command);
    FILE *f = popen(whole.data, "r");
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        text_put(out, part, n);
    const int ended = f ? pclose(f) : -1;
    text_free(&whole);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}

static cJSON *json_of(const char *command, int status)
{
    struct text out = {0};
    const int got = shell(command, &out);
    CHECK_MSG(got == status, "status %d of %s: %.300s", got, command, out.data ? out.data : "");
    cJSON *json = out.len ? cJSON_ParseWithLength(out.data, out.len) : NULL;
    CHECK_MSG(json != NULL, "no JSON: %.300s", out.data ? out.data : "");
    text_free(&out);
    return json;
}

static void fails(const char *command, int status, const char *pattern)
{
    struct text out = {0};
    const int got = shell(command, &out);
    const bool one_line = out.data && strchr(out.data, '\n') == out.data + out.len - 1;
    CHECK_MSG(got == status && one_line && strstr(out.data, pattern),
              "status %d of %s: %.300s", got, command, out.data ? out.data : "");
    text_free(&out);
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *v = json_get(o, key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static double mean_of(const cJSON *row, const char *key)
{
    return number(json_get(row, key), "mean");
}

static const cJSON *row_of(const cJSON *tasks, const char *task)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, tasks)
        if (strcmp(json_string(row, "task"), task) == 0)
            return row;
    return NULL;
}

/* Two runs, of the embedded checkpoint and of a coarse quant of it. The picture and sound tasks are in the first alone:
 * the quant has no towers. */
static void make_runs(void)
{
    struct text out = {0};
    CHECK_MSG(shell("$H quantize " MINI " $T/q.gguf --type q4_0 --no-mmproj && "
                    "$H run --model " MINI " --suite mini --only mmlu,gsm8k --limit 20 --out $T/a && "
                    "$H run --model $T/q.gguf --suite mini --only mmlu,gsm8k --limit 20 --out $T/b && "
                    "$H run --model " MINI " --suite mini --only docvqa,asr-clean --limit 4 --out $T/media && "
                    "for i in 1 2 3 4 5 6; do printf '{\"id\":\"q%d\",\"type\":\"numeric\",\"answer\":%d,\"question\":\"' "
                    "$i $i; printf 'A box holds %d red and %d blue balls. ' 1 2 3 4 5 6 7 8 9 10 11 12; "
                    "printf 'What is 3 + %d?\"}\\n' $i; done >$T/shared.jsonl && "
                    "$H run --model " MINI " --data jsonl=$T/shared.jsonl --out $T/shared", &out) == 0,
              "%s", out.data ? out.data : "");
    text_free(&out);
}

/* A checkpoint that reads its own answers: nothing differs, and the means are the records'. The prompts of the last run
 * have a long beginning in common. */
static void own_answers(void)
{
    static const char *const runs[][2] = {{"a", "gsm8k"}, {"media", "docvqa"}, {"media", "asr-clean"}, {"shared", "jsonl"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct text command = {0}, content = {0}, path = {0};
        struct err e = {0};
        double confidence = 0, entropy = 0, n = 0;
        text_printf(&command, "$H parity " MINI " " MINI " --replay $T/%s --json", runs[i][0]);
        cJSON *json = json_of(command.data, 0);
        const cJSON *replay = json_get(json, "replay");
        const cJSON *row = row_of(json_get(json_get(replay, "models")->child, "tasks"), runs[i][1]);
        text_printf(&path, "%s/%s/records.jsonl", scratch, runs[i][0]);
        CHECK(file_read(path.data, 1 << 24, &content, &e) == 0);
        for (char *at = content.data, *end; at && (end = strchr(at, '\n')); at = end + 1) {
            cJSON *r = cJSON_ParseWithLength(at, (size_t)(end - at));
            if (strcmp(json_string(r, "task"), runs[i][1]) == 0) {
                confidence += number(r, "confidence");
                entropy += number(json_get(r, "entropy"), "mean");
                n++;
            }
            cJSON_Delete(r);
        }
        CHECK(number(replay, "self_difference") == 0 && number(row, "n") == n && n > 0);
        CHECK(mean_of(row, "confidence_drift") == 0 && mean_of(row, "entropy_drift") == 0);
        CHECK(number(row, "kl_max") == 0 && number(row, "same_top") == 1);
        CHECK_NEAR(number(row, "confidence"), confidence / n, 1e-12);
        CHECK_NEAR(number(row, "entropy"), entropy / n, 1e-12);
        cJSON_Delete(json);
        text_free(&command);
        text_free(&content);
        text_free(&path);
    }
}

/* The first answer to gsm8k in one step of one checkpoint: its confidence and the entropies. */
static void read_plainly(const char *model, const struct ids *all, int first, double *confidence, double *entropy)
{
    struct engine *m;
    struct probe *p;
    struct err e = {0};
    struct probe_result r = {0};
    struct token_stats stats;
    if (!CHECK_MSG(!engine_open(&m, model, NULL, &e) && !probe_open_for(&p, m, NULL, -1, &e), "%s", e.msg))
        return;
    const int n = all->n - 1, rows = n - first, vocab = engine_info(m)->vocab_size;
    float *logits = NEW(float, rows * vocab), *tap = NEW(float, rows * engine_info(m)->hidden_size);
    double *wide = NEW(double, vocab);
    struct seq *s = seq_new(m);
    const struct step_input in = {.seq = s, .ids = all->id, .n = n, .n_needed = rows, .logits = logits, .tap = tap,
                                  .tap_layer = probe_layer(p)};
    CHECK(engine_step(m, &in, 1, &e) == 0 && probe_score(p, tap, rows, &r, &e) == 0);
    *confidence = r.confidence;
    *entropy = 0;
    for (int i = 0; i + 1 < rows; i++) {                /* without the stop token's row */
        for (int k = 0; k < vocab; k++)
            wide[k] = logits[i * vocab + k];
        CHECK(token_stats(wide, vocab, all->id[first + 1 + i], &stats, &e) == 0);
        *entropy += stats.entropy / (rows - 1);
    }
    seq_free(s);
    free(logits);
    free(tap);
    free(wide);
    probe_close(p);
    engine_close(m);
}

static void against_one_step(void)
{
    struct text dry = {0}, content = {0}, path = {0};
    struct ids all = {0};
    struct engine *m;
    struct err e = {0};
    CHECK(shell("$H run --model " MINI " --suite mini --only gsm8k --dry-run", &dry) == 0);
    char *begin = strstr(dry.data ? dry.data : "", "<bos>"), *end = begin ? strstr(begin, "<|turn>model\n") : NULL;
    text_printf(&path, "%s/a/records.jsonl", scratch);
    CHECK(file_read(path.data, 1 << 24, &content, &e) == 0);
    char *line = content.data ? strstr(content.data, "\"task\":\"gsm8k\"") : NULL;
    if (!CHECK(end && line) || !CHECK(engine_open(&m, MINI, NULL, &e) == 0))
        return;
    tokenize(engine_tokenizer(m), begin, (size_t)(end - begin) + strlen("<|turn>model\n"), &all);
    engine_close(m);
    while (line > content.data && line[-1] != '\n')
        line--;
    cJSON *record = cJSON_ParseWithLength(line, strcspn(line, "\n"));
    const cJSON *id;
    const int first = all.n - 1;
    CHECK(number(record, "prompt_tokens") == all.n && strcmp(json_string(record, "stop"), "eos") == 0);
    cJSON_ArrayForEach(id, json_get(record, "output_ids"))
        ids_push(&all, id->valueint);
    CHECK(number(record, "tokens") == all.n - first - 1 && all.n - first > 8);
    text_clear(&path);
    text_printf(&path, "%s/q.gguf", scratch);
    double confidence[2] = {0}, entropy[2] = {0};
    read_plainly(MINI, &all, first, &confidence[0], &entropy[0]);
    read_plainly(path.data, &all, first, &confidence[1], &entropy[1]);
    cJSON *json = json_of("$H parity " MINI " $T/q.gguf --replay $T/a --task gsm8k --limit 1 --json", 1);
    const cJSON *row = json_get(json_get(json_get(json, "replay"), "models")->child, "tasks")->child;
    CHECK(number(row, "positions") == all.n - first - 1);
    CHECK_NEAR(number(row, "confidence_base"), confidence[0], 0);
    CHECK_NEAR(number(row, "confidence"), confidence[1], 0);
    CHECK_NEAR(number(row, "entropy_base"), entropy[0], 1e-12);
    CHECK_NEAR(number(row, "entropy"), entropy[1], 1e-12);
    CHECK(confidence[0] != confidence[1]);
    cJSON_Delete(json);
    cJSON_Delete(record);
    ids_free(&all);
    text_free(&dry);
    text_free(&content);
    text_free(&path);
}

static void parts_of_a_drift(void)
{
    cJSON *json = json_of("$H compare $T/a $T/b --replay --json", 0);
    cJSON *parity = json_of("$H parity " MINI " $T/q.gguf --replay $T/a --json", 1);
    const cJSON *read = json_get(json_get(json_get(parity, "replay"), "models")->child, "tasks");
    const cJSON *rows = json_get(json_get(json, "replay"), "tasks"), *row;
    int changed = 0;
    cJSON_ArrayForEach(row, rows) {
        const char *task = json_string(row, "task");
        const cJSON *as_compared = row_of(json_get(json, "tasks"), task);
        CHECK_NEAR(mean_of(row, "total"), number(as_compared, "confidence_drift"), 1e-12);
        CHECK_NEAR(mean_of(row, "weights") + mean_of(row, "arithmetic") + mean_of(row, "answers"),
                   mean_of(row, "total"), 1e-12);
        CHECK_NEAR(mean_of(row, "weights"), mean_of(row_of(read, task), "confidence_drift"), 1e-12);
        CHECK(mean_of(row, "arithmetic") == 0 && mean_of(row, "weights") != 0);
        CHECK((number(row, "changed_answers") == 0) == (mean_of(row, "answers") == 0));
        changed += number(row, "changed_answers") > 0;
    }
    CHECK(cJSON_GetArraySize(rows) == 3 && changed > 0);
    cJSON_Delete(json);
    cJSON_Delete(parity);
    /* A run against itself has no drift at all. */
    json = json_of("$H compare $T/a $T/a --replay --json --limit 5", 0);
    row = row_of(json_get(json_get(json, "replay"), "tasks"), "all");
    CHECK(number(row, "n") == 10 && mean_of(row, "total") == 0 && mean_of(row, "weights") == 0 &&
          mean_of(row, "answers") == 0 && number(row, "changed_answers") == 0);
    cJSON_Delete(json);
}

static void refusals(void)
{
    fails("$H parity $T/q.gguf " MINI " --replay $T/a", 3, "the checkpoint that made a was expected");
    fails("$H parity " MINI " " MINI " --replay tests/data/records/q4.jsonl", 3, "a run directory was expected");
    fails("$H parity " MINI " " MINI " --data mmlu=x", 2, "go with --replay");
    fails("$H compare $T/a $T/b --model-new x", 2, "go with --replay");
    fails("$H parity " MINI " " MINI " --replay $T/a --task mmlu --data mmlu=$T/gone", 3,
          "the data of \"mmlu\" were expected here");
    fails("cp -r $T/a $T/c; sed -i 's/\"output_ids\":[^]]*],//' $T/c/records.jsonl; "
          "$H parity " MINI " " MINI " --replay $T/c", 3, "records.jsonl:1: \"output_ids\"");
    fails("rm -r $T/c; cp -r $T/a $T/c; sed -i 's/\"output_ids\":\\[[0-9]*/\"output_ids\":[99999999/' "
          "$T/c/records.jsonl; $H parity " MINI " " MINI " --replay $T/c", 3, "records.jsonl:1: \"output_ids\"");
    fails("rm -r $T/c; cp -r $T/a $T/c; sed -i 's/\"confidence\":0.9/\"confidence\":0.8/' $T/c/records.jsonl; "
          "$H parity " MINI " " MINI " --replay $T/c", 3, "not the recorded 0.8");
    fails("rm -r $T/c; cp -r $T/a $T/c; sed -i 's/\"prompt_sha\":\"./\"prompt_sha\":\"x/' $T/c/records.jsonl; "
          "$H parity " MINI " " MINI " --replay $T/c", 3, "makes another prompt than in c");
    fails("rm -r $T/c; cp -r $T/a $T/c; sed -i 's/\"complete\":.*true/\"complete\": false/' $T/c/run.json; "
          "$H parity " MINI " " MINI " --replay $T/c", 3, "the run is not complete");
    fails("mv $T/q.gguf $T/moved.gguf; $H compare $T/a $T/b --replay", 3, "--model-new names another place");
    cJSON_Delete(json_of("$H compare $T/a $T/b --replay --model-new $T/moved.gguf --limit 2 --json", 0));
}

int main(void)
{
    struct text out = {0};
    if (!mkdtemp(scratch))
        return 1;
    RUN(make_runs);
    RUN(own_answers);
    RUN(against_one_step);
    RUN(parts_of_a_drift);
    RUN(refusals);
    shell("rm -r $T", &out);
    text_free(&out);
    return test_report();
}
