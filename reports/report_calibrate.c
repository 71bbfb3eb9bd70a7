/* report_calibrate.c - thresholds and confidence maps per quant, as tables and as the file that a router loads. */
#include "reports/report.h"
#include "reports/json_out.h"
#include "reports/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void json_threshold(struct json_out *j, const char *key, struct figure t)
{
    if (!t.why && isinf(t.value))
        json_text(j, key, "all");
    else
        json_figure(j, key, t);
}

static void json_rule(struct json_out *j, const struct threshold_row *row)
{
    json_open(j, row->rule, '{');
    json_text(j, "wish", row->wish);
    json_threshold(j, "threshold", row->threshold);
    json_figure(j, "rate", row->rate);
    json_figure(j, "metric", row->metric);
    json_figure(j, "kept_accuracy", row->kept_accuracy);
    json_interval(j, "kept_ci95", row->kept_ci95);
    json_integer(j, "kept", row->n_kept);
    json_close(j, '}');
}

static void json_quality(struct json_out *j, const char *key, const struct score_quality *q)
{
    json_open(j, key, '{');
    json_number(j, "brier", q->brier);
    json_number(j, "log_loss", q->log_loss);
    json_number(j, "ece", q->ece);
    json_close(j, '}');
}

static void json_maps(struct json_out *j, const struct recalibration *m)
{
    json_open(j, "maps", '{');
    json_quality(j, "unchanged", &m->before);
    json_open(j, "platt", '{');
    json_figure(j, "a", m->platt_why ? figure_undefined(m->platt_why) : figure_of(m->platt_a));
    json_figure(j, "b", m->platt_why ? figure_undefined(m->platt_why) : figure_of(m->platt_b));
    if (!m->platt_why)
        json_quality(j, "test", &m->platt);
    json_close(j, '}');
    json_open(j, "temperature", '{');
    json_figure(j, "t", m->temperature_why ? figure_undefined(m->temperature_why) : figure_of(m->temperature));
    if (!m->temperature_why)
        json_quality(j, "test", &m->scaled);
    json_close(j, '}');
    json_open(j, "isotonic", '{');
    json_open(j, "blocks", '[');
    for (int i = 0; i < m->n_isotonic; i++) {
        json_open(j, NULL, '[');
        json_number(j, NULL, m->isotonic[i].x_min);
        json_number(j, NULL, m->isotonic[i].x_max);
        json_number(j, NULL, m->isotonic[i].value);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_quality(j, "test", &m->stepped);
    json_close(j, '}');
    json_close(j, '}');
}

static void json_transfer(struct json_out *j, const struct calibrate_quant *q)
{
    json_open(j, "transfer", '[');
    for (int i = 0; i < q->n_transfer; i++) {
        const struct transfer_row *t = &q->transfer[i];
        json_open(j, NULL, '{');
        json_text(j, "rule", t->rule);
        json_threshold(j, "threshold", t->threshold);
        json_figure(j, "rate", t->rate);
        json_figure(j, "kept_accuracy", t->kept_accuracy);
        json_figure(j, "metric", t->metric);
        json_figure(j, "baseline_rate", t->base_rate);
        json_figure(j, "baseline_kept_accuracy", t->base_kept_accuracy);
        json_figure(j, "baseline_metric", t->base_metric);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_quants(struct json_out *j, const struct calibrate_result *r, bool lines)
{
    json_open(j, "quants", '[');
    for (int i = 0; i < r->n_quants; i++) {
        const struct calibrate_quant *q = &r->quants[i];
        if (lines)
            text_puts(j->out, i ? "" : "\n");
        json_open(j, NULL, '{');
        json_text(j, "run", q->run);
        json_text(j, "task", q->task ? q->task : "all");
        json_text(j, "fingerprint", q->fingerprint);
        json_text(j, "kernel", q->kernel);
        json_text(j, "activations", q->activations);
        json_integer(j, "n_calibration", q->n_calibration);
        json_integer(j, "n_test", q->n_test);
        json_boolean(j, "in_sample", !r->split);
        json_number(j, "accuracy", q->accuracy);
        json_number(j, "reference_accuracy", q->reference);
        json_open(j, "threshold", '{');
        for (int k = 0; k < N_THRESHOLD_RULES; k++)
            json_rule(j, &q->rules[k]);
        json_close(j, '}');
        json_maps(j, &q->maps);
        json_transfer(j, q);
        json_close(j, '}');
        if (lines && i + 1 < r->n_quants)
            text_putc(j->out, '\n');
    }
    json_close(j, ']');
}

static void json_head(struct json_out *j, const struct calibrate_result *r)
{
    json_text(j, "baseline", r->baseline);
    json_text(j, "reference", r->reference);
    json_open(j, "split", '{');
    json_text(j, "kind", r->split ? "half by hash of group or sample" : "none: every figure is in-sample");
    json_integer(j, "seed", r->definitions.seed);
    json_close(j, '}');
}

static void calibrate_json(const struct calibrate_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_head(&j, r);
    json_quants(&j, r, false);
    json_definitions(&j, &r->definitions);
    json_close(&j, '}');
    text_putc(out, '\n');
}

void report_thresholds_file(const struct calibrate_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    char hex[65];
    json_open(&j, NULL, '{');
    json_text(&j, "format", "handoff-thresholds");
    json_integer(&j, "version", 1);
    json_text(&j, "rule", "hand off iff confidence < threshold; confidence = 1 - p_wrong, unrounded");
    json_head(&j, r);
    json_definitions(&j, &r->definitions);
    json_quants(&j, r, true);
    sha256_hex_of(out->data, out->len, hex);
    text_printf(out, ",\n\"sha256\":\"%s\"}\n", hex);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void threshold_cell(struct table *t, struct figure threshold)
{
    if (threshold.why)
        table_cell(t, "none", "");
    else
        table_threshold(t, threshold.value);
}

static void quant_table(struct table *t, const struct calibrate_result *r, const struct calibrate_quant *q)
{
    text_printf(&t->notes, "%" PRId64 " samples to find thresholds, %" PRId64 " to count%s. Right without handoff: ",
                q->n_calibration, q->n_test, r->split ? "" : " (the same: every figure is IN-SAMPLE)");
    put_number(&t->notes, ".3", q->accuracy);
    if (r->reference) {
        text_printf(&t->notes, "; %s: ", r->reference);
        put_number(&t->notes, ".3", q->reference);
    }
    text_puts(&t->notes, ".\n");
    t->title = arena_printf(&t->arena, "Thresholds for %s: %s", q->run, q->task ? q->task : "all hold-outs");
    table_column(t, "wish", "rule", ALIGN_LEFT);
    table_column(t, "threshold", "threshold", ALIGN_RIGHT);
    table_column(t, "handed off", "rate", ALIGN_RIGHT);
    table_column(t, "kept right", "kept_accuracy", ALIGN_RIGHT);
    table_column(t, "95%", "kept_lo,kept_hi", ALIGN_LEFT);
    table_column(t, "all right", "metric", ALIGN_RIGHT);
    for (int k = 0; k < N_THRESHOLD_RULES; k++) {
        const struct threshold_row *row = &q->rules[k];
        if (row->threshold.why && strncmp(row->threshold.why, "needs", 5) == 0)
            continue;
        table_cell(t, row->wish, row->rule);
        threshold_cell(t, row->threshold);
        table_figure(t, row->rate, "1%");
        table_figure(t, row->kept_accuracy, ".3");
        table_interval(t, row->kept_ci95, ".3");
        table_figure(t, row->metric, ".3");
        if (row->threshold.why)
            text_printf(&t->notes, "none: %s: %s.\n", row->wish, row->threshold.why);
    }
}

static void put_calibrate_notes(struct text *notes, const struct calibrate_result *r)
{
    text_puts(notes, "Hand off iff confidence < threshold, on the unrounded value. kept right: share right among the "
                     "answers that stay, with Wilson's interval; all right: with the reference's answers for the rest"
                     ".\n");
    if (r->split)
        text_printf(notes, "Split by group (or sample) with seed %" PRId64 ", the same for every quant.\n",
                    r->definitions.seed);
    text_printf(notes, "Guaranteed: Learn then Test, exact binomial, fixed sequence from %.2g downwards in steps of "
                       ".01; by Bonferroni: over the 101 steps, no start to fix. Cheapest: cost of a handoff %.4g, of a "
                       "wrong answer %.4g.\n", r->start, r->cost_handoff, r->cost_wrong);
}

static void quality_row(struct table *t, const struct calibrate_quant *q, const char *map, const char *parameters,
                        const struct score_quality *s)
{
    table_text(t, q->run);
    table_text(t, q->task ? q->task : "all");
    table_text(t, map);
    table_text(t, parameters);
    const double v[3] = {s->brier, s->log_loss, s->ece};
    for (int i = 0; i < 3; i++)
        table_figure(t, isnan(v[i]) ? figure_undefined("not fitted") : figure_of(v[i]), ".4");
}

static void maps_table(struct table *t, const struct calibrate_result *r)
{
    t->title = "Confidence maps, fitted on the one part, measured on the other";
    static const char *const heads[][2] = {{"run", "run"}, {"hold-out", "task"}, {"map", "map"},
                                           {"parameters", "parameters"}};
    for (int i = 0; i < 4; i++)
        table_column(t, heads[i][0], heads[i][1], ALIGN_LEFT);
    table_column(t, "Brier", "brier", ALIGN_RIGHT);
    table_column(t, "log loss", "log_loss", ALIGN_RIGHT);
    table_column(t, "ECE", "ece", ALIGN_RIGHT);
    for (int i = 0; i < r->n_quants; i++) {
        const struct recalibration *m = &r->quants[i].maps;
        struct text p = {0};
        quality_row(t, &r->quants[i], "unchanged", "", &m->before);
        text_printf(&p, "a %.3f, b %.3f", m->platt_a, m->platt_b);
        quality_row(t, &r->quants[i], "Platt", m->platt_why ? m->platt_why : p.data, &m->platt);
        text_clear(&p);
        text_printf(&p, "T %.3f", m->temperature);
        quality_row(t, &r->quants[i], "temperature", m->temperature_why ? m->temperature_why : p.data, &m->scaled);
        text_clear(&p);
        text_printf(&p, "%d steps", m->n_isotonic);
        quality_row(t, &r->quants[i], "isotonic", p.data, &m->stepped);
        text_free(&p);
    }
}

static void transfer_table(struct table *t, const struct calibrate_result *r)
{
    t->title = arena_printf(&t->arena, "What the thresholds of %s do on each quant", r->baseline);
    static const char *const heads[][2] = {{"run", "run"}, {"hold-out", "task"}, {"threshold", "rule"}};
    static const char *const figures[][2] = {{"t", "threshold"}, {"handed off", "rate"}, {"there", "baseline_rate"},
        {"kept right", "kept_accuracy"}, {"there", "baseline_kept_accuracy"}, {"all right", "metric"},
        {"there", "baseline_metric"}};
    for (int i = 0; i < 3; i++)
        table_column(t, heads[i][0], heads[i][1], ALIGN_LEFT);
    for (int i = 0; i < 7; i++)
        table_column(t, figures[i][0], figures[i][1], ALIGN_RIGHT);
    for (int i = 0; i < r->n_quants; i++)
        for (int k = 0; k < r->quants[i].n_transfer; k++) {
            const struct transfer_row *row = &r->quants[i].transfer[k];
            if (row->threshold.why || strcmp(r->quants[i].run, r->baseline) == 0)
                continue;
            table_text(t, r->quants[i].run);
            table_text(t, r->quants[i].task ? r->quants[i].task : "all");
            table_text(t, row->rule);
            threshold_cell(t, row->threshold);
            table_figure(t, row->rate, "1%");
            table_figure(t, row->base_rate, "1%");
            table_figure(t, row->kept_accuracy, ".3");
            table_figure(t, row->base_kept_accuracy, ".3");
            table_figure(t, row->metric, ".3");
            table_figure(t, row->base_metric, ".3");
        }
}

void report_calibrate(const struct calibrate_result *r, enum report_format format, bool detail, struct text *out)
{
    struct table t = {0};
    if (format == FORMAT_JSON) {
        calibrate_json(r, out);
        return;
    }
    for (int i = 0; i < r->n_quants; i++) {
        quant_table(&t, r, &r->quants[i]);
        if (i + 1 == r->n_quants)
            put_calibrate_notes(&t.notes, r);
        table_print(&t, format, out);
    }
    if (detail) {
        maps_table(&t, r);
        table_print(&t, format, out);
    }
    if (r->baseline && (detail || r->n_quants > 1)) {
        transfer_table(&t, r);
        table_print(&t, format, out);
    }
}
