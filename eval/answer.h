/* answer.h - from prompts to answers with their confidence: many sequences in flight, each leaving when it is done
 * and making room for the next (inside eval/ only).
 *
 *     struct batcher *b = batcher_new(engine, probe, 8);
 *     while (there is work) {
 *         while (batcher_has_room(b) && more prompts) batcher_add(b, &request, &e);
 *         batcher_step(b, &e);
 *         while (batcher_take(b, &answer)) ... answer_free(&answer);
 *     }
 *
 * An answer does not depend on what else is in flight.
 */
#ifndef HANDOFF_ANSWER_H
#define HANDOFF_ANSWER_H

#include "engine/engine.h"
#include "probe/probe.h"

struct decode_settings {
    int max_tokens;             /* limit of generated tokens, stop token included */
    double temperature;         /* 0: greedy */
    double top_p;               /* used if temperature > 0; 0 counts as 1 */
    uint64_t seed;
    bool ignore_eos;
};

struct answer;
struct answer_request {
    struct ids prompt;          /* taken over by the batcher */
    float *soft;                /* soft tokens of the prompt, taken over; may be NULL */
    struct seq *seq;            /* holds the prompt's first tokens already, taken over; NULL: none of them */
    double prefill_ms;          /* spent on these */
    bool keep_seq;              /* the answer comes with its sequence */
    /* Sees every token but a stop token as it comes (the last of so_far->tokens), with the logits it was chosen from,
     * [vocab_size]; false ends the answer behind it. NULL: nobody looks. */
    bool (*on_token)(void *user, const struct answer *so_far, const double *logits);
    struct decode_settings settings;
    int n_labels;               /* first-token log-probabilities wanted for these ids */
    const int32_t *label_ids;   /* not owned */
    void *user;                 /* comes back with the answer */
};

/* STOP_ASKED: on_token had enough. */
enum answer_stop { STOP_EOS, STOP_LENGTH, STOP_CONTEXT, STOP_ASKED };
const char *answer_stop_name(enum answer_stop s);

struct answer {
    void *user;
    struct err err;             /* code != 0: no answer, and why */
    int prompt_tokens;
    struct ids tokens;          /* generated, with the stop token */
    enum answer_stop stop;
    struct token_stats *steps;  /* [tokens.n] */
    struct probe_result probe;              /* over all rows */
    struct probe_result probe_without_stop; /* without the stop token's row; rows = 0 if there is no other */
    bool has_probe;
    /* Over the answer's own tokens: without the stop token and the thought channel. */
    int n_answer_tokens;
    struct entropy_summary entropy;
    double logprob;             /* mean; NAN without tokens */
    double margin;              /* smallest */
    double *label_logprob;      /* [n_labels] */
    int n_hidden;               /* rows kept for batcher_keep_hidden: one per generated token, the first 1024 */
    float *hidden;              /* [n_hidden, layers, hidden_size] */
    struct seq *seq;            /* if asked for: holds the prompt and all tokens but the last */
    double prefill_ms, decode_ms;           /* this sequence's share of the steps it took part in */
};
void answer_free(struct answer *a);

struct batcher;
/* probe may be NULL: then answers have no confidence. */
struct batcher *batcher_new(struct engine *m, const struct probe *p, int batch);
void batcher_free(struct batcher *b);
/* Answers come with the outputs of these decoder layers; not owned. */
void batcher_keep_hidden(struct batcher *b, const int *layers, int n);
bool batcher_has_room(const struct batcher *b);
int batcher_active(const struct batcher *b);
/* Never fails as a whole: a prompt that cannot be answered (empty, too long) comes back as an answer with an error. */
void batcher_add(struct batcher *b, struct answer_request *r);
/* One pass over the weights for all sequences in flight. Fails only if the engine does. */
int batcher_step(struct batcher *b, struct err *e);
bool batcher_take(struct batcher *b, struct answer *out);

#endif
