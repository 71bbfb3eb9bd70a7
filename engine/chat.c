/* chat.c - a checkpoint's chat template: parsed once, rendered for each conversation. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "engine/jinja.h"

#include <stdlib.h>
#include <string.h>

struct chat_template {
    struct arena arena;         /* of the tree */
    const struct jnode *root;
    char *where;
};

/* ---- functions that templates may call ------------------------------------------------------------------------- */

static struct jval raise_exception(struct jinja *j, const struct jargs *args)
{
    struct jstr message = args->n ? jto_str(j, args->pos[0]) : jliteral("").str;
    jfail(j, "the template refuses: %.*s", message.len > 400 ? 400 : (int)message.len, message.s);
}

/* namespace(a=1), namespace(mapping) */
static struct jval make_dict(struct jinja *j, const struct jargs *args, enum jkind kind)
{
    struct jval made = jdict_new(j, kind);
    if (args->n && args->pos[0].kind != J_DICT)
        jfail(j, "a mapping was expected, not %s", jkind_name(args->pos[0].kind));
    for (size_t i = 0; args->n && i < args->pos[0].dict->n; i++)
        jdict_set(j, made.dict, args->pos[0].dict->key[i], args->pos[0].dict->value[i]);
    for (size_t i = 0; i < args->n_named; i++)
        jdict_set(j, made.dict, jstring(args->name[i].s, args->name[i].len), args->named[i]);
    return made;
}

static struct jval make_namespace(struct jinja *j, const struct jargs *args)
{
    return make_dict(j, args, J_NAMESPACE);
}

static struct jval make_mapping(struct jinja *j, const struct jargs *args)
{
    return make_dict(j, args, J_DICT);
}

/* range(stop), range(start, stop), range(start, stop, step): at most 100000 numbers, as in Jinja's sandbox. */
static struct jval make_range(struct jinja *j, const struct jargs *args)
{
    enum { MAX_RANGE = 100000 };
    int64_t part[3] = {0, 0, 1};
    if (args->n < 1 || args->n > 3)
        jfail(j, "range: one to three integers were expected");
    for (size_t i = 0; i < args->n; i++)
        if (!jto_int(args->pos[i], &part[args->n == 1 ? 1 : i]))
            jfail(j, "range: an integer was expected, not %s", jkind_name(args->pos[i].kind));
    for (int i = 0; i < 3; i++)
        if (part[i] < -(INT64_C(1) << 53) || part[i] > INT64_C(1) << 53)
            jfail(j, "range: integer out of range");
    if (part[2] == 0)
        jfail(j, "range: a step of 0");
    int64_t span = part[2] > 0 ? part[1] - part[0] : part[0] - part[1], step = part[2] > 0 ? part[2] : -part[2];
    int64_t n = span > 0 ? (span - 1) / step + 1 : 0;
    if (n > MAX_RANGE)
        jfail(j, "range: more than %d numbers", MAX_RANGE);
    struct jval list = jlist_new(j, J_LIST, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        list.list->item[i] = jint(part[0] + i * part[2]);
    return list;
}

/* ---- variables that templates see ------------------------------------------------------------------------------ */

static void set_function(struct jinja *j, struct jscope *s, const char *name,
                         struct jval (*function)(struct jinja *, const struct jargs *))
{
    jscope_set(j, s, jliteral(name).str, (struct jval){.kind = J_FUNCTION, .function = function});
}

/* What transformers passes to a template. strftime_now stays undefined: with today's date in the prompt no run could
 * be repeated. The names of the special tokens are Gemma's, the same in all its versions. */
static void set_globals(struct jinja *j, struct jscope *s, const cJSON *messages, bool add_generation_prompt,
                        bool enable_thinking)
{
    static const char *const token[][2] = {{"bos_token", "<bos>"}, {"eos_token", "<eos>"}, {"unk_token", "<unk>"},
                                           {"pad_token", "<pad>"}};
    set_function(j, s, "raise_exception", raise_exception);
    set_function(j, s, "namespace", make_namespace);
    set_function(j, s, "dict", make_mapping);
    set_function(j, s, "range", make_range);
    for (size_t i = 0; i < sizeof token / sizeof *token; i++)
        jscope_set(j, s, jliteral(token[i][0]).str, jliteral(token[i][1]));
    jscope_set(j, s, jliteral("tools").str, jnone());
    jscope_set(j, s, jliteral("documents").str, jnone());
    jscope_set(j, s, jliteral("add_generation_prompt").str, jbool(add_generation_prompt));
    jscope_set(j, s, jliteral("enable_thinking").str, jbool(enable_thinking));
    jscope_set(j, s, jliteral("messages").str, jfrom_json(j, messages));
}

/* ---- entry points ---------------------------------------------------------------------------------------------- */

/* Whatever the interpreter changes lives in *j, outside of the frame that setjmp returns to. */
static int parse_or_fail(struct jinja *j, struct chat_template *t, const char *source, size_t len)
{
    if (setjmp(j->on_error))
        return -1;
    t->root = jparse(j, source, len);
    return 0;
}

static int render_or_fail(struct jinja *j, const struct chat_template *t, const cJSON *messages,
                          bool add_generation_prompt, bool enable_thinking)
{
    if (setjmp(j->on_error))
        return -1;
    struct jscope *globals = jalloc(j, 1, sizeof *globals);
    set_globals(j, globals, messages, add_generation_prompt, enable_thinking);
    jrender(j, globals, t->root);
    return 0;
}

int chat_template_open(struct chat_template **out, const char *source, size_t len, const char *where, struct err *e)
{
    struct jinja j = {.e = e, .where = where, .budget = JINJA_BUDGET};
    const char *nul = memchr(source, '\0', len);
    *out = NULL;
    if (nul)
        return err_input(e, "%s: byte %zu: a text was expected, not NUL", where, (size_t)(nul - source));
    struct chat_template *t = NEW(struct chat_template, 1);
    int failed = parse_or_fail(&j, t, source, len);
    t->arena = j.arena;
    t->where = mem_strdup(where);
    text_free(&j.out);
    *out = failed ? NULL : t;
    if (failed)
        chat_template_close(t);
    return failed;
}

void chat_template_close(struct chat_template *t)
{
    if (!t)
        return;
    arena_free(&t->arena);
    free(t->where);
    free(t);
}

int chat_render(const struct chat_template *t, const cJSON *messages, bool add_generation_prompt,
                bool enable_thinking, struct text *out, struct err *e)
{
    struct jinja j = {.e = e, .where = t->where, .line = 1, .budget = JINJA_BUDGET};
    int failed = render_or_fail(&j, t, messages, add_generation_prompt, enable_thinking);
    if (!failed)
        text_put(out, j.out.data, j.out.len);
    if (j.unicode)
        freelocale(j.unicode);
    text_free(&j.out);
    arena_free(&j.arena);
    return failed;
}
