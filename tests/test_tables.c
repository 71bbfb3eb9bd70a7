/* Tables as text, Markdown and CSV; JSON with reasons beside undefined figures. */
#include "reports/table.h"
#include "reports/json_out.h"
#include "tests/test.h"

static struct text out;

static void fill(struct table *t)
{
    table_column(t, "hold-out", "task", ALIGN_LEFT);
    table_column(t, "n", "n", ALIGN_RIGHT);
    table_column(t, "AUROC", "auroc", ALIGN_RIGHT);
    table_column(t, "95%", "lo,hi", ALIGN_LEFT);
    table_text(t, "a,\"b\"|c");
    table_int(t, 12);
    table_figure(t, figure_of(0.8136), ".3");
    table_interval(t, interval_of(0.1, 1), ".3");
    table_rule(t);
    table_text(t, "\xe8\xaa\x9e\xe5\xad\x97 e\xcc\x81");
    table_int(t, 200000);
    table_figure(t, figure_undefined("one class"), ".3");
    table_interval(t, interval_undefined("one class"), ".3");
}

static void as_text(void)
{
    struct table t = {.title = "T"};
    text_clear(&out);
    fill(&t);
    table_terminal(&t, &out);
    CHECK_STR(out.data, "T\n\n"
              "hold-out       n  AUROC  95%\n"
              "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
              "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
              "\u2500\u2500\u2500\u2500\n"
              "a,\"b\"|c       12   .814  [.100, 1.000]\n"
              "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
              "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
              "\u2500\u2500\u2500\u2500\n"
              "\xe8\xaa\x9e\xe5\xad\x97 e\xcc\x81    200000      -  -\n");
    table_free(&t);
}

static void as_markdown(void)
{
    struct table t = {0};
    text_clear(&out);
    fill(&t);
    text_puts(&t.notes, "first *note*\nsecond\n");
    table_markdown(&t, &out);
    CHECK_STR(out.data, "| hold-out | n | AUROC | 95% |\n| :--- | ---: | ---: | :--- |\n"
              "| a,\"b\"\\|c | 12 | .814 | [.100, 1.000] |\n"
              "| \xe8\xaa\x9e\xe5\xad\x97 e\xcc\x81 | 200000 | - | - |\n\n- first \\*note\\*\n- second\n\n");
    table_free(&t);
}

static void as_csv(void)
{
    struct table t = {0};
    text_clear(&out);
    fill(&t);
    table_csv(&t, &out);
    CHECK_STR(out.data, "task,n,auroc,lo,hi\n\"a,\"\"b\"\"|c\",12,0.8136,0.1,1\n"
              "\xe8\xaa\x9e\xe5\xad\x97 e\xcc\x81,200000,,,\n");
    table_free(&t);
}

static void numbers(void)
{
    static const struct { const char *format; double v; const char *want; } cases[] = {
        {".3", 0.8136, ".814"}, {".3", 1, "1.000"}, {".3", -0.25, "-.250"}, {".3", -0.0001, ".000"},
        {"+.3", 0.1, "+.100"}, {"+.3", -0.1, "-.100"}, {"+.3", -0.00001, "+.000"}, {"3", 0.5, "0.500"},
        {"0%", 0.126, "13%"}, {"1%", 0.126, "12.6%"}, {"+1%", 0.126, "+12.6%"}, {".0", 0.4, "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_clear(&out);
        put_number(&out, cases[i].format, cases[i].v);
        CHECK_STR(out.data, cases[i].want);
    }
    static const struct { double p; const char *want; } ps[] = {
        {0.0004, "<.001"}, {0.034, ".034"}, {0.9999, "1"}, {1, "1"}};
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        text_clear(&out);
        put_p_value(&out, figure_of(ps[i].p));
        CHECK_STR(out.data, ps[i].want);
    }
}

static void json(void)
{
    struct json_out j = {.out = &out};
    text_clear(&out);
    json_open(&j, NULL, '{');
    json_figure(&j, "a", figure_of(0.1));
    json_open(&j, "in", '{');
    json_figure(&j, "b", figure_undefined("one class"));
    json_interval(&j, "c", interval_undefined("one class"));
    json_figure(&j, "d", figure_undefined("too few"));
    json_close(&j, '}');
    json_interval(&j, "e", interval_of(0, 0.5));
    json_text(&j, "f", "\"\n");
    json_close(&j, '}');
    CHECK_STR(out.data, "{\"a\":0.1,\"in\":{\"b\":null,\"c\":null,\"d\":null,\"why\":\"one class; too few\"},"
              "\"e\":[0,0.5],\"f\":\"\\\"\\n\"}");
}

int main(void)
{
    RUN(as_text);
    RUN(as_markdown);
    RUN(as_csv);
    RUN(numbers);
    RUN(json);
    text_free(&out);
    return test_report();
}
