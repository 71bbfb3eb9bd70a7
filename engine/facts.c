/* facts.c - what can be said of a checkpoint without running it, and what is odd about it. */
#include "engine/documents.h"
#include "engine/gguf_mix.h"
#include "engine/gguf_model.h"
#include "engine/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct facts {
    const char *path;
    const struct weights *w;
    struct documents d;
    bool is_gguf, has_documents;
    struct mapped file;
    struct gguf g;
    struct arena arena;
    struct checkpoint_facts *out;
};

#define ODD(f, ...) (text_printf(&(f)->out->odd, __VA_ARGS__), text_putc(&(f)->out->odd, '\n'))

static bool begins_with(const char *s, const char *start)
{
    return strncmp(s, start, strlen(start)) == 0;
}

/* ---- kinds of tensors ------------------------------------------------------------------------------------------ */

static double bits_of(const struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    return n ? 8.0 * (double)t->n_bytes / (double)n : 0;
}

/* A decoder layer's number, -1 for any other tensor. */
static int layer_of(const struct tensor *t)
{
    static const char *const starts[] = {"model.layers.", "model.language_model.layers."};
    for (size_t i = 0; i < 2; i++)
        if (begins_with(t->name, starts[i]))
            return atoi(t->name + strlen(starts[i]));
    return -1;
}

static bool is_layer_matrix(const struct tensor *t)
{
    return layer_of(t) >= 0 && t->n_dims == 2;
}

static bool is_norm(const struct tensor *t)
{
    return layer_of(t) >= 0 && strstr(t->name, "norm");
}

static bool is_probe(const struct tensor *t)
{
    return begins_with(t->name, "handoff_probe.") || begins_with(t->name, "probe.");
}

/* Counts what `wanted` accepts; *example is the first of them. */
static int count(const struct facts *f, bool (*wanted)(const struct facts *f, const struct tensor *t),
                 const struct tensor **example, double *bytes)
{
    int n = 0;
    *bytes = 0;
    for (size_t i = 0; i < weights_count(f->w); i++) {
        const struct tensor *t = weights_at(f->w, i);
        if (!wanted(f, t))
            continue;
        *example = n++ ? *example : t;
        *bytes += (double)t->n_bytes;
    }
    return n;
}

static bool coded_norm(const struct facts *f, const struct tensor *t)
{
    return is_norm(t) && (t->type == TENSOR_CODED || f->is_gguf) && t->type != TENSOR_F32 &&
           (f->is_gguf || bits_of(t) < 16);
}

static bool rounded_probe(const struct facts *f, const struct tensor *t)
{
    (void)f;
    return is_probe(t) && t->type != TENSOR_F32;
}

/* Keys and values of layers that use those of an earlier one. */
static bool unused_keys(const struct facts *f, const struct tensor *t)
{
    const cJSON *text = json_get(f->d.config.json, "text_config"), *c = text ? text : f->d.config.json;
    const cJSON *layers = json_get(c, "num_hidden_layers"), *shared = json_get(c, "num_kv_shared_layers");
    if (!cJSON_IsNumber(layers) || !cJSON_IsNumber(shared) || layer_of(t) < layers->valueint - shared->valueint)
        return false;
    return strstr(t->name, ".self_attn.k_proj.") || strstr(t->name, ".self_attn.v_proj.") ||
           strstr(t->name, ".self_attn.k_norm.");
}

static bool unknown_tensor(const struct facts *f, const struct tensor *t)
{
    static const char *const others[] = {"rope_freqs.weight", "lm_head.weight", "output.weight"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(t->name, others[i]) == 0)
            return false;
    return !is_probe(t) && !gguf_file_name(&((struct facts *)(uintptr_t)f)->arena, t->name);
}

