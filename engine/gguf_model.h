/* gguf_model.h - what a GGUF file of Gemma 4 says in its metadata, as the documents that a checkpoint folder has (inside
 * engine/ only). Keys and names: llama.cpp's architecture "gemma4", and "gemma-4-e2b-it-hybrid" with a probe. */
#ifndef HANDOFF_GGUF_MODEL_H
#define HANDOFF_GGUF_MODEL_H

#include "engine/gguf.h"

struct gguf_documents { cJSON *config, *tokenizer; char *chat_template; };      /* chat_template may be NULL */
/* config is a text-only config.json, tokenizer a tokenizer.json. */
int gguf_documents_read(struct gguf_documents *d, const struct gguf *g, struct err *e);
void gguf_documents_free(struct gguf_documents *d);

/* Whether the file is a Gemma 4 decoder; other architectures keep their own tensor names. */
bool gguf_is_gemma4(const struct gguf *g);
/* The name that a text-only checkpoint folder has for a tensor of such a file ("model.layers.3.mlp.up_proj.weight"); the
 * name itself where there is none. From the arena. */
const char *gguf_tensor_name(struct arena *a, const char *name);

#endif
