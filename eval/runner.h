/* runner.h - the batch run: samples in, records out (inside eval/ only). */
#ifndef HANDOFF_RUNNER_H
#define HANDOFF_RUNNER_H

#include <signal.h>

#include "datasets/datasets.h"
#include "engine/engine.h"
#include "eval/hidden.h"
#include "eval/prefix.h"
#include "eval/store.h"
#include "probe/probe.h"

struct run_settings {
    int64_t limit;              /* first samples of each task, 0: all */
    const char *ids_file;       /* one "id" or "task<TAB>id" per line, NULL: all */
    int shard, n_shards;        /* 1-based: this process takes every n_shards-th sample */
    int batch;                  /* samples in flight; 0: what a measurement finds best */
    double max_audio_s;         /* use at most so much of each sound, 0: all of it */
    struct prefix_store *prefixes;          /* NULL: every prompt is computed from its first token */
    bool trace;
    struct hidden_layers hidden_layers;     /* whose outputs go to `hidden` */
    struct hidden_writer *hidden;           /* NULL: none do */
};

/* Runs all samples of the data sets that the store does not hold yet. Stops early, with *interrupted set, when *stop
 * becomes non-zero. *batch: samples in flight, as given or found; 0 if there was nothing to do. */
int run_tasks(struct engine *m, const struct probe *p, struct dataset *const *datasets, int n_tasks,
              const struct run_settings *settings, struct store *store, const volatile sig_atomic_t *stop,
              bool *interrupted, int *batch, struct err *e);

#endif
