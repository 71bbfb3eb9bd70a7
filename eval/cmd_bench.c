/* cmd_bench.c - the verb `bench`: speed beside this machine's limits. */
#include "engine/engine.h"
#include "eval/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 16, PREFIX = 64 };

struct bench {
    struct engine *m;
    int prompt, steps, rounds;
    struct machine_limits limits;
    double weight_bytes;        /* read for one decode step: everything but the per-layer embeddings */
    double row_work, head_work; /* multiply-adds of a row through all layers, and for its logits */
    float *logits;
    int32_t *ids;
    struct text json;
};

struct spread { double median, lo, hi; };

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static struct spread spread_of(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return (struct spread){v[n / 2], v[0], v[n - 1]};
}

/* Multiply-adds of one decoder row, and bytes of what a decode step reads, from the tensors themselves. Tables that
 * are read by the row (embeddings per layer) count as nothing, the dead keys and values of sharing layers too. */
static void count_work(struct bench *b)
{
    const struct weights *w = engine_weights(b->m);
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        bool decoder = strstr(t->name, "language_model.") || !strstr(t->name, "tower");
        if (t->n_dims != 2 || !decoder || strstr(t->name, "embed_tokens_per_layer") || strstr(t->name, "probe"))
            continue;
        b->weight_bytes += (double)t->n_bytes;
        *(strstr(t->name, "embed_tokens") ? &b->head_work : &b->row_work) += (double)tensor_elements(t);
    }
}

static void report(struct bench *b, const char *name, const char *unit, struct spread s, double share,
                   const char *of)
{
    printf("%-34s %10.1f %-10s %8.1f .. %-8.1f", name, s.median, unit, s.lo, s.hi);
    if (isfinite(share))
        printf(" %3.0f%% of %s", 100 * share, of);
    printf("\n");
    fflush(stdout);
    text_printf(&b->json, "%s{\"name\":\"%s\",\"unit\":\"%s\",\"median\":%.4g,\"min\":%.4g,\"max\":%.4g,\"share\":",
                b->json.len > 1 ? "," : "", name, unit, s.median, s.lo, s.hi);
    json_put_double(&b->json, share);
    text_puts(&b->json, "}");
}

/* Prompt tokens per second, with the last row's logits or those of all rows. */
static int bench_prefill(struct bench *b, bool all_rows, struct err *e)
{
    double rate[32];
    size_t rows = all_rows ? (size_t)b->prompt : 1;
    float *logits = NEW(float, rows * (size_t)engine_info(b->m)->vocab_size);
    int failed = 0;
    for (int r = 0; r < b->rounds && !failed; r++) {
        struct seq *s = seq_new(b->m);
        struct step_input in = {.seq = s, .ids = b->ids, .n = b->prompt, .n_needed = (int)rows, .logits = logits};
        double start = clock_ms();
        failed = engine_step(b->m, &in, 1, e);
        rate[r] = b->prompt / (clock_ms() - start) * 1e3;
        seq_free(s);
    }
    free(logits);
    if (failed)
        return -1;
    struct spread s = spread_of(rate, b->rounds);
    if (all_rows)
        report(b, "prompt, all rows", "tokens/s", s,
               s.median * (b->row_work + b->head_work) / b->limits.multiply_adds, "the multiply-add limit");
    else
        report(b, "prompt, last row", "tokens/s", s, NAN, "");
    return 0;
}

static int bench_decode(struct bench *b, int batch, struct err *e)
{
    struct seq *seq[MAX_BATCH];
    struct step_input in[MAX_BATCH];
    double rate[32];
    int failed = 0;
    size_t vocab = (size_t)engine_info(b->m)->vocab_size;
    for (int i = 0; i < batch; i++) {
        seq[i] = seq_new(b->m);
        in[i] = (struct step_input){.seq = seq[i], .ids = b->ids + i, .n = PREFIX};
    }
    failed = engine_step(b->m, in, batch, e);
    for (int r = 0; r < b->rounds && !failed; r++) {
        double start = clock_ms();
        for (int step = 0; step < b->steps && !failed; step++) {
            for (int i = 0; i < batch; i++)
                in[i] = (struct step_input){.seq = seq[i], .ids = b->ids + (step + i) % b->prompt, .n = 1,
                                            .n_needed = 1, .logits = b->logits + (size_t)i * vocab};
            failed = engine_step(b->m, in, batch, e);
        }
        rate[r] = batch * b->steps / (clock_ms() - start) * 1e3;
    }
    for (int i = 0; i < batch; i++)
        seq_free(seq[i]);
    if (failed)
        return -1;
    char name[64];
    snprintf(name, sizeof name, "decode, batch %d", batch);
    struct spread s = spread_of(rate, b->rounds);
    report(b, name, "tokens/s", s, s.median / batch * b->weight_bytes / b->limits.read_bytes,
           "the bandwidth limit");
    return 0;
}

