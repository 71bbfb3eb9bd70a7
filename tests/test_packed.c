/* Products with packed weights: the values that the tensor reads as, times the activations, in double; the same bits by
 * all instruction sets, for any number of rows and threads. */
#include "engine/gguf_model.h"
#include "engine/quantize_blocks.h"
#include "tests/test.h"

#include <stdlib.h>

enum { N = 37, K = 2304, M = 37 };      /* the last panel is not whole; more stretches than are scaled at a time */

static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
                                    "IQ4_NL", "IQ4_XS"};
enum { N_TYPES = sizeof types / sizeof *types };
static const char *const names[] = {"generic", "avx2", "avx512", "avx512vnni", "amx", "neon", "neon_dot"};
enum { N_NAMES = sizeof names / sizeof *names };

static const int splits[] = {1, 3, 6, 13, M};       /* rows at a time; the matrix unit takes 32 and more */
enum { N_SPLITS = sizeof splits / sizeof *splits };

static uint64_t state = 1;

static float random_float(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(state >> 32) * 0x1p-31f;
}

/* A matrix of the type out of random numbers, each row with an outlier. */
static struct tensor make_matrix(const struct ggml_type *type)
{
    const size_t row = (size_t)K / (size_t)type->block_elements * (size_t)type->block_bytes;
    uint8_t *data = calloc(N, row);
    float x[K];
    for (int n = 0; n < N; n++) {
        for (int k = 0; k < K; k++)
            x[k] = random_float() * (k == n * 11 ? 9.0f : 1.0f) + 0.2f;
        quantize_row(type, x, K, NULL, data + (size_t)n * row);
    }
    return (struct tensor){.name = "w", .file = "test", .type = TENSOR_CODED, .codec = &ggml_codec, .aux = type,
                           .n_dims = 2, .dim = {N, K}, .data = data, .n_bytes = N * row};
}

/* One scale for each 32: the largest magnitude is 127. */
static void round_plainly(const float *x, double *out)
{
    for (int first = 0; first < K; first += 32) {
        double top = 0;
        for (int k = first; k < first + 32; k++)
            top = fmax(top, fabs((double)x[k]));
        for (int k = first; k < first + 32; k++)
            out[k] = top > 0 ? nearbyint((double)((float)x[k] * (127.0f / (float)top))) * top / 127 : 0;
    }
}

static void check_values(const char *type, const struct tensor *t, const struct packed *p, const float *x, bool int8)
{
    static float out[M * N], w[K];
    static double rounded[M][K];
    packed_linear(p, &kernels_generic, NULL, int8, x, K, M, out, N);
    for (int m = 0; m < M; m++)
        if (int8)
            round_plainly(x + m * K, rounded[m]);
        else
            for (int k = 0; k < K; k++)
                rounded[m][k] = x[m * K + k];
    for (int n = 0; n < N; n++) {
        tensor_read_f32(t, (int64_t)n * K, K, w);
        for (int m = 0; m < M; m++) {
            double want = 0, size = 0;
            for (int k = 0; k < K; k++) {
                want += w[k] * rounded[m][k];
                size += fabs(w[k] * rounded[m][k]);
            }
            CHECK_MSG(fabs(out[m * N + n] - want) <= 1e-6 * size, "%s%s: row %d, column %d: %g, not %g", type,
                      int8 ? ", int8" : "", m, n, (double)out[m * N + n], want);
        }
    }
}

static void check_bits(const char *type, const struct packed *p, const float *x, bool int8)
{
    static float want[M * N], got[M * N];
    packed_linear(p, &kernels_generic, NULL, int8, x, K, M, want, N);
    for (int i = 0; i < N_NAMES; i++) {
        const struct kernels *k = kernels_find(names[i]);
        struct pool *pool = pool_new(2);
        for (int s = 0; k && s < N_SPLITS; s++) {
            const int rows = splits[s];
            memset(got, 0, sizeof got);
            for (int m = 0; m < M; m += rows)
                packed_linear(p, k, pool, int8, x + m * K, K, M - m < rows ? M - m : rows, got + m * N, N);
            CHECK_MSG(memcmp(want, got, sizeof got) == 0, "%s%s: %s, %d rows at a time", type, int8 ? ", int8" : "",
                      names[i], rows);
        }
        pool_free(pool);
    }
}

static void all_types(void)
{
    static float x[M * K];
    for (int i = 0; i < M * K; i++)
        x[i] = random_float() * (i % 97 == 0 ? 30.0f : 1.0f);
    memset(x + 5 * K + 64, 0, 32 * sizeof *x);
    for (int i = 0; i < N_TYPES; i++) {
        const struct tensor t = make_matrix(ggml_type_named(types[i]));
        struct packed *p = NULL;
        struct err e = {0};
        CHECK_MSG(packed_fits(&t), "%s", types[i]);
        p = packed_new(&t);
        p->data = NEW(uint8_t, packed_bytes(p));
        CHECK_MSG(packed_fill(p, &t, NULL, &e) == 0, "%s", e.msg);
        for (int int8 = 0; int8 < 2; int8++) {
            check_values(types[i], &t, p, x, int8);
            check_bits(types[i], p, x, int8);
        }
        free(p->data);
        free(p);
        free((void *)(uintptr_t)t.data);
    }
}

/* Types whose values are no whole numbers, and rows of broken stretches, stay as they are; NaN is found. */
static void what_does_not_fit(void)
{
    struct tensor t = make_matrix(ggml_type_named("Q8_0"));
    struct err e = {0};
    ((uint8_t *)(uintptr_t)t.data)[34 * 5 + 1] = 0x7e;           /* the scale of a block: NaN */
    struct packed *p = packed_new(&t);
    p->data = NEW(uint8_t, packed_bytes(p));
    CHECK(packed_fill(p, &t, NULL, &e) == -1);
    CHECK(strstr(e.msg, "finite weights were expected") != NULL);
    free(p->data);
    free(p);
    free((void *)(uintptr_t)t.data);
    t.aux = ggml_type_named("IQ2_XXS");
    CHECK(!packed_fits(&t));
    t.aux = ggml_type_named("Q4_K");
    CHECK(packed_fits(&t));
    t.dim[1] = 96;
    CHECK(!packed_fits(&t));
}

int main(void)
{
    RUN(all_types);
    RUN(what_does_not_fit);
    return test_report();
}
