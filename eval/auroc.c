/* auroc.c - one task's columns to the row of the AUROC table. */
#include "eval/auroc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* cactus-compute, docs/cactus_hybrid.md: AUROC of the probe and of token entropy. */
static const struct { const char *task; struct published figures; } published_table[] = {
    {"mmlu", {0.770, 0.697}}, {"mmlu-pro", {0.771, 0.692}}, {"arc-easy", {0.888, 0.655}},
    {"arc-challenge", {0.834, 0.646}}, {"gsm8k", {0.782, 0.731}}, {"mmbench", {0.840, 0.435}},
    {"chartqa", {0.779, 0.615}}, {"docvqa", {0.781, 0.512}}, {"mmau", {0.789, 0.517}},
    {"gigaspeech", {0.876, 0.343}}, {"earnings22", {0.839, 0.323}}, {"librispeech", {0.822, 0.427}}};

enum { PUBLISHED_MIN_N = 500, FEW_WRONG = 10, FEW_SAMPLES = 100 };

const struct published *published_auroc(const char *task)
{
    for (size_t i = 0; i < sizeof published_table / sizeof *published_table; i++)
        if (strcmp(published_table[i].task, task) == 0)
            return &published_table[i].figures;
    return NULL;
}

static struct auroc_figure undefined_auroc(const char *why)
{
    return (struct auroc_figure){figure_undefined(why), figure_undefined(why), interval_undefined(why)};
}

/* Rows without a score (NaN) stay out. */
static struct auroc_figure auroc_of(const double *score, enum orientation orientation, const uint8_t *wrong, size_t n)
{
    struct ranking r;
    if (ranking_make(&r, score, wrong, NULL, n, orientation, NAN_IS_EXCLUDED, NULL))
        return undefined_auroc("the scores cannot be ranked");
    struct delong d = delong(&r);
    struct auroc_figure f = {d.auroc, d.se, delong_interval(&d, r.n_wrong)};
    ranking_free(&r);
    return f;
}

struct scores { const struct columns *c; struct auroc_task *t; const struct auroc_options *o; struct arena *arena; };

static void selective_figures(const struct scores *s)
{
    const struct columns *c = s->c;
    struct auroc_task *t = s->t;
    struct ranking r;
    if (ranking_make(&r, c->confidence, c->wrong, NULL, c->n, HIGHER_IS_RIGHT, NAN_IS_EXCLUDED, NULL))
        return;
    struct selective v = selective(&r);
    size_t alone = 0;
    for (size_t b = 0; b < r.n_blocks; b++)
        alone += r.weight[b] == 1;
    t->tie_mass = c->n ? 1 - (double)alone / (double)c->n : 0;
    t->auprc = auprc(&r);
    struct figure undefined = figure_undefined(v.why);
    t->aurc = v.why ? undefined : figure_of(v.aurc);
    t->e_aurc = v.why ? undefined : figure_of(v.e_aurc);
    t->augrc = v.why ? undefined : figure_of(v.augrc);
    t->auarc = v.why ? undefined : figure_of(v.auarc);
    t->prr = v.why ? undefined : v.prr;
    ranking_free(&r);
}

static void loss_figures(const struct scores *s)
{
    const struct columns *c = s->c;
    s->t->prr_loss = s->t->prr;
    if (!c->wer && !c->graded)
        return;
    double *loss = NEW(double, c->n);
    for (size_t i = 0; i < c->n; i++) {
        bool words = c->wer && c->words[i].words;
        loss[i] = words ? (double)c->words[i].edits / (double)c->words[i].words : 1 - c->score[i];
    }
    struct ranking r;
    if (ranking_make_loss(&r, c->confidence, loss, c->n, HIGHER_IS_RIGHT, NAN_IS_EXCLUDED, NULL) == 0) {
        struct selective v = selective(&r);
        s->t->prr_loss = v.why ? figure_undefined(v.why) : v.prr;
        ranking_free(&r);
    }
    free(loss);
}

