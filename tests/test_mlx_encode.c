/* MLX's codes: the same bytes as mlx.core.quantize's in ../shared/formats/mlx. */
#include "engine/mlx.h"
#include "tests/models.h"

#define CASES "../shared/formats/mlx/tensors/"

static const struct tensor *find(const struct tensor_list *l, const char *name, const char *part)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, part);
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->t[i].name, full) == 0)
            return &l->t[i];
    return NULL;
}

static struct mlx_format format_of(const cJSON *c)
{
    static const char *const modes[] = {[MLX_AFFINE] = "affine", [MLX_MXFP4] = "mxfp4", [MLX_MXFP8] = "mxfp8",
                                        [MLX_NVFP4] = "nvfp4"};
    struct mlx_format f = {.bits = json_get(c, "bits")->valueint, .group = json_get(c, "group_size")->valueint};
    while (strcmp(modes[f.mode], json_string(c, "mode")) != 0)
        f.mode++;
    return f;
}

static void check_case(const struct tensor_list *l, const cJSON *c)
{
    const char *name = json_string(c, "name");
    const struct mlx_format f = format_of(c);
    const struct tensor *source = find(l, name, "source"), *codes = find(l, name, "weight");
    const struct tensor *scales = find(l, name, "scales"), *biases = find(l, name, "biases");
    if (!CHECK_MSG(source && codes && scales, "%s", name))
        return;
    const int64_t n = tensor_elements(source), n_groups = n / f.group;
    const size_t bytes = (size_t)(f.group * f.bits / 8);
    float *x = NEW(float, n);
    tensor_read_f32(source, 0, n, x);
    for (int64_t g = 0; g < n_groups; g++) {
        uint8_t got[MLX_MAX_GROUP], scale_code = 0;
        uint32_t plain[2] = {0};
        float parameters[2] = {0};
        mlx_encode(&f, x + g * f.group, got, &parameters[0], &parameters[1], &scale_code);
        CHECK_MSG(memcmp(got, (const uint8_t *)codes->data + (size_t)g * bytes, bytes) == 0, "%s: codes of group %lld",
                  name, (long long)g);
        if (f.mode != MLX_AFFINE) {
            CHECK_MSG(scale_code == ((const uint8_t *)scales->data)[g], "%s: scale of group %lld", name, (long long)g);
            continue;
        }
        const size_t size = scales->type == TENSOR_F32 ? 4 : 2;
        f32_to_plain(scales->type, &parameters[0], 1, &plain[0]);
        f32_to_plain(biases->type, &parameters[1], 1, &plain[1]);
        CHECK_MSG(memcmp(&plain[0], (const uint8_t *)scales->data + (size_t)g * size, size) == 0 &&
                  memcmp(&plain[1], (const uint8_t *)biases->data + (size_t)g * size, size) == 0,
                  "%s: scale and bias of group %lld", name, (long long)g);
    }
    free(x);
}

static void every_case(void)
{
    struct mapped file;
    struct arena a = {0};
    struct tensor_list l = {0};
    struct err e = {0};
    int n = 0;
    if (!file_exists(CASES "cases.json"))
        SKIP("no " CASES);
    cJSON *cases = models_json(CASES, "cases.json");
    if (CHECK_MSG(map_open(&file, CASES "quant_cases.safetensors", &e) == 0, "%s", e.msg) &&
        CHECK_MSG(safetensors_parse(&file, &a, &l, &e) == 0, "%s", e.msg))
        for (const cJSON *c = cases->child; c; c = c->next)
            if (!cJSON_IsTrue(json_get(c, "global_scale"))) {
                check_case(&l, c);
                n++;
            }
    CHECK_MSG(n == 72, "%d cases", n);
    free(l.t);
    arena_free(&a);
    map_close(&file);
    cJSON_Delete(cases);
}

int main(void)
{
    RUN(every_case);
    return test_report();
}
