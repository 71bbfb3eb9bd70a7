/* cmd_probe_fit.c - `probe fit`: a handoff probe trained on the hidden rows and verdicts of runs. */
#include "eval/cli.h"
#include "eval/hidden.h"
#include "eval/records.h"
#include "eval/stats.h"
#include "probe/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fit_args {
    const char *out, *pooling;
    struct strings tasks;
    int64_t layer, seed, epochs, threads;
    double validation, rate;
    bool linear, compare, json;
};

/* All samples of all runs that have both hidden rows and a verdict. */
struct samples {
    struct hidden_file **files;
    int n_files;
    struct hidden_layers layers;
    int width, n, cap, n_without;
    struct fit_sample *at;      /* rows of the first layer */
    double *entropy;            /* NAN where a record has none */
    uint64_t *group;            /* of the sample, its own key if it stands alone */
};

/* ---- reading runs ---------------------------------------------------------------------------------------------- */

static void add_sample(struct samples *s, const float *rows, int n, const struct record *r)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 1024;
        s->at = mem_grow(s->at, (size_t)s->cap, sizeof *s->at);
        s->entropy = mem_grow(s->entropy, (size_t)s->cap, sizeof *s->entropy);
        s->group = mem_grow(s->group, (size_t)s->cap, sizeof *s->group);
    }
    s->at[s->n] = (struct fit_sample){.rows = rows, .stride = (size_t)s->layers.n * (size_t)s->width, .n_rows = n,
                                      .wrong = record_wrong(r, WRONG_RULE_DEFAULT)};
    s->entropy[s->n] = r->flags & REC_HAS_ENTROPY ? r->entropy : NAN;
    s->group[s->n++] = r->group ? r->group : r->key;
}

static bool wanted(const struct strings *tasks, const char *name)
{
    for (int i = 0; i < tasks->n; i++)
        if (strcmp(tasks->at[i], name) == 0)
            return true;
    return tasks->n == 0;
}

static int read_task(struct samples *s, const struct hidden_file *f, const struct records *r, int task, struct err *e)
{
    struct records_texts *texts = records_texts_open(r, e);
    int failed = texts ? 0 : -1;
    for (int64_t i = 0; i < r->tasks[task].n && !failed; i++) {
        const struct record *row = records_row(r, task, i);
        cJSON *record = records_text(texts, row, e);
        const char *id = json_string(record, "id");
        int n = 0;
        const float *rows = id ? hidden_find(f, r->tasks[task].name, id, &n) : NULL;
        failed = record ? 0 : -1;
        if (rows && n)
            add_sample(s, rows, n, row);
        else
            s->n_without++;
        cJSON_Delete(record);
    }
    records_texts_close(texts);
    return failed;
}

static int read_run(struct samples *s, const char *dir, const struct strings *tasks, struct err *e)
{
    struct hidden_file *f;
    struct records r;
    if (hidden_open(&f, dir, e))
        return -1;
    s->files = mem_grow(s->files, (size_t)s->n_files + 1, sizeof *s->files);
    s->files[s->n_files++] = f;
    const struct hidden_layers layers = hidden_layers_of(f);
    if (s->n_files == 1) {
        s->layers = layers;
        s->width = hidden_width(f);
    } else if (hidden_width(f) != s->width || memcmp(&layers, &s->layers, sizeof layers) != 0) {
        return err_input(e, "%s: hidden rows of the same layers and width as in the first run were expected", dir);
    }
    if (records_open(&r, dir, &(struct records_options){0}, e))
        return -1;
    int failed = 0;
    for (int t = 0; t < r.n_tasks && !failed; t++)
        if (wanted(tasks, r.tasks[t].name))
            failed = read_task(s, f, &r, t, e);
    records_close(&r);
    return failed;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* By group, so that no question has a rotation on the other side. */
static void split(struct samples *s, double share, uint64_t seed)
{
    for (int i = 0; i < s->n; i++)
        s->at[i].validation = (double)(mix(s->group[i] + 0x9e3779b97f4a7c15u * (seed + 1)) >> 11) * 0x1p-53 < share;
}

static void free_samples(struct samples *s)
{
    for (int i = 0; i < s->n_files; i++)
        hidden_close(s->files[i]);
    free(s->files);
    free(s->at);
    free(s->entropy);
    free(s->group);
}

/* ---- one fit --------------------------------------------------------------------------------------------------- */

struct outcome { int layer; const char *pooling; bool linear; struct fit_report report; double auroc, brier; };

static double auroc_of(const double *score, const uint8_t *wrong, int n)
{
    struct ranking r;
    if (ranking_make(&r, score, wrong, NULL, (size_t)n, HIGHER_IS_WRONG, NAN_IS_EXCLUDED, NULL))
        return NAN;
    const double value = auroc(&r).value;
    ranking_free(&r);
    return value;
}

/* On the validation samples. */
static void judge(const struct samples *s, const double *p_wrong, struct outcome *o)
{
    double *score = NEW(double, s->n), sum = 0;
    uint8_t *wrong = NEW(uint8_t, s->n);
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (!s->at[i].validation)
            continue;
        score[n] = p_wrong[i];
        wrong[n] = s->at[i].wrong;
        sum += (p_wrong[i] - wrong[n]) * (p_wrong[i] - wrong[n]);
        n++;
    }
    o->auroc = auroc_of(score, wrong, n);
    o->brier = sum / n;
    free(score);
    free(wrong);
}

