/* `handoff run --endpoint` against a scripted server: every trailer of ../shared/metrics/graders_output.json through
 * HTTP, servers that fail in every way, and our own `serve`, whose records equal those of `run --model`. */
#define _GNU_SOURCE
#include "tests/server.h"

#include <pthread.h>
#include <stdatomic.h>

#define GOLDENS "../shared/metrics/graders_output.json"

/* ---- a server that does as it is told --------------------------------------------------------------------------- */

/* Answers the request whose body is given; the connection is closed behind it. */
typedef void reply_fn(int fd, const char *head, const char *body);
static reply_fn *script;
static int script_port;
static atomic_int n_asked, n_under_way, most_under_way;
static atomic_bool healed;      /* the script's misbehaviour is over */

static void read_request(int fd, struct text *head, struct text *body)
{
    struct text all = {0};
    char part[1 << 14];
    const char *end = NULL, *length;
    ssize_t n;
    size_t want = 0;
    while ((!end || all.len < want) && (n = recv(fd, part, sizeof part, 0)) > 0) {
        text_put(&all, part, (size_t)n);
        end = strstr(all.data, "\r\n\r\n");
        length = strcasestr(all.data, "Content-Length:");
        want = end && length ? (size_t)(end + 4 - all.data) + strtoul(length + 15, NULL, 10) : 0;
    }
    text_puts(head, "");
    text_puts(body, "");
    if (end) {
        text_put(head, all.data, (size_t)(end - all.data));
        text_puts(body, end + 4);
    }
    text_free(&all);
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct text head = {0}, body = {0};
    read_request(fd, &head, &body);
    n_asked++;
    script(fd, head.data, body.data);
    shutdown(fd, SHUT_WR);
    close(fd);
    text_free(&head);
    text_free(&body);
    return NULL;
}

static void *serve(void *arg)
{
    int listening = (int)(intptr_t)arg;
    for (;;) {
        int fd = accept(listening, NULL, NULL);
        pthread_t t;
        if (fd >= 0 && pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd) == 0)
            pthread_detach(t);
    }
    return NULL;
}

static void start_script(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    pthread_t t;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 64) == 0 &&
          getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    script_port = ntohs(a.sin_port);
    CHECK(pthread_create(&t, NULL, serve, (void *)(intptr_t)fd) == 0);
    pthread_detach(t);
}

static void say(int fd, const char *text)
{
    send_all(fd, text, strlen(text));
}

static void say_json(int fd, int status, const char *more_headers, const char *json)
{
    struct text t = {0};
    text_printf(&t, "HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s"
                    "Connection: close\r\n\r\n%s", status, strlen(json), more_headers, json);
    send_all(fd, t.data, t.len);
    text_free(&t);
}

/* content in full; members: beside "choices", with a comma before. */
static void say_answer(int fd, const char *content, const char *members)
{
    struct text t = {0};
    text_puts(&t, "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    json_put_string(&t, content, strlen(content));
    text_printf(&t, "},\"finish_reason\":\"stop\"}]%s}", members);
    say_json(fd, 200, "", t.data);
    text_free(&t);
}

static void begin_stream(int fd)
{
    say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n\n");
}

/* An event with this piece of the content, as its bytes are. */
static void put_delta(struct text *t, const char *bytes, size_t n)
{
    text_puts(t, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":");
    json_put_string(t, bytes, n);
    text_puts(t, "},\"finish_reason\":null}]}\n\n");
}

static void put_final(struct text *t, const char *members)
{
    text_printf(t, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]%s}\n\ndata: [DONE]\n\n",
                members);
}

