/* report_replay.c - drift at equal text by hold-out, and where the drift between two runs comes from. */
#include "reports/report.h"
#include "reports/split.h"

#include <math.h>
#include <string.h>

static void json_estimate(struct json_out *j, const char *key, struct estimate e)
{
    json_open(j, key, '{');
    json_figure(j, "mean", e.mean);
    json_interval(j, "ci95", e.ci95);
    json_close(j, '}');
}

static void rule_before_all(struct table *t, const char *task, int row)
{
    if (row && strcmp(task, "all") == 0)
        table_rule(t);
}

/* ---- parity on replayed answers ---------------------------------------------------------------------------------- */

static void json_row(struct json_out *j, const struct replay_row *r)
{
    json_open(j, NULL, '{');
    json_text(j, "task", r->task);
    json_integer(j, "n", r->n);
    json_integer(j, "positions", r->positions);
    json_figure(j, "confidence_base", r->confidence_base);
    json_figure(j, "confidence", r->confidence);
    json_estimate(j, "confidence_drift", r->confidence_drift);
    json_figure(j, "entropy_base", r->entropy_base);
    json_figure(j, "entropy", r->entropy);
    json_estimate(j, "entropy_drift", r->entropy_drift);
    json_number(j, "kl_mean", r->kl_mean);
    json_number(j, "kl_median", r->kl_median);
    json_number(j, "kl_99", r->kl_99);
    json_number(j, "kl_max", r->kl_max);
    json_number(j, "same_top", r->same_top);
    json_figure(j, "dp_rms", r->dp_rms);
    json_figure(j, "perplexity_ratio", r->perplexity_ratio);
    json_close(j, '}');
}

static void replay_json(const struct replay_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_text(&j, "run", r->run);
    json_text(&j, "base", r->base);
    json_number(&j, "self_difference", r->self_difference);
    json_open(&j, "models", '[');
    for (int k = 0; k < r->n_models; k++) {
        json_open(&j, NULL, '{');
        json_text(&j, "model", r->models[k].model);
        json_open(&j, "tasks", '[');
        for (int i = 0; i < r->models[k].n_rows; i++)
            json_row(&j, &r->models[k].rows[i]);
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

static void replay_table(struct table *t, const struct replay_result *r, const struct replay_model *m)
{
    static const char *const heads[][2] = {
        {"n", "n"}, {"tokens", "positions"}, {"conf.", "confidence_base"}, {"drift", "confidence_drift"},
        {"95%", "drift_lo,drift_hi"}, {"entropy", "entropy_base"}, {"drift", "entropy_drift"},
        {"95%", "entropy_lo,entropy_hi"}, {"KL", "kl_mean"}, {"99%", "kl_99"}, {"same top", "same_top"}};
    t->title = arena_printf(&t->arena, "Answers of %s as %s reads them", r->run, m->model);
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], i == 4 || i == 7 ? ALIGN_LEFT : ALIGN_RIGHT);
    for (int i = 0; i < m->n_rows; i++) {
        const struct replay_row *x = &m->rows[i];
        rule_before_all(t, x->task, i);
        table_text(t, x->task);
        table_int(t, x->n);
        table_int(t, x->positions);
        table_figure(t, x->confidence_base, ".3");
        table_figure(t, x->confidence_drift.mean, "+.3");
        table_interval(t, x->confidence_drift.ci95, "+.3");
        table_figure(t, x->entropy_base, ".3");
        table_figure(t, x->entropy_drift.mean, "+.3");
        table_interval(t, x->entropy_drift.ci95, "+.3");
        table_number(t, x->kl_mean, ".4");
        table_number(t, x->kl_99, ".3");
        table_number(t, x->same_top, "1%");
    }
    text_puts(&t->notes, "Both read the same tokens, so a drift here is the checkpoint's and not another answer's. KL, "
                         "99%: mean and 99% point of the divergence in nats.\n");
}

static void put_self(struct text *out, double difference)
{
    if (isnan(difference))
        text_puts(out, "No recorded confidence to check the replay with.\n");
    else if (difference == 0)
        text_puts(out, "Read by its own checkpoint, every answer gives its recorded confidence again, exactly.\n");
    else
        text_printf(out, "Read by its own checkpoint, every answer gives its recorded confidence again within %.1e.\n",
                    difference);
}

