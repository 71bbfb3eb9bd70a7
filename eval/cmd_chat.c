/* cmd_chat.c - the verb `chat`: a conversation in the terminal that shows each answer's confidence. */
#define _GNU_SOURCE
#include "eval/answer_print.h"
#include "eval/cli.h"
#include "eval/dialog.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chat_args {
    const char *model, *mmproj, *probe, *system, *kernel, *activations;
    int64_t max_tokens, threads, seed, image_tokens, probe_layer;
    double temperature, top_p, threshold;
    bool think, json;
};

/* How it looks. */
struct screen {
    bool terminal, colour;
    size_t shown, shown_thought;            /* bytes of the reply that are out */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static int check_args(const struct chat_args *a, struct err *e)
{
    if (!a->model)
        return err_set(e, EXIT_USAGE, "chat: --model is missing; see \"handoff chat --help\"");
    return cli_range("--max-tokens", (double)a->max_tokens, 1, 1 << 20, e) ||
           cli_range("--threads", (double)a->threads, 0, 1024, e) ||
           cli_range("--temperature", a->temperature, 0, INFINITY, e) || cli_range("--top-p", a->top_p, 0, 1, e) ||
           cli_range("--threshold", a->threshold, 0, 1, e) ? -1 : 0;
}

/* ---- output ---------------------------------------------------------------------------------------------------- */

/* What the model says must not steer the terminal. */
static void put_shown(const struct screen *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
                       (c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0);
        if (s->terminal && control)
            fputc('?', stdout);
        else
            fputc(c, stdout);
    }
}

/* Thoughts are for people only, and dimmed. */
static bool show(void *user, const struct reply *r)
{
    struct screen *s = user;
    if (s->terminal && r->thought.len > s->shown_thought) {
        fputs(s->colour ? "\033[2m" : "", stdout);
        put_shown(s, r->thought.data + s->shown_thought, r->thought.len - s->shown_thought);
        fputs(s->colour ? "\033[0m" : "", stdout);
        s->shown_thought = r->thought.len;
    }
    if (r->sure > s->shown) {
        if (s->shown == 0 && s->shown_thought)
            fputs("\n\n", stdout);
        put_shown(s, r->content.data + s->shown, r->sure - s->shown);
        s->shown = r->sure;
    }
    fflush(stdout);
    return !interrupted;
}

static bool stay_quiet(void *user, const struct reply *r)
{
    (void)user;
    (void)r;
    return !interrupted;
}

static void put_bar(struct text *t, double confidence)
{
    const int full = (int)lround(confidence * 10);
    for (int i = 0; i < 10; i++)
        text_puts(t, i < full ? "\xe2\x96\xb0" : "\xe2\x96\xb1");          /* U+25B0, U+25B1 */
}

/* The rest of the answer and the line below it. */
static void put_end(const struct screen *s, const struct answer *a, const struct text *content, double threshold,
                    struct text *t)
{
    const bool handoff = a->has_probe && a->probe.confidence < threshold;
    const char *colour = !s->colour ? "" : handoff ? "\033[31m" : "\033[32m", *plain = s->colour ? "\033[0m" : "";
    put_shown(s, content->data + s->shown, content->len - s->shown);
    text_puts(t, a->stop == STOP_EOS ? "\n" : a->stop == STOP_ASKED ? " [stopped]\n" : " [cut]\n");
    if (a->has_probe) {
        text_printf(t, "%s", colour);
        if (s->terminal)
            put_bar(t, a->probe.confidence);
        text_printf(t, "%sconfidence %.4f%s%s\n", s->terminal ? " " : "", a->probe.confidence,
                    handoff ? "  would hand off" : "", plain);
    }
    text_putc(t, '\n');
}

static void put_json(struct dialog *d, const struct answer *a, struct text *t)
{
    struct text output = {0};
    answer_output(engine_tokenizer(d->m), a, &output);
    text_putc(t, '{');
    answer_put_json(t, a, &output);
    text_printf(t, ",\"cached_tokens\":%d}\n", d->n_reused);
    text_free(&output);
}

/* ---- input ----------------------------------------------------------------------------------------------------- */

static const char help[] =
    "  /image FILE   a picture in front of the next message\n"
    "  /audio FILE   a sound in front of the next message\n"
    "  /reset        begin anew\n"
    "  /help         this list\n"
    "  /quit         leave (so does the end of input)\n"
    "  Ctrl-C        stops an answer, or leaves\n";

static void reset(struct dialog *d, const struct chat_args *a)
{
    struct engine *m = d->m;
    const struct probe *p = d->probe;
    dialog_end(d);
    dialog_start(d, m, p, a->system);
    d->c.enable_thinking = a->think;
}

static int say(struct dialog *d, const struct chat_args *a, struct screen *s, const char *line, struct err *e)
{
    const struct decode_settings settings = {.max_tokens = (int)a->max_tokens, .temperature = a->temperature,
                                             .top_p = a->top_p, .seed = (uint64_t)a->seed};
    struct answer answer = {0};
    struct text content = {0}, t = {0};
    s->shown = s->shown_thought = 0;
    dialog_say(d, line);
    int failed = dialog_answer(d, &settings, a->json ? stay_quiet : show, s, &answer, &content, e);
    if (!failed) {
        interrupted = 0;
        if (a->json)
            put_json(d, &answer, &t);
        else
            put_end(s, &answer, &content, a->threshold, &t);
        failed = cli_print(&t, e);
    }
    answer_free(&answer);
    text_free(&content);
    text_free(&t);
    return failed;
}

