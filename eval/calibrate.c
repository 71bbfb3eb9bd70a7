/* calibrate.c - one quant's samples, split in two: thresholds are found on the one part and counted on the other.
 *
 * The side of a sample follows from the seed and its group (or itself) alone, so every quant is split alike and samples
 * that belong together stay together.
 */
#include "eval/calibrate.h"
#include "eval/calib.h"
#include "eval/curve.h"
#include "eval/special.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One side of the split: confidence, right here, right at the reference. */
struct part { size_t n, cap; double *confidence, *local, *reference; uint8_t *wrong; };
struct quant { struct part calibration, test; };

static void part_add(struct part *p, double confidence, bool wrong, double reference)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 256;
        p->confidence = mem_grow(p->confidence, p->cap, sizeof *p->confidence);
        p->local = mem_grow(p->local, p->cap, sizeof *p->local);
        p->reference = mem_grow(p->reference, p->cap, sizeof *p->reference);
        p->wrong = mem_grow(p->wrong, p->cap, sizeof *p->wrong);
    }
    p->confidence[p->n] = confidence;
    p->local[p->n] = !wrong;
    p->reference[p->n] = reference;
    p->wrong[p->n++] = wrong;
}

static void part_free(struct part *p)
{
    free(p->confidence);
    free(p->local);
    free(p->reference);
    free(p->wrong);
}

static bool on_calibration_side(const struct records *r, const struct record *row, int64_t seed)
{
    uint64_t x = (row->group ? r->group_key[row->group - 1] : row->key) ^ (uint64_t)seed * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) & 1;
}

struct work {
    const struct inputs *in;
    const struct calibrate_options *o;
    const struct calibrate_models *m;
    struct arena *arena;
};

static int add_task(struct quant *q, const struct work *w, const struct records *r, int task, struct err *e)
{
    struct columns c;
    if (columns_make(&c, w->in, r, task, e))
        return -1;
    const struct record **other = NEW(const struct record *, c.n);
    int failed = w->m->reference ? columns_pair(&c, w->in, r, w->m->reference, task, other, e) : 0;
    if (!failed && !c.has_confidence)
        failed = err_input(e, "%s: no record of \"%s\" has a confidence (a checkpoint without a probe?)", r->path,
                           r->tasks[task].name);
    for (size_t i = 0; !failed && i < c.n; i++) {
        bool first = !w->o->split || on_calibration_side(r, c.row[i], w->o->seed);
        double reference = other[i] ? !record_wrong(other[i], (struct wrong_rule){w->in->tau, w->in->cut}) : NAN;
        part_add(first ? &q->calibration : &q->test, c.confidence[i], c.wrong[i], reference);
    }
    free(other);
    columns_free(&c);
    return failed;
}

static void quant_free(struct quant *q)
{
    bool same = q->test.confidence == q->calibration.confidence;
    part_free(&q->calibration);
    if (!same)
        part_free(&q->test);
    *q = (struct quant){0};
}

/* task NULL: all that are wanted. */
static int quant_make(struct quant *q, const struct work *w, const struct records *r, const char *task, struct err *e)
{
    *q = (struct quant){0};
    for (int t = 0; t < r->n_tasks; t++)
        if (r->tasks[t].n && inputs_want(w->in, r->tasks[t].name) && (!task || strcmp(task, r->tasks[t].name) == 0) &&
            add_task(q, w, r, t, e)) {
            quant_free(q);
            return -1;
        }
    if (!w->o->split)
        q->test = q->calibration;
    if (q->calibration.n >= 2 && q->test.n >= 2)
        return 0;
    quant_free(q);
    if (!w->o->split)
        return err_input(e, "%s: too few samples%s%s: at least 2 were expected", r->path, task ? " of " : "",
                         task ? task : "");
    return err_input(e, "%s: too few samples%s%s to split into calibration and test; --split none uses all for both",
                     r->path, task ? " of " : "", task ? task : "");
}

/* ---- thresholds ------------------------------------------------------------------------------------------------- */

enum rule { RULE_DEFAULT, RULE_BASELINE_RATE, RULE_REFERENCE, RULE_REFERENCE_SAFE, RULE_RATE, RULE_ACCURACY,
            RULE_GUARANTEED, RULE_GUARANTEED_GRID, RULE_COST };
static const char *const rule_names[N_THRESHOLD_RULES] = {
    "default", "match_baseline_rate", "match_reference", "match_reference_safe", "rate", "accuracy", "guaranteed",
    "guaranteed_grid", "cost"};

static struct cascade cascade_of(const struct part *p)
{
    return (struct cascade){.n = p->n, .confidence = p->confidence, .local = p->local, .reference = p->reference};
}

