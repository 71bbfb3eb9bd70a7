/* fields.c - what readers share: finding table files, and taking checked fields out of a row. */
#include "datasets/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 26 };

/* ---- finding ----------------------------------------------------------------------------------------------------- */

void add_source(struct dataset *d, struct source s)
{
    d->sources = mem_grow(d->sources, (size_t)d->n_sources + 1, sizeof *d->sources);
    if (!s.split)
        s.split = "";
    if (!s.archive)
        s.archive = d->archive;
    if (!s.tag)
        s.tag = "";
    d->sources[d->n_sources++] = s;
}

bool text_ends(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

bool text_begins(const char *s, const char *begin) { return strncmp(s, begin, strlen(begin)) == 0; }

const char *folder_of(struct arena *a, const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? arena_strndup(a, name, (size_t)(slash - name)) : "";
}

struct archive *open_nested(struct dataset *d, const char *name, struct err *e)
{
    char *path = path_join(archive_path(d->archive), name);
    struct archive *a = NULL;
    for (int i = 0; d->parent && i < d->parent->n_nested && !a; i++)
        if (strcmp(archive_path(d->parent->nested[i]), path) == 0)
            a = archive_share(d->parent->nested[i]);
    if (a || archive_open(&a, path, e) == 0) {
        d->nested = mem_grow(d->nested, (size_t)d->n_nested + 1, sizeof *d->nested);
        d->nested[d->n_nested++] = a;
        if (*archive_warning(a))
            dataset_warn(d, "%s: %s", path, archive_warning(a));
    }
    free(path);
    return a;
}

/* Whether `config` is one of the folders of a path. */
static bool has_folder(const char *path, const char *config)
{
    size_t k = strlen(config);
    for (const char *p = path; (p = strstr(p, config)); p++)
        if ((p == path || p[-1] == '/') && p[k] == '/')
            return true;
    return false;
}

/* "test" of "x/test-00000-of-00002.parquet" and of "x/test/0000.parquet". */
static const char *shard_split(struct dataset *d, const char *name)
{
    const char *base = path_base(name);
    size_t n = strcspn(base, ".");
    bool number = strspn(base, "0123456789") == n;
    if (number) {
        bool alone = strcmp(archive_form(d->archive), "file") == 0;
        const char *path = archive_path(d->archive);
        const char *full = alone ? path : arena_printf(&d->arena, "%s/%s", path, name);
        return path_base(folder_of(&d->arena, full));
    }
    const char *dash = strstr(base, "-0");
    if (dash && strstr(dash, "-of-"))
        n = (size_t)(dash - base);
    else
        n = strlen(base) - strlen(".parquet");
    return arena_strndup(&d->arena, base, n);
}

int add_parquet(struct dataset *d, const char *config, const char *const *renames)
{
    int n = 0;
    bool inside = false;            /* the configuration's folder is in the archive, not above it */
    char *above = path_join(archive_path(d->archive), "");
    for (size_t i = 0; config && i < archive_count(d->archive); i++)
        inside |= has_folder(archive_member(d->archive, i)->name, config);
    bool all = !config || (!inside && has_folder(above, config));
    free(above);
    for (size_t i = 0; i < archive_count(d->archive); i++) {
        const struct member *m = archive_member(d->archive, i);
        if (!text_ends(m->name, ".parquet") || !(all || has_folder(m->name, config)))
            continue;
        const char *split = shard_split(d, m->name);
        for (const char *const *r = renames; r && *r; r += 2)
            if (strcmp(split, r[0]) == 0)
                split = r[1];
        add_source(d, (struct source){.member = m, .kind = ROWS_PARQUET, .split = split});
        n++;
    }
    if (n)
        note_form(d, "hub parquet (%s)", archive_form(d->archive));
    return n;
}

int not_found(struct dataset *d, const char *expected, struct err *e)
{
    return fault(e, "E_COLUMNS", "%s: nothing of %s in it; %s was expected", d->spec.path, d->format->name, expected);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

const char *row_where(struct dataset *d)
{
    return arena_printf(&d->scratch, "%s:%lld", d->row.file, (long long)d->row.number);
}

enum row_result refuse(struct dataset *d, struct err *e, const char *class_name, const char *fmt, ...)
{
    struct text t = {0};
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(&t, fmt, ap);
    va_end(ap);
    fault(e, class_name, "%s: %s", row_where(d), t.data);
    text_free(&t);
    return ROW_REFUSED;
}

/* In a table with a schema an absent column or a wrong type is a fault of the file, not of the row. */
static void refuse_shape(struct dataset *d, struct err *e, const char *class_name, const char *what)
{
    enum row_kind kind = d->sources[d->i_source].kind;
    refuse(d, e, class_name, "%s", what);
    d->refusal = kind == ROWS_PARQUET || kind == ROWS_CSV || kind == ROWS_TSV ? ROW_FATAL : ROW_REFUSED;
}

const char *need_text(struct dataset *d, const cJSON *object, const char *key, struct err *e)
{
    const cJSON *v = json_get(object, key);
    if (cJSON_IsString(v))
        return v->valuestring;
    if (v && cJSON_IsNull(v))
        refuse(d, e, "E_NULL", "\"%s\" is null", key);
    else
        refuse_shape(d, e, v ? "E_TYPE" : "E_COLUMNS",
                     arena_printf(&d->scratch, v ? "\"%s\" is not a text" : "no \"%s\"", key));
    return NULL;
}

const char *scalar_text(struct dataset *d, const cJSON *node)
{
    if (cJSON_IsString(node))
        return node->valuestring;
    if (!cJSON_IsNumber(node))
        return NULL;
    double v = node->valuedouble;
    if (v == floor(v) && fabs(v) < 9007199254740992.0)
        return arena_printf(&d->scratch, "%.0f", v);
    struct text t = {0};
    text_put_double(&t, v);
    char *s = arena_strndup(&d->scratch, t.data, t.len);
    text_free(&t);
    return s;
}

const char *text_or(const cJSON *object, const char *key, const char *fallback)
{
    const char *s = json_string(object, key);
    return s ? s : fallback;
}

const char *letter(struct dataset *d, int i) { return arena_printf(&d->scratch, "%c", 'A' + i); }

int set_choices(struct dataset *d, struct sample *s, const cJSON *texts, const cJSON *labels, struct err *e)
{
    int n = cJSON_IsArray(texts) ? cJSON_GetArraySize(texts) : -1;
    if (n < 1 || n > CHOICES_MAX) {
        refuse(d, e, texts ? "E_TYPE" : "E_COLUMNS", "choices: a list of 1 to %d texts was expected", CHOICES_MAX);
        return -1;
    }
    if (labels && cJSON_GetArraySize(labels) != n) {
        refuse(d, e, "E_LABEL", "%d choices but %d labels", n, cJSON_GetArraySize(labels));
        return -1;
    }
    s->n_choices = n;
    s->choices = ARENA_NEW(&d->scratch, const char *, n);
    s->labels = ARENA_NEW(&d->scratch, const char *, n);
    const cJSON *t = texts->child, *l = labels ? labels->child : NULL;
    for (int i = 0; i < n; i++, t = t->next, l = l ? l->next : NULL) {
        s->choices[i] = scalar_text(d, t);
        s->labels[i] = labels ? scalar_text(d, l) : letter(d, i);
        if (!s->choices[i] || !s->labels[i]) {
            refuse(d, e, cJSON_IsNull(t) ? "E_NULL" : "E_TYPE", "choice %d is not a text", i + 1);
            return -1;
        }
        for (int k = 0; k < i; k++)
            if (strcmp(s->labels[k], s->labels[i]) == 0) {
                refuse(d, e, "E_LABEL", "two choices are labelled \"%s\"", s->labels[i]);
                return -1;
            }
    }
    return 0;
}

void set_answer(struct dataset *d, struct sample *s, const char *text)
{
    s->n_answers = 1;
    s->answers = ARENA_NEW(&d->scratch, const char *, 1);
    s->answers[0] = text;
}

int set_answer_label(struct dataset *d, struct sample *s, const char *label, struct err *e)
{
    for (int i = 0; i < s->n_choices; i++)
        if (strcmp(s->labels[i], label) == 0)
            s->answer_index = i;
    if (s->answer_index < 0) {
        refuse(d, e, "E_LABEL", "the answer \"%s\" is none of the choices %s to %s", label,
               s->n_choices ? s->labels[0] : "", s->n_choices ? s->labels[s->n_choices - 1] : "");
        return -1;
    }
    set_answer(d, s, label);
    return 0;
}

int set_answers(struct dataset *d, struct sample *s, const cJSON *list, struct err *e)
{
    int n = cJSON_GetArraySize(list);
    s->answers = ARENA_NEW(&d->scratch, const char *, n + 1);
    s->n_answers = 0;
    for (const cJSON *v = list ? list->child : NULL; v; v = v->next) {
        const char *t = scalar_text(d, v);
        if (!t) {
            refuse(d, e, cJSON_IsNull(v) ? "E_NULL" : "E_TYPE", "an answer is not a text");
            return -1;
        }
        s->answers[s->n_answers++] = t;
    }
    return 0;
}

cJSON *sample_meta(struct dataset *d, struct sample *s)
{
    if (!d->meta)
        d->meta = cJSON_CreateObject();
    s->meta = d->meta;
    return d->meta;
}

/* ---- media ------------------------------------------------------------------------------------------------------- */

static int add_media(struct dataset *d, struct sample *s, struct sample_media m, struct err *e)
{
    char warning[256] = "";
    struct err why = {0};
    if (media_check(&m, warning, sizeof warning, &why)) {
        err_input(e, "%s: %s", row_where(d), why.msg);
        return -1;
    }
    if (*warning)
        dataset_warn(d, "%s: %s", m.name, warning);
    struct sample_media *all = ARENA_NEW(&d->scratch, struct sample_media, s->n_media + 1);
    if (s->n_media)
        memcpy(all, s->media, (size_t)s->n_media * sizeof *all);
    all[s->n_media++] = m;
    s->media = all;
    return 0;
}

int add_bytes_media(struct dataset *d, struct sample *s, enum sample_modality kind, const void *bytes, size_t n,
                    const char *name, struct err *e)
{
    if (d->dry)
        return 0;
    return add_media(d, s, (struct sample_media){.kind = kind, .bytes = bytes, .n_bytes = n, .name = name}, e);
}

int add_member_media(struct dataset *d, struct sample *s, enum sample_modality kind, struct place p, size_t max,
                     struct err *e)
{
    if (d->dry)
        return 0;
    if (d->n_media_blobs == d->cap_media_blobs) {
        d->cap_media_blobs = d->cap_media_blobs * 2 + 4;
        d->media_blobs = mem_grow(d->media_blobs, (size_t)d->cap_media_blobs, sizeof *d->media_blobs);
    }
    struct blob *b = &d->media_blobs[d->n_media_blobs];
    *b = (struct blob){0};
    if (p.file ? map_open(&b->map, p.file, e) : member_read(p.archive, p.member, max, b, e))
        return -1;
    if (p.file) {
        b->data = (const char *)b->map.data;
        b->size = b->map.size;
    }
    d->n_media_blobs++;
    return add_media(d, s, (struct sample_media){.kind = kind, .bytes = b->data, .n_bytes = b->size,
                                                 .name = p.file ? p.file : p.member->name, .begin_s = p.begin_s,
                                                 .end_s = p.end_s}, e);
}

static int by_base(const void *x, const void *y)
{
    return strcmp(((const struct base_name *)x)->base, ((const struct base_name *)y)->base);
}

static void index_bases(struct dataset *d)
{
    size_t n = archive_count(d->archive);
    for (int k = 0; k < d->n_nested; k++)
        n += archive_count(d->nested[k]);
    d->bases = NEW(struct base_name, n + 1);
    for (int k = -1; k < d->n_nested; k++) {
        struct archive *a = k < 0 ? d->archive : d->nested[k];
        for (size_t i = 0; i < archive_count(a); i++) {
            const struct member *m = archive_member(a, i);
            d->bases[d->n_bases++] = (struct base_name){path_base(m->name), a, m};
        }
    }
    qsort(d->bases, d->n_bases, sizeof *d->bases, by_base);
}

bool place_found(struct place p) { return p.member || p.file; }

struct place find_beside(struct dataset *d, const char *name)
{
    const struct source *src = &d->sources[d->i_source];
    const char *folder = folder_of(&d->scratch, src->member->name), *path = archive_path(src->archive);
    name += text_begins(name, "./") ? 2 : 0;
    if (strcmp(archive_form(src->archive), "file") == 0) {
        char *file = arena_printf(&d->scratch, "%.*s%s", (int)(path_base(path) - path), path, name);
        return (struct place){.file = file_exists(file) ? file : NULL};
    }
    const char *full = *folder ? arena_printf(&d->scratch, "%s/%s", folder, name) : name;
    return (struct place){.archive = src->archive, .member = archive_find(src->archive, full)};
}

struct place find_media(struct dataset *d, const char *name)
{
    struct place p = find_beside(d, name);
    if (place_found(p))
        return p;
    if (!d->bases)
        index_bases(d);
    struct base_name key = {.base = path_base(name)};
    struct base_name *found = bsearch(&key, d->bases, d->n_bases, sizeof *d->bases, by_base);
    return found ? (struct place){.archive = found->archive, .member = found->member} : (struct place){0};
}

int add_cell_media(struct dataset *d, struct sample *s, enum sample_modality kind, const cJSON *cell,
                   const char *name, struct err *e)
{
    const void *bytes = NULL;
    size_t n = 0;
    if (cJSON_IsObject(cell))
        cell = json_get(cell, "bytes");
    if (!cell || cJSON_IsNull(cell)) {
        refuse(d, e, "E_MISSING_MEDIA", "no %s bytes in the row", modality_name(kind));
        return -1;
    }
    if (!row_bytes(cell, &bytes, &n)) {
        refuse(d, e, "E_TYPE", "the %s cell holds no bytes", modality_name(kind));
        return -1;
    }
    if (n > MEMBER_MEDIA_MAX) {
        refuse(d, e, "E_TOO_LARGE", "the %s has %zu bytes, at most %zu are read", modality_name(kind), n,
               MEMBER_MEDIA_MAX);
        return -1;
    }
    return add_bytes_media(d, s, kind, bytes, n, name, e);
}
