/* tokenizer.c - reads tokenizer.json: a BPE vocabulary with byte fallback, its merges, and the added tokens.
 *
 * The steps of the pipeline (normalizer, pre_tokenizer, decoder) must be those of the Gemma family, which tokenize.c
 * carries out; a file that asks for anything else is refused, because its ids would be silently wrong.
 */
#include "engine/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IDS = 1 << 21 };

/* ---- hash tables ----------------------------------------------------------------------------------------------- */

static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static uint64_t hash_bytes(const char *s, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return mix(h);
}

/* The slot that holds the piece, or the free slot where it belongs. */
static size_t name_slot(const struct tokenizer *t, const char *s, size_t len)
{
    size_t i = hash_bytes(s, len) & t->by_name_mask;
    for (; t->by_name[i] >= 0; i = (i + 1) & t->by_name_mask) {
        const struct piece *p = &t->piece[t->by_name[i]];
        if (p->len == len && memcmp(p->s, s, len) == 0)
            break;
    }
    return i;
}

int32_t tokenizer_lookup(const struct tokenizer *t, const char *s, size_t len)
{
    return t->by_name[name_slot(t, s, len)];
}

static size_t merge_slot(const struct tokenizer *t, int32_t left, int32_t right)
{
    size_t i = mix(((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u) & t->merge_mask;
    while (t->merge[i].left >= 0 && (t->merge[i].left != left || t->merge[i].right != right))
        i = (i + 1) & t->merge_mask;
    return i;
}

const struct merge *tokenizer_merge(const struct tokenizer *t, int32_t left, int32_t right)
{
    const struct merge *m = &t->merge[merge_slot(t, left, right)];
    return m->left >= 0 ? m : NULL;
}

/* ---- pieces ---------------------------------------------------------------------------------------------------- */

static int byte_of_piece(const char *s, size_t len)
{
    unsigned value = 0;
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEFabcdef", *at = s[i] ? strchr(digits, s[i]) : NULL;
        if (!at)
            return -1;
        unsigned d = (unsigned)(at - digits);
        value = value * 16 + (d < 16 ? d : d - 6);
    }
    return (int)value;
}

static int read_id(const cJSON *v, int32_t *id, const char *where, const char *name, struct err *e)
{
    if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) || v->valuedouble < 0 ||
        v->valuedouble >= MAX_IDS)
        return err_input(e, "%s: id of \"%.64s\": an integer from 0 to %d was expected", where, name, MAX_IDS - 1);
    *id = (int32_t)v->valuedouble;
    return 0;
}

/* Gives an id its name; both must be new. */
static int add_piece(struct tokenizer *t, const char *s, int32_t id, const char *where, struct err *e)
{
    struct piece *p = &t->piece[id];
    size_t len = strlen(s), slot = name_slot(t, s, len);
    if (t->by_name[slot] >= 0)
        return err_input(e, "%s: \"%.64s\" appears twice", where, s);
    if (p->s)
        return err_input(e, "%s: id %d is given to both \"%.64s\" and \"%.64s\"", where, (int)id, p->s, s);
    p->s = arena_strndup(&t->arena, s, len);
    p->len = (uint32_t)len;
    p->byte = (int16_t)byte_of_piece(s, len);
    t->by_name[slot] = id;
    return 0;
}

static int read_vocab(struct tokenizer *t, const cJSON *vocab, const char *where, struct err *e)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, vocab) {
        int32_t id;
        if (read_id(v, &id, where, v->string, e) || add_piece(t, v->string, id, where, e))
            return -1;
        t->piece[id].in_model = true;
    }
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte_id[b] = tokenizer_lookup(t, name, 6);
        if (t->byte_id[b] < 0)
            return err_input(e, "%s: key \"model.vocab\" lacks the byte piece \"%s\" that \"byte_fallback\" needs",
                             where, name);
    }
    return 0;
}

/* ---- merges ---------------------------------------------------------------------------------------------------- */

