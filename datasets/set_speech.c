/* set_speech.c - LibriSpeech, GigaSpeech and Earnings-22, and the shape that the hub's speech parquet has in common.
 *
 * LibriSpeech: the official tree or its tar.gz, one .trans.txt a chapter. GigaSpeech: GigaSpeech.json with long Opus
 * recordings cut by time, or the hub's metadata CSV with tar.gz chunks. Earnings-22: the official folder with whole
 * calls. Segments that the publishers exclude from scoring are left out, unless split "all" asks for everything.
 */
#include "datasets/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define TRANSCRIBE "Transcribe the following speech segment in English into English text. Follow these specific " \
                   "instructions for formatting the answer:\n" \
                   "* Only output the transcription, with no newlines.\n" \
                   "* When transcribing numbers, write the digits, i.e. write 1.7 and not one point seven, and write " \
                   "3 instead of three."

/* ---- the hub's shape: id, text, audio ---------------------------------------------------------------------------- */

static int take_hub_row(struct dataset *d, struct sample *s, const char *id_key, struct err *e)
{
    static const char *const text_keys[] = {"text", "transcription", "gt"};
    const cJSON *row = d->row.value, *audio = json_get(row, "audio"), *file = json_get(row, "file_id");
    const char *path = text_or(audio, "path", ""), *segment = scalar_text(d, json_get(row, "segment_id"));
    size_t k = 0;
    while (k < 2 && !json_get(row, text_keys[k]))
        k++;
    if (json_get(row, id_key) || json_get(row, "id"))
        s->id = need_text(d, row, json_get(row, id_key) ? id_key : "id", e);
    else if (scalar_text(d, file) && segment)           /* chunks of whole recordings */
        s->id = arena_printf(&d->scratch, "%s_%s", scalar_text(d, file), segment);
    else if (*path)
        s->id = arena_strndup(&d->scratch, path_base(path), strcspn(path_base(path), "."));
    else
        s->id = need_text(d, row, "id", e);
    const char *text = s->id ? need_text(d, row, json_get(row, text_keys[k]) ? text_keys[k] : "text", e) : NULL;
    if (!text)
        return -1;
    set_answer(d, s, text);
    return add_cell_media(d, s, MODALITY_AUDIO, audio, s->id, e);
}

/* Excluded rows are listed with split "all" only. */
static enum row_result keep_or_ignore(struct dataset *d, bool excluded)
{
    return excluded && d->split ? ROW_IGNORED : ROW_OK;
}

/* ---- LibriSpeech ------------------------------------------------------------------------------------------------- */

/* "test-clean" of ".../test-clean/SPEAKER/CHAPTER/FILE". */
static const char *tree_split(struct dataset *d, struct archive *a, const char *name)
{
    char *path = path_join(archive_path(a), name);
    char *end = path;
    for (int up = 0; up < 3 && end; up++) {
        end = strrchr(path, '/');
        if (end)
            *end = '\0';
    }
    const char *split = end ? path_base(path) : "";
    split = arena_strndup(&d->arena, split, strlen(split));
    free(path);
    return split;
}

static void find_tree(struct dataset *d, struct archive *a)
{
    for (size_t i = 0; i < archive_count(a); i++) {
        const struct member *m = archive_member(a, i);
        if (text_ends(m->name, ".trans.txt"))
            add_source(d, (struct source){.member = m, .archive = a, .kind = ROWS_LINES,
                                          .split = tree_split(d, a, m->name)});
    }
}

/* "clean/test/0000.parquet" and "test.clean-00000-of-00001.parquet" are both test-clean. */
static const char *libri_split(struct dataset *d, const struct source *src)
{
    char *name = arena_strndup(&d->arena, src->split, strlen(src->split));
    for (char *p = name; *p; p++)
        *p = *p == '.' ? '-' : *p;
    if (strchr(name, '-'))
        return name;
    char *path = path_join(archive_path(d->archive), src->member->name);
    const char *config = strstr(path, "other/") ? "other" : strstr(path, "clean/") ? "clean" : "";
    name = *config ? arena_printf(&d->arena, "%s-%s", name, config) : name;
    free(path);
    return name;
}

