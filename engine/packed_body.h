/* packed_body.h - products with packed weights, written once over vectors of 16 lanes, a lane being a row of a panel.
 * kernels_body.h includes it. Besides v16 each kernels_ISA.c defines the tile size PACKED_M, and
 *
 *     i16         16 whole numbers of 32 bits;  w64: 64 bytes of packed codes
 *     i_set1, v_from_i, w_load, v_load_i8, v_load_u8 (16 bytes as floats)
 *     w_low, w_high       the low and high halves of bytes, as bytes
 *     i_dot4      acc[lane] + sum of the lane's 4 codes (0 to 255; `narrow`: to 15) times x[0..3], exactly
 *     w_table, w_table_load, w_nibble     the float that a table of 16, each 1 above the one before, has for bits 4 j to
 *                 4 j + 3 of a lane
 *     w_byte      (byte j of a lane - 128) 2^24 as float; PACKED_BYTE_SCALE takes the factor out again
 */
#include "engine/packed.h"

#define PACKED_BYTE_SCALE 0x1p-24f

/* Loops over the parts of a stretch must be unrolled: only then are sums known to lie in registers, and shifts known at
 * all. clang does so by itself; it pays where there are registers enough, and with sanitizers would take gcc minutes. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || !defined(__AVX512VNNI__)
#define UNROLLED
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif

/* ---- rows of activations --------------------------------------------------------------------------------------- */

INLINE float row_sum(const float *x, int n)
{
    v16 sum = v_set1(0);
    for (int i = 0; i < n; i += 16)
        sum = v_add(sum, v_load(x + i));
    return v_sum(sum);
}

/* 32 columns to whole numbers: scale = max |x| / 127, ties to even. Returns the scale; what is infinite stays so. */
INLINE float round_stretch(const float *x, int8_t *q)
{
    float all[STRETCH], inverse = 0;
    uint32_t bits[STRETCH];
    v_store(all, v_max(v_abs(v_load(x)), v_abs(v_load(x + 16))));
    float top = all[0];
    for (int i = 1; i < 16; i++)
        top = all[i] > top ? all[i] : top;
    if (top >= 0x1p-100f)
        inverse = 127.0f / top;
    for (int i = 0; i < STRETCH; i += 16)
        v_store(all + i, v_fma(v_load(x + i), v_set1(inverse), v_set1(MAGIC)));
    memcpy(bits, all, sizeof bits);
    for (int i = 0; i < STRETCH; i++)
        q[i] = (int8_t)(uint8_t)bits[i];
    return inverse > 0 ? top / 127.0f : top * 0;
}

INLINE int32_t whole_sum(const int8_t *q, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += q[i];
    return sum;
}

/* Where row m has what belongs to part i of n of its columns. */
INLINE size_t row_part(const struct packed_rows *rows, int m, size_t n, size_t i)
{
    const size_t lanes = (size_t)rows->lanes, row = (size_t)m;
    return (row / lanes * n + i) * lanes + row % lanes;
}

static void packed_prepare(const struct code_format *f, struct packed_rows *rows, const float *x, int m)
{
    const size_t stretches = (size_t)(rows->K / STRETCH), blocks = (size_t)(rows->K / f->block);
    for (int k = 0; k < rows->K; k += STRETCH) {
        const size_t stretch = row_part(rows, m, stretches, (size_t)(k / STRETCH));
        int8_t *q = rows->q ? rows->q + stretch * STRETCH : NULL;
        const float scale = q ? round_stretch(x + k, q) : 0;
        if (q)
            rows->scale[stretch] = scale;
        for (int in = 0; in < STRETCH; in += f->block) {
            const size_t at = row_part(rows, m, blocks, (size_t)((k + in) / f->block));
            const int32_t whole = q ? whole_sum(q + in, f->block) : 0;
            if (q)
                rows->start[at] = -f->center * whole;
            if (rows->sum)
                rows->sum[at] = q ? scale * (float)whole : row_sum(x + k + in, f->block);
        }
    }
    if (rows->x)
        for (int k = 0; k < rows->K; k++)
            rows->x[row_part(rows, m, (size_t)rows->K, (size_t)k)] = x[k];
}

