/* The forward pass against the goldens of transformers, and against itself in other chunks, batches and threads. */
#include "engine/engine.h"
#include "tests/goldens.h"
#include "tests/test.h"

static const double tolerance_logit = 2e-3, tolerance_hidden = 3e-3, tolerance_entropy = 1e-3;

enum { TAP = 7 };

static struct engine *open_model(const char *folder, int n_threads, const char *kernel)
{
    char path[256];
    struct engine *m;
    struct err e = {0};
    snprintf(path, sizeof path, MODEL_FOLDER "%s", folder);
    if (engine_open(&m, path, &(struct engine_options){.n_threads = n_threads, .kernel = kernel}, &e)) {
        CHECK_MSG(0, "%s", e.msg);
        exit(1);
    }
    return m;
}

static void step(struct engine *m, const struct step_input *in, int n)
{
    struct err e = {0};
    if (engine_step(m, in, n, &e)) {
        CHECK_MSG(0, "%s", e.msg);
        exit(1);
    }
}

/* A prompt with its soft tokens, as a golden has them. */
struct prompt { int32_t *ids; int n; float *soft; };

static void append_soft(const struct weights *g, struct prompt *p, int64_t *have, const char *kind, int i,
                        int64_t *used)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%d.soft", kind, i);
    const struct tensor *t = weights_find(g, name);
    const int64_t n = t ? tensor_elements(t) : 0;
    p->soft = realloc(p->soft, (size_t)(*have + n + 1) * sizeof *p->soft);
    tensor_read_f32(t, 0, n, p->soft + *have);
    *have += n;
    *used = t->dim[0];
}

static struct prompt golden_prompt(const struct engine *m, const struct weights *g)
{
    struct prompt p = {.n = (int)golden_count(g, "prompt_ids")};
    const cJSON *image = engine_config(m, "image_token_id"), *audio = engine_config(m, "audio_token_id");
    int64_t have = 0, run = 0;
    int n_images = 0, n_sounds = 0;
    p.ids = NEW(int32_t, p.n);
    for (int i = 0; i < p.n; i++) {
        p.ids[i] = (int32_t)golden_value(g, "prompt_ids", i);
        const bool is_image = image && p.ids[i] == image->valueint, is_audio = audio && p.ids[i] == audio->valueint;
        if ((is_image || is_audio) && run == 0)
            append_soft(g, &p, &have, is_image ? "image" : "audio", is_image ? n_images++ : n_sounds++, &run);
        run -= is_image || is_audio;
    }
    return p;
}

static void prompt_free(struct prompt *p)
{
    free(p->ids);
    free(p->soft);
}

/* Largest distance of v from n golden values from `first` on. */
static double distance(const struct weights *g, const char *name, int64_t first, const float *v, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double off = fabs(v[i] - golden_value(g, name, first + i));
        worst = off > worst || isnan(off) ? off : worst;
    }
    return worst;
}

