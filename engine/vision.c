/* Vision set-up and the way of a picture: bytes, pixels of the right size, batches of patches, soft tokens. */
#include "engine/vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = 16,             /* pictures that are decoded before they go through the tower */
    BATCH_ROWS = 4096       /* patches that go through the tower at once, unless one picture alone has more */
};

static const char *const where = "config.json: vision_config";

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

static int read_int(const cJSON *config, const char *key, int64_t lo, int64_t hi, int64_t fallback, int *out,
                    struct err *e)
{
    int64_t v;
    if (json_int(config, key, lo, hi, fallback, &v, where, e))
        return -1;
    *out = (int)v;
    return 0;
}

static int read_real(const cJSON *config, const char *key, double lo, double hi, double fallback, double *out,
                     struct err *e)
{
    const cJSON *v = json_get(config, key);
    *out = v && cJSON_IsNumber(v) ? v->valuedouble : v && !cJSON_IsNull(v) ? NAN : fallback;
    return *out >= lo && *out <= hi ? 0
        : err_input(e, "%s: key \"%s\": a number from %g to %g was expected", where, key, lo, hi);
}

/* What would be computed in another way. */
static int refuse_other_ways(const struct vision *v, const cJSON *config, struct err *e)
{
    const char *activation = json_string(config, "hidden_activation");
    const char *rope = json_string(json_get(config, "rope_parameters"), "rope_type");
    int kv_heads;
    if (activation && strcmp(activation, "gelu_pytorch_tanh") != 0)
        return err_input(e, "%s: key \"hidden_activation\": \"gelu_pytorch_tanh\" was expected", where);
    if (rope && strcmp(rope, "default") != 0)
        return err_input(e, "%s: key \"rope_type\": \"default\" was expected", where);
    if (cJSON_IsTrue(json_get(config, "attention_bias")))
        return err_input(e, "%s: key \"attention_bias\": false was expected", where);
    return read_int(config, "num_key_value_heads", v->n_heads, v->n_heads, v->n_heads, &kv_heads, e);
}

static int read_sizes(struct vision *v, const cJSON *config, struct err *e)
{
    double eps;
    if (!cJSON_IsObject(config))
        return err_input(e, "%s: an object was expected", where);
    if (read_int(config, "hidden_size", 4, 1 << 15, 0, &v->hidden, e) ||
        read_int(config, "num_hidden_layers", 1, 1024, 0, &v->n_layers, e) ||
        read_int(config, "num_attention_heads", 1, 1024, 0, &v->n_heads, e) ||
        read_int(config, "head_dim", 4, 1024, v->hidden / v->n_heads, &v->head_dim, e) ||
        read_int(config, "intermediate_size", 1, 1 << 17, 0, &v->mlp_size, e) ||
        read_int(config, "patch_size", 1, 64, 16, &v->grid.patch, e) ||
        read_int(config, "pooling_kernel_size", 1, 16, 3, &v->grid.pool, e) ||
        read_real(config, "rms_norm_eps", 1e-12, 1e-2, 1e-6, &eps, e) ||
        read_real(json_get(config, "rope_parameters"), "rope_theta", 1, 1e9, 100, &v->rope.rope_theta, e) ||
        refuse_other_ways(v, config, e))
        return -1;
    if (v->head_dim % 4)
        return err_input(e, "%s: key \"head_dim\": a multiple of 4 was expected, it is %d", where, v->head_dim);
    v->eps = (float)eps;
    return 0;
}

static bool is_budget(int n)
{
    return n == 70 || n == 140 || n == 280 || n == 560 || n == 1120;
}

/* The processor's settings are nested or flat, depending on which of its two files it is. */
static int read_processor(struct vision *v, const cJSON *config, const cJSON *processor, int image_tokens,
                          struct err *e)
{
    const char *file = "processor_config.json: image_processor";
    const cJSON *p = json_get(processor, "image_processor") ? json_get(processor, "image_processor") : processor;
    const char *keys[] = {"max_soft_tokens", "image_seq_length"};
    int64_t budget = 280, same;
    if (json_int(config, "vision_soft_tokens_per_image", 1, 1 << 20, budget, &budget, "config.json", e))
        return -1;
    for (int i = 1; i >= 0; i--)
        if (json_int(p, keys[i], 1, 1 << 20, budget, &budget, file, e))
            return -1;
    if (image_tokens && !is_budget(image_tokens))
        return err_set(e, EXIT_USAGE, "%d soft tokens an image: 70, 140, 280, 560 or 1120 was expected", image_tokens);
    v->grid.max_tokens = image_tokens ? image_tokens : (int)budget;
    if (!is_budget(v->grid.max_tokens))
        return err_input(e, "%s: key \"max_soft_tokens\": 70, 140, 280, 560 or 1120 was expected, it is %d", file,
                         v->grid.max_tokens);
    if (json_int(p, "patch_size", v->grid.patch, v->grid.patch, v->grid.patch, &same, file, e) ||
        json_int(p, "pooling_kernel_size", v->grid.pool, v->grid.pool, v->grid.pool, &same, file, e) ||
        json_int(p, "resample", 3, 3, 3, &same, file, e))
        return -1;
    if (cJSON_IsTrue(json_get(p, "do_normalize")))
        return err_input(e, "%s: key \"do_normalize\": false was expected", file);
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

static float *read_vector(const struct weights *w, const char *prefix, const char *name, int64_t n, struct err *e)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return weights_read(w, full, 1, &n, e);
}

