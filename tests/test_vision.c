/* The vision tower: every picture of the goldens from its resized pixels and from its file; the same bits however it is
 * run; what does not fit together is refused. */
#include "engine/vision.h"

#include <stdlib.h>
#include "tests/golden.h"
#include "tests/test.h"

#define CHECKPOINT "../shared/model/tiny-a"
#define MEDIA "../shared/model/media/"

static const char *const cases[] = {"image_dot_gray", "image_exif", "image_gray", "image_jpeg", "image_landscape",
                                    "image_rgba", "image_wide", "mixed_image_audio", "mixed_two_of_each"};
enum { N_CASES = sizeof cases / sizeof *cases, MAX_PICTURES = 32 };

static struct weights *weights;
static cJSON *config, *processor;

static bool fixtures(void)
{
    static bool opened;
    struct err e = {0};
    if (!opened && file_exists(CHECKPOINT "/config.json")) {
        opened = weights_open(&weights, CHECKPOINT, &e) == 0;
        config = json_read_file(CHECKPOINT "/config.json", 1 << 20, &e);
        processor = json_read_file(CHECKPOINT "/processor_config.json", 1 << 20, &e);
        CHECK_MSG(opened && config && processor, "%s", e.msg);
    }
    return opened;
}

static struct vision *open_tower(int image_tokens)
{
    struct err e = {0};
    struct vision *v = NULL;
    CHECK_MSG(vision_open(&v, weights, config, processor, image_tokens, &e) == 0, "%s", e.msg);
    return v;
}

/* All pictures of the goldens: resized pixels, expected outputs, file. */
struct picture {
    char name[64], file[64];
    struct image resized;
    struct golden_tensor tower, soft;
};
static struct picture pictures[MAX_PICTURES];
static int n_pictures;

static void load_case(const char *name)
{
    char path[256], tensor[64];
    struct golden g;
    struct err e = {0};
    snprintf(path, sizeof path, GOLDENS "%s.safetensors", name);
    if (!CHECK_MSG(golden_open(&g, path) == 0, "cannot read %s", path))
        return;
    snprintf(path, sizeof path, GOLDENS "%s.json", name);
    cJSON *json = json_read_file(path, 1 << 24, &e);
    const cJSON *m;
    int i = 0;
    cJSON_ArrayForEach(m, json_get(json, "media")) {
        if (strcmp(json_string(m, "type"), "image") != 0 || n_pictures == MAX_PICTURES)
            continue;
        struct picture *p = &pictures[n_pictures++];
        snprintf(p->name, sizeof p->name, "%s, picture %d", name, i);
        snprintf(p->file, sizeof p->file, "%s", json_string(m, "file"));
        snprintf(tensor, sizeof tensor, "image_%d.resized", i);
        struct golden_tensor resized = golden_get(&g, tensor);
        p->resized = (struct image){(int)resized.dim[1], (int)resized.dim[0], resized.data};
        snprintf(tensor, sizeof tensor, "image_%d.tower", i);
        p->tower = golden_get(&g, tensor);
        snprintf(tensor, sizeof tensor, "image_%d.soft", i++);
        p->soft = golden_get(&g, tensor);
    }
    cJSON_Delete(json);
    golden_close(&g);
}

static void load_pictures(void)
{
    if (n_pictures == 0)
        for (int i = 0; i < N_CASES; i++)
            load_case(cases[i]);
    CHECK_MSG(n_pictures == 10, "%d pictures", n_pictures);
}

static double largest_difference(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most))
            most = d;
    }
    return most;
}

static struct compute compute_of(const char *kernel, struct pool *pool)
{
    return (struct compute){.k = kernels_find(kernel), .pool = pool};
}

static void from_resized_pixels(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    load_pictures();
    struct vision *v = open_tower(0);
    struct compute c = compute_of(NULL, NULL);
    CHECK(v->grid.max_tokens == 70);
    for (int i = 0; i < n_pictures; i++) {
        const struct picture *p = &pictures[i];
        const struct image *im = &p->resized;
        float *tower = NEW(float, p->tower.n), *soft = NEW(float, p->soft.n);
        CHECK_MSG(p->tower.dim[0] == im->width / 48 * (im->height / 48), "%s: tokens", p->name);
        vision_encode_resized(v, &c, &im, 1, tower, soft);
        double tower_off = largest_difference(tower, p->tower.f32, (size_t)p->tower.n);
        double soft_off = largest_difference(soft, p->soft.f32, (size_t)p->soft.n);
        CHECK_MSG(tower_off <= 1e-3, "%s: tower off by %g", p->name, tower_off);
        CHECK_MSG(soft_off <= 1e-4, "%s: soft tokens off by %g", p->name, soft_off);
        free(tower);
        free(soft);
    }
    vision_close(v);
}

static struct text files[MAX_PICTURES];

static void load_media(struct media *media, int n)
{
    for (int i = 0; i < n; i++) {
        char path[256];
        struct err e = {0};
        const struct picture *p = &pictures[i % n_pictures];
        snprintf(path, sizeof path, MEDIA "%s", p->file);
        text_free(&files[i]);
        CHECK_MSG(file_read(path, 1 << 24, &files[i], &e) == 0, "%s", e.msg);
        media[i] = (struct media){MEDIA_IMAGE, files[i].data, files[i].len, .name = p->file};
    }
}

