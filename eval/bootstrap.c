/* bootstrap.c - percentile intervals by resampling rows or groups of rows.
 *
 * Rows are ranked once. A resample is only a count for each row, so a statistic walks the rows in their fixed order and
 * nothing is sorted again. Generator: xoshiro256** (Blackman and Vigna 2018), seeded by splitmix64.
 */
#define _GNU_SOURCE                     /* sysconf */
#include "eval/stats.h"
#include "eval/order.h"
#include "engine/base.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REDRAWS = 10000, MAX_THREADS = 64 };

struct generator { uint64_t s[4]; };

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void generator_seed(struct generator *g, uint64_t seed, uint64_t stream)
{
    uint64_t x = seed, y;
    y = splitmix(&x) ^ stream;                  /* mixed once, so that neighbouring seeds share no streams */
    for (int i = 0; i < 4; i++)
        g->s[i] = splitmix(&y);
}

static inline uint64_t rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static inline uint64_t generator_next(struct generator *g)
{
    uint64_t *s = g->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* Counts of so many rows stay in the first-level cache. */
enum { CHUNK_BITS = 12, CHUNK = 1 << CHUNK_BITS };

/* `drawn` draws below n, counted. Each half of a 64-bit number gives one: the high word of half * n, rejected where that
 * would favour some values (Lemire 2019). */
static void draw_below(struct generator *g, uint32_t *count, uint32_t n, uint32_t draws, int shift)
{
    uint32_t reject = (uint32_t)-n % n, drawn = 0;
    while (drawn < draws) {
        uint64_t x = generator_next(g);
        uint64_t a = (x & UINT32_MAX) * n, b = (x >> 32) * n;
        if ((uint32_t)a >= reject) {
            count[a >> 32 >> shift]++;
            drawn++;
        }
        if ((uint32_t)b >= reject && drawn < draws) {
            count[b >> 32 >> shift]++;
            drawn++;
        }
    }
}

/* The same below CHUNK, from 12 bits each. */
static void draw_in_chunk(struct generator *g, uint32_t *count, uint32_t draws)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < draws; i++) {
        bits = i % 5 ? bits >> CHUNK_BITS : generator_next(g);
        count[bits & (CHUNK - 1)]++;
    }
}

/* n draws below n, counted. Ten million counts do not fit a cache: a first round counts how many draws fall into each
 * chunk of rows (`in_chunk` has room for them), a second one spreads these within the chunk. */
static void draw_counts(struct generator *g, uint32_t *count, uint32_t n, uint32_t *in_chunk)
{
    memset(count, 0, n * sizeof *count);
    if (n <= 8 * CHUNK) {
        draw_below(g, count, n, n, 0);
        return;
    }
    uint32_t n_chunks = (n + CHUNK - 1) / CHUNK;
    memset(in_chunk, 0, n_chunks * sizeof *in_chunk);
    draw_below(g, in_chunk, n, n, CHUNK_BITS);
    for (uint32_t c = 0; c < n_chunks; c++) {
        uint32_t first = c * CHUNK;
        if (n - first >= CHUNK)
            draw_in_chunk(g, count + first, in_chunk[c]);
        else
            draw_below(g, count + first, n - first, in_chunk[c], 0);
    }
}

struct job {
    const struct resampling *how;
    size_t n, from, to;                         /* rows; resamples from .. to-1 */
    bootstrap_statistic *statistic;
    const void *data;
    double *values;
    bool failed;
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    const uint32_t *group = j->how->group;
    size_t units = group ? j->how->n_groups : j->n;
    uint32_t *unit_count = NEW(uint32_t, units), *count = group ? NEW(uint32_t, j->n) : unit_count;
    uint32_t *in_chunk = NEW(uint32_t, units / CHUNK + 1);
    for (size_t i = j->from; i < j->to && !j->failed; i++) {
        struct generator g;
        generator_seed(&g, j->how->seed, i);
        int tries = 0;
        do {
            draw_counts(&g, unit_count, (uint32_t)units, in_chunk);
            for (size_t row = 0; group && row < j->n; row++)
                count[row] = unit_count[group[row]];
            j->values[i] = j->statistic(count, j->data);
            j->failed = ++tries > MAX_REDRAWS;
        } while (isnan(j->values[i]) && !j->failed);
    }
    if (group)
        free(count);
    free(unit_count);
    free(in_chunk);
    return NULL;
}

/* Each thread holds counts of its own: not more threads than that is worth. */
static size_t cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 8 ? 8 : (size_t)n;
}

