/* jinja_value.c - what template values are and how Python would compare, count and print them. */
#define _GNU_SOURCE
#include "engine/jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failure and cost ------------------------------------------------------------------------------------------ */

void jfail(struct jinja *j, const char *fmt, ...)
{
    char message[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    err_input(j->e, "%s:%d: %s", j->where, j->line, message);
    longjmp(j->on_error, 1);
}

void jcharge(struct jinja *j, size_t cost)
{
    if (cost > j->budget)
        jfail(j, "the template does too much work");
    j->budget -= cost;
}

void *jalloc(struct jinja *j, size_t n, size_t size)
{
    if (size && n > JINJA_BUDGET / size)
        jfail(j, "the template does too much work");
    jcharge(j, n * size + 16);
    return arena_alloc(&j->arena, n, size);
}

/* ---- strings --------------------------------------------------------------------------------------------------- */

bool jstr_is(struct jstr s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.s, word, s.len) == 0;
}

bool jstr_equal(struct jstr a, struct jstr b)
{
    return a.len == b.len && memcmp(a.s, b.s, a.len) == 0;
}

size_t jchar_len(const char *s, size_t len)
{
    int n = utf8_decode(s, len, NULL);
    return n > 0 ? (size_t)n : 1;
}

size_t jspace_len(const char *s, size_t len)
{
    uint32_t c;
    int n = utf8_decode(s, len, &c);
    bool space = n && ((c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
                       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
                       c == 0x3000);
    return space ? (size_t)n : 0;
}

size_t jspace_len_before(const char *s, size_t len)
{
    for (size_t n = 1; n <= 3 && n <= len; n++)
        if (jspace_len(s + len - n, n) == n)
            return n;
    return 0;
}

struct jstr jstrip(struct jstr s, bool left, bool right)
{
    size_t n;
    while (left && s.len && (n = jspace_len(s.s, s.len))) {
        s.s += n;
        s.len -= n;
    }
    while (right && s.len && (n = jspace_len_before(s.s, s.len)))
        s.len -= n;
    return s;
}

/* ---- making values --------------------------------------------------------------------------------------------- */

struct jval jundefined(struct jstr name)
{
    return (struct jval){.kind = J_UNDEFINED, .str = name};
}

struct jval jnone(void)
{
    return (struct jval){.kind = J_NONE};
}

struct jval jbool(bool b)
{
    return (struct jval){.kind = J_BOOL, .b = b};
}

struct jval jint(int64_t i)
{
    return (struct jval){.kind = J_INT, .i = i};
}

struct jval jfloat(double f)
{
    return (struct jval){.kind = J_FLOAT, .f = f};
}

struct jval jstring(const char *s, size_t len)
{
    return (struct jval){.kind = J_STRING, .str = {s, len}};
}

struct jval jliteral(const char *s)
{
    return jstring(s, strlen(s));
}

struct jval jlist_new(struct jinja *j, enum jkind kind, size_t n)
{
    struct jlist *list = jalloc(j, 1, sizeof *list);
    list->item = jalloc(j, n, sizeof *list->item);
    list->n = n;
    return (struct jval){.kind = kind, .list = list};
}

struct jval jpair(struct jinja *j, struct jval a, struct jval b)
{
    struct jval pair = jlist_new(j, J_TUPLE, 2);
    pair.list->item[0] = a;
    pair.list->item[1] = b;
    return pair;
}

struct jval jdict_new(struct jinja *j, enum jkind kind)
{
    return (struct jval){.kind = kind, .dict = jalloc(j, 1, sizeof(struct jdict))};
}

const struct jval *jdict_get(struct jinja *j, const struct jdict *d, struct jval key)
{
    jcharge(j, d->n);
    for (size_t i = 0; i < d->n; i++)
        if (jequal(j, d->key[i], key))
            return &d->value[i];
    return NULL;
}

void jdict_set(struct jinja *j, struct jdict *d, struct jval key, struct jval value)
{
    struct jval *old = (struct jval *)(uintptr_t)jdict_get(j, d, key);
    if (old) {
        *old = value;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 4;
        struct jval *keys = jalloc(j, 2 * cap, sizeof *keys);
        if (d->n) {
            memcpy(keys, d->key, d->n * sizeof *keys);
            memcpy(keys + cap, d->value, d->n * sizeof *keys);
        }
        d->key = keys;
        d->value = keys + cap;
        d->cap = cap;
    }
    d->key[d->n] = key;
    d->value[d->n++] = value;
}

static struct jval number_from_json(double v)
{
    return v == floor(v) && fabs(v) < 9007199254740992.0 ? jint((int64_t)v) : jfloat(v);
}

struct jval jfrom_json(struct jinja *j, const cJSON *json)
{
    const cJSON *child;
    if (cJSON_IsString(json)) {
        size_t len = strlen(json->valuestring);
        jcharge(j, len);
        return jstring(json->valuestring, len);
    }
    if (cJSON_IsNumber(json))
        return number_from_json(json->valuedouble);
    if (cJSON_IsBool(json))
        return jbool(cJSON_IsTrue(json));
    if (cJSON_IsArray(json)) {
        struct jval list = jlist_new(j, J_LIST, (size_t)cJSON_GetArraySize(json));
        size_t i = 0;
        cJSON_ArrayForEach(child, json)
            list.list->item[i++] = jfrom_json(j, child);
        return list;
    }
    if (cJSON_IsObject(json)) {
        struct jval dict = jdict_new(j, J_DICT);
        cJSON_ArrayForEach(child, json)
            jdict_set(j, dict.dict, jliteral(child->string), jfrom_json(j, child));
        return dict;
    }
    return jnone();
}

/* ---- asking values --------------------------------------------------------------------------------------------- */

const char *jkind_name(enum jkind kind)
{
    static const char *const name[] = {"undefined", "NoneType", "bool", "int", "float", "str", "list", "tuple",
                                       "dict", "namespace", "loop", "macro", "function", "method"};
    return name[kind];
}

bool jis_number(struct jval v)
{
    return v.kind == J_INT || v.kind == J_FLOAT || v.kind == J_BOOL;
}

double jnumber(struct jval v)
{
    return v.kind == J_FLOAT ? v.f : v.kind == J_BOOL ? (double)v.b : (double)v.i;
}

bool jto_int(struct jval v, int64_t *i)
{
    *i = v.kind == J_BOOL ? v.b : v.i;
    return v.kind == J_INT || v.kind == J_BOOL;
}

bool jtruth(struct jval v)
{
    switch (v.kind) {
    case J_UNDEFINED: case J_NONE: return false;
    case J_BOOL: return v.b;
    case J_INT: return v.i != 0;
    case J_FLOAT: return v.f != 0;
    case J_STRING: return v.str.len != 0;
    case J_LIST: case J_TUPLE: return v.list->n != 0;
    case J_DICT: return v.dict->n != 0;
    default: return true;
    }
}

/* Nested values come from templates that wrap lists in lists; their depth is limited like that of the tree. */
static void enter(struct jinja *j)
{
    jcharge(j, 1);
    if (++j->depth > JINJA_MAX_DEPTH)
        jfail(j, "nested too deeply");
}

static bool lists_equal(struct jinja *j, const struct jlist *a, const struct jlist *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!jequal(j, a->item[i], b->item[i]))
            return false;
    return true;
}

