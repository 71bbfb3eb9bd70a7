/* cq_tokenizer.c - the tokenizer of a bundle without tokenizer.json: vocab.txt ("id TAB token"), merges.txt ("left
 * right") and the added tokens of special_tokens.json. Tokens are written raw, with line feeds in them, so a token ends
 * where the next id begins. */
#include "engine/cq.h"
#include "engine/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 1 << 22, MAX_TOKEN = 4096, MAX_JSON = 64 << 20 };

static const char vocab_name[] = "vocab.txt", merges_name[] = "merges.txt", special_name[] = "special_tokens.json";

/* The text of a file, which has neither NUL nor broken UTF-8; *where names it. */
static const char *read_text(struct bundle *b, const char *name, size_t *len, const char **where, struct err *e)
{
    const struct mapped *m = bundle_file(b, name, e);
    if (!m)
        return NULL;
    *len = m->size;
    *where = m->path;
    if (memchr(m->data, '\0', m->size) || !utf8_valid((const char *)m->data, m->size, NULL)) {
        err_input(e, "%s: UTF-8 text was expected", m->path);
        return NULL;
    }
    return (const char *)m->data;
}

/* "123 TAB" at s: the number, and how long that is; -1 if there is none. */
static int64_t id_at(const char *s, const char *end, size_t *len)
{
    int64_t id = 0;
    size_t n = 0;
    for (; s + n < end && n < 8 && s[n] >= '0' && s[n] <= '9'; n++)
        id = id * 10 + (s[n] - '0');
    *len = n + 1;
    return n && s + n < end && s[n] == '\t' && id <= MAX_ID ? id : -1;
}

/* The length of several line feeds and nothing else, or 0. */
static int run_length(const char *s)
{
    const size_t n = strspn(s, "\n");
    return n > 1 && s[n] == '\0' ? (int)n : 0;
}

struct runs { int n, longest; };            /* tokens that are runs of line feeds */

static int read_vocabulary(struct bundle *b, cJSON *vocab, struct runs *runs, struct err *e)
{
    size_t len, skip;
    const char *where, *s = read_text(b, vocab_name, &len, &where, e);
    if (!s)
        return -1;
    const char *end = s + len;
    int64_t id = id_at(s, end, &skip);
    if (id < 0)
        return err_input(e, "%s: an id and a tab were expected at its beginning", where);
    while (s < end) {
        const char *token = s + skip, *stop = token - 1;
        int64_t next;
        do {                                /* the line feed behind which a larger id begins, or the last one */
            stop = memchr(stop + 1, '\n', (size_t)(end - stop) - 1);
            next = stop ? id_at(stop + 1, end, &skip) : -1;
        } while (stop && stop + 1 < end && next <= id);
        if (!stop || stop == token || stop - token > MAX_TOKEN)
            return err_input(e, "%s: token %lld: text of at most %d bytes and a line feed were expected", where,
                             (long long)id, MAX_TOKEN);
        char *piece = mem_strndup(token, (size_t)(stop - token));
        cJSON_AddNumberToObject(vocab, piece, (double)id);
        runs->n += run_length(piece) > 0;
        runs->longest = run_length(piece) > runs->longest ? run_length(piece) : runs->longest;
        free(piece);
        id = next;
        s = stop + 1;
    }
    return 0;
}

/* The merges that build runs of up to `longest` line feeds, run by run, the first piece growing: from the shortest run
 * up or from the longest down. Returns the bytes that they take in the file. */
static size_t run_merges(int longest, bool down, struct text *t, cJSON *merges)
{
    char *feeds = mem_alloc((size_t)longest + 1, 1);
    memset(feeds, '\n', (size_t)longest);
    text_clear(t);
    for (int i = 2; i <= longest; i++) {
        const int run = down ? longest + 2 - i : i;
        for (int left = 1; left < run; left++) {
            const size_t begin = t->len;
            text_printf(t, "%.*s %.*s", left, feeds, run - left, feeds);
            if (merges)
                cJSON_AddItemToArray(merges, cJSON_CreateString(t->data + begin));
            text_putc(t, '\n');
        }
    }
    free(feeds);
    return t->len;
}

/* Where merges of line feeds begin, they are known if they come in one of those two orders. In any other they could not
 * be told apart, but are never used, as all runs are added tokens: then the caller skips them. */
static const char *take_run_merges(const char *s, const char *end, int longest, cJSON *merges)
{
    struct text t = {0};
    const char *behind = s;
    for (int down = 0; down < 2 && behind == s && longest > 1; down++) {
        const size_t n = run_merges(longest, down, &t, NULL);
        if (n <= (size_t)(end - s) && memcmp(s, t.data, n) == 0)
            behind = s + run_merges(longest, down, &t, merges);
    }
    text_free(&t);
    return behind;
}

