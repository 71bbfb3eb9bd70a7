/* decoder.c - Gemma 4's text decoder: from ids and soft tokens to hidden states and logits.
 *
 * A step's rows of all sequences are stacked and go through the layers in chunks. In a chunk every row passes the
 * layers below the last one that owns keys and values, and leaves its keys and values in that one; nothing that later
 * rows read is made above it. The needed rows are then set aside (`pending`) until a chunk full of them has come
 * together, and only these go on. On E2B that saves 20 of 35 layers for all other rows, exactly.
 *
 * Each value of a row depends on that row and on the keys and values of its own sequence, in an order fixed by their
 * positions: chunks, batches and threads cannot change a bit. Formulae: the Gemma 4 modelling code of transformers.
 */
#define _DEFAULT_SOURCE                 /* madvise */
#include "engine/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LOGIT_ROWS = 32,                    /* rows that pass the output matrix together */
    SMALL_TASK = 1 << 19                /* fewer operations than this are not worth waking threads for */
};

struct layer {
    const struct tensor *q, *k, *v, *o, *gate, *up, *down, *ple_gate, *ple_out;     /* k, v: NULL in shared layers */
    const float *input_norm, *after_attention, *before_mlp, *after_mlp, *after_ple, *q_norm, *k_norm;
    float scalar;
};

/* One position of one sequence on its way. */
struct row {
    const struct step_input *in;
    int position;
    int32_t id;                         /* whose embeddings it takes */
    const float *soft;                  /* or NULL */
    int out;                            /* which of the input's needed rows it is; -1: not needed */
};

struct batch {
    int n;
    struct row row[CHUNK_ROWS];
    float *x;                           /* [n, hidden_size], the residual stream */
    float *ple;                         /* [n, layers of this batch, ple_size] */
    int first_layer, n_layers;          /* the layers whose per-layer embeddings it holds */
    float *cosines[2], *sines[2];       /* [full][n, rope_pairs] */
};

struct decoder {
    const struct config *c;
    struct compute compute;
    const struct tensor *embed, *ple_table;
    const struct tensor *ple_low, *ple_high;        /* rows of per_layer_model_projection, below and from last_kv_layer
                                                       on */
    const float *ple_norm, *norm;
    struct layer *layer;
    float **owned;                      /* the norms, to be freed */
    size_t n_owned;
    struct tensor *matrix;              /* all matrices */
    size_t n_matrices;
    uint8_t *packed_data;               /* of all packed matrices, NULL: there is none */
    size_t packed_bytes;
    struct batch chunk, pending;
    float *h, *t, *q, *a, *k, *v, *gate, *up, *small, *logits;      /* scratch, CHUNK_ROWS rows each */
};

/* ---- opening --------------------------------------------------------------------------------------------------- */

struct loader {
    struct decoder *d;
    const struct weights *w;
    struct err *e;
    bool bad;
    char name[256];
};

static const char *full_name(struct loader *l, int layer, const char *name)
{
    if (layer < 0)
        snprintf(l->name, sizeof l->name, "%s%s", l->d->c->prefix, name);
    else
        snprintf(l->name, sizeof l->name, "%slayers.%d.%s", l->d->c->prefix, layer, name);
    return l->name;
}

static const struct tensor *load_matrix(struct loader *l, int layer, const char *name, int64_t out, int64_t in)
{
    if (l->bad)
        return NULL;
    const struct tensor *t = weights_tensor(l->w, full_name(l, layer, name), 2, (int64_t[]){out, in}, l->e);
    l->bad = !t;
    if (!t)
        return NULL;
    l->d->matrix[l->d->n_matrices] = *t;
    return &l->d->matrix[l->d->n_matrices++];
}

static struct tensor rows_of(const struct tensor *t, int64_t first, int64_t n)
{
    struct tensor part = *t;
    const size_t row = t->n_bytes / (size_t)t->dim[0];
    if (t->type == TENSOR_CODED)
        part.skip += first * (tensor_elements(t) / t->dim[0]);
    else
        part.data = (const uint8_t *)t->data + (size_t)first * row;
    part.dim[0] = n;
    part.n_bytes = (size_t)n * row;
    return part;
}

