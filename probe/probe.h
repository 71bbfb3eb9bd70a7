/* probe.h - how sure the model was: the handoff probe, and what the token distributions say.
 *
 * The probe reads the rows of the tapped layer, one for each generated token (row 0: the last prompt position; the
 * stop token's row included), the first 1024 at most, and gives p_wrong; confidence = 1 - p_wrong.
 */
#ifndef HANDOFF_PROBE_H
#define HANDOFF_PROBE_H

#include "engine/engine.h"

struct probe;
/* Takes the 11 tensors "handoff_probe.*" (or "probe.*") from w; settings (probe_layer, probe_layer_norm_eps,
 * probe_max_tokens) from the engine's config where m is given, else layer 28, eps 1e-5, 1024 rows. */
int probe_open(struct probe **out, const struct weights *w, const struct engine *m, struct err *e);
/* The probe to use with a model: that of `file`, a checkpoint or a file of its own, or with file NULL the model's; *out
 * stays NULL if it has none. layer: the decoder layer to read, -1: as the model says. */
int probe_open_for(struct probe **out, const struct engine *m, const char *file, int64_t layer, struct err *e);
void probe_close(struct probe *p);
bool probe_in(const struct weights *w);                 /* does this file hold a probe? */
int probe_layer(const struct probe *p);
int probe_dim(const struct probe *p);                   /* width of a row */
int probe_max_rows(const struct probe *p);
/* SHA-256 of its tensors and settings. */
void probe_fingerprint(const struct probe *p, char hex[65]);

struct probe_result {
    int rows;                   /* rows used */
    double logit;               /* z; p_wrong = sigmoid(z) */
    double p_wrong;
    double confidence;          /* sigmoid(-z), exact also where it is tiny */
};
/* rows: [n, probe_dim]. Fails if n is 0 or a row is not finite. */
int probe_score(const struct probe *p, const float *rows, int n, struct probe_result *r, struct err *e);

/* One generated token against its distribution: softmax over the whole vocabulary, natural logarithm, double. */
struct token_stats {
    double entropy;             /* nats: ln Z - sum e^(l-m) (l-m) / Z; -inf logits contribute 0 */
    double logprob;             /* of the chosen token */
    double margin;              /* best logit minus second best */
};
/* Fails if a logit is NaN or +inf, or all are -inf. */
int token_stats(const double *logits, int n, int32_t chosen, struct token_stats *s, struct err *e);

/* Aggregates over the tokens of an answer (the caller leaves out stop token and thought channel). */
struct entropy_summary { double mean, max, first, sum; };       /* NAN each if n is 0 */
struct entropy_summary entropy_summarise(const double *entropy, int n);

/* ---- fitting --------------------------------------------------------------------------------------------------- */

/* Trains a probe on recorded hidden rows and verdicts: binary cross-entropy of p_wrong, AdamW (Loshchilov and Hutter
 * 2019), the weights of the epoch with the least loss on the validation samples. The same samples and settings give
 * the same probe, whatever the number of threads. */
enum probe_pooling { POOL_ATTENTION, POOL_MEAN, POOL_LAST };

struct fit_sample {
    const float *rows;          /* the first row; row t is at rows + t * stride, [dim] */
    size_t stride;
    int n_rows;
    bool wrong;
    bool validation;            /* decides when to stop, is not trained on */
};

struct fit_settings {
    int layer;                  /* goes into the probe */
    int dim;                    /* width of a row */
    enum probe_pooling pooling;
    bool linear;                /* one linear map of the pooled, normed rows instead of the published network */
    int width, head[2];         /* 0: as published, 32, 128 and 64 */
    int max_rows;               /* 0: 1024 */
    int max_epochs, patience;   /* 0: 60 epochs, stop after 12 without progress */
    double rate, decay;         /* 0: 1.5e-3 and 0.02 */
    uint64_t seed;
    int n_threads;
};

struct fit_report {
    int epochs, best_epoch;
    double train_loss, validation_loss;     /* nats a sample, of the weights kept */
};

/* *p_wrong (caller frees, may be NULL): for every sample what the fitted probe says. *out is NULL for variants that the
 * published network cannot express (linear, POOL_LAST). `tick`, if not NULL, is called after each epoch. */
int probe_fit(struct probe **out, const struct fit_sample *samples, int n, const struct fit_settings *settings,
              double **p_wrong, struct fit_report *report, void (*tick)(void *arg, int epoch, double loss), void *arg,
              struct err *e);

enum probe_file { PROBE_SAFETENSORS, PROBE_GGUF, PROBE_BIN };
/* Writes a probe file that every verb's --probe takes. */
int probe_save(const struct probe *p, enum probe_file kind, const char *path, struct err *e);

#endif