/* ---- encoders -------------------------------------------------------------------------------------------------- */

static void put_le(struct text *t, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_putc(t, (int)(v >> (8 * i) & 255));
}

/* A picture of 640 x 480 as BMP, and a sound of 10 seconds as WAV. */
static void make_picture(struct text *t)
{
    const uint32_t w = 640, h = 480, size = w * h * 3;
    text_puts(t, "BM");
    put_le(t, 54 + size, 4), put_le(t, 0, 4), put_le(t, 54, 4), put_le(t, 40, 4);
    put_le(t, w, 4), put_le(t, h, 4), put_le(t, 1, 2), put_le(t, 24, 2), put_le(t, 0, 4), put_le(t, size, 4);
    put_le(t, 2835, 4), put_le(t, 2835, 4), put_le(t, 0, 4), put_le(t, 0, 4);
    for (uint32_t i = 0; i < size; i++)
        text_putc(t, (int)(i * 2654435761u >> 24));
}

static void make_sound(struct text *t)
{
    const uint32_t n = 160000;
    text_puts(t, "RIFF"), put_le(t, 36 + 2 * n, 4), text_puts(t, "WAVEfmt "), put_le(t, 16, 4), put_le(t, 1, 2);
    put_le(t, 1, 2), put_le(t, 16000, 4), put_le(t, 32000, 4), put_le(t, 2, 2), put_le(t, 16, 2);
    text_puts(t, "data"), put_le(t, 2 * n, 4);
    for (uint32_t i = 0; i < n; i++)
        put_le(t, (uint32_t)(int32_t)(8000 * sin(i * 0.05 + i * 1e-6 * i)) & 0xffff, 2);
}

static double config_number(const struct engine *m, const char *part, const char *key, double fallback)
{
    const cJSON *v = json_get(engine_config(m, part), key);
    return cJSON_IsNumber(v) ? v->valuedouble : fallback;
}

/* Multiply-adds of a tower for this many soft tokens, from its tensors: a matrix meets every row once (a patch, a
 * frame, or a soft token behind the tower), a 3 x 3 kernel every point of its output, attention every pair of patches
 * twice. */
static double encoder_work(const struct engine *m, enum media_kind kind, double tokens)
{
    const struct weights *w = engine_weights(m);
    const char *tower = kind == MEDIA_IMAGE ? "vision_tower." : "audio_tower.";
    const char *projector = kind == MEDIA_IMAGE ? "embed_vision." : "embed_audio.";
    double pooling = config_number(m, "vision_config", "pooling_kernel_size", 3), work = 0;
    double rows = kind == MEDIA_IMAGE ? tokens * pooling * pooling : tokens;
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        double n = (double)tensor_elements(t);
        if (strstr(t->name, projector) && t->n_dims == 2)
            work += n * tokens;
        else if (strstr(t->name, tower) && t->n_dims == 2)
            work += n * rows;
        else if (strstr(t->name, tower) && t->n_dims == 4)
            work += n * (t->dim[1] == 1 ? 2 * rows * 64 : rows * 32);
    }
    if (kind == MEDIA_IMAGE)
        work += 2 * rows * rows * config_number(m, "vision_config", "hidden_size", 0) *
                config_number(m, "vision_config", "num_hidden_layers", 0);
    return work;
}

