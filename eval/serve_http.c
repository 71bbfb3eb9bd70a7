/* serve_http.c - HTTP by libmicrohttpd: what is asked for, limits on what comes in, answers and streams going out.
 *
 * A connection whose answer is not there yet is suspended and costs no thread; the engine thread wakes it.
 */
#define _GNU_SOURCE
#include "eval/serve.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HTTP_THREADS = 2, HEADER_BYTES = 32 << 10, MAX_RENDERED = 8 << 20, SPARE_CONNECTIONS = 64 };

/* An open connection, and since when it is sending a request (0: it waits for an answer). */
struct link { struct link *next, *prev; int socket; double since_ms; };

struct http_server {
    struct service *s;
    struct MHD_Daemon *daemon;
    bool loopback;              /* only this machine can reach us */
    int64_t created;
    pthread_mutex_t lock;       /* of the links */
    struct link *links;
};

enum route { ROUTE_NONE, ROUTE_CHAT, ROUTE_MODELS, ROUTE_HEALTH, ROUTE_METRICS };

/* One request of a connection. */
struct call {
    enum route route;
    struct text body;
    size_t n_body;              /* bytes taken from the service's budget */
    size_t n_ignored;           /* of a body that is refused already */
    struct fault refused;       /* to be said when the body is over: before that libmicrohttpd takes no reply */
    struct exchange *x;
    bool answered;
};

void exchange_wake(struct exchange *x)
{
    if (x->asleep)
        MHD_resume_connection(x->asleep);
    x->asleep = NULL;
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static enum MHD_Result send_text(struct MHD_Connection *c, int status, const char *type, struct text *body)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(body->len, body->data ? body->data : "",
                                                             MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(r, "Content-Type", type);
    if (status == 429 || status == 503)
        MHD_add_response_header(r, "Retry-After", "1");
    if (status == 405)
        MHD_add_response_header(r, "Allow", "GET, HEAD, POST");
    enum MHD_Result result = MHD_queue_response(c, (unsigned)status, r);
    MHD_destroy_response(r);
    text_free(body);
    return result;
}

static void count_status(struct http_server *h, int status)
{
    pthread_mutex_lock(&h->s->lock);
    h->s->metrics.answered[status]++;
    pthread_mutex_unlock(&h->s->lock);
}

static enum MHD_Result refuse(struct http_server *h, struct MHD_Connection *c, struct call *call, const struct fault *f)
{
    struct text body = {0};
    reply_error(&body, f);
    count_status(h, f->status);
    call->answered = true;
    return send_text(c, f->status, "application/json", &body);
}

static enum MHD_Result answer_get(struct http_server *h, struct MHD_Connection *c, struct call *call)
{
    struct service *s = h->s;
    struct text body = {0};
    const char *type = "application/json";
    if (call->route == ROUTE_MODELS) {
        reply_models(&body, s->set->model_name, h->created, s->set);
    } else if (call->route == ROUTE_HEALTH) {
        text_puts(&body, "{\"status\":\"ok\"}\n");
    } else {
        type = "text/plain; version=0.0.4; charset=utf-8";
        pthread_mutex_lock(&s->lock);
        metrics_print(&s->metrics, s->n_queued, s->n_running, s->set->threshold, &body);
        pthread_mutex_unlock(&s->lock);
    }
    call->answered = true;
    count_status(h, 200);
    return send_text(c, 200, type, &body);
}

/* Sends what of a stream is there, or sleeps until there is more. */
static ssize_t read_stream(void *cls, uint64_t position, char *to, size_t room)
{
    struct exchange *x = cls;
    struct service *s = x->service;
    (void)position;
    pthread_mutex_lock(&s->lock);
    size_t n = x->out.len - x->sent;
    n = n < room ? n : room;
    ssize_t result = (ssize_t)n;
    if (n) {
        memcpy(to, x->out.data + x->sent, n);
        x->sent += n;
    } else if (x->done) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        text_clear(&x->out);
        x->sent = 0;
        x->asleep = x->connection;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* The answer of the engine, or sleep until it is there. */
static enum MHD_Result answer_chat(struct http_server *h, struct MHD_Connection *c, struct call *call)
{
    struct exchange *x = call->x;
    pthread_mutex_lock(&h->s->lock);
    const int status = x->status;
    const bool stream = x->request.stream && status == 200;
    struct text body = {0};
    if (!status) {
        x->asleep = c;
        MHD_suspend_connection(c);
    } else if (!stream) {
        body = x->out;
        x->out = (struct text){0};
    }
    pthread_mutex_unlock(&h->s->lock);
    if (!status)
        return MHD_YES;
    call->answered = true;
    if (!stream)
        return send_text(c, status, "application/json", &body);
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_stream, x, NULL);
    MHD_add_response_header(r, "Content-Type", "text/event-stream");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    enum MHD_Result result = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return result;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static const struct { const char *path; enum route route; } routes[] = {
    {"/v1/chat/completions", ROUTE_CHAT}, {"/chat/completions", ROUTE_CHAT}, {"/v1/models", ROUTE_MODELS},
    {"/models", ROUTE_MODELS}, {"/health", ROUTE_HEALTH}, {"/metrics", ROUTE_METRICS}};

/* A page in a browser must not reach a server on the loopback under a name of its own choice (DNS rebinding). */
static bool host_is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (!host)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && (!host[n] || host[n] == ':'))
            return true;
    }
    return false;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    const size_t n = sizeof json - 1;
    return type && strncasecmp(type, json, n) == 0 && (!type[n] || type[n] == ';' || type[n] == ' ');
}

