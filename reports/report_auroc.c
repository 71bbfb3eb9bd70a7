/* report_auroc.c - how well confidence and entropy separate wrong answers from right ones, hold-out by hold-out. */
#include "reports/report.h"
#include "reports/json_out.h"
#include "reports/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void json_auroc(struct json_out *j, const char *key, const struct auroc_figure *f, const struct interval *boot)
{
    json_open(j, key, '{');
    json_figure(j, "auroc", f->auroc);
    json_figure(j, "se", f->se);
    json_interval(j, "ci95", f->ci95);
    if (boot)
        json_interval(j, "bootstrap95", *boot);
    json_close(j, '}');
}

static void json_details(struct json_out *j, const struct auroc_task *t)
{
    json_open(j, "without_unparsed", '{');
    json_integer(j, "n", t->n - t->unparsed);
    json_auroc(j, "confidence", &t->parsed_confidence, NULL);
    json_auroc(j, "entropy", &t->parsed_entropy, NULL);
    json_close(j, '}');
    if (t->n_clean < t->n) {
        json_open(j, "without_repeated_and_contaminated", '{');
        json_integer(j, "n", t->n_clean);
        json_integer(j, "repeated", t->repeated);
        json_integer(j, "contaminated", t->contaminated);
        json_auroc(j, "confidence", &t->clean_confidence, NULL);
        json_auroc(j, "entropy", &t->clean_entropy, NULL);
        json_close(j, '}');
    }
    json_open(j, "sweep", '[');
    for (int i = 0; i < t->n_sweep; i++) {
        json_open(j, NULL, '{');
        json_number(j, "cut", t->sweep[i].cut);
        json_integer(j, "wrong", t->sweep[i].wrong);
        json_auroc(j, "confidence", &t->sweep[i].confidence, NULL);
        json_auroc(j, "entropy", &t->sweep[i].entropy, NULL);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_open(j, "reliability", '[');
    for (int i = 0; i < t->n_bins; i++) {
        json_open(j, NULL, '{');
        json_number(j, "lo", t->bins[i].lo);
        json_number(j, "hi", t->bins[i].hi);
        json_integer(j, "n", t->bins[i].n);
        json_number(j, "confidence", t->bins[i].confidence);
        json_number(j, "accuracy", t->bins[i].accuracy);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_text(j, "alarms", t->alarms);
}

static int inside(struct interval i, double v)
{
    return !i.why && v >= i.lo && v <= i.hi;
}

static void json_published(struct json_out *j, const char *key, const struct auroc_figure *f, double published)
{
    json_open(j, key, '{');
    json_number(j, "auroc", published);
    json_number(j, "difference", f->auroc.value - published);
    json_boolean(j, "inside_ci95", inside(f->ci95, published));
    json_close(j, '}');
}

static void json_task(struct json_out *j, const struct auroc_task *t, bool bootstrap)
{
    json_open(j, NULL, '{');
    json_text(j, "task", t->task);
    json_integer(j, "n", t->n);
    json_integer(j, "wrong", t->wrong);
    json_integer(j, "unparsed", t->unparsed);
    json_integer(j, "errors", t->n_error);
    json_integer(j, "clusters", t->clusters);
    json_auroc(j, "confidence", &t->confidence, bootstrap ? &t->boot_confidence : NULL);
    json_auroc(j, "entropy", &t->entropy, bootstrap ? &t->boot_entropy : NULL);
    json_figure(j, "p_value", t->p_value);
    json_figure(j, "delta", t->delta);
    const struct { const char *key; struct figure f; } figures[] = {
        {"accuracy", t->accuracy}, {"auprc", t->auprc}, {"prevalence", t->prevalence}, {"aurc", t->aurc},
        {"e_aurc", t->e_aurc}, {"augrc", t->augrc}, {"auarc", t->auarc}, {"prr", t->prr}, {"prr_loss", t->prr_loss},
        {"brier", t->brier}, {"ece", t->ece}, {"ece_equal_mass", t->ece_mass}, {"log_loss", t->log_loss}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_figure(j, figures[i].key, figures[i].f);
    json_number(j, "tie_mass", t->tie_mass);
    if (t->published) {
        json_open(j, "published", '{');
        json_published(j, "confidence", &t->confidence, t->published->confidence);
        json_published(j, "entropy", &t->entropy, t->published->entropy);
        json_close(j, '}');
    }
    json_details(j, t);
    json_close(j, '}');
}

static void json_run(struct json_out *j, const struct auroc_run *run, bool bootstrap)
{
    json_open(j, "tasks", '[');
    for (int i = 0; i < run->n_tasks; i++)
        json_task(j, &run->tasks[i], bootstrap);
    json_close(j, ']');
    json_open(j, "mean", '{');
    json_figure(j, "confidence", run->mean_confidence);
    json_figure(j, "entropy", run->mean_entropy);
    json_integer(j, "tasks", run->n_mean);
    json_interval(j, "confidence_ci95", run->mean_confidence_ci95);
    json_interval(j, "entropy_ci95", run->mean_entropy_ci95);
    json_close(j, '}');
}

void json_definitions(struct json_out *j, const struct definitions *d)
{
    json_open(j, "definitions", '{');
    json_text(j, "wrong", "transcription: WER > tau; else the task's verdict; without one score < cut");
    json_number(j, "tau", d->tau);
    json_number(j, "cut", d->cut);
    json_text(j, "entropy", d->entropy);
    json_text(j, "entropy_unit", "nats");
    json_text(j, "handoff", "confidence < threshold");
    json_number(j, "threshold", d->threshold);
    json_integer(j, "resamples", d->resamples);
    json_integer(j, "seed", d->seed);
    json_close(j, '}');
}

/* The first run's tasks stand at the top; further runs follow under "runs". */
static void auroc_json(const struct auroc_result *r, struct text *out)
{
    struct json_out j = {.out = out};
    json_open(&j, NULL, '{');
    json_text(&j, "run", r->runs[0].name);
    json_run(&j, &r->runs[0], r->definitions.resamples > 0);
    if (r->n_runs > 1) {
        json_open(&j, "runs", '[');
        for (int i = 1; i < r->n_runs; i++) {
            json_open(&j, NULL, '{');
            json_text(&j, "run", r->runs[i].name);
            json_run(&j, &r->runs[i], r->definitions.resamples > 0);
            json_close(&j, '}');
        }
        json_close(&j, ']');
        json_open(&j, "paired", '[');
        for (int i = 0; i < r->n_pairs; i++) {
            const struct auroc_pair *p = &r->pairs[i];
            json_open(&j, NULL, '{');
            json_text(&j, "run", p->run);
            json_text(&j, "base", r->runs[0].name);
            json_text(&j, "task", p->task);
            json_integer(&j, "n", p->n);
            json_figure(&j, "auroc_delta", p->delta);
            json_interval(&j, "ci95", p->ci95);
            json_figure(&j, "p_value", p->p_value);
            json_text(&j, "interval", p->jackknife ? "jackknife" : "bootstrap");
            json_close(&j, '}');
        }
        json_close(&j, ']');
    }
    json_definitions(&j, &r->definitions);
    json_close(&j, '}');
    text_putc(out, '\n');
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void auroc_cell(struct table *t, const struct auroc_figure *f)
{
    struct text shown = {0}, csv = {0};
    if (f->auroc.why) {
        table_cell(t, "-", ",,");
        return;
    }
    put_number(&shown, ".3", f->auroc.value);
    text_put_double(&csv, f->auroc.value);
    text_putc(&csv, ',');
    if (!f->ci95.why) {
        text_putc(&shown, ' ');
        put_interval(&shown, ".3", f->ci95);
        text_put_double(&csv, f->ci95.lo);
        text_putc(&csv, ',');
        text_put_double(&csv, f->ci95.hi);
    } else {
        text_putc(&csv, ',');
    }
    table_cell(t, shown.data, csv.data);
    text_free(&shown);
    text_free(&csv);
}

/* The published figure and where it lies: = inside our interval, + ours is higher, - ours is lower. */
static void published_cell(struct table *t, const struct auroc_figure *f, const double *published)
{
    struct text shown = {0}, csv = {0};
    if (published) {
        put_number(&shown, ".3", *published);
        text_put_double(&csv, *published);
        if (!f->ci95.why)
            text_puts(&shown, inside(f->ci95, *published) ? " =" : f->auroc.value > *published ? " +" : " -");
    }
    table_cell(t, shown.data ? shown.data : "", csv.data ? csv.data : "");
    text_free(&shown);
    text_free(&csv);
}

static bool any_published(const struct auroc_run *run)
{
    for (int i = 0; i < run->n_tasks; i++)
        if (run->tasks[i].published)
            return true;
    return false;
}

static void main_row(struct table *t, const struct auroc_task *task, bool published)
{
    const struct published *p = task->published;
    table_text(t, task->task);
    table_int(t, task->n);
    table_int(t, task->wrong);
    auroc_cell(t, &task->confidence);
    if (published)
        published_cell(t, &task->confidence, p ? &p->confidence : NULL);
    auroc_cell(t, &task->entropy);
    if (published)
        published_cell(t, &task->entropy, p ? &p->entropy : NULL);
    table_p_value(t, task->p_value);
    table_cell(t, task->alarms[0] ? "!" : "", "");
}

static void mean_row(struct table *t, const struct auroc_run *run, bool published)
{
    struct auroc_figure confidence = {run->mean_confidence, figure_undefined(""), run->mean_confidence_ci95};
    struct auroc_figure entropy = {run->mean_entropy, figure_undefined(""), run->mean_entropy_ci95};
    table_rule(t);
    table_text(t, "mean");
    table_cell(t, "", "");
    table_cell(t, "", "");
    auroc_cell(t, &confidence);
    if (published)
        table_cell(t, "", "");
    auroc_cell(t, &entropy);
    if (published)
        table_cell(t, "", "");
    table_cell(t, "", "");
    table_cell(t, "", "");
}

static void put_alarms(struct text *notes, const struct auroc_run *run)
{
    for (int i = 0; i < run->n_tasks; i++)
        if (run->tasks[i].alarms[0])
            text_printf(notes, "! %s: %s\n", run->tasks[i].task, run->tasks[i].alarms);
}

static void put_definitions(struct text *notes, const struct auroc_result *r, const struct auroc_run *run,
                            bool published)
{
    const struct definitions *d = &r->definitions;
    int64_t unparsed = 0;
    bool speech = false;
    for (int i = 0; i < run->n_tasks; i++) {
        unparsed += run->tasks[i].unparsed;
        speech |= run->tasks[i].n_sweep > 0 && strcmp(run->tasks[i].modality, "audio") == 0;
    }
    text_puts(notes, "AUROC: chance that a wrong answer has less confidence (more entropy) than a right one, ties "
                     "count half.\n");
    text_puts(notes, "[ ]: 95% interval by DeLong, on the logit scale below 50 wrong answers. p: paired DeLong, "
                     "confidence against entropy.\n");
    text_printf(notes, "Wrong: the task's own verdict%s", speech ? "; speech: WER > " : "");
    if (speech)
        text_put_double(notes, d->tau);
    if (unparsed)
        text_printf(notes, "; %" PRId64 " unparsed answers count as wrong", unparsed);
    text_printf(notes, ". Entropy: %s over the answer's tokens, in nats.\n", d->entropy);
    if (published)
        text_puts(notes, "Published (cactus, cactus_hybrid.md; no sample counts or intervals there): = inside our "
                         "interval, + ours is higher, - ours is lower.\n");
    if (run->n_mean < run->n_tasks)
        text_printf(notes, "Mean: over the %d hold-outs where both are defined.\n", run->n_mean);
    if (run->n_mean > 1)
        text_puts(notes, "Mean's interval: the hold-outs' samples are independent of each other.\n");
    put_alarms(notes, run);
}

static void main_table(struct table *t, const struct auroc_result *r, const struct auroc_run *run)
{
    bool published = any_published(run);
    t->title = arena_printf(&t->arena, "AUROC by hold-out: %s", run->name);
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "n", "n", ALIGN_RIGHT);
    table_column(t, "wrong", "wrong", ALIGN_RIGHT);
    table_column(t, "probe", "confidence_auroc,confidence_lo,confidence_hi", ALIGN_LEFT);
    if (published)
        table_column(t, "publ.", "published_confidence", ALIGN_LEFT);
    table_column(t, "entropy", "entropy_auroc,entropy_lo,entropy_hi", ALIGN_LEFT);
    if (published)
        table_column(t, "publ.", "published_entropy", ALIGN_LEFT);
    table_column(t, "p", "p_value", ALIGN_RIGHT);
    table_column(t, "", NULL, ALIGN_LEFT);
    for (int i = 0; i < run->n_tasks; i++)
        main_row(t, &run->tasks[i], published);
    mean_row(t, run, published);
    put_definitions(&t->notes, r, run, published);
}

static void selective_table(struct table *t, const struct auroc_run *run)
{
    t->title = arena_printf(&t->arena, "Selection and calibration: %s", run->name);
    static const char *const heads[][2] = {
        {"right", "accuracy"}, {"AUPRC", "auprc"}, {"AURC", "aurc"}, {"E-AURC", "e_aurc"}, {"AUGRC", "augrc"},
        {"AUARC", "auarc"}, {"PRR", "prr"}, {"PRR loss", "prr_loss"}, {"Brier", "brier"}, {"log loss", "log_loss"},
        {"ECE", "ece"}, {"ECE mass", "ece_equal_mass"}};
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_column(t, heads[i][0], heads[i][1], ALIGN_RIGHT);
    table_column(t, "ties", "tie_mass", ALIGN_RIGHT);
    for (int i = 0; i < run->n_tasks; i++) {
        const struct auroc_task *a = &run->tasks[i];
        const struct figure f[] = {a->accuracy, a->auprc, a->aurc, a->e_aurc, a->augrc, a->auarc, a->prr, a->prr_loss,
                                   a->brier, a->log_loss, a->ece, a->ece_mass};
        table_text(t, a->task);
        for (size_t k = 0; k < sizeof f / sizeof *f; k++)
            table_figure(t, f[k], ".3");
        table_number(t, a->tie_mass, "0%");
    }
    text_puts(&t->notes, "AUPRC: average precision of finding wrong answers (its floor is 1 - right). AURC, AUGRC: "
              "lower is better; E-AURC is what an ideal order would save.\n"
              "PRR: 1 is an ideal order, 0 a random one; PRR loss: the same on the continuous loss (WER, 1 - score), "
              "free of any cut.\n"
              "ECE: 15 equal-width bins; ECE mass: 15 bins of equal size. Ties: share of samples whose confidence "
              "occurs more than once; they move as a block.\n");
}

static void unparsed_table(struct table *t, const struct auroc_run *run)
{
    t->title = arena_printf(&t->arena, "With and without unparsed answers: %s", run->name);
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "n", "n", ALIGN_RIGHT);
    table_column(t, "unparsed", "unparsed", ALIGN_RIGHT);
    table_column(t, "probe", "confidence_auroc,confidence_lo,confidence_hi", ALIGN_LEFT);
    table_column(t, "without", "parsed_confidence_auroc,parsed_confidence_lo,parsed_confidence_hi", ALIGN_LEFT);
    table_column(t, "entropy without", "parsed_entropy_auroc,parsed_entropy_lo,parsed_entropy_hi", ALIGN_LEFT);
    for (int i = 0; i < run->n_tasks; i++) {
        const struct auroc_task *a = &run->tasks[i];
        if (!a->unparsed)
            continue;
        table_text(t, a->task);
        table_int(t, a->n);
        table_int(t, a->unparsed);
        auroc_cell(t, &a->confidence);
        auroc_cell(t, &a->parsed_confidence);
        auroc_cell(t, &a->parsed_entropy);
    }
}

static void clean_table(struct table *t, const struct auroc_run *run)
{
    t->title = arena_printf(&t->arena, "With and without repeated and contaminated questions: %s", run->name);
    text_puts(&t->notes, "Repeated: the same question, choices and media as an earlier one. Contaminated: on the list that "
              "the suite names, or in another split of the set.\n");
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "n", "n", ALIGN_RIGHT);
    table_column(t, "repeated", "repeated", ALIGN_RIGHT);
    table_column(t, "contaminated", "contaminated", ALIGN_RIGHT);
    table_column(t, "n without", "n_clean", ALIGN_RIGHT);
    table_column(t, "probe", "confidence_auroc,confidence_lo,confidence_hi", ALIGN_LEFT);
    table_column(t, "without", "clean_confidence_auroc,clean_confidence_lo,clean_confidence_hi", ALIGN_LEFT);
    table_column(t, "entropy without", "clean_entropy_auroc,clean_entropy_lo,clean_entropy_hi", ALIGN_LEFT);
    for (int i = 0; i < run->n_tasks; i++) {
        const struct auroc_task *a = &run->tasks[i];
        if (a->n_clean == a->n)
            continue;
        table_text(t, a->task);
        table_int(t, a->n);
        table_int(t, a->repeated);
        table_int(t, a->contaminated);
        table_int(t, a->n_clean);
        auroc_cell(t, &a->confidence);
        auroc_cell(t, &a->clean_confidence);
        auroc_cell(t, &a->clean_entropy);
    }
}

static void sweep_table(struct table *t, const struct auroc_run *run)
{
    t->title = arena_printf(&t->arena, "AUROC by what counts as wrong: %s", run->name);
    text_puts(&t->notes, "Cuts that mark the same answers as the one above are left out.\n");
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "wrong if", "cut", ALIGN_LEFT);
    table_column(t, "wrong", "wrong", ALIGN_RIGHT);
    table_column(t, "probe", "confidence_auroc,confidence_lo,confidence_hi", ALIGN_LEFT);
    table_column(t, "entropy", "entropy_auroc,entropy_lo,entropy_hi", ALIGN_LEFT);
    for (int i = 0; i < run->n_tasks; i++)
        for (int k = 0; k < run->tasks[i].n_sweep; k++) {
            const struct sweep_row *s = &run->tasks[i].sweep[k];
            struct text shown = {0}, csv = {0};
            text_puts(&shown, strcmp(run->tasks[i].modality, "audio") == 0 ? "WER > " : "score < ");
            text_put_double(&shown, s->cut);
            text_put_double(&csv, s->cut);
            table_text(t, run->tasks[i].task);
            table_cell(t, shown.data, csv.data);
            table_int(t, s->wrong);
            auroc_cell(t, &s->confidence);
            auroc_cell(t, &s->entropy);
            text_free(&shown);
            text_free(&csv);
        }
}

