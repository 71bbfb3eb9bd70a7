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

/* The positions from which on a layer's keys and values may still be read by rows to come. */
static int first_visible(const struct seq *s, int layer)
{
    const int window = kind_of(s->config, layer)->window;
    return window && s->n > window - 1 ? s->n - (window - 1) : 0;
}

/* Hands out the visible keys and values of a layer as stretches of neighbouring slots, head by head, keys first: their
 * place in k or v, and how many floats. A ring has at most two a head. */
struct stretch { bool is_v; size_t at, n; };

static int stretches(const struct seq *s, int layer, struct stretch *out)
{
    const struct kv_cache *c = &s->cache[layer];
    const size_t d = (size_t)kind_of(s->config, layer)->head_dim;
    const int first = first_visible(s, layer), count = s->n - first;
    int n = 0;
    if (count == 0)
        return 0;
    const int slot = first % c->capacity, run = count < c->capacity - slot ? count : c->capacity - slot;
    for (int is_v = 0; is_v < 2; is_v++)
        for (int h = 0; h < s->config->n_kv_heads; h++) {
            const size_t head = (size_t)h * (size_t)c->capacity;
            out[n++] = (struct stretch){is_v, (head + (size_t)slot) * d, (size_t)run * d};
            if (run < count)
                out[n++] = (struct stretch){is_v, head * d, (size_t)(count - run) * d};
        }
    return n;
}

static struct stretch *new_stretches(const struct seq *s)
{
    return NEW(struct stretch, 4 * s->config->n_kv_heads);
}

struct seq *seq_fork(const struct seq *s)
{
    const int n_layers = s->config->last_kv_layer + 1;
    struct stretch *part = new_stretches(s);
    struct seq *copy = NEW(struct seq, 1);
    *copy = *s;
    copy->in_step = false;
    copy->cache = NEW(struct kv_cache, n_layers);
    for (int l = 0; l < n_layers; l++) {
        const struct kv_cache *from = &s->cache[l];
        struct kv_cache *to = &copy->cache[l];
        if (!from->capacity)
            continue;
        resize(to, from->capacity, 0, s->config->n_kv_heads, kind_of(s->config, l)->head_dim);
        const int n = stretches(s, l, part);
        for (int i = 0; i < n; i++)
            memcpy((part[i].is_v ? to->v : to->k) + part[i].at, (part[i].is_v ? from->v : from->k) + part[i].at,
                   part[i].n * sizeof(float));
    }
    free(part);
    return copy;
}

size_t seq_bytes(const struct seq *s)
{
    size_t bytes = 0;
    for (int l = 0; l <= s->config->last_kv_layer; l++)
        bytes += (size_t)s->cache[l].capacity * (size_t)(s->config->n_kv_heads * kind_of(s->config, l)->head_dim);
    return bytes * 2 * sizeof(float);
}

void seq_save(const struct seq *s, struct text *out)
{
    struct stretch *part = new_stretches(s);
    for (int l = 0; l <= s->config->last_kv_layer; l++) {
        const int n = stretches(s, l, part);
        for (int i = 0; i < n; i++)
            text_put(out, (part[i].is_v ? s->cache[l].v : s->cache[l].k) + part[i].at, part[i].n * sizeof(float));
    }
    free(part);
}

struct seq *seq_load(const struct engine *m, int n, const void *bytes, size_t size)
{
    struct seq *s = seq_new(m);
    struct stretch *part = new_stretches(s);
    size_t at = 0;
    if (n > m->config.max_positions)
        n = 0;
    seq_reserve(s, n);
    s->n = n;
    for (int l = 0; l <= s->config->last_kv_layer; l++) {
        const int count = stretches(s, l, part);
        for (int i = 0; i < count && at <= size; at += part[i++].n * sizeof(float))
            if (part[i].n * sizeof(float) <= size - at)
                memcpy((part[i].is_v ? s->cache[l].v : s->cache[l].k) + part[i].at, (const char *)bytes + at,
                       part[i].n * sizeof(float));
    }
    free(part);
    if (n > 0 && at == size)
        return s;
    seq_free(s);
    return NULL;
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
