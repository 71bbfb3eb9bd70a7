/* remote_reply.c - what an OpenAI-compatible server answers: one object, or a stream of events. */
#include "eval/remote.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN, OBJECT, EVENTS };

void remote_answer_free(struct remote_answer *a)
{
    text_free(&a->output);
    text_free(&a->reasoning);
    *a = (struct remote_answer){0};
}

void remote_start(struct remote_reply *r)
{
    *r = (struct remote_reply){.a = {.confidence = NAN, .p_wrong = NAN, .probe_logit = NAN, .logprob = NAN,
                                     .entropy = {NAN, NAN, NAN, NAN}, .tokens = -1, .prompt_tokens = -1}};
}

void remote_drop(struct remote_reply *r)
{
    double ignored;
    struct text rest = {0};
    trailer_stream_end(&r->stream, &rest, &ignored);
    text_free(&rest);
    text_free(&r->pending);
    text_free(&r->event);
    remote_answer_free(&r->a);
    *r = (struct remote_reply){0};
}

/* ---- bytes that are no UTF-8 ----------------------------------------------------------------------------------- */

/* A server may cut its pieces inside a character, so that halves of it stand in two events, neither of which is JSON.
 * Such bytes pass through the parser as private characters, U+10FF00 + byte, and are put together again behind it. */
enum { STRAY = 0x10ff00 };

static void hide_strays(const struct text *from, struct text *to)
{
    for (size_t i = 0; i < from->len;) {
        int n = utf8_decode(from->data + i, from->len - i, NULL);
        if (n) {
            text_put(to, from->data + i, (size_t)n);
        } else {
            char hidden[4];
            n = utf8_encode(STRAY + (unsigned char)from->data[i], hidden);
            text_put(to, hidden, (size_t)n);
            n = 1;
        }
        i += (size_t)n;
    }
}

static void show_strays(const char *from, struct text *to)
{
    const size_t len = strlen(from);
    uint32_t c;
    for (size_t i = 0; i < len;) {
        int n = utf8_decode(from + i, len - i, &c);
        if (c >= STRAY + 0x80 && c <= STRAY + 0xff)
            text_putc(to, (int)(c - STRAY));
        else
            text_put(to, from + i, (size_t)n);
        i += (size_t)n;
    }
}

static cJSON *parse(const struct text *json, const char *where, struct err *e)
{
    if (utf8_valid(json->data, json->len, NULL))
        return json_parse(json->data, json->len, where, e);
    struct text clean = {0};
    hide_strays(json, &clean);
    cJSON *tree = json_parse(clean.data, clean.len, where, e);
    text_free(&clean);
    return tree;
}

/* ---- log-probabilities ----------------------------------------------------------------------------------------- */

/* Bounds of the entropy of a position of which the k most likely tokens are known. What is left, r, lies on tokens none
 * of which is more likely than the k-th: at least r ln(1 / min(p_k, r)). It is most if it is spread evenly. */
static void bound_entropy(const cJSON *top, int *k, double *low, double *high)
{
    const cJSON *one;
    double known = 0, sum = 0, least = 1;
    *k = 0;
    cJSON_ArrayForEach(one, top) {
        const cJSON *v = json_get(one, "logprob");
        const double p = cJSON_IsNumber(v) && v->valuedouble <= 0 ? exp(v->valuedouble) : 0;
        known += p;
        sum -= p > 0 ? p * log(p) : 0;
        least = p < least ? p : least;
        (*k)++;
    }
    const double rest = known < 1 ? 1 - known : 0, others = REMOTE_VOCABULARY - *k;
    const double most = least < rest ? least : rest;
    *low = sum + (rest > 0 && most > 0 ? -rest * log(most) : 0);
    *high = sum + (rest > 0 ? rest * log(others / rest) : 0);
}

static bool is_stop_token(const char *token)
{
    static const char *const stops[] = {"", "<eos>", "<turn|>", "<end_of_turn>", "<|im_end|>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        if (strcmp(token, stops[i]) == 0)
            return true;
    return false;
}

static void take_token(struct remote_reply *r, const cJSON *entry)
{
    const char *token = json_string(entry, "token");
    const cJSON *logprob = json_get(entry, "logprob"), *top = json_get(entry, "top_logprobs");
    if (!token || !cJSON_IsNumber(logprob) || is_stop_token(token))
        return;
    const bool opens = strcmp(token, "<|channel>") == 0, closes = strcmp(token, "<channel|>") == 0;
    if (opens || closes)
        r->in_thought = opens;
    if (r->in_thought || closes)
        return;
    r->sum_logprob += logprob->valuedouble;
    r->n_tokens++;
    if (!cJSON_IsArray(top) || !top->child)
        return;
    int k;
    double low, high;
    bound_entropy(top, &k, &low, &high);
    r->first_low = r->n_with_top ? r->first_low : low;
    r->max_low = r->n_with_top && r->max_low > low ? r->max_low : low;
    r->least_top = r->n_with_top && r->least_top < k ? r->least_top : k;
    r->sum_low += low;
    r->sum_high += high;
    r->n_with_top++;
}

/* ---- members of an answer or a chunk ---------------------------------------------------------------------------- */

static int take_probability(const cJSON *o, const char *key, double *out, struct err *e)
{
    const cJSON *v = json_get(o, key);
    if (!v || cJSON_IsNull(v))
        return 0;
    if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble > 1)
        return err_input(e, "\"%s\": a number from 0 to 1 was expected", key);
    *out = v->valuedouble;
    return 0;
}

