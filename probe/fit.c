/* fit.c - the training loop. A minibatch is cut into CHUNKS parts whose gradients are added in their order, so that the
 * result does not depend on how many threads computed them. */
#define _GNU_SOURCE
#include "probe/network.h"
#include "probe/parts.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS's own thread pool would be in the way of ours. */
void openblas_set_num_threads(int n);

enum { BATCH = 64, CHUNKS = 8, MAX_THREADS = 64 };

/* Normed rows of all samples, or pooled ones for a linear probe. */
struct data {
    float *rows;                /* [total, dim] */
    size_t *first;              /* [n] */
    int *count;                 /* [n] */
    const struct fit_sample *samples;
    int n, dim;
};

/* A part of a minibatch: its own copy of the rows, its own gradient. */
struct chunk { float *rows; int *counts; bool *wrong; float *gradient; double loss, *z; size_t cap_rows; };

struct training {
    const struct network *net;
    const struct data *data;
    const int *order;           /* samples of the pass, cut into the chunks */
    int n;
    bool learn;
    float *theta;
    double *z;                  /* [n], logits of a pass that does not learn */
    struct chunk chunk[CHUNKS];
    int n_threads;
    bool over;
    pthread_barrier_t begin, end;
};

/* ---- data ------------------------------------------------------------------------------------------------------ */

static int norm_row(const float *x, int dim, double eps, float *y, int sample, struct err *e)
{
    double mean = 0, var = 0;
    for (int i = 0; i < dim; i++) {
        if (!isfinite(x[i]))
            return err_input(e, "sample %d: a hidden row with finite numbers was expected", sample);
        mean += x[i];
    }
    mean /= dim;
    for (int i = 0; i < dim; i++)
        var += (x[i] - mean) * (x[i] - mean);
    const double scale = 1 / sqrt(var / dim + eps);
    for (int i = 0; i < dim; i++)
        y[i] = (float)((x[i] - mean) * scale);
    return 0;
}

/* A linear probe sees one row a sample; POOL_LAST always does. */
static int take_sample(struct data *d, const struct fit_settings *s, int i, float *to, struct err *e)
{
    const struct fit_sample *x = &d->samples[i];
    const int n = x->n_rows < s->max_rows ? x->n_rows : s->max_rows, from = s->pooling == POOL_LAST ? n - 1 : 0;
    const size_t dim = (size_t)d->dim;
    float *row = NEW(float, dim);
    int failed = 0;
    d->count[i] = s->linear || s->pooling == POOL_LAST ? 1 : n;
    for (int t = from; t < n && !failed; t++) {
        failed = norm_row(x->rows + (size_t)t * x->stride, d->dim, 1e-5, row, i, e);
        if (s->linear)
            cblas_saxpy(d->dim, 1.0f / (float)(n - from), row, 1, to, 1);
        else
            memcpy(to + (size_t)(t - from) * dim, row, dim * sizeof *row);
    }
    free(row);
    return failed;
}

static int read_data(struct data *d, const struct fit_sample *samples, int n, const struct fit_settings *s,
                     struct err *e)
{
    size_t total = 0;
    *d = (struct data){.first = NEW(size_t, n), .count = NEW(int, n), .samples = samples, .n = n, .dim = s->dim};
    for (int i = 0; i < n; i++) {
        if (samples[i].n_rows < 1)
            return err_input(e, "sample %d has no hidden rows", i);
        const int rows = samples[i].n_rows < s->max_rows ? samples[i].n_rows : s->max_rows;
        d->first[i] = total;
        total += s->linear || s->pooling == POOL_LAST ? 1 : (size_t)rows;
    }
    d->rows = mem_alloc(total * (size_t)s->dim, sizeof *d->rows);
    for (int i = 0; i < n; i++)
        if (take_sample(d, s, i, d->rows + d->first[i] * (size_t)s->dim, e))
            return -1;
    return 0;
}

