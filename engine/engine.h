/* engine.h - a Gemma 4 checkpoint on a CPU: files, tokenizer, chat template, media front ends, forward pass.
 *
 * The engine knows neither data sets nor metrics nor that a probe exists: a caller names a decoder layer to *tap* and
 * the *needed rows*, and gets hidden states and logits of just those rows.
 *
 *     struct engine *m;
 *     if (engine_open(&m, "checkpoint/", &(struct engine_options){.n_threads = 2}, &e)) ...
 *     struct ids prompt = {0};
 *     tokenize(engine_tokenizer(m), "<bos>Hello", 10, &prompt);
 *     struct seq *s = seq_new(m);
 *     struct step_input in = {.seq = s, .ids = prompt.id, .n = prompt.n, .n_needed = 1, .logits = logits};
 *     engine_step(m, &in, 1, &e);                   -- logits[vocab_size] of the last position
 *
 * Same answer, always: a row's hidden state and logits are the same bits whatever else is in the batch, however the
 * prompt is cut into steps, and whatever the number of threads. All arithmetic is float32 with weights as stored.
 *
 * Threads: an engine is driven by one caller at a time; it spreads the work over its own pool. Tokenizer and template
 * functions only read and may be called from any thread.
 */
#ifndef HANDOFF_ENGINE_H
#define HANDOFF_ENGINE_H

#include "engine/base.h"

/* ---- checkpoint files ------------------------------------------------------------------------------------------ */

/* TENSOR_CODED: packed in some way (ggml's quantised types), decoded to float32 where it is used. TENSOR_OTHER: a type
 * that may lie in a file but has no float32 value here (I64, U8, ...). */
enum tensor_type { TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_CODED, TENSOR_OTHER, N_TENSOR_TYPES };
struct tensor_codec;
const char *tensor_type_name(enum tensor_type type);
enum { TENSOR_MAX_DIMS = 8 };

/* One tensor as it lies in its file (mapped, read-only, maybe unaligned). dim[] is outermost first, as in safetensors:
 * a linear layer is dim = {out, in}. Rank 0 has n_dims = 0 and one element. */
struct tensor {
    const char *name;           /* as in the file */
    const char *file;           /* path of its file, for messages */
    const char *type_name;      /* as in the file: "BF16", "I64", "Q4_K" */
    enum tensor_type type;
    const struct tensor_codec *codec;       /* TENSOR_CODED: how to decode it (inside engine/ only), */
    const void *aux;                        /* what the codec wants to know besides, */
    int64_t skip;                           /* and the elements of `data` that lie in front of this tensor */
    struct packed *packed;                  /* the same values as kernels like them, or NULL (inside engine/ only) */
    int n_dims;
    int64_t dim[TENSOR_MAX_DIMS];
    const void *data;
    size_t n_bytes;
};
int64_t tensor_elements(const struct tensor *t);
/* Elements [first, first + n) in row-major order as float32, exactly; blocks as ggml itself reads them. Not for
 * TENSOR_OTHER. */
void tensor_read_f32(const struct tensor *t, int64_t first, int64_t n, float *out);

/* The tensors of a checkpoint: a folder (model.safetensors, or model.safetensors.index.json with its shards), one
 * .safetensors file, or a GGUF file (of a split one the first part: the others are found by it). Tensors of a Gemma 4
 * GGUF have the names and layouts of a text-only checkpoint folder. Everything in the headers is checked before it is
 * believed. */
struct weights;
int weights_open(struct weights **out, const char *path, struct err *e);
/* Adds the tensors of one more file; a name that is there already is an error. Pointers to tensors do not survive
 * it. */
int weights_add(struct weights *w, const char *path, struct err *e);
void weights_close(struct weights *w);                                   /* NULL is fine */
size_t weights_count(const struct weights *w);
const struct tensor *weights_at(const struct weights *w, size_t i);      /* sorted by name */
const struct tensor *weights_find(const struct weights *w, const char *name);       /* NULL if absent */
/* The named tensor if it is there with exactly this shape and a type to compute with, else NULL and *e. A dimension
 * given as -1 takes what the file has. Its values are not looked at. */
const struct tensor *weights_tensor(const struct weights *w, const char *name, int n_dims, const int64_t *dim,
                                    struct err *e);
/* The same with finite values, as a new float32 array (caller frees). */
float *weights_read(const struct weights *w, const char *name, int n_dims, const int64_t *dim, struct err *e);
/* SHA-256 over the names, types, shapes and bytes of all tensors, in name order: the same weights in one file or in
 * shards have the same fingerprint. Reads the whole checkpoint once. */
void weights_fingerprint(const struct weights *w, char hex[65]);

/* ---- the model ------------------------------------------------------------------------------------------------- */

struct engine;