static void free_outputs(struct media_tokens *t, int n)
{
    for (int i = 0; i < n; i++) {
        free(t[i].soft);
        free(t[i].part_tokens);
    }
}

static void from_files(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    enum { N = 20 };            /* more than are decoded at once, and more patches than go through the tower at once */
    struct media media[N];
    struct media_tokens out[N];
    struct err errs[N];
    load_pictures();
    load_media(media, N);
    media[7].n_bytes /= 2;
    struct vision *v = open_tower(0);
    struct compute c = compute_of(NULL, NULL);
    CHECK(vision_encode(v, &c, media, N, out, errs) == 1);
    for (int i = 0; i < N; i++) {
        const struct picture *p = &pictures[i % n_pictures];
        if (i == 7) {
            CHECK(errs[i].code == EXIT_BAD_INPUT && strstr(errs[i].msg, p->file) && !out[i].soft && !out[i].n_tokens);
            continue;
        }
        CHECK_MSG(errs[i].code == 0, "%s: %s", p->name, errs[i].msg);
        if (!CHECK_MSG(out[i].n_parts == 1 && out[i].part_tokens[0] == out[i].n_tokens &&
                       out[i].n_tokens == p->soft.dim[0], "%s: %d tokens", p->name, out[i].n_tokens))
            continue;
        double off = largest_difference(out[i].soft, p->soft.f32, (size_t)p->soft.n);
        CHECK_MSG(off <= 1e-4, "%s: soft tokens off by %g", p->name, off);
        CHECK(strlen(out[i].input_sha) == 64);
        for (int j = 0; j < i; j++)
            if (j != 7)
                CHECK((strcmp(out[i].input_sha, out[j].input_sha) == 0) == (strcmp(media[i].name, media[j].name) == 0));
    }
    free_outputs(out, N);
    vision_close(v);
}

/* Threads, company and instruction set change no bit. */
static void same_bits(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    enum { N = 10 };
    struct media media[N];
    struct media_tokens alone[N], out[N];
    struct err errs[N];
    load_pictures();
    load_media(media, N);
    struct vision *v = open_tower(0);
    struct compute plain = compute_of(NULL, NULL);
    for (int i = 0; i < N; i++)
        CHECK(vision_encode(v, &plain, &media[i], 1, &alone[i], &errs[i]) == 0);
    const struct { int threads, n; const char *kernel; } runs[] = {{1, N, NULL}, {2, N, NULL}, {3, N, NULL},
                                                                   {2, 1, "generic"}};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        struct pool *pool = pool_new(runs[r].threads);
        struct compute c = compute_of(runs[r].kernel, pool);
        CHECK(vision_encode(v, &c, media, runs[r].n, out, errs) == 0);
        for (int i = 0; i < runs[r].n; i++)
            CHECK_MSG(out[i].n_tokens == alone[i].n_tokens &&
                      memcmp(out[i].soft, alone[i].soft, (size_t)out[i].n_tokens * (size_t)v->soft_width * 4) == 0,
                      "%s: other bits with %d threads, kernel %s", media[i].name, runs[r].threads, c.k->name);
        free_outputs(out, runs[r].n);
        pool_free(pool);
    }
    free_outputs(alone, N);
    vision_close(v);
}

static void budgets(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    static const int budget[] = {70, 280, 560}, want[] = {63, 266, 540};
    struct media media[5];
    struct media_tokens out[5];
    struct err errs[5], e = {0};
    load_pictures();
    load_media(media, 5);                           /* 4: landscape.png, 4:3; 0..3 are smaller */
    struct compute c = compute_of(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        struct vision *v = open_tower(budget[i]);
        int failed = vision_encode(v, &c, &media[4], 1, out, errs);
        CHECK_MSG(failed == 0 && out[0].n_tokens == want[i], "budget %d: %d tokens, %s", budget[i], out[0].n_tokens,
                  errs[0].msg);
        free_outputs(out, 1);
        vision_close(v);
    }
    struct vision *v = NULL;
    CHECK(vision_open(&v, weights, config, processor, 100, &e) && e.code == EXIT_USAGE && strstr(e.msg, "100"));
    v = open_tower(1120);                           /* 1120 tokens in one strip are 3360 columns, the table has 256 */
    load_media(media, 5);
    struct text wide = {0};
    CHECK(file_read(MEDIA "wide.png", 1 << 24, &wide, &e) == 0);
    media[0] = (struct media){.bytes = wide.data, .n_bytes = wide.len, .name = "wide.png"};
    CHECK(vision_encode(v, &c, media, 1, out, errs) == 1 && strstr(errs[0].msg, "position_embedding_table"));
    text_free(&wide);
    vision_close(v);
}

