/* mlx.c - MLX's quantised modules. A row is a little-endian stream of codes, and as groups fill whole bytes and rows
 * whole words, the groups of a matrix simply follow each other, each with one scale (and bias).
 *
 *     affine   w = scale q + bias, q unsigned of 1 to 8 bits (without 7), groups of 32, 64 or 128
 *     mxfp4    w = E2M1(q) 2^(scale - 127), groups of 32
 *     mxfp8    w = E4M3(q) 2^(scale - 127), groups of 32
 *     nvfp4    w = E2M1(q) E4M3(scale), groups of 16; with a global scale G: w G / 2688, where 2688 = 448 * 6
 */
#include "engine/mlx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module {
    struct mlx_format f;
    struct tensor scales, biases;           /* biases: affine only */
    const struct tensor *global;            /* NULL: none */
    float factor;                           /* of the global scale, 1 without */
};

/* ---- decoding -------------------------------------------------------------------------------------------------- */

float mlx_e2m1(unsigned q)
{
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return values[q];
}

float mlx_e4m3(unsigned q)
{
    const unsigned exponent = q >> 3 & 15, fraction = q & 7;
    if ((q & 0x7f) == 0x7f)
        return NAN;
    const float v = exponent ? ldexpf((float)(8 + fraction), (int)exponent - 10) : ldexpf((float)fraction, -9);
    return q & 0x80 ? -v : v;
}

float mlx_e8m0(unsigned u)
{
    return u == 255 ? NAN : ldexpf(1, (int)u - 127);
}

/* Group i of a matrix, counted through all rows. */
static void read_group(const struct tensor *t, int64_t i, float *out)
{
    const struct module *m = t->aux;
    const uint8_t *p = (const uint8_t *)t->data + i * m->f.group * m->f.bits / 8;
    const unsigned mask = (1u << m->f.bits) - 1;
    float scale, bias = 0;
    if (m->f.mode == MLX_AFFINE) {
        tensor_read_f32(&m->scales, i, 1, &scale);
        tensor_read_f32(&m->biases, i, 1, &bias);
    } else {
        const unsigned u = ((const uint8_t *)m->scales.data)[i];
        scale = m->f.mode == MLX_NVFP4 ? mlx_e4m3(u) * m->factor : mlx_e8m0(u);
    }
    for (int k = 0; k < m->f.group; k += 8, p += m->f.bits) {
        uint64_t codes = 0;
        for (int b = 0; b < m->f.bits; b++)
            codes |= (uint64_t)p[b] << 8 * b;
        for (int j = 0; j < 8; j++) {
            const unsigned q = (unsigned)(codes >> j * m->f.bits) & mask;
            if (m->f.mode == MLX_AFFINE)
                out[k + j] = scale * (float)q + bias;
            else
                out[k + j] = (m->f.mode == MLX_MXFP8 ? mlx_e4m3(q) : mlx_e2m1(q)) * scale;
        }
    }
}

static void read_groups(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    const int size = ((const struct module *)t->aux)->f.group;
    float values[MLX_MAX_GROUP];
    for (int64_t done = 0; done < n;) {
        const int64_t group = (first + done) / size, skip = (first + done) % size;
        const int64_t take = n - done < size - skip ? n - done : size - skip;
        if (take == size) {
            read_group(t, group, out + done);
        } else {
            read_group(t, group, values);
            memcpy(out + done, values + skip, (size_t)take * sizeof *out);
        }
        done += take;
    }
}

static void hash_parts(const struct tensor *t, struct sha256 *sha)
{
    const struct module *m = t->aux;
    const struct tensor *parts[] = {&m->scales, &m->biases, m->global};
    size_t n_bytes = t->n_bytes;
    for (size_t i = 0; i < 3; i++)
        n_bytes -= parts[i] ? parts[i]->n_bytes : 0;
    sha256_update(sha, t->data, n_bytes);
    for (size_t i = 0; i < 3; i++)
        if (parts[i])
            sha256_update(sha, parts[i]->data, parts[i]->n_bytes);
}

/* ---- as whole numbers ------------------------------------------------------------------------------------------ */

