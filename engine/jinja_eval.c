/* jinja_eval.c - walks a template's tree: variables, expressions, statements, macros. */
#define _GNU_SOURCE
#include "engine/jinja.h"

#include <math.h>
#include <string.h>

enum { NODE_COST = 16 };

static struct jval eval(struct jinja *j, struct jscope *s, const struct jnode *n);

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };
static enum flow execute(struct jinja *j, struct jscope *s, const struct jnode *n);

/* ---- variables ------------------------------------------------------------------------------------------------- */

static struct jscope *new_scope(struct jinja *j, struct jscope *parent)
{
    struct jscope *s = jalloc(j, 1, sizeof *s);
    s->parent = parent;
    return s;
}

void jscope_set(struct jinja *j, struct jscope *s, struct jstr name, struct jval value)
{
    jcharge(j, s->n);
    for (size_t i = 0; i < s->n; i++)
        if (jstr_equal(s->var[i].name, name)) {
            s->var[i].value = value;
            return;
        }
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 8;
        struct jvariable *grown = jalloc(j, s->cap, sizeof *grown);
        if (s->n)
            memcpy(grown, s->var, s->n * sizeof *grown);
        s->var = grown;
    }
    s->var[s->n++] = (struct jvariable){name, value};
}

static struct jval lookup(struct jinja *j, const struct jscope *s, struct jstr name)
{
    for (; s; s = s->parent) {
        jcharge(j, s->n + 1);
        for (size_t i = 0; i < s->n; i++)
            if (jstr_equal(s->var[i].name, name))
                return s->var[i].value;
    }
    return jundefined(name);
}

static void assign(struct jinja *j, struct jscope *s, const struct jnode *target, struct jval value)
{
    if (target->kind == N_NAME) {
        jscope_set(j, s, target->name, value);
    } else if (target->kind == N_ATTR) {
        struct jval object = lookup(j, s, target->a->name);
        if (object.kind != J_NAMESPACE)
            jfail(j, "cannot set '%.*s': %.*s is not a namespace", (int)target->name.len, target->name.s,
                  (int)target->a->name.len, target->a->name.s);
        jdict_set(j, object.dict, jstring(target->name.s, target->name.len), value);
    } else {
        const struct jlist *items = jiterate(j, value);
        if (items->n != target->n)
            jfail(j, "%zu values cannot be unpacked into %zu variables", items->n, target->n);
        for (size_t i = 0; i < target->n; i++)
            assign(j, s, target->kid[i], items->item[i]);
    }
}

/* ---- parts of values ------------------------------------------------------------------------------------------- */

static void need_defined(struct jinja *j, struct jval v)
{
    if (v.kind == J_UNDEFINED)
        jfail(j, "'%.*s' is undefined", v.str.len > 200 ? 200 : (int)v.str.len, v.str.s);
}

/* The state of a loop at one moment; nothing else of a loop can be asked. */
static struct jval loop_attr(const struct jloop *loop, struct jstr name)
{
    int64_t i = (int64_t)loop->i, n = (int64_t)loop->items->n;
    if (jstr_is(name, "index0"))
        return jint(i);
    if (jstr_is(name, "index"))
        return jint(i + 1);
    if (jstr_is(name, "revindex0"))
        return jint(n - 1 - i);
    if (jstr_is(name, "revindex"))
        return jint(n - i);
    if (jstr_is(name, "first"))
        return jbool(i == 0);
    if (jstr_is(name, "last"))
        return jbool(i == n - 1);
    if (jstr_is(name, "length"))
        return jint(n);
    if (jstr_is(name, "previtem") && i > 0)
        return loop->items->item[i - 1];
    if (jstr_is(name, "nextitem") && i < n - 1)
        return loop->items->item[i + 1];
    return jundefined(name);
}

static bool find_method(struct jinja *j, struct jval object, struct jstr name, struct jval *out)
{
    jfunction *function = jmethod_find(object.kind, name);
    if (!function)
        return false;
    struct jmethod *method = jalloc(j, 1, sizeof *method);
    *method = (struct jmethod){object, function};
    *out = (struct jval){.kind = J_METHOD, .method = method};
    return true;
}

