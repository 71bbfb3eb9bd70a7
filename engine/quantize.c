/* quantize.c - opens a checkpoint for writing it again, and takes its tensors through the threads. */
#define _GNU_SOURCE                     /* realpath, strcasecmp */
#include "engine/quantize_job.h"

#include "engine/cq.h"
#include "engine/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct quantize_format *const formats[] = {&quantize_gguf, &quantize_mlx, &quantize_cq};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* ---- types ----------------------------------------------------------------------------------------------------- */

const struct quantize_type *quantize_type_at(size_t i)
{
    for (size_t f = 0; f < N_FORMATS; f++)
        for (const struct quantize_type *t = formats[f]->types; t->name; t++)
            if (i-- == 0)
                return t;
    return NULL;
}

static const struct quantize_format *find_format(const char *type, const struct quantize_type **out, struct err *e)
{
    for (size_t f = 0; f < N_FORMATS; f++)
        for (*out = formats[f]->types; (*out)->name; (*out)++)
            if (strcasecmp((*out)->name, type) == 0)
                return formats[f];
    err_set(e, EXIT_USAGE, "type \"%s\" is unknown; \"handoff quantize --help\" lists them", type);
    return NULL;
}

/* ---- the report ------------------------------------------------------------------------------------------------ */

void quantize_report_tensor(struct quantize_report *r, const struct quantized *t)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 256;
        r->tensor = mem_grow(r->tensor, r->cap, sizeof *r->tensor);
    }
    r->tensor[r->n++] = *t;
}

int quantize_report_file(struct quantize_report *r, const char *path)
{
    r->files[r->n_files] = mem_strdup(path);
    return r->n_files++;
}

void quantize_report_free(struct quantize_report *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->tensor[i].name);
    for (int i = 0; i < r->n_files; i++)
        free(r->files[i]);
    free(r->tensor);
    text_free(&r->notes);
    *r = (struct quantize_report){0};
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

int quantize_step(struct quantize_job *job, const char *tensor, int64_t n, struct err *e)
{
    job->done += n;
    if (job->see && job->see(job->see_arg, tensor, job->done, job->total))
        return err_set(e, EXIT_MACHINE, "interrupted; nothing was written under the name that was asked for");
    return 0;
}

enum { TASK_ELEMENTS = 1 << 17, TASKS_PER_THREAD = 8 };

/* Some tasks' worth of rows. */
struct slab {
    const struct tensor *t;
    const struct row_coder *coder;
    int64_t columns, first, n;              /* rows [first, first + n) */
    int64_t task_rows;
    float *x;                               /* a row for each task */
    uint8_t *out;
    bool bad;                               /* set by any task, read behind the last */
};

static void code_rows(void *arg, int i)
{
    struct slab *s = arg;
    const int64_t begin = i * s->task_rows, end = begin + s->task_rows < s->n ? begin + s->task_rows : s->n;
    float *x = s->x + i * s->columns;
    for (int64_t r = begin; r < end; r++) {
        tensor_read_f32(s->t, (s->first + r) * s->columns, s->columns, x);
        if (!s->coder->code(s->coder->arg, s->first + r, x, s->columns, s->out + (size_t)r * s->coder->row_bytes))
            __atomic_store_n(&s->bad, true, __ATOMIC_RELAXED);
    }
}