/* The two parts of the projection that the chunk and the pending batch use. */
static void load_context(struct loader *l)
{
    const struct config *c = l->d->c;
    const int64_t all = (int64_t)c->n_layers * c->ple_size, low = (int64_t)c->last_kv_layer * c->ple_size;
    const struct tensor *t = load_matrix(l, -1, "per_layer_model_projection.weight", all, c->hidden_size);
    if (!t)
        return;
    struct tensor *part = &l->d->matrix[l->d->n_matrices++];
    *part = rows_of(t, low, all - low);
    l->d->matrix[l->d->n_matrices - 2] = rows_of(t, 0, low);
    l->d->ple_low = t;
    l->d->ple_high = part;
}

static const float *load_vector(struct loader *l, int layer, const char *name, int64_t n)
{
    if (l->bad)
        return NULL;
    float *v = weights_read(l->w, full_name(l, layer, name), 1, &n, l->e);
    l->bad = !v;
    if (v)
        l->d->owned[l->d->n_owned++] = v;
    return v;
}

static void load_layer(struct loader *l, int i)
{
    const struct config *c = l->d->c;
    const struct layer_config *lc = &c->layer[i];
    struct layer *layer = &l->d->layer[i];
    const int64_t hidden = c->hidden_size, d = c->kind[lc->full].head_dim;
    layer->q = load_matrix(l, i, "self_attn.q_proj.weight", c->n_heads * d, hidden);
    layer->o = load_matrix(l, i, "self_attn.o_proj.weight", hidden, c->n_heads * d);
    layer->q_norm = load_vector(l, i, "self_attn.q_norm.weight", d);
    if (lc->kv_layer == i) {
        layer->k = load_matrix(l, i, "self_attn.k_proj.weight", c->n_kv_heads * d, hidden);
        layer->v = load_matrix(l, i, "self_attn.v_proj.weight", c->n_kv_heads * d, hidden);
        layer->k_norm = load_vector(l, i, "self_attn.k_norm.weight", d);
    }
    layer->gate = load_matrix(l, i, "mlp.gate_proj.weight", lc->mlp_size, hidden);
    layer->up = load_matrix(l, i, "mlp.up_proj.weight", lc->mlp_size, hidden);
    layer->down = load_matrix(l, i, "mlp.down_proj.weight", hidden, lc->mlp_size);
    layer->ple_gate = load_matrix(l, i, "per_layer_input_gate.weight", c->ple_size, hidden);
    layer->ple_out = load_matrix(l, i, "per_layer_projection.weight", hidden, c->ple_size);
    layer->input_norm = load_vector(l, i, "input_layernorm.weight", hidden);
    layer->after_attention = load_vector(l, i, "post_attention_layernorm.weight", hidden);
    layer->before_mlp = load_vector(l, i, "pre_feedforward_layernorm.weight", hidden);
    layer->after_mlp = load_vector(l, i, "post_feedforward_layernorm.weight", hidden);
    layer->after_ple = load_vector(l, i, "post_per_layer_input_norm.weight", hidden);
    const float *scalar = load_vector(l, i, "layer_scalar", 1);
    layer->scalar = scalar ? *scalar : 0;
}

static void new_batch(struct batch *b, const struct config *c, int first_layer, int n_layers)
{
    b->first_layer = first_layer;
    b->n_layers = n_layers;
    b->x = NEW(float, CHUNK_ROWS * c->hidden_size);
    b->ple = NEW(float, (size_t)CHUNK_ROWS * (size_t)n_layers * (size_t)c->ple_size + 1);
    for (int full = 0; full < 2; full++) {
        b->cosines[full] = NEW(float, CHUNK_ROWS * c->kind[full].rope_pairs + 1);
        b->sines[full] = NEW(float, CHUNK_ROWS * c->kind[full].rope_pairs + 1);
    }
}

static void free_batch(struct batch *b)
{
    free(b->x);
    free(b->ple);
    for (int full = 0; full < 2; full++) {
        free(b->cosines[full]);
        free(b->sines[full]);
    }
}