/* Affine codes of 8 bits are counted from 128 on: the bias takes that back. E2M1 floats are whole when doubled. */
static bool group_format(const struct tensor *t, struct code_format *out)
{
    const struct module *m = t->aux;
    const bool affine = m->f.mode == MLX_AFFINE, four = affine && m->f.bits <= 4;
    *out = (struct code_format){.bits = four ? 4 : 8, .block = m->f.group == 16 ? 16 : 32, .per_scale = m->f.group,
                                .center = four ? 0 : 128, .minima = affine,
                                .scale_type = affine && m->f.bits < 8 ? m->scales.type : TENSOR_F32};
    return m->f.mode != MLX_MXFP8;
}

static void read_group_codes(const struct tensor *t, int64_t first, struct code_run *out)
{
    const struct module *m = t->aux;
    const int64_t i = first / m->f.group;
    const uint8_t *p = (const uint8_t *)t->data + i * m->f.group * m->f.bits / 8;
    unsigned zero = 0;
    if (m->f.mode == MLX_AFFINE) {
        float bias;
        tensor_read_f32(&m->scales, i, 1, &out->d);
        tensor_read_f32(&m->biases, i, 1, &bias);
        zero = m->f.bits > 4 && m->f.bits < 8 ? 128 : 0;
        out->min_d = -(m->f.bits == 8 ? bias + 128 * out->d : bias);
    } else {
        const unsigned u = ((const uint8_t *)m->scales.data)[i];
        out->d = (m->f.mode == MLX_NVFP4 ? mlx_e4m3(u) * m->factor : mlx_e8m0(u)) / 2;
    }
    for (int k = 0; k < m->f.group; k++) {
        const int at = k * m->f.bits, byte = at / 8;
        const unsigned pair = p[byte] | (at % 8 + m->f.bits > 8 ? (unsigned)p[byte + 1] << 8 : 0);
        const unsigned q = pair >> at % 8 & ((1u << m->f.bits) - 1);
        out->code[k] = (uint8_t)(m->f.mode == MLX_AFFINE ? q + zero : (unsigned)(int)(2 * mlx_e2m1(q)) + 128);
    }
}

static const struct tensor_codec codec = {.read = read_groups, .hash = hash_parts, .code_format = group_format,
                                          .read_codes = read_group_codes};

/* ---- bits and group size --------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static struct tensor *find(const struct tensor_list *l, const char *module, int module_len, const char *part)
{
    struct text name = {0};
    text_printf(&name, "%.*s%s", module_len, module, part);
    const struct tensor key = {.name = name.data};
    struct tensor *t = l->n ? bsearch(&key, l->t, l->n, sizeof key, by_name) : NULL;
    text_free(&name);
    return t;
}

/* The length of the module's name if `t` is the packed weight of one, else 0. */
static int module_length(const struct tensor_list *l, const struct tensor *t)
{
    const size_t n = strlen(t->name), end = strlen(".weight");
    if (n <= end || n > 1024 || strcmp(t->name + n - end, ".weight") != 0 || strcmp(t->type_name, "U32") != 0)
        return 0;
    return find(l, t->name, (int)(n - end), ".scales") ? (int)(n - end) : 0;
}

