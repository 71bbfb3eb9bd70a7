/* set_gsm8k.c - GSM8K: test.jsonl and train.jsonl, or the hub's parquet shards (config main). The answer is what
 * stands behind "#### " on the last line; "<<48/2=24>>" are calculator annotations. */
#include "datasets/reader.h"

#include <string.h>

static int find(struct dataset *d, struct err *e)
{
    static const char *const splits[] = {"train", "test"};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < archive_count(d->archive); i++) {
            const struct member *m = archive_member(d->archive, i);
            char *want = arena_printf(&d->arena, "%s.jsonl", splits[k]);
            if (strcmp(path_base(m->name), want) == 0)
                add_source(d, (struct source){.member = m, .kind = ROWS_JSONL, .split = splits[k]});
        }
    if (!d->n_sources && archive_count(d->archive) == 1 && text_ends(archive_member(d->archive, 0)->name, ".jsonl"))
        add_source(d, (struct source){.member = archive_member(d->archive, 0), .kind = ROWS_JSONL, .split = "test"});
    if (d->n_sources)
        note_form(d, "official JSON lines (%s)", archive_form(d->archive));
    else if (!add_parquet(d, "main", NULL))
        add_parquet(d, NULL, NULL);
    int n = 0;
    for (int i = 0; i < d->n_sources; i++)          /* the socratic twin has the same questions */
        if (!strstr(d->sources[i].member->name, "socratic"))
            d->sources[n++] = d->sources[i];
    d->n_sources = n;
    return n ? 0 : not_found(d, "test.jsonl or main/test-*.parquet", e);
}

/* The text without "<<...>>". */
static char *without_annotations(struct arena *a, const char *s)
{
    char *out = arena_strndup(a, s, strlen(s)), *w = out;
    for (const char *p = s; *p;) {
        const char *end = p[0] == '<' && p[1] == '<' ? strstr(p, ">>") : NULL;
        if (end)
            p = end + 2;
        else
            *w++ = *p++;
    }
    *w = '\0';
    return out;
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->id = arena_printf(&d->scratch, "gsm8k/%s/%lld", s->split, (long long)d->row_index);
    s->question = need_text(d, row, "question", e);
    const char *answer = s->question ? need_text(d, row, "answer", e) : NULL;
    if (!answer)
        return d->refusal;
    const char *mark = NULL;
    for (const char *p = answer; (p = strstr(p, "#### ")); p++)
        mark = p;
    const char *number = mark ? mark + 5 : "";
    size_t len = strcspn(number, "\r\n");
    while (len && number[len - 1] == ' ')
        len--;
    if (!len || strcspn(number, "0123456789") >= len)
        return refuse(d, e, "E_LABEL", "the answer does not end in a line \"#### NUMBER\"");
    char *plain = ARENA_NEW(&d->scratch, char, len + 1);
    for (size_t i = 0, n = 0; i < len; i++)
        if (number[i] != ',')
            plain[n++] = number[i];
    set_answer(d, s, plain);
    cJSON *meta = sample_meta(d, s);
    cJSON_AddStringToObject(meta, "answer_raw", answer);
    size_t solution = (size_t)(mark - answer);
    while (solution && answer[solution - 1] == '\n')
        solution--;
    char *text = arena_strndup(&d->scratch, answer, solution);
    cJSON_AddStringToObject(meta, "solution_no_annotations", without_annotations(&d->scratch, text));
    return ROW_OK;
}

const struct format format_gsm8k = {
    .name = "gsm8k", .dataset = "gsm8k", .type = ANSWER_NUMBER, .modality = MODALITY_TEXT,
    .split = "test", .shot_split = "train", .shots = 3, .max_tokens = 512, .grader = "number",
    .prompt = "{question}\n\nThink step by step and end with a line \"#### \" followed by the number that answers the "
              "question.",
    .style = {.intro = "", .question = "Question: {question}\nAnswer:", .answer = " {solution}"},
    .published = {{"train", 7473}, {"test", 1319}},
    .find = find, .map = map,
};