static void new_scratch(struct decoder *d)
{
    const struct config *c = d->c;
    const size_t rows = CHUNK_ROWS, hidden = (size_t)c->hidden_size;
    const int head_dim = c->kind[0].head_dim > c->kind[1].head_dim ? c->kind[0].head_dim : c->kind[1].head_dim;
    int mlp = 0;
    for (int l = 0; l < c->n_layers; l++)
        mlp = c->layer[l].mlp_size > mlp ? c->layer[l].mlp_size : mlp;
    new_batch(&d->chunk, c, 0, c->last_kv_layer);
    new_batch(&d->pending, c, c->last_kv_layer, c->n_layers - c->last_kv_layer);
    d->h = NEW(float, rows * hidden);
    d->t = NEW(float, rows * hidden);
    d->q = NEW(float, rows * (size_t)c->n_heads * (size_t)head_dim);
    d->a = NEW(float, rows * (size_t)c->n_heads * (size_t)head_dim);
    d->k = NEW(float, rows * (size_t)c->n_kv_heads * (size_t)head_dim);
    d->v = NEW(float, rows * (size_t)c->n_kv_heads * (size_t)head_dim);
    d->gate = NEW(float, rows * (size_t)mlp);
    d->up = NEW(float, rows * (size_t)mlp);
    d->small = NEW(float, rows * (size_t)c->ple_size);
    d->logits = NEW(float, (size_t)LOGIT_ROWS * (size_t)c->vocab_size);
}

/* Memory for all packed matrices, in large pages if the system has them to give. */
static int new_packed_data(struct decoder *d, struct err *e)
{
    for (size_t i = 0; i < d->n_matrices; i++)
        if (d->matrix[i].packed)
            d->packed_bytes += packed_bytes(d->matrix[i].packed);
    if (d->packed_bytes == 0)
        return 0;
    d->packed_data = mmap(NULL, d->packed_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (d->packed_data == MAP_FAILED) {
        d->packed_data = NULL;
        return err_machine(e, "%zu bytes of memory for packed weights", d->packed_bytes);
    }
    madvise(d->packed_data, d->packed_bytes, MADV_HUGEPAGE);
    return 0;
}

/* Packs what can be packed, and makes sure that all values are finite. */
static int pack_matrices(struct decoder *d, const struct weights *w, struct err *e)
{
    const struct tensor **plain = NEW(const struct tensor *, d->n_matrices + 1);
    size_t n = 0, at = 0;
    for (size_t i = 0; i < d->n_matrices; i++)
        if (packed_fits(&d->matrix[i]))
            d->matrix[i].packed = packed_new(&d->matrix[i]);
        else
            plain[n++] = &d->matrix[i];
    int bad = new_packed_data(d, e);
    for (size_t i = 0; i < d->n_matrices && !bad; i++) {
        const struct tensor *t = &d->matrix[i];
        if (!t->packed)
            continue;
        t->packed->data = d->packed_data + at;
        at += packed_bytes(t->packed);
        bad = packed_fill(t->packed, t, d->compute.pool, e);
        weights_forget(w, t->data, t->n_bytes);
    }
    if (!bad)
        bad = tensors_check_finite(d->compute.pool, plain, n, e);
    free(plain);
    return bad;
}

int decoder_open(struct decoder **out, const struct config *c, const struct weights *w, const struct compute *compute,
                 struct err *e)
{
    struct decoder *d = NEW(struct decoder, 1);
    *out = NULL;
    d->c = c;
    d->compute = *compute;
    d->layer = NEW(struct layer, c->n_layers);
    d->owned = NEW(float *, c->n_layers * 8 + 2);
    d->matrix = NEW(struct tensor, c->n_layers * 9 + 3);
    struct loader l = {.d = d, .w = w, .e = e};
    const int64_t hidden = c->hidden_size, ple = c->ple_size, all_ple = c->n_layers * ple;
    d->embed = load_matrix(&l, -1, "embed_tokens.weight", c->vocab_size, hidden);
    load_context(&l);
    d->ple_norm = load_vector(&l, -1, "per_layer_projection_norm.weight", ple);
    d->norm = load_vector(&l, -1, "norm.weight", hidden);
    for (int i = 0; i < c->n_layers && !l.bad; i++)
        load_layer(&l, i);
    if (!l.bad) {
        d->ple_table = weights_tensor(w, full_name(&l, -1, "embed_tokens_per_layer.weight"), 2,
                                      (int64_t[]){c->vocab_size, all_ple}, e);
        l.bad = !d->ple_table ||
                weights_expect_layers(w, full_name(&l, -1, "layers."), c->n_layers, "config.json: text_config", e);
    }
    if (l.bad || pack_matrices(d, w, e)) {
        decoder_close(d);
        return -1;
    }
    new_scratch(d);
    *out = d;
    return 0;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_owned; i++)
        free(d->owned[i]);
    free(d->owned);
    for (size_t i = 0; i < d->n_matrices; i++)
        free(d->matrix[i].packed);
    if (d->packed_data)
        munmap(d->packed_data, d->packed_bytes);
    free(d->matrix);
    free(d->layer);
    free_batch(&d->chunk);
    free_batch(&d->pending);
    float *scratch[] = {d->h, d->t, d->q, d->a, d->k, d->v, d->gate, d->up, d->small, d->logits};
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        free(scratch[i]);
    free(d);
}

