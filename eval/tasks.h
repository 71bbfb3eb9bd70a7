/* tasks.h - which hold-outs, and which of their samples, a run is about (inside eval/ only). */
#ifndef HANDOFF_TASKS_H
#define HANDOFF_TASKS_H

#include "datasets/datasets.h"
#include "eval/cli.h"

/* From the command line; {.shots = -1} is the default. */
struct task_args {
    const char *suite, *only, *data_root, *ids, *shard;
    struct strings data;
    int64_t limit, shots, max_tokens;
};
#define TASK_OPTIONS(a) \
    {"--suite", OPT_STRING, &(a).suite, "S", "mini, paper, or a suite file"}, \
    {"--only", OPT_STRING, &(a).only, "T,T,...", "only these tasks of the suite"}, \
    {"--data-root", OPT_STRING, &(a).data_root, "DIR", "where the suite's paths begin"}, \
    {"--data", OPT_STRINGS, &(a).data, "TASK=PATH", "one more hold-out (may be repeated)"}, \
    {"--limit", OPT_INT, &(a).limit, "N", "first N samples of each task (0: all)"}, \
    {"--ids", OPT_STRING, &(a).ids, "FILE", "only these samples: one id per line, or TASK<TAB>id"}, \
    {"--shard", OPT_STRING, &(a).shard, "I/N", "this process takes every N-th sample; see \"handoff merge\""}, \
    {"--shots", OPT_INT, &(a).shots, "N", "few-shot examples (default: as the task has it)"}, \
    {"--max-tokens", OPT_INT, &(a).max_tokens, "N", "limit of generated tokens (0: as the task has it)"}
int task_args_check(const struct task_args *a, struct err *e);

struct tasks {
    struct suite suite;
    struct dataset **datasets;  /* [suite.n_tasks] */
    int shard, n_shards;        /* 1-based */
};
int tasks_open(struct tasks *t, const struct task_args *a, struct err *e);
void tasks_close(struct tasks *t);
/* Prints what was found and what was refused; a data set of which nothing was usable is an error. */
int tasks_print_notes(const struct tasks *t, struct err *e);

/* The samples one after another: those that --limit, --ids and --shard leave. */
struct selection {
    struct dataset *const *datasets;
    int n_tasks, task;          /* the task being read */
    int64_t index;              /* running number within it */
    int64_t limit;
    int shard, n_shards;
    struct id_filter { struct text content; const char **line; size_t n; } ids;
};
/* ids_file: NULL for all. */
int selection_open(struct selection *s, struct dataset *const *datasets, int n_tasks, int64_t limit,
                   const char *ids_file, int shard, int n_shards, struct err *e);
void selection_close(struct selection *s);
/* 1 and the next sample with its data set, 0 at the end, -1 on failure. */
int selection_next(struct selection *s, struct dataset **d, struct sample *sample, struct err *e);
int64_t selection_count(const struct selection *s);                      /* -1: unknown */

#endif
