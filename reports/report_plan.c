/* report_plan.c - how many samples a question needs. */
#include "reports/report.h"
#include "reports/json_out.h"
#include "reports/table.h"

#include <math.h>

static void plan_json(const struct plan_result *r, struct text *out)
{
    static const char why[] = "no number of samples answers it: the AUROC, or the share of wrong answers, is undefined";
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_number(&j, "auroc_difference", r->difference);
    json_number(&j, "accuracy_difference", r->accuracy_difference);
    json_number(&j, "half_width", r->half_width);
    json_number(&j, "alpha", r->alpha);
    json_number(&j, "power", r->power);
    json_open(&j, "tasks", '[');
    for (int i = 0; i < r->n_tasks; i++) {
        const struct plan_task *t = &r->tasks[i];
        const struct { const char *key; double v; } figures[] = {
            {"auroc", t->auroc}, {"wrong_rate", t->wrong_rate}, {"correlation", t->correlation},
            {"discordant", t->discordant}, {"n_half_width", t->n_half_width},
            {"n_auroc_difference", t->n_auroc_difference}, {"n_accuracy_difference", t->n_accuracy}};
        json_open(&j, NULL, '{');
        json_text(&j, "task", t->task);
        json_integer(&j, "n", t->n);
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++)
            json_figure(&j, figures[k].key, isnan(figures[k].v) ? figure_undefined(why) : figure_of(figures[k].v));
        json_figure(&j, "ms", t->ms > 0 ? figure_of(t->ms) : figure_undefined("no times are recorded; --ms says one"));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    text_putc(out, '\n');
}

static void count_cell(struct table *t, double n)
{
    table_figure(t, isnan(n) ? figure_undefined("no answer") : figure_of(n), "0");
}

static void time_cell(struct table *t, double n, double ms)
{
    struct text s = {0};
    double seconds = n * ms / 1000;
    if (isnan(seconds) || ms <= 0) {
        table_cell(t, "-", "");
        return;
    }
    if (seconds < 120)
        text_printf(&s, "%.0f s", seconds);
    else if (seconds < 7200)
        text_printf(&s, "%.0f min", seconds / 60);
    else
        text_printf(&s, "%.1f h", seconds / 3600);
    table_cell(t, s.data, "");
    text_free(&s);
}

void report_plan(const struct plan_result *r, enum report_format format, struct text *out)
{
    static const char *const heads[][2] = {
        {"n", "n"}, {"wrong", "wrong_rate"}, {"AUROC", "auroc"}, {"interval", "n_half_width"},
        {"difference", "n_auroc_difference"}, {"answers", "n_accuracy_difference"}};
    struct table t = {.title = "Samples needed"};
    if (format == FORMAT_JSON) {
        plan_json(r, out);
        return;
    }
    table_column(&t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(&t, heads[i][0], heads[i][1], ALIGN_RIGHT);
    table_column(&t, "ms each", "ms", ALIGN_RIGHT);
    table_column(&t, "difference takes", NULL, ALIGN_RIGHT);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct plan_task *p = &r->tasks[i];
        table_text(&t, p->task);
        table_int(&t, p->n);
        table_number(&t, p->wrong_rate, "0%");
        table_figure(&t, isnan(p->auroc) ? figure_undefined("undefined") : figure_of(p->auroc), ".3");
        count_cell(&t, p->n_half_width);
        count_cell(&t, p->n_auroc_difference);
        count_cell(&t, p->n_accuracy);
        if (p->ms > 0)
            table_number(&t, p->ms, "1");
        else
            table_cell(&t, "-", "");
        time_cell(&t, p->n_auroc_difference, p->ms);
    }
    text_puts(&t.notes, "interval: samples for an AUROC to within +- ");
    put_number(&t.notes, ".3", r->half_width);
    text_puts(&t.notes, "; difference: to see an AUROC change by ");
    put_number(&t.notes, ".3", r->difference);
    text_puts(&t.notes, " between two runs of the same samples; answers: to see the share right change by ");
    put_number(&t.notes, ".3", r->accuracy_difference);
    text_printf(&t.notes, ". Level %.3g, power %.3g.\n", r->alpha, r->power);
    text_puts(&t.notes, "The AUROC's correlation between two runs is a guess unless --against gives a second run; it "
                        "decides the number.\n");
    table_print(&t, format, out);
}
