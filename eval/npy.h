/* npy.h - NumPy's .npy files, as far as matrices of floats go (inside eval/ only). */
#ifndef HANDOFF_NPY_H
#define HANDOFF_NPY_H

#include "engine/base.h"

/* Reads a matrix [rows, cols] of float32, float64 or float16 in C order (a vector counts as one row); the caller frees
 * *out. */
int npy_read(const char *path, float **out, int64_t *rows, int64_t *cols, struct err *e);
/* Writes float32 of any rank; 0 dimensions is a scalar. */
int npy_write(const char *path, const float *data, int n_dims, const int64_t *dim, struct err *e);

#endif
