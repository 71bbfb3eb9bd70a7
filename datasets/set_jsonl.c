/* set_jsonl.c - a user's own questions, as JSON lines or CSV. datasets/README.md documents the columns.
 *
 * Each row has a type, named by "type" or inferred; the first row's is the task's, and other rows bring their own grader
 * and prompt. Pictures and sounds are named by paths relative to the file, in columns or in a conversation ("messages").
 */
#include "datasets/reader.h"

#include <stdlib.h>
#include <string.h>

struct own {
    bool typed;                 /* a row has been seen */
    enum answer_type type;      /* of the first */
    bool given_grader, given_prompt;        /* by the suite: then they hold for every row */
};

static const struct { const char *name; enum answer_type type; const char *grader; } types[] = {
    {"mcq", ANSWER_CHOICE, "choice"},      {"numeric", ANSWER_NUMBER, "number"},
    {"text", ANSWER_TEXT, "text"},         {"vqa_relaxed", ANSWER_RELAXED, "relaxed"},
    {"vqa_anls", ANSWER_ANLS, "anls"},     {"asr", ANSWER_SPEECH, "speech"},
};

static const cJSON *first_of(const cJSON *row, const char *a, const char *b, const char *c)
{
    const char *keys[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        const cJSON *v = keys[i] ? json_get(row, keys[i]) : NULL;
        bool empty = v && (cJSON_IsNull(v) || (cJSON_IsString(v) && !*v->valuestring));
        if (v && !empty)
            return v;
    }
    return NULL;
}

/* A cell of a CSV that holds JSON: ["a", "b"] or {"A": "a"}. Stays attached to the row. */
static const cJSON *unfold(struct dataset *d, const char *key, const cJSON *v)
{
    if (!cJSON_IsString(v) || !strchr("[{", v->valuestring[0]) || !v->valuestring[0])
        return v;
    struct err quiet = {0};
    cJSON *inner = json_parse(v->valuestring, strlen(v->valuestring), key, &quiet);
    if (!inner)
        return v;
    cJSON_AddItemToObject(d->row.value, arena_printf(&d->scratch, "%s (parsed)", key), inner);
    return inner;
}

/* Options as columns A, B, C, ... */
static cJSON *lettered(struct dataset *d)
{
    cJSON *list = cJSON_CreateObject();
    for (int i = 0; i < 26; i++) {
        const char *s = json_string(d->row.value, letter(d, i));
        if (!s || !*s)
            break;
        cJSON_AddStringToObject(list, letter(d, i), s);
    }
    if (!list->child) {
        cJSON_Delete(list);
        return NULL;
    }
    cJSON_AddItemToObject(d->row.value, "options (columns)", list);
    return list;
}

static int take_options(struct dataset *d, struct sample *s, const cJSON *options, struct err *e)
{
    if (!cJSON_IsObject(options))
        return set_choices(d, s, options, first_of(d->row.value, "labels", "choice_labels", NULL), e);
    if (json_get(options, "text") && json_get(options, "label"))
        return set_choices(d, s, json_get(options, "text"), json_get(options, "label"), e);
    cJSON *labels = cJSON_CreateArray(), *texts = cJSON_CreateArray();
    const cJSON *o;
    cJSON_ArrayForEach(o, options) {
        cJSON_AddItemToArray(labels, cJSON_CreateString(o->string));
        cJSON_AddItemToArray(texts, cJSON_Duplicate(o, true));
    }
    cJSON_AddItemToObject(d->row.value, "labels (keys)", labels);
    cJSON_AddItemToObject(d->row.value, "texts (values)", texts);
    return set_choices(d, s, texts, labels, e);
}

/* By label, by index from 0 (a JSON number), or by the choice's own text. */
static int take_choice(struct dataset *d, struct sample *s, const cJSON *answer, struct err *e)
{
    if (cJSON_IsNumber(answer)) {
        double i = answer->valuedouble;
        if (i < 0 || i >= s->n_choices || i != (int)i) {
            refuse(d, e, "E_LABEL", "the answer %g is no index of %d choices", i, s->n_choices);
            return -1;
        }
        return set_answer_label(d, s, s->labels[(int)i], e);
    }
    if (!cJSON_IsString(answer)) {
        refuse(d, e, "E_TYPE", "the answer to a choice must be a label, an index or a choice's text");
        return -1;
    }
    int found = -1;
    for (int i = 0; i < s->n_choices; i++)
        if (strcmp(s->labels[i], answer->valuestring) == 0)
            return set_answer_label(d, s, answer->valuestring, e);
        else if (strcmp(s->choices[i], answer->valuestring) == 0)
            found = i;
    return set_answer_label(d, s, found >= 0 ? s->labels[found] : answer->valuestring, e);
}

