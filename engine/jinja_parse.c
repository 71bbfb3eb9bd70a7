/* jinja_parse.c - tokens to a tree, by recursive descent; the grammar is Jinja's own. */
#define _GNU_SOURCE
#include "engine/jinja.h"

#include <stdio.h>
#include <string.h>

struct parser {
    struct jinja *j;
    struct jlexer lx;
    struct jtoken now, next;
    int loops;                  /* open {% for %} around, within the macro at hand */
};

static struct jnode *parse_expression(struct parser *p);
static struct jnode *parse_or(struct parser *p);
static struct jnode *parse_unary(struct parser *p, bool with_filter);
static struct jnode *parse_body(struct parser *p, const char *const *ends);

/* ---- tokens ---------------------------------------------------------------------------------------------------- */

static void advance(struct parser *p)
{
    p->now = p->next;
    p->next = jlex_next(&p->lx);
}

static bool is_word(struct jtoken t, enum jtoken_type type, const char *word)
{
    return t.type == type && jstr_is(t.s, word);
}

static bool at_op(const struct parser *p, const char *op)
{
    return is_word(p->now, T_OPERATOR, op);
}

static bool at_name(const struct parser *p, const char *name)
{
    return is_word(p->now, T_NAME, name);
}

static bool skip_op(struct parser *p, const char *op)
{
    bool hit = at_op(p, op);
    if (hit)
        advance(p);
    return hit;
}

static bool skip_name(struct parser *p, const char *name)
{
    bool hit = at_name(p, name);
    if (hit)
        advance(p);
    return hit;
}

static _Noreturn void unexpected(struct parser *p, const char *expected)
{
    char what[80] = "the end of the template";
    if (p->now.type == T_PRINT_END || p->now.type == T_BLOCK_END)
        snprintf(what, sizeof what, "the end of the tag");
    else if (p->now.type == T_STRING || p->now.type == T_INT || p->now.type == T_FLOAT)
        snprintf(what, sizeof what, "a literal");
    else if (p->now.type != T_END)
        snprintf(what, sizeof what, "'%.*s'", p->now.s.len > 40 ? 40 : (int)p->now.s.len, p->now.s.s);
    p->j->line = p->now.line;
    jfail(p->j, "%s expected, not %s", expected, what);
}

static void expect_op(struct parser *p, const char *op)
{
    char quoted[16];
    snprintf(quoted, sizeof quoted, "'%s'", op);
    if (!skip_op(p, op))
        unexpected(p, quoted);
}

static void expect_type(struct parser *p, enum jtoken_type type, const char *expected)
{
    if (p->now.type != type)
        unexpected(p, expected);
    advance(p);
}

