/* serve_reply.c - answers and errors in the forms of the OpenAI API, with the confidence beside them. */
#include "eval/serve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_string(struct text *t, const char *s)
{
    json_put_string(t, s, strlen(s));
}

/* ---- errors and models ------------------------------------------------------------------------------------------ */

void reply_error(struct text *out, const struct fault *f)
{
    const char *type = f->status == 429 ? "rate_limit_error" : f->status >= 500 ? "server_error"
                                                                                : "invalid_request_error";
    text_puts(out, "{\"error\":{\"message\":");
    put_string(out, f->err.msg);
    text_printf(out, ",\"type\":\"%s\",\"param\":", type);
    if (f->param[0])
        put_string(out, f->param);
    else
        text_puts(out, "null");
    text_puts(out, ",\"code\":");
    if (f->code)
        put_string(out, f->code);
    else
        text_puts(out, "null");
    text_puts(out, "}}\n");
}

void reply_models(struct text *out, const char *name, int64_t created, const struct serve_settings *set)
{
    text_puts(out, "{\"object\":\"list\",\"data\":[{\"id\":");
    put_string(out, name);
    text_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"local\",\"context\":%d,"
                     "\"max_tokens\":%d,\"threshold\":", (long long)created, set->context, set->limits.max_tokens);
    json_put_double(out, set->threshold);
    text_puts(out, "}]}\n");
}

/* ---- parts of an answer ----------------------------------------------------------------------------------------- */

static void put_token(struct text *t, const struct tokenizer *tokenizer, int32_t id, double logprob)
{
    struct text piece = {0};
    detokenize(tokenizer, &id, 1, true, &piece);
    text_puts(t, "{\"token\":");
    json_put_string(t, piece.data ? piece.data : "", piece.len);
    text_puts(t, ",\"logprob\":");
    json_put_double(t, logprob);
    text_puts(t, ",\"bytes\":[");
    const char *name = tokenizer_piece(tokenizer, id);
    unsigned byte;
    if (name && strlen(name) == 6 && sscanf(name, "<0x%2X>", &byte) == 1)
        text_printf(t, "%u", byte);
    else
        for (size_t i = 0; i < piece.len; i++)
            text_printf(t, "%s%u", i ? "," : "", (unsigned char)piece.data[i]);
    text_puts(t, "]");
    text_free(&piece);
}

void reply_logprob(struct exchange *x, const struct tokenizer *t, const double *logits, int n_vocab, int32_t id,
                   double logprob)
{
    int32_t top[CHAT_MAX_TOP];
    int n = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        int at = n;
        while (at > 0 && logits[i] > logits[top[at - 1]])
            at--;
        if (at == x->request.top_logprobs)
            continue;
        n += n < x->request.top_logprobs;
        memmove(top + at + 1, top + at, (size_t)(n - 1 - at) * sizeof *top);
        top[at] = i;
    }
    if (x->logprobs.len)
        text_putc(&x->logprobs, ',');
    put_token(&x->logprobs, t, id, logprob);
    text_puts(&x->logprobs, ",\"top_logprobs\":[");
    for (int i = 0; i < n; i++) {
        text_puts(&x->logprobs, i ? "," : "");
        put_token(&x->logprobs, t, top[i], logprob + (logits[top[i]] - logits[id]));
        text_putc(&x->logprobs, '}');
    }
    text_puts(&x->logprobs, "]}");
}

static void put_logprobs(struct text *t, struct exchange *x)
{
    if (x->request.logprobs)
        text_printf(t, ",\"logprobs\":{\"content\":[%s]}", x->logprobs.data ? x->logprobs.data : "");
    else
        text_puts(t, ",\"logprobs\":null");
    text_clear(&x->logprobs);
}

static void put_head(struct text *t, const struct exchange *x, const char *object, const struct serve_settings *set)
{
    text_printf(t, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", x->id, object,
                (long long)x->created);
    put_string(t, set->model_name);
}

static void put_usage(struct text *t, const struct answer *a)
{
    text_printf(t, ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}", a->prompt_tokens,
                a->tokens.n, a->prompt_tokens + a->tokens.n);
}

static void put_number(struct text *t, const char *key, double v)
{
    text_printf(t, ",\"%s\":", key);
    json_put_double(t, v);
}

