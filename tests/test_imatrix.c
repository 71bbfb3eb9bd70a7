/* Importance matrices in both forms: llama-imatrix's own files, and damage (the seeds of the fuzz target). */
#include "engine/imatrix.h"
#include "tests/test.h"

#define DATA "tests/data/quantize/"
#define SEEDS "tests/fuzz/imatrix/"

static struct imatrix *opened(const char *path)
{
    struct imatrix *m;
    struct err e = {0};
    CHECK_MSG(imatrix_open(&m, path, &e) == 0, "%s", e.msg);
    return m;
}

/* Values as numpy reads them from the files: sums / counts, sums / calls. */
static void real_files(void)
{
    struct imatrix *g = opened(DATA "importances.gguf"), *d = opened(DATA "importances.dat");
    if (!g || !d)
        return;
    CHECK(g->n == 32 && d->n == 32 && g->chunks == 4 && d->chunks == 4);
    CHECK_STR(g->dataset, "text.txt");
    CHECK_STR(d->dataset, "text.txt");
    const struct imatrix_entry *a = imatrix_find(g, "blk.1.attn_output.weight");
    const struct imatrix_entry *b = imatrix_find(d, "blk.1.attn_output.weight");
    if (CHECK(a && b && a->n == 512 && b->n == 512)) {
        CHECK(a->value[0] == 0.6627734f && a->value[511] == 0.85616356f);
        CHECK(b->value[32] == 1.1729785f && b->value[511] == 2.5e-31f);
    }
    CHECK(!imatrix_find(g, "blk.1.attn_output") && !imatrix_find(g, "token_embd.weight"));
    imatrix_close(g);
    imatrix_close(d);
}

static void small_files(void)
{
    struct imatrix *m = opened(SEEDS "dataset.dat");
    if (m) {
        const struct imatrix_entry *e = imatrix_find(m, "blk.0.attn_q.weight");
        CHECK(m->n == 2 && m->chunks == 7 && e && e->n == 4 && e->value[1] == 0.5f && e->value[3] == 0.75f);
        CHECK_STR(m->dataset, "text");
    }
    imatrix_close(m);
    if ((m = opened(SEEDS "one.gguf")))
        CHECK(m->chunks == 3 && m->entry[0].n == 4 && m->entry[0].value[3] == 3.f / 5);
    imatrix_close(m);
    if ((m = opened(SEEDS "count-0.gguf")))         /* no token has met it: all columns count alike */
        CHECK(m->entry[0].value[0] == 1 && m->entry[0].value[2] == 1);
    imatrix_close(m);
}

static void damage(void)
{
    static const char *const cases[][2] = {
        {"cut.dat", "entry 0"}, {"nan.dat", "a finite number"}, {"twice.dat", "twice"},
        {"huge-count.dat", "an importance matrix"}, {"huge-name.dat", "entry 0"}, {"negative.dat", "entry 0"},
        {"huge-values.dat", "entry 0"}, {"no-metadata.gguf", "imatrix.datasets"}, {"no-counts.gguf", ".counts"},
        {"count-nan.gguf", ".counts"}, {"experts.gguf", "one count"}, {"f16.gguf", "of type F32"},
        {"negative.gguf", "not negative"}, {"cut.gguf", "cut.gguf"}, {"datasets-number.gguf", "imatrix.datasets"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct imatrix *m;
        struct err e = {0};
        char path[96];
        snprintf(path, sizeof path, SEEDS "%s", cases[i][0]);
        const bool failed = imatrix_open(&m, path, &e) != 0;
        CHECK_MSG(failed && !m && e.code == EXIT_BAD_INPUT && strstr(e.msg, cases[i][1]) && strstr(e.msg, path),
                  "%s: %d %s", path, e.code, e.msg);
    }
}

int main(void)
{
    RUN(real_files);
    RUN(small_files);
    RUN(damage);
    return test_report();
}
