/* plots.c - the pictures of the report. */
#include "reports/plots.h"
#include "reports/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const series_classes[N_SERIES_COLOURS] = {"s0", "s1", "s2", "s3", "s4", "s5"};

/* ---- forest plots ----------------------------------------------------------------------------------------------- */

struct forest {
    const char *title;
    int n_rows, n_series;
    const char **labels;                        /* [n_rows] */
    const char **classes, **names;              /* [n_series] */
    const struct auroc_figure **cells;          /* [n_rows * n_series], NULL: nothing there */
    const double **published;                   /* the same, NULL: none */
};

static double lowest(const struct forest *f)
{
    double lo = 0.5;
    for (int i = 0; i < f->n_rows * f->n_series; i++) {
        const struct auroc_figure *a = f->cells[i];
        if (a && !a->auroc.why && a->auroc.value < lo)
            lo = a->auroc.value;
        if (a && !a->ci95.why && a->ci95.lo < lo)
            lo = a->ci95.lo;
        if (f->published[i] && *f->published[i] < lo)
            lo = *f->published[i];
    }
    return floor(lo * 10 + 1e-9) / 10;
}

static void forest_cell(struct plot *p, const struct forest *f, int i, double y)
{
    const struct auroc_figure *a = f->cells[i];
    const char *class = f->classes[i % f->n_series];
    char line[32];
    snprintf(line, sizeof line, "line %s", class);
    if (a && !a->ci95.why)
        plot_rule(p, line, plot_x(p, a->ci95.lo), y, plot_x(p, a->ci95.hi), y);
    if (a && !a->auroc.why)
        text_printf(p->out, "<circle class=\"fill %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\"/>", class,
                    plot_x(p, a->auroc.value), y);
    if (f->published[i])
        plot_rule(p, "published", plot_x(p, *f->published[i]), y - 5, plot_x(p, *f->published[i]), y + 5);
}

static void draw_forest(struct text *out, bool alone, const struct forest *f)
{
    double pitch = 12 + 10 * f->n_series;
    struct plot p = {.out = out, .width = 460, .height = 40 + 36 + pitch * f->n_rows, .x0 = lowest(f), .x1 = 1,
                     .y0 = 0, .y1 = 1, .left = 100, .top = 44, .bottom = 32, .right = 14, .alone = alone};
    struct text description = {0};
    for (int i = 0; i < f->n_rows; i++)
        for (int k = 0; k < f->n_series; k++) {
            const struct auroc_figure *a = f->cells[i * f->n_series + k];
            if (!a || a->auroc.why)
                continue;
            text_printf(&description, "%s%s, %s: ", description.len ? "; " : "", f->labels[i], f->names[k]);
            put_number(&description, ".3", a->auroc.value);
        }
    plot_open(&p, f->title, description.data ? description.data : "no figures");
    for (double v = ceil(p.x0 * 10 - 1e-9) / 10; v < 1.001; v += 0.1) {
        struct text label = {0};
        bool half = fabs(v - 0.5) < 1e-9;
        put_number(&label, ".1", v);
        plot_rule(&p, half ? "frame" : "grid", plot_x(&p, v), p.top, plot_x(&p, v), p.height - p.bottom);
        plot_text(&p, "tick", plot_x(&p, v), p.height - p.bottom + 13, "middle", label.data);
        text_free(&label);
    }
    plot_text(&p, "tick", (p.left + p.width - p.right) / 2, p.height - 5, "middle", "AUROC (.5: no better than chance)");
    double x = p.left;
    for (int k = 0; k < f->n_series; k++) {
        char line[32];
        snprintf(line, sizeof line, "line %s", f->classes[k]);
        plot_rule(&p, line, x, 30, x + 16, 30);
        plot_text(&p, "tick", x + 20, 33.5, "start", f->names[k]);
        x += 36 + 6.0 * text_width(f->names[k]);
    }
    for (int i = 0; i < f->n_rows; i++) {
        double y = p.top + pitch * i + pitch / 2;
        plot_text(&p, "tick", p.left - 8, y + 3.5, "end", f->labels[i]);
        for (int k = 0; k < f->n_series; k++)
            forest_cell(&p, f, i * f->n_series + k, y + 10.0 * (k - (f->n_series - 1) / 2.0));
    }
    plot_close(&p);
    text_free(&description);
}

