/* cmd_export.c - the verb `export`: records for notebooks and other harnesses. */
#include "datasets/datasets.h"
#include "eval/cli.h"
#include "eval/export.h"
#include "eval/stamp.h"

#include <stdlib.h>
#include <string.h>

int export_each(const char *run, int (*see)(void *arg, const cJSON *record, const char *where, struct err *e),
                void *arg, struct err *e)
{
    char *path = path_is_dir(run) ? path_join(run, "records.jsonl") : mem_strdup(run), where[512];
    struct table *t;
    struct table_row row;
    int failed = table_open(&t, path, NULL, e), got;
    while (!failed && (got = table_next(t, &row, e)) != 0) {
        snprintf(where, sizeof where, "%.480s:%lld", path, (long long)row.number);
        failed = got < 0 ? -1 : see(arg, row.value, where, e);
    }
    table_close(t);
    free(path);
    return failed;
}

int export_stamp(cJSON **out, const char *run, struct err *e)
{
    char *path = path_join(run, "run.json");
    bool is_there = path_is_dir(run) && file_exists(path);
    free(path);
    *out = is_there ? stamp_read(run, e) : NULL;
    return is_there && !*out ? -1 : 0;
}

int cmd_export(int argc, char **argv)
{
    const char *to = NULL, *out = NULL;
    struct strings runs = {0};
    const struct option options[] = {
        {"--to", OPT_STRING, &to, "KIND", "parquet (one file) or lm-eval (a folder: results.json, samples_TASK.jsonl)"},
        {"--out", OPT_STRING, &out, "PATH", "where to"},
        {0}};
    const struct usage usage = {
        "export", "RUN --to parquet|lm-eval --out PATH",
        "Records for notebooks and other harnesses. The Parquet file has a row a record; nested keys are joined by\n"
        "'_' (entropy_mean), run.json is in its metadata under handoff.run.",
        options, "handoff export tests/data/records/bf16.jsonl --to parquet --out /tmp/bf16.parquet"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &runs, &e);
    if (!stop) {
        const bool parquet = to && strcmp(to, "parquet") == 0;
        if (runs.n != 1 || !out)
            stop = err_set(&e, EXIT_USAGE, "export: one run and --out are needed; see \"handoff export --help\"");
        else if (!to || (!parquet && strcmp(to, "lm-eval") != 0))
            stop = err_set(&e, EXIT_USAGE, "export: --to: parquet or lm-eval was expected, not %s",
                           to ? to : "nothing");
        else
            stop = parquet ? export_parquet(runs.at[0], out, &e) : export_lm_eval(runs.at[0], out, &e);
    }
    free(runs.at);
    return stop ? cli_end(stop, &e) : EXIT_DONE;
}
