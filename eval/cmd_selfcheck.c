/* cmd_selfcheck.c - the verb `selfcheck`: the same bits however the work is cut, on this checkpoint and machine. */
#include "eval/cli.h"
#include "eval/selfcheck.h"

#include <math.h>
#include <string.h>

static void put_rounding(struct text *t, const struct rounding_effect *r, bool json)
{
    if (json) {
        text_printf(t, "],\"int8\":{\"matrices\":%d,\"answers\":%d", r->n_packed, r->n_answers);
        const struct { const char *key; double v; } figures[] = {
            {"confidence_mean", r->mean}, {"confidence_max", r->largest}, {"kl_mean", r->kl_mean},
            {"same_top", r->same_top}};
        for (size_t i = 0; i < sizeof figures / sizeof *figures && r->n_packed; i++) {
            text_printf(t, ",\"%s\":", figures[i].key);
            json_put_double(t, figures[i].v);
        }
        text_putc(t, '}');
    } else if (!r->n_packed) {
        text_puts(t, "\nactivations int8 change nothing: no matrix of the decoder is made of whole numbers\n");
    } else {
        text_printf(t, "\nactivations int8 against float32, on the same %d answers:\n", r->n_answers);
        if (!isnan(r->mean))
            text_printf(t, "confidence changes by %.4f (%.4f at most), ", r->mean, r->largest);
        text_printf(t, "KL divergence %.3g nats, the same top token at %.1f%% of the positions\n", r->kl_mean,
                    100 * r->same_top);
    }
}

static int selfcheck(const struct selfcheck_args *a, bool json, bool *same, struct err *e)
{
    char first[65], hex[65];
    struct text t = {0};
    *same = true;
    for (int i = 0; i < selfcheck_count(); i++) {
        if (selfcheck_hash(a, i, i ? hex : first, e)) {
            text_free(&t);
            return -1;
        }
        const bool equal = i == 0 || strcmp(hex, first) == 0;
        *same &= equal;
        if (!json)
            printf("%-26s %.16s  %s\n", selfcheck_name(i), i ? hex : first,
                   i == 0 ? "" : equal ? "same bits" : "DIFFERENT");
        fflush(stdout);
        text_printf(&t, "%s{\"variant\":\"%s\",\"sha256\":\"%s\",\"same\":%s}", i ? "," : "{\"variants\":[",
                    selfcheck_name(i), i ? hex : first, equal ? "true" : "false");
    }
    struct rounding_effect rounding;
    int failed = selfcheck_rounding(a, &rounding, e);
    if (!json)
        t.len = 0;
    put_rounding(&t, &rounding, json);
    if (json)
        text_printf(&t, ",\"same\":%s}\n", *same ? "true" : "false");
    failed = failed || cli_print(&t, e) ? -1 : 0;
    text_free(&t);
    return failed;
}

int cmd_selfcheck(int argc, char **argv)
{
    struct selfcheck_args a = {.probe_layer = -1};
    bool json = false, same = false;
    const struct option options[] = {
        {"--model", OPT_STRING, &a.model, "M", "checkpoint folder or .gguf file"},
        {"--mmproj", OPT_STRING, &a.options.mmproj, "F", "projector file with towers (the one beside a .gguf); none"},
        {"--probe", OPT_STRING, &a.probe, "F", "handoff probe from another file (the checkpoint's own)"},
        {"--probe-layer", OPT_INT, &a.probe_layer, "N", "decoder layer that it reads (as the checkpoint says, or 28)"},
        {"--activations", OPT_STRING, &a.options.activations, "K", "prove it of int8 instead of float32"},
        {"--json", OPT_FLAG, &json, NULL, "print JSON"},
        {0}};
    const struct usage usage = {
        "selfcheck", "--model M [--json]",
        "Proves on this checkpoint and machine that answers are the same bits whatever the batch, the threads, the\n"
        "pieces of a prompt, a copied prefix, the rows asked for, or the kernel. Exit status 1 if they are not. \"run\n"
        "--selfcheck\" does the same first and notes it in the run's stamp. Of quantised weights it also says what\n"
        "activations of 8 bits alone would change.",
        options, "handoff selfcheck --model datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    if (!a.model) {
        err_set(&e, EXIT_USAGE, "selfcheck: --model is missing; see \"handoff selfcheck --help\"");
        return cli_fail(&e);
    }
    if (selfcheck(&a, json, &same, &e))
        return cli_fail(&e);
    return same ? EXIT_DONE : EXIT_CHECK_FAILED;
}
