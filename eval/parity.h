/* parity.h - how far the numbers of several checkpoints lie apart on the same text (inside eval/ only).
 *
 * Every checkpoint reads the same token ids, so that a difference is the weights' and not another answer's. At each
 * position, with p the first checkpoint's distribution of the next token and q another's (double, softmax over the
 * whole vocabulary of the soft-capped logits):
 *
 *     kl = sum_i p_i ln(p_i / q_i)                     nats
 *     same top = argmax p == argmax q
 *     dp = q_t - p_t for the token t that the text has next (the last position of a plain text has none)
 *
 * as llama-perplexity has them, without its rounding of the first model's logits.
 */
#ifndef HANDOFF_PARITY_H
#define HANDOFF_PARITY_H

#include "engine/engine.h"
#include "probe/probe.h"

struct subject { struct engine *m; struct probe *probe; };     /* probe may be NULL */

struct level { double largest, squares, base_squares; };    /* |a - b|, sum (a - b)^2, sum a^2 */

/* One checkpoint against the first: sums over all that was read. */
struct parity {
    const char *model;
    int64_t n, n_next, n_same_top, cap;
    double *kl;                 /* [n]; ascending behind parity_sort */
    double logits;              /* largest difference */
    double log_ratio;           /* sum of ln(q_t / p_t) over the n_next positions: perplexity ratio e^(-mean) */
    double dp_squares;          /* sum of dp^2 over the same */
    double confidence;          /* largest difference over the texts */
    bool has_confidence;        /* both have a probe */
    struct level *level;        /* [n_layers + 1]: the input of layer 0, the output of each layer */
};

/* Text to read: token ids below the vocabulary's size. */
struct passage {
    const int32_t *ids;
    int n;
    int first;                  /* rows before this one are context: neither compared nor seen by the probe */
    int32_t after;              /* the token behind the last row, -1: none */
    bool stops;                 /* and that token ends the answer */
    const float *const *soft;   /* [n_subjects] soft tokens of the media within the context; NULL: there are none */
    struct seq *const *held;    /* [n_subjects] sequences that hold a beginning of the context already, taken over; an
                                   entry may be NULL; NULL: none. Not together with soft tokens */
};

/* What one checkpoint makes of a passage. */
struct reading {
    double confidence;          /* NAN without a probe */
    double entropy;             /* nats, mean over the rows without that of the stop token; NAN if there is no other */
};

/* Reads passages with all subjects at once, a few rows at a time. The sizes of all subjects agree. */
struct parity_pass;
struct parity_pass *parity_begin(const struct subject *subjects, int n_subjects);
void parity_end(struct parity_pass *s);
/* Adds to out[n_subjects - 1], where out[k] compares subjects[k + 1] with subjects[0]; readings[n_subjects] may be
 * NULL. */
int parity_read(struct parity_pass *s, const struct passage *p, struct parity *out, struct reading *readings,
                struct err *e);
void parity_init(const struct parity_pass *s, struct parity *out);          /* all n_subjects - 1 */
void parity_add(const struct parity_pass *s, struct parity *sum, const struct parity *part);      /* one; not sorted */
void parity_sort(struct parity *p);
double parity_mean_kl(const struct parity *p);
void parity_free(struct parity *p);

#endif
