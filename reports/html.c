/* html.c - the report as one page: everything is inside it, and its own policy forbids it to fetch anything. */
#include "reports/report.h"
#include "reports/plots.h"
#include "reports/table.h"
#include "reports/viewer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char report_page_css[], report_page_js[];         /* made by the Makefile from page.css, page.js */

static void put_head(const struct report_input *in, struct text *out)
{
    text_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
              "script-src 'unsafe-inline'; img-src data:; media-src data:\">\n<title>");
    put_escaped(out, in->title);
    text_puts(out, "</title>\n<style>");
    text_puts(out, plot_style);
    text_puts(out, "\n");
    text_puts(out, (const char *)report_page_css);
    text_puts(out, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n");
}

static void put_card(struct text *out, const char *value, const char *label)
{
    text_puts(out, "<div class=\"card\"><b>");
    put_escaped(out, value);
    text_puts(out, "</b><span>");
    put_escaped(out, label);
    text_puts(out, "</span></div>\n");
}

static void put_mean_card(struct text *out, const char *what, struct figure mean, struct interval ci, int n)
{
    struct text value = {0}, label = {0};
    if (mean.why)
        text_puts(&value, "-");
    else
        put_number(&value, ".3", mean.value);
    text_printf(&label, "AUROC of %s, mean over %d hold-out%s", what, n, n == 1 ? "" : "s");
    if (!ci.why) {
        text_putc(&label, ' ');
        put_interval(&label, ".3", ci);
    }
    put_card(out, value.data, label.data);
    text_free(&value);
    text_free(&label);
}

static void put_curve_cards(const struct report_input *in, struct text *out)
{
    double apgr = 0, rate = 0, samples = 0;
    int n = 0;
    if (!in->curves)
        return;
    const struct curve_result *c = &in->curves[0];
    for (int i = 0; i < c->n_tasks; i++) {
        if (!c->tasks[i].apgr.why && !c->tasks[i].reference_not_better) {
            apgr += c->tasks[i].apgr.value;
            n++;
        }
        rate += c->tasks[i].at_default.rate * (double)c->tasks[i].n;
        samples += (double)c->tasks[i].n;
    }
    struct text value = {0}, label = {0};
    if (n) {
        put_number(&value, ".2", apgr / n);
        text_printf(&label, "of the gap to %s recovered, averaged over all handoff rates (APGR; chance: .5)",
                    c->reference);
        put_card(out, value.data, label.data);
    }
    text_clear(&value);
    text_clear(&label);
    put_number(&value, "0%", rate / samples);
    text_puts(&label, "of all queries leave the device at the threshold ");
    put_number(&label, ".2", c->definitions.threshold);
    put_card(out, value.data, label.data);
    text_free(&value);
    text_free(&label);
}

static void put_summary(const struct report_input *in, struct text *out)
{
    const struct auroc_run *run = &in->auroc->runs[0];
    int64_t n = 0;
    for (int i = 0; i < run->n_tasks; i++)
        n += run->tasks[i].n;
    text_puts(out, "<header class=\"top\"><h1>");
    put_escaped(out, in->title);
    text_printf(out, "</h1>\n<p class=\"lead\">%" PRId64 " samples of %d hold-out%s. Does the model know when it is "
                "wrong, what share of its queries has to go to a bigger model, and what does a quant change? Every "
                "figure carries a 95%% interval; what cannot be computed is left out and says why.</p>\n", n,
                run->n_tasks, run->n_tasks == 1 ? "" : "s");
    text_puts(out, "<nav aria-label=\"Contents\"><ul><li><a href=\"#separation\">Right from wrong</a></li>");
    if (in->curves)
        text_puts(out, "<li><a href=\"#handoff\">Handoff</a></li>");
    if (in->compares)
        text_puts(out, "<li><a href=\"#drift\">Quants</a></li>");
    text_puts(out, "<li><a href=\"#calibration\">Calibration</a></li><li><a href=\"#sample-viewer\">Samples</a></li>"
              "<li><a href=\"#decisions\">Decisions</a></li></ul></nav>\n<div class=\"cards\">\n");
    put_mean_card(out, "the probe's confidence", run->mean_confidence, run->mean_confidence_ci95, run->n_mean);
    put_mean_card(out, "token entropy", run->mean_entropy, run->mean_entropy_ci95, run->n_mean);
    put_curve_cards(in, out);
    text_puts(out, "</div></header>\n<main id=\"main\">\n");
}

