/* cmd_inspect.c - the verb `inspect`: what a checkpoint, a data set or a run holds. */
#include "datasets/datasets.h"
#include "engine/engine.h"
#include "eval/cli.h"
#include "eval/npy.h"
#include "eval/stamp.h"
#include "probe/probe.h"

#include <stdlib.h>
#include <string.h>

struct inspect_args { const char *data, *mmproj, *probe, *tensor, *out; int64_t probe_layer; bool json_lines; };

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

static void put_shape(struct text *t, const struct tensor *x)
{
    text_putc(t, '[');
    for (int i = 0; i < x->n_dims; i++)
        text_printf(t, "%s%lld", i ? ", " : "", (long long)x->dim[i]);
    text_putc(t, ']');
}

/* Groups a tensor with its like in other layers: digits between dots become N. */
static void put_group_name(struct text *t, const char *name)
{
    while (*name) {
        size_t n = strcspn(name, ".");
        if (n && strspn(name, "0123456789") == n)
            text_putc(t, 'N');
        else
            text_put(t, name, n);
        name += n;
        if (*name)
            text_putc(t, *name++);
    }
}

struct group { char *name; const struct tensor *first; int count; int64_t elements; size_t bytes; };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

static size_t collect_groups(const struct weights *w, struct group **out)
{
    size_t n = weights_count(w), n_groups = 0;
    struct group *g = NEW(struct group, n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct tensor *x = weights_at(w, i);
        struct text name = {0};
        put_group_name(&name, x->name);
        text_printf(&name, " %s", x->type_name);
        g[i] = (struct group){text_take(&name), x, 1, tensor_elements(x), x->n_bytes};
    }
    qsort(g, n, sizeof *g, by_name);
    for (size_t i = 0; i < n; i++) {
        if (n_groups && strcmp(g[n_groups - 1].name, g[i].name) == 0) {
            g[n_groups - 1].count++;
            g[n_groups - 1].elements += g[i].elements;
            g[n_groups - 1].bytes += g[i].bytes;
            free(g[i].name);
        } else {
            g[n_groups++] = g[i];
        }
    }
    *out = g;
    return n_groups;
}

static void put_tensors(struct text *t, const struct weights *w)
{
    struct group *g;
    size_t n = collect_groups(w, &g), bytes = 0;
    int64_t elements = 0;
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = (int)strlen(g[i].name) > width ? (int)strlen(g[i].name) : width;
    text_printf(t, "\n%-*s  count   bits  shape of the first\n", width, "tensors");
    for (size_t i = 0; i < n; i++) {
        text_printf(t, "%-*s  %5d  %5.2f  ", width, g[i].name, g[i].count,
                    g[i].elements ? 8.0 * (double)g[i].bytes / (double)g[i].elements : 0);
        put_shape(t, g[i].first);
        text_putc(t, '\n');
        elements += g[i].elements;
        bytes += g[i].bytes;
        free(g[i].name);
    }
    text_printf(t, "\n%zu tensor%s, %.3f million numbers, %.1f MB, %.2f bits per number\n", weights_count(w),
                weights_count(w) == 1 ? "" : "s",
                (double)elements / 1e6, (double)bytes / 1e6, elements ? 8.0 * (double)bytes / (double)elements : 0);
    free(g);
}

static void put_fact(struct text *t, const char *name, const struct text *fact)
{
    if (fact->len)
        text_printf(t, "%-16s %s\n", name, fact->data);
}

static void put_facts(struct text *t, const struct checkpoint_facts *f)
{
    put_fact(t, "form", &f->form);
    put_fact(t, "called", &f->label);
    put_fact(t, "architecture", &f->architecture);
    put_fact(t, "tokenizer", &f->tokenizer);
    put_fact(t, "chat template", &f->chat_template);
}

static void put_oddities(struct text *t, const struct checkpoint_facts *f)
{
    if (f->odd.len)
        text_puts(t, "\nodd about it\n");
    for (const char *at = f->odd.data, *end; at && (end = strchr(at, '\n')); at = end + 1)
        text_printf(t, "  %.*s\n", (int)(end - at), at);
}

