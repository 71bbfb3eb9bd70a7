/* seq.c - the keys and values of one sequence. Full layers keep every position; a sliding layer needs those that the
 * rows under way can still see, kept in a ring. Memory follows the length of the sequence, not the model's limits. */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

struct seq *seq_new(const struct engine *m)
{
    struct seq *s = NEW(struct seq, 1);
    s->config = &m->config;
    s->cache = NEW(struct kv_cache, m->config.last_kv_layer + 1);
    return s;
}

static const struct attention_kind *kind_of(const struct config *c, int layer)
{
    return &c->kind[c->layer[layer].full];
}

/* Moves the first `held` slots of every head to an array of another capacity. */
static float *resized(const float *old, int old_capacity, int capacity, int held, int n_heads, int head_dim)
{
    float *grown = mem_grow(NULL, (size_t)n_heads * (size_t)capacity, (size_t)head_dim * sizeof *grown);
    for (int h = 0; h < n_heads && held; h++)
        memcpy(grown + (size_t)h * (size_t)capacity * (size_t)head_dim,
               old + (size_t)h * (size_t)old_capacity * (size_t)head_dim,
               (size_t)held * (size_t)head_dim * sizeof *grown);
    return grown;
}

static void resize(struct kv_cache *c, int capacity, int held, int n_heads, int head_dim)
{
    float *k = resized(c->k, c->capacity, capacity, held, n_heads, head_dim);
    float *v = resized(c->v, c->capacity, capacity, held, n_heads, head_dim);
    free(c->k);
    free(c->v);
    *c = (struct kv_cache){.k = k, .v = v, .capacity = capacity};
}

void seq_reserve(struct seq *s, int n)
{
    const int want = s->n + n;
    for (int l = 0; l <= s->config->last_kv_layer; l++) {
        const struct attention_kind *kind = kind_of(s->config, l);
        struct kv_cache *c = &s->cache[l];
        const int limit = kind->window ? kind->window + CHUNK_ROWS - 1 : s->config->max_positions;
        int capacity = c->capacity ? c->capacity : FIRST_CAPACITY;
        while (capacity < want && capacity < limit)
            capacity *= 2;
        capacity = capacity < limit ? capacity : limit;
        /* Below the limit a ring has never wrapped: slots are positions, and a larger ring can take them over. */
        if (capacity > c->capacity)
            resize(c, capacity, s->n < c->capacity ? s->n : c->capacity, s->config->n_kv_heads, kind->head_dim);
    }
}

struct seq *seq_fork(const struct seq *s)
{
    const int n_layers = s->config->last_kv_layer + 1;
    struct seq *copy = NEW(struct seq, 1);
    *copy = *s;
    copy->in_step = false;
    copy->cache = NEW(struct kv_cache, n_layers);
    for (int l = 0; l < n_layers; l++) {
        copy->cache[l] = s->cache[l];
        const int held = s->n < s->cache[l].capacity ? s->n : s->cache[l].capacity;
        const int head_dim = kind_of(s->config, l)->head_dim;
        if (!s->cache[l].capacity)
            continue;
        copy->cache[l].k = resized(s->cache[l].k, s->cache[l].capacity, s->cache[l].capacity, held,
                                   s->config->n_kv_heads, head_dim);
        copy->cache[l].v = resized(s->cache[l].v, s->cache[l].capacity, s->cache[l].capacity, held,
                                   s->config->n_kv_heads, head_dim);
    }
    return copy;
}

void seq_free(struct seq *s)
{
    if (!s)
        return;
    for (int l = 0; l <= s->config->last_kv_layer; l++) {
        free(s->cache[l].k);
        free(s->cache[l].v);
    }
    free(s->cache);
    free(s);
}

int seq_length(const struct seq *s)
{
    return s->n;
}
