/* documents.h - what a checkpoint says besides its weights (inside engine/ only): the JSON files and the chat template
 * of a folder or a Cactus bundle, or the same made from the metadata of GGUF files. What opens a model does not know
 * which it was. */
#ifndef HANDOFF_DOCUMENTS_H
#define HANDOFF_DOCUMENTS_H

#include "engine/engine.h"

/* json is NULL if the checkpoint has none; `where` names the source in messages. */
struct document { cJSON *json; char *where; };
struct documents {
    const char *architecture;   /* as a GGUF file names it; NULL: config.json does */
    struct document config, generation, processor, tokenizer;
    bool has_template;
    struct text chat_template;
    char *template_where;
};
/* `projector` is a GGUF file with the towers that `w` holds too, NULL: none. */
int documents_open(struct documents *d, const char *path, const char *projector, const struct weights *w,
                   struct err *e);
void documents_close(struct documents *d);              /* harmless on {0} */

/* The projector file: *out is `asked`, or the only mmproj*.gguf beside a GGUF model, or NULL for "none", for a folder
 * or bundle, and where none or several lie there (*n_beside says how many). The caller frees it. */
void documents_projector(char **out, int *n_beside, const char *path, const char *asked);
/* Adds its tensors (NULL: none) to those of the model at `path`, which must have no towers yet. */
int documents_add_projector(struct weights *w, const char *path, const char *projector, struct err *e);

#endif
