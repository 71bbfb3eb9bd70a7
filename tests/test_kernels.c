/* All instruction sets give the same bits, and the right values. */
#include "engine/kernels.h"
#include "tests/test.h"

#include <stdlib.h>

enum { MAX_K = 150, MAX_N = 37, MAX_M = 9 };

static const struct kernels *tables[3];
static int n_tables;

static uint64_t state = 1;

static uint32_t random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float random_float(void)
{
    return (float)(int32_t)random_bits() * 0x1p-31f * 4;
}

static int random_below(int n)
{
    return (int)(random_bits() % (uint32_t)n);
}

/* Equal bits, or both NaN. */
static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static const float specials[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-45f, -1e-45f, 1e-38f, 3.4e38f, -3.4e38f, INFINITY,
                                 -INFINITY, NAN, 88.7f, 88.73f, -87.4f, -103.9f, -104.5f, 9.01f, 10.5f, 0.34657f, 0.5f};

static void find_tables(void)
{
    static const char *const names[] = {"avx2", "avx512", "neon"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (kernels_find(names[i]))
            tables[n_tables++] = kernels_find(names[i]);
    CHECK(kernels_find("generic") == &kernels_generic);
    CHECK(kernels_find(NULL) != NULL);
    CHECK(kernels_find("sse9") == NULL);
}

/* The contract of kernels.h in its plainest form. */
static float plain_dot(const float *x, const float *w, int n)
{
    float sum[16] = {0};
    for (int k = 0; k < (n + 15) / 16 * 16; k++)
        sum[k % 16] = fmaf(k < n ? x[k] : 0, k < n ? w[k] : 0, sum[k % 16]);
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

static void gemm_case(enum tensor_type type, int M, int N, int K)
{
    const struct tensor t = {.type = type, .n_dims = 2, .dim = {N, K}};
    const size_t size = type == TENSOR_F32 ? 4 : 2, stride = (size_t)K + 3, out_stride = (size_t)N + 1;
    uint8_t *raw = malloc((size_t)N * (size_t)K * size + 1), *w = raw + 1;     /* unaligned on purpose */
    float *x = malloc((size_t)M * stride * 4), *wide = malloc((size_t)N * (size_t)K * 4);
    float *want = calloc((size_t)M * out_stride, 4), *got = malloc((size_t)M * out_stride * 4);
    for (int i = 0; i < N * K; i++) {
        const float f = random_float();
        uint32_t bits;
        memcpy(&bits, &f, 4);
        const uint16_t half = type == TENSOR_BF16 ? (uint16_t)(bits >> 16) : (uint16_t)(random_bits() & 0xbfff);
        memcpy(w + (size_t)i * size, type == TENSOR_F32 ? (const void *)&f : &half, size);
    }
    for (size_t i = 0; i < (size_t)M * stride; i++)
        x[i] = random_float();
    struct tensor named = t;
    named.data = w;
    tensor_read_f32(&named, 0, (int64_t)N * K, wide);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++)
            want[(size_t)m * out_stride + (size_t)n] = plain_dot(x + (size_t)m * stride,
                                                                 wide + (size_t)n * (size_t)K, K);
    for (int i = -1; i < n_tables; i++) {
        const struct kernels *k = i < 0 ? &kernels_generic : tables[i];
        memset(got, 0, (size_t)M * out_stride * 4);
        k->gemm(type, w, N, K, x, stride, M, got, out_stride);
        CHECK_MSG(same(want, got, (size_t)M * out_stride), "%s: gemm %s %d x %d x %d", k->name,
                  tensor_type_name(type), M, N, K);
        CHECK_MSG(k->dot(x, wide, K) == want[0], "%s: dot of %d", k->name, K);
    }
    free(raw), free(x), free(wide), free(want), free(got);
}

static void gemm_bits(void)
{
    for (int type = TENSOR_F32; type <= TENSOR_BF16; type++)
        for (int M = 1; M <= MAX_M; M++)
            for (int i = 0; i < 12; i++)
                gemm_case((enum tensor_type)type, M, 1 + random_below(MAX_N), 1 + random_below(MAX_K));
}

/* A layer cut into blocks over threads equals one call of gemm. */
static void linear_threads(void)
{
    enum { M = 70, N = 200, K = 48 };
    float *w = malloc(N * K * 4), *x = malloc(M * K * 4), *want = malloc(M * N * 4), *got = malloc(M * N * 4);
    for (int i = 0; i < N * K; i++)
        w[i] = random_float();
    for (int i = 0; i < M * K; i++)
        x[i] = random_float();
    const struct tensor t = {.name = "w", .type = TENSOR_F32, .n_dims = 2, .dim = {N, K}, .data = w};
    kernels_generic.gemm(TENSOR_F32, w, N, K, x, K, M, want, N);
    for (int threads = 1; threads <= 3; threads++) {
        struct pool *pool = pool_new(threads);
        memset(got, 0, M * N * 4);
        linear(&(struct compute){.k = kernels_find(NULL), .pool = pool}, &t, x, K, M, got, N);
        CHECK_MSG(same(want, got, M * N), "%d threads", threads);
        pool_free(pool);
    }
    free(w), free(x), free(want), free(got);
}

enum { LONGEST = 300 };

static void fill(float *v, int n, bool special)
{
    for (int i = 0; i < n; i++)
        v[i] = special && random_below(4) == 0 ? specials[random_below(sizeof specials / sizeof *specials)]
                                               : random_float() * (float)(1 << random_below(6));
}

/* Runs one of the row kernels, in place on y. */
static void row_kernel(const struct kernels *k, int which, float *y, const float *a, const float *b, int n)
{
    float copy[LONGEST];
    switch (which) {
    case 0: k->axpy(y, a, b[0], n); break;
    case 1: k->rms_norm(y, a, b, n, 1e-6f); break;
    case 2: k->rms_norm(y, a, NULL, n, 1e-6f); break;
    case 3: k->gelu_tanh_mul(y, a, n); break;
    case 4: k->silu(y, n); break;
    case 5: k->softmax(y, n); break;
    case 6: k->softcap(y, n, 30); break;
    case 7: k->bf16_to_f32(y, a, n); break;
    case 8: k->weighted_sum(y, b, a, 7, 9, n > 100 ? n - 70 : n / 2); break;
    case 9: k->weighted_sums(y, (size_t)(n + 3) / 4, b, 9, n % 5, a, 11, 9, (n + 3) / 4); break;
    default:
        memcpy(copy, a, (size_t)n * 4);
        k->rms_norm(copy, copy, b, n, 1e-6f);
        memcpy(y, copy, (size_t)n * 4);
    }
}

static void row_bits(void)
{
    float a[LONGEST], b[LONGEST], start[LONGEST], want[LONGEST], got[LONGEST];
    for (int round = 0; round < 4000; round++) {
        const int which = round % 11, n = 1 + random_below(LONGEST);
        const bool special = round % 22 >= 11;
        fill(a, LONGEST, special);
        fill(b, LONGEST, special);
        fill(start, LONGEST, special);
        memcpy(want, start, sizeof want);
        row_kernel(&kernels_generic, which, want, a, b, n);
        for (int i = 0; i < n_tables; i++) {
            memcpy(got, start, sizeof got);
            row_kernel(tables[i], which, got, a, b, n);
            CHECK_MSG(same(want, got, LONGEST), "%s: kernel %d over %d elements", tables[i]->name, which, n);
        }
    }
}

/* Relative error of the elementary functions against libm in double. */
static void elementary_values(void)
{
    const struct kernels *k = kernels_find(NULL);
    double worst_tanh = 0, worst_silu = 0, worst_gelu = 0, worst_exp = 0;
    for (int i = 0; i < 200000; i++) {
        const double x = (i - 100000) * 2e-4;
        float t[1] = {(float)x}, s[1] = {(float)x}, g[1] = {(float)x}, one[1] = {1}, pair[2] = {0, (float)-fabs(x)};
        k->softcap(t, 1, 1);
        k->silu(s, 1);
        k->gelu_tanh_mul(g, one, 1);
        k->softmax(pair, 2);
        const double z = (float)x;
        const double tanh_error = fabs(t[0] - tanh(z)) / (fabs(tanh(z)) + 1e-30);
        const double silu_error = fabs(s[0] - z / (1 + exp(-z))) / (fabs(z / (1 + exp(-z))) + 1e-30);
        const double gelu_error = fabs(g[0] - 0.5 * z * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z))));
        const double exp_error = fabs(pair[1] / pair[0] - exp(-fabs(z))) / exp(-fabs(z));
        worst_tanh = fmax(worst_tanh, tanh_error);
        worst_silu = fmax(worst_silu, silu_error);
        worst_gelu = fmax(worst_gelu, gelu_error / fmax(1, fabs(z)));
        worst_exp = fmax(worst_exp, exp_error);
    }
    CHECK_NEAR(worst_tanh, 0, 4e-7);
    CHECK_NEAR(worst_silu, 0, 4e-7);
    CHECK_NEAR(worst_gelu, 0, 4e-7);
    CHECK_NEAR(worst_exp, 0, 4e-7);
}

static void elementary_limits(void)
{
    const struct kernels *k = kernels_find(NULL);
    float t[5] = {INFINITY, -INFINITY, 0.0f, -0.0f, NAN}, s[3] = {INFINITY, -200, NAN}, p[3] = {-INFINITY, 5, 5};
    k->softcap(t, 5, 30);
    CHECK(t[0] == 30 && t[1] == -30 && t[2] == 0 && signbit(t[3]) && isnan(t[4]));
    k->silu(s, 3);
    CHECK(s[0] == INFINITY && s[1] == 0 && isnan(s[2]));
    k->softmax(p, 3);
    CHECK(p[0] == 0 && p[1] == 0.5f && p[2] == 0.5f);
}

int main(void)
{
    RUN(find_tables);
    RUN(gemm_bits);
    RUN(linear_threads);
    RUN(row_bits);
    RUN(elementary_values);
    RUN(elementary_limits);
    return test_report();
}