int decoder_packed(const struct decoder *d)
{
    int n = 0;
    for (size_t i = 0; i < d->n_matrices; i++)
        n += d->matrix[i].packed != NULL;
    return n;
}

bool decoder_token_finite(const struct decoder *d, int32_t id)
{
    const int64_t row = d->ple_table->dim[1];
    return tensor_finite(d->ple_table, config_embedded_id(d->c, id) * row, row);
}

/* ---- embeddings ------------------------------------------------------------------------------------------------ */

/* What the tasks of one pass over a batch need to know. */
struct pass {
    struct decoder *d;
    struct batch *b;
    int layer;
    const struct layer *w;
    const struct attention_kind *kind;
};

/* Runs task(p, i) for all i < n; `cost` is about how many operations one takes. */
static void spread(const struct pass *p, int n, int64_t cost, void (*task)(void *, int))
{
    pool_run(n * cost < SMALL_TASK ? NULL : p->d->compute.pool, n, task, (void *)(uintptr_t)p);
}

static void scale(float *x, int n, float factor)
{
    for (int i = 0; i < n; i++)
        x[i] *= factor;
}

static void embed_row(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    const struct row *row = &p->b->row[i];
    float *x = p->b->x + (size_t)i * (size_t)c->hidden_size;
    if (row->soft) {
        memcpy(x, row->soft, (size_t)c->hidden_size * sizeof *x);
    } else {
        tensor_read_f32(p->d->embed, (int64_t)row->id * c->hidden_size, c->hidden_size, x);
        scale(x, c->hidden_size, sqrtf((float)c->hidden_size));
    }
    for (int full = 0; full < 2; full++) {
        const size_t at = (size_t)i * (size_t)c->kind[full].rope_pairs;
        rope_angles(&c->kind[full], row->position, p->b->cosines[full] + at, p->b->sines[full] + at);
    }
}

/* ple = (rms(context / sqrt(hidden)) + token sqrt(ple)) / sqrt(2), in blocks of one layer each. The pass's batch
 * holds the projected embeddings already. */
static void ple_row(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    const struct batch *b = p->b;
    const int64_t table_row = p->d->ple_table->dim[1];
    float *token = NEW(float, c->ple_size);
    for (int l = 0; l < b->n_layers; l++) {
        float *ple = b->ple + ((size_t)i * (size_t)b->n_layers + (size_t)l) * (size_t)c->ple_size;
        tensor_read_f32(p->d->ple_table, b->row[i].id * table_row + (int64_t)(b->first_layer + l) * c->ple_size,
                        c->ple_size, token);
        scale(token, c->ple_size, sqrtf((float)c->ple_size));
        scale(ple, c->ple_size, 1 / sqrtf((float)c->hidden_size));
        p->d->compute.k->rms_norm(ple, ple, p->d->ple_norm, c->ple_size, c->norm_eps);
        p->d->compute.k->axpy(ple, token, 1, c->ple_size);
        scale(ple, c->ple_size, sqrtf(0.5f));
    }
    free(token);
}

/* Fills ple for rows [first, n) of the batch from their x, which still is the input of layer 0. */
static void embed_layers(struct decoder *d, struct batch *b, int first)
{
    const struct config *c = d->c;
    const size_t stride = (size_t)b->n_layers * (size_t)c->ple_size;
    linear(&d->compute, b == &d->chunk ? d->ple_low : d->ple_high, b->x + (size_t)first * (size_t)c->hidden_size,
           (size_t)c->hidden_size, b->n - first, b->ple + (size_t)first * stride, stride);
    struct batch rest = *b;
    rest.n = b->n - first;
    memmove(rest.row, b->row + first, (size_t)rest.n * sizeof *rest.row);
    rest.ple = b->ple + (size_t)first * stride;
    spread(&(struct pass){.d = d, .b = &rest}, rest.n, (int64_t)stride * 4, ple_row);
}

