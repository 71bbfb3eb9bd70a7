/* cmd_generate.c - the verb `generate`: one answer with its confidence. */
#define _GNU_SOURCE
#include "eval/answer.h"
#include "eval/answer_print.h"
#include "eval/cli.h"
#include "eval/conversation.h"
#include "eval/grade.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct generate_args {
    const char *model, *mmproj, *probe, *prompt, *messages, *tokens, *kernel, *activations;
    struct strings images, audios;
    int64_t max_tokens, threads, seed, image_tokens, probe_layer;
    double temperature, top_p, threshold, max_audio;
    bool ignore_eos, json;
};

static int parse_tokens(const char *list, struct ids *ids, struct err *e)
{
    while (*list) {
        char *end;
        errno = 0;
        long v = strtol(list, &end, 10);
        if (end == list || errno || v < 0 || v > INT32_MAX || (*end && *end != ','))
            return err_set(e, EXIT_USAGE, "--tokens: ids joined by commas were expected, not \"%s\"", list);
        ids_push(ids, (int32_t)v);
        list = *end ? end + 1 : end;
    }
    return 0;
}

static int check_args(const struct generate_args *a, struct err *e)
{
    int given = (a->prompt != NULL) + (a->messages != NULL) + (a->tokens != NULL);
    if (!a->model || given != 1)
        return err_set(e, EXIT_USAGE, "generate: --model and one of --prompt, --messages, --tokens are needed; see "
                       "\"handoff generate --help\"");
    if (!a->prompt && (a->images.n || a->audios.n))
        return err_set(e, EXIT_USAGE, "generate: --image and --audio go with --prompt; --messages names its own");
    return cli_range("--max-tokens", (double)a->max_tokens, 0, 1 << 20, e) ||
           cli_range("--threads", (double)a->threads, 0, 1024, e) ||
           cli_range("--temperature", a->temperature, 0, INFINITY, e) || cli_range("--top-p", a->top_p, 0, 1, e) ||
           cli_range("--max-audio", a->max_audio, 0, 1e9, e) || cli_range("--threshold", a->threshold, 0, 1, e) ? -1 : 0;
}

static int make_prompt(const struct generate_args *a, struct engine *m, struct ids *ids, float **soft, struct err *e)
{
    *soft = NULL;
    if (a->tokens) {
        if (parse_tokens(a->tokens, ids, e))
            return -1;
        for (int i = 0; i < ids->n; i++)
            if (ids->id[i] >= engine_info(m)->vocab_size)
                return err_set(e, EXIT_USAGE, "--tokens: id %d, but the vocabulary ends at %d", (int)ids->id[i],
                               engine_info(m)->vocab_size - 1);
        return 0;
    }
    struct conversation c;
    int failed = a->messages ? conversation_read(&c, a->messages, e)
                             : conversation_make(&c, a->prompt, a->images.at, a->images.n, a->audios.at, a->audios.n,
                                                 e);
    if (failed)
        return -1;
    conversation_limit_audio(&c, a->max_audio);
    failed = conversation_prompt(m, &c, ids, soft, e);
    conversation_free(&c);
    return failed;
}

static void print_text(const struct answer *a, const struct text *output, double threshold, struct text *t)
{
    struct arena arena = {0};
    struct visible v;
    visible_answer(output->data, &arena, &v);
    text_printf(t, "%s\n\n", v.text);
    if (a->has_probe)
        text_printf(t, "confidence %.4f  %s at threshold %g\n", a->probe.confidence,
                    a->probe.confidence < threshold ? "hand off" : "keep", threshold);
    text_printf(t, "%d token%s, stop: %s", a->tokens.n, a->tokens.n == 1 ? "" : "s", answer_stop_name(a->stop));
    if (a->n_answer_tokens)
        text_printf(t, ", entropy mean %.4f max %.4f nats", a->entropy.mean, a->entropy.max);
    text_puts(t, "\n");
    arena_free(&arena);
}