static int libri_find(struct dataset *d, struct err *e)
{
    find_tree(d, d->archive);
    for (size_t i = 0; !d->n_sources && archive_is_folder(d->archive) && i < archive_count(d->archive); i++)
        if (text_ends(archive_member(d->archive, i)->name, ".parquet"))
            break;
        else if (text_ends(archive_member(d->archive, i)->name, ".tar.gz") &&
                 !open_nested(d, archive_member(d->archive, i)->name, e))
            return -1;
    for (int i = 0; i < d->n_nested; i++)
        find_tree(d, d->nested[i]);
    if (d->n_sources) {
        note_form(d, "official tree (%s)", archive_form(d->n_nested ? d->nested[0] : d->archive));
        return 0;
    }
    if (!add_parquet(d, "librispeech", NULL))
        add_parquet(d, NULL, NULL);
    bool parts = false;
    int n = 0;
    for (int i = 0; i < d->n_sources; i++) {
        d->sources[i].split = libri_split(d, &d->sources[i]);
        parts |= !text_begins(d->sources[i].member->name, "all/");
    }
    for (int i = 0; i < d->n_sources; i++)          /* "all" repeats the parts beside it */
        if (!parts || !text_begins(d->sources[i].member->name, "all/"))
            d->sources[n++] = d->sources[i];
    d->n_sources = n;
    return d->n_sources ? 0 : not_found(d, "test-clean.tar.gz, the LibriSpeech folder or its parquet shards", e);
}

static enum row_result libri_hub(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value, *speaker = json_get(row, "speaker_id"), *chapter = json_get(row, "chapter_id");
    cJSON *meta = sample_meta(d, s);
    if (cJSON_IsNumber(speaker)) {
        s->subject = s->group = scalar_text(d, speaker);
        cJSON_AddNumberToObject(meta, "speaker_id", speaker->valuedouble);
    }
    if (cJSON_IsNumber(chapter))
        cJSON_AddNumberToObject(meta, "chapter_id", chapter->valuedouble);
    return take_hub_row(d, s, "id", e) ? d->refusal : ROW_OK;
}

static enum row_result libri_map(struct dataset *d, struct sample *s, struct err *e)
{
    const struct source *src = &d->sources[d->i_source];
    if (src->kind == ROWS_PARQUET)
        return libri_hub(d, s, e);
    const char *line = d->row.value->valuestring, *blank = strchr(line, ' ');
    size_t n = blank ? (size_t)(blank - line) : strlen(line);
    s->id = arena_strndup(&d->scratch, line, n);
    if (!name_is_safe(s->id) || strchr(s->id, '/'))
        return refuse(d, e, "E_PATH", "\"%s\" is no utterance id", s->id);
    while (blank && *blank == ' ')
        blank++;
    if (!blank || !*blank)
        return refuse(d, e, "E_COLUMNS", "%s has no text", s->id);
    set_answer(d, s, blank);
    size_t dash = strcspn(s->id, "-");
    s->subject = s->group = arena_strndup(&d->scratch, s->id, dash);
    cJSON *meta = sample_meta(d, s);
    cJSON_AddNumberToObject(meta, "speaker_id", atof(s->subject));
    cJSON_AddNumberToObject(meta, "chapter_id", s->id[dash] ? atof(s->id + dash + 1) : 0);
    struct place p = find_beside(d, arena_printf(&d->scratch, "%s.flac", s->id));
    if (!place_found(p))
        return refuse(d, e, "E_MISSING_MEDIA", "%s.flac is not there", s->id);
    return add_member_media(d, s, MODALITY_AUDIO, p, MEMBER_MEDIA_MAX, e) ? ROW_REFUSED : ROW_OK;
}

/* Sounds of the split that no transcript line named. */
static void libri_finish(struct dataset *d)
{
    int64_t sounds = 0;
    for (int i = 0; i < d->n_sources && d->sources[i].kind == ROWS_LINES; i++) {
        const char *folder = folder_of(&d->scratch, d->sources[i].member->name);
        const struct archive *a = d->sources[i].archive;
        for (size_t k = 0; k < archive_count(a); k++) {
            const char *name = archive_member(a, k)->name;
            size_t n = strlen(folder);
            sounds += text_ends(name, ".flac") && strncmp(name, folder, n) == 0 && (!n || name[n] == '/') &&
                      !strchr(name + n + (n > 0), '/');
        }
    }
    if (sounds > d->n_read + d->n_skipped)
        dataset_warn(d, "%lld sounds have no transcript line and are left out",
                     (long long)(sounds - d->n_read - d->n_skipped));
}

