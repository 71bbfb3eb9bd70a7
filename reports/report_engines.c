/* report_engines.c - where two engines part ways. */
#include "reports/json_out.h"
#include "reports/table.h"

#include <math.h>

static double total(const struct engines_row *r)
{
    double sum = 0;
    for (int d = 0; d < N_ENGINE_DIFFERENCES; d++)
        sum += r->drift[d];
    return sum;
}

static void engines_json(const struct engines_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_text(&j, "base", r->base);
    json_text(&j, "other", r->other);
    json_number(&j, "tolerance", r->tolerance);
    json_open(&j, "tasks", '[');
    for (int i = 0; i < r->n_rows; i++) {
        const struct engines_row *x = &r->rows[i];
        json_open(&j, NULL, '{');
        json_text(&j, "task", x->task);
        json_integer(&j, "n", x->n);
        json_open(&j, "samples", '{');
        for (int d = 0; d < N_ENGINE_DIFFERENCES; d++)
            json_integer(&j, engine_difference_name((enum engine_difference)d), x->count[d]);
        json_close(&j, '}');
        json_number(&j, "confidence_drift", total(x));
        json_open(&j, "drift", '{');
        for (int d = 0; d < N_ENGINE_DIFFERENCES; d++)
            json_number(&j, engine_difference_name((enum engine_difference)d), x->drift[d]);
        json_close(&j, '}');
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_open(&j, "first", '{');
    for (int d = 0; d < N_ENGINE_DIFFERENCES; d++)
        json_text(&j, engine_difference_name((enum engine_difference)d), r->first[d]);
    json_close(&j, '}');
    json_close(&j, '}');
    text_putc(out, '\n');
}

static void put_notes(struct table *t, const struct engines_result *r)
{
    text_puts(&t->notes,
              "A sample counts where the two first part ways. tokens: the prompt has another number of tokens (template, "
              "tokenizer, size of a picture); media: other pixels or mel frames; answer: another text; arithmetic: the "
              "same answer with another log-probability or entropy; probe: only the confidence differs; untold: it "
              "differs, and the records hold no figures that would tell arithmetic from probe.\n");
    text_printf(&t->notes, "drift: mean change of the confidence, and what each kind adds to it. Tolerance %g.\n",
                r->tolerance);
    for (int d = ENGINE_TOKENS; d < N_ENGINE_DIFFERENCES; d++)
        if (r->first[d])
            text_printf(&t->notes, "first of %s: %s\n", engine_difference_name((enum engine_difference)d), r->first[d]);
}

void report_engines(const struct engines_result *r, enum report_format format, struct text *out)
{
    struct table t = {0};
    if (format == FORMAT_JSON) {
        engines_json(r, out);
        return;
    }
    t.title = arena_printf(&t.arena, "%s beside %s: where they part ways", r->other, r->base);
    table_column(&t, "hold-out", "task", ALIGN_LEFT);
    table_column(&t, "n", "n", ALIGN_RIGHT);
    for (int d = 0; d < N_ENGINE_DIFFERENCES; d++) {
        const char *name = engine_difference_name((enum engine_difference)d);
        table_column(&t, name, name, ALIGN_RIGHT);
    }
    table_column(&t, "drift", "drift", ALIGN_RIGHT);
    for (int d = ENGINE_ANSWER; d <= ENGINE_PROBE; d++)
        table_column(&t, arena_printf(&t.arena, "by %s", engine_difference_name((enum engine_difference)d)),
                     arena_printf(&t.arena, "drift_%s", engine_difference_name((enum engine_difference)d)), ALIGN_RIGHT);
    for (int i = 0; i < r->n_rows; i++) {
        const struct engines_row *x = &r->rows[i];
        if (i && i == r->n_rows - 1)
            table_rule(&t);
        table_text(&t, x->task);
        table_int(&t, x->n);
        for (int d = 0; d < N_ENGINE_DIFFERENCES; d++)
            table_int(&t, x->count[d]);
        table_number(&t, total(x), "+.4");
        for (int d = ENGINE_ANSWER; d <= ENGINE_PROBE; d++)
            table_number(&t, x->drift[d], "+.4");
    }
    put_notes(&t, r);
    table_print(&t, format, out);
}