static void open_plots(struct text *out, const char *title, const char *what)
{
    text_puts(out, "<h3>");
    put_escaped(out, title);
    text_puts(out, "</h3>\n<p>");
    put_escaped(out, what);
    text_puts(out, "</p>\n<div class=\"plots\">\n");
}

static void put_separation(const struct report_input *in, struct text *out)
{
    const struct auroc_run *run = &in->auroc->runs[0];
    const struct auroc_result first = {in->auroc->definitions, 1, 0, run, NULL, NULL};
    text_puts(out, "<section id=\"separation\"><h2>Does confidence tell right from wrong?</h2>\n");
    text_puts(out, "<div class=\"pair\"><div>");
    report_auroc(&first, FORMAT_HTML, false, out);
    text_puts(out, "</div><figure class=\"wide\">");
    plot_forest(out, false, run);
    text_puts(out, "</figure></div>\n");
    open_plots(out, "ROC curves", "Flag the least confident answers first: what share of the wrong ones is caught, for "
               "what share of the right ones?");
    for (int i = 0; i < in->n_plots; i++) {
        text_puts(out, "<figure>");
        plot_roc(out, false, &in->plots[i], &run->tasks[i]);
        text_puts(out, "</figure>");
    }
    text_puts(out, "</div>\n");
    open_plots(out, "Risk and coverage", "Keep only the most confident answers: how many of those kept are wrong?");
    for (int i = 0; i < in->n_plots; i++) {
        text_puts(out, "<figure>");
        plot_risk(out, false, &in->plots[i], &run->tasks[i]);
        text_puts(out, "</figure>");
    }
    text_puts(out, "</div>\n<details><summary>More measures, other definitions of wrong</summary>\n");
    report_auroc_detail(run, FORMAT_HTML, out);
    text_puts(out, "</details></section>\n");
}

static void put_handoff(const struct report_input *in, struct text *out)
{
    if (!in->curves)
        return;
    text_puts(out, "<section id=\"handoff\"><h2>What share has to leave the device?</h2>\n");
    report_match_by_quant(in, FORMAT_HTML, out);
    char title[256], what[512];
    snprintf(title, sizeof title, "Quality against the share handed off: %s", in->curves[0].run);
    snprintf(what, sizeof what, "%s answers what is handed off. The horizontal line is the target; the band is the "
             "probe's 95%% bootstrap interval.", in->curves[0].reference);
    open_plots(out, title, what);
    for (int i = 0; i < in->curves[0].n_tasks; i++) {
        text_puts(out, "<figure>");
        plot_cascade(out, false, &in->curves[0].tasks[i]);
        text_puts(out, "</figure>");
    }
    text_puts(out, "</div>\n<details><summary>Numbers behind the curves</summary>\n");
    report_curve(&in->curves[0], FORMAT_HTML, true, out);
    text_puts(out, "</details>\n");
    if (in->calibrate) {
        text_puts(out, "<h3>Thresholds</h3>\n");
        struct calibrate_result first = *in->calibrate;
        first.n_quants = 1;
        report_calibrate(&first, FORMAT_HTML, false, out);
        if (in->calibrate->n_quants > 1) {
            text_puts(out, "<details><summary>Every quant, and what the first one's thresholds do on it</summary>\n");
            report_calibrate(in->calibrate, FORMAT_HTML, true, out);
            text_puts(out, "</details>\n");
        }
    }
    text_puts(out, "</section>\n");
}

