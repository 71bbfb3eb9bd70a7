/* cmd_bench.c - the verb `bench`: speed beside this machine's limits. */
#include "engine/engine.h"
#include "eval/answer.h"
#include "eval/cli.h"
#include "eval/prefix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 16, PREFIX = 64, MAX_ROUNDS = 32, STEPS = 16, PIECE = 128 };
/* The whole job: multiple-choice questions behind the same few-shot examples. */
enum { JOB_SAMPLES = 24, JOB_PREFIX = 640, JOB_OWN = 130, JOB_ANSWER = 2 };

struct bench {
    struct engine *m;
    int prompt, rounds;
    bool json;
    const char *only;           /* groups of figures, NULL: all */
    struct machine_limits limits;
    struct row_work work;
    float *logits;
    int32_t *ids;
    struct text figures;        /* as JSON */
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

/* One line; `limit` is in the figure's unit, `of` says what sets it. */
static void report(struct bench *b, const char *name, const char *unit, double *v, double limit, const char *of)
{
    const struct spread s = spread_of(v, b->rounds);
    const double share = strncmp(unit, "ms", 2) == 0 ? limit / s.median : s.median / limit;
    if (!b->json) {
        char range[32];
        snprintf(range, sizeof range, "%.1f .. %.1f", s.lo, s.hi);
        printf("%-22s %9.1f %-8s %-20s %9.1f  %4.0f%%  %s%s\n", name, s.median, unit, range, limit, 100 * share, of,
               share > 1 && strstr(of, "read") ? " (the weights lie in the cache)" : "");
        fflush(stdout);
    }
    text_printf(&b->figures, "%s{\"name\":\"%s\",\"unit\":\"%s\",\"median\":%.5g,\"min\":%.5g,\"max\":%.5g,",
                b->figures.len ? "," : "", name, unit, s.median, s.lo, s.hi);
    text_printf(&b->figures, "\"limit\":%.5g,\"share\":%.4g,\"of\":\"%s\"}", limit, share, of);
}

/* Which rows of a prompt go through all layers, and for which the logits are made. */
struct rows { const char *name; bool all, all_logits; };

/* One prompt from its beginning, in pieces where all logits are made: they take a megabyte a row. The last row's are
 * always made. */
static int read_prompt(struct bench *b, const struct rows *rows, float *hidden, float *logits, struct err *e)
{
    const int split = rows->all && !rows->all_logits ? b->prompt - 1 : 0;
    struct seq *s = seq_new(b->m);
    struct step_input in = {.seq = s, .ids = b->ids, .n = split, .n_needed = split, .norm = hidden};
    int failed = split ? engine_step(b->m, &in, 1, e) : 0;
    for (int at = split; at < b->prompt && !failed; at += in.n) {
        const int left = b->prompt - at, n = rows->all_logits && left > PIECE ? PIECE : left;
        in = (struct step_input){.seq = s, .ids = b->ids + at, .n = n, .n_needed = rows->all_logits ? n : 1,
                                 .logits = logits};
        failed = engine_step(b->m, &in, 1, e);
    }
    seq_free(s);
    return failed;
}

static int bench_prompt(struct bench *b, const struct rows *rows, struct err *e)
{
    const struct model_info *info = engine_info(b->m);
    const double n = b->prompt, through = rows->all ? n : 1, scored = rows->all_logits ? n : 1;
    double rate[MAX_ROUNDS];
    float *hidden = NEW(float, (size_t)b->prompt * (size_t)info->hidden_size);
    float *logits = NEW(float, (size_t)(rows->all_logits ? PIECE : 1) * (size_t)info->vocab_size);
    int failed = 0;
    for (int r = 0; r < b->rounds && !failed; r++) {
        const double start = clock_ms();
        failed = read_prompt(b, rows, hidden, logits, e);
        rate[r] = n / (clock_ms() - start) * 1e3;
    }
    free(hidden);
    free(logits);
    const double work = b->work.below + b->work.above * through / n + b->work.head * scored / n;
    if (!failed)
        report(b, rows->name, "tokens/s", rate, b->limits.f32 / work, "float32 peak");
    return failed;
}

static int bench_prompts(struct bench *b, struct err *e)
{
    static const struct rows rows[] = {{"prompt, last row", false, false}, {"prompt, all rows", true, false},
                                       {"prompt, all logits", true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bench_prompt(b, &rows[i], e))
            return -1;
    return 0;
}

static int bench_batch(struct bench *b, int batch, struct err *e)
{
    struct seq *seq[MAX_BATCH];
    struct step_input in[MAX_BATCH];
    double rate[MAX_ROUNDS];
    int failed = 0;
    const size_t vocab = (size_t)engine_info(b->m)->vocab_size;
    for (int i = 0; i < batch; i++) {
        seq[i] = seq_new(b->m);
        in[i] = (struct step_input){.seq = seq[i], .ids = b->ids + i, .n = PREFIX};
    }
    failed = engine_step(b->m, in, batch, e);
    for (int r = 0; r < b->rounds && !failed; r++) {
        const double start = clock_ms();
        for (int step = 0; step < STEPS && !failed; step++) {
            for (int i = 0; i < batch; i++)
                in[i] = (struct step_input){.seq = seq[i], .ids = b->ids + (step + i) % b->prompt, .n = 1,
                                            .n_needed = 1, .logits = b->logits + (size_t)i * vocab};
            failed = engine_step(b->m, in, batch, e);
        }
        rate[r] = batch * STEPS / (clock_ms() - start) * 1e3;
    }
    for (int i = 0; i < batch; i++)
        seq_free(seq[i]);
    if (failed)
        return -1;
    char name[64];
    snprintf(name, sizeof name, "decode, batch %d", batch);
    const double memory = batch * b->limits.read_bytes / b->work.bytes;
    const double compute = b->limits.f32 / (b->work.below + b->work.above + b->work.head);
    report(b, name, "tokens/s", rate, memory < compute ? memory : compute,
           memory < compute ? "read bandwidth" : "float32 peak");
    return 0;
}

static int bench_decode(struct bench *b, struct err *e)
{
    for (int batch = 1; batch <= MAX_BATCH; batch = batch == 1 ? 4 : batch * 2)
        if (bench_batch(b, batch, e))
            return -1;
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
    double ms[MAX_ROUNDS], work = 0;
    int failed = 0;
    kind == MEDIA_IMAGE ? make_picture(&file) : make_sound(&file);
    struct media media = {.kind = kind, .bytes = file.data, .n_bytes = file.len, .name = "generated"};
    for (int r = 0; r < b->rounds && !failed; r++) {
        struct media_tokens tokens = {0};
        const double start = clock_ms();
        failed = engine_encode(b->m, &media, 1, &tokens, e);
        ms[r] = (clock_ms() - start) / (kind == MEDIA_AUDIO ? 10 : 1);
        work = encoder_work(b->m, kind, tokens.n_tokens) / (kind == MEDIA_AUDIO ? 10 : 1);
        media_tokens_free(&tokens);
    }
    text_free(&file);
    if (failed)
        return -1;
    report(b, kind == MEDIA_IMAGE ? "picture of 640 x 480" : "second of sound", "ms", ms,
           work / b->limits.f32 * 1e3, "float32 peak");
    return 0;
}

static int bench_media(struct bench *b, struct err *e)
{
    const struct model_info *info = engine_info(b->m);
    if (info->has_vision && bench_encoder(b, MEDIA_IMAGE, e))
        return -1;
    return info->has_audio ? bench_encoder(b, MEDIA_AUDIO, e) : 0;
}

/* ---- the whole job --------------------------------------------------------------------------------------------- */

enum { JOB_TOKENS = JOB_PREFIX + JOB_OWN };

/* Prompt `which` goes to the batcher; those behind it are known to come. */
static int add_question(struct batcher *batcher, struct prefix_store *prefixes, const struct prefix_prompt *p,
                        int which, struct err *e)
{
    struct answer_request r = {.settings = {.max_tokens = JOB_ANSWER, .ignore_eos = true}};
    int shared[JOB_SAMPLES];
    if (prefix_begin(prefixes, &p[which], p + which + 1, JOB_SAMPLES - which - 1, shared, &r.seq, e))
        return -1;
    for (int i = 0; i < p[which].n; i++)
        ids_push(&r.prompt, p[which].ids[i]);
    batcher_add(batcher, &r);
    return 0;
}

static int take_answers(struct batcher *batcher, struct err *e)
{
    struct answer a;
    int failed = 0;
    while (batcher_take(batcher, &a)) {
        if (a.err.code && !failed)
            failed = err_set(e, (enum exit_status)a.err.code, "%s", a.err.msg);
        answer_free(&a);
    }
    return failed;
}

static int run_job(struct bench *b, const struct prefix_prompt *p, struct err *e)
{
    const struct prefix_settings settings = {.memory_bytes = (size_t)256 << 20, .identity = ""};
    struct prefix_store *prefixes = prefix_open(b->m, &settings);
    struct batcher *batcher = batcher_new(b->m, NULL, MAX_BATCH);
    int next = 0, failed = 0;
    while (!failed && (next < JOB_SAMPLES || batcher_active(batcher))) {
        while (!failed && next < JOB_SAMPLES && batcher_has_room(batcher))
            failed = add_question(batcher, prefixes, p, next++, e);
        failed = failed || batcher_step(batcher, e) || take_answers(batcher, e) ? -1 : 0;
    }
    batcher_free(batcher);
    prefix_close(prefixes);
    return failed;
}

static int bench_questions(struct bench *b, struct err *e)
{
    if (engine_info(b->m)->max_positions <= JOB_TOKENS + JOB_ANSWER)
        return 0;
    const uint32_t vocab = (uint32_t)engine_info(b->m)->vocab_size;
    int32_t *ids = NEW(int32_t, JOB_SAMPLES * JOB_TOKENS);
    struct prefix_prompt prompts[JOB_SAMPLES];
    double rate[MAX_ROUNDS];
    int failed = 0;
    for (uint32_t i = 0; i < JOB_SAMPLES * JOB_TOKENS; i++)
        ids[i] = (int32_t)((i % JOB_TOKENS < JOB_PREFIX ? i % JOB_TOKENS : i) * 2654435761u % vocab);
    for (int i = 0; i < JOB_SAMPLES; i++)
        prompts[i] = (struct prefix_prompt){ids + i * JOB_TOKENS, JOB_TOKENS, NULL};
    for (int r = 0; r < b->rounds && !failed; r++) {
        const double start = clock_ms();
        failed = run_job(b, prompts, e);
        rate[r] = JOB_SAMPLES / (clock_ms() - start) * 1e3 * 60;
    }
    free(ids);
    if (failed)
        return -1;
    const double rows = (double)JOB_PREFIX / JOB_SAMPLES + JOB_OWN + JOB_ANSWER - 1;
    report(b, "5-shot questions", "per min", rate,
           60 * b->limits.f32 / (rows * b->work.below + JOB_ANSWER * (b->work.above + b->work.head)), "float32 peak");
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static void report_machine(const struct bench *b)
{
    const struct model_info *info = engine_info(b->m);
    const struct machine_limits *l = &b->limits;
    printf("kernel %s, %d threads\n", info->kernel, info->n_threads);
    printf("measured limits: %.1f GB/s read; multiply-adds, G/s: %.0f float32", l->read_bytes / 1e9, l->f32 / 1e9);
    if (l->bf16 > 0)
        printf(", %.0f bf16", l->bf16 / 1e9);
    if (l->int8 > 0)
        printf(", %.0f int8", l->int8 / 1e9);
    printf("\na token: %.1f MB of weights read, %.1f M multiply-adds, of which %.1f M make keys and values and %.1f M "
           "logits\n\n", b->work.bytes / 1e6, (b->work.below + b->work.above + b->work.head) / 1e6,
           b->work.below / 1e6, b->work.head / 1e6);
    printf("%-22s %9s %-8s %-20s %9s  %5s  limit is\n", "figure", "median", "", "spread", "limit", "share");
}

enum { N_GROUPS = 4 };
static const struct { const char *name; int (*measure)(struct bench *b, struct err *e); } groups[N_GROUPS] = {
    {"prompt", bench_prompts}, {"decode", bench_decode}, {"questions", bench_questions}, {"media", bench_media}};

/* Whether a list of names separated by commas (NULL: all) holds one. */
static bool wanted(const char *only, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && memcmp(at, name, len) == 0)
            return true;
    return !only;
}

static int check_only(const char *only, struct err *e)
{
    for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',') {
        bool known = false;
        for (int i = 0; i < N_GROUPS; i++)
            known |= strcspn(at, ",") == strlen(groups[i].name) && memcmp(at, groups[i].name, strcspn(at, ",")) == 0;
        if (!known)
            return err_set(e, EXIT_USAGE, "--only: prompt, decode, questions or media was expected, not \"%.*s\"",
                           (int)strcspn(at, ","), at);
    }
    return 0;
}

static int bench_all(struct bench *b, struct err *e)
{
    engine_work(b->m, &b->work);
    engine_measure_limits(b->m, &b->limits);
    if (!b->json)
        report_machine(b);
    for (int i = 0; i < N_GROUPS; i++)
        if (wanted(b->only, groups[i].name) && groups[i].measure(b, e))
            return -1;
    return 0;
}

static int print_json(const struct bench *b, struct err *e)
{
    const struct model_info *info = engine_info(b->m);
    const struct machine_limits *l = &b->limits;
    struct text t = {0};
    text_printf(&t, "{\"kernel\":\"%s\",\"threads\":%d,", info->kernel, info->n_threads);
    text_printf(&t, "\"limits\":{\"read_bytes_per_s\":%.5g,\"f32\":%.5g,", l->read_bytes, l->f32);
    text_printf(&t, l->bf16 > 0 ? "\"bf16\":%.5g," : "\"bf16\":null,", l->bf16);
    text_printf(&t, l->int8 > 0 ? "\"int8\":%.5g}," : "\"int8\":null},", l->int8);
    text_printf(&t, "\"token\":{\"weight_bytes\":%.0f,\"multiply_adds\":%.0f,", b->work.bytes,
                b->work.below + b->work.above + b->work.head);
    text_printf(&t, "\"below\":%.0f,\"head\":%.0f},", b->work.below, b->work.head);
    text_printf(&t, "\"prompt\":%d,\"rounds\":%d,\"figures\":[%s]}\n", b->prompt, b->rounds,
                b->figures.data ? b->figures.data : "");
    const int failed = cli_print(&t, e);
    text_free(&t);
    return failed;
}

static int bench(struct bench *b, struct err *e)
{
    const struct model_info *info = engine_info(b->m);
    if (b->prompt + PREFIX > info->max_positions)
        b->prompt = info->max_positions - PREFIX;
    b->logits = NEW(float, (size_t)MAX_BATCH * (size_t)info->vocab_size);
    b->ids = NEW(int32_t, b->prompt + PREFIX + MAX_BATCH);
    for (int i = 0; i < b->prompt + PREFIX + MAX_BATCH; i++)
        b->ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)info->vocab_size);
    const int failed = bench_all(b, e) || (b->json && print_json(b, e)) ? -1 : 0;
    text_free(&b->figures);
    free(b->logits);
    free(b->ids);
    return failed;
}

