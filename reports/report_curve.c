/* report_curve.c - handoff curves: what share of queries has to leave the device for what quality. */
#include "reports/report.h"
#include "reports/json_out.h"
#include "reports/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void json_threshold(struct json_out *j, const char *key, double t)
{
    if (isinf(t))
        json_text(j, key, "all");
    else
        json_number(j, key, t);
}

static void json_match(struct json_out *j, const struct match_figures *m)
{
    json_open(j, "match", '{');
    json_figure(j, "first", m->first);
    json_figure(j, "conservative", m->conservative);
    if (m->ci95.why || isnan(m->ci95.lo)) {
        json_null(j, "ci95", m->ci95.why);
    } else {
        json_open(j, "ci95", '[');
        json_number(j, NULL, m->ci95.lo);
        json_number(j, NULL, m->ci95.hi);       /* null: in some resamples no share matches */
        json_close(j, ']');
    }
    json_threshold(j, "threshold", m->first_threshold);
    json_threshold(j, "conservative_threshold", m->conservative_threshold);
    json_boolean(j, "only_full_handoff", m->only_full_handoff);
    json_close(j, '}');
}

static void json_rows(struct json_out *j, const char *key, const struct curve_row *rows, int n)
{
    json_open(j, key, '[');
    for (int i = 0; i < n; i++) {
        json_open(j, NULL, '[');
        json_number(j, NULL, rows[i].rate);
        json_threshold(j, NULL, rows[i].threshold);
        json_number(j, NULL, rows[i].metric);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static void json_cost(struct json_out *j, const char *key, double ms, double price)
{
    json_open(j, key, '{');
    json_number(j, "ms", ms);
    json_number(j, "price", price);
    json_close(j, '}');
}

static void json_tiers(struct json_out *j, const struct curve_task *t)
{
    json_open(j, "tiers", '[');
    for (int i = 0; i < t->n_tiers; i++) {
        const struct tier_row *p = &t->tiers[i];
        json_open(j, NULL, '{');
        json_number(j, "cost", p->cost);
        json_number(j, "metric", p->metric);
        json_threshold(j, "low", p->low);
        json_threshold(j, "high", p->high);
        json_open(j, "share", '[');
        for (int k = 0; k < 3; k++)
            json_number(j, NULL, p->share[k]);
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_task(struct json_out *j, const struct curve_result *r, const struct curve_task *t)
{
    json_open(j, NULL, '{');
    json_text(j, "task", t->task);
    json_text(j, "metric", t->metric);
    json_boolean(j, "lower_is_better", t->lower_is_better);
    json_integer(j, "n", t->n);
    json_number(j, "local", t->local);
    json_number(j, "reference", t->reference);
    json_number(j, "target", t->target);
    json_boolean(j, "reference_not_better", t->reference_not_better);
    json_match(j, &t->match);
    json_figure(j, "within_1pt", t->within_1pt);
    json_figure(j, "random_rate", t->random_rate);
    json_figure(j, "oracle_rate", t->oracle_rate);
    json_figure(j, "entropy_rate", t->entropy_rate);
    json_number(j, "auc", t->auc);
    json_number(j, "auc_random", t->auc_random);
    json_number(j, "auc_oracle", t->auc_oracle);
    json_figure(j, "apgr", t->apgr);
    json_figure(j, "apgr_entropy", t->apgr_entropy);
    json_open(j, "cpt", '{');
    static const char *const shares[3] = {"20", "50", "80"};
    for (int i = 0; i < 3; i++)
        json_figure(j, shares[i], t->cpt[i]);
    json_close(j, '}');
    json_open(j, "at_threshold", '{');
    json_number(j, "threshold", r->definitions.threshold);
    json_number(j, "rate", t->at_default.rate);
    json_number(j, "metric", t->at_default.metric);
    json_number(j, "kept_metric", t->at_default.kept);
    json_close(j, '}');
    if (r->has_cost) {
        json_open(j, "cost_per_query", '{');
        json_cost(j, "local", t->cost_local.ms, t->cost_local.price);
        json_cost(j, "match", t->cost_match.ms, t->cost_match.price);
        json_cost(j, "reference", t->cost_reference.ms, t->cost_reference.price);
        json_close(j, '}');
    }
    if (t->n_tiers)
        json_tiers(j, t);
    json_rows(j, "points", t->points, t->n_points);
    json_close(j, '}');
}

static void curve_json(const struct curve_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_text(&j, "run", r->run);
    json_text(&j, "reference", r->reference);
    json_text(&j, "target", r->target);
    json_text(&j, "route", r->route ? r->route : "sample");
    json_open(&j, "tasks", '[');
    for (int i = 0; i < r->n_tasks; i++)
        json_task(&j, r, &r->tasks[i]);
    json_close(&j, ']');
    json_definitions(&j, &r->definitions);
    json_close(&j, '}');
    text_putc(out, '\n');
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void rate_interval_cell(struct table *t, struct interval i)
{
    if (i.why || !isinf(i.hi)) {
        table_interval(t, i, "0%");
        return;
    }
    struct text shown = {0}, csv = {0};
    text_putc(&shown, '[');
    if (isinf(i.lo)) {
        text_puts(&shown, "never]");
        text_putc(&csv, ',');
    } else {
        put_number(&shown, "0%", i.lo);
        text_puts(&shown, ", never]");
        text_put_double(&csv, i.lo);
        text_putc(&csv, ',');
    }
    table_cell(t, shown.data, csv.data);
    text_free(&shown);
    text_free(&csv);
}

static void rate_cell(struct table *t, struct figure rate)
{
    if (rate.why)
        table_cell(t, "never", "");
    else
        table_number(t, rate.value, "0%");
}

static void main_table(struct table *t, const struct curve_result *r)
{
    t->title = arena_printf(&t->arena, "Handoff from %s to %s until %s is matched", r->run, r->reference, r->target);
    static const char *const heads[][2] = {
        {"n", "n"}, {"device", "local"}, {"ref.", "reference"}, {"match", "match_first"}, {"95%", "match_lo,match_hi"},
        {"safe", "match_conservative"}, {"-1 pt", "within_1pt"}, {"random", "random_rate"}, {"ideal", "oracle_rate"},
        {"entropy", "entropy_rate"}, {"t", "threshold"}};
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], i == 4 ? ALIGN_LEFT : ALIGN_RIGHT);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct curve_task *c = &r->tasks[i];
        table_text(t, c->task);
        table_int(t, c->n);
        table_number(t, c->local, ".3");
        table_number(t, c->reference, ".3");
        rate_cell(t, c->match.first);
        rate_interval_cell(t, c->match.ci95);
        rate_cell(t, c->match.conservative);
        rate_cell(t, c->within_1pt);
        rate_cell(t, c->random_rate);
        rate_cell(t, c->oracle_rate);
        if (c->n_entropy)
            rate_cell(t, c->entropy_rate);
        else
            table_figure(t, c->entropy_rate, "0%");
        table_threshold(t, c->match.first_threshold);
    }
}

static void put_curve_notes(struct text *notes, const struct curve_result *r)
{
    bool speech = false;
    text_puts(notes, "match: smallest share to hand off for the target's quality, with its 95% bootstrap interval; "
                     "safe: from there on every larger share reaches it too; -1 pt: within one point of the target.\n");
    text_puts(notes, "random, ideal, entropy: the same by chance, by the best "
                     "possible order, by token entropy. t: hand off iff confidence < t.\n");
    text_puts(notes, "The share is found and counted on the same samples (in-sample): it moves on fresh ones; "
                     "\"calibrate\" splits them.\n");
    for (int i = 0; i < r->n_tasks; i++)
        speech |= r->tasks[i].lower_is_better;
    if (speech)
        text_puts(notes, "Speech: word error rate over the whole set, lower is better.\n");
    for (int i = 0; i < r->n_tasks; i++)
        if (r->tasks[i].reference_not_better)
            text_printf(notes, "%s: the reference is not better than the device.\n", r->tasks[i].task);
}

static void detail_table(struct table *t, const struct curve_result *r)
{
    t->title = "Areas, recovered gap, and the default threshold";
    static const char *const heads[][2] = {
        {"area", "auc"}, {"random", "auc_random"}, {"ideal", "auc_oracle"}, {"APGR", "apgr"},
        {"entropy", "apgr_entropy"}, {"20%", "cpt_20"}, {"50%", "cpt_50"}, {"80%", "cpt_80"}};
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "metric", "metric", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], ALIGN_RIGHT);
    struct text head = {0};
    text_puts(&head, "at ");
    put_number(&head, ".2", r->definitions.threshold);
    table_column(t, arena_strndup(&t->arena, head.data, head.len), "default_rate", ALIGN_RIGHT);
    text_free(&head);
    table_column(t, "gives", "default_metric", ALIGN_RIGHT);
    table_column(t, "kept", "default_kept", ALIGN_RIGHT);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct curve_task *c = &r->tasks[i];
        table_text(t, c->task);
        table_text(t, c->metric);
        table_number(t, c->auc, ".3");
        table_number(t, c->auc_random, ".3");
        table_number(t, c->auc_oracle, ".3");
        table_figure(t, c->apgr, ".3");
        table_figure(t, c->apgr_entropy, ".3");
        for (int k = 0; k < 3; k++)
            table_figure(t, c->cpt[k], "0%");
        table_number(t, c->at_default.rate, "0%");
        table_number(t, c->at_default.metric, ".3");
        table_figure(t, isnan(c->at_default.kept) ? figure_undefined("nothing is kept") :
                                                    figure_of(c->at_default.kept), ".3");
    }
    text_puts(&t->notes, "area: quality averaged over all shares; APGR: mean share of the gap to the reference that is "
              "recovered (random: .5); 20%, 50%, 80%: share to hand off that recovers so much of it.\n");
}

