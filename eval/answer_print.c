#include "eval/answer_print.h"

#include <math.h>

void answer_output(const struct tokenizer *t, const struct answer *a, struct text *output)
{
    text_puts(output, "");
    detokenize(t, a->tokens.id, a->tokens.n - (a->stop == STOP_EOS), true, output);
}

static void put_number(struct text *t, const char *key, double v)
{
    text_printf(t, "%s\"%s\":", t->data[t->len - 1] == '{' ? "" : ",", key);
    json_put_double(t, v);
}

void answer_put_json(struct text *t, const struct answer *a, const struct text *output)
{
    text_puts(t, "\"text\":");
    json_put_string(t, output->data, output->len);
    text_printf(t, ",\"prompt_tokens\":%d,\"tokens\":[", a->prompt_tokens);
    for (int i = 0; i < a->tokens.n; i++)
        text_printf(t, "%s%d", i ? "," : "", (int)a->tokens.id[i]);
    text_printf(t, "],\"stop\":\"%s\"", answer_stop_name(a->stop));
    put_number(t, "confidence", a->has_probe ? a->probe.confidence : NAN);
    put_number(t, "p_wrong", a->has_probe ? a->probe.p_wrong : NAN);
    put_number(t, "probe_logit", a->has_probe ? a->probe.logit : NAN);
    if (!a->has_probe)
        text_puts(t, ",\"why\":\"the checkpoint holds no probe\"");
    text_puts(t, ",\"entropy\":{");
    put_number(t, "mean", a->entropy.mean);
    put_number(t, "max", a->entropy.max);
    put_number(t, "first", a->entropy.first);
    put_number(t, "sum", a->entropy.sum);
    text_puts(t, ",\"steps\":[");
    for (int i = 0; i < a->tokens.n; i++) {
        text_puts(t, i ? "," : "");
        json_put_double(t, a->steps[i].entropy);
    }
    text_puts(t, "]},\"logprobs\":[");
    for (int i = 0; i < a->tokens.n; i++) {
        text_puts(t, i ? "," : "");
        json_put_double(t, a->steps[i].logprob);
    }
    text_putc(t, ']');
}
