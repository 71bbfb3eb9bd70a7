/* kernels.c - which table this CPU can use. */
#include "engine/kernels.h"

#include <string.h>

#if defined(__x86_64__)
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
#endif

static bool always(void)
{
    return true;
}

/* Best first. Every CPU with AVX2 and FMA also has F16C, which compilers cannot ask for by name. */
static const struct { const struct kernels *table; bool (*supported)(void); } tables[] = {
#if defined(__x86_64__)
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