static int open_layer(struct vision_layer *l, const struct vision *v, const struct weights *w, int index, bool bounds,
                      struct err *e)
{
    char prefix[128], name[256];
    const int64_t width = (int64_t)v->n_heads * v->head_dim, hidden = v->hidden, inner = v->mlp_size;
    const struct { float **to; const char *name; int64_t n; } vectors[] = {
        {&l->norm_in, "input_layernorm.weight", hidden},
        {&l->norm_attention, "post_attention_layernorm.weight", hidden},
        {&l->norm_mlp_in, "pre_feedforward_layernorm.weight", hidden},
        {&l->norm_mlp, "post_feedforward_layernorm.weight", hidden},
        {&l->q_norm, "self_attn.q_norm.weight", v->head_dim},
        {&l->k_norm, "self_attn.k_norm.weight", v->head_dim}};
    const struct { struct clipped *to; const char *name; int64_t out, in; } matrices[] = {
        {&l->q, "self_attn.q_proj", width, hidden}, {&l->k, "self_attn.k_proj", width, hidden},
        {&l->v, "self_attn.v_proj", width, hidden}, {&l->o, "self_attn.o_proj", hidden, width},
        {&l->gate, "mlp.gate_proj", inner, hidden}, {&l->up, "mlp.up_proj", inner, hidden},
        {&l->down, "mlp.down_proj", hidden, inner}};
    snprintf(prefix, sizeof prefix, "model.vision_tower.encoder.layers.%d.", index);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (!(*vectors[i].to = read_vector(w, prefix, vectors[i].name, vectors[i].n, e)))
            return -1;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, matrices[i].name);
        if (clipped_open(matrices[i].to, w, name, matrices[i].out, matrices[i].in, bounds, e))
            return -1;
    }
    return 0;
}

static int open_tensors(struct vision *v, const struct weights *w, const cJSON *config, const cJSON *vision,
                        struct err *e)
{
    const int64_t patch_size = (int64_t)v->grid.patch * v->grid.patch * 3;
    const cJSON *nested = json_get(config, "text_config");       /* a folder with the decoder alone has none */
    int64_t text_width, n_positions;
    if (json_int(nested ? nested : config, "hidden_size", 1, 1 << 20, 0, &text_width, "config.json: text_config", e) ||
        json_int(vision, "position_embedding_size", 1, 1 << 20, 0, &n_positions, where, e))
        return -1;
    v->patch_proj = weights_tensor(w, "model.vision_tower.patch_embedder.input_proj.weight", 2,
                                   (int64_t[]){v->hidden, patch_size}, e);
    v->table = v->patch_proj ? weights_tensor(w, "model.vision_tower.patch_embedder.position_embedding_table", 3,
                                              (int64_t[]){2, n_positions, v->hidden}, e) : NULL;
    v->projector = v->table ? weights_tensor(w, "model.embed_vision.embedding_projection.weight", 2,
                                             (int64_t[]){text_width, v->hidden}, e) : NULL;
    if (!v->projector)
        return -1;
    v->n_positions = (int)v->table->dim[1];
    v->soft_width = (int)v->projector->dim[0];
    if (cJSON_IsTrue(json_get(vision, "standardize"))) {
        v->std_bias = read_vector(w, "model.vision_tower.", "std_bias", v->hidden, e);
        v->std_scale = v->std_bias ? read_vector(w, "model.vision_tower.", "std_scale", v->hidden, e) : NULL;
        if (!v->std_scale)
            return -1;
    } else if (weights_find(w, "model.vision_tower.std_bias") || weights_find(w, "model.vision_tower.std_scale")) {
        return err_input(e, "%s: key \"standardize\": true was expected, the checkpoint holds std_bias or std_scale",
                         where);
    }
    v->layers = NEW(struct vision_layer, v->n_layers);
    for (int i = 0; i < v->n_layers; i++)
        if (open_layer(&v->layers[i], v, w, i, cJSON_IsTrue(json_get(vision, "use_clipped_linears")), e))
            return -1;
    return weights_expect_layers(w, "model.vision_tower.encoder.layers.", v->n_layers, where, e);
}