static void put_confidence(struct text *t, const struct answer *a, const struct serve_settings *set)
{
    put_number(t, "confidence", a->has_probe ? a->probe.confidence : NAN);
    put_number(t, "p_wrong", a->has_probe ? a->probe.p_wrong : NAN);
    put_number(t, "probe_logit", a->has_probe ? a->probe.logit : NAN);
    if (!a->has_probe)
        text_puts(t, ",\"why\":\"the checkpoint holds no probe\"");
    text_puts(t, ",\"entropy\":{\"mean\":");
    json_put_double(t, a->entropy.mean);
    put_number(t, "max", a->entropy.max);
    put_number(t, "first", a->entropy.first);
    put_number(t, "sum", a->entropy.sum);
    text_putc(t, '}');
    if (!isnan(set->threshold) && a->has_probe)
        text_printf(t, ",\"handoff\":%s", a->probe.confidence < set->threshold ? "true" : "false");
}

static const char *finish_reason(const struct answer *a)
{
    return a->stop == STOP_EOS || a->stop == STOP_ASKED ? "stop" : "length";
}

/* ---- whole answers ---------------------------------------------------------------------------------------------- */

void reply_whole(struct text *out, struct exchange *x, const struct answer *a, const struct serve_settings *set)
{
    struct reply *r = &x->reply;
    if (set->trailer && a->has_probe)
        text_printf(&r->content, "\n[[hybrid:confidence=%.4f]]", a->probe.confidence);
    put_head(out, x, "chat.completion", set);
    text_puts(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    json_put_string(out, r->content.data ? r->content.data : "", r->content.len);
    if (r->thought.len) {
        text_puts(out, ",\"reasoning_content\":");
        json_put_string(out, r->thought.data, r->thought.len);
    }
    text_putc(out, '}');
    put_logprobs(out, x);
    text_printf(out, ",\"finish_reason\":\"%s\"}]", finish_reason(a));
    put_usage(out, a);
    put_confidence(out, a, set);
    text_puts(out, "}\n");
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static void begin_chunk(struct text *out, const struct exchange *x, const struct serve_settings *set)
{
    text_puts(out, "data: ");
    put_head(out, x, "chat.completion.chunk", set);
}

static void put_delta(struct text *out, struct exchange *x, const char *content, size_t n, const char *thought,
                      size_t n_thought, const struct serve_settings *set)
{
    const char *comma = "";
    begin_chunk(out, x, set);
    text_puts(out, ",\"choices\":[{\"index\":0,\"delta\":{");
    if (x->shown + x->shown_thought == 0) {
        text_puts(out, "\"role\":\"assistant\"");
        comma = ",";
    }
    if (n_thought) {
        text_printf(out, "%s\"reasoning_content\":", comma);
        json_put_string(out, thought, n_thought);
        comma = ",";
    }
    if (n) {
        text_printf(out, "%s\"content\":", comma);
        json_put_string(out, content, n);
    }
    text_putc(out, '}');
    put_logprobs(out, x);
    text_printf(out, ",\"finish_reason\":null}]%s}\n\n", x->request.include_usage ? ",\"usage\":null" : "");
}

void reply_chunk(struct text *out, struct exchange *x, const struct serve_settings *set)
{
    const struct reply *r = &x->reply;
    size_t n = r->sure - x->shown, n_thought = r->thought.len - x->shown_thought;
    if (n + n_thought == 0)
        return;
    put_delta(out, x, n ? r->content.data + x->shown : NULL, n, n_thought ? r->thought.data + x->shown_thought : NULL,
              n_thought, set);
    x->shown += n;
    x->shown_thought += n_thought;
}

void reply_last_chunks(struct text *out, struct exchange *x, const struct answer *a, const struct serve_settings *set)
{
    reply_chunk(out, x, set);
    if (set->trailer && a->has_probe) {
        struct text trailer = {0};
        text_printf(&trailer, "\n[[hybrid:confidence=%.4f]]", a->probe.confidence);
        put_delta(out, x, trailer.data, trailer.len, NULL, 0, set);
        text_free(&trailer);
    }
    begin_chunk(out, x, set);
    text_puts(out, ",\"choices\":[{\"index\":0,\"delta\":{}");
    put_logprobs(out, x);
    text_printf(out, ",\"finish_reason\":\"%s\"}]%s", finish_reason(a),
                x->request.include_usage ? ",\"usage\":null" : "");
    put_confidence(out, a, set);
    text_puts(out, "}\n\n");
    if (x->request.include_usage) {
        begin_chunk(out, x, set);
        text_puts(out, ",\"choices\":[]");
        put_usage(out, a);
        put_confidence(out, a, set);
        text_puts(out, "}\n\n");
    }
    text_puts(out, "data: [DONE]\n\n");
}
