/* network.c - forward and backward pass. With n the normed row, g and b the norm's weight and bias:
 *
 *     p = relu(W (g n + b) + c) = relu((W diag g) n + (c + W b))
 *
 * so the large product needs no scaled copy of the rows, and its gradient gives those of W, g, b and c:
 * dW = G diag g + d b', dg = column sums of G * W, db = W' d, dc = d, where G = sum dp n' and d = sum dp.
 */
#include "probe/network.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void network_init(struct network *net, const struct fit_settings *s)
{
    *net = (struct network){.dim = s->dim, .width = s->width, .head = {s->head[0], s->head[1]}, .pooling = s->pooling,
                            .linear = s->linear};
    const size_t dim = (size_t)s->dim, width = (size_t)s->width, h0 = (size_t)s->head[0], h2 = (size_t)s->head[1];
    const struct { size_t *at, n; } full[] = {
        {&net->gain, dim}, {&net->bias, dim}, {&net->proj, width * dim}, {&net->proj_bias, width}, {&net->query, width},
        {&net->head0, h0 * width}, {&net->head0_bias, h0}, {&net->head2, h2 * h0}, {&net->head2_bias, h2},
        {&net->head4, h2}, {&net->head4_bias, 1}};
    if (s->linear) {
        net->head4_bias = dim;
        net->n = dim + 1;
        return;
    }
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) {
        *full[i].at = net->n;
        net->n += full[i].n;
    }
}

bool network_decays(const struct network *net, size_t i)
{
    if (net->linear)
        return i < net->head4_bias;
    return (i >= net->proj && i < net->proj_bias) || (i >= net->query && i < net->head0_bias) ||
           (i >= net->head2 && i < net->head2_bias) || (i >= net->head4 && i < net->head4_bias);
}

/* splitmix64 */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void spread(float *theta, size_t from, size_t to, int inputs, uint64_t *state)
{
    for (size_t i = from; i < to; i++)
        theta[i] = (float)((2 * uniform(state) - 1) / sqrt(inputs));
}

void network_start(const struct network *net, float *theta, uint64_t seed)
{
    if (net->linear) {
        memset(theta, 0, net->n * sizeof *theta);
        return;
    }
    for (size_t i = 0; i < (size_t)net->dim; i++) {
        theta[net->gain + i] = 1;
        theta[net->bias + i] = 0;
    }
    spread(theta, net->proj, net->query, net->dim, &seed);
    spread(theta, net->query, net->head2, net->width, &seed);
    spread(theta, net->head2, net->head4, net->head[0], &seed);
    spread(theta, net->head4, net->n, net->head[1], &seed);
}

/* ---- one fully connected layer --------------------------------------------------------------------------------- */

static void forward(const float *w, const float *bias, const float *x, int in, int out, bool relu, float *y)
{
    for (int o = 0; o < out; o++) {
        const float sum = bias[o] + cblas_sdot(in, w + (size_t)o * (size_t)in, 1, x, 1);
        y[o] = relu && sum < 0 ? 0 : sum;
    }
}

/* dy: gradient of the layer's output, already zero where relu cut. dx may be NULL. */
static void backward(const float *w, const float *x, const float *dy, int in, int out, float *dw, float *dbias,
                     float *dx)
{
    if (dx)
        memset(dx, 0, (size_t)in * sizeof *dx);
    for (int o = 0; o < out; o++) {
        if (dy[o] == 0)
            continue;
        cblas_saxpy(in, dy[o], x, 1, dw + (size_t)o * (size_t)in, 1);
        dbias[o] += dy[o];
        if (dx)
            cblas_saxpy(in, dy[o], w + (size_t)o * (size_t)in, 1, dx, 1);
    }
}