static void paired_table(struct table *t, const struct auroc_result *r)
{
    bool jackknife = false;
    t->title = arena_printf(&t->arena, "AUROC of the probe against %s, same samples", r->runs[0].name);
    table_column(t, "run", "run", ALIGN_LEFT);
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "n", "n", ALIGN_RIGHT);
    table_column(t, "difference", "auroc_delta", ALIGN_RIGHT);
    table_column(t, "95%", "delta_lo,delta_hi", ALIGN_LEFT);
    table_column(t, "p", "p_value", ALIGN_RIGHT);
    for (int i = 0; i < r->n_pairs; i++) {
        const struct auroc_pair *p = &r->pairs[i];
        table_text(t, p->run);
        table_text(t, p->task);
        table_int(t, p->n);
        table_figure(t, p->delta, "+.3");
        table_interval(t, p->ci95, "+.3");
        table_p_value(t, p->p_value);
        jackknife |= p->jackknife;
    }
    if (jackknife)
        text_puts(&t->notes, "With more than 200000 samples by the infinitesimal jackknife, not the bootstrap; "
                             "--bootstrap N resamples all the same.\n");
}

void report_auroc_detail(const struct auroc_run *run, enum report_format format, struct text *out)
{
    void (*const tables[])(struct table *, const struct auroc_run *) = {selective_table, unparsed_table, clean_table,
                                                                              sweep_table};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        struct table t = {0};
        tables[k](&t, run);
        table_print(&t, format, out);
    }
}

void report_auroc(const struct auroc_result *r, enum report_format format, bool detail, struct text *out)
{
    if (format == FORMAT_JSON) {
        auroc_json(r, out);
        return;
    }
    for (int i = 0; i < r->n_runs; i++) {
        struct table t = {0};
        main_table(&t, r, &r->runs[i]);
        table_print(&t, format, out);
        if (detail)
            report_auroc_detail(&r->runs[i], format, out);
    }
    if (r->n_pairs) {
        struct table t = {0};
        paired_table(&t, r);
        table_print(&t, format, out);
    }
}
