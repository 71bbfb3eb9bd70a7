/* set_arc.c - ARC-Easy and ARC-Challenge: the official zip or folder (JSON lines; the CSV twins where those are
 * missing), or the hub's parquet shards. Labels are A to E or 1 to 5, and the answer key follows the row's own. */
#include "datasets/reader.h"

#include <string.h>

static const char *split_in(const char *base)
{
    return strstr(base, "Test") ? "test" : strstr(base, "Dev") ? "dev" : strstr(base, "Train") ? "train" : NULL;
}

static int find_in(struct dataset *d, const char *config, struct err *e)
{
    static const char *const renames[] = {"validation", "dev", NULL};
    static const struct { const char *end; enum row_kind kind; } forms[] = {{".jsonl", ROWS_JSONL}, {".csv", ROWS_CSV}};
    for (size_t k = 0; k < 2 && !d->n_sources; k++)
        for (size_t i = 0; i < archive_count(d->archive); i++) {
            const struct member *m = archive_member(d->archive, i);
            const char *base = path_base(m->name);
            bool alone = archive_count(d->archive) == 1;
            if (!text_ends(base, forms[k].end) || !(text_begins(base, config) || alone))
                continue;
            const char *split = split_in(base);
            if (split || alone)
                add_source(d, (struct source){.member = m, .kind = forms[k].kind, .split = split ? split : "test"});
        }
    if (d->n_sources)
        note_form(d, "official %s (%s)", forms[d->sources[0].kind == ROWS_CSV].end + 1, archive_form(d->archive));
    else if (!add_parquet(d, config, renames) && !strstr(archive_path(d->archive), "ARC-"))
        add_parquet(d, NULL, renames);
    return d->n_sources ? 0 : not_found(d, "ARC-V1-Feb2018.zip, its folder, ARC-*-Test.jsonl or the parquet shards", e);
}

static int find_easy(struct dataset *d, struct err *e) { return find_in(d, "ARC-Easy", e); }
static int find_challenge(struct dataset *d, struct err *e) { return find_in(d, "ARC-Challenge", e); }

/* The official CSV has the choices inside the question: "Which tool? (A) ruler (B) balance". */
static int split_stem(struct dataset *d, struct sample *s, const char *text, struct err *e)
{
    const char *marks[8];
    int n = 0;
    char first = strstr(text, "(A) ") ? 'A' : '1';
    for (const char *p = text; n < 8; n++, p += 4) {
        char mark[] = {'(', (char)(first + n), ')', ' ', '\0'};
        p = strstr(p, mark);
        if (!p)
            break;
        marks[n] = p;
    }
    if (n < 2) {
        refuse(d, e, "E_COLUMNS", "no choices in the question");
        return -1;
    }
    s->question = arena_strndup(&d->scratch, text, (size_t)(marks[0] - text) - (marks[0] > text));
    s->n_choices = n;
    s->choices = ARENA_NEW(&d->scratch, const char *, n);
    s->labels = ARENA_NEW(&d->scratch, const char *, n);
    for (int i = 0; i < n; i++) {
        const char *from = marks[i] + 4, *to = i + 1 < n ? marks[i + 1] : text + strlen(text);
        while (i + 1 < n && to > from && to[-1] == ' ')
            to--;
        s->choices[i] = arena_strndup(&d->scratch, from, (size_t)(to - from));
        s->labels[i] = arena_printf(&d->scratch, "%c", first + i);
    }
    return 0;
}

static enum row_result map_csv(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->id = need_text(d, row, "questionID", e);
    const char *question = s->id ? need_text(d, row, "question", e) : NULL;
    const char *key = question ? need_text(d, row, "AnswerKey", e) : NULL;
    if (!key)
        return d->refusal;
    return split_stem(d, s, question, e) || set_answer_label(d, s, key, e) ? ROW_REFUSED : ROW_OK;
}

/* JSON: question {stem, choices [{text, label}]}; hub: question, choices {text [], label []}. */
static int take_choices(struct dataset *d, struct sample *s, const cJSON *choices, struct err *e)
{
    if (cJSON_IsObject(choices))
        return set_choices(d, s, json_get(choices, "text"), json_get(choices, "label"), e);
    cJSON *texts = cJSON_CreateArray(), *labels = cJSON_CreateArray();
    const cJSON *c;
    cJSON_ArrayForEach(c, choices) {
        const char *text = json_string(c, "text"), *label = json_string(c, "label");
        cJSON_AddItemToArray(texts, text ? cJSON_CreateString(text) : cJSON_CreateNull());
        cJSON_AddItemToArray(labels, label ? cJSON_CreateString(label) : cJSON_CreateNull());
    }
    int rc = set_choices(d, s, cJSON_IsArray(choices) ? texts : NULL, labels, e);
    for (int i = 0; !rc && i < s->n_choices; i++) {         /* the lists go, their texts stay */
        s->choices[i] = arena_strndup(&d->scratch, s->choices[i], strlen(s->choices[i]));
        s->labels[i] = arena_strndup(&d->scratch, s->labels[i], strlen(s->labels[i]));
    }
    cJSON_Delete(texts);
    cJSON_Delete(labels);
    return rc;
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    if (d->sources[d->i_source].kind == ROWS_CSV)
        return map_csv(d, s, e);
    const cJSON *row = d->row.value, *question = json_get(row, "question");
    bool nested = cJSON_IsObject(question);
    s->id = need_text(d, row, "id", e);
    s->question = !s->id ? NULL : nested ? need_text(d, question, "stem", e) : need_text(d, row, "question", e);
    if (!s->question || take_choices(d, s, json_get(nested ? question : row, "choices"), e))
        return d->refusal;
    const char *key = need_text(d, row, "answerKey", e);
    if (!key)
        return d->refusal;
    return set_answer_label(d, s, key, e) ? ROW_REFUSED : ROW_OK;
}

#define ARC_COMMON \
    .type = ANSWER_CHOICE, .modality = MODALITY_TEXT, .split = "test", .shot_split = "train", .shots = 0, \
    .max_tokens = 32, .grader = "choice", .map = map, \
    .prompt = "{question}\n\n{options}\n\nAnswer with {labels} only.", \
    .style = {.intro = "", .question = "Question: {question}\nAnswer:", .answer = " {choice}"}

const struct format format_arc_easy = {
    .name = "arc-easy", .dataset = "arc_easy", ARC_COMMON, .find = find_easy,
    .published = {{"train", 2251}, {"dev", 570}, {"test", 2376}},
};
const struct format format_arc_challenge = {
    .name = "arc-challenge", .dataset = "arc_challenge", ARC_COMMON, .find = find_challenge,
    .published = {{"train", 1119}, {"dev", 299}, {"test", 1172}},
};
