/* limits.c - what the machine can do at most, measured: the yardsticks of `bench`. */
#include "engine/internal.h"
#include "engine/peaks.h"

#include <stdlib.h>

enum { CHUNKS = 64, CHUNK_BYTES = 8 << 20, ROUNDS = 2 << 20, FMA_PER_ROUND = 12 * 16, TASKS = 8, REPEATS = 5 };

struct reading { const struct kernels *k; const float *data; float sums[CHUNKS]; };

/* A dot product of a chunk with itself reads every byte once from memory, and once more from the nearest cache. */
static void read_chunk(void *arg, int i)
{
    struct reading *r = arg;
    const size_t n = CHUNK_BYTES / sizeof(float), block = 4096;
    const float *p = r->data + (size_t)i * n;
    for (size_t at = 0; at < n; at += block)
        r->sums[i] += r->k->dot(p + at, p + at, (int)block);
}

static double measure_reading(const struct compute *c)
{
    const size_t bytes = (size_t)CHUNKS * CHUNK_BYTES;
    float *data = mem_alloc(bytes, 1);
    double best = 0;
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = (float)(i & 7);
    struct reading reading = {.k = c->k, .data = data};
    for (int i = 0; i < REPEATS; i++) {
        const double start = clock_ms();
        pool_run(c->pool, CHUNKS, read_chunk, &reading);
        const double rate = (double)bytes / (clock_ms() - start) * 1e3;
        best = rate > best ? rate : best;
    }
    free(data);
    return best;
}

struct chains { float (*run)(int64_t rounds); float sums[TASKS]; };

static void run_chains(void *arg, int i)
{
    struct chains *c = arg;
    c->sums[i] = c->run(ROUNDS);
}

static double measure_peak(const struct compute *c, struct peak peak)
{
    struct chains chains = {.run = peak.run};
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        const double start = clock_ms();
        pool_run(c->pool, TASKS, run_chains, &chains);
        const double rate = (double)TASKS * ROUNDS * peak.multiply_adds / (clock_ms() - start) * 1e3;
        best = rate > best ? rate : best;
    }
    return best;
}

void engine_measure_limits(const struct engine *m, struct machine_limits *out)
{
    const struct compute *c = &m->compute;
    struct peak peak;
    *out = (struct machine_limits){.read_bytes = measure_reading(c)};
    out->f32 = measure_peak(c, (struct peak){c->k->fma_rounds, FMA_PER_ROUND});
    out->bf16 = peak_bf16(&peak) ? measure_peak(c, peak) : 0;
    out->int8 = peak_int8(&peak) ? measure_peak(c, peak) : 0;
}

void engine_work(const struct engine *m, struct row_work *out)
{
    decoder_work(m->decoder, out);
}
