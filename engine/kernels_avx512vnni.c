/* kernels_avx512vnni.c - AVX-512 with dot products of bytes. */
#include "engine/kernels.h"

#ifdef __AVX512VNNI__
#define KERNELS kernels_avx512vnni
#define KERNELS_NAME "avx512vnni"
#include "engine/kernels_avx512.c"
#endif
