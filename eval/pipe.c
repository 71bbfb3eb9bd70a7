/* pipe.c - a command that answers over its standard input and output, several questions under way at a time. */
#define _GNU_SOURCE
#include "eval/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, LAST_WAIT_MS = 5000 };

struct question { int64_t id; void *user; double asked_ms; };

struct pipe {
    struct asker asker;         /* first, so that the one can be had from the other */
    struct pipe_settings set;
    pid_t child;
    int to, from;               /* -1: closed */
    struct text out, in;        /* still to be written; read but no whole line yet */
    size_t searched;            /* of `in`, without a line break */
    int64_t next_id;
    struct question *asked;     /* [n_asked] */
    int n_asked;
    struct asker_answer *done;
    int n_done, cap_done;
};

/* ---- the command ----------------------------------------------------------------------------------------------- */

static void run_command(const char *command, int in, int out)
{
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(127);
    signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* One that does not end by itself is told to, and then made to. */
static void await(pid_t child)
{
    const double start = clock_ms();
    int signals = 0, status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (clock_ms() - start > LAST_WAIT_MS * (signals + 1))
            kill(child, signals++ ? SIGKILL : SIGTERM);
        poll(NULL, 0, 10);
    }
}

static void end(struct asker *asker, void (*drop)(void *user))
{
    struct pipe *p = (struct pipe *)asker;
    close_fd(&p->to);
    close_fd(&p->from);
    await(p->child);
    for (int i = 0; i < p->n_asked; i++)
        drop(p->asked[i].user);
    for (int i = 0; i < p->n_done; i++) {
        drop(p->done[i].user);
        remote_answer_free(&p->done[i].answer);
    }
    free(p->asked);
    free(p->done);
    text_free(&p->out);
    text_free(&p->in);
    free(p);
}

/* ---- questions ------------------------------------------------------------------------------------------------- */

static bool has_room(const struct asker *asker)
{
    const struct pipe *p = (const struct pipe *)asker;
    return p->n_asked < p->set.concurrency;
}
static int active(const struct asker *asker)
{
    const struct pipe *p = (const struct pipe *)asker;
    return p->n_asked;
}

static void ask(struct asker *asker, struct text *body, void *user)
{
    struct pipe *p = (struct pipe *)asker;
    text_printf(&p->out, "{\"id\":%lld,\"request\":", (long long)p->next_id);
    text_put(&p->out, body->data, body->len);
    text_puts(&p->out, "}\n");
    text_free(body);
    p->asked[p->n_asked++] = (struct question){p->next_id++, user, clock_ms()};
}

