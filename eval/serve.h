/* serve.h - the parts of the verb `serve` (inside eval/ only).
 *
 * HTTP threads (serve_http.c) read requests and hand them as exchanges to one engine thread (serve_engine.c), which
 * answers several at a time in one batch. What goes over the wire is written in serve_reply.c, what is counted in
 * serve_metrics.c.
 */
#ifndef HANDOFF_SERVE_H
#define HANDOFF_SERVE_H

#include <pthread.h>

#include "eval/chat_request.h"
#include "eval/reply.h"

struct serve_settings {
    const char *host, *model_name;
    int port;                   /* 0: any that is free */
    int batch, queue;           /* requests answered at a time, and waiting */
    int context;                /* tokens of prompt and answer together */
    size_t max_body;            /* bytes of one request, */
    size_t max_bodies;          /* and of all that are under way */
    double max_audio_s;         /* length of a sound */
    double slow_s, timeout_s;   /* for a client to send its request; for the answer */
    double threshold;           /* NAN: none */
    bool trailer;
    struct chat_limits limits;
};

/* ---- metrics (serve_metrics.c) ----------------------------------------------------------------------------------- */

struct histogram { const double *bound; int n_bounds; int64_t count[24], total; double sum; };

struct metrics {
    int64_t answered[600];      /* by HTTP status */
    int64_t left;               /* clients that went away */
    int64_t prompt_tokens, completion_tokens, handoffs;
    struct histogram confidence, first_token_s, request_s;
};
void metrics_start(struct metrics *m);
void histogram_add(struct histogram *h, double v);
/* In the text form that Prometheus reads. */
void metrics_print(const struct metrics *m, int n_queued, int n_running, double threshold, struct text *out);

/* ---- exchanges (serve_engine.c) ---------------------------------------------------------------------------------- */

enum verdict { GO_ON, CLIENT_LEFT, TIME_OVER, STOPPING };

/* One request and its answer. Two hold it, the HTTP side and the engine's; who lets go last frees it. */
struct exchange {
    struct service *service;
    struct exchange *next;      /* in the queue, or among those in the batch */
    struct chat_request request;
    struct text rendered;
    char id[40];
    int64_t created;            /* seconds since 1970 */
    double arrived_ms, first_token_ms;

    /* The engine thread's. */
    struct reply reply;
    size_t shown, shown_thought;            /* bytes of the reply that went out */
    struct text logprobs;       /* entries that did not go out yet */

    /* Behind the service's lock. */
    int holders;
    int status;                 /* of HTTP; 0: not known yet */
    struct text out;            /* the body, or what of the stream is there */
    size_t sent;
    bool done;                  /* nothing comes behind `out` */
    enum verdict verdict;
    struct MHD_Connection *connection, *asleep;             /* asleep: suspended until there is something to send */
    int socket;                 /* its socket, to see whether the client is still there */
    size_t n_body;              /* its part of max_bodies */
};

struct service {
    struct engine *m;
    const struct probe *probe;
    const struct serve_settings *set;
    struct batcher *batcher;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct exchange *queue, **queue_end, *running;
    int n_queued, n_running;
    int n_held;                 /* exchanges that the HTTP side holds */
    size_t n_bodies;            /* bytes of all bodies under way */
    int64_t n_submitted;
    bool stopping;
    double give_up_ms;          /* when stopping: end of the grace */
    double looked_ms;           /* when clients were last looked after */
    struct metrics metrics;
};
int service_start(struct service *s, struct engine *m, const struct probe *p, const struct serve_settings *set,
                  struct err *e);
/* Hands over a request that was read and rendered. -1: the queue is full or the service stops; the caller keeps x. */
int service_submit(struct service *s, struct exchange *x, struct fault *f);
/* The HTTP side needs it no more. */
void service_let_go(struct service *s, struct exchange *x);
/* Refuses what waits, gives what runs `grace_s` to finish, and ends the thread. */
void service_stop(struct service *s, double grace_s);
void exchange_free(struct exchange *x);
/* Inside the lock: resumes the connection if it sleeps (serve_http.c). */
void exchange_wake(struct exchange *x);

/* ---- on the wire (serve_reply.c) --------------------------------------------------------------------------------- */

void reply_error(struct text *out, const struct fault *f);
void reply_models(struct text *out, const char *name, int64_t created, const struct serve_settings *set);
/* One token for "logprobs". logits: [n_vocab]; the alternatives are the largest of them. */
void reply_logprob(struct exchange *x, const struct tokenizer *t, const double *logits, int n_vocab, int32_t id,
                   double logprob);
/* A chunk with what can be shown since the last one; nothing if that is nothing. */
void reply_chunk(struct text *out, struct exchange *x, const struct serve_settings *set);
void reply_last_chunks(struct text *out, struct exchange *x, const struct answer *a, const struct serve_settings *set);
void reply_whole(struct text *out, struct exchange *x, const struct answer *a, const struct serve_settings *set);

/* ---- HTTP (serve_http.c) ----------------------------------------------------------------------------------------- */

struct http_server;
int http_start(struct http_server **out, struct service *s, struct err *e);
int http_port(const struct http_server *h);
/* Breaks connections that take too long to send their request; to be called every now and then. */
void http_look_after(struct http_server *h);
void http_stop_listening(struct http_server *h);
void http_stop(struct http_server *h);

#endif
