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
    float *tap;                         /* [positions of the text, hidden_size], with a probe */
};

struct pass {
    const struct subject *subjects;
    int n_subjects, n_levels, hidden, vocab;
    struct side *side;
    struct parity *out;
};

/* The larger of two; what is not a number counts as infinite, so that it lies beyond any bound. */
static double worst(double a, double b)
{
    return isnan(b) ? INFINITY : b > a ? b : a;
}

/* ---- one position ---------------------------------------------------------------------------------------------- */

struct distribution { double top, log_sum; int best; };

static struct distribution distribution_of(const float *logits, int n)
{
    struct distribution d = {.top = logits[0]};
    for (int i = 1; i < n; i++)
        if (logits[i] > d.top) {
            d.top = logits[i];
            d.best = i;
        }
    for (int i = 0; i < n; i++)
        d.log_sum += exp(logits[i] - d.top);
    d.log_sum = d.top + log(d.log_sum);
    return d;
}

/* next: the token that follows, -1: none. */
static void compare_logits(struct parity *p, const float *a, const float *b, int n, int32_t next)
{
    const struct distribution x = distribution_of(a, n), y = distribution_of(b, n);
    double kl = 0, largest = p->logits;
    for (int i = 0; i < n; i++) {
        const double log_p = a[i] - x.log_sum, log_q = b[i] - y.log_sum;
        kl += exp(log_p) * (log_p - log_q);
        largest = worst(largest, fabs((double)a[i] - (double)b[i]));
    }
    p->logits = largest;
    p->kl[p->n++] = worst(0, kl);       /* below 0 only by rounding */
    p->n_same_top += x.best == y.best;
    if (next >= 0) {
        const double log_p = a[next] - x.log_sum, log_q = b[next] - y.log_sum, dp = exp(log_q) - exp(log_p);
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

static void compare_rows(struct pass *s, int n, const int32_t *next, bool last)
{
    const size_t hidden = (size_t)s->hidden, levels = (size_t)s->n_levels, vocab = (size_t)s->vocab;
    for (int k = 1; k < s->n_subjects; k++)
        for (int row = 0; row < n; row++) {
            const struct side *a = &s->side[0], *b = &s->side[k];
            const size_t at = (size_t)row * levels * hidden;
            for (size_t l = 0; l < levels; l++)
                compare_hidden(&s->out[k - 1].level[l], a->hidden + at + l * hidden, b->hidden + at + l * hidden,
                               s->hidden);
            compare_logits(&s->out[k - 1], a->logits + (size_t)row * vocab, b->logits + (size_t)row * vocab, s->vocab,
                           last && row == n - 1 ? -1 : next[row]);
        }
}

/* ---- one text -------------------------------------------------------------------------------------------------- */

static int step(struct pass *s, int k, const int32_t *ids, int first, int n, struct err *e)
{
    const struct subject *subject = &s->subjects[k];
    struct side *side = &s->side[k];
    const size_t hidden = (size_t)s->hidden;
    const struct step_input in = {.seq = side->seq, .ids = ids + first, .n = n, .n_needed = n, .hidden = side->hidden,
                                  .logits = side->logits};
    if (engine_step(subject->m, &in, 1, e))
        return -1;
    for (int row = 0; row < n && subject->probe; row++) {
        const size_t level = (size_t)row * (size_t)s->n_levels + (size_t)probe_layer(subject->probe) + 1;
        memcpy(side->tap + (size_t)(first + row) * hidden, side->hidden + level * hidden, hidden * sizeof(float));
    }
    return 0;
}

/* The probe over all positions of the text. */
static int compare_confidence(struct pass *s, int n, struct err *e)
{
    struct probe_result base, other;
    if (!s->subjects[0].probe)
        return 0;
    if (probe_score(s->subjects[0].probe, s->side[0].tap, n, &base, e))
        return -1;
    for (int k = 1; k < s->n_subjects; k++) {
        if (!s->subjects[k].probe)
            continue;
        if (probe_score(s->subjects[k].probe, s->side[k].tap, n, &other, e))
            return -1;
        s->out[k - 1].has_confidence = true;
        s->out[k - 1].confidence = worst(s->out[k - 1].confidence, fabs(base.confidence - other.confidence));
    }
    return 0;
}

static int run_text(struct pass *s, const struct ids *text, struct err *e)
{
    int failed = 0;
    for (int k = 0; k < s->n_subjects; k++) {
        s->side[k].seq = seq_new(s->subjects[k].m);
        if (s->subjects[k].probe)
            s->side[k].tap = NEW(float, (size_t)text->n * (size_t)s->hidden);
    }
    for (int first = 0; first < text->n && !failed; first += ROWS) {
        const int n = text->n - first < ROWS ? text->n - first : ROWS;
        for (int k = 0; k < s->n_subjects && !failed; k++)
            failed = step(s, k, text->id, first, n, e);
        if (!failed)
            compare_rows(s, n, text->id + first + 1, first + n == text->n);
    }
    if (!failed)
        failed = compare_confidence(s, text->n, e);
    for (int k = 0; k < s->n_subjects; k++) {
        seq_free(s->side[k].seq);
        free(s->side[k].tap);
        s->side[k].seq = NULL;
        s->side[k].tap = NULL;
    }
    return failed;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int parity_run(const struct subject *subjects, int n_subjects, const struct ids *texts, int n_texts,
               struct parity *out, struct err *e)
{
    const struct model_info *info = engine_info(subjects[0].m);
    struct pass s = {.subjects = subjects, .n_subjects = n_subjects, .n_levels = info->n_layers + 1,
                     .hidden = info->hidden_size, .vocab = info->vocab_size, .out = out};
    int64_t positions = 0;
    int failed = 0;
    for (int i = 0; i < n_texts; i++)
        positions += texts[i].n;
    s.side = NEW(struct side, n_subjects);
    for (int k = 0; k < n_subjects; k++) {
        s.side[k].hidden = NEW(float, (size_t)ROWS * (size_t)s.n_levels * (size_t)s.hidden);
        s.side[k].logits = NEW(float, (size_t)ROWS * (size_t)s.vocab);
    }
    for (int k = 0; k + 1 < n_subjects; k++)
        out[k] = (struct parity){.model = engine_info(subjects[k + 1].m)->path, .kl = NEW(double, positions + 1),
                                 .level = NEW(struct level, s.n_levels)};
    for (int i = 0; i < n_texts && !failed; i++)
        failed = run_text(&s, &texts[i], e);
    for (int k = 0; k + 1 < n_subjects; k++)
        qsort(out[k].kl, (size_t)out[k].n, sizeof *out[k].kl, ascending);
    for (int k = 0; k < n_subjects; k++) {
        free(s.side[k].hidden);
        free(s.side[k].logits);
    }
    free(s.side);
    return failed;
}

void parity_free(struct parity *p)
{
    free(p->kl);
    free(p->level);
    *p = (struct parity){0};
}
