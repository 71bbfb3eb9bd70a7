/* isotonic.c - the best increasing map from confidence to accuracy, by pooling adjacent violators. */
#include "eval/calib.h"
#include "engine/base.h"

#include <math.h>
#include <stdlib.h>

/* Counts are whole numbers, so means are compared exactly, as fractions. */
struct pool_block { double x_min, x_max, right, n; };

struct isotonic isotonic_fit(const struct ranking *r)
{
    struct isotonic f = {0, NULL, NAN};
    struct pool_block *stack = NEW(struct pool_block, r->n_blocks ? r->n_blocks : 1);
    size_t top = 0;
    double squares = 0, n = 0;
    for (size_t b = r->n_blocks; b-- > 0;) {    /* by rising confidence */
        struct pool_block here = {r->score[b], r->score[b], r->weight[b] - r->wrong[b], r->weight[b]};
        while (top && stack[top - 1].right * here.n >= here.right * stack[top - 1].n) {
            top--;
            here = (struct pool_block){stack[top].x_min, here.x_max, stack[top].right + here.right,
                                       stack[top].n + here.n};
        }
        stack[top++] = here;
    }
    f.n_blocks = top;
    f.blocks = NEW(struct isotonic_block, top ? top : 1);
    for (size_t i = 0; i < top; i++) {
        double value = stack[i].right / stack[i].n;
        f.blocks[i] = (struct isotonic_block){stack[i].x_min, stack[i].x_max, (size_t)stack[i].n, value};
        squares += stack[i].right * (1 - value) * (1 - value) + (stack[i].n - stack[i].right) * value * value;
        n += stack[i].n;
    }
    if (n > 0)
        f.brier = squares / n;
    free(stack);
    return f;
}

double isotonic_map(const struct isotonic *f, double confidence)
{
    if (f->n_blocks == 0 || isnan(confidence))
        return NAN;
    size_t lo = 0, hi = f->n_blocks - 1;        /* the first block that ends at or above it, else the last */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->blocks[mid].x_max >= confidence)
            hi = mid;
        else
            lo = mid + 1;
    }
    const struct isotonic_block *b = &f->blocks[lo];
    if (lo == 0 || confidence >= b->x_min)
        return b->value;
    double share = (confidence - b[-1].x_max) / (b->x_min - b[-1].x_max);
    return b[-1].value + share * (b->value - b[-1].value);
}

void isotonic_free(struct isotonic *f)
{
    free(f->blocks);
    *f = (struct isotonic){0};
}
