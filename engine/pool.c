/* pool.c - a pool of threads that runs the indices of a loop. Which thread takes which index is left to chance: no
 * task may depend on another, and none may share a sum. */
#define _GNU_SOURCE                     /* sched_getaffinity */
#include "engine/kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_THREADS = 256 };

struct pool {
    int n_threads;              /* the caller included */
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    unsigned generation;        /* one more for each pool_run */
    bool stop;
    int busy;                   /* helpers that have not finished this generation */
    void (*task)(void *, int);
    void *arg;
    int n;
    atomic_int next;
};

static void take_indices(struct pool *p)
{
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < p->n;)
        p->task(p->arg, i);
}

static void *helper(void *arg)
{
    struct pool *p = arg;
    unsigned seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->generation == seen && !p->stop)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->stop)
            break;
        seen = p->generation;
        pthread_mutex_unlock(&p->lock);
        take_indices(p);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct pool *pool_new(int n_threads)
{
    struct pool *p = NEW(struct pool, 1);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->threads = NEW(pthread_t, n_threads);
    p->n_threads = 1;
    while (p->n_threads < n_threads && pthread_create(&p->threads[p->n_threads - 1], NULL, helper, p) == 0)
        p->n_threads++;
    return p;
}

static int usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

int pool_open(struct pool **out, int n_threads, struct err *e)
{
    *out = NULL;
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return err_set(e, EXIT_USAGE, "threads: a number from 1 to %d was expected, not %d", MAX_THREADS, n_threads);
    *out = pool_new(n_threads ? n_threads : usable_cpus());
    return 0;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i + 1 < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p);
}

int pool_size(const struct pool *p)
{
    return p ? p->n_threads : 1;
}

void pool_run(struct pool *p, int n, void (*task)(void *arg, int i), void *arg)
{
    if (!p || p->n_threads == 1 || n <= 1) {
        for (int i = 0; i < n; i++)
            task(arg, i);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->task = task;
    p->arg = arg;
    p->n = n;
    atomic_store(&p->next, 0);
    p->busy = p->n_threads - 1;
    p->generation++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    take_indices(p);
    pthread_mutex_lock(&p->lock);
    while (p->busy)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
