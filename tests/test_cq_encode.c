/* Writing Cactus Quants against ../shared/formats/cq: code books, rotations, and every file of the reference converter
 * that was made without calibration. */
#include "engine/cq.h"
#include "engine/cq_encode.h"
#include "tests/models.h"

#define CQ "../shared/formats/cq/"

static void code_books(void)
{
    const cJSON *c;
    int n = 0;
    if (!file_exists(CQ "tables.json"))
        SKIP("no " CQ);
    cJSON *tables = models_json(CQ, "tables.json");
    cJSON_ArrayForEach(c, json_get(tables, "codebook_float32")) {
        int dim, bits, q = 0;
        float got[16];
        const cJSON *want;
        CHECK(sscanf(c->string, "%dx%d", &dim, &bits) == 2);
        cq_codebook(dim, bits, got);
        cJSON_ArrayForEach(want, c) {
            CHECK_MSG(got[q] == (float)want->valuedouble, "%s: value %d is %.9g, not %.9g", c->string, q,
                      (double)got[q], want->valuedouble);
            q++;
        }
        CHECK(q == 1 << bits);
        n++;
    }
    CHECK_MSG(n == 24, "%d code books", n);
    cJSON_Delete(tables);
}

static void check_signs(const cJSON *want, const char *key, const struct cq_signs *s)
{
    const cJSON *v;
    int i = 0;
    cJSON_ArrayForEach(v, json_get(want, key)) {
        const int got = *key == 'l' ? s->left[i] : *key == 'r' ? s->right[i] : s->perm[i];
        CHECK_MSG(got == v->valueint, "%s %d is %d, not %d", key, i, got, v->valueint);
        i++;
    }
    CHECK_MSG(i == CQ_GROUP, "%d of %s", i, key);
}

static void rotations(void)
{
    struct cq_signs s;
    if (!file_exists(CQ "tables.json"))
        SKIP("no " CQ);
    cJSON *tables = models_json(CQ, "tables.json");
    const cJSON *want = json_get(json_get(tables, "hadamard"), "dim128_seed1234");
    cq_signs(&s);
    check_signs(want, "left", &s);
    check_signs(want, "right", &s);
    check_signs(want, json_get(want, "perm") ? "perm" : "permutation", &s);
    float *matrix = cq_orthogonal(64, NULL);
    const cJSON *row, *v;
    int i = 0;
    cJSON_ArrayForEach(row, json_get(tables, "orthogonal_64_seed1234_first_rows"))
        cJSON_ArrayForEach(v, row) {
            CHECK_NEAR((double)matrix[i], v->valuedouble, 3e-6);
            i++;
        }
    CHECK_MSG(i == 128, "%d numbers", i);
    free(matrix);
    cJSON_Delete(tables);
}

/* Q^T Q = 1, for any number of threads the same bits. */
static void orthogonality(void)
{
    enum { DIM = 72 };
    struct pool *pool = pool_new(3);
    float *q = cq_orthogonal(DIM, NULL), *again = cq_orthogonal(DIM, pool);
    CHECK(memcmp(q, again, DIM * DIM * sizeof *q) == 0);
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) {
            double sum = 0;
            for (int k = 0; k < DIM; k++)
                sum += (double)q[k * DIM + i] * (double)q[k * DIM + j];
            CHECK_NEAR(sum, i == j, 1e-6);
        }
    free(q);
    free(again);
    pool_free(pool);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* The bytes of a file of the target. */
static uint8_t *encode(const struct cq_target *t, const float *x, size_t *size)
{
    struct cq_common common;
    struct cq_file f;
    cq_common(&common, t->bits ? t->bits : 1);
    cq_file_plan(&f, t, &common, NULL);
    uint8_t *out = mem_alloc((size_t)f.size, 1);
    memcpy(out, f.head.data, f.head.len);
    for (int64_t i = 0; i < f.units; i++)
        CHECK(cq_code_unit(&f, x + i * f.unit_columns, out + f.norms_at + (size_t)i * f.unit_norms,
                           out + f.codes_at + (size_t)i * f.unit_codes));
    if (f.middle.len)
        memcpy(out + f.norms_at + (size_t)f.units * f.unit_norms, f.middle.data, f.middle.len);
    *size = (size_t)f.size;
    cq_file_free(&f);
    return out;
}