static void cut(float *dy, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

/* ln(1 + e^z) - z if wrong: the negative log-likelihood of p_wrong = sigmoid(z). */
static double loss_of(double z, bool wrong)
{
    return (z > 0 ? z + log1p(exp(-z)) : log1p(exp(z))) - (wrong ? z : 0);
}

static float slope_of(double z, bool wrong)
{
    return (float)(1 / (1 + exp(-z)) - wrong);
}

/* ---- one sample behind the projection -------------------------------------------------------------------------- */

/* Working space of a sample: a [rows, width] holds relu(p) and, on the way back, its gradient is da. */
struct sample {
    const float *a;
    float *da;
    float *weight;              /* [rows], how much each counts in u */
    int rows;
    float *u, *du, *h0, *dh0, *h2, *dh2;
};

static void pool(const struct network *net, const float *theta, struct sample *s)
{
    const int width = net->width;
    const float *query = theta + net->query;
    float best = -INFINITY, total = 0;
    for (int t = 0; t < s->rows; t++) {
        s->weight[t] = net->pooling == POOL_MEAN ? 0 :
                       cblas_sdot(width, s->a + (size_t)t * (size_t)width, 1, query, 1) / sqrtf((float)width);
        best = s->weight[t] > best ? s->weight[t] : best;
    }
    for (int t = 0; t < s->rows; t++)
        total += s->weight[t] = expf(s->weight[t] - best);
    memset(s->u, 0, (size_t)width * sizeof *s->u);
    for (int t = 0; t < s->rows; t++)
        cblas_saxpy(width, s->weight[t] /= total, s->a + (size_t)t * (size_t)width, 1, s->u, 1);
}

static double head(const struct network *net, const float *theta, struct sample *s)
{
    float z;
    forward(theta + net->head0, theta + net->head0_bias, s->u, net->width, net->head[0], true, s->h0);
    forward(theta + net->head2, theta + net->head2_bias, s->h0, net->head[0], net->head[1], true, s->h2);
    forward(theta + net->head4, theta + net->head4_bias, s->h2, net->head[1], 1, false, &z);
    return z;
}

static void head_back(const struct network *net, const float *theta, struct sample *s, float dz, float *g)
{
    backward(theta + net->head4, s->h2, &dz, net->head[1], 1, g + net->head4, g + net->head4_bias, s->dh2);
    cut(s->dh2, s->h2, net->head[1]);
    backward(theta + net->head2, s->h0, s->dh2, net->head[0], net->head[1], g + net->head2, g + net->head2_bias,
             s->dh0);
    cut(s->dh0, s->h0, net->head[0]);
    backward(theta + net->head0, s->u, s->dh0, net->width, net->head[0], g + net->head0, g + net->head0_bias, s->du);
}

/* From du to the rows and the query. */
static void pool_back(const struct network *net, const float *theta, struct sample *s, float *g)
{
    const int width = net->width;
    const float mean = cblas_sdot(width, s->u, 1, s->du, 1), scale = 1 / sqrtf((float)width);
    for (int t = 0; t < s->rows; t++) {
        const float *a = s->a + (size_t)t * (size_t)width;
        float *da = s->da + (size_t)t * (size_t)width;
        memset(da, 0, (size_t)width * sizeof *da);
        cblas_saxpy(width, s->weight[t], s->du, 1, da, 1);
        if (net->pooling == POOL_ATTENTION) {
            const float dscore = s->weight[t] * (cblas_sdot(width, a, 1, s->du, 1) - mean) * scale;
            cblas_saxpy(width, dscore, theta + net->query, 1, da, 1);
            cblas_saxpy(width, dscore, a, 1, g + net->query, 1);
        }
        cut(da, a, width);
    }
}

/* ---- the pass -------------------------------------------------------------------------------------------------- */

/* a = relu(rows (W diag g)' + c + W b) */
static void project(const struct network *net, const float *theta, const float *rows, int n, float *a)
{
    const int dim = net->dim, width = net->width;
    const float *w = theta + net->proj;
    float *scaled = mem_alloc((size_t)width * (size_t)dim, sizeof *scaled), *shift = NEW(float, width);
    for (int o = 0; o < width; o++) {
        for (int k = 0; k < dim; k++)
            scaled[(size_t)o * (size_t)dim + (size_t)k] = w[(size_t)o * (size_t)dim + (size_t)k] * theta[net->gain +
                                                                                                         (size_t)k];
        shift[o] = theta[net->proj_bias + (size_t)o] +
                   cblas_sdot(dim, w + (size_t)o * (size_t)dim, 1, theta + net->bias, 1);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, width, dim, 1, rows, dim, scaled, dim, 0, a, width);
    for (int t = 0; t < n; t++)
        for (int o = 0; o < width; o++) {
            float *p = a + (size_t)t * (size_t)width + o;
            *p = *p + shift[o] > 0 ? *p + shift[o] : 0;
        }
    free(scaled);
    free(shift);
}

static void project_back(const struct network *net, const float *theta, const float *rows, int n, const float *da,
                         float *g)
{
    const int dim = net->dim, width = net->width;
    const float *w = theta + net->proj, *bias = theta + net->bias;
    float *outer = mem_alloc((size_t)width * (size_t)dim, sizeof *outer), *sum = NEW(float, width);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, width, dim, n, 1, da, width, rows, dim, 0, outer, dim);
    for (int t = 0; t < n; t++)
        cblas_saxpy(width, 1, da + (size_t)t * (size_t)width, 1, sum, 1);
    for (int o = 0; o < width; o++) {
        const size_t at = (size_t)o * (size_t)dim;
        for (int k = 0; k < dim; k++) {
            g[net->proj + at + (size_t)k] += outer[at + (size_t)k] * theta[net->gain + (size_t)k] + sum[o] * bias[k];
            g[net->gain + (size_t)k] += outer[at + (size_t)k] * w[at + (size_t)k];
            g[net->bias + (size_t)k] += sum[o] * w[at + (size_t)k];
        }
        g[net->proj_bias + (size_t)o] += sum[o];
    }
    free(outer);
    free(sum);
}

