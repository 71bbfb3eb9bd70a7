/* cmd_report.c - the verb `report`: everything about some runs as one page, with its tables and pictures beside it. */
#define _GNU_SOURCE
#include "eval/auroc.h"
#include "eval/calibrate.h"
#include "eval/compares.h"
#include "eval/curves.h"
#include "eval/figures.h"
#include "eval/media.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct inputs in = INPUTS_DEFAULT;
static const char *out_dir, *reference, *target, *title;
static int64_t resamples = 1000, seed = 1, max_samples = 20000, threads, media_mb = 8;
static double threshold = 0.85;
static bool published, no_published;

static const struct option options[] = {
    {"--out", OPT_STRING, &out_dir, "DIR", "folder to write; index.html is the report (required)"},
    {"--reference", OPT_STRING, &reference, "REF", "run of the model that answers what is handed off"},
    {"--target", OPT_STRING, &target, "RUN", "run whose quality is to be matched (default: the reference)"},
    {"--title", OPT_TEXT, &title, "TEXT", "title of the page"},
    INPUT_OPTIONS(in),
    INPUT_PAIR_OPTIONS(in),
    {"--threshold", OPT_DOUBLE, &threshold, "T", "the threshold in use (default 0.85)"},
    {"--bootstrap", OPT_INT, &resamples, "N", "resamples for match rates and bands (default 1000; 0: none)"},
    {"--seed", OPT_INT, &seed, "N", "seed of bootstrap and split (default 1)"},
    {"--threads", OPT_INT, &threads, "N", "threads of the bootstrap (all); never changes a result"},
    {"--samples", OPT_INT, &max_samples, "N", "samples in the viewer (default 20000)"},
    {"--media-mb", OPT_INT, &media_mb, "N", "pictures and sounds in the viewer, at most N MB (default 8; 0: none)"},
    {"--published", OPT_FLAG, &published, NULL, "published figures also beside hold-outs of under 500 samples"},
    {"--no-published", OPT_FLAG, &no_published, NULL, "no published figures"},
    {0}};

static const struct usage usage = {
    "report", "RUN... --out DIR [--reference REF] [options]",
    "One self-contained page about one run or several (the first is the base that the others are compared with):\n"
    "AUROC, handoff, drift by quant, calibration and every sample. Beside index.html: report.md, the tables as CSV and\n"
    "JSON, every plot as SVG. The same input gives the same bytes.",
    options,
    "handoff report tests/data/records/bf16.jsonl tests/data/records/q4.jsonl \\\n"
    "      --reference tests/data/records/reference.jsonl --out /tmp/report"};

struct work {
    struct records *runs, others[2];            /* reference, target */
    int n_runs;
    struct auroc_result auroc;
    struct curve_result *curves;
    struct calibrate_result calibrate;
    struct compare_result *compares;
    struct report_input input;
    struct arena arena;
};

static int check(const struct strings *sources, struct err *e)
{
    if (sources->n == 0 || !out_dir)
        return err_set(e, EXIT_USAGE, "report: a run and --out were expected; see \"handoff report --help\"");
    if (target && !reference)
        return err_set(e, EXIT_USAGE, "--target: --reference was expected with it");
    if (resamples < 0 || resamples > 1000000 || max_samples < 0 || max_samples > 1000000 ||
        media_mb < 0 || media_mb > 1000)
        return err_set(e, EXIT_USAGE, "--bootstrap, --samples: 0 to 1000000, --media-mb: 0 to 1000 was expected");
    return cli_range("--threshold", threshold, 0, 1, e) || cli_range("--threads", (double)threads, 0, 1024, e) ||
           inputs_check(&in, e) ? -1 : 0;
}

static int open_all(struct work *w, const struct strings *sources, struct err *e)
{
    const char *const names[2] = {reference, target};
    w->runs = NEW(struct records, sources->n);
    for (w->n_runs = 0; w->n_runs < sources->n; w->n_runs++)
        if (inputs_open(&in, sources->at[w->n_runs], &w->runs[w->n_runs], e) ||
            stamps_check(&in, &w->runs[0], &w->runs[w->n_runs], e))
            return -1;
    for (int i = 0; i < 2; i++)
        if (names[i] && inputs_open(&in, names[i], &w->others[i], e))
            return -1;
    return 0;
}