const struct format format_librispeech = {
    .name = "librispeech", .dataset = "librispeech", .type = ANSWER_SPEECH, .modality = MODALITY_AUDIO,
    .split = "test-clean", .max_tokens = 256, .grader = "speech", .normalizer = "whisper", .prompt = TRANSCRIBE,
    .published = {{"test-clean", 2620}, {"test-other", 2939}, {"dev-clean", 2703}, {"dev-other", 2864}},
    .find = libri_find, .map = libri_map, .finish = libri_finish,
};

/* ---- GigaSpeech -------------------------------------------------------------------------------------------------- */

static int giga_find(struct dataset *d, struct err *e)
{
    const struct member *json = NULL;
    for (size_t i = 0; i < archive_count(d->archive); i++) {
        const struct member *m = archive_member(d->archive, i);
        if (strcmp(path_base(m->name), "GigaSpeech.json") == 0)
            json = m;
        if (!text_ends(m->name, "_metadata.csv"))
            continue;
        const char *base = path_base(m->name);
        const char *split = text_begins(base, "test") ? "test" : text_begins(base, "dev") ? "dev" : "train";
        add_source(d, (struct source){.member = m, .kind = ROWS_CSV, .split = split});
    }
    for (size_t i = 0; d->n_sources && archive_is_folder(d->archive) && i < archive_count(d->archive); i++)
        if (text_ends(archive_member(d->archive, i)->name, ".tar.gz") &&
            !open_nested(d, archive_member(d->archive, i)->name, e))
            return -1;
    if (d->n_sources) {
        note_form(d, "hub metadata CSV and tar.gz chunks");
    } else if (json) {
        add_source(d, (struct source){.member = json, .kind = ROWS_JSON, .list_key = "audios"});
        note_form(d, "official JSON and recordings (%s)", archive_form(d->archive));
    } else if (!add_parquet(d, "gigaspeech", NULL)) {
        add_parquet(d, NULL, NULL);
    }
    return d->n_sources ? 0 : not_found(d, "GigaSpeech.json with audio/, the hub's CSV and tar.gz, or parquet", e);
}

static bool in_list(const char *word, size_t n, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == n && memcmp(*list, word, n) == 0)
            return true;
    return false;
}

/* The official post-processing before scoring: upper case, '-' as blank, fillers and tags dropped. */
static char *giga_scored_text(struct arena *a, const char *text, bool *garbage)
{
    static const char *const dropped[] = {
        "UH", "UHH", "UM", "EH", "MM", "HM", "AH", "HUH", "HA", "ER", "OOF", "HEE", "ACH", "EEE", "EW", "<UNK>",
        "<COMMA>", "<PERIOD>", "<QUESTIONMARK>", "<EXCLAMATIONPOINT>", NULL};
    static const char *const noises[] = {"<SIL>", "<MUSIC>", "<NOISE>", "<OTHER>", NULL};
    size_t len = strlen(text), n = 0, words = 0, noise = 0;
    char *out = ARENA_NEW(a, char, len + 1), *upper = ARENA_NEW(a, char, len + 1);
    for (size_t i = 0; i < len; i++)
        upper[i] = text[i] == '-' ? ' ' : (char)toupper((unsigned char)text[i]);
    for (char *p = upper; *p;) {
        size_t blank = strspn(p, " \t\r\n"), word = strcspn(p + blank, " \t\r\n");
        p += blank;
        words += word > 0;
        bool is_noise = in_list(p, word, noises);
        noise += is_noise;
        if (word && !is_noise && !in_list(p, word, dropped)) {
            if (n)
                out[n++] = ' ';
            memcpy(out + n, p, word);
            n += word;
        }
        p += word;
    }
    *garbage = words > 0 && noise == words;
    return out;
}

static bool giga_facts(struct dataset *d, struct sample *s, const char *text, const char *audio_id)
{
    bool garbage;
    const char *scored = giga_scored_text(&d->scratch, text, &garbage);
    set_answer(d, s, text);
    cJSON *meta = sample_meta(d, s);
    cJSON_AddStringToObject(meta, "audio_id", audio_id);
    cJSON_AddBoolToObject(meta, "garbage", garbage);
    cJSON_AddStringToObject(meta, "scored_text", scored);
    return garbage;
}

static const char *giga_subset(const cJSON *subsets)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, subsets)
        if (cJSON_IsString(v) && strcmp(v->valuestring, "{TEST}") == 0)
            return "test";
        else if (cJSON_IsString(v) && strcmp(v->valuestring, "{DEV}") == 0)
            return "dev";
    return "train";
}

