#include "eval/endpoint.h"
#include "eval/cli.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ERROR_BODY = 64 << 10, CONNECT_MS = 30000 };
static const double first_pause_ms = 500, longest_pause_ms = 30e3, longest_retry_after_ms = 600e3;

/* One question. */
struct flight {
    struct flight *next;
    struct endpoint *p;
    void *user;
    struct text body;
    CURL *easy;
    bool flying;
    int tries;
    double not_before_ms;       /* while it waits */
    struct remote_reply reply;
    struct text refusal;        /* body of an answer other than 200 */
    struct err fault;           /* what is wrong with the reply */
    char curl_error[CURL_ERROR_SIZE];
};

struct endpoint {
    struct asker asker;         /* first, so that the one can be had from the other */
    struct endpoint_settings set;
    char *url;
    CURLM *multi;
    struct curl_slist *headers;
    struct flight *flights;     /* waiting or flying */
    int n_flights;
    double next_start_ms;       /* as --rps allows */
    double paused_until_ms;     /* as the server asks for */
    struct asker_answer *done;           /* [n_done] */
    int n_done, cap_done;
};

static void flight_free(struct flight *f)
{
    if (f->easy) {
        curl_multi_remove_handle(f->p->multi, f->easy);
        curl_easy_cleanup(f->easy);
    }
    remote_drop(&f->reply);
    text_free(&f->refusal);
    text_free(&f->body);
    free(f);
}

static void end(struct asker *asker, void (*drop)(void *user))
{
    struct endpoint *p = (struct endpoint *)asker;
    while (p->flights) {
        struct flight *f = p->flights;
        p->flights = f->next;
        drop(f->user);
        flight_free(f);
    }
    for (int i = 0; i < p->n_done; i++) {
        drop(p->done[i].user);
        remote_answer_free(&p->done[i].answer);
    }
    free(p->done);
    curl_multi_cleanup(p->multi);
    curl_slist_free_all(p->headers);
    curl_global_cleanup();
    free(p->url);
    free(p);
}

static bool has_room(const struct asker *asker)
{
    const struct endpoint *p = (const struct endpoint *)asker;
    return p->n_flights < p->set.concurrency;
}

static int active(const struct asker *asker)
{
    const struct endpoint *p = (const struct endpoint *)asker;
    return p->n_flights;
}

static void ask(struct asker *asker, struct text *body, void *user)
{
    struct endpoint *p = (struct endpoint *)asker;
    struct flight *f = NEW(struct flight, 1), **at = &p->flights;
    *f = (struct flight){.p = p, .user = user, .body = *body};
    *body = (struct text){0};
    while (*at)
        at = &(*at)->next;
    *at = f;
    p->n_flights++;
}

/* ---- in the air ------------------------------------------------------------------------------------------------ */

static size_t on_bytes(char *bytes, size_t one, size_t n, void *user)
{
    struct flight *f = user;
    long status = 0;
    (void)one;
    curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200)
        return remote_take(&f->reply, bytes, n, &f->fault) ? 0 : n;
    if (f->refusal.len < MAX_ERROR_BODY)
        text_put(&f->refusal, bytes, n);
    return f->refusal.len < MAX_ERROR_BODY ? n : 0;
}