static int make_auroc(struct work *w, struct err *e)
{
    struct auroc_run *runs = ARENA_NEW(&w->arena, struct auroc_run, w->n_runs);
    const struct auroc_options o = {.published = published, .no_published = no_published};
    w->auroc.definitions = inputs_definitions(&in);
    w->auroc.definitions.threshold = threshold;
    w->auroc.definitions.seed = seed;
    w->auroc.runs = runs;
    for (int i = 0; i < w->n_runs; i++, w->auroc.n_runs++)
        if (auroc_run_make(&runs[i], &in, &o, &w->runs[i], false, &w->arena, e))
            return -1;
    return 0;
}

static int make_curves(struct work *w, struct err *e)
{
    if (!reference)
        return 0;
    w->curves = ARENA_NEW(&w->arena, struct curve_result, w->n_runs);
    for (int i = 0; i < w->n_runs; i++) {
        struct curve_options o = CURVE_OPTIONS_DEFAULT;
        struct curve_models m = {&w->runs[i], &w->others[0], target ? &w->others[1] : NULL, NULL, false};
        o.resamples = resamples;
        o.seed = seed;
        o.threads = threads;
        o.threshold = threshold;
        o.max_points = 400;
        o.bands = i == 0;
        if (curve_result_make(&w->curves[i], &in, &o, &m, &w->arena, e))
            return -1;
    }
    return 0;
}

static int make_calibration(struct work *w, struct err *e)
{
    struct calibrate_options o = {.split = true, .seed = seed, .threshold = threshold, .rate = 0.3, .accuracy = 0.95,
                                  .delta = 0.05, .start = 0.95, .cost_handoff = 1, .cost_wrong = 10};
    struct calibrate_models m = {w->n_runs, w->runs, w->n_runs > 1 ? &w->runs[0] : NULL,
                                 reference ? &w->others[0] : NULL, false};
    if (calibrate_result_make(&w->calibrate, &in, &o, &m, &w->arena, e) == 0)
        return 0;
    o.split = false;            /* too few samples for two halves: the page then says that its figures are in-sample */
    return calibrate_result_make(&w->calibrate, &in, &o, &m, &w->arena, e);
}

static int make_compares(struct work *w, struct err *e)
{
    struct compare_options o = COMPARE_OPTIONS_DEFAULT;
    if (w->n_runs < 2)
        return 0;
    o.threshold = threshold;
    o.seed = seed;
    o.threads = threads;
    w->compares = ARENA_NEW(&w->arena, struct compare_result, w->n_runs - 1);
    for (int i = 1; i < w->n_runs; i++)
        if (compare_result_make(&w->compares[i - 1], &in, &o, &w->runs[0], &w->runs[i], &w->arena, e))
            return -1;
    return 0;
}

static void embed_media(struct work *w)
{
    struct text notes = {0};
    const char **names = ARENA_NEW(&w->arena, const char *, w->input.n_plots);
    for (int i = 0; i < w->input.n_plots; i++)
        names[i] = w->input.plots[i].task;
    media_embed(w->input.samples, w->input.n_samples, names, w->input.n_plots, &w->runs[0], (size_t)media_mb << 20,
                &w->arena, &notes);
    if (notes.len)
        fprintf(stderr, "%s", notes.data);
    text_free(&notes);
}

static int make_input(struct work *w, struct err *e)
{
    struct report_input *r = &w->input;
    struct plot_task *plots;
    struct scatter *scatters = ARENA_NEW(&w->arena, struct scatter, w->n_runs);
    const char **names = ARENA_NEW(&w->arena, const char *, w->n_runs);
    for (int i = 0; i < w->n_runs; i++)
        names[i] = w->runs[i].name;
    *r = (struct report_input){
        .title = title ? title : arena_printf(&w->arena, "Handoff report: %s", w->runs[0].name), .n_runs = w->n_runs,
        .runs = names, .auroc = &w->auroc, .curves = w->curves, .calibrate = &w->calibrate, .compares = w->compares,
        .scatters = scatters};
    for (int i = 1; i < w->n_runs; i++)
        figures_scatter(&scatters[r->n_scatters++], &in, &w->runs[0], &w->runs[i], 2500, &w->arena);
    if (figures_plots(&plots, &r->n_plots, &in, &w->runs[0], &w->arena, e))
        return -1;
    r->plots = plots;
    figures_stamps(r, w->runs, w->n_runs, &w->arena);
    if (figures_samples(r, &in, w->runs, w->n_runs, (int)max_samples, &w->arena, e))
        return -1;
    if (w->runs[0].stamp && media_mb)
        embed_media(w);
    return 0;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static int make_folder(const char *path, struct err *e)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && path_is_dir(path)))
        return 0;
    return err_machine(e, "%s: folder cannot be made", path);
}

