/* markdown.c - the report as Markdown, and its plots as files. */
#include "reports/report.h"
#include "reports/plots.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* Task and run names come from files: only what is safe in a file name stays. */
static const char *file_name(struct arena *a, const char *kind, const char *name)
{
    char *s = arena_printf(a, "%s%s%s.svg", kind, name[0] ? "-" : "", name);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            *c = '_';
    return s;
}

void report_markdown(const struct report_input *in, struct text *out)
{
    int n;
    const char *const *decisions = report_decisions(&n);
    struct arena a = {0};
    struct auroc_result first = *in->auroc;
    first.n_runs = 1;
    first.n_pairs = 0;
    text_printf(out, "# %s\n\n## Does confidence tell right from wrong?\n\n", in->title);
    report_auroc(&first, FORMAT_MARKDOWN, false, out);
    text_printf(out, "![AUROC by hold-out](plots/%s)\n\n", file_name(&a, "forest", ""));
    if (in->curves) {
        text_puts(out, "## What share has to leave the device?\n\n");
        report_match_by_quant(in, FORMAT_MARKDOWN, out);
    }
    if (in->compares) {
        text_puts(out, "## What does the quant change?\n\n");
        report_drift_by_quant(in, FORMAT_MARKDOWN, out);
        for (int i = 0; i + 1 < in->n_runs; i++)
            report_compare(&in->compares[i], FORMAT_MARKDOWN, false, out);
    }
    if (in->calibrate) {
        text_puts(out, "## Thresholds\n\n");
        report_calibrate(in->calibrate, FORMAT_MARKDOWN, false, out);
    }
    text_puts(out, "## What was decided\n\n");
    for (int i = 0; i < n; i++)
        text_printf(out, "- %s\n", decisions[i]);
    text_putc(out, '\n');
    arena_free(&a);
}

struct emitter {
    int (*emit)(const char *name, const struct text *svg, void *to);
    void *to;
    struct text svg;
    struct arena arena;
    int stopped;
};

static void emit(struct emitter *m, const char *kind, const char *name)
{
    if (!m->stopped)
        m->stopped = m->emit(file_name(&m->arena, kind, name), &m->svg, m->to);
    text_clear(&m->svg);
}

int report_pictures(const struct report_input *in, int (*emit_one)(const char *name, const struct text *svg, void *to),
                    void *to)
{
    struct emitter m = {.emit = emit_one, .to = to};
    const struct auroc_run *run = &in->auroc->runs[0];
    plot_forest(&m.svg, true, run);
    emit(&m, "forest", "");
    if (in->n_runs > 1) {
        plot_forest_runs(&m.svg, true, in->auroc);
        emit(&m, "forest-runs", "");
    }
    for (int i = 0; i < in->n_plots; i++) {
        plot_roc(&m.svg, true, &in->plots[i], &run->tasks[i]);
        emit(&m, "roc", in->plots[i].task);
        plot_risk(&m.svg, true, &in->plots[i], &run->tasks[i]);
        emit(&m, "risk", in->plots[i].task);
        plot_histogram(&m.svg, true, &in->plots[i]);
        emit(&m, "confidence", in->plots[i].task);
        plot_reliability(&m.svg, true, &run->tasks[i]);
        emit(&m, "reliability", in->plots[i].task);
    }
    for (int i = 0; in->curves && i < in->curves[0].n_tasks; i++) {
        plot_cascade(&m.svg, true, &in->curves[0].tasks[i]);
        emit(&m, "handoff", in->curves[0].tasks[i].task);
    }
    for (int i = 0; i < in->n_scatters; i++) {
        plot_scatter(&m.svg, true, &in->scatters[i], in->runs[0]);
        emit(&m, "drift", in->scatters[i].run);
    }
    text_free(&m.svg);
    arena_free(&m.arena);
    return m.stopped;
}
