/* figures.c - the material of the report's plots and of its sample viewer. */
#include "eval/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CURVE = 240 };

/* ---- curves of a score ------------------------------------------------------------------------------------------ */

/* Blocks from the most to the least trusted; the ROC flags from the other end. */
static const struct xy *roc_points(const struct ranking *r, struct arena *a, int *n)
{
    double wrong = 0, right = 0, flagged_wrong = 0, flagged_right = 0;
    for (size_t b = 0; b < r->n_blocks; b++) {
        wrong += r->wrong[b];
        right += r->weight[b] - r->wrong[b];
    }
    *n = 0;
    if (!(wrong > 0 && right > 0))
        return NULL;
    size_t stride = r->n_blocks / MAX_CURVE + 1;
    struct xy *p = ARENA_NEW(a, struct xy, r->n_blocks / stride + 3);
    p[(*n)++] = (struct xy){0, 0};
    for (size_t b = r->n_blocks; b-- > 0;) {
        flagged_wrong += r->wrong[b];
        flagged_right += r->weight[b] - r->wrong[b];
        if (b % stride == 0)
            p[(*n)++] = (struct xy){flagged_right / right, flagged_wrong / wrong};
    }
    return p;
}

static const struct xy *risk_points(const struct ranking *r, struct arena *a, int *n)
{
    struct coverage_point *all = NEW(struct coverage_point, r->n_blocks);
    size_t k = risk_coverage(r, all), stride = k / MAX_CURVE + 1;
    struct xy *p = ARENA_NEW(a, struct xy, k / stride + 2);
    *n = 0;
    for (size_t i = 0; i < k; i++)
        if (i % stride == 0 || i + 1 == k)
            p[(*n)++] = (struct xy){all[i].coverage, all[i].risk};
    free(all);
    return p;
}

static void plot_of(struct plot_task *p, const struct columns *c, struct arena *a)
{
    struct ranking r;
    if (c->has_confidence &&
        ranking_make(&r, c->confidence, c->wrong, NULL, c->n, HIGHER_IS_RIGHT, NAN_IS_EXCLUDED, NULL) == 0) {
        p->roc = roc_points(&r, a, &p->n_roc);
        p->risk = risk_points(&r, a, &p->n_risk);
        ranking_free(&r);
    }
    if (c->has_entropy &&
        ranking_make(&r, c->entropy, c->wrong, NULL, c->n, HIGHER_IS_WRONG, NAN_IS_EXCLUDED, NULL) == 0) {
        p->roc_entropy = roc_points(&r, a, &p->n_roc_entropy);
        p->risk_entropy = risk_points(&r, a, &p->n_risk_entropy);
        ranking_free(&r);
    }
    for (size_t i = 0; i < c->n; i++) {
        if (isnan(c->confidence[i]))
            continue;
        int bin = (int)(c->confidence[i] * N_HISTOGRAM);
        bin = bin < N_HISTOGRAM ? bin : N_HISTOGRAM - 1;
        (c->wrong[i] ? p->wrong : p->right)[bin]++;
    }
}

int figures_plots(struct plot_task **out, int *n, const struct inputs *in, const struct records *r, struct arena *a,
                  struct err *e)
{
    *out = ARENA_NEW(a, struct plot_task, r->n_tasks);
    *n = 0;
    for (int t = 0; t < r->n_tasks; t++) {
        struct columns c;
        if (!inputs_want(in, r->tasks[t].name) || r->tasks[t].n == 0)
            continue;
        if (columns_make(&c, in, r, t, e))
            return -1;
        (*out)[*n].task = r->tasks[t].name;
        plot_of(&(*out)[(*n)++], &c, a);
        columns_free(&c);
    }
    return 0;
}

/* ---- scatter ---------------------------------------------------------------------------------------------------- */

