/* GGUF models in several files, with changed metadata, cut short: what must open gives the same model, everything else
 * is refused by name. The files are made from ../shared/gguf/gguf-tiny-a. */
#define _GNU_SOURCE
#include "engine/gguf.h"
#include "probe/probe.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define TINY "../shared/gguf/gguf-tiny-a/"
#define MODEL TINY "tiny-a-hybrid-q4_0.gguf"
#define TOWERS TINY "mmproj-tiny-a-bf16.gguf"
#define ARCH "gemma-4-e2b-it-hybrid"

static char scratch[] = "/tmp/handoff-gguf-XXXXXX";

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void put(struct text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_putc(t, (int)(v >> (8 * i) & 255));
}

static void put_name(struct text *t, const char *s)
{
    put(t, strlen(s), 8);
    text_puts(t, s);
}

/* A value to write: a whole number, a string, or an array of whole numbers (n > 0). */
struct value { const char *key; enum gguf_kind kind; uint64_t number; const char *string; int n; };

static void put_value(struct text *t, const struct value *v)
{
    put_name(t, v->key);
    put(t, v->n ? GGUF_ARRAY : v->kind, 4);
    if (v->n)
        put(t, v->kind, 4), put(t, (uint64_t)v->n, 8);
    for (int i = 0; i < (v->n ? v->n : 1); i++)
        if (v->kind == GGUF_STRING)
            put_name(t, v->string);
        else
            put(t, v->number, 4);
}

static void copy_value(struct text *t, const struct gguf_value *v)
{
    put_name(t, v->key);
    put(t, v->kind, 4);
    if (v->kind == GGUF_ARRAY)
        put(t, v->element, 4), put(t, v->count, 8);
    text_put(t, v->at, v->n_bytes);
}

/* What a file is made of: the metadata of `g` (or none) without the keys in `values`, these (kind GGUF_ARRAY: only
 * left out), and the tensors [first, end) of g; a tensor may get another name. */
struct recipe {
    const struct gguf *g;
    bool metadata;
    const struct value *values;
    int n_values;
    size_t first, end;
    const char *rename[2];
};

static const struct value *replaced(const struct recipe *r, const char *key)
{
    for (int i = 0; i < r->n_values; i++)
        if (strcmp(r->values[i].key, key) == 0)
            return &r->values[i];
    return NULL;
}

static void write_gguf(const char *path, const struct recipe *r)
{
    struct text values = {0}, infos = {0}, data = {0}, all = {0};
    struct err e = {0};
    uint64_t n_values = 0;
    for (size_t i = 0; r->metadata && i < r->g->n_values; i++)
        if (!replaced(r, r->g->values[i].key)) {
            copy_value(&values, &r->g->values[i]);
            n_values++;
        }
    for (int i = 0; i < r->n_values; i++)
        if (r->values[i].kind != GGUF_ARRAY) {
            put_value(&values, &r->values[i]);
            n_values++;
        }
    for (size_t i = r->first; i < r->end; i++) {
        const struct gguf_tensor *t = &r->g->tensors[i];
        put_name(&infos, r->rename[0] && strcmp(t->name, r->rename[0]) == 0 ? r->rename[1] : t->name);
        put(&infos, (uint64_t)t->n_dims, 4);
        for (int d = 0; d < t->n_dims; d++)
            put(&infos, t->ne[d], 8);
        put(&infos, (uint64_t)t->type->id, 4), put(&infos, data.len, 8);
        text_put(&data, t->data, t->n_bytes);
        while (data.len % 32)
            text_putc(&data, 0);
    }
    text_puts(&all, "GGUF");
    put(&all, 3, 4), put(&all, r->end - r->first, 8), put(&all, n_values, 8);
    text_put(&all, values.data, values.len);
    text_put(&all, infos.data, infos.len);
    while (all.len % 32)
        text_putc(&all, 0);
    text_put(&all, data.data, data.len);
    CHECK_MSG(file_write_atomic(path, all.data, all.len, &e) == 0, "%s", e.msg);
    text_free(&values), text_free(&infos), text_free(&data), text_free(&all);
}

