/* gguf_mix.c - llama-quantize's rules, as far as they concern Gemma 4. */
#include "engine/gguf_mix.h"

#include <string.h>

enum { Q4_0 = 2, Q5_0 = 8, Q2_K = 10, Q3_K_M = 12, Q3_K_L = 13, Q4_K_S = 14, Q4_K_M = 15, Q5_K_M = 17, IQ4_NL = 25,
       IQ4_XS = 30 };                   /* general.file_type */

static const struct gguf_mix mixes[] = {
    {"F32", 0, "F32"}, {"F16", 1, "F16"}, {"BF16", 32, "BF16"}, {"Q8_0", 7, "Q8_0"}, {"Q6_K", 18, "Q6_K"},
    {"Q5_K_M", Q5_K_M, "Q5_K"}, {"Q5_K_S", 16, "Q5_K"}, {"Q5_1", 9, "Q5_1"}, {"Q5_0", Q5_0, "Q5_0"},
    {"Q4_K_M", Q4_K_M, "Q4_K"}, {"Q4_K_S", Q4_K_S, "Q4_K"}, {"Q4_1", 3, "Q4_1"}, {"Q4_0", Q4_0, "Q4_0"},
    {"IQ4_NL", IQ4_NL, "IQ4_NL"}, {"IQ4_XS", IQ4_XS, "IQ4_XS"}, {"Q3_K_L", Q3_K_L, "Q3_K"},
    {"Q3_K_M", Q3_K_M, "Q3_K"}, {"Q3_K_S", 11, "Q3_K"}, {"Q2_K", Q2_K, "Q2_K"},
};

const struct gguf_mix *gguf_mix_named(const char *name)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (strcmp(mixes[i].name, name) == 0)
            return &mixes[i];
    return NULL;
}

/* Further ones that files may be labelled with. */
static const struct gguf_mix other_mixes[] = {
    {"IQ2_XXS", 19, "IQ2_XXS"}, {"IQ2_XS", 20, "IQ2_XS"}, {"Q2_K_S", 21, "Q2_K"}, {"IQ3_XS", 22, "IQ3_S"},
    {"IQ3_XXS", 23, "IQ3_XXS"}, {"IQ1_S", 24, "IQ1_S"}, {"IQ3_S", 26, "IQ3_S"}, {"IQ3_M", 27, "IQ3_S"},
    {"IQ2_S", 28, "IQ2_XS"}, {"IQ2_M", 29, "IQ2_S"}, {"IQ1_M", 31, "IQ1_M"}, {"TQ1_0", 36, "TQ1_0"},
    {"TQ2_0", 37, "TQ2_0"}, {"MXFP4_MOE", 38, "MXFP4"},
};

const struct gguf_mix *gguf_mix_numbered(int file_type)
{
    enum { GUESSED = 1024 };            /* a flag that llama.cpp sets where the file does not say it */
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (mixes[i].file_type == (file_type & ~GUESSED))
            return &mixes[i];
    for (size_t i = 0; i < sizeof other_mixes / sizeof *other_mixes; i++)
        if (other_mixes[i].file_type == (file_type & ~GUESSED))
            return &other_mixes[i];
    return NULL;
}

/* The first and the last eighth of the layers, and every third in between. */
static bool more_bits(int i, int n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static const char *attn_v_type(const struct gguf_mixing *m, int i)
{
    const bool grouped = m->heads_per_kv >= 4;
    switch (m->mix->file_type) {
    case Q2_K: return grouped ? "Q4_K" : "Q3_K";
    case Q3_K_M: return i < 2 ? "Q5_K" : "Q4_K";
    case Q3_K_L: return "Q5_K";
    case IQ4_NL: case IQ4_XS: return grouped ? "Q5_K" : NULL;
    case Q4_K_M: case Q5_K_M: return more_bits(i, m->n_attn_v) ? "Q6_K" : NULL;
    case Q4_K_S: return i < 4 ? "Q5_K" : NULL;
    default: return NULL;
    }
}

static const char *ffn_down_type(const struct gguf_mixing *m, int i)
{
    const int n = m->n_layers;
    const bool early = i < n / 8;
    switch (m->mix->file_type) {
    case Q2_K: return "Q3_K";
    case Q3_K_M: return i < n / 16 ? "Q5_K" : "Q4_K";
    case Q3_K_L: return "Q5_K";
    case Q4_K_M: case Q5_K_M: return more_bits(i, n) ? "Q6_K" : NULL;
    case Q4_K_S: return early ? "Q5_K" : NULL;
    case IQ4_NL: case IQ4_XS: return early && !m->has_importances ? "Q5_K" : NULL;
    case Q4_0: return early && m->has_importances ? "Q4_1" : NULL;
    case Q5_0: return early && m->has_importances ? "Q5_1" : NULL;
    default: return NULL;
    }
}

static const char *attn_output_type(const struct gguf_mixing *m)
{
    switch (m->mix->file_type) {
    case Q2_K: return "Q3_K";
    case Q3_K_M: return "Q4_K";
    case Q3_K_L: return "Q5_K";
    default: return NULL;
    }
}

/* NULL: the mix's own. The embeddings are the output matrix too. */
static const char *special_type(struct gguf_mixing *m, const char *name, int64_t columns)
{
    const struct ggml_type *base = ggml_type_named(m->mix->base);
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0)
        return columns % base->block_elements || strcmp(base->name, "Q8_0") == 0 ? "Q8_0" : "Q6_K";
    if (strstr(name, "attn_v.weight"))
        return attn_v_type(m, m->seen_attn_v++);
    if (strstr(name, "attn_output.weight"))
        return attn_output_type(m);
    if (strstr(name, "ffn_down"))
        return ffn_down_type(m, m->seen_ffn_down++);
    return NULL;
}

const char *gguf_mix_fallback(const char *type)
{
    static const char *const shorter[][2] = {{"IQ4_XS", "IQ4_NL"}, {"Q2_K", "Q4_0"}, {"Q3_K", "Q4_0"},
                                             {"Q4_K", "Q5_0"}, {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}};
    for (size_t i = 0; i < sizeof shorter / sizeof *shorter; i++)
        if (strcmp(type, shorter[i][0]) == 0)
            return shorter[i][1];
    return NULL;
}

static const struct ggml_type *fitting(struct gguf_mixing *m, const struct ggml_type *want, int64_t columns)
{
    m->fell_back = columns % want->block_elements != 0;
    const char *shorter = m->fell_back ? gguf_mix_fallback(want->name) : NULL;
    if (shorter)
        want = ggml_type_named(shorter);
    return columns % want->block_elements ? ggml_type_named("F16") : want;
}

const struct ggml_type *gguf_mix_type(struct gguf_mixing *m, const char *name, int64_t columns)
{
    const size_t n = strlen(name);
    m->fell_back = false;
    if (n < 6 || strcmp(name + n - 6, "weight") != 0 || strstr(name, "per_layer_model_proj"))
        return NULL;
    const char *special = special_type(m, name, columns);
    return fitting(m, ggml_type_named(special ? special : m->mix->base), columns);
}
