/* set_chartqa.c - ChartQA: the official folder or its zip (SPLIT_human.json, SPLIT_augmented.json, png/), or the hub's
 * parquet in its two packagings (type/question/answer, and query/label/human_or_machine). */
#include "datasets/reader.h"

#include <string.h>

static int find(struct dataset *d, struct err *e)
{
    static const char *const splits[] = {"test", "val", "train"}, *const kinds[] = {"human", "augmented"};
    static const char *const renames[] = {"validation", "val", NULL};
    for (size_t k = 0; k < 6; k++) {
        char *want = arena_printf(&d->arena, "%s_%s.json", splits[k / 2], kinds[k % 2]);
        for (size_t i = 0; i < archive_count(d->archive); i++) {
            const struct member *m = archive_member(d->archive, i);
            if (strcmp(path_base(m->name), want) == 0)
                add_source(d, (struct source){.member = m, .kind = ROWS_JSON, .split = splits[k / 2],
                                              .tag = kinds[k % 2]});
        }
    }
    if (d->n_sources)
        note_form(d, "official JSON and pictures (%s)", archive_form(d->archive));
    else
        add_parquet(d, NULL, renames);
    return d->n_sources ? 0 : not_found(d, "the ChartQA folder or zip with test/test_human.json, or test-*.parquet", e);
}

static enum row_result map_official(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    const struct source *src = &d->sources[d->i_source];
    s->subject = src->tag;
    s->id = arena_printf(&d->scratch, "chartqa/%s/%s/%lld", s->split, s->subject, (long long)d->row_index);
    s->question = need_text(d, row, "query", e);
    const char *name = s->question ? need_text(d, row, "imgname", e) : NULL;
    const char *label = name ? scalar_text(d, json_get(row, "label")) : NULL;
    if (!name)
        return d->refusal;
    if (!label)
        return refuse(d, e, "E_COLUMNS", "no \"label\"");
    set_answer(d, s, label);
    cJSON_AddStringToObject(sample_meta(d, s), "imgname", name);
    if (!name_is_safe(name) || strchr(name, '/'))
        return refuse(d, e, "E_PATH", "\"%s\" is no plain file name", name);
    struct place p = find_beside(d, arena_printf(&d->scratch, "png/%s", name));
    if (!place_found(p))
        return refuse(d, e, "E_MISSING_MEDIA", "png/%s is not there", name);
    return add_member_media(d, s, MODALITY_IMAGE, p, MEMBER_MEDIA_MAX, e) ? ROW_REFUSED : ROW_OK;
}

static enum row_result map_parquet(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value, *machine = json_get(row, "human_or_machine"), *label = json_get(row, "label");
    bool listed = label != NULL;
    const char *type = listed ? NULL : need_text(d, row, "type", e);
    if (!listed && !type)
        return d->refusal;
    bool human = listed ? cJSON_IsNumber(machine) && machine->valuedouble == 0 : text_begins(type, "human");
    s->subject = human ? "human" : "augmented";
    char *key = arena_printf(&d->scratch, "chartqa/%s/%s", s->split, s->subject);
    s->id = arena_printf(&d->scratch, "%s/%lld", key, (long long)count_up(d, key));
    s->question = need_text(d, row, listed ? "query" : "question", e);
    if (!s->question)
        return d->refusal;
    if (listed && set_answers(d, s, label, e))
        return ROW_REFUSED;
    const char *answer = listed ? NULL : need_text(d, row, "answer", e);
    if (!listed && !answer)
        return d->refusal;
    if (!listed)
        set_answer(d, s, answer);
    sample_meta(d, s);
    return add_cell_media(d, s, MODALITY_IMAGE, json_get(row, "image"), s->id, e) ? ROW_REFUSED : ROW_OK;
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    return d->sources[d->i_source].kind == ROWS_PARQUET ? map_parquet(d, s, e) : map_official(d, s, e);
}

const struct format format_chartqa = {
    .name = "chartqa", .dataset = "chartqa", .type = ANSWER_RELAXED, .modality = MODALITY_IMAGE, .split = "test",
    .max_tokens = 16, .grader = "relaxed", .prompt = "{question}\nAnswer the question with a single word.",
    .published = {{"test", 2500}}, .find = find, .map = map,
};
