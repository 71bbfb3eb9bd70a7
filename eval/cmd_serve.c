/* cmd_serve.c - the verb `serve`: the checkpoint behind an OpenAI-compatible server, with its confidence. */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "eval/serve.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct serve_args {
    const char *model, *mmproj, *probe, *host, *name, *kernel, *activations;
    int64_t port, threads, batch, queue, context, max_tokens, max_media, image_tokens, probe_layer;
    double max_body_mb, max_audio, slow, timeout, threshold;
    bool trailer;
};

/* How long what runs may go on behind a signal, and how long its last bytes may take. */
static const double grace_s = 5, flush_s = 2;

static int check_args(const struct serve_args *a, struct err *e)
{
    if (!a->model)
        return err_set(e, EXIT_USAGE, "serve: --model is missing; see \"handoff serve --help\"");
    return cli_range("--port", (double)a->port, 0, 65535, e) ||
           cli_range("--threads", (double)a->threads, 0, 1024, e) ||
           cli_range("--batch", (double)a->batch, 1, 1024, e) || cli_range("--queue", (double)a->queue, 1, 1e5, e) ||
           cli_range("--context", (double)a->context, 2, 1 << 24, e) ||
           cli_range("--max-tokens", (double)a->max_tokens, 1, 1 << 20, e) ||
           cli_range("--max-media", (double)a->max_media, 0, 1e4, e) ||
           cli_range("--max-body", a->max_body_mb, 0.001, 4096, e) ||
           cli_range("--max-audio", a->max_audio, 0.001, 3600, e) || cli_range("--slow", a->slow, 0.1, 1e6, e) ||
           cli_range("--timeout", a->timeout, 0.1, 1e6, e) ||
           (!isnan(a->threshold) && cli_range("--threshold", a->threshold, 0, 1, e)) ? -1 : 0;
}

/* The last part of the path, which may end in slashes. */
static char *name_of(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    char *whole = mem_strndup(path, len), *name = mem_strdup(path_base(whole));
    free(whole);
    return name;
}

