/* jinja.h - a small interpreter of the Jinja language as chat templates use it; internal to engine/.
 *
 * jinja_lex.c and jinja_parse.c turn a template into a tree, jinja_eval.c walks it, jinja_value.c knows what values
 * are, jinja_filters.c and jinja_methods.c what can be done with them. The language is that of Jinja 3.1 with
 * trim_blocks, lstrip_blocks and loop controls, in an immutable sandbox: the settings under which chat templates
 * are published. Strings are UTF-8, their lengths and positions count characters.
 *
 * A template is untrusted. Everything it makes one render do is paid from one budget (a byte looked at or allocated
 * costs 1), and nesting is limited, so it can neither hang nor exhaust memory.
 *
 * Errors: jfail() leaves by longjmp to the entry function. All memory belongs to the arena and the output of the
 * struct jinja, which the entry function frees, so nothing leaks.
 */
#ifndef HANDOFF_ENGINE_JINJA_H
#define HANDOFF_ENGINE_JINJA_H

#include <locale.h>
#include <setjmp.h>
#include "engine/base.h"

enum { JINJA_MAX_DEPTH = 1000, JINJA_MAX_BRACKETS = 100, JINJA_MAX_NESTING = 200 };
#define JINJA_MAX_SOURCE ((size_t)1 << 20)
#define JINJA_MAX_OUTPUT ((size_t)64 << 20)
#define JINJA_BUDGET ((size_t)1 << 28)

/* ---- values (jinja_value.c) ------------------------------------------------------------------------------------ */

enum jkind {
    J_UNDEFINED, J_NONE, J_BOOL, J_INT, J_FLOAT, J_STRING, J_LIST, J_TUPLE, J_DICT, J_NAMESPACE, J_LOOP, J_MACRO,
    J_FUNCTION, J_METHOD
};

struct jstr { const char *s; size_t len; };
struct jinja;
struct jargs;

struct jval {
    enum jkind kind;
    union {
        bool b;
        int64_t i;
        double f;
        struct jstr str;                /* J_STRING; J_UNDEFINED: the name that was looked for */
        struct jlist *list;             /* J_LIST, J_TUPLE; never changed once a template can see it */
        struct jdict *dict;             /* J_DICT, J_NAMESPACE; only a namespace changes */
        const struct jloop *loop;
        const struct jmacro *macro;
        const struct jmethod *method;
        struct jval (*function)(struct jinja *j, const struct jargs *args);
    };
};

struct jlist { struct jval *item; size_t n; };
struct jdict { struct jval *key, *value; size_t n, cap; };      /* in order of insertion */
struct jloop { const struct jlist *items; size_t i; };
struct jmacro { const struct jnode *node; struct jscope *scope; };

/* Arguments of a call. */
struct jargs {
    struct jval *pos;
    size_t n;
    struct jstr *name;
    struct jval *named;
    size_t n_named;
};
typedef struct jval jfunction(struct jinja *j, struct jval self, const struct jargs *args);
struct jmethod { struct jval self; jfunction *function; };

/* One parse or one render. */
struct jinja {
    struct arena arena;
    struct text out;
    jmp_buf on_error;
    struct err *e;
    const char *where;
    int line;                   /* of the template, for messages */
    int depth;
    size_t budget;
    locale_t unicode;           /* for the case of letters; opened when needed */
};

_Noreturn void jfail(struct jinja *j, const char *fmt, ...) PRINTF_LIKE(2, 3);
void jcharge(struct jinja *j, size_t cost);
void *jalloc(struct jinja *j, size_t n, size_t size);           /* zeroed, n * size is charged */

bool jstr_is(struct jstr s, const char *word);
bool jstr_equal(struct jstr a, struct jstr b);

struct jval jundefined(struct jstr name);
struct jval jnone(void);
struct jval jbool(bool b);
struct jval jint(int64_t i);
struct jval jfloat(double f);
struct jval jstring(const char *s, size_t len);                 /* not copied */
struct jval jliteral(const char *s);
struct jval jlist_new(struct jinja *j, enum jkind kind, size_t n);
struct jval jpair(struct jinja *j, struct jval a, struct jval b);
struct jval jdict_new(struct jinja *j, enum jkind kind);
void jdict_set(struct jinja *j, struct jdict *d, struct jval key, struct jval value);
const struct jval *jdict_get(struct jinja *j, const struct jdict *d, struct jval key);      /* NULL if absent */
struct jval jfrom_json(struct jinja *j, const cJSON *json);

const char *jkind_name(enum jkind kind);                        /* as Python names the type */
bool jis_number(struct jval v);                                 /* int, float or bool */
double jnumber(struct jval v);
bool jto_int(struct jval v, int64_t *i);                        /* int or bool */
bool jtruth(struct jval v);
bool jequal(struct jinja *j, struct jval a, struct jval b);
int jcompare(struct jinja *j, struct jval a, struct jval b);    /* <0, 0, >0; fails if they have no order */
bool jcontains(struct jinja *j, struct jval container, struct jval v);
size_t jlength(struct jinja *j, struct jval v);
/* The items that a loop over v sees. */
const struct jlist *jiterate(struct jinja *j, struct jval v);