static void put_model(struct text *t, const struct engine *m, const struct inspect_args *a)
{
    const struct model_info *i = engine_info(m);
    struct probe *p = NULL;
    struct err e = {0};
    text_printf(t, "layers           %d, the last %d share keys and values\n", i->n_layers, i->n_kv_shared_layers);
    text_printf(t, "hidden size      %d\n", i->hidden_size);
    text_printf(t, "heads            %d query, %d key/value; head size %d sliding, %d full\n", i->n_heads,
                i->n_kv_heads, i->head_dim, i->global_head_dim);
    text_printf(t, "window           %d of %d positions\n", i->sliding_window, i->max_positions);
    text_printf(t, "vocabulary       %d; tokenizer up to id %d, <bos> %d, <pad> %d\n", i->vocab_size,
                tokenizer_size(engine_tokenizer(m)) - 1, (int)i->bos_id, (int)i->pad_id);
    text_puts(t, "stop tokens     ");
    for (int k = 0; k < i->n_eos; k++) {
        const char *piece = tokenizer_piece(engine_tokenizer(m), i->eos_ids[k]);
        text_printf(t, " %d %s", (int)i->eos_ids[k], piece ? piece : "?");
    }
    text_printf(t, "\nvision, audio    %s, %s\n", i->has_vision ? "yes" : "no", i->has_audio ? "yes" : "no");
    if (probe_open_for(&p, m, a->probe, a->probe_layer, &e))
        text_printf(t, "handoff probe    unusable: %s\n", e.msg);
    else if (!p)
        text_puts(t, "handoff probe    no\n");
    else
        text_printf(t, "handoff probe    reads layer %d, rows of %d, the first %d\n", probe_layer(p), probe_dim(p),
                    probe_max_rows(p));
    probe_close(p);
}

static int write_tensor(const struct weights *w, const char *name, const char *out, struct err *e)
{
    const struct tensor *x = weights_find(w, name);
    if (!x)
        return err_set(e, EXIT_USAGE, "there is no tensor \"%s\"; inspect without --tensor lists them", name);
    if (x->type == TENSOR_OTHER)
        return err_input(e, "%s: tensor %s: numbers with a float32 value were expected, not %s", x->file, name,
                         x->type_name);
    int64_t n = tensor_elements(x);
    float *values = NEW(float, n);
    tensor_read_f32(x, 0, n, values);
    int failed = npy_write(out, values, x->n_dims, x->dim, e);
    free(values);
    return failed;
}

/* Whether the path is a folder with a configuration, or a GGUF file or archive with a decoder's tensors. */
static bool is_model(const char *path, const struct weights *w)
{
    static const char tensors_only[] = ".safetensors";
    if (path_is_dir(path)) {
        char *json = path_join(path, "config.json"), *text = path_join(path, "config.txt");
        bool whole = file_exists(json) || file_exists(text);
        free(json);
        free(text);
        return whole;
    }
    size_t len = strlen(path), end = strlen(tensors_only);
    if (len >= end && strcmp(path + len - end, tensors_only) == 0)
        return false;
    return weights_find(w, "model.embed_tokens.weight") || weights_find(w, "model.language_model.embed_tokens.weight");
}

/* A model that cannot run here is shown as far as it can be; why it cannot is odd about it. */
static int describe(const char *path, const struct inspect_args *a, const struct weights *w, struct text *t,
                    struct err *e)
{
    struct engine *m = NULL;
    struct engine_options options = {.n_threads = 1, .mmproj = a->mmproj};
    struct checkpoint_facts facts;
    struct err fault = {0};
    if (is_model(path, w))
        engine_open(&m, path, &options, &fault);
    if (fault.code && fault.code != EXIT_BAD_INPUT) {
        *e = fault;
        return -1;
    }
    int failed = checkpoint_facts_read(&facts, path, w, !m, e);
    if (!failed) {
        if (fault.code)
            text_printf(&facts.odd, "it cannot run here: %s\n", fault.msg);
        put_facts(t, &facts);
        if (m)
            put_model(t, m, a);
        put_oddities(t, &facts);
        put_tensors(t, m ? engine_weights(m) : w);
    }
    checkpoint_facts_free(&facts);
    engine_close(m);
    return failed;
}