/* Answers are there; their last bytes may still be on the way to the clients. */
static void wait_until_sent(struct service *s)
{
    const double end = clock_ms() + flush_s * 1000;
    for (int held = 1; held && clock_ms() < end;) {
        pthread_mutex_lock(&s->lock);
        held = s->n_held;
        pthread_mutex_unlock(&s->lock);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

static int serve(const struct serve_settings *set, struct engine *m, const struct probe *p, struct err *e)
{
    struct service s;
    struct http_server *http = NULL;
    struct text said = {0};
    const volatile sig_atomic_t *stop_asked = cli_catch_signals();
    signal(SIGPIPE, SIG_IGN);
    if (service_start(&s, m, p, set, e))
        return -1;
    int failed = http_start(&http, &s, e);
    if (!failed) {
        text_printf(&said, "%s at http://%s%s%s:%d/v1\n", set->model_name, strchr(set->host, ':') ? "[" : "", set->host,
                    strchr(set->host, ':') ? "]" : "", http_port(http));
        failed = cli_print(&said, e);
        text_free(&said);
    }
    while (!failed && !*stop_asked) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        http_look_after(http);
    }
    if (http)
        http_stop_listening(http);
    service_stop(&s, grace_s);
    if (http)
        wait_until_sent(&s);
    http_stop(http);
    return failed;
}

static int open_and_serve(const struct serve_args *a, struct err *e)
{
    struct engine *m = NULL;
    struct probe *p = NULL;
    struct engine_options options = {.n_threads = (int)a->threads, .kernel = a->kernel, .activations = a->activations,
                                     .image_tokens = (int)a->image_tokens, .mmproj = a->mmproj};
    int failed = engine_open(&m, a->model, &options, e) || probe_open_for(&p, m, a->probe, a->probe_layer, e);
    if (!failed && !engine_chat_template(m))
        failed = err_input(e, "%s: no chat template (chat_template.jinja was expected)", a->model);
    if (!failed) {
        const int positions = engine_info(m)->max_positions, context = (int)a->context;
        const size_t max_body = (size_t)(a->max_body_mb * 1e6);
        char *name = a->name ? mem_strdup(a->name) : name_of(a->model);
        struct serve_settings set = {
            .host = a->host, .model_name = name, .port = (int)a->port, .batch = (int)a->batch, .queue = (int)a->queue,
            .context = context < positions ? context : positions, .max_body = max_body,
            .max_bodies = 8 * max_body, .max_audio_s = a->max_audio, .slow_s = a->slow, .timeout_s = a->timeout,
            .threshold = a->threshold, .trailer = a->trailer,
            .limits = {.max_tokens = (int)a->max_tokens, .max_media = (int)a->max_media}};
        failed = serve(&set, m, p, e);
        free(name);
    }
    probe_close(p);
    engine_close(m);
    return failed;
}

int cmd_serve(int argc, char **argv)
{
    struct serve_args a = {.host = "127.0.0.1", .port = 8080, .batch = 8, .queue = 256, .context = 8192,
                           .max_tokens = 1024, .max_media = 32, .probe_layer = -1, .max_body_mb = 32, .max_audio = 300,
                           .slow = 30, .timeout = 600, .threshold = NAN};
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--host", OPT_STRING, &a.host, "H", "address to listen on (127.0.0.1: this machine only)"},
        {"--port", OPT_INT, &a.port, "N", "port (8080); 0: any that is free"},
        {"--threshold", OPT_DOUBLE, &a.threshold, "T", "adds \"handoff\": true where the confidence is below it"},
        {"--trailer", OPT_FLAG, &a.trailer, NULL, "ends each content with the line [[hybrid:confidence=0.7812]]"},
        {"--model-name", OPT_STRING, &a.name, "S", "what it is called in answers (last part of the path)"},
        {"--batch", OPT_INT, &a.batch, "N", "requests answered at a time (8); never changes an answer"},
        {"--queue", OPT_INT, &a.queue, "N", "requests that may wait (256); more are refused with 429"},
        {"--context", OPT_INT, &a.context, "N", "tokens of prompt and answer together (8192)"},
        {"--max-tokens", OPT_INT, &a.max_tokens, "N", "generated tokens that a request may ask for (1024)"},
        {"--max-body", OPT_DOUBLE, &a.max_body_mb, "MB", "size of a request (32)"},
        {"--max-media", OPT_INT, &a.max_media, "N", "pictures and sounds of a request (32)"},
        {"--max-audio", OPT_DOUBLE, &a.max_audio, "S", "seconds of a sound (300)"},
        {"--image-tokens", OPT_INT, &a.image_tokens, "N", "soft tokens an image may take: 70 140 280 560 1120"},
        {"--slow", OPT_DOUBLE, &a.slow, "S", "seconds that a client may take to send its request (30)"},
        {"--timeout", OPT_DOUBLE, &a.timeout, "S", "seconds that an answer may take, waiting included (600)"},
        {"--threads", OPT_INT, &a.threads, "N", "threads (all); never changes an answer"},
        {"--kernel", OPT_STRING, &a.kernel, "K", "generic, avx2, avx512, avx512vnni, neon (the best there is)"},
        {"--activations", OPT_STRING, &a.activations, "K", "float32, or int8 in front of quantised weights"},
        {0}};
    const struct usage usage = {
        "serve", "--model M [options]",
        "An OpenAI-compatible server: /v1/chat/completions (also as a stream) with \"confidence\", \"p_wrong\" and\n"
        "\"entropy\" beside the answer and in the last chunk; /v1/models, /health, /metrics. Greedy unless asked "
        "otherwise.\nCtrl-C ends it.",
        options,
        "handoff serve --model datasets/mini/checkpoint --threshold 0.85 --port 8080 &\n"
        "  curl -s --retry 9 --retry-connrefused localhost:8080/v1/chat/completions \\\n"
        "    -H 'Content-Type: application/json' \\\n"
        "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is 3 + 4?\"}]}'; kill $!"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    int failed = check_args(&a, &e) || open_and_serve(&a, &e);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
