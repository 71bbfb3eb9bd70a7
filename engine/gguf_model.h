/* gguf_model.h - what GGUF files of Gemma 4 say in their metadata, as the documents that a checkpoint folder has
 * (inside engine/ only). Keys and names: llama.cpp's architectures "gemma4" and "clip" (projectors gemma4v and
 * gemma4a), and "gemma-4-e2b-it-hybrid" with a probe. */
#ifndef HANDOFF_GGUF_MODEL_H
#define HANDOFF_GGUF_MODEL_H

#include "engine/gguf.h"

/* Keys of this program's own: every id that ends an answer; the budget of a picture. */
#define GGUF_STOP_TOKENS "tokenizer.ggml.eos_token_ids"
#define GGUF_IMAGE_TOKENS "max_soft_tokens"             /* behind "clip.vision." */

enum gguf_content { GGUF_OTHER, GGUF_DECODER, GGUF_PROJECTOR };
enum gguf_content gguf_content(const struct gguf *g);
/* The architecture's name of a decoder, which its keys begin with; NULL: it is none. */
const char *gguf_decoder_architecture(const struct gguf *g);
/* The name that a checkpoint folder has for a tensor ("model.layers.3.mlp.up_proj.weight"); the name itself where
 * there is none. From the arena. */
const char *gguf_tensor_name(struct arena *a, const char *name);
/* The inverse, for any name that a checkpoint has for a tensor of the decoder, a tower or the probe; NULL for others. */
const char *gguf_file_name(struct arena *a, const char *name);

/* Gives a tower's tensor of a checkpoint folder (`patch`: side of a picture's patches) the layout of a projector file;
 * changed values are from the arena. Its name stays. */
void gguf_projector_layout(struct arena *a, struct tensor *t, int patch);

/* Tensors of ggml's block types; aux is the struct ggml_type. */
extern const struct tensor_codec ggml_codec;

/* config.json, tokenizer.json and the chat template of a decoder; the caller frees them. `w` holds its tensors; NULL:
 * no configuration is wanted. */
struct gguf_documents {
    const char *architecture;
    cJSON *config, *tokenizer;
    bool has_template;
    struct text chat_template;
};
int gguf_documents_read(struct gguf_documents *d, const struct gguf *g, const struct weights *w, struct err *e);
void gguf_documents_free(struct gguf_documents *d);

/* Pieces that stand for media in a prompt, and the keys of their ids in config.json; an entry without a key ends it. */
struct gguf_mark { const char *key, *piece; };
extern const struct gguf_mark gguf_marks[];

/* Adds what a projector file says to config.json (vision_config, audio_config) and makes a processor_config.json
 * (gguf_towers.c). */
int gguf_towers_read(cJSON *config, cJSON **processor, const struct gguf *g, const struct weights *w, struct err *e);

/* Reads numbers PREFIX.name until the first fault, which is kept. */
struct gguf_reader { const struct gguf *g; const char *prefix; struct err *e; bool bad; };
/* Element i of an array; a scalar counts for every i. */
double gguf_read(struct gguf_reader *r, const char *name, uint64_t i);
double gguf_read_or(struct gguf_reader *r, const char *name, double fallback);     /* an absent key gives fallback */
/* The decimal that was meant by a value that is float32 in the file. */
double gguf_decimal(double v);

#endif