static int check_length(const struct http_server *h, const char *length, struct fault *f)
{
    char *end = NULL;
    const unsigned long long n = length ? strtoull(length, &end, 10) : 0;
    if (length && (*end || n > h->s->set->max_body))
        return fault_set(f, 413, "body_too_large", NULL, "a body of at most %zu bytes is taken", h->s->set->max_body);
    return 0;
}

/* What can be said from the head alone. */
static int check_head(struct http_server *h, struct MHD_Connection *c, const char *url, const char *method,
                      struct call *call, struct fault *f)
{
    const bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0, post = strcmp(method, "POST") == 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(url, routes[i].path) == 0)
            call->route = routes[i].route;
    if (h->loopback && !host_is_local(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
        return fault_set(f, 403, "wrong_host", NULL, "Host: localhost was expected");
    if (call->route == ROUTE_NONE)
        return fault_set(f, 404, "not_found", NULL, "there are POST /v1/chat/completions, GET /v1/models, GET /health "
                         "and GET /metrics");
    if (call->route == ROUTE_CHAT ? !post : !get)
        return fault_set(f, 405, "method_not_allowed", NULL, "%s is not for this address", method);
    if (call->route == ROUTE_CHAT && !is_json(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Type")))
        return fault_set(f, 415, "unsupported_media_type", NULL, "Content-Type: application/json was expected");
    return check_length(h, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length"), f);
}

/* Bodies that are refused are read on for a while, so that the client gets to the answer. */
static enum MHD_Result ignore_body(const struct http_server *h, struct call *call, size_t n)
{
    call->n_ignored += n;
    return call->n_ignored > h->s->set->max_body ? MHD_NO : MHD_YES;
}

/* Bytes of bodies are counted from their arrival until the exchange is over. */
static int take_body(struct http_server *h, struct call *call, const char *data, size_t n, struct fault *f)
{
    struct service *s = h->s;
    int failed = 0;
    if (call->body.len + n > s->set->max_body)
        return fault_set(f, 413, "body_too_large", NULL, "a body of at most %zu bytes is taken", s->set->max_body);
    pthread_mutex_lock(&s->lock);
    if (s->n_bodies + n > s->set->max_bodies) {
        failed = fault_set(f, 429, "too_many_bodies", NULL, "too much is under way; try again later");
    } else {
        s->n_bodies += n;
        call->n_body += n;
    }
    pthread_mutex_unlock(&s->lock);
    if (!failed)
        text_put(&call->body, data, n);
    return failed;
}

static int check_prompt(const struct http_server *h, struct exchange *x, struct fault *f)
{
    struct err e = {0};
    if (conversation_render(h->s->m, &x->request.c, &x->rendered, &e))
        return fault_set(f, 400, "invalid_prompt", "messages", "%s", e.msg);
    if (x->rendered.len > MAX_RENDERED)
        return fault_set(f, 400, "context_length_exceeded", "messages", "a prompt of at most %d bytes of text is taken",
                         MAX_RENDERED);
    return 0;
}

/* The whole request is there: reads it and hands it to the engine. */
static int submit(struct http_server *h, struct MHD_Connection *c, struct call *call, struct fault *f)
{
    struct exchange *x = NEW(struct exchange, 1);
    int failed = chat_request_read(&x->request, call->body.data ? call->body.data : "", call->body.len,
                                   &h->s->set->limits, f);
    text_free(&call->body);
    x->service = h->s;
    x->connection = c;
    x->created = (int64_t)time(NULL);
    x->arrived_ms = clock_ms();
    x->socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (!failed)
        failed = check_prompt(h, x, f);
    x->n_body = call->n_body;
    if (!failed)
        failed = service_submit(h->s, x, f);
    if (failed) {
        exchange_free(x);
        return -1;
    }
    call->n_body = 0;
    call->x = x;
    return 0;
}

static void set_sending(struct http_server *h, struct MHD_Connection *c, bool sending)
{
    struct link *l = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&h->lock);
    if (l)
        l->since_ms = sending ? clock_ms() : 0;
    pthread_mutex_unlock(&h->lock);
}

/* libmicrohttpd calls this when the head is there, for each part of the body, at its end, and after each sleep. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n_data, void **context)
{
    struct http_server *h = cls;
    struct call *call = *context;
    struct fault f = {0};
    (void)version;
    if (!call) {
        *context = call = NEW(struct call, 1);
        return check_head(h, c, url, method, call, &f) ? refuse(h, c, call, &f) : MHD_YES;
    }
    if (*n_data) {
        const size_t n = *n_data;
        *n_data = 0;
        if (call->answered || call->refused.status || call->route != ROUTE_CHAT)
            return ignore_body(h, call, n);
        take_body(h, call, data, n, &call->refused);
        return MHD_YES;
    }
    if (call->answered)
        return MHD_YES;
    set_sending(h, c, false);
    if (call->route != ROUTE_CHAT)
        return answer_get(h, c, call);
    if (call->refused.status)
        return refuse(h, c, call, &call->refused);
    if (!call->x && submit(h, c, call, &f))
        return refuse(h, c, call, &f);
    return answer_chat(h, c, call);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode why)
{
    struct http_server *h = cls;
    struct call *call = *context;
    (void)why;
    set_sending(h, c, true);
    if (!call)
        return;
    if (call->x)
        service_let_go(h->s, call->x);
    pthread_mutex_lock(&h->s->lock);
    h->s->n_bodies -= call->n_body;
    pthread_mutex_unlock(&h->s->lock);
    text_free(&call->body);
    free(call);
    *context = NULL;
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void on_connection(void *cls, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what)
{
    struct http_server *h = cls;
    pthread_mutex_lock(&h->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct link *l = NEW(struct link, 1);
        *l = (struct link){.next = h->links, .since_ms = clock_ms(),
                           .socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd};
        if (h->links)
            h->links->prev = l;
        h->links = l;
        *context = l;
    } else {
        struct link *l = *context;
        *(l->prev ? &l->prev->next : &h->links) = l->next;
        if (l->next)
            l->next->prev = l->prev;
        free(l);
        *context = NULL;
    }
    pthread_mutex_unlock(&h->lock);
}

void http_look_after(struct http_server *h)
{
    const double late = clock_ms() - h->s->set->slow_s * 1000;
    pthread_mutex_lock(&h->lock);
    for (struct link *l = h->links; l; l = l->next)
        if (l->since_ms > 0 && l->since_ms < late)
            shutdown(l->socket, SHUT_RDWR);
    pthread_mutex_unlock(&h->lock);
}

/* ---- start and end ---------------------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *a)
{
    static const uint8_t v6[16] = {[15] = 1};
    const uint8_t *bytes = (const uint8_t *)a;
    return a->sa_family == AF_INET6 ? memcmp(bytes + 8, v6, sizeof v6) == 0 : bytes[4] == 127;
}

static struct MHD_Daemon *start_daemon(struct http_server *h, const struct addrinfo *at)
{
    const struct serve_settings *set = h->s->set;
    const unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           (at->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    return MHD_start_daemon(flags, (uint16_t)set->port, NULL, NULL, on_request, h,
                            MHD_OPTION_SOCK_ADDR, at->ai_addr, MHD_OPTION_THREAD_POOL_SIZE, HTTP_THREADS,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)(set->queue + set->batch + SPARE_CONNECTIONS),
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)ceil(set->slow_s),
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
}

int http_start(struct http_server **out, struct service *s, struct err *e)
{
    const struct serve_settings *set = s->set;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *at = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", set->port);
    int fault = getaddrinfo(set->host, port, &hints, &at);
    if (fault)
        return err_set(e, EXIT_USAGE, "--host %s: %s", set->host, gai_strerror(fault));
    struct http_server *h = NEW(struct http_server, 1);
    h->s = s;
    h->created = (int64_t)time(NULL);
    h->loopback = is_loopback(at->ai_addr);
    pthread_mutex_init(&h->lock, NULL);
    errno = 0;
    h->daemon = start_daemon(h, at);
    freeaddrinfo(at);
    if (!h->daemon) {
        free(h);
        return err_machine(e, "cannot listen on %s port %d", set->host, set->port);
    }
    *out = h;
    return 0;
}

int http_port(const struct http_server *h)
{
    return MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void http_stop_listening(struct http_server *h)
{
    int listening = MHD_quiesce_daemon(h->daemon);
    if (listening >= 0)
        close(listening);
}

void http_stop(struct http_server *h)
{
    if (!h)
        return;
    MHD_stop_daemon(h->daemon);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
