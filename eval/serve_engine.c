/* serve_engine.c - the one thread that drives the engine: takes requests from the queue into the batch between two
 * steps, writes what comes out, and drops those whose client has left or whose time is over. */
#define _GNU_SOURCE
#include "eval/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LOOK_AFTER_MS = 50 };

/* ---- exchanges -------------------------------------------------------------------------------------------------- */

void exchange_free(struct exchange *x)
{
    chat_request_free(&x->request);
    text_free(&x->rendered);
    reply_free(&x->reply);
    text_free(&x->logprobs);
    text_free(&x->out);
    free(x);
}

static void release(struct service *s, struct exchange *x)
{
    if (--x->holders)
        return;
    s->n_bodies -= x->n_body;
    exchange_free(x);
}

void service_let_go(struct service *s, struct exchange *x)
{
    pthread_mutex_lock(&s->lock);
    if (!x->done && x->verdict == GO_ON) {
        x->verdict = CLIENT_LEFT;
        s->metrics.left++;
    }
    x->asleep = NULL;
    s->n_held--;
    release(s, x);
    pthread_mutex_unlock(&s->lock);
}

/* The engine side is through with x; `out` may have grown. */
static void close_exchange(struct service *s, struct exchange *x, int status)
{
    if (!x->status)
        x->status = status;
    x->done = true;
    s->metrics.answered[status]++;
    exchange_wake(x);
    release(s, x);
}

static void fail_exchange(struct service *s, struct exchange *x, const struct fault *f)
{
    if (x->request.stream && x->status) {               /* the head of the stream is out already */
        text_puts(&x->out, "data: ");
        reply_error(&x->out, f);
        text_puts(&x->out, "\n");
    } else {
        text_clear(&x->out);
        reply_error(&x->out, f);
    }
    close_exchange(s, x, f->status);
}

static void fail_by_verdict(struct service *s, struct exchange *x)
{
    struct fault f;
    if (x->verdict == TIME_OVER)
        fault_set(&f, 503, "timeout", NULL, "no answer within %g seconds", s->set->timeout_s);
    else if (x->verdict == STOPPING)
        fault_set(&f, 503, "stopping", NULL, "the server is being stopped");
    else
        fault_set(&f, 499, "client_left", NULL, "the client went away");
    fail_exchange(s, x, &f);
}

/* ---- the queue -------------------------------------------------------------------------------------------------- */