static void take_number(const cJSON *o, const char *key, double *out)
{
    const cJSON *v = json_get(o, key);
    if (cJSON_IsNumber(v))
        *out = v->valuedouble;
}

static void take_count(const cJSON *o, const char *key, int *out)
{
    const cJSON *v = json_get(o, key);
    if (cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 1e9)
        *out = (int)v->valuedouble;
}

/* What stands beside the choices. */
static int take_figures(struct remote_reply *r, const cJSON *o, struct err *e)
{
    struct remote_answer *a = &r->a;
    const cJSON *entropy = json_get(o, "entropy"), *usage = json_get(o, "usage");
    if (take_probability(o, "confidence", &a->confidence, e) || take_probability(o, "p_wrong", &a->p_wrong, e))
        return -1;
    take_number(o, "probe_logit", &a->probe_logit);
    take_number(entropy, "mean", &a->entropy.mean);
    take_number(entropy, "max", &a->entropy.max);
    take_number(entropy, "first", &a->entropy.first);
    take_number(entropy, "sum", &a->entropy.sum);
    take_count(usage, "prompt_tokens", &a->prompt_tokens);
    take_count(usage, "completion_tokens", &a->tokens);
    const char *model = json_string(o, "model");
    for (size_t i = 0; model && model[i] && i + 1 < sizeof a->model; i++) {
        a->model[i] = model[i];
        a->model[i + 1] = '\0';
    }
    return 0;
}

static void take_stop(struct remote_answer *a, const char *reason)
{
    const char *name = strcmp(reason, "stop") == 0 ? "eos" : reason;
    a->stop[0] = '\0';
    strncat(a->stop, name, sizeof a->stop - 1);
}

