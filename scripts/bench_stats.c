/* bench_stats.c - timings of the statistics: prints "NAME milliseconds", one a line.
 *
 *     bench_stats FILE ROWS THREADS
 *
 * Draws ROWS records, writes them to FILE for the same work in another program (confidence and entropy as doubles, then
 * local and reference answers as bytes, 1 = right), and measures. Run by scripts/bench-stats.
 */
#include "engine/base.h"
#include "eval/curve.h"
#include "eval/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { N_HOLDOUTS = 12, HOLDOUT_ROWS = 5000, N_RESAMPLES = 10000 };

struct data { size_t n; double *confidence, *entropy, *local, *reference; uint8_t *wrong; };

static double draw(uint64_t *x)
{
    *x = UINT64_C(6364136223846793005) * *x + UINT64_C(1442695040888963407);
    return (double)(*x >> 11) * 0x1p-53;
}

static struct data draw_data(size_t n)
{
    struct data d = {n, NEW(double, n), NEW(double, n), NEW(double, n), NEW(double, n), NEW(uint8_t, n)};
    uint64_t x = 1;
    for (size_t i = 0; i < n; i++) {
        double a = draw(&x), b = draw(&x), c = draw(&x);
        d.wrong[i] = a < 0.25;
        d.local[i] = !d.wrong[i];
        d.confidence[i] = d.wrong[i] ? b * c : 1 - b * c;
        d.entropy[i] = 3 * draw(&x) * (d.wrong[i] ? 1 : 0.7);
        d.reference[i] = draw(&x) < 0.9;
    }
    return d;
}

static int write_data(const struct data *d, const char *path, struct err *e)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return err_machine(e, "%s", path);
    bool ok = fwrite(d->confidence, sizeof *d->confidence, d->n, f) == d->n
           && fwrite(d->entropy, sizeof *d->entropy, d->n, f) == d->n;
    for (size_t i = 0; ok && i < d->n; i++)
        ok = fputc(!d->wrong[i], f) != EOF;
    for (size_t i = 0; ok && i < d->n; i++)
        ok = fputc(d->reference[i] != 0, f) != EOF;
    if (fclose(f) != 0 || !ok)
        return err_machine(e, "%s", path);
    return 0;
}

static double started;

static void start(void)
{
    started = clock_ms();
}

static void stop(const char *name, double check)
{
    printf("%s %.1f %.9f\n", name, clock_ms() - started, check);
    fflush(stdout);
}

static int measure(const struct data *d, int n_threads, struct err *e)
{
    struct ranking r;
    start();
    if (ranking_make(&r, d->confidence, d->wrong, NULL, d->n, HIGHER_IS_RIGHT, NAN_IS_ERROR, e) < 0)
        return -1;
    struct delong one = delong(&r);
    struct figure precision = auprc(&r);
    stop("auroc+delong+auprc", one.auroc.value + one.se.value + precision.value);
    ranking_free(&r);

    start();
    struct delong_pair p = delong_paired(d->confidence, HIGHER_IS_RIGHT, d->entropy, HIGHER_IS_WRONG, d->wrong, d->n);
    stop("paired-delong", p.delta.value + p.se_delta.value);

    struct cascade c = {d->n, d->confidence, d->local, d->reference, NULL, false};
    struct curve v;
    start();
    if (curve_make(&v, &c, MISSING_IS_ERROR, e) < 0)
        return -1;
    struct match m = curve_match(&v, v.reference);
    struct curve_summary s = curve_summary(&v);
    stop("curve+match+area", s.auc + (m.first ? m.first->rate : 2));
    curve_free(&v);

    start();
    double sum = 0;
    for (size_t k = 0; k < N_HOLDOUTS; k++) {
        size_t from = k * HOLDOUT_ROWS;
        struct resampling how = {.seed = k, .n_resamples = N_RESAMPLES, .n_threads = n_threads};
        sum += auroc_bootstrap(d->confidence + from, HIGHER_IS_RIGHT, d->wrong + from, HOLDOUT_ROWS, &how).lo;
    }
    stop("bootstrap-10000x12x5000", sum / N_HOLDOUTS);
    return 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (argc != 4 || n < (size_t)N_HOLDOUTS * HOLDOUT_ROWS) {
        fprintf(stderr, "usage: bench_stats FILE ROWS THREADS (at least %d rows)\n", N_HOLDOUTS * HOLDOUT_ROWS);
        return EXIT_USAGE;
    }
    struct data d = draw_data(n);
    if (write_data(&d, argv[1], &e) < 0 || measure(&d, atoi(argv[3]), &e) < 0) {
        fprintf(stderr, "bench_stats: %s\n", e.msg);
        return e.code;
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    fprintf(stderr, "peak memory: %.0f bytes a record, %zu of them the input\n",
            (double)use.ru_maxrss * 1024 / (double)n, 4 * sizeof(double) + 1);
    free(d.confidence);
    free(d.entropy);
    free(d.local);
    free(d.reference);
    free(d.wrong);
    return 0;
}
