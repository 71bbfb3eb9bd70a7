/* server.h - starts `handoff serve` for a test, and a small HTTP client. */
#ifndef HANDOFF_TESTS_SERVER_H
#define HANDOFF_TESTS_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base.h"
#include "tests/test.h"

#define CHECKPOINT "datasets/mini/checkpoint"

struct server { pid_t pid; int port; };

static inline const char *program(void)
{
    const char *p = getenv("HANDOFF");
    return p ? p : "build/handoff";
}

/* options: a NULL-ended list behind `serve --model CHECKPOINT --port 0`. */
static inline struct server server_start(const char *const *options)
{
    const char *argv[32] = {program(), "serve", "--model", CHECKPOINT, "--port", "0"};
    int n = 6, out[2];
    while (*options)
        argv[n++] = *options++;
    struct server s = {.port = -1};
    if (pipe(out))
        return s;
    s.pid = fork();
    if (s.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);               /* a test that crashes leaves no server behind */
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    char line[256];
    const char *colon = f && fgets(line, sizeof line, f) ? strrchr(line, ':') : NULL;
    if (colon)
        s.port = atoi(colon + 1);
    if (f)
        fclose(f);
    CHECK_MSG(s.port > 0, "the server does not start");
    return s;
}

/* Its exit status, or -1 if it had to be killed. */
static inline int server_end(struct server *s, int signal_number)
{
    int status = 0;
    kill(s->pid, signal_number);
    for (int i = 0; i < 1500; i++) {
        if (waitpid(s->pid, &status, WNOHANG) == s->pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        usleep(10000);
    }
    kill(s->pid, SIGKILL);
    waitpid(s->pid, &status, 0);
    return -1;
}

static inline int connect_to(const struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline void send_all(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n;) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        at += sent;
        n -= (size_t)sent;
    }
}

static inline void read_all(int fd, struct text *reply)
{
    char part[1 << 14];
    ssize_t n;
    while ((n = recv(fd, part, sizeof part, 0)) > 0)
        text_put(reply, part, (size_t)n);
    close(fd);
}

/* Takes the chunks' sizes out of a body. */
static inline void unchunk(struct text *body)
{
    size_t from = 0, to = 0;
    while (from < body->len) {
        char *end;
        size_t n = strtoul(body->data + from, &end, 16);
        from = (size_t)(end - body->data) + 2;
        if (n == 0 || from + n > body->len)
            break;
        memmove(body->data + to, body->data + from, n);
        to += n;
        from += n + 2;
    }
    body->len = to;
    body->data[to] = '\0';
}

/* Sends raw bytes, reads until the connection ends: the HTTP status (0: none came) and the body. */
static inline int exchange_raw(const struct server *s, const void *bytes, size_t n, struct text *body)
{
    struct text reply = {0};
    int fd = connect_to(s), status = 0;
    if (fd < 0)
        return 0;
    send_all(fd, bytes, n);
    read_all(fd, &reply);
    const char *at = reply.data ? strstr(reply.data, "HTTP/1.1 ") : NULL;
    while (at && (status = atoi(at + 9)) == 100)
        at = strstr(at + 1, "HTTP/1.1 ");
    const char *head_end = at ? strstr(at, "\r\n\r\n") : NULL;
    text_clear(body);
    if (head_end) {
        text_put(body, head_end + 4, reply.len - (size_t)(head_end + 4 - reply.data));
        const char *chunked = strstr(at, "Transfer-Encoding: chunked");
        if (chunked && chunked < head_end)
            unchunk(body);
    }
    text_puts(body, "");
    text_free(&reply);
    return at ? status : 0;
}

static inline void chat_head(struct text *t, size_t length)
{
    text_printf(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", length);
}

static inline int post_chat(const struct server *s, const char *json, size_t len, struct text *body)
{
    struct text t = {0};
    chat_head(&t, len);
    text_put(&t, json, len);
    int status = exchange_raw(s, t.data, t.len, body);
    text_free(&t);
    return status;
}

static inline int get(const struct server *s, const char *path, struct text *body)
{
    struct text t = {0};
    text_printf(&t, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    int status = exchange_raw(s, t.data, t.len, body);
    text_free(&t);
    return status;
}

/* A number of /metrics; NAN if it is not there. */
static inline double metric(const struct server *s, const char *name)
{
    struct text body = {0}, line = {0};
    get(s, "/metrics", &body);
    text_printf(&line, "\n%s ", name);
    const char *at = strstr(body.data, line.data);
    double v = at ? strtod(at + line.len, NULL) : NAN;
    text_free(&body);
    text_free(&line);
    return v;
}

#endif
