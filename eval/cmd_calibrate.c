/* cmd_calibrate.c - the verb `calibrate`: thresholds per quant; the check that a thresholds file fits. */
#include "eval/calibrate.h"
#include "engine/engine.h"
#include "eval/stamp.h"

#include <stdlib.h>
#include <string.h>

static struct inputs in = INPUTS_DEFAULT;
static struct calibrate_options o = {.threshold = 0.85, .rate = 0.3, .accuracy = 0.95, .delta = 0.05, .start = 0.95,
                                     .cost_handoff = 1, .cost_wrong = 10};
static const char *baseline, *reference, *split = "1", *out_path, *check_path, *model_path;
static bool detail;

static const struct option options[] = {
    {"--baseline", OPT_STRING, &baseline, "RUN",
     "quant whose handoff rate is to be kept (default: the first of several)"},
    {"--reference", OPT_STRING, &reference, "REF", "run of the model that answers what is handed off"},
    FORMAT_OPTIONS(in),
    INPUT_OPTIONS(in),
    INPUT_PAIR_OPTIONS(in),
    {"--per-task", OPT_FLAG, &o.per_task, NULL, "a table for each hold-out instead of one for all"},
    {"--split", OPT_STRING, &split, "SEED|none", "find thresholds on one half, count on the other (default seed 1)"},
    {"--threshold", OPT_DOUBLE, &o.threshold, "T", "the threshold in use (default 0.85)"},
    {"--rate", OPT_DOUBLE, &o.rate, "R", "wanted share to hand off (default 0.3)"},
    {"--accuracy", OPT_DOUBLE, &o.accuracy, "A", "wanted share of right answers among the kept (default 0.95)"},
    {"--delta", OPT_DOUBLE, &o.delta, "D", "the guarantee may fail with this chance (default 0.05)"},
    {"--start", OPT_DOUBLE, &o.start, "T", "where the guaranteed search starts; fix it before looking (default 0.95)"},
    {"--cost-handoff", OPT_DOUBLE, &o.cost_handoff, "C", "cost of a handed-off query (default 1)"},
    {"--cost-wrong", OPT_DOUBLE, &o.cost_wrong, "C", "cost of a wrong answer (default 10)"},
    {"--detail", OPT_FLAG, &detail, NULL, "more tables: confidence maps, the baseline's thresholds on each quant"},
    {"--out", OPT_STRING, &out_path, "FILE", "write the thresholds as a file for a router"},
    {"--check", OPT_STRING, &check_path, "FILE", "with --model: does this thresholds file belong to that checkpoint?"},
    {"--model", OPT_STRING, &model_path, "M", "checkpoint, or a run of it, for --check"},
    {0}};

static const struct usage usage = {
    "calibrate", "RUN... [options]   or   calibrate --check FILE --model M",
    "Thresholds for each quant: the one in use, the same share as the baseline, as good as the reference, a wanted\n"
    "share, a wanted accuracy of the kept answers, one that guarantees it, and the cheapest. Found on one half of the\n"
    "samples and counted on the other. --out writes them bound to the checkpoint's fingerprint and kernel.",
    options,
    "handoff calibrate tests/data/records/bf16.jsonl tests/data/records/q4.jsonl \\\n"
    "      --reference tests/data/records/reference.jsonl --out /tmp/thresholds.json"};

static bool share(double v)
{
    return v >= 0 && v <= 1;
}

static int check_options(const struct strings *sources, struct err *e)
{
    char *end;
    if (sources->n == 0)
        return err_set(e, EXIT_USAGE, "calibrate: at least one run was expected; see \"handoff calibrate --help\"");
    if (!share(o.threshold) || !share(o.rate) || !share(o.start))
        return err_set(e, EXIT_USAGE, "--threshold, --rate and --start: numbers from 0 to 1 were expected");
    if (!(o.accuracy > 0 && o.accuracy < 1) || !(o.delta > 0 && o.delta < 1))
        return err_set(e, EXIT_USAGE, "--accuracy and --delta: numbers between 0 and 1 were expected");
    if (o.cost_handoff < 0 || o.cost_wrong < 0)
        return err_set(e, EXIT_USAGE, "--cost-handoff and --cost-wrong: costs of 0 or more were expected");
    o.split = strcmp(split, "none") != 0;
    o.seed = o.split ? strtoll(split, &end, 10) : 0;
    if (o.split && (end == split || *end))
        return err_set(e, EXIT_USAGE, "--split: a seed (a whole number) or none was expected, not \"%s\"", split);
    return inputs_check(&in, e);
}

static int write_result(const struct calibrate_result *result, struct err *e)
{
    struct text out = {0}, file = {0};
    report_calibrate(result, inputs_format(&in), detail, &out);
    int failed = 0;
    if (out_path) {
        report_thresholds_file(result, &file);
        failed = file_write_atomic(out_path, file.data, file.len, e);
    }
    failed = failed || cli_print(&out, e);
    text_free(&out);
    text_free(&file);
    return failed;
}