/* ---- the source ------------------------------------------------------------------------------------------------ */

static struct mapped file;
static struct arena arena;
static struct gguf source;

static bool open_source(const char *path)
{
    struct err e = {0};
    if (!file_exists(path))
        return false;
    arena_free(&arena);
    map_close(&file);
    file = (struct mapped){0};
    return CHECK_MSG(map_open(&file, path, &e) == 0 && gguf_parse(&file, &arena, &source, &e) == 0, "%s", e.msg);
}

static const char *scratch_path(const char *name)
{
    return arena_printf(&arena, "%s/%s", scratch, name);
}

static void expect_refused(const char *path, const char *mmproj, const char *what, const char *pattern)
{
    struct engine *m = NULL;
    struct err e = {0};
    const int rc = engine_open(&m, path, &(struct engine_options){.n_threads = 1, .mmproj = mmproj}, &e);
    CHECK_MSG(rc == -1 && e.code == EXIT_BAD_INPUT && strstr(e.msg, scratch), "%s: %s", what, rc ? e.msg : "accepted");
    if (rc && pattern)
        CHECK_MSG(strstr(e.msg, pattern) != NULL, "%s: \"%s\" does not say \"%s\"", what, e.msg, pattern);
    engine_close(m);
}

/* ---- split files ----------------------------------------------------------------------------------------------- */

/* Part `index` of `count`, with what its split keys say. */
static void write_part(const char *path, int index, int count, int number, int stated_count, int total)
{
    const struct value keys[] = {{.key = "split.no", .kind = GGUF_U32, .number = (uint64_t)number},
                                 {.key = "split.count", .kind = GGUF_U32, .number = (uint64_t)stated_count},
                                 {.key = "split.tensors.count", .kind = GGUF_I32, .number = (uint64_t)total}};
    const size_t n = source.n_tensors, parts = (size_t)count - 1;
    struct recipe r = {.g = &source, .metadata = index == 0, .values = keys, .n_values = 3};
    if (index > 0) {
        r.first = n * (size_t)(index - 1) / parts;
        r.end = n * (size_t)index / parts;
    }
    write_gguf(path, &r);
}

static void write_parts(void)
{
    for (int i = 0; i < 3; i++)
        write_part(scratch_path(arena_printf(&arena, "m-%05d-of-00003.gguf", i + 1)), i, 3, i, 3,
                   (int)source.n_tensors);
}

/* The first part has all metadata and no tensor. */
static void split_is_the_whole(void)
{
    struct engine *whole = NULL, *parts = NULL;
    struct err e = {0};
    char a[65], b[65];
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    write_parts();
    if (CHECK_MSG(engine_open(&parts, scratch_path("m-00001-of-00003.gguf"), NULL, &e) == 0, "%s", e.msg) &&
        CHECK_MSG(engine_open(&whole, MODEL, NULL, &e) == 0, "%s", e.msg)) {
        weights_fingerprint(engine_weights(whole), a);
        weights_fingerprint(engine_weights(parts), b);
        CHECK_STR(a, b);
        struct document_sha x, y;
        engine_document_sha(whole, &x);
        engine_document_sha(parts, &y);
        CHECK_STR(x.tokenizer, y.tokenizer);
        CHECK_STR(x.config, y.config);
    }
    engine_close(parts);
    engine_close(whole);
}

