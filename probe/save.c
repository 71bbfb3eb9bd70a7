/* save.c - probe files: safetensors, GGUF, and Cactus's handoff_probe.bin. */
#include "probe/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PARTS = 11, GGUF_ALIGNMENT = 32 };

/* A tensor as it is saved; names as in a checkpoint folder, behind a prefix. */
struct part { const char *name; const float *data; int n_dims; uint64_t dim[2]; };

static void list_parts(const struct probe *p, struct part *out)
{
    static const char *const head[PROBE_HEAD_LAYERS][2] = {
        {"head.0.weight", "head.0.bias"}, {"head.2.weight", "head.2.bias"}, {"head.4.weight", "head.4.bias"}};
    const uint64_t dim = (uint64_t)p->norm.in, width = (uint64_t)p->proj.out;
    int n = 0;
    out[n++] = (struct part){"norm.weight", p->norm.weight, 1, {dim}};
    out[n++] = (struct part){"norm.bias", p->norm.bias, 1, {dim}};
    out[n++] = (struct part){"proj.weight", p->proj.weight, 2, {width, dim}};
    out[n++] = (struct part){"proj.bias", p->proj.bias, 1, {width}};
    out[n++] = (struct part){"attn_query", p->attn_query, 1, {width}};
    for (int i = 0; i < PROBE_HEAD_LAYERS; i++) {
        const struct layer *l = &p->head[i];
        out[n++] = (struct part){head[i][0], l->weight, 2, {(uint64_t)l->out, (uint64_t)l->in}};
        out[n++] = (struct part){head[i][1], l->bias, 1, {(uint64_t)l->out}};
    }
}

static uint64_t part_bytes(const struct part *p)
{
    return p->dim[0] * (p->n_dims == 2 ? p->dim[1] : 1) * sizeof(float);
}

/* Files are little-endian, as are all machines that this program runs on. */
static void put_u32(struct text *t, uint32_t v) { text_put(t, &v, sizeof v); }
static void put_u64(struct text *t, uint64_t v) { text_put(t, &v, sizeof v); }

static void save_safetensors(const struct part *part, struct text *t)
{
    struct text header = {0};
    uint64_t at = 0;
    for (int i = 0; i < N_PARTS; i++) {
        text_printf(&header, "%s\"handoff_probe.%s\":{\"dtype\":\"F32\",\"shape\":[%llu", i ? "," : "{", part[i].name,
                    (unsigned long long)part[i].dim[0]);
        if (part[i].n_dims == 2)
            text_printf(&header, ",%llu", (unsigned long long)part[i].dim[1]);
        text_printf(&header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                    (unsigned long long)(at + part_bytes(&part[i])));
        at += part_bytes(&part[i]);
    }
    text_putc(&header, '}');
    while (header.len % 8)
        text_putc(&header, ' ');
    put_u64(t, header.len);
    text_put(t, header.data, header.len);
    for (int i = 0; i < N_PARTS; i++)
        text_put(t, part[i].data, part_bytes(&part[i]));
    text_free(&header);
}

static void put_string(struct text *t, const char *s)
{
    put_u64(t, strlen(s));
    text_puts(t, s);
}

/* Version 3; the layer and its kin under the keys that a whole model has. */
static void save_gguf(const struct probe *p, const struct part *part, struct text *t)
{
    enum { TYPE_U32 = 4, TYPE_F32 = 6, TYPE_STRING = 8, TENSOR_F32_ID = 0 };
    static const char arch[] = "gemma-4-e2b-it-hybrid";
    const float eps = (float)p->eps;
    uint64_t at = 0;
    char name[64];
    text_puts(t, "GGUF");
    put_u32(t, 3);
    put_u64(t, N_PARTS);
    put_u64(t, 4);
    put_string(t, "general.architecture");
    put_u32(t, TYPE_STRING);
    put_string(t, arch);
    const struct { const char *key; uint32_t value; } numbers[] = {
        {".probe.layer", (uint32_t)p->layer}, {".probe.max_tokens", (uint32_t)p->max_rows}};
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", arch, numbers[i].key);
        put_string(t, name);
        put_u32(t, TYPE_U32);
        put_u32(t, numbers[i].value);
    }
    snprintf(name, sizeof name, "%s.probe.layer_norm_epsilon", arch);
    put_string(t, name);
    put_u32(t, TYPE_F32);
    text_put(t, &eps, sizeof eps);
    for (int i = 0; i < N_PARTS; i++) {
        snprintf(name, sizeof name, "probe.%s", part[i].name);
        put_string(t, name);
        put_u32(t, (uint32_t)part[i].n_dims);
        for (int d = part[i].n_dims - 1; d >= 0; d--)
            put_u64(t, part[i].dim[d]);
        put_u32(t, TENSOR_F32_ID);
        put_u64(t, at);
        at += (part_bytes(&part[i]) + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    }
    for (int i = 0; i < N_PARTS; i++) {
        while (t->len % GGUF_ALIGNMENT)
            text_putc(t, 0);
        text_put(t, part[i].data, part_bytes(&part[i]));
    }
    while (t->len % GGUF_ALIGNMENT)
        text_putc(t, 0);
}

static void save_bin(const struct probe *p, const struct part *part, struct text *t)
{
    text_put(t, "CHP10P6", 8);
    put_u32(t, 1);
    put_u32(t, (uint32_t)p->norm.in);
    put_u32(t, (uint32_t)p->proj.out);
    put_u32(t, (uint32_t)p->head[0].out);
    put_u32(t, (uint32_t)p->head[1].out);
    for (int i = 0; i < N_PARTS; i++)
        text_put(t, part[i].data, part_bytes(&part[i]));
}

int probe_save(const struct probe *p, enum probe_file kind, const char *path, struct err *e)
{
    struct part part[N_PARTS];
    struct text t = {0};
    list_parts(p, part);
    if (kind == PROBE_SAFETENSORS)
        save_safetensors(part, &t);
    else if (kind == PROBE_GGUF)
        save_gguf(p, part, &t);
    else
        save_bin(p, part, &t);
    const int failed = file_write_atomic(path, t.data, t.len, e);
    text_free(&t);
    return failed;
}