static int argmax(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* One generated token: entropy, log-probability and the five best logits. */
static void check_token(const struct weights *g, const char *name, int t, const float *logits, int n)
{
    const int32_t id = (int32_t)golden_value(g, "gen_ids", t);
    double sum = 0, entropy = 0;
    CHECK_MSG(argmax(logits, n) == id, "%s: token %d is %d, not %d", name, t, argmax(logits, n), id);
    const double top = logits[argmax(logits, n)];
    for (int i = 0; i < n; i++)
        sum += exp(logits[i] - top);
    for (int i = 0; i < n; i++)
        entropy -= exp(logits[i] - top) / sum * (logits[i] - top - log(sum));
    CHECK_NEAR(entropy, golden_value(g, "gen_entropy", t), tolerance_entropy);
    CHECK_NEAR(logits[id] - top - log(sum), golden_value(g, "gen_logprob", t), tolerance_entropy);
    for (int j = 0; j < 5; j++)
        CHECK_NEAR(logits[(int)golden_value(g, "gen_top5_ids", 5 * t + j)],
                   golden_value(g, "gen_top5_logits", 5 * t + j), tolerance_logit);
}

/* Prefill and greedy walk of one case. */
static void check_case(struct engine *m, const char *name)
{
    struct weights *g = golden_open(name);
    struct prompt p = golden_prompt(m, g);
    const struct model_info *info = engine_info(m);
    const int hidden = info->hidden_size, vocab = info->vocab_size, levels = info->n_layers + 1;
    const int n_gen = (int)golden_count(g, "gen_ids"), all = golden_count(g, "hidden_all") ? p.n : 1;
    float *logits = NEW(float, (size_t)all * (size_t)vocab), *tap = NEW(float, (size_t)all * (size_t)hidden);
    float *norm = NEW(float, (size_t)all * (size_t)hidden);
    float *states = NEW(float, (size_t)all * (size_t)levels * (size_t)hidden);
    struct seq *s = seq_new(m);
    step(m, &(struct step_input){.seq = s, .ids = p.ids, .n = p.n, .soft = p.soft, .n_needed = all, .tap_layer = TAP,
                                 .tap = tap, .logits = logits, .norm = norm, .hidden = states}, 1);
    const float *last = states + (size_t)(all - 1) * (size_t)(levels * hidden);
    CHECK_NEAR(distance(g, "hidden_last", 0, last, levels * hidden), 0, tolerance_hidden);
    CHECK_NEAR(distance(g, "norm_last", 0, norm + (all - 1) * hidden, hidden), 0, tolerance_hidden);
    CHECK_NEAR(distance(g, "logits_last", 0, logits + (all - 1) * vocab, vocab), 0, tolerance_logit);
    for (int i = 0; all > 1 && i < all; i++)
        for (int l = 0; l < levels; l++)
            CHECK_MSG(distance(g, "hidden_all", ((int64_t)l * all + i) * hidden, states + (i * levels + l) * hidden,
                               hidden) <= tolerance_hidden, "%s: position %d, output %d", name, i, l);
    memmove(logits, logits + (all - 1) * vocab, (size_t)vocab * sizeof *logits);
    memmove(tap, tap + (all - 1) * hidden, (size_t)hidden * sizeof *tap);
    for (int t = 0; t < n_gen; t++) {
        const int32_t id = (int32_t)golden_value(g, "gen_ids", t);
        check_token(g, name, t, logits, vocab);
        CHECK_NEAR(distance(g, "probe_rows", (int64_t)t * hidden, tap, hidden), 0, tolerance_hidden);
        step(m, &(struct step_input){.seq = s, .ids = &id, .n = 1, .n_needed = 1, .tap_layer = TAP, .tap = tap,
                                     .logits = logits}, 1);
    }
    CHECK(seq_length(s) == p.n + n_gen);
    seq_free(s);
    free(logits), free(tap), free(norm), free(states);
    prompt_free(&p);
    weights_close(g);
}

static void text_goldens(void)
{
    struct engine *m = open_model("tiny-a", 2, NULL);
    for (int i = 0; i < GOLDEN_TEXT_CASES; i++)
        check_case(m, golden_text_cases[i]);
    engine_close(m);
}

static void media_goldens_from_soft_tokens(void)
{
    struct engine *m = open_model("tiny-a", 2, NULL);
    for (int i = 0; i < GOLDEN_MEDIA_CASES; i++)
        check_case(m, golden_media_cases[i]);
    engine_close(m);
}

/* ---- the same bits, however the work is cut --------------------------------------------------------------------- */

/* All outputs of the last `needed` rows of a prompt. */
struct outputs { int needed; float *logits, *tap, *hidden; };

static struct outputs outputs_new(const struct engine *m, int needed)
{
    const size_t n = (size_t)needed, h = (size_t)engine_info(m)->hidden_size;
    return (struct outputs){.needed = needed, .logits = NEW(float, n * (size_t)engine_info(m)->vocab_size),
                            .tap = NEW(float, n * h),
                            .hidden = NEW(float, n * h * (size_t)(engine_info(m)->n_layers + 1))};
}

static void outputs_free(struct outputs *o)
{
    free(o->logits), free(o->tap), free(o->hidden);
}

/* Whether b's rows equal the last rows of a. */
static bool outputs_equal(const struct engine *m, const struct outputs *a, const struct outputs *b)
{
    const size_t skip = (size_t)(a->needed - b->needed), n = (size_t)b->needed;
    const size_t v = (size_t)engine_info(m)->vocab_size, h = (size_t)engine_info(m)->hidden_size;
    const size_t all = h * (size_t)(engine_info(m)->n_layers + 1);
    return memcmp(a->logits + skip * v, b->logits, n * v * sizeof(float)) == 0 &&
           memcmp(a->tap + skip * h, b->tap, n * h * sizeof(float)) == 0 &&
           memcmp(a->hidden + skip * all, b->hidden, n * all * sizeof(float)) == 0;
}

static struct step_input input_of(struct seq *s, const int32_t *ids, int n, const struct outputs *o)
{
    return (struct step_input){.seq = s, .ids = ids, .n = n, .n_needed = o->needed, .tap_layer = TAP, .tap = o->tap,
                               .logits = o->logits, .hidden = o->hidden};
}

/* A long text of ordinary ids. */
static int32_t *some_ids(int n, unsigned seed)
{
    int32_t *ids = NEW(int32_t, n);
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)(seed >> 8) % 900 + 50;
    }
    return ids;
}

