/* replay.h - the answers of a finished run, read once more by the checkpoint that gave them and by others
 * (inside eval/ only).
 *
 * The run's prompts are made again from its data sets, as run.json names them; each must have the recorded prompt_sha.
 * Behind the prompt every checkpoint reads the run's own tokens (output_ids of the records), so that what differs is
 * the checkpoint's and not another answer's. Row r of an answer is the position whose distribution gave token r, as
 * when the answer was made: a checkpoint that reads its own answer gives the recorded confidence, bit for bit.
 */
#ifndef HANDOFF_REPLAY_H
#define HANDOFF_REPLAY_H

#include "eval/cli.h"
#include "eval/parity.h"
#include "eval/records.h"
#include "eval/results.h"

struct replay_options {
    struct strings data;        /* TASK=PATH: data sets that are no longer where run.json says */
    const struct strings *tasks;            /* only these, NULL or empty: all */
    int64_t limit;              /* first answers of each task, 0: all */
};

struct replayed_answer {
    const struct record *row;   /* of the run */
    struct ids output;          /* its tokens */
    char prompt_sha[65];
    struct reading *readings;   /* [n_subjects] */
};

struct replayed_task {
    const char *task;           /* belongs to the run */
    int64_t n;
    struct replayed_answer *answers;        /* [n] */
    struct parity *parity;      /* [n_subjects - 1], sorted */
};

struct replayed {
    int n_subjects, n_tasks;
    struct replayed_task *tasks;
    struct parity *all;         /* [n_subjects - 1] over all tasks, sorted */
    double self_difference;     /* largest |replayed - recorded| confidence of subjects[0]; NAN: none to compare */
};

/* Is this a finished run that can be replayed? */
int replay_check(const struct records *run, struct err *e);
/* The options with which the run's checkpoint was opened: its arithmetic, the budget of a picture. */
int replay_engine_options(const struct records *run, struct engine_options *o, struct err *e);
/* That the checkpoint is the run's, by its fingerprint; reads all of it. */
int replay_check_model(const struct records *run, const struct engine *m, struct err *e);
/* subjects[0] is the run's own checkpoint. *out is to be freed in any case. */
int replay_run(struct replayed *out, const struct records *run, const struct replay_options *o,
               const struct subject *subjects, int n_subjects, struct err *e);
void replayed_free(struct replayed *r);

enum { REPLAY_RESAMPLES = 1000, REPLAY_SEED = 1 };
/* Mean of values that belong to rows of a run, with its bootstrap interval over the rows' groups. */
struct estimate estimate_mean(const double *v, const struct record *const *row, size_t n, int64_t resamples,
                              int64_t seed);

/* Mean confidence and entropy by task with their drift against the first subject; strings and arrays from the arena
 * and the run. */
void replay_result_make(struct replay_result *out, const struct replayed *r, const struct records *run,
                        const struct subject *subjects, struct arena *a);

#endif