static void broken_splits(void)
{
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    const int n = (int)source.n_tensors;
    const char *first = scratch_path("m-00001-of-00003.gguf"), *second = scratch_path("m-00002-of-00003.gguf");
    const char *third = scratch_path("m-00003-of-00003.gguf"), *renamed = scratch_path("renamed.gguf");
    write_parts();
    expect_refused(second, NULL, "the second part", "first part");
    write_part(first, 0, 3, 0, 3, n + 1);
    expect_refused(first, NULL, "another total", "tensors in all parts");
    write_part(first, 0, 3, 0, 2000, n);
    expect_refused(first, NULL, "2000 parts", "split.count");
    write_part(first, 0, 3, 0, -1, n);
    expect_refused(first, NULL, "2^32 - 1 parts", "split.count");
    write_part(first, 0, 3, 0, 2, n);
    expect_refused(first, NULL, "two parts under a name of three", "-00001-of-00002.gguf");
    write_part(first, 0, 3, 1, 3, n);
    expect_refused(first, NULL, "first part with another number", "split.no");
    write_part(renamed, 0, 3, 0, 3, n);
    expect_refused(renamed, NULL, "a name without a number", "-00001-of-00003.gguf");
    write_parts();
    write_part(second, 2, 3, 2, 3, n);
    expect_refused(first, NULL, "the third part twice", "split.no");
    write_part(first, 0, 3, 0, 3, -1);
    expect_refused(first, NULL, "a total below 0", "split.tensors.count");
    write_part(first, 0, 3, 0, 3, 2 * (n - n / 2));
    write_part(second, 2, 3, 1, 3, n);
    expect_refused(first, NULL, "tensors twice", "already in");
    write_parts();
    write_part(second, 1, 3, 1, 4, n);
    expect_refused(first, NULL, "another count in the second part", "split.count");
    write_part(second, 0, 3, 0, 3, n);
    expect_refused(first, NULL, "the first part again (a circle)", "split.no");
    write_parts();
    CHECK(truncate(third, 100) == 0);
    expect_refused(first, NULL, "a cut part", NULL);
    CHECK(unlink(third) == 0);
    expect_refused(first, NULL, "a missing part", "m-00003-of-00003.gguf");
}

/* ---- metadata -------------------------------------------------------------------------------------------------- */

static void other_metadata(void)
{
    static const struct { struct value v; const char *pattern; } cases[] = {
        {{.key = "general.architecture", .kind = GGUF_STRING, .string = "llama"}, "\"llama\""},
        {{.key = "general.architecture", .kind = GGUF_ARRAY}, "general.architecture"},
        {{.key = "general.architecture", .kind = GGUF_U32, .number = 7}, "general.architecture"},
        {{.key = "general.architecture", .kind = GGUF_STRING, .string = "gemma4"}, "gemma4.embedding_length"},
        {{.key = ARCH ".block_count", .kind = GGUF_STRING, .string = "10"}, "block_count"},
        {{.key = ARCH ".block_count", .kind = GGUF_U32, .number = 0}, "num_hidden_layers"},
        {{.key = ARCH ".block_count", .kind = GGUF_U32, .number = 11}, "every layer"},
        {{.key = ARCH ".block_count", .kind = GGUF_U32, .number = 0xffffffff}, "num_hidden_layers"},
        {{.key = ARCH ".embedding_length", .kind = GGUF_U32, .number = 0x80000000}, "hidden_size"},
        {{.key = ARCH ".embedding_length", .kind = GGUF_U32, .number = 64}, "shape"},
        {{.key = ARCH ".embedding_length_per_layer_input", .kind = GGUF_U32, .number = 0}, "hidden_size_per_layer"},
        {{.key = ARCH ".attention.head_count", .kind = GGUF_ARRAY}, "head_count"},
        {{.key = ARCH ".attention.head_count", .kind = GGUF_U32, .number = 3}, "shape"},
        {{.key = ARCH ".attention.sliding_window_pattern", .kind = GGUF_U32, .number = 1, .n = 4}, "every layer"},
        {{.key = ARCH ".attention.sliding_window_pattern", .kind = GGUF_U32, .number = 1}, "shape"},
        {{.key = ARCH ".attention.shared_kv_layers", .kind = GGUF_U32, .number = 10}, "num_kv_shared_layers"},
        {{.key = ARCH ".feed_forward_length", .kind = GGUF_U32, .number = 160}, "shape"},
        {{.key = ARCH ".rope.freq_base", .kind = GGUF_F32, .number = 0x7f800000}, "freq_base"},
        {{.key = ARCH ".expert_count", .kind = GGUF_U32, .number = 8}, "experts"},
        {{.key = "tokenizer.ggml.model", .kind = GGUF_STRING, .string = "llama"}, "tokenizer.ggml.model"},
        {{.key = "tokenizer.ggml.tokens", .kind = GGUF_ARRAY}, "tokenizer.ggml.tokens"},
        {{.key = "tokenizer.ggml.tokens", .kind = GGUF_U32, .n = 1024}, "tokenizer.ggml.tokens"},
        {{.key = "tokenizer.ggml.tokens", .kind = GGUF_STRING, .string = "a", .n = 1024}, NULL},
        {{.key = "tokenizer.ggml.token_type", .kind = GGUF_I32, .number = 1, .n = 1023}, "token_type"},
        {{.key = "tokenizer.ggml.merges", .kind = GGUF_STRING, .string = "ab", .n = 3}, NULL},
        {{.key = "tokenizer.ggml.merges", .kind = GGUF_U32, .n = 3}, "merges"},
        {{.key = "tokenizer.ggml.eos_token_id", .kind = GGUF_U32, .number = 4000000000u}, "eos_token_id"},
        {{.key = "tokenizer.ggml.bos_token_id", .kind = GGUF_U32, .number = 1024}, "bos_token_id"},
        {{.key = "tokenizer.chat_template", .kind = GGUF_STRING, .string = "{% if %}"}, NULL},
        {{.key = "general.alignment", .kind = GGUF_U32, .number = 3}, "alignment"},
    };
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct recipe r = {.g = &source, .metadata = true, .values = &cases[i].v, .n_values = 1,
                                 .end = source.n_tensors};
        write_gguf(scratch_path("changed.gguf"), &r);
        expect_refused(scratch_path("changed.gguf"), NULL, cases[i].v.key, cases[i].pattern);
    }
}