/* Standardize has no golden: it is checked as what it is, a change of the tower's output alone. */
static void standardize_and_damage(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    load_pictures();
    struct vision *v = open_tower(0);
    struct compute c = compute_of(NULL, NULL);
    const struct image *im = &pictures[1].resized;
    size_t n = (size_t)pictures[1].tower.n, width = (size_t)v->hidden;
    float *plain = NEW(float, n), *changed = NEW(float, n), *soft = NEW(float, pictures[1].soft.n);
    vision_encode_resized(v, &c, &im, 1, plain, soft);
    v->std_bias = NEW(float, width);
    v->std_scale = NEW(float, width);
    for (size_t i = 0; i < width; i++) {
        v->std_bias[i] = (float)i - 20;
        v->std_scale[i] = 0.5F + (float)i;
    }
    vision_encode_resized(v, &c, &im, 1, changed, soft);
    bool same = true;
    for (size_t i = 0; i < n; i++)
        same &= changed[i] == (plain[i] - v->std_bias[i % width]) * v->std_scale[i % width];
    CHECK(same);
    v->layers[1].norm_mlp[3] = NAN;
    struct media media;
    struct media_tokens out;
    struct err e;
    load_media(&media, 1);
    CHECK(vision_encode(v, &c, &media, 1, &out, &e) == 1 && strstr(e.msg, "not finite") && !out.soft);
    free(plain);
    free(changed);
    free(soft);
    vision_close(v);
}

static void contradictions(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    static const struct { const char *key, *value, *says; } bad[] = {
        {"hidden_size", "63", "input_proj"}, {"hidden_size", "\"64\"", "hidden_size"},
        {"hidden_size", "null", "hidden_size"},
        {"num_hidden_layers", "4", "layers.3."}, {"num_hidden_layers", "1", "layers.1."},
        {"use_clipped_linears", "false", "input_min"}, {"num_hidden_layers", "0", "num_hidden_layers"},
        {"num_attention_heads", "3", "num_key_value_heads"}, {"num_key_value_heads", "2", "num_key_value_heads"},
        {"head_dim", "18", "head_dim"}, {"head_dim", "32", "q_norm"}, {"intermediate_size", "97", "gate_proj"},
        {"patch_size", "8", "patch"}, {"pooling_kernel_size", "2", "pooling_kernel_size"},
        {"position_embedding_size", "255", "position_embedding_table"}, {"rms_norm_eps", "0", "rms_norm_eps"},
        {"rope_parameters", "{\"rope_theta\": \"x\"}", "rope_theta"},
        {"rope_parameters", "{\"rope_type\": \"proportional\"}", "rope_type"},
        {"hidden_activation", "\"gelu\"", "hidden_activation"}, {"standardize", "true", "std_bias"},
        {"attention_bias", "true", "attention_bias"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct vision *v = NULL;
        struct err e = {0};
        cJSON *changed = cJSON_Duplicate(config, true), *value = json_parse(bad[i].value, strlen(bad[i].value), "", &e);
        cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItem(changed, "vision_config"), bad[i].key, value);
        int rc = vision_open(&v, weights, changed, processor, 0, &e);
        CHECK_MSG(rc && e.code == EXIT_BAD_INPUT && strstr(e.msg, bad[i].says), "%s = %s: %d \"%s\"", bad[i].key,
                  bad[i].value, rc, e.msg);
        cJSON_Delete(changed);
    }
    struct vision *v = NULL;
    struct err e = {0};
    cJSON *other = json_parse("{\"image_processor\":{\"max_soft_tokens\":71}}", 42, "", &e);
    CHECK(vision_open(&v, weights, config, other, 0, &e) && strstr(e.msg, "max_soft_tokens"));
    cJSON_Delete(other);
    cJSON *none = cJSON_CreateObject();
    CHECK(vision_open(&v, weights, none, processor, 0, &e) && strstr(e.msg, "vision_config"));
    cJSON_Delete(none);
}

/* Without processor files the checkpoint's own number counts; the flat file says the same as the nested one. */
static void budget_of_the_checkpoint(void)
{
    if (!fixtures())
        SKIP("no ../shared");
    struct err e = {0};
    struct vision *v = NULL;
    CHECK(vision_open(&v, weights, config, NULL, 0, &e) == 0 && v->grid.max_tokens == 70);
    vision_close(v);
    cJSON *flat = json_parse("{\"max_soft_tokens\":140,\"image_seq_length\":280}", 46, "", &e);
    CHECK(vision_open(&v, weights, config, flat, 0, &e) == 0 && v->grid.max_tokens == 140);
    vision_close(v);
    CHECK(vision_open(&v, weights, config, flat, 560, &e) == 0 && v->grid.max_tokens == 560);
    vision_close(v);
    cJSON_Delete(flat);
}

int main(void)
{
    RUN(from_resized_pixels);
    RUN(from_files);
    RUN(same_bits);
    RUN(budgets);
    RUN(budget_of_the_checkpoint);
    RUN(standardize_and_damage);
    RUN(contradictions);
    for (int i = 0; i < n_pictures; i++) {
        image_free(&pictures[i].resized);
        free(pictures[i].tower.data);
        free(pictures[i].soft.data);
    }
    for (int i = 0; i < MAX_PICTURES; i++)
        text_free(&files[i]);
    cJSON_Delete(config);
    cJSON_Delete(processor);
    weights_close(weights);
    return test_report();
}
