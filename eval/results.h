/* results.h - what the verbs right of `run` compute, as plain structs: the only thing that reports/ knows of eval/.
 *
 * Strings and arrays belong to the arena or the run they came from and outlive the struct. An undefined figure says
 * why (see stats.h). Rates, scores and AUROCs lie in 0..1; times are milliseconds.
 */
#ifndef HANDOFF_RESULTS_H
#define HANDOFF_RESULTS_H

#include "engine/base.h"
#include "eval/paired.h"
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
    int64_t repeated, contaminated;     /* questions that occurred before; that are listed, or in another split */
    int64_t n_clean;                    /* neither */
    struct auroc_figure clean_confidence, clean_entropy;        /* of those */
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
    bool jackknife;                     /* both: not by the bootstrap */
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

/* ---- calibrate -------------------------------------------------------------------------------------------------- */

/* One rule's threshold for one quant: found on the calibration part, counted on the test part. Shares of right answers
 * after the cascade (`metric`) need a reference. */
struct threshold_row {
    const char *rule;                   /* default, match_baseline_rate, match_reference, rate, accuracy, ... */
    const char *wish;                   /* what was asked for, in words */
    struct figure threshold;            /* INFINITY: everything is handed off */
    struct figure rate, metric, kept_accuracy;
    struct interval kept_ci95;          /* Wilson */
    int64_t n_kept;
};
enum { N_THRESHOLD_RULES = 9 };

struct score_quality { double brier, log_loss, ece; };
struct isotonic_step { double x_min, x_max, value; };

/* Maps from the recorded confidence to a calibrated one; fitted on the calibration part, measured on the test part. */
struct recalibration {
    const char *platt_why, *temperature_why;    /* NULL: fitted */
    double platt_a, platt_b, temperature;
    int n_isotonic;
    const struct isotonic_step *isotonic;
    struct score_quality before, platt, scaled, stepped;
};

/* The baseline's threshold by a rule, used unchanged on this quant's test part. */
struct transfer_row {
    const char *rule;
    struct figure threshold;
    struct figure rate, kept_accuracy, metric;                  /* of this quant */
    struct figure base_rate, base_kept_accuracy, base_metric;   /* of the baseline */
};

struct calibrate_quant {
    const char *run, *task;             /* task NULL: all hold-outs pooled */
    const char *fingerprint, *kernel, *activations;             /* from the stamp; NULL: bare records */
    int64_t n_calibration, n_test;
    double accuracy, reference;         /* share right on the test part; reference NaN: none */
    struct threshold_row rules[N_THRESHOLD_RULES];
    struct recalibration maps;
    int n_transfer;
    const struct transfer_row *transfer;
};

struct calibrate_result {
    struct definitions definitions;
    const char *baseline, *reference;   /* NULL: none */
    bool split;                         /* false: everything is in-sample */
    double accuracy, delta, rate, cost_handoff, cost_wrong, start;
    int n_quants;
    const struct calibrate_quant *quants;
};

/* ---- replay ----------------------------------------------------------------------------------------------------- */

struct estimate { struct figure mean; struct interval ci95; };  /* bootstrap over groups of samples */

/* Answers of a run, read once more by another checkpoint; of "all" tasks or one. */
struct replay_row {
    const char *task;
    int64_t n, positions;               /* answers; their tokens */
    struct figure confidence_base, confidence, entropy_base, entropy;
    struct estimate confidence_drift, entropy_drift;            /* other - base, at equal text */
    double kl_mean, kl_median, kl_99, kl_max, same_top;
    struct figure dp_rms, perplexity_ratio;
};
struct replay_model { const char *model; int n_rows; const struct replay_row *rows; };
struct replay_result {
    const char *run, *base;
    double self_difference;             /* the base against its own records; NaN: no confidence to compare */
    int n_models;
    const struct replay_model *models;
};

/* Where the drift of the confidence comes from; the three parts add up to the total. */
struct split_row {
    const char *task;
    int64_t n, n_changed;               /* samples; with other output tokens */
    struct estimate total;              /* new run - base run, as recorded */
    struct estimate weights;            /* the new checkpoint on the base's answers, with the base's arithmetic */
    struct estimate arithmetic;         /* and from there with its own */
    struct estimate answers;            /* the rest: it answered otherwise */
    struct figure kl_mean, same_top;    /* of the new checkpoint on the base's answers, with the base's arithmetic */
};
struct drift_split {
    const char *arithmetic_base, *arithmetic_new;
    double self_difference;             /* as above */
    int n_rows;                         /* the last one is "all" if there are several */
    const struct split_row *rows;
    const char *summary;                /* in words */
};

/* ---- compare ---------------------------------------------------------------------------------------------------- */