/* Right answers alone do not need a reference: then the curve's metric means nothing, its rates still do. */
static int part_curve(struct curve *v, const struct part *p, bool has_reference)
{
    struct cascade c = cascade_of(p);
    if (!has_reference)
        c.reference = p->local;
    return curve_make(v, &c, MISSING_IS_ERROR, NULL);
}

static struct figure point_threshold(const struct curve_point *p, const char *why)
{
    return p ? figure_of(p->threshold) : figure_undefined(why);
}

enum { GRID = 100 };

static void guaranteed(struct figure *threshold, const struct part *p, const struct calibrate_options *o)
{
    static const char none[] = "no threshold is certifiable: too few answers, or too many wrong among the most "
                               "confident";
    struct ranking r;
    double grid[GRID + 1];
    struct risk_point table[GRID + 1];
    for (int i = 0; i <= GRID; i++)
        grid[i] = (double)i / GRID;
    threshold[RULE_GUARANTEED] = threshold[RULE_GUARANTEED_GRID] = threshold[RULE_ACCURACY] = figure_undefined(none);
    if (ranking_make(&r, p->confidence, p->wrong, NULL, p->n, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL))
        return;
    risk_table(&r, grid, GRID + 1, 1 - o->accuracy, o->delta, table);
    struct risk_choice c = risk_choose(&r, table, GRID + 1, 1 - o->accuracy, o->delta, o->start);
    if (!c.ltt_fixed_sequence.why)
        threshold[RULE_GUARANTEED] = c.ltt_fixed_sequence;
    if (!c.ltt_bonferroni.why)
        threshold[RULE_GUARANTEED_GRID] = c.ltt_bonferroni;
    struct kept_accuracy kept = kept_accuracy_lowest(&r, o->accuracy);
    threshold[RULE_ACCURACY] = kept.threshold.why ? figure_undefined("no set of most confident answers is that good") :
                                                    kept.threshold;
    ranking_free(&r);
}

/* base_rate: share handed off by the baseline at the default threshold, NaN: no baseline. */
static void find_thresholds(struct figure *threshold, const struct part *p, const struct calibrate_options *o,
                            bool has_reference, double base_rate)
{
    static const char no_reference[] = "needs --reference", no_baseline[] = "needs --baseline";
    static const char never[] = "infeasible: no share of handed-off queries reaches the reference";
    struct curve v;
    threshold[RULE_DEFAULT] = figure_of(o->threshold);
    guaranteed(threshold, p, o);
    threshold[RULE_REFERENCE] = threshold[RULE_REFERENCE_SAFE] = threshold[RULE_COST] = figure_undefined(no_reference);
    threshold[RULE_BASELINE_RATE] = figure_undefined(no_baseline);
    threshold[RULE_RATE] = figure_undefined("no samples");
    if (part_curve(&v, p, has_reference))
        return;
    if (!isnan(base_rate))
        threshold[RULE_BASELINE_RATE] = point_threshold(curve_closest(&v, base_rate), no_baseline);
    threshold[RULE_RATE] = point_threshold(curve_not_exceed(&v, o->rate), "no threshold hands off so few");
    if (has_reference) {
        struct match m = curve_match(&v, v.reference);
        threshold[RULE_REFERENCE] = point_threshold(m.first, never);
        threshold[RULE_REFERENCE_SAFE] = point_threshold(m.conservative, never);
        threshold[RULE_COST] = point_threshold(cheapest_point(&v, o->cost_handoff, o->cost_wrong), never);
    }
    curve_free(&v);
}

struct effect { struct figure rate, metric, kept; struct interval kept_ci95; int64_t n_kept; };

static struct effect effect_of(struct figure threshold, const struct part *p, bool has_reference)
{
    struct effect f = {figure_undefined(threshold.why), figure_undefined(threshold.why),
                       figure_undefined(threshold.why), interval_undefined(threshold.why), 0};
    if (threshold.why)
        return f;
    size_t kept = 0, right = 0;
    double sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        bool off = p->confidence[i] < threshold.value;
        kept += !off;
        right += !off && !p->wrong[i];
        sum += off ? p->reference[i] : p->local[i];
    }
    f.n_kept = (int64_t)kept;
    f.rate = figure_of(1 - (double)kept / (double)p->n);
    f.metric = has_reference ? figure_of(sum / (double)p->n) : figure_undefined("needs --reference");
    f.kept = kept ? figure_of((double)right / (double)kept) : figure_undefined("nothing is kept");
    f.kept_ci95 = interval_undefined("nothing is kept");
    if (kept) {
        double lo, hi;
        wilson_interval((double)right, (double)kept, 0.05, &lo, &hi);
        f.kept_ci95 = interval_of(lo, hi);
    }
    return f;
}

