/* set_mmbench.c - MMBench-EN-Dev: the TSV with pictures in base64 or by reference to another row, or the hub's parquet.
 *
 * A question with k options comes k times with its options rotated; copies have index + n * 1000000. index mod 1e6 is
 * the group that stands or falls together.
 */
#include "datasets/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A cell of 64 characters or fewer is the index of the row that has the picture. */
enum { REFERENCE_MAX = 64 };

struct anchor { int64_t index; size_t at; };
struct tsv { struct blob blob; struct csv csv; struct anchor *anchors; size_t n; int image_column; };

static int by_index(const void *x, const void *y)
{
    const struct anchor *a = x, *b = y;
    return a->index < b->index ? -1 : a->index > b->index ? 1 : a->at < b->at ? -1 : a->at > b->at;
}

static bool read_index(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return end != s && *end == '\0' && errno == 0 && *out >= 0;
}

/* Where each row begins, so that a reference can be followed. */
static int index_rows(struct dataset *d, struct tsv *t, const struct member *m, struct err *e)
{
    if (member_read(d->archive, m, MEMBER_TEXT_MAX, &t->blob, e))
        return -1;
    size_t bom = t->blob.size >= 3 && memcmp(t->blob.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    csv_init(&t->csv, t->blob.data + bom, t->blob.size - bom, '\t', true);
    int index_column = -1;
    t->image_column = -1;
    enum row_result rc = csv_next(&t->csv, m->name, e);
    for (int i = 0; rc == ROW_OK && i < t->csv.n_fields; i++) {
        if (strcmp(t->csv.fields[i], "index") == 0)
            index_column = i;
        if (strcmp(t->csv.fields[i], "image") == 0)
            t->image_column = i;
    }
    for (size_t released = 0;;) {
        size_t at = t->csv.at;
        if (t->blob.map.data && at - released > 8 << 20) {
            release_pages(t->csv.data + released, t->csv.data + at);
            released = at;
        }
        struct err quiet = {0};
        rc = csv_next(&t->csv, m->name, &quiet);
        if (rc != ROW_OK && rc != ROW_REFUSED)
            return 0;                           /* a fault of the file is reported when its rows are read */
        int64_t index;
        if (rc == ROW_OK && index_column >= 0 && index_column < t->csv.n_fields &&
            read_index(t->csv.fields[index_column], &index)) {
            if ((t->n & (t->n - 1)) == 0)
                t->anchors = mem_grow(t->anchors, t->n ? t->n * 2 : 1, sizeof *t->anchors);
            t->anchors[t->n++] = (struct anchor){index, at};
        }
    }
}

static int find(struct dataset *d, struct err *e)
{
    static const char *const renames[] = {"validation", "dev", NULL};
    const struct member *table = NULL;
    for (size_t i = 0; i < archive_count(d->archive); i++) {
        const struct member *m = archive_member(d->archive, i);
        bool better = !table || text_begins(path_base(m->name), "MMBench_DEV_EN.");
        if (text_ends(m->name, ".tsv") && better)
            table = m;
    }
    if (table) {
        struct tsv *t = NEW(struct tsv, 1);
        d->state = t;
        add_source(d, (struct source){.member = table, .kind = ROWS_TSV,
                                      .split = strstr(table->name, "TEST") ? "test" : "dev"});
        note_form(d, "official TSV %s", path_base(table->name));
        if (index_rows(d, t, table, e))
            return -1;
        if (t->n)
            qsort(t->anchors, t->n, sizeof *t->anchors, by_index);
        return 0;
    }
    if (!add_parquet(d, "en", renames))
        add_parquet(d, NULL, renames);
    return d->n_sources ? 0 : not_found(d, "MMBench_DEV_EN.tsv or en/dev-*.parquet", e);
}

/* RFC 4648 base64 without line breaks; NULL unless it is well formed. */
static uint8_t *decode_base64(struct arena *a, const char *s, size_t *n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(s);
    if (len % 4 || len == 0)
        return NULL;
    int8_t value[256];
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++)
        value[(unsigned char)alphabet[i]] = (int8_t)i;
    size_t padding = (s[len - 1] == '=') + (s[len - 1] == '=' && s[len - 2] == '=');
    uint8_t *out = ARENA_NEW(a, uint8_t, len / 4 * 3);
    *n = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < len - padding; i++) {
        int v = value[(unsigned char)s[i]];
        if (v < 0)
            return NULL;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4)
            out[(*n)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return out;
}

/* The picture's text in the row that `index` names, in the scratch arena; NULL unless exactly that row holds one. */
static const char *follow(struct dataset *d, struct tsv *t, const char *reference)
{
    struct anchor key;
    if (!t || t->image_column < 0 || !read_index(reference, &key.index))
        return NULL;
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->anchors[mid].index < key.index)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == t->n || t->anchors[lo].index != key.index)
        return NULL;
    struct err quiet = {0};
    t->csv.at = t->anchors[lo].at;
    if (csv_next(&t->csv, "", &quiet) != ROW_OK || t->image_column >= t->csv.n_fields)
        return NULL;
    const char *image = t->csv.fields[t->image_column];
    return strlen(image) > REFERENCE_MAX ? arena_strndup(&d->scratch, image, strlen(image)) : NULL;
}