/* Takes the text's content and empties it. */
static int write_file(const char *name, struct text *t, struct err *e)
{
    char *path = path_join(out_dir, name);
    int failed = t->len ? file_write_atomic(path, t->data, t->len, e) : 0;
    text_clear(t);
    free(path);
    return failed;
}

struct emit { struct err *e; };

static int write_picture(const char *name, const struct text *svg, void *to)
{
    struct emit *emit = to;
    char *file = path_join("plots", name), *path = path_join(out_dir, file);
    int failed = file_write_atomic(path, svg->data, svg->len, emit->e);
    free(file);
    free(path);
    return failed;
}

static int write_tables(struct work *w, struct err *e)
{
    struct text t = {0};
    int failed = 0;
    for (int json = 0; json < 2 && !failed; json++) {
        enum report_format format = json ? FORMAT_JSON : FORMAT_CSV;
        report_auroc(&w->auroc, format, false, &t);
        failed = write_file(json ? "auroc.json" : "auroc.csv", &t, e);
        for (int i = 0; !failed && w->curves && i < w->n_runs; i++) {
            struct text name = {0};
            text_printf(&name, "curve-%s.%s", w->runs[i].name, json ? "json" : "csv");
            report_curve(&w->curves[i], format, true, &t);
            failed = write_file(name.data, &t, e);
            text_free(&name);
        }
        report_calibrate(&w->calibrate, format, true, &t);
        failed = failed || write_file(json ? "calibrate.json" : "calibrate.csv", &t, e);
    }
    for (int i = 1; !failed && i < w->n_runs; i++) {
        struct text name = {0};
        text_printf(&name, "compare-%s.json", w->runs[i].name);
        report_compare(&w->compares[i - 1], FORMAT_JSON, true, &t);
        failed = write_file(name.data, &t, e);
        text_free(&name);
    }
    report_thresholds_file(&w->calibrate, &t);
    failed = failed || write_file("thresholds.json", &t, e);
    report_match_by_quant(&w->input, FORMAT_CSV, &t);
    failed = failed || write_file("match-by-quant.csv", &t, e);
    report_drift_by_quant(&w->input, FORMAT_CSV, &t);
    failed = failed || write_file("drift-by-quant.csv", &t, e);
    text_free(&t);
    return failed;
}

static int write_all(struct work *w, struct err *e)
{
    struct text t = {0};
    struct emit emit = {e};
    char *plots = path_join(out_dir, "plots");
    int failed = make_folder(out_dir, e) || make_folder(plots, e);
    if (!failed) {
        report_html(&w->input, &t);
        failed = write_file("index.html", &t, e);
    }
    if (!failed) {
        report_markdown(&w->input, &t);
        failed = write_file("report.md", &t, e);
    }
    failed = failed || write_tables(w, e) || report_pictures(&w->input, write_picture, &emit);
    text_free(&t);
    free(plots);
    return failed;
}

int cmd_report(int argc, char **argv)
{
    struct strings sources = {0};
    struct err e = {0};
    struct work w = {0};
    int stop = cli_parse(&usage, argc, argv, &sources, &e);
    in.keep_group_keys = true;
    if (stop)
        return cli_end(stop, &e);
    int failed = check(&sources, &e) || open_all(&w, &sources, &e) || make_auroc(&w, &e) || make_curves(&w, &e) ||
                 make_calibration(&w, &e) || make_compares(&w, &e) || make_input(&w, &e) || write_all(&w, &e);
    if (!failed)
        printf("%s/index.html\n", out_dir);
    for (int i = 0; i < sources.n && w.runs; i++)
        records_close(&w.runs[i]);
    for (int i = 0; i < 2; i++)
        records_close(&w.others[i]);
    free(w.runs);
    free(sources.at);
    arena_free(&w.arena);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