/* The number behind "case " in the question. */
static int case_of(const char *body)
{
    const char *at = strstr(body, "case ");
    return at ? atoi(at + 5) : -1;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static char scratch[] = "/tmp/handoff-endpoint-XXXXXX";

/* n questions "case 0", ... */
static void write_questions(int n)
{
    struct text t = {0};
    struct err e = {0};
    char *path = path_join(scratch, "q.jsonl");
    for (int i = 0; i < n; i++)
        text_printf(&t, "{\"id\":\"q%d\",\"question\":\"case %d\",\"type\":\"text\",\"answers\":[\"seven crates\"]}\n", i,
                    i);
    CHECK(file_write_atomic(path, t.data, t.len, &e) == 0);
    free(path);
    text_free(&t);
}

/* Exit status of the run into `out`; what it says on stderr. */
static int run(const char *out, const char *options, struct text *said)
{
    struct text command = {0};
    text_printf(&command, "%s run --endpoint http://127.0.0.1:%d/v1 --model-name m --data jsonl=%s/q.jsonl "
                          "--out %s/%s %s 2>&1 >/dev/null", program(), script_port, scratch, scratch, out, options);
    n_asked = most_under_way = 0;
    FILE *f = popen(command.data, "r");
    char part[4096];
    size_t n;
    text_clear(said);
    text_puts(said, "");
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        text_put(said, part, n);
    int status = f ? pclose(f) : -1;
    text_free(&command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct lines { struct text file; cJSON *line[256]; int n; };

static void read_records(const char *out, struct lines *l)
{
    struct text path = {0};
    struct err e = {0};
    *l = (struct lines){0};
    text_printf(&path, "%s/%s/records.jsonl", scratch, out);
    CHECK_MSG(file_read(path.data, 1 << 24, &l->file, &e) == 0, "%s", e.msg);
    for (char *at = l->file.data; at && *at && l->n < 256; at += strcspn(at, "\n") + 1)
        CHECK((l->line[l->n++] = json_parse(at, strcspn(at, "\n"), out, &e)) != NULL);
    text_free(&path);
}

static void free_records(struct lines *l)
{
    for (int i = 0; i < l->n; i++)
        cJSON_Delete(l->line[i]);
    text_free(&l->file);
}

static bool number_is(const cJSON *record, const char *key, double want)
{
    const cJSON *v = json_get(record, key);
    return isnan(want) ? cJSON_IsNull(v) : cJSON_IsNumber(v) && v->valuedouble == want;
}

/* All of them, once each and in order. */
static bool complete(const struct lines *l, int n)
{
    bool good = l->n == n;
    for (int i = 0; i < l->n && good; i++) {
        char id[16];
        snprintf(id, sizeof id, "q%d", i);
        good = strcmp(json_string(l->line[i], "id"), id) == 0;
    }
    return good;
}

/* ---- trailers ---------------------------------------------------------------------------------------------------- */

static cJSON *goldens;
static const cJSON *cases;      /* the section at hand */

static void whole_trailer(int fd, const char *head, const char *body)
{
    (void)head;
    say_answer(fd, json_string(cJSON_GetArrayItem(cases, case_of(body)), "output"), "");
}

static size_t from_hex(const char *hex, char *bytes)
{
    size_t n = 0;
    unsigned byte;
    for (; hex[0] && hex[1] && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        bytes[n++] = (char)byte;
    return n;
}

/* The chunks as events; on the wire they are cut at other places still. */
static void streamed_trailer(int fd, const char *head, const char *body)
{
    const int number = case_of(body);
    const cJSON *one = cJSON_GetArrayItem(cases, number), *chunk;
    struct text t = {0};
    (void)head;
    begin_stream(fd);
    cJSON_ArrayForEach(chunk, json_get(one, "chunks"))
        put_delta(&t, chunk->valuestring, strlen(chunk->valuestring));
    cJSON_ArrayForEach(chunk, json_get(one, "chunks_hex")) {
        char bytes[64];
        put_delta(&t, bytes, from_hex(chunk->valuestring, bytes));
    }
    put_final(&t, "");
    for (size_t at = 0, n; at < t.len; at += n) {
        n = 1 + (at * 7 + (size_t)number) % 97;
        n = n < t.len - at ? n : t.len - at;
        send_all(fd, t.data + at, n);
    }
    text_free(&t);
}

static void check_trailers(const char *section, const char *text_key, reply_fn *reply, const char *options)
{
    struct text said = {0};
    struct lines l;
    const cJSON *one;
    int i = 0;
    cases = json_get(goldens, section);
    script = reply;
    write_questions(cJSON_GetArraySize(cases));
    CHECK_MSG(run(section, options, &said) == 0, "%s", said.data);
    read_records(section, &l);
    CHECK(complete(&l, cJSON_GetArraySize(cases)));
    cJSON_ArrayForEach(one, cases) {
        const cJSON *want = json_get(one, "expect"), *confidence = json_get(want, "confidence"), *r = l.line[i++];
        const double c = cJSON_IsNumber(confidence) ? confidence->valuedouble : NAN;
        const char *status = json_string(want, "status");
        CHECK_MSG(strcmp(json_string(r, "output"), json_string(want, text_key)) == 0, "%s: output is \"%s\"",
                  json_string(one, "id"), json_string(r, "output"));
        CHECK_MSG(number_is(r, "confidence", c) && number_is(r, "p_wrong", 1 - c), "%s", json_string(one, "id"));
        CHECK_MSG(!status || strcmp(json_string(r, "trailer"), status) == 0, "%s", json_string(one, "id"));
        CHECK((json_string(r, "confidence_from") != NULL) == !isnan(c));
        CHECK(cJSON_IsNull(json_get(r, "tokens")));
    }
    free_records(&l);
    text_free(&said);
}

static void trailers_in_whole_answers(void) { check_trailers("trailer", "answer", whole_trailer, ""); }
static void trailers_in_streams(void) { check_trailers("trailer_stream", "visible", streamed_trailer, "--stream"); }

static void trailers_cut_inside_characters(void)
{
    check_trailers("trailer_stream_bytes", "visible", streamed_trailer, "--stream");
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static const struct { const char *members; bool stream; double confidence; const char *from; } figures[] = {
    {",\"confidence\":0.25", false, 0.25, "field"},
    {",\"confidence\":0.25", true, 0.25, "field"},
    {",\"p_wrong\":0.25", true, 0.75, "field"},
    {",\"confidence\":0", false, 0, "field"},
    {",\"confidence\":null", false, 0.5, "trailer"},
    {",\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":30}", true, 0.5, "trailer"},
    {",\"confidence\":0.25,\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}", true, 0.25, "field"},
};

static void figure_reply(int fd, const char *head, const char *body)
{
    const int i = case_of(body);
    struct text t = {0};
    (void)head;
    if (figures[i].stream) {
        begin_stream(fd);
        put_delta(&t, "seven crates\n[[hybrid:confidence=0.5000]]", 41);
        put_final(&t, figures[i].members);
        send_all(fd, t.data, t.len);
    } else {
        say_answer(fd, "seven crates\n[[hybrid:confidence=0.5000]]", figures[i].members);
    }
    text_free(&t);
}

static void confidence_beside_the_choices(void)
{
    const int n = sizeof figures / sizeof *figures;
    struct text said = {0};
    struct lines l;
    script = figure_reply;
    write_questions(n);
    CHECK(run("figures", "", &said) == 0);
    read_records("figures", &l);
    CHECK(complete(&l, n));
    for (int i = 0; i < n && i < l.n; i++) {
        CHECK_MSG(number_is(l.line[i], "confidence", figures[i].confidence), "case %d", i);
        CHECK_STR(json_string(l.line[i], "confidence_from"), figures[i].from);
        CHECK_STR(json_string(l.line[i], "output"), "seven crates");
        CHECK(cJSON_IsTrue(json_get(l.line[i], "correct")));
    }
    CHECK(cJSON_IsNull(json_get(l.line[5], "tokens")) && number_is(l.line[5], "prompt_tokens", 7));
    CHECK(number_is(l.line[6], "tokens", 3) && number_is(l.line[6], "prompt_tokens", 7));
    free_records(&l);
    text_free(&said);
}

/* Two positions: {1/2, 1/4, ...} and {0.9, 0.05, ...}, a stop token and a thought around them. */
static void logprob_reply(int fd, const char *head, const char *body)
{
    (void)head;
    CHECK(strstr(body, "\"logprobs\":true,\"top_logprobs\":2") != NULL);
    say_json(fd, 200, "", "{\"choices\":[{\"message\":{\"content\":\"ab\"},\"finish_reason\":\"stop\","
             "\"logprobs\":{\"content\":["
             "{\"token\":\"<|channel>\",\"logprob\":-5,\"top_logprobs\":[{\"logprob\":-5}]},"
             "{\"token\":\"hm\",\"logprob\":-5,\"top_logprobs\":[{\"logprob\":-5}]},"
             "{\"token\":\"<channel|>\",\"logprob\":-5,\"top_logprobs\":[{\"logprob\":-5}]},"
             "{\"token\":\"a\",\"logprob\":-0.6931471805599453,\"top_logprobs\":[{\"logprob\":-0.6931471805599453},"
             "{\"logprob\":-1.3862943611198906}]},"
             "{\"token\":\"b\",\"logprob\":-0.10536051565782628,\"top_logprobs\":[{\"logprob\":-0.10536051565782628},"
             "{\"logprob\":-2.995732273553991}]},"
             "{\"token\":\"<turn|>\",\"logprob\":-5,\"top_logprobs\":[{\"logprob\":-5}]}]}}]}");
}

static void entropy_from_logprobs(void)
{
    /* Python: -(.5*log(.5)+.25*log(.25)) - .25*log(.25); -(.9*log(.9)+.05*log(.05)) - .05*log(.05); and with the rest
     * spread over 262142 tokens: ... + .25*log(262142/.25), ... + .05*log(262142/.05) */
    const double low[2] = {1.0397207708399179, 0.39439769144744276}, high[2] = {4.158881176003763, 1.0182297724802107};
    struct text said = {0};
    struct lines l;
    script = logprob_reply;
    write_questions(1);
    CHECK(run("logprobs", "--top-logprobs 2", &said) == 0);
    read_records("logprobs", &l);
    const cJSON *h = json_get(l.line[0], "entropy"), *t = json_get(l.line[0], "entropy_truncated");
    CHECK_NEAR(json_get(h, "mean")->valuedouble, (low[0] + low[1]) / 2, 1e-12);
    CHECK_NEAR(json_get(h, "sum")->valuedouble, low[0] + low[1], 1e-12);
    CHECK_NEAR(json_get(h, "first")->valuedouble, low[0], 1e-12);
    CHECK_NEAR(json_get(h, "max")->valuedouble, low[0], 1e-12);
    CHECK_NEAR(json_get(t, "mean_at_most")->valuedouble, (high[0] + high[1]) / 2, 1e-11);
    CHECK(number_is(t, "top", 2));
    CHECK_NEAR(json_get(l.line[0], "logprob")->valuedouble, -(0.6931471805599453 + 0.10536051565782628) / 2, 1e-12);
    free_records(&l);
    text_free(&said);
}

/* ---- servers that fail ------------------------------------------------------------------------------------------- */

static void fail_500(int fd) { say_json(fd, 500, "", "{\"error\":{\"message\":\"no memory\"}}"); }
static void fail_garbage(int fd) { say_json(fd, 200, "", "\x01\x02 what?"); }
static void fail_html(int fd) { say_json(fd, 200, "", "<html>Welcome to the hotel's network</html>"); }
static void fail_no_choices(int fd) { say_json(fd, 200, "", "{\"choices\":[]}"); }
static void fail_confidence(int fd) { say_answer(fd, "x", ",\"confidence\":1.5"); }
static void fail_silence(int fd) { (void)fd; }
static void fail_hang(int fd) { say(fd, "HTTP/1.1 200 OK\r\n"); sleep(2); }

static void fail_cut_body(int fd)
{
    say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"choices\":[");
}

static void fail_cut_stream(int fd)
{
    struct text t = {0};
    begin_stream(fd);
    put_delta(&t, "seven", 5);
    send_all(fd, t.data, t.len);
    text_free(&t);
}

static void fail_half_character(int fd)
{
    struct text t = {0};
    begin_stream(fd);
    put_delta(&t, "seven \xc3", 7);
    put_final(&t, "");
    send_all(fd, t.data, t.len);
    text_free(&t);
}

static void fail_error_in_stream(int fd)
{
    begin_stream(fd);
    say(fd, "data: {\"error\":{\"message\":\"lost my mind\"}}\n\n");
}

/* A gigabyte, if somebody reads it. */
static void pour(int fd, const char *head)
{
    static char block[1 << 20];
    memset(block, 'a', sizeof block);
    say(fd, head);
    for (int i = 0; i < 1024; i++)
        if (send(fd, block, sizeof block, MSG_NOSIGNAL) <= 0)
            return;
}
static void fail_huge(int fd) { pour(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"choices\":\""); }
static void fail_huge_line(int fd) { pour(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "); }
static void fail_huge_500(int fd) { pour(fd, "HTTP/1.1 500 No\r\n\r\n"); }
static void fail_redirect(int fd) { say_json(fd, 302, "Location: http://127.0.0.1:1/\r\n", ""); }
static void fail_key(int fd) { say_json(fd, 401, "", "{\"error\":{\"message\":\"who are you?\"}}"); }

static const struct failure {
    const char *name;
    void (*fail)(int fd);
    const char *says;
    int tries, retries;
} failures[] = {
    {"500", fail_500, "HTTP status 500: no memory", 2, 1},
    {"garbage", fail_garbage, "neither JSON nor a stream of events", 1, 0},
    {"html", fail_html, "neither JSON nor a stream of events", 1, 0},
    {"no choices", fail_no_choices, "no message", 1, 0},
    {"confidence", fail_confidence, "\"confidence\": a number from 0 to 1 was expected", 1, 0},
    {"silence", fail_silence, "Empty reply", 1, 0},
    {"hang", fail_hang, "timed out", 1, 0},
    {"cut body", fail_cut_body, "remaining", 1, 0},
    {"cut stream", fail_cut_stream, "the stream ends before the answer does", 2, 1},
    {"half a character", fail_half_character, "not UTF-8", 1, 0},
    {"error in a stream", fail_error_in_stream, "lost my mind", 1, 0},
    {"1 GB", fail_huge, "a reply of more than", 1, 0},
    {"1 GB in a line", fail_huge_line, "a reply of more than", 1, 0},
    {"1 GB of an error", fail_huge_500, "HTTP status 500", 1, 0},
    {"redirect", fail_redirect, "HTTP status 302", 1, 1},
    {"key", fail_key, "HTTP status 401: who are you?", 1, 1},
};
static const struct failure *failure;

/* The third question fails until the server is healed. */
static void failing_reply(int fd, const char *head, const char *body)
{
    (void)head;
    if (case_of(body) == 2 && !healed)
        failure->fail(fd);
    else
        say_answer(fd, "seven crates", ",\"confidence\":0.5");
}

static void failing_servers(void)
{
    struct text said = {0};
    write_questions(5);
    script = failing_reply;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct lines l;
        char out[16], options[64];
        failure = &failures[i];
        healed = false;
        snprintf(out, sizeof out, "fail%zu", i);
        snprintf(options, sizeof options, "--concurrency 1 --timeout 0.7 --retries %d", failure->retries);
        int status = run(out, options, &said);
        CHECK_MSG(status == EXIT_MACHINE && strstr(said.data, failure->says) && strchr(said.data, '\n') == said.data +
                  said.len - 1, "%s: status %d: %s", failure->name, status, said.data);
        CHECK_MSG(n_asked == 2 + failure->tries, "%s: asked %d times", failure->name, n_asked);
        read_records(out, &l);
        CHECK_MSG(complete(&l, 2), "%s: %d records are left", failure->name, l.n);
        free_records(&l);
        healed = true;
        CHECK_MSG(run(out, "--concurrency 1", &said) == 0, "%s: %s", failure->name, said.data);
        CHECK_MSG(n_asked == 3, "%s: then asked %d times", failure->name, n_asked);
        read_records(out, &l);
        CHECK_MSG(complete(&l, 5), "%s", failure->name);
        free_records(&l);
    }
    text_free(&said);
}

static void no_server(void)
{
    struct text said = {0};
    int port = script_port, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    script_port = ntohs(a.sin_port);            /* bound, but nobody listens */
    CHECK(run("nobody", "--retries 0", &said) == EXIT_MACHINE && strstr(said.data, "0 records"));
    script_port = port;
    close(fd);
    text_free(&said);
}

/* Questions that the server refuses are errors of these; 500s and 429s pass. */
static void patchy_reply(int fd, const char *head, const char *body)
{
    static atomic_int seen[4];
    const int i = case_of(body);
    (void)head;
    if (i == 1)
        say_json(fd, 400, "", "{\"error\":{\"message\":\"prompt is too long\",\"code\":\"context_length_exceeded\"}}");
    else if (i == 2 && seen[2]++ < 2)
        fail_500(fd);
    else if (i == 3 && seen[3]++ == 0)
        say_json(fd, 429, "Retry-After: 1\r\n", "{\"error\":{\"message\":\"slow down\"}}");
    else
        say_answer(fd, "seven crates", "");
}

static void questions_that_fail_and_tries_that_help(void)
{
    struct text said = {0};
    struct lines l;
    script = patchy_reply;
    write_questions(4);
    double start = clock_ms();
    CHECK_MSG(run("patchy", "--concurrency 2", &said) == 0, "%s", said.data);
    CHECK_MSG(clock_ms() - start >= 1000, "Retry-After: 1, but all was over in %.0f ms", clock_ms() - start);
    CHECK_MSG(n_asked == 7, "asked %d times", n_asked);
    read_records("patchy", &l);
    CHECK(complete(&l, 4));
    CHECK_STR(json_string(l.line[1], "status"), "error");
    CHECK(json_string(l.line[1], "error") && strstr(json_string(l.line[1], "error"), "prompt is too long"));
    for (int i = 0; i < 4; i++)
        CHECK(i == 1 || strcmp(json_string(l.line[i], "status"), "ok") == 0);
    free_records(&l);
    text_free(&said);
}

/* ---- how it asks ------------------------------------------------------------------------------------------------- */

static void unhurried_reply(int fd, const char *head, const char *body)
{
    const int i = case_of(body), now = ++n_under_way;
    int most = most_under_way;
    while (now > most && !atomic_compare_exchange_weak(&most_under_way, &most, now))
        ;
    CHECK(strcasestr(head, "\r\nAuthorization: Bearer s3cr3t-k3y") != NULL);
    CHECK(strncmp(head, "POST /v1/chat/completions ", 26) == 0 && strstr(body, "\"model\":\"m\""));
    CHECK(strstr(body, "\"max_completion_tokens\":9") && !strstr(body, "\"max_tokens\""));
    usleep((useconds_t)(20000 + (i * 7919) % 60000));
    n_under_way--;
    say_answer(fd, "seven crates", "");
}

static void order_concurrency_and_key(void)
{
    struct text said = {0}, command = {0};
    struct lines l;
    script = unhurried_reply;
    write_questions(40);
    setenv("HANDOFF_TEST_KEY", "s3cr3t-k3y", 1);
    CHECK_MSG(run("many", "--concurrency 6 --api-key-env HANDOFF_TEST_KEY "
                  "--extra '{\"max_tokens\":null,\"max_completion_tokens\":9}'", &said) == 0, "%s", said.data);
    CHECK_MSG(most_under_way == 6 && n_asked == 40, "%d at a time, %d in all", most_under_way, n_asked);
    read_records("many", &l);
    CHECK(complete(&l, 40));
    text_printf(&command, "! grep -r s3cr3t %s", scratch);
    CHECK(system(command.data) == 0);
    free_records(&l);
    text_free(&said);
    text_free(&command);
}

static void plain_reply(int fd, const char *head, const char *body)
{
    (void)head;
    (void)body;
    say_answer(fd, "seven crates", "");
}

static void rate_limit(void)
{
    struct text said = {0};
    script = plain_reply;
    write_questions(11);
    double start = clock_ms();
    CHECK(run("rate", "--rps 20", &said) == 0);
    CHECK_MSG(clock_ms() - start >= 500, "11 questions at 20 a second took %.0f ms", clock_ms() - start);
    text_free(&said);
}

static void wrong_usage(void)
{
    static const char *const options[] = {"--concurrency 0", "--rps -1", "--api-key-env NO_SUCH_VARIABLE",
                                          "--extra '[1]'", "--extra '{\"model\":1}'", "--endpoint ftp://x",
                                          "--endpoint http://u:p@x", "--timeout 0", "--top-logprobs 21"};
    struct text said = {0};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int status = run("usage", options[i], &said);
        CHECK_MSG(status == EXIT_USAGE, "%s: status %d: %s", options[i], status, said.data);
    }
    text_free(&said);
}

/* ---- our own server ---------------------------------------------------------------------------------------------- */

static int run_shell(const char *fmt, ...) PRINTF_LIKE(1, 2);
static int run_shell(const char *fmt, ...)
{
    struct text command = {0};
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(&command, fmt, ap);
    va_end(ap);
    int status = system(command.data);
    text_free(&command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void same_records_as_the_model(void)
{
    static const char *const keys[] = {"id", "task", "modality", "output", "answer", "gold", "status", "correct",
                                       "score", "wer", "confidence", "p_wrong", "probe_logit", "entropy", "tokens",
                                       "prompt_tokens", "stop", "media_sha", "question", "options"};
    const char *suite = "--suite mini --only mmlu,gsm8k,chartqa,asr-clean --limit 6";
    struct server s = server_start((const char *const[]){"--trailer", NULL});
    struct lines model;
    CHECK(run_shell("%s run --model " CHECKPOINT " %s --out %s/model >/dev/null", program(), suite, scratch) == 0);
    read_records("model", &model);
    CHECK(model.n == 24);
    for (int stream = 0; stream < 2; stream++) {
        struct lines served;
        const char *out = stream ? "streamed" : "served";
        CHECK(run_shell("%s run --endpoint http://127.0.0.1:%d/v1 --model-name mini %s %s --out %s/%s >/dev/null",
                        program(), s.port, suite, stream ? "--stream" : "", scratch, out) == 0);
        read_records(out, &served);
        CHECK(served.n == model.n);
        for (int i = 0; i < served.n && i < model.n; i++)
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
                struct text a = {0}, b = {0};
                json_print(&a, json_get(model.line[i], keys[k]));
                json_print(&b, json_get(served.line[i], keys[k]));
                CHECK_MSG(strcmp(a.data, b.data) == 0, "%s: %s is %s, not %s", json_string(model.line[i], "id"),
                          keys[k], b.data, a.data);
                text_free(&a);
                text_free(&b);
            }
        free_records(&served);
    }
    CHECK(run_shell("%s compare %s/model %s/served >/dev/null", program(), scratch, scratch) == 0);
    free_records(&model);
    CHECK(server_end(&s, SIGTERM) == 0);
}

int main(void)
{
    struct err e = {0};
    signal(SIGPIPE, SIG_IGN);
    setenv("no_proxy", "*", 1);
    if (!mkdtemp(scratch))
        return 1;
    start_script();
    if (file_exists(GOLDENS))
        goldens = json_read_file(GOLDENS, 1 << 24, &e);
    if (goldens) {
        RUN(trailers_in_whole_answers);
        RUN(trailers_in_streams);
        RUN(trailers_cut_inside_characters);
    }
    RUN(confidence_beside_the_choices);
    RUN(entropy_from_logprobs);
    RUN(failing_servers);
    RUN(no_server);
    RUN(questions_that_fail_and_tries_that_help);
    RUN(order_concurrency_and_key);
    RUN(rate_limit);
    RUN(wrong_usage);
    RUN(same_records_as_the_model);
    run_shell("rm -rf %s", scratch);
    cJSON_Delete(goldens);
    return test_report();
}
