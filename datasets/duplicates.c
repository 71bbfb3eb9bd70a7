/* duplicates.c - questions that occur more than once in a set, that another split of it holds too, or that a list of
 * contaminated questions names. They stay in; what they change is for the reader of the figures to see. */
#include "datasets/reader.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BYTES_MAX ((size_t)64 << 20)
#define HASH_START 14695981039346656037u

uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;        /* FNV-1a */
    return h;
}

uint64_t hash_text(uint64_t h, const char *s)
{
    return hash_bytes(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* The slot of a hash, or the empty one where it belongs. */
static size_t slot_of(const struct known *k, uint64_t h)
{
    size_t i = (size_t)(h * 0x9e3779b97f4a7c15u) & (k->cap - 1);
    while (k->slots[i].hash && k->slots[i].hash != h)
        i = (i + 1) & (k->cap - 1);
    return i;
}

const char *known_find(const struct known *k, uint64_t h)
{
    h += h == 0;
    return k->cap ? k->slots[slot_of(k, h)].what : NULL;
}

const char *known_add(struct known *k, uint64_t h, const char *what)
{
    h += h == 0;
    if (k->n * 2 >= k->cap) {
        struct known bigger = {.n = k->n, .cap = k->cap ? k->cap * 2 : 1024};
        bigger.slots = NEW(struct known_slot, bigger.cap);
        for (size_t i = 0; i < k->cap; i++)
            if (k->slots[i].hash)
                bigger.slots[slot_of(&bigger, k->slots[i].hash)] = k->slots[i];
        free(k->slots);
        *k = bigger;
    }
    struct known_slot *s = &k->slots[slot_of(k, h)];
    if (s->hash)
        return s->what;
    *s = (struct known_slot){h, what};
    k->n++;
    return NULL;
}

/* ---- content ----------------------------------------------------------------------------------------------------- */

uint64_t hash_question(const struct sample *s)
{
    uint64_t h = hash_text(HASH_START, s->question);
    for (int i = 0; i < s->n_choices; i++)
        h = hash_text(h, s->choices[i]);
    return h;
}

static uint64_t hash_id(const char *id) { return hash_text(HASH_START + 1, id); }

/* White space is as one blank, as it is in a list typed by hand. */
static uint64_t hash_words(const char *s)
{
    uint64_t h = HASH_START + 2;
    for (size_t n; s += strspn(s, " \t\r\n"), *s; s += n) {
        n = strcspn(s, " \t\r\n");
        h = hash_bytes(hash_bytes(h, s, n), " ", 1);
    }
    return h;
}

/* ---- what is known beforehand ------------------------------------------------------------------------------------ */

/* A line is an id, a question, or an object with "id", "question" or "eval_prompt" (RouteLLM's lists). */
static int take_line(struct dataset *d, const char *line, size_t n, const char *where, struct err *e)
{
    static const char *const keys[] = {"id", "question", "eval_prompt"};
    char *copy = arena_strndup(&d->scratch, line, n);
    if (*copy != '{') {
        known_add(&d->listed, hash_id(copy), "list");
        known_add(&d->listed, hash_words(copy), "list");
        return 0;
    }
    cJSON *o = json_parse(copy, n, where, e);
    bool any = false;
    for (size_t k = 0; o && k < sizeof keys / sizeof *keys; k++) {
        const char *text = json_string(o, keys[k]);
        if (text)
            known_add(&d->listed, k ? hash_words(text) : hash_id(text), "list");
        any |= text != NULL;
    }
    cJSON_Delete(o);
    return !o ? -1 : any ? 0 : err_input(e, "%s: \"id\" or \"question\" was expected", where);
}

static int read_list(struct dataset *d, struct err *e)
{
    const char *path = d->spec.contaminated;
    struct text t = {0}, where = {0};
    int failed = file_read(path, LIST_BYTES_MAX, &t, e), number = 1;
    for (const char *line = t.data, *end = line ? line + t.len : NULL; !failed && line && line < end; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((stop ? stop : end) - line);
        text_clear(&where);
        text_printf(&where, "%s:%d", path, number);
        size_t kept = n - (n && line[n - 1] == '\r');
        if (kept)
            failed = take_line(d, line, kept, where.data, e);
        line += n + 1;
    }
    arena_free(&d->scratch);
    text_free(&t);
    text_free(&where);
    return failed;
}

/* The text questions of the set's other splits. */
static void read_other_splits(struct dataset *d)
{
    struct dataset *all;
    struct sample s;
    struct err quiet = {0};
    if (d->format->modality != MODALITY_TEXT || !d->format->shot_split || !d->split ||
        dataset_reopen(&all, d, "all", &quiet))
        return;
    all->dry = true;
    while (dataset_next(all, &s, &quiet) > 0)
        if (*s.split && strcmp(s.split, d->split) != 0)
            known_add(&d->elsewhere, hash_question(&s), arena_strndup(&d->arena, s.split, strlen(s.split)));
    dataset_close(all);
}

int duplicates_prepare(struct dataset *d, struct err *e)
{
    if (d->spec.contaminated && read_list(d, e))
        return -1;
    read_other_splits(d);
    return 0;
}

void duplicates_mark(struct dataset *d, struct sample *s, uint64_t content)
{
    const char *id = arena_strndup(&d->arena, s->id, strlen(s->id));
    s->repeats = known_add(&d->contents, content, id);
    s->contaminated = known_find(&d->listed, hash_id(s->id));
    if (!s->contaminated && s->question)
        s->contaminated = known_find(&d->listed, hash_words(s->question));
    d->n_listed += s->contaminated != NULL;
    if (!s->contaminated && s->n_media == 0)
        s->contaminated = known_find(&d->elsewhere, hash_question(s));
    d->n_elsewhere += s->contaminated && strcmp(s->contaminated, "list") != 0;
    d->n_repeated += s->repeats != NULL;
}

void duplicates_close(struct dataset *d)
{
    free(d->contents.slots);
    free(d->listed.slots);
    free(d->elsewhere.slots);
}
