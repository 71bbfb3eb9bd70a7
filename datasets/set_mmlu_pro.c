/* set_mmlu_pro.c - MMLU-Pro: the hub's parquet shards, or the same rows as JSON lines (test.jsonl). */
#include "datasets/reader.h"


static int find(struct dataset *d, struct err *e)
{
    add_parquet(d, NULL, NULL);
    for (size_t i = 0; !d->n_sources && i < archive_count(d->archive); i++) {
        const struct member *m = archive_member(d->archive, i);
        const char *base = path_base(m->name);
        const char *split = text_begins(base, "validation") ? "validation" : text_begins(base, "test") ? "test" : "";
        if (text_ends(base, ".jsonl") && (*split || archive_count(d->archive) == 1)) {
            add_source(d, (struct source){.member = m, .kind = ROWS_JSONL, .split = *split ? split : "test"});
            note_form(d, "JSON lines (%s)", archive_form(d->archive));
        }
    }
    if (d->n_sources == 1 && archive_count(d->archive) > 1) {
        const struct member *other = archive_find(d->archive, "validation.jsonl");
        if (other && d->sources[0].member != other)
            add_source(d, (struct source){.member = other, .kind = ROWS_JSONL, .split = "validation"});
    }
    return d->n_sources ? 0 : not_found(d, "test-*.parquet or test.jsonl", e);
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->id = scalar_text(d, json_get(row, "question_id"));
    if (!s->id)
        return refuse(d, e, "E_COLUMNS", "no \"question_id\"");
    s->question = need_text(d, row, "question", e);
    const char *answer = s->question ? need_text(d, row, "answer", e) : NULL;
    if (!answer)
        return d->refusal;
    if (set_choices(d, s, json_get(row, "options"), NULL, e) || set_answer_label(d, s, answer, e))
        return ROW_REFUSED;
    const cJSON *index = json_get(row, "answer_index");
    if (cJSON_IsNumber(index) && index->valuedouble != s->answer_index)
        return refuse(d, e, "E_LABEL", "answer %s and answer_index %g disagree", answer, index->valuedouble);
    s->subject = text_or(row, "category", "");
    cJSON *meta = sample_meta(d, s);
    cJSON_AddStringToObject(meta, "src", text_or(row, "src", ""));
    cJSON_AddStringToObject(meta, "cot_content", text_or(row, "cot_content", ""));
    return ROW_OK;
}

const struct format format_mmlu_pro = {
    .name = "mmlu-pro", .dataset = "mmlu_pro", .type = ANSWER_CHOICE, .modality = MODALITY_TEXT,
    .split = "test", .shot_split = "validation", .shots = 0, .max_tokens = 2048, .grader = "mmlu-pro",
    .prompt = "The following is a multiple choice question about {subject}. Think step by step and then finish your "
              "answer with \"the answer is (X)\" where X is the correct letter choice.\n\n"
              "Question:\n{question}\nOptions:\n{options.trim}",
    .style = {.intro = "The following are multiple choice questions (with answers) about {subject}. Think step by step "
                       "and then finish your answer with \"the answer is (X)\" where X is the correct letter "
                       "choice.\n",
              .question = "Question:\n{question}\nOptions:\n{options.trim}\nAnswer: Let's think step by step.",
              .answer = "{thought}"},
    .published = {{"test", 12032}, {"validation", 70}},
    .find = find, .map = map,
};
