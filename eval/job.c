/* job.c - a sample's prompt, its media, and the hand-over to the batcher. The record is written in record.c. */
#include "eval/job.h"

#include <stdlib.h>
#include <string.h>

static const char *keep(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

static const char **keep_all(struct arena *a, const char *const *s, int n)
{
    const char **copy = ARENA_NEW(a, const char *, n);
    for (int i = 0; i < n; i++)
        copy[i] = keep(a, s[i]);
    return copy;
}

static void copy_sample(struct job *j, const struct sample *s, double max_audio_s)
{
    struct arena *a = &j->arena;
    struct sample *c = &j->sample;
    *c = *s;
    c->dataset = keep(a, s->dataset);
    c->id = keep(a, s->id);
    c->split = keep(a, s->split);
    c->subject = keep(a, s->subject);
    c->group = keep(a, s->group);
    c->question = keep(a, s->question);
    c->choices = keep_all(a, s->choices, s->n_choices);
    c->labels = keep_all(a, s->labels, s->n_choices);
    c->answers = keep_all(a, s->answers, s->n_answers);
    c->media = ARENA_NEW(a, struct sample_media, s->n_media);
    c->grader = keep(a, s->grader);
    c->repeats = keep(a, s->repeats);
    c->contaminated = keep(a, s->contaminated);
    c->meta = c->messages = NULL;
    j->media = ARENA_NEW(a, struct media, s->n_media);
    j->encoded = ARENA_NEW(a, struct media_tokens, s->n_media);
    for (int i = 0; i < s->n_media; i++) {
        const struct sample_media *from = &s->media[i];
        void *bytes = memcpy(mem_alloc(from->n_bytes, 1), from->bytes, from->n_bytes);
        c->media[i] = *from;
        c->media[i].bytes = NULL;
        c->media[i].name = keep(a, from->name);
        j->media[i] = (struct media){.kind = from->kind == MODALITY_AUDIO ? MEDIA_AUDIO : MEDIA_IMAGE, .bytes = bytes,
                                     .n_bytes = from->n_bytes, .name = c->media[i].name, .begin_s = from->begin_s,
                                     .end_s = from->end_s, .max_s = max_audio_s};
    }
}

static char *render(const struct engine *m, struct dataset *d, const struct sample *s, struct job *j)
{
    struct text rendered = {0};
    cJSON *messages = dataset_prompt(d, s, &j->err);
    if (messages && chat_render(engine_chat_template(m), messages, true, false, &rendered, &j->err) == 0)
        sha256_hex_of(rendered.data, rendered.len, j->prompt_sha);
    cJSON_Delete(messages);
    char *copy = arena_strndup(&j->arena, rendered.data ? rendered.data : "", rendered.len);
    text_free(&rendered);
    return copy;
}

struct job *job_new(const struct engine *m, struct dataset *d, const struct sample *s, double max_audio_s)
{
    struct job *j = NEW(struct job, 1);
    j->spec = dataset_spec(d);
    copy_sample(j, s, max_audio_s);
    j->rendered = render(m, d, s, j);
    j->label_ids = ARENA_NEW(&j->arena, int32_t, s->n_choices);
    for (int i = 0; i < s->n_choices; i++)
        j->label_ids[i] = tokenizer_find(engine_tokenizer(m), s->labels[i]);
    return j;
}

struct job *job_new_remote(struct dataset *d, const struct sample *s)
{
    struct job *j = NEW(struct job, 1);
    struct text json = {0};
    j->spec = dataset_spec(d);
    copy_sample(j, s, 0);
    cJSON *messages = dataset_prompt(d, s, &j->err);
    if (messages)
        json_print(&json, messages);
    sha256_hex_of(json.data ? json.data : "", json.len, j->prompt_sha);
    j->rendered = arena_strndup(&j->arena, json.data ? json.data : "", json.len);
    for (int i = 0; i < s->n_media; i++)
        sha256_hex_of(j->media[i].bytes, j->media[i].n_bytes, j->encoded[i].media_sha);
    cJSON_Delete(messages);
    text_free(&json);
    return j;
}

void job_drop_media(struct job *j)
{
    for (int i = 0; i < j->sample.n_media; i++) {
        free((void *)(uintptr_t)j->media[i].bytes);
        j->media[i].bytes = NULL;
    }
}

void job_free(struct job *j)
{
    job_drop_media(j);
    for (int i = 0; i < j->sample.n_media; i++)
        media_tokens_free(&j->encoded[i]);
    ids_free(&j->prompt);
    free(j->soft);
    text_free(&j->record);
    free(j->hidden);
    arena_free(&j->arena);
    free(j);
}

/* All media of all jobs in one call, so that the towers work on several at a time. */
static void encode_media(struct engine *m, struct job **jobs, int n)
{
    int total = 0, at = 0;
    for (int i = 0; i < n; i++)
        total += jobs[i]->err.code ? 0 : jobs[i]->sample.n_media;
    if (total == 0)
        return;
    struct media *media = NEW(struct media, total);
    struct media_tokens *encoded = NEW(struct media_tokens, total);
    struct err *errs = NEW(struct err, total);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < jobs[i]->sample.n_media && !jobs[i]->err.code; k++)
            media[at++] = jobs[i]->media[k];
    engine_encode(m, media, total, encoded, errs);
    at = 0;
    for (int i = 0; i < n; i++) {
        struct job *j = jobs[i];
        if (j->err.code)
            continue;
        for (int k = 0; k < j->sample.n_media; k++, at++) {
            j->encoded[k] = encoded[at];
            j->encode_ms += encoded[at].encode_ms;
            if (errs[at].code && !j->err.code)
                j->err = errs[at];
        }
    }
    free(media);
    free(encoded);
    free(errs);
}

void jobs_prepare(struct engine *m, struct job **jobs, int n)
{
    encode_media(m, jobs, n);
    for (int i = 0; i < n; i++) {
        struct job *j = jobs[i];
        job_drop_media(j);
        if (j->err.code)
            continue;
        enum media_kind *kinds = ARENA_NEW(&j->arena, enum media_kind, j->sample.n_media);
        for (int k = 0; k < j->sample.n_media; k++)
            kinds[k] = j->media[k].kind;
        engine_prompt(m, j->rendered, strlen(j->rendered), j->encoded, kinds, j->sample.n_media, &j->prompt, &j->soft,
                      &j->err);
    }
}
