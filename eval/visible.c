#include "eval/visible.h"
#include "eval/unicode.h"

#include <stdlib.h>
#include <string.h>

/* ---- trailer --------------------------------------------------------------------------------------------------- */

/* '0' stands for a digit of the value. */
static const char pattern[] = "[[hybrid:confidence=0.0000]]";
enum { PATTERN_LEN = sizeof pattern - 1, VALUE_AT = 20 };

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
static char ascii_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* May c stand at position i of a trailer? Behind a leading 1 all decimals are zero. */
static bool pattern_takes(int i, char c, bool leading_one)
{
    if (pattern[i] != '0')
        return c == pattern[i];
    return i == VALUE_AT ? c == '0' || c == '1' : leading_one ? c == '0' : c >= '0' && c <= '9';
}

static bool is_trailer(const char *s)
{
    for (int i = 0; i < PATTERN_LEN; i++)
        if (!pattern_takes(i, s[i], s[VALUE_AT] == '1'))
            return false;
    return true;
}

/* Is there `[[`, blanks, `hybrid` (any case) in the last line of s[0..len)? */
static bool looks_like_trailer(const char *s, size_t len)
{
    size_t start = len;
    while (start > 0 && s[start - 1] != '\n')
        start--;
    for (size_t i = start; i + 1 < len; i++) {
        if (s[i] != '[' || s[i + 1] != '[')
            continue;
        size_t at = i + 2;
        while (at < len && (s[at] == ' ' || s[at] == '\t'))
            at++;
        size_t k = 0;
        while (k < 6 && at + k < len && ascii_lower(s[at + k]) == "hybrid"[k])
            k++;
        if (k == 6)
            return true;
        if (at > i + 2)
            i = at - 1;
    }
    return false;
}

size_t trailer_strip(const char *s, size_t len, enum trailer_status *status, double *confidence)
{
    size_t end = len;
    while (end > 0 && blank(s[end - 1]))
        end--;
    *status = TRAILER_MISSING;
    if (end >= PATTERN_LEN && is_trailer(s + end - PATTERN_LEN)) {
        size_t start = end - PATTERN_LEN;
        if (start == 0 || s[start - 1] == '\n') {
            *status = TRAILER_OK;
            *confidence = strtod(s + start + VALUE_AT, NULL);
            start -= start > 0;
            return start > 0 && s[start] == '\n' && s[start - 1] == '\r' ? start - 1 : start;
        }
    }
    if (looks_like_trailer(s, end))
        *status = TRAILER_MALFORMED;
    return len;
}

const char *trailer_status_name(enum trailer_status s)
{
    return s == TRAILER_OK ? "ok" : s == TRAILER_MALFORMED ? "malformed" : "missing";
}

/* ---- stream ---------------------------------------------------------------------------------------------------- */

/* States: FRESH nothing held; CR behind '\r'; 0..PATTERN_LEN characters of the pattern matched. FRESH is 0 so that
 * {0} is a start. */
enum { FRESH, CR, MATCHED };

/* The state behind c, or -1 if no trailer can come of it. `value` is the held value's first digit. */
static int advance(int state, char c, bool line_start, bool leading_one)
{
    if (state == FRESH)
        return c == '\n' ? MATCHED : c == '\r' ? CR : line_start && c == '[' ? MATCHED + 1 : -1;
    if (state == CR)
        return c == '\n' ? MATCHED : -1;
    int i = state - MATCHED;
    if (i == PATTERN_LEN)
        return blank(c) ? state : -1;
    return pattern_takes(i, c, leading_one) ? state + 1 : -1;
}

static void show(struct trailer_stream *s, const char *bytes, size_t n, struct text *shown)
{
    text_put(shown, bytes, n);
    s->started |= n > 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            s->line_over = true;
        } else if (!s->line_over || !blank(bytes[i])) {
            if (s->line_over)
                text_clear(&s->last_line);
            s->line_over = false;
            text_putc(&s->last_line, bytes[i]);
        }
    }
}

/* Whether held[from..] can still become a trailer: its state, or -1. */
static int match_held(const struct text *held, size_t from, bool at_start)
{
    int state = FRESH;
    bool one = false;
    for (size_t i = from; i < held->len && state >= 0; i++) {
        if (state == MATCHED + VALUE_AT)
            one = held->data[i] == '1';
        state = advance(state, held->data[i], at_start, one);
    }
    return state;
}