int quantize_rows(struct quantize_job *job, const struct tensor *t, int64_t columns, const struct row_coder *coder,
                  row_sink *sink, void *arg, struct err *e)
{
    const int64_t rows = columns ? tensor_elements(t) / columns : 0;
    struct slab s = {.t = t, .coder = coder, .columns = columns};
    s.task_rows = columns < TASK_ELEMENTS ? TASK_ELEMENTS / (columns ? columns : 1) : 1;
    int64_t tasks = (int64_t)pool_size(job->pool) * TASKS_PER_THREAD;
    if (tasks > (rows + s.task_rows - 1) / s.task_rows)
        tasks = (rows + s.task_rows - 1) / s.task_rows;
    s.x = NEW(float, tasks * columns);
    s.out = mem_alloc((size_t)(tasks * s.task_rows), coder->row_bytes);
    int bad = 0;
    for (; s.first < rows && !bad; s.first += s.n) {
        s.n = rows - s.first < tasks * s.task_rows ? rows - s.first : tasks * s.task_rows;
        pool_run(job->pool, (int)((s.n + s.task_rows - 1) / s.task_rows), code_rows, &s);
        if (s.bad)
            bad = err_input(e, "%s: tensor %s: %s were expected", t->file, t->name, coder->why);
        weights_forget(job->weights, (const uint8_t *)t->data + t->n_bytes / (size_t)rows * (size_t)s.first,
                       t->n_bytes / (size_t)rows * (size_t)s.n);
        bad = bad || sink(arg, s.out, s.first, s.n, e) ||
              quantize_step(job, t->name, (int64_t)((double)t->n_bytes * (double)s.n / (double)rows), e);
    }
    free(s.x);
    free(s.out);
    return bad ? -1 : 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

bool quantize_is_tower(const struct tensor *t)
{
    static const char *const parts[] = {"vision_tower.", "embed_vision.", "audio_tower.", "embed_audio."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(t->name, parts[i]))
            return true;
    return false;
}

int quantize_check_out(const struct quantize_job *job, const char *path, struct err *e)
{
    if (!job->request->force && file_exists(path))
        return err_set(e, EXIT_USAGE, "%s: it exists already (--force replaces it)", path);
    return 0;
}

/* "tiny-a" of "models/tiny-a/" and of "tiny-a.gguf". */
static char *model_name(const char *path)
{
    char *real = realpath(path, NULL);
    const char *base = path_base(real ? real : path);
    const size_t n = strlen(base);
    static const char *const endings[] = {".gguf", ".zip", ".tar", ".tar.gz", ".tgz"};
    size_t keep = n;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t m = strlen(endings[i]);
        if (n > m && strcmp(base + n - m, endings[i]) == 0)
            keep = n - m;
    }
    char *name = mem_strndup(base, keep);
    free(real);
    return name;
}

/* What could not run is refused here as it is by engine_open: tensors that are missing, misshapen or not finite. */
static int check_decoder(const struct quantize_job *job, struct err *e)
{
    const struct compute compute = {.k = kernels_find(NULL), .pool = job->pool};
    struct decoder *d;
    if (decoder_open(&d, &job->config, job->weights, &compute, e))
        return -1;
    decoder_close(d);
    return 0;
}

static int open_job(struct quantize_job *job, struct err *e)
{
    const struct quantize_request *q = job->request;
    const size_t len = strlen(q->in);
    int n_beside;
    if (!path_is_dir(q->in) && !(len > 5 && strcmp(q->in + len - 5, ".gguf") == 0) && !cq_is_bundle(q->in))
        return err_input(e, "%s: a checkpoint folder with config.json, a .gguf file or a Cactus bundle was expected",
                         q->in);
    if (q->probe && q->no_probe)
        return err_set(e, EXIT_USAGE, "quantize: --probe and --no-probe exclude each other");
    documents_projector(&job->projector, &n_beside, q->in, q->no_towers ? "none" : q->mmproj);
    if (pool_open(&job->pool, q->n_threads, e) || (q->imatrix && imatrix_open(&job->imatrix, q->imatrix, e)) ||
        weights_open(&job->weights, q->in, e) ||
        documents_add_projector(job->weights, q->in, job->projector, e) ||
        (q->probe && weights_add(job->weights, q->probe, e)) ||
        documents_open(&job->documents, q->in, job->projector, job->weights, e))
        return -1;
    const struct documents *d = &job->documents;
    if (config_read(&job->config, d->config.json, d->generation.json, job->weights, d->config.where, e) ||
        tokenizer_read(&job->tokenizer, d->tokenizer.json, d->tokenizer.where, e))
        return -1;
    if (tokenizer_size(job->tokenizer) > job->config.vocab_size)
        return err_input(e, "%s: ids below vocab_size (%d) were expected, the largest is %d", d->tokenizer.where,
                         job->config.vocab_size, tokenizer_size(job->tokenizer) - 1);
    if (check_decoder(job, e))
        return -1;
    for (size_t i = 0; i < weights_count(job->weights); i++)
        job->total += (int64_t)weights_at(job->weights, i)->n_bytes;
    return 0;
}

static void close_job(struct quantize_job *job)
{
    tokenizer_close(job->tokenizer);
    config_free(&job->config);
    documents_close(&job->documents);
    weights_close(job->weights);
    imatrix_close(job->imatrix);
    pool_free(job->pool);
    free(job->projector);
}

int quantize_checkpoint(const struct quantize_request *q, quantize_progress *see, void *arg,
                        struct quantize_report *report, struct err *e)
{
    struct quantize_job job = {.request = q, .report = report, .see = see, .see_arg = arg};
    *report = (struct quantize_report){0};
    const struct quantize_format *format = find_format(q->type, &job.type, e);
    if (!format)
        return -1;
    report->type = job.type->name;
    char *name = model_name(q->in);
    job.name = name;
    const int bad = open_job(&job, e) || format->write(&job, e);
    close_job(&job);
    free(name);
    return bad ? -1 : 0;
}