static void put_drift(const struct report_input *in, struct text *out)
{
    if (!in->compares)
        return;
    text_puts(out, "<section id=\"drift\"><h2>What does the quant change?</h2>\n");
    report_drift_by_quant(in, FORMAT_HTML, out);
    text_puts(out, "<figure class=\"wide\">");
    plot_forest_runs(out, false, in->auroc);
    text_puts(out, "</figure>\n");
    open_plots(out, "Confidence before and after", "One dot a sample; red: right and wrong changed sides.");
    for (int i = 0; i < in->n_scatters; i++) {
        text_puts(out, "<figure>");
        plot_scatter(out, false, &in->scatters[i], in->runs[0]);
        text_puts(out, "</figure>");
    }
    text_puts(out, "</div>\n<details><summary>Each quant, hold-out by hold-out</summary>\n");
    for (int i = 0; i + 1 < in->n_runs; i++)
        report_compare(&in->compares[i], FORMAT_HTML, false, out);
    text_puts(out, "</details></section>\n");
}

static void put_calibration(const struct report_input *in, struct text *out)
{
    const struct auroc_run *run = &in->auroc->runs[0];
    text_puts(out, "<section id=\"calibration\"><h2>Is the confidence a probability?</h2>\n");
    open_plots(out, "Reliability", "On the diagonal, answers of confidence .7 are right 70% of the time. Bars show "
               "where the samples are.");
    for (int i = 0; i < run->n_tasks; i++) {
        text_puts(out, "<figure>");
        plot_reliability(out, false, &run->tasks[i]);
        text_puts(out, "</figure>");
    }
    text_puts(out, "</div>\n");
    open_plots(out, "Confidence of right and wrong answers", "The further apart the two heaps, the better a threshold "
               "between them works.");
    for (int i = 0; i < in->n_plots; i++) {
        text_puts(out, "<figure>");
        plot_histogram(out, false, &in->plots[i]);
        text_puts(out, "</figure>");
    }
    text_puts(out, "</div></section>\n");
}

static void put_stamps(const struct report_input *in, struct text *out)
{
    struct table t = {.title = "What the runs were made of"};
    table_column(&t, "", NULL, ALIGN_LEFT);
    for (int r = 0; r < in->n_runs; r++)
        table_column(&t, in->runs[r], NULL, ALIGN_LEFT);
    for (int i = 0; i < in->n_stamps; i++) {
        table_text(&t, in->stamps[i].key);
        for (int r = 0; r < in->n_runs; r++)
            table_text(&t, in->stamps[i].values[r] ? in->stamps[i].values[r] : "not recorded");
    }
    table_html(&t, out);
    table_free(&t);
}

static void put_decisions(const struct report_input *in, struct text *out)
{
    const struct definitions *d = in->curves ? &in->curves[0].definitions : &in->auroc->definitions;
    int n;
    const char *const *lines = report_decisions(&n);
    text_puts(out, "<section id=\"decisions\"><h2>What was decided, and what was run</h2>\n<ul>");
    for (int i = 0; i < n; i++) {
        text_puts(out, "<li>");
        put_escaped(out, lines[i]);
        text_puts(out, "</li>");
    }
    text_puts(out, "<li>Here: tau = ");
    text_put_double(out, d->tau);
    text_puts(out, ", threshold = ");
    text_put_double(out, d->threshold);
    text_printf(out, ", entropy: %s, %" PRId64 " bootstrap resamples, seed %" PRId64 ".</li></ul>\n", d->entropy,
                d->resamples, d->seed);
    if (in->n_stamps)
        put_stamps(in, out);
    text_puts(out, "</section>\n");
}

void report_html(const struct report_input *in, struct text *out)
{
    put_head(in, out);
    put_summary(in, out);
    put_separation(in, out);
    put_handoff(in, out);
    put_drift(in, out);
    put_calibration(in, out);
    put_viewer(in, out);
    put_decisions(in, out);
    text_puts(out, "</main>\n<footer>Made by handoff from records; this page is complete in itself and fetches nothing."
              "</footer>\n<script>");
    text_puts(out, (const char *)report_page_js);
    text_puts(out, "</script>\n</body>\n</html>\n");
}
