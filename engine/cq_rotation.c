/* cq_rotation.c - the random rotations of Cactus Quants. Generator: MT19937 (Matsumoto and Nishimura, 1998), seeded
 * with 1234 + 17 dim. */
#include "engine/cq_encode.h"

#include <math.h>
#include <stdlib.h>

enum { N = 624, M = 397, SEED = 1234 };
struct generator { uint32_t state[N]; int next; };

static void seed(struct generator *g, uint32_t s)
{
    g->state[0] = s;
    for (uint32_t i = 1; i < N; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ g->state[i - 1] >> 30) + i;
    g->next = N;
}

static uint32_t draw(struct generator *g)
{
    if (g->next == N) {
        for (int i = 0; i < N; i++) {
            const uint32_t y = (g->state[i] & 0x80000000u) | (g->state[(i + 1) % N] & 0x7fffffffu);
            g->state[i] = g->state[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        g->next = 0;
    }
    uint32_t y = g->state[g->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

void cq_signs(struct cq_signs *s)
{
    struct generator g;
    seed(&g, SEED + 17 * CQ_GROUP);
    for (int i = 0; i < CQ_GROUP; i++)
        s->left[i] = draw(&g) % 2 ? 1 : -1;
    for (int i = 0; i < CQ_GROUP; i++)
        s->right[i] = draw(&g) % 2 ? 1 : -1;
    for (int i = 0; i < CQ_GROUP; i++)
        s->perm[i] = (uint8_t)i;
    for (uint32_t i = 0; i + 1 < CQ_GROUP; i++) {
        const uint32_t j = i + draw(&g) % (CQ_GROUP - i);
        const uint8_t kept = s->perm[i];
        s->perm[i] = s->perm[j];
        s->perm[j] = kept;
    }
}

/* ---- the orthogonal matrix ------------------------------------------------------------------------------------- */

static float uniform(struct generator *g)
{
    return (float)(draw(g) & 0xffffff) * 0x1p-24f;
}

/* Box and Muller on 16 uniform numbers. */
static void make_normal(float *x)
{
    for (int j = 0; j < 8; j++) {
        const double r = sqrt(-2 * log(1 - (double)x[j])), t = 2 * 3.14159265358979323846 * (double)x[j + 8];
        x[j] = (float)(r * cos(t));
        x[j + 8] = (float)(r * sin(t));
    }
}

static float *normal_matrix(int dim)
{
    const size_t n = (size_t)dim * (size_t)dim;
    struct generator g;
    float *x = NEW(float, n);
    seed(&g, (uint32_t)(SEED + 17 * dim));
    for (size_t i = 0; i < n; i++)
        x[i] = uniform(&g);
    for (size_t i = 0; i + 16 <= n; i += 16)
        make_normal(x + i);
    if (n % 16) {
        for (size_t i = n - 16; i < n; i++)
            x[i] = uniform(&g);
        make_normal(x + n - 16);
    }
    return x;
}

/* Householder's QR, by columns: column k below the diagonal keeps the reflection v_k (with v_k[k] beside it), so that
 * Q = (1 - v_0 v_0^T) (1 - v_1 v_1^T) ... with |v_k|^2 = 2. */
struct qr { int n, k; double *columns, *vectors; };

static double dot(const double *a, const double *b, int n)
{
    double s[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            s[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        s[0] += a[i] * b[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

static void reflect(double *column, const double *v, int k, int n)
{
    const double p = dot(column + k, v + k, n - k);
    for (int i = k; i < n; i++)
        column[i] -= p * v[i];
}

static void reflect_later_column(void *arg, int j)
{
    const struct qr *q = arg;
    reflect(q->columns + (size_t)(q->k + 1 + j) * (size_t)q->n, q->vectors + (size_t)q->k * (size_t)q->n, q->k, q->n);
}

/* Column j of Q is all reflections, the last first, of the unit vector j; those behind j leave it alone. */
static void make_column(void *arg, int j)
{
    const struct qr *q = arg;
    const size_t n = (size_t)q->n;
    double *column = q->columns + (size_t)j * n;
    const double sign = column[j] < 0 ? -1 : 1;         /* of R's diagonal entry */
    for (size_t i = 0; i < n; i++)
        column[i] = 0;
    column[j] = 1;
    for (int k = j; k >= 0; k--)
        reflect(column, q->vectors + (size_t)k * n, k, q->n);
    for (size_t i = 0; i < n; i++)
        column[i] *= sign;
}

static void make_reflection(const struct qr *q)
{
    const double *column = q->columns + (size_t)q->k * (size_t)q->n;
    double *v = q->vectors + (size_t)q->k * (size_t)q->n;
    const double norm = sqrt(dot(column + q->k, column + q->k, q->n - q->k));
    for (int i = q->k; i < q->n; i++)
        v[i] = column[i];
    v[q->k] += column[q->k] < 0 ? -norm : norm;
    const double length = sqrt(dot(v + q->k, v + q->k, q->n - q->k) / 2);
    for (int i = q->k; i < q->n && length > 0; i++)
        v[i] /= length;
}

float *cq_orthogonal(int dim, struct pool *pool)
{
    const size_t n = (size_t)dim;
    float *x = normal_matrix(dim);
    struct qr q = {.n = dim, .columns = NEW(double, n * n), .vectors = NEW(double, n * n)};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            q.columns[j * n + i] = (double)x[i * n + j];
    for (q.k = 0; q.k < dim; q.k++) {
        make_reflection(&q);
        reflect(q.columns + (size_t)q.k * n, q.vectors + (size_t)q.k * n, q.k, dim);
        pool_run(pool, dim - q.k - 1, reflect_later_column, &q);
    }
    pool_run(pool, dim, make_column, &q);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            x[i * n + j] = (float)q.columns[j * n + i];
    free(q.columns);
    free(q.vectors);
    return x;
}