static int take_type(struct dataset *d, struct sample *s, const cJSON *options, bool sound, const cJSON *answer,
                     struct err *e)
{
    struct own *own = d->state;
    const char *name = json_string(d->row.value, "type");
    enum answer_type type = options ? ANSWER_CHOICE : cJSON_IsNumber(answer) ? ANSWER_NUMBER :
                            sound && !first_of(d->row.value, "question", "prompt", "query") ? ANSWER_SPEECH :
                            ANSWER_TEXT;
    if (name && *name) {
        size_t i = 0, n = sizeof types / sizeof *types;
        while (i < n && strcmp(types[i].name, name) != 0)
            i++;
        if (i == n) {
            refuse(d, e, "E_TYPE", "type \"%s\"; known are mcq, numeric, text, vqa_relaxed, vqa_anls, asr", name);
            return -1;
        }
        type = types[i].type;
    }
    if (!own->typed) {
        own->typed = true;
        own->type = type;
    }
    s->type = type;
    return 0;
}

static const char *grader_of(enum answer_type type)
{
    size_t i = 0;
    while (types[i].type != type)
        i++;
    return types[i].grader;
}

static const char *prompt_of(enum answer_type type)
{
    return type == ANSWER_CHOICE ? "{question}\n\n{options}\n\nAnswer with {labels} only." :
           type == ANSWER_SPEECH ? format_librispeech.prompt : "{question}";
}

/* A row of another type than the first brings what that type needs. */
static void take_manner(const struct dataset *d, struct sample *s)
{
    const struct own *own = d->state;
    if (s->type == own->type)
        return;
    s->grader = own->given_grader ? NULL : grader_of(s->type);
    s->prompt = own->given_prompt ? NULL : prompt_of(s->type);
}

static int add_file(struct dataset *d, struct sample *s, enum sample_modality kind, const char *name, struct err *e)
{
    if (!name_is_safe(name)) {
        refuse(d, e, "E_PATH", "\"%s\" must be a path inside the folder of the file", name);
        return -1;
    }
    struct place p = find_beside(d, name);
    if (!place_found(p)) {
        refuse(d, e, "E_MISSING_MEDIA", "\"%s\" is not there", name);
        return -1;
    }
    return add_member_media(d, s, kind, p, MEMBER_MEDIA_MAX, e);
}

static int add_files(struct dataset *d, struct sample *s, enum sample_modality kind, const char *one, const char *many,
                     struct err *e)
{
    const cJSON *v = unfold(d, many, first_of(d->row.value, one, many, NULL)), *item;
    if (!v)
        return 0;
    s->modality = kind;
    if (cJSON_IsString(v))
        return add_file(d, s, kind, v->valuestring, e);
    cJSON_ArrayForEach(item, v)
        if (!cJSON_IsString(item)) {
            refuse(d, e, "E_TYPE", "\"%s\" must be a path or a list of paths", many);
            return -1;
        } else if (add_file(d, s, kind, item->valuestring, e)) {
            return -1;
        }
    return 0;
}

/* A picture or sound among the parts of a message: its path stands under the part's own type, "path", "url" or "file". */
static int take_part(struct dataset *d, struct sample *s, const cJSON *part, struct err *e)
{
    const char *type = json_string(part, "type");
    bool image = type && (strcmp(type, "image") == 0 || strcmp(type, "image_url") == 0);
    bool sound = type && (strcmp(type, "audio") == 0 || strcmp(type, "input_audio") == 0);
    if (!image && !sound)
        return 0;
    const char *name = json_string(part, image ? "image" : "audio");
    const char *const keys[] = {"path", "url", "file"};
    for (int i = 0; i < 3 && !name; i++)
        name = json_string(part, keys[i]);
    if (!name) {
        refuse(d, e, "E_MISSING_MEDIA", "a part of type \"%s\" names no file", type);
        return -1;
    }
    s->modality = image ? MODALITY_IMAGE : MODALITY_AUDIO;
    return add_file(d, s, s->modality, name, e);
}

/* A whole conversation. Its last text of the user is the question that reports show. */
static int take_messages(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *messages = json_get(d->row.value, "messages"), *message, *part;
    if (!messages || cJSON_IsNull(messages))
        return 0;
    if (!cJSON_IsArray(messages) || !messages->child || s->n_media) {
        refuse(d, e, "E_TYPE", "\"messages\" must be a list that names its own pictures and sounds");
        return -1;
    }
    cJSON_ArrayForEach(message, messages) {
        const char *role = json_string(message, "role");
        const cJSON *content = json_get(message, "content");
        if (!role || (!cJSON_IsString(content) && !cJSON_IsArray(content))) {
            refuse(d, e, "E_TYPE", "each of the \"messages\" needs \"role\" and \"content\"");
            return -1;
        }
        bool user = strcmp(role, "user") == 0;
        if (user && cJSON_IsString(content))
            s->question = content->valuestring;
        if (!cJSON_IsArray(content))
            continue;
        cJSON_ArrayForEach(part, content) {
            if (user && json_string(part, "text"))
                s->question = json_string(part, "text");
            if (take_part(d, s, part, e))
                return -1;
        }
    }
    s->messages = messages;
    return 0;
}