/* 1 if the conversation is over. */
static int take_command(struct dialog *d, const struct chat_args *a, struct screen *s, const char *line, struct err *e)
{
    const char *file = strchr(line, ' ');
    const size_t n = file ? (size_t)(file - line) : strlen(line);
    if (n == 5 && memcmp(line, "/quit", n) == 0)
        return 1;
    if (n == 5 && memcmp(line, "/help", n) == 0)
        return fputs(help, stdout) < 0;
    if (n == 6 && memcmp(line, "/reset", n) == 0) {
        reset(d, a);
        return 0;
    }
    const bool image = n == 6 && memcmp(line, "/image", n) == 0;
    if ((image || (n == 6 && memcmp(line, "/audio", n) == 0)) && file && file[1]) {
        int failed = dialog_attach(d, image ? MEDIA_IMAGE : MEDIA_AUDIO, file + 1, e);
        if (!failed && s->terminal)
            printf("  %s\n", file + 1);
        return failed;
    }
    return err_input(e, "\"%.100s\": /image FILE, /audio FILE, /reset, /help or /quit was expected (a blank before the "
                     "slash makes it a message)", line);
}

static int check_line(const char *line, size_t len, int number, struct err *e)
{
    size_t bad;
    if (memchr(line, '\0', len) || !utf8_valid(line, len, &bad))
        return err_input(e, "line %d: UTF-8 without NUL was expected", number);
    return 0;
}

/* On a terminal an error is said and the conversation goes on; in a pipe it ends it. */
static int converse(struct dialog *d, const struct chat_args *a, struct screen *s, struct err *e)
{
    const bool typed = isatty(0);
    char *line = NULL;
    size_t room = 0;
    int result = 0;
    for (int number = 1; result == 0; number++) {
        if (typed && s->terminal) {
            fputs(s->colour ? "\033[1m> \033[0m" : "> ", stdout);
            fflush(stdout);
        }
        errno = 0;
        ssize_t len = getline(&line, &room, stdin);
        if (len < 0)
            break;
        while (len > 0 && strchr("\r\n", line[len - 1]))
            line[--len] = '\0';
        result = check_line(line, (size_t)len, number, e);
        if (result == 0 && len > 0)
            result = line[0] == '/' ? take_command(d, a, s, line, e) : say(d, a, s, line, e);
        if (result < 0 && typed && e->code == EXIT_BAD_INPUT) {
            cli_fail(e);
            result = 0;
        }
    }
    free(line);
    if (typed && s->terminal && result == 0)
        fputc('\n', stdout);
    return result < 0 ? -1 : 0;
}

static int chat(const struct chat_args *a, struct err *e)
{
    struct engine *m = NULL;
    struct probe *p = NULL;
    struct engine_options options = {.n_threads = (int)a->threads, .kernel = a->kernel, .activations = a->activations,
                                     .image_tokens = (int)a->image_tokens, .mmproj = a->mmproj};
    int failed = engine_open(&m, a->model, &options, e) || probe_open_for(&p, m, a->probe, a->probe_layer, e);
    if (!failed && !engine_chat_template(m))
        failed = err_input(e, "%s: no chat template (chat_template.jinja was expected)", a->model);
    if (!failed) {
        struct screen s = {.terminal = isatty(1) && !a->json};
        struct sigaction stop = {.sa_handler = on_signal};
        struct dialog d;
        const char *no_colour = getenv("NO_COLOR");
        s.colour = s.terminal && !(no_colour && *no_colour);
        sigaction(SIGINT, &stop, NULL);
        if (s.terminal && isatty(0))
            printf("%s  (%s; /help)\n", path_base(a->model), p ? "with a handoff probe" : "no handoff probe");
        dialog_start(&d, m, p, a->system);
        d.c.enable_thinking = a->think;
        failed = converse(&d, a, &s, e);
        dialog_end(&d);
    }
    probe_close(p);
    engine_close(m);
    return failed;
}

int cmd_chat(int argc, char **argv)
{
    struct chat_args a = {.max_tokens = 1024, .threshold = 0.85, .probe_layer = -1};
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--system", OPT_STRING, &a.system, "TEXT", "system message"},
        {"--threshold", OPT_DOUBLE, &a.threshold, "T", "hand off below this confidence (0.85)"},
        {"--think", OPT_FLAG, &a.think, NULL, "enable_thinking of the chat template"},
        {"--max-tokens", OPT_INT, &a.max_tokens, "N", "limit of generated tokens of an answer (1024)"},
        {"--temperature", OPT_DOUBLE, &a.temperature, "T", "0: greedy, the default"},
        {"--top-p", OPT_DOUBLE, &a.top_p, "P", "draw from the most likely tokens that make up P"},
        {"--seed", OPT_INT, &a.seed, "N", "of the draws (0)"},
        {"--image-tokens", OPT_INT, &a.image_tokens, "N", "soft tokens an image may take: 70 140 280 560 1120"},
        {"--threads", OPT_INT, &a.threads, "N", "threads (all); never changes an answer"},
        {"--kernel", OPT_STRING, &a.kernel, "K", "generic, avx2, avx512, avx512vnni, neon (the best there is)"},
        {"--activations", OPT_STRING, &a.activations, "K", "float32, or int8 in front of quantised weights"},
        {"--json", OPT_FLAG, &a.json, NULL, "one JSON object for each answer, as of generate"},
        {0}};
    const struct usage usage = {
        "chat", "--model M [options]",
        "A conversation: one line of input, one answer, with its confidence below. /image FILE and /audio FILE put a\n"
        "picture or a sound in front of the next message; /reset begins anew. Lines may come from a pipe.",
        options, "printf 'What is 3 + 4?\\nAnd 5 + 6?\\n' | handoff chat --model datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = check_args(&a, &e) || chat(&a, &e);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