static int take_picture(struct dataset *d, struct sample *s, const cJSON *row, struct err *e)
{
    const cJSON *cell = json_get(row, "image");
    if (!cJSON_IsString(cell)) {
        if (!cell || d->sources[d->i_source].kind == ROWS_PARQUET)
            return cell ? add_cell_media(d, s, MODALITY_IMAGE, cell, s->id, e) :
                   (need_text(d, row, "image", e), -1);
    }
    const char *text = need_text(d, row, "image", e);
    if (!text)
        return -1;
    if (d->dry)
        return 0;
    if (strlen(text) <= REFERENCE_MAX) {
        const char *reference = text;
        text = follow(d, d->state, reference);
        if (!text) {
            refuse(d, e, "E_MISSING_MEDIA", "the picture \"%s\" is a reference to a row without one", reference);
            return -1;
        }
    }
    if (strlen(text) / 4 * 3 > MEMBER_MEDIA_MAX) {
        refuse(d, e, "E_TOO_LARGE", "the picture has more than %zu bytes", MEMBER_MEDIA_MAX);
        return -1;
    }
    size_t n;
    uint8_t *bytes = decode_base64(&d->scratch, text, &n);
    if (!bytes) {
        refuse(d, e, "E_BASE64", "the picture is no base64");
        return -1;
    }
    return add_bytes_media(d, s, MODALITY_IMAGE, bytes, n, s->id, e);
}

/* Absent, null, empty and pandas' "nan" all mean that there is none. */
static const char *cell_text(const cJSON *row, const char *key)
{
    const char *s = json_string(row, key);
    return s && *s && strcmp(s, "nan") != 0 ? s : NULL;
}

static int take_options(struct dataset *d, struct sample *s, const cJSON *row, struct err *e)
{
    static const char *const columns[] = {"A", "B", "C", "D"};
    s->choices = ARENA_NEW(&d->scratch, const char *, 4);
    s->labels = ARENA_NEW(&d->scratch, const char *, 4);
    for (int i = 0; i < 4; i++) {
        const char *text = cell_text(row, columns[i]);
        if (!text)
            continue;
        s->labels[s->n_choices] = columns[i];
        s->choices[s->n_choices++] = text;
    }
    if (s->n_choices)
        return 0;
    refuse(d, e, "E_COLUMNS", "no options");
    return -1;
}

static enum row_result map(struct dataset *d, struct sample *s, struct err *e)
{
    const cJSON *row = d->row.value;
    int64_t index;
    s->id = scalar_text(d, json_get(row, "index"));
    if (!s->id || !read_index(s->id, &index))
        return refuse(d, e, s->id ? "E_TYPE" : "E_COLUMNS", "\"index\" must be a number");
    s->question = need_text(d, row, "question", e);
    if (!s->question || take_options(d, s, row, e))
        return d->refusal;
    const char *answer = cell_text(row, "answer");
    if (answer && set_answer_label(d, s, answer, e))
        return ROW_REFUSED;
    s->subject = text_or(row, "category", "");
    const char *split = cell_text(row, "split");
    s->split = split ? split : s->split;
    s->group = arena_printf(&d->scratch, "%lld", (long long)(index % 1000000));
    cJSON *meta = sample_meta(d, s);
    const char *hint = cell_text(row, "hint");
    cJSON_AddItemToObject(meta, "hint", hint ? cJSON_CreateString(hint) : cJSON_CreateNull());
    cJSON_AddNumberToObject(meta, "circular_group", (double)(index % 1000000));
    cJSON_AddNumberToObject(meta, "rotation", (double)(index / 1000000));
    cJSON_AddStringToObject(meta, "l2_category", text_or(row, "l2-category", text_or(row, "L2-category", "")));
    return take_picture(d, s, row, e) ? d->refusal : ROW_OK;
}

static void close_tsv(struct dataset *d)
{
    struct tsv *t = d->state;
    if (!t)
        return;
    csv_free(&t->csv);
    blob_free(&t->blob);
    free(t->anchors);
    free(t);
}

const struct format format_mmbench = {
    .name = "mmbench", .dataset = "mmbench_en_dev", .type = ANSWER_CHOICE, .modality = MODALITY_IMAGE, .split = "dev",
    .max_tokens = 64, .grader = "mmbench",
    .prompt = "{hint.line}Question: {question}\nOptions:\n{options}\nPlease select the correct answer from the options "
              "above. \n",
    .published = {{"dev", 4329}, {"test", 6666}}, .find = find, .map = map, .close = close_tsv,
};
