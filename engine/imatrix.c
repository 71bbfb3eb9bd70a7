/* imatrix.c - reads importance matrices. Every count is compared with the size of the file before it is believed. */
#include "engine/imatrix.h"

#include "engine/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct imatrix_entry *)a)->name, ((const struct imatrix_entry *)b)->name);
}

const struct imatrix_entry *imatrix_find(const struct imatrix *m, const char *name)
{
    const struct imatrix_entry key = {.name = name};
    return m->n ? bsearch(&key, m->entry, m->n, sizeof key, by_name) : NULL;
}

/* Sums to means in place, then the checks that both forms share. */
static int take_entry(struct imatrix *m, const char *name, float *value, int64_t n, float count, const char *path,
                      struct err *e)
{
    for (int64_t i = 0; i < n; i++) {
        value[i] = count > 0 ? value[i] / count : value[i];
        if (!isfinite(value[i]) || value[i] < 0)
            return err_input(e, "%s: importances of %s: column %lld: a finite number that is not negative was expected",
                             path, name, (long long)i);
    }
    m->entry[m->n++] = (struct imatrix_entry){name, value, n};
    return 0;
}

static int sort_entries(struct imatrix *m, const char *path, struct err *e)
{
    if (m->n == 0)
        return err_input(e, "%s: it holds no importances", path);
    qsort(m->entry, m->n, sizeof *m->entry, by_name);
    for (size_t i = 1; i < m->n; i++)
        if (strcmp(m->entry[i - 1].name, m->entry[i].name) == 0)
            return err_input(e, "%s: importances of %s: they are in it twice", path, m->entry[i].name);
    return 0;
}

/* ---- GGUF ------------------------------------------------------------------------------------------------------ */

/* A file's tensors by name. */
struct index { const struct gguf *g; const struct gguf_tensor **t; };

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp((*(const struct gguf_tensor *const *)a)->name, (*(const struct gguf_tensor *const *)b)->name);
}

static const struct gguf_tensor *find_tensor(const struct index *x, const char *name)
{
    const struct gguf_tensor key = {.name = name}, *to = &key;
    const struct gguf_tensor **found = bsearch(&to, x->t, x->g->n_tensors, sizeof to, by_tensor_name);
    return found ? *found : NULL;
}

static bool is_f32(const struct gguf_tensor *t)
{
    return t && strcmp(t->type->name, "F32") == 0 && t->n_bytes >= 4;
}

/* A matrix that no token met has the count 0: its columns count alike. */
static int take_sums(struct imatrix *m, const struct index *x, const struct gguf_tensor *sums, const char *name,
                     struct err *e)
{
    const char *path = x->g->file->path;
    const struct gguf_tensor *counts = find_tensor(x, arena_printf(&m->arena, "%s.counts", name));
    const int64_t n = (int64_t)(sums->n_bytes / 4);
    float count;
    if (!is_f32(sums) || !is_f32(counts) || counts->n_bytes != 4)
        return err_input(e, "%s: importances of %s: tensors %s.in_sum2 and %s.counts of type F32, one count, were "
                         "expected", path, name, name, name);
    float *value = ARENA_NEW(&m->arena, float, n);
    memcpy(value, sums->data, sums->n_bytes);
    memcpy(&count, counts->data, 4);
    if (!isfinite(count))
        return err_input(e, "%s: tensor %s.counts: a finite number was expected", path, name);
    count = roundf(count);
    for (int64_t i = 0; i < n && !(count > 0); i++)
        value[i] = 1;
    return take_entry(m, name, value, n, count, path, e);
}

static void see_dataset(void *arg, uint64_t i, const char *s, size_t len)
{
    struct imatrix *m = arg;
    if (i == 0)
        m->dataset = arena_strndup(&m->arena, s, len);
}

