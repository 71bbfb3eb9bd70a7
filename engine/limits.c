/* limits.c - what the machine can do at most, measured: the yardsticks of `bench`. */
#include "engine/internal.h"

#include <stdlib.h>

enum { CHUNKS = 64, CHUNK_BYTES = 8 << 20, FMA_ROUNDS = 4 << 20, FMA_PER_ROUND = 12 * 16, TASKS = 8, REPEATS = 5 };

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

struct chains { const struct kernels *k; float sums[TASKS]; };

static void run_chains(void *arg, int i)
{
    struct chains *c = arg;
    c->sums[i] = c->k->fma_rounds(FMA_ROUNDS);
}

void engine_measure_limits(const struct engine *m, struct machine_limits *out)
{
    const size_t bytes = (size_t)CHUNKS * CHUNK_BYTES;
    float *data = mem_alloc(bytes, 1);
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = (float)(i & 7);
    struct reading reading = {.k = m->compute.k, .data = data};
    struct chains chains = {.k = m->compute.k};
    *out = (struct machine_limits){0};
    for (int i = 0; i < REPEATS; i++) {
        double start = clock_ms();
        pool_run(m->compute.pool, CHUNKS, read_chunk, &reading);
        double rate = (double)bytes / (clock_ms() - start) * 1e3;
        out->read_bytes = rate > out->read_bytes ? rate : out->read_bytes;
        start = clock_ms();
        pool_run(m->compute.pool, TASKS, run_chains, &chains);
        rate = (double)TASKS * FMA_ROUNDS * FMA_PER_ROUND / (clock_ms() - start) * 1e3;
        out->multiply_adds = rate > out->multiply_adds ? rate : out->multiply_adds;
    }
    free(data);
}