/* Keys that may be absent, and numbers where others have arrays: the same configuration. */
static void optional_metadata(void)
{
    static const struct value cases[] = {
        {.key = ARCH ".final_logit_softcapping", .kind = GGUF_ARRAY},
        {.key = ARCH ".attention.head_count_kv", .kind = GGUF_U32, .number = 1, .n = 10},
        {.key = "tokenizer.ggml.pre", .kind = GGUF_STRING, .string = "gemma4"},
        {.key = "tokenizer.ggml.scores", .kind = GGUF_ARRAY},
        {.key = "tokenizer.ggml.padding_token_id", .kind = GGUF_ARRAY},
        {.key = "tokenizer.ggml.merges", .kind = GGUF_STRING, .string = "no piece", .n = 3}};
    static const int32_t prompt[] = {2, 105, 300, 41, 700};
    static float logits[7][1024];
    struct err e = {0};
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    for (int i = 0; i < 7; i++) {
        struct engine *m = NULL;
        const struct recipe r = {.g = &source, .metadata = true, .values = i ? &cases[i - 1] : NULL,
                                 .n_values = i > 0,
                                 .end = source.n_tensors};
        write_gguf(scratch_path("changed.gguf"), &r);
        if (!CHECK_MSG(engine_open(&m, scratch_path("changed.gguf"), NULL, &e) == 0, "%s", e.msg))
            continue;
        struct seq *s = seq_new(m);
        const struct step_input in = {.seq = s, .ids = prompt, .n = 5, .n_needed = 1, .logits = logits[i]};
        CHECK(engine_step(m, &in, 1, &e) == 0);
        CHECK_MSG(memcmp(logits[i], logits[0], sizeof logits[0]) == 0, "other logits without or with %s",
                  i ? cases[i - 1].key : "");
        seq_free(s);
        engine_close(m);
    }
}

