/* parity.h - how far the numbers of several checkpoints lie apart on the same text (inside eval/ only).
 *
 * Every checkpoint reads the same token ids, so that a difference is the weights' and not another answer's. At each
 * position, with p the first checkpoint's distribution of the next token and q another's (double, softmax over the
 * whole vocabulary of the soft-capped logits):
 *
 *     kl = sum_i p_i ln(p_i / q_i)                     nats
 *     same top = argmax p == argmax q
 *     dp = q_t - p_t for the token t that the text has next (the last position of a text has none)
 *
 * as llama-perplexity has them, without its rounding of the first model's logits.
 */
#ifndef HANDOFF_PARITY_H
#define HANDOFF_PARITY_H

#include "engine/engine.h"
#include "probe/probe.h"

struct level { double largest, squares, base_squares; };    /* |a - b|, sum (a - b)^2, sum a^2 */

/* One checkpoint against the first. */
struct parity {
    const char *model;
    int64_t n, n_next, n_same_top;
    double *kl;                 /* [n]; ascending once parity_run is done */
    double logits;              /* largest difference */
    double log_ratio;           /* sum of ln(q_t / p_t) over the n_next positions: perplexity ratio e^(-mean) */
    double dp_squares;          /* sum of dp^2 over the same */
    double confidence;          /* largest difference over the texts */
    bool has_confidence;        /* both have a probe */
    struct level *level;        /* [n_layers + 1]: the input of layer 0, the output of each layer */
};

struct subject { struct engine *m; struct probe *probe; };
/* texts[i] are token ids below the vocabulary's size; out[k] compares subjects[k + 1] with subjects[0]. The sizes of all
 * subjects agree. */
int parity_run(const struct subject *subjects, int n_subjects, const struct ids *texts, int n_texts,
               struct parity *out, struct err *e);
void parity_free(struct parity *p);

#endif
