/* set_mmau.c - MMAU: mmau-test-mini.json with its sounds, or the hub's parquet in two packagings. The answer is a
 * choice's text; the grader "choice" gets the letter instead. */
#include "datasets/reader.h"

#include <string.h>

static const char *split_name(const char *s)
{
    return strcmp(s, "test_mini") == 0 ? "test-mini" : s;
}

static int find(struct dataset *d, struct err *e)
{
    static const char *const renames[] = {"test_mini", "test-mini", "train", "test-mini", NULL};
    for (size_t i = 0; i < archive_count(d->archive); i++) {
        const struct member *m = archive_member(d->archive, i);
        const char *base = path_base(m->name);
        bool named = text_begins(base, "mmau-test") || archive_count(d->archive) == 1;
        if (named && text_ends(base, ".json"))
            add_source(d, (struct source){.member = m, .kind = ROWS_JSON,
                                          .split = text_begins(base, "mmau-test.") ? "test" : "test-mini"});
    }
    for (size_t i = 0; d->n_sources && archive_is_folder(d->archive) && i < archive_count(d->archive); i++) {
        const char *name = archive_member(d->archive, i)->name;
        bool packed = text_ends(name, ".tar.gz") || text_ends(name, ".zip") || text_ends(name, ".tar");
        if (packed && strstr(path_base(name), "audios") && !open_nested(d, name, e))
            return -1;
    }
    if (d->n_sources)
        note_form(d, "official JSON and sounds (%s)", archive_form(d->archive));
    else
        add_parquet(d, NULL, renames);
    return d->n_sources ? 0 : not_found(d, "mmau-test-mini.json with test-mini-audios/, or test_mini-*.parquet", e);
}

/* A list, or a list written as JSON inside a string. */
static const cJSON *choices_of(struct dataset *d, struct err *e)
{
    const cJSON *v = json_get(d->row.value, "choices");
    if (!cJSON_IsString(v))
        return v;
    cJSON *inner = json_parse(v->valuestring, strlen(v->valuestring), "choices", e);
    if (inner)
        cJSON_AddItemToObject(d->row.value, "choices (parsed)", inner);
    return inner;
}

static int take_answer(struct dataset *d, struct sample *s, const char *answer, struct err *e)
{
    for (int i = s->n_choices - 1; i >= 0; i--)
        if (strcmp(s->choices[i], answer) == 0)
            s->answer_index = i;
    if (s->answer_index < 0) {
        refuse(d, e, "E_LABEL", "the answer \"%s\" is none of the choices", answer);
        return -1;
    }
    bool by_letter = strcmp(d->spec.grader, "choice") == 0;
    set_answer(d, s, by_letter ? s->labels[s->answer_index] : answer);
    return 0;
}

static int take_sound(struct dataset *d, struct sample *s, const cJSON *row, struct err *e)
{
    if (d->sources[d->i_source].kind == ROWS_PARQUET) {
        const cJSON *cell = json_get(row, "audio");
        return add_cell_media(d, s, MODALITY_AUDIO, cell ? cell : json_get(row, "context"), s->id, e);
    }
    const char *name = need_text(d, row, "audio_id", e);
    if (!name)
        return -1;
    if (!name_is_safe(name)) {
        refuse(d, e, "E_PATH", "\"%s\" leaves its folder", name);
        return -1;
    }
    struct place p = find_media(d, name);
    if (!place_found(p)) {
        refuse(d, e, "E_MISSING_MEDIA", "%s is not there", name);
        return -1;
    }
    return add_member_media(d, s, MODALITY_AUDIO, p, MEMBER_MEDIA_MAX, e);
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    static const char *const keys[][2] = {{"dataset", "dataset"}, {"category", "category"},
                                          {"sub_category", "sub-category"}, {"difficulty", "difficulty"}};
    const cJSON *row = d->row.value, *other = json_get(row, "other_attributes");
    const cJSON *facts = cJSON_IsObject(other) ? other : row;
    s->question = need_text(d, row, json_get(row, "instruction") ? "instruction" : "question", e);
    s->id = s->question ? need_text(d, facts, "id", e) : NULL;
    if (!s->id)
        return d->refusal;
    if (set_choices(d, s, choices_of(d, e), NULL, e))
        return ROW_REFUSED;
    const char *answer = text_or(row, "answer", "");
    if (*answer && take_answer(d, s, answer, e))
        return ROW_REFUSED;
    s->subject = text_or(facts, "task", "");
    s->split = split_name(text_or(facts, "split", s->split));
    cJSON *meta = sample_meta(d, s);
    for (size_t i = 0; i < 4; i++) {
        const char *v = text_or(facts, keys[i][1], text_or(facts, keys[i][0], NULL));
        if (v)
            cJSON_AddStringToObject(meta, keys[i][0], v);
    }
    return take_sound(d, s, row, e) ? d->refusal : ROW_OK;
}

const struct format format_mmau = {
    .name = "mmau", .dataset = "mmau", .type = ANSWER_CHOICE, .modality = MODALITY_AUDIO, .split = "test-mini",
    .max_tokens = 64, .grader = "mmau",
    /* the official rule compares words with the choice's text: a bare letter is wrong under it */
    .prompt = "{question}\n{options}\nAnswer with the full text of the right option only.",
    .published = {{"test-mini", 1000}, {"test", 9000}}, .find = find, .map = map,
};