static int bench_encoder(struct bench *b, enum media_kind kind, struct err *e)
{
    struct text file = {0};
    double ms[32], work = 0;
    int failed = 0;
    kind == MEDIA_IMAGE ? make_picture(&file) : make_sound(&file);
    struct media media = {.kind = kind, .bytes = file.data, .n_bytes = file.len, .name = "generated"};
    for (int r = 0; r < b->rounds && !failed; r++) {
        struct media_tokens tokens = {0};
        double start = clock_ms();
        failed = engine_encode(b->m, &media, 1, &tokens, e);
        ms[r] = (clock_ms() - start) / (kind == MEDIA_AUDIO ? 10 : 1);
        work = encoder_work(b->m, kind, tokens.n_tokens) / (kind == MEDIA_AUDIO ? 10 : 1);
        media_tokens_free(&tokens);
    }
    text_free(&file);
    if (failed)
        return -1;
    struct spread s = spread_of(ms, b->rounds);
    report(b, kind == MEDIA_IMAGE ? "picture of 640 x 480" : "second of sound", "ms", s,
           work / b->limits.multiply_adds * 1e3 / s.median, "the multiply-add limit");
    return 0;
}

static int bench_all(struct bench *b, struct err *e)
{
    const struct model_info *info = engine_info(b->m);
    count_work(b);
    engine_measure_limits(b->m, &b->limits);
    printf("kernel %s, %d threads; limits: %.1f GB/s read, %.1f G multiply-adds/s in float32\n", info->kernel,
           info->n_threads, b->limits.read_bytes / 1e9, b->limits.multiply_adds / 1e9);
    printf("%.1f MB of weights per decode step; median and spread of %d rounds\n\n", b->weight_bytes / 1e6, b->rounds);
    if (bench_prefill(b, false, e) || bench_prefill(b, true, e))
        return -1;
    for (int batch = 1; batch <= MAX_BATCH; batch = batch == 1 ? 4 : batch * 2)
        if (bench_decode(b, batch, e))
            return -1;
    if (info->has_vision && bench_encoder(b, MEDIA_IMAGE, e))
        return -1;
    return info->has_audio ? bench_encoder(b, MEDIA_AUDIO, e) : 0;
}

static int bench(const char *model, const char *mmproj, int64_t threads, int64_t prompt, int64_t rounds,
                 const char *json_path, struct err *e)
{
    struct bench b = {.prompt = (int)prompt, .steps = 32, .rounds = (int)rounds};
    if (engine_open(&b.m, model, &(struct engine_options){.n_threads = (int)threads, .mmproj = mmproj}, e))
        return -1;
    const struct model_info *info = engine_info(b.m);
    if (b.prompt + PREFIX > info->max_positions)
        b.prompt = info->max_positions - PREFIX;
    b.logits = NEW(float, (size_t)MAX_BATCH * (size_t)info->vocab_size);
    b.ids = NEW(int32_t, b.prompt + PREFIX + MAX_BATCH);
    for (int i = 0; i < b.prompt + PREFIX + MAX_BATCH; i++)
        b.ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)info->vocab_size);
    text_puts(&b.json, "[");
    int failed = bench_all(&b, e);
    text_puts(&b.json, "]\n");
    if (!failed && json_path)
        failed = file_write_atomic(json_path, b.json.data, b.json.len, e);
    text_free(&b.json);
    free(b.logits);
    free(b.ids);
    engine_close(b.m);
    return failed;
}

int cmd_bench(int argc, char **argv)
{
    const char *model = NULL, *mmproj = NULL, *json = NULL;
    int64_t threads = 0, prompt = 512, rounds = 5;
    const struct option options[] = {
        {"--model", OPT_STRING, &model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &mmproj, "F", "towers of a .gguf model (the one mmproj*.gguf beside it); none"},
        {"--threads", OPT_INT, &threads, "N", "threads (all)"},
        {"--prompt", OPT_INT, &prompt, "N", "tokens of the prompt (512)"},
        {"--rounds", OPT_INT, &rounds, "N", "measurements of each figure (5)"},
        {"--json", OPT_STRING, &json, "FILE", "write the figures as JSON"},
        {0}};
    const struct usage usage = {"bench", "--model M [options]",
                                "Speed of this checkpoint on this machine, beside the machine's measured limits.",
                                options, "handoff bench --model datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    if (!model)
        err_set(&e, EXIT_USAGE, "bench: --model is missing; see \"handoff bench --help\"");
    else if (cli_range("--threads", (double)threads, 0, 1024, &e) == 0 &&
             cli_range("--prompt", (double)prompt, 1, 1 << 20, &e) == 0 &&
             cli_range("--rounds", (double)rounds, 1, 32, &e) == 0 &&
             bench(model, mmproj, threads, prompt, rounds, json, &e) == 0)
        return EXIT_DONE;
    return cli_fail(&e);
}