static int write_questions(struct pipe *p, struct err *e)
{
    size_t at = 0;
    ssize_t n;
    while (at < p->out.len && (n = write(p->to, p->out.data + at, p->out.len - at)) > 0)
        at += (size_t)n;
    if (at < p->out.len && errno != EAGAIN && errno != EINTR)
        return err_machine(e, "--pipe %s: cannot be written to; did it end?", p->set.command);
    memmove(p->out.data, p->out.data + at, p->out.len - at);
    p->out.len -= at;
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

static int not_an_answer(const struct pipe *p, const char *line, const char *why, struct err *e)
{
    return err_set(e, EXIT_MACHINE, "--pipe %.100s: a line {\"id\", \"response\" or \"error\"} was expected, not \"%.80s\""
                   " (%s)", p->set.command, line, why);
}

static int read_response(const cJSON *response, struct remote_answer *a, struct err *e)
{
    struct remote_reply reply;
    struct text body = {0};
    json_print(&body, response);
    remote_start(&reply);
    const int failed = remote_take(&reply, body.data, body.len, e) || remote_finish(&reply, a, e) ? -1 : 0;
    remote_drop(&reply);
    text_free(&body);
    return failed;
}

static void add_done(struct pipe *p, int asked, const struct asker_answer *a)
{
    if (p->n_done == p->cap_done) {
        p->cap_done = p->cap_done * 2 + 8;
        p->done = mem_grow(p->done, (size_t)p->cap_done, sizeof *p->done);
    }
    p->done[p->n_done] = *a;
    p->done[p->n_done].user = p->asked[asked].user;
    p->done[p->n_done++].rest_ms = clock_ms() - p->asked[asked].asked_ms;
    p->asked[asked] = p->asked[--p->n_asked];
}

/* A whole line. A response that cannot be read is an error of its sample. */
static int take_line(struct pipe *p, const char *line, size_t len, struct err *e)
{
    struct err fault = {0};
    cJSON *tree = json_parse(line, len, "the line", &fault);
    const cJSON *id = json_get(tree, "id"), *response = json_get(tree, "response"), *error = json_get(tree, "error");
    int asked = 0, failed = 0;
    while (asked < p->n_asked && !(cJSON_IsNumber(id) && id->valuedouble == (double)p->asked[asked].id))
        asked++;
    if (!tree) {
        failed = not_an_answer(p, line, fault.msg, e);
    } else if (asked == p->n_asked) {
        failed = not_an_answer(p, line, "no question of that id is open", e);
    } else if (error && !cJSON_IsNull(error)) {
        struct asker_answer a = {0};
        const char *said = cJSON_IsString(error) ? error->valuestring : json_string(error, "message");
        err_input(&a.err, "the command says: %s", said ? said : "an error");
        add_done(p, asked, &a);
    } else if (!cJSON_IsObject(response)) {
        failed = not_an_answer(p, line, "neither a response nor an error", e);
    } else {
        struct asker_answer a = {0};
        if (read_response(response, &a.answer, &a.err))
            a.err.code = EXIT_BAD_INPUT;
        add_done(p, asked, &a);
    }
    cJSON_Delete(tree);
    return failed;
}

static int take_lines(struct pipe *p, struct err *e)
{
    char *end;
    size_t at = 0;
    while ((end = memchr(p->in.data + p->searched, '\n', p->in.len - p->searched))) {
        *end = '\0';
        const size_t len = (size_t)(end - (p->in.data + at));
        if (len && take_line(p, p->in.data + at, len, e))
            return -1;
        p->searched = at = (size_t)(end - p->in.data) + 1;
    }
    memmove(p->in.data, p->in.data + at, p->in.len - at);
    p->in.len -= at;
    p->searched = p->in.len;
    if (p->in.len > REMOTE_MAX_REPLY)
        return err_set(e, EXIT_MACHINE, "--pipe %.100s: an answer of more than %d MiB", p->set.command,
                       REMOTE_MAX_REPLY >> 20);
    return 0;
}

static int read_answers(struct pipe *p, struct err *e)
{
    char bytes[READ_BYTES];
    ssize_t n;
    while ((n = read(p->from, bytes, sizeof bytes)) > 0) {
        text_put(&p->in, bytes, (size_t)n);
        if (take_lines(p, e))
            return -1;
    }
    if (n == 0 && p->n_asked)
        return err_set(e, EXIT_MACHINE, "--pipe %.100s: the command ended with %d question%s open", p->set.command,
                       p->n_asked, p->n_asked == 1 ? "" : "s");
    return 0;
}

static int check_time(const struct pipe *p, struct err *e)
{
    for (int i = 0; i < p->n_asked; i++)
        if (clock_ms() - p->asked[i].asked_ms > p->set.timeout_s * 1e3)
            return err_set(e, EXIT_MACHINE, "--pipe %.100s: no answer to question %lld within %g s (see --timeout)",
                           p->set.command, (long long)p->asked[i].id, p->set.timeout_s);
    return 0;
}

static int step(struct asker *asker, int ms, struct err *e)
{
    struct pipe *p = (struct pipe *)asker;
    struct pollfd fds[2] = {{.fd = p->from, .events = POLLIN}, {.fd = p->out.len ? p->to : -1, .events = POLLOUT}};
    if (p->n_done)
        return 0;
    if (poll(fds, 2, ms) < 0 && errno != EINTR)
        return err_machine(e, "--pipe: cannot wait");
    /* What it had to say comes before the news that it takes no more. */
    if (fds[0].revents && read_answers(p, e))
        return -1;
    if (fds[1].revents && p->out.len && write_questions(p, e))
        return -1;
    return check_time(p, e);
}

static bool take(struct asker *asker, struct asker_answer *out)
{
    struct pipe *p = (struct pipe *)asker;
    if (p->n_done == 0)
        return false;
    *out = p->done[--p->n_done];
    return true;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

int pipe_open(struct asker **out, const struct pipe_settings *s, struct err *e)
{
    int to[2], from[2];
    *out = NULL;
    if (pipe2(to, O_CLOEXEC))
        return err_machine(e, "--pipe: no pipe");
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return err_machine(e, "--pipe: no pipe");
    }
    const pid_t child = fork();
    if (child == 0)
        run_command(s->command, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    if (child < 0) {
        close(to[1]);
        close(from[0]);
        return err_machine(e, "--pipe: no process");
    }
    signal(SIGPIPE, SIG_IGN);
    fcntl(to[1], F_SETFL, O_NONBLOCK);
    fcntl(from[0], F_SETFL, O_NONBLOCK);
    struct pipe *p = NEW(struct pipe, 1);
    *p = (struct pipe){.asker = {has_room, active, ask, step, take, end}, .set = *s, .child = child, .to = to[1], .from = from[0], .next_id = 1,
                       .asked = NEW(struct question, s->concurrency)};
    *out = &p->asker;
    return 0;
}