/* object.name: the method of that name, else the item. */
struct jval jget_attr(struct jinja *j, struct jval object, struct jstr name)
{
    struct jval method;
    const struct jval *item = NULL;
    need_defined(j, object);
    if (object.kind == J_LOOP)
        return loop_attr(object.loop, name);
    if (find_method(j, object, name, &method))
        return method;
    if (object.kind == J_DICT || object.kind == J_NAMESPACE)
        item = jdict_get(j, object.dict, jstring(name.s, name.len));
    return item ? *item : jundefined(name);
}

/* Character i of a string. */
static struct jval character(struct jinja *j, struct jstr s, int64_t i)
{
    size_t at = 0;
    jcharge(j, s.len);
    for (; at < s.len && i > 0; i--)
        at += jchar_len(s.s + at, s.len - at);
    return jstring(s.s + at, jchar_len(s.s + at, s.len - at));
}

/* object[key]: the item, else the attribute of that name. */
struct jval jget_item(struct jinja *j, struct jval object, struct jval key)
{
    int64_t i;
    need_defined(j, object);
    if (object.kind == J_DICT) {
        const struct jval *item = jdict_get(j, object.dict, key);
        if (item)
            return *item;
    } else if ((object.kind == J_LIST || object.kind == J_TUPLE || object.kind == J_STRING) && jto_int(key, &i)) {
        int64_t n = (int64_t)jlength(j, object);
        i += i < 0 ? n : 0;
        if (i < 0 || i >= n)
            return jundefined(jliteral("item").str);
        return object.kind == J_STRING ? character(j, object.str, i) : object.list->item[i];
    }
    return key.kind == J_STRING ? jget_attr(j, object, key.str) : jundefined(jliteral("item").str);
}

static int64_t slice_bound(struct jinja *j, struct jscope *s, const struct jnode *n, int64_t missing, int64_t len,
                           bool backwards)
{
    int64_t i;
    struct jval v = n ? eval(j, s, n) : jnone();
    if (v.kind == J_NONE)
        return missing;
    if (!jto_int(v, &i))
        jfail(j, "a slice: an integer was expected, not %s", jkind_name(v.kind));
    int64_t low = backwards ? -1 : 0, high = backwards ? len - 1 : len;
    if (i < 0)
        i = i < -len ? low : i + len;
    return i < low ? low : i > high ? high : i;
}

static struct jval eval_slice(struct jinja *j, struct jscope *s, struct jval object, const struct jnode *n)
{
    need_defined(j, object);
    if (object.kind != J_STRING && object.kind != J_LIST && object.kind != J_TUPLE)
        jfail(j, "%s cannot be sliced", jkind_name(object.kind));
    const struct jlist *items = jiterate(j, object);
    int64_t len = (int64_t)items->n, step = 1, count;
    struct jval given = n->c ? eval(j, s, n->c) : jnone();
    if (given.kind != J_NONE && (!jto_int(given, &step) || step == 0))
        jfail(j, "a slice: a step that is an integer other than 0 was expected");
    bool back = step < 0;
    int64_t from = slice_bound(j, s, n->a, back ? len - 1 : 0, len, back);
    int64_t to = slice_bound(j, s, n->b, back ? -1 : len, len, back);
    if (step > len + 1 || step < -len - 1)
        step = back ? -len - 1 : len + 1;
    count = back ? (from - to - step - 1) / -step : (to - from + step - 1) / step;
    struct jval out = jlist_new(j, object.kind == J_TUPLE ? J_TUPLE : J_LIST, count > 0 ? (size_t)count : 0);
    for (size_t k = 0; k < out.list->n; k++)
        out.list->item[k] = items->item[from + (int64_t)k * step];
    if (object.kind != J_STRING)
        return out;
    size_t mark = jmark(j);
    for (size_t k = 0; k < out.list->n; k++)
        jput(j, out.list->item[k].str.s, out.list->item[k].str.len);
    return jtake(j, mark);
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */

static const char *const operator_name[] = {"+", "-", "*", "/", "//", "%", "**"};

static _Noreturn void overflow(struct jinja *j)
{
    jfail(j, "integer out of range");
}

static int64_t int_multiply(struct jinja *j, int64_t x, int64_t y)
{
    if (x > 0 ? (y > 0 ? x > INT64_MAX / y : y < INT64_MIN / x)
              : (y > 0 ? x < INT64_MIN / y : x != 0 && y < INT64_MAX / x))
        overflow(j);
    return x * y;
}

static int64_t int_power(struct jinja *j, int64_t x, int64_t y)
{
    int64_t result = 1;
    if (x == 0 || x == 1)
        return y == 0 ? 1 : x;
    for (; y > 0; y--)
        result = x == -1 ? (y % 2 ? -result : result) : int_multiply(j, result, x), jcharge(j, 1);
    return result;
}

static struct jval int_arithmetic(struct jinja *j, enum joperator op, int64_t x, int64_t y)
{
    if ((op == OP_FLOOR || op == OP_MOD) && x == INT64_MIN && y == -1)
        overflow(j);
    switch (op) {
    case OP_ADD:
        if (y > 0 ? x > INT64_MAX - y : x < INT64_MIN - y)
            overflow(j);
        return jint(x + y);
    case OP_SUB:
        if (y < 0 ? x > INT64_MAX + y : x < INT64_MIN + y)
            overflow(j);
        return jint(x - y);
    case OP_MUL: return jint(int_multiply(j, x, y));
    case OP_FLOOR: return jint(x / y - (x % y != 0 && (x < 0) != (y < 0)));
    case OP_MOD: return jint(x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0));
    default: return jint(int_power(j, x, y));
    }
}