static void free_data(struct data *d)
{
    free(d->rows);
    free(d->first);
    free(d->count);
}

/* ---- passes on all threads ------------------------------------------------------------------------------------- */

static void run_chunk(struct training *t, int c)
{
    struct chunk *k = &t->chunk[c];
    const int from = (int)((int64_t)t->n * c / CHUNKS), to = (int)((int64_t)t->n * (c + 1) / CHUNKS);
    const size_t dim = (size_t)t->data->dim;
    size_t rows = 0;
    for (int i = from; i < to; i++)
        rows += (size_t)t->data->count[t->order[i]];
    if (rows > k->cap_rows) {
        k->cap_rows = rows;
        k->rows = mem_grow(k->rows, rows * dim, sizeof *k->rows);
    }
    k->counts = mem_grow(k->counts, (size_t)(to - from) + 1, sizeof *k->counts);
    k->wrong = mem_grow(k->wrong, (size_t)(to - from) + 1, sizeof *k->wrong);
    float *at = k->rows;
    for (int i = from; i < to; i++) {
        const int s = t->order[i];
        const size_t n = (size_t)t->data->count[s] * dim;
        memcpy(at, t->data->rows + t->data->first[s] * dim, n * sizeof *at);
        at += n;
        k->counts[i - from] = t->data->count[s];
        k->wrong[i - from] = t->data->samples[s].wrong;
    }
    const struct network_batch batch = {k->rows, k->counts, k->wrong, to - from};
    if (t->learn)
        memset(k->gradient, 0, t->net->n * sizeof *k->gradient);
    k->loss = network_pass(t->net, t->theta, &batch, t->learn ? k->gradient : NULL, t->learn ? NULL : t->z + from);
}

struct worker { struct training *t; int id; };

static void share(struct training *t, int id)
{
    for (int c = id; c < CHUNKS; c += t->n_threads)
        run_chunk(t, c);
}

static void *work(void *arg)
{
    const struct worker *w = arg;
    for (;;) {
        pthread_barrier_wait(&w->t->begin);
        if (w->t->over)
            return NULL;
        share(w->t, w->id);
        pthread_barrier_wait(&w->t->end);
    }
}

/* Sum of the losses over the samples named by order[0, n). */
static double pass(struct training *t, const int *order, int n, bool learn)
{
    double loss = 0;
    t->order = order;
    t->n = n;
    t->learn = learn;
    pthread_barrier_wait(&t->begin);
    share(t, 0);
    pthread_barrier_wait(&t->end);
    for (int c = 0; c < CHUNKS; c++)
        loss += t->chunk[c].loss;
    return loss;
}

/* Without learning, in pieces, so that the copies of the rows stay small. */
static double measure(struct training *t, const int *order, int n, double *z)
{
    double loss = 0;
    for (int at = 0; at < n; at += 16 * BATCH) {
        t->z = z + at;
        loss += pass(t, order + at, n - at < 16 * BATCH ? n - at : 16 * BATCH, false);
    }
    return loss;
}

/* ---- AdamW ----------------------------------------------------------------------------------------------------- */

struct adam { float *m, *v; int64_t step; };

static void adam_step(struct adam *a, struct training *t, int n, const struct fit_settings *s)
{
    const double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    a->step++;
    const double correct1 = 1 - pow(beta1, (double)a->step), correct2 = 1 - pow(beta2, (double)a->step);
    for (size_t i = 0; i < t->net->n; i++) {
        float sum = 0;
        for (int c = 0; c < CHUNKS; c++)
            sum += t->chunk[c].gradient[i];
        const double g = (double)sum / n;
        a->m[i] = (float)(beta1 * a->m[i] + (1 - beta1) * g);
        a->v[i] = (float)(beta2 * a->v[i] + (1 - beta2) * g * g);
        const double decay = network_decays(t->net, i) ? s->rate * s->decay * t->theta[i] : 0;
        t->theta[i] -= (float)(decay + s->rate * (a->m[i] / correct1) / (sqrt(a->v[i] / correct2) + eps));
    }
}