enum { LONG = 700, TAIL = 300 };

/* One step with all rows needed, then a few others: only the last row; the prompt in pieces; a prefix shared. */
static void cuts_of_one_sequence(void)
{
    struct engine *m = open_model("tiny-a", 2, NULL);
    int32_t *ids = some_ids(LONG, 1);
    struct outputs full = outputs_new(m, LONG), last = outputs_new(m, 1), tail = outputs_new(m, TAIL);
    struct seq *s = seq_new(m);
    struct step_input in = input_of(s, ids, LONG, &full);
    step(m, &in, 1);
    seq_free(s);

    s = seq_new(m);
    in = input_of(s, ids, LONG, &last);
    step(m, &in, 1);
    CHECK_MSG(outputs_equal(m, &full, &last), "only the last row needed");
    seq_free(s);

    static const int pieces[] = {1, 7, 24, 100, 255, 256, 257};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        s = seq_new(m);
        for (int at = 0; at < LONG - TAIL; at += pieces[i]) {
            const int n = LONG - TAIL - at < pieces[i] ? LONG - TAIL - at : pieces[i];
            step(m, &(struct step_input){.seq = s, .ids = ids + at, .n = n}, 1);
        }
        struct seq *fork = seq_fork(s);
        step(m, &(struct step_input){.seq = s, .ids = ids, .n = 50}, 1);     /* must not disturb the copy */
        seq_free(s);
        in = input_of(fork, ids + LONG - TAIL, TAIL, &tail);
        step(m, &in, 1);
        CHECK_MSG(outputs_equal(m, &full, &tail), "in pieces of %d", pieces[i]);
        seq_free(fork);
    }
    outputs_free(&full), outputs_free(&last), outputs_free(&tail);
    free(ids);
    engine_close(m);
}

/* Many sequences at once equal each alone; some in prefill, some in decode. */
static void batches(void)
{
    enum { N = 9 };
    struct engine *m = open_model("tiny-a", 2, NULL);
    struct step_input in[N];
    struct outputs alone[N], together[N];
    struct seq *s[N], *twin[N];
    int32_t *ids[N];
    for (int i = 0; i < N; i++) {
        const int n = 1 + 60 * i, needed = i % 3 == 2 ? n : 1;
        ids[i] = some_ids(n + 1, 10 + (unsigned)i);
        s[i] = seq_new(m);
        alone[i] = outputs_new(m, needed);
        together[i] = outputs_new(m, needed);
        in[i] = input_of(s[i], ids[i], n, &alone[i]);
        step(m, &in[i], 1);
        twin[i] = seq_new(m);
        in[i] = input_of(twin[i], ids[i], n, &together[i]);
    }
    step(m, in, N);
    for (int i = 0; i < N; i++)
        CHECK_MSG(outputs_equal(m, &alone[i], &together[i]), "prefill of sequence %d", i);
    for (int i = 0; i < N; i++) {
        outputs_free(&alone[i]), outputs_free(&together[i]);
        alone[i] = outputs_new(m, 1);
        together[i] = outputs_new(m, 1);
        in[i] = input_of(s[i], ids[i] + 1 + 60 * i, 1, &alone[i]);
        step(m, &in[i], 1);
        in[i] = input_of(twin[i], ids[i] + 1 + 60 * i, 1, &together[i]);
    }
    step(m, in, N);
    for (int i = 0; i < N; i++) {
        CHECK_MSG(outputs_equal(m, &alone[i], &together[i]), "decode of sequence %d", i);
        outputs_free(&alone[i]), outputs_free(&together[i]);
        seq_free(s[i]), seq_free(twin[i]);
        free(ids[i]);
    }
    engine_close(m);
}