static void start(struct flight *f)
{
    struct endpoint *p = f->p;
    remote_start(&f->reply);
    text_clear(&f->refusal);
    f->fault = (struct err){0};
    f->easy = curl_easy_init();
    f->flying = true;
    f->tries++;
    curl_easy_setopt(f->easy, CURLOPT_URL, p->url);
    curl_easy_setopt(f->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(f->easy, CURLOPT_FOLLOWLOCATION, 0L);          /* a key does not travel on */
    curl_easy_setopt(f->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(f->easy, CURLOPT_USERAGENT, "handoff/" HANDOFF_VERSION);
    curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, p->headers);
    curl_easy_setopt(f->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body.len);
    curl_easy_setopt(f->easy, CURLOPT_POSTFIELDS, f->body.data);
    curl_easy_setopt(f->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(f->easy, CURLOPT_TIMEOUT_MS, (long)(p->set.timeout_s * 1000));
    curl_easy_setopt(f->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(f->easy, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(f->easy, CURLOPT_PRIVATE, f);
    curl_easy_setopt(f->easy, CURLOPT_ERRORBUFFER, f->curl_error);
    curl_multi_add_handle(p->multi, f->easy);
}

/* Starts what may start; the time until the next one may, at most `ms`. */
static int start_waiting(struct endpoint *p, int ms)
{
    const double now = clock_ms();
    double next = now + ms;
    for (struct flight *f = p->flights; f; f = f->next) {
        if (f->flying)
            continue;
        double at = fmax(f->not_before_ms, fmax(p->paused_until_ms, p->next_start_ms));
        if (at > now) {
            next = fmin(next, at);
            continue;
        }
        start(f);
        if (p->set.rps > 0)
            p->next_start_ms = now + 1000 / p->set.rps;
    }
    return (int)ceil(next - now);
}

/* ---- landed ---------------------------------------------------------------------------------------------------- */

static void remove_flight(struct endpoint *p, struct flight *f)
{
    for (struct flight **at = &p->flights; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    p->n_flights--;
    flight_free(f);
}

static struct asker_answer *add_done(struct endpoint *p, struct flight *f)
{
    if (p->n_done == p->cap_done) {
        p->cap_done = p->cap_done * 2 + 8;
        p->done = mem_grow(p->done, (size_t)p->cap_done, sizeof *p->done);
    }
    struct asker_answer *a = &p->done[p->n_done++];
    curl_off_t first = 0, total = 0;
    curl_easy_getinfo(f->easy, CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_easy_getinfo(f->easy, CURLINFO_TOTAL_TIME_T, &total);
    *a = (struct asker_answer){.user = f->user, .first_ms = (double)first / 1000,
                                  .rest_ms = (double)(total - first) / 1000};
    return a;
}

/* What went wrong, in one line behind the URL. */
static void describe(const struct flight *f, CURLcode code, long status, struct text *out)
{
    struct text said = {0};
    if (f->fault.code) {
        text_printf(out, "%s", f->fault.msg);
    } else if (status && status != 200) {
        remote_error_text(&f->refusal, &said);
        text_printf(out, "HTTP status %ld%s%s", status, said.len ? ": " : "", said.data ? said.data : "");
    } else {
        text_printf(out, "%s", f->curl_error[0] ? f->curl_error : curl_easy_strerror(code));
    }
    text_free(&said);
}

static bool worth_another_try(long status)
{
    return status == 0 || status == 200 || status == 408 || status == 409 || status == 425 || status == 429 ||
           status >= 500;
}

static bool about_the_question(long status)
{
    return status == 400 || status == 413 || status == 415 || status == 422;
}

/* Lets it wait for its next try. */
static void put_off(struct endpoint *p, struct flight *f, long status)
{
    curl_off_t named = 0;
    curl_easy_getinfo(f->easy, CURLINFO_RETRY_AFTER, &named);
    double pause = fmin(first_pause_ms * exp2(f->tries - 1), longest_pause_ms);
    if (named > 0)
        pause = fmin((double)named * 1000, longest_retry_after_ms);
    f->not_before_ms = clock_ms() + pause;
    if (named > 0 && (status == 429 || status == 503))              /* that holds for all of them */
        p->paused_until_ms = fmax(p->paused_until_ms, f->not_before_ms);
    curl_multi_remove_handle(p->multi, f->easy);
    curl_easy_cleanup(f->easy);
    f->easy = NULL;
    f->flying = false;
    remote_drop(&f->reply);
}

static int land(struct endpoint *p, struct flight *f, CURLcode code, struct err *e)
{
    long status = 0;
    struct remote_answer answer;
    struct text what = {0};
    int failed = 0;
    curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status == 200 && !f->fault.code &&
        remote_finish(&f->reply, &answer, &f->fault) == 0) {
        add_done(p, f)->answer = answer;
        remove_flight(p, f);
        return 0;
    }
    describe(f, code, status, &what);
    if (about_the_question(status)) {
        err_input(&add_done(p, f)->err, "%s", what.data);
        remove_flight(p, f);
    } else if (worth_another_try(status) && f->tries <= p->set.retries) {
        put_off(p, f, status);
    } else {
        failed = err_set(e, EXIT_MACHINE, "%s: %s%s", p->url, what.data,
                         worth_another_try(status) && f->tries > 1 ? " (after all tries)" : "");
    }
    text_free(&what);
    return failed;
}

static int step(struct asker *asker, int ms, struct err *e)
{
    struct endpoint *p = (struct endpoint *)asker;
    int n_running, n_left, failed = 0;
    const int wait = p->n_done ? 0 : start_waiting(p, ms);
    curl_multi_perform(p->multi, &n_running);
    if (wait > 0)
        curl_multi_poll(p->multi, NULL, 0, wait, NULL);
    curl_multi_perform(p->multi, &n_running);
    CURLMsg *m;
    while (!failed && (m = curl_multi_info_read(p->multi, &n_left))) {
        struct flight *f = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        const CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f);
        failed = land(p, f, code, e);
    }
    return failed;
}

static bool take(struct asker *asker, struct asker_answer *out)
{
    struct endpoint *p = (struct endpoint *)asker;
    if (p->n_done == 0)
        return false;
    *out = p->done[--p->n_done];
    return true;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int add_key(struct endpoint *p, struct err *e)
{
    struct text header = {0};
    for (const char *c = p->set.key; c && *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            return err_set(e, EXIT_USAGE, "--api-key-env: the key holds blanks or other characters that no key has");
    if (!p->set.key)
        return 0;
    text_printf(&header, "Authorization: Bearer %s", p->set.key);
    p->headers = curl_slist_append(p->headers, header.data);
    text_free(&header);
    return 0;
}

int endpoint_open(struct asker **out, const struct endpoint_settings *s, struct err *e)
{
    static const char path[] = "/chat/completions";
    size_t len = strlen(s->url);
    *out = NULL;
    if (strncmp(s->url, "http://", 7) != 0 && strncmp(s->url, "https://", 8) != 0)
        return err_set(e, EXIT_USAGE, "--endpoint: http://... or https://... was expected, not \"%.100s\"", s->url);
    struct endpoint *p = NEW(struct endpoint, 1);
    struct text url = {0};
    while (len && s->url[len - 1] == '/')
        len--;
    text_put(&url, s->url, len);
    if (len < sizeof path || strcmp(url.data + len - (sizeof path - 1), path) != 0)
        text_puts(&url, path);
    p->asker = (struct asker){has_room, active, ask, step, take, end};
    p->set = *s;
    p->url = text_take(&url);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    p->multi = curl_multi_init();
    p->headers = curl_slist_append(NULL, "Content-Type: application/json");
    p->headers = curl_slist_append(p->headers, "Accept: application/json, text/event-stream");
    p->headers = curl_slist_append(p->headers, "Expect:");
    if (add_key(p, e)) {
        end(&p->asker, NULL);
        return -1;
    }
    *out = &p->asker;
    return 0;
}
