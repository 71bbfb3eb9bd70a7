/* set_mmlu.c - MMLU: data.tar or its folder (one CSV a subject and split, no header), or the hub's parquet shards. */
#include "datasets/reader.h"

#include <string.h>

/* "astronomy" of "data/test/astronomy_test.csv" for the split "test"; NULL if the name has another form. */
static const char *subject_of(struct dataset *d, const char *name, const char *split)
{
    const char *base = path_base(name);
    char *tail = arena_printf(&d->arena, "_%s.csv", split);
    return text_ends(base, tail) && strlen(base) > strlen(tail) ?
           arena_strndup(&d->arena, base, strlen(base) - strlen(tail)) : NULL;
}

/* The publisher's list names web pages, not questions: it cannot be applied to a sample. */
static void note_pages(struct dataset *d, const struct member *m)
{
    struct rows *rows;
    struct row row;
    struct err quiet = {0};
    int64_t n = 0;
    if (rows_open(&rows, d->archive, m, ROWS_LINES, NULL, &quiet))
        return;
    while (rows_next(rows, &row, &quiet) == ROW_OK)
        n++;
    rows_close(rows);
    dataset_warn(d, "%s names %lld web pages that may hold questions and answers, but not which questions: none is "
                 "marked for it", m->name, (long long)n);
}

static void find_csv(struct dataset *d)
{
    static const char *const splits[] = {"dev", "val", "test"};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < archive_count(d->archive); i++) {
            const struct member *m = archive_member(d->archive, i);
            const char *subject = subject_of(d, m->name, splits[k]);
            if (subject)
                add_source(d, (struct source){.member = m, .kind = ROWS_CSV_BARE, .split = splits[k],
                                              .tag = subject});
        }
    if (d->n_sources)
        note_form(d, "official CSV (%s)", archive_form(d->archive));
    for (size_t i = 0; i < archive_count(d->archive); i++)
        if (strcmp(path_base(archive_member(d->archive, i)->name), "possibly_contaminated_urls.txt") == 0)
            note_pages(d, archive_member(d->archive, i));
}

static int find(struct dataset *d, struct err *e)
{
    static const char *const renames[] = {"validation", "val", NULL};
    find_csv(d);
    /* "all" repeats the subjects' own folders */
    if (!d->n_sources && !add_parquet(d, "all", renames))
        add_parquet(d, NULL, renames);
    int n = 0;
    for (int i = 0; i < d->n_sources; i++)
        if (!strstr(d->sources[i].split, "auxiliary") && !strstr(d->sources[i].member->name, "auxiliary_train/"))
            d->sources[n++] = d->sources[i];
    d->n_sources = n;
    return n ? 0 : not_found(d, "data.tar, a folder with test/SUBJECT_test.csv, or test-*.parquet", e);
}

static enum row_result map_csv(struct dataset *d, struct sample *s, struct err *e)
{
    const struct source *src = &d->sources[d->i_source];
    cJSON *row = d->row.value;
    int n = cJSON_GetArraySize(row);
    if (n != 6)
        return refuse(d, e, "E_COLUMNS", "%d fields, 6 were expected (question, A, B, C, D, answer)", n);
    s->subject = src->tag;
    s->id = arena_printf(&d->scratch, "mmlu/%s/%s/%lld", s->split, s->subject, (long long)d->row_index);
    const char *answer = cJSON_GetArrayItem(row, 5)->valuestring;
    s->question = arena_strndup(&d->scratch, row->child->valuestring, strlen(row->child->valuestring));
    answer = arena_strndup(&d->scratch, answer, strlen(answer));
    cJSON_DeleteItemFromArray(row, 5);      /* what is left are the choices */
    cJSON_DeleteItemFromArray(row, 0);
    return set_choices(d, s, row, NULL, e) || set_answer_label(d, s, answer, e) ? ROW_REFUSED : ROW_OK;
}

static enum row_result map_parquet(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->subject = need_text(d, row, "subject", e);
    s->question = s->subject ? need_text(d, row, "question", e) : NULL;
    if (!s->question)
        return d->refusal;
    if (set_choices(d, s, json_get(row, "choices"), NULL, e))
        return ROW_REFUSED;
    char *key = arena_printf(&d->scratch, "%s/%s", s->split, s->subject);
    s->id = arena_printf(&d->scratch, "mmlu/%s/%lld", key, (long long)count_up(d, key));
    const cJSON *answer = json_get(row, "answer");
    if (!cJSON_IsNumber(answer)) {
        refuse(d, e, !answer ? "E_COLUMNS" : cJSON_IsNull(answer) ? "E_NULL" : "E_TYPE",
               "answer: an integer was expected");
        return answer && cJSON_IsNull(answer) ? ROW_REFUSED : ROW_FATAL;
    }
    if (answer->valuedouble < 0 || answer->valuedouble >= s->n_choices)
        return refuse(d, e, "E_LABEL", "the answer %g is none of %d choices", answer->valuedouble, s->n_choices);
    s->answer_index = (int)answer->valuedouble;
    set_answer(d, s, s->labels[s->answer_index]);
    return ROW_OK;
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    return d->sources[d->i_source].kind == ROWS_PARQUET ? map_parquet(d, s, e) : map_csv(d, s, e);
}

const struct format format_mmlu = {
    .name = "mmlu", .dataset = "mmlu", .type = ANSWER_CHOICE, .modality = MODALITY_TEXT,
    .split = "test", .shot_split = "dev", .shots = 0, .max_tokens = 32, .grader = "choice",
    .prompt = "{question}\n\n{options}\n\nAnswer with {labels} only.",
    .style = {.intro = "The following are multiple choice questions (with answers) about {subject}.\n\n",
              .question = "{question.trim}\n{options}\nAnswer:", .answer = " {label}"},
    .published = {{"dev", 285}, {"val", 1531}, {"test", 14042}},
    .find = find, .map = map,
};
