/* Chat templates: the fixtures' renderings and ids, the prompts of the goldens, and the language itself against
 * Jinja's own answers (tests/data/jinja_cases.json, made by scripts/make_jinja_cases.py). */
#include "engine/engine.h"
#include "tests/test.h"

#include <stdlib.h>

static struct chat_template *open_template(const char *path)
{
    struct text source = {0};
    struct chat_template *t = NULL;
    struct err e = {0};
    if (file_read(path, 1 << 20, &source, &e) || chat_template_open(&t, source.data, source.len, path, &e))
        CHECK_MSG(false, "%s", e.msg);
    text_free(&source);
    return t;
}

static bool same_ids(const struct ids *ids, const cJSON *expected)
{
    bool same = ids->n == cJSON_GetArraySize(expected);
    for (int i = 0; same && i < ids->n; i++)
        same = cJSON_GetArrayItem(expected, i)->valuedouble == ids->id[i];
    return same;
}

static void check_case(const struct chat_template *t, const struct tokenizer *tok, const cJSON *c)
{
    struct text out = {0};
    struct ids ids = {0};
    struct err e = {0};
    const char *name = json_string(c, "name"), *text = json_string(c, "text");
    if (CHECK_MSG(chat_render(t, json_get(c, "messages"), cJSON_IsTrue(json_get(c, "add_generation_prompt")),
                              cJSON_IsTrue(json_get(c, "enable_thinking")), &out, &e) == 0, "%s: %s", name, e.msg)) {
        CHECK_MSG(strcmp(out.data, text) == 0, "%s: \"%s\", not \"%s\"", name, out.data, text);
        tokenize(tok, out.data, out.len, &ids);
        CHECK_MSG(same_ids(&ids, json_get(c, "ids")), "%s: ids", name);
    }
    ids_free(&ids);
    text_free(&out);
}

static void renderings_of_the_fixtures(void)
{
    struct tokenizer *tok;
    struct err e = {0};
    if (!file_exists("../shared/model/chat/cases.json"))
        SKIP("../shared is absent");
    struct chat_template *t = open_template("../shared/model/tiny-a/chat_template.jinja");
    cJSON *cases = json_read_file("../shared/model/chat/cases.json", 1 << 24, &e);
    CHECK(tokenizer_open(&tok, "../shared/model/tiny-a/tokenizer.json", &e) == 0);
    CHECK(cJSON_GetArraySize(cases) == 124);
    const cJSON *c;
    cJSON_ArrayForEach(c, cases)
        check_case(t, tok, c);
    cJSON_Delete(cases);
    tokenizer_close(tok);
    chat_template_close(t);
}

static void the_demo_template(void)
{
    const char *path = "../shared/demo/checkpoint/chat_template.jinja";
    struct text out = {0};
    struct err e = {0};
    if (!file_exists(path))
        SKIP("../shared is absent");
    struct chat_template *t = open_template(path);
    static const char talk[] = "[{\"role\":\"system\",\"content\":\" Be brief. \"},{\"role\":\"user\",\"content\":"
                               "[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\" What is this?\\n\"}]},"
                               "{\"role\":\"assistant\",\"content\":\"A cat\"},"
                               "{\"role\":\"user\",\"content\":\"Sure?\"}]";
    cJSON *messages = json_parse(talk, strlen(talk), "talk", &e);
    CHECK(chat_render(t, messages, true, false, &out, &e) == 0);
    CHECK_STR(out.data, "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\n<|image|>What is this?<turn|>\n"
                        "<|turn>model\nA cat<turn|>\n<|turn>user\nSure?<turn|>\n<|turn>model\n");
    cJSON_Delete(messages);
    text_free(&out);
    chat_template_close(t);
}

/* One template of jinja_cases.json: its output, or that it fails (Jinja's own words differ). */
static void check_language_case(const char *source, const char *expected, const cJSON *messages)
{
    struct chat_template *t = NULL;
    struct text out = {0};
    struct err e = {0};
    int failed = chat_template_open(&t, source, strlen(source), "case", &e) ||
                 chat_render(t, messages, true, false, &out, &e);
    if (!expected)
        CHECK_MSG(failed && e.code == EXIT_BAD_INPUT && strncmp(e.msg, "case:", 5) == 0, "no error: %s", source);
    else if (CHECK_MSG(!failed, "%s: %s", source, e.msg))
        CHECK_MSG(strcmp(out.data ? out.data : "", expected) == 0, "%s: \"%s\", not \"%s\"", source,
                  out.data ? out.data : "", expected);
    text_free(&out);
    chat_template_close(t);
}

static void the_language_as_jinja_has_it(void)
{
    struct err e = {0};
    cJSON *file = json_read_file("tests/data/jinja_cases.json", 1 << 22, &e);
    CHECK_MSG(cJSON_GetArraySize(json_get(file, "cases")) > 150, "%s", e.msg);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(file, "cases"))
        check_language_case(c->child->valuestring, c->child->next->valuestring, json_get(file, "messages"));
    cJSON_Delete(file);
}

/* A template must fail with this message. */
static void check_refused(const char *source, const char *message)
{
    struct chat_template *t = NULL;
    struct text out = {0};
    struct err e = {0};
    int failed = chat_template_open(&t, source, strlen(source), "t.jinja", &e) ||
                 chat_render(t, NULL, true, false, &out, &e);
    CHECK_MSG(failed && e.code == EXIT_BAD_INPUT, "not refused: %s", source);
    CHECK_STR(e.msg, message);
    text_free(&out);
    chat_template_close(t);
}

static void messages_name_template_and_line(void)
{
    check_refused("a\n{{ 1 | wordcount }}", "t.jinja:2: filter 'wordcount' is not supported");
    check_refused("\n\n{% if x.y.z %}{% endif %}", "t.jinja:3: 'x' is undefined");
    check_refused("{% if true %}\n", "t.jinja:1: elif expected, not the end of the template");
    check_refused("{{ 'a\n' }}\n{{ raise_exception('no ' ~ 'tools') }}", "t.jinja:3: the template refuses: no tools");
    check_refused("\n{% include 'x' %}",
                  "t.jinja:2: for, if, set, macro, generation, break or continue expected, not 'include'");
    check_refused("{{ 'a' + 1 }}", "t.jinja:1: '+' cannot be applied to str and int");
}

static void hostile_templates_end(void)
{
    struct text deep = {0};
    for (int i = 0; i < 100000; i++)
        text_puts(&deep, "{% if 1 %}");
    check_refused(deep.data, "t.jinja:1: nested too deeply");
    text_clear(&deep);
    text_puts(&deep, "{{ 1");
    for (int i = 0; i < 100000; i++)
        text_puts(&deep, " + 1");
    text_puts(&deep, " }}");
    check_refused(deep.data, "t.jinja:1: nested too deeply");
    text_free(&deep);
    check_refused("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "t.jinja:1: nested too deeply");
    check_refused("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
                  "t.jinja:1: the template does too much work");
    check_refused("{{ 'abc' * 1000000000 }}", "t.jinja:1: the template makes more than 64 MiB of text");
    check_refused("{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
                  "t.jinja:1: the template does too much work");
    check_refused("{% set n = namespace(x=[]) %}{% for i in range(90000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
                  "t.jinja:1: nested too deeply");
    check_refused("{{ [0] * 900000000000 }}", "t.jinja:1: the template does too much work");
}

int main(void)
{
    RUN(renderings_of_the_fixtures);
    RUN(the_demo_template);
    RUN(the_language_as_jinja_has_it);
    RUN(messages_name_template_and_line);
    RUN(hostile_templates_end);
    return test_report();
}