/* A merge is ["a", "b"] or "a b". */
static bool split_merge(const cJSON *v, const char **a, size_t *a_len, const char **b)
{
    if (cJSON_IsArray(v)) {
        const cJSON *first = v->child, *second = first ? first->next : NULL;
        if (!cJSON_IsString(first) || !cJSON_IsString(second) || second->next)
            return false;
        *a = first->valuestring;
        *a_len = strlen(*a);
        *b = second->valuestring;
        return true;
    }
    const char *blank = cJSON_IsString(v) ? strchr(v->valuestring, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' '))
        return false;
    *a = v->valuestring;
    *a_len = (size_t)(blank - *a);
    *b = blank + 1;
    return true;
}

static int read_merge(struct tokenizer *t, const cJSON *v, uint32_t rank, bool skip_unknown, struct text *joined,
                      const char *where, struct err *e)
{
    const char *a, *b;
    size_t a_len;
    if (!split_merge(v, &a, &a_len, &b))
        return err_input(e, "%s: key \"model.merges\": entry %u: two pieces were expected", where, (unsigned)rank);
    text_clear(joined);
    text_put(joined, a, a_len);
    text_puts(joined, b);
    int32_t left = tokenizer_lookup(t, a, a_len), right = tokenizer_lookup(t, b, strlen(b));
    int32_t merged = tokenizer_lookup(t, joined->data, joined->len);
    if (left < 0 || right < 0 || merged < 0)
        return skip_unknown ? 0
            : err_input(e, "%s: key \"model.merges\": entry %u: \"%.64s\" is not in the vocabulary", where,
                        (unsigned)rank, left < 0 ? a : right < 0 ? b : joined->data);
    struct merge *m = &t->merge[merge_slot(t, left, right)];
    if (m->left >= 0)
        return err_input(e, "%s: key \"model.merges\": entry %u repeats entry %u", where, (unsigned)rank,
                         (unsigned)m->rank);
    *m = (struct merge){left, right, merged, rank};
    return 0;
}

/* A GGUF vocabulary may have been cut down with its merges left as they were: such a merge can never apply. */
static int read_merges(struct tokenizer *t, const cJSON *model, const char *where, struct err *e)
{
    const cJSON *merges = json_get(model, "merges");
    const bool skip_unknown = cJSON_IsTrue(json_get(model, "skip_unknown_merges"));
    size_t size = table_size((size_t)cJSON_GetArraySize(merges));
    t->merge = arena_alloc(&t->arena, size, sizeof *t->merge);
    t->merge_mask = size - 1;
    for (size_t i = 0; i < size; i++)
        t->merge[i].left = -1;
    struct text joined = {0};
    uint32_t rank = 0;
    int failed = 0;
    const cJSON *v;
    cJSON_ArrayForEach(v, merges) {
        if ((failed = read_merge(t, v, rank++, skip_unknown, &joined, where, e)))
            break;
    }
    text_free(&joined);
    return failed;
}

/* ---- added tokens ---------------------------------------------------------------------------------------------- */

static int read_added_token(struct tokenizer *t, const cJSON *v, const char *where, struct err *e)
{
    static const char *const unsupported[] = {"single_word", "lstrip", "rstrip", "normalized"};
    const char *content = json_string(v, "content");
    int32_t id;
    if (!content || !*content)
        return err_input(e, "%s: key \"added_tokens\": an entry without \"content\"", where);
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (cJSON_IsTrue(json_get(v, unsupported[i])))
            return err_input(e, "%s: added token \"%.64s\": \"%s\": true is not supported", where, content,
                             unsupported[i]);
    if (read_id(json_get(v, "id"), &id, where, content, e))
        return -1;
    struct piece *p = &t->piece[id];
    if (p->added)
        return err_input(e, "%s: key \"added_tokens\": id %d appears twice", where, (int)id);
    bool known = p->s && strcmp(p->s, content) == 0;
    if (!known && add_piece(t, content, id, where, e))
        return -1;
    p->added = true;
    p->special = cJSON_IsTrue(json_get(v, "special"));
    return 0;
}