/* Paired on the same samples; every delta is new - base. */
struct compare_task {
    const char *task;                   /* "all" for the hold-outs together */
    int64_t n;
    struct figure accuracy_base, accuracy_new, accuracy_delta;
    struct interval ci95;
    struct figure mcnemar_p, mcnemar_mid_p, holm_p;             /* holm_p: mid-p, adjusted over the hold-outs */
    int64_t lost, gained, changed;      /* right to wrong, wrong to right, wrong both times with another answer */
    struct figure auroc_base, auroc_new, auroc_delta, auroc_p, auroc_holm_p;
    struct interval auroc_ci95;
    struct figure confidence_base, confidence_new, confidence_drift;
    struct interval drift_ci95;
    struct figure ks, spearman, kendall_tau_b, pair_flip_rate;
    struct figure rate_base, rate_new;  /* handed off at the threshold */
    int64_t handoff_flips;
    bool jackknife;                     /* auroc_ci95 and auroc_p: not by the bootstrap */
    bool identical;                     /* the records agree in all that is compared */
    struct figure unparsed_delta, runaway_delta;
    enum verdict verdict;
    const char *reason;                 /* of the verdict, in words */
};

struct compare_result {
    struct definitions definitions;
    const char *base, *fresh;           /* names of the runs */
    double margin, auroc_margin, alpha; /* how much worse still counts as no worse */
    enum verdict verdict;
    int n_tasks;
    const struct compare_task *tasks;
    const struct drift_split *split;    /* NULL: not asked for */
};

/* ---- plan ------------------------------------------------------------------------------------------------------- */

/* Two engines on the same questions. A sample counts where the two first part ways: in the tokens of the prompt, the
 * decoded pixels or mel frames, the answer, the figures of the same answer (arithmetic), or only in the confidence
 * (probe); UNTOLD: the confidence differs and the records do not say whether the figures do. */
enum engine_difference { ENGINE_SAME, ENGINE_TOKENS, ENGINE_MEDIA, ENGINE_ANSWER, ENGINE_ARITHMETIC, ENGINE_PROBE,
                         ENGINE_UNTOLD, N_ENGINE_DIFFERENCES };
const char *engine_difference_name(enum engine_difference d);
struct engines_row {
    const char *task;                   /* "all" for the last */
    int64_t n, count[N_ENGINE_DIFFERENCES];
    int64_t n_drift;                    /* samples with a confidence in both */
    double drift[N_ENGINE_DIFFERENCES]; /* parts of the mean change of the confidence; NaN without any */
};
struct engines_result {
    const char *base, *other;
    double tolerance;
    int n_rows;
    const struct engines_row *rows;
    const char *first[N_ENGINE_DIFFERENCES];    /* "TASK ID" of the first sample of each kind, NULL: none */
};

/* Counts are whole numbers as doubles; NaN: no number of samples answers the question. */
struct plan_task {
    const char *task;
    int64_t n;                          /* there are now */
    double auroc, wrong_rate, correlation, discordant, ms;
    double n_half_width, n_auroc_difference, n_accuracy;
};
struct plan_result {
    double difference, accuracy_difference, half_width, alpha, power;
    int n_tasks;
    const struct plan_task *tasks;
};

/* ---- report ----------------------------------------------------------------------------------------------------- */

struct xy { double x, y; };

/* What the plots of one hold-out show; of the first run. */
enum { N_HISTOGRAM = 20 };
struct plot_task {
    const char *task;
    int n_roc, n_roc_entropy, n_risk, n_risk_entropy;
    const struct xy *roc, *roc_entropy;         /* share of right flagged, share of wrong flagged */
    const struct xy *risk, *risk_entropy;       /* coverage, share wrong among the kept */
    int64_t right[N_HISTOGRAM], wrong[N_HISTOGRAM];     /* samples by confidence, equal bins */
};

/* Confidence of the same samples in the first run and another one. */
struct scatter { const char *run; int n; const struct xy *points; const bool *flipped; };

enum sample_verdict { SAMPLE_RIGHT, SAMPLE_WRONG, SAMPLE_UNPARSED, SAMPLE_REFUSED, SAMPLE_TRUNCATED, SAMPLE_ABSENT };
struct sample_answer { const char *output; double confidence, entropy; enum sample_verdict verdict; };
struct sample_row {
    const char *id, *question, *gold, *group;
    int task;                                   /* index into the first run's tasks */
    const char *media_type, *media;             /* image/png ..., base64; NULL: none or left out */
    const char *media_name;
    const struct sample_answer *answers;        /* [n_runs] */
};

struct stamp_row { const char *key; const char *const *values; };       /* values: [n_runs] */

struct report_input {
    const char *title;
    int n_runs;
    const char *const *runs;
    const struct auroc_result *auroc;
    const struct curve_result *curves;          /* [n_runs], NULL: no reference */
    const struct calibrate_result *calibrate;
    const struct compare_result *compares;      /* [n_runs - 1] against the first run, NULL: one run */
    int n_plots, n_scatters, n_samples, n_stamps;
    int64_t n_samples_total;                    /* more than n_samples: the viewer holds only a part */
    const struct plot_task *plots;
    const struct scatter *scatters;
    struct sample_row *samples;
    const struct stamp_row *stamps;
};

#endif
