/* jinja_lex.c - a template as tokens: text between tags (with Jinja's rules for white space around them), and names,
 * strings, numbers and operators inside. */
#define _GNU_SOURCE
#include "engine/jinja.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const struct jlexer *lx, size_t at, const char *word)
{
    size_t n = strlen(word);
    return lx->len - at >= n && memcmp(lx->s + at, word, n) == 0;
}

static _Noreturn void lex_fail(struct jlexer *lx, const char *what)
{
    lx->j->line = lx->line;
    jfail(lx->j, "%s", what);
}

/* Moves on to `at`, counting lines. */
static void consume(struct jlexer *lx, size_t at)
{
    for (; lx->at < at; lx->at++)
        lx->line += lx->s[lx->at] == '\n';
}

static size_t skip_spaces(const struct jlexer *lx, size_t at)
{
    size_t n;
    while (at < lx->len && (n = jspace_len(lx->s + at, lx->len - at)))
        at += n;
    return at;
}

/* ---- text between tags ----------------------------------------------------------------------------------------- */

/* Consumes the end of a tag: `-` in front eats all white space behind it; a block or comment eats one newline, unless
 * `+` is in front. False if the tag does not end here. */
static bool consume_end(struct jlexer *lx, const char *end)
{
    bool block = end[0] != '}';
    size_t at = lx->at;
    char sign = at < lx->len ? lx->s[at] : 0;
    if (sign == '-' || (block && sign == '+'))
        at++;
    else
        sign = 0;
    if (!starts_with(lx, at, end))
        return false;
    at += 2;
    if (sign == '-')
        at = skip_spaces(lx, at);
    else if (block && sign != '+' && at < lx->len && lx->s[at] == '\n')
        at++;
    consume(lx, at);
    lx->line_start = lx->s[at - 1] == '\n';
    return true;
}

/* Position of the next tag, or the end. */
static size_t find_tag(const struct jlexer *lx)
{
    size_t at = lx->at;
    for (; at < lx->len; at++) {
        const char *open = memchr(lx->s + at, '{', lx->len - at);
        if (!open)
            return lx->len;
        at = (size_t)(open - lx->s);
        if (at + 1 < lx->len && strchr("{%#", lx->s[at + 1]) && lx->s[at + 1])
            return at;
    }
    return lx->len;
}

/* Removes from the end of the text what the tag behind it asks for. */
static struct jstr strip_before_tag(const struct jlexer *lx, struct jstr text, char kind, char sign)
{
    if (sign == '-')
        return jstrip(text, false, true);
    if (sign == '+' || kind == '{')
        return text;
    const char *newline = memrchr(text.s, '\n', text.len);
    size_t line = newline ? (size_t)(newline + 1 - text.s) : 0;
    struct jstr rest = {text.s + line, text.len - line};
    if ((newline || lx->line_start) && jstrip(rest, true, false).len == 0)
        text.len = line;
    return text;
}

/* {% raw %}: the text up to {% endraw %} as it is. */
static bool lex_raw(struct jlexer *lx, struct jtoken *token)
{
    size_t at = skip_spaces(lx, lx->at);
    if (!starts_with(lx, at, "raw"))
        return false;
    at = skip_spaces(lx, at + 3);
    bool strip = starts_with(lx, at, "-%}");
    if (!strip && !starts_with(lx, at, "%}"))
        return false;
    consume(lx, strip ? skip_spaces(lx, at + 3) : at + 2);
    size_t from = lx->at;
    for (at = from; at < lx->len; at++) {
        if (!starts_with(lx, at, "{%"))
            continue;
        char sign = at + 2 < lx->len ? lx->s[at + 2] : 0;
        size_t word = skip_spaces(lx, at + 2 + (sign == '-' || sign == '+'));
        if (!starts_with(lx, word, "endraw"))
            continue;
        struct jlexer end = *lx;
        consume(&end, skip_spaces(lx, word + 6));
        if (!consume_end(&end, "%}"))
            continue;
        *token = (struct jtoken){.type = T_DATA, .line = lx->line, .s = {lx->s + from, at - from}};
        lx->line_start = false;
        token->s = strip_before_tag(lx, token->s, '%', sign);
        *lx = end;
        return true;
    }
    lex_fail(lx, "{% raw %} without {% endraw %}");
}