static void calibration_figures(const struct scores *s)
{
    const struct columns *c = s->c;
    struct auroc_task *t = s->t;
    struct calibration v = calibration(c->confidence, c->wrong, c->n);
    struct figure undefined = figure_undefined(v.why);
    t->brier = v.why ? undefined : figure_of(v.brier);
    t->log_loss = v.why ? undefined : figure_of(v.log_loss);
    t->ece = v.why ? undefined : figure_of(v.ece_15);
    t->ece_mass = v.why ? undefined : figure_of(v.ece_15_equal_mass);
    if (v.why)
        return;
    struct bin bins[N_RELIABILITY_BINS];
    struct reliability_row *rows = ARENA_NEW(s->arena, struct reliability_row, N_RELIABILITY_BINS);
    reliability_equal_width(c->confidence, c->wrong, c->n, bins, N_RELIABILITY_BINS);
    for (int i = 0; i < N_RELIABILITY_BINS; i++)
        rows[i] = (struct reliability_row){(int64_t)bins[i].n, bins[i].lo, bins[i].hi, bins[i].mean_confidence,
                                           bins[i].accuracy};
    t->bins = rows;
    t->n_bins = N_RELIABILITY_BINS;
}

/* Confidence against entropy, on the rows that have both. */
static void paired_figures(const struct scores *s)
{
    const struct columns *c = s->c;
    struct auroc_task *t = s->t;
    if (!c->has_entropy) {
        t->p_value = t->delta = figure_undefined("no entropy is recorded");
        return;
    }
    if (c->n_no_entropy == 0) {         /* with a confidence in one row there is one in all: none need be left out */
        struct delong_pair p = delong_paired(c->confidence, HIGHER_IS_RIGHT, c->entropy, HIGHER_IS_WRONG, c->wrong, c->n);
        t->p_value = p.p;
        t->delta = p.delta;
        return;
    }
    double *confidence = NEW(double, c->n), *entropy = NEW(double, c->n);
    uint8_t *wrong = NEW(uint8_t, c->n);
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!isnan(c->entropy[i]) && !isnan(c->confidence[i])) {
            confidence[n] = c->confidence[i];
            entropy[n] = c->entropy[i];
            wrong[n++] = c->wrong[i];
        }
    struct delong_pair p = delong_paired(confidence, HIGHER_IS_RIGHT, entropy, HIGHER_IS_WRONG, wrong, n);
    t->p_value = p.p;
    t->delta = p.delta;
    free(confidence);
    free(entropy);
    free(wrong);
}

/* The figures on the rows that carry none of the flags. */
static void without(const struct scores *s, unsigned flags, struct auroc_figure *of_confidence,
                    struct auroc_figure *of_entropy)
{
    const struct columns *c = s->c;
    double *confidence = NEW(double, c->n), *entropy = NEW(double, c->n);
    for (size_t i = 0; i < c->n; i++) {
        bool out = c->flags[i] & flags;
        confidence[i] = out ? NAN : c->confidence[i];
        entropy[i] = out ? NAN : c->entropy[i];
    }
    if (c->has_confidence)
        *of_confidence = auroc_of(confidence, HIGHER_IS_RIGHT, c->wrong, c->n);
    if (c->has_entropy)
        *of_entropy = auroc_of(entropy, HIGHER_IS_WRONG, c->wrong, c->n);
    free(confidence);
    free(entropy);
}

static void without_some(const struct scores *s)
{
    struct auroc_task *t = s->t;
    t->parsed_confidence = t->clean_confidence = t->confidence;
    t->parsed_entropy = t->clean_entropy = t->entropy;
    if (t->unparsed)
        without(s, REC_UNPARSED, &t->parsed_confidence, &t->parsed_entropy);
    if (t->n_clean < t->n)
        without(s, REC_REPEATED | REC_CONTAMINATED, &t->clean_confidence, &t->clean_entropy);
}

/* What "wrong" means is a choice for graded answers: the AUROC at other choices. */
static void sweep(const struct scores *s)
{
    static const double taus[] = {0, 0.05, 0.1, 0.2, 0.3, 0.5}, cuts[] = {0.3, 0.5, 0.7, 0.8, 0.9, 1};
    const struct columns *c = s->c;
    enum { N_CUTS = sizeof taus / sizeof *taus };
    if (!c->wer && !c->graded)
        return;
    struct sweep_row *rows = ARENA_NEW(s->arena, struct sweep_row, N_CUTS);
    uint8_t *wrong = NEW(uint8_t, c->n);
    int n = 0;
    for (int k = 0; k < N_CUTS; k++) {
        struct sweep_row *row = &rows[n];
        *row = (struct sweep_row){.cut = c->wer ? taus[k] : cuts[k]};
        for (size_t i = 0; i < c->n; i++) {
            wrong[i] = c->wer ? (double)c->words[i].edits > taus[k] * (double)c->words[i].words
                              : c->score[i] < cuts[k];
            row->wrong += wrong[i];
        }
        if (n && row->wrong == row[-1].wrong)           /* the sets are nested: the same count is the same set */
            continue;
        row->confidence = c->has_confidence ? auroc_of(c->confidence, HIGHER_IS_RIGHT, wrong, c->n) :
                                              s->t->confidence;
        row->entropy = c->has_entropy ? auroc_of(c->entropy, HIGHER_IS_WRONG, wrong, c->n) : s->t->entropy;
        n++;
    }
    free(wrong);
    s->t->sweep = rows;
    s->t->n_sweep = n;
}

