/* tune.c - the batch by measurement: a decode step reads all weights once, so more sequences cost little until the
 * arithmetic, not the memory, is what takes the time. */
#include "eval/tune.h"

#include <stdlib.h>

enum { MAX_BATCH = 64, STEPS = 4 };
static const double worth = 1.1;                /* gain in tokens per second that is worth twice as many sequences */

/* The shortest time of a step with n sequences, the first step of each left out. */
static int time_step(struct engine *m, int n, float *logits, double *ms, struct err *e)
{
    const struct model_info *info = engine_info(m);
    struct step_input in[MAX_BATCH];
    const int32_t id = info->bos_id >= 0 && info->bos_id < info->vocab_size ? info->bos_id : 0;
    int failed = 0;
    *ms = 0;
    for (int i = 0; i < n; i++)
        in[i] = (struct step_input){.seq = seq_new(m), .ids = &id, .n = 1, .n_needed = 1,
                                    .logits = logits + (size_t)i * (size_t)info->vocab_size};
    for (int step = 0; step < STEPS && !failed; step++) {
        const double start = clock_ms();
        failed = engine_step(m, in, n, e);
        const double took = clock_ms() - start;
        if (step > 0)
            *ms = *ms > 0 && *ms < took ? *ms : took;
    }
    for (int i = 0; i < n; i++)
        seq_free(in[i].seq);
    return failed;
}

int tune_batch(struct engine *m, int limit, int *batch, struct err *e)
{
    if (limit > MAX_BATCH)
        limit = MAX_BATCH;
    float *logits = NEW(float, (size_t)limit * (size_t)engine_info(m)->vocab_size);
    double ms, best = 0;
    int failed = 0;
    *batch = 1;
    for (int n = 1; n <= limit && !failed; n *= 2) {
        failed = time_step(m, n, logits, &ms, e);
        const double rate = n / (ms > 0 ? ms : 1e-6);
        if (failed || rate < worth * best)
            break;
        best = rate;
        *batch = n;
    }
    free(logits);
    return failed;
}
