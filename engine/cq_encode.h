/* cq_encode.h - writing the tensor files of Cactus Quants (inside engine/ only): code books, rotations, and rows to
 * codes; the inverse of cq.h. Without calibration: input scale 1, each number to its nearest code. */
#ifndef HANDOFF_CQ_ENCODE_H
#define HANDOFF_CQ_ENCODE_H

#include "engine/cq_codes.h"

/* ---- code books (cq_codebook.c) -------------------------------------------------------------------------------- */

/* The 2^bits values, ascending, that are nearest in the mean square to a coordinate of a random point on the unit
 * sphere in `dim` dimensions (Lloyd and Max). dim is at least 8. */
void cq_codebook(int dim, int bits, float *out);

/* ---- rotations (cq_rotation.c) --------------------------------------------------------------------------------- */

/* Signs and permutation of the Hadamard transform of 128. */
struct cq_signs { int8_t left[CQ_GROUP], right[CQ_GROUP]; uint8_t perm[CQ_GROUP]; };
void cq_signs(struct cq_signs *s);
/* A random orthogonal matrix [dim, dim], the same on every machine but for rounding; the caller frees it. */
float *cq_orthogonal(int dim, struct pool *pool);

/* ---- files (cq_encode.c) --------------------------------------------------------------------------------------- */

/* What a file will hold. */
struct cq_target {
    int bits;                   /* 1 to 4; 0: plain float16 */
    bool orthogonal;            /* a rotation of whole rows; 4 bits */
    bool blocks_of_4;           /* rows in blocks of four, whose number they must be a multiple of */
    bool any_value;             /* plain numbers may be too large for float16: they become infinite */
    double scale;               /* stored values are `scale` times the real ones */
    int n_dims;                 /* 2 for codes */
    int64_t dim[4];
};

/* A file is head, norms, middle, codes; norms and codes are made by units of some rows. For float16 there are neither
 * norms nor middle, and the numbers are the codes. */
struct cq_file {
    struct cq_target t;
    struct text head, middle;
    uint64_t norms_at, codes_at, size;      /* offsets in the file; its length */
    int64_t units;
    int unit_rows;
    int64_t unit_columns;       /* numbers of a unit: those of its rows, without padding */
    size_t unit_norms, unit_codes;          /* bytes of a unit */
    int64_t width, n_groups;
    int group;
    float codebook[16];
    float borders[15];          /* of its cells: the largest numbers that belong to the one below */
    float norm_factor;          /* of the stored norms, 1 unless the code book is stored in other units */
    const struct cq_signs *signs;
    float *transposed;          /* of the orthogonal matrix */
    const struct kernels *k;
};
/* Of all Hadamard files of as many bits. */
struct cq_common { float codebook[16]; struct cq_signs signs; };
void cq_common(struct cq_common *c, int bits);
void cq_file_plan(struct cq_file *f, const struct cq_target *t, const struct cq_common *c, struct pool *pool);
void cq_file_free(struct cq_file *f);                   /* harmless on {0} */
/* One unit x[unit_columns] to its norms and codes; false: a norm or number is not finite in float16. */
bool cq_code_unit(const struct cq_file *f, const float *x, uint8_t *norms, uint8_t *codes);

#endif
