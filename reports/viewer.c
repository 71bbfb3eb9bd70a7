/* viewer.c - the sample viewer: controls as HTML, samples as JSON inside the page. */
#include "reports/viewer.h"
#include "reports/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void put_script_string(struct text *out, const char *s)
{
    struct text t = {0};
    json_put_string(&t, s, strlen(s));
    for (size_t i = 0; i < t.len; i++)
        if (t.data[i] == '<')
            text_puts(out, "\\u003c");
        else
            text_putc(out, t.data[i]);
    text_free(&t);
}

static void put_answer(struct text *out, const struct sample_answer *a)
{
    text_putc(out, '[');
    put_script_string(out, a->output ? a->output : "");
    text_putc(out, ',');
    json_put_double(out, a->confidence);
    text_putc(out, ',');
    json_put_double(out, a->entropy);
    text_printf(out, ",%d]", (int)a->verdict);
}

static void put_sample(struct text *out, const struct sample_row *s, int n_runs, int media)
{
    text_putc(out, '[');
    put_script_string(out, s->id);
    text_printf(out, ",%d,", s->task);
    const char *texts[] = {s->question, s->gold, s->group};
    for (int i = 0; i < 3; i++) {
        put_script_string(out, texts[i] ? texts[i] : "");
        text_putc(out, ',');
    }
    text_printf(out, "%d,", media);
    put_script_string(out, s->media_name ? s->media_name : "");
    text_puts(out, ",[");
    for (int r = 0; r < n_runs; r++) {
        text_puts(out, r ? "," : "");
        put_answer(out, &s->answers[r]);
    }
    text_puts(out, "]]");
}

static void put_data(const struct report_input *in, struct text *out)
{
    const struct auroc_run *first = &in->auroc->runs[0];
    text_puts(out, "<script type=\"application/json\" id=\"samples\">{\"threshold\":");
    json_put_double(out, in->auroc->definitions.threshold);
    text_puts(out, ",\"tasks\":[");
    for (int i = 0; i < first->n_tasks; i++) {
        text_puts(out, i ? "," : "");
        put_script_string(out, first->tasks[i].task);
    }
    text_puts(out, "],\"runs\":[");
    for (int i = 0; i < in->n_runs; i++) {
        text_puts(out, i ? "," : "");
        put_script_string(out, in->runs[i]);
    }
    text_puts(out, "],\"media\":[");
    int media = 0;
    for (int i = 0; i < in->n_samples; i++) {
        if (!in->samples[i].media)
            continue;
        text_puts(out, media++ ? ",\n[" : "\n[");
        put_script_string(out, in->samples[i].media_type);
        text_printf(out, ",\"%s\"]", in->samples[i].media);
    }
    text_puts(out, "],\"samples\":[");
    media = 0;
    for (int i = 0; i < in->n_samples; i++) {
        text_puts(out, i ? ",\n" : "\n");
        put_sample(out, &in->samples[i], in->n_runs, in->samples[i].media ? media : -1);
        media += in->samples[i].media != NULL;
    }
    text_puts(out, "]}</script>\n");
}

static void put_option(struct text *out, const char *value, const char *label)
{
    text_puts(out, "<option value=\"");
    put_escaped(out, value);
    text_puts(out, "\">");
    put_escaped(out, label);
    text_puts(out, "</option>");
}

static void put_controls(const struct report_input *in, struct text *out)
{
    static const char *const verdicts[][2] = {
        {"", "all"}, {"right", "right"}, {"wrong", "wrong"}, {"kept-wrong", "wrong and kept"}, {"kept", "kept"},
        {"off", "handed off"}, {"unparsed", "unparsed"}, {"truncated", "truncated"}};
    text_puts(out, "<div class=\"tools\">");
    if (in->n_runs > 1) {
        text_puts(out, "<label>run<select id=\"f-run\">");
        for (int i = 0; i < in->n_runs; i++) {
            char value[16];
            snprintf(value, sizeof value, "%d", i);
            put_option(out, value, in->runs[i]);
        }
        text_puts(out, "</select></label>");
    }
    text_puts(out, "<label>hold-out<select id=\"f-task\"><option value=\"\">all</option>");
    for (int i = 0; i < in->auroc->runs[0].n_tasks; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        put_option(out, value, in->auroc->runs[0].tasks[i].task);
    }
    text_puts(out, "</select></label><label>show<select id=\"f-verdict\">");
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        put_option(out, verdicts[i][0], verdicts[i][1]);
    if (in->n_runs > 1)
        put_option(out, "differs", "right in one run only");
    text_puts(out, "</select></label>"
              "<label>confidence from<input type=\"number\" id=\"f-lo\" min=\"0\" max=\"1\" step=\"0.05\"></label>"
              "<label>to<input type=\"number\" id=\"f-hi\" min=\"0\" max=\"1\" step=\"0.05\"></label>"
              "<label class=\"search\">search<input type=\"search\" id=\"f-text\" "
              "placeholder=\"question, answer, gold, id\"></label></div>\n");
}

void put_viewer(const struct report_input *in, struct text *out)
{
    static const struct { const char *key, *label; bool number; } heads[] = {
        {"task", "hold-out", false}, {"question", "question", false}, {"output", "output", false},
        {"gold", "gold", false}, {"verdict", "verdict", false}, {"confidence", "confidence", true},
        {"entropy", "entropy", true}};
    text_puts(out, "<section id=\"sample-viewer\" class=\"viewer\" aria-label=\"Samples\"><h2>Samples</h2>\n"
              "<noscript><p>The list of samples needs JavaScript; every other part of this page does not. The records "
              "themselves are JSON lines.</p></noscript>\n");
    if (in->n_samples < in->n_samples_total)
        text_printf(out, "<p>The first %d of %" PRId64 " samples.</p>\n", in->n_samples, in->n_samples_total);
    put_controls(in, out);
    text_puts(out, "<p id=\"count\" role=\"status\" aria-live=\"polite\"></p>\n"
              "<div class=\"grid\" role=\"table\" aria-label=\"Samples\"><div class=\"heads\" role=\"row\">");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        text_printf(out, "<button type=\"button\" role=\"columnheader\" aria-sort=\"none\" class=\"c-%s%s\" "
                    "data-key=\"%s\" data-label=\"%s\">%s</button>", heads[i].key, heads[i].number ? " n" : "",
                    heads[i].key, heads[i].label, heads[i].label);
    text_puts(out, "</div><div class=\"list\" id=\"list\" role=\"rowgroup\" tabindex=\"0\" aria-label=\"Samples; arrow "
              "keys choose one\"><div id=\"space\"></div></div></div>\n"
              "<div class=\"one\" id=\"one\" aria-live=\"polite\">Choose a sample to see its question and every run's "
              "answer.</div>\n</section>\n");
    put_data(in, out);
}
