/* record_line.c - the strict scanner for one line of a record file. */
#include "eval/record_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 256, KEY_SPACE = 24 };

/* `high` notes a byte above 0x7f: only then is the line checked for UTF-8. */
struct scan { const char *s; size_t len, at; const char *fault; bool high; };

/* A string as it stands between its quotes. */
struct span { const char *s; size_t len; bool escaped; };

static bool fail(struct scan *c, const char *fault)
{
    if (!c->fault)
        c->fault = fault;
    return false;
}

static int peek(const struct scan *c)
{
    return c->at < c->len ? (unsigned char)c->s[c->at] : -1;
}

static void skip_blanks(struct scan *c)
{
    while (c->at < c->len && (c->s[c->at] == ' ' || c->s[c->at] == '\t' || c->s[c->at] == '\r'))
        c->at++;
}

static bool take(struct scan *c, int ch)
{
    skip_blanks(c);
    if (peek(c) != ch)
        return false;
    c->at++;
    return true;
}

/* ---- strings --------------------------------------------------------------------------------------------------- */

static bool hex4(struct scan *c, uint32_t *value)
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

static bool escape(struct scan *c, uint32_t *codepoint)
{
    int ch = peek(c);
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    c->at++;
    if (ch != 'u') {
        const char *known = ch > 0 ? strchr(from, ch) : NULL;
        if (!known)
            return fail(c, "unknown escape in a string");
        *codepoint = (unsigned char)to[known - from];
        return true;
    }
    uint32_t low;
    if (!hex4(c, codepoint))
        return false;
    if (*codepoint == 0)
        return fail(c, "\\u0000 is not accepted in a string");
    if (*codepoint >= 0xdc00 && *codepoint < 0xe000)
        return fail(c, "lone surrogate in a string");
    if (*codepoint < 0xd800 || *codepoint >= 0xe000)
        return true;
    if (c->len - c->at < 6 || c->s[c->at] != '\\' || c->s[c->at + 1] != 'u')
        return fail(c, "lone surrogate in a string");
    c->at += 2;
    if (!hex4(c, &low))
        return false;
    if (low < 0xdc00 || low >= 0xe000)
        return fail(c, "lone surrogate in a string");
    *codepoint = 0x10000 + ((*codepoint - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* Eight bytes at once: none is a quote, a backslash, below 0x20 or above 0x7f. */
static bool plain8(const char *s)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t v;
    memcpy(&v, s, sizeof v);
    uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
    return ((v | (v - ones * 0x20) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & high) == 0;
}

/* At the opening quote. */
static bool scan_string(struct scan *c, struct span *out)
{
    size_t from = ++c->at;
    out->escaped = false;
    for (;;) {
        while (c->len - c->at >= 8 && plain8(c->s + c->at))
            c->at += 8;
        int ch = peek(c);
        if (ch < 0)
            return fail(c, "string without an end");
        if (ch < 0x20)
            return fail(c, "control character in a string");
        c->at++;
        if (ch == '"')
            break;
        c->high |= ch > 0x7f;
        uint32_t codepoint;
        if (ch == '\\') {
            out->escaped = true;
            if (!escape(c, &codepoint))
                return false;
        }
    }
    out->s = c->s + from;
    out->len = c->at - 1 - from;
    return true;
}

/* The text of a span: in place if it has no escapes, else in `scratch`. */
static struct span plain_text(const struct span *in, struct text *scratch)
{
    if (!in->escaped)
        return *in;
    text_clear(scratch);
    struct scan c = {.s = in->s, .len = in->len};
    while (c.at < c.len) {
        uint32_t codepoint = 0;
        char utf8[4];
        if (c.s[c.at] != '\\') {
            text_putc(scratch, c.s[c.at++]);
            continue;
        }
        c.at++;
        if (escape(&c, &codepoint))
            text_put(scratch, utf8, (size_t)utf8_encode(codepoint, utf8));
    }
    return (struct span){scratch->data ? scratch->data : "", scratch->len, false};
}

/* ---- numbers and other values ---------------------------------------------------------------------------------- */

struct decimal { uint64_t digits; int n_digits, exponent; bool negative; };

static bool digits(struct scan *c, struct decimal *d, int exponent_step)
{
    size_t from = c->at;
    for (int ch; (ch = peek(c)) >= '0' && ch <= '9'; c->at++) {
        d->n_digits += d->digits != 0 || ch != '0';
        if (d->n_digits <= 19)
            d->digits = d->digits * 10 + (uint64_t)(ch - '0');
        d->exponent += exponent_step;
    }
    return c->at > from || fail(c, "digit expected in a number");
}

static bool exponent(struct scan *c, int *value)
{
    int sign = 1;
    *value = 0;
    c->at++;
    if (peek(c) == '+' || peek(c) == '-')
        sign = c->s[c->at++] == '-' ? -1 : 1;
    size_t from = c->at;
    for (int ch; (ch = peek(c)) >= '0' && ch <= '9'; c->at++)
        *value = *value < 100000 ? *value * 10 + ch - '0' : *value;
    *value *= sign;
    return c->at > from || fail(c, "digit expected in a number");
}

/* Correctly rounded. A decimal of at most 2^53 times a power of ten of at most 10^22, both exact as doubles, needs one
 * rounding (Clinger 1990); the rest goes to strtod. */
static bool scan_number(struct scan *c, double *value)
{
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
                                   1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct decimal d = {0};
    size_t from = c->at;
    int extra = 0;
    if (peek(c) == '-') {
        d.negative = true;
        c->at++;
    }
    if (peek(c) == '0')
        c->at++;
    else if (!digits(c, &d, 0))
        return false;
    if (peek(c) == '.') {
        c->at++;
        if (!digits(c, &d, -1))
            return false;
    }
    if ((peek(c) == 'e' || peek(c) == 'E') && !exponent(c, &extra))
        return false;
    if (c->at - from > 63)
        return fail(c, "number of more than 63 characters");
    d.exponent += extra;
    if (d.n_digits <= 19 && d.digits <= (uint64_t)1 << 53 && d.exponent >= -22 && d.exponent <= 22) {
        double v = (double)d.digits;
        v = d.exponent < 0 ? v / power[-d.exponent] : v * power[d.exponent];
        *value = d.negative ? -v : v;
        return true;
    }
    char copy[64];
    memcpy(copy, c->s + from, c->at - from);
    copy[c->at - from] = '\0';
    *value = strtod(copy, NULL);
    return isfinite(*value) || fail(c, "number out of range");
}

static bool literal(struct scan *c, const char *word)
{
    size_t n = strlen(word);
    if (c->len - c->at < n || memcmp(c->s + c->at, word, n) != 0)
        return fail(c, "value expected (NaN, inf and bare words are not JSON)");
    c->at += n;
    return true;
}

enum value_kind { V_NULL, V_BOOL, V_NUMBER, V_STRING, V_OBJECT, V_ARRAY };
struct value { enum value_kind kind; double number; struct span string; };

static bool scan_value(struct scan *c, struct value *v, int depth);

static bool skip_container(struct scan *c, int depth)
{
    struct value ignored;
    struct span key;
    if (depth >= MAX_DEPTH)
        return fail(c, "nested too deeply");
    bool keyed = c->s[c->at++] == '{';
    int close = keyed ? '}' : ']';
    if (take(c, close))
        return true;
    for (;;) {
        skip_blanks(c);
        if (keyed) {
            if (peek(c) != '"')
                return fail(c, "name in quotes expected");
            if (!scan_string(c, &key))
                return false;
            if (!take(c, ':'))
                return fail(c, "':' expected");
            skip_blanks(c);
        }
        if (!scan_value(c, &ignored, depth + 1))
            return false;
        if (take(c, close))
            return true;
        if (!take(c, ','))
            return fail(c, keyed ? "',' or '}' expected" : "',' or ']' expected");
    }
}

static bool scan_value(struct scan *c, struct value *v, int depth)
{
    switch (peek(c)) {
    case '"': v->kind = V_STRING; return scan_string(c, &v->string);
    case '{': v->kind = V_OBJECT; return skip_container(c, depth);
    case '[': v->kind = V_ARRAY; return skip_container(c, depth);
    case 't': v->kind = V_BOOL; v->number = 1; return literal(c, "true");
    case 'f': v->kind = V_BOOL; v->number = 0; return literal(c, "false");
    case 'n': v->kind = V_NULL; return literal(c, "null");
    case -1: return fail(c, "value expected");
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        v->kind = V_NUMBER;
        return scan_number(c, &v->number);
    default: return fail(c, "value expected (NaN, inf and bare words are not JSON)");
    }
}

/* ---- the keys that a row needs --------------------------------------------------------------------------------- */

enum key { K_ID, K_TASK, K_MODALITY, K_GROUP, K_OUTPUT, K_ANSWER, K_STATUS, K_CORRECT, K_SCORE, K_CONFIDENCE,
           K_ENTROPY, K_WER, K_TOKENS, K_STOP, K_MS, K_SCORED, K_REPEATS, K_CONTAMINATED,
           N_KEYS };
static const char *const key_names[N_KEYS] = {
    "id", "task", "modality", "group", "output", "answer", "status", "correct", "score", "confidence", "entropy", "wer",
    "tokens", "stop", "ms", "scored", "repeats", "contaminated"};

struct parse {
    struct scan c;
    struct line_reader *l;
    struct line_fields *f;
    unsigned seen;
    const char *message;        /* what is wrong with a value */
    enum key wrong_key;
};

/* Multiply and fold; not meant to withstand an adversary, who could only make his own file be refused. */
static uint64_t hash_bytes(const char *s, size_t len, uint64_t h)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    h ^= len * k;
    for (; len >= 8; s += 8, len -= 8) {
        uint64_t v;
        memcpy(&v, s, 8);
        h = (h ^ v) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    uint64_t v = 0;
    if (len)
        memcpy(&v, s, len);
    h = (h ^ v) * 0xff51afd7ed558ccdu;
    h ^= h >> 29;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 32;
}

static bool wrong_value(struct parse *p, enum key key, const char *message)
{
    p->wrong_key = key;
    p->message = message;
    return false;
}

static struct span text_of(const struct value *v, struct text *scratch)
{
    return plain_text(&v->string, scratch);
}

static bool set_status(struct parse *p, const struct value *v)
{
    static const struct { const char *name; unsigned flag; } statuses[] = {
        {"ok", 0}, {"unparsed", REC_UNPARSED}, {"refused", REC_REFUSED}, {"truncated", REC_TRUNCATED}, {"error", 0}};
    if (v->kind != V_STRING)
        return wrong_value(p, K_STATUS, "a string was expected");
    struct span s = text_of(v, &p->l->other);
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (strlen(statuses[i].name) == s.len && memcmp(statuses[i].name, s.s, s.len) == 0) {
            p->f->row.flags |= (uint16_t)statuses[i].flag;
            p->f->is_error = i == 4;
            return true;
        }
    return wrong_value(p, K_STATUS, "one of ok, unparsed, refused, truncated, error was expected");
}

static bool set_text(struct parse *p, enum key key, const struct value *v)
{
    struct record *row = &p->f->row;
    if (v->kind == V_NULL && key != K_ID && key != K_TASK)
        return true;
    if (v->kind != V_STRING)
        return wrong_value(p, key, "a string was expected");
    struct span s = text_of(v, key == K_ID ? &p->l->id : key == K_TASK ? &p->l->task : &p->l->other);
    switch (key) {
    case K_ID: p->f->id = s.s; p->f->id_len = s.len; break;
    case K_TASK: p->f->task = s.s; p->f->task_len = s.len; break;
    case K_GROUP: p->f->group_hash = s.len ? hash_bytes(s.s, s.len, 1) | 1 : 0; break;
    case K_ANSWER: row->answer = (uint32_t)hash_bytes(s.s, s.len, 2) | 1; break;
    case K_OUTPUT: row->answer = row->answer ? row->answer : (uint32_t)hash_bytes(s.s, s.len, 2) | 1; break;
    case K_STOP:
        row->flags |= s.len != 3 || memcmp(s.s, "eos", 3) != 0 ? REC_RUNAWAY : 0;
        break;
    case K_MODALITY:
        if (s.len < sizeof p->f->modality)
            memcpy(p->f->modality, s.s, s.len);
        break;
    default: break;
    }
    return true;
}

static bool set_correct(struct parse *p, const struct value *v)
{
    if (v->kind == V_NULL)
        return true;
    if (v->kind != V_BOOL && !(v->kind == V_NUMBER && (v->number == 0 || v->number == 1)))
        return wrong_value(p, K_CORRECT, "true or false was expected");
    p->f->row.flags |= REC_HAS_CORRECT | (v->number != 0 ? REC_CORRECT : 0);
    return true;
}

static bool set_number(struct parse *p, enum key key, const struct value *v)
{
    struct record *row = &p->f->row;
    if (v->kind == V_NULL)
        return true;
    if (v->kind != V_NUMBER)
        return wrong_value(p, key, "a number was expected");
    if (key == K_TOKENS)
        return true;
    if (key == K_ENTROPY) {
        if (!(v->number >= 0))
            return wrong_value(p, key, "a number of nats, 0 or more, was expected");
        row->entropy = v->number;
        row->flags |= REC_HAS_ENTROPY;
        return true;
    }
    if (!(v->number >= 0 && v->number <= 1))
        return wrong_value(p, key, "a number from 0 to 1 was expected");
    if (key == K_CONFIDENCE) {
        row->confidence = v->number;
        row->flags |= REC_HAS_CONFIDENCE;
    } else if (!(row->flags & REC_HAS_WER)) {
        row->score = v->number;
        row->flags |= REC_HAS_SCORE;
    }
    return true;
}

/* One member of "entropy", "wer" or "ms". */
static bool set_member(struct parse *p, enum key key, const struct span *name, const struct value *v, double part[2])
{
    struct record *row = &p->f->row;
    const char *const want[2] = {key == K_WER ? "edits" : "encode", key == K_WER ? "words" : "prefill"};
    if (key == K_ENTROPY) {
        bool wanted = name->len == strlen(p->l->entropy) && memcmp(name->s, p->l->entropy, name->len) == 0;
        return !wanted || set_number(p, K_ENTROPY, v);
    }
    if (key == K_MS) {
        if (v->kind == V_NUMBER && v->number >= 0)
            row->ms += (float)v->number;
        return true;
    }
    for (int i = 0; i < 2; i++)
        if (name->len == 5 && memcmp(name->s, want[i], 5) == 0) {
            if (v->kind != V_NUMBER || v->number != floor(v->number) || v->number < 0 || v->number > 1e9)
                return wrong_value(p, key, "whole numbers \"edits\" and \"words\" were expected");
            part[i] = v->number;
        }
    return true;
}

static bool scan_members(struct parse *p, enum key key)
{
    struct scan *c = &p->c;
    double part[2] = {-1, -1};
    c->at++;
    for (bool first = true; !take(c, '}'); first = false) {
        struct value v;
        struct span name;
        if (!first && !take(c, ','))
            return fail(c, "',' or '}' expected");
        skip_blanks(c);
        if (peek(c) != '"')
            return fail(c, "name in quotes expected");
        if (!scan_string(c, &name))
            return false;
        if (!take(c, ':'))
            return fail(c, "':' expected");
        skip_blanks(c);
        if (!scan_value(c, &v, 2) || !set_member(p, key, &name, &v, part))
            return false;
    }
    if (key != K_WER)
        return true;
    if (part[0] < 0 || part[1] < 0)
        return wrong_value(p, key, "whole numbers \"edits\" and \"words\" were expected");
    p->f->row.wer.edits = (int32_t)part[0];
    p->f->row.wer.words = (int32_t)part[1];
    p->f->row.flags = (uint16_t)((p->f->row.flags & ~REC_HAS_SCORE) | REC_HAS_WER);
    return true;
}

static bool set_value(struct parse *p, enum key key, const struct value *v)
{
    switch (key) {
    case K_STATUS: return set_status(p, v);
    case K_CORRECT: return set_correct(p, v);
    case K_SCORE: case K_CONFIDENCE: case K_ENTROPY: case K_TOKENS: return set_number(p, key, v);
    case K_WER: return v->kind == V_NULL || wrong_value(p, key, "an object {\"edits\", \"words\"} was expected");
    case K_MS: return true;
    case K_SCORED: p->f->not_scored = v->kind == V_BOOL && v->number == 0; return true;
    case K_REPEATS: p->f->row.flags |= v->kind == V_STRING ? REC_REPEATED : 0; return true;
    case K_CONTAMINATED:
        p->f->row.flags |= v->kind == V_STRING || (v->kind == V_BOOL && v->number != 0) ? REC_CONTAMINATED : 0;
        return true;
    case K_GROUP: case K_ANSWER:
        if (v->kind == V_NUMBER)        /* imported files number their groups */
            return v->number == 0 || set_text(p, key, &(struct value){V_STRING, 0, v->string});
        return set_text(p, key, v);
    default: return set_text(p, key, v);
    }
}

static bool scan_pair(struct parse *p)
{
    struct scan *c = &p->c;
    struct span name;
    struct value v;
    int key = 0;
    skip_blanks(c);
    if (peek(c) != '"')
        return fail(c, "name in quotes expected");
    if (!scan_string(c, &name))
        return false;
    if (!take(c, ':'))
        return fail(c, "':' expected");
    skip_blanks(c);
    while (key < N_KEYS && (strlen(key_names[key]) != name.len || memcmp(key_names[key], name.s, name.len) != 0))
        key++;
    if (key == N_KEYS)
        return scan_value(c, &v, 1);
    if (p->seen & 1u << key)
        return wrong_value(p, (enum key)key, "stands twice in one record");
    p->seen |= 1u << key;
    if (peek(c) == '{' && (key == K_ENTROPY || key == K_WER || key == K_MS))
        return scan_members(p, (enum key)key);
    size_t from = c->at;
    if (!scan_value(c, &v, 1))
        return false;
    if (v.kind == V_NUMBER)
        v.string = (struct span){c->s + from, c->at - from, false};
    return set_value(p, (enum key)key, &v);
}

static bool scan_record(struct parse *p)
{
    struct scan *c = &p->c;
    if (!take(c, '{'))
        return fail(c, "a record {...} was expected");
    for (bool first = true; !take(c, '}'); first = false) {
        if (!first && !take(c, ','))
            return fail(c, "',' or '}' expected");
        if (!scan_pair(p))
            return false;
    }
    skip_blanks(c);
    return c->at == c->len || fail(c, "text behind the record");
}

static int check_complete(struct parse *p, struct err *e)
{
    struct line_fields *f = p->f;
    if (!(p->seen & 1u << K_ID) || f->id_len == 0)
        return err_input(e, "key \"id\" is missing or empty");
    if (!(p->seen & 1u << K_TASK) || f->task_len == 0)
        return err_input(e, "key \"task\" is missing or empty");
    f->task_hash = hash_bytes(f->task, f->task_len, 3);
    f->row.key = hash_bytes(f->id, f->id_len, f->task_hash);
    if (!f->is_error && !f->not_scored && !(f->row.flags & (REC_HAS_CORRECT | REC_HAS_SCORE | REC_HAS_WER)))
        return err_input(e, "id \"%.*s\": none of \"correct\", \"score\", \"wer\" says how good the answer is",
                         (int)(f->id_len > 200 ? 200 : f->id_len), f->id);
    return 0;
}

int line_parse(struct line_reader *l, const char *s, size_t len, struct line_fields *f, struct err *e)
{
    struct parse p = {.c = {.s = s, .len = len}, .l = l, .f = f};
    size_t bad;
    *f = (struct line_fields){0};
    bool ok = scan_record(&p);
    if (p.message)
        return err_input(e, "\"%s\": %s", key_names[p.wrong_key], p.message);
    if (!ok)
        return err_input(e, "invalid JSON at byte %zu: %s", p.c.at, p.c.fault);
    if (p.c.high && !utf8_valid(s, len, &bad))
        return err_input(e, "byte %zu is not UTF-8", bad);
    return check_complete(&p, e);
}

int line_reader_init(struct line_reader *l, const char *entropy)
{
    static const char *const known[] = {"mean", "max", "first", "sum"};
    *l = (struct line_reader){0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(entropy, known[i]) == 0)
            l->entropy = known[i];
    return l->entropy ? 0 : -1;
}

void line_reader_free(struct line_reader *l)
{
    text_free(&l->task);
    text_free(&l->id);
    text_free(&l->other);
    *l = (struct line_reader){0};
}