static void cost_table(struct table *t, const struct curve_result *r)
{
    t->title = "Cost per query";
    static const char *const heads[][2] = {
        {"device ms", "local_ms"}, {"at match", "match_ms"}, {"reference", "reference_ms"}, {"price", "local_price"},
        {"at match", "match_price"}, {"reference", "reference_price"}};
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], ALIGN_RIGHT);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct curve_task *c = &r->tasks[i];
        table_text(t, c->task);
        table_number(t, c->cost_local.ms, "1");
        table_number(t, c->cost_match.ms, "1");
        table_number(t, c->cost_reference.ms, "1");
        table_number(t, c->cost_local.price, "6");
        table_number(t, c->cost_match.price, "6");
        table_number(t, c->cost_reference.price, "6");
    }
    text_puts(&t->notes, "Every query runs on the device first; a handed-off one pays for the call as well.\n");
}

static void tier_table(struct table *t, const struct curve_result *r, const struct curve_task *c)
{
    t->title = arena_printf(&t->arena, "Cost and quality with three tiers: %s", c->task);
    table_column(t, "price", "cost", ALIGN_RIGHT);
    table_column(t, c->metric, "metric", ALIGN_RIGHT);
    table_column(t, "low", "low", ALIGN_RIGHT);
    table_column(t, "high", "high", ALIGN_RIGHT);
    for (int k = 0; k < 3; k++)
        table_column(t, r->tier_names[k], k == 0 ? "share_device" : k == 1 ? "share_middle" : "share_frontier",
                     ALIGN_RIGHT);
    for (int i = 0; i < c->n_tiers; i++) {
        const struct tier_row *p = &c->tiers[i];
        table_number(t, p->cost, "6");
        table_number(t, p->metric, ".3");
        table_threshold(t, p->low);
        table_threshold(t, p->high);
        for (int k = 0; k < 3; k++)
            table_number(t, p->share[k], "0%");
    }
    text_puts(&t->notes, "Confidence below low goes to the last tier, below high to the middle one. Only points on the "
                         "frontier: no mix of two others is as good and as cheap.\n");
}

void report_curve(const struct curve_result *r, enum report_format format, bool detail, struct text *out)
{
    struct table t = {0};
    if (format == FORMAT_JSON) {
        curve_json(r, out);
        return;
    }
    main_table(&t, r);
    put_curve_notes(&t.notes, r);
    table_print(&t, format, out);
    if (r->has_cost) {
        cost_table(&t, r);
        table_print(&t, format, out);
    }
    if (detail) {
        detail_table(&t, r);
        table_print(&t, format, out);
    }
    for (int i = 0; i < r->n_tasks; i++)
        if (r->tasks[i].n_tiers) {
            tier_table(&t, r, &r->tasks[i]);
            table_print(&t, format, out);
        }
}
