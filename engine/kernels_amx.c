/* kernels_amx.c - AVX-512 with dot products of bytes, and a matrix unit for many rows of them. */
#include "engine/kernels.h"

#ifdef HANDOFF_AMX
#define KERNELS kernels_amx
#define KERNELS_NAME "amx"
#define PACKED_AMX
#include "engine/kernels_avx512.c"
#endif
