/* cmd_quantize.c - the verb `quantize`: a checkpoint written again with other weights. */
#define _GNU_SOURCE
#include "engine/quantize.h"
#include "eval/cli.h"
#include "eval/progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- progress -------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_asked;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

static bool see(void *arg, const char *tensor, int64_t done, int64_t total)
{
    struct progress *p = arg;
    p->done = done / 1000000;
    p->total = total / 1000000;
    progress_update(p, tensor);
    return stop_asked;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

/* "blk.N.attn_q.weight" for every layer's. */
static char *group_name(const char *name)
{
    struct text t = {0};
    while (*name) {
        const size_t n = strcspn(name, ".");
        if (n && strspn(name, "0123456789") == n)
            text_putc(&t, 'N');
        else
            text_put(&t, name, n);
        name += n;
        if (*name)
            text_putc(&t, *name++);
    }
    return text_take(&t);
}

struct group { char *name; const char *from, *to; int file, count; int64_t elements; size_t before, after; };

static size_t collect_groups(const struct quantize_report *r, struct group **out)
{
    struct group *g = NEW(struct group, r->n);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct quantized *q = &r->tensor[i];
        char *name = group_name(q->name);
        size_t k = 0;
        while (k < n && !(g[k].file == q->file && strcmp(g[k].name, name) == 0 && strcmp(g[k].from, q->from) == 0 &&
                          strcmp(g[k].to, q->to) == 0))
            k++;
        if (k == n)
            g[n++] = (struct group){.name = name, .from = q->from, .to = q->to, .file = q->file};
        else
            free(name);
        g[k].count++;
        g[k].elements += q->elements;
        g[k].before += q->bytes_before;
        g[k].after += q->bytes;
    }
    *out = g;
    return n;
}

static double bits(size_t bytes, int64_t elements)
{
    return elements ? 8.0 * (double)bytes / (double)elements : 0;
}

static void put_file(struct text *t, const struct quantize_report *r, const struct group *g, size_t n, int file)
{
    struct group all = {0};
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = (int)strlen(g[i].name) > width ? (int)strlen(g[i].name) : width;
    text_printf(t, "%s\n%-*s  count  from    to           MB   bits\n", r->files[file], width, "tensors");
    for (size_t i = 0; i < n; i++) {
        if (g[i].file != file)
            continue;
        text_printf(t, "%-*s  %5d  %-6s  %-6s  %8.2f  %5.2f\n", width, g[i].name, g[i].count, g[i].from, g[i].to,
                    (double)g[i].after / 1e6, bits(g[i].after, g[i].elements));
        all.elements += g[i].elements;
        all.before += g[i].before;
        all.after += g[i].after;
    }
    text_printf(t, "model size %10.2f MB, %5.2f bits per weight\nquant size %10.2f MB, %5.2f bits per weight\n",
                (double)all.before / 1e6, bits(all.before, all.elements), (double)all.after / 1e6,
                bits(all.after, all.elements));
}

static void put_table(struct text *t, const struct quantize_report *r)
{
    struct group *g;
    const size_t n = collect_groups(r, &g);
    for (int file = 0; file < r->n_files; file++)
        put_file(t, r, g, n, file);
    for (size_t i = 0; i < n; i++)
        free(g[i].name);
    free(g);
    if (r->n_fallbacks)
        text_printf(t, "%d of the matrices got another type than %s wants: their rows are no whole blocks of it\n",
                    r->n_fallbacks, r->type);
    text_put(t, r->notes.data ? r->notes.data : "", r->notes.len);
}