/* A decoder whose output matrix is not its embedding is another model. */
static void other_tensors(void)
{
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    struct recipe r = {.g = &source, .metadata = true, .end = source.n_tensors,
                       .rename = {"rope_freqs.weight", "output.weight"}};
    write_gguf(scratch_path("changed.gguf"), &r);
    expect_refused(scratch_path("changed.gguf"), NULL, "output.weight", "tie_word_embeddings");
    r.rename[0] = "per_layer_proj_norm.weight";
    r.rename[1] = "rope_freqs.weight";
    r.end = 0;
    for (size_t i = 0; i < source.n_tensors; i++)
        if (strcmp(source.tensors[i].name, r.rename[0]) == 0)
            r.first = i, r.end = i + 1;
    write_gguf(scratch_path("changed.gguf"), &r);
    expect_refused(scratch_path("changed.gguf"), NULL, "other divisors", "rope_freqs.weight");
    r.end = r.first;
    write_gguf(scratch_path("changed.gguf"), &r);
    expect_refused(scratch_path("changed.gguf"), NULL, "no tensors", "no tensors");
}

static void probe_of(const char *path, int64_t layer, char fingerprint[65])
{
    struct engine *m = NULL;
    struct probe *p = NULL;
    struct err e = {0};
    *fingerprint = '\0';
    if (CHECK_MSG(engine_open(&m, path, NULL, &e) == 0 && probe_open_for(&p, m, NULL, layer, &e) == 0, "%s", e.msg))
        probe_fingerprint(p, fingerprint);
    probe_close(p);
    engine_close(m);
}

/* Both spellings of the query are met with, and the layer may stand in the metadata. */
static void probe_spellings(void)
{
    static const struct value layer = {.key = ARCH ".probe.layer", .kind = GGUF_U32, .number = 7};
    char plain[65], other[65];
    struct engine *m = NULL;
    struct probe *p = NULL;
    struct err e = {0};
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    probe_of(MODEL, 7, plain);
    struct recipe r = {.g = &source, .metadata = true, .values = &layer, .n_values = 1, .end = source.n_tensors,
                       .rename = {"probe.attn_query", "probe.attn_query.weight"}};
    write_gguf(scratch_path("changed.gguf"), &r);
    probe_of(scratch_path("changed.gguf"), -1, other);
    CHECK_STR(other, plain);
    CHECK(engine_open(&m, MODEL, NULL, &e) == 0 && probe_open_for(&p, m, NULL, -1, &e) == -1 &&
          e.code == EXIT_BAD_INPUT && strstr(e.msg, "--probe-layer"));
    CHECK(probe_open_for(&p, m, NULL, (int64_t)1 << 32, &e) == -1 && e.code == EXIT_BAD_INPUT);
    CHECK(probe_open_for(&p, m, TINY "tiny-a-plain-f16.gguf", 7, &e) == -1 && e.code == EXIT_BAD_INPUT);
    engine_close(m);
}

static void cut_anywhere(void)
{
    struct err e = {0};
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    for (size_t i = 0; i < 200; i++) {
        const char *path = scratch_path("cut.gguf");
        const size_t n = i < 100 ? 4 + i * 523 : source.file->size * (i - 99) / 102;
        CHECK(file_write_atomic(path, source.file->data, n, &e) == 0);
        expect_refused(path, NULL, arena_printf(&arena, "cut to %zu bytes", n), NULL);
    }
}

/* ---- towers ---------------------------------------------------------------------------------------------------- */

