/* `handoff serve` from outside: answers equal those of `generate`, alone and among many, and nothing that a client
 * sends does harm. */
#define _GNU_SOURCE
#include "eval/base64.h"
#include "eval/visible.h"
#include "tests/server.h"

#include <pthread.h>

enum { N_CLIENTS = 64, MAX_PROMPTS = 32 };

/* A request and what `generate --json` says to the same prompt. */
struct expected { char *messages; cJSON *json; const char *text; };
#define MINI "datasets/mini/"
static struct expected expected[MAX_PROMPTS];
static int n_expected;
static struct server plain, trailing;

static cJSON *generate(const char *arguments)
{
    struct text command = {0}, out = {0};
    char part[4096];
    size_t n;
    text_printf(&command, "%s generate --json --model " CHECKPOINT " --max-tokens 1024 %s", program(), arguments);
    FILE *f = popen(command.data, "r");
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        text_put(&out, part, n);
    cJSON *json = f && pclose(f) == 0 ? cJSON_ParseWithLength(out.data, out.len) : NULL;
    CHECK_MSG(json != NULL, "%s", command.data);
    text_free(&command);
    text_free(&out);
    return json;
}

static void expect(const char *arguments, char *messages)
{
    struct expected *x = &expected[n_expected++];
    x->messages = messages;
    x->json = generate(arguments);
    x->text = json_string(x->json, "text");
}

static void expect_text(const char *prompt)
{
    struct text arguments = {0}, messages = {0};
    text_printf(&arguments, "--prompt '%s'", prompt);
    text_puts(&messages, "[{\"role\":\"user\",\"content\":");
    json_put_string(&messages, prompt, strlen(prompt));
    text_puts(&messages, "}]");
    expect(arguments.data, text_take(&messages));
    text_free(&arguments);
}

static void expect_media(const char *option, const char *path, const char *prompt)
{
    struct text arguments = {0}, messages = {0};
    struct mapped file = {0};
    struct err e = {0};
    if (!CHECK_MSG(map_open(&file, path, &e) == 0, "%s", e.msg))
        return;
    text_printf(&arguments, "%s %s --prompt '%s'", option, path, prompt);
    text_puts(&messages, "[{\"role\":\"user\",\"content\":[");
    if (strcmp(option, "--image") == 0) {
        text_puts(&messages, "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,");
        base64_encode(file.data, file.size, &messages);
        text_puts(&messages, "\"}}");
    } else {
        text_puts(&messages, "{\"type\":\"input_audio\",\"input_audio\":{\"format\":\"wav\",\"data\":\"");
        base64_encode(file.data, file.size, &messages);
        text_puts(&messages, "\"}}");
    }
    text_printf(&messages, ",{\"type\":\"text\",\"text\":\"%s\"}]}]", prompt);
    expect(arguments.data, text_take(&messages));
    map_close(&file);
    text_free(&arguments);
}

