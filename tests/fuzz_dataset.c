/* Any bytes as the one table of a hold-out: the first byte picks the format and the file's kind. */
#define _GNU_SOURCE
#include "datasets/datasets.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <unistd.h>

static const struct { const char *format, *name; } kinds[] = {
    {"gsm8k", "test.jsonl"}, {"arc-easy", "ARC-Easy-Test.jsonl"}, {"arc-easy", "ARC-Easy-Test.csv"},
    {"mmlu-pro", "test.jsonl"}, {"jsonl", "own.jsonl"}, {"jsonl", "own.csv"}, {"jsonl", "own.json"},
    {"mmlu", "astronomy_test.csv"}, {"mmbench", "MMBench_DEV_EN.tsv"}, {"chartqa", "test_human.json"},
    {"docvqa", "val_v1.0.json"}, {"mmau", "mmau-test-mini.json"}, {"librispeech", "1-2.trans.txt"},
    {"gigaspeech", "GigaSpeech.json"}, {"gigaspeech", "test_chunks_0000_metadata.csv"}, {"earnings22", "metadata.csv"},
};

static char dir[] = "/tmp/handoff-fuzz-XXXXXX";
static void remove_dir(void) { rmdir(dir); }

static int fuzz_one(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    size_t k = data[0] % (sizeof kinds / sizeof *kinds);
    static bool made;
    if (!made && (!mkdtemp(dir) || atexit(remove_dir)))
        abort();
    made = true;
    char path[256];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s", dir, kinds[k].name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data + 1, 1, n - 1, f) != n - 1 || fclose(f))
        abort();
    struct task_spec spec = {.task = kinds[k].format, .path = dir, .split = "all"};
    struct dataset *d;
    struct sample s;
    if (dataset_open(&d, &spec, &e) == 0) {
        while (dataset_next(d, &s, &e) > 0) {
            struct text line = {0};
            sample_print(&s, &line);
            struct err quiet = {0};
            cJSON *back = json_parse(line.data, line.len, "line", &quiet);
            if (!back)
                abort();
            cJSON_Delete(back);
            text_free(&line);
            cJSON_Delete(dataset_prompt(d, &s, &e));
        }
        dataset_notes(d);
        dataset_close(d);
    }
    unlink(path);
    return 0;
}
