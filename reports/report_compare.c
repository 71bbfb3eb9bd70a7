/* report_compare.c - did the new quant break something? A table for people, a verdict for machines, JUnit for CI. */
#include "reports/report.h"
#include "reports/split.h"
#include "reports/svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void json_task(struct json_out *j, const struct compare_task *t)
{
    const struct { const char *key; struct figure f; } figures[] = {
        {"accuracy_base", t->accuracy_base}, {"accuracy_new", t->accuracy_new}, {"accuracy_delta", t->accuracy_delta},
        {"mcnemar_p", t->mcnemar_p}, {"mcnemar_mid_p", t->mcnemar_mid_p}, {"holm_p", t->holm_p},
        {"auroc_base", t->auroc_base}, {"auroc_new", t->auroc_new}, {"auroc_delta", t->auroc_delta},
        {"auroc_p", t->auroc_p}, {"auroc_holm_p", t->auroc_holm_p}, {"confidence_base", t->confidence_base},
        {"confidence_new", t->confidence_new}, {"confidence_drift", t->confidence_drift}, {"ks", t->ks},
        {"spearman", t->spearman}, {"kendall_tau_b", t->kendall_tau_b}, {"pair_flip_rate", t->pair_flip_rate},
        {"handoff_rate_base", t->rate_base}, {"handoff_rate_new", t->rate_new}, {"unparsed_delta", t->unparsed_delta},
        {"runaway_delta", t->runaway_delta}};
    json_open(j, NULL, '{');
    json_text(j, "task", t->task);
    json_text(j, "verdict", verdict_name(t->verdict));
    json_text(j, "reason", t->reason);
    json_text(j, "auroc_interval", t->jackknife ? "jackknife" : "bootstrap");
    json_integer(j, "n", t->n);
    json_integer(j, "right_to_wrong", t->lost);
    json_integer(j, "wrong_to_right", t->gained);
    json_integer(j, "wrong_but_changed", t->changed);
    json_integer(j, "handoff_flips", t->handoff_flips);
    json_interval(j, "ci95", t->ci95);
    json_interval(j, "auroc_ci95", t->auroc_ci95);
    json_interval(j, "drift_ci95", t->drift_ci95);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_figure(j, figures[i].key, figures[i].f);
    json_close(j, '}');
}

static void compare_json(const struct compare_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_text(&j, "verdict", verdict_name(r->verdict));
    json_text(&j, "base", r->base);
    json_text(&j, "new", r->fresh);
    json_number(&j, "margin", r->margin);
    json_number(&j, "auroc_margin", r->auroc_margin);
    json_number(&j, "alpha", r->alpha);
    json_open(&j, "tasks", '[');
    for (int i = 0; i < r->n_tasks; i++)
        json_task(&j, &r->tasks[i]);
    json_close(&j, ']');
    if (r->split)
        json_split(&j, r->split);
    json_definitions(&j, &r->definitions);
    json_close(&j, '}');
    text_putc(out, '\n');
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */


static void note_jackknife(struct table *t, const struct compare_result *r)
{
    bool any = false;
    for (int i = 0; i < r->n_tasks; i++)
        any |= r->tasks[i].jackknife;
    if (any)
        text_puts(&t->notes, "With more than 200000 samples the AUROC difference is judged by the infinitesimal "
                             "jackknife, not the bootstrap; --bootstrap N resamples all the same.\n");
}

static void main_table(struct table *t, const struct compare_result *r)
{
    static const char *const heads[][2] = {
        {"n", "n"}, {"right", "accuracy_base"}, {"now", "accuracy_new"}, {"change", "accuracy_delta"},
        {"95%", "delta_lo,delta_hi"}, {"lost", "right_to_wrong"}, {"won", "wrong_to_right"}, {"p", "holm_p"},
        {"AUROC", "auroc_delta"}, {"p", "auroc_holm_p"}};
    t->title = arena_printf(&t->arena, "%s against %s: %s%s", r->fresh, r->base, verdict_name(r->verdict),
                            r->n_tasks && r->tasks[r->n_tasks - 1].identical ? " (identical records)" : "");
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], i == 4 ? ALIGN_LEFT : ALIGN_RIGHT);
    table_column(t, "verdict", "verdict", ALIGN_LEFT);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct compare_task *c = &r->tasks[i];
        if (i && strcmp(c->task, "all") == 0)
            table_rule(t);
        table_text(t, c->task);
        table_int(t, c->n);
        table_figure(t, c->accuracy_base, ".3");
        table_figure(t, c->accuracy_new, ".3");
        table_figure(t, c->accuracy_delta, "+.3");
        table_interval(t, c->ci95, "+.3");
        table_int(t, c->lost);
        table_int(t, c->gained);
        table_p_value(t, c->holm_p);
        table_figure(t, c->auroc_delta, "+.3");
        table_p_value(t, c->auroc_holm_p);
        table_text(t, verdict_name(c->verdict));
    }
    text_puts(&t->notes, "Paired on the same samples. lost: right to wrong, won: the reverse. p: McNemar's mid-p and the "
              "AUROC difference's (bootstrap), each adjusted over the hold-outs (Holm).\n");
    text_puts(&t->notes, "regressed: surely worse by more than the margin (");
    put_number(&t->notes, "1%", r->margin);
    text_puts(&t->notes, " of the answers, ");
    put_number(&t->notes, ".3", r->auroc_margin);
    text_puts(&t->notes, " of AUROC). ok: surely not. undecided: too few samples to say. The verdict is that of all "
              "hold-outs together, unless one of them regressed.\n");
    note_jackknife(t, r);
    for (int i = 0; i < r->n_tasks; i++)
        if (r->tasks[i].verdict == VERDICT_REGRESSED)
            text_printf(&t->notes, "! %s: %s\n", r->tasks[i].task, r->tasks[i].reason);
}