static int calibrate(const struct strings *sources, struct err *e)
{
    struct records *runs = NEW(struct records, sources->n), others[2] = {0};
    const char *const names[2] = {baseline, reference};
    struct calibrate_result result;
    struct arena arena = {0};
    int failed = 0;
    for (int i = 0; !failed && i < sources->n; i++)
        failed = inputs_open(&in, sources->at[i], &runs[i], e);
    for (int i = 0; !failed && i < 2; i++)
        failed = names[i] ? inputs_open(&in, names[i], &others[i], e) : 0;
    struct calibrate_models m = {sources->n, runs, baseline ? &others[0] : sources->n > 1 ? &runs[0] : NULL,
                                 reference ? &others[1] : NULL, true};
    for (int i = 0; !failed && m.baseline && i < sources->n; i++)
        failed = stamps_check(&in, m.baseline, &runs[i], e);
    failed = failed || calibrate_result_make(&result, &in, &o, &m, &arena, e) || write_result(&result, e);
    for (int i = 0; i < sources->n; i++)
        records_close(&runs[i]);
    records_close(&others[0]);
    records_close(&others[1]);
    free(runs);
    arena_free(&arena);
    return failed;
}

/* ---- --check ----------------------------------------------------------------------------------------------------- */

struct identity { char fingerprint[65], kernel[32]; };

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

/* Of a checkpoint (opened as `run` would open it), or of a run directory (from its stamp). */
static int identify(struct identity *id, struct err *e)
{
    char *stamp_path = path_join(model_path, "run.json");
    bool is_run = path_is_dir(model_path) && file_exists(stamp_path);
    int failed = 0;
    if (is_run) {
        cJSON *stamp = stamp_read(model_path, e);
        failed = stamp ? 0 : -1;
        copy_text(id->fingerprint, sizeof id->fingerprint,
                  json_string(json_get(json_get(stamp, "identity"), "model"), "fingerprint"));
        copy_text(id->kernel, sizeof id->kernel, json_string(stamp, "kernel"));
        cJSON_Delete(stamp);
    } else {
        struct engine *m;
        failed = engine_open(&m, model_path, &(struct engine_options){0}, e);
        if (!failed) {
            weights_fingerprint(engine_weights(m), id->fingerprint);
            copy_text(id->kernel, sizeof id->kernel, engine_info(m)->kernel);
            engine_close(m);
        }
    }
    free(stamp_path);
    return failed;
}

/* The file ends with "sha256" over everything before that member, so that an edited file is noticed. */
static int check_digest(const struct text *file, struct err *e)
{
    static const char mark[] = ",\n\"sha256\":\"";
    char hex[65];
    for (size_t at = file->len; at-- > 0;) {
        if (file->len - at < sizeof mark - 1 + 64 || memcmp(file->data + at, mark, sizeof mark - 1) != 0)
            continue;
        sha256_hex_of(file->data, at, hex);
        if (memcmp(file->data + at + sizeof mark - 1, hex, 64) == 0)
            return 0;
        return err_set(e, EXIT_CHECK_FAILED, "%s: changed since it was written (its sha256 does not fit)", check_path);
    }
    return err_input(e, "%s: not a thresholds file (it has no sha256)", check_path);
}

static int check_quants(const cJSON *file, const struct identity *id, struct err *e)
{
    const cJSON *quant;
    bool fingerprint_known = false;
    const char *kernel = NULL;
    cJSON_ArrayForEach(quant, json_get(file, "quants")) {
        const char *fingerprint = json_string(quant, "fingerprint");
        if (!fingerprint || strcmp(fingerprint, id->fingerprint) != 0)
            continue;
        fingerprint_known = true;
        kernel = json_string(quant, "kernel");
        if (kernel && strcmp(kernel, id->kernel) == 0) {
            printf("%s: fits %s (%s, kernel %s)\n", check_path, model_path, json_string(quant, "run"), kernel);
            return 0;
        }
    }
    if (fingerprint_known)
        return err_set(e, EXIT_CHECK_FAILED, "%s: was made with kernel %s, %s runs with %s: calibrate again",
                       check_path, kernel ? kernel : "unknown", model_path, id->kernel);
    return err_set(e, EXIT_CHECK_FAILED, "%s: has no thresholds for %s (fingerprint %.16s...)", check_path, model_path,
                   id->fingerprint);
}

static int check_file(struct err *e)
{
    struct text content = {0};
    struct identity id = {0};
    cJSON *file = NULL;
    int failed = file_read(check_path, (size_t)64 << 20, &content, e);
    if (!failed) {
        file = json_parse(content.data ? content.data : "", content.len, check_path, e);
        failed = !file || check_digest(&content, e) || identify(&id, e) || check_quants(file, &id, e);
    }
    cJSON_Delete(file);
    text_free(&content);
    return failed;
}

int cmd_calibrate(int argc, char **argv)
{
    struct strings sources = {0};
    struct err e = {0};
    in.keep_group_keys = true;
    int failed, stop = cli_parse(&usage, argc, argv, &sources, &e);
    if (stop)
        return cli_end(stop, &e);
    if (check_path && (!model_path || sources.n))
        failed = err_set(&e, EXIT_USAGE, "--check FILE --model M and nothing else was expected");
    else if (check_path)
        failed = check_file(&e);
    else
        failed = check_options(&sources, &e) || calibrate(&sources, &e);
    free(sources.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