static int longer_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* For each first byte the distinct lengths of its added tokens. */
static void index_added(struct tokenizer *t)
{
    int count[256] = {0};
    for (int i = 0; i < t->n_ids; i++)
        if (t->piece[i].added)
            count[(unsigned char)t->piece[i].s[0]]++;
    for (int b = 0; b < 256; b++)
        t->added[b].len = ARENA_NEW(&t->arena, uint32_t, count[b]);
    for (int i = 0; i < t->n_ids; i++) {
        const struct piece *p = &t->piece[i];
        if (p->added) {
            struct added_lengths *a = &t->added[(unsigned char)p->s[0]];
            a->len[a->n++] = p->len;
        }
    }
    for (int b = 0; b < 256; b++) {
        struct added_lengths *a = &t->added[b];
        int n = 0;
        if (a->n)
            qsort(a->len, (size_t)a->n, sizeof *a->len, longer_first);
        for (int i = 0; i < a->n; i++)
            if (n == 0 || a->len[n - 1] != a->len[i])
                a->len[n++] = a->len[i];
        a->n = n;
    }
}

/* ---- the pipeline's steps -------------------------------------------------------------------------------------- */

static bool is_type(const cJSON *step, const char *type)
{
    const char *s = json_string(step, "type");
    return s && strcmp(s, type) == 0;
}

static bool string_is(const cJSON *object, const char *key, const char *value)
{
    const char *s = json_string(object, key);
    return s && strcmp(s, value) == 0;
}

/* {"type": "Replace", "pattern": {"String": from}, "content": to} */
static bool is_replace(const cJSON *step, const char *from, const char *to)
{
    return is_type(step, "Replace") && string_is(json_get(step, "pattern"), "String", from) &&
           string_is(step, "content", to);
}

static bool is_gemma_decoder(const cJSON *decoder)
{
    const cJSON *steps = json_get(decoder, "decoders");
    return is_type(decoder, "Sequence") && cJSON_IsArray(steps) && cJSON_GetArraySize(steps) == 3 &&
           is_replace(cJSON_GetArrayItem(steps, 0), "\xe2\x96\x81", " ") &&
           is_type(cJSON_GetArrayItem(steps, 1), "ByteFallback") && is_type(cJSON_GetArrayItem(steps, 2), "Fuse");
}

static int check_steps(const cJSON *json, const char *where, struct err *e)
{
    const cJSON *split = json_get(json, "pre_tokenizer");
    if (!is_replace(json_get(json, "normalizer"), " ", "\xe2\x96\x81"))
        return err_input(e, "%s: key \"normalizer\": Replace of \" \" by U+2581 was expected", where);
    /* Behind that normalizer no blank is left, so this Split never cuts. */
    if (split && !cJSON_IsNull(split) &&
        !(is_type(split, "Split") && string_is(json_get(split, "pattern"), "String", " ") &&
          !cJSON_IsTrue(json_get(split, "invert"))))
        return err_input(e, "%s: key \"pre_tokenizer\": null or Split on \" \" was expected", where);
    if (!is_gemma_decoder(json_get(json, "decoder")))
        return err_input(e, "%s: key \"decoder\": Replace of U+2581, ByteFallback, Fuse were expected", where);
    return 0;
}

static int check_model(const cJSON *model, const char *where, struct err *e)
{
    static const char *const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const cJSON *dropout = json_get(model, "dropout");
    if (!is_type(model, "BPE"))
        return err_input(e, "%s: key \"model.type\": \"BPE\" was expected", where);
    if (!cJSON_IsTrue(json_get(model, "byte_fallback")))
        return err_input(e, "%s: key \"model.byte_fallback\": true was expected", where);
    if (cJSON_IsTrue(json_get(model, "ignore_merges")))
        return err_input(e, "%s: key \"model.ignore_merges\": true is not supported", where);
    if (dropout && !cJSON_IsNull(dropout) && !(cJSON_IsNumber(dropout) && dropout->valuedouble == 0))
        return err_input(e, "%s: key \"model.dropout\": null was expected", where);
    for (int i = 0; i < 2; i++) {
        const cJSON *v = json_get(model, affix[i]);
        if (v && !cJSON_IsNull(v) && !(cJSON_IsString(v) && !*v->valuestring))
            return err_input(e, "%s: key \"model.%s\": null was expected", where, affix[i]);
    }
    if (!cJSON_IsObject(json_get(model, "vocab")))
        return err_input(e, "%s: key \"model.vocab\": an object was expected", where);
    if (!cJSON_IsArray(json_get(model, "merges")))
        return err_input(e, "%s: key \"model.merges\": an array was expected", where);
    return 0;
}