int bootstrap_values(const struct resampling *how, size_t n, bootstrap_statistic *statistic, const void *data,
                     double *values)
{
    size_t units = how->group ? how->n_groups : n, n_threads = how->n_threads < 1 ? cpus() : (size_t)how->n_threads;
    if (n == 0 || units == 0 || units > UINT32_MAX)
        return -1;
    if (n_threads > MAX_THREADS)
        n_threads = MAX_THREADS;
    struct job jobs[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    bool started[MAX_THREADS] = {false}, failed = false;
    for (size_t t = 0; t < n_threads; t++)
        jobs[t] = (struct job){how, n, how->n_resamples * t / n_threads, how->n_resamples * (t + 1) / n_threads,
                               statistic, data, values, false};
    for (size_t t = 1; t < n_threads; t++)
        started[t] = pthread_create(&threads[t], NULL, run_job, &jobs[t]) == 0;
    for (size_t t = 0; t < n_threads; t++)
        if (!started[t])                        /* this thread's own share, and that of one that could not start */
            run_job(&jobs[t]);
    for (size_t t = 0; t < n_threads; t++) {
        if (started[t])
            pthread_join(threads[t], NULL);
        failed |= jobs[t].failed;
    }
    return failed ? -1 : 0;
}

double percentile_sorted(const double *v, size_t n, double p)
{
    double at = p * (double)(n - 1), below = floor(at);
    size_t i = (size_t)below, next = i + 1 < n ? i + 1 : i;
    return v[i] == v[next] ? v[i] : v[i] + (at - below) * (v[next] - v[i]);
}

struct interval bootstrap_interval(const struct resampling *how, size_t n, bootstrap_statistic *statistic,
                                   const void *data)
{
    if (how->n_resamples == 0)
        return interval_undefined("no resamples were asked for");
    double *v = NEW(double, how->n_resamples);
    struct interval ci = interval_undefined("the figure is undefined in the resamples");
    if (bootstrap_values(how, n, statistic, data, v) == 0) {
        order_doubles(v, how->n_resamples);
        ci = interval_of(percentile_sorted(v, how->n_resamples, 0.025),
                         percentile_sorted(v, how->n_resamples, 0.975));
    }
    free(v);
    return ci;
}

/* ---- means ------------------------------------------------------------------------------------------------------ */

struct column { const double *v; size_t n; };

static double mean_of_counts(const uint32_t *count, const void *data)
{
    const struct column *c = data;
    double sum = 0, n = 0;
    for (size_t i = 0; i < c->n; i++) {
        sum += count[i] * c->v[i];
        n += count[i];
    }
    return n > 0 ? sum / n : NAN;
}

struct interval mean_bootstrap(const double *v, size_t n, const struct resampling *how)
{
    if (n == 0)
        return interval_undefined("there is no value");
    return bootstrap_interval(how, n, mean_of_counts, &(struct column){v, n});
}

/* ---- AUROC ------------------------------------------------------------------------------------------------------ */

/* Rows in the order of a score. `row` leads back to the numbering of the counts; NULL when that is the order itself. */
struct ranked { size_t n; uint32_t *row; uint8_t *wrong, *ends_block; };

static struct ranked ranked_make(const double *score, enum orientation orientation, const uint8_t *wrong, size_t n)
{
    struct ranked r = {n, NEW(uint32_t, n), NEW(uint8_t, n), NEW(uint8_t, n)};
    struct keyed *a = NEW(struct keyed, n);
    for (size_t i = 0; i < n; i++)
        a[i] = (struct keyed){order_key(score[i], orientation == HIGHER_IS_RIGHT), i};
    order_sort(a, n);
    for (size_t i = 0; i < n; i++) {
        r.row[i] = (uint32_t)a[i].row;
        r.wrong[i] = wrong[a[i].row] != 0;
        r.ends_block[i] = i + 1 == n || a[i + 1].key != a[i].key;
    }
    free(a);
    return r;
}

static void ranked_free(struct ranked *r)
{
    free(r->row);
    free(r->wrong);
    free(r->ends_block);
}

static double auroc_of_counts(const uint32_t *count, const void *data)
{
    const struct ranked *r = data;
    uint64_t twice_won = 0, right_below = 0, here[2] = {0, 0}, n_wrong = 0;
    for (size_t i = 0; i < r->n; i++) {
        here[r->wrong[i]] += count[r->row ? r->row[i] : i];
        if (r->ends_block[i]) {
            twice_won += here[1] * (2 * right_below + here[0]);
            right_below += here[0];
            n_wrong += here[1];
            here[0] = here[1] = 0;
        }
    }
    return n_wrong && right_below ? (double)twice_won / (2 * (double)n_wrong * (double)right_below) : NAN;
}

static double delta_of_counts(const uint32_t *count, const void *data)
{
    const struct ranked *r = data;
    return auroc_of_counts(count, &r[0]) - auroc_of_counts(count, &r[1]);
}

static const char *why_not(const double *score, const uint8_t *wrong, size_t n)
{
    size_t n_wrong = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(score[i]))
            return "nan_score: a score is not a number";
        n_wrong += wrong[i] != 0;
    }
    return n > UINT32_MAX ? "too many rows for the bootstrap" : n_wrong == 0 || n_wrong == n
         ? "undefined_one_class: AUROC needs right and wrong answers" : NULL;
}

struct interval auroc_bootstrap(const double *score, enum orientation orientation, const uint8_t *wrong, size_t n,
                                const struct resampling *how)
{
    const char *why = why_not(score, wrong, n);
    if (why)
        return interval_undefined(why);
    struct ranked r = ranked_make(score, orientation, wrong, n);
    struct resampling sorted = *how;
    uint32_t *group = NULL;
    if (how->group) {
        sorted.group = group = NEW(uint32_t, n);
        for (size_t i = 0; i < n; i++)
            group[i] = how->group[r.row[i]];
    }
    free(r.row);
    r.row = NULL;                               /* rows are exchangeable: counts are drawn in the sorted order */
    struct interval ci = bootstrap_interval(&sorted, n, auroc_of_counts, &r);
    free(group);
    ranked_free(&r);
    return ci;
}

struct interval auroc_bootstrap_delta(const double *score_a, enum orientation orientation_a,
                                      const double *score_b, enum orientation orientation_b,
                                      const uint8_t *wrong, size_t n, const struct resampling *how)
{
    const char *why = why_not(score_a, wrong, n);
    why = why ? why : why_not(score_b, wrong, n);
    if (why)
        return interval_undefined(why);
    struct ranked r[2] = {ranked_make(score_a, orientation_a, wrong, n), ranked_make(score_b, orientation_b, wrong, n)};
    struct interval ci = bootstrap_interval(how, n, delta_of_counts, r);
    ranked_free(&r[0]);
    ranked_free(&r[1]);
    return ci;
}
