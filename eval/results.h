/* results.h - what the verbs right of `run` compute, as plain structs: the only thing that reports/ knows of eval/.
 *
 * Strings and arrays belong to the arena or the run they came from and outlive the struct. An undefined figure says
 * why (see stats.h). Rates, scores and AUROCs lie in 0..1; times are milliseconds.
 */
#ifndef HANDOFF_RESULTS_H
#define HANDOFF_RESULTS_H

#include "engine/base.h"
#include "eval/stats.h"

/* Decisions that a figure rests on; every artefact prints them. */
struct definitions {
    double tau, cut;            /* transcription is wrong if WER > tau; without a verdict wrong if score < cut */
    const char *entropy;        /* mean, max, first, sum over the answer's tokens */
    double threshold;           /* hand off iff confidence < threshold */
    int64_t resamples, seed;    /* bootstrap; 0 resamples: none */
};

/* ---- auroc ------------------------------------------------------------------------------------------------------ */

struct auroc_figure { struct figure auroc, se; struct interval ci95; };

struct sweep_row { double cut; int64_t wrong; struct auroc_figure confidence, entropy; };
struct reliability_row { int64_t n; double lo, hi, confidence, accuracy; };

struct published { double confidence, entropy; };       /* AUROC of the publisher's table */

struct auroc_task {
    const char *task, *modality;
    int64_t n, wrong, unparsed, n_error;
    int64_t clusters;                   /* groups, a sample without a group counting as one */
    bool grouped;                       /* some group holds several samples */
    struct auroc_figure confidence, entropy;
    struct figure p_value, delta;       /* confidence against entropy, paired */
    struct interval boot_confidence, boot_entropy;      /* bootstrap over clusters, if asked for */
    struct figure auprc, prevalence, aurc, e_aurc, augrc, auarc, prr, brier, ece, ece_mass, log_loss, accuracy;
    struct figure prr_loss;             /* PRR on the continuous loss (WER, 1 - score): needs no cut */
    struct auroc_figure parsed_confidence, parsed_entropy;      /* without unparsed samples */
    double tie_mass;                    /* share of samples whose confidence another sample shares */
    int n_sweep, n_bins;
    const struct sweep_row *sweep;      /* transcription: by tau; graded answers: by cut */
    const struct reliability_row *bins; /* 15 equal-width bins of confidence */
    const struct published *published;  /* NULL: not in the publisher's table */
    const char *alarms;                 /* "; "-joined, "" if none */
};

/* The same hold-out in another run, against the first one, on their common samples. */
struct auroc_pair {
    const char *task, *run;
    int64_t n;
    struct figure delta, p_value;       /* AUROC of the confidence, that run minus the first */
    struct interval ci95;
};

struct auroc_run {
    const char *name, *model;
    int n_tasks;
    const struct auroc_task *tasks;
    struct figure mean_confidence, mean_entropy;        /* macro mean over tasks where both are defined */
    int n_mean;
    struct interval mean_confidence_ci95, mean_entropy_ci95;
};

struct auroc_result {
    struct definitions definitions;
    int n_runs, n_pairs;
    const struct auroc_run *runs;
    const struct auroc_pair *pairs;
    const char *notes;                  /* lines */
};

/* ---- curve ------------------------------------------------------------------------------------------------------ */

/* threshold: hand off iff confidence < threshold; INFINITY: everything, NaN: no threshold gives this point. */
struct curve_row { double rate, threshold, metric; };
/* Interval of the metric at a rate, from the bootstrap. */
struct band_row { double rate, lo, hi; };
struct tier_row { double cost, metric, low, high, share[3]; };

struct match_figures {
    struct figure first, conservative;  /* share to hand off; undefined: infeasible */
    double first_threshold, conservative_threshold;
    bool only_full_handoff;
    struct interval ci95;               /* of first; hi = INFINITY: some resamples never match */
};

struct curve_task {
    const char *task, *metric;          /* accuracy, score, wer */
    int64_t n;                          /* samples, or groups when they are routed as a whole */
    bool lower_is_better, reference_not_better;
    double local, reference, target;
    struct match_figures match;
    struct figure within_1pt, random_rate, oracle_rate, entropy_rate;
    double auc, auc_random, auc_oracle;
    struct figure apgr, apgr_entropy, cpt[3];   /* share of the gap recovered; rates that recover 20, 50, 80% of it */
    struct { double rate, metric, kept; } at_default;           /* at the default threshold */
    struct { double ms, price; } cost_local, cost_match, cost_reference;        /* per query */
    int n_points, n_entropy, n_oracle, n_band, n_tiers;
    const struct curve_row *points, *entropy, *oracle;          /* by rising rate */
    const struct band_row *band;
    const struct tier_row *tiers;
};

struct curve_result {
    struct definitions definitions;
    const char *run, *reference, *target, *route;       /* route: NULL, or how groups are handed off: min, mean, last */
    bool has_cost;
    double remote_ms, local_price, call_price;
    const char *tier_names[3];
    int n_tasks;
    const struct curve_task *tasks;
};

#endif
