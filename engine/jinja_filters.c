/* jinja_filters.c - filters ({{ x | trim }}) and tests ({% if x is string %}). */
#define _GNU_SOURCE
#include "engine/jinja.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct jargs no_arguments;

/* The value as a string, for filters that take any value as its str(). */
static struct jval as_string(struct jinja *j, struct jval v)
{
    struct jstr s = jto_str(j, v);
    return jstring(s.s, s.len);
}

static struct jstr string_argument(struct jinja *j, const struct jval *v, const char *missing)
{
    return v ? jto_str(j, *v) : jliteral(missing).str;
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

static struct jval filter_trim(struct jinja *j, struct jval v, const struct jargs *args)
{
    return jmethod_find(J_STRING, jliteral("strip").str)(j, as_string(j, v), args);
}

static struct jval filter_upper(struct jinja *j, struct jval v, const struct jargs *args)
{
    return jmethod_upper(j, as_string(j, v), args);
}

static struct jval filter_lower(struct jinja *j, struct jval v, const struct jargs *args)
{
    return jmethod_lower(j, as_string(j, v), args);
}

static struct jval filter_capitalize(struct jinja *j, struct jval v, const struct jargs *args)
{
    return jmethod_capitalize(j, as_string(j, v), args);
}

static struct jval filter_title(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    return jfilter_title(j, jto_str(j, v));
}

static struct jval filter_replace(struct jinja *j, struct jval v, const struct jargs *args)
{
    return jmethod_replace(j, as_string(j, v), args);
}

static struct jval filter_string(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    return as_string(j, v);
}

static void put_spaces(struct jinja *j, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        jputs(j, " ");
}

/* Every line but the first (unless `first`) is moved right; blank lines stay as they are (unless `blank`). */
static struct jval filter_indent(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *width = jarg(args, 0, "width"), *first = jarg(args, 1, "first"), *blank = jarg(args, 2, "blank");
    struct jstr s = v.str, by = {NULL, 0};
    int64_t n = 4;
    if (v.kind != J_STRING)
        jfail(j, "indent: a string was expected, not %s", jkind_name(v.kind));
    if (width && width->kind == J_STRING)
        by = width->str;
    else if (width && !jto_int(*width, &n))
        jfail(j, "indent: a width was expected, not %s", jkind_name(width->kind));
    size_t mark = jmark(j);
    bool line_start = first && jtruth(*first);
    for (size_t i = 0; i < s.len; i++) {
        if (line_start && (s.s[i] != '\n' || (blank && jtruth(*blank)))) {
            if (by.s)
                jput(j, by.s, by.len);
            else
                put_spaces(j, n);
        }
        line_start = s.s[i] == '\n';
        jput(j, s.s + i, 1);
    }
    return jtake(j, mark);
}

static struct jval filter_safe(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    return v.kind == J_UNDEFINED ? v : as_string(j, v);
}

static struct jval filter_tojson(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *ascii = jarg(args, 0, "ensure_ascii"), *indent = jarg(args, 1, "indent");
    const struct jval *separators = jarg(args, 2, "separators"), *sorted = jarg(args, 3, "sort_keys");
    struct json_style style = {.comma = {", ", 2}, .colon = {": ", 2}};
    char spaces[33] = "";
    int64_t width;
    style.ascii = ascii && jtruth(*ascii);
    style.sort_keys = sorted && jtruth(*sorted);
    if (indent && indent->kind != J_NONE) {
        if (!jto_int(*indent, &width) || width < 0 || width > 32)
            jfail(j, "tojson: an indent from 0 to 32 was expected");
        memset(spaces, ' ', (size_t)width);
        style.indent = spaces;
        style.comma = (struct jstr){",", 1};
    }
    if (separators && separators->kind != J_NONE) {
        const struct jlist *pair = jiterate(j, *separators);
        if (pair->n != 2)
            jfail(j, "tojson: two separators were expected");
        style.comma = jto_str(j, pair->item[0]);
        style.colon = jto_str(j, pair->item[1]);
    }
    size_t mark = jmark(j);
    jput_json(j, v, &style);
    return jtake(j, mark);
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static void need_defined(struct jinja *j, struct jval v)
{
    if (v.kind == J_UNDEFINED)
        jfail(j, "'%.*s' is undefined", v.str.len > 200 ? 200 : (int)v.str.len, v.str.s);
}

/* Reads a whole string as a number with surrounding blanks. */
static bool parse_number(struct jinja *j, struct jstr s, bool integer, struct jval *out)
{
    char digits[64], *end;
    s = jstrip(s, true, true);
    jcharge(j, s.len);
    if (!s.len || s.len >= sizeof digits || !strchr("+-0123456789.", s.s[0]) ||
        strspn(s.s, integer ? "+-0123456789" : "+-0123456789.eE") < s.len)
        return false;
    memcpy(digits, s.s, s.len);
    digits[s.len] = '\0';
    errno = 0;
    *out = integer ? jint(strtoll(digits, &end, 10)) : jfloat(strtod(digits, &end));
    return *end == '\0' && errno == 0;
}

static struct jval filter_int(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *missing = jarg(args, 0, "default");
    struct jval out;
    int64_t i;
    need_defined(j, v);
    if (jto_int(v, &i))
        return jint(i);
    bool read = v.kind == J_STRING && parse_number(j, v.str, true, &out);
    if (read)
        return out;
    if (v.kind == J_STRING && parse_number(j, v.str, false, &out))
        v = out;
    if (v.kind == J_FLOAT && fabs(v.f) < 9e18)
        return jint((int64_t)v.f);
    return missing ? *missing : jint(0);
}

static struct jval filter_float(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *missing = jarg(args, 0, "default");
    struct jval out;
    need_defined(j, v);
    if (jis_number(v))
        return jfloat(jnumber(v));
    if (v.kind == J_STRING && parse_number(j, v.str, false, &out))
        return out;
    return missing ? *missing : jfloat(0);
}

/* ---- sequences ------------------------------------------------------------------------------------------------- */

static struct jval filter_length(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    return jint((int64_t)jlength(j, v));
}

static struct jval filter_default(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *value = jarg(args, 0, "default_value"), *boolean = jarg(args, 1, "boolean");
    (void)j;
    if (v.kind == J_UNDEFINED || (boolean && jtruth(*boolean) && !jtruth(v)))
        return value ? *value : jliteral("");
    return v;
}

/* "a.b" or 0 inside of each item. */
static struct jval item_attribute(struct jinja *j, struct jval item, struct jval attribute)
{
    if (attribute.kind != J_STRING)
        return jget_item(j, item, attribute);
    struct jstr rest = attribute.str;
    for (;;) {
        const char *dot = rest.len ? memchr(rest.s, '.', rest.len) : NULL;
        size_t n = dot ? (size_t)(dot - rest.s) : rest.len;
        struct jval index;
        bool number = n && parse_number(j, (struct jstr){rest.s, n}, true, &index) && index.i >= 0;
        item = jget_item(j, item, number ? index : jstring(rest.s, n));
        if (!dot)
            return item;
        rest = (struct jstr){dot + 1, rest.len - n - 1};
    }
}

static struct jval filter_join(struct jinja *j, struct jval v, const struct jargs *args)
{
    struct jstr between = string_argument(j, jarg(args, 0, "d"), "");
    const struct jval *attribute = jarg(args, 1, "attribute");
    const struct jlist *items = jiterate(j, v);
    struct jstr *part = jalloc(j, items->n, sizeof *part);
    for (size_t i = 0; i < items->n; i++)
        part[i] = jto_str(j, attribute ? item_attribute(j, items->item[i], *attribute) : items->item[i]);
    size_t mark = jmark(j);
    for (size_t i = 0; i < items->n; i++) {
        if (i)
            jput(j, between.s, between.len);
        jput(j, part[i].s, part[i].len);
    }
    return jtake(j, mark);
}

static struct jval filter_list(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    struct jval list = jlist_new(j, J_LIST, 0);
    *list.list = *jiterate(j, v);
    return list;
}

static struct jval filter_first(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    const struct jlist *items = jiterate(j, v);
    return items->n ? items->item[0] : jundefined(jliteral("the first item of an empty sequence").str);
}

static struct jval filter_last(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    const struct jlist *items = jiterate(j, v);
    return items->n ? items->item[items->n - 1] : jundefined(jliteral("the last item of an empty sequence").str);
}

static struct jval filter_reverse(struct jinja *j, struct jval v, const struct jargs *args)
{
    (void)args;
    const struct jlist *items = jiterate(j, v);
    struct jval out = jlist_new(j, J_LIST, items->n);
    for (size_t i = 0; i < items->n; i++)
        out.list->item[i] = items->item[items->n - 1 - i];
    return v.kind == J_STRING ? filter_join(j, out, &no_arguments) : out;
}

static struct jval filter_items(struct jinja *j, struct jval v, const struct jargs *args)
{
    if (v.kind == J_UNDEFINED)
        return jlist_new(j, J_LIST, 0);
    if (v.kind != J_DICT)
        jfail(j, "items: a mapping was expected, not %s", jkind_name(v.kind));
    return jmethod_items(j, v, args);
}

/* Pairs sorted by key (or value), letters of both cases alike unless told otherwise. */
static struct jval filter_dictsort(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *sensitive = jarg(args, 0, "case_sensitive"), *by = jarg(args, 1, "by");
    const struct jval *reverse = jarg(args, 2, "reverse");
    struct jstr field = string_argument(j, by, "key");
    int sign = reverse && jtruth(*reverse) ? -1 : 1;
    need_defined(j, v);
    struct jval pairs = filter_items(j, v, &no_arguments);
    size_t n = pairs.list->n, column = jstr_is(field, "value");
    if (!column && !jstr_is(field, "key"))
        jfail(j, "dictsort: by 'key' or 'value' was expected");
    struct jval *order = jalloc(j, n, sizeof *order);
    for (size_t i = 0; i < n; i++) {
        struct jval pair = pairs.list->item[i], key = pair.list->item[column];
        if (key.kind == J_STRING && !(sensitive && jtruth(*sensitive)))
            key = jmethod_lower(j, key, &no_arguments);
        size_t k = i;
        for (; k > 0 && sign * jcompare(j, order[k - 1], key) > 0; k--) {
            jcharge(j, 1);
            order[k] = order[k - 1];
            pairs.list->item[k] = pairs.list->item[k - 1];
        }
        order[k] = key;
        pairs.list->item[k] = pair;
    }
    return pairs;
}

/* What map and select go over: as in Jinja, a false value of any type is an empty sequence. */
static const struct jlist *iterate_or_nothing(struct jinja *j, struct jval v)
{
    return jtruth(v) ? jiterate(j, v) : jlist_new(j, J_LIST, 0).list;
}

/* Arguments behind the first `skip`. */
static struct jargs arguments_behind(const struct jargs *args, size_t skip)
{
    struct jargs rest = *args;
    size_t n = skip < args->n ? skip : args->n;
    if (n)
        rest.pos += n;
    rest.n -= n;
    return rest;
}

/* map("upper"), map(attribute="name", default=...) */
static struct jval filter_map(struct jinja *j, struct jval v, const struct jargs *args)
{
    const struct jval *attribute = args->n ? NULL : jarg(args, 0, "attribute");
    const struct jval *missing = args->n ? NULL : jarg(args, 1, "default");
    if (!attribute && !args->n)
        jfail(j, "map: a filter or attribute= was expected");
    const struct jlist *items = iterate_or_nothing(j, v);
    struct jargs rest = arguments_behind(args, 1);
    struct jval out = jlist_new(j, J_LIST, items->n);
    for (size_t i = 0; i < items->n; i++) {
        struct jval item = items->item[i];
        if (attribute)
            item = item_attribute(j, item, *attribute);
        else
            item = jfilter(j, jto_str(j, args->pos[0]), item, &rest);
        out.list->item[i] = attribute && missing && item.kind == J_UNDEFINED ? *missing : item;
    }
    return out;
}

/* select(test, ...), selectattr(attribute, test, ...) and their opposites: the items whose test gives `keep`. */
static struct jval keep_items(struct jinja *j, struct jval v, const struct jargs *args, bool by_attribute, bool keep)
{
    size_t at = by_attribute;
    if (by_attribute && !args->n)
        jfail(j, "selectattr or rejectattr: an attribute was expected");
    const struct jlist *items = iterate_or_nothing(j, v);
    struct jargs rest = arguments_behind(args, at + 1);
    struct jval out = jlist_new(j, J_LIST, items->n);
    out.list->n = 0;
    for (size_t i = 0; i < items->n; i++) {
        struct jval item = items->item[i];
        struct jval tested = by_attribute ? item_attribute(j, item, args->pos[0]) : item;
        bool hit = args->n > at ? jtest(j, jto_str(j, args->pos[at]), tested, &rest) : jtruth(tested);
        if (hit == keep)
            out.list->item[out.list->n++] = item;
    }
    return out;
}

static struct jval filter_select(struct jinja *j, struct jval v, const struct jargs *args)
{
    return keep_items(j, v, args, false, true);
}

static struct jval filter_reject(struct jinja *j, struct jval v, const struct jargs *args)
{
    return keep_items(j, v, args, false, false);
}

static struct jval filter_selectattr(struct jinja *j, struct jval v, const struct jargs *args)
{
    return keep_items(j, v, args, true, true);
}

static struct jval filter_rejectattr(struct jinja *j, struct jval v, const struct jargs *args)
{
    return keep_items(j, v, args, true, false);
}

static const struct { const char *name; jfunction *function; } filters[] = {
    {"trim", filter_trim}, {"length", filter_length}, {"count", filter_length}, {"default", filter_default},
    {"d", filter_default}, {"join", filter_join}, {"upper", filter_upper}, {"lower", filter_lower},
    {"capitalize", filter_capitalize}, {"title", filter_title}, {"replace", filter_replace},
    {"string", filter_string}, {"indent", filter_indent}, {"safe", filter_safe}, {"tojson", filter_tojson},
    {"int", filter_int}, {"float", filter_float}, {"list", filter_list}, {"first", filter_first},
    {"last", filter_last}, {"reverse", filter_reverse}, {"items", filter_items}, {"dictsort", filter_dictsort},
    {"map", filter_map}, {"select", filter_select}, {"reject", filter_reject}, {"selectattr", filter_selectattr},
    {"rejectattr", filter_rejectattr},
};

/* Filters and tests call one another through map and select. */
static void enter(struct jinja *j)
{
    jcharge(j, 16);
    if (++j->depth > JINJA_MAX_DEPTH)
        jfail(j, "nested too deeply");
}

struct jval jfilter(struct jinja *j, struct jstr name, struct jval v, const struct jargs *args)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        if (!jstr_is(name, filters[i].name))
            continue;
        enter(j);
        struct jval result = filters[i].function(j, v, args);
        j->depth--;
        return result;
    }
    jfail(j, "filter '%.*s' is not supported", name.len > 40 ? 40 : (int)name.len, name.s);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

enum test { IS_DEFINED, IS_UNDEFINED, IS_NONE, IS_TRUE, IS_FALSE, IS_BOOLEAN, IS_INTEGER, IS_FLOAT, IS_NUMBER,
            IS_STRING, IS_MAPPING, IS_SEQUENCE, IS_ITERABLE, IS_CALLABLE, IS_ODD, IS_EVEN, IS_DIVISIBLE, IS_IN,
            IS_EQ, IS_NE, IS_LT, IS_LE, IS_GT, IS_GE };

static const struct { const char *name; enum test test; } tests[] = {
    {"defined", IS_DEFINED}, {"undefined", IS_UNDEFINED}, {"none", IS_NONE}, {"true", IS_TRUE}, {"false", IS_FALSE},
    {"boolean", IS_BOOLEAN}, {"integer", IS_INTEGER}, {"float", IS_FLOAT}, {"number", IS_NUMBER},
    {"string", IS_STRING}, {"mapping", IS_MAPPING}, {"sequence", IS_SEQUENCE}, {"iterable", IS_ITERABLE},
    {"callable", IS_CALLABLE}, {"odd", IS_ODD}, {"even", IS_EVEN}, {"divisibleby", IS_DIVISIBLE}, {"in", IS_IN},
    {"eq", IS_EQ}, {"equalto", IS_EQ}, {"==", IS_EQ}, {"ne", IS_NE}, {"!=", IS_NE}, {"lt", IS_LT},
    {"lessthan", IS_LT}, {"<", IS_LT}, {"le", IS_LE}, {"<=", IS_LE}, {"gt", IS_GT}, {"greaterthan", IS_GT},
    {">", IS_GT}, {"ge", IS_GE}, {">=", IS_GE},
};

static bool divides(struct jinja *j, struct jval v, struct jval by, int64_t rest)
{
    int64_t x, y;
    if (!jto_int(v, &x) || !jto_int(by, &y) || y == 0)
        jfail(j, "a test for divisibility: integers were expected");
    return y == -1 || (x % y + (x % y < 0 ? llabs(y) : 0)) == rest;
}

static bool test_operand(struct jinja *j, enum test test, struct jval v, const struct jargs *args)
{
    if (!args->n)
        jfail(j, "the test needs an argument");
    struct jval other = args->pos[0];
    switch (test) {
    case IS_DIVISIBLE: return divides(j, v, other, 0);
    case IS_IN: return jcontains(j, other, v);
    case IS_EQ: return jequal(j, v, other);
    case IS_NE: return !jequal(j, v, other);
    case IS_LT: return jcompare(j, v, other) < 0;
    case IS_LE: return jcompare(j, v, other) <= 0;
    case IS_GT: return jcompare(j, v, other) > 0;
    default: return jcompare(j, v, other) >= 0;
    }
}

static bool run_test(struct jinja *j, enum test test, struct jval v, const struct jargs *args)
{
    switch (test) {
    case IS_DEFINED: return v.kind != J_UNDEFINED;
    case IS_UNDEFINED: return v.kind == J_UNDEFINED;
    case IS_NONE: return v.kind == J_NONE;
    case IS_TRUE: return v.kind == J_BOOL && v.b;
    case IS_FALSE: return v.kind == J_BOOL && !v.b;
    case IS_BOOLEAN: return v.kind == J_BOOL;
    case IS_INTEGER: return v.kind == J_INT;
    case IS_FLOAT: return v.kind == J_FLOAT;
    case IS_NUMBER: return jis_number(v);
    case IS_STRING: return v.kind == J_STRING;
    case IS_MAPPING: return v.kind == J_DICT;
    case IS_SEQUENCE:           /* Python: it has a length and items; an undefined value has (no) items */
    case IS_ITERABLE:
        return v.kind == J_STRING || v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_DICT ||
               v.kind == J_UNDEFINED;
    case IS_CALLABLE: return v.kind == J_MACRO || v.kind == J_FUNCTION || v.kind == J_METHOD;
    case IS_ODD: return divides(j, v, jint(2), 1);
    case IS_EVEN: return divides(j, v, jint(2), 0);
    default: return test_operand(j, test, v, args);
    }
}

bool jtest(struct jinja *j, struct jstr name, struct jval v, const struct jargs *args)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (jstr_is(name, tests[i].name)) {
            jcharge(j, 16);
            return run_test(j, tests[i].test, v, args);
        }
    jfail(j, "test '%.*s' is not supported", name.len > 40 ? 40 : (int)name.len, name.s);
}
