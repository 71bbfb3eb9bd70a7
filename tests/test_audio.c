/* test_audio.c - the audio tower against the goldens, stage by stage and from the file; same bits in any company and
 * on any number of threads. */
#include "engine/conformer.h"
#include "engine/mel.h"
#include "engine/towers.h"
#include "tests/golden.h"
#include "tests/test.h"

#include <stdlib.h>

#define MODEL "../shared/model/tiny-a/"
#define MEDIA "../shared/model/media/"

static struct weights *weights;
static cJSON *config, *processor;
static struct compute compute;

static const struct { const char *golden, *number, *file; } cases[] = {
    {"audio_short", "0", "short.wav"},       {"audio_odd", "0", "odd.wav"},
    {"audio_speech", "0", "speech.wav"},     {"audio_stereo44k", "0", "stereo44k.wav"},
    {"mixed_image_audio", "0", "short.wav"}, {"mixed_two_of_each", "0", "odd.wav"},
    {"mixed_two_of_each", "1", "short.wav"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static struct golden_tensor read_golden(const char *golden, const char *number, const char *what)
{
    char path[256], name[64];
    struct golden g;
    struct golden_tensor t = {0};
    snprintf(path, sizeof path, GOLDENS "%s.safetensors", golden);
    snprintf(name, sizeof name, "audio_%s.%s", number, what);
    if (golden_open(&g, path) == 0)
        t = golden_get(&g, name);
    golden_close(&g);
    return t;
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        worst = a[i] - b[i] == a[i] - b[i] ? fmax(worst, fabs((double)a[i] - b[i])) : INFINITY;
    return worst;
}

/* ---- against the reference ------------------------------------------------------------------------------------- */

static void tower_from_golden_frames(void)
{
    struct conformer *c;
    struct err e = {0};
    CHECK_MSG(conformer_open(&c, weights, config, 128, &e) == 0, "%s", e.msg);
    for (int i = 0; i < N_CASES; i++) {
        struct golden_tensor mel = read_golden(cases[i].golden, cases[i].number, "mel");
        struct golden_tensor tower = read_golden(cases[i].golden, cases[i].number, "tower");
        struct golden_tensor soft = read_golden(cases[i].golden, cases[i].number, "soft");
        struct stretch s = {mel.f32, (int)mel.dim[0]};
        int rows = (int)conformer_tokens(s.n_frames);
        CHECK_MSG(rows == tower.dim[0] && conformer_output_width(c) == tower.dim[1], "%s: rows", cases[i].golden);
        CHECK(conformer_soft_width(c) == soft.dim[1]);
        int *first = NEW(int, rows);
        float *x = NEW(float, rows * conformer_width(c)), *out = NEW(float, tower.n), *got = NEW(float, soft.n);
        conformer_subsample(c, &compute, &s, 1, x);
        for (int l = 0; l < conformer_layers(c); l++)
            conformer_layer(c, &compute, l, first, rows, x);
        conformer_project(c, &compute, rows, x, out, got);
        CHECK_NEAR(largest_difference(out, tower.f32, tower.n), 0, 1e-4);
        CHECK_NEAR(largest_difference(got, soft.f32, soft.n), 0, 1e-4);
        free(first), free(x), free(out), free(got);
        free(mel.data), free(tower.data), free(soft.data);
    }
    conformer_close(c);
}

/* Where an error begins: the output of each stage of one case. */
static void stages_of_the_taps(void)
{
    struct golden g;
    struct conformer *c;
    struct err e = {0};
    CHECK(golden_open(&g, GOLDENS "audio_short.taps.safetensors") == 0);
    CHECK(conformer_open(&c, weights, config, 128, &e) == 0);
    struct golden_tensor mel = read_golden("audio_short", "0", "mel");
    struct golden_tensor want[4] = {golden_get(&g, "model.audio_tower.subsample_conv_projection"),
                                    golden_get(&g, "model.audio_tower.layers.0"),
                                    golden_get(&g, "model.audio_tower.layers.1"),
                                    golden_get(&g, "model.audio_tower.output_proj")};
    int rows = (int)conformer_tokens(mel.dim[0]), first[64] = {0};
    int64_t n = rows * conformer_width(c), n_out = rows * conformer_output_width(c);
    float *x = NEW(float, n), *out = NEW(float, n_out), *soft = NEW(float, rows * conformer_soft_width(c));
    conformer_subsample(c, &compute, &(struct stretch){mel.f32, (int)mel.dim[0]}, 1, x);
    CHECK_NEAR(largest_difference(x, want[0].f32, n), 0, 2e-5);
    for (int l = 0; l < 2; l++) {
        conformer_layer(c, &compute, l, first, rows, x);
        CHECK_NEAR(largest_difference(x, want[l + 1].f32, n), 0, 2e-5);
    }
    conformer_project(c, &compute, rows, x, out, soft);
    CHECK_NEAR(largest_difference(out, want[3].f32, n_out), 0, 2e-5);
    for (int i = 0; i < 4; i++)
        free(want[i].data);
    free(mel.data), free(x), free(out), free(soft);
    conformer_close(c);
    golden_close(&g);
}

static struct media read_media(struct mapped *file, const char *path)
{
    struct err e = {0};
    CHECK_MSG(map_open(file, path, &e) == 0, "%s", e.msg);
    return (struct media){.kind = MEDIA_AUDIO, .bytes = file->data, .n_bytes = file->size, .name = path};
}

static void free_tokens(struct media_tokens *t)
{
    free(t->part_tokens);
    free(t->soft);
}

static void from_file_to_soft_tokens(void)
{
    struct audio *a;
    struct err e = {0}, errs[N_CASES];
    struct mapped files[N_CASES];
    struct media media[N_CASES];
    struct media_tokens out[N_CASES];
    char paths[N_CASES][128];
    CHECK_MSG(audio_open(&a, weights, config, processor, &e) == 0, "%s", e.msg);
    for (int i = 0; i < N_CASES; i++) {
        snprintf(paths[i], sizeof paths[i], MEDIA "%s", cases[i].file);
        media[i] = read_media(&files[i], paths[i]);
    }
    CHECK(audio_encode(a, &compute, media, N_CASES, out, errs) == 0);
    for (int i = 0; i < N_CASES; i++) {
        struct golden_tensor soft = read_golden(cases[i].golden, cases[i].number, "soft");
        struct golden_tensor samples = read_golden(cases[i].golden, cases[i].number, "samples");
        CHECK_MSG(out[i].n_tokens == soft.dim[0] && out[i].n_parts == 1 && out[i].part_tokens[0] == out[i].n_tokens,
                  "%s: %d tokens, %s", cases[i].golden, out[i].n_tokens, errs[i].msg);
        CHECK_NEAR(largest_difference(out[i].soft, soft.f32, soft.n), 0, 1e-4);
        CHECK_NEAR(out[i].seconds, (double)samples.n / 16000, 1e-4);
        CHECK(strlen(out[i].input_sha) == 64);
        free(soft.data), free(samples.data);
        free_tokens(&out[i]);
        map_close(&files[i]);
    }
    audio_close(a);
}

/* ---- same answer, always --------------------------------------------------------------------------------------- */

static bool same_tokens(const struct media_tokens *a, const struct media_tokens *b)
{
    size_t bytes = (size_t)a->n_tokens * 128 * sizeof(float);
    return a->n_tokens == b->n_tokens && a->n_parts == b->n_parts && memcmp(a->soft, b->soft, bytes) == 0 &&
           memcmp(a->part_tokens, b->part_tokens, (size_t)a->n_parts * sizeof(int)) == 0 &&
           strcmp(a->input_sha, b->input_sha) == 0;
}

static void same_bits_in_any_company(void)
{
    static const char *const kernels[] = {"generic", "avx2", "avx512", "neon"};
    static const char *const paths[4] = {MEDIA "short.wav", MEDIA "speech.wav", MEDIA "odd.wav", MEDIA "stereo44k.wav"};
    struct audio *a;
    struct err e = {0}, errs[4];
    struct mapped files[4];
    struct media media[4];
    struct media_tokens alone[4], together[4];
    CHECK(audio_open(&a, weights, config, processor, &e) == 0);
    struct compute plain = {.k = kernels_find("generic")};
    for (int i = 0; i < 4; i++) {
        media[i] = read_media(&files[i], paths[i]);
        CHECK(audio_encode(a, &plain, &media[i], 1, &alone[i], &errs[i]) == 0);
    }
    for (int k = 0; k < 4; k++)
        for (int threads = 1; kernels_find(kernels[k]) && threads <= 3; threads++) {
            struct compute c = {.k = kernels_find(kernels[k]), .pool = pool_new(threads)};
            CHECK(audio_encode(a, &c, media, 4, together, errs) == 0);
            for (int i = 0; i < 4; i++) {
                CHECK_MSG(same_tokens(&alone[i], &together[i]), "%s, %d threads, %s", kernels[k], threads, paths[i]);
                free_tokens(&together[i]);
            }
            pool_free(c.pool);
        }
    for (int i = 0; i < 4; i++) {
        free_tokens(&alone[i]);
        map_close(&files[i]);
    }
    audio_close(a);
}

/* ---- long sounds and bad ones ---------------------------------------------------------------------------------- */

/* 16-bit mono WAV at 16 kHz of n samples that hum, with a pause at `pause`. */
static struct text make_wav(int n, int pause)
{
    static const uint8_t head[44] = {'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'A', 'V', 'E', 'f', 'm', 't', ' ', 16, 0, 0,
                                     0, 1, 0, 1, 0, 0x80, 0x3e, 0, 0, 0, 0x7d, 0, 0, 2, 0, 16, 0, 'd', 'a', 't', 'a'};
    struct text t = {0};
    text_put(&t, head, sizeof head);
    for (int i = 0; i < 4; i++)
        t.data[40 + i] = (char)(2 * n >> 8 * i & 0xff);
    for (int i = 0; i < n; i++) {
        int v = i >= pause && i < pause + 800 ? 0 : i * 37 % 2000 - 1000;
        text_putc(&t, v & 0xff);
        text_putc(&t, v >> 8 & 0xff);
    }
    return t;
}

static void a_long_sound_becomes_parts(void)
{
    enum { N = 1000000, PAUSE = 470000 };
    struct audio *a;
    struct err e = {0}, errs[2];
    CHECK(audio_open(&a, weights, config, processor, &e) == 0);
    struct text whole = make_wav(N, PAUSE);
    struct media_tokens out, part;
    struct media media = {.kind = MEDIA_AUDIO, .bytes = whole.data, .n_bytes = whole.len, .name = "long"};
    CHECK_MSG(audio_encode(a, &compute, &media, 1, &out, errs) == 0, "%s", errs[0].msg);
    CHECK(out.n_parts == 3);
    media.max_s = 12.5;
    CHECK(audio_encode(a, &compute, &media, 1, &part, errs) == 0 && part.n_parts == 1);
    CHECK_MSG(abs(part.n_tokens - 312) <= 1, "12.5 seconds gave %d tokens", part.n_tokens);
    media_tokens_free(&part);
    media.max_s = 0;
    CHECK_NEAR(out.seconds, 62.5, 1e-9);
    int sum = 0;
    for (int i = 0; i < out.n_parts; i++) {
        CHECK(out.part_tokens[i] > 0 && out.part_tokens[i] <= 750);
        sum += out.part_tokens[i];
    }
    CHECK(sum == out.n_tokens);
    CHECK_NEAR(out.n_tokens, 62.5 * 25, 3);
    /* the first stretch ends within the pause and is the same as that segment by itself */
    int64_t cut = 0;
    for (int64_t at = PAUSE; at < PAUSE + 800 && !cut; at += 80)
        if ((at - 448000) % 160 == 0 && conformer_tokens((at - 161) / 160 + 1) == out.part_tokens[0])
            cut = at;
    CHECK(cut > 0);
    media.end_s = 470400 / 16000.0;
    CHECK_MSG(audio_encode(a, &compute, &media, 1, &part, errs) == 0, "%s", errs[0].msg);
    CHECK(part.n_parts == 1 && memcmp(part.soft, out.soft, 128 * 700 * sizeof(float)) == 0);
    free_tokens(&part);
    free_tokens(&out);
    text_free(&whole);
    audio_close(a);
}

static void a_bad_sound_leaves_the_others_alone(void)
{
    struct audio *a;
    struct err e = {0}, errs[3];
    struct media_tokens out[3], alone;
    CHECK(audio_open(&a, weights, config, processor, &e) == 0);
    struct text good = make_wav(4000, 0), brief = make_wav(160, 200);
    struct media media[3] = {{.kind = MEDIA_AUDIO, .bytes = "RIFFxxxxWAVE", .n_bytes = 12, .name = "bad"},
                             {.kind = MEDIA_AUDIO, .bytes = good.data, .n_bytes = good.len, .name = "good"},
                             {.kind = MEDIA_AUDIO, .bytes = brief.data, .n_bytes = brief.len, .name = "brief"}};
    CHECK(audio_encode(a, &compute, media, 3, out, errs) == 2);
    CHECK(errs[0].code == EXIT_BAD_INPUT && errs[1].code == 0 && errs[2].code == EXIT_BAD_INPUT);
    CHECK_MSG(strstr(errs[2].msg, "half a frame") != NULL, "%s", errs[2].msg);
    CHECK(out[0].soft == NULL && out[2].soft == NULL && out[0].part_tokens == NULL);
    CHECK(audio_encode(a, &compute, &media[1], 1, &alone, errs) == 0);
    CHECK(same_tokens(&alone, &out[1]));
    CHECK(audio_encode(a, &compute, media, 0, out, errs) == 0);
    free_tokens(&alone);
    free_tokens(&out[1]);
    text_free(&good);
    text_free(&brief);
    audio_close(a);
}

/* ---- contradictory checkpoints --------------------------------------------------------------------------------- */

static void contradictions_are_named(void)
{
    static const struct { const char *key, *json, *expected; } edits[] = {
        {"hidden_size", "128", "input_proj_linear.weight"},
        {"hidden_size", "63", "hidden_size"},
        {"hidden_size", "\"64\"", "hidden_size"},
        {"num_attention_heads", "5", "num_attention_heads"},
        {"num_attention_heads", "8", "per_dim_scale"},
        {"num_hidden_layers", "3", "layers.2."},
        {"num_hidden_layers", "1", "layers.1."},
        {"use_clipped_linears", "false", "input_min"},
        {"num_hidden_layers", "0", "num_hidden_layers"},
        {"conv_kernel_size", "7", "depthwise_conv1d"},
        {"output_proj_dims", "128", "output_proj.weight"},
        {"subsampling_conv_channels", "[128]", "subsampling_conv_channels"},
        {"subsampling_conv_channels", "[128,16]", "layer1.conv.weight"},
        {"subsampling_conv_channels", "[1e9,8]", "subsampling_conv_channels"},
        {"attention_context_left", "12", "attention_context_left"},
        {"attention_context_right", "1", "attention_context_right"},
        {"attention_logit_cap", "0", "attention_logit_cap"},
        {"hidden_act", "\"gelu\"", "hidden_act"},
        {"use_clipped_linears", "1", "use_clipped_linears"},
        {"rms_norm_eps", "null", "rms_norm_eps"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        cJSON *changed = cJSON_Duplicate(config, 1);
        cJSON *audio = cJSON_GetObjectItemCaseSensitive(changed, "audio_config");
        cJSON_ReplaceItemInObjectCaseSensitive(audio, edits[i].key, cJSON_Parse(edits[i].json));
        struct audio *a = NULL;
        struct err e = {0};
        int status = audio_open(&a, weights, changed, processor, &e);
        CHECK_MSG(status == -1 && e.code == EXIT_BAD_INPUT && strstr(e.msg, edits[i].expected), "%s = %s: \"%s\"",
                  edits[i].key, edits[i].json, e.msg);
        audio_close(a);
        cJSON_Delete(changed);
    }
    cJSON *feature = cJSON_Parse("{\"feature_extractor\":{\"feature_size\":64}}");
    struct audio *a = NULL;
    struct err e = {0};
    CHECK(audio_open(&a, weights, config, feature, &e) == -1);
    CHECK_MSG(strstr(e.msg, "input_proj_linear.weight") != NULL, "%s", e.msg);
    cJSON_Delete(feature);
}

static int open_model(void)
{
    struct err e = {0};
    if (weights_open(&weights, MODEL, &e))
        return -1;
    config = json_read_file(MODEL "config.json", 1 << 20, &e);
    processor = json_read_file(MODEL "processor_config.json", 1 << 20, &e);
    compute = (struct compute){.k = kernels_find(NULL), .pool = pool_new(2)};
    return 0;
}

static void no_fixtures(void)
{
    SKIP("no ../shared");
}

int main(void)
{
    if (open_model()) {
        RUN(no_fixtures);
        return test_report();
    }
    RUN(tower_from_golden_frames);
    RUN(stages_of_the_taps);
    RUN(from_file_to_soft_tokens);
    RUN(same_bits_in_any_company);
    RUN(a_long_sound_becomes_parts);
    RUN(a_bad_sound_leaves_the_others_alone);
    RUN(contradictions_are_named);
    pool_free(compute.pool);
    cJSON_Delete(config);
    cJSON_Delete(processor);
    weights_close(weights);
    return test_report();
}
