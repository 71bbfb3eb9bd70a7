/* jinja_methods.c - the methods of Python's str and dict that templates call. */
#define _GNU_SOURCE
#include "engine/jinja.h"

#include <locale.h>
#include <string.h>
#include <wctype.h>

/* ---- arguments ------------------------------------------------------------------------------------------------- */

static struct jstr need_string(struct jinja *j, const struct jval *v, const char *what)
{
    if (!v || v->kind != J_STRING)
        jfail(j, "%s: a string was expected, not %s", what, v ? jkind_name(v->kind) : "nothing");
    return v->str;
}

static int64_t int_argument(struct jinja *j, const struct jval *v, int64_t missing, const char *what)
{
    int64_t i;
    if (!v || v->kind == J_NONE)
        return missing;
    if (!jto_int(*v, &i))
        jfail(j, "%s: an integer was expected, not %s", what, jkind_name(v->kind));
    return i;
}

/* ---- searching ------------------------------------------------------------------------------------------------- */

static const char *find_in(struct jinja *j, struct jstr s, struct jstr part)
{
    jcharge(j, s.len + part.len);
    return part.len ? memmem(s.s, s.len, part.s, part.len) : s.s;
}

static bool has_affix(struct jstr s, struct jstr part, bool at_end)
{
    return s.len >= part.len && memcmp(at_end ? s.s + s.len - part.len : s.s, part.s, part.len) == 0;
}

static struct jval affix_test(struct jinja *j, struct jval self, const struct jargs *args, bool at_end)
{
    const struct jval *part = jarg(args, 0, "");
    jcharge(j, self.str.len);
    if (part && part->kind == J_TUPLE) {
        for (size_t i = 0; i < part->list->n; i++)
            if (has_affix(self.str, need_string(j, &part->list->item[i], "startswith or endswith"), at_end))
                return jbool(true);
        return jbool(false);
    }
    return jbool(has_affix(self.str, need_string(j, part, "startswith or endswith"), at_end));
}

static struct jval method_startswith(struct jinja *j, struct jval self, const struct jargs *args)
{
    return affix_test(j, self, args, false);
}

static struct jval method_endswith(struct jinja *j, struct jval self, const struct jargs *args)
{
    return affix_test(j, self, args, true);
}

static int64_t position_of(struct jinja *j, struct jval self, const struct jargs *args, bool last)
{
    struct jstr s = self.str, part = need_string(j, jarg(args, 0, ""), "find");
    if (args->n > 1)
        jfail(j, "find with a start or end is not supported");
    const char *at = find_in(j, s, part);
    while (last && at && part.len) {
        const char *next = find_in(j, (struct jstr){at + 1, s.len - (size_t)(at + 1 - s.s)}, part);
        if (!next)
            break;
        at = next;
    }
    if (last && !part.len)
        at = s.s + s.len;
    return at ? (int64_t)jlength(j, jstring(s.s, (size_t)(at - s.s))) : -1;
}

static struct jval method_find(struct jinja *j, struct jval self, const struct jargs *args)
{
    return jint(position_of(j, self, args, false));
}

static struct jval method_rfind(struct jinja *j, struct jval self, const struct jargs *args)
{
    return jint(position_of(j, self, args, true));
}

static struct jval method_index(struct jinja *j, struct jval self, const struct jargs *args)
{
    int64_t at = position_of(j, self, args, false);
    if (at < 0)
        jfail(j, "index: not found");
    return jint(at);
}

static struct jval method_count(struct jinja *j, struct jval self, const struct jargs *args)
{
    struct jstr s = self.str, part = need_string(j, jarg(args, 0, ""), "count");
    int64_t n = 0;
    if (!part.len)
        return jint((int64_t)jlength(j, self) + 1);
    for (const char *at; (at = find_in(j, s, part)); n++) {
        s.len -= (size_t)(at + part.len - s.s);
        s.s = at + part.len;
    }
    return jint(n);
}

/* ---- cutting --------------------------------------------------------------------------------------------------- */

static bool in_set(struct jstr set, const char *c, size_t n)
{
    for (size_t i = 0; i < set.len; i += jchar_len(set.s + i, set.len - i))
        if (set.len - i >= n && memcmp(set.s + i, c, n) == 0)
            return true;
    return false;
}

