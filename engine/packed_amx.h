/* packed_amx.h - products of whole numbers in the matrix unit of newer Intel CPUs, 16 rows of activations with a panel
 * at a time. packed_body.h includes it where kernels_amx.c asks for it. Whole sums are exact, so the bits are those of
 * every other kernel. */

/* Fewer rows than the least are not worth unpacking the codes. */
enum { AMX_ROWS = 16, AMX_LEAST_ROWS = 32, AMX_MOST_ROWS = 256 };

/* Tiles 0 to 3 hold sums, 4 and 5 activations, 6 and 7 codes of one block of columns. */
static void amx_configure(int block)
{
    struct { uint8_t palette, start_row, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? block : 64);
        c.rows[i] = (uint8_t)(i >= 6 ? block / 4 : AMX_ROWS);
    }
    _tile_loadconfig(&c);
}

/* Codes of stretches [k, end) as signed bytes, in the same order. */
static void amx_unpack(const struct packed *p, const uint8_t *panel, int k, int end, int8_t *out)
{
    const __m512i center = _mm512_set1_epi8((char)p->f.center);
    const int bytes = STRETCH * PANEL * p->f.bits / 8;
    const uint8_t *codes = panel + (size_t)(k / STRETCH) * (size_t)bytes;
    for (; k < end; k += STRETCH, codes += bytes, out += STRETCH * PANEL)
        for (int c = 0; c < 8; c++) {
            const w64 raw = w_load(codes + 64 * (p->f.bits == 8 ? c : c % 4));
            const w64 code = p->f.bits == 8 ? raw : c < 4 ? w_low(raw) : w_high(raw);
            _mm512_storeu_si512(out + 64 * c, _mm512_sub_epi8(code, center));
        }
}

/* Sums of one block of columns: 16 rows of activations times the panel. */
#define AMX_BLOCK(sum, x, w, a, b, out)             \
    do {                                            \
        _tile_zero(sum);                            \
        _tile_loadd(x, a, STRETCH);                 \
        _tile_loadd(w, b, 64);                      \
        _tile_dpbssd(sum, x, w);                    \
        _tile_stored(sum, out, 64);                 \
    } while (0)

enum { AMX_AHEAD = 4 };         /* blocks whose sums are on their way while those before are taken up */
struct amx_sums { int32_t t[AMX_AHEAD][AMX_ROWS * PANEL]; } __attribute__((aligned(64)));

INLINE void amx_ahead(const int8_t *q, const int8_t *codes, int b, struct amx_sums *out, const int blocks)
{
    const int width = STRETCH / blocks;
    const int8_t *a[AMX_AHEAD], *w[AMX_AHEAD];
    for (int i = 0; i < AMX_AHEAD; i++) {
        a[i] = q + (b + i) / blocks * (STRETCH * AMX_ROWS) + (b + i) % blocks * width;
        w[i] = codes + (b + i) * width * PANEL;
    }
    AMX_BLOCK(0, 4, 6, a[0], w[0], out->t[0]);
    AMX_BLOCK(1, 5, 7, a[1], w[1], out->t[1]);
    AMX_BLOCK(2, 4, 6, a[2], w[2], out->t[2]);
    AMX_BLOCK(3, 5, 7, a[3], w[3], out->t[3]);
}

/* What is known of 16 rows from stretch k on: pointers to their first values. */
struct amx_x { const int8_t *q; const float *scale, *sum; };

/* n blocks, a multiple of AMX_AHEAD; acc[16][16] goes on from what it holds. */
INLINE void amx_rows(struct amx_x x, int n, const int8_t *codes, const float *scale, const float *minus_min, float *acc,
                     const int blocks, const bool minima)
{
    struct amx_sums sums[2];
    v16 sum[AMX_ROWS];
    for (int i = 0; i < AMX_ROWS; i++)
        sum[i] = v_load(acc + i * PANEL);
    amx_ahead(x.q, codes, 0, &sums[0], blocks);
    for (int first = 0; first < n; first += AMX_AHEAD) {
        if (first + AMX_AHEAD < n)
            amx_ahead(x.q, codes, first + AMX_AHEAD, &sums[(first / AMX_AHEAD + 1) % 2], blocks);
        for (int b = first; b < first + AMX_AHEAD; b++) {
            const int32_t *whole = sums[first / AMX_AHEAD % 2].t[b - first];
            const v16 d = v_load(scale + b * PANEL);
            const float *x_scale = x.scale + b / blocks * AMX_ROWS;
            for (int i = 0; i < AMX_ROWS; i++) {
                const v16 t = v_from_i(w_load((const uint8_t *)(whole + i * PANEL)));
                sum[i] = v_fma(t, v_mul(d, v_set1(x_scale[i])), sum[i]);
                if (minima)
                    sum[i] = v_fma(v_load(minus_min + b * PANEL), v_set1(x.sum[b * AMX_ROWS + i]), sum[i]);
            }
        }
    }
    for (int i = 0; i < AMX_ROWS; i++)
        v_store(acc + i * PANEL, sum[i]);
}

/* M rows, a multiple of 16, from row m on. */
static void amx_panel(const struct packed_tile *t, int M)
{
    const struct packed *p = t->p;
    const int blocks = STRETCH / p->f.block;
    const size_t stretches = (size_t)(p->K / STRETCH);
    int8_t codes[SCALED * STRETCH * PANEL] __attribute__((aligned(64)));
    float scale[SCALED * 2 * PANEL], minus_min[SCALED * 2 * PANEL];
    float acc[AMX_MOST_ROWS * PANEL] __attribute__((aligned(64)));
    memset(acc, 0, (size_t)M * PANEL * sizeof *acc);
    amx_configure(p->f.block);
    for (int k = 0; k < p->K; k += SCALED * STRETCH) {
        const int end = k + SCALED * STRETCH < p->K ? k + SCALED * STRETCH : p->K;
        work_out_scales(p, t->panel, k, end, scale, minus_min);
        amx_unpack(p, t->panel, k, end, codes);
        const int n = (end - k) / p->f.block;
        for (int m = 0; m < M; m += AMX_ROWS) {
            float *a = acc + m * PANEL;
            const size_t at = row_part(t->rows, t->m + m, stretches, (size_t)(k / STRETCH));
            const struct amx_x x = {t->rows->q + at * STRETCH, t->rows->scale + at,
                                    p->f.minima ? t->rows->sum + at * (size_t)blocks : NULL};
            if (blocks == 1 && p->f.minima)
                amx_rows(x, n, codes, scale, minus_min, a, 1, true);
            else if (blocks == 1)
                amx_rows(x, n, codes, scale, minus_min, a, 1, false);
            else if (p->f.minima)
                amx_rows(x, n, codes, scale, minus_min, a, 2, true);
            else
                amx_rows(x, n, codes, scale, minus_min, a, 2, false);
        }
    }
    _tile_release();
    for (int m = 0; m < M; m++)
        put_row(t, 0, m, v_load(acc + m * PANEL));
}