static bool dicts_equal(struct jinja *j, const struct jdict *a, const struct jdict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct jval *other = jdict_get(j, b, a->key[i]);
        if (!other || !jequal(j, a->value[i], *other))
            return false;
    }
    return true;
}

static bool same_kind_equal(struct jinja *j, struct jval a, struct jval b)
{
    switch (a.kind) {
    case J_UNDEFINED: case J_NONE: return true;
    case J_STRING:
        if (a.str.len == b.str.len)
            jcharge(j, a.str.len);
        return jstr_equal(a.str, b.str);
    case J_LIST: case J_TUPLE: return lists_equal(j, a.list, b.list);
    case J_DICT: return dicts_equal(j, a.dict, b.dict);
    case J_NAMESPACE: return a.dict == b.dict;
    case J_LOOP: return a.loop == b.loop;
    case J_MACRO: return a.macro == b.macro;
    case J_FUNCTION: return a.function == b.function;
    default: return false;
    }
}

bool jequal(struct jinja *j, struct jval a, struct jval b)
{
    int64_t x, y;
    if (jto_int(a, &x) && jto_int(b, &y))
        return x == y;
    if (jis_number(a) && jis_number(b))
        return jnumber(a) == jnumber(b);
    if (a.kind != b.kind)
        return false;
    enter(j);
    bool equal = same_kind_equal(j, a, b);
    j->depth--;
    return equal;
}

