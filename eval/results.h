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

#endif