void plot_forest(struct text *out, bool alone, const struct auroc_run *run)
{
    static const char *classes[] = {"probe", "entropy"}, *names[] = {"probe", "token entropy"};
    struct arena a = {0};
    size_t n = (size_t)run->n_tasks;
    struct forest f = {.title = arena_printf(&a, "AUROC by hold-out: %s", run->name), .n_rows = run->n_tasks,
                       .n_series = 2, .labels = ARENA_NEW(&a, const char *, n), .classes = classes, .names = names,
                       .cells = ARENA_NEW(&a, const struct auroc_figure *, 2 * n),
                       .published = ARENA_NEW(&a, const double *, 2 * n)};
    for (size_t i = 0; i < n; i++) {
        const struct auroc_task *t = &run->tasks[i];
        f.labels[i] = t->task;
        f.cells[2 * i] = &t->confidence;
        f.cells[2 * i + 1] = &t->entropy;
        if (t->published) {
            f.published[2 * i] = &t->published->confidence;
            f.published[2 * i + 1] = &t->published->entropy;
        }
    }
    draw_forest(out, alone, &f);
    arena_free(&a);
}

void plot_forest_runs(struct text *out, bool alone, const struct auroc_result *r)
{
    struct arena a = {0};
    int n_series = r->n_runs < N_SERIES_COLOURS ? r->n_runs : N_SERIES_COLOURS;
    size_t n = (size_t)r->runs[0].n_tasks * (size_t)n_series;
    struct forest f = {.title = "AUROC of the probe by quant", .n_rows = r->runs[0].n_tasks, .n_series = n_series,
                       .labels = ARENA_NEW(&a, const char *, n), .names = ARENA_NEW(&a, const char *, n_series),
                       .classes = ARENA_NEW(&a, const char *, n_series),
                       .cells = ARENA_NEW(&a, const struct auroc_figure *, n),
                       .published = ARENA_NEW(&a, const double *, n)};
    for (int k = 0; k < n_series; k++) {
        f.names[k] = r->runs[k].name;
        f.classes[k] = series_classes[k];
    }
    for (int i = 0; i < f.n_rows; i++) {
        f.labels[i] = r->runs[0].tasks[i].task;
        for (int k = 0; k < n_series; k++)
            for (int t = 0; t < r->runs[k].n_tasks; t++)
                if (strcmp(r->runs[k].tasks[t].task, f.labels[i]) == 0)
                    f.cells[i * n_series + k] = &r->runs[k].tasks[t].confidence;
    }
    draw_forest(out, alone, &f);
    arena_free(&a);
}

/* ---- small ones ------------------------------------------------------------------------------------------------- */

static struct plot small_plot(struct text *out, bool alone)
{
    return (struct plot){.out = out, .width = 270, .height = 208, .x1 = 1, .y1 = 1, .top = 42, .left = 44,
                         .alone = alone};
}

static void put_two(struct text *t, const char *what, struct figure probe, struct figure entropy)
{
    text_printf(t, "%s of the probe ", what);
    if (probe.why)
        text_puts(t, "undefined");
    else
        put_number(t, ".3", probe.value);
    if (!entropy.why) {
        text_puts(t, ", of entropy ");
        put_number(t, ".3", entropy.value);
    }
}

void plot_roc(struct text *out, bool alone, const struct plot_task *t, const struct auroc_task *a)
{
    static const char *const legend[][2] = {{"probe", "probe"}, {"entropy", "entropy"}, {"random", "chance"}};
    static const struct xy diagonal[] = {{0, 0}, {1, 1}};
    struct plot p = small_plot(out, alone);
    struct text description = {0};
    put_two(&description, "AUROC", a->confidence.auroc, a->entropy.auroc);
    plot_open(&p, t->task, description.data);
    plot_axes(&p, "right answers flagged", "wrong answers flagged");
    plot_legend(&p, legend, 3);
    plot_line(&p, "random", diagonal, 2);
    plot_line(&p, "entropy", t->roc_entropy, t->n_roc_entropy);
    plot_line(&p, "probe", t->roc, t->n_roc);
    plot_close(&p);
    text_free(&description);
}