static void other_towers(void)
{
    static const struct { struct value v; const char *pattern; } cases[] = {
        {{.key = "general.architecture", .kind = GGUF_STRING, .string = "gemma4"}, "projector file"},
        {{.key = "clip.vision.projector_type", .kind = GGUF_STRING, .string = "gemma3"}, "gemma4v"},
        {{.key = "clip.audio.projector_type", .kind = GGUF_ARRAY}, "gemma4a"},
        {{.key = "clip.vision.block_count", .kind = GGUF_U32, .number = 4}, "layers.3"},
        {{.key = "clip.vision.block_count", .kind = GGUF_STRING, .string = "x"}, "clip.vision.block_count"},
        {{.key = "clip.vision.patch_size", .kind = GGUF_U32, .number = 8}, "shape"},
        {{.key = "clip.vision.image_mean", .kind = GGUF_F32, .number = 0x3f000000, .n = 3}, "image_mean"},
        {{.key = "clip.audio.embedding_length", .kind = GGUF_U32, .number = 0}, "hidden_size"},
        {{.key = "clip.audio.num_mel_bins", .kind = GGUF_U32, .number = 64}, "shape"},
    };
    if (!open_source(TOWERS))
        SKIP("no " TOWERS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct recipe r = {.g = &source, .metadata = true, .values = &cases[i].v, .n_values = 1,
                                 .end = source.n_tensors};
        const char *path = scratch_path("towers.gguf");
        write_gguf(path, &r);
        expect_refused(MODEL, path, cases[i].v.key, cases[i].pattern);
    }
}

static void expect_towers(const char *model, const char *mmproj, bool expected, const char *what)
{
    struct engine *m = NULL;
    struct err e = {0};
    if (CHECK_MSG(engine_open(&m, model, &(struct engine_options){.mmproj = mmproj}, &e) == 0, "%s: %s", what, e.msg))
        CHECK_MSG(engine_info(m)->has_vision == expected && engine_info(m)->has_audio == expected, "%s", what);
    engine_close(m);
}

/* The queries, keys and values of layer 0 as one matrix give the same model. */
static void fused_queries_keys_values(void)
{
    struct engine *m = NULL;
    struct err e = {0};
    char a[65], b[65];
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    const struct gguf_tensor *part[3] = {NULL};
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"};
    struct gguf changed = source;
    struct text rows = {0};
    changed.tensors = NEW(struct gguf_tensor, source.n_tensors);
    changed.n_tensors = 0;
    for (size_t i = 0; i < source.n_tensors; i++) {
        int k = 0;
        while (k < 3 && strcmp(source.tensors[i].name, names[k]) != 0)
            k++;
        if (k < 3)
            part[k] = &source.tensors[i];
        else
            changed.tensors[changed.n_tensors++] = source.tensors[i];
    }
    struct gguf_tensor fused = *part[0];
    for (int k = 0; k < 3; k++) {
        CHECK(part[k]->type == part[0]->type);
        text_put(&rows, part[k]->data, part[k]->n_bytes);
        fused.ne[1] += k ? part[k]->ne[1] : 0;
    }
    fused.name = "blk.0.attn_qkv.weight";
    fused.data = (const uint8_t *)rows.data;
    fused.n_bytes = rows.len;
    changed.tensors[changed.n_tensors++] = fused;
    struct recipe r = {.g = &changed, .metadata = true, .end = changed.n_tensors};
    write_gguf(scratch_path("fused.gguf"), &r);
    if (CHECK_MSG(engine_open(&m, scratch_path("fused.gguf"), NULL, &e) == 0, "%s", e.msg))
        weights_fingerprint(engine_weights(m), a);
    engine_close(m);
    if (CHECK(engine_open(&m, MODEL, NULL, &e) == 0))
        weights_fingerprint(engine_weights(m), b);
    engine_close(m);
    CHECK_STR(a, b);
    const struct value heads = {.key = ARCH ".attention.head_count_kv", .kind = GGUF_U32, .number = 2};
    r.values = &heads;
    r.n_values = 1;
    write_gguf(scratch_path("fused.gguf"), &r);
    expect_refused(scratch_path("fused.gguf"), NULL, "fused with other heads", "self_attn.q_proj.weight is missing");
    free(changed.tensors);
    text_free(&rows);
}

