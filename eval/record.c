/* record.c - grading one answer and writing its line of records.jsonl, keys in the order of the contract. */
#include "eval/grade.h"
#include "eval/job.h"
#include "eval/remote.h"

#include <math.h>
#include <string.h>

static void put_key(struct text *t, const char *key)
{
    text_printf(t, "%s\"%s\":", t->len > 1 ? "," : "", key);
}

static void put_string(struct text *t, const char *key, const char *value)
{
    put_key(t, key);
    if (value)
        json_put_string(t, value, strlen(value));
    else
        text_puts(t, "null");
}

static void put_strings(struct text *t, const char *key, const char *const *value, int n)
{
    put_key(t, key);
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        if (i)
            text_putc(t, ',');
        json_put_string(t, value[i], strlen(value[i]));
    }
    text_putc(t, ']');
}

static void put_double(struct text *t, const char *key, double value)
{
    put_key(t, key);
    json_put_double(t, value);
}

static void put_head(struct text *t, const struct job *j)
{
    text_putc(t, '{');
    put_string(t, "id", j->sample.id);
    put_string(t, "task", j->spec->task);
    put_string(t, "modality", modality_name(j->sample.modality));
    put_string(t, "group", j->sample.group ? j->sample.group : "");
    if (j->sample.subject && j->sample.subject[0])
        put_string(t, "subject", j->sample.subject);
    if (j->sample.repeats)
        put_string(t, "repeats", j->sample.repeats);
    if (j->sample.contaminated)
        put_string(t, "contaminated", j->sample.contaminated);
}

static void put_question(struct text *t, const struct job *j)
{
    const struct sample *s = &j->sample;
    if (s->question)
        put_string(t, "question", s->question);
    if (s->n_choices) {
        put_strings(t, "labels", s->labels, s->n_choices);
        put_strings(t, "options", s->choices, s->n_choices);
    }
    if (s->n_media) {
        put_key(t, "media");
        text_putc(t, '[');
        for (int i = 0; i < s->n_media; i++) {
            const char *name = s->media[i].name ? s->media[i].name : "";
            text_puts(t, i ? "," : "");
            json_put_string(t, name, strlen(name));
        }
        text_putc(t, ']');
    }
}

static void put_entropy(struct text *t, const struct entropy_summary *h)
{
    const struct { const char *key; double value; } part[] = {
        {"mean", h->mean}, {"max", h->max}, {"first", h->first}, {"sum", h->sum}};
    put_key(t, "entropy");
    for (int i = 0; i < 4; i++) {
        text_printf(t, "%s\"%s\":", i ? "," : "{", part[i].key);
        json_put_double(t, part[i].value);
    }
    text_putc(t, '}');
}

static void put_confidence(struct text *t, const struct answer *a)
{
    put_double(t, "confidence", a->has_probe ? a->probe.confidence : NAN);
    put_double(t, "p_wrong", a->has_probe ? a->probe.p_wrong : NAN);
    put_double(t, "probe_logit", a->has_probe ? a->probe.logit : NAN);
    put_double(t, "confidence_without_stop",
               a->has_probe && a->probe_without_stop.rows ? a->probe_without_stop.confidence : NAN);
}

static void put_media_shas(struct text *t, const struct job *j)
{
    static const char *const keys[2] = {"media_sha", "input_sha"};
    const bool resized = j->sample.n_media && j->encoded[0].input_sha[0];    /* a server does that itself */
    for (int which = 0; which < (resized ? 2 : 1); which++) {
        put_key(t, keys[which]);
        text_putc(t, '[');
        for (int i = 0; i < j->sample.n_media; i++) {
            const char *sha = which ? j->encoded[i].input_sha : j->encoded[i].media_sha;
            text_puts(t, i ? "," : "");
            json_put_string(t, sha, strlen(sha));
        }
        text_putc(t, ']');
    }
}

/* What was done with a sound: its length, how much of it was used, in how many stretches. */
static void put_sounds(struct text *t, const struct job *j)
{
    bool any = false;
    for (int i = 0; i < j->sample.n_media; i++) {
        const struct media_tokens *m = &j->encoded[i];
        if (j->media[i].kind != MEDIA_AUDIO || !m->n_parts)
            continue;
        if (!any)
            put_key(t, "audio");
        text_puts(t, any ? ",{\"seconds\":" : "[{\"seconds\":");
        json_put_double(t, m->seconds);
        text_puts(t, ",\"used_seconds\":");
        json_put_double(t, m->used_seconds);
        text_printf(t, ",\"parts\":%d}", m->n_parts);
        any = true;
    }
    if (any)
        text_putc(t, ']');
}

