/* parity.c - runs checkpoints side by side, a few positions at a time, and keeps sums only. */
#include "eval/parity.h"

#include "eval/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16 };                     /* positions at a time */

struct side {
    struct seq *seq;
    float *hidden;                      /* [ROWS, n_layers + 1, hidden_size] */
    float *logits;                      /* [ROWS, vocab_size] */
    float *tap;                         /* [compared rows of the passage, hidden_size], with a probe */
    double entropy;                     /* sum over these rows */
};

struct parity_pass {
    const struct subject *subjects;
    int n_subjects, n_levels, hidden, vocab;
    struct side *side;
};

/* The larger of two; what is not a number counts as infinite, so that it lies beyond any bound. */
static double worst(double a, double b)
{
    return isnan(b) ? INFINITY : b > a ? b : a;
}

/* ---- one position ---------------------------------------------------------------------------------------------- */

struct distribution { double top, log_sum, entropy; int best; };

static struct distribution distribution_of(const float *logits, int n)
{
    struct distribution d = {.top = logits[0]};
    double sum = 0, weighted = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > d.top) {
            d.top = logits[i];
            d.best = i;
        }
    for (int i = 0; i < n; i++) {
        const double x = logits[i] - d.top, p = exp(x);
        sum += p;
        weighted += p * x;
    }
    d.log_sum = d.top + log(sum);
    d.entropy = log(sum) - weighted / sum;
    return d;
}

static void add_kl(struct parity *p, double kl)
{
    if (p->n == p->cap) {
        p->cap = p->cap * 2 + 256;
        p->kl = mem_grow(p->kl, (size_t)p->cap, sizeof *p->kl);
    }
    p->kl[p->n++] = kl;
}

/* x, y: the distributions of a and b; next: the token that follows, -1: none. */
static void compare_logits(struct parity *p, const float *a, const float *b, const struct distribution *x,
                           const struct distribution *y, int n, int32_t next)
{
    double kl = 0, largest = p->logits;
    for (int i = 0; i < n; i++) {
        const double log_p = a[i] - x->log_sum, log_q = b[i] - y->log_sum;
        kl += exp(log_p) * (log_p - log_q);
        largest = worst(largest, fabs((double)a[i] - (double)b[i]));
    }
    p->logits = largest;
    add_kl(p, worst(0, kl));            /* below 0 only by rounding */
    p->n_same_top += x->best == y->best;
    if (next >= 0) {
        const double log_p = a[next] - x->log_sum, log_q = b[next] - y->log_sum, dp = exp(log_q) - exp(log_p);
        p->n_next++;
        p->dp_squares += dp * dp;
        p->log_ratio += log_q - log_p;
    }
}

static void compare_hidden(struct level *l, const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        l->largest = worst(l->largest, fabs(d));
        l->squares += d * d;
        l->base_squares += (double)a[i] * (double)a[i];
    }
}

/* Row `row` of the buffers, which the token `next` follows (-1: none). */
static void compare_row(struct parity_pass *s, struct parity *out, int row, int32_t next, bool stop)
{
    const size_t hidden = (size_t)s->hidden, levels = (size_t)s->n_levels, at = (size_t)row * levels * hidden;
    const float *base = s->side[0].logits + (size_t)row * (size_t)s->vocab;
    const struct distribution x = distribution_of(base, s->vocab);
    s->side[0].entropy += stop ? 0 : x.entropy;
    for (int k = 1; k < s->n_subjects; k++) {
        const float *other = s->side[k].logits + (size_t)row * (size_t)s->vocab;
        const struct distribution y = distribution_of(other, s->vocab);
        s->side[k].entropy += stop ? 0 : y.entropy;
        for (size_t l = 0; l < levels; l++)
            compare_hidden(&out[k - 1].level[l], s->side[0].hidden + at + l * hidden,
                           s->side[k].hidden + at + l * hidden, s->hidden);
        compare_logits(&out[k - 1], base, other, &x, &y, s->vocab, next);
    }
}

/* ---- one passage ----------------------------------------------------------------------------------------------- */

/* Positions [from, from + n), the last n_needed of which are compared. */
static int step(struct parity_pass *s, int k, const struct passage *p, int from, int n, int n_needed, struct err *e)
{
    const struct subject *subject = &s->subjects[k];
    struct side *side = &s->side[k];
    const size_t hidden = (size_t)s->hidden;
    const int skip = from == 0 ? seq_length(side->seq) : 0;
    const struct step_input in = {.seq = side->seq, .ids = p->ids + from + skip, .n = n - skip, .n_needed = n_needed,
                                  .soft = p->soft && from == 0 ? p->soft[k] : NULL, .hidden = side->hidden,
                                  .logits = side->logits};
    if (engine_step(subject->m, &in, 1, e))
        return -1;
    for (int row = 0; row < n_needed && subject->probe; row++) {
        const size_t level = (size_t)row * (size_t)s->n_levels + (size_t)probe_layer(subject->probe) + 1;
        const size_t to = (size_t)(from + n - n_needed - p->first + row);
        memcpy(side->tap + to * hidden, side->hidden + level * hidden, hidden * sizeof(float));
    }
    return 0;
}

/* How many positions the next step takes. Soft tokens belong to the context alone: an answer may hold the id of a
 * picture as well. */