struct engine_options {
    int n_threads;              /* 0: as many as the process may run on */
    const char *kernel;         /* NULL: the best for this CPU; else "generic", "avx2", "avx512", "neon" */
    const char *activations;    /* NULL or "float32"; "int8": rounded to 8 bits, one scale for each 32, in front of the
                                   decoder's matrices of whole numbers (ggml's block types, MLX's codes) */
    int image_tokens;           /* soft tokens an image may take: 70, 140, 280, 560, 1120; 0: as the checkpoint says */
    const char *media_cache;    /* folder for encoded media, made if it is not there; NULL: none */
    const char *mmproj;         /* the towers of a GGUF model; NULL: the one mmproj*.gguf beside it, if there is just
                                   one; "none": no towers */
};

/* Sizes as the files give them. */
struct model_info {
    const char *path;
    const char *architecture;   /* class name from config.json, or "gemma4" */
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, global_head_dim;
    int vocab_size, sliding_window, n_kv_shared_layers, max_positions;
    bool has_vision, has_audio;
    int32_t bos_id, pad_id;
    int n_eos;
    int32_t eos_ids[32];
    const char *kernel;         /* name of the kernel in use */
    const char *activations;    /* "float32" or "int8" */
    int n_packed;               /* matrices of whole numbers, which that concerns */
    int n_threads;
};

int engine_open(struct engine **out, const char *path, const struct engine_options *options, struct err *e);
void engine_close(struct engine *m);                                     /* NULL is fine */
const struct model_info *engine_info(const struct engine *m);
/* Why something could not be kept in the media cache (the results do not suffer); NULL: nothing failed. */
const char *engine_cache_fault(const struct engine *m);
const struct weights *engine_weights(const struct engine *m);
/* SHA-256 of what a checkpoint says besides its weights, as this engine understands it: two checkpoints with the same
 * tokenizer have the same fingerprint, whether it lies in tokenizer.json or in the metadata of a GGUF file. "" for a
 * chat template that is not there. */
struct document_sha { char config[65], tokenizer[65], chat_template[65]; };
void engine_document_sha(const struct engine *m, struct document_sha *out);
/* An extra top-level key of config.json that the engine itself has no use for; NULL if absent. */
const cJSON *engine_config(const struct engine *m, const char *key);
bool engine_is_eos(const struct engine *m, int32_t id);

/* What a checkpoint says of itself, each in words, "" if it says nothing; `odd` has a line for everything that is
 * unusual about it. Nothing is computed, so a checkpoint that cannot run here can be looked at. */
struct checkpoint_facts { struct text form, label, architecture, tokenizer, chat_template, odd; };
/* w: its tensors. values: also look for infinite values and NaN, which reads all of it. Fails where a file that is
 * there is damaged; *out is to be freed in any case. */
int checkpoint_facts_read(struct checkpoint_facts *out, const char *path, const struct weights *w, bool values,
                          struct err *e);
void checkpoint_facts_free(struct checkpoint_facts *f);

/* ---- sequences and steps --------------------------------------------------------------------------------------- */

/* One conversation: its keys and values, and how many positions it holds. Grows as needed. */
struct seq;
struct seq *seq_new(const struct engine *m);
struct seq *seq_fork(const struct seq *s);                               /* a copy that goes its own way */
void seq_free(struct seq *s);                                            /* NULL is fine */
int seq_length(const struct seq *s);
size_t seq_bytes(const struct seq *s);                                   /* memory of its keys and values */
/* Appends the keys and values that later positions can still see, and makes a sequence of n positions from these
 * bytes: of the same checkpoint, with the same kernel. NULL if they are not so many. */
void seq_save(const struct seq *s, struct text *out);
struct seq *seq_load(const struct engine *m, int n, const void *bytes, size_t size);
/* Whether a position with this id takes a row of step_input.soft, if there are any. */
bool engine_takes_soft(const struct engine *m, int32_t id);

/* Advances one sequence by n tokens. Rows are the n positions; the last n_needed of them are the needed rows, whose
 * outputs are wanted; all others only leave their keys and values behind, and stop after the last layer that owns a
 * KV cache. */
struct step_input {
    struct seq *seq;
    const int32_t *ids;         /* [n], each in [0, vocab_size) */
    int n;
    const float *soft;          /* soft tokens for the positions that hold an image or audio id, in order, as
                                   [count, hidden_size]; NULL: none, such an id then counts as pad */
    int n_needed;               /* 0..n */
    int tap_layer;              /* 0-based; its output goes to tap */
    float *tap;                 /* out [n_needed, hidden_size], or NULL */
    float *logits;              /* out [n_needed, vocab_size], soft-capped, or NULL */
    float *norm;                /* out [n_needed, hidden_size], behind the final norm, or NULL */
    float *hidden;              /* out [n_needed, n_layers + 1, hidden_size], or NULL: row 0 is the input of layer 0 */
};
/* All inputs in one pass over the weights. Two inputs must not share a seq. On failure (an id out of range, more
 * positions than the model has) nothing has changed. */