int service_submit(struct service *s, struct exchange *x, struct fault *f)
{
    int failed = 0;
    pthread_mutex_lock(&s->lock);
    if (s->stopping) {
        failed = fault_set(f, 503, "stopping", NULL, "the server is being stopped");
    } else if (s->n_queued == s->set->queue) {
        failed = fault_set(f, 429, "queue_full", NULL, "%d requests are waiting already; try again later", s->n_queued);
    } else {
        snprintf(x->id, sizeof x->id, "chatcmpl-%llx-%llx", (unsigned long long)x->created,
                 (unsigned long long)++s->n_submitted);
        x->holders = 2;
        *s->queue_end = x;
        s->queue_end = &x->next;
        s->n_queued++;
        s->n_held++;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return failed;
}

static void unlink_queued(struct service *s, struct exchange **at)
{
    struct exchange *x = *at;
    *at = x->next;
    if (s->queue_end == &x->next)
        s->queue_end = at;
    x->next = NULL;
    s->n_queued--;
}

static bool client_there(const struct exchange *x)
{
    char byte;
    ssize_t got = recv(x->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

static void judge(struct service *s, struct exchange *x, double now)
{
    if (x->verdict != GO_ON)
        return;
    if (x->asleep && !client_there(x)) {                /* only then is the socket sure to be open */
        x->verdict = CLIENT_LEFT;
        s->metrics.left++;
    } else if (now - x->arrived_ms > s->set->timeout_s * 1000) {
        x->verdict = TIME_OVER;
    } else if (s->stopping && now > s->give_up_ms) {
        x->verdict = STOPPING;
    }
}

/* Inside the lock. What waits and has no business any more leaves the queue; what runs ends with its next token. */
static void look_after(struct service *s)
{
    double now = clock_ms();
    if (now - s->looked_ms < LOOK_AFTER_MS)
        return;
    s->looked_ms = now;
    for (struct exchange *x = s->running; x; x = x->next)
        judge(s, x, now);
    for (struct exchange **at = &s->queue; *at;) {
        struct exchange *x = *at;
        judge(s, x, now);
        if (x->verdict == GO_ON) {
            at = &x->next;
            continue;
        }
        unlink_queued(s, at);
        fail_by_verdict(s, x);
    }
}

/* ---- into the batch --------------------------------------------------------------------------------------------- */

static bool on_token(void *user, const struct answer *a, const double *logits);

static int check_sounds(const struct service *s, const struct exchange *x, struct fault *f)
{
    const struct conversation *c = &x->request.c;
    for (int i = 0; i < c->n_media; i++)
        if (c->media[i].kind == MEDIA_AUDIO && c->encoded[i].seconds > s->set->max_audio_s)
            return fault_set(f, 400, "audio_too_long", c->media[i].name, "%s: a sound of %.1f s, at most %g s are "
                             "taken", c->media[i].name, c->encoded[i].seconds, s->set->max_audio_s);
    return 0;
}

/* The prompt as ids. Everything that can be wrong with it is the client's. */
static int prepare(struct service *s, struct exchange *x, struct answer_request *r, struct fault *f)
{
    struct chat_request *q = &x->request;
    struct err e = {0};
    conversation_limit_audio(&q->c, s->set->max_audio_s);
    if (conversation_encode(s->m, &q->c, &e))
        return fault_set(f, 400, "invalid_media", NULL, "%s", e.msg);
    if (check_sounds(s, x, f))
        return -1;
    if (conversation_expand(s->m, &q->c, &x->rendered, &r->prompt, &r->soft, &e))
        return fault_set(f, 400, "invalid_prompt", "messages", "%s", e.msg);
    const int room = s->set->context - r->prompt.n;
    if (room < 1)
        return fault_set(f, 400, "context_length_exceeded", "messages", "the prompt has %d tokens, prompt and answer "
                         "together may have %d", r->prompt.n, s->set->context);
    r->settings = q->settings;
    if (r->settings.max_tokens > room)
        r->settings.max_tokens = room;
    r->user = x;
    r->on_token = on_token;
    return 0;
}

static void start(struct service *s, struct exchange *x)
{
    struct answer_request r = {0};
    struct fault f = {0};
    int failed = prepare(s, x, &r, &f);
    pthread_mutex_lock(&s->lock);
    if (failed) {
        fail_exchange(s, x, &f);
    } else {
        x->next = s->running;
        s->running = x;
        s->n_running++;
    }
    pthread_mutex_unlock(&s->lock);
    if (failed) {
        ids_free(&r.prompt);
        free(r.soft);
        return;
    }
    reply_start(&x->reply, engine_tokenizer(s->m), (const char *const *)x->request.stops, x->request.n_stops);
    batcher_add(s->batcher, &r);
}

static void fill_batch(struct service *s)
{
    while (batcher_has_room(s->batcher)) {
        pthread_mutex_lock(&s->lock);
        struct exchange *x = s->queue;
        if (x)
            unlink_queued(s, &s->queue);
        pthread_mutex_unlock(&s->lock);
        if (!x)
            return;
        start(s, x);
    }
}

/* ---- out of it -------------------------------------------------------------------------------------------------- */

static bool on_token(void *user, const struct answer *a, const double *logits)
{
    struct exchange *x = user;
    struct service *s = x->service;
    const int last = a->tokens.n - 1;
    if (last == 0)
        x->first_token_ms = clock_ms();
    enum token_part part = reply_push(&x->reply, a->tokens.id[last]);
    if (x->request.logprobs && part == PART_ANSWER)
        reply_logprob(x, engine_tokenizer(s->m), logits, engine_info(s->m)->vocab_size, a->tokens.id[last],
                      a->steps[last].logprob);
    pthread_mutex_lock(&s->lock);
    if (x->request.stream && x->verdict == GO_ON) {
        size_t before = x->out.len;
        reply_chunk(&x->out, x, s->set);
        if (x->out.len > before) {
            x->status = 200;
            exchange_wake(x);
        }
    }
    bool go_on = x->verdict == GO_ON && !x->reply.stopped;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void count(struct service *s, const struct exchange *x, const struct answer *a)
{
    struct metrics *m = &s->metrics;
    double now = clock_ms();
    m->prompt_tokens += a->prompt_tokens;
    m->completion_tokens += a->tokens.n;
    if (a->has_probe) {
        histogram_add(&m->confidence, a->probe.confidence);
        m->handoffs += a->probe.confidence < s->set->threshold;
    }
    histogram_add(&m->first_token_s, ((x->first_token_ms > 0 ? x->first_token_ms : now) - x->arrived_ms) / 1000);
    histogram_add(&m->request_s, (now - x->arrived_ms) / 1000);
}

static void finish(struct service *s, struct exchange *x, const struct answer *a)
{
    struct fault f;
    pthread_mutex_lock(&s->lock);
    for (struct exchange **at = &s->running; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            s->n_running--;
            break;
        }
    if (x->verdict != GO_ON) {
        fail_by_verdict(s, x);
    } else if (a->err.code) {
        fault_set(&f, a->err.code == EXIT_BAD_INPUT ? 400 : 500, NULL, NULL, "%s", a->err.msg);
        fail_exchange(s, x, &f);
    } else {
        reply_end(&x->reply);
        count(s, x, a);
        if (x->request.stream)
            reply_last_chunks(&x->out, x, a, s->set);
        else
            reply_whole(&x->out, x, a, s->set);
        close_exchange(s, x, 200);
    }
    pthread_mutex_unlock(&s->lock);
}

/* A step that fails has changed nothing, but which of its sequences is to blame it does not say. */
static void fail_batch(struct service *s, const struct err *e)
{
    struct fault f;
    fault_set(&f, 500, "engine_failed", NULL, "%s", e->msg);
    batcher_free(s->batcher);
    s->batcher = batcher_new(s->m, s->probe, s->set->batch);
    pthread_mutex_lock(&s->lock);
    while (s->running) {
        struct exchange *x = s->running;
        s->running = x->next;
        fail_exchange(s, x, &f);
    }
    s->n_running = 0;
    pthread_mutex_unlock(&s->lock);
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* Waits for work; false: there is none left and there will be none. */
static bool wait_for_work(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->queue && !s->running && !s->stopping)
        pthread_cond_wait(&s->work, &s->lock);
    look_after(s);
    bool more = s->queue || s->running || !s->stopping;
    pthread_mutex_unlock(&s->lock);
    return more;
}

static void *serve(void *arg)
{
    struct service *s = arg;
    struct answer a;
    while (wait_for_work(s)) {
        struct err e = {0};
        fill_batch(s);
        if (batcher_active(s->batcher) && batcher_step(s->batcher, &e))
            fail_batch(s, &e);
        while (batcher_take(s->batcher, &a)) {
            finish(s, a.user, &a);
            answer_free(&a);
        }
    }
    return NULL;
}

int service_start(struct service *s, struct engine *m, const struct probe *p, const struct serve_settings *set,
                  struct err *e)
{
    *s = (struct service){.m = m, .probe = p, .set = set};
    s->queue_end = &s->queue;
    s->batcher = batcher_new(m, p, set->batch);
    metrics_start(&s->metrics);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    errno = pthread_create(&s->thread, NULL, serve, s);
    return errno ? err_machine(e, "no thread could be started") : 0;
}

void service_stop(struct service *s, double grace_s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->give_up_ms = clock_ms() + grace_s * 1000;
    while (s->queue) {
        struct exchange *x = s->queue;
        unlink_queued(s, &s->queue);
        x->verdict = STOPPING;
        fail_by_verdict(s, x);
    }
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    batcher_free(s->batcher);
    s->batcher = NULL;
}