void figures_scatter(struct scatter *out, const struct inputs *in, const struct records *base, const struct records *r,
                     int max, struct arena *a)
{
    const struct wrong_rule rule = {in->tau, in->cut};
    int64_t stride = base->n / max + 1;
    struct xy *points = ARENA_NEW(a, struct xy, max + 1);
    bool *flipped = ARENA_NEW(a, bool, max + 1);
    *out = (struct scatter){.run = r->name, .points = points, .flipped = flipped};
    for (int64_t i = 0; i < base->n && out->n < max; i += stride) {
        const struct record *x = &base->rows[i], *y = records_find(r, x->key);
        if (!y || !(x->flags & y->flags & REC_HAS_CONFIDENCE) || !inputs_want(in, base->tasks[x->task].name))
            continue;
        points[out->n] = (struct xy){x->confidence, y->confidence};
        flipped[out->n++] = record_wrong(x, rule) != record_wrong(y, rule);
    }
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

struct sampler {
    const struct inputs *in;
    const struct records *runs;
    int n_runs;
    struct records_texts **texts;
    struct arena *arena;
    int *shown_task;            /* index among the wanted tasks */
};

static const char *kept(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

/* A string, or the strings of an array behind each other. */
static const char *joined(struct arena *a, const cJSON *v, const char *between)
{
    if (cJSON_IsString(v))
        return kept(a, v->valuestring);
    struct text t = {0};
    const cJSON *one;
    cJSON_ArrayForEach(one, v)
        if (cJSON_IsString(one))
            text_printf(&t, "%s%s", t.len ? between : "", one->valuestring);
    const char *s = arena_strndup(a, t.data ? t.data : "", t.len);
    text_free(&t);
    return s;
}

static const char *question_of(struct arena *a, const cJSON *line)
{
    const cJSON *labels = json_get(line, "labels"), *options = json_get(line, "options");
    const char *question = json_string(line, "question");
    struct text t = {0};
    text_puts(&t, question ? question : "");
    for (int i = 0; i < cJSON_GetArraySize(options); i++) {
        const cJSON *label = cJSON_GetArrayItem(labels, i), *option = cJSON_GetArrayItem(options, i);
        text_printf(&t, "\n%s. %s", cJSON_IsString(label) ? label->valuestring : "-",
                    cJSON_IsString(option) ? option->valuestring : "");
    }
    const char *s = arena_strndup(a, t.data, t.len);
    text_free(&t);
    return s;
}

static enum sample_verdict sample_verdict_of(const struct record *row, const struct inputs *in)
{
    if (!record_wrong(row, (struct wrong_rule){in->tau, in->cut}))
        return SAMPLE_RIGHT;
    return row->flags & REC_UNPARSED ? SAMPLE_UNPARSED : row->flags & REC_REFUSED ? SAMPLE_REFUSED :
           row->flags & REC_TRUNCATED ? SAMPLE_TRUNCATED : SAMPLE_WRONG;
}

static void fill_answer(struct sample_answer *out, const struct sampler *s, const struct record *row, const cJSON *line)
{
    *out = (struct sample_answer){.output = kept(s->arena, json_string(line, "output")), .confidence = NAN,
                                  .entropy = NAN, .verdict = sample_verdict_of(row, s->in)};
    if (!out->output)
        out->output = kept(s->arena, json_string(line, "answer"));
    if (row->flags & REC_HAS_CONFIDENCE)
        out->confidence = row->confidence;
    if (row->flags & REC_HAS_ENTROPY)
        out->entropy = row->entropy;
}

static int fill_sample(struct sample_row *out, struct sampler *s, const struct record *row, struct err *e)
{
    struct sample_answer *answers = ARENA_NEW(s->arena, struct sample_answer, s->n_runs);
    out->answers = answers;
    out->task = s->shown_task[row->task];
    for (int r = 0; r < s->n_runs; r++) {
        const struct record *here = r ? records_find(&s->runs[r], row->key) : row;
        answers[r] = (struct sample_answer){.confidence = NAN, .entropy = NAN, .verdict = SAMPLE_ABSENT};
        if (!here)
            continue;
        cJSON *line = records_text(s->texts[r], here, e);
        if (!line)
            return -1;
        fill_answer(&answers[r], s, here, line);
        if (r == 0) {
            out->id = joined(s->arena, json_get(line, "id"), "");
            out->question = question_of(s->arena, line);
            out->gold = joined(s->arena, json_get(line, "gold"), " | ");
            out->group = joined(s->arena, json_get(line, "group"), "");
            out->media_name = joined(s->arena, json_get(line, "media"), ", ");
        }
        cJSON_Delete(line);
    }
    return 0;
}

int figures_samples(struct report_input *out, const struct inputs *in, const struct records *runs, int n_runs, int max,
                    struct arena *a, struct err *e)
{
    const struct records *first = &runs[0];
    struct sampler s = {in, runs, n_runs, NEW(struct records_texts *, n_runs), a, NEW(int, first->n_tasks)};
    int failed = 0, n_wanted = 0;
    for (int t = 0; t < first->n_tasks; t++) {
        bool shown = inputs_want(in, first->tasks[t].name) && first->tasks[t].n;
        s.shown_task[t] = shown ? n_wanted++ : -1;
        out->n_samples_total += shown ? first->tasks[t].n : 0;
    }
    for (int r = 0; !failed && r < n_runs; r++)
        failed = (s.texts[r] = records_texts_open(&runs[r], e)) ? 0 : -1;
    int64_t room = out->n_samples_total < max ? out->n_samples_total : max;
    struct sample_row *rows = ARENA_NEW(a, struct sample_row, room);
    out->samples = rows;
    for (int t = 0; t < first->n_tasks; t++)
        for (int64_t i = 0; !failed && s.shown_task[t] >= 0 && i < first->tasks[t].n && out->n_samples < room; i++)
            failed = fill_sample(&rows[out->n_samples++], &s, records_row(first, t, i), e);
    for (int r = 0; r < n_runs; r++)
        records_texts_close(s.texts[r]);
    free(s.texts);
    free(s.shown_task);
    return failed;
}

/* ---- stamps ----------------------------------------------------------------------------------------------------- */

static const char *stamp_value(const struct records *r, const char *path, struct arena *a)
{
    const cJSON *v = r->stamp;
    char key[64];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        memcpy(key, path, n);
        key[n] = '\0';
        v = json_get(v, key);
        path += n + (path[n] == '.');
    }
    if (!v || cJSON_IsNull(v))
        return NULL;
    if (cJSON_IsString(v))
        return strlen(v->valuestring) == 64 ? arena_strndup(a, v->valuestring, 16) : kept(a, v->valuestring);
    struct text t = {0};
    json_print(&t, v);
    const char *s = arena_strndup(a, t.data, t.len);
    text_free(&t);
    return s;
}

void figures_stamps(struct report_input *out, const struct records *runs, int n_runs, struct arena *a)
{
    static const char *const keys[][2] = {
        {"weights", "identity.model.fingerprint"}, {"architecture", "identity.model.architecture"},
        {"tokenizer", "identity.model.tokenizer_sha"}, {"chat template", "identity.model.template_sha"},
        {"arithmetic", "identity.activations"}, {"decoding", "identity.decode.sampling"},
        {"probe layer", "identity.probe.layer"}, {"kernel", "kernel"}, {"CPU", "machine.cpu"},
        {"handoff", "handoff"}, {"commit", "commit"}, {"started", "started"}};
    enum { N = sizeof keys / sizeof *keys };
    struct stamp_row *rows = ARENA_NEW(a, struct stamp_row, N);
    out->stamps = rows;
    for (int i = 0; i < N; i++) {
        const char **values = ARENA_NEW(a, const char *, n_runs);
        bool any = false;
        for (int r = 0; r < n_runs; r++) {
            values[r] = stamp_value(&runs[r], keys[i][1], a);
            any |= values[r] != NULL;
        }
        if (any)
            rows[out->n_stamps++] = (struct stamp_row){keys[i][0], values};
    }
}
