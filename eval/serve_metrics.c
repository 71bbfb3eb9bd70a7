/* serve_metrics.c - what the server counts, in Prometheus' text form. */
#include "eval/serve.h"

static const double confidence_bounds[] = {.05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .55, .6, .65, .7, .75, .8, .85,
                                           .9, .95, 1};
static const double seconds_bounds[] = {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250};

#define BOUNDS(a) .bound = (a), .n_bounds = (int)(sizeof(a) / sizeof *(a))

void metrics_start(struct metrics *m)
{
    *m = (struct metrics){.confidence = {BOUNDS(confidence_bounds)}, .first_token_s = {BOUNDS(seconds_bounds)},
                          .request_s = {BOUNDS(seconds_bounds)}};
}

void histogram_add(struct histogram *h, double v)
{
    int i = 0;
    while (i < h->n_bounds && v > h->bound[i])
        i++;
    h->count[i]++;
    h->total++;
    h->sum += v;
}

static void head(struct text *t, const char *name, const char *type, const char *help)
{
    text_printf(t, "# HELP handoff_%s %s\n# TYPE handoff_%s %s\n", name, help, name, type);
}

static void number(struct text *t, const char *name, const char *type, const char *help, double v)
{
    head(t, name, type, help);
    text_printf(t, "handoff_%s ", name);
    text_put_double(t, v);
    text_putc(t, '\n');
}

static void print_histogram(struct text *t, const char *name, const char *help, const struct histogram *h)
{
    int64_t up_to = 0;
    head(t, name, "histogram", help);
    for (int i = 0; i < h->n_bounds; i++) {
        up_to += h->count[i];
        text_printf(t, "handoff_%s_bucket{le=\"%g\"} %lld\n", name, h->bound[i], (long long)up_to);
    }
    text_printf(t, "handoff_%s_bucket{le=\"+Inf\"} %lld\nhandoff_%s_sum ", name, (long long)h->total, name);
    text_put_double(t, h->sum);
    text_printf(t, "\nhandoff_%s_count %lld\n", name, (long long)h->total);
}

void metrics_print(const struct metrics *m, int n_queued, int n_running, double threshold, struct text *t)
{
    head(t, "requests_total", "counter", "Requests answered, by HTTP status.");
    for (int i = 0; i < (int)(sizeof m->answered / sizeof *m->answered); i++)
        if (m->answered[i])
            text_printf(t, "handoff_requests_total{status=\"%d\"} %lld\n", i, (long long)m->answered[i]);
    number(t, "clients_left_total", "counter", "Clients that went away before their answer was there.",
           (double)m->left);
    number(t, "requests_queued", "gauge", "Requests that wait.", n_queued);
    number(t, "requests_running", "gauge", "Requests in the batch.", n_running);
    number(t, "prompt_tokens_total", "counter", "Tokens of prompts, soft tokens included.", (double)m->prompt_tokens);
    number(t, "completion_tokens_total", "counter", "Tokens generated, stop tokens included.",
           (double)m->completion_tokens);
    print_histogram(t, "confidence", "Confidence of whole answers.", &m->confidence);
    if (threshold == threshold) {
        number(t, "threshold", "gauge", "Answers below it would be handed off.", threshold);
        number(t, "handoffs_total", "counter", "Answers below the threshold.", (double)m->handoffs);
        if (m->confidence.total)
            number(t, "handoff_share", "gauge", "Share of answers below the threshold.",
                   (double)m->handoffs / (double)m->confidence.total);
    }
    print_histogram(t, "first_token_seconds", "From a request's arrival to its first token.", &m->first_token_s);
    print_histogram(t, "request_seconds", "From a request's arrival to its whole answer.", &m->request_s);
}