void trailer_stream_push(struct trailer_stream *s, const char *bytes, size_t n, struct text *shown)
{
    for (size_t i = 0; i < n; i++) {
        bool one = s->state > MATCHED + VALUE_AT &&
                   s->held.data[s->held.len - (size_t)(s->state - MATCHED) + VALUE_AT] == '1';
        int next = advance(s->state, bytes[i], !s->started && s->held.len == 0, one);
        text_putc(&s->held, bytes[i]);
        if (next >= 0) {
            s->state = next;
            continue;
        }
        size_t from = 1;                /* a later start may still do */
        while ((next = match_held(&s->held, from, false)) < 0)
            from++;
        show(s, s->held.data, from, shown);
        s->held.len -= from;
        memmove(s->held.data, s->held.data + from, s->held.len + 1);
        s->state = next;
    }
}

enum trailer_status trailer_stream_end(struct trailer_stream *s, struct text *shown, double *confidence)
{
    enum trailer_status status = TRAILER_OK;
    if (s->state == MATCHED + PATTERN_LEN) {
        *confidence = strtod(strstr(s->held.data, "=") + 1, NULL);
    } else {
        show(s, s->held.data, s->held.len, shown);
        status = looks_like_trailer(s->last_line.data, s->last_line.len) ? TRAILER_MALFORMED : TRAILER_MISSING;
    }
    text_free(&s->held);
    text_free(&s->last_line);
    s->state = FRESH;
    return status;
}

/* ---- thoughts -------------------------------------------------------------------------------------------------- */

static const char opening[] = "<|channel>", closing[] = "<channel|>";

static bool starts_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

static const char *skip_space(const char *s, const char *end)
{
    uint32_t c;
    int k;
    while (s < end && (k = utf8_decode(s, (size_t)(end - s), &c)) > 0 && uni_space(c))
        s += k;
    return s;
}

/* The body behind a channel's name if that is `name`, or NULL. */
static const char *behind_name(const char *body, const char *end, const char *name)
{
    size_t n = strlen(name);
    if ((size_t)(end - body) < n || strncmp(body, name, n) != 0)
        return NULL;
    body += n;
    return body == end || strchr(" \t\r\n", *body) ? body : NULL;
}

static char *trimmed(struct arena *a, const char *from, const char *to)
{
    char *copy = arena_strndup(a, from, (size_t)(to - from));
    return runes_text(a, runes_trim(runes_from(a, copy)));
}

static void add_thought(struct arena *a, struct text *thoughts, int *n, const char *from, const char *to)
{
    const char *body = behind_name(from, to, "thought");
    if ((*n)++)
        text_putc(thoughts, '\n');
    text_puts(thoughts, trimmed(a, body ? body : from, to));
}

static const char *take_channels(const char *s, struct arena *a, struct visible *v)
{
    struct text thoughts = {0};
    int n = 0;
    const char *open = strstr(s, opening), *close = strstr(s, closing), *end = s + strlen(s);
    if (close && (!open || close < open)) {                     /* the prompt had opened the thought */
        text_puts(&thoughts, trimmed(a, s, close));
        n = 1;
        s = close + strlen(closing);
    }
    const char *answer = NULL;
    while (!answer && starts_with(skip_space(s, end), opening)) {
        const char *body = skip_space(s, end) + strlen(opening);
        close = strstr(body, closing);
        const char *stop = close ? close : end, *final = behind_name(body, stop, "final");
        if (final) {
            answer = arena_strndup(a, final, (size_t)(stop - final));
        } else {
            add_thought(a, &thoughts, &n, body, stop);
            v->truncated_thought = !close;
        }
        s = close ? close + strlen(closing) : end;
    }
    v->thought = n ? arena_strndup(a, thoughts.data ? thoughts.data : "", thoughts.len) : NULL;
    text_free(&thoughts);
    return answer ? answer : s;
}

void visible_answer(const char *output, struct arena *a, struct visible *v)
{
    *v = (struct visible){0};
    enum trailer_status status;
    size_t len = trailer_strip(output, strlen(output), &status, &v->trailer_confidence);
    v->has_trailer = status == TRAILER_OK;
    v->malformed_trailer = status == TRAILER_MALFORMED;
    v->untrimmed = take_channels(arena_strndup(a, output, len), a, v);
    v->text = runes_text(a, runes_trim(runes_from(a, v->untrimmed)));
}