/* One segment of the recording that the row describes. */
static enum row_result giga_official(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value, *segments = json_get(row, "segments");
    const cJSON *seg = cJSON_IsArray(segments) ? segments->child : NULL;
    for (int i = 0; seg && i < d->part; i++)
        seg = seg->next;
    if (!seg)
        return cJSON_IsArray(segments) ? ROW_IGNORED : refuse(d, e, "E_COLUMNS", "no \"segments\"");
    d->again = seg->next != NULL;
    const cJSON *begin = json_get(seg, "begin_time"), *end = json_get(seg, "end_time");
    s->split = giga_subset(json_get(seg, "subsets"));
    if (d->split && strcmp(s->split, d->split) != 0)
        return ROW_IGNORED;
    s->id = need_text(d, seg, "sid", e);
    const char *text = s->id ? need_text(d, seg, "text_tn", e) : NULL;
    const char *path = text ? need_text(d, row, "path", e) : NULL;
    if (!path)
        return ROW_REFUSED;
    if (!cJSON_IsNumber(begin) || !cJSON_IsNumber(end))
        return refuse(d, e, "E_TYPE", "%s: begin_time and end_time must be numbers", s->id);
    s->subject = text_or(row, "source", "");
    s->group = text_or(row, "aid", "");
    if (giga_facts(d, s, text, s->group) && d->split)
        return ROW_IGNORED;
    if (begin->valuedouble < 0 || end->valuedouble <= begin->valuedouble)
        return refuse(d, e, "E_SEGMENT", "%s: from %g s to %g s", s->id, begin->valuedouble, end->valuedouble);
    if (!name_is_safe(path))
        return refuse(d, e, "E_PATH", "\"%s\" leaves its folder", path);
    struct place p = find_media(d, path);
    if (!place_found(p))
        return refuse(d, e, "E_MISSING_MEDIA", "%s is not there", path);
    p.begin_s = begin->valuedouble;
    p.end_s = end->valuedouble;
    return add_member_media(d, s, MODALITY_AUDIO, p, RECORDING_MAX, e) ? ROW_REFUSED : ROW_OK;
}

static enum row_result giga_csv(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->id = need_text(d, row, "sid", e);
    const char *text = s->id ? need_text(d, row, "text_tn", e) : NULL;
    const char *path = text ? need_text(d, row, "path", e) : NULL;
    if (!path)
        return d->refusal;
    s->subject = text_or(row, "source", "");
    s->group = text_or(row, "aid", "");
    if (giga_facts(d, s, text, s->group) && d->split)
        return ROW_IGNORED;
    struct place p = find_media(d, path);
    if (!place_found(p))
        return refuse(d, e, "E_MISSING_MEDIA", "%s is not there", path);
    return add_member_media(d, s, MODALITY_AUDIO, p, MEMBER_MEDIA_MAX, e) ? ROW_REFUSED : ROW_OK;
}

static enum row_result giga_map(struct dataset *d, struct sample *s, struct err *e)
{
    static const char *const sources[] = {"audiobook", "podcast", "youtube"};
    enum row_kind kind = d->sources[d->i_source].kind;
    if (kind != ROWS_PARQUET)
        return kind == ROWS_JSON ? giga_official(d, s, e) : giga_csv(d, s, e);
    const cJSON *row = d->row.value, *source = json_get(row, "source");
    if (take_hub_row(d, s, "segment_id", e))
        return d->refusal;
    bool known = cJSON_IsNumber(source) && source->valuedouble >= 0 && source->valuedouble < 3;
    s->subject = cJSON_IsString(source) ? source->valuestring : known ? sources[(int)source->valuedouble] : "";
    s->group = text_or(row, "audio_id", "");
    return keep_or_ignore(d, giga_facts(d, s, s->answers[0], s->group));
}

const struct format format_gigaspeech = {
    .name = "gigaspeech", .dataset = "gigaspeech", .type = ANSWER_SPEECH, .modality = MODALITY_AUDIO, .split = "test",
    .max_tokens = 256, .grader = "speech", .normalizer = "gigaspeech", .prompt = TRANSCRIBE,
    .published = {{"test", 19931}}, .find = giga_find, .map = giga_map,
};

/* ---- Earnings-22 ------------------------------------------------------------------------------------------------- */

