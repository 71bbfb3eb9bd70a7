/* cq_probe.c - handoff_probe.bin: "CHP10P6" and a zero byte, version 1, four sizes, then eleven arrays of float32. */
#include "engine/cq.h"

#include <string.h>

enum { HEADER = 28, N_PARTS = 11, MAX_DIM = 1 << 20 };

bool cq_is_probe(const struct mapped *m)
{
    return m->size >= 7 && memcmp(m->data, "CHP10P6", 7) == 0;
}

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Bytes behind the last array are ignored, as Cactus does. */
int cq_probe_tensors(struct arena *a, const struct mapped *file, struct tensor_list *out, struct err *e)
{
    static const char *const dims[] = {"feat", "t_h", "h1", "h2"};
    int64_t d[4];
    if (!cq_is_probe(file) || file->size < HEADER || file->data[7])
        return err_input(e, "%s: a probe file (CHP10P6, a zero byte and five numbers) was expected", file->path);
    if (u32_at(file->data + 8) != 1)
        return err_input(e, "%s: version 1 of the probe file was expected, version %u is not supported", file->path,
                         u32_at(file->data + 8));
    for (int i = 0; i < 4; i++) {
        d[i] = u32_at(file->data + 12 + 4 * i);
        if (d[i] < 1 || d[i] > MAX_DIM)
            return err_input(e, "%s: %s: a size from 1 to %d was expected, not %lld", file->path, dims[i], MAX_DIM,
                             (long long)d[i]);
    }
    const int64_t feat = d[0], t_h = d[1], h1 = d[2], h2 = d[3];
    const struct { const char *name; int n_dims; int64_t dim[2]; } parts[N_PARTS] = {
        {"norm.weight", 1, {feat}}, {"norm.bias", 1, {feat}}, {"proj.weight", 2, {t_h, feat}}, {"proj.bias", 1, {t_h}},
        {"attn_query", 1, {t_h}}, {"head.0.weight", 2, {h1, t_h}}, {"head.0.bias", 1, {h1}},
        {"head.2.weight", 2, {h2, h1}}, {"head.2.bias", 1, {h2}}, {"head.4.weight", 2, {1, h2}},
        {"head.4.bias", 1, {1}}};
    uint64_t at = HEADER;
    for (int i = 0; i < N_PARTS; i++) {
        struct tensor t = {.name = arena_printf(a, "handoff_probe.%s", parts[i].name), .file = file->path,
                           .type_name = "F32", .type = TENSOR_F32, .n_dims = parts[i].n_dims, .data = file->data + at};
        memcpy(t.dim, parts[i].dim, sizeof parts[i].dim);
        t.n_bytes = 4 * (size_t)tensor_elements(&t);
        if (t.n_bytes > file->size - at)
            return err_input(e, "%s: %s: %zu bytes at offset %llu were expected, the file has %zu (is it whole?)",
                             file->path, parts[i].name, t.n_bytes, (unsigned long long)at, file->size);
        at += t.n_bytes;
        tensor_list_push(out, &t);
    }
    return 0;
}