/* Strings are built at the end of j->out: mark, put, take. */
size_t jmark(struct jinja *j);
void jput(struct jinja *j, const char *s, size_t len);
void jputs(struct jinja *j, const char *s);
struct jval jtake(struct jinja *j, size_t mark);
void jput_str(struct jinja *j, struct jval v);                  /* Python's str() */
void jput_float(struct jinja *j, double f);
struct jstr jto_str(struct jinja *j, struct jval v);
struct json_style { const char *indent; struct jstr comma, colon; bool sort_keys, ascii; };
void jput_json(struct jinja *j, struct jval v, const struct json_style *style);

/* Characters: bytes of the one at s (1 where it is not UTF-8), and Python's str.isspace(). */
size_t jchar_len(const char *s, size_t len);
size_t jspace_len(const char *s, size_t len);                   /* 0: not a blank */
size_t jspace_len_before(const char *s, size_t len);            /* of the blank that ends at s + len */
struct jstr jstrip(struct jstr s, bool left, bool right);

/* ---- the tree (jinja_lex.c, jinja_parse.c) --------------------------------------------------------------------- */

enum jtoken_type {
    T_DATA, T_PRINT_BEGIN, T_PRINT_END, T_BLOCK_BEGIN, T_BLOCK_END, T_NAME, T_STRING, T_INT, T_FLOAT, T_OPERATOR, T_END
};
struct jtoken { enum jtoken_type type; int line; struct jstr s; int64_t i; double f; };

struct jlexer {
    struct jinja *j;
    const char *s;              /* newlines are \n, the last one is cut off */
    size_t len, at;
    int line;
    enum { LEX_DATA, LEX_PRINT, LEX_BLOCK } mode;
    bool line_start;            /* the tag before the data ended with a newline */
    bool begun_tag;             /* the text in front of a tag has been given, its begin not yet */
    char bracket[JINJA_MAX_BRACKETS];       /* what closes those that are open */
    int n_brackets;
};
struct jtoken jlex_next(struct jlexer *lx);

enum jnode_kind {
    /* expressions */
    N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT, N_ATTR, N_ITEM, N_SLICE, N_CALL, N_FILTER, N_TEST, N_NOT, N_NEG, N_POS,
    N_AND, N_OR, N_BINARY, N_CONCAT, N_COMPARE, N_COND,
    /* statements */
    N_SEQ, N_DATA, N_PRINT, N_IF, N_FOR, N_SET, N_SET_BLOCK, N_MACRO, N_BREAK, N_CONTINUE
};
enum joperator { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOOR, OP_MOD, OP_POW,
                 OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN };

struct jnode {
    enum jnode_kind kind;
    enum joperator op;          /* N_BINARY; in N_COMPARE of each kid */
    int line;
    struct jstr name;           /* of a variable, attribute, filter, test or macro; text of N_DATA */
    struct jval value;          /* N_CONST */
    struct jnode *a, *b, *c, *d;
    struct jnode **kid;         /* items, arguments, statements, branches */
    size_t n, cap;
    struct jstr *kw_name;       /* keyword arguments; parameters of a macro */
    struct jnode **kw;          /* their values; defaults, NULL where there is none */
    size_t n_kw, kw_cap;
};
/* Parses into j->arena; fails through jfail. */
const struct jnode *jparse(struct jinja *j, const char *source, size_t len);

/* ---- evaluation (jinja_eval.c, jinja_filters.c, jinja_methods.c) ------------------------------------------------ */

struct jvariable { struct jstr name; struct jval value; };
struct jscope { struct jscope *parent; struct jvariable *var; size_t n, cap; };
void jscope_set(struct jinja *j, struct jscope *s, struct jstr name, struct jval value);
/* Appends what the template prints to j->out. */
void jrender(struct jinja *j, struct jscope *globals, const struct jnode *root);

struct jval jget_item(struct jinja *j, struct jval object, struct jval key);
struct jval jget_attr(struct jinja *j, struct jval object, struct jstr name);

/* Argument i, or the keyword argument of that name; NULL if it was not given. */
const struct jval *jarg(const struct jargs *args, size_t i, const char *name);
struct jval jfilter(struct jinja *j, struct jstr name, struct jval v, const struct jargs *args);
bool jtest(struct jinja *j, struct jstr name, struct jval v, const struct jargs *args);
/* A method of a string or dict; NULL if there is none of that name. */
jfunction *jmethod_find(enum jkind kind, struct jstr name);
jfunction jmethod_upper, jmethod_lower, jmethod_capitalize, jmethod_replace, jmethod_items;
struct jval jfilter_title(struct jinja *j, struct jstr s);

#endif