int engine_step(struct engine *m, const struct step_input *in, int n_in, struct err *e);

/* Calls task(arg, i) for every i in [0, n), in any order, on the engine's threads. */
void engine_spread(const struct engine *m, int n, void (*task)(void *arg, int i), void *arg);

/* The best of a few measurements with this engine's threads, per second: bytes read from memory, multiply-adds in
 * float32, of bf16 pairs and of 8-bit integers (0: the CPU has no such instruction). Takes a second or two. */
struct machine_limits { double read_bytes, f32, bf16, int8; };
void engine_measure_limits(const struct engine *m, struct machine_limits *out);

/* What one position costs in the decoder's matrices, attention aside. */
struct row_work {
    double bytes;               /* of weights that one decoded token reads, its logits included */
    double below, above;        /* multiply-adds up to the last keys and values that it leaves behind, and from there */
    double head;                /* and for its logits */
};
void engine_work(const struct engine *m, struct row_work *out);

/* ---- tokenizer ------------------------------------------------------------------------------------------------- */

struct ids { int32_t *id; int n, cap; };
void ids_push(struct ids *v, int32_t id);
void ids_free(struct ids *v);

struct tokenizer;
/* tokenizer.json, a folder or bundle with one, or the metadata of a GGUF file: BPE with byte fallback and added tokens. */
int tokenizer_open(struct tokenizer **out, const char *path, struct err *e);
void tokenizer_close(struct tokenizer *t);
const struct tokenizer *engine_tokenizer(const struct engine *m);
/* Appends the ids of a text; no <bos> is added. Text that is not UTF-8 has its bad bytes read as U+FFFD. */
void tokenize(const struct tokenizer *t, const char *s, size_t len, struct ids *out);
/* Appends the text of ids; special tokens are shown only if asked for. */
void detokenize(const struct tokenizer *t, const int32_t *id, int n, bool show_special, struct text *out);
/* SHA-256 over pieces and merges in their order. Which added tokens a file calls special is left out: converters
 * disagree about it. */
void tokenizer_fingerprint(const struct tokenizer *t, char hex[65]);
int tokenizer_size(const struct tokenizer *t);                           /* largest id + 1 */
int32_t tokenizer_find(const struct tokenizer *t, const char *piece);    /* id of a whole piece, -1 if none */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id);      /* NULL if the id has none */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

/* ---- chat template --------------------------------------------------------------------------------------------- */

/* A chat template in Jinja's language (the part of it that chat templates use). */
struct chat_template;
int chat_template_open(struct chat_template **out, const char *source, size_t len, const char *where, struct err *e);
void chat_template_close(struct chat_template *t);
const struct chat_template *engine_chat_template(const struct engine *m);       /* NULL if the checkpoint has none */
/* Renders a conversation, [{"role", "content": text or parts}], with the template's variables messages, bos_token,
 * add_generation_prompt, enable_thinking. */
int chat_render(const struct chat_template *t, const cJSON *messages, bool add_generation_prompt,
                bool enable_thinking, struct text *out, struct err *e);

/* ---- media ----------------------------------------------------------------------------------------------------- */

enum media_kind { MEDIA_IMAGE, MEDIA_AUDIO };

/* An encoded picture or sound as it came from disk. */
struct media {
    enum media_kind kind;
    const void *bytes;
    size_t n_bytes;
    const char *name;           /* for messages */
    double begin_s, end_s;      /* part of a long recording in seconds; end_s = 0: all of it */
    double max_s;               /* use at most so much of a sound, 0: all of it */
};

/* What replaces one placeholder: soft tokens in one or more parts (a sound of more than 30 s has several). */
struct media_tokens {
    int n_parts;
    int *part_tokens;           /* [n_parts] */
    int n_tokens;               /* their sum */
    float *soft;                /* [n_tokens, hidden_size] */
    char media_sha[65];         /* of the encoded bytes */
    char input_sha[65];         /* of the resized pixels or the mel frames */
    double seconds, used_seconds;           /* audio: length of the sound, and how much of it was encoded */
    double encode_ms;
};
/* Encodes several at once; errs[i].code != 0 says that item i failed (the others are good). Returns how many failed. */
int engine_encode(struct engine *m, const struct media *media, int n, struct media_tokens *out, struct err *errs);
void media_tokens_free(struct media_tokens *t);

/* Tokenizes a rendered prompt and expands its placeholders: each image or audio placeholder becomes begin marker,
 * soft tokens, end marker, for every part. `soft` is the concatenation for step_input (caller frees; NULL if none).
 * The number of placeholders of each kind must equal that of the media. */
int engine_prompt(const struct engine *m, const char *rendered, size_t len, const struct media_tokens *media,
                  const enum media_kind *kinds, int n_media, struct ids *ids, float **soft, struct err *e);

#endif