static double entropy_auroc(const struct samples *s)
{
    double *score = NEW(double, s->n);
    uint8_t *wrong = NEW(uint8_t, s->n);
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (s->at[i].validation) {
            score[n] = s->entropy[i];
            wrong[n++] = s->at[i].wrong;
        }
    const double result = auroc_of(score, wrong, n);
    free(score);
    free(wrong);
    return result;
}

static void show_epoch(void *arg, int epoch, double loss)
{
    const struct outcome *o = arg;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rlayer %d, %s%s: epoch %d, validation loss %.4f ", o->layer, o->linear ? "linear, " : "",
                o->pooling, epoch, loss);
}

static int pooling_of(const char *name)
{
    static const char *const names[] = {"attention", "mean", "last"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static int fit_one(const struct samples *s, int layer_index, const struct fit_args *a, struct outcome *o,
                   struct probe **probe, struct err *e)
{
    struct fit_sample *shifted = NEW(struct fit_sample, s->n);
    double *p_wrong = NULL;
    for (int i = 0; i < s->n; i++) {
        shifted[i] = s->at[i];
        shifted[i].rows += (size_t)layer_index * (size_t)s->width;
    }
    const struct fit_settings settings = {.layer = s->layers.layer[layer_index], .dim = s->width,
                                          .pooling = (enum probe_pooling)pooling_of(o->pooling), .linear = o->linear,
                                          .max_epochs = (int)a->epochs, .rate = a->rate, .seed = (uint64_t)a->seed,
                                          .n_threads = a->threads ? (int)a->threads
                                                                  : (int)sysconf(_SC_NPROCESSORS_ONLN)};
    const int failed = probe_fit(probe, shifted, s->n, &settings, &p_wrong, &o->report, show_epoch, o, e);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (!failed)
        judge(s, p_wrong, o);
    free(p_wrong);
    free(shifted);
    return failed;
}

/* ---- output ---------------------------------------------------------------------------------------------------- */

static void put_json(struct text *t, const struct samples *s, const struct outcome *o, int n)
{
    int valid = 0, wrong = 0;
    for (int i = 0; i < s->n; i++) {
        valid += s->at[i].validation;
        wrong += s->at[i].wrong;
    }
    text_printf(t, "{\"samples\":%d,\"wrong\":%d,\"validation\":%d,\"entropy_auroc\":", s->n, wrong, valid);
    json_put_double(t, entropy_auroc(s));
    text_puts(t, ",\"probes\":[");
    for (int i = 0; i < n; i++) {
        text_printf(t, "%s{\"layer\":%d,\"pooling\":\"%s\",\"kind\":\"%s\",\"epochs\":%d,\"best_epoch\":%d,\"auroc\":",
                    i ? "," : "", o[i].layer, o[i].pooling, o[i].linear ? "linear" : "published", o[i].report.epochs,
                    o[i].report.best_epoch);
        json_put_double(t, o[i].auroc);
        text_puts(t, ",\"brier\":");
        json_put_double(t, o[i].brier);
        text_puts(t, ",\"log_loss\":");
        json_put_double(t, o[i].report.validation_loss);
        text_puts(t, ",\"train_log_loss\":");
        json_put_double(t, o[i].report.train_loss);
        text_putc(t, '}');
    }
    text_puts(t, "]}\n");
}

static void put_table(struct text *t, const struct samples *s, const struct outcome *o, int n)
{
    int valid = 0, wrong = 0;
    for (int i = 0; i < s->n; i++) {
        valid += s->at[i].validation;
        wrong += s->at[i].wrong;
    }
    text_printf(t, "%d samples, %d wrong; %d to train, %d to validate", s->n, wrong, s->n - valid, valid);
    if (s->n_without)
        text_printf(t, "; %d records without hidden rows left out", s->n_without);
    text_printf(t, "\n\nlayer  pooling    kind       AUROC  Brier  log loss  in training  epoch\n"
                   "──────────────────────────────────────────────────────────────────────\n");
    for (int i = 0; i < n; i++)
        text_printf(t, "%5d  %-9s  %-9s  %5.3f  %5.3f  %8.4f  %11.4f  %5d\n", o[i].layer, o[i].pooling,
                    o[i].linear ? "linear" : "published", o[i].auroc, o[i].brier, o[i].report.validation_loss,
                    o[i].report.train_loss, o[i].report.best_epoch);
    text_printf(t, "entropy                      %5.3f\n\n", entropy_auroc(s));
    text_puts(t, "On the validation samples, which also chose the epoch: test a probe on another run before trusting\n"
                 "the figures (run --probe FILE). kind published: the network of the handoff probe.\n");
}

/* By the end of the name. */
static int save(const struct probe *p, const char *path, struct err *e)
{
    static const char *const ends[] = {".safetensors", ".gguf", ".bin"};
    const size_t n = strlen(path);
    for (int i = 0; i < 3; i++)
        if (n > strlen(ends[i]) && strcmp(path + n - strlen(ends[i]), ends[i]) == 0)
            return probe_save(p, (enum probe_file)i, path, e);
    return err_set(e, EXIT_USAGE, "probe fit: --out %s: a name that ends in .safetensors, .gguf or .bin was expected",
                   path);
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

static int list_outcomes(const struct samples *s, const struct fit_args *a, struct outcome **out, struct err *e)
{
    static const struct { const char *pooling; bool linear; } kinds[] = {
        {"attention", false}, {"mean", false}, {"last", false}, {"mean", true}, {"last", true}};
    int n = 0;
    *out = NEW(struct outcome, 5 * s->layers.n);
    for (int l = 0; l < s->layers.n; l++) {
        if (a->layer >= 0 && s->layers.layer[l] != a->layer)
            continue;
        for (int k = 0; k < (a->compare ? 5 : 1); k++)
            (*out)[n++] = (struct outcome){.layer = s->layers.layer[l],
                                           .pooling = a->compare ? kinds[k].pooling : a->pooling,
                                           .linear = a->compare ? kinds[k].linear : a->linear};
    }
    if (n == 0)
        return err_input(e, "layer %lld was not recorded; the runs hold layer %d%s", (long long)a->layer,
                         s->layers.layer[0], s->layers.n > 1 ? " and others" : "");
    if (!a->compare && n > 1)
        return err_set(e, EXIT_USAGE, "probe fit: the runs hold %d layers: choose one with --layer, or --compare them",
                       n);
    return n;
}

static int fit(const struct strings *runs, const struct fit_args *a, struct err *e)
{
    struct samples s = {0};
    struct outcome *o = NULL;
    struct probe *probe = NULL;
    struct text t = {0};
    int failed = 0, n = 0;
    for (int i = 0; i < runs->n && !failed; i++)
        failed = read_run(&s, runs->at[i], &a->tasks, e);
    if (!failed && s.n == 0)
        failed = err_input(e, "%s: no sample with hidden rows and a verdict", runs->at[0]);
    if (!failed) {
        split(&s, a->validation, (uint64_t)a->seed);
        n = list_outcomes(&s, a, &o, e);
        failed = n < 0 ? -1 : 0;
    }
    for (int i = 0, l = 0; i < n && !failed; i++) {
        while (s.layers.layer[l] != o[i].layer)
            l++;
        probe_close(probe);
        failed = fit_one(&s, l, a, &o[i], &probe, e);
    }
    if (!failed && a->out)
        failed = probe ? save(probe, a->out, e)
                       : err_set(e, EXIT_USAGE, "probe fit: a linear or last-row probe cannot be saved: no engine has it");
    if (!failed) {
        (a->json ? put_json : put_table)(&t, &s, o, n);
        failed = cli_print(&t, e);
    }
    text_free(&t);
    probe_close(probe);
    free(o);
    free_samples(&s);
    return failed;
}

int cmd_probe_fit(int argc, char **argv)
{
    struct fit_args a = {.pooling = "attention", .layer = -1, .seed = 1, .epochs = 60, .validation = 0.2, .rate = 1.5e-3};
    struct strings runs = {0};
    const struct option options[] = {
        {"--out", OPT_STRING, &a.out, "FILE", "the probe: .safetensors, .gguf or .bin (Cactus); run --probe FILE takes it"},
        {"--layer", OPT_INT, &a.layer, "L", "decoder layer, if several were recorded"},
        {"--pooling", OPT_STRING, &a.pooling, "P", "attention (default, as published), mean, last"},
        {"--linear", OPT_FLAG, &a.linear, NULL, "one linear map instead of the published network (not to be saved)"},
        {"--compare", OPT_FLAG, &a.compare, NULL, "all recorded layers, poolings and kinds in one table"},
        {"--task", OPT_STRINGS, &a.tasks, "NAME", "only this hold-out; may be repeated"},
        {"--validation", OPT_DOUBLE, &a.validation, "X", "share that decides when to stop (default 0.2, by group)"},
        {"--epochs", OPT_INT, &a.epochs, "N", "at most (default 60; stops after 12 without progress)"},
        {"--rate", OPT_DOUBLE, &a.rate, "X", "learning rate of AdamW (default 0.0015)"},
        {"--seed", OPT_INT, &a.seed, "N", "of split, start and order (default 1)"},
        {"--threads", OPT_INT, &a.threads, "N", "the result does not depend on it"},
        {"--json", OPT_FLAG, &a.json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "probe fit", "RUN... [--out FILE]",
        "Trains a handoff probe on the hidden rows (run --trace-hidden LAYER) and the verdicts of runs, so that a quant\n"
        "can have a probe of its own. On a processor with the same instruction set the same seed gives the same probe.",
        options,
        "handoff run --model datasets/mini/checkpoint --suite mini --only arc-easy,mmlu --trace-hidden 3 --out runs/fit\n"
        "  handoff probe fit runs/fit --out runs/probe.safetensors"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &runs, &e);
    if (!stop) {
        if (!runs.n)
            stop = err_set(&e, EXIT_USAGE, "probe fit: a run is needed; see \"handoff probe fit --help\"");
        else if (pooling_of(a.pooling) < 0)
            stop = err_set(&e, EXIT_USAGE, "probe fit: --pooling: attention, mean or last was expected, not %s",
                           a.pooling);
        else if (!(a.validation > 0 && a.validation < 1) || a.epochs < 1 || a.epochs > 100000 || !(a.rate > 0) ||
                 a.rate > 1)
            stop = err_set(&e, EXIT_USAGE, "probe fit: --validation and --rate: between 0 and 1; --epochs: 1 to 100000");
        else if (a.compare && a.out)
            stop = err_set(&e, EXIT_USAGE, "probe fit: --compare saves nothing; choose a probe and fit it with --out");
        else
            stop = fit(&runs, &a, &e) ? -1 : 0;
    }
    free(runs.at);
    free(a.tasks.at);
    return stop ? cli_end(stop, &e) : EXIT_DONE;
}