static int step_size(const struct passage *p, int from)
{
    const int context = from < p->first ? p->first - from : 0, left = p->n - from;
    const int n = context + (p->soft && from == 0 ? 1 : ROWS);
    return n < left ? n : left;
}

static int score(struct parity_pass *s, const struct passage *p, struct parity *out, struct reading *reading,
                 struct err *e)
{
    const int n = p->n - p->first, n_entropy = n - (p->stops ? 1 : 0);
    for (int k = 0; k < s->n_subjects; k++) {
        struct probe_result r = {.confidence = NAN};
        if (s->subjects[k].probe && probe_score(s->subjects[k].probe, s->side[k].tap, n, &r, e))
            return -1;
        reading[k].confidence = r.confidence;
        reading[k].entropy = n_entropy ? s->side[k].entropy / n_entropy : NAN;
    }
    for (int k = 1; k < s->n_subjects; k++)
        if (s->subjects[0].probe && s->subjects[k].probe) {
            out[k - 1].has_confidence = true;
            out[k - 1].confidence = worst(out[k - 1].confidence, fabs(reading[0].confidence - reading[k].confidence));
        }
    return 0;
}

static int read_rows(struct parity_pass *s, const struct passage *p, struct parity *out, struct err *e)
{
    for (int from = 0, n; from < p->n; from += n) {
        n = step_size(p, from);
        const int context = from < p->first ? p->first - from : 0, first = from + context;
        for (int k = 0; k < s->n_subjects; k++)
            if (step(s, k, p, from, n, n - context, e))
                return -1;
        for (int i = first; i < from + n; i++) {
            const bool last = i + 1 == p->n;
            compare_row(s, out, i - first, last ? p->after : p->ids[i + 1], last && p->stops);
        }
    }
    return 0;
}

int parity_read(struct parity_pass *s, const struct passage *p, struct parity *out, struct reading *readings,
                struct err *e)
{
    struct reading *own = readings ? NULL : NEW(struct reading, s->n_subjects);
    for (int k = 0; k < s->n_subjects; k++) {
        s->side[k].seq = p->held && p->held[k] ? p->held[k] : seq_new(s->subjects[k].m);
        s->side[k].entropy = 0;
        if (s->subjects[k].probe)
            s->side[k].tap = NEW(float, (size_t)(p->n - p->first) * (size_t)s->hidden);
    }
    const int failed = read_rows(s, p, out, e) || score(s, p, out, readings ? readings : own, e) ? -1 : 0;
    for (int k = 0; k < s->n_subjects; k++) {
        seq_free(s->side[k].seq);
        free(s->side[k].tap);
        s->side[k].seq = NULL;
        s->side[k].tap = NULL;
    }
    free(own);
    return failed;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

struct parity_pass *parity_begin(const struct subject *subjects, int n_subjects)
{
    const struct model_info *info = engine_info(subjects[0].m);
    struct parity_pass *s = NEW(struct parity_pass, 1);
    *s = (struct parity_pass){.subjects = subjects, .n_subjects = n_subjects, .n_levels = info->n_layers + 1,
                              .hidden = info->hidden_size, .vocab = info->vocab_size,
                              .side = NEW(struct side, n_subjects)};
    for (int k = 0; k < n_subjects; k++) {
        s->side[k].hidden = NEW(float, (size_t)ROWS * (size_t)s->n_levels * (size_t)s->hidden);
        s->side[k].logits = NEW(float, (size_t)ROWS * (size_t)s->vocab);
    }
    return s;
}

void parity_end(struct parity_pass *s)
{
    for (int k = 0; k < s->n_subjects; k++) {
        free(s->side[k].hidden);
        free(s->side[k].logits);
    }
    free(s->side);
    free(s);
}

void parity_init(const struct parity_pass *s, struct parity *out)
{
    for (int k = 0; k + 1 < s->n_subjects; k++)
        out[k] = (struct parity){.model = engine_info(s->subjects[k + 1].m)->path,
                                 .level = NEW(struct level, s->n_levels)};
}

void parity_add(const struct parity_pass *s, struct parity *sum, const struct parity *part)
{
    for (int64_t i = 0; i < part->n; i++)
        add_kl(sum, part->kl[i]);
    sum->n_next += part->n_next;
    sum->n_same_top += part->n_same_top;
    sum->logits = worst(sum->logits, part->logits);
    sum->log_ratio += part->log_ratio;
    sum->dp_squares += part->dp_squares;
    sum->confidence = worst(sum->confidence, part->confidence);
    sum->has_confidence |= part->has_confidence;
    for (int l = 0; l < s->n_levels; l++) {
        sum->level[l].largest = worst(sum->level[l].largest, part->level[l].largest);
        sum->level[l].squares += part->level[l].squares;
        sum->level[l].base_squares += part->level[l].base_squares;
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void parity_sort(struct parity *p)
{
    if (p->n)
        qsort(p->kl, (size_t)p->n, sizeof *p->kl, ascending);
}

double parity_mean_kl(const struct parity *p)
{
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++)
        sum += p->kl[i];
    return sum / (double)p->n;
}

void parity_free(struct parity *p)
{
    free(p->kl);
    free(p->level);
    *p = (struct parity){0};
}