static int earn_find(struct dataset *d, struct err *e)
{
    for (size_t i = 0; i < archive_count(d->archive); i++) {
        const struct member *m = archive_member(d->archive, i);
        if (strcmp(path_base(m->name), "metadata.csv") == 0 && !strstr(m->name, "subset10"))
            add_source(d, (struct source){.member = m, .kind = ROWS_CSV, .split = "full"});
    }
    if (d->n_sources)
        note_form(d, "official whole calls (%s)", archive_form(d->archive));
    /* split test: the segments, where both forms lie in the folder; split full: the calls */
    if (!add_parquet(d, "earnings22", NULL) && !add_parquet(d, NULL, NULL) && d->n_sources)
        dataset_warn(d, "whole calls of up to two hours; the published figures are on the segmented form");
    return d->n_sources ? 0 : not_found(d, "the earnings22 folder with metadata.csv, or test-*.parquet", e);
}

/* The words of a call: one token a row, punctuation behind the word it belongs to. */
static char *earn_text(struct dataset *d, const struct member *m, int *n_tokens, struct err *e)
{
    struct rows *rows;
    struct row row;
    struct text t = {0};
    enum row_result rc;
    if (rows_open(&rows, d->archive, m, ROWS_PIPES, NULL, e))
        return NULL;
    *n_tokens = 0;
    while ((rc = rows_next(rows, &row, e)) == ROW_OK) {
        const char *token = json_string(row.value, "token");
        if (!token) {
            fault(e, "E_COLUMNS", "%s: no \"token\" column", m->name);
            rc = ROW_FATAL;
            break;
        }
        text_printf(&t, "%s%s%s", t.len ? " " : "", token, text_or(row.value, "punctuation", ""));
        ++*n_tokens;
    }
    rows_close(rows);
    char *out = rc == ROW_END ? arena_strndup(&d->scratch, t.data ? t.data : "", t.len) : NULL;
    text_free(&t);
    return out;
}

static enum row_result earn_official(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    s->id = need_text(d, row, "File ID", e);
    if (!s->id)
        return d->refusal;
    if (!name_is_safe(s->id) || strchr(s->id, '/'))
        return refuse(d, e, "E_PATH", "\"%s\" is no file id", s->id);
    const struct member *words = find_beside(d, arena_printf(&d->scratch, "transcripts/nlp_references/%s.nlp",
                                                             s->id)).member;
    struct place p = find_beside(d, arena_printf(&d->scratch, "media/%s.mp3", s->id));
    if (!words || !place_found(p))
        return refuse(d, e, "E_MISSING_MEDIA", "%s has no %s", s->id, words ? "media/*.mp3" : "transcript");
    int n_tokens;
    const char *text = earn_text(d, words, &n_tokens, e);
    if (!text)
        return ROW_REFUSED;
    set_answer(d, s, text);
    s->subject = text_or(row, "Country by Ticker", "");
    cJSON *meta = sample_meta(d, s);
    cJSON_AddStringToObject(meta, "ticker", text_or(row, "Ticker Symbol", ""));
    cJSON_AddNumberToObject(meta, "sampling_rate", atof(text_or(row, "Sampling Rate (Hz)", "0")));
    cJSON_AddNumberToObject(meta, "tokens", n_tokens);
    return add_member_media(d, s, MODALITY_AUDIO, p, RECORDING_MAX, e) ? ROW_REFUSED : ROW_OK;
}

static enum row_result earn_map(struct dataset *d, struct sample *s, struct err *e)
{
    if (d->sources[d->i_source].kind == ROWS_CSV)
        return earn_official(d, s, e);
    if (take_hub_row(d, s, "id", e))
        return d->refusal;
    const char *text = s->answers[0];
    bool excluded = !text[strspn(text, " \t\r\n")] || strcmp(text, "ignore time segment in scoring") == 0;
    cJSON_AddBoolToObject(sample_meta(d, s), "excluded_from_scoring", excluded);
    s->group = arena_strndup(&d->scratch, s->id, strcspn(s->id, "_"));
    return keep_or_ignore(d, excluded);
}

const struct format format_earnings22 = {
    .name = "earnings22", .dataset = "earnings22", .type = ANSWER_SPEECH, .modality = MODALITY_AUDIO, .split = "test",
    .max_tokens = 512, .grader = "speech", .normalizer = "whisper", .prompt = TRANSCRIBE,
    .published = {{"test", 2741}, {"validation", 2656}, {"full", 125}}, .find = earn_find, .map = earn_map,
};
