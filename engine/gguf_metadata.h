/* gguf_metadata.h - what a GGUF file of Gemma 4 says besides its tensors, made from a checkpoint's documents or copied
 * from another GGUF file (inside engine/ only). Keys: llama.cpp's convert_hf_to_gguf.py; the probe's settings, the stop
 * tokens and the budget of a picture are this program's own, and gguf_model.c and gguf_towers.c read them. */
#ifndef HANDOFF_GGUF_METADATA_H
#define HANDOFF_GGUF_METADATA_H

#include "engine/gguf_write.h"
#include "engine/image.h"
#include "engine/quantize_job.h"

/* "gemma-4-e2b-it-hybrid" with a probe, else "gemma4". */
const char *gguf_architecture(bool with_probe);
/* n_elements: numbers in all tensors of the file; file_type: llama.cpp's number of the mix. */
void gguf_model_metadata(struct gguf_out *g, const struct quantize_job *job, bool with_probe, int file_type,
                         int64_t n_elements);
/* vision: how pictures are cut; NULL: there is no vision tower. */
void gguf_projector_metadata(struct gguf_out *g, const struct quantize_job *job, const struct image_grid *vision,
                             bool audio, int file_type, int64_t n_elements);
/* Where the importances came from. */
void gguf_imatrix_metadata(struct gguf_out *g, const struct imatrix *m, const char *path);
/* All of another file's but what the new file says itself. */
void gguf_copy_metadata(struct gguf_out *g, const struct gguf *from, bool with_probe, int file_type);

#endif