static void prepare(void)
{
    static const char *const prompts[] = {
        "What is 3 + 4?", "Which is a metal?\nA. oxygen\nB. iron\nAnswer with the letter.", "Hello", "é ✓ 漢字 \"x\"",
        "Tom has 12 apples and buys 7 more. How many apples has he? Think step by step.", "Count to twenty.",
        "Name a colour.", "What is the capital of France?"};
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        expect_text(prompts[i]);
    expect_media("--image", MINI "docvqa/documents/0000.png", "What is the total?");
    expect_media("--audio", MINI "transcribe/test-clean/102/1001/102-1001-0004.flac", "Transcribe the sound.");
    plain = server_start((const char *const[]){"--threshold", "0.5", "--slow", "2", "--max-body", "1", NULL});
    trailing = server_start((const char *const[]){"--trailer", "--batch", "1", "--queue", "40", "--context", "200",
                                                  "--max-tokens", "64", "--max-media", "1", "--max-audio", "0.5",
                                                  NULL});
    CHECK(n_expected == 10);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static bool same_number(const cJSON *a, const cJSON *b)
{
    return cJSON_IsNumber(a) && cJSON_IsNumber(b) && a->valuedouble == b->valuedouble;
}

/* The confidence and what is beside it, to the last bit. */
static bool same_figures(const cJSON *reply, const struct expected *x)
{
    static const char *const keys[] = {"confidence", "p_wrong", "probe_logit"};
    static const char *const parts[] = {"mean", "max", "first", "sum"};
    const cJSON *here = json_get(reply, "entropy"), *there = json_get(x->json, "entropy");
    bool same = true;
    for (int i = 0; i < 3; i++)
        same &= same_number(json_get(reply, keys[i]), json_get(x->json, keys[i]));
    for (int i = 0; i < 4; i++) {
        const cJSON *a = json_get(here, parts[i]), *b = json_get(there, parts[i]);
        same &= same_number(a, b) || (cJSON_IsNull(a) && cJSON_IsNull(b));
    }
    bool handoff = json_get(reply, "confidence")->valuedouble < 0.5;
    return same && cJSON_IsTrue(json_get(reply, "handoff")) == handoff;
}

static bool same_usage(const cJSON *reply, const struct expected *x)
{
    const cJSON *usage = json_get(reply, "usage");
    return same_number(json_get(usage, "prompt_tokens"), json_get(x->json, "prompt_tokens")) &&
           json_get(usage, "completion_tokens")->valueint == cJSON_GetArraySize(json_get(x->json, "tokens"));
}

static const cJSON *first_choice(const cJSON *reply)
{
    const cJSON *choices = json_get(reply, "choices");
    return choices ? choices->child : NULL;
}

static bool same_finish(const char *reason, const struct expected *x)
{
    return reason && strcmp(reason, strcmp(json_string(x->json, "stop"), "eos") == 0 ? "stop" : "length") == 0;
}

static bool same_whole(const char *body, const struct expected *x)
{
    cJSON *reply = cJSON_Parse(body);
    const char *content = json_string(json_get(first_choice(reply), "message"), "content");
    bool same = content && strcmp(content, x->text) == 0 && same_figures(reply, x) && same_usage(reply, x) &&
                same_finish(json_string(first_choice(reply), "finish_reason"), x);
    cJSON_Delete(reply);
    return same;
}

/* Puts a stream together again: the content, and the last two chunks. */
static int join_stream(const char *body, struct text *content, cJSON **final, cJSON **usage)
{
    int n = 0;
    *final = *usage = NULL;
    text_puts(content, "");
    for (const char *at = body; strncmp(at, "data: ", 6) == 0; n++) {
        const char *end = strstr(at, "\n\n");
        if (!end)
            return -1;
        if (strncmp(at, "data: [DONE]", 12) == 0)
            return end[2] ? -1 : n;
        cJSON *chunk = cJSON_ParseWithLength(at + 6, (size_t)(end - at - 6));
        const char *piece = json_string(json_get(first_choice(chunk), "delta"), "content");
        text_puts(content, piece ? piece : "");
        cJSON **keep = !chunk ? NULL : json_string(first_choice(chunk), "finish_reason") ? final :
                       cJSON_IsObject(json_get(chunk, "usage")) ? usage : NULL;
        if (keep)
            *keep = chunk;
        else
            cJSON_Delete(chunk);
        at = end + 2;
    }
    return -1;
}

static bool same_stream(const char *body, const struct expected *x)
{
    struct text content = {0};
    cJSON *final, *usage;
    bool same = join_stream(body, &content, &final, &usage) > 0 && final && usage &&
                strcmp(content.data, x->text) == 0 && same_figures(final, x) && same_figures(usage, x) &&
                same_usage(usage, x) &&
                same_finish(json_string(first_choice(final), "finish_reason"), x);
    cJSON_Delete(final);
    cJSON_Delete(usage);
    text_free(&content);
    return same;
}

static bool ask(const struct expected *x, bool stream, struct text *body)
{
    struct text json = {0};
    text_printf(&json, "{\"model\":\"any\",\"messages\":%s%s}", x->messages,
                stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    int status = post_chat(&plain, json.data, json.len, body);
    text_free(&json);
    return status == 200 && (stream ? same_stream(body->data, x) : same_whole(body->data, x));
}

static void alone(void)
{
    struct text body = {0};
    for (int i = 0; i < 2 * n_expected; i++)
        CHECK_MSG(ask(&expected[i / 2], i % 2, &body), "prompt %d, %s: %s", i / 2, i % 2 ? "stream" : "whole",
                  body.data);
    text_free(&body);
}

static void *client(void *arg)
{
    uintptr_t n = (uintptr_t)arg, wrong = 0;
    struct text body = {0};
    for (uintptr_t i = n; i < n + 6; i++)
        wrong += !ask(&expected[i % (uintptr_t)n_expected], i / 2 % 2, &body);
    text_free(&body);
    return (void *)wrong;
}

static void many_at_a_time(void)
{
    pthread_t thread[N_CLIENTS];
    for (uintptr_t i = 0; i < N_CLIENTS; i++)
        CHECK(pthread_create(&thread[i], NULL, client, (void *)i) == 0);
    for (int i = 0; i < N_CLIENTS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        CHECK_MSG(wrong == NULL, "client %d: %d answers are wrong", i, (int)(uintptr_t)wrong);
    }
}

/* A client that breaks the connection somewhere in its request or its answer. */
static void leave_early(const struct expected *x, unsigned *random)
{
    struct text request = {0}, json = {0};
    text_printf(&json, "{\"messages\":%s,\"stream\":%s}", x->messages, rand_r(random) % 2 ? "true" : "false");
    chat_head(&request, json.len);
    text_put(&request, json.data, json.len);
    int fd = connect_to(&plain);
    send_all(fd, request.data, rand_r(random) % 3 ? request.len : (size_t)rand_r(random) % request.len);
    usleep((useconds_t)(rand_r(random) % 100000));
    close(fd);
    text_free(&request);
    text_free(&json);
}

static double soak_end_ms;

static void *soaking_client(void *arg)
{
    unsigned random = (unsigned)(uintptr_t)arg;
    uintptr_t wrong = 0;
    struct text body = {0};
    while (clock_ms() < soak_end_ms) {
        const struct expected *x = &expected[rand_r(&random) % n_expected];
        if (rand_r(&random) % 20 == 0)
            leave_early(x, &random);
        else if (!ask(x, rand_r(&random) % 2, &body)) {
            printf("  wrong: %.500s\n", body.data);
            wrong++;
        }
    }
    text_free(&body);
    return (void *)wrong;
}

static long resident_kb(const struct server *s)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)s->pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* SOAK_SECONDS=300: 64 clients for so long (scripts/soak-serve). */
static void soak(void)
{
    pthread_t thread[N_CLIENTS];
    const double start = clock_ms(), seconds = atof(getenv("SOAK_SECONDS"));
    soak_end_ms = start + seconds * 1000;
    for (uintptr_t i = 0; i < N_CLIENTS; i++)
        CHECK(pthread_create(&thread[i], NULL, soaking_client, (void *)(i + 1)) == 0);
    for (int i = 1; i <= 5; i++) {
        while (clock_ms() < start + seconds * 200 * i)
            usleep(100000);
        printf("  %.0f s: %.0f answers, %.0f clients left, server has %ld kB\n", seconds * i / 5,
               metric(&plain, "handoff_confidence_count"), metric(&plain, "handoff_clients_left_total"),
               resident_kb(&plain));
        fflush(stdout);
    }
    for (int i = 0; i < N_CLIENTS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        CHECK_MSG(wrong == NULL, "client %d: %d answers are wrong", i, (int)(uintptr_t)wrong);
    }
    CHECK(server_end(&plain, SIGTERM) == 0);
    CHECK(server_end(&trailing, SIGTERM) == 0);
}

static void metrics_add_up(void)
{
    double tokens = 0, handoffs = 0, confident = 0;
    int asked = 0;
    for (int i = 0; i < n_expected; i++) {              /* what the two cases above have asked */
        int times = 2;
        for (int k = 0; k < N_CLIENTS; k++)
            for (int r = k; r < k + 6; r++)
                times += r % n_expected == i;
        double confidence = json_get(expected[i].json, "confidence")->valuedouble;
        tokens += times * cJSON_GetArraySize(json_get(expected[i].json, "tokens"));
        handoffs += confidence < 0.5 ? times : 0;
        confident += confidence <= 0.25 ? times : 0;
        asked += times;
    }
    CHECK_NEAR(metric(&plain, "handoff_completion_tokens_total"), tokens, 0);
    CHECK_NEAR(metric(&plain, "handoff_confidence_count"), asked, 0);
    CHECK_NEAR(metric(&plain, "handoff_confidence_bucket{le=\"0.25\"}"), confident, 0);
    CHECK_NEAR(metric(&plain, "handoff_handoff_share"), handoffs / asked, 1e-12);
    CHECK_NEAR(metric(&plain, "handoff_requests_queued"), 0, 0);
    CHECK_NEAR(metric(&plain, "handoff_requests_running"), 0, 0);
    CHECK(metric(&plain, "handoff_requests_total{status=\"200\"}") > asked);
}

/* ---- what a request may ask for --------------------------------------------------------------------------------- */

static cJSON *ask_with(const struct server *s, const struct expected *x, const char *more)
{
    struct text json = {0}, body = {0};
    text_printf(&json, "{\"messages\":%s%s}", x->messages, more);
    CHECK_MSG(post_chat(s, json.data, json.len, &body) == 200, "%s: %s", more, body.data);
    cJSON *reply = cJSON_Parse(body.data);
    text_free(&json);
    text_free(&body);
    return reply;
}

static const char *content_of(const cJSON *reply)
{
    return json_string(json_get(first_choice(reply), "message"), "content");
}

static void stop_strings(void)
{
    for (int i = 0; i < n_expected; i++) {
        const char *text = expected[i].text;
        size_t len = strlen(text);
        if (len < 2 || (text[len - 1] & 0x80) || (text[len - 2] & 0x80))
            continue;
        struct text more = {0}, cut = {0};
        text_puts(&more, ",\"stop\":[\"never there\",");
        json_put_string(&more, text + len - 2, 2);
        text_puts(&more, "]");
        char stop[3] = {text[len - 2], text[len - 1]};
        text_put(&cut, text, (size_t)(strstr(text, stop) - text));
        text_puts(&cut, "");
        cJSON *reply = ask_with(&plain, &expected[i], more.data);
        CHECK_STR(content_of(reply), cut.data);
        CHECK_STR(json_string(first_choice(reply), "finish_reason"), "stop");
        cJSON_Delete(reply);
        text_free(&more);
        text_free(&cut);
    }
}

static void token_limits_and_draws(void)
{
    cJSON *one = ask_with(&plain, &expected[4], ",\"max_tokens\":1");
    CHECK_STR(json_string(first_choice(one), "finish_reason"), "length");
    CHECK(json_get(json_get(one, "usage"), "completion_tokens")->valueint == 1);
    cJSON_Delete(one);
    cJSON *drawn = generate("--prompt 'Count to twenty.' --temperature 1.5 --top-p 0.9 --seed 7");
    cJSON *reply = ask_with(&plain, &expected[5], ",\"temperature\":1.5,\"top_p\":0.9,\"seed\":7");
    CHECK_STR(content_of(reply), json_string(drawn, "text"));
    CHECK(strcmp(json_string(drawn, "text"), expected[5].text) != 0);
    cJSON_Delete(drawn);
    cJSON_Delete(reply);
}

static void log_probabilities(void)
{
    const struct expected *x = &expected[5];
    cJSON *reply = ask_with(&plain, x, ",\"logprobs\":true,\"top_logprobs\":3");
    const cJSON *entry = json_get(json_get(first_choice(reply), "logprobs"), "content")->child, *alternative;
    const cJSON *want = json_get(x->json, "logprobs")->child;
    struct text joined = {0};
    for (; entry; entry = entry->next, want = want->next) {
        CHECK(same_number(json_get(entry, "logprob"), want));
        double before = 0;
        CHECK(cJSON_GetArraySize(json_get(entry, "top_logprobs")) == 3);
        cJSON_ArrayForEach(alternative, json_get(entry, "top_logprobs")) {
            CHECK(json_get(alternative, "logprob")->valuedouble <= before);
            before = json_get(alternative, "logprob")->valuedouble;
        }
        CHECK(same_number(json_get(json_get(entry, "top_logprobs")->child, "logprob"), want));    /* it was greedy */
        text_puts(&joined, json_string(entry, "token"));
    }
    CHECK_STR(joined.data, x->text);
    text_free(&joined);
    cJSON_Delete(reply);
}

static void trailer(void)
{
    for (int i = 0; i < 8; i++) {
        cJSON *reply = ask_with(&trailing, &expected[i], ",\"max_tokens\":64");
        cJSON *whole = ask_with(&plain, &expected[i], ",\"max_tokens\":64");
        const char *content = content_of(reply);
        enum trailer_status status;
        double confidence = -1, exact = json_get(whole, "confidence")->valuedouble;
        size_t len = trailer_strip(content, strlen(content), &status, &confidence);
        CHECK(status == TRAILER_OK && len == strlen(content_of(whole)) && memcmp(content, content_of(whole), len) == 0);
        CHECK_NEAR(confidence, exact, 0.5e-4 + 1e-12);
        CHECK(same_number(json_get(reply, "confidence"), json_get(whole, "confidence")));
        CHECK(cJSON_Compare(json_get(reply, "usage"), json_get(whole, "usage"), true));
        CHECK(!json_get(reply, "handoff"));
        struct text streamed = {0}, body = {0}, json = {0};
        cJSON *final, *usage;
        text_printf(&json, "{\"messages\":%s,\"stream\":true,\"max_tokens\":64}", expected[i].messages);
        CHECK(post_chat(&trailing, json.data, json.len, &body) == 200);
        CHECK(join_stream(body.data, &streamed, &final, &usage) > 0 && !usage);
        CHECK_STR(streamed.data, content);
        cJSON_Delete(final);
        cJSON_Delete(reply);
        cJSON_Delete(whole);
        text_free(&streamed);
        text_free(&body);
        text_free(&json);
    }
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

#define USER "{\"role\":\"user\",\"content\":\"x\"}"
#define PART(part) "{\"messages\":[{\"role\":\"user\",\"content\":[" part "]}]}"
#define URL(url) PART("{\"type\":\"image_url\",\"image_url\":{\"url\":\"" url "\"}}")
#define SOUND(data) PART("{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"" data "\"}}")
static const struct refusal { const char *json; int status; const char *code; } refusals[] = {
    {"", 400, "invalid_json"},
    {"[]", 400, "invalid_json"},
    {"{\"messages\":[" USER "]", 400, "invalid_json"},
    {"{\"messages\":[" USER "],\"temperature\":NaN}", 400, "invalid_json"},
    {"{\"messages\":[" USER "],\"temperature\":1e999}", 400, "invalid_json"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\"}]}", 400, "invalid_json"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}", 400, "invalid_json"},
    {"{\"messages\":[" USER "],\"max_tokens\":1e300}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"max_tokens\":1000000000}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"max_completion_tokens\":0}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"max_tokens\":-1}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"max_tokens\":1.5}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"max_tokens\":\"7\"}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"top_logprobs\":21,\"logprobs\":true}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"top_logprobs\":2}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"stream\":1}", 400, "invalid_type"},
    {"{\"messages\":[" USER "],\"stop\":\"\"}", 400, "invalid_value"},
    {"{\"messages\":[" USER "],\"n\":2}", 400, "unsupported_parameter"},
    {"{\"messages\":[" USER "],\"tools\":[{\"type\":\"function\"}]}", 400, "unsupported_parameter"},
    {"{\"messages\":[" USER "],\"response_format\":{\"type\":\"json_object\"}}", 400, "unsupported_parameter"},
    {"{\"messages\":[]}", 400, "invalid_type"},
    {"{\"messages\":{}}", 400, "invalid_type"},
    {"{\"messages\":[1]}", 400, "invalid_role"},
    {"{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", 400, "invalid_role"},
    {"{\"messages\":[{\"role\":\"user\"}]}", 400, "invalid_type"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", 400, "invalid_type"},
    {PART("{\"type\":\"image\",\"image\":\"/etc/passwd\"}"), 400, "invalid_value"},
    {URL("file:///etc/passwd"), 400, "invalid_image_url"},
    {URL("http://127.0.0.1/x,y"), 400, "invalid_image_url"},
    {URL("data:image/png;base64,*"), 400, "invalid_base64"},
    {URL("data:image/png;base64,AAAA"), 400, "invalid_media"},
    {SOUND(""), 400, "invalid_media"},
    {SOUND("UklGRg=="), 400, "invalid_media"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"<|image|>\"}]}", 400, "invalid_prompt"},
};

static void check_refusal(const struct server *s, const char *json, size_t len, int status, const char *code)
{
    struct text body = {0};
    int got = post_chat(s, json, len, &body);
    cJSON *reply = cJSON_Parse(body.data);
    const cJSON *error = json_get(reply, "error");
    CHECK_MSG(got == status, "%.200s: status %d: %s", json, got, body.data);
    CHECK_MSG(error && json_string(error, "message") && json_string(error, "type") && json_string(error, "code") &&
              strcmp(json_string(error, "code"), code) == 0, "%.200s: %s", json, body.data);
    cJSON_Delete(reply);
    text_free(&body);
}

static void bad_requests(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        check_refusal(&plain, refusals[i].json, strlen(refusals[i].json), refusals[i].status, refusals[i].code);
    struct text deep = {0}, wide = {0};
    for (int i = 0; i < 100000; i++)
        text_putc(&deep, '[');
    text_puts(&wide, "{\"messages\":[0");
    for (int i = 0; i < 400000; i++)
        text_puts(&wide, ",0");
    text_puts(&wide, "]}");
    check_refusal(&plain, deep.data, deep.len, 400, "invalid_json");
    check_refusal(&plain, wide.data, wide.len, 400, "invalid_json");
    text_free(&deep);
    text_free(&wide);
}

static void limits(void)
{
    struct text json = {0}, two = {0};
    text_puts(&json, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 400; i++)
        text_puts(&json, "word ");
    text_puts(&json, "\"}]}");
    check_refusal(&trailing, json.data, json.len, 400, "context_length_exceeded");
    text_clear(&json);
    text_printf(&json, "{\"messages\":%s}", expected[9].messages);              /* a sound of more than half a second */
    check_refusal(&trailing, json.data, json.len, 400, "audio_too_long");
    const char *image = "{\"type\":\"image_url\",\"image_url\":\"data:image/png;base64,AAAA\"}";
    text_printf(&two, "{\"messages\":[{\"role\":\"user\",\"content\":[%s,%s]}]}", image, image);
    check_refusal(&trailing, two.data, two.len, 400, "too_many_media");
    text_clear(&json);
    for (int i = 0; i < 1000001; i++)
        text_putc(&json, ' ');
    check_refusal(&plain, json.data, json.len, 413, "body_too_large");
    text_free(&json);
    text_free(&two);
}

/* A head, and how it must end: an HTTP status, or 0 for a connection that is closed without one. */
static const struct raw { const char *bytes; int lowest, highest; } raws[] = {
    {"GET /v1/../v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404, 404},
    {"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404, 404},
    {"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404, 404},
    {"GET /health HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n", 403, 403},
    {"GET /health HTTP/1.1\r\nHost: LOCALHOST:1\r\nConnection: close\r\n\r\n", 200, 200},
    {"PUT /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405, 405},
    {"GET /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405, 405},
    {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/plain\r\n"
     "Content-Length: 2\r\n\r\n{}", 415, 415},
    {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
     415, 415},
    {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
     "Content-Length: 99999999999999999999999\r\n\r\n{}", 0, 499},
    {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
     "Content-Length: -1\r\n\r\n{}", 0, 499},
    {"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
     "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n", 0, 499},
    {"\x16\x03\x01\x02 this is not HTTP\r\n\r\n", 0, 499},
};

static void hostile_heads(void)
{
    struct text body = {0}, big = {0};
    for (size_t i = 0; i < sizeof raws / sizeof *raws; i++) {
        int got = exchange_raw(&plain, raws[i].bytes, strlen(raws[i].bytes), &body);
        CHECK_MSG(got >= raws[i].lowest && got <= raws[i].highest, "%.60s: status %d: %s", raws[i].bytes, got,
                  body.data);
    }
    text_puts(&big, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ");
    for (int i = 0; i < 10 << 20; i++)
        text_putc(&big, 'a');
    text_puts(&big, "\r\n\r\n");
    int got = exchange_raw(&plain, big.data, big.len, &body);
    CHECK_MSG(got == 0 || (got >= 400 && got < 500), "10 MB of head: status %d", got);
    text_free(&big);
    CHECK(get(&plain, "/health", &body) == 200);
    text_free(&body);
}

/* Head and body that never end are given up after --slow seconds. */
static void slow_clients(void)
{
    struct text head = {0}, reply = {0};
    int fd[20];
    chat_head(&head, 1000);
    for (int i = 0; i < 20; i++) {
        fd[i] = connect_to(&plain);
        send_all(fd[i], head.data, i % 2 ? head.len : head.len / 2);
    }
    double start = clock_ms();
    for (int i = 0; i < 20; i++)
        read_all(fd[i], &reply);
    CHECK_MSG(clock_ms() - start < 30e3, "slow clients hold their connections for %.0f ms", clock_ms() - start);
    CHECK(get(&plain, "/health", &reply) == 200);
    text_free(&head);
    text_free(&reply);
}

static double under_way(const struct server *s)
{
    return metric(s, "handoff_requests_queued") + metric(s, "handoff_requests_running");
}

/* One answer at a time, 40 wait, the rest is refused; when the clients leave, all places are free again. */
static void full_queue_and_clients_that_leave(void)
{
    struct text request = {0}, json = {0}, body = {0};
    int fd[60], refused = 0;
    text_puts(&json, "{\"messages\":[{\"role\":\"user\",\"content\":\"Count");
    for (int i = 0; i < 20; i++)
        text_puts(&json, " word");
    text_puts(&json, "\"}],\"temperature\":5,\"seed\":3}");
    chat_head(&request, json.len);
    text_put(&request, json.data, json.len);
    for (int i = 0; i < 60; i++)
        fd[i] = connect_to(&trailing);
    for (int i = 0; i < 60; i++)
        send_all(fd[i], request.data, request.len);
    usleep(100000);
    for (int i = 0; i < 60; i++) {
        char start[16] = "";
        refused += recv(fd[i], start, sizeof start - 1, MSG_DONTWAIT) > 0 && strstr(start, " 429");
        close(fd[i]);
    }
    CHECK_MSG(refused <= 20, "%d of 60 were refused, though 40 may wait", refused);
    for (int i = 0; i < 500 && under_way(&trailing) > 0; i++)
        usleep(10000);
    CHECK_NEAR(metric(&trailing, "handoff_requests_queued"), 0, 0);
    CHECK_NEAR(metric(&trailing, "handoff_requests_running"), 0, 0);
    CHECK(metric(&trailing, "handoff_clients_left_total") > 0);
    text_free(&json);
    text_printf(&json, "{\"messages\":%s}", expected[0].messages);
    CHECK(post_chat(&trailing, json.data, json.len, &body) == 200);
    text_free(&request);
    text_free(&json);
    text_free(&body);
}

static void signals(void)
{
    struct text json = {0}, body = {0}, request = {0};
    text_printf(&json, "{\"messages\":%s}", expected[4].messages);
    chat_head(&request, json.len);
    text_put(&request, json.data, json.len);
    int fd[8];
    for (int i = 0; i < 8; i++) {
        fd[i] = connect_to(&plain);
        send_all(fd[i], request.data, request.len);
    }
    CHECK(server_end(&plain, SIGTERM) == 0);
    for (int i = 0; i < 8; i++) {                       /* answered, refused as the server stops, or never taken */
        text_clear(&body);
        read_all(fd[i], &body);
        const char *answer = body.len ? strstr(body.data, "\r\n\r\n") : NULL;
        bool whole = answer && strncmp(body.data, "HTTP/1.1 200", 12) == 0 && same_whole(answer + 4, &expected[4]);
        CHECK_MSG(!body.len || whole || strncmp(body.data, "HTTP/1.1 503", 12) == 0, "%s", body.data);
    }
    CHECK(server_end(&trailing, SIGINT) == 0);
    text_free(&json);
    text_free(&body);
    text_free(&request);
}

static void wrong_usage(void)
{
    static const char model[] = "--model " CHECKPOINT;
    static const char *const options[] = {"--port 70000", "--threshold 2", "--host no.such.host.invalid", "--batch 0"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct text command = {0};
        text_printf(&command, "%s serve %s %s 2>/dev/null", program(), model, options[i]);
        int status = system(command.data);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE, "serve %s: status %d", options[i],
                  WEXITSTATUS(status));
        text_free(&command);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    RUN(prepare);
    if (getenv("SOAK_SECONDS")) {
        RUN(soak);
        return test_report();
    }
    RUN(alone);
    RUN(many_at_a_time);
    RUN(metrics_add_up);
    RUN(stop_strings);
    RUN(token_limits_and_draws);
    RUN(log_probabilities);
    RUN(trailer);
    RUN(bad_requests);
    RUN(limits);
    RUN(hostile_heads);
    RUN(slow_clients);
    RUN(full_queue_and_clients_that_leave);
    RUN(signals);
    RUN(wrong_usage);
    for (int i = 0; i < n_expected; i++) {
        cJSON_Delete(expected[i].json);
        free(expected[i].messages);
    }
    return test_report();
}