static void skip_comment(struct jlexer *lx)
{
    const char *end = memmem(lx->s + lx->at, lx->len - lx->at, "#}", 2);
    if (!end)
        lex_fail(lx, "comment without an end");
    size_t at = (size_t)(end - lx->s);
    if (at > lx->at && (lx->s[at - 1] == '-' || lx->s[at - 1] == '+'))
        at--;
    consume(lx, at);
    consume_end(lx, "#}");
}

/* Text up to the next tag; the tag's begin is consumed with it. An empty text is possible. */
static struct jtoken lex_data(struct jlexer *lx)
{
    size_t tag = find_tag(lx);
    struct jtoken token = {.type = T_DATA, .line = lx->line, .s = {lx->s + lx->at, tag - lx->at}};
    if (tag == lx->len) {
        consume(lx, tag);
        return token;
    }
    char kind = lx->s[tag + 1], sign = tag + 2 < lx->len ? lx->s[tag + 2] : 0;
    token.s = strip_before_tag(lx, token.s, kind, sign);
    consume(lx, tag + 2 + (sign == '-' || sign == '+'));
    if (kind == '#')
        skip_comment(lx);
    else
        lx->mode = kind == '{' ? LEX_PRINT : LEX_BLOCK;
    return token;
}

/* ---- inside tags ----------------------------------------------------------------------------------------------- */

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static bool is_digit(const struct jlexer *lx, size_t at)
{
    return at < lx->len && lx->s[at] >= '0' && lx->s[at] <= '9';
}

static size_t skip_digits(const struct jlexer *lx, size_t at)
{
    while (is_digit(lx, at) || (at < lx->len && lx->s[at] == '_' && is_digit(lx, at + 1)))
        at++;
    return at;
}

static void lex_number(struct jlexer *lx, struct jtoken *token)
{
    char digits[64];
    size_t end = skip_digits(lx, lx->at), n = 0;
    token->type = T_INT;
    if (end < lx->len && lx->s[end] == '.' && is_digit(lx, end + 1)) {
        token->type = T_FLOAT;
        end = skip_digits(lx, end + 1);
    }
    if (end < lx->len && (lx->s[end] == 'e' || lx->s[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < lx->len && (lx->s[exponent] == '+' || lx->s[exponent] == '-'))
            exponent++;
        if (is_digit(lx, exponent)) {
            token->type = T_FLOAT;
            end = skip_digits(lx, exponent);
        }
    }
    for (size_t i = lx->at; i < end; i++) {
        if (n == sizeof digits - 1)
            lex_fail(lx, "number of too many digits");
        if (lx->s[i] != '_')
            digits[n++] = lx->s[i];
    }
    digits[n] = '\0';
    errno = 0;
    if (token->type == T_FLOAT)
        token->f = strtod(digits, NULL);
    else
        token->i = strtoll(digits, NULL, 10);
    if (token->type == T_FLOAT ? isinf(token->f) : errno == ERANGE)
        lex_fail(lx, "number out of range");
    consume(lx, end);
}

static uint32_t lex_hex(struct jlexer *lx, size_t n)
{
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++, lx->at++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *d = lx->at < lx->len && lx->s[lx->at] ? strchr(digits, lx->s[lx->at]) : NULL;
        if (!d)
            lex_fail(lx, "hexadecimal digit expected in a string");
        value = value << 4 | (uint32_t)(d - digits < 16 ? d - digits : d - digits - 6);
    }
    return value;
}