static double highest(const struct xy *points, int n, double least)
{
    for (int i = 0; i < n; i++)
        least = points[i].y > least ? points[i].y : least;
    return least;
}

void plot_risk(struct text *out, bool alone, const struct plot_task *t, const struct auroc_task *a)
{
    static const char *const legend[][2] = {{"probe", "probe"}, {"entropy", "entropy"}, {"random", "all answers"}};
    struct plot p = small_plot(out, alone);
    double wrong = a->prevalence.value;
    const struct xy all[] = {{0, wrong}, {1, wrong}};
    struct text description = {0};
    text_puts(&description, "Share of wrong answers among those kept; ");
    put_two(&description, "PRR", a->prr, figure_undefined(""));
    p.y1 = ceil(fmin(1, fmax(highest(t->risk, t->n_risk, wrong), 0.02) * 1.05) * 20) / 20;
    p.y1 = fmin(p.y1, fmin(1, fmax(3 * wrong, 0.1)));
    p.x_percent = p.y_percent = true;
    plot_open(&p, t->task, description.data);
    plot_axes(&p, "answers kept", "wrong among them");
    plot_legend(&p, legend, 3);
    plot_line(&p, "random", all, 2);
    double width = p.width - p.left - p.right, height = p.height - p.top - p.bottom;
    text_printf(out, "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" viewBox=\"%.1f %.1f %.1f %.1f\">", p.left,
                p.top, width, height, p.left, p.top, width, height);       /* cuts off what lies outside */
    plot_line(&p, "entropy", t->risk_entropy, t->n_risk_entropy);
    plot_line(&p, "probe", t->risk, t->n_risk);
    text_puts(out, "</svg>");
    plot_close(&p);
    text_free(&description);
}

void plot_histogram(struct text *out, bool alone, const struct plot_task *t)
{
    static const char *const legend[][2] = {{"right", "right (up)"}, {"wrong", "wrong (down)"}};
    struct plot p = small_plot(out, alone);
    int64_t most = 1, right = 0, wrong = 0;
    for (int i = 0; i < N_HISTOGRAM; i++) {
        most = t->right[i] > most ? t->right[i] : t->wrong[i] > most ? t->wrong[i] : most;
        right += t->right[i];
        wrong += t->wrong[i];
    }
    struct text description = {0};
    text_printf(&description, "Samples by confidence: %" PRId64 " right above the axis, %" PRId64 " wrong below it",
                right, wrong);
    p.y0 = -(double)most;
    p.y1 = (double)most;
    plot_open(&p, t->task, description.data);
    plot_axes(&p, "confidence", "");
    plot_legend(&p, legend, 2);
    for (int i = 0; i < N_HISTOGRAM; i++) {
        double lo = (double)i / N_HISTOGRAM, hi = (double)(i + 1) / N_HISTOGRAM;
        if (t->right[i])
            plot_bar(&p, "right", lo, hi, 0, (double)t->right[i]);
        if (t->wrong[i])
            plot_bar(&p, "wrong", lo, hi, 0, -(double)t->wrong[i]);
    }
    plot_rule(&p, "frame", p.left, plot_y(&p, 0), p.width - p.right, plot_y(&p, 0));
    plot_close(&p);
    text_free(&description);
}

void plot_reliability(struct text *out, bool alone, const struct auroc_task *a)
{
    static const struct xy diagonal[] = {{0, 0}, {1, 1}};
    struct plot p = small_plot(out, alone);
    int64_t most = 1;
    struct text description = {0}, ece = {0};
    for (int i = 0; i < a->n_bins; i++)
        most = a->bins[i].n > most ? a->bins[i].n : most;
    put_number(&ece, ".3", a->ece.why ? 0 : a->ece.value);
    text_printf(&description, "Share right against mean confidence in %d bins; ECE %s", a->n_bins,
                a->ece.why ? "undefined" : ece.data);
    p.top = 30;
    plot_open(&p, a->task, description.data);
    plot_axes(&p, "confidence", "share right");
    plot_line(&p, "random", diagonal, 2);
    for (int i = 0; i < a->n_bins; i++) {
        const struct reliability_row *b = &a->bins[i];
        if (b->n == 0)
            continue;
        plot_bar(&p, "probe", b->lo, b->hi, 0, 0.25 * (double)b->n / (double)most);
        plot_dot(&p, "probe", b->confidence, b->accuracy, 2 + 3 * sqrt((double)b->n / (double)most));
    }
    plot_close(&p);
    text_free(&description);
    text_free(&ece);
}

