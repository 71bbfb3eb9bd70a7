/* vision.h - what vision.c (set-up, pictures in, soft tokens out) and vision_tower.c (the arithmetic) share. */
#ifndef HANDOFF_VISION_H
#define HANDOFF_VISION_H

#include "engine/clipped.h"
#include "engine/image.h"
#include "engine/internal.h"

struct vision_layer {
    float *norm_in, *norm_attention, *norm_mlp_in, *norm_mlp;      /* [hidden] */
    float *q_norm, *k_norm;                                         /* [head_dim] */
    struct clipped q, k, v, o, gate, up, down;
};

struct vision {
    struct image_grid grid;
    int n_layers, hidden, n_heads, head_dim, mlp_size, soft_width;
    int n_positions;                    /* columns and rows that the position table knows */
    float eps;
    const struct tensor *patch_proj;    /* [hidden, 3 patch^2] */
    const struct tensor *table;         /* [2, n_positions, hidden]: columns, rows */
    const struct tensor *projector;     /* [soft_width, hidden] */
    float *std_bias, *std_scale;        /* [hidden], or NULL */
    struct vision_layer *layers;
    struct attention_kind rope;         /* of half a head: one half turns by column, the other by row */
    float *cosines, *sines;             /* [n_angles, head_dim / 4] */
    int n_angles;                       /* largest column or row that can occur, plus 1 */
};

/* Pictures whose patches are stacked: rows first_row[i] .. first_row[i + 1] - 1 belong to picture i. */
struct vision_batch {
    int n_pictures, n_rows, n_pooled;
    const struct image **picture;       /* [n_pictures], sides are multiples of patch * pool */
    int *first_row, *first_pooled;      /* [n_pictures + 1] */
    float *patches;                     /* [n_rows, 3 patch^2] in [0, 1] */
    int32_t *positions;                 /* [n_rows, 2] as (column, row) */
};

/* pooled: [n_pooled, hidden], the tower's output; soft: [n_pooled, soft_width]. */
void vision_tower(const struct vision *v, const struct compute *c, const struct vision_batch *b, float *pooled,
                  float *soft);

/* The stages of vision_encode, apart for the tests: tower outputs of pictures that already have their size, each
 * [n_tokens, hidden] (may be NULL) and [n_tokens, soft_width], one picture behind the other. */
void vision_encode_resized(const struct vision *v, const struct compute *c, const struct image *const *pictures, int n,
                           float *pooled, float *soft);

#endif