static void odd_tensors(struct facts *f)
{
    static const struct {
        bool (*wanted)(const struct facts *f, const struct tensor *t);
        const char *what;
    } kinds[] = {
        {coded_norm, "of its norms are not stored as float32, as every converter stores them"},
        {rounded_probe, "tensors of the handoff probe are not float32: its confidence was not measured so"},
        {unused_keys, "of its tensors are keys and values of layers that share an earlier one's: nothing reads them"},
        {unknown_tensor, "of its tensors belong to nothing in this model: nothing reads them"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct tensor *example = NULL;
        double bytes;
        const int n = count(f, kinds[i].wanted, &example, &bytes);
        if (n && (f->has_documents || kinds[i].wanted != unknown_tensor))
            ODD(f, "%d %s (%s %s, ...; %.2f MB)", n, kinds[i].what, example->name, example->type_name, bytes / 1e6);
    }
}

/* ---- bits ------------------------------------------------------------------------------------------------------ */

enum { MOST_TYPES = 48 };
struct mix { const char *type[MOST_TYPES]; int64_t elements[MOST_TYPES]; int n; };

static void mix_of_layers(const struct facts *f, struct mix *m)
{
    *m = (struct mix){0};
    for (size_t i = 0; i < weights_count(f->w); i++) {
        const struct tensor *t = weights_at(f->w, i);
        int k = 0;
        if (!is_layer_matrix(t))
            continue;
        while (k < m->n && strcmp(m->type[k], t->type_name) != 0)
            k++;
        if (k == MOST_TYPES)
            continue;
        if (k == m->n)
            m->type[m->n++] = t->type_name;
        m->elements[k] += tensor_elements(t);
    }
}

static int main_type(const struct mix *m)
{
    int best = 0;
    for (int i = 1; i < m->n; i++)
        best = m->elements[i] > m->elements[best] ? i : best;
    return best;
}

static double share(const struct mix *m, int i)
{
    double all = 0;
    for (int k = 0; k < m->n; k++)
        all += (double)m->elements[k];
    return 100 * (double)m->elements[i] / all;
}

static void odd_mix(struct facts *f)
{
    struct mix m;
    struct text list = {0};
    mix_of_layers(f, &m);
    for (int i = 0; i < m.n; i++)
        text_printf(&list, "%s%s %.0f%%", i ? ", " : "", m.type[i], share(&m, i));
    if (m.n > 1)
        ODD(f, "the layers' matrices have mixed types: %s", list.data);
    text_free(&list);
    const struct gguf_value *v = f->is_gguf ? gguf_find(&f->g, "general.file_type") : NULL;
    double number;
    if (!v || !gguf_number(v, 0, &number) || m.n == 0)
        return;
    const struct gguf_mix *label = gguf_mix_numbered((int)number);
    const char *most = m.type[main_type(&m)], *shorter = label ? gguf_mix_fallback(label->base) : NULL;
    text_printf(&f->out->label, "%s (general.file_type %.0f)", label ? label->name : "an unknown mix", number);
    if (!label)
        ODD(f, "general.file_type %.0f is no mix that llama.cpp names", number);
    else if (strcmp(most, label->base) != 0 && !(shorter && strcmp(most, shorter) == 0))
        ODD(f, "general.file_type says %s, but most of the layers' numbers are %s", label->name, most);
}

static const struct tensor *find_any(const struct facts *f, const char *name, const char *nested)
{
    const struct tensor *t = weights_find(f->w, name);
    return t ? t : weights_find(f->w, nested);
}

/* The tables, which no layer's type tells of. */
static void odd_tables(struct facts *f)
{
    const struct tensor *embed = find_any(f, "model.embed_tokens.weight", "model.language_model.embed_tokens.weight");
    const struct tensor *ple = find_any(f, "model.embed_tokens_per_layer.weight",
                                        "model.language_model.embed_tokens_per_layer.weight");
    const struct tensor *project = find_any(f, "model.per_layer_model_projection.weight",
                                            "model.language_model.per_layer_model_projection.weight");
    const struct tensor *output = find_any(f, "lm_head.weight", "output.weight");
    if (ple && ple->type == TENSOR_CODED)
        ODD(f, "the per-layer embeddings, the largest table, have %.2f bits (%s)", bits_of(ple), ple->type_name);
    if (project && project->type == TENSOR_CODED)
        ODD(f, "per_layer_model_projection is quantised (%s); llama-quantize never does that", project->type_name);
    if (!output)
        return;
    const bool plain = f->is_gguf || output->type != TENSOR_CODED;      /* all n_bytes lie at `data` */
    const bool same = plain && embed && embed->n_bytes == output->n_bytes && strcmp(embed->type_name, output->type_name) == 0 &&
                      memcmp(embed->data, output->data, output->n_bytes) == 0;
    ODD(f, same ? "%s repeats the embeddings, which are the output matrix anyway"
                : "%s: an output matrix of its own, where Gemma 4 uses the embeddings", output->name);
}

/* MLX: what config.json says of bits, and what the shapes say. */
static void odd_mlx(struct facts *f)
{
    const cJSON *q = json_get(f->d.config.json, "quantization"), *bits = json_get(q, "bits"), *entry;
    int own = 0, others = 0;
    cJSON_ArrayForEach(entry, q)
        own += cJSON_IsObject(entry) || cJSON_IsFalse(entry);
    for (size_t i = 0; i < weights_count(f->w) && cJSON_IsNumber(bits); i++) {
        const char *type = weights_at(f->w, i)->type_name;
        others += begins_with(type, "mlx-") && atoi(type + 4) != bits->valueint;
    }
    if (others > own)
        ODD(f, "config.json says %d bits; by their shapes %d matrices have others", bits->valueint, others);
}

/* ---- documents ------------------------------------------------------------------------------------------------- */

static void put_ids(struct text *t, const cJSON *ids)
{
    const cJSON *id;
    if (cJSON_IsNumber(ids))
        text_printf(t, "%d", ids->valueint);
    cJSON_ArrayForEach(id, ids)
        text_printf(t, "%s%d", id == ids->child ? "" : " ", id->valueint);
}

/* Whether every id of a is in b. */
static bool ids_within(const cJSON *a, const cJSON *b)
{
    const cJSON *x, *y;
    if (cJSON_IsNumber(a)) {
        if (cJSON_IsNumber(b))
            return a->valueint == b->valueint;
        cJSON_ArrayForEach(y, b)
            if (y->valueint == a->valueint)
                return true;
        return false;
    }
    cJSON_ArrayForEach(x, a)
        if (!ids_within(x, b))
            return false;
    return true;
}

static void odd_stops(struct facts *f)
{
    const cJSON *text = json_get(f->d.config.json, "text_config");
    const cJSON *a = json_get(f->d.config.json, "eos_token_id"), *b = json_get(f->d.generation.json, "eos_token_id");
    struct text x = {0}, y = {0};
    a = a ? a : json_get(text, "eos_token_id");
    put_ids(&x, a);
    put_ids(&y, b);
    if (a && b && (!ids_within(a, b) || !ids_within(b, a)))
        ODD(f, "an answer ends at %s by config.json and at %s by generation_config.json: all of them are used", x.data,
            y.data);
    text_free(&x);
    text_free(&y);
}

/* A prompt as Google's template makes it; templates are compared by what they render, not by their text. */
static const char stock_prompt[] = "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nHello<turn|>\n<|turn>model\n";

static void odd_template(struct facts *f)
{
    static const char messages[] = "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                   "{\"role\":\"user\",\"content\":\"Hello\"}]";
    struct chat_template *template = NULL;
    struct text out = {0};
    struct err e = {0};
    if (!f->d.has_template) {
        ODD(f, "no chat template: it cannot be asked anything but plain text");
        return;
    }
    cJSON *list = cJSON_Parse(messages);
    if (chat_template_open(&template, f->d.chat_template.data ? f->d.chat_template.data : "", f->d.chat_template.len,
                           f->d.template_where, &e) || chat_render(template, list, true, false, &out, &e))
        ODD(f, "the chat template cannot be used: %s", e.msg);
    else if (strcmp(out.data ? out.data : "", stock_prompt) != 0)
        ODD(f, "the chat template makes other prompts than Gemma 4's own (of a system and a user message)");
    cJSON_Delete(list);
    chat_template_close(template);
    text_free(&out);
}

static void odd_vocabulary(struct facts *f)
{
    const cJSON *text = json_get(f->d.config.json, "text_config");
    const cJSON *size = json_get(text ? text : f->d.config.json, "vocab_size"), *t;
    int largest = -1;
    cJSON_ArrayForEach(t, json_get(json_get(f->d.tokenizer.json, "model"), "vocab"))
        largest = t->valueint > largest ? t->valueint : largest;
    cJSON_ArrayForEach(t, json_get(f->d.tokenizer.json, "added_tokens")) {
        const cJSON *id = json_get(t, "id");
        largest = id && id->valueint > largest ? id->valueint : largest;
    }
    if (cJSON_IsNumber(size) && size->valueint - 1 != largest)
        ODD(f, "the model has %d tokens, the tokenizer's last id is %d", size->valueint, largest);
}

static void odd_probe_layer(struct facts *f)
{
    bool any = false;
    for (size_t i = 0; i < weights_count(f->w) && !any; i++)
        any = is_probe(weights_at(f->w, i));
    if (any && !json_get(f->d.config.json, "probe_layer"))
        ODD(f, "the file does not say which layer the handoff probe reads: 28 is taken (--probe-layer)");
}

/* What llama.cpp would do otherwise, or readers in general. */
static void odd_metadata(struct facts *f)
{
    static const char *const softcap[] = {"gemma4.final_logit_softcapping",
                                          "gemma-4-e2b-it-hybrid.final_logit_softcapping"};
    const struct gguf_value *types = gguf_find(&f->g, "tokenizer.ggml.token_type");
    const struct gguf_value *bos = gguf_find(&f->g, "tokenizer.ggml.add_bos_token");
    const cJSON *t, *first = NULL;
    double v;
    int split = 0;
    cJSON_ArrayForEach(t, json_get(f->d.tokenizer.json, "added_tokens")) {
        const cJSON *id = json_get(t, "id");
        if (types && id && gguf_number(types, (uint64_t)id->valueint, &v) && v == 1) {
            first = split++ ? first : t;
        }
    }
    if (split)
        ODD(f, "%d added tokens are typed as normal (%s, ...): llama.cpp splits them, here they stay whole", split,
            json_string(first, "content"));
    if (bos && gguf_number(bos, 0, &v) && v == 0)
        ODD(f, "add_bos_token is false, but prompts begin with <bos>: llama.cpp adds it all the same");
    if (!gguf_find(&f->g, softcap[0]) && !gguf_find(&f->g, softcap[1]))
        ODD(f, "no final_logit_softcapping: 30 is taken, some readers take none");
    if (gguf_equals(&f->g, "general.architecture", "gemma-4-e2b-it-hybrid"))
        ODD(f, "stock llama.cpp does not know the architecture gemma-4-e2b-it-hybrid");
}

static void odd_projector(struct facts *f)
{
    const struct gguf_value *eps = gguf_find(&f->g, "clip.audio.attention.layer_norm_epsilon");
    double v;
    if (eps && gguf_number(eps, 0, &v) && fabs(v - 1e-6) > 1e-8)
        ODD(f, "clip.audio's layer_norm_epsilon is %g, as in older files: 1e-6 is used", gguf_decimal(v));
}

/* ---- what it is ------------------------------------------------------------------------------------------------ */

static void put_form(struct facts *f)
{
    struct text *t = &f->out->form;
    double parts = 1;
    if (weights_bundle(f->w)) {
        text_puts(t, "Cactus bundle");
    } else if (f->is_gguf) {
        const struct gguf_value *v = gguf_find(&f->g, "split.count");
        const enum gguf_content content = gguf_content(&f->g);
        text_printf(t, "GGUF file, %s", content == GGUF_DECODER ? "a model" : content == GGUF_PROJECTOR
                    ? "vision and audio towers (mmproj)" : gguf_equals(&f->g, "general.type", "imatrix")
                    ? "an importance matrix, no model" : "no Gemma 4 model");
        if (v && gguf_number(v, 0, &parts) && parts > 1)
            text_printf(t, ", in %.0f parts", parts);
    } else if (path_is_dir(f->path)) {
        bool mlx = false;
        for (size_t i = 0; i < weights_count(f->w); i++)
            mlx |= weights_at(f->w, i)->type == TENSOR_CODED;
        text_puts(t, mlx ? "folder made by MLX" : "Transformers folder");
    } else {
        text_puts(t, "tensors alone");
    }
}

static void put_architecture(struct facts *f)
{
    const cJSON *classes = json_get(f->d.config.json, "architectures");
    const struct gguf_value *v = f->is_gguf ? gguf_find(&f->g, "general.architecture") : NULL;
    const char *s;
    size_t len;
    if (v && gguf_string(v, &s, &len))
        text_put(&f->out->architecture, s, len < 64 ? len : 64);
    else if (cJSON_IsArray(classes) && cJSON_IsString(classes->child))
        text_puts(&f->out->architecture, classes->child->valuestring);
}

static void put_tokenizer(struct facts *f)
{
    const cJSON *model = json_get(f->d.tokenizer.json, "model");
    const char *type = json_string(model, "type");
    text_printf(&f->out->tokenizer, "%s%s, %d pieces, %d merges, %d added tokens", type ? type : "of an unknown kind",
                cJSON_IsTrue(json_get(model, "byte_fallback")) ? " with byte fallback" : "",
                cJSON_GetArraySize(json_get(model, "vocab")), cJSON_GetArraySize(json_get(model, "merges")),
                cJSON_GetArraySize(json_get(f->d.tokenizer.json, "added_tokens")));
}

static void put_template(struct facts *f)
{
    char hex[65];
    if (!f->d.has_template)
        return;
    sha256_hex_of(f->d.chat_template.data ? f->d.chat_template.data : "", f->d.chat_template.len, hex);
    text_printf(&f->out->chat_template, "%s, %zu bytes, sha256 %.16s...",
                f->is_gguf ? "tokenizer.chat_template" : path_base(f->d.template_where), f->d.chat_template.len, hex);
}

/* A document that is there but cannot be read is damage; one that is missing only keeps the model from running. */
static int read_documents(struct facts *f, struct err *e)
{
    static const char *const needed[] = {"config.json", "tokenizer.json"};
    struct err fault = {0};
    if (!f->is_gguf && !weights_bundle(f->w) && !path_is_dir(f->path))
        return 0;
    if (f->is_gguf && gguf_content(&f->g) != GGUF_DECODER)
        return 0;
    f->has_documents = documents_open(&f->d, f->path, NULL, f->w, &fault) == 0;
    bool complete = path_is_dir(f->path) && !weights_bundle(f->w);
    for (size_t i = 0; i < sizeof needed / sizeof *needed && complete; i++) {
        char *path = path_join(f->path, needed[i]);
        complete = file_exists(path);
        free(path);
    }
    if (f->has_documents || !complete)
        return 0;
    *e = fault;
    return -1;
}

static int check_values(struct facts *f)
{
    const size_t n = weights_count(f->w);
    const struct tensor **t = NEW(const struct tensor *, n);
    struct pool *pool;
    struct err e = {0};
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tensor *one = weights_at(f->w, i);
        if (one->type <= TENSOR_CODED && one->n_dims > 0)
            t[k++] = one;
    }
    const int bad = pool_open(&pool, 0, &e) == 0 ? tensors_check_finite(pool, t, k, &e) : 0;
    if (bad)
        ODD(f, "%s", e.msg);
    pool_free(pool);
    free(t);
    return 0;
}

int checkpoint_facts_read(struct checkpoint_facts *out, const char *path, const struct weights *w, bool values,
                          struct err *e)
{
    struct facts f = {.path = path, .w = w, .out = out};
    *out = (struct checkpoint_facts){0};
    int failed = path_is_dir(path) ? 0 : map_open(&f.file, path, e);
    f.is_gguf = !failed && f.file.data && gguf_is(&f.file);
    if (!failed && f.is_gguf)
        failed = gguf_parse(&f.file, &f.arena, &f.g, e);
    if (!failed)
        failed = read_documents(&f, e);
    if (!failed) {
        put_form(&f);
        put_architecture(&f);
        odd_mix(&f);
        odd_tables(&f);
        odd_tensors(&f);
        if (f.is_gguf && gguf_content(&f.g) == GGUF_PROJECTOR)
            odd_projector(&f);
    }
    if (!failed && f.has_documents) {
        put_tokenizer(&f);
        put_template(&f);
        odd_template(&f);
        odd_stops(&f);
        odd_vocabulary(&f);
        odd_probe_layer(&f);
        odd_mlx(&f);
        if (f.is_gguf)
            odd_metadata(&f);
    }
    if (!failed && values)
        failed = check_values(&f);
    documents_close(&f.d);
    arena_free(&f.arena);
    map_close(&f.file);
    return failed;
}

void checkpoint_facts_free(struct checkpoint_facts *f)
{
    text_free(&f->form);
    text_free(&f->label);
    text_free(&f->architecture);
    text_free(&f->tokenizer);
    text_free(&f->chat_template);
    text_free(&f->odd);
}