static void expect_odd(const struct recipe *r, const char *pattern)
{
    struct checkpoint_facts facts;
    struct weights *w;
    struct err e = {0};
    const char *path = scratch_path("odd.gguf");
    write_gguf(path, r);
    if (!CHECK_MSG(weights_open(&w, path, &e) == 0, "%s", e.msg))
        return;
    CHECK_MSG(checkpoint_facts_read(&facts, path, w, false, &e) == 0, "%s", e.msg);
    CHECK_MSG(facts.odd.len && strstr(facts.odd.data, pattern), "\"%s\" was expected in:\n%s", pattern,
              facts.odd.len ? facts.odd.data : "");
    checkpoint_facts_free(&facts);
    weights_close(w);
}

static void oddities(void)
{
    const uint64_t eps = 0x3727c5ac;                    /* 1e-5 */
    const struct value mixed_up = {.key = "general.file_type", .kind = GGUF_U32, .number = 7};
    const struct value unknown = {.key = "general.file_type", .kind = GGUF_U32, .number = 99};
    const struct value no_template = {.key = "tokenizer.chat_template", .kind = GGUF_ARRAY};
    const struct value audio = {.key = "clip.audio.attention.layer_norm_epsilon", .kind = GGUF_F32, .number = eps};
    if (!open_source(MODEL))
        SKIP("no " MODEL);
    struct recipe r = {.g = &source, .metadata = true, .values = &mixed_up, .n_values = 1, .end = source.n_tensors};
    expect_odd(&r, "general.file_type says Q8_0, but most of the layers' numbers are Q4_0");
    r.values = &unknown;
    expect_odd(&r, "general.file_type 99 is no mix");
    r.values = &no_template;
    expect_odd(&r, "no chat template");
    r.rename[0] = "rope_freqs.weight";
    r.rename[1] = "output.weight";
    expect_odd(&r, "output.weight: an output matrix of its own");
    r.rename[0] = "blk.0.attn_q.weight";
    r.rename[1] = "blk.0.spare.weight";
    expect_odd(&r, "1 of its tensors belong to nothing in this model");
    if (!open_source(TOWERS))
        SKIP("no " TOWERS);
    r = (struct recipe){.g = &source, .metadata = true, .values = &audio, .n_values = 1, .end = source.n_tensors};
    expect_odd(&r, "layer_norm_epsilon is 1e-05, as in older files");
}

/* One projector file beside the model is found; of several one must be named. */
static void towers_beside(void)
{
    if (!open_source(TOWERS))
        SKIP("no " TOWERS);
    struct err e = {0};
    struct engine *m = NULL;
    const char *folder = scratch_path("beside"), *model = arena_printf(&arena, "%s/m.gguf", folder);
    char *target = realpath(MODEL, NULL), *towers = realpath(TOWERS, NULL);
    CHECK(system(arena_printf(&arena, "mkdir %s", folder)) == 0 && symlink(target, model) == 0);
    expect_towers(model, NULL, false, "none beside");
    CHECK(symlink(towers, arena_printf(&arena, "%s/mmproj-a.gguf", folder)) == 0);
    expect_towers(model, NULL, true, "one beside");
    expect_towers(model, "none", false, "none wanted");
    CHECK(symlink(towers, arena_printf(&arena, "%s/mmproj-b.gguf", folder)) == 0);
    expect_towers(model, NULL, false, "two beside");
    expect_towers(model, TOWERS, true, "one named");
    CHECK(engine_open(&m, "../shared/model/tiny-a", &(struct engine_options){.mmproj = TOWERS}, &e) == -1 &&
          e.code == EXIT_USAGE);
    CHECK(engine_open(&m, model, &(struct engine_options){.mmproj = "/nowhere.gguf"}, &e) == -1);
    free(target);
    free(towers);
}

int main(void)
{
    if (!mkdtemp(scratch))
        return 1;
    RUN(split_is_the_whole);
    RUN(broken_splits);
    RUN(other_metadata);
    RUN(optional_metadata);
    RUN(other_tensors);
    RUN(probe_spellings);
    RUN(cut_anywhere);
    RUN(other_towers);
    RUN(towers_beside);
    RUN(oddities);
    RUN(fused_queries_keys_values);
    arena_free(&arena);
    map_close(&file);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", scratch);
    return system(command) ? 1 : test_report();
}