static void put_option_logprobs(struct text *t, const struct job *j, const struct answer *a)
{
    if (!a->label_logprob)
        return;
    put_key(t, "option_logprobs");
    for (int i = 0; i < j->sample.n_choices; i++) {
        text_puts(t, i ? "," : "{");
        json_put_string(t, j->sample.labels[i], strlen(j->sample.labels[i]));
        text_putc(t, ':');
        json_put_double(t, a->label_logprob[i]);
    }
    text_putc(t, '}');
}

static void put_ids(struct text *t, const struct ids *ids)
{
    text_putc(t, '[');
    for (int i = 0; i < ids->n; i++)
        text_printf(t, "%s%d", i ? "," : "", (int)ids->id[i]);
}

static void put_trace(struct text *t, const struct answer *a)
{
    put_key(t, "trace");
    text_puts(t, "{\"tokens\":");
    put_ids(t, &a->tokens);
    static const char *const keys[3] = {"entropy", "logprob", "margin"};
    for (int k = 0; k < 3; k++) {
        text_printf(t, "],\"%s\":[", keys[k]);
        for (int i = 0; i < a->tokens.n; i++) {
            const struct token_stats *s = &a->steps[i];
            text_puts(t, i ? "," : "");
            json_put_double(t, k == 0 ? s->entropy : k == 1 ? s->logprob : s->margin);
        }
    }
    text_puts(t, "]}");
}

static void put_times(struct text *t, const struct job *j, const struct answer *a)
{
    text_printf(t, ",\"ms\":{\"encode\":%.3f,\"prefill\":%.3f,\"decode\":%.3f}}", j->encode_ms,
                a ? a->prefill_ms : 0, a ? a->decode_ms : 0);
}

static void write_error(struct job *j)
{
    struct text *t = &j->record;
    put_head(t, j);
    put_string(t, "output", NULL);
    put_string(t, "answer", NULL);
    put_strings(t, "gold", j->sample.answers, j->sample.n_answers);
    put_string(t, "status", "error");
    put_string(t, "error", j->err.msg);
    put_string(t, "correct", NULL);
    put_string(t, "score", NULL);
    put_string(t, "confidence", NULL);
    put_string(t, "prompt_sha", j->prompt_sha);
    put_media_shas(t, j);
    put_question(t, j);
    put_times(t, j, NULL);
}

/* Without a right answer to compare with there is no verdict: the record says so and counts in no figure. */
static int grade_job(struct job *j, const char *output, bool truncated, struct verdict *v)
{
    const struct sample *s = &j->sample;
    if (s->n_answers == 0) {
        *v = (struct verdict){.status = truncated ? GRADE_TRUNCATED : GRADE_OK};
        return 0;
    }
    struct grade_input in = {.grader = s->grader ? s->grader : j->spec->grader, .extract = j->spec->extract,
                             .normalizer = j->spec->normalizer, .output = output, .n_gold = s->n_answers,
                             .gold = s->answers, .n_options = s->n_choices, .labels = s->labels,
                             .options = s->choices, .truncated = truncated};
    return grade(&in, &j->arena, v, &j->err);
}

static void put_verdict(struct text *t, const struct job *j, const struct verdict *v)
{
    put_string(t, "answer", v->answer);
    put_strings(t, "gold", j->sample.answers, j->sample.n_answers);
    put_string(t, "status", grade_status_name(v->status));
    bool gold = j->sample.n_answers > 0;
    put_key(t, "correct");
    text_puts(t, !gold ? "null" : v->correct ? "true" : "false");
    put_double(t, "score", gold ? v->score : NAN);
    if (gold && j->sample.type == ANSWER_SPEECH) {
        put_key(t, "wer");
        text_printf(t, "{\"edits\":%d,\"words\":%d,\"sub\":%d,\"del\":%d,\"ins\":%d}", v->edits, v->words, v->sub,
                    v->del, v->ins);
    }
    if (!v->scored) {
        put_key(t, "scored");
        text_puts(t, "false");
    }
}

