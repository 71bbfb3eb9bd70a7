/* internal.h - what the files of engine/ share and nobody else sees: the open engine, its configuration and decoder. */
#ifndef HANDOFF_ENGINE_INTERNAL_H
#define HANDOFF_ENGINE_INTERNAL_H

#include "engine/kernels.h"
#include "engine/towers.h"

/* ---- configuration (config.c) ---------------------------------------------------------------------------------- */

/* Ids that stand for one kind of media in a prompt; -1 where the checkpoint names none. */
struct placeholder { int32_t token, begin, end; };

/* One kind of attention. A rope pair c < rope_pairs turns by position * theta^(-2c/head_dim), the others stay. */
struct attention_kind {
    int head_dim, rope_pairs;
    double rope_theta;
    double *frequency;          /* [rope_pairs], radians per position */
    int window;                 /* keys that a row sees, itself included; 0: all */
};

struct layer_config {
    bool full;                  /* full or sliding attention */
    int mlp_size;
    int kv_layer;               /* the layer whose keys and values it reads: itself, or an earlier one */
};

struct config {
    const char *prefix;         /* of the decoder's tensor names: "model.language_model." or "model." */
    int n_layers, hidden_size, n_heads, n_kv_heads, vocab_size, max_positions;
    int n_kv_shared_layers;
    int last_kv_layer;          /* the last layer that owns keys and values */
    int ple_size;               /* width of a per-layer embedding */
    float norm_eps, logit_cap;
    struct attention_kind kind[2];          /* [full] */
    struct layer_config *layer;             /* [n_layers] */
    int32_t pad_id, bos_id;
    int n_eos;
    int32_t eos_ids[32];
    struct placeholder image, audio;
    int32_t video_id;           /* -1: none */
};
/* Reads config.json (already parsed, `where` names it) and generation_config.json (may be NULL); everything that this
 * engine would compute wrongly is refused. Sizes are only plausible: decoder_open compares them with the tensors. */
int config_read(struct config *c, const cJSON *json, const cJSON *generation, const struct weights *w,
                const char *where, struct err *e);
void config_free(struct config *c);

/* ---- weights (weights.c, safetensors.c) ------------------------------------------------------------------------- */

/* Appends the tensors of a safetensors file that is already mapped. Names, dimensions and types are copied into `a`. */
struct tensor_list { struct tensor *t; size_t n, cap; };
int safetensors_parse(const struct mapped *file, struct arena *a, struct tensor_list *out, struct err *e);
void tensor_list_push(struct tensor_list *l, const struct tensor *t);
/* What a coded tensor can do; all but `read` may be left out. */
struct tensor_codec {
    /* Decodes elements [first, first + n) of t->data, whatever blocks these lie in. */
    void (*read)(const struct tensor *t, int64_t first, int64_t n, float *out);
    /* Hashes whatever the values depend on; without it that is t->data. */
    void (*hash)(const struct tensor *t, struct sha256 *sha);
    bool is_finite;             /* opening it has made sure that all values are */
    /* Products with a matrix may be cheaper in another domain: `turn` takes one row of activations there (x[dim[1]] to
     * out[turned_width]), read_turned rows [row, row + n) of the weights. All three or none. */
    int64_t (*turned_width)(const struct tensor *t);
    void (*turn)(const struct tensor *t, const float *x, float *out);
    void (*read_turned)(const struct tensor *t, int64_t row, int64_t n, float *out);
    /* The values as whole numbers with scales (packed.h), if the tensor has them: format, and the per_scale elements
     * from `first` on, a multiple of that. Both or none. */
    bool (*code_format)(const struct tensor *t, struct code_format *out);
    void (*read_codes)(const struct tensor *t, int64_t first, struct code_run *out);
};
/* Element i of an array of float16 at any address. */
float half_to_f32(const void *halves, uint64_t i);
/* Rounds to F32, F16 or BF16, to even on a tie; what is too large becomes infinite. `out` must be aligned. */
void f32_to_plain(enum tensor_type type, const float *x, int64_t n, void *out);
/* The Cactus bundle that the weights lie in; NULL: none. */
struct bundle;
struct bundle *weights_bundle(const struct weights *w);
/* Refuses a tensor PREFIX<i>.* with i >= n_layers: without it the model would run, but be another one than the file's.
 * `where` is the part of config.json that counts the layers. */
