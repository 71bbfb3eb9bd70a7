/* cq.h - Cactus Quants (inside engine/ only): tensor files, bundles of them, and the probe file. */
#ifndef HANDOFF_CQ_H
#define HANDOFF_CQ_H

#include "engine/bundle.h"
#include "engine/documents.h"
#include "engine/internal.h"

/* ---- one tensor (cq.c, cq_codes.c) ----------------------------------------------------------------------------- */

bool cq_is_tensor(const struct mapped *m);              /* by its magic */

/* What a file holds besides padding; n_dims -1: whatever the file says. Stored values are `scale` times the real. */
struct cq_shape { int n_dims; int64_t dim[4]; double scale; };
/* Reads the header and checks everything in it; the values are finite for all kinds of codes but not for plain numbers.
 * `out` gets the name; it refers to the file, which must stay. */
int cq_tensor(struct arena *a, const struct mapped *file, const char *name, const struct cq_shape *shape,
              struct tensor *out, struct err *e);

/* ---- bundles (cq_bundle.c, cq_names.c) ------------------------------------------------------------------------- */

/* Whether a path is a folder that looks like a bundle, or an archive. */
bool cq_is_bundle(const char *path);
/* Appends all tensors under the names of a checkpoint folder of transformers, those of the probe included. */
int cq_bundle_tensors(struct arena *a, struct bundle *b, struct tensor_list *out, struct err *e);
/* tokenizer.json, or the same out of vocab.txt, merges.txt and special_tokens.json (cq_tokenizer.c). */
int cq_bundle_tokenizer(struct document *d, struct bundle *b, struct err *e);
/* config.json and the like. `w` holds the bundle's tensors. */
int cq_bundle_documents(struct documents *d, struct bundle *b, const struct weights *w, struct err *e);

/* The name that a checkpoint has for a file of a bundle, and its scale by the rules for names; NULL: none that is
 * needed. Used where there is no manifest. */
const char *cq_tensor_name(struct arena *a, const char *file);
double cq_scale(const char *file);
/* The inverse; NULL: the tensor has no place in a bundle. */
const char *cq_file_name(struct arena *a, const char *tensor);

/* ---- the probe (cq_probe.c) ------------------------------------------------------------------------------------ */

bool cq_is_probe(const struct mapped *m);               /* by its magic */
/* Appends the eleven tensors of a handoff_probe.bin as handoff_probe.*, [1, n] for head.4.weight. */
int cq_probe_tensors(struct arena *a, const struct mapped *file, struct tensor_list *out, struct err *e);

#endif
