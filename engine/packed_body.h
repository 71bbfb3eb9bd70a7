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

/* Row t->m + i of the outcome. */
INLINE void put_row(const struct packed_tile *t, int i, v16 v)
{
    const struct packed *p = t->p;
    const int n = p->N - (int)((size_t)(t->panel - p->data) / p->panel_bytes) * PANEL;
    float *out = t->out + (size_t)(t->m + i) * t->out_stride;
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

/* One stretch for m rows in whole numbers: t[i * blocks + b]. */
INLINE void whole_stretch(const struct packed_tile *t, int k, i16 *sum, const int m, const int bits, const int blocks)
{
    const size_t stretch = (size_t)(k / STRETCH), n = (size_t)(t->p->K / STRETCH);
    const int8_t *q = t->rows->q + row_part(t->rows, t->m, n, stretch) * STRETCH;
    const uint8_t *codes = t->panel + (size_t)(k / STRETCH) * STRETCH * PANEL * (size_t)bits / 8;
    fetch_ahead(codes, STRETCH * PANEL * bits / 8);
    for (int i = 0; i < m; i++)
        for (int b = 0; b < blocks; b++)
            sum[i * blocks + b] = i_set1(t->rows->start[row_part(t->rows, t->m, n * (size_t)blocks,
                                                                 stretch * (size_t)blocks + (size_t)b) + (size_t)i]);
    for (int c = 0; c < 8; c++) {
        const w64 raw = w_load(codes + 64 * (bits == 8 ? c : c % 4));
        const w64 code = bits == 8 ? raw : c < 4 ? w_low(raw) : w_high(raw);
        const int b = c * blocks / 8;
        for (int i = 0; i < m; i++)
            sum[i * blocks + b] = i_dot4(sum[i * blocks + b], code, q + i * STRETCH + 4 * c, bits == 4);
    }
}

/* The same with float32 activations. */
INLINE void float_stretch(const struct packed_tile *t, int k, w_table table, v16 *sum, const int m, const int bits,
                          const int blocks)
{
    const float *x = t->rows->x + (size_t)t->m * t->rows->x_stride + k;
    const uint8_t *codes = t->panel + (size_t)(k / STRETCH) * STRETCH * PANEL * (size_t)bits / 8;
    fetch_ahead(codes, STRETCH * PANEL * bits / 8);
    for (int i = 0; i < m * blocks; i++)
        sum[i] = v_set1(0);
    for (int c = 0; c < 8; c++) {
        const w64 raw = w_load(codes + 64 * (bits == 8 ? c : c % 4));
        const int b = c * blocks / 8;
        for (int j = 0; j < 4; j++) {
            const v16 w = bits == 8 ? w_byte(raw, j) : w_nibble(raw, 2 * j + c / 4, table);
            for (int i = 0; i < m; i++)
                sum[i * blocks + b] = v_fma(v_set1(x[(size_t)i * t->rows->x_stride + (size_t)(4 * c + j)]), w,
                                            sum[i * blocks + b]);
        }
    }
}

/* m rows against a panel; m, bits, blocks (of a stretch), minima and int8 are constants after inlining. */
INLINE void packed_rows_tile(const struct packed_tile *t, const int m, const int bits, const int blocks,
                             const bool minima, const bool int8)
{
    const struct packed *p = t->p;
    const v16 back = v_set1(bits == 8 && !int8 ? PACKED_BYTE_SCALE : 1);
    float scale[SCALED * 2 * PANEL], minus_min[SCALED * 2 * PANEL];
    float levels[16];
    for (int i = 0; i < 16; i++)
        levels[i] = (float)(i - p->f.center);
    const w_table table = w_table_load(levels);
    v16 acc[PACKED_M];
    for (int i = 0; i < m; i++)
        acc[i] = v_set1(0);
    for (int first = 0; first < p->K; first += SCALED * STRETCH) {
        const int end = first + SCALED * STRETCH < p->K ? first + SCALED * STRETCH : p->K;
        work_out_scales(p, t->panel, first, end, scale, minus_min);
        for (int k = first, s = 0; k < end; k += STRETCH, s += blocks) {
            i16 whole[PACKED_M * 2];
            v16 part[PACKED_M * 2];
            if (int8)
                whole_stretch(t, k, whole, m, bits, blocks);
            else
                float_stretch(t, k, table, part, m, bits, blocks);
            for (int b = 0; b < blocks; b++) {
                v16 d = v_load(scale + (s + b) * PANEL);
                if (bits == 8 && !int8)
                    d = v_mul(d, back);
                const size_t stretch = (size_t)(k / STRETCH), n = (size_t)(p->K / STRETCH);
                const float *x_scale = t->rows->scale + row_part(t->rows, t->m, n, stretch);
                const float *x_sum = t->rows->sum + row_part(t->rows, t->m, n * (size_t)blocks,
                                                             stretch * (size_t)blocks + (size_t)b);
                for (int i = 0; i < m; i++) {
                    if (int8)
                        acc[i] = v_fma(v_from_i(whole[i * blocks + b]), v_mul(d, v_set1(x_scale[i])), acc[i]);
                    else
                        acc[i] = v_fma(part[i * blocks + b], d, acc[i]);
                    if (minima)
                        acc[i] = v_fma(v_load(minus_min + (s + b) * PANEL), v_set1(x_sum[i]), acc[i]);
                }
            }
        }
    }
    for (int i = 0; i < m; i++)
        put_row(t, i, acc[i]);
}

INLINE void packed_rows_all(struct packed_tile t, int M, const int bits, const int blocks, const bool minima,
                            const bool int8)
{
    for (; M >= PACKED_M; M -= PACKED_M, t.m += PACKED_M)
        packed_rows_tile(&t, PACKED_M, bits, blocks, minima, int8);
    if (PACKED_M > 4 && M >= 4) {
        packed_rows_tile(&t, 4, bits, blocks, minima, int8);
        M -= 4, t.m += 4;
    }
    if (PACKED_M > 2 && M >= 2) {
        packed_rows_tile(&t, 2, bits, blocks, minima, int8);
        M -= 2, t.m += 2;
    }
    if (M)
        packed_rows_tile(&t, 1, bits, blocks, minima, int8);
}

/* One copy of the tile for each form. */
#define FORM(name, bits, blocks, minima, int8)                                  \
    static void name(struct packed_tile t, int M)                               \
    {                                                                           \
        packed_rows_all(t, M, bits, blocks, minima, int8);                      \
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

static void packed_gemm(const struct packed *p, int panel, const struct packed_rows *rows, int m, int M, float *out,
                        size_t out_stride)
{
    static void (*const forms[2][2][2][2])(struct packed_tile, int) = {     /* [int8][8 bits][2 blocks][minima] */
        {{{float_4_1, float_4_1_min}, {float_4_2, float_4_2_min}}, {{float_8_1, float_8_1_min}, {float_8_2, NULL}}},
        {{{whole_4_1, whole_4_1_min}, {whole_4_2, whole_4_2_min}}, {{whole_8_1, whole_8_1_min}, {whole_8_2, NULL}}},
    };
    struct packed_tile t = {.p = p, .panel = p->data + (size_t)panel * p->panel_bytes, .rows = rows, .m = m,
                                  .out = out, .out_stride = out_stride};
#ifdef PACKED_AMX
    const bool worth = rows->q && M >= AMX_LEAST_ROWS && p->K % (AMX_AHEAD * STRETCH) == 0;
    const int tiled = worth ? M / AMX_ROWS * AMX_ROWS : 0;
    if (tiled)
        amx_panel(&t, tiled);
    t.m += tiled;
    M -= tiled;
#endif
    forms[rows->q != NULL][p->f.bits == 8][p->f.block == 16][p->f.minima](t, M);
}