static void bootstrap(const struct scores *s)
{
    const struct columns *c = s->c;
    struct auroc_task *t = s->t;
    t->boot_confidence = t->boot_entropy = interval_undefined("no bootstrap was asked for");
    if (s->o->resamples == 0)
        return;
    struct resampling how = {(uint64_t)s->o->seed, (size_t)s->o->resamples, (int)s->o->threads, c->group, c->n_groups};
    if (c->has_confidence)
        t->boot_confidence = auroc_bootstrap(c->confidence, HIGHER_IS_RIGHT, c->wrong, c->n, &how);
    if (c->has_entropy && c->n_no_entropy == 0)
        t->boot_entropy = auroc_bootstrap(c->entropy, HIGHER_IS_WRONG, c->wrong, c->n, &how);
}

/* ---- alarms ----------------------------------------------------------------------------------------------------- */

static void alarm_separator(struct text *t)
{
    if (t->len)
        text_puts(t, "; ");
}

static void alarm_inverted(struct text *out, const char *what, const struct auroc_figure *f)
{
    if (f->auroc.why || f->auroc.value >= 0.5)
        return;
    alarm_separator(out);
    text_printf(out, "AUROC of the %s is below 0.5%s", what,
                !f->ci95.why && f->ci95.hi < 0.5 ? ": it ranks the wrong way round" : ": no better than chance");
}

static bool wrong_in_one_group(const struct columns *c)
{
    uint32_t group = 0;
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!c->wrong[i])
            continue;
        if (n++ && c->group[i] != group)
            return false;
        group = c->group[i];
    }
    return n > 1;
}

static const char *alarms(const struct scores *s)
{
    const struct auroc_task *t = s->t;
    struct text out = {0};
    int64_t right = t->n - t->wrong, few = right < t->wrong ? right : t->wrong;
    if (few < FEW_WRONG)
        text_printf(&out, "only %" PRId64 " %s answer%s: the figure says little", few,
                    right < t->wrong ? "right" : "wrong", few == 1 ? "" : "s");
    else if (t->n < FEW_SAMPLES)
        text_printf(&out, "fewer than %d samples", FEW_SAMPLES);
    alarm_inverted(&out, "probe", &t->confidence);
    alarm_inverted(&out, "entropy", &t->entropy);
    if (t->tie_mass > 0.2) {
        alarm_separator(&out);
        text_printf(&out, "%.0f%% of the samples share their confidence with another (rounded or saturated)",
                    t->tie_mass * 100);
    }
    if (t->n && (double)t->unparsed > 0.05 * (double)t->n) {
        alarm_separator(&out);
        text_printf(&out, "%.0f%% unparsed: see --detail for the figure without them",
                    100.0 * (double)t->unparsed / (double)t->n);
    }
    if (t->n_clean < t->n) {
        alarm_separator(&out);
        text_printf(&out, "%" PRId64 " repeated and %" PRId64 " contaminated questions: see --detail for the figure "
                    "without them", t->repeated, t->contaminated);
    }
    if (s->c->group && s->c->n_groups < s->c->n && wrong_in_one_group(s->c)) {
        alarm_separator(&out);
        text_puts(&out, "every wrong answer belongs to one group");
    }
    if (s->c->n_dropped) {
        alarm_separator(&out);
        text_printf(&out, "%zu sample%s without confidence left out", s->c->n_dropped,
                    s->c->n_dropped == 1 ? "" : "s");
    }
    if (s->c->has_entropy && s->c->n_no_entropy) {
        alarm_separator(&out);
        text_printf(&out, "%zu sample%s without entropy left out of its figure", s->c->n_no_entropy,
                    s->c->n_no_entropy == 1 ? "" : "s");
    }
    const char *kept = arena_strndup(s->arena, out.data ? out.data : "", out.len);
    text_free(&out);
    return kept;
}

/* ---- a task, a run ---------------------------------------------------------------------------------------------- */