int cmd_bench(int argc, char **argv)
{
    const char *model = NULL, *mmproj = NULL, *kernel = NULL, *activations = NULL, *only = NULL;
    int64_t threads = 0, prompt = 512, rounds = 5;
    bool json = false;
    const struct option options[] = {
        {"--model", OPT_STRING, &model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--threads", OPT_INT, &threads, "N", "threads (all)"},
        {"--kernel", OPT_STRING, &kernel, "K", "generic, avx2, avx512, avx512vnni, neon (the best there is)"},
        {"--activations", OPT_STRING, &activations, "K", "float32, or int8 in front of quantised weights"},
        {"--prompt", OPT_INT, &prompt, "N", "tokens of the prompt (512)"},
        {"--rounds", OPT_INT, &rounds, "N", "measurements of each figure (5)"},
        {"--only", OPT_STRING, &only, "G,...", "some of prompt, decode, questions, media (all)"},
        {"--json", OPT_FLAG, &json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "bench", "--model M [options]",
        "Speed of this checkpoint on this machine, beside the limits of the machine, measured in the same run:\n"
        "prompts, decoding with several samples in flight, 5-shot questions, pictures and sounds.",
        options, "handoff bench --model datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    struct bench b = {.prompt = (int)prompt, .rounds = (int)rounds, .json = json, .only = only};
    const struct engine_options o = {.n_threads = (int)threads, .kernel = kernel, .activations = activations,
                                     .mmproj = mmproj};
    if (!model)
        err_set(&e, EXIT_USAGE, "bench: --model is missing; see \"handoff bench --help\"");
    int failed = !model || cli_range("--threads", (double)threads, 0, 1024, &e) ||
                 cli_range("--prompt", (double)prompt, 1, 1 << 20, &e) ||
                 cli_range("--rounds", (double)rounds, 1, MAX_ROUNDS, &e) ||
                 check_only(only, &e) || engine_open(&b.m, model, &o, &e) || bench(&b, &e);
    engine_close(b.m);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