static int compare_lists(struct jinja *j, const struct jlist *a, const struct jlist *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (jequal(j, a->item[i], b->item[i]))
            continue;
        enter(j);
        int order = jcompare(j, a->item[i], b->item[i]);
        j->depth--;
        return order;
    }
    return (a->n > b->n) - (a->n < b->n);
}

int jcompare(struct jinja *j, struct jval a, struct jval b)
{
    int64_t x, y;
    if (jto_int(a, &x) && jto_int(b, &y))
        return (x > y) - (x < y);
    if (jis_number(a) && jis_number(b))
        return (jnumber(a) > jnumber(b)) - (jnumber(a) < jnumber(b));
    if (a.kind == J_STRING && b.kind == J_STRING) {
        size_t n = a.str.len < b.str.len ? a.str.len : b.str.len;
        jcharge(j, n);
        int order = memcmp(a.str.s, b.str.s, n);        /* UTF-8 keeps the order of code points */
        return order ? order : (a.str.len > b.str.len) - (a.str.len < b.str.len);
    }
    if (a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE))
        return compare_lists(j, a.list, b.list);
    jfail(j, "%s and %s have no order", jkind_name(a.kind), jkind_name(b.kind));
}

bool jcontains(struct jinja *j, struct jval container, struct jval v)
{
    if (container.kind == J_STRING) {
        if (v.kind != J_STRING)
            jfail(j, "'in' a string: a string was expected, not %s", jkind_name(v.kind));
        jcharge(j, container.str.len + v.str.len);
        return memmem(container.str.s, container.str.len, v.str.s, v.str.len) != NULL;
    }
    if (container.kind == J_DICT)
        return jdict_get(j, container.dict, v) != NULL;
    const struct jlist *items = jiterate(j, container);
    jcharge(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        if (jequal(j, items->item[i], v))
            return true;
    return false;
}

static size_t count_characters(struct jinja *j, struct jstr s)
{
    size_t n = 0;
    jcharge(j, s.len);
    for (size_t i = 0; i < s.len; i += jchar_len(s.s + i, s.len - i))
        n++;
    return n;
}

size_t jlength(struct jinja *j, struct jval v)
{
    switch (v.kind) {
    case J_UNDEFINED: return 0;
    case J_STRING: return count_characters(j, v.str);
    case J_LIST: case J_TUPLE: return v.list->n;
    case J_DICT: return v.dict->n;
    case J_LOOP: return v.loop->items->n;
    default: jfail(j, "%s has no length", jkind_name(v.kind));
    }
}

const struct jlist *jiterate(struct jinja *j, struct jval v)
{
    struct jval list;
    switch (v.kind) {
    case J_LIST: case J_TUPLE:
        return v.list;
    case J_UNDEFINED:
        return jlist_new(j, J_LIST, 0).list;
    case J_DICT:
        list = jlist_new(j, J_LIST, v.dict->n);
        if (v.dict->n)
            memcpy(list.list->item, v.dict->key, v.dict->n * sizeof v);
        return list.list;
    case J_STRING:
        list = jlist_new(j, J_LIST, count_characters(j, v.str));
        for (size_t i = 0, k = 0; k < list.list->n; k++) {
            size_t n = jchar_len(v.str.s + i, v.str.len - i);
            list.list->item[k] = jstring(v.str.s + i, n);
            i += n;
        }
        return list.list;
    default:
        jfail(j, "%s cannot be iterated", jkind_name(v.kind));
    }
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

size_t jmark(struct jinja *j)
{
    return j->out.len;
}

void jput(struct jinja *j, const char *s, size_t len)
{
    jcharge(j, len);
    if (len > JINJA_MAX_OUTPUT - j->out.len)
        jfail(j, "the template makes more than %zu MiB of text", JINJA_MAX_OUTPUT >> 20);
    text_put(&j->out, s, len);
}

void jputs(struct jinja *j, const char *s)
{
    jput(j, s, strlen(s));
}

struct jval jtake(struct jinja *j, size_t mark)
{
    size_t len = j->out.len - mark;
    char *copy = jalloc(j, len + 1, 1);
    if (len)
        memcpy(copy, j->out.data + mark, len);
    j->out.len = mark;
    return jstring(copy, len);
}

/* Python's repr() of a float: the shortest digits that read back, an exponent below -4 and from 16 on. */
void jput_float(struct jinja *j, double f)
{
    char digits[40], form[48];
    if (!isfinite(f)) {
        jputs(j, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, f);
    while (strtod(digits, NULL) != f && ++precision < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        snprintf(form, sizeof form, "%s", digits);
    else
        snprintf(form, sizeof form, "%.*f", precision - exponent > 1 ? precision - exponent : 1, f);
    jputs(j, form);
}

static void put_quoted(struct jinja *j, struct jstr s)
{
    bool twice = memchr(s.s, '\'', s.len) && !memchr(s.s, '"', s.len);
    char quote = twice ? '"' : '\'', hex[8];
    jput(j, &quote, 1);
    for (size_t i = 0; i < s.len;) {
        size_t n = jchar_len(s.s + i, s.len - i);
        unsigned char c = (unsigned char)s.s[i];
        unsigned code = n == 2 && c == 0xc2 ? (unsigned char)s.s[i + 1] : c;
        if (c == '\n' || c == '\t' || c == '\r') {
            jputs(j, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
        } else if (n <= 2 && (code < 0x20 || code == 0x7f || (c == 0xc2 && (code <= 0xa0 || code == 0xad)))) {
            snprintf(hex, sizeof hex, "\\x%02x", code);
            jputs(j, hex);
        } else {
            if (c == '\\' || c == (unsigned char)quote)
                jput(j, "\\", 1);
            jput(j, s.s + i, n);
        }
        i += n;
    }
    jput(j, &quote, 1);
}

static void put_repr(struct jinja *j, struct jval v);

static void put_items(struct jinja *j, struct jval v)
{
    jputs(j, v.kind == J_LIST ? "[" : "(");
    for (size_t i = 0; i < v.list->n; i++) {
        jputs(j, i ? ", " : "");
        put_repr(j, v.list->item[i]);
    }
    jputs(j, v.kind == J_LIST ? "]" : v.list->n == 1 ? ",)" : ")");
}

static void put_dict(struct jinja *j, const struct jdict *d)
{
    jputs(j, "{");
    for (size_t i = 0; i < d->n; i++) {
        jputs(j, i ? ", " : "");
        put_repr(j, d->key[i]);
        jputs(j, ": ");
        put_repr(j, d->value[i]);
    }
    jputs(j, "}");
}

static void put_repr(struct jinja *j, struct jval v)
{
    enter(j);
    if (v.kind == J_STRING)
        put_quoted(j, v.str);
    else if (v.kind == J_UNDEFINED)
        jputs(j, "Undefined");
    else
        jput_str(j, v);
    j->depth--;
}

void jput_str(struct jinja *j, struct jval v)
{
    char number[32];
    switch (v.kind) {
    case J_UNDEFINED: break;
    case J_NONE: jputs(j, "None"); break;
    case J_BOOL: jputs(j, v.b ? "True" : "False"); break;
    case J_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.i);
        jputs(j, number);
        break;
    case J_FLOAT: jput_float(j, v.f); break;
    case J_STRING: jput(j, v.str.s, v.str.len); break;
    case J_LIST: case J_TUPLE: put_items(j, v); break;
    case J_DICT: put_dict(j, v.dict); break;
    default: jfail(j, "a %s cannot be printed", jkind_name(v.kind));
    }
}

struct jstr jto_str(struct jinja *j, struct jval v)
{
    if (v.kind == J_STRING)
        return v.str;
    size_t mark = jmark(j);
    jput_str(j, v);
    return jtake(j, mark).str;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void put_json_string(struct jinja *j, struct jstr s, bool ascii)
{
    static const char plain[] = "\"\\\n\r\t\f\b", escape[] = "\"\\nrtfb";
    char form[16];
    jputs(j, "\"");
    for (size_t i = 0; i < s.len;) {
        uint32_t c = 0xfffd;
        size_t n = jchar_len(s.s + i, s.len - i);
        utf8_decode(s.s + i, s.len - i, &c);
        const char *special = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
        if (special)
            snprintf(form, sizeof form, "\\%c", escape[special - plain]);
        else if (c >= 0x10000 && ascii)
            snprintf(form, sizeof form, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
                     (unsigned)(0xdc00 + (c & 0x3ff)));
        else if (c < 0x20 || (c > 0x7e && ascii && c != 0x7f))
            snprintf(form, sizeof form, "\\u%04x", (unsigned)c);
        else
            snprintf(form, sizeof form, "%.*s", (int)n, s.s + i);
        jputs(j, form);
        i += n;
    }
    jputs(j, "\"");
}

static void put_json(struct jinja *j, struct jval v, const struct json_style *style, int level);

static void put_json_break(struct jinja *j, const struct json_style *style, int level)
{
    if (!style->indent)
        return;
    jputs(j, "\n");
    for (int i = 0; i < level; i++)
        jputs(j, style->indent);
}

static void put_json_list(struct jinja *j, const struct jlist *list, const struct json_style *style, int level)
{
    jputs(j, "[");
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            jput(j, style->comma.s, style->comma.len);
        put_json_break(j, style, level + 1);
        put_json(j, list->item[i], style, level + 1);
    }
    if (list->n)
        put_json_break(j, style, level);
    jputs(j, "]");
}

/* The order in which members are written: the n-th is index[n]. */
static size_t *member_order(struct jinja *j, const struct jdict *d, bool sorted)
{
    size_t *index = jalloc(j, d->n, sizeof *index);
    for (size_t i = 0; i < d->n; i++) {
        size_t k = i;
        while (sorted && k > 0 && jcompare(j, d->key[index[k - 1]], d->key[i]) > 0) {
            index[k] = index[k - 1];
            k--;
        }
        index[k] = i;
    }
    return index;
}

static void put_json_dict(struct jinja *j, const struct jdict *d, const struct json_style *style, int level)
{
    const size_t *index = member_order(j, d, style->sort_keys);
    jputs(j, "{");
    for (size_t i = 0; i < d->n; i++) {
        struct jval key = d->key[index[i]];
        if (i)
            jput(j, style->comma.s, style->comma.len);
        put_json_break(j, style, level + 1);
        if (key.kind != J_STRING)
            jfail(j, "tojson: a key that is a string was expected, not %s", jkind_name(key.kind));
        put_json_string(j, key.str, style->ascii);
        jput(j, style->colon.s, style->colon.len);
        put_json(j, d->value[index[i]], style, level + 1);
    }
    if (d->n)
        put_json_break(j, style, level);
    jputs(j, "}");
}

static void put_json(struct jinja *j, struct jval v, const struct json_style *style, int level)
{
    enter(j);
    switch (v.kind) {
    case J_NONE: jputs(j, "null"); break;
    case J_BOOL: jputs(j, v.b ? "true" : "false"); break;
    case J_INT: jput_str(j, v); break;
    case J_FLOAT:
        if (isfinite(v.f))
            jput_float(j, v.f);
        else
            jputs(j, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
        break;
    case J_STRING: put_json_string(j, v.str, style->ascii); break;
    case J_LIST: case J_TUPLE: put_json_list(j, v.list, style, level); break;
    case J_DICT: put_json_dict(j, v.dict, style, level); break;
    default: jfail(j, "tojson: a %s has no JSON form", jkind_name(v.kind));
    }
    j->depth--;
}

void jput_json(struct jinja *j, struct jval v, const struct json_style *style)
{
    put_json(j, v, style, 0);
}
