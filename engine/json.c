/* json.c - strict JSON on top of cJSON.
 *
 * cJSON accepts bytes that are not UTF-8, raw control characters, text behind the value, leading zeros, numbers that
 * overflow to infinity, and cuts strings at \u0000. A scan over the text refuses all of that first, so that what
 * cJSON then builds is what the text says.
 */
#define _GNU_SOURCE
#include "engine/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 256 };

struct scan { const char *s; size_t len, at; const char *fault; };

static int peek(const struct scan *c)
{
    return c->at < c->len ? (unsigned char)c->s[c->at] : -1;
}

static bool fail(struct scan *c, const char *fault)
{
    if (!c->fault)
        c->fault = fault;
    return false;
}

static void skip_blanks(struct scan *c)
{
    while (c->at < c->len && memchr(" \t\r\n", c->s[c->at], 4))
        c->at++;
}

static bool scan_hex4(struct scan *c, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        int ch = peek(c);
        int digit = ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 :
                    ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
        if (digit < 0)
            return fail(c, "four hexadecimal digits expected behind \\u");
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

static bool scan_unicode_escape(struct scan *c)
{
    uint32_t unit, low;
    if (!scan_hex4(c, &unit))
        return false;
    if (unit == 0)
        return fail(c, "\\u0000 is not accepted in a string");
    if (unit >= 0xdc00 && unit < 0xe000)
        return fail(c, "lone surrogate in a string");
    if (unit < 0xd800 || unit >= 0xe000)
        return true;
    if (c->len - c->at < 6 || c->s[c->at] != '\\' || c->s[c->at + 1] != 'u')
        return fail(c, "lone surrogate in a string");
    c->at += 2;
    if (!scan_hex4(c, &low))
        return false;
    return (low >= 0xdc00 && low < 0xe000) || fail(c, "lone surrogate in a string");
}

static bool scan_string(struct scan *c)
{
    c->at++;
    for (;;) {
        int ch = peek(c);
        if (ch < 0)
            return fail(c, "string without an end");
        if (ch < 0x20)
            return fail(c, "control character in a string");
        c->at++;
        if (ch == '"')
            return true;
        if (ch != '\\')
            continue;
        int escaped = peek(c);
        c->at++;
        if (escaped == 'u') {
            if (!scan_unicode_escape(c))
                return false;
        } else if (escaped < 0 || !strchr("\"\\/bfnrt", escaped)) {
            return fail(c, "unknown escape in a string");
        }
    }
}

static bool scan_digits(struct scan *c)
{
    size_t from = c->at;
    while (peek(c) >= '0' && peek(c) <= '9')
        c->at++;
    return c->at > from || fail(c, "digit expected in a number");
}

static bool scan_number(struct scan *c)
{
    size_t from = c->at;
    if (peek(c) == '-')
        c->at++;
    if (peek(c) == '0')
        c->at++;
    else if (!scan_digits(c))
        return false;
    if (peek(c) == '.') {
        c->at++;
        if (!scan_digits(c))
            return false;
    }
    if (peek(c) == 'e' || peek(c) == 'E') {
        c->at++;
        if (peek(c) == '+' || peek(c) == '-')
            c->at++;
        if (!scan_digits(c))
            return false;
    }
    char copy[64];
    size_t n = c->at - from;
    if (n >= sizeof copy)
        return fail(c, "number of more than 63 characters");
    memcpy(copy, c->s + from, n);
    copy[n] = '\0';
    return isfinite(strtod(copy, NULL)) || fail(c, "number out of range");
}

static bool scan_literal(struct scan *c, const char *word)
{
    size_t n = strlen(word);
    if (c->len - c->at < n || memcmp(c->s + c->at, word, n) != 0)
        return fail(c, "value expected");
    c->at += n;
    return true;
}

static bool scan_value(struct scan *c, int depth);

static bool scan_member(struct scan *c, bool keyed, int depth)
{
    skip_blanks(c);
    if (keyed) {
        if (peek(c) != '"')
            return fail(c, "name in quotes expected");
        if (!scan_string(c))
            return false;
        skip_blanks(c);
        if (peek(c) != ':')
            return fail(c, "':' expected");
        c->at++;
        skip_blanks(c);
    }
    return scan_value(c, depth + 1);
}

static bool scan_container(struct scan *c, int depth)
{
    if (depth >= MAX_DEPTH)
        return fail(c, "nested too deeply");
    bool keyed = c->s[c->at++] == '{';
    int close = keyed ? '}' : ']';
    skip_blanks(c);
    if (peek(c) == close) {
        c->at++;
        return true;
    }
    for (;;) {
        if (!scan_member(c, keyed, depth))
            return false;
        skip_blanks(c);
        int ch = peek(c);
        if (ch != ',' && ch != close)
            return fail(c, keyed ? "',' or '}' expected" : "',' or ']' expected");
        c->at++;
        if (ch == close)
            return true;
    }
}

static bool scan_value(struct scan *c, int depth)
{
    switch (peek(c)) {
    case '{': case '[': return scan_container(c, depth);
    case '"': return scan_string(c);
    case 't': return scan_literal(c, "true");
    case 'f': return scan_literal(c, "false");
    case 'n': return scan_literal(c, "null");
    case -1: return fail(c, "value expected");
    default: return scan_number(c);
    }
}

cJSON *json_parse(const char *s, size_t len, const char *where, struct err *e)
{
    size_t bad;
    struct scan c = {s, len, 0, NULL};
    if (!utf8_valid(s, len, &bad)) {
        err_input(e, "%s: byte %zu is not UTF-8", where, bad);
        return NULL;
    }
    skip_blanks(&c);
    if (scan_value(&c, 0)) {
        skip_blanks(&c);
        if (c.at != len)
            fail(&c, "text behind the JSON value");
    }
    if (c.fault) {
        err_input(e, "%s: invalid JSON at byte %zu: %s", where, c.at, c.fault);
        return NULL;
    }
    cJSON *value = cJSON_ParseWithLength(s, len);
    if (!value)
        err_input(e, "%s: JSON could not be read", where);
    return value;
}

cJSON *json_read_file(const char *path, size_t max_bytes, struct err *e)
{
    struct text content = {0};
    cJSON *value = NULL;
    if (file_read(path, max_bytes, &content, e) == 0)
        value = json_parse(content.data ? content.data : "", content.len, path, e);
    text_free(&content);
    return value;
}

const cJSON *json_get(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

const char *json_string(const cJSON *object, const char *key)
{
    const cJSON *v = json_get(object, key);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

int json_int(const cJSON *object, const char *key, int64_t lo, int64_t hi, int64_t fallback, int64_t *out,
             const char *where, struct err *e)
{
    const cJSON *v = json_get(object, key);
    if (!v || cJSON_IsNull(v)) {
        if (fallback < lo)
            return err_input(e, "%s: key \"%s\" is missing", where, key);
        *out = fallback;
        return 0;
    }
    if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) || v->valuedouble < (double)lo ||
        v->valuedouble > (double)hi)
        return err_input(e, "%s: key \"%s\": an integer from %lld to %lld was expected", where, key, (long long)lo,
                         (long long)hi);
    *out = (int64_t)v->valuedouble;
    return 0;
}

void json_put_string(struct text *t, const char *s, size_t len)
{
    text_putc(t, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)s[i];
        if (ch == '"' || ch == '\\')
            text_printf(t, "\\%c", ch);
        else if (ch == '\n')
            text_puts(t, "\\n");
        else if (ch == '\t')
            text_puts(t, "\\t");
        else if (ch == '\r')
            text_puts(t, "\\r");
        else if (ch < 0x20 || ch == 0x7f)
            text_printf(t, "\\u%04x", ch);
        else
            text_putc(t, ch);
    }
    text_putc(t, '"');
}

void json_put_double(struct text *t, double v)
{
    if (isfinite(v))
        text_put_double(t, v);
    else
        text_puts(t, "null");
}

static void print_children(struct text *t, const cJSON *value)
{
    const cJSON *child;
    bool first = true;
    cJSON_ArrayForEach(child, value) {
        if (!first)
            text_puts(t, ",");
        first = false;
        if (cJSON_IsObject(value)) {
            json_put_string(t, child->string, strlen(child->string));
            text_putc(t, ':');
        }
        json_print(t, child);
    }
}

void json_print(struct text *t, const cJSON *value)
{
    if (cJSON_IsObject(value) || cJSON_IsArray(value)) {
        text_putc(t, cJSON_IsObject(value) ? '{' : '[');
        print_children(t, value);
        text_putc(t, cJSON_IsObject(value) ? '}' : ']');
    } else if (cJSON_IsString(value)) {
        json_put_string(t, value->valuestring, strlen(value->valuestring));
    } else if (cJSON_IsNumber(value)) {
        json_put_double(t, value->valuedouble);
    } else if (cJSON_IsBool(value)) {
        text_puts(t, cJSON_IsTrue(value) ? "true" : "false");
    } else {
        text_puts(t, "null");
    }
}
