/* mlx.h - checkpoints written by MLX (inside engine/ only): safetensors in which a quantised module M has packed codes
 * M.weight (U32), M.scales and M.biases, with names of their own. Format: mlx-lm and mlx.core.quantize. */
#ifndef HANDOFF_MLX_H
#define HANDOFF_MLX_H

#include "engine/internal.h"

/* ---- one group of codes (mlx.c, mlx_encode.c) ------------------------------------------------------------------- */

enum { MLX_MAX_GROUP = 128 };
enum mlx_mode { MLX_AFFINE, MLX_MXFP4, MLX_MXFP8, MLX_NVFP4 };
/* bits 1 to 8 without 7, and groups of 32, 64 or 128, for affine; the other modes have one setting each. */
struct mlx_format { enum mlx_mode mode; int bits, group; };

/* Codes x[group] as mlx.core.quantize does. Affine: *scale and *bias in float32, not yet rounded to the type that they
 * are kept in. Other modes: *scale_code is the scale's byte. `codes` takes group * bits / 8 bytes. x must be finite. */
void mlx_encode(const struct mlx_format *f, const float *x, uint8_t *codes, float *scale, float *bias,
                uint8_t *scale_code);
/* Values of the small floating-point formats, by their codes. */
float mlx_e2m1(unsigned code);
float mlx_e4m3(unsigned code);
float mlx_e8m0(unsigned code);

/* ---- checkpoints (mlx.c) --------------------------------------------------------------------------------------- */

/* Whether the list has quantised modules or MLX's names; it must be sorted by name. */
bool mlx_in(const struct tensor_list *l);

/* Makes one coded tensor out of the parts of each quantised module, and gives all tensors the names and layouts that
 * they have in a checkpoint folder of transformers. Bits and group size come from the shapes wherever the file's other
 * tensors tell how wide the module is, else from `quantization` (of config.json; may be NULL). A module for which
 * neither tells stays as it is. The list must be sorted, and is not sorted any more afterwards. */
int mlx_take(struct arena *a, struct tensor_list *l, const cJSON *quantization, struct err *e);

/* The name that MLX has for a tensor of a checkpoint folder; NULL: MLX leaves it out. `nested`: of a model whose text
 * part is one of several (config.json has text_config). The last `shared_layers` of n_layers have no keys and values of
 * their own. */
const char *mlx_name(struct arena *a, const char *name, bool nested, int n_layers, int shared_layers);
/* Whether MLX's tools quantise the matrix of this name (MLX's, "...weight") by default. */
bool mlx_quantises(const char *name);
/* The Python file that lets mlx-lm load a checkpoint with a handoff probe, and its name. "@" in it stands for the
 * module of the stock model: gemma4 or, for text alone, gemma4_text. */
#define MLX_MODEL_FILE "gemma4_handoff.py"
extern const char mlx_model_file[];
/* Whether the tensor is a convolution that MLX keeps with its channels last. */
bool mlx_is_convolution(const struct tensor *t);

#endif