static int read_gguf(struct imatrix *m, const struct mapped *file, struct err *e)
{
    static const char suffix[] = ".in_sum2";
    struct gguf g;
    double chunks = 0;
    if (gguf_parse(file, &m->arena, &g, e))
        return -1;
    const struct gguf_value *datasets = gguf_find(&g, "imatrix.datasets"), *n = gguf_find(&g, "imatrix.chunk_count");
    if (!datasets || datasets->kind != GGUF_ARRAY || datasets->element != GGUF_STRING || !n ||
        !gguf_number(n, 0, &chunks) || !gguf_find(&g, "imatrix.chunk_size"))
        return err_input(e, "%s: metadata keys imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size were "
                         "expected (a file of llama-imatrix)", file->path);
    gguf_strings(datasets, see_dataset, m);
    m->chunks = chunks > 0 && chunks < 1e9 ? (int64_t)chunks : 0;
    struct index x = {&g, ARENA_NEW(&m->arena, const struct gguf_tensor *, g.n_tensors)};
    for (size_t i = 0; i < g.n_tensors; i++)
        x.t[i] = &g.tensors[i];
    qsort(x.t, g.n_tensors, sizeof *x.t, by_tensor_name);
    m->entry = NEW(struct imatrix_entry, g.n_tensors);
    for (size_t i = 0; i < g.n_tensors; i++) {
        const size_t len = strlen(x.t[i]->name), end = sizeof suffix - 1;
        if (len > end && strcmp(x.t[i]->name + len - end, suffix) == 0 &&
            take_sums(m, &x, x.t[i], arena_strndup(&m->arena, x.t[i]->name, len - end), e))
            return -1;
    }
    return 0;
}

/* ---- .dat ------------------------------------------------------------------------------------------------------ */

struct reader { const uint8_t *at, *end; };

static bool read_i32(struct reader *r, int32_t *out)
{
    if (r->end - r->at < 4)
        return false;
    const uint32_t v = r->at[0] | (uint32_t)r->at[1] << 8 | (uint32_t)r->at[2] << 16 | (uint32_t)r->at[3] << 24;
    *out = (int32_t)v;
    r->at += 4;
    return true;
}

/* A length and that many bytes without NUL. */
static bool read_name(struct reader *r, struct arena *a, const char **out)
{
    int32_t len;
    if (!read_i32(r, &len) || len < 1 || len > r->end - r->at || memchr(r->at, 0, (size_t)len))
        return false;
    *out = arena_strndup(a, (const char *)r->at, (size_t)len);
    r->at += len;
    return true;
}

/* Sums are stored over the calls, already divided by their tokens. */
static int read_entry(struct imatrix *m, struct reader *r, int32_t i, const char *path, struct err *e)
{
    const char *name;
    int32_t calls, n;
    if (!read_name(r, &m->arena, &name) || !read_i32(r, &calls) || !read_i32(r, &n) || n < 1 ||
        n > (r->end - r->at) / 4)
        return err_input(e, "%s: entry %d: a name, a count and its numbers were expected (a .dat file of llama-imatrix)",
                         path, (int)i);
    float *value = ARENA_NEW(&m->arena, float, n);
    memcpy(value, r->at, 4 * (size_t)n);
    r->at += 4 * (size_t)n;
    return take_entry(m, name, value, n, (float)calls, path, e);
}

static int read_dat(struct imatrix *m, const struct mapped *file, struct err *e)
{
    struct reader r = {file->data, file->data + file->size};
    int32_t n, chunks;
    if (!read_i32(&r, &n) || n < 1 || n > (int64_t)file->size / 16)
        return err_input(e, "%s: an importance matrix of llama-imatrix (GGUF or .dat) was expected", file->path);
    m->entry = NEW(struct imatrix_entry, n);
    for (int32_t i = 0; i < n; i++)
        if (read_entry(m, &r, i, file->path, e))
            return -1;
    if (read_i32(&r, &chunks) && chunks > 0)
        m->chunks = chunks;
    read_name(&r, &m->arena, &m->dataset);
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

int imatrix_open(struct imatrix **out, const char *path, struct err *e)
{
    struct imatrix *m = NEW(struct imatrix, 1);
    struct mapped file;
    *out = NULL;
    int bad = map_open(&file, path, e);
    if (!bad) {
        bad = (gguf_is(&file) ? read_gguf(m, &file, e) : read_dat(m, &file, e)) || sort_entries(m, path, e);
        map_close(&file);
    }
    if (bad) {
        imatrix_close(m);
        return -1;
    }
    *out = m;
    return 0;
}

void imatrix_close(struct imatrix *m)
{
    if (!m)
        return;
    free(m->entry);
    arena_free(&m->arena);
    free(m);
}