static void open_rope(struct vision *v)
{
    const int pairs = v->head_dim / 4, longest = v->grid.max_tokens * v->grid.pool;
    v->rope.head_dim = v->head_dim / 2;
    v->rope.rope_pairs = pairs;
    rope_frequencies(&v->rope);
    v->n_angles = longest < v->n_positions ? longest : v->n_positions;
    v->cosines = NEW(float, v->n_angles * pairs);
    v->sines = NEW(float, v->n_angles * pairs);
    for (int i = 0; i < v->n_angles; i++)
        rope_angles(&v->rope, i, v->cosines + i * pairs, v->sines + i * pairs);
}

int vision_open(struct vision **out, const struct weights *w, const cJSON *config, const cJSON *processor,
                int image_tokens, struct err *e)
{
    const cJSON *vision = json_get(config, "vision_config");
    struct vision *v = NEW(struct vision, 1);
    if (read_sizes(v, vision, e) || read_processor(v, config, processor, image_tokens, e) ||
        open_tensors(v, w, config, vision, e)) {
        vision_close(v);
        return -1;
    }
    open_rope(v);
    *out = v;
    return 0;
}

void vision_close(struct vision *v)
{
    if (!v)
        return;
    for (int i = 0; v->layers && i < v->n_layers; i++) {
        struct vision_layer *l = &v->layers[i];
        float *vectors[] = {l->norm_in, l->norm_attention, l->norm_mlp_in, l->norm_mlp, l->q_norm, l->k_norm};
        for (size_t j = 0; j < sizeof vectors / sizeof *vectors; j++)
            free(vectors[j]);
    }
    free(v->layers);
    free(v->std_bias);
    free(v->std_scale);
    free(v->rope.frequency);
    free(v->cosines);
    free(v->sines);
    free(v);
}

/* ---- batches --------------------------------------------------------------------------------------------------- */

static int n_patches(const struct vision *v, const struct image *im)
{
    return im->width / v->grid.patch * (im->height / v->grid.patch);
}

static int n_soft(const struct vision *v, const struct image *im)
{
    return n_patches(v, im) / (v->grid.pool * v->grid.pool);
}

struct patch_job { const struct vision *v; struct vision_batch *b; };

static void cut_picture(void *arg, int i)
{
    const struct patch_job *j = arg;
    const size_t row = (size_t)j->b->first_row[i], patch = (size_t)j->v->grid.patch;
    image_patches(j->b->picture[i], j->v->grid.patch, j->b->patches + row * patch * patch * 3,
                  j->b->positions + 2 * row);
}

static void encode_batch(const struct vision *v, const struct compute *c, const struct image *const *pictures, int n,
                         float *pooled, float *soft)
{
    struct vision_batch b = {.n_pictures = n, .picture = (const struct image **)pictures};
    b.first_row = NEW(int, n + 1);
    b.first_pooled = NEW(int, n + 1);
    for (int i = 0; i < n; i++) {
        b.first_row[i + 1] = b.n_rows += n_patches(v, pictures[i]);
        b.first_pooled[i + 1] = b.n_pooled += n_soft(v, pictures[i]);
    }
    b.patches = mem_grow(NULL, (size_t)b.n_rows * (size_t)(v->grid.patch * v->grid.patch * 3), sizeof *b.patches);
    b.positions = mem_grow(NULL, (size_t)b.n_rows * 2, sizeof *b.positions);
    float *own = pooled ? NULL : mem_grow(NULL, (size_t)b.n_pooled * (size_t)v->hidden, sizeof *own);
    pool_run(c->pool, n, cut_picture, &(struct patch_job){v, &b});
    vision_tower(v, c, &b, pooled ? pooled : own, soft);
    free(own);
    free(b.patches);
    free(b.positions);
    free(b.first_row);
    free(b.first_pooled);
}