static struct jval strip(struct jinja *j, struct jval self, const struct jargs *args, bool left, bool right)
{
    const struct jval *chars = jarg(args, 0, "chars");
    struct jstr s = self.str;
    jcharge(j, s.len);
    if (!chars || chars->kind == J_NONE) {
        s = jstrip(s, left, right);
        return jstring(s.s, s.len);
    }
    struct jstr set = need_string(j, chars, "strip");
    while (left && s.len && in_set(set, s.s, jchar_len(s.s, s.len))) {
        size_t n = jchar_len(s.s, s.len);
        jcharge(j, set.len);
        s.s += n;
        s.len -= n;
    }
    while (right && s.len) {
        size_t n = 1;
        while (n < 4 && n < s.len && ((unsigned char)s.s[s.len - n] & 0xc0) == 0x80)
            n++;
        jcharge(j, set.len);
        if (!in_set(set, s.s + s.len - n, n))
            break;
        s.len -= n;
    }
    return jstring(s.s, s.len);
}

static struct jval method_strip(struct jinja *j, struct jval self, const struct jargs *args)
{
    return strip(j, self, args, true, true);
}

static struct jval method_lstrip(struct jinja *j, struct jval self, const struct jargs *args)
{
    return strip(j, self, args, true, false);
}

static struct jval method_rstrip(struct jinja *j, struct jval self, const struct jargs *args)
{
    return strip(j, self, args, false, true);
}

static struct jval method_removeprefix(struct jinja *j, struct jval self, const struct jargs *args)
{
    struct jstr s = self.str, part = need_string(j, jarg(args, 0, ""), "removeprefix");
    return has_affix(s, part, false) ? jstring(s.s + part.len, s.len - part.len) : self;
}

static struct jval method_removesuffix(struct jinja *j, struct jval self, const struct jargs *args)
{
    struct jstr s = self.str, part = need_string(j, jarg(args, 0, ""), "removesuffix");
    return has_affix(s, part, true) ? jstring(s.s, s.len - part.len) : self;
}

/* A list that grows while a string is cut. */
static void append(struct jinja *j, struct jlist *list, size_t *cap, const char *s, size_t len)
{
    if (list->n == *cap) {
        *cap = *cap ? 2 * *cap : 8;
        struct jval *grown = jalloc(j, *cap, sizeof *grown);
        if (list->n)
            memcpy(grown, list->item, list->n * sizeof *grown);
        list->item = grown;
    }
    list->item[list->n++] = jstring(s, len);
}

/* At runs of white space; no empty parts. */
static void split_at_spaces(struct jinja *j, struct jlist *out, struct jstr s, int64_t limit)
{
    size_t cap = 0;
    jcharge(j, s.len);
    for (s = jstrip(s, true, false); s.len; s = jstrip(s, true, false)) {
        size_t n = 0;
        bool rest = limit >= 0 && (int64_t)out->n == limit;
        if (rest)
            n = s.len;
        while (!rest && n < s.len && !jspace_len(s.s + n, s.len - n))
            n += jchar_len(s.s + n, s.len - n);
        append(j, out, &cap, s.s, n);
        s.s += n;
        s.len -= n;
        if (rest)
            return;
    }
}

static void split_at_part(struct jinja *j, struct jlist *out, struct jstr s, struct jstr part, int64_t limit)
{
    size_t cap = 0;
    const char *at;
    while ((limit < 0 || (int64_t)out->n < limit) && (at = find_in(j, s, part))) {
        append(j, out, &cap, s.s, (size_t)(at - s.s));
        s.len -= (size_t)(at + part.len - s.s);
        s.s = at + part.len;
    }
    append(j, out, &cap, s.s, s.len);
}

static struct jval method_split(struct jinja *j, struct jval self, const struct jargs *args)
{
    const struct jval *sep = jarg(args, 0, "sep");
    int64_t limit = int_argument(j, jarg(args, 1, "maxsplit"), -1, "split");
    struct jval out = jlist_new(j, J_LIST, 0);
    if (!sep || sep->kind == J_NONE) {
        split_at_spaces(j, out.list, self.str, limit);
        return out;
    }
    struct jstr part = need_string(j, sep, "split");
    if (!part.len)
        jfail(j, "split: empty separator");
    split_at_part(j, out.list, self.str, part, limit);
    return out;
}