/* Against an answer without a digit every output would be wrong. */
static int check_number(struct dataset *d, const struct sample *s, struct err *e)
{
    for (int i = 0; i < s->n_answers && s->type == ANSWER_NUMBER; i++)
        if (!strpbrk(s->answers[i], "0123456789")) {
            refuse(d, e, "E_LABEL", "the answer \"%s\" is no number", s->answers[i]);
            return -1;
        }
    return 0;
}

static int take_answers(struct dataset *d, struct sample *s, const cJSON *answer, struct err *e)
{
    if (!answer)
        return 0;                       /* hidden */
    if (cJSON_IsArray(answer))
        return set_answers(d, s, answer, e) || check_number(d, s, e) ? -1 : 0;
    const char *text = scalar_text(d, answer);
    if (!text) {
        refuse(d, e, "E_TYPE", "the answer must be a text, a number or a list of them");
        return -1;
    }
    set_answer(d, s, text);
    return check_number(d, s, e);
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    if (!cJSON_IsObject(row))
        return refuse(d, e, "E_TYPE", "a row must be an object");
    const cJSON *id = first_of(row, "id", "question_id", "index"), *text = first_of(row, "question", "prompt", "query");
    s->id = id ? scalar_text(d, id) : arena_printf(&d->scratch, "%s/%lld", d->spec.task, (long long)d->row_index);
    if (!s->id || (text && !cJSON_IsString(text)))
        return refuse(d, e, "E_TYPE", "id and question must be texts");
    s->question = text ? text->valuestring : NULL;
    const cJSON *group = json_get(row, "group"), *subject = first_of(row, "subject", "category", NULL);
    s->group = scalar_text(d, group) ? scalar_text(d, group) : "";
    s->subject = scalar_text(d, subject) ? scalar_text(d, subject) : "";
    const cJSON *options = unfold(d, "choices", first_of(row, "choices", "options", NULL));
    if (!options)
        options = lettered(d);
    const cJSON *answer = unfold(d, "answers", first_of(row, "answer", "answers", "answerKey"));
    if (take_type(d, s, options, first_of(row, "audio", "audios", NULL) != NULL, answer, e))
        return ROW_REFUSED;
    take_manner(d, s);
    if (add_files(d, s, MODALITY_IMAGE, "image", "images", e) || add_files(d, s, MODALITY_AUDIO, "audio", "audios", e) ||
        take_messages(d, s, e))
        return ROW_REFUSED;
    bool names_media = first_of(row, "image", "images", "audio") || first_of(row, "audios", "messages", NULL);
    if (!s->question && !s->n_media && !(d->dry && names_media))
        return refuse(d, e, "E_COLUMNS", "neither a question nor a picture or sound");
    if (s->type != ANSWER_CHOICE)
        return take_answers(d, s, answer, e) ? ROW_REFUSED : ROW_OK;
    if (take_options(d, s, options, e))
        return ROW_REFUSED;
    return answer && take_choice(d, s, answer, e) ? ROW_REFUSED : ROW_OK;
}

static bool is_table(const char *name)
{
    return text_ends(name, ".jsonl") || text_ends(name, ".csv") || text_ends(name, ".json");
}

static enum row_kind kind_of(const char *name)
{
    return text_ends(name, ".csv") ? ROWS_CSV : text_ends(name, ".json") ? ROWS_JSON : ROWS_JSONL;
}

static int find(struct dataset *d, struct err *e)
{
    d->state = NEW(struct own, 1);
    size_t n = archive_count(d->archive);
    for (size_t i = 0; i < n; i++) {
        const struct member *m = archive_member(d->archive, i);
        if (n == 1 || (is_table(m->name) && !strchr(m->name, '/')))
            add_source(d, (struct source){.member = m, .kind = kind_of(m->name), .list_key = "data"});
    }
    if (!d->n_sources)
        return not_found(d, "a .jsonl, .json or .csv file", e);
    note_form(d, "own questions (%s)", archive_form(d->archive));
    /* the first row decides the type, and with it grader and prompt */
    struct rows *rows;
    if (rows_open(&rows, d->archive, d->sources[0].member, d->sources[0].kind, "data", e))
        return -1;
    struct err why = {0};
    enum row_result rc;
    struct sample s = {0};
    d->dry = true;
    struct own *own = d->state;
    while (!own->typed && (rc = rows_next(rows, &d->row, &why)) != ROW_END && rc != ROW_FATAL)
        if (rc == ROW_OK)
            map(d, &s, &why);
    d->dry = false;
    rows_close(rows);
    arena_free(&d->scratch);
    own->given_grader = d->spec.grader != NULL;
    own->given_prompt = d->spec.prompt != NULL;
    if (!own->given_grader)
        d->spec.grader = own->typed ? grader_of(own->type) : "text";
    if (!own->given_prompt && own->typed)
        d->spec.prompt = prompt_of(own->type);
    return 0;
}

static void close_own(struct dataset *d) { free(d->state); }

const struct format format_jsonl = {
    .name = "jsonl", .dataset = "jsonl", .type = ANSWER_TEXT, .modality = MODALITY_TEXT, .split = "all",
    .max_tokens = 256, .prompt = "{question}", .find = find, .map = map, .close = close_own,
};
