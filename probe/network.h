/* network.h - the published probe as a network with gradients (inside probe/ only).
 *
 * Parameters lie in one vector, so that the optimiser need not know what they are. Rows come normed to mean 0 and
 * variance 1; the norm's own weight and bias are parameters.
 */
#ifndef HANDOFF_PROBE_NETWORK_H
#define HANDOFF_PROBE_NETWORK_H

#include "probe/probe.h"

/* Offsets of the parts in the parameter vector; a linear network has w and b only. */
struct network {
    int dim, width, head[2];
    enum probe_pooling pooling;
    bool linear;
    size_t gain, bias, proj, proj_bias, query, head0, head0_bias, head2, head2_bias, head4, head4_bias;
    size_t n;                   /* parameters */
};
void network_init(struct network *net, const struct fit_settings *s);
/* Uniform starting weights of +-1/sqrt(inputs); the norm starts as the identity. */
void network_start(const struct network *net, float *theta, uint64_t seed);
/* Does weight decay apply to parameter i? To matrices and the query, not to biases and the norm. */
bool network_decays(const struct network *net, size_t i);

/* Samples of one pass: rows of all, one behind the other, [sum of counts, dim]. */
struct network_batch { const float *rows; const int *counts; const bool *wrong; int n; };
/* Sum of the losses, sum of their gradients added to `gradient` (NULL: not wanted), logits to z (NULL: not wanted). */
double network_pass(const struct network *net, const float *theta, const struct network_batch *b, float *gradient,
                    double *z);

#endif
