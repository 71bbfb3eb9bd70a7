#include "eval/unicode.h"
#include "eval/unicode_table.h"

#include <string.h>

#define COUNT(table) (sizeof (table) / sizeof (table)[0])

/* ---- classes --------------------------------------------------------------------------------------------------- */

static bool in_ranges(const struct unicode_range *r, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c > r[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && c >= r[lo].first;
}

bool uni_space(uint32_t c)
{
    if (c < 128)
        return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool uni_word(uint32_t c)
{
    if (c < 128)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    return in_ranges(unicode_word, COUNT(unicode_word), c);
}

bool uni_letter(uint32_t c)
{
    return uni_word(c) && !in_ranges(unicode_no_letter, COUNT(unicode_no_letter), c);
}

bool uni_symbol(uint32_t c)
{
    if (c < 128)
        return c > ' ' && c < 127 && (c == '_' || !uni_word(c));
    return in_ranges(unicode_symbol, COUNT(unicode_symbol), c);
}

bool uni_punctuation(uint32_t c) { return in_ranges(unicode_punctuation, COUNT(unicode_punctuation), c); }

bool uni_mark(uint32_t c)
{
    return c >= 0x300 && in_ranges(unicode_mark, COUNT(unicode_mark), c);
}

int uni_digit(uint32_t c)
{
    if (c < 128)
        return c >= '0' && c <= '9' ? (int)(c - '0') : -1;
    size_t lo = 0, hi = COUNT(unicode_zero);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (unicode_zero[mid] <= c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && c - unicode_zero[lo - 1] < 10 ? (int)(c - unicode_zero[lo - 1]) : -1;
}

static uint32_t other_case(const struct unicode_case *runs, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c > runs[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == n || c < runs[lo].first || (c - runs[lo].first) % runs[lo].step)
        return c;
    return (uint32_t)((int32_t)c + runs[lo].add);
}

uint32_t uni_lower(uint32_t c)
{
    if (c < 128)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return other_case(unicode_lower, COUNT(unicode_lower), c);
}

bool uni_boundary(struct runes s, size_t i)
{
    bool before = i > 0 && uni_word(s.at[i - 1]), after = i < s.n && uni_word(s.at[i]);
    return before != after;
}

/* ---- lists ----------------------------------------------------------------------------------------------------- */

struct runes runes_from(struct arena *a, const char *utf8)
{
    size_t len = strlen(utf8), at = 0;
    struct runes s = {.at = ARENA_NEW(a, uint32_t, len + 1), .cap = len + 1};
    while (at < len) {
        uint32_t c;
        int k = utf8_decode(utf8 + at, len - at, &c);
        s.at[s.n++] = k ? c : 0xFFFD;
        at += k ? (size_t)k : 1;
    }
    return s;
}

char *runes_text(struct arena *a, struct runes s)
{
    char *out = ARENA_NEW(a, char, 4 * s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += (size_t)utf8_encode(s.at[i], out + n);
    out[n] = 0;
    return out;
}

void runes_put(struct arena *a, struct runes *s, uint32_t c)
{
    if (s->n >= s->cap) {
        size_t cap = s->n < 16 ? 32 : 2 * s->n;
        uint32_t *at = ARENA_NEW(a, uint32_t, cap);
        if (s->n)
            memcpy(at, s->at, s->n * sizeof *at);
        s->at = at;
        s->cap = cap;
    }
    s->at[s->n++] = c;
}

void runes_puts(struct arena *a, struct runes *s, const char *utf8)
{
    size_t len = strlen(utf8);
    for (size_t at = 0; at < len;) {
        uint32_t c = 0xFFFD;
        int k = utf8_decode(utf8 + at, len - at, &c);
        runes_put(a, s, c);
        at += k ? (size_t)k : 1;
    }
}

void runes_add(struct arena *a, struct runes *s, struct runes more)
{
    for (size_t i = 0; i < more.n; i++)
        runes_put(a, s, more.at[i]);
}

struct runes runes_part(struct runes s, size_t from, size_t to)
{
    return (struct runes){.at = s.at ? s.at + from : NULL, .n = to - from};
}

struct runes runes_trim(struct runes s)
{
    while (s.n && uni_space(s.at[0]))
        s.at++, s.n--;
    while (s.n && uni_space(s.at[s.n - 1]))
        s.n--;
    s.cap = 0;
    return s;
}

bool runes_equal(struct runes a, struct runes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n * sizeof *a.at) == 0);
}

bool runes_is(struct runes s, const char *ascii)
{
    size_t i = 0;
    while (i < s.n && ascii[i] && s.at[i] == (uint8_t)ascii[i])
        i++;
    return i == s.n && !ascii[i];
}

bool runes_word(struct runes s, size_t *at, struct runes *word)
{
    size_t i = *at;
    while (i < s.n && uni_space(s.at[i]))
        i++;
    size_t from = i;
    while (i < s.n && !uni_space(s.at[i]))
        i++;
    *at = i;
    *word = runes_part(s, from, i);
    return i > from;
}

struct runes runes_collapse(struct arena *a, struct runes s)
{
    struct runes out = {.at = ARENA_NEW(a, uint32_t, s.n + 1), .cap = s.n + 1}, word;
    for (size_t at = 0; runes_word(s, &at, &word);) {
        if (out.n)
            out.at[out.n++] = ' ';
        memcpy(out.at + out.n, word.at, word.n * sizeof *word.at);
        out.n += word.n;
    }
    return out;
}

/* ---- case and decomposition ------------------------------------------------------------------------------------ */

#define CAPITAL_SIGMA 0x3A3
#define FINAL_SIGMA 0x3C2

static bool cased(uint32_t c) { return in_ranges(unicode_cased, COUNT(unicode_cased), c); }
static bool ignorable(uint32_t c) { return in_ranges(unicode_ignorable, COUNT(unicode_ignorable), c); }

/* A capital sigma becomes the final form when a cased letter precedes and none follows, marks and the like aside. */
static uint32_t lower_sigma(struct runes s, size_t i)
{
    size_t before = i, after = i + 1;
    while (before > 0 && ignorable(s.at[before - 1]))
        before--;
    while (after < s.n && ignorable(s.at[after]))
        after++;
    bool final = before > 0 && cased(s.at[before - 1]) && !(after < s.n && cased(s.at[after]));
    return final ? FINAL_SIGMA : 0x3C3;
}

struct runes runes_lower(struct arena *a, struct runes s)
{
    struct runes out = {.at = ARENA_NEW(a, uint32_t, s.n + 1), .cap = s.n + 1};
    for (size_t i = 0; i < s.n; i++) {
        uint32_t c = s.at[i];
        runes_put(a, &out, c == CAPITAL_SIGMA ? lower_sigma(s, i) : c == 0x130 ? 'i' : uni_lower(c));
        if (c == 0x130)                                         /* I with dot: i and a combining dot */
            runes_put(a, &out, 0x307);
    }
    return out;
}

static int number_of(const struct unicode_number *r, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c > r[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && c >= r[lo].first ? r[lo].value : 0;
}

static int combining_class(uint32_t c)
{
    return c < 0x300 ? 0 : number_of(unicode_class, COUNT(unicode_class), c);
}

/* The capitals of a letter that has several, and their number; 0 for any other. */
static int long_capitals(uint32_t c, const uint32_t **capital)
{
    size_t lo = 0, hi = c < 0xDF ? 0 : COUNT(unicode_capitals);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (unicode_capitals[mid].letter < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (c < 0xDF || lo == COUNT(unicode_capitals) || unicode_capitals[lo].letter != c)
        return 0;
    *capital = unicode_capitals[lo].capital;
    return (*capital)[2] ? 3 : 2;
}

struct runes runes_upper(struct arena *a, struct runes s)
{
    struct runes out = {.at = ARENA_NEW(a, uint32_t, s.n + 1), .cap = s.n + 1};
    const uint32_t *capital;
    for (size_t i = 0; i < s.n; i++) {
        int n = long_capitals(s.at[i], &capital);
        for (int k = 0; k < n; k++)
            runes_put(a, &out, capital[k]);
        if (!n)
            runes_put(a, &out, other_case(unicode_upper, COUNT(unicode_upper), s.at[i]));
    }
    return out;
}

size_t runes_upper_length(struct runes s)
{
    size_t n = s.n;
    const uint32_t *capital;
    for (size_t i = 0; i < s.n; i++) {
        int k = long_capitals(s.at[i], &capital);
        n += k ? (size_t)k - 1 : 0;
    }
    return n;
}

static void put_hangul(struct arena *a, struct runes *out, uint32_t c)
{
    uint32_t index = c - 0xAC00, tail = index % 28;
    runes_put(a, out, 0x1100 + index / 588);
    runes_put(a, out, 0x1161 + index % 588 / 28);
    if (tail)
        runes_put(a, out, 0x11A7 + tail);
}

static void put_decomposed(struct arena *a, struct runes *out, uint32_t c)
{
    if (c >= 0xAC00 && c <= 0xD7A3) {
        put_hangul(a, out, c);
        return;
    }
    size_t lo = 0, hi = c < 0xA0 ? 0 : COUNT(unicode_nfkd);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c > unicode_nfkd[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct unicode_nfkd *run = &unicode_nfkd[lo];
    if (c < 0xA0 || lo == COUNT(unicode_nfkd) || c < run->first) {
        runes_put(a, out, c);
        return;
    }
    const uint16_t *unit = unicode_nfkd_pool + run->start + (c - run->first) * run->length;
    for (int i = 0; i < run->length; i++) {
        uint32_t u = unit[i];
        if (u >= 0xD800 && u < 0xDC00)                          /* a surrogate pair */
            u = 0x10000 + ((u - 0xD800) << 10) + (unit[++i] - 0xDC00u);
        runes_put(a, out, u);
    }
}

/* Marks behind a letter are put in the order of their classes. Counting sort: a hostile text has long runs of marks. */
static void order_marks(struct arena *a, struct runes run)
{
    bool ordered = true;
    for (size_t i = 1; i < run.n && ordered; i++)
        ordered = combining_class(run.at[i - 1]) <= combining_class(run.at[i]);
    if (ordered)
        return;
    uint32_t *sorted = ARENA_NEW(a, uint32_t, run.n);
    size_t start[257] = {0};
    for (size_t i = 0; i < run.n; i++)
        start[combining_class(run.at[i]) + 1]++;
    for (int k = 1; k < 257; k++)
        start[k] += start[k - 1];
    for (size_t i = 0; i < run.n; i++)
        sorted[start[combining_class(run.at[i])]++] = run.at[i];
    memcpy(run.at, sorted, run.n * sizeof *sorted);
}

struct runes runes_nfkd(struct arena *a, struct runes s)
{
    struct runes out = {.at = ARENA_NEW(a, uint32_t, s.n + 1), .cap = s.n + 1};
    for (size_t i = 0; i < s.n; i++)
        put_decomposed(a, &out, s.at[i]);
    for (size_t i = 0; i < out.n;) {
        size_t end = i;
        while (end < out.n && combining_class(out.at[end]))
            end++;
        if (end > i)
            order_marks(a, runes_part(out, i, end));
        i = end > i ? end : i + 1;
    }
    return out;
}