static struct cq_target target_of(const cJSON *c)
{
    const cJSON *bits = json_get(c, "bits"), *d;
    const char *rotation = json_string(c, "rotation"), *layout = json_string(c, "layout");
    struct cq_target t = {.bits = cJSON_IsNumber(bits) ? bits->valueint : 0,
                          .orthogonal = rotation && strcmp(rotation, "orthogonal") == 0,
                          .blocks_of_4 = layout && strcmp(layout, "interleaved_4row") == 0,
                          .scale = json_get(c, "scale_factor")->valuedouble};
    cJSON_ArrayForEach(d, json_get(c, "source_shape"))
        t.dim[t.n_dims++] = (int64_t)d->valuedouble;
    return t;
}

static bool made_without_calibration(const cJSON *c)
{
    const char *name = json_string(c, "name");
    const cJSON *seed = json_get(c, "seed");
    return !cJSON_IsTrue(json_get(c, "input_scale")) && !cJSON_IsTrue(json_get(c, "gptq")) &&
           (!cJSON_IsNumber(seed) || seed->valueint == 1234) && strncmp(name, "panel", 5) != 0 &&
           strncmp(name, "int", 3) != 0;
}

/* Values of two files under the same rules for reading; returns the mean square of what the second is off. */
static double error_of(const uint8_t *file, size_t size, const float *source, const struct cq_target *t)
{
    const struct mapped m = {.data = file, .size = size, .path = "encoded.weights"};
    const struct cq_shape shape = {t->n_dims, {t->dim[0], t->dim[1], t->dim[2], t->dim[3]}, t->scale};
    struct arena a = {0};
    struct tensor out;
    struct err e = {0};
    double sum = 0;
    if (CHECK_MSG(cq_tensor(&a, &m, "t", &shape, &out, &e) == 0, "%s", e.msg)) {
        const int64_t n = tensor_elements(&out);
        float *v = NEW(float, n);
        tensor_read_f32(&out, 0, n, v);
        for (int64_t i = 0; i < n; i++)
            sum += pow((double)v[i] - (double)source[i], 2);
        free(v);
    }
    arena_free(&a);
    return sum;
}

struct differences { int bytes, files; };

/* Byte for byte, but for one code that lies on the border of two cells, and for orthogonal matrices: 1 in 200 of
 * their numbers may be a unit of float16 off, hence 1 in 400 of the file's bytes. */
static void check_file(const cJSON *c, struct differences *d)
{
    const char *name = json_string(c, "name");
    char path[256];
    struct text want = {0};
    struct mapped file;
    struct arena a = {0};
    struct tensor_list l = {0};
    struct err e = {0};
    size_t size;
    const struct cq_target t = target_of(c);
    snprintf(path, sizeof path, CQ "tensors/%s/%s", name, json_string(c, "file"));
    CHECK_MSG(file_read(path, 1 << 20, &want, &e) == 0, "%s", e.msg);
    snprintf(path, sizeof path, CQ "tensors/%s/source.safetensors", name);
    CHECK_MSG(map_open(&file, path, &e) == 0 && safetensors_parse(&file, &a, &l, &e) == 0, "%s", e.msg);
    const int64_t n = l.n ? tensor_elements(&l.t[0]) : 0;
    float *source = NEW(float, n);
    tensor_read_f32(&l.t[0], 0, n, source);
    uint8_t *got = encode(&t, source, &size);
    if (CHECK_MSG(size == want.len, "%s: %zu bytes, not %zu", name, size, want.len)) {
        int off = 0;
        for (size_t i = 0; i < size; i++)
            off += got[i] != (uint8_t)want.data[i];
        d->bytes += t.orthogonal ? 0 : off;
        d->files++;
        CHECK_MSG(off <= (t.orthogonal ? (int)size / 400 : 1), "%s: %d of %zu bytes differ", name, off, size);
        const double reference = error_of((const uint8_t *)want.data, size, source, &t);
        const double own = error_of(got, size, source, &t);
        CHECK_MSG(own <= reference * 1.002, "%s: the error is %g, the reference's %g", name, own, reference);
    }
    free(got);
    free(source);
    free(l.t);
    arena_free(&a);
    map_close(&file);
    text_free(&want);
}

static void every_file(void)
{
    struct differences d = {0};
    const cJSON *c;
    if (!file_exists(CQ "tensors/cases.json"))
        SKIP("no " CQ);
    cJSON *cases = models_json(CQ "tensors", "cases.json");
    cJSON_ArrayForEach(c, cases)
        if (made_without_calibration(c))
            check_file(c, &d);
    CHECK_MSG(d.files >= 31, "%d files", d.files);
    CHECK_MSG(d.bytes <= 2, "%d bytes differ", d.bytes);
    cJSON_Delete(cases);
}

int main(void)
{
    RUN(code_books);
    RUN(rotations);
    RUN(orthogonality);
    RUN(every_file);
    return test_report();
}