/* The columns of a module by another tensor that says how many rows or channels its input has; 0: none does. */
static int64_t known_width(const struct tensor_list *l, const char *module, int len)
{
    static const char *const rules[][2] = {
        {"embed_tokens", "norm.weight"}, {"per_layer_model_projection", "norm.weight"},
        {"embed_tokens_per_layer", "per_layer_model_projection.weight"},
        {"self_attn.q_proj", "input_layernorm.weight"}, {"self_attn.k_proj", "input_layernorm.weight"},
        {"self_attn.v_proj", "input_layernorm.weight"}, {"self_attn.o_proj", "self_attn.q_proj.weight"},
        {"mlp.gate_proj", "pre_feedforward_layernorm.weight"}, {"mlp.up_proj", "pre_feedforward_layernorm.weight"},
        {"mlp.down_proj", "mlp.gate_proj.weight"}, {"per_layer_input_gate", "input_layernorm.weight"},
        {"per_layer_projection", "per_layer_input_gate.weight"},
        {"embed_audio.embedding_projection", "audio_tower.output_proj.weight"},
        {"probe.proj", "probe.norm.weight"}, {"probe.head.0", "probe.attn_query"},
        {"probe.head.2", "probe.head.0.bias"}, {"probe.head.4", "probe.head.2.bias"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const int end = (int)strlen(rules[i][0]), rest = len - end;
        if (rest < 0 || memcmp(module + rest, rules[i][0], (size_t)end) != 0 ||
            (rest > 0 && module[rest - 1] != '.' && module[rest - 1] != '_'))
            continue;
        const struct tensor *t = find(l, module, rest, rules[i][1]);
        return t && t->n_dims > 0 ? t->dim[0] : 0;
    }
    return 0;
}

static bool affine_ok(int64_t bits, int64_t group)
{
    return bits >= 1 && bits <= 8 && bits != 7 && (group == 32 || group == 64 || group == 128);
}

/* Config.json's word on a module: its own entry, or the default. */
static void stated(const cJSON *quantization, const char *module, int len, int64_t *bits, int64_t *group)
{
    char *name = mem_strndup(module, (size_t)len);
    const cJSON *entry = json_get(quantization, name);
    const cJSON *b = json_get(entry, "bits"), *g = json_get(entry, "group_size");
    b = b ? b : json_get(quantization, "bits");
    g = g ? g : json_get(quantization, "group_size");
    *bits = cJSON_IsNumber(b) ? b->valueint : 0;
    *group = cJSON_IsNumber(g) ? g->valueint : 0;
    free(name);
}

/* `product` is bits times group, which the shapes always tell. */
static bool affine_parameters(struct module *m, const struct tensor_list *l, const struct tensor *w, int len,
                              int64_t product, const cJSON *quantization, struct err *e)
{
    const int64_t width = known_width(l, w->name, len), groups = m->scales.dim[1];
    int64_t bits, group;
    int n = 0;
    if (width) {
        group = width / groups;
        bits = group ? product / group : 0;
        if (group * groups != width || bits * group != product || !affine_ok(bits, group)) {
            err_input(e, "%s: tensor %s: %lld words and %lld scales a row are no affine code for the %lld columns that "
                      "were expected", w->file, w->name, (long long)w->dim[1], (long long)groups, (long long)width);
            return false;
        }
        m->f.bits = (int)bits;
        m->f.group = (int)group;
        return true;
    }
    stated(quantization, w->name, len, &bits, &group);
    if (affine_ok(bits, group) && bits * group == product) {
        m->f.bits = (int)bits;
        m->f.group = (int)group;
        return true;
    }
    for (group = 32; group <= MLX_MAX_GROUP; group *= 2)
        if (product % group == 0 && affine_ok(product / group, group)) {
            m->f.bits = (int)(product / group);
            m->f.group = (int)group;
            n++;
        }
    if (n == 0)
        err_input(e, "%s: tensor %s: %lld words and %lld scales a row are no affine code of 1 to 8 bits in groups of "
                  "32, 64 or 128", w->file, w->name, (long long)w->dim[1], (long long)groups);
    m->f.bits = n == 1 ? m->f.bits : 0;         /* 0: it could be several */
    return n > 0;
}

/* Scales of one byte belong to the floating-point modes, which differ in bits times group. */
static bool float_parameters(struct module *m, const struct tensor *w, int64_t product, struct err *e)
{
    m->f.mode = product == 4 * 16 ? MLX_NVFP4 : product == 4 * 32 ? MLX_MXFP4 : MLX_MXFP8;
    m->f.bits = m->f.mode == MLX_MXFP8 ? 8 : 4;
    m->f.group = m->f.mode == MLX_NVFP4 ? 16 : 32;
    if (product != m->f.bits * m->f.group)
        err_input(e, "%s: tensor %s: %lld words and %lld scales of one byte a row are neither nvfp4, mxfp4 nor mxfp8",
                  w->file, w->name, (long long)w->dim[1], (long long)m->scales.dim[1]);
    return product == m->f.bits * m->f.group;
}

/* ---- modules --------------------------------------------------------------------------------------------------- */

static bool is_float(const struct tensor *t)
{
    return t->type == TENSOR_F32 || t->type == TENSOR_F16 || t->type == TENSOR_BF16;
}

/* Compares the parts with each other; *product is bits times group. */
static int check_parts(const struct tensor *w, const struct tensor *scales, const struct tensor *biases,
                       const struct tensor *global, int64_t *product, struct err *e)
{
    const bool one_byte = strcmp(scales->type_name, "U8") == 0;
    if (!one_byte && !is_float(scales))
        return err_input(e, "%s: tensor %s: type BF16, F16, F32 or U8 was expected, not %s", scales->file, scales->name,
                         scales->type_name);
    if (w->dim[0] < 1 || w->dim[1] < 1 || scales->n_dims != 2 || scales->dim[0] != w->dim[0] || scales->dim[1] < 1 ||
        32 * w->dim[1] % scales->dim[1])
        return err_input(e, "%s: tensor %s: scales for its %lld rows were expected, a whole number of words each",
                         scales->file, w->name, (long long)w->dim[0]);
    *product = 32 * w->dim[1] / scales->dim[1];
    if (one_byte && global && (global->type != TENSOR_F32 || tensor_elements(global) != 1))
        return err_input(e, "%s: tensor %s: one F32 number was expected", global->file, global->name);
    if (!one_byte && (!biases || biases->type != scales->type || biases->n_dims != 2 ||
                      biases->dim[0] != scales->dim[0] || biases->dim[1] != scales->dim[1]))
        return err_input(e, "%s: tensor %s: biases of the scales' type and shape were expected beside them", w->file,
                         w->name);
    return 0;
}

static const char *type_name(struct arena *a, const struct module *m)
{
    static const char *const names[] = {[MLX_MXFP4] = "mxfp4", [MLX_MXFP8] = "mxfp8", [MLX_NVFP4] = "nvfp4"};
    return m->f.mode == MLX_AFFINE ? arena_printf(a, "mlx-%dbit-g%d", m->f.bits, m->f.group) : names[m->f.mode];
}

/* Turns the packed weight into the coded tensor, and takes its other parts out (name NULL). */
static int take_module(struct arena *a, struct tensor_list *l, struct tensor *w, int len, const cJSON *quantization,
                       struct err *e)
{
    struct tensor *scales = find(l, w->name, len, ".scales"), *biases = find(l, w->name, len, ".biases");
    struct tensor *global = find(l, w->name, len, ".global_scale");
    int64_t product = 0;
    if (w->n_dims != 2)
        return 0;
    if (check_parts(w, scales, biases, global, &product, e))
        return -1;
    struct module *m = ARENA_NEW(a, struct module, 1);
    *m = (struct module){.scales = *scales, .factor = 1};
    const bool one_byte = scales->type == TENSOR_OTHER;
    if (one_byte ? !float_parameters(m, w, product, e) : !affine_parameters(m, l, w, len, product, quantization, e))
        return -1;
    if (!m->f.bits)
        return 0;
    w->n_bytes += scales->n_bytes;
    if (!one_byte) {
        m->biases = *biases;
        w->n_bytes += biases->n_bytes;
    } else if (global) {
        struct tensor *kept = ARENA_NEW(a, struct tensor, 1);
        *kept = *global;
        m->global = kept;
        tensor_read_f32(global, 0, 1, &m->factor);
        m->factor /= 448 * 6;
        w->n_bytes += global->n_bytes;
    }
    w->type = TENSOR_CODED;
    w->type_name = type_name(a, m);
    w->codec = &codec;
    w->aux = m;
    w->dim[1] = scales->dim[1] * m->f.group;
    return 0;
}

/* ---- names and layouts ----------------------------------------------------------------------------------------- */

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static const char *folder_name(struct arena *a, const char *name)
{
    static const char *const towers[] = {"vision_tower.", "audio_tower.", "embed_vision.", "embed_audio."};
    static const char text[] = "language_model.model.", rest[] = "language_model.";
    if (begins(name, text))
        return arena_printf(a, "model.language_model.%s", name + strlen(text));
    if (begins(name, rest))
        return name + strlen(rest);
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (begins(name, towers[i]))
            return arena_printf(a, "model.%s", name);
    return name;
}

const char *mlx_name(struct arena *a, const char *name, bool nested, int n_layers, int shared_layers)
{
    static const char *const text[] = {"model.language_model.", "model."}, *const shared[] = {
        "self_attn.k_proj.", "self_attn.v_proj.", "self_attn.k_norm."};
    static const char *const towers[] = {"model.vision_tower.", "model.audio_tower.", "model.embed_vision.",
                                         "model.embed_audio."};
    int layer, used = 0;
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (begins(name, towers[i]))
            return name + strlen("model.");
    if (strcmp(name, "lm_head.weight") == 0)
        return nested ? "language_model.lm_head.weight" : name;
    for (size_t i = 0; i < 2; i++) {
        if (!begins(name, text[i]))
            continue;
        const char *rest = name + strlen(text[i]);
        if (sscanf(rest, "layers.%d.%n", &layer, &used) == 1 && used && layer >= n_layers - shared_layers)
            for (size_t k = 0; k < sizeof shared / sizeof *shared; k++)
                if (begins(rest + used, shared[k]))
                    return NULL;
        return arena_printf(a, "%smodel.%s", nested ? "language_model." : "", rest);
    }
    return begins(name, "probe.") ? arena_printf(a, "handoff_%s", name) : begins(name, "handoff_probe.") ? name : NULL;
}

/* mlx-vlm's rule, which for a model of text alone is that of mlx-lm: all linear and embedding layers, but for the two
 * towers and what follows the one for pictures. */
bool mlx_quantises(const char *name)
{
    static const char *const parts[] = {"language_model.model.", "model.", "lm_head.", "language_model.lm_head.",
                                        "embed_audio."};
    const size_t n = strlen(name), end = strlen(".weight");
    if (n <= end || strcmp(name + n - end, ".weight") != 0 || strstr(name, "vision") || strstr(name, "audio_tower"))
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (begins(name, parts[i]))
            return true;
    return false;
}

bool mlx_is_convolution(const struct tensor *t)
{
    return strstr(t->name, "audio_tower.") && ((t->n_dims == 4 && strstr(t->name, ".conv.weight")) ||
                                               (t->n_dims == 3 && strstr(t->name, "depthwise_conv1d.weight")));
}

/* Convolutions with the channels last become ones with the channels first; the shape tells them apart. */
static void restore_layout(struct arena *a, struct tensor *t)
{
    const bool audio = begins(t->name, "audio_tower.") && is_float(t);
    const size_t size = t->type == TENSOR_F32 ? 4 : 2;
    if (audio && strstr(t->name, "depthwise_conv1d.weight") && t->n_dims == 3 && t->dim[1] != 1 && t->dim[2] == 1) {
        t->dim[2] = t->dim[1];
        t->dim[1] = 1;
    }
    if (!audio || !strstr(t->name, ".conv.weight") || t->n_dims != 4 || t->dim[2] == t->dim[3] ||
        t->dim[1] != t->dim[2])
        return;
    const int64_t out = t->dim[0], pixels = t->dim[1] * t->dim[2], in = t->dim[3];
    uint8_t *first = arena_alloc(a, t->n_bytes, 1), *to = first;
    for (int64_t o = 0; o < out; o++)
        for (int64_t c = 0; c < in; c++)
            for (int64_t p = 0; p < pixels; p++, to += size)
                memcpy(to, (const uint8_t *)t->data + (size_t)((o * pixels + p) * in + c) * size, size);
    t->data = first;
    t->dim[3] = t->dim[1];
    t->dim[1] = in;
}

bool mlx_in(const struct tensor_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (begins(l->t[i].name, "language_model.model.") || module_length(l, &l->t[i]))
            return true;
    return false;
}

/* Whether a tensor is a part that some coded tensor of the list has taken up. */
static bool is_taken(const struct tensor_list *l, const struct tensor *t)
{
    static const char *const parts[] = {".scales", ".biases", ".global_scale"};
    const size_t n = strlen(t->name);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t end = strlen(parts[i]);
        if (n > end && n < 1024 && strcmp(t->name + n - end, parts[i]) == 0) {
            const struct tensor *w = find(l, t->name, (int)(n - end), ".weight");
            return w && w->codec == &codec;
        }
    }
    return false;
}

int mlx_take(struct arena *a, struct tensor_list *l, const cJSON *quantization, struct err *e)
{
    size_t kept = 0;
    bool renamed = false;
    for (size_t i = 0; i < l->n; i++) {
        const int len = module_length(l, &l->t[i]);
        renamed |= begins(l->t[i].name, "language_model.model.");
        if (len && take_module(a, l, &l->t[i], len, quantization, e))
            return -1;
    }
    bool *taken = NEW(bool, l->n + 1);
    for (size_t i = 0; i < l->n; i++)
        taken[i] = is_taken(l, &l->t[i]);
    for (size_t i = 0; i < l->n; i++) {
        if (taken[i])
            continue;
        struct tensor *t = &l->t[kept++];
        *t = l->t[i];
        if (renamed) {
            restore_layout(a, t);
            t->name = folder_name(a, t->name);
        }
    }
    l->n = kept;
    free(taken);
    return 0;
}