/* Rows were pooled by the caller: one a sample. */
static double linear_pass(const struct network *net, const float *theta, const struct network_batch *b, float *gradient,
                          double *z)
{
    double loss = 0;
    for (int i = 0; i < b->n; i++) {
        const float *x = b->rows + (size_t)i * (size_t)net->dim;
        const double logit = theta[net->head4_bias] + cblas_sdot(net->dim, theta, 1, x, 1);
        loss += loss_of(logit, b->wrong[i]);
        if (z)
            z[i] = logit;
        if (gradient) {
            const float dz = slope_of(logit, b->wrong[i]);
            cblas_saxpy(net->dim, dz, x, 1, gradient, 1);
            gradient[net->head4_bias] += dz;
        }
    }
    return loss;
}

double network_pass(const struct network *net, const float *theta, const struct network_batch *b, float *gradient,
                    double *z)
{
    int n = 0;
    double loss = 0;
    if (net->linear)
        return linear_pass(net, theta, b, gradient, z);
    for (int i = 0; i < b->n; i++)
        n += b->counts[i];
    const size_t width = (size_t)net->width, small = 2 * (width + (size_t)net->head[0] + (size_t)net->head[1]);
    float *a = NEW(float, (size_t)n * width + 1), *da = NEW(float, (size_t)n * width + 1);
    float *weight = NEW(float, n + 1), *space = NEW(float, small);
    struct sample s = {.u = space, .du = space + width, .h0 = space + 2 * width};
    s.dh0 = s.h0 + net->head[0];
    s.h2 = s.dh0 + net->head[0];
    s.dh2 = s.h2 + net->head[1];
    project(net, theta, b->rows, n, a);
    size_t at = 0;
    for (int i = 0; i < b->n; i++) {
        s.a = a + at * width;
        s.da = da + at * width;
        s.weight = weight + at;
        s.rows = b->counts[i];
        at += (size_t)s.rows;
        pool(net, theta, &s);
        const double logit = head(net, theta, &s);
        loss += loss_of(logit, b->wrong[i]);
        if (z)
            z[i] = logit;
        if (gradient) {
            head_back(net, theta, &s, slope_of(logit, b->wrong[i]), gradient);
            pool_back(net, theta, &s, gradient);
        }
    }
    if (gradient)
        project_back(net, theta, b->rows, n, da, gradient);
    free(a);
    free(da);
    free(weight);
    free(space);
    return loss;
}
