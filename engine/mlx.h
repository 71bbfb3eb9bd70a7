/* mlx.h - checkpoints written by MLX (inside engine/ only): safetensors in which a quantised module M has packed codes
 * M.weight (U32), M.scales and M.biases, with names of their own. Format: mlx-lm and mlx.core.quantize. */
#ifndef HANDOFF_MLX_H
#define HANDOFF_MLX_H

#include "engine/internal.h"

/* Whether the list has quantised modules or MLX's names; it must be sorted by name. */
bool mlx_in(const struct tensor_list *l);

/* Makes one coded tensor out of the parts of each quantised module, and gives all tensors the names and layouts that
 * they have in a checkpoint folder of transformers. Bits and group size come from the shapes wherever the file's other
 * tensors tell how wide the module is, else from `quantization` (of config.json; may be NULL). A module for which
 * neither tells stays as it is. The list must be sorted, and is not sorted any more afterwards. */
int mlx_take(struct arena *a, struct tensor_list *l, const cJSON *quantization, struct err *e);

#endif