/* ---- attention ------------------------------------------------------------------------------------------------- */

static void turn(const struct pass *p, int i, float *head)
{
    const int full = p->kind == &p->d->c->kind[1];
    const size_t at = (size_t)i * (size_t)p->kind->rope_pairs;
    rope_turn(p->kind, p->b->cosines[full] + at, p->b->sines[full] + at, head);
}

/* Norms and turns a row's keys, norms its values, and stores both at the row's position. */
static void store_row(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    const struct kernels *kernels = p->d->compute.k;
    const struct row *row = &p->b->row[i];
    const struct kv_cache *cache = &row->in->seq->cache[p->layer];
    const size_t d = (size_t)p->kind->head_dim;
    for (int h = 0; h < c->n_kv_heads; h++) {
        const size_t from = ((size_t)i * (size_t)c->n_kv_heads + (size_t)h) * d;
        const size_t to = ((size_t)h * (size_t)cache->capacity + (size_t)(row->position % cache->capacity)) * d;
        kernels->rms_norm(cache->k + to, p->d->k + from, p->w->k_norm, (int)d, c->norm_eps);
        kernels->rms_norm(cache->v + to, p->d->v + from, NULL, (int)d, c->norm_eps);
        turn(p, i, cache->k + to);
    }
}

static void query_row(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    for (int h = 0; h < c->n_heads; h++) {
        float *q = p->d->q + ((size_t)i * (size_t)c->n_heads + (size_t)h) * (size_t)p->kind->head_dim;
        p->d->compute.k->rms_norm(q, q, p->w->q_norm, p->kind->head_dim, c->norm_eps);
        turn(p, i, q);
    }
}

/* The first position that a row sees. */
static int first_key(const struct attention_kind *kind, int position)
{
    return kind->window && position >= kind->window ? position - kind->window + 1 : 0;
}

/* One row's query heads that share one kv head, against the keys [first, position] in ascending order. In a ring
 * these lie in at most two stretches. Scores have scale 1. */
static void attend(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    const struct kernels *kernels = p->d->compute.k;
    const int group = c->n_heads / c->n_kv_heads, kv_head = i % c->n_kv_heads, d = p->kind->head_dim;
    const struct row *row = &p->b->row[i / c->n_kv_heads];
    const struct kv_cache *cache = &row->in->seq->cache[c->layer[p->layer].kv_layer];
    const size_t head = (size_t)kv_head * (size_t)cache->capacity * (size_t)d, at = (size_t)i * (size_t)(group * d);
    const int first = first_key(p->kind, row->position), n = row->position - first + 1;
    const int slot = first % cache->capacity, run = n < cache->capacity - slot ? n : cache->capacity - slot;
    const float *k = cache->k + head, *v = cache->v + head, *q = p->d->q + at;
    float *scores = mem_grow(NULL, (size_t)group * (size_t)n, sizeof *scores), *out = p->d->a + at;
    kernels->gemm(TENSOR_F32, k + (size_t)slot * (size_t)d, run, d, q, (size_t)d, group, scores, (size_t)n);
    kernels->gemm(TENSOR_F32, k, n - run, d, q, (size_t)d, group, scores + run, (size_t)n);
    memset(out, 0, (size_t)(group * d) * sizeof *out);
    for (int h = 0; h < group; h++)
        kernels->softmax(scores + (size_t)h * (size_t)n, n);
    kernels->weighted_sums(out, (size_t)d, scores, (size_t)n, group, v + (size_t)slot * (size_t)d, (size_t)d, run, d);
    kernels->weighted_sums(out, (size_t)d, scores + run, (size_t)n, group, v, (size_t)d, n - run, d);
    free(scores);
}

/* ---- one layer ------------------------------------------------------------------------------------------------- */

static struct pass pass_of(struct decoder *d, struct batch *b, int layer)
{
    return (struct pass){.d = d, .b = b, .layer = layer, .w = &d->layer[layer],
                         .kind = &d->c->kind[d->c->layer[layer].full]};
}

static float *row_of(float *base, int i, const struct pass *p)
{
    return base + (size_t)i * (size_t)p->d->c->hidden_size;
}

