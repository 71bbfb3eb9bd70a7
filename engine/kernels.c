/* kernels.c - which table this CPU can use. */
#define _GNU_SOURCE                     /* syscall */
#include "engine/kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

#ifdef HANDOFF_AMX
/* The system hands the matrix unit's registers out to who asks for them. */
static bool has_amx(void)
{
    enum { LEAF_FEATURES = 7, TILES = 1 << 24, INT8_TILES = 1 << 25, REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return has_avx512vnni() && __get_cpuid_count(LEAF_FEATURES, 0, &a, &b, &c, &d) && d & TILES && d & INT8_TILES &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif
#endif

static bool always(void)
{
    return true;
}

/* Best first. Every CPU with AVX2 and FMA also has F16C, which compilers cannot ask for by name. */
static const struct { const struct kernels *table; bool (*supported)(void); } tables[] = {
#if defined(__x86_64__)
#ifdef HANDOFF_AMX
    {&kernels_amx, has_amx},
#endif
    {&kernels_avx512vnni, has_avx512vnni},
    {&kernels_avx512, has_avx512},
    {&kernels_avx2, has_avx2},
#elif defined(__aarch64__)
    {&kernels_neon, always},
#endif
    {&kernels_generic, always},
};

const struct kernels *kernels_find(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if ((!name || strcmp(tables[i].table->name, name) == 0) && tables[i].supported())
            return tables[i].table;
    return NULL;
}
