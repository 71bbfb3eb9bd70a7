/* sampling.c - greedy choice and nucleus sampling. */
#include "eval/sampling.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

static int32_t largest(const double *logits, int n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* splitmix64; 53 bits in [0, 1) */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

struct candidate { double p; int32_t id; };

static int by_probability(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->p != y->p)
        return x->p < y->p ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

int32_t sample_token(const double *logits, int n, double temperature, double top_p, uint64_t *rng)
{
    int32_t best = largest(logits, n);
    if (!(temperature > 0))
        return best;
    struct candidate *c = NEW(struct candidate, n);
    double total = 0;
    for (int32_t i = 0; i < n; i++) {
        c[i] = (struct candidate){exp((logits[i] - logits[best]) / temperature), i};
        total += c[i].p;
    }
    qsort(c, (size_t)n, sizeof *c, by_probability);
    double kept = 0, limit = top_p > 0 && top_p < 1 ? top_p * total : total;
    int n_kept = 0;
    while (n_kept < n && kept < limit)
        kept += c[n_kept++].p;
    double draw = uniform(rng) * kept;
    int i = 0;
    while (i + 1 < n_kept && draw >= c[i].p)
        draw -= c[i++].p;
    int32_t id = c[i].id;
    free(c);
    return id;
}