/* One escape; lx->at is behind the backslash. Returns the bytes written to out. */
static size_t lex_escape(struct jlexer *lx, char out[4])
{
    static const char letters[] = "\\'\"abfnrtv", meaning[] = "\\'\"\a\b\f\n\r\t\v";
    char c = lx->s[lx->at];
    const char *letter = c ? strchr(letters, c) : NULL;
    uint32_t code = 0;
    if (letter) {
        lx->at++;
        out[0] = meaning[letter - letters];
        return 1;
    }
    if (c == '\n') {
        consume(lx, lx->at + 1);
        return 0;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        lx->at++;
        code = lex_hex(lx, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && lx->at < lx->len && lx->s[lx->at] >= '0' && lx->s[lx->at] <= '7'; i++)
            code = code * 8 + (uint32_t)(lx->s[lx->at++] - '0');
    } else if (c == 'N') {
        lex_fail(lx, "\\N{...} is not supported");
    } else {
        out[0] = '\\';
        return 1;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        lex_fail(lx, "escape in a string that is not a character");
    return (size_t)utf8_encode(code, out);
}

static void lex_string(struct jlexer *lx, struct jtoken *token)
{
    char quote = lx->s[lx->at];
    size_t end = lx->at + 1, n = 0;
    while (end < lx->len && lx->s[end] != quote)
        end += lx->s[end] == '\\' ? 2 : 1;
    if (end >= lx->len)
        lex_fail(lx, "string without an end");
    char *value = jalloc(lx->j, end - lx->at, 1);           /* an escape is never longer than its source */
    lx->at++;
    while (lx->at < end) {
        if (lx->s[lx->at] == '\\') {
            lx->at++;
            char bytes[4];
            size_t written = lex_escape(lx, bytes);
            memcpy(value + n, bytes, written);
            n += written;
        } else {
            value[n++] = lx->s[lx->at];
            consume(lx, lx->at + 1);
        }
    }
    consume(lx, end + 1);
    token->type = T_STRING;
    token->s = (struct jstr){value, n};
}

static void balance_brackets(struct jlexer *lx, char c)
{
    if (strchr("([{", c)) {
        if (lx->n_brackets == JINJA_MAX_BRACKETS)
            lex_fail(lx, "nested too deeply");
        lx->bracket[lx->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (lx->n_brackets == 0 || lx->bracket[--lx->n_brackets] != c)
            lex_fail(lx, "closing bracket that does not match");
    }
}

static void lex_operator(struct jlexer *lx, struct jtoken *token)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
                                            "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ","};
    token->type = T_OPERATOR;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!starts_with(lx, lx->at, operators[i]))
            continue;
        token->s = (struct jstr){lx->s + lx->at, strlen(operators[i])};
        if (token->s.len == 1)
            balance_brackets(lx, token->s.s[0]);
        lx->at += token->s.len;
        return;
    }
    lex_fail(lx, "unexpected character in a tag");
}

static struct jtoken lex_in_tag(struct jlexer *lx)
{
    consume(lx, skip_spaces(lx, lx->at));
    struct jtoken token = {.type = T_END, .line = lx->line};
    if (lx->n_brackets == 0 && consume_end(lx, lx->mode == LEX_PRINT ? "}}" : "%}")) {
        token.type = lx->mode == LEX_PRINT ? T_PRINT_END : T_BLOCK_END;
        lx->mode = LEX_DATA;
        return token;
    }
    if (lx->at >= lx->len)
        lex_fail(lx, "tag without an end");
    char c = lx->s[lx->at];
    if (is_name_char(c, true)) {
        size_t end = lx->at;
        while (end < lx->len && is_name_char(lx->s[end], false))
            end++;
        token.type = T_NAME;
        token.s = (struct jstr){lx->s + lx->at, end - lx->at};
        lx->at = end;
    } else if (is_digit(lx, lx->at)) {
        lex_number(lx, &token);
    } else if (c == '\'' || c == '"') {
        lex_string(lx, &token);
    } else {
        lex_operator(lx, &token);
    }
    return token;
}

struct jtoken jlex_next(struct jlexer *lx)
{
    if (lx->begun_tag) {
        lx->begun_tag = false;
        struct jtoken raw;
        if (lx->mode == LEX_BLOCK && lex_raw(lx, &raw)) {
            lx->mode = LEX_DATA;
            return raw;
        }
        return (struct jtoken){.type = lx->mode == LEX_PRINT ? T_PRINT_BEGIN : T_BLOCK_BEGIN, .line = lx->line};
    }
    if (lx->mode != LEX_DATA)
        return lex_in_tag(lx);
    if (lx->at >= lx->len)
        return (struct jtoken){.type = T_END, .line = lx->line};
    struct jtoken data = lex_data(lx);
    lx->begun_tag = lx->mode != LEX_DATA;
    return data;
}
