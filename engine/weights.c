/* weights.c - the tensors of a checkpoint by name, wherever its files keep them. Files stay mapped; nothing is copied
 * unless asked for. */
#define _DEFAULT_SOURCE                 /* madvise */
#include "engine/cq.h"
#include "engine/gguf.h"
#include "engine/internal.h"
#include "engine/mlx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_FILES = 1000, MAX_INDEX_BYTES = 64 << 20, MAX_CONFIG_BYTES = 16 << 20 };

struct weights {
    struct arena arena;
    struct mapped *files;
    int n_files;
    struct bundle *bundle;              /* of a Cactus bundle, or NULL */
    struct tensor_list list;            /* sorted by name */
};

/* ---- one tensor ------------------------------------------------------------------------------------------------ */

const char *tensor_type_name(enum tensor_type type)
{
    static const char *const names[N_TENSOR_TYPES] = {"F32", "F16", "BF16", "coded", "other"};
    return names[type];
}

void tensor_list_push(struct tensor_list *l, const struct tensor *t)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->t = mem_grow(l->t, l->cap, sizeof *l->t);
    }
    l->t[l->n++] = *t;
}

int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dim[i];
    return n;
}

static float widen_half(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;
    uint32_t bits;
    float f;
    if (exponent == 0) {
        f = (float)fraction * 0x1p-24f;             /* zero and subnormals: exact */
        return sign ? -f : f;
    }
    bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float half_to_f32(const void *halves, uint64_t i)
{
    uint16_t h;
    memcpy(&h, (const uint8_t *)halves + 2 * i, sizeof h);
    return widen_half(h);
}

void tensor_read_f32(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    const uint8_t *p = t->data;
    if (t->type == TENSOR_CODED) {
        t->codec->read(t, t->skip + first, n, out);
        return;
    }
    if (t->type == TENSOR_F32) {
        memcpy(out, p + 4 * first, (size_t)n * 4);
        return;
    }
    p += 2 * first;
    if (t->type == TENSOR_F16) {
        for (int64_t i = 0; i < n; i++)
            out[i] = half_to_f32(p, (uint64_t)i);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        const uint32_t bits = (uint32_t)h << 16;
        memcpy(&out[i], &bits, 4);
    }
}

static uint16_t narrow_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff;
    if (exponent == 0xff || fabsf(f) >= 65520)
        return (uint16_t)(sign | 0x7c00 | (isnan(f) ? 0x200 : 0));
    if (exponent < 113)                             /* subnormal: in steps of 2^-24 */
        return (uint16_t)(sign | (uint32_t)rintf(fabsf(f) * 0x1p24f));
    bits = (bits & 0x7fffffff) - (112u << 23);
    return (uint16_t)(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

static uint16_t narrow_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(isnan(f) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void f32_to_plain(enum tensor_type type, const float *x, int64_t n, void *out)
{
    uint16_t *halves = out;
    if (type == TENSOR_F32)
        memcpy(out, x, (size_t)n * 4);
    for (int64_t i = 0; i < n && type != TENSOR_F32; i++)
        halves[i] = type == TENSOR_F16 ? narrow_half(x[i]) : narrow_bf16(x[i]);
}

static bool coded_finite(const struct tensor *t, int64_t first, int64_t n)
{
    float values[1024];
    bool finite = true;
    for (int64_t done = 0; done < n && finite; done += 1024) {
        const int64_t take = n - done < 1024 ? n - done : 1024;
        tensor_read_f32(t, first + done, take, values);
        for (int64_t i = 0; i < take; i++)
            finite &= isfinite(values[i]) != 0;
    }
    return finite;
}

bool tensor_finite(const struct tensor *t, int64_t first, int64_t n)
{
    const uint8_t *p = t->data;
    uint32_t bad = 0;
    if (t->type == TENSOR_CODED)
        return t->codec->is_finite || coded_finite(t, first, n);
    if (t->type == TENSOR_F32) {
        for (int64_t i = first; i < first + n; i++) {
            uint32_t bits;
            memcpy(&bits, p + 4 * i, 4);
            bad |= (bits & 0x7f800000) == 0x7f800000;
        }
        return !bad;
    }
    const uint16_t mask = t->type == TENSOR_F16 ? 0x7c00 : 0x7f80;
    for (int64_t i = first; i < first + n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        bad |= (h & mask) == mask;
    }
    return !bad;
}

/* One task of the scan for NaN and infinity. */
enum { SCAN_ELEMENTS = 1 << 20 };
struct scan { const struct tensor *t; int64_t first, n; bool bad; };

static void scan_piece(void *arg, int i)
{
    struct scan *s = (struct scan *)arg + i;
    s->bad = !tensor_finite(s->t, s->first, s->n);
}

int tensor_infinite(const struct tensor *t, struct err *e)
{
    return err_input(e, "%s: tensor %s: finite weights were expected, it holds infinite values or NaN", t->file,
                     t->name);
}

int tensors_check_finite(struct pool *pool, const struct tensor *const *t, size_t n_tensors, struct err *e)
{
    int n = 0, bad = 0;
    for (size_t i = 0; i < n_tensors; i++)
        n += (int)(tensor_elements(t[i]) / SCAN_ELEMENTS) + 1;
    struct scan *scan = NEW(struct scan, n);
    n = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        const int64_t all = tensor_elements(t[i]);
        for (int64_t first = 0; first < all; first += SCAN_ELEMENTS)
            scan[n++] = (struct scan){.t = t[i], .first = first,
                                      .n = all - first < SCAN_ELEMENTS ? all - first : SCAN_ELEMENTS};
    }
    pool_run(pool, n, scan_piece, scan);
    for (int i = 0; i < n && !bad; i++)
        if (scan[i].bad)
            bad = tensor_infinite(scan[i].t, e);
    free(scan);
    return bad;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int map_file(struct weights *w, const char *path, struct err *e)
{
    if (w->n_files == MAX_FILES)
        return err_input(e, "%s: a checkpoint of at most %d files was expected", path, MAX_FILES);
    if (map_open(&w->files[w->n_files], path, e))
        return -1;
    w->n_files++;
    return 0;
}

/* The parts of a split GGUF file follow from the name of the first; tensors are named by what the first says. */
static int open_gguf(struct weights *w, const char *path, struct err *e)
{
    struct gguf first, part;
    int n_parts = 0;
    int64_t stated;
    size_t n_tensors;
    if (gguf_parse(&w->files[w->n_files - 1], &w->arena, &first, e) || gguf_split(&first, 0, &n_parts, &stated, e))
        return -1;
    gguf_tensors(&first, &first, &w->arena, &w->list);
    n_tensors = first.n_tensors;
    for (int i = 1; i < n_parts; i++) {
        char *name = gguf_part_path(path, i, n_parts);
        int n = n_parts;
        const bool bad = map_file(w, name, e) || gguf_parse(&w->files[w->n_files - 1], &w->arena, &part, e) ||
                         gguf_split(&part, i, &n, &(int64_t){0}, e);
        free(name);
        if (bad)
            return -1;
        gguf_tensors(&part, &first, &w->arena, &w->list);
        n_tensors += part.n_tensors;
    }
    if (stated >= 0 && (size_t)stated != n_tensors)
        return err_input(e, "%s: split.tensors.count: %lld tensors in all parts were expected, not %zu", path,
                         (long long)stated, n_tensors);
    return n_tensors ? 0 : err_input(e, "%s: it holds no tensors", path);
}

/* One tensor file without its bundle: as it is stored, under the name of the file. */
static int open_cq_tensor(struct weights *w, const struct mapped *file, struct err *e)
{
    const struct cq_shape stored = {.n_dims = -1, .scale = 1};
    const char *base = path_base(file->path);
    struct tensor t;
    if (cq_tensor(&w->arena, file, arena_strndup(&w->arena, base, strcspn(base, ".")), &stored, &t, e))
        return -1;
    tensor_list_push(&w->list, &t);
    return 0;
}

static int open_file(struct weights *w, const char *path, struct err *e)
{
    if (map_file(w, path, e))
        return -1;
    const struct mapped *file = &w->files[w->n_files - 1];
    if (cq_is_probe(file))
        return cq_probe_tensors(&w->arena, file, &w->list, e);
    if (cq_is_tensor(file))
        return open_cq_tensor(w, file, e);
    return gguf_is(file) ? open_gguf(w, path, e) : safetensors_parse(file, &w->arena, &w->list, e);
}

/* A shard must lie beside its index: a name with a path in it could read any file. */
static bool shard_name_ok(const char *name)
{
    const size_t n = strlen(name), suffix = strlen(".safetensors");
    return n > suffix && n < 256 && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\') &&
           strcmp(name + n - suffix, ".safetensors") == 0;
}

static int open_shards(struct weights *w, const char *folder, const cJSON *map, const char *where, struct err *e)
{
    for (const cJSON *entry = map->child; entry; entry = entry->next) {
        const char *name = cJSON_IsString(entry) ? entry->valuestring : "";
        if (!shard_name_ok(name))
            return err_input(e, "%s: tensor %s: the name of a .safetensors file in the same folder was expected, not "
                             "\"%s\"", where, entry->string, name);
        int i = 0;
        while (i < w->n_files && strcmp(path_base(w->files[i].path), name) != 0)
            i++;
        if (i < w->n_files)
            continue;
        char *path = path_join(folder, name);
        const int bad = open_file(w, path, e);
        free(path);
        if (bad)
            return -1;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int sort_tensors(struct weights *w, struct err *e)
{
    qsort(w->list.t, w->list.n, sizeof *w->list.t, by_name);
    for (size_t i = 1; i < w->list.n; i++)
        if (strcmp(w->list.t[i - 1].name, w->list.t[i].name) == 0)
            return err_input(e, "%s: tensor %s: it is already in %s", w->list.t[i].file, w->list.t[i].name,
                             path_base(w->list.t[i - 1].file));
    return 0;
}

static int open_index(struct weights *w, const char *folder, const char *path, struct err *e)
{
    cJSON *index = json_read_file(path, MAX_INDEX_BYTES, e);
    if (!index)
        return -1;
    const cJSON *map = json_get(index, "weight_map");
    int bad = 0;
    if (!cJSON_IsObject(map) || !map->child)
        bad = err_input(e, "%s: key \"weight_map\": an object of tensor names was expected", path);
    bad = bad || open_shards(w, folder, map, path, e) || sort_tensors(w, e);
    for (const cJSON *entry = bad ? NULL : map->child; entry && !bad; entry = entry->next) {
        const struct tensor *t = weights_find(w, entry->string);
        if (!t || strcmp(path_base(t->file), entry->valuestring) != 0)
            bad = err_input(e, "%s: tensor %s: it was expected in %s, but is not there", path, entry->string,
                            entry->valuestring);
    }
    cJSON_Delete(index);
    return bad;
}

static int open_bundle(struct weights *w, const char *path, struct err *e)
{
    return bundle_open(&w->bundle, path, e) || cq_bundle_tensors(&w->arena, w->bundle, &w->list, e) ||
           sort_tensors(w, e);
}

static int open_folder(struct weights *w, const char *folder, struct err *e)
{
    char *single = path_join(folder, "model.safetensors");
    char *index = path_join(folder, "model.safetensors.index.json");
    int bad;
    if (file_exists(single))
        bad = open_file(w, single, e) || sort_tensors(w, e);
    else if (file_exists(index))
        bad = open_index(w, folder, index, e);
    else
        bad = err_input(e, "%s: model.safetensors or model.safetensors.index.json was expected in this folder", folder);
    free(single);
    free(index);
    return bad;
}

/* Checkpoints made by MLX get the tensors and names of others. config.json is asked about quantised modules. */
static int take_mlx(struct weights *w, const char *folder, struct err *e)
{
    if (!mlx_in(&w->list))
        return 0;
    char *path = folder ? path_join(folder, "config.json") : NULL;
    cJSON *config = path && file_exists(path) ? json_read_file(path, MAX_CONFIG_BYTES, e) : NULL;
    int bad = path && file_exists(path) && !config;
    bad = bad || mlx_take(&w->arena, &w->list, json_get(config, "quantization"), e) || sort_tensors(w, e);
    cJSON_Delete(config);
    free(path);
    return bad;
}

int weights_open(struct weights **out, const char *path, struct err *e)
{
    struct weights *w = NEW(struct weights, 1);
    w->files = NEW(struct mapped, MAX_FILES);
    const bool folder = path_is_dir(path);
    const int bad = (cq_is_bundle(path) ? open_bundle(w, path, e) : folder ? open_folder(w, path, e)
                     : open_file(w, path, e) || sort_tensors(w, e)) || take_mlx(w, folder ? path : NULL, e);
    if (bad) {
        weights_close(w);
        w = NULL;
    }
    *out = w;
    return bad ? -1 : 0;
}

int weights_add(struct weights *w, const char *path, struct err *e)
{
    return open_file(w, path, e) || sort_tensors(w, e) || take_mlx(w, NULL, e) ? -1 : 0;
}

void weights_close(struct weights *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->n_files; i++)
        map_close(&w->files[i]);
    bundle_close(w->bundle);
    free(w->files);
    free(w->list.t);
    arena_free(&w->arena);
    free(w);
}

struct bundle *weights_bundle(const struct weights *w)
{
    return w->bundle;
}

void weights_forget(const struct weights *w, const void *data, size_t n)
{
    const uintptr_t page = 1 << 16, begin = (uintptr_t)data, end = begin + n;   /* no page is larger */
    const uintptr_t from = (begin + page - 1) / page * page, to = end / page * page;
    for (int i = 0; i < w->n_files && from < to; i++) {
        const uintptr_t file = (uintptr_t)w->files[i].data;
        if (begin >= file && end <= file + w->files[i].size)
            madvise((void *)from, to - from, MADV_DONTNEED);
    }
}

/* ---- looking up ------------------------------------------------------------------------------------------------ */

size_t weights_count(const struct weights *w)
{
    return w->list.n;
}

const struct tensor *weights_at(const struct weights *w, size_t i)
{
    return &w->list.t[i];
}

const struct tensor *weights_find(const struct weights *w, const char *name)
{
    const struct tensor key = {.name = name};
    return w->list.n ? bsearch(&key, w->list.t, w->list.n, sizeof key, by_name) : NULL;
}

static void put_shape(struct text *t, int n_dims, const int64_t *dim)
{
    text_putc(t, '[');
    for (int i = 0; i < n_dims; i++) {
        text_puts(t, i ? ", " : "");
        if (dim[i] < 0)
            text_puts(t, "any");
        else
            text_printf(t, "%lld", (long long)dim[i]);
    }
    text_putc(t, ']');
}

const struct tensor *weights_tensor(const struct weights *w, const char *name, int n_dims, const int64_t *dim,
                                    struct err *e)
{
    const struct tensor *t = weights_find(w, name);
    struct text want = {0}, have = {0};
    put_shape(&want, n_dims, dim);
    bool same = t && t->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = dim[i] < 0 || t->dim[i] == dim[i];
    if (!t) {
        err_input(e, "%s: tensor %s is missing, a tensor of shape %s was expected",
                  w->n_files ? w->files[0].path : w->bundle ? bundle_path(w->bundle) : "checkpoint", name, want.data);
    } else if (t->type == TENSOR_OTHER) {
        err_input(e, "%s: tensor %s: type F32, F16 or BF16 was expected, not %s", t->file, name, t->type_name);
        t = NULL;
    } else if (!same) {
        put_shape(&have, t->n_dims, t->dim);
        err_input(e, "%s: tensor %s: shape %s was expected, not %s", t->file, name, want.data, have.data);
        t = NULL;
    }
    text_free(&want);
    text_free(&have);
    return t;
}

float *weights_read(const struct weights *w, const char *name, int n_dims, const int64_t *dim, struct err *e)
{
    const struct tensor *t = weights_tensor(w, name, n_dims, dim, e);
    if (!t)
        return NULL;
    const int64_t n = tensor_elements(t);
    if (!tensor_finite(t, 0, n)) {
        err_input(e, "%s: tensor %s: finite weights were expected, it holds infinite values or NaN", t->file, name);
        return NULL;
    }
    float *out = NEW(float, n);
    tensor_read_f32(t, 0, n, out);
    return out;
}

int weights_expect_layers(const struct weights *w, const char *prefix, int n_layers, const char *where, struct err *e)
{
    const size_t len = strlen(prefix);
    for (size_t i = 0; i < w->list.n; i++) {
        const struct tensor *t = &w->list.t[i];
        if (strncmp(t->name, prefix, len) == 0 && strtol(t->name + len, NULL, 10) >= n_layers)
            return err_input(e, "%s: key \"num_hidden_layers\": %d, but the checkpoint holds tensor %s", where, n_layers,
                             t->name);
    }
    return 0;
}

void weights_fingerprint(const struct weights *w, char hex[65])
{
    struct sha256 sha;
    struct text head = {0};
    sha256_init(&sha);
    for (size_t i = 0; i < w->list.n; i++) {
        const struct tensor *t = &w->list.t[i];
        text_clear(&head);
        text_printf(&head, "%s %s ", t->name, t->type_name);
        put_shape(&head, t->n_dims, t->dim);
        text_putc(&head, '\n');
        sha256_update(&sha, head.data, head.len);
        if (t->type == TENSOR_CODED && t->codec->hash)
            t->codec->hash(t, &sha);
        else
            sha256_update(&sha, t->data, t->n_bytes);
    }
    sha256_hex(&sha, hex);
    text_free(&head);
}
