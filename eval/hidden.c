/* hidden.c - writing and reading hidden.bin. */
#define _GNU_SOURCE
#include "eval/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_WORDS = 6, MAGIC = 0x31304848, KEY_MAX = 1 << 16, ROWS_MAX = 1 << 20, WIDTH_MAX = 1 << 20 };

/* A block within the file. */
struct block { const char *key; size_t key_bytes; int rows; const float *data; size_t end; };

struct hidden_writer { int fd; char *path; struct hidden_layers layers; int width; };

struct hidden_file {
    struct mapped map;
    struct hidden_layers layers;
    int width;
    struct block *blocks;       /* sorted by key, of equal keys the latest first */
    size_t n;
};

int hidden_layers_parse(struct hidden_layers *l, const char *text, int n_layers, struct err *e)
{
    *l = (struct hidden_layers){0};
    if (strcmp(text, "all") == 0) {
        for (; l->n < n_layers && l->n < HIDDEN_LAYERS_MAX; l->n++)
            l->layer[l->n] = l->n;
        return 0;
    }
    for (const char *at = text;;) {
        char *end;
        const long layer = strtol(at, &end, 10);
        if (end == at || layer < 0 || layer >= n_layers || l->n == HIDDEN_LAYERS_MAX ||
            (l->n && layer <= l->layer[l->n - 1]) || (*end && *end != ','))
            return err_set(e, EXIT_USAGE, "--trace-hidden %s: layers from 0 to %d in ascending order were expected, as "
                           "3 or 3,28, or all", text, n_layers - 1);
        l->layer[l->n++] = (int)layer;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

static size_t padded(size_t n) { return (n + 3) / 4 * 4; }

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* 1: *b is the block at `at`; 0: the file ends within it; -1: no such block. */
static int block_at(const uint8_t *data, size_t size, size_t at, struct block *b, struct hidden_layers *l, int *width)
{
    uint32_t head[HEAD_WORDS];
    if (size - at < sizeof head)
        return 0;
    for (int i = 0; i < HEAD_WORDS; i++)
        head[i] = word_at(data + at + 4 * i);
    if (head[0] != MAGIC || head[1] < 2 || head[1] > KEY_MAX || head[2] > ROWS_MAX || head[3] < 1 ||
        head[3] > HIDDEN_LAYERS_MAX || head[4] < 1 || head[4] > WIDTH_MAX || head[5])
        return -1;
    const size_t values = (size_t)head[2] * head[3] * head[4], key = at + sizeof head + 4 * head[3];
    const size_t rows = key + padded(head[1]);
    if (rows > size || values > (size - rows) / sizeof(float))
        return 0;
    *l = (struct hidden_layers){.n = (int)head[3]};
    for (int i = 0; i < l->n; i++)
        l->layer[i] = (int)word_at(data + at + sizeof head + 4 * i);
    *width = (int)head[4];
    *b = (struct block){(const char *)data + key, head[1], (int)head[2], (const float *)(const void *)(data + rows),
                        rows + values * sizeof(float)};
    return 1;
}

static bool same_shape(const struct hidden_layers *a, int a_width, const struct hidden_layers *b, int b_width)
{
    return a->n == b->n && a_width == b_width && memcmp(a->layer, b->layer, (size_t)a->n * sizeof *a->layer) == 0;
}

/* Calls keep(arg, block) for every whole block; *end is where a torn one, or nothing, begins. */
static int each_block(const struct mapped *m, struct hidden_layers *layers, int *width,
                      void (*keep)(void *arg, const struct block *b), void *arg, size_t *end, struct err *e)
{
    struct block b;
    struct hidden_layers l;
    int w, got;
    *end = 0;
    while (*end < m->size && (got = block_at(m->data, m->size, *end, &b, &l, &w)) != 0) {
        if (got < 0)
            return err_input(e, "%s: a block of hidden rows was expected at byte %zu", m->path, *end);
        if (*width && !same_shape(layers, *width, &l, w))
            return err_input(e, "%s: the block at byte %zu has other layers or another width than those before it",
                             m->path, *end);
        *layers = l;
        *width = w;
        if (keep)
            keep(arg, &b);
        *end = b.end;
    }
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* Checks what lies there and cuts off a torn end. */
static int resume(struct hidden_writer *w, struct err *e)
{
    struct mapped m;
    struct hidden_layers layers = w->layers;
    int width = w->width;
    size_t end;
    if (lseek(w->fd, 0, SEEK_END) == 0)
        return 0;
    if (map_open(&m, w->path, e))
        return -1;
    int failed = each_block(&m, &layers, &width, NULL, NULL, &end, e);
    map_close(&m);
    if (!failed && (ftruncate(w->fd, (off_t)end) || lseek(w->fd, 0, SEEK_END) < 0))
        failed = err_machine(e, "%s: cannot be cut to its whole blocks", w->path);
    return failed;
}

int hidden_writer_open(struct hidden_writer **out, const char *dir, const struct hidden_layers *l, int width,
                       struct err *e)
{
    struct hidden_writer *w = NEW(struct hidden_writer, 1);
    *w = (struct hidden_writer){.path = path_join(dir, "hidden.bin"), .layers = *l, .width = width};
    w->fd = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (w->fd < 0 ? err_machine(e, "%s: cannot be opened", w->path) : resume(w, e)) {
        hidden_writer_close(w);
        *out = NULL;
        return -1;
    }
    *out = w;
    return 0;
}

void hidden_writer_close(struct hidden_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w->path);
    free(w);
}

static void put_word(struct text *t, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    text_put(t, bytes, 4);
}

static int write_all(struct hidden_writer *w, const void *data, size_t n, struct err *e)
{
    const char *at = data;
    while (n) {
        const ssize_t done = write(w->fd, at, n);
        if (done < 0 && errno != EINTR)
            return err_machine(e, "%s: cannot be written", w->path);
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

int hidden_write(struct hidden_writer *w, const char *task, const char *id, const float *rows, int n, struct err *e)
{
    struct text t = {0}, key = {0};
    text_printf(&key, "%s\n%s", task, id);
    put_word(&t, MAGIC);
    put_word(&t, (uint32_t)key.len);
    put_word(&t, (uint32_t)n);
    put_word(&t, (uint32_t)w->layers.n);
    put_word(&t, (uint32_t)w->width);
    put_word(&t, 0);
    for (int i = 0; i < w->layers.n; i++)
        put_word(&t, (uint32_t)w->layers.layer[i]);
    text_put(&t, key.data, key.len);
    text_put(&t, "\0\0\0", padded(key.len) - key.len);
    int failed = key.len > KEY_MAX ? err_input(e, "sample %.60s...: an id of under 64 KiB was expected", id)
                                   : write_all(w, t.data, t.len, e) ||
                                         write_all(w, rows, (size_t)n * (size_t)w->layers.n * (size_t)w->width *
                                                                sizeof *rows, e) ? -1 : 0;
    text_free(&t);
    text_free(&key);
    return failed;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static int compare_keys(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_key(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    const int order = compare_keys(x->key, x->key_bytes, y->key, y->key_bytes);
    return order ? order : (x->end < y->end) - (x->end > y->end);
}

static void keep_block(void *arg, const struct block *b)
{
    struct hidden_file *f = arg;
    if ((f->n & (f->n - 1)) == 0)
        f->blocks = mem_grow(f->blocks, f->n ? f->n * 2 : 1, sizeof *f->blocks);
    f->blocks[f->n++] = *b;
}

int hidden_open(struct hidden_file **out, const char *dir, struct err *e)
{
    struct hidden_file *f = NEW(struct hidden_file, 1);
    char *path = path_join(dir, "hidden.bin");
    size_t end;
    int failed = file_exists(path) ? map_open(&f->map, path, e)
                                   : err_input(e, "%s: no hidden.bin; \"run --trace-hidden LAYER\" records hidden rows",
                                               dir);
    if (!failed)
        failed = each_block(&f->map, &f->layers, &f->width, keep_block, f, &end, e);
    if (!failed && f->n == 0)
        failed = err_input(e, "%s: no hidden rows in it", path);
    free(path);
    if (failed) {
        hidden_close(f);
        *out = NULL;
        return -1;
    }
    qsort(f->blocks, f->n, sizeof *f->blocks, by_key);
    *out = f;
    return 0;
}

void hidden_close(struct hidden_file *f)
{
    if (!f)
        return;
    map_close(&f->map);
    free(f->blocks);
    free(f);
}

struct hidden_layers hidden_layers_of(const struct hidden_file *f) { return f->layers; }
int hidden_width(const struct hidden_file *f) { return f->width; }

const float *hidden_find(const struct hidden_file *f, const char *task, const char *id, int *n)
{
    struct text key = {0};
    text_printf(&key, "%s\n%s", task, id);
    size_t lo = 0, hi = f->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (compare_keys(f->blocks[mid].key, f->blocks[mid].key_bytes, key.data, key.len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct block *b = lo < f->n ? &f->blocks[lo] : NULL;
    const bool found = b && compare_keys(b->key, b->key_bytes, key.data, key.len) == 0;
    text_free(&key);
    *n = found ? b->rows : 0;
    return found ? b->data : NULL;
}