static void put_json(struct text *t, const struct quantize_report *r)
{
    text_printf(t, "{\"type\":\"%s\",\"fallbacks\":%d,\"files\":[", r->type, r->n_fallbacks);
    for (int i = 0; i < r->n_files; i++) {
        text_puts(t, i ? "," : "");
        json_put_string(t, r->files[i], strlen(r->files[i]));
    }
    text_puts(t, "],\"tensors\":[");
    size_t before = 0, after = 0;
    int64_t elements = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct quantized *q = &r->tensor[i];
        text_puts(t, i ? ",{\"name\":" : "{\"name\":");
        json_put_string(t, q->name, strlen(q->name));
        text_printf(t, ",\"from\":\"%s\",\"to\":\"%s\",\"elements\":%lld,\"bytes_before\":%zu,\"bytes\":%zu,\"file\":%d}",
                    q->from, q->to, (long long)q->elements, q->bytes_before, q->bytes, q->file);
        before += q->bytes_before;
        after += q->bytes;
        elements += q->elements;
    }
    text_printf(t, "],\"elements\":%lld,\"bytes_before\":%zu,\"bytes\":%zu,\"bits_per_weight\":", (long long)elements,
                before, after);
    json_put_double(t, bits(after, elements));
    text_puts(t, ",\"notes\":");
    json_put_string(t, r->notes.data ? r->notes.data : "", r->notes.len);
    text_puts(t, "}\n");
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

static int quantize(const struct quantize_request *q, bool json, struct err *e)
{
    struct quantize_report r;
    struct progress p;
    struct text t = {0};
    catch_signals();
    progress_start(&p, -1);
    p.unit = "MB";
    int failed = quantize_checkpoint(q, see, &p, &r, e);
    progress_clear(&p);
    if (!failed) {
        if (json)
            put_json(&t, &r);
        else
            put_table(&t, &r);
        failed = cli_print(&t, e);
    }
    text_free(&t);
    quantize_report_free(&r);
    return failed;
}

/* "Types: F32 F16 ...". */
static void put_types(struct text *t)
{
    const char *format = "";
    const struct quantize_type *type;
    for (size_t i = 0; (type = quantize_type_at(i)); i++) {
        if (strcmp(format, type->format) != 0)
            text_printf(t, "\n  %s: ", format = type->format);
        text_printf(t, " %s", type->name);
    }
}

int cmd_quantize(int argc, char **argv)
{
    struct quantize_request q = {0};
    struct strings files = {0};
    int64_t threads = 0, group = 0;
    bool json = false;
    const struct option options[] = {
        {"--type", OPT_STRING, &q.type, "T", "what the weights become, as below"},
        {"--imatrix", OPT_STRING, &q.imatrix, "F", "importance matrix of llama-imatrix (.gguf or .dat)"},
        {"--mmproj", OPT_STRING, &q.mmproj, "F", "towers of a .gguf input (the one mmproj*.gguf beside it)"},
        {"--no-mmproj", OPT_FLAG, &q.no_towers, NULL, "leave the vision and audio towers out"},
        {"--mmproj-type", OPT_STRING, &q.tower_type, "T", "F32, F16 or BF16 for the towers (as they are stored)"},
        {"--probe", OPT_STRING, &q.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--no-probe", OPT_FLAG, &q.no_probe, NULL, "leave the probe out: a file that stock llama.cpp runs"},
        {"--group", OPT_INT, &group, "N", "columns that share a scale in MLX's affine types: 32, 64 or 128 (64)"},
        {"--force", OPT_FLAG, &q.force, NULL, "replace files that exist already"},
        {"--threads", OPT_INT, &threads, "N", "threads (all CPUs)"},
        {"--json", OPT_FLAG, &json, NULL, "print JSON"},
        {0}};
    struct text about = {0};
    text_puts(&about, "Writes a checkpoint with other weights. The probe stays float32. Types:");
    put_types(&about);
    const struct usage usage = {"quantize", "IN OUT --type T [options]", about.data, options,
                                "handoff quantize datasets/mini/checkpoint /tmp/mini-Q8_0.gguf --type q8_0"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &files, &e);
    text_free(&about);
    if (stop)
        return cli_end(stop, &e);
    int failed = files.n != 2 || !q.type || threads < 0 || threads > 1024 || group < 0 || group > 1024;
    if (failed) {
        err_set(&e, EXIT_USAGE, "quantize: IN, OUT and --type T are needed; see \"handoff quantize --help\"");
    } else {
        q.in = files.at[0];
        q.out = files.at[1];
        q.n_threads = (int)threads;
        q.group = (int)group;
        failed = quantize(&q, json, &e);
    }
    free(files.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