int weights_expect_layers(const struct weights *w, const char *prefix, int n_layers, const char *where, struct err *e);
/* Gives the memory of n bytes of a tensor's data back, if they lie in a mapped file: they are read again when they are
 * used again. */
void weights_forget(const struct weights *w, const void *data, size_t n);
/* Whether elements [first, first + n) are all finite. */
bool tensor_finite(const struct tensor *t, int64_t first, int64_t n);
/* The error that a tensor holds infinite values or NaN. */
int tensor_infinite(const struct tensor *t, struct err *e);
/* Looks through whole tensors on all threads; the error names the first that holds infinite values or NaN. */
int tensors_check_finite(struct pool *pool, const struct tensor *const *t, size_t n, struct err *e);

/* ---- decoder (decoder.c, seq.c, rope.c) ------------------------------------------------------------------------- */

/* Rows that go through a layer together; a longer step is cut into such chunks. */
enum { CHUNK_ROWS = 256 };

struct decoder;
int decoder_open(struct decoder **out, const struct config *c, const struct weights *w, const struct compute *compute,
                 struct err *e);
void decoder_close(struct decoder *d);
/* How many matrices are packed. */
int decoder_packed(const struct decoder *d);
/* The inputs have been checked by engine_step. */
void decoder_step(struct decoder *d, const struct step_input *in, int n_in);
void decoder_work(const struct decoder *d, struct row_work *out);
/* Whether the token's per-layer embeddings are finite (that table is too large to be checked as a whole). */
bool decoder_token_finite(const struct decoder *d, int32_t id);
/* The id whose embeddings stand for `id`: the pad id for placeholders. */
int32_t config_embedded_id(const struct config *c, int32_t id);

/* Keys and values of one layer: [n_kv_heads, capacity, head_dim] each. A sliding layer's capacity stops growing at
 * window + CHUNK_ROWS - 1; from then on position p lies in slot p % capacity. */
struct kv_cache { float *k, *v; int capacity; };

struct seq {
    const struct config *config;
    int n;                      /* positions held */
    bool in_step;               /* taken by an input of the step under way */
    struct kv_cache *cache;     /* [last_kv_layer + 1] */
};
/* Makes room for n more positions in every layer. */
void seq_reserve(struct seq *s, int n);

void rope_frequencies(struct attention_kind *kind);
/* cos and sin of the rope_pairs angles at a position. */
void rope_angles(const struct attention_kind *kind, int position, float *cosines, float *sines);
/* Turns the pairs (c, c + head_dim / 2), c < rope_pairs, of one head. */
void rope_turn(const struct attention_kind *kind, const float *cosines, const float *sines, float *head);

/* ---- the engine (engine.c) --------------------------------------------------------------------------------------- */

struct engine {
    struct model_info info;
    char *path;
    const char *architecture;               /* as a GGUF file names it, NULL: config.json does */
    int image_tokens;                       /* 0: as the checkpoint says */
    char *projector;                        /* file with the towers of a GGUF model, NULL: none */
    int n_projectors;                       /* files beside the model that may be it */
    struct weights *weights;
    cJSON *config_json, *processor_json;
    struct config config;
    struct compute compute;
    struct decoder *decoder;
    struct tokenizer *tokenizer;
    struct chat_template *chat_template;    /* NULL: none */
    char template_sha[65];                  /* "": none */
    struct vision *vision;                  /* NULL: none */
    struct audio *audio;                    /* NULL: none */
    char *media_cache;                      /* folder, NULL: none */
    struct err cache_fault;                 /* the first failure to write there */
    char vision_key[65], audio_key[65];     /* what cached embeddings depend on besides the media; "": not yet known */
};

#endif