static int take_object(struct remote_reply *r, const cJSON *o, struct err *e)
{
    if (!cJSON_IsObject(o))
        return err_input(e, "a JSON object was expected");
    if (json_get(o, "error") && !cJSON_IsNull(json_get(o, "error"))) {
        const char *message = json_string(json_get(o, "error"), "message");
        return err_input(e, "the server says: %.300s", message ? message : "an error");
    }
    const cJSON *choices = json_get(o, "choices"), *choice = cJSON_IsArray(choices) ? choices->child : NULL, *entry;
    if (!cJSON_IsArray(choices))
        return err_input(e, "\"choices\" is missing");
    const cJSON *message = r->form == EVENTS ? json_get(choice, "delta") : json_get(choice, "message");
    const char *content = json_string(message, "content"), *reasoning = json_string(message, "reasoning_content");
    const char *reason = json_string(choice, "finish_reason");
    if (r->form == OBJECT && !cJSON_IsObject(message))
        return err_input(e, "\"choices\" holds no message");
    if (content) {
        struct text bytes = {0};
        show_strays(content, &bytes);
        trailer_stream_push(&r->stream, bytes.data ? bytes.data : "", bytes.len, &r->a.output);
        text_free(&bytes);
    }
    if (reasoning)
        show_strays(reasoning, &r->a.reasoning);
    cJSON_ArrayForEach(entry, json_get(json_get(choice, "logprobs"), "content"))
        take_token(r, entry);
    if (reason) {
        take_stop(&r->a, reason);
        r->finished = true;
    }
    return take_figures(r, o, e);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static int end_event(struct remote_reply *r, struct err *e)
{
    int failed = 0;
    if (r->event.len && strcmp(r->event.data, "[DONE]") == 0) {
        r->finished = true;
    } else if (r->event.len) {
        cJSON *o = parse(&r->event, "an event of the stream", e);
        failed = o ? take_object(r, o, e) : -1;
        cJSON_Delete(o);
    }
    text_clear(&r->event);
    return failed;
}

static bool begins(const char *line, size_t n, const char *field)
{
    return n >= strlen(field) && memcmp(line, field, strlen(field)) == 0;
}

/* One line of a stream; only "data" matters here. */
static int take_line(struct remote_reply *r, const char *line, size_t n, struct err *e)
{
    if (n && line[n - 1] == '\r')
        n--;
    if (n == 0)
        return end_event(r, e);
    if (begins(line, n, "data:")) {
        const size_t skip = n > 5 && line[5] == ' ' ? 6 : 5;
        if (r->event.len)
            text_putc(&r->event, '\n');
        text_put(&r->event, line + skip, n - skip);
    } else if (line[0] != ':' && !begins(line, n, "event:") && !begins(line, n, "id:") && !begins(line, n, "retry:")) {
        return err_input(e, "neither JSON nor a stream of events");
    }
    return 0;
}

static int take_lines(struct remote_reply *r, struct err *e)
{
    size_t from = 0, look = r->looked_at;
    int failed = 0;
    const char *end;
    while (!failed && (end = memchr(r->pending.data + look, '\n', r->pending.len - look))) {
        const size_t n = (size_t)(end - (r->pending.data + from));
        failed = take_line(r, r->pending.data + from, n, e);
        look = from += n + 1;
    }
    r->pending.len -= from;
    memmove(r->pending.data, r->pending.data + from, from ? r->pending.len + 1 : 0);
    r->looked_at = r->pending.len;
    return failed;
}

int remote_take(struct remote_reply *r, const void *bytes, size_t n, struct err *e)
{
    r->n_bytes += n;
    if (r->n_bytes > REMOTE_MAX_REPLY)
        return err_input(e, "a reply of more than %d bytes", REMOTE_MAX_REPLY);
    text_put(&r->pending, bytes, n);
    if (r->form == UNKNOWN && r->pending.len) {
        const char *first = r->pending.data + strspn(r->pending.data, " \t\r\n");
        r->form = !*first ? UNKNOWN : *first == '{' ? OBJECT : EVENTS;
    }
    return r->form == EVENTS ? take_lines(r, e) : 0;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static void settle_confidence(struct remote_answer *a, double from_trailer)
{
    if (!isnan(a->confidence) || !isnan(a->p_wrong)) {
        a->confidence_from = "field";
        if (isnan(a->confidence))
            a->confidence = 1 - a->p_wrong;
    } else if (a->trailer == TRAILER_OK) {
        a->confidence_from = "trailer";
        a->confidence = from_trailer;
        a->tokens = -1;                 /* a server that knows of no trailer has counted its tokens, too */
    }
    if (isnan(a->p_wrong))
        a->p_wrong = 1 - a->confidence;
}

static void settle_entropy(struct remote_reply *r)
{
    struct remote_answer *a = &r->a;
    if (r->n_tokens)
        a->logprob = r->sum_logprob / r->n_tokens;
    if (!isnan(a->entropy.mean) || !r->n_tokens || r->n_with_top != r->n_tokens)
        return;
    a->entropy = (struct entropy_summary){.mean = r->sum_low / r->n_tokens, .max = r->max_low, .first = r->first_low,
                                          .sum = r->sum_low};
    a->entropy_top = r->least_top;
    a->entropy_most = r->sum_high / r->n_tokens;
}

int remote_finish(struct remote_reply *r, struct remote_answer *a, struct err *e)
{
    int failed = 0;
    double from_trailer = NAN;
    if (r->form == UNKNOWN) {
        failed = err_input(e, "an empty reply");
    } else if (r->form == OBJECT) {
        cJSON *o = parse(&r->pending, "the reply", e);
        failed = o ? take_object(r, o, e) : -1;
        cJSON_Delete(o);
    } else if (r->pending.len || r->event.len) {         /* servers may leave out the last line break */
        text_putc(&r->pending, '\n');
        failed = take_lines(r, e) || end_event(r, e);
    }
    if (!failed && !r->finished)
        failed = err_input(e, "the %s ends before the answer does", r->form == EVENTS ? "stream" : "reply");
    r->a.trailer = trailer_stream_end(&r->stream, &r->a.output, &from_trailer);
    r->stream = (struct trailer_stream){0};
    text_puts(&r->a.output, "");
    if (!failed && !utf8_valid(r->a.output.data, r->a.output.len, NULL))
        failed = err_input(e, "the answer is not UTF-8 (half a character?)");
    if (!failed) {
        settle_confidence(&r->a, from_trailer);
        settle_entropy(r);
        *a = r->a;
        r->a = (struct remote_answer){0};
    }
    return failed;
}

void remote_error_text(const struct text *body, struct text *out)
{
    struct err ignored;
    cJSON *o = body->len ? json_parse(body->data, body->len, "", &ignored) : NULL;
    const cJSON *error = json_get(o, "error");
    const char *message = cJSON_IsString(error) ? error->valuestring : json_string(error, "message");
    message = message ? message : json_string(o, "message");
    message = message ? message : json_string(o, "detail");
    text_printf(out, "%.300s", message ? message : body->len ? body->data : "");
    size_t bad;
    if (!utf8_valid(out->data, out->len, &bad)) {
        out->len = bad;
        out->data[bad] = '\0';
    }
    cJSON_Delete(o);
}