static struct jval float_arithmetic(enum joperator op, double x, double y)
{
    double rest;
    switch (op) {
    case OP_ADD: return jfloat(x + y);
    case OP_SUB: return jfloat(x - y);
    case OP_MUL: return jfloat(x * y);
    case OP_DIV: return jfloat(x / y);
    case OP_FLOOR: return jfloat(floor(x / y));
    case OP_MOD:
        rest = fmod(x, y);
        return jfloat(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
    default: return jfloat(pow(x, y));
    }
}

static struct jval arithmetic(struct jinja *j, enum joperator op, struct jval a, struct jval b)
{
    int64_t x, y;
    bool integers = jto_int(a, &x) && jto_int(b, &y);
    if ((op == OP_DIV || op == OP_FLOOR || op == OP_MOD) && jnumber(b) == 0)
        jfail(j, "division by zero");
    if (!integers || op == OP_DIV || (op == OP_POW && y < 0))
        return float_arithmetic(op, jnumber(a), jnumber(b));
    return int_arithmetic(j, op, x, y);
}

static struct jval join_lists(struct jinja *j, struct jval a, struct jval b)
{
    struct jval out = jlist_new(j, a.kind, a.list->n + b.list->n);
    if (a.list->n)
        memcpy(out.list->item, a.list->item, a.list->n * sizeof a);
    if (b.list->n)
        memcpy(out.list->item + a.list->n, b.list->item, b.list->n * sizeof b);
    return out;
}

/* "ab" * 3, [0] * 3 */
static struct jval repeat(struct jinja *j, struct jval v, int64_t times)
{
    if (v.kind == J_STRING) {
        size_t mark = jmark(j);
        for (int64_t i = 0; v.str.len && i < times; i++)
            jput(j, v.str.s, v.str.len);
        return jtake(j, mark);
    }
    struct jval out = jlist_new(j, v.kind, 0);
    for (int64_t i = 0; v.list->n && i < times; i++) {
        jcharge(j, v.list->n);
        if ((uint64_t)times > JINJA_BUDGET / v.list->n)
            jfail(j, "the template does too much work");
        if (i == 0)
            out = jlist_new(j, v.kind, v.list->n * (size_t)times);
        memcpy(out.list->item + (size_t)i * v.list->n, v.list->item, v.list->n * sizeof v);
    }
    return out;
}

static bool is_sequence(struct jval v)
{
    return v.kind == J_STRING || v.kind == J_LIST || v.kind == J_TUPLE;
}

static struct jval binary(struct jinja *j, enum joperator op, struct jval a, struct jval b)
{
    int64_t times;
    need_defined(j, a);
    need_defined(j, b);
    if (jis_number(a) && jis_number(b))
        return arithmetic(j, op, a, b);
    if (op == OP_ADD && a.kind == b.kind && a.kind == J_STRING) {
        size_t mark = jmark(j);
        jput(j, a.str.s, a.str.len);
        jput(j, b.str.s, b.str.len);
        return jtake(j, mark);
    }
    if (op == OP_ADD && a.kind == b.kind && is_sequence(a))
        return join_lists(j, a, b);
    if (op == OP_MUL && is_sequence(a) && jto_int(b, &times))
        return repeat(j, a, times);
    if (op == OP_MUL && is_sequence(b) && jto_int(a, &times))
        return repeat(j, b, times);
    jfail(j, "'%s' cannot be applied to %s and %s", operator_name[op], jkind_name(a.kind), jkind_name(b.kind));
}

static bool compare(struct jinja *j, enum joperator op, struct jval a, struct jval b)
{
    switch (op) {
    case OP_EQ: return jequal(j, a, b);
    case OP_NE: return !jequal(j, a, b);
    case OP_IN: return jcontains(j, b, a);
    case OP_NOT_IN: return !jcontains(j, b, a);
    default: break;
    }
    need_defined(j, a);
    need_defined(j, b);
    if (jis_number(a) && jis_number(b) && (isnan(jnumber(a)) || isnan(jnumber(b))))
        return false;
    int order = jcompare(j, a, b);
    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}

static struct jval eval_comparison(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval left = eval(j, s, n->a);
    for (size_t i = 0; i < n->n; i++) {
        struct jval right = eval(j, s, n->kid[i]->a);
        j->line = n->kid[i]->line;
        if (!compare(j, n->kid[i]->op, left, right))
            return jbool(false);
        left = right;
    }
    return jbool(true);
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

static struct jargs eval_arguments(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jargs args = {.n = n->n, .n_named = n->n_kw, .name = n->kw_name};
    if (n->n)
        args.pos = jalloc(j, n->n, sizeof *args.pos);
    for (size_t i = 0; i < n->n; i++)
        args.pos[i] = eval(j, s, n->kid[i]);
    if (n->n_kw)
        args.named = jalloc(j, n->n_kw, sizeof *args.named);
    for (size_t i = 0; i < n->n_kw; i++)
        args.named[i] = eval(j, s, n->kw[i]);
    j->line = n->line;
    return args;
}

const struct jval *jarg(const struct jargs *args, size_t i, const char *name)
{
    if (i < args->n)
        return &args->pos[i];
    for (size_t k = 0; k < args->n_named; k++)
        if (jstr_is(args->name[k], name))
            return &args->named[k];
    return NULL;
}

static void check_macro_arguments(struct jinja *j, const struct jnode *macro, const struct jargs *args)
{
    if (args->n > macro->n_kw)
        jfail(j, "macro %.*s takes at most %zu arguments", (int)macro->name.len, macro->name.s, macro->n_kw);
    for (size_t k = 0; k < args->n_named; k++) {
        size_t i = 0;
        while (i < macro->n_kw && !jstr_equal(macro->kw_name[i], args->name[k]))
            i++;
        if (i == macro->n_kw || i < args->n)
            jfail(j, "macro %.*s: unexpected argument '%.*s'", (int)macro->name.len, macro->name.s,
                  (int)args->name[k].len, args->name[k].s);
    }
}

static struct jval call_macro(struct jinja *j, const struct jmacro *macro, const struct jargs *args)
{
    const struct jnode *n = macro->node;
    check_macro_arguments(j, n, args);
    struct jscope *scope = new_scope(j, macro->scope);
    for (size_t i = 0; i < n->n_kw; i++) {
        struct jval value = jundefined(n->kw_name[i]);
        if (i < args->n)
            value = args->pos[i];
        else if (n->kw[i])
            value = eval(j, scope, n->kw[i]);
        for (size_t k = 0; k < args->n_named; k++)
            if (jstr_equal(args->name[k], n->kw_name[i]))
                value = args->named[k];
        jscope_set(j, scope, n->kw_name[i], value);
    }
    size_t mark = jmark(j);
    execute(j, scope, n->d);
    return jtake(j, mark);
}

static struct jval eval_call(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval callee = eval(j, s, n->a);
    struct jargs args = eval_arguments(j, s, n);
    switch (callee.kind) {
    case J_MACRO: return call_macro(j, callee.macro, &args);
    case J_FUNCTION: return callee.function(j, &args);
    case J_METHOD: return callee.method->function(j, callee.method->self, &args);
    default: break;
    }
    need_defined(j, callee);
    jfail(j, "a %s cannot be called", jkind_name(callee.kind));
}

/* ---- expressions ----------------------------------------------------------------------------------------------- */

static struct jval eval_items(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval v = jlist_new(j, n->kind == N_LIST ? J_LIST : J_TUPLE, n->n);
    for (size_t i = 0; i < n->n; i++)
        v.list->item[i] = eval(j, s, n->kid[i]);
    return v;
}

static struct jval eval_dict(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval v = jdict_new(j, J_DICT);
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        struct jval key = eval(j, s, n->kid[i]);
        if (key.kind == J_LIST || key.kind == J_DICT)
            jfail(j, "a %s cannot be a key", jkind_name(key.kind));
        jdict_set(j, v.dict, key, eval(j, s, n->kid[i + 1]));
    }
    return v;
}

static struct jval eval_concat(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval *part = jalloc(j, n->n, sizeof *part);
    for (size_t i = 0; i < n->n; i++)
        part[i] = eval(j, s, n->kid[i]);
    size_t mark = jmark(j);
    for (size_t i = 0; i < n->n; i++)
        jput_str(j, part[i]);
    return jtake(j, mark);
}

static struct jval eval_sign(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval v = eval(j, s, n->a);
    need_defined(j, v);
    if (!jis_number(v))
        jfail(j, "a number was expected, not %s", jkind_name(v.kind));
    return arithmetic(j, OP_MUL, v, jint(n->kind == N_NEG ? -1 : 1));
}

static struct jval eval_filter(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval v = eval(j, s, n->a);
    struct jargs args = eval_arguments(j, s, n);
    return n->kind == N_FILTER ? jfilter(j, n->name, v, &args) : jbool(jtest(j, n->name, v, &args));
}

static struct jval eval_part(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval object = eval(j, s, n->a);
    j->line = n->line;
    if (n->kind == N_ATTR)
        return jget_attr(j, object, n->name);
    if (n->b->kind == N_SLICE)
        return eval_slice(j, s, object, n->b);
    return jget_item(j, object, eval(j, s, n->b));
}

static struct jval eval_binary(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval a = eval(j, s, n->a);
    struct jval b = eval(j, s, n->b);
    j->line = n->line;
    return binary(j, n->op, a, b);
}

static struct jval eval_node(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval v;
    switch (n->kind) {
    case N_CONST: return n->value;
    case N_NAME: return lookup(j, s, n->name);
    case N_LIST: case N_TUPLE: return eval_items(j, s, n);
    case N_DICT: return eval_dict(j, s, n);
    case N_ATTR: case N_ITEM: return eval_part(j, s, n);
    case N_CALL: return eval_call(j, s, n);
    case N_FILTER: case N_TEST: return eval_filter(j, s, n);
    case N_NOT: return jbool(!jtruth(eval(j, s, n->a)));
    case N_NEG: case N_POS: return eval_sign(j, s, n);
    case N_AND:
        v = eval(j, s, n->a);
        return jtruth(v) ? eval(j, s, n->b) : v;
    case N_OR:
        v = eval(j, s, n->a);
        return jtruth(v) ? v : eval(j, s, n->b);
    case N_BINARY: return eval_binary(j, s, n);
    case N_CONCAT: return eval_concat(j, s, n);
    case N_COMPARE: return eval_comparison(j, s, n);
    case N_COND:
        if (jtruth(eval(j, s, n->a)))
            return eval(j, s, n->b);
        return n->c ? eval(j, s, n->c) : jundefined(jliteral("the value of an if without else").str);
    default: jfail(j, "not an expression");
    }
}

static void enter(struct jinja *j, const struct jnode *n)
{
    j->line = n->line;
    jcharge(j, NODE_COST);
    if (++j->depth > JINJA_MAX_DEPTH)
        jfail(j, "nested too deeply");
}

static struct jval eval(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    enter(j, n);
    struct jval v = eval_node(j, s, n);
    j->depth--;
    j->line = n->line;
    return v;
}

/* ---- statements ------------------------------------------------------------------------------------------------ */

static const struct jlist *filtered(struct jinja *j, struct jscope *s, const struct jnode *n, const struct jlist *items)
{
    struct jscope *inner = new_scope(j, s);
    struct jlist *kept = jlist_new(j, J_LIST, items->n).list;
    kept->n = 0;
    for (size_t i = 0; i < items->n; i++) {
        assign(j, inner, n->a, items->item[i]);
        if (jtruth(eval(j, inner, n->c)))
            kept->item[kept->n++] = items->item[i];
    }
    return kept;
}

static enum flow execute_for(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jval over = eval(j, s, n->b);
    const struct jlist *items = jiterate(j, over);
    if (n->c)
        items = filtered(j, s, n, items);
    struct jloop *loop = jalloc(j, 1, sizeof *loop);
    struct jscope *inner = new_scope(j, s);
    loop->items = items;
    for (size_t i = 0; i < items->n; i++) {
        loop->i = i;
        inner->n = 0;
        jscope_set(j, inner, jliteral("loop").str, (struct jval){.kind = J_LOOP, .loop = loop});
        assign(j, inner, n->a, items->item[i]);
        if (execute(j, inner, n->d) == FLOW_BREAK)
            break;
    }
    if (items->n == 0 && n->n)
        return execute(j, new_scope(j, s), n->kid[0]);
    return FLOW_ON;
}

static enum flow execute_if(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    size_t i = 0;
    for (; i + 1 < n->n; i += 2)
        if (jtruth(eval(j, s, n->kid[i])))
            return execute(j, s, n->kid[i + 1]);
    return i < n->n ? execute(j, s, n->kid[i]) : FLOW_ON;
}

/* {% set x | filter %}text{% endset %}: the text takes the place of the innermost operand of the filters. */
static struct jval filter_block(struct jinja *j, struct jscope *s, const struct jnode *n, const struct jnode *innermost,
                                struct jval text)
{
    if (n == innermost)
        return text;
    enter(j, n);
    struct jval v = filter_block(j, s, n->a, innermost, text);
    struct jargs args = eval_arguments(j, s, n);
    j->depth--;
    return jfilter(j, n->name, v, &args);
}

static enum flow execute_set_block(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    size_t mark = jmark(j);
    enum flow flow = execute(j, new_scope(j, s), n->d);
    struct jval text = jtake(j, mark);
    if (flow == FLOW_ON)
        assign(j, s, n->a, filter_block(j, s, n->c, n->b, text));
    return flow;
}

static void define_macro(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    struct jmacro *macro = jalloc(j, 1, sizeof *macro);
    *macro = (struct jmacro){n, s};
    jscope_set(j, s, n->name, (struct jval){.kind = J_MACRO, .macro = macro});
}

static enum flow execute_statement(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    enum flow flow = FLOW_ON;
    struct jval v;
    switch (n->kind) {
    case N_SEQ:
        for (size_t i = 0; i < n->n && flow == FLOW_ON; i++)
            flow = execute(j, s, n->kid[i]);
        return flow;
    case N_DATA: jput(j, n->name.s, n->name.len); return FLOW_ON;
    case N_PRINT:
        v = eval(j, s, n->a);
        jput_str(j, v);
        return FLOW_ON;
    case N_IF: return execute_if(j, s, n);
    case N_FOR: return execute_for(j, s, n);
    case N_SET: assign(j, s, n->a, eval(j, s, n->b)); return FLOW_ON;
    case N_SET_BLOCK: return execute_set_block(j, s, n);
    case N_MACRO: define_macro(j, s, n); return FLOW_ON;
    case N_BREAK: return FLOW_BREAK;
    case N_CONTINUE: return FLOW_CONTINUE;
    default: jfail(j, "not a statement");
    }
}

static enum flow execute(struct jinja *j, struct jscope *s, const struct jnode *n)
{
    enter(j, n);
    enum flow flow = execute_statement(j, s, n);
    j->depth--;
    return flow;
}

void jrender(struct jinja *j, struct jscope *globals, const struct jnode *root)
{
    execute(j, new_scope(j, globals), root);
}