static int inspect_checkpoint(const char *path, const struct inspect_args *a, struct err *e)
{
    struct weights *w = NULL;
    struct text t = {0};
    int failed = weights_open(&w, path, e);
    if (!failed)
        failed = a->tensor ? write_tensor(w, a->tensor, a->out, e) : describe(path, a, w, &t, e) || cli_print(&t, e);
    text_free(&t);
    weights_close(w);
    return failed;
}

/* ---- runs and data sets ---------------------------------------------------------------------------------------- */

static int inspect_run(const char *dir, struct err *e)
{
    cJSON *stamp = stamp_read(dir, e);
    if (!stamp)
        return -1;
    char *pretty = cJSON_Print(stamp);
    struct text t = {0};
    text_printf(&t, "%s\n", pretty);
    int failed = cli_print(&t, e);
    text_free(&t);
    cJSON_free(pretty);
    cJSON_Delete(stamp);
    return failed;
}

static int inspect_data(const char *spec, bool json_lines, struct err *e)
{
    struct suite suite = {0};
    struct dataset *d = NULL;
    struct sample s;
    int got = 0;
    int64_t n = 0;
    struct text t = {0};
    int failed = suite_add(&suite, spec, e);
    if (!failed) {
        suite.tasks[0].split = json_lines ? "all" : NULL;       /* the listing leaves nothing out */
        failed = dataset_open(&d, &suite.tasks[0], e);
    }
    while (!failed && (got = dataset_next(d, &s, e)) > 0) {
        n++;
        if (!json_lines)
            continue;
        text_clear(&t);
        sample_print(&s, &t);
        text_putc(&t, '\n');
        failed = cli_print(&t, e);
    }
    if (got < 0)
        failed = -1;
    if (!failed) {
        char hex[65];
        dataset_fingerprint(d, hex);
        fprintf(json_lines ? stderr : stdout, "%s%lld sample%s, %lld row%s refused\nfingerprint %s\n",
                dataset_notes(d), (long long)n, n == 1 ? "" : "s", (long long)dataset_skipped(d),
                dataset_skipped(d) == 1 ? "" : "s", hex);
        if (n == 0 && dataset_skipped(d))
            failed = err_input(e, "%s: none of its rows can be used", suite.tasks[0].path);
    }
    text_free(&t);
    dataset_close(d);
    suite_close(&suite);
    return failed;
}

static int inspect(const struct strings *files, const struct inspect_args *a, struct err *e)
{
    if (a->data ? files->n != 0 : files->n != 1)
        return err_set(e, EXIT_USAGE, "inspect: one FILE, or --data TASK=PATH; see \"handoff inspect --help\"");
    if (!a->tensor != !a->out)
        return err_set(e, EXIT_USAGE, "inspect: --tensor NAME and --out F.npy go together");
    if (a->data)
        return inspect_data(a->data, a->json_lines, e);
    const char *path = files->at[0];
    char *run = path_join(path, "run.json");
    bool is_run = file_exists(run);
    free(run);
    return is_run ? inspect_run(path, e) : inspect_checkpoint(path, a, e);
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect_args a = {.probe_layer = -1};
    struct strings files = {0};
    const struct option options[] = {
        {"--data", OPT_STRING, &a.data, "TASK=PATH", "a data set instead of a file"},
        {"--json-lines", OPT_FLAG, &a.json_lines, NULL, "with --data: every sample as a line of JSON"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--tensor", OPT_STRING, &a.tensor, "NAME", "write this tensor as float32"},
        {"--out", OPT_STRING, &a.out, "F.npy", "where to"},
        {0}};
    const struct usage usage = {
        "inspect", "(FILE [--mmproj F] [--probe F] [--tensor NAME --out F.npy] | --data TASK=PATH [--json-lines])",
        "What a checkpoint, a run or a data set holds, and what is odd about a checkpoint: a label that is not its\n"
        "mix, tensors that nothing reads, a template that makes other prompts, why it cannot run here.",
        options, "handoff inspect datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &files, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = inspect(&files, &a, &e);
    free(files.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
