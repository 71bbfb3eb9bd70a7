/* dataset.c - the frame around the readers: opening, splits, iteration, refused rows, notes. */
#include "datasets/reader.h"

#include <stdlib.h>
#include <string.h>

enum { SKIP_LINES = 8, WARNING_LINES = 8, REFUSED_MAX = 100000 };

static const struct format *const formats[] = {
    &format_mmlu, &format_mmlu_pro, &format_arc_easy, &format_arc_challenge, &format_gsm8k, &format_jsonl,
    &format_mmbench, &format_chartqa, &format_docvqa, &format_mmau, &format_librispeech, &format_gigaspeech,
    &format_earnings22,
};

const struct format *format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

const char *answer_type_name(enum answer_type t)
{
    static const char *const names[] = {"mcq", "numeric", "text", "vqa_relaxed", "vqa_anls", "asr"};
    return names[t];
}

const char *modality_name(enum sample_modality m)
{
    static const char *const names[] = {"text", "image", "audio"};
    return names[m];
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

void note_form(struct dataset *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_clear(&d->found);
    text_vprintf(&d->found, fmt, ap);
    va_end(ap);
}

void dataset_warn(struct dataset *d, const char *fmt, ...)
{
    if (d->n_warnings++ >= WARNING_LINES)
        return;
    va_list ap;
    va_start(ap, fmt);
    text_puts(&d->warnings, "warning: ");
    text_vprintf(&d->warnings, fmt, ap);
    text_putc(&d->warnings, '\n');
    va_end(ap);
}

static int64_t published_rows(const struct dataset *d)
{
    for (const struct published *p = d->format->published; p->split; p++)
        if (d->split && strcmp(p->split, d->split) == 0)
            return p->rows;
    return -1;
}

/* Whether the publisher counts rows that its own rules leave out differs from set to set: either count is whole. */
static void note_count(struct dataset *d)
{
    struct text *t = &d->notes;
    int64_t want = published_rows(d), rows = d->ended ? d->n_read + d->n_skipped : d->n_rows;
    int64_t most = rows + (d->ended ? d->n_ignored : 0);
    bool known = d->ended || d->n_rows >= 0;
    int64_t shown = d->ended || !known ? d->n_read : rows;
    text_printf(t, "%lld %s%s", (long long)shown, d->ended ? "sample" : "row", shown == 1 ? "" : "s");
    if (!known)
        text_puts(t, " so far");
    else if (want >= rows && want <= most)
        text_puts(t, ", the whole published split");
    else if (want >= 0)
        text_printf(t, "; the published %s split has %lld: %s", d->split, (long long)want,
                    rows < want ? "this is a part" : "this is more, perhaps another version");
    if (!d->ended && known)
        text_printf(t, "; %lld of them read", (long long)d->n_read);
    text_putc(t, '\n');
    if (d->n_repeated)
        text_printf(t, "repeated questions (same choices, same media): %lld\n", (long long)d->n_repeated);
    if (d->n_elsewhere)
        text_printf(t, "questions that another split of the set holds too: %lld\n", (long long)d->n_elsewhere);
    if (d->spec.contaminated)
        text_printf(t, "questions on the list %s: %lld\n", d->spec.contaminated, (long long)d->n_listed);
}

const char *dataset_notes(const struct dataset *const_d)
{
    struct dataset *d = (struct dataset *)(uintptr_t)const_d;   /* the notes are a cache */
    struct text *t = &d->notes;
    text_clear(t);
    text_printf(t, "%s: %s", d->format->name, d->found.len ? d->found.data : archive_form(d->archive));
    text_printf(t, ", split %s, %d %s\n", d->split ? d->split : "all", d->n_sources,
                d->n_sources == 1 ? "table" : "tables");
    note_count(d);
    if (d->n_ignored)
        text_printf(t, "rows left out by the set's own rules: %lld\n", (long long)d->n_ignored);
    if (d->n_skipped) {
        text_printf(t, "damaged rows left out: %lld\n%s", (long long)d->n_skipped, d->skipped.data);
        if (d->n_skipped > d->n_skip_lines)
            text_printf(t, "  and %lld more\n", (long long)(d->n_skipped - d->n_skip_lines));
    }
    if (*archive_warning(d->archive))
        text_printf(t, "warning: %s\n", archive_warning(d->archive));
    if (d->warnings.len)
        text_puts(t, d->warnings.data);
    if (d->n_warnings > WARNING_LINES)
        text_printf(t, "and %d more warnings\n", d->n_warnings - WARNING_LINES);
    return t->data;
}

/* ---- small sets -------------------------------------------------------------------------------------------------- */

int64_t count_up(struct dataset *d, const char *key)
{
    for (int i = 0; i < d->n_counters; i++)
        if (strcmp(d->counters[i].key, key) == 0)
            return d->counters[i].n++;
    d->counters = mem_grow(d->counters, (size_t)d->n_counters + 1, sizeof *d->counters);
    d->counters[d->n_counters].key = mem_strdup(key);
    d->counters[d->n_counters++].n = 1;
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void fill_defaults(struct dataset *d, const struct task_spec *spec)
{
    const struct format *f = d->format;
    struct task_spec *t = &d->spec;
    struct arena *a = &d->arena;
#define KEEP(s) ((s) ? arena_strndup(a, (s), strlen(s)) : NULL)
    t->task = KEEP(spec->task);
    t->format = f->name;
    t->path = KEEP(spec->path);
    t->split = KEEP(spec->split);
    t->system = KEEP(spec->system);
    t->prompt = KEEP(spec->prompt);
    t->shots = spec->shots;
    t->max_tokens = spec->max_tokens > 0 ? spec->max_tokens : f->max_tokens;
    t->grader = KEEP(spec->grader ? spec->grader : f->grader);
    t->extract = KEEP(spec->extract ? spec->extract : f->extract);
    t->contaminated = KEEP(spec->contaminated);
    t->normalizer = KEEP(spec->normalizer ? spec->normalizer : f->normalizer);
#undef KEEP
}

/* The split asked for, or the default one, or the only one there is. */
static int choose_split(struct dataset *d, struct err *e)
{
    const char *want = d->spec.split;
    struct text seen = {0};
    const char *only = NULL;
    bool several = false, rows_decide = false, have_default = false, have_want = false;
    for (int i = 0; i < d->n_sources; i++) {
        const char *s = d->sources[i].split;
        if (!*s) {
            rows_decide = true;
            continue;
        }
        several |= only && strcmp(only, s) != 0;
        if (!only || strcmp(only, s) != 0)
            text_printf(&seen, "%s%s", seen.len ? ", " : "", s);
        only = s;
        have_default |= strcmp(s, d->format->split) == 0;
        have_want |= want && strcmp(s, want) == 0;
    }
    int rc = 0;
    const char *fallback = have_default || !only ? d->format->split : only;
    d->split = want ? want : fallback;
    if (strcmp(d->split, "all") == 0)
        d->split = NULL;
    if (want && d->split && !have_want && !rows_decide)
        rc = fault(e, "E_COLUMNS", "%s: no split \"%s\"; there is %s", d->spec.path, want,
                   seen.len ? seen.data : "none");
    else if (!want && several && !have_default)
        rc = fault(e, "E_COLUMNS", "%s: which split? There is %s", d->spec.path, seen.data);
    text_free(&seen);
    int n = 0;
    for (int i = 0; i < d->n_sources && d->split; i++)
        if (!*d->sources[i].split || strcmp(d->sources[i].split, d->split) == 0)
            d->sources[n++] = d->sources[i];
    d->n_sources = d->split ? n : d->n_sources;
    d->spec.split = d->split ? d->split : "all";
    return rc;
}

static int open_on(struct dataset **out, struct archive *a, struct dataset *parent, const struct task_spec *spec,
                   struct err *e)
{
    struct dataset *d = NEW(struct dataset, 1);
    d->parent = parent;
    d->archive = a;
    d->format = format_find(spec->format ? spec->format : spec->task);
    d->count = d->n_rows = -1;
    sha256_init(&d->sha);
    fill_defaults(d, spec);
    int rc = d->format->find(d, e);
    if (!rc)
        rc = choose_split(d, e);
    d->parent = NULL;
    if (rc) {
        dataset_close(d);
        d = NULL;
    }
    *out = d;
    return rc;
}

/* The one archive at the top of a folder, which is then what was meant; NULL if there is none or several. */
static char *only_archive(const struct archive *a)
{
    static const char *const ends[] = {".zip", ".tar", ".tar.gz", ".tgz"};
    const char *found = NULL;
    for (size_t i = 0; archive_is_folder(a) && i < archive_count(a); i++) {
        const char *name = archive_member(a, i)->name;
        for (size_t k = 0; k < 4 && !strchr(name, '/'); k++)
            if (text_ends(name, ends[k]) && found)
                return NULL;
            else if (text_ends(name, ends[k]))
                found = name;
    }
    return found ? path_join(archive_path(a), found) : NULL;
}

static int open_path(struct dataset **out, const struct task_spec *spec, struct err *e)
{
    struct archive *a;
    if (archive_open(&a, spec->path, e))
        return -1;
    char *inside = only_archive(a);
    int rc = open_on(out, a, NULL, spec, e);
    if (rc && inside) {
        struct err quiet = {0};
        struct task_spec nearer = *spec;
        nearer.path = inside;
        rc = archive_open(&a, inside, &quiet) || open_on(out, a, NULL, &nearer, &quiet) ? -1 : 0;
    }
    free(inside);
    return rc;
}

int dataset_open(struct dataset **out, const struct task_spec *spec, struct err *e)
{
    *out = NULL;
    const char *name = spec->format ? spec->format : spec->task;
    if (!format_find(name)) {
        struct text known = {0};
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            text_printf(&known, "%s%s", i ? " " : "", formats[i]->name);
        err_set(e, EXIT_USAGE, "%s: no such task or format; known are: %s", name, known.data);
        text_free(&known);
        return -1;
    }
    if (open_path(out, spec, e))
        return -1;
    if (dataset_prepare_prompts(*out, e) || duplicates_prepare(*out, e)) {
        dataset_close(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

/* The same files once more: for counting, or another split for examples. */
int dataset_reopen(struct dataset **out, struct dataset *d, const char *split, struct err *e)
{
    struct task_spec spec = d->spec;
    spec.split = split;
    return open_on(out, archive_share(d->archive), d, &spec, e);
}

static void end_sample(struct dataset *d)
{
    for (int i = 0; i < d->n_media_blobs; i++)
        blob_free(&d->media_blobs[i]);
    d->n_media_blobs = 0;
    cJSON_Delete(d->meta);
    d->meta = NULL;
    arena_free(&d->scratch);
}

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    end_sample(d);
    rows_close(d->rows);
    if (d->format->close)
        d->format->close(d);
    dataset_close(d->shot_set);
    for (int i = 0; i < d->n_counters; i++)
        free(d->counters[i].key);
    for (int i = 0; i < d->n_examples; i++) {
        free(d->examples[i].subject);
        free(d->examples[i].question);
        free(d->examples[i].answer);
    }
    free(d->examples);
    free(d->counters);
    free(d->media_name);
    free(d->media_blobs);
    free(d->ids.slots);
    duplicates_close(d);
    free(d->sources);
    text_free(&d->found);
    text_free(&d->warnings);
    text_free(&d->skipped);
    text_free(&d->notes);
    arena_free(&d->arena);
    for (int i = 0; i < d->n_nested; i++)
        archive_close(d->nested[i]);
    free(d->nested);
    free(d->bases);
    archive_close(d->archive);
    free(d);
}

/* ---- iteration --------------------------------------------------------------------------------------------------- */

static void absorb(struct dataset *d, struct sample *s)
{
    uint64_t content = hash_question(s);
    struct text t = {0};
    text_printf(&t, "%s%c%s%c%s%c", s->id, 0, s->split, 0, s->question ? s->question : "", 0);
    for (int i = 0; i < s->n_choices; i++)
        text_printf(&t, "%s%c%s%c", s->labels[i], 0, s->choices[i], 0);
    for (int i = 0; i < s->n_answers; i++)
        text_printf(&t, "%s%c", s->answers[i], 0);
    sha256_update(&d->sha, t.data, t.len);
    for (int i = 0; i < s->n_media; i++) {
        const struct sample_media *m = &s->media[i];
        char *hex = d->media_sha;
        bool same_recording = m->end_s > 0 && d->media_name && strcmp(d->media_name, m->name) == 0;
        if (!same_recording) {
            free(d->media_name);
            d->media_name = mem_strdup(m->name);
            sha256_hex_of(m->bytes, m->n_bytes, hex);
        }
        content = hash_text(content, hex);
        text_clear(&t);
        text_puts(&t, hex);
        text_put_double(&t, m->begin_s);
        text_put_double(&t, m->end_s);
        content = hash_text(content, t.data);
        sha256_update(&d->sha, t.data, t.len + 1);
    }
    text_free(&t);
    duplicates_mark(d, s, content);
}

static int skip_row(struct dataset *d, const struct err *why, struct err *e)
{
    d->n_skipped++;
    if (d->n_skip_lines < SKIP_LINES) {
        text_printf(&d->skipped, "  %s\n", why->msg);
        d->n_skip_lines++;
    }
    return d->n_skipped > REFUSED_MAX ?
           err_input(e, "%s: more than %d damaged rows, the last: %s", d->spec.path, REFUSED_MAX, why->msg) : 0;
}

/* To the next row, over the sources. ROW_END: no more. */
static enum row_result advance(struct dataset *d, struct err *e)
{
    for (;;) {
        if (!d->rows) {
            if (d->i_source == d->n_sources)
                return ROW_END;
            const struct source *src = &d->sources[d->i_source];
            if (rows_open(&d->rows, src->archive, src->member, src->kind, src->list_key, e))
                return ROW_FATAL;
            if (*rows_warning(d->rows))
                dataset_warn(d, "%s", rows_warning(d->rows));
            d->row_index = -1;
        }
        enum row_result rc = rows_next(d->rows, &d->row, e);
        if (rc != ROW_END) {
            d->row_index++;
            d->part = 0;
            return rc;
        }
        enum row_kind kind = d->sources[d->i_source].kind;
        if (d->row_index < 0 && kind != ROWS_PARQUET && kind != ROWS_JSON) {
            fault(e, "E_EMPTY", "%s: no rows", d->row.file ? d->row.file : d->spec.path);
            return ROW_FATAL;
        }
        rows_close(d->rows);
        d->rows = NULL;
        d->i_source++;
    }
}

static enum row_result next_sample(struct dataset *d, struct sample *s, struct err *e)
{
    if (d->again) {
        d->part++;
        d->again = false;
    } else {
        enum row_result rc = advance(d, e);
        if (rc != ROW_OK)
            return rc;
    }
    const struct source *src = &d->sources[d->i_source];
    *s = (struct sample){.dataset = d->format->dataset, .split = src->split, .subject = "", .group = "", .id = "",
                         .modality = d->format->modality, .type = d->format->type, .answer_index = -1};
    d->refusal = ROW_REFUSED;
    enum row_result rc = d->format->map(d, s, e);
    if (rc != ROW_OK)
        return rc;
    s->meta = d->meta;
    if (d->split && *s->split && strcmp(s->split, d->split) != 0)
        return ROW_IGNORED;
    if (known_add(&d->ids, hash_text(hash_text(0, s->split), s->id), ""))
        return refuse(d, e, "E_DUPLICATE", "the id \"%s\" occurred before", s->id);
    return ROW_OK;
}

int dataset_next(struct dataset *d, struct sample *s, struct err *e)
{
    for (;;) {
        struct err why = {0};
        end_sample(d);
        enum row_result rc = next_sample(d, s, &why);
        if (rc == ROW_OK) {
            d->n_read++;
            if (!d->dry)
                absorb(d, s);
            return 1;
        }
        if (rc == ROW_REFUSED) {
            if (skip_row(d, &why, e))
                return -1;
        } else if (rc == ROW_IGNORED) {
            d->n_ignored += !d->split || !*s->split || strcmp(s->split, d->split) == 0;
        } else if (rc == ROW_FATAL) {
            if (e)
                *e = why;
            return -1;
        } else if (d->n_read == 0 && d->n_skipped == 0 && d->n_ignored == 0) {
            return fault(e, "E_EMPTY", "%s: no samples in split %s", d->spec.path, d->split ? d->split : "all");
        } else {
            if (!d->ended && d->format->finish)
                d->format->finish(d);
            d->ended = true;
            return 0;
        }
    }
}

/* The rows of parquet shards as their footers say, without reading them; -1: another kind of table. */
static int64_t count_shards(struct dataset *d)
{
    int64_t n = 0;
    for (int i = 0; i < d->n_sources; i++) {
        const struct source *src = &d->sources[i];
        struct rows *rows;
        struct err quiet = {0};
        if (src->kind != ROWS_PARQUET || rows_open(&rows, src->archive, src->member, src->kind, NULL, &quiet))
            return -1;
        n += rows_total(rows);
        rows_close(rows);
    }
    return n;
}

int64_t dataset_count(struct dataset *d)
{
    if (d->count < 0)
        d->count = d->n_rows = count_shards(d);
    if (d->count >= 0)
        return d->count;
    struct dataset *twin;
    struct sample s;
    struct err e = {0};
    if (dataset_reopen(&twin, d, d->spec.split, &e))
        return -1;
    twin->dry = true;
    int got;
    while ((got = dataset_next(twin, &s, &e)) > 0)
        ;
    d->count = got < 0 ? -1 : twin->n_read;
    d->n_rows = got < 0 ? -1 : twin->n_read + twin->n_skipped;
    dataset_close(twin);
    return d->count;
}

const struct task_spec *dataset_spec(const struct dataset *d) { return &d->spec; }
int64_t dataset_read(const struct dataset *d) { return d->n_read; }
int64_t dataset_skipped(const struct dataset *d) { return d->n_skipped; }

void dataset_fingerprint(const struct dataset *d, char hex[65])
{
    struct sha256 copy = d->sha;
    sha256_hex(&copy, hex);
}
