/* print.c - the normalised form of a sample, one JSON object a line. */
#include "datasets/reader.h"

#include <string.h>

static void put_text_or_null(struct text *t, const char *key, const char *s)
{
    text_printf(t, ", \"%s\": ", key);
    if (s)
        json_put_string(t, s, strlen(s));
    else
        text_puts(t, "null");
}

static void put_texts(struct text *t, const char *key, const char *const *list, int n)
{
    text_printf(t, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        text_puts(t, i ? ", " : "");
        json_put_string(t, list[i], strlen(list[i]));
    }
    text_putc(t, ']');
}

void sample_print(const struct sample *s, struct text *t)
{
    text_puts(t, "{\"dataset\": ");
    json_put_string(t, s->dataset, strlen(s->dataset));
    put_text_or_null(t, "split", s->split);
    put_text_or_null(t, "id", s->id);
    put_text_or_null(t, "modality", modality_name(s->modality));
    put_text_or_null(t, "task", answer_type_name(s->type));
    put_text_or_null(t, "subject", *s->subject ? s->subject : NULL);
    put_text_or_null(t, "question", s->question);
    if (s->n_choices) {
        put_texts(t, "choices", s->choices, s->n_choices);
        put_texts(t, "choice_labels", s->labels, s->n_choices);
    } else {
        text_puts(t, ", \"choices\": null, \"choice_labels\": null");
    }
    if (s->answer_index >= 0)
        text_printf(t, ", \"answer_index\": %d", s->answer_index);
    else
        text_puts(t, ", \"answer_index\": null");
    put_texts(t, "answers", s->answers, s->n_answers);
    text_puts(t, ", \"media\": [");
    for (int i = 0; i < s->n_media; i++) {
        cJSON *facts = media_describe(&s->media[i]);
        text_puts(t, i ? ", " : "");
        json_print(t, facts);
        cJSON_Delete(facts);
    }
    text_putc(t, ']');
    if (s->meta) {
        text_puts(t, ", \"meta\": ");
        json_print(t, s->meta);
    }
    text_putc(t, '}');
}