static struct jstr expect_name(struct parser *p)
{
    struct jstr name = p->now.s;
    expect_type(p, T_NAME, "a name");
    return name;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static struct jnode *new_node(struct parser *p, enum jnode_kind kind, int line)
{
    struct jnode *n = jalloc(p->j, 1, sizeof *n);
    n->kind = kind;
    n->line = line;
    return n;
}

static struct jnode *new_binary(struct parser *p, enum jnode_kind kind, enum joperator op, struct jnode *a,
                                struct jnode *b)
{
    struct jnode *n = new_node(p, kind, a->line);
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

static void add_kid(struct parser *p, struct jnode *n, struct jnode *kid)
{
    if (n->n == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 4;
        struct jnode **grown = jalloc(p->j, n->cap, sizeof *grown);
        if (n->n)
            memcpy(grown, n->kid, n->n * sizeof *grown);
        n->kid = grown;
    }
    n->kid[n->n++] = kid;
}

static void add_keyword(struct parser *p, struct jnode *n, struct jstr name, struct jnode *value)
{
    if (n->n_kw == n->kw_cap) {
        n->kw_cap = n->kw_cap ? 2 * n->kw_cap : 4;
        struct jnode **grown = jalloc(p->j, n->kw_cap, sizeof *grown);
        struct jstr *names = jalloc(p->j, n->kw_cap, sizeof *names);
        if (n->n_kw) {
            memcpy(grown, n->kw, n->n_kw * sizeof *grown);
            memcpy(names, n->kw_name, n->n_kw * sizeof *names);
        }
        n->kw = grown;
        n->kw_name = names;
    }
    n->kw_name[n->n_kw] = name;
    n->kw[n->n_kw++] = value;
}

static void enter(struct parser *p)
{
    p->j->line = p->now.line;
    if (++p->j->depth > JINJA_MAX_NESTING)
        jfail(p->j, "nested too deeply");
}

static void leave(struct parser *p)
{
    p->j->depth--;
}

/* ---- expressions ----------------------------------------------------------------------------------------------- */

static struct jnode *new_const(struct parser *p, int line, struct jval value)
{
    struct jnode *n = new_node(p, N_CONST, line);
    n->value = value;
    return n;
}

static bool at_tuple_end(const struct parser *p)
{
    return p->now.type == T_PRINT_END || p->now.type == T_BLOCK_END || at_op(p, ")") || at_name(p, "in");
}

/* One expression, or a tuple where commas follow. `parse` reads one item. */
static struct jnode *parse_tuple(struct parser *p, struct jnode *(*parse)(struct parser *), bool may_be_empty)
{
    struct jnode *tuple = new_node(p, N_TUPLE, p->now.line);
    bool comma = false;
    while (!at_tuple_end(p)) {
        add_kid(p, tuple, parse(p));
        if (!skip_op(p, ","))
            break;
        comma = true;
    }
    if (comma)
        return tuple;
    if (tuple->n)
        return tuple->kid[0];
    if (!may_be_empty)
        unexpected(p, "an expression");
    return tuple;
}

static struct jnode *parse_list(struct parser *p)
{
    struct jnode *n = new_node(p, N_LIST, p->now.line);
    expect_op(p, "[");
    while (!at_op(p, "]")) {
        add_kid(p, n, parse_expression(p));
        if (!at_op(p, "]"))
            expect_op(p, ",");
    }
    expect_op(p, "]");
    return n;
}

static struct jnode *parse_dict(struct parser *p)
{
    struct jnode *n = new_node(p, N_DICT, p->now.line);
    expect_op(p, "{");
    while (!at_op(p, "}")) {
        add_kid(p, n, parse_expression(p));
        expect_op(p, ":");
        add_kid(p, n, parse_expression(p));
        if (!at_op(p, "}"))
            expect_op(p, ",");
    }
    expect_op(p, "}");
    return n;
}

static struct jnode *parse_name(struct parser *p)
{
    static const struct { const char *word; enum jkind kind; bool b; } constant[] = {
        {"true", J_BOOL, true}, {"True", J_BOOL, true}, {"false", J_BOOL, false}, {"False", J_BOOL, false},
        {"none", J_NONE, false}, {"None", J_NONE, false}};
    int line = p->now.line;
    struct jstr name = expect_name(p);
    for (size_t i = 0; i < sizeof constant / sizeof *constant; i++)
        if (jstr_is(name, constant[i].word))
            return new_const(p, line, constant[i].kind == J_BOOL ? jbool(constant[i].b) : jnone());
    struct jnode *n = new_node(p, N_NAME, line);
    n->name = name;
    return n;
}

/* Strings that follow one another are one string. */
static struct jnode *parse_string(struct parser *p)
{
    struct jtoken first = p->now;
    struct jstr s = first.s;
    for (advance(p); p->now.type == T_STRING; advance(p)) {
        char *joined = jalloc(p->j, s.len + p->now.s.len, 1);
        memcpy(joined, s.s, s.len);
        memcpy(joined + s.len, p->now.s.s, p->now.s.len);
        s = (struct jstr){joined, s.len + p->now.s.len};
    }
    return new_const(p, first.line, jstring(s.s, s.len));
}

static struct jnode *parse_primary(struct parser *p)
{
    struct jtoken t = p->now;
    if (t.type == T_NAME)
        return parse_name(p);
    if (t.type == T_STRING)
        return parse_string(p);
    if (t.type == T_INT || t.type == T_FLOAT) {
        advance(p);
        return new_const(p, t.line, t.type == T_INT ? jint(t.i) : jfloat(t.f));
    }
    if (skip_op(p, "(")) {
        struct jnode *n = parse_tuple(p, parse_expression, true);
        expect_op(p, ")");
        return n;
    }
    if (at_op(p, "["))
        return parse_list(p);
    if (at_op(p, "{"))
        return parse_dict(p);
    unexpected(p, "an expression");
}

/* (a, b, name=c) into `call`. */
static void parse_arguments(struct parser *p, struct jnode *call)
{
    expect_op(p, "(");
    while (!at_op(p, ")")) {
        if (p->now.type == T_NAME && is_word(p->next, T_OPERATOR, "=")) {
            struct jstr name = expect_name(p);
            expect_op(p, "=");
            add_keyword(p, call, name, parse_expression(p));
        } else {
            if (call->n_kw)
                unexpected(p, "a keyword argument");
            add_kid(p, call, parse_expression(p));
        }
        if (!at_op(p, ")"))
            expect_op(p, ",");
    }
    expect_op(p, ")");
}

/* What is inside of [ ]: an expression or a slice. */
static struct jnode *parse_subscript(struct parser *p)
{
    int line = p->now.line;
    struct jnode *start = at_op(p, ":") ? NULL : parse_expression(p);
    if (!at_op(p, ":"))
        return start;
    struct jnode *slice = new_node(p, N_SLICE, line);
    slice->a = start;
    expect_op(p, ":");
    if (!at_op(p, ":") && !at_op(p, "]"))
        slice->b = parse_expression(p);
    if (skip_op(p, ":") && !at_op(p, "]"))
        slice->c = parse_expression(p);
    return slice;
}

static struct jnode *parse_call(struct parser *p, struct jnode *callee)
{
    struct jnode *call = new_node(p, N_CALL, p->now.line);
    call->a = callee;
    parse_arguments(p, call);
    return call;
}

static struct jnode *parse_postfix(struct parser *p, struct jnode *n)
{
    for (;;) {
        int line = p->now.line;
        if (skip_op(p, ".")) {
            struct jnode *part = new_node(p, p->now.type == T_INT ? N_ITEM : N_ATTR, line);
            part->a = n;
            if (part->kind == N_ITEM) {
                part->b = parse_primary(p);
            } else {
                part->name = expect_name(p);
            }
            n = part;
        } else if (skip_op(p, "[")) {
            n = new_binary(p, N_ITEM, OP_ADD, n, parse_subscript(p));
            n->line = line;
            expect_op(p, "]");
        } else if (at_op(p, "(")) {
            n = parse_call(p, n);
        } else {
            return n;
        }
    }
}

static struct jnode *parse_filter(struct parser *p, struct jnode *n)
{
    struct jnode *filter = new_node(p, N_FILTER, p->now.line);
    filter->a = n;
    filter->name = expect_name(p);
    if (at_op(p, "("))
        parse_arguments(p, filter);
    return filter;
}

static struct jnode *parse_test(struct parser *p, struct jnode *n)
{
    int line = p->now.line;
    bool negated = skip_name(p, "not");
    struct jnode *test = new_node(p, N_TEST, line);
    test->a = n;
    test->name = expect_name(p);
    bool operand = p->now.type == T_NAME || p->now.type == T_STRING || p->now.type == T_INT || p->now.type == T_FLOAT ||
                   at_op(p, "[") || at_op(p, "{");
    if (at_op(p, "("))
        parse_arguments(p, test);
    else if (operand && !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and")) {
        if (at_name(p, "is"))
            unexpected(p, "an argument of the test");
        add_kid(p, test, parse_postfix(p, parse_primary(p)));
    }
    if (!negated)
        return test;
    struct jnode *not = new_node(p, N_NOT, line);
    not->a = test;
    return not;
}

static struct jnode *parse_unary(struct parser *p, bool with_filter)
{
    struct jnode *n;
    enter(p);
    if (at_op(p, "-") || at_op(p, "+")) {
        n = new_node(p, at_op(p, "-") ? N_NEG : N_POS, p->now.line);
        advance(p);
        n->a = parse_unary(p, false);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    while (with_filter) {
        if (skip_op(p, "|"))
            n = parse_filter(p, n);
        else if (skip_name(p, "is"))
            n = parse_test(p, n);
        else if (at_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    leave(p);
    return n;
}

/* Left-associative operators of one level. */
struct level { const char *op[4]; enum joperator code[4]; int n; };
static const struct level pow_level = {{"**"}, {OP_POW}, 1};
static const struct level mul_level = {{"*", "/", "//", "%"}, {OP_MUL, OP_DIV, OP_FLOOR, OP_MOD}, 4};
static const struct level add_level = {{"+", "-"}, {OP_ADD, OP_SUB}, 2};

static struct jnode *parse_level(struct parser *p, const struct level *level, struct jnode *(*operand)(struct parser *))
{
    struct jnode *n = operand(p);
    for (int i = 0; i < level->n; i++) {
        if (!skip_op(p, level->op[i]))
            continue;
        n = new_binary(p, N_BINARY, level->code[i], n, operand(p));
        i = -1;
    }
    return n;
}

static struct jnode *parse_operand(struct parser *p) { return parse_unary(p, true); }
static struct jnode *parse_pow(struct parser *p) { return parse_level(p, &pow_level, parse_operand); }
static struct jnode *parse_product(struct parser *p) { return parse_level(p, &mul_level, parse_pow); }

static struct jnode *parse_concat(struct parser *p)
{
    struct jnode *first = parse_product(p);
    if (!at_op(p, "~"))
        return first;
    struct jnode *n = new_node(p, N_CONCAT, first->line);
    add_kid(p, n, first);
    while (skip_op(p, "~"))
        add_kid(p, n, parse_product(p));
    return n;
}

static struct jnode *parse_sum(struct parser *p) { return parse_level(p, &add_level, parse_concat); }

static bool skip_comparison(struct parser *p, enum joperator *op)
{
    static const char *const word[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (skip_op(p, word[i])) {
            *op = (enum joperator)(OP_EQ + i);
            return true;
        }
    if (skip_name(p, "in")) {
        *op = OP_IN;
        return true;
    }
    if (at_name(p, "not") && is_word(p->next, T_NAME, "in")) {
        advance(p);
        advance(p);
        *op = OP_NOT_IN;
        return true;
    }
    return false;
}

/* a < b <= c: kids b, c, ... each with its operator. */
static struct jnode *parse_comparison(struct parser *p)
{
    struct jnode *first = parse_sum(p), *n = NULL;
    enum joperator op;
    while (skip_comparison(p, &op)) {
        if (!n) {
            n = new_node(p, N_COMPARE, first->line);
            n->a = first;
        }
        struct jnode *step = new_node(p, N_COMPARE, p->now.line);
        step->op = op;
        step->a = parse_sum(p);
        add_kid(p, n, step);
    }
    return n ? n : first;
}

static struct jnode *parse_not(struct parser *p)
{
    if (!at_name(p, "not"))
        return parse_comparison(p);
    enter(p);
    struct jnode *n = new_node(p, N_NOT, p->now.line);
    advance(p);
    n->a = parse_not(p);
    leave(p);
    return n;
}

static struct jnode *parse_and(struct parser *p)
{
    struct jnode *n = parse_not(p);
    while (skip_name(p, "and"))
        n = new_binary(p, N_AND, OP_ADD, n, parse_not(p));
    return n;
}

static struct jnode *parse_or(struct parser *p)
{
    struct jnode *n = parse_and(p);
    while (skip_name(p, "or"))
        n = new_binary(p, N_OR, OP_ADD, n, parse_and(p));
    return n;
}

static struct jnode *parse_expression(struct parser *p)
{
    enter(p);
    struct jnode *n = parse_or(p);
    while (at_name(p, "if")) {
        struct jnode *cond = new_node(p, N_COND, p->now.line);
        advance(p);
        cond->a = parse_or(p);
        cond->b = n;
        cond->c = skip_name(p, "else") ? parse_expression(p) : NULL;
        n = cond;
    }
    leave(p);
    return n;
}

/* ---- statements ------------------------------------------------------------------------------------------------ */

static void end_block(struct parser *p)
{
    expect_type(p, T_BLOCK_END, "'%}'");
}

/* Where a value goes: a name, a tuple of names, or an attribute of a namespace. */
static void check_target(struct parser *p, const struct jnode *n, bool attribute)
{
    bool good = n->kind == N_NAME || (n->kind == N_TUPLE && n->n) || (attribute && n->kind == N_ATTR);
    for (size_t i = 0; good && n->kind == N_TUPLE && i < n->n; i++)
        check_target(p, n->kid[i], attribute);
    if (!good)
        unexpected(p, "a variable to assign to in front of this");
}

static struct jnode *parse_target_item(struct parser *p)
{
    enter(p);
    struct jnode *n = parse_primary(p);
    if (n->kind == N_NAME && skip_op(p, ".")) {
        struct jnode *attr = new_node(p, N_ATTR, n->line);
        attr->a = n;
        attr->name = expect_name(p);
        n = attr;
    }
    leave(p);
    return n;
}

static struct jnode *parse_target(struct parser *p, bool attribute)
{
    struct jnode *n = parse_tuple(p, parse_target_item, false);
    check_target(p, n, attribute);
    return n;
}

static struct jnode *parse_for(struct parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const else_ends[] = {"endfor", NULL};
    struct jnode *n = new_node(p, N_FOR, p->now.line);
    n->a = parse_target(p, false);
    if (!skip_name(p, "in"))
        unexpected(p, "'in'");
    n->b = parse_tuple(p, parse_or, false);
    if (skip_name(p, "if"))
        n->c = parse_expression(p);
    if (at_name(p, "recursive"))
        unexpected(p, "a loop that is not recursive");
    end_block(p);
    p->loops++;
    n->d = parse_body(p, ends);
    p->loops--;
    if (skip_name(p, "else")) {
        end_block(p);
        add_kid(p, n, parse_body(p, else_ends));
    }
    advance(p);
    return n;
}

/* Kids are condition, body, condition, body, ..., and the body of {% else %} if there is one. */
static struct jnode *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const else_ends[] = {"endif", NULL};
    struct jnode *n = new_node(p, N_IF, p->now.line);
    do {
        add_kid(p, n, parse_tuple(p, parse_or, false));
        end_block(p);
        add_kid(p, n, parse_body(p, ends));
    } while (skip_name(p, "elif"));
    if (skip_name(p, "else")) {
        end_block(p);
        add_kid(p, n, parse_body(p, else_ends));
    }
    advance(p);
    return n;
}

static struct jnode *parse_set(struct parser *p)
{
    static const char *const ends[] = {"endset", NULL};
    struct jnode *n = new_node(p, N_SET, p->now.line);
    n->a = parse_target(p, true);
    if (skip_op(p, "=")) {
        n->b = parse_tuple(p, parse_expression, false);
        return n;
    }
    n->kind = N_SET_BLOCK;
    struct jnode *text = new_node(p, N_CONST, n->line);     /* becomes the text of the block */
    n->b = n->c = text;
    while (skip_op(p, "|"))
        n->c = parse_filter(p, n->c);
    end_block(p);
    n->d = parse_body(p, ends);
    advance(p);
    return n;
}

static struct jnode *parse_macro(struct parser *p)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct jnode *n = new_node(p, N_MACRO, p->now.line);
    n->name = expect_name(p);
    expect_op(p, "(");
    while (!at_op(p, ")")) {
        struct jstr name = expect_name(p);
        bool with_default = skip_op(p, "=");
        if (!with_default && n->n_kw && n->kw[n->n_kw - 1])
            unexpected(p, "a default value");
        add_keyword(p, n, name, with_default ? parse_expression(p) : NULL);
        if (!at_op(p, ")"))
            expect_op(p, ",");
    }
    expect_op(p, ")");
    end_block(p);
    int loops = p->loops;
    p->loops = 0;
    n->d = parse_body(p, ends);
    p->loops = loops;
    advance(p);
    return n;
}

/* Text that transformers marks as the assistant's; here it is only text. */
static struct jnode *parse_generation(struct parser *p)
{
    static const char *const ends[] = {"endgeneration", NULL};
    end_block(p);
    struct jnode *n = parse_body(p, ends);
    advance(p);
    return n;
}

static struct jnode *parse_jump(struct parser *p, enum jnode_kind kind)
{
    if (!p->loops)
        jfail(p->j, "break or continue outside of a loop");
    return new_node(p, kind, p->now.line);
}

static struct jnode *parse_statement(struct parser *p)
{
    p->j->line = p->now.line;
    if (skip_name(p, "for"))
        return parse_for(p);
    if (skip_name(p, "if"))
        return parse_if(p);
    if (skip_name(p, "set"))
        return parse_set(p);
    if (skip_name(p, "macro"))
        return parse_macro(p);
    if (skip_name(p, "generation"))
        return parse_generation(p);
    if (skip_name(p, "break"))
        return parse_jump(p, N_BREAK);
    if (skip_name(p, "continue"))
        return parse_jump(p, N_CONTINUE);
    unexpected(p, "for, if, set, macro, generation, break or continue");
}

static bool at_end_word(const struct parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (at_name(p, *ends))
            return true;
    return false;
}

static void parse_print(struct parser *p, struct jnode *body)
{
    struct jnode *print = new_node(p, N_PRINT, p->now.line);
    advance(p);
    print->a = parse_tuple(p, parse_expression, false);
    expect_type(p, T_PRINT_END, "'}}'");
    add_kid(p, body, print);
}

/* Statements up to one of the words `ends` (at which it stops), or up to the end of the template if that is NULL. */
static struct jnode *parse_body(struct parser *p, const char *const *ends)
{
    struct jnode *body = new_node(p, N_SEQ, p->now.line);
    enter(p);
    for (;;) {
        if (p->now.type == T_DATA) {
            struct jnode *data = new_node(p, N_DATA, p->now.line);
            data->name = p->now.s;
            if (data->name.len)
                add_kid(p, body, data);
            advance(p);
        } else if (p->now.type == T_PRINT_BEGIN) {
            parse_print(p, body);
        } else if (p->now.type == T_BLOCK_BEGIN) {
            advance(p);
            if (at_end_word(p, ends))
                break;
            add_kid(p, body, parse_statement(p));
            end_block(p);
        } else {
            if (ends)
                unexpected(p, ends[0]);
            break;
        }
    }
    leave(p);
    return body;
}

const struct jnode *jparse(struct jinja *j, const char *source, size_t len)
{
    struct parser p = {.j = j};
    size_t bad, n = 0;
    j->line = 1;
    if (len > JINJA_MAX_SOURCE)
        jfail(j, "the template is larger than %zu bytes", JINJA_MAX_SOURCE);
    if (!utf8_valid(source, len, &bad))
        jfail(j, "byte %zu of the template is not UTF-8", bad);
    char *s = jalloc(j, len + 1, 1);
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n')
            continue;
        s[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n && s[n - 1] == '\n')
        n--;
    p.lx = (struct jlexer){.j = j, .s = s, .len = n, .line = 1, .line_start = true};
    p.next = jlex_next(&p.lx);
    advance(&p);
    return parse_body(&p, NULL);
}