static void without_confidence(struct auroc_task *t)
{
    static const char why[] = "no confidence is recorded (a checkpoint without a probe)";
    t->confidence = undefined_auroc(why);
    t->auprc = t->aurc = t->e_aurc = t->augrc = t->auarc = t->prr = t->prr_loss = t->brier = t->ece = t->ece_mass =
        t->log_loss = t->p_value = t->delta = figure_undefined(why);
}

static void make_task(const struct scores *s)
{
    const struct columns *c = s->c;
    struct auroc_task *t = s->t;
    t->n = (int64_t)c->n;
    for (size_t i = 0; i < c->n; i++) {
        t->wrong += c->wrong[i];
        t->unparsed += (c->flags[i] & REC_UNPARSED) != 0;
        t->repeated += (c->flags[i] & REC_REPEATED) != 0;
        t->contaminated += (c->flags[i] & REC_CONTAMINATED) != 0;
        t->n_clean += !(c->flags[i] & (REC_REPEATED | REC_CONTAMINATED));
    }
    t->clusters = (int64_t)c->n_groups;
    t->grouped = c->n_groups < c->n;
    t->prevalence = figure_of(c->n ? (double)t->wrong / (double)c->n : NAN);
    t->accuracy = figure_of(c->n ? 1 - t->prevalence.value : NAN);
    t->entropy = c->has_entropy ? auroc_of(c->entropy, HIGHER_IS_WRONG, c->wrong, c->n) :
                                  undefined_auroc("no entropy is recorded");
    if (c->has_confidence) {
        t->confidence = auroc_of(c->confidence, HIGHER_IS_RIGHT, c->wrong, c->n);
        selective_figures(s);
        loss_figures(s);
        calibration_figures(s);
        paired_figures(s);
    } else {
        without_confidence(t);
    }
    without_some(s);
    sweep(s);
    bootstrap(s);
    t->alarms = alarms(s);
}

/* Mean over the hold-outs where both scores have an AUROC; its interval takes hold-outs as independent. */
static void macro_means(struct auroc_run *run)
{
    struct delong *confidence = NEW(struct delong, run->n_tasks), *entropy = NEW(struct delong, run->n_tasks);
    int n = 0;
    for (int i = 0; i < run->n_tasks; i++) {
        const struct auroc_task *t = &run->tasks[i];
        if (t->confidence.auroc.why || (t->entropy.auroc.why))
            continue;
        const struct auroc_figure *of[2] = {&t->confidence, &t->entropy};
        for (int k = 0; k < 2; k++)
            (k ? entropy : confidence)[n] = (struct delong){
                .auroc = of[k]->auroc, .se = of[k]->se,
                .var = of[k]->se.why ? of[k]->se : figure_of(of[k]->se.value * of[k]->se.value)};
        n++;
    }
    struct macro_mean c = macro_mean(confidence, (size_t)n), h = macro_mean(entropy, (size_t)n);
    run->n_mean = n;
    run->mean_confidence = c.mean;
    run->mean_entropy = h.mean;
    run->mean_confidence_ci95 = c.wald;
    run->mean_entropy_ci95 = h.wald;
    free(confidence);
    free(entropy);
}

int auroc_run_make(struct auroc_run *out, const struct inputs *in, const struct auroc_options *o, struct records *r,
                   bool last_use, struct arena *a, struct err *e)
{
    struct auroc_task *tasks = ARENA_NEW(a, struct auroc_task, r->n_tasks);
    struct columns *columns = NEW(struct columns, r->n_tasks);
    int n = 0, failed = 0;
    *out = (struct auroc_run){.name = r->name, .tasks = tasks};
    for (int i = 0; i < r->n_tasks && !failed; i++) {
        const struct record_task *from = &r->tasks[i];
        if (!inputs_want(in, from->name) || from->n == 0)
            continue;
        failed = columns_make_detached(&columns[n], in, r, i, e);
        tasks[n++] = (struct auroc_task){.task = from->name, .modality = from->modality, .n_error = from->n_error};
    }
    if (last_use)
        records_forget_rows(r);
    for (int i = 0; i < n; i++) {
        struct auroc_task *t = &tasks[i];
        if (!failed)
            make_task(&(struct scores){&columns[i], t, o, a});
        if (!o->no_published && (o->published || t->n >= PUBLISHED_MIN_N))
            t->published = published_auroc(t->task);
        columns_free(&columns[i]);
    }
    free(columns);
    if (failed)
        return -1;
    out->n_tasks = n;
    macro_means(out);
    return 0;
}