/* With a limit, the cuts are made from the right. */
static struct jval method_rsplit(struct jinja *j, struct jval self, const struct jargs *args)
{
    const struct jval *sep = jarg(args, 0, "sep");
    int64_t limit = int_argument(j, jarg(args, 1, "maxsplit"), -1, "rsplit");
    struct jval *pos = args->n ? args->pos : NULL;
    struct jval all = method_split(j, self, &(struct jargs){.pos = pos, .n = pos ? 1 : 0});
    size_t n = all.list->n;
    if (limit < 0 || (int64_t)n <= limit + 1)
        return all;
    if (!sep || sep->kind == J_NONE)
        jfail(j, "rsplit with a limit needs a separator");
    struct jval out = jlist_new(j, J_LIST, (size_t)limit + 1);
    size_t first = n - (size_t)limit - 1;
    struct jstr last = all.list->item[first].str;
    out.list->item[0] = jstring(self.str.s, (size_t)(last.s + last.len - self.str.s));
    for (size_t i = 1; i <= (size_t)limit; i++)
        out.list->item[i] = all.list->item[first + i];
    return out;
}

static struct jval method_splitlines(struct jinja *j, struct jval self, const struct jargs *args)
{
    struct jval out = jlist_new(j, J_LIST, 0);
    struct jstr s = self.str;
    size_t cap = 0;
    if (args->n || args->n_named)
        jfail(j, "splitlines with an argument is not supported");
    jcharge(j, s.len);
    while (s.len) {
        size_t n = 0;
        while (n < s.len && s.s[n] != '\n' && s.s[n] != '\r')
            n++;
        append(j, out.list, &cap, s.s, n);
        n += n + 1 < s.len && s.s[n] == '\r' && s.s[n + 1] == '\n' ? 2 : n < s.len ? 1 : 0;
        s.s += n;
        s.len -= n;
    }
    return out;
}

/* ---- changing -------------------------------------------------------------------------------------------------- */

struct jval jmethod_replace(struct jinja *j, struct jval self, const struct jargs *args)
{
    struct jstr s = self.str, from = need_string(j, jarg(args, 0, "old"), "replace");
    struct jstr to = need_string(j, jarg(args, 1, "new"), "replace");
    int64_t limit = int_argument(j, jarg(args, 2, "count"), -1, "replace");
    size_t mark = jmark(j);
    if (!from.len)
        jfail(j, "replace of an empty string is not supported");
    for (const char *at; limit != 0 && (at = find_in(j, s, from)); limit--) {
        jput(j, s.s, (size_t)(at - s.s));
        jput(j, to.s, to.len);
        s.len -= (size_t)(at + from.len - s.s);
        s.s = at + from.len;
    }
    jput(j, s.s, s.len);
    return jtake(j, mark);
}

/* Case of one character. Outside of ASCII the C library's Unicode tables decide, one character to one. */
static uint32_t change_case(struct jinja *j, uint32_t c, bool upper)
{
    if (c < 0x80) {
        if (upper)
            return c >= 'a' && c <= 'z' ? c - 32 : c;
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
    if (!j->unicode)
        j->unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!j->unicode)
        jfail(j, "upper or lower of letters outside of ASCII needs the locale C.UTF-8");
    return (uint32_t)(upper ? towupper_l((wint_t)c, j->unicode) : towlower_l((wint_t)c, j->unicode));
}

/* TITLE begins a word behind whatever is no letter, WORDS behind white space and -({[< only. */
enum casing { UPPER, LOWER, CAPITALIZE, TITLE, WORDS };

static struct jval recase(struct jinja *j, struct jstr s, enum casing casing)
{
    size_t mark = jmark(j);
    bool start = true;
    for (size_t i = 0; i < s.len;) {
        char bytes[4];
        uint32_t c = 0;
        int n = utf8_decode(s.s + i, s.len - i, &c);
        bool upper = casing == UPPER || (casing != LOWER && start);
        uint32_t lower = n ? change_case(j, c, false) : c;
        bool letter = n && (lower != c || change_case(j, c, true) != c);
        if (n)
            jput(j, bytes, (size_t)utf8_encode(upper ? change_case(j, c, true) : lower, bytes));
        else
            jput(j, s.s + i, 1);
        start = (casing == TITLE && !letter) ||
                (casing == WORDS && (jspace_len(s.s + i, s.len - i) || (c < 0x80 && strchr("-({[<", (int)c))));
        i += n ? (size_t)n : 1;
    }
    return jtake(j, mark);
}

