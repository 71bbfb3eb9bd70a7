/* set_docvqa.c - DocVQA, single page: the portal's archives (spdocvqa_qas.zip beside spdocvqa_images.tar.gz), its older
 * folder (val_v1.0.json with documents/), or the hub's parquet. The JSON says "documents/NAME.png" though the newer
 * archive is flat: the last name counts then. */
#include "datasets/reader.h"

#include <string.h>

static void find_json(struct dataset *d, struct archive *a)
{
    static const char *const splits[] = {"val", "test", "train"};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < archive_count(a); i++) {
            const struct member *m = archive_member(a, i);
            char *begin = arena_printf(&d->arena, "%s_v", splits[k]);
            if (text_begins(path_base(m->name), begin) && text_ends(m->name, ".json"))
                add_source(d, (struct source){.member = m, .archive = a, .kind = ROWS_JSON, .list_key = "data",
                                              .split = splits[k]});
        }
}

static bool is_archive(const char *name)
{
    return text_ends(name, ".zip") || text_ends(name, ".tar.gz") || text_ends(name, ".tar");
}

/* The portal's archives beside each other: questions and pictures, not the large OCR archive. */
static int find_nested(struct dataset *d, struct err *e)
{
    for (size_t i = 0; archive_is_folder(d->archive) && i < archive_count(d->archive); i++) {
        const char *name = archive_member(d->archive, i)->name;
        if (!is_archive(name) || !(strstr(name, "_qas") || strstr(name, "_images")))
            continue;
        struct archive *a = open_nested(d, name, e);
        if (!a)
            return -1;
        find_json(d, a);
    }
    return 0;
}

static int find(struct dataset *d, struct err *e)
{
    static const char *const renames[] = {"validation", "val", NULL};
    find_json(d, d->archive);
    if (!d->n_sources && find_nested(d, e))
        return -1;
    if (d->n_sources)
        note_form(d, "official JSON and pictures (%s)", archive_form(d->archive));
    else if (!add_parquet(d, "DocVQA", renames))
        add_parquet(d, NULL, renames);
    return d->n_sources ? 0 : not_found(d, "val_v1.0.json with its pictures, spdocvqa_qas.zip with "
                                           "spdocvqa_images.tar.gz, or validation-*.parquet", e);
}

static int take_picture(struct dataset *d, struct sample *s, const cJSON *row, struct err *e)
{
    const struct source *src = &d->sources[d->i_source];
    if (src->kind == ROWS_PARQUET)
        return add_cell_media(d, s, MODALITY_IMAGE, json_get(row, "image"), s->id, e);
    const char *name = need_text(d, row, "image", e);
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
    return add_member_media(d, s, MODALITY_IMAGE, p, MEMBER_MEDIA_MAX, e);
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->id = scalar_text(d, json_get(row, "questionId"));
    if (!s->id)
        return refuse(d, e, "E_COLUMNS", "no \"questionId\"");
    s->question = need_text(d, row, "question", e);
    if (!s->question || set_answers(d, s, json_get(row, "answers"), e))
        return d->refusal;
    if (!s->n_answers && !d->split)
        return ROW_IGNORED;             /* the test split's answers are hidden: only when asked for by name */
    cJSON *meta = sample_meta(d, s);
    const cJSON *types = json_get(row, "question_types"), *doc = json_get(row, "docId");
    if (cJSON_IsArray(types))
        cJSON_AddItemToObject(meta, "question_types", cJSON_Duplicate(types, true));
    if (doc)
        cJSON_AddItemToObject(meta, "docId", cJSON_Duplicate(doc, true));
    return take_picture(d, s, row, e) ? d->refusal : ROW_OK;
}

const struct format format_docvqa = {
    .name = "docvqa", .dataset = "docvqa", .type = ANSWER_ANLS, .modality = MODALITY_IMAGE, .split = "val",
    .max_tokens = 32, .grader = "anls", .prompt = "{question}\nAnswer the question using a single word or phrase.",
    .published = {{"train", 39463}, {"val", 5349}, {"test", 5188}}, .find = find, .map = map,
};