static void run_long(struct engine *m, const int32_t *ids, struct outputs *o)
{
    struct seq *s = seq_new(m);
    const struct step_input in = input_of(s, ids, TAIL, o);
    step(m, &in, 1);
    seq_free(s);
}

/* Threads, instruction sets and file layouts make no difference. */
static void threads_kernels_layouts(void)
{
    static const struct { const char *folder; int threads; const char *kernel; } other[] = {
        {"tiny-a", 2, NULL}, {"tiny-a", 3, NULL}, {"tiny-a", 1, "generic"}, {"tiny-a", 2, "avx2"},
        {"tiny-a-hybrid", 1, NULL}, {"tiny-a-sharded", 1, NULL}};
    struct engine *m = open_model("tiny-a", 1, NULL);
    int32_t *ids = some_ids(TAIL, 3);
    struct outputs want = outputs_new(m, 40), got = outputs_new(m, 40);
    run_long(m, ids, &want);
    const char *best = engine_info(m)->kernel;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (other[i].kernel && strcmp(other[i].kernel, "avx2") == 0 && strcmp(best, "avx512") != 0)
            continue;
        struct engine *o = open_model(other[i].folder, other[i].threads, other[i].kernel);
        run_long(o, ids, &got);
        CHECK_MSG(outputs_equal(o, &want, &got), "%s with %d threads, kernel %s", other[i].folder, other[i].threads,
                  engine_info(o)->kernel);
        engine_close(o);
    }
    outputs_free(&want), outputs_free(&got);
    free(ids);
    engine_close(m);
}

/* A step that is refused leaves its sequences as they were. */
static void refused_steps(void)
{
    struct engine *m = open_model("tiny-a", 1, NULL);
    const int32_t good[] = {2, 50, 60}, bad[] = {2, 1024, 60};
    struct seq *s = seq_new(m), *other = seq_new(m);
    struct err e = {0};
    step(m, &(struct step_input){.seq = s, .ids = good, .n = 3}, 1);
    struct step_input in[2] = {{.seq = s, .ids = good, .n = 3}, {.seq = other, .ids = bad, .n = 3}};
    CHECK(engine_step(m, in, 2, &e) == -1 && e.code == EXIT_BAD_INPUT && strstr(e.msg, "1024"));
    CHECK(seq_length(s) == 3 && seq_length(other) == 0);
    in[1] = in[0];
    CHECK(engine_step(m, in, 2, &e) == -1);
    in[1] = (struct step_input){.seq = other, .ids = good, .n = engine_info(m)->max_positions + 1};
    CHECK(engine_step(m, in, 2, &e) == -1 && strstr(e.msg, "max_position_embeddings"));
    CHECK(engine_step(m, in, 1, &e) == 0 && seq_length(s) == 6);
    seq_free(s), seq_free(other);
    engine_close(m);
}

/* With the argument "goldens" only those: for mutation.test.sh. */
int main(int argc, char **argv)
{
    if (!path_is_dir(MODEL_FOLDER)) {
        printf("  skipped: no " MODEL_FOLDER "\n0 passed, 0 failed, 6 skipped\n");
        return 0;
    }
    RUN(text_goldens);
    RUN(media_goldens_from_soft_tokens);
    if (argc > 1 && strcmp(argv[1], "goldens") == 0)
        return test_report();
    RUN(cuts_of_one_sequence);
    RUN(batches);
    RUN(threads_kernels_layouts);
    RUN(refused_steps);
    return test_report();
}