static void norm_input(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    p->d->compute.k->rms_norm(row_of(p->d->h, i, p), row_of(p->b->x, i, p), p->w->input_norm, c->hidden_size,
                              c->norm_eps);
}

/* x += rms(t, w) */
static void add_normed(const struct pass *p, int i, const float *w)
{
    const struct config *c = p->d->c;
    float *t = row_of(p->d->t, i, p);
    p->d->compute.k->rms_norm(t, t, w, c->hidden_size, c->norm_eps);
    p->d->compute.k->axpy(row_of(p->b->x, i, p), t, 1, c->hidden_size);
}

static void after_attention(void *arg, int i)
{
    const struct pass *p = arg;
    const struct config *c = p->d->c;
    add_normed(p, i, p->w->after_attention);
    p->d->compute.k->rms_norm(row_of(p->d->h, i, p), row_of(p->b->x, i, p), p->w->before_mlp, c->hidden_size,
                              c->norm_eps);
}

static void gate_mlp(void *arg, int i)
{
    const struct pass *p = arg;
    const int n = p->d->c->layer[p->layer].mlp_size;
    p->d->compute.k->gelu_tanh_mul(p->d->gate + (size_t)i * (size_t)n, p->d->up + (size_t)i * (size_t)n, n);
}

static void after_mlp(void *arg, int i)
{
    const struct pass *p = arg;
    add_normed(p, i, p->w->after_mlp);
}

static void gate_ple(void *arg, int i)
{
    const struct pass *p = arg;
    const int n = p->d->c->ple_size, block = p->layer - p->b->first_layer;
    p->d->compute.k->gelu_tanh_mul(p->d->small + (size_t)i * (size_t)n,
                                   p->b->ple + ((size_t)i * (size_t)p->b->n_layers + (size_t)block) * (size_t)n, n);
}

static void after_ple(void *arg, int i)
{
    const struct pass *p = arg;
    add_normed(p, i, p->w->after_ple);
    scale(row_of(p->b->x, i, p), p->d->c->hidden_size, p->w->scalar);
}

/* Leaves the rows' keys and values behind; d->h holds the normed input. */
static void layer_store(const struct pass *p)
{
    struct decoder *d = p->d;
    const size_t hidden = (size_t)d->c->hidden_size, width = (size_t)(d->c->n_kv_heads * p->kind->head_dim);
    linear(&d->compute, p->w->k, d->h, hidden, p->b->n, d->k, width);
    linear(&d->compute, p->w->v, d->h, hidden, p->b->n, d->v, width);
    spread(p, p->b->n, (int64_t)width * 8, store_row);
}

static void layer_attention(const struct pass *p)
{
    struct decoder *d = p->d;
    const struct config *c = d->c;
    const size_t hidden = (size_t)c->hidden_size, width = (size_t)(c->n_heads * p->kind->head_dim);
    int64_t keys = 0;
    linear(&d->compute, p->w->q, d->h, hidden, p->b->n, d->q, width);
    spread(p, p->b->n, (int64_t)width * 4, query_row);
    for (int i = 0; i < p->b->n; i++)
        keys += p->b->row[i].position - first_key(p->kind, p->b->row[i].position) + 1;
    spread(p, p->b->n * c->n_kv_heads, keys / p->b->n * p->kind->head_dim, attend);
    linear(&d->compute, p->w->o, d->a, width, p->b->n, d->t, hidden);
    spread(p, p->b->n, (int64_t)hidden * 4, after_attention);
}

static void layer_mlp(const struct pass *p)
{
    struct decoder *d = p->d;
    const size_t hidden = (size_t)d->c->hidden_size, width = (size_t)d->c->layer[p->layer].mlp_size;
    linear(&d->compute, p->w->gate, d->h, hidden, p->b->n, d->gate, width);
    linear(&d->compute, p->w->up, d->h, hidden, p->b->n, d->up, width);
    spread(p, p->b->n, (int64_t)width * 8, gate_mlp);
    linear(&d->compute, p->w->down, d->gate, width, p->b->n, d->t, hidden);
    spread(p, p->b->n, (int64_t)hidden * 4, after_mlp);
}