void report_replay(const struct replay_result *r, enum report_format format, struct text *out)
{
    if (format == FORMAT_JSON) {
        replay_json(r, out);
        return;
    }
    for (int k = 0; k < r->n_models; k++) {
        struct table t = {0};
        replay_table(&t, r, &r->models[k]);
        if (k + 1 == r->n_models)
            put_self(&t.notes, r->self_difference);
        table_print(&t, format, out);
    }
}

/* ---- compare: the parts of a drift ------------------------------------------------------------------------------- */

void json_split(struct json_out *j, const struct drift_split *s)
{
    json_open(j, "replay", '{');
    json_text(j, "arithmetic_base", s->arithmetic_base);
    json_text(j, "arithmetic_new", s->arithmetic_new);
    json_number(j, "self_difference", s->self_difference);
    json_text(j, "summary", s->summary);
    json_open(j, "tasks", '[');
    for (int i = 0; i < s->n_rows; i++) {
        const struct split_row *r = &s->rows[i];
        json_open(j, NULL, '{');
        json_text(j, "task", r->task);
        json_integer(j, "n", r->n);
        json_integer(j, "changed_answers", r->n_changed);
        json_estimate(j, "total", r->total);
        json_estimate(j, "weights", r->weights);
        json_estimate(j, "arithmetic", r->arithmetic);
        json_estimate(j, "answers", r->answers);
        json_figure(j, "kl_mean", r->kl_mean);
        json_figure(j, "same_top", r->same_top);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

/* wide: with its interval */
static void estimate_columns(struct table *t, const char *head, const char *csv, const char *interval_csv, bool wide)
{
    table_column(t, head, csv, ALIGN_RIGHT);
    if (wide)
        table_column(t, "95%", interval_csv, ALIGN_LEFT);
}

static void estimate_cells(struct table *t, struct estimate e, bool wide)
{
    table_figure(t, e.mean, "+.3");
    if (wide)
        table_interval(t, e.ci95, "+.3");
}

void split_table(struct table *t, const struct compare_result *c, bool all_columns)
{
    const struct drift_split *s = c->split;
    const bool two = all_columns || strcmp(s->arithmetic_base, s->arithmetic_new) != 0;    /* kinds of arithmetic */
    t->title = arena_printf(&t->arena, "Where the drift comes from: %s against %s", c->fresh, c->base);
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "n", "n", ALIGN_RIGHT);
    estimate_columns(t, "drift", "total", "total_lo,total_hi", all_columns);
    estimate_columns(t, "= weights", "weights", "weights_lo,weights_hi", true);
    estimate_columns(t, "+ arithmetic", "arithmetic", "arithmetic_lo,arithmetic_hi", two);
    estimate_columns(t, "+ answers", "answers", "answers_lo,answers_hi", true);
    table_column(t, "changed", "changed_answers", ALIGN_RIGHT);
    if (all_columns) {
        table_column(t, "KL", "kl_mean", ALIGN_RIGHT);
        table_column(t, "same top", "same_top", ALIGN_RIGHT);
    }
    for (int i = 0; i < s->n_rows; i++) {
        const struct split_row *r = &s->rows[i];
        rule_before_all(t, r->task, i);
        table_text(t, r->task);
        table_int(t, r->n);
        estimate_cells(t, r->total, all_columns);
        estimate_cells(t, r->weights, true);
        estimate_cells(t, r->arithmetic, two);
        estimate_cells(t, r->answers, true);
        table_int(t, r->n_changed);
        if (all_columns) {
            table_figure(t, r->kl_mean, ".4");
            table_figure(t, r->same_top, "1%");
        }
    }
    text_printf(&t->notes, "%s\n", s->summary);
    text_puts(&t->notes, "weights: the new checkpoint reads the base's answers with the base's arithmetic; arithmetic: "
                         "then with its own; answers: what remains, as it answers otherwise. changed: samples with "
                         "other output tokens.\n");
    put_self(&t->notes, s->self_difference);
}