void vision_encode_resized(const struct vision *v, const struct compute *c, const struct image *const *pictures, int n,
                           float *pooled, float *soft)
{
    for (int i = 0; i < n;) {
        int rows = 0, tokens = 0, end = i;
        for (; end < n && (end == i || rows + n_patches(v, pictures[end]) <= BATCH_ROWS); end++) {
            rows += n_patches(v, pictures[end]);
            tokens += n_soft(v, pictures[end]);
        }
        encode_batch(v, c, pictures + i, end - i, pooled, soft);
        pooled = pooled ? pooled + (size_t)tokens * (size_t)v->hidden : NULL;
        soft += (size_t)tokens * (size_t)v->soft_width;
        i = end;
    }
}

/* ---- from bytes to soft tokens --------------------------------------------------------------------------------- */

struct group {
    const struct vision *v;
    const struct media *media;
    struct media_tokens *out;
    struct err *errs;
    struct image sized[GROUP];
};

static void hash_picture(const struct image *im, char hex[65])
{
    struct sha256 s;
    uint8_t size[8];
    for (int i = 0; i < 4; i++) {
        size[i] = (uint8_t)(im->width >> 8 * i);
        size[4 + i] = (uint8_t)(im->height >> 8 * i);
    }
    sha256_init(&s);
    sha256_update(&s, size, sizeof size);
    sha256_update(&s, im->rgb, (size_t)im->width * (size_t)im->height * 3);
    sha256_hex(&s, hex);
}

static void prepare(void *arg, int i)
{
    struct group *g = arg;
    const struct media *m = &g->media[i];
    struct err *e = &g->errs[i];
    struct image full = {0};
    int w, h;
    if (image_decode(&full, m->bytes, m->n_bytes, m->name, e) == 0 &&
        image_fit(full.width, full.height, &g->v->grid, &w, &h, m->name, e) == 0) {
        if (w / g->v->grid.patch > g->v->n_angles || h / g->v->grid.patch > g->v->n_angles)
            err_input(e, "%s: %d x %d patches, but tensor %s has only %d positions a side; a smaller number of image "
                      "tokens may fit", m->name, w / g->v->grid.patch, h / g->v->grid.patch, g->v->table->name,
                      g->v->n_positions);
        else
            image_resize(&full, w, h, &g->sized[i]);
    }
    image_free(&full);
    if (e->code)
        return;
    g->out[i].n_parts = 1;
    g->out[i].part_tokens = NEW(int, 1);
    g->out[i].n_tokens = g->out[i].part_tokens[0] = n_soft(g->v, &g->sized[i]);
    hash_picture(&g->sized[i], g->out[i].input_sha);
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

static int encode_group(struct group *g, const struct compute *c, int n)
{
    const struct image *good[GROUP];
    int index[GROUP], n_good = 0, n_failed = 0, tokens = 0;
    const size_t width = (size_t)g->v->soft_width;
    pool_run(c->pool, n, prepare, g);
    for (int i = 0; i < n; i++)
        if (g->errs[i].code == 0) {
            index[n_good] = i;
            good[n_good++] = &g->sized[i];
            tokens += g->out[i].n_tokens;
        }
    float *soft = mem_grow(NULL, (size_t)tokens * width + 1, sizeof *soft), *at = soft;
    vision_encode_resized(g->v, c, good, n_good, NULL, soft);
    for (int j = 0; j < n_good; j++) {
        struct media_tokens *t = &g->out[index[j]];
        const size_t size = (size_t)t->n_tokens * width;
        if (all_finite(at, size)) {
            t->soft = mem_alloc(size, sizeof *t->soft);
            memcpy(t->soft, at, size * sizeof *t->soft);
        } else {
            err_input(&g->errs[index[j]], "%s: the vision tower gives values that are not finite; its weights in %s "
                      "are damaged", g->media[index[j]].name, g->v->table->file);
            free(t->part_tokens);
            *t = (struct media_tokens){0};
        }
        at += size;
    }
    free(soft);
    for (int i = 0; i < n; i++) {
        n_failed += g->errs[i].code != 0;
        image_free(&g->sized[i]);
    }
    return n_failed;
}

int vision_encode(const struct vision *v, const struct compute *c, const struct media *media, int n,
                  struct media_tokens *out, struct err *errs)
{
    int n_failed = 0;
    for (int i = 0; i < n; i++) {
        out[i] = (struct media_tokens){0};
        errs[i] = (struct err){0};
    }
    for (int i = 0; i < n; i += GROUP) {
        struct group g = {.v = v, .media = media + i, .out = out + i, .errs = errs + i};
        n_failed += encode_group(&g, c, n - i < GROUP ? n - i : GROUP);
    }
    return n_failed;
}