static void widen(double *lo, double *hi, double v)
{
    *lo = v < *lo ? v : *lo;
    *hi = v > *hi ? v : *hi;
}

static int curve_xy(struct arena *a, const struct curve_row *rows, int n, struct xy **out)
{
    *out = ARENA_NEW(a, struct xy, n);
    for (int i = 0; i < n; i++)
        (*out)[i] = (struct xy){rows[i].rate, rows[i].metric};
    return n;
}

static void cascade_range(struct plot *p, const struct curve_task *c)
{
    double lo = fmin(c->local, c->reference), hi = fmax(c->local, c->reference);
    for (int i = 0; i < c->n_points; i++)
        widen(&lo, &hi, c->points[i].metric);
    for (int i = 0; i < c->n_oracle; i++)
        widen(&lo, &hi, c->oracle[i].metric);
    for (int i = 0; i < c->n_band; i++) {
        widen(&lo, &hi, c->band[i].lo);
        widen(&lo, &hi, c->band[i].hi);
    }
    double margin = fmax(0.06 * (hi - lo), 0.002);
    p->y0 = fmax(0, lo - margin);
    p->y1 = c->lower_is_better ? hi + margin : fmin(1, hi + margin);
}

void plot_cascade(struct text *out, bool alone, const struct curve_task *c)
{
    static const char *const legend[][2] = {{"probe", "probe"}, {"entropy", "entropy"}, {"random", "chance"},
                                            {"ideal", "ideal"}};
    struct plot p = small_plot(out, alone);
    struct arena a = {0};
    struct xy *points, *entropy, *oracle;
    const struct xy chance[] = {{0, c->local}, {1, c->reference}};
    int n = curve_xy(&a, c->points, c->n_points, &points), n_entropy = curve_xy(&a, c->entropy, c->n_entropy, &entropy);
    int n_oracle = curve_xy(&a, c->oracle, c->n_oracle, &oracle);
    struct text description = {0};
    text_printf(&description, "%s against the share handed off", c->metric);
    if (!c->match.first.why) {
        text_puts(&description, "; matches the target at ");
        put_number(&description, "0%", c->match.first.value);
    }
    cascade_range(&p, c);
    p.x_percent = true;
    plot_open(&p, c->task, description.data);
    plot_axes(&p, "handed off", c->lower_is_better ? "word error rate" : c->metric);
    plot_legend(&p, legend, 4);
    plot_rule(&p, "frame", p.left, plot_y(&p, c->target), p.width - p.right, plot_y(&p, c->target));
    plot_band(&p, "probe", c->band, c->n_band);
    plot_line(&p, "random", chance, 2);
    plot_line(&p, "ideal", oracle, n_oracle);
    plot_line(&p, "entropy", entropy, n_entropy);
    plot_line(&p, "probe", points, n);
    if (!c->match.first.why)
        plot_dot(&p, "probe", c->match.first.value, c->target, 3.5);
    plot_close(&p);
    text_free(&description);
    arena_free(&a);
}

void plot_scatter(struct text *out, bool alone, const struct scatter *s, const char *base)
{
    static const struct xy diagonal[] = {{0, 0}, {1, 1}};
    struct plot p = small_plot(out, alone);
    struct text description = {0};
    int flipped = 0;
    for (int i = 0; i < s->n; i++)
        flipped += s->flipped[i];
    text_printf(&description, "Confidence of %d samples in %s and %s; in %d of them right and wrong changed", s->n, base,
                s->run, flipped);
    p.top = 30;
    p.height = 240;
    plot_open(&p, s->run, description.data);
    plot_axes(&p, base, s->run);
    plot_line(&p, "random", diagonal, 2);
    text_puts(out, "<g fill-opacity=\".45\">");
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->n; i++)
            if (s->flipped[i] == pass)
                plot_dot(&p, pass ? "wrong" : "probe", s->points[i].x, s->points[i].y, pass ? 2.2 : 1.5);
    text_puts(out, "</g>");
    plot_close(&p);
    text_free(&description);
}