/* The generated text without its stop token. A NUL, which a byte token can give, would end the text early for every
 * reader of the record: it becomes U+FFFD. */
static void put_output(const struct engine *m, const struct answer *a, struct text *out)
{
    struct text raw = {0};
    detokenize(engine_tokenizer(m), a->tokens.id, a->tokens.n - (a->stop == STOP_EOS ? 1 : 0), true, &raw);
    text_puts(out, "");
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.data[i])
            text_putc(out, raw.data[i]);
        else
            text_puts(out, "\xef\xbf\xbd");
    }
    text_free(&raw);
}

void job_finish(const struct engine *m, struct job *j, const struct answer *a, bool trace)
{
    if (a && a->err.code)
        j->err = a->err;
    struct text output = {0};
    struct verdict v = {0};
    if (!j->err.code) {
        put_output(m, a, &output);
        grade_job(j, output.data, a->stop != STOP_EOS, &v);
    }
    if (j->err.code) {
        write_error(j);
        text_free(&output);
        return;
    }
    struct text *t = &j->record;
    put_head(t, j);
    if (j->sample.grader)
        put_string(t, "grader", j->sample.grader);
    put_string(t, "output", output.data);
    put_verdict(t, j, &v);
    put_confidence(t, a);
    put_entropy(t, &a->entropy);
    put_double(t, "logprob", a->logprob);
    put_double(t, "margin", a->margin);
    text_printf(t, ",\"tokens\":%d,\"prompt_tokens\":%d", a->tokens.n, a->prompt_tokens);
    put_key(t, "output_ids");       /* the text does not give them back: another way to cut it may read the same */
    put_ids(t, &a->tokens);
    text_putc(t, ']');
    put_string(t, "stop", answer_stop_name(a->stop));
    put_string(t, "prompt_sha", j->prompt_sha);
    put_media_shas(t, j);
    put_sounds(t, j);
    put_option_logprobs(t, j, a);
    put_question(t, j);
    if (trace)
        put_trace(t, a);
    put_times(t, j, a);
    text_free(&output);
}

/* ---- answers of a server --------------------------------------------------------------------------------------- */

static void put_count(struct text *t, const char *key, int n)
{
    put_key(t, key);
    if (n < 0)
        text_puts(t, "null");
    else
        text_printf(t, "%d", n);
}

/* What the server does not say is null. */
static void put_remote_figures(struct text *t, const struct remote_answer *a)
{
    put_double(t, "confidence", a->confidence);
    put_double(t, "p_wrong", a->p_wrong);
    put_double(t, "probe_logit", a->probe_logit);
    put_string(t, "confidence_from", a->confidence_from);
    put_entropy(t, &a->entropy);
    if (a->entropy_top) {
        put_key(t, "entropy_truncated");
        text_printf(t, "{\"top\":%d,\"vocabulary\":%d,\"mean_at_most\":", a->entropy_top, REMOTE_VOCABULARY);
        json_put_double(t, a->entropy_most);
        text_putc(t, '}');
    }
    put_double(t, "logprob", a->logprob);
    put_count(t, "tokens", a->tokens);
    put_count(t, "prompt_tokens", a->prompt_tokens);
}

void job_finish_remote(struct job *j, const struct remote_answer *a, double first_ms, double rest_ms)
{
    struct verdict v = {0};
    if (!j->err.code)
        grade_job(j, a->output.data, strcmp(a->stop, "length") == 0, &v);
    if (j->err.code) {
        write_error(j);
        return;
    }
    struct text *t = &j->record;
    put_head(t, j);
    if (j->sample.grader)
        put_string(t, "grader", j->sample.grader);
    put_string(t, "output", a->output.data);
    if (a->reasoning.len)
        put_string(t, "reasoning", a->reasoning.data);
    put_verdict(t, j, &v);
    put_remote_figures(t, a);
    put_string(t, "stop", a->stop);
    put_string(t, "trailer", trailer_status_name(a->trailer));
    put_string(t, "prompt_sha", j->prompt_sha);
    put_media_shas(t, j);
    put_question(t, j);
    text_printf(t, ",\"ms\":{\"encode\":0,\"prefill\":%.3f,\"decode\":%.3f}}", first_ms, rest_ms);
}
