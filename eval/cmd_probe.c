/* cmd_probe.c - the verb `probe`: confidence for hidden rows captured anywhere. */
#include "eval/cli.h"
#include "eval/npy.h"
#include "probe/probe.h"

#include <stdlib.h>
#include <string.h>

static int score_file(const char *weights_path, const char *hidden_path, bool json, struct err *e)
{
    struct weights *w = NULL;
    struct probe *p = NULL;
    float *rows = NULL;
    int64_t n = 0, dim = 0;
    struct probe_result r;
    int failed = weights_open(&w, weights_path, e) || probe_open(&p, w, NULL, e) ||
                 npy_read(hidden_path, &rows, &n, &dim, e);
    if (!failed && dim != probe_dim(p))
        failed = err_input(e, "%s: rows of %lld were read, the probe takes rows of %d", hidden_path, (long long)dim,
                           probe_dim(p));
    if (!failed)
        failed = probe_score(p, rows, (int)n, &r, e);
    if (!failed) {
        struct text t = {0};
        if (json) {
            text_printf(&t, "{\"rows\":%d,\"confidence\":", r.rows);
            json_put_double(&t, r.confidence);
            text_puts(&t, ",\"p_wrong\":");
            json_put_double(&t, r.p_wrong);
            text_puts(&t, ",\"logit\":");
            json_put_double(&t, r.logit);
            text_puts(&t, "}\n");
        } else {
            text_printf(&t, "confidence %.6g   p_wrong %.6g   logit %.6g   rows %d\n", r.confidence, r.p_wrong,
                        r.logit, r.rows);
        }
        failed = cli_print(&t, e);
        text_free(&t);
    }
    free(rows);
    probe_close(p);
    weights_close(w);
    return failed;
}

int cmd_probe(int argc, char **argv)
{
    const char *weights = NULL, *hidden = NULL;
    bool json = false;
    if (argc > 1 && strcmp(argv[1], "fit") == 0)
        return cmd_probe_fit(argc - 1, argv + 1);
    const struct option options[] = {
        {"--weights", OPT_STRING, &weights, "FILE", "safetensors file or checkpoint folder that holds the probe"},
        {"--hidden", OPT_STRING, &hidden, "X.npy", "rows of the tapped layer, [rows, hidden]"},
        {"--json", OPT_FLAG, &json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "probe", "--weights FILE --hidden X.npy [--json]",
        "Confidence for hidden rows captured anywhere: one row per generated token, the output of the probe's layer at\n"
        "the position that predicts the token; the first 1024 count. \"handoff probe fit --help\" tells how to train one.",
        options, "handoff probe --weights datasets/mini/checkpoint --hidden tests/data/hidden.npy"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    if (!weights || !hidden) {
        err_set(&e, EXIT_USAGE, "probe: --weights and --hidden are needed; see \"handoff probe --help\"");
        return cli_fail(&e);
    }
    return score_file(weights, hidden, json, &e) ? cli_fail(&e) : EXIT_DONE;
}
