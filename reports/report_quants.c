/* report_quants.c - the publisher's tables by quant: handoff to match, and drift; the decisions behind all figures. */
#include "reports/report.h"
#include "reports/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct curve_task *find_curve(const struct curve_result *c, const char *task)
{
    for (int i = 0; i < c->n_tasks; i++)
        if (strcmp(c->tasks[i].task, task) == 0)
            return &c->tasks[i];
    return NULL;
}

static void match_cell(struct table *t, const struct curve_task *c)
{
    struct text shown = {0}, csv = {0};
    if (!c || c->match.first.why) {
        table_cell(t, c ? "never" : "", ",,");
        return;
    }
    const struct interval *ci = &c->match.ci95;
    put_number(&shown, "0%", c->match.first.value);
    text_put_double(&csv, c->match.first.value);
    text_putc(&csv, ',');
    if (!ci->why && isfinite(ci->lo)) {
        text_puts(&shown, " [");
        put_number(&shown, "0%", ci->lo);
        text_puts(&shown, ", ");
        text_put_double(&csv, ci->lo);
        if (isfinite(ci->hi))
            put_number(&shown, "0%", ci->hi);
        else
            text_puts(&shown, "never");
        text_putc(&shown, ']');
    }
    text_putc(&csv, ',');
    if (!ci->why && isfinite(ci->hi))
        text_put_double(&csv, ci->hi);
    table_cell(t, shown.data, csv.data);
    text_free(&shown);
    text_free(&csv);
}

static void within_cell(struct table *t, const struct curve_task *c)
{
    if (!c || c->within_1pt.why)
        table_cell(t, c ? "never" : "", "");
    else
        table_number(t, c->within_1pt.value, "0%");
}

static void fill_by_quant(struct table *t, const struct report_input *in, bool within)
{
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (int r = 0; r < in->n_runs; r++) {
        const char *name = in->runs[r];
        table_column(t, name, within ? arena_printf(&t->arena, "%s_within_1pt", name) :
                              arena_printf(&t->arena, "%s,%s_lo,%s_hi", name, name, name),
                     within ? ALIGN_RIGHT : ALIGN_LEFT);
    }
    for (int i = 0; i < in->curves[0].n_tasks; i++) {
        const char *task = in->curves[0].tasks[i].task;
        table_text(t, task);
        for (int r = 0; r < in->n_runs; r++)
            (within ? within_cell : match_cell)(t, find_curve(&in->curves[r], task));
    }
}

void report_match_by_quant(const struct report_input *in, enum report_format format, struct text *out)
{
    struct table t = {0};
    if (!in->curves)
        return;
    t.title = arena_printf(&t.arena, "Share to hand off to match %s", in->curves[0].target);
    fill_by_quant(&t, in, false);
    text_printf(&t.notes, "Smallest share of the least confident queries that has to be answered by %s, with its 95%% "
                "bootstrap interval. In-sample: found and counted on the same samples.\n", in->curves[0].reference);
    text_puts(&t.notes, "The exact match is the first passage of a noisy curve: read the interval before the number; "
                        "the share that comes within one point is steadier.\n");
    table_print(&t, format, out);
    t.title = arena_printf(&t.arena, "Share to hand off to come within one point of %s", in->curves[0].target);
    fill_by_quant(&t, in, true);
    table_print(&t, format, out);
}

static const struct compare_task *find_pooled(const struct compare_result *c)
{
    for (int i = 0; i < c->n_tasks; i++)
        if (strcmp(c->tasks[i].task, "all") == 0)
            return &c->tasks[i];
    return c->n_tasks ? &c->tasks[0] : NULL;
}

void report_drift_by_quant(const struct report_input *in, enum report_format format, struct text *out)
{
    struct table t = {0};
    static const char *const heads[][2] = {
        {"n", "n"}, {"right", "accuracy"}, {"change", "accuracy_delta"}, {"95%", "delta_lo,delta_hi"},
        {"p", "mcnemar_mid_p"}, {"confidence", "confidence_drift"}, {"95%", "drift_lo,drift_hi"},
        {"order kept", "spearman"}, {"AUROC", "auroc_delta"}, {"95%", "auroc_lo,auroc_hi"},
        {"handed off", "handoff_rate"}, {"was", "base_handoff_rate"}};
    if (!in->compares)
        return;
    t.title = arena_printf(&t.arena, "Drift against %s, same samples", in->runs[0]);
    table_column(&t, "run", "run", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(&t, heads[i][0], heads[i][1], strchr(heads[i][1], ',') ? ALIGN_LEFT : ALIGN_RIGHT);
    table_column(&t, "verdict", "verdict", ALIGN_LEFT);
    for (int r = 1; r < in->n_runs; r++) {
        const struct compare_task *c = find_pooled(&in->compares[r - 1]);
        if (!c)
            continue;
        table_text(&t, in->runs[r]);
        table_int(&t, c->n);
        table_figure(&t, c->accuracy_new, ".3");
        table_figure(&t, c->accuracy_delta, "+.3");
        table_interval(&t, c->ci95, "+.3");
        table_p_value(&t, c->mcnemar_mid_p);
        table_figure(&t, c->confidence_drift, "+.3");
        table_interval(&t, c->drift_ci95, "+.3");
        table_figure(&t, c->spearman, ".3");
        table_figure(&t, c->auroc_delta, "+.3");
        table_interval(&t, c->auroc_ci95, "+.3");
        table_figure(&t, c->rate_new, "0%");
        table_figure(&t, c->rate_base, "0%");
        table_text(&t, verdict_name(in->compares[r - 1].verdict));
    }
    text_puts(&t.notes, "All hold-outs together, paired by sample. change: share right, new minus base; p: McNemar, "
              "mid-p. confidence: mean change. order kept: Spearman's correlation of the confidences. AUROC: of the "
              "probe, new minus base.\n");
    text_puts(&t.notes, "handed off: share below the default threshold, which was not moved for the quant.\n");
    table_print(&t, format, out);
}

const char *const *report_decisions(int *n)
{
    static const char *const lines[] = {
        "Wrong: the hold-out's own metric fails. Multiple choice: another letter, or none that can be read (unparsed, "
        "counted apart). Numbers: not equal. Charts: more than 5% off. Documents: ANLS below 0.5. Speech: word error "
        "rate above tau after normalisation.",
        "Token entropy: in nats, over the whole vocabulary, averaged over the answer's tokens without the stop token.",
        "Confidence: 1 - p_wrong of the probe, which reads one row a generated token, the stop token's included, up to "
        "1024.",
        "Handed off if and only if confidence < threshold, on the unrounded value; equal confidences move together.",
        "Match: the smallest share whose cascade is as good as the target. Shares found and counted on the same "
        "samples are in-sample; the thresholds are found on one half and counted on the other.",
        "Intervals: DeLong for an AUROC (on the logit scale below 50 wrong answers), bootstrap of whole groups for a "
        "match rate and the bands, Wilson for a share. Comparisons are paired on the same samples.",
        "Published figures come without sample counts, intervals and labels; they are a landmark, not a test."};
    *n = (int)(sizeof lines / sizeof *lines);
    return lines;
}