static const char *wish_of(int rule, const struct work *w)
{
    const struct calibrate_options *o = w->o;
    switch ((enum rule)rule) {
    case RULE_DEFAULT: return "the threshold in use";
    case RULE_BASELINE_RATE: return "as many handed off as the baseline";
    case RULE_REFERENCE: return "matches the reference, fewest";
    case RULE_REFERENCE_SAFE: return "matches the reference, safely";
    case RULE_RATE: return arena_printf(w->arena, "at most %.4g%% handed off", o->rate * 100);
    case RULE_ACCURACY: return arena_printf(w->arena, "%.4g%% of the kept right, as seen", o->accuracy * 100);
    case RULE_GUARANTEED:
        return arena_printf(w->arena, "%.4g%% of the kept right, %.4g%% sure", o->accuracy * 100,
                            100 * (1 - o->delta));
    case RULE_GUARANTEED_GRID: return "the same, by Bonferroni";
    case RULE_COST:
        return arena_printf(w->arena, "cheapest at %.4g : %.4g", o->cost_handoff, o->cost_wrong);
    }
    return "";
}

/* ---- maps ------------------------------------------------------------------------------------------------------- */

enum map { MAP_NONE, MAP_PLATT, MAP_TEMPERATURE, MAP_ISOTONIC };
struct maps { struct platt platt; struct temperature temperature; struct isotonic isotonic; };

static struct score_quality quality_under(const struct part *p, const struct maps *m, enum map which)
{
    double *mapped = NEW(double, p->n);
    for (size_t i = 0; i < p->n; i++)
        mapped[i] = which == MAP_NONE ? p->confidence[i] :
                    which == MAP_PLATT ? platt_map(&m->platt, p->confidence[i]) :
                    which == MAP_TEMPERATURE ? temperature_map(&m->temperature, p->confidence[i]) :
                                               isotonic_map(&m->isotonic, p->confidence[i]);
    struct calibration c = calibration(mapped, p->wrong, p->n);
    free(mapped);
    return c.why ? (struct score_quality){NAN, NAN, NAN} : (struct score_quality){c.brier, c.log_loss, c.ece_15};
}

static void fit_maps(struct recalibration *out, const struct quant *q, struct arena *a)
{
    static const struct score_quality none = {NAN, NAN, NAN};
    const struct part *p = &q->calibration;
    struct ranking r;
    if (ranking_make(&r, p->confidence, p->wrong, NULL, p->n, HIGHER_IS_RIGHT, NAN_IS_ERROR, NULL))
        return;
    struct maps m = {platt_fit(&r), temperature_fit(&r), isotonic_fit(&r)};
    *out = (struct recalibration){.platt_why = m.platt.why, .temperature_why = m.temperature.why,
                                  .platt_a = m.platt.a, .platt_b = m.platt.b, .temperature = m.temperature.t};
    struct isotonic_step *steps = ARENA_NEW(a, struct isotonic_step, m.isotonic.n_blocks);
    for (size_t i = 0; i < m.isotonic.n_blocks; i++)
        steps[i] = (struct isotonic_step){m.isotonic.blocks[i].x_min, m.isotonic.blocks[i].x_max,
                                          m.isotonic.blocks[i].value};
    out->isotonic = steps;
    out->n_isotonic = (int)m.isotonic.n_blocks;
    out->before = quality_under(&q->test, &m, MAP_NONE);
    out->platt = m.platt.why ? none : quality_under(&q->test, &m, MAP_PLATT);
    out->scaled = m.temperature.why ? none : quality_under(&q->test, &m, MAP_TEMPERATURE);
    out->stepped = m.isotonic.n_blocks ? quality_under(&q->test, &m, MAP_ISOTONIC) : none;
    isotonic_free(&m.isotonic);
    ranking_free(&r);
}

/* ---- a quant ---------------------------------------------------------------------------------------------------- */

static const char *stamped(const struct records *r, const char *key)
{
    const cJSON *identity = json_get(r->stamp, "identity");
    if (strcmp(key, "fingerprint") == 0)
        return json_string(json_get(identity, "model"), key);
    return json_string(strcmp(key, "kernel") == 0 ? r->stamp : identity, key);
}

static double share_right(const struct part *p, const double *right)
{
    double sum = 0;
    for (size_t i = 0; i < p->n; i++)
        sum += right[i];
    return sum / (double)p->n;
}

