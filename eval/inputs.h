/* inputs.h - what the verbs on records share: their common options, and columns of a task (inside eval/ only).
 *
 *     static struct inputs in = INPUTS_DEFAULT;
 *     static const struct option options[] = {FORMAT_OPTIONS(in), INPUT_OPTIONS(in), {0}};
 *     ...
 *     if (inputs_check(&in, &e) || inputs_open(&in, "runs/q4", &run, &e)) return cli_fail(&e);
 */
#ifndef HANDOFF_INPUTS_H
#define HANDOFF_INPUTS_H

#include "eval/cli.h"
#include "eval/records.h"
#include "eval/results.h"
#include "reports/report.h"

struct inputs {
    bool json, csv, md;
    double tau, cut;
    const char *entropy, *missing;
    struct strings tasks;
    bool common, force;                 /* see columns_pair, stamps_check */
    bool replays;                       /* the verb compares token ids and prompts itself, and tells arithmetic apart */
    bool keep_group_keys;               /* the verb asks for records.group_key */
    bool no_entropy;                    /* columns without entropy are enough */
    bool allow_first;                   /* the verb knows --missing first: such samples are handed off first */
};
#define INPUTS_DEFAULT {.cut = 0.5, .entropy = "mean", .missing = "error"}
#define FORMAT_OPTIONS(in) \
    {"--json", OPT_FLAG, &(in).json, NULL, "print JSON"}, \
    {"--csv", OPT_FLAG, &(in).csv, NULL, "print CSV, all digits"}, \
    {"--md", OPT_FLAG, &(in).md, NULL, "print Markdown"}
#define INPUT_OPTIONS(in) \
    {"--task", OPT_STRINGS, &(in).tasks, "NAME", "only this hold-out; may be repeated"}, \
    {"--tau", OPT_DOUBLE, &(in).tau, "X", "a transcription is wrong if its WER > X (default 0)"}, \
    {"--cut", OPT_DOUBLE, &(in).cut, "X", "records without \"correct\": wrong if score < X (default 0.5)"}, \
    {"--entropy", OPT_STRING, &(in).entropy, "KIND", "mean (default), max, first or sum over the answer's tokens"}, \
    {"--missing", OPT_STRING, &(in).missing, "POLICY", \
     "records without a confidence: error (default) or drop; curve: first"}
#define INPUT_PAIR_OPTIONS(in) \
    {"--common", OPT_FLAG, &(in).common, NULL, "runs with different samples: take those they share"}, \
    {"--force", OPT_FLAG, &(in).force, NULL, "compare runs although their stamps say they are not comparable"}

int inputs_check(const struct inputs *in, struct err *e);
enum report_format inputs_format(const struct inputs *in);
/* Opens a run; its notes go to stderr. A task named by --task that the run lacks is an error. */
int inputs_open(const struct inputs *in, const char *source, struct records *r, struct err *e);
bool inputs_want(const struct inputs *in, const char *task);
struct definitions inputs_definitions(const struct inputs *in);

/* Columns of one task. Rows without the wanted score are left out (--missing drop) or refused with file and line. */
struct columns {
    size_t n, n_dropped;        /* dropped: no confidence */
    size_t n_no_entropy;        /* rows whose entropy is NaN */
    bool has_confidence, has_entropy;   /* some row has one */
    bool wer, graded;
    double *confidence, *entropy;       /* [n]; NaN where a row has none; entropy may be NULL, see no_entropy */
    uint8_t *wrong;             /* [n] */
    const struct record **row;  /* [n]; NULL in detached columns */
    uint32_t *group;            /* [n] in [0, n_groups): rows that stand or fall together */
    size_t n_groups;
    /* Detached columns only: what else they need of the rows. */
    double *score;              /* [n] 0..1, see record_score; NULL unless the task is graded or a transcription */
    uint16_t *flags;            /* [n], see record_flags */
    struct word_errors { int32_t edits, words; } *words;        /* [n] of a transcription, else NULL */
};
/* Numbers of the rows' groups without gaps, by first appearance; a row without a group is one of its own. The caller
 * frees them. */
uint32_t *groups_of(const struct record *const *row, size_t n, size_t *n_groups);
int columns_make(struct columns *c, const struct inputs *in, const struct records *r, int task, struct err *e);
/* Columns that do not point into the records, which may then be given back, and hold no more than they must: group is
 * NULL if no row has one (n_groups is then n). */
int columns_make_detached(struct columns *c, const struct inputs *in, const struct records *r, int task,
                          struct err *e);
void columns_free(struct columns *c);

/* The same samples in another run. Fills other[c->n] with its rows; with --common, rows that it lacks are taken out of
 * the columns, else they are an error that names the first one. Samples that only the other run has count as lacking
 * too. */
int columns_pair(struct columns *c, const struct inputs *in, const struct records *r, const struct records *with,
                 int task, const struct record **other, struct err *e);
/* Are two runs made the same way, so that their figures may be compared? Looks at what both stamps say about template,
 * tokenizer, decoding, arithmetic and tasks; the weights may differ. Bare records say nothing and pass. */
int stamps_check(const struct inputs *in, const struct records *a, const struct records *b, struct err *e);

#endif