static void layer_ple(const struct pass *p)
{
    struct decoder *d = p->d;
    const size_t hidden = (size_t)d->c->hidden_size, width = (size_t)d->c->ple_size;
    linear(&d->compute, p->w->ple_gate, p->b->x, hidden, p->b->n, d->small, width);
    spread(p, p->b->n, (int64_t)width * 8, gate_ple);
    linear(&d->compute, p->w->ple_out, d->small, width, p->b->n, d->t, hidden);
    spread(p, p->b->n, (int64_t)hidden * 4, after_ple);
}

/* Hands a layer's output to those needed rows whose caller asked for it. `level` 0 is the input of layer 0, level
 * l + 1 the output of layer l. */
static void capture(const struct decoder *d, const struct batch *b, int level)
{
    const size_t hidden = (size_t)d->c->hidden_size, levels = (size_t)d->c->n_layers + 1;
    for (int i = 0; i < b->n; i++) {
        const struct row *row = &b->row[i];
        const struct step_input *in = row->in;
        const float *x = b->x + (size_t)i * hidden;
        if (row->out < 0)
            continue;
        if (in->tap && level == in->tap_layer + 1)
            memcpy(in->tap + (size_t)row->out * hidden, x, hidden * sizeof *x);
        if (in->hidden)
            memcpy(in->hidden + ((size_t)row->out * levels + (size_t)level) * hidden, x, hidden * sizeof *x);
    }
}

/* Whole layer but for the keys and values; d->h holds the normed input. */
static void layer_rest(const struct pass *p)
{
    layer_attention(p);
    layer_mlp(p);
    layer_ple(p);
    capture(p->d, p->b, p->layer + 1);
}

/* ---- logits ---------------------------------------------------------------------------------------------------- */

/* Rows of the pending batch whose logits are wanted, as the output matrix takes them. */
struct head { struct decoder *d; const struct row *row[LOGIT_ROWS]; int n; };

static void cap_logits(void *arg, int i)
{
    const struct head *head = arg;
    const struct config *c = head->d->c;
    float *out = head->row[i]->in->logits + (size_t)head->row[i]->out * (size_t)c->vocab_size;
    memcpy(out, head->d->logits + (size_t)i * (size_t)c->vocab_size, (size_t)c->vocab_size * sizeof *out);
    head->d->compute.k->softcap(out, c->vocab_size, c->logit_cap);
}

/* d->t holds the rows behind the final norm. */
static void finish_logits(struct head *head)
{
    struct decoder *d = head->d;
    const struct config *c = d->c;
    if (head->n == 0)
        return;
    linear(&d->compute, d->embed, d->t, (size_t)c->hidden_size, head->n, d->logits, (size_t)c->vocab_size);
    pool_run((int64_t)head->n * c->vocab_size < SMALL_TASK ? NULL : d->compute.pool, head->n, cap_logits, head);
    head->n = 0;
}

static void finish_rows(struct decoder *d)
{
    const struct config *c = d->c;
    const size_t hidden = (size_t)c->hidden_size;
    struct head head = {.d = d};
    for (int i = 0; i < d->pending.n; i++) {
        const struct row *row = &d->pending.row[i];
        if (!row->in->norm && !row->in->logits)
            continue;
        float *normed = d->t + (size_t)head.n * hidden;
        d->compute.k->rms_norm(normed, d->pending.x + (size_t)i * hidden, d->norm, c->hidden_size, c->norm_eps);
        if (row->in->norm)
            memcpy(row->in->norm + (size_t)row->out * hidden, normed, hidden * sizeof *normed);
        if (row->in->logits)
            head.row[head.n++] = row;
        if (head.n == LOGIT_ROWS)
            finish_logits(&head);
    }
    finish_logits(&head);
}

/* ---- a step ---------------------------------------------------------------------------------------------------- */

/* Takes the rows set aside from the last layer with keys and values to the end. */
static void run_pending(struct decoder *d)
{
    if (d->pending.n == 0)
        return;
    for (int l = d->c->last_kv_layer; l < d->c->n_layers; l++) {
        const struct pass p = pass_of(d, &d->pending, l);
        spread(&p, d->pending.n, (int64_t)d->c->hidden_size * 4, norm_input);
        layer_rest(&p);
    }
    finish_rows(d);
    d->pending.n = 0;
}