static void drift_table(struct table *t, const struct compare_result *r)
{
    static const char *const heads[][2] = {
        {"drift", "confidence_drift"}, {"95%", "drift_lo,drift_hi"}, {"KS", "ks"}, {"Spearman", "spearman"},
        {"pairs", "pair_flip_rate"}, {"handed off", "handoff_rate_base"}, {"now", "handoff_rate_new"}, {"flips", "handoff_flips"},
        {"unparsed", "unparsed_delta"}, {"runaway", "runaway_delta"}};
    t->title = arena_printf(&t->arena, "Drift of the confidence: %s against %s", r->fresh, r->base);
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], i == 1 ? ALIGN_LEFT : ALIGN_RIGHT);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct compare_task *c = &r->tasks[i];
        if (i && strcmp(c->task, "all") == 0)
            table_rule(t);
        table_text(t, c->task);
        table_figure(t, c->confidence_drift, "+.3");
        table_interval(t, c->drift_ci95, "+.3");
        table_figure(t, c->ks, ".3");
        table_figure(t, c->spearman, ".3");
        table_figure(t, c->pair_flip_rate, "1%");
        table_figure(t, c->rate_base, "0%");
        table_figure(t, c->rate_new, "0%");
        table_int(t, c->handoff_flips);
        table_figure(t, c->unparsed_delta, "+1%");
        table_figure(t, c->runaway_delta, "+1%");
    }
    text_puts(&t->notes, "drift: mean change of the confidence; KS: largest gap between the two distributions; pairs: "
                         "share of sample pairs whose order turned round.\n");
    text_puts(&t->notes, "handed off, now, flips: at the threshold ");
    put_number(&t->notes, ".2", r->definitions.threshold);
    text_puts(&t->notes, "; flips: samples that changed sides. runaway: answers ended by the token limit.\n");
}

void report_compare(const struct compare_result *r, enum report_format format, bool detail, struct text *out)
{
    struct table t = {0};
    if (format == FORMAT_JSON) {
        compare_json(r, out);
        return;
    }
    main_table(&t, r);
    table_print(&t, format, out);
    if (detail || format == FORMAT_HTML || format == FORMAT_TERMINAL) {
        drift_table(&t, r);
        table_print(&t, format, out);
    }
    if (r->split) {
        split_table(&t, r, format == FORMAT_CSV);
        table_print(&t, format, out);
    }
}

/* One test case a hold-out: a failure if regressed, skipped if undecided. */
void report_compare_junit(const struct compare_result *r, struct text *out)
{
    int failures = 0, skipped = 0;
    for (int i = 0; i < r->n_tasks; i++) {
        failures += r->tasks[i].verdict == VERDICT_REGRESSED;
        skipped += r->tasks[i].verdict == VERDICT_UNDECIDED;
    }
    text_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"handoff compare ");
    put_escaped(out, r->fresh);
    text_printf(out, "\" tests=\"%d\" failures=\"%d\" skipped=\"%d\">\n", r->n_tasks, failures, skipped);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct compare_task *t = &r->tasks[i];
        text_puts(out, "  <testcase classname=\"handoff.compare\" name=\"");
        put_escaped(out, t->task);
        if (t->verdict == VERDICT_OK) {
            text_puts(out, "\"/>\n");
            continue;
        }
        text_printf(out, "\"><%s message=\"", t->verdict == VERDICT_REGRESSED ? "failure" : "skipped");
        put_escaped(out, t->reason);
        text_puts(out, "\"/></testcase>\n");
    }
    text_puts(out, "</testsuite>\n");
}
