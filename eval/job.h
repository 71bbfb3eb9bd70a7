/* job.h - one sample on its way from the data set to its record (inside eval/ only). */
#ifndef HANDOFF_JOB_H
#define HANDOFF_JOB_H

#include "datasets/datasets.h"
#include "engine/engine.h"
#include "eval/answer.h"

struct job {
    struct job *next;           /* in the order of the samples */
    bool started;               /* the batcher has it, or had it */
    int shared;                 /* tokens that its prompt has in common with the one started last */
    struct arena arena;
    const struct task_spec *spec;
    struct sample sample;       /* a copy that lives in the arena; media bytes are dropped after encoding */
    char *rendered;             /* the prompt behind the chat template */
    char prompt_sha[65];        /* of that */
    struct ids prompt;
    float *soft;
    struct media *media;        /* [sample.n_media] */
    struct media_tokens *encoded;
    int32_t *label_ids;         /* [sample.n_choices] */
    double encode_ms;
    struct err err;             /* code != 0: what went wrong with this sample */
    struct text record;         /* the finished line; empty until done */
    float *hidden;              /* [n_hidden, layers, hidden_size], if they are kept */
    int n_hidden;
};

/* Copies the sample and renders its prompt. Errors of the sample itself end in job->err. max_audio_s: use at most so
 * much of each sound, 0: all. */
struct job *job_new(const struct engine *m, struct dataset *d, const struct sample *s, double max_audio_s);
void job_free(struct job *j);
/* Their bytes are needed no more. */
void job_drop_media(struct job *j);
/* The same for a server that renders the prompt itself: `rendered` is the conversation as JSON, and prompt_sha is of
 * that. */
struct job *job_new_remote(struct dataset *d, const struct sample *s);
/* Encodes the media of several jobs together and tokenizes their prompts. */
void jobs_prepare(struct engine *m, struct job **jobs, int n);
/* Grades the answer (NULL: the job failed before there was one) and writes job->record. */
void job_finish(const struct engine *m, struct job *j, const struct answer *a, bool trace);
/* The same for a server's answer; ms: until its first byte, and from there to its end. */
struct remote_answer;
void job_finish_remote(struct job *j, const struct remote_answer *a, double first_ms, double rest_ms);

#endif