/* Sets the chunk's needed rows aside; their x is the input of layer 0, which their per-layer embeddings come from. */
static void set_aside(struct decoder *d)
{
    const struct config *c = d->c;
    const size_t hidden = (size_t)c->hidden_size;
    struct batch *from = &d->chunk, *to = &d->pending;
    const int first = to->n;
    for (int i = 0; i < from->n; i++) {
        if (from->row[i].out < 0)
            continue;
        memcpy(to->x + (size_t)to->n * hidden, from->x + (size_t)i * hidden, hidden * sizeof *to->x);
        for (int full = 0; full < 2; full++) {
            const size_t pairs = (size_t)c->kind[full].rope_pairs, a = (size_t)to->n * pairs, b = (size_t)i * pairs;
            memcpy(to->cosines[full] + a, from->cosines[full] + b, pairs * sizeof(float));
            memcpy(to->sines[full] + a, from->sines[full] + b, pairs * sizeof(float));
        }
        to->row[to->n++] = from->row[i];
    }
    if (to->n > first)
        embed_layers(d, to, first);
}

/* Takes all rows of the chunk up to the keys and values of last_kv_layer. Rows set aside must still find their keys
 * in the rings: there are at most CHUNK_ROWS of them, and of one sequence they are the latest. */
static void run_chunk(struct decoder *d)
{
    const struct config *c = d->c;
    const size_t hidden = (size_t)c->hidden_size;
    struct batch *b = &d->chunk;
    int needed = 0;
    for (int i = 0; i < b->n; i++)
        needed += b->row[i].out >= 0;
    if (d->pending.n + needed > CHUNK_ROWS)
        run_pending(d);
    const struct pass start = {.d = d, .b = b};
    spread(&start, b->n, (int64_t)hidden * 8, embed_row);
    capture(d, b, 0);
    set_aside(d);
    embed_layers(d, b, 0);
    for (int l = 0; l <= c->last_kv_layer; l++) {
        const struct pass p = pass_of(d, b, l);
        spread(&p, b->n, (int64_t)hidden * 4, norm_input);
        layer_store(&p);
        if (l < c->last_kv_layer)
            layer_rest(&p);
    }
    int to = d->pending.n - needed;
    for (int i = 0; i < b->n; i++)
        if (b->row[i].out >= 0)
            memcpy(d->pending.x + (size_t)to++ * hidden, b->x + (size_t)i * hidden, hidden * sizeof *b->x);
    b->n = 0;
}

void decoder_step(struct decoder *d, const struct step_input *in, int n_in)
{
    const struct config *c = d->c;
    for (int s = 0; s < n_in; s++) {
        const float *soft = in[s].soft;
        seq_reserve(in[s].seq, in[s].n);
        for (int i = 0; i < in[s].n; i++) {
            const int32_t id = in[s].ids[i];
            const bool takes_soft = soft && (id == c->image.token || id == c->audio.token);
            d->chunk.row[d->chunk.n++] = (struct row){
                .in = &in[s], .position = in[s].seq->n + i, .id = config_embedded_id(c, id),
                .soft = takes_soft ? soft : NULL, .out = i - (in[s].n - in[s].n_needed)};
            if (takes_soft)
                soft += c->hidden_size;
            if (d->chunk.n == CHUNK_ROWS)
                run_chunk(d);
        }
    }
    if (d->chunk.n)
        run_chunk(d);
    run_pending(d);
    for (int s = 0; s < n_in; s++)
        in[s].seq->n += in[s].n;
}

/* ---- what a row costs ------------------------------------------------------------------------------------------ */

static void count_matrix(const struct tensor *t, struct row_work *w, double *work)
{
    if (!t)
        return;
    w->bytes += (double)t->n_bytes;
    *work += (double)tensor_elements(t);
}

void decoder_work(const struct decoder *d, struct row_work *out)
{
    *out = (struct row_work){0};
    count_matrix(d->ple_low, out, &out->below);
    count_matrix(d->ple_high, out, &out->above);
    count_matrix(d->embed, out, &out->head);
    for (int l = 0; l < d->c->n_layers; l++) {
        const struct layer *w = &d->layer[l];
        const struct tensor *const rest[] = {w->q, w->o, w->gate, w->up, w->down, w->ple_gate, w->ple_out};
        count_matrix(w->k, out, &out->below);
        count_matrix(w->v, out, &out->below);
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
            count_matrix(rest[i], out, l < d->c->last_kv_layer ? &out->below : &out->above);
    }
}