static void shuffle(int *order, int n, uint64_t *state)
{
    for (int i = n - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const int j = (int)((*state >> 33) % (uint64_t)(i + 1)), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

static void train(struct training *t, int *train_order, int n_train, const int *valid, int n_valid,
                  const struct fit_settings *s, struct fit_report *r, void (*tick)(void *, int, double), void *arg)
{
    const size_t n = t->net->n;
    struct adam a = {NEW(float, n), NEW(float, n), 0};
    float *best = NEW(float, n);
    double *z = NEW(double, n_train > n_valid ? n_train : n_valid);
    uint64_t state = s->seed ^ 0x5851f42d4c957f2du;
    *r = (struct fit_report){.validation_loss = INFINITY};
    for (r->epochs = 0; r->epochs < s->max_epochs && r->epochs - r->best_epoch <= s->patience; r->epochs++) {
        shuffle(train_order, n_train, &state);
        for (int at = 0; at < n_train; at += BATCH) {
            const int count = n_train - at < BATCH ? n_train - at : BATCH;
            pass(t, train_order + at, count, true);
            adam_step(&a, t, count, s);
        }
        const double loss = measure(t, valid, n_valid, z) / n_valid;
        if (loss < r->validation_loss) {
            r->validation_loss = loss;
            r->best_epoch = r->epochs + 1;
            memcpy(best, t->theta, n * sizeof *best);
        }
        if (tick)
            tick(arg, r->epochs + 1, loss);
    }
    memcpy(t->theta, best, n * sizeof *best);
    r->train_loss = measure(t, train_order, n_train, z) / n_train;
    free(a.m);
    free(a.v);
    free(best);
    free(z);
}

/* ---- the result ------------------------------------------------------------------------------------------------ */

static struct layer copy_layer(const float *weight, const float *bias, int out, int in)
{
    const size_t n = (size_t)out * (size_t)in;
    struct layer l = {NEW(float, n), NEW(float, out), out, in};
    memcpy(l.weight, weight, n * sizeof *weight);
    memcpy(l.bias, bias, (size_t)out * sizeof *bias);
    return l;
}

/* Mean pooling is attention with a query of zeros. */
static struct probe *make_probe(const struct network *net, const float *w, const struct fit_settings *s)
{
    struct probe *p = NEW(struct probe, 1);
    *p = (struct probe){.layer = s->layer, .max_rows = s->max_rows, .eps = 1e-5};
    p->norm = copy_layer(w + net->gain, w + net->bias, net->dim, 1);
    p->norm.in = net->dim;
    p->proj = copy_layer(w + net->proj, w + net->proj_bias, net->width, net->dim);
    p->attn_query = NEW(float, net->width);
    if (net->pooling == POOL_ATTENTION)
        memcpy(p->attn_query, w + net->query, (size_t)net->width * sizeof *w);
    p->head[0] = copy_layer(w + net->head0, w + net->head0_bias, net->head[0], net->width);
    p->head[1] = copy_layer(w + net->head2, w + net->head2_bias, net->head[1], net->head[0]);
    p->head[2] = copy_layer(w + net->head4, w + net->head4_bias, 1, net->head[1]);
    return p;
}

static struct fit_settings with_defaults(const struct fit_settings *given)
{
    struct fit_settings s = *given;
    s.width = s.width ? s.width : 32;
    s.head[0] = s.head[0] ? s.head[0] : 128;
    s.head[1] = s.head[1] ? s.head[1] : 64;
    s.max_rows = s.max_rows ? s.max_rows : 1024;
    s.max_epochs = s.max_epochs ? s.max_epochs : 60;
    s.patience = s.patience ? s.patience : 12;
    s.rate = s.rate > 0 ? s.rate : 1.5e-3;
    s.decay = s.decay > 0 ? s.decay : 0.02;
    s.n_threads = s.n_threads < 1 ? 1 : s.n_threads > CHUNKS ? CHUNKS : s.n_threads;
    if (s.linear && s.pooling == POOL_ATTENTION)
        s.pooling = POOL_MEAN;
    return s;
}

static void start_threads(struct training *t, pthread_t *thread, struct worker *worker)
{
    openblas_set_num_threads(1);
    pthread_barrier_init(&t->begin, NULL, (unsigned)t->n_threads);
    pthread_barrier_init(&t->end, NULL, (unsigned)t->n_threads);
    for (int i = 1; i < t->n_threads; i++) {
        worker[i] = (struct worker){t, i};
        if (pthread_create(&thread[i], NULL, work, &worker[i]))
            abort();
    }
}

static void stop_threads(struct training *t, const pthread_t *thread)
{
    t->over = true;
    pthread_barrier_wait(&t->begin);
    for (int i = 1; i < t->n_threads; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&t->begin);
    pthread_barrier_destroy(&t->end);
}

static void run(const struct data *d, const struct network *net, float *theta, const struct fit_settings *s,
                double **p_wrong, struct fit_report *r, void (*tick)(void *, int, double), void *arg)
{
    struct training t = {.net = net, .data = d, .theta = theta, .n_threads = s->n_threads};
    pthread_t thread[CHUNKS];
    struct worker worker[CHUNKS];
    int *order = NEW(int, d->n), *valid = NEW(int, d->n), n_train = 0, n_valid = 0;
    for (int i = 0; i < d->n; i++)
        *(d->samples[i].validation ? &valid[n_valid++] : &order[n_train++]) = i;
    for (int c = 0; c < CHUNKS; c++)
        t.chunk[c].gradient = NEW(float, net->n);
    start_threads(&t, thread, worker);
    train(&t, order, n_train, valid, n_valid, s, r, tick, arg);
    if (p_wrong) {
        *p_wrong = NEW(double, d->n);
        for (int i = 0; i < d->n; i++)
            order[i] = i;
        measure(&t, order, d->n, *p_wrong);
        for (int i = 0; i < d->n; i++)
            (*p_wrong)[i] = 1 / (1 + exp(-(*p_wrong)[i]));
    }
    stop_threads(&t, thread);
    for (int c = 0; c < CHUNKS; c++) {
        free(t.chunk[c].rows);
        free(t.chunk[c].counts);
        free(t.chunk[c].wrong);
        free(t.chunk[c].gradient);
    }
    free(order);
    free(valid);
}

int probe_fit(struct probe **out, const struct fit_sample *samples, int n, const struct fit_settings *settings,
              double **p_wrong, struct fit_report *report, void (*tick)(void *arg, int epoch, double loss), void *arg,
              struct err *e)
{
    const struct fit_settings s = with_defaults(settings);
    struct data d = {0};
    struct network net;
    int classes[2][2] = {{0}};
    *out = NULL;
    for (int i = 0; i < n; i++)
        classes[samples[i].validation][samples[i].wrong]++;
    if (!classes[0][0] || !classes[0][1] || !classes[1][0] || !classes[1][1])
        return err_input(e, "right and wrong answers are needed to train (%d, %d) and to validate (%d, %d)",
                         classes[0][0], classes[0][1], classes[1][0], classes[1][1]);
    const int failed = read_data(&d, samples, n, &s, e);
    if (!failed) {
        network_init(&net, &s);
        float *theta = NEW(float, net.n);
        network_start(&net, theta, s.seed);
        run(&d, &net, theta, &s, p_wrong, report, tick, arg);
        if (!s.linear && s.pooling != POOL_LAST)
            *out = make_probe(&net, theta, &s);
        free(theta);
    }
    free_data(&d);
    return failed;
}