static int read_merges(struct bundle *b, cJSON *merges, int longest_run, struct err *e)
{
    size_t len;
    const char *where, *s = read_text(b, merges_name, &len, &where, e);
    if (!s)
        return -1;
    const char *begin = s, *end = s + len;
    if (*s == '#')
        while (s < end && *s++ != '\n')
            ;
    while (s < end) {
        if (*s == '\n' && longest_run)
            s = take_run_merges(s, end, longest_run, merges);
        longest_run = *s == '\n' ? 0 : longest_run;
        if (s < end && (*s == '\n' || *s == ' ')) {
            s++;
            continue;
        }
        if (s == end)
            break;
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        const char *blank = memchr(s, ' ', (size_t)((stop ? stop : end) - s));
        if (!stop || !blank || blank + 1 == stop || stop - s > MAX_TOKEN)
            return err_input(e, "%s: offset %lld: two pieces and a line feed were expected", where,
                             (long long)(s - begin));
        char *line = mem_strndup(s, (size_t)(stop - s));
        cJSON_AddItemToArray(merges, cJSON_CreateString(line));
        free(line);
        s = stop + 1;
    }
    return 0;
}

/* The file does not say which added tokens are special: the five of every vocabulary, and those with a bar. */
static bool is_special(const char *s)
{
    static const char *const names[] = {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>",
                                        "<end_of_turn>"};
    const size_t n = strlen(s);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], s) == 0)
            return true;
    return n > 3 && s[0] == '<' && s[n - 1] == '>' && (s[1] == '|' || s[n - 2] == '|');
}

static int read_added(struct bundle *b, cJSON *added, int runs, struct err *e)
{
    const struct mapped *m = bundle_file(b, special_name, e);
    if (!m)
        return -1;
    if (m->size > MAX_JSON)
        return err_input(e, "%s: at most %d bytes were expected", m->path, MAX_JSON);
    cJSON *json = json_parse((const char *)m->data, m->size, m->path, e);
    const cJSON *list = json_get(json, "special_tokens"), *t;
    int bad = !json ? -1 : cJSON_IsObject(list) ? 0
              : err_input(e, "%s: key \"special_tokens\": an object was expected", m->path);
    for (t = bad ? NULL : list->child; t; t = t->next) {
        char *rest;
        const long id = strtol(t->string, &rest, 10);
        if (!cJSON_IsString(t) || rest == t->string || *rest || id < 0 || id > MAX_ID) {
            bad = err_input(e, "%s: key \"special_tokens\": ids and tokens were expected", m->path);
            break;
        }
        runs -= run_length(t->valuestring) > 0;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "id", (double)id);
        cJSON_AddStringToObject(o, "content", t->valuestring);
        cJSON_AddBoolToObject(o, "normalized", false);
        cJSON_AddBoolToObject(o, "special", is_special(t->valuestring));
        cJSON_AddItemToArray(added, o);
    }
    cJSON_Delete(json);
    if (!bad && runs > 0)
        bad = err_input(e, "%s: key \"special_tokens\": all runs of line feeds were expected in it, or a "
                        "tokenizer.json in the bundle", m->path);
    return bad;
}

static cJSON *make_tokenizer(struct bundle *b, struct err *e)
{
    cJSON *vocab = cJSON_CreateObject(), *merges = cJSON_CreateArray(), *added = cJSON_CreateArray();
    struct runs runs = {0};
    if (read_vocabulary(b, vocab, &runs, e) == 0 && read_merges(b, merges, runs.longest, e) == 0 &&
        read_added(b, added, runs.n, e) == 0)
        return tokenizer_json(vocab, merges, added);
    cJSON_Delete(vocab);
    cJSON_Delete(merges);
    cJSON_Delete(added);
    return NULL;
}

int cq_bundle_tokenizer(struct document *d, struct bundle *b, struct err *e)
{
    static const char name[] = "tokenizer.json";
    if (bundle_has(b, name)) {
        const struct mapped *m = bundle_file(b, name, e);
        d->where = path_join(bundle_path(b), name);
        if (m && m->size > MAX_JSON)
            err_input(e, "%s: at most %d bytes were expected, not %zu", m->path, MAX_JSON, m->size);
        else
            d->json = m ? json_parse((const char *)m->data, m->size, m->path, e) : NULL;
        return d->json ? 0 : -1;
    }
    if (!bundle_has(b, vocab_name) || !bundle_has(b, merges_name) || !bundle_has(b, special_name))
        return err_input(e, "%s: tokenizer.json, or %s, %s and %s were expected in this bundle", bundle_path(b),
                         vocab_name, merges_name, special_name);
    d->where = path_join(bundle_path(b), vocab_name);
    d->json = make_tokenizer(b, e);
    return d->json ? 0 : -1;
}