static void transfer(struct calibrate_quant *out, const struct work *w, const struct quant *q, const struct quant *base,
                     const struct figure *base_threshold)
{
    static const enum rule rules[] = {RULE_DEFAULT, RULE_REFERENCE, RULE_RATE, RULE_ACCURACY};
    enum { N = sizeof rules / sizeof *rules };
    struct transfer_row *rows = ARENA_NEW(w->arena, struct transfer_row, N);
    bool has_reference = w->m->reference != NULL;
    for (int i = 0; i < N; i++) {
        struct figure t = base_threshold[rules[i]];
        struct effect here = effect_of(t, &q->test, has_reference), there = effect_of(t, &base->test, has_reference);
        rows[i] = (struct transfer_row){rule_names[rules[i]], t, here.rate, here.kept, here.metric, there.rate,
                                        there.kept, there.metric};
    }
    out->transfer = rows;
    out->n_transfer = N;
}

/* Behind the last quant nobody asks for the rows again: with ten million of them they are most of the memory. */
static void give_back(const struct calibrate_models *m)
{
    for (int i = 0; i < m->n_runs; i++)
        records_forget_rows(&m->runs[i]);
    if (m->baseline)
        records_forget_rows(m->baseline);
    if (m->reference)
        records_forget_rows(m->reference);
}

/* task NULL: all hold-outs together. last: no other quant or task follows. */
static int make_quant(struct calibrate_quant *out, const struct work *w, const struct records *r, const char *task,
                      bool last, struct err *e)
{
    struct quant q, base = {0};
    struct figure threshold[N_THRESHOLD_RULES], base_threshold[N_THRESHOLD_RULES];
    bool has_reference = w->m->reference != NULL;
    double base_rate = NAN;
    if (quant_make(&q, w, r, task, e))
        return -1;
    if (w->m->baseline) {
        if (quant_make(&base, w, w->m->baseline, task, e)) {
            quant_free(&q);
            return -1;
        }
    }
    if (last && w->m->give_back)
        give_back(w->m);
    if (w->m->baseline) {
        find_thresholds(base_threshold, &base.calibration, w->o, has_reference, NAN);
        base_rate = effect_of(base_threshold[RULE_DEFAULT], &base.calibration, has_reference).rate.value;
    }
    *out = (struct calibrate_quant){
        .run = r->name, .task = task, .fingerprint = stamped(r, "fingerprint"), .kernel = stamped(r, "kernel"),
        .activations = stamped(r, "activations"), .n_calibration = (int64_t)q.calibration.n,
        .n_test = (int64_t)q.test.n, .accuracy = share_right(&q.test, q.test.local),
        .reference = has_reference ? share_right(&q.test, q.test.reference) : NAN};
    find_thresholds(threshold, &q.calibration, w->o, has_reference, base_rate);
    for (int k = 0; k < N_THRESHOLD_RULES; k++) {
        struct effect f = effect_of(threshold[k], &q.test, has_reference);
        out->rules[k] = (struct threshold_row){rule_names[k], wish_of(k, w), threshold[k], f.rate, f.metric, f.kept,
                                               f.kept_ci95, f.n_kept};
    }
    fit_maps(&out->maps, &q, w->arena);
    if (w->m->baseline) {
        transfer(out, w, &q, &base, base_threshold);
        quant_free(&base);
    }
    quant_free(&q);
    return 0;
}

int calibrate_result_make(struct calibrate_result *out, const struct inputs *in, const struct calibrate_options *o,
                          const struct calibrate_models *m, struct arena *a, struct err *e)
{
    struct inputs lean = *in;
    lean.no_entropy = true;
    struct work w = {&lean, o, m, a};
    int room = 0;
    for (int i = 0; i < m->n_runs; i++)
        room += o->per_task ? m->runs[i].n_tasks : 1;
    struct calibrate_quant *quants = ARENA_NEW(a, struct calibrate_quant, room);
    *out = (struct calibrate_result){
        .definitions = inputs_definitions(in), .baseline = m->baseline ? m->baseline->name : NULL,
        .reference = m->reference ? m->reference->name : NULL, .split = o->split, .accuracy = o->accuracy,
        .delta = o->delta, .rate = o->rate, .cost_handoff = o->cost_handoff, .cost_wrong = o->cost_wrong,
        .start = o->start, .quants = quants};
    out->definitions.threshold = o->threshold;
    out->definitions.seed = o->seed;
    for (int i = 0; i < m->n_runs; i++) {
        const struct records *r = &m->runs[i];
        const int n_tables = o->per_task ? r->n_tasks : 1;
        for (int t = 0; t < n_tables; t++) {
            if (o->per_task && (!inputs_want(in, r->tasks[t].name) || r->tasks[t].n == 0))
                continue;
            if (make_quant(&quants[out->n_quants++], &w, r, o->per_task ? r->tasks[t].name : NULL,
                           i == m->n_runs - 1 && t == n_tables - 1, e))
                return -1;
        }
    }
    return 0;
}
