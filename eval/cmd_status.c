/* cmd_status.c - the verb `status`: how far a run is, and how well it does. */
#include "eval/cli.h"
#include "eval/stamp.h"
#include "eval/summary.h"

#include <stdlib.h>

static void put_prefix_counts(const cJSON *counts, struct text *out)
{
    const cJSON *tokens = json_get(counts, "prompt_tokens"), *saved = json_get(counts, "saved");
    if (cJSON_IsNumber(tokens) && cJSON_IsNumber(saved) && tokens->valuedouble > 0)
        text_printf(out, "%.0f prompt tokens, %.0f of them (%.0f%%) shared with earlier prompts and not computed again\n",
                    tokens->valuedouble, saved->valuedouble, 100 * saved->valuedouble / tokens->valuedouble);
}

static int status(const char *dir, struct err *e)
{
    cJSON *stamp = stamp_read(dir, e);
    struct text out = {0};
    int failed = stamp ? 0 : -1;
    if (!failed) {
        text_printf(&out, "%s: %s\n", dir,
                    cJSON_IsTrue(json_get(stamp, "complete")) ? "complete" : "not complete; its command goes on");
        failed = run_summary(dir, &out, e);
        put_prefix_counts(json_get(stamp, "prefix_cache"), &out);
        failed = failed || cli_print(&out, e) ? -1 : 0;
    }
    text_free(&out);
    cJSON_Delete(stamp);
    return failed;
}

int cmd_status(int argc, char **argv)
{
    struct strings dirs = {0};
    const struct option options[] = {{0}};
    const struct usage usage = {"status", "RUN...",
                                "How far a run is, and the share of right answers, ANLS or word error rate so far.",
                                options,
                                "handoff run --model datasets/mini/checkpoint --suite mini --limit 20 --out "
                                "demo-out/quick\n  handoff status demo-out/quick"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &dirs, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = dirs.n ? 0 : err_set(&e, EXIT_USAGE, "status: a run directory is needed");
    for (int i = 0; i < dirs.n && !failed; i++)
        failed = status(dirs.at[i], &e);
    free(dirs.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