/* ---- the whole file -------------------------------------------------------------------------------------------- */

static int largest_id(int largest, const cJSON *v)
{
    return cJSON_IsNumber(v) && v->valuedouble > largest && v->valuedouble < MAX_IDS ? (int)v->valuedouble : largest;
}

/* Makes room for all ids and names. */
static void reserve_pieces(struct tokenizer *t, const cJSON *vocab, const cJSON *added)
{
    const cJSON *v;
    size_t n = 0;
    int largest = -1;
    cJSON_ArrayForEach(v, vocab) {
        largest = largest_id(largest, v);
        n++;
    }
    cJSON_ArrayForEach(v, added) {
        largest = largest_id(largest, json_get(v, "id"));
        n++;
    }
    t->n_ids = largest + 1;
    t->piece = ARENA_NEW(&t->arena, struct piece, t->n_ids);
    size_t size = table_size(n);
    t->by_name = ARENA_NEW(&t->arena, int32_t, size);
    t->by_name_mask = size - 1;
    for (size_t i = 0; i < size; i++)
        t->by_name[i] = -1;
}

static int read_json(struct tokenizer *t, const cJSON *json, const char *where, struct err *e)
{
    const cJSON *model = json_get(json, "model"), *added = json_get(json, "added_tokens"), *v;
    if (check_model(model, where, e) || check_steps(json, where, e))
        return -1;
    if (added && !cJSON_IsNull(added) && !cJSON_IsArray(added))
        return err_input(e, "%s: key \"added_tokens\": an array was expected", where);
    reserve_pieces(t, json_get(model, "vocab"), added);
    if (read_vocab(t, json_get(model, "vocab"), where, e) || read_merges(t, model, where, e))
        return -1;
    cJSON_ArrayForEach(v, added) {
        if (read_added_token(t, v, where, e))
            return -1;
    }
    index_added(t);
    return 0;
}

int tokenizer_read(struct tokenizer **out, const cJSON *json, const char *where, struct err *e)
{
    *out = NULL;
    struct tokenizer *t = NEW(struct tokenizer, 1);
    int failed = read_json(t, json, where, e);
    if (failed) {
        tokenizer_close(t);
        return -1;
    }
    *out = t;
    return 0;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    arena_free(&t->arena);
    free(t);
}

static int by_rank(const void *a, const void *b)
{
    const uint32_t x = ((const struct merge *)a)->rank, y = ((const struct merge *)b)->rank;
    return (x > y) - (x < y);
}

void tokenizer_fingerprint(const struct tokenizer *t, char hex[65])
{
    struct sha256 sha;
    sha256_init(&sha);
    for (int i = 0; i < t->n_ids; i++) {
        const struct piece *p = &t->piece[i];
        sha256_update(&sha, p->s ? "+" : "-", 1);
        if (p->s)
            sha256_update(&sha, p->s, p->len + 1);
    }
    struct merge *merge = NEW(struct merge, t->merge_mask + 1);
    size_t n = 0;
    for (size_t i = 0; t->merge && i <= t->merge_mask; i++)
        if (t->merge[i].left >= 0)
            merge[n++] = t->merge[i];
    qsort(merge, n, sizeof *merge, by_rank);
    for (size_t i = 0; i < n; i++)
        sha256_update(&sha, (const int32_t[]){merge[i].left, merge[i].right}, 2 * sizeof(int32_t));
    free(merge);
    sha256_hex(&sha, hex);
}

int tokenizer_size(const struct tokenizer *t)
{
    return t->n_ids;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *piece)
{
    return tokenizer_lookup(t, piece, strlen(piece));
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_ids ? t->piece[id].s : NULL;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_ids && t->piece[id].special;
}