static int answer_prompt(const struct generate_args *args, struct engine *m, const struct probe *p,
                         struct answer_request *r, struct err *e)
{
    struct batcher *b = batcher_new(m, p, 1);
    struct answer a = {0};
    struct text output = {0}, t = {0};
    int failed = 0;
    batcher_add(b, r);
    while (!failed && !batcher_take(b, &a))
        failed = batcher_step(b, e);
    if (!failed && a.err.code) {
        *e = a.err;
        failed = -1;
    }
    if (!failed) {
        answer_output(engine_tokenizer(m), &a, &output);
        if (args->json) {
            text_putc(&t, '{');
            answer_put_json(&t, &a, &output);
            text_puts(&t, "}\n");
        } else {
            print_text(&a, &output, args->threshold, &t);
        }
        failed = cli_print(&t, e);
    }
    answer_free(&a);
    batcher_free(b);
    text_free(&output);
    text_free(&t);
    return failed;
}

static int generate(const struct generate_args *a, struct err *e)
{
    struct engine *m = NULL;
    struct probe *p = NULL;
    struct answer_request r = {.settings = {.max_tokens = a->max_tokens ? (int)a->max_tokens : 256, .temperature = a->temperature,
                                            .top_p = a->top_p, .seed = (uint64_t)a->seed,
                                            .ignore_eos = a->ignore_eos}};
    struct engine_options options = {.n_threads = (int)a->threads, .kernel = a->kernel, .activations = a->activations,
                                     .image_tokens = (int)a->image_tokens, .mmproj = a->mmproj};
    int failed = engine_open(&m, a->model, &options, e) ||
                 probe_open_for(&p, m, a->probe, a->probe_layer, e);
    if (!failed)
        failed = make_prompt(a, m, &r.prompt, &r.soft, e);
    if (!failed)
        failed = answer_prompt(a, m, p, &r, e);
    ids_free(&r.prompt);
    free(r.soft);
    probe_close(p);
    engine_close(m);
    return failed;
}

int cmd_generate(int argc, char **argv)
{
    struct generate_args a = {.threshold = 0.85, .probe_layer = -1};
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--prompt", OPT_TEXT, &a.prompt, "TEXT", "one user message"},
        {"--image", OPT_STRINGS, &a.images, "FILE", "picture before the text (may be repeated)"},
        {"--audio", OPT_STRINGS, &a.audios, "FILE", "sound before the text (may be repeated)"},
        {"--messages", OPT_STRING, &a.messages, "F.json", "a whole conversation; media are found relative to it"},
        {"--tokens", OPT_STRING, &a.tokens, "2,105,...", "token ids as they are"},
        {"--max-tokens", OPT_INT, &a.max_tokens, "N", "limit of generated tokens (0: 256)"},
        {"--temperature", OPT_DOUBLE, &a.temperature, "T", "0: greedy, the default"},
        {"--top-p", OPT_DOUBLE, &a.top_p, "P", "draw from the most likely tokens that make up P"},
        {"--seed", OPT_INT, &a.seed, "N", "of the draws (0)"},
        {"--ignore-eos", OPT_FLAG, &a.ignore_eos, NULL, "go on behind a stop token"},
        {"--threshold", OPT_DOUBLE, &a.threshold, "T", "hand off below this confidence (0.85)"},
        {"--image-tokens", OPT_INT, &a.image_tokens, "N", "soft tokens an image may take: 70 140 280 560 1120"},
        {"--max-audio", OPT_DOUBLE, &a.max_audio, "S", "use at most S seconds of a sound (0: all, over 30 s in stretches)"},
        {"--threads", OPT_INT, &a.threads, "N", "threads (all); never changes a result"},
        {"--kernel", OPT_STRING, &a.kernel, "K", "generic, avx2, avx512, avx512vnni, neon (the best there is)"},
        {"--activations", OPT_STRING, &a.activations, "K", "float32, or int8 in front of quantised weights"},
        {"--json", OPT_FLAG, &a.json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "generate", "--model M (--prompt TEXT | --messages F.json | --tokens IDS) [options]",
        "One answer with its confidence.", options,
        "handoff generate --model datasets/mini/checkpoint --prompt 'What is 3 + 4?'"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = check_args(&a, &e) || generate(&a, &e);
    free(a.images.at);
    free(a.audios.at);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
