/* safetensors_write.c - headers, shards and index. Within a shard, tensors of wider elements come first, so that each
 * begins on a multiple of its element. */
#include "engine/safetensors_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int element_bytes(const char *dtype)
{
    static const struct { const char *name; int bytes; } types[] = {
        {"F32", 4}, {"U32", 4}, {"I32", 4}, {"F16", 2}, {"BF16", 2}, {"U8", 1}, {"I8", 1}};
    size_t i = 0;
    while (strcmp(types[i].name, dtype) != 0)
        i++;
    return types[i].bytes;
}

void st_add(struct st_writer *w, const char *name, const char *dtype, int n_dims, const int64_t *dim)
{
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 256;
        w->t = mem_grow(w->t, w->cap, sizeof *w->t);
    }
    struct st_tensor *t = &w->t[w->n++];
    *t = (struct st_tensor){.name = mem_strdup(name), .dtype = dtype, .n_dims = n_dims,
                            .n_bytes = (uint64_t)element_bytes(dtype)};
    for (int i = 0; i < n_dims; i++) {
        t->dim[i] = dim[i];
        t->n_bytes *= (uint64_t)dim[i];
    }
}

static void deal_out(struct st_writer *w, uint64_t max_shard)
{
    uint64_t size = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->n_shards == 0 || size + w->t[i].n_bytes > max_shard) {
            w->n_shards++;
            size = 0;
        }
        w->t[i].shard = w->n_shards - 1;
        size += w->t[i].n_bytes;
    }
    w->shards = NEW(struct staged_file, w->n_shards);
    w->shard_names = mem_alloc((size_t)w->n_shards, sizeof *w->shard_names);
    for (int k = 0; k < w->n_shards; k++)
        if (w->n_shards == 1)
            snprintf(w->shard_names[k], sizeof *w->shard_names, "model.safetensors");
        else
            snprintf(w->shard_names[k], sizeof *w->shard_names, "model-%05d-of-%05d.safetensors", k + 1, w->n_shards);
}

/* Writes the header of one shard and sets the places of its tensors, first counted from the end of the header. */
static int write_header(struct st_writer *w, int shard, const char *format, struct err *e)
{
    struct text header = {0};
    uint64_t at = 0;
    text_puts(&header, "{\"__metadata__\":{\"format\":");
    json_put_string(&header, format, strlen(format));
    text_putc(&header, '}');
    for (int bytes = 4; bytes; bytes /= 2)
        for (size_t i = 0; i < w->n; i++) {
            struct st_tensor *t = &w->t[i];
            if (t->shard != shard || element_bytes(t->dtype) != bytes)
                continue;
            text_putc(&header, ',');
            json_put_string(&header, t->name, strlen(t->name));
            text_printf(&header, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype);
            for (int d = 0; d < t->n_dims; d++)
                text_printf(&header, "%s%lld", d ? "," : "", (long long)t->dim[d]);
            text_printf(&header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                        (unsigned long long)(at + t->n_bytes));
            t->at = at;
            at += t->n_bytes;
        }
    text_putc(&header, '}');
    while (header.len % 8)
        text_putc(&header, ' ');
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)header.len >> 8 * i);
    for (size_t i = 0; i < w->n; i++)
        w->t[i].at += w->t[i].shard == shard ? 8 + header.len : 0;
    const int bad = staged_put(&w->shards[shard], 0, length, 8, e) ||
                    staged_put(&w->shards[shard], 8, header.data, header.len, e);
    text_free(&header);
    return bad ? -1 : 0;
}

int st_begin(struct st_writer *w, const struct staging *s, const char *format, uint64_t max_shard, struct err *e)
{
    deal_out(w, max_shard);
    for (int k = 0; k < w->n_shards; k++)
        if (staged_open(&w->shards[k], s, w->shard_names[k], e) || write_header(w, k, format, e))
            return -1;
    return 0;
}

int st_put(const struct st_writer *w, size_t i, uint64_t first, const void *data, size_t n, struct err *e)
{
    return staged_put(&w->shards[w->t[i].shard], w->t[i].at + first, data, n, e);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

int st_finish(struct st_writer *w, const struct staging *s, uint64_t total_parameters, struct err *e)
{
    struct text index = {0};
    uint64_t total = 0;
    for (int k = 0; k < w->n_shards; k++)
        if (staged_close(&w->shards[k], e))
            return -1;
    for (size_t i = 0; i < w->n; i++)
        total += w->t[i].n_bytes;
    if (w->n)
        qsort(w->t, w->n, sizeof *w->t, by_name);
    text_printf(&index, "{\n    \"metadata\": {\n        \"total_size\": %llu,\n        \"total_parameters\": %llu\n"
                "    },\n    \"weight_map\": {", (unsigned long long)total, (unsigned long long)total_parameters);
    for (size_t i = 0; i < w->n; i++) {
        text_printf(&index, "%s\n        ", i ? "," : "");
        json_put_string(&index, w->t[i].name, strlen(w->t[i].name));
        text_printf(&index, ": \"%s\"", w->shard_names[w->t[i].shard]);
    }
    text_puts(&index, "\n    }\n}\n");
    const int bad = staging_write(s, "model.safetensors.index.json", index.data, index.len, e);
    text_free(&index);
    return bad;
}

void st_free(struct st_writer *w)
{
    for (int k = 0; k < w->n_shards; k++)
        staged_close(&w->shards[k], NULL);
    for (size_t i = 0; i < w->n; i++)
        free(w->t[i].name);
    free(w->t);
    free(w->shards);
    free(w->shard_names);
    *w = (struct st_writer){0};
}