struct jval jmethod_upper(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    return recase(j, self.str, UPPER);
}

struct jval jmethod_lower(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    return recase(j, self.str, LOWER);
}

struct jval jmethod_capitalize(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    return recase(j, self.str, CAPITALIZE);
}

static struct jval method_title(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    return recase(j, self.str, TITLE);
}

/* The filter of that name has other rules than the method. */
struct jval jfilter_title(struct jinja *j, struct jstr s)
{
    return recase(j, s, WORDS);
}

static struct jval method_join(struct jinja *j, struct jval self, const struct jargs *args)
{
    const struct jval *over = jarg(args, 0, "");
    const struct jlist *items = jiterate(j, over ? *over : jnone());
    size_t mark = jmark(j);
    for (size_t i = 0; i < items->n; i++) {
        struct jstr s = need_string(j, &items->item[i], "join");
        if (i)
            jput(j, self.str.s, self.str.len);
        jput(j, s.s, s.len);
    }
    return jtake(j, mark);
}

/* ---- what a string is made of ---------------------------------------------------------------------------------- */

static struct jval method_isdigit(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    bool all = self.str.len > 0;
    jcharge(j, self.str.len);
    for (size_t i = 0; i < self.str.len; i++)
        all = all && self.str.s[i] >= '0' && self.str.s[i] <= '9';
    return jbool(all);
}

static struct jval method_isspace(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    jcharge(j, self.str.len);
    return jbool(self.str.len && jstrip(self.str, true, false).len == 0);
}

/* ---- dict ------------------------------------------------------------------------------------------------------ */

static struct jval method_get(struct jinja *j, struct jval self, const struct jargs *args)
{
    const struct jval *missing = jarg(args, 1, "default");
    if (!args->n)
        jfail(j, "get: a key was expected");
    const struct jval *found = jdict_get(j, self.dict, args->pos[0]);
    return found ? *found : missing ? *missing : jnone();
}

struct jval jmethod_items(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    struct jval out = jlist_new(j, J_LIST, self.dict->n);
    for (size_t i = 0; i < self.dict->n; i++)
        out.list->item[i] = jpair(j, self.dict->key[i], self.dict->value[i]);
    return out;
}

static struct jval method_keys(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    struct jval keys = jlist_new(j, J_LIST, 0);
    *keys.list = *jiterate(j, self);
    return keys;
}

static struct jval method_values(struct jinja *j, struct jval self, const struct jargs *args)
{
    (void)args;
    struct jval out = jlist_new(j, J_LIST, self.dict->n);
    for (size_t i = 0; i < self.dict->n; i++)
        out.list->item[i] = self.dict->value[i];
    return out;
}

/* ---- by name --------------------------------------------------------------------------------------------------- */

static const struct { enum jkind kind; const char *name; jfunction *function; } methods[] = {
    {J_STRING, "split", method_split}, {J_STRING, "rsplit", method_rsplit},
    {J_STRING, "splitlines", method_splitlines}, {J_STRING, "strip", method_strip},
    {J_STRING, "lstrip", method_lstrip}, {J_STRING, "rstrip", method_rstrip},
    {J_STRING, "removeprefix", method_removeprefix}, {J_STRING, "removesuffix", method_removesuffix},
    {J_STRING, "startswith", method_startswith}, {J_STRING, "endswith", method_endswith},
    {J_STRING, "find", method_find}, {J_STRING, "rfind", method_rfind}, {J_STRING, "index", method_index},
    {J_STRING, "count", method_count}, {J_STRING, "replace", jmethod_replace}, {J_STRING, "upper", jmethod_upper},
    {J_STRING, "lower", jmethod_lower}, {J_STRING, "capitalize", jmethod_capitalize},
    {J_STRING, "title", method_title}, {J_STRING, "join", method_join}, {J_STRING, "isdigit", method_isdigit},
    {J_STRING, "isspace", method_isspace},
    {J_DICT, "get", method_get}, {J_DICT, "items", jmethod_items}, {J_DICT, "keys", method_keys},
    {J_DICT, "values", method_values},
};

jfunction *jmethod_find(enum jkind kind, struct jstr name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == kind && jstr_is(name, methods[i].name))
            return methods[i].function;
    return NULL;
}
