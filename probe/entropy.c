/* entropy.c - what the distribution over the next token says: entropy, log-probability, margin. */
#include "probe/probe.h"

#include <math.h>

/* Largest two logits; fails on what is no distribution. */
static int best_two(const double *logits, int n, double *first, double *second, struct err *e)
{
    *first = *second = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return err_input(e, "logit %d is %s", i, isnan(logits[i]) ? "not a number" : "infinite");
        if (logits[i] > *first) {
            *second = *first;
            *first = logits[i];
        } else if (logits[i] > *second) {
            *second = logits[i];
        }
    }
    return *first == -INFINITY ? err_input(e, "no finite logit among %d", n) : 0;
}

int token_stats(const double *logits, int n, int32_t chosen, struct token_stats *s, struct err *e)
{
    double first, second, z = 0, weighted = 0;
    if (best_two(logits, n, &first, &second, e))
        return -1;
    if (chosen < 0 || chosen >= n)
        return err_input(e, "token %d is not among %d", (int)chosen, n);
    for (int i = 0; i < n; i++) {
        double below = logits[i] - first;
        if (below == -INFINITY)
            continue;
        double p = exp(below);
        z += p;
        weighted += p * below;
    }
    /* One token with all the mass: rounding must not make the entropy negative. */
    double entropy = log(z) - weighted / z;
    s->entropy = entropy > 0 ? entropy : 0;
    s->logprob = logits[chosen] - first - log(z);
    s->margin = first - second;
    return 0;
}

struct entropy_summary entropy_summarise(const double *entropy, int n)
{
    if (n == 0)
        return (struct entropy_summary){NAN, NAN, NAN, NAN};
    struct entropy_summary r = {.first = entropy[0], .max = entropy[0]};
    for (int i = 0; i < n; i++) {
        r.sum += entropy[i];
        r.max = fmax(r.max, entropy[i]);
    }
    r.mean = r.sum / n;
    return r;
}