/* ---- scales ---------------------------------------------------------------------------------------------------- */

/* The scales of a stretch of columns of a panel, and its minima with their sign changed: [stretches][blocks][16]. */
enum { SCALED = 64 };           /* stretches whose scales are worked out together */

INLINE v16 load_scale(const struct code_format *f, const uint8_t *p, int run)
{
    return load_typed(f->scale_type, p + (size_t)run * PANEL * type_size(f->scale_type));
}

INLINE void work_out_scales(const struct packed *p, const uint8_t *panel, int k, int end, float *scale, float *minus_min)
{
    const struct code_format *f = &p->f;
    for (; k < end; k += f->block, scale += PANEL, minus_min += PANEL) {
        const int run = k / f->per_scale;
        const size_t inner = (size_t)(k / f->block) * PANEL;
        v16 d = load_scale(f, panel + p->d_at, run);
        if (f->nested)
            d = v_mul(d, v_load_i8(panel + p->scale_at + inner));
        v_store(scale, d);
        if (!f->minima)
            continue;
        v16 min = v_sub(v_set1(0), load_scale(f, panel + p->min_d_at, run));
        if (f->nested)
            min = v_mul(min, v_load_u8(panel + p->min_at + inner));
        v_store(minus_min, min);
    }
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

/* What a tile of rows needs on its way through a panel. */
struct packed_tile {
    const struct packed *p;
    const uint8_t *panel;
    const struct packed_rows *rows;
    int m;                      /* the first row */
    float *out;
    size_t out_stride;
};

/* Row t->m + i of the outcome, `panel` panels on. */
INLINE void put_row(const struct packed_tile *t, int panel, int i, v16 v)
{
    const struct packed *p = t->p;
    const int n = p->N - ((int)((size_t)(t->panel - p->data) / p->panel_bytes) + panel) * PANEL;
    float *out = t->out + (size_t)(t->m + i) * t->out_stride + panel * PANEL;
    if (n < PANEL)
        store_part(out, v, n);
    else
        v_store(out, v);
}

/* Asks for the codes some way ahead: CPUs follow a stream of reads by themselves, but not across pages. Behind the end
 * of a panel lies the next one. */
enum { PREFETCH_BYTES = 2048 };

INLINE void fetch_ahead(const uint8_t *codes, int bytes)
{
    for (int i = 0; i < bytes; i += 64)
        __builtin_prefetch(codes + PREFETCH_BYTES + i);
}

/* The codes of a stretch, `panel` panels on. */
INLINE const uint8_t *stretch_codes(const struct packed_tile *t, int panel, int k, const int bits)
{
    return t->panel + (size_t)panel * t->p->panel_bytes + (size_t)(k / STRETCH) * STRETCH * PANEL * (size_t)bits / 8;
}

/* One stretch for m rows and n panels in whole numbers: sum[(panel * m + row) * blocks + block]. */
INLINE void whole_stretch(const struct packed_tile *t, int k, i16 *sum, const int m, const int n, const int bits,
                          const int blocks)
{
    const size_t stretch = (size_t)(k / STRETCH), stretches = (size_t)(t->p->K / STRETCH);
    const int8_t *q = t->rows->q + row_part(t->rows, t->m, stretches, stretch) * STRETCH;
    for (int b = 0; b < blocks; b++) {
        const int32_t *start = t->rows->start + row_part(t->rows, t->m, stretches * (size_t)blocks,
                                                         stretch * (size_t)blocks + (size_t)b);
        for (int i = 0; i < m * n; i++)
            sum[i * blocks + b] = i_set1(start[i % m]);
    }
    for (int p = 0; p < n; p++)
        fetch_ahead(stretch_codes(t, p, k, bits), STRETCH * PANEL * bits / 8);
    UNROLLED
    for (int c = 0; c < 8; c++)
        UNROLLED
        for (int p = 0; p < n; p++) {
            const w64 raw = w_load(stretch_codes(t, p, k, bits) + 64 * (bits == 8 ? c : c % 4));
            const w64 code = bits == 8 ? raw : c < 4 ? w_low(raw) : w_high(raw);
            i16 *s = sum + p * m * blocks + c * blocks / 8;
            UNROLLED
            for (int i = 0; i < m; i++)
                s[i * blocks] = i_dot4(s[i * blocks], code, q + i * STRETCH + 4 * c, bits == 4);
        }
}

/* The same with float32 activations. */
INLINE void float_stretch(const struct packed_tile *t, int k, w_table table, v16 *sum, const int m, const int n,
                          const int bits, const int blocks)
{
    const size_t lanes = (size_t)t->rows->lanes;
    const float *x = t->rows->x + row_part(t->rows, t->m, (size_t)t->p->K, (size_t)k);
    for (int i = 0; i < m * n * blocks; i++)
        sum[i] = v_set1(0);
    for (int p = 0; p < n; p++)
        fetch_ahead(stretch_codes(t, p, k, bits), STRETCH * PANEL * bits / 8);
    UNROLLED
    for (int c = 0; c < 8; c++)
        UNROLLED
        for (int j = 0; j < 4; j++)
            UNROLLED
            for (int p = 0; p < n; p++) {
                const w64 raw = w_load(stretch_codes(t, p, k, bits) + 64 * (bits == 8 ? c : c % 4));
                const v16 w = bits == 8 ? w_byte(raw, j) : w_nibble(raw, 2 * j + c / 4, table);
                v16 *s = sum + p * m * blocks + c * blocks / 8;
                UNROLLED
                for (int i = 0; i < m; i++)
                    s[i * blocks] = v_fma(v_set1(x[(size_t)(4 * c + j) * lanes + (size_t)i]), w, s[i * blocks]);
            }
}

enum { PACKED_N = 4 };          /* panels that a single row meets side by side */

/* m rows against n panels; m, n (one of them 1), bits, blocks (of a stretch), minima and int8 are constants after
 * inlining. */
INLINE void packed_rows_tile(const struct packed_tile *t, const int m, const int n, const int bits, const int blocks,
                             const bool minima, const bool int8)
{
    enum { MOST = (int)PACKED_M > (int)PACKED_N ? (int)PACKED_M : (int)PACKED_N };
    const struct packed *p = t->p;
    const size_t stretches = (size_t)(p->K / STRETCH), scaled = (size_t)(SCALED * blocks / n * PANEL);
    float scale[SCALED * 2 * PANEL], minus_min[SCALED * 2 * PANEL];
    float levels[16];
    for (int i = 0; i < 16; i++)
        levels[i] = (float)(i - p->f.center);
    const w_table table = w_table_load(levels);
    v16 acc[MOST];
    for (int i = 0; i < m * n; i++)
        acc[i] = v_set1(0);
    for (int first = 0; first < p->K; first += SCALED / n * STRETCH) {
        const int end = first + SCALED / n * STRETCH < p->K ? first + SCALED / n * STRETCH : p->K;
        for (int i = 0; i < n; i++)
            work_out_scales(p, t->panel + (size_t)i * p->panel_bytes, first, end, scale + (size_t)i * scaled,
                            minus_min + (size_t)i * scaled);
        for (int k = first, s = 0; k < end; k += STRETCH, s += blocks) {
            const size_t stretch = (size_t)(k / STRETCH);
            i16 whole[MOST * 2];
            v16 part[MOST * 2];
            if (int8)
                whole_stretch(t, k, whole, m, n, bits, blocks);
            else
                float_stretch(t, k, table, part, m, n, bits, blocks);
            const float *x_scale = int8 ? t->rows->scale + row_part(t->rows, t->m, stretches, stretch) : NULL;
            for (int b = 0; b < blocks; b++) {
                const float *x_sum = minima ? t->rows->sum + row_part(t->rows, t->m, stretches * (size_t)blocks,
                                                                      stretch * (size_t)blocks + (size_t)b) : NULL;
                for (int i = 0; i < m * n; i++) {
                    const size_t at = (size_t)(i / m) * scaled + (size_t)(s + b) * PANEL;
                    v16 d = v_load(scale + at);
                    if (bits == 8 && !int8)
                        d = v_mul(d, v_set1(PACKED_BYTE_SCALE));
                    acc[i] = int8 ? v_fma(v_from_i(whole[i * blocks + b]), v_mul(d, v_set1(x_scale[i % m])), acc[i])
                                  : v_fma(part[i * blocks + b], d, acc[i]);
                    if (minima)
                        acc[i] = v_fma(v_load(minus_min + at), v_set1(x_sum[i % m]), acc[i]);
                }
            }
        }
    }
    for (int i = 0; i < m * n; i++)
        put_row(t, i / m, i % m, acc[i]);
}

INLINE void packed_rows_all(struct packed_tile t, int M, int n_panels, const int bits, const int blocks,
                            const bool minima, const bool int8)
{
    if (M == 1 && n_panels == PACKED_N) {
        packed_rows_tile(&t, 1, PACKED_N, bits, blocks, minima, int8);
        return;
    }
    const struct packed_tile first = t;
    for (int p = 0; p < n_panels; p++) {
        int left = M;
        t = first;
        t.panel += (size_t)p * t.p->panel_bytes;
        t.out += p * PANEL;
        for (; left >= PACKED_M; left -= PACKED_M, t.m += PACKED_M)
            packed_rows_tile(&t, PACKED_M, 1, bits, blocks, minima, int8);
        if (PACKED_M > 4 && left >= 4) {
            packed_rows_tile(&t, 4, 1, bits, blocks, minima, int8);
            left -= 4, t.m += 4;
        }
        if (PACKED_M > 2 && left >= 2) {
            packed_rows_tile(&t, 2, 1, bits, blocks, minima, int8);
            left -= 2, t.m += 2;
        }
        if (left)
            packed_rows_tile(&t, 1, 1, bits, blocks, minima, int8);
    }
}

/* One copy of the tile for each form. */
#define FORM(name, bits, blocks, minima, int8)                                  \
    static void name(struct packed_tile t, int M, int n_panels)                 \
    {                                                                           \
        packed_rows_all(t, M, n_panels, bits, blocks, minima, int8);            \
    }
FORM(whole_4_1, 4, 1, false, true) FORM(whole_4_1_min, 4, 1, true, true)
FORM(whole_4_2, 4, 2, false, true) FORM(whole_4_2_min, 4, 2, true, true)
FORM(whole_8_1, 8, 1, false, true) FORM(whole_8_1_min, 8, 1, true, true)
FORM(whole_8_2, 8, 2, false, true)
FORM(float_4_1, 4, 1, false, false) FORM(float_4_1_min, 4, 1, true, false)
FORM(float_4_2, 4, 2, false, false) FORM(float_4_2_min, 4, 2, true, false)
FORM(float_8_1, 8, 1, false, false) FORM(float_8_1_min, 8, 1, true, false)
FORM(float_8_2, 8, 2, false, false)

#ifdef PACKED_AMX
#include "engine/packed_amx.h"
#endif

static void packed_gemm(const struct packed *p, int panel, int n_panels, const struct packed_rows *rows, int m, int M,
                        float *out, size_t out_stride)
{
    static void (*const forms[2][2][2][2])(struct packed_tile, int, int) = {    /* [int8][8 bits][2 blocks][minima] */
        {{{float_4_1, float_4_1_min}, {float_4_2, float_4_2_min}}, {{float_8_1, float_8_1_min}, {float_8_2, NULL}}},
        {{{whole_4_1, whole_4_1_min}, {whole_4_2, whole_4_2_min}}, {{whole_8_1, whole_8_1_min}, {whole_8_2, NULL}}},
    };
    struct packed_tile t = {.p = p, .panel = p->data + (size_t)panel * p->panel_bytes, .rows = rows, .m = m,
                            .out = out, .out_stride = out_stride};
#ifdef PACKED_AMX
    const bool worth = rows->q && M >= AMX_LEAST_ROWS && p->K % (AMX_AHEAD * STRETCH) == 0;
    const int tiled = worth ? M / AMX_ROWS * AMX_ROWS : 0;
    for (int i = 0; tiled && i < n_panels; i++) {
        struct packed_tile one = t;
        one.panel += (size_t)i * p->panel_bytes;
        one.out += i * PANEL;
        amx_panel(&one, tiled);
    }
    t.m += tiled;
    M -= tiled;
#endif
    forms[rows->q != NULL][p->f.bits == 8][p->f.block == 16][p->f.minima](t, M, n_panels);
}
