/* answer_print.h - an answer as the verbs print it (inside eval/ only). */
#ifndef HANDOFF_ANSWER_PRINT_H
#define HANDOFF_ANSWER_PRINT_H

#include "eval/answer.h"

/* The members "text" (output: all of it, thoughts included) to "logprobs" of a JSON object, without its braces. */
void answer_put_json(struct text *t, const struct answer *a, const struct text *output);
/* What was generated, without the stop token, as text. */
void answer_output(const struct tokenizer *t, const struct answer *a, struct text *output);

#endif
