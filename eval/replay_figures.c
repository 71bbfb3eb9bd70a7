/* replay_figures.c - what replayed answers say: drift at equal text, by task. */
#include "eval/inputs.h"
#include "eval/replay.h"

#include <math.h>
#include <stdlib.h>

/* Values of the answers in tasks [first, last), with their groups. */
struct drifts { double *base, *other, *drift; const struct record **row; size_t n; };

static double value_of(const struct reading *r, bool entropy)
{
    return entropy ? r->entropy : r->confidence;
}

static void collect(struct drifts *d, const struct replayed *r, int first, int last, int subject, bool entropy)
{
    size_t room = 0;
    for (int t = first; t < last; t++)
        room += (size_t)r->tasks[t].n;
    *d = (struct drifts){NEW(double, room), NEW(double, room), NEW(double, room), NEW(const struct record *, room), 0};
    for (int t = first; t < last; t++)
        for (int64_t i = 0; i < r->tasks[t].n; i++) {
            const struct replayed_answer *a = &r->tasks[t].answers[i];
            const double x = value_of(&a->readings[0], entropy), y = value_of(&a->readings[subject], entropy);
            if (isnan(x) || isnan(y))
                continue;
            d->base[d->n] = x;
            d->other[d->n] = y;
            d->drift[d->n] = y - x;
            d->row[d->n++] = a->row;
        }
}

struct estimate estimate_mean(const double *v, const struct record *const *row, size_t n, int64_t resamples,
                              int64_t seed)
{
    static const char why[] = "no answer has a value in both";
    struct resampling how = {.seed = (uint64_t)seed, .n_resamples = (size_t)resamples, .n_threads = 1};
    struct estimate out = {figure_undefined(why), interval_undefined(why)};
    double sum = 0;
    if (n == 0)
        return out;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    uint32_t *group = groups_of(row, n, &how.n_groups);
    how.group = group;
    out.mean = figure_of(sum / (double)n);
    out.ci95 = how.n_groups > 1 ? mean_bootstrap(v, n, &how)
                                : interval_undefined("samples that stand or fall together have no spread");
    free(group);
    return out;
}

static struct figure mean_of(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return n ? figure_of(sum / (double)n) : figure_undefined("no answer has a value in both");
}

static void set_value(struct figure *base, struct figure *other, struct estimate *drift, const struct replayed *r,
                      int first, int last, int subject, bool entropy)
{
    struct drifts d;
    collect(&d, r, first, last, subject, entropy);
    *base = mean_of(d.base, d.n);
    *other = mean_of(d.other, d.n);
    *drift = estimate_mean(d.drift, d.row, d.n, REPLAY_RESAMPLES, REPLAY_SEED);
    free(d.base);
    free(d.other);
    free(d.drift);
    free(d.row);
}

static void set_divergence(struct replay_row *row, const struct parity *p)
{
    const size_t n = (size_t)p->n;
    const double n_next = (double)p->n_next;
    row->positions = p->n;
    row->kl_mean = parity_mean_kl(p);
    row->kl_median = percentile_sorted(p->kl, n, 0.5);
    row->kl_99 = percentile_sorted(p->kl, n, 0.99);
    row->kl_max = p->kl[n - 1];
    row->same_top = (double)p->n_same_top / (double)n;
    row->dp_rms = figure_of(sqrt(p->dp_squares / n_next));
    row->perplexity_ratio = figure_of(exp(-p->log_ratio / n_next));
}

static struct replay_row make_row(const struct replayed *r, const char *task, int first, int last, int subject,
                                  const struct parity *parity)
{
    struct replay_row row = {.task = task};
    for (int t = first; t < last; t++)
        row.n += r->tasks[t].n;
    set_value(&row.confidence_base, &row.confidence, &row.confidence_drift, r, first, last, subject, false);
    set_value(&row.entropy_base, &row.entropy, &row.entropy_drift, r, first, last, subject, true);
    set_divergence(&row, parity);
    return row;
}

void replay_result_make(struct replay_result *out, const struct replayed *r, const struct records *run,
                        const struct subject *subjects, struct arena *a)
{
    struct replay_model *models = ARENA_NEW(a, struct replay_model, r->n_subjects);
    for (int k = 1; k < r->n_subjects; k++) {
        struct replay_row *rows = ARENA_NEW(a, struct replay_row, r->n_tasks + 1);
        int n = 0;
        for (int t = 0; t < r->n_tasks; t++)
            rows[n++] = make_row(r, r->tasks[t].task, t, t + 1, k, &r->tasks[t].parity[k - 1]);
        if (r->n_tasks > 1)
            rows[n++] = make_row(r, "all", 0, r->n_tasks, k, &r->all[k - 1]);
        models[k - 1] = (struct replay_model){engine_info(subjects[k].m)->path, n, rows};
    }
    *out = (struct replay_result){run->name, engine_info(subjects[0].m)->path, r->self_difference, r->n_subjects - 1,
                                  models};
}
