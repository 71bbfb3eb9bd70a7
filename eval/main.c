/* main.c - the table of verbs. */
#include "eval/cli.h"

#include <string.h>

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *does;
} verbs[] = {
    {"run", cmd_run, "run a checkpoint over hold-outs: one record per sample"},
    {"generate", cmd_generate, "one answer with its confidence"},
    {"chat", cmd_chat, "a conversation that shows each answer's confidence"},
    {"serve", cmd_serve, "answers with their confidence for OpenAI-compatible clients"},
    {"inspect", cmd_inspect, "what a checkpoint, a data set or a run holds"},
    {"tokenize", cmd_tokenize, "text to token ids"},
    {"probe", cmd_probe, "confidence for hidden rows captured anywhere"},
    {"selfcheck", cmd_selfcheck, "proof that batch, threads and prefixes do not change an answer"},
    {"parity", cmd_parity, "do several checkpoints hold the same weights? (exit status 1 if not)"},
    {"quantize", cmd_quantize, "a checkpoint written again with other weights"},
    {"bench", cmd_bench, "speed on this machine beside its limits"},
    {"import", cmd_import, "records from other harnesses and tables"},
    {"export", cmd_export, "records as Parquet, or as lm-evaluation-harness writes them"},
    {"merge", cmd_merge, "the shards of a run into one"},
    {"status", cmd_status, "how far a run is"},
    {"grade", cmd_grade, "verdicts for outputs produced elsewhere, or for a run once more"},
    {"auroc", cmd_auroc, "how well confidence and entropy separate wrong answers from right ones"},
    {"curve", cmd_curve, "what quality comes back for what share of handed-off queries"},
    {"calibrate", cmd_calibrate, "thresholds for each quant, bound to its checkpoint"},
    {"compare", cmd_compare, "did a new quant or build make it worse? (exit status 1 if so)"},
    {"plan", cmd_plan, "how many samples a question needs"},
    {"report", cmd_report, "all of it as one page, with tables and pictures beside it"},
};

static void print_help(FILE *to)
{
    fprintf(to, "handoff %s - evaluate and calibrate on-device models that know when they are wrong\n\n", HANDOFF_VERSION);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].does);
    fprintf(to, "\n\"handoff VERB --help\" explains a verb. Exit status: 0 done, 1 a check failed, 2 wrong usage,\n"
                "3 bad input, 4 the machine failed or the run was interrupted (run it again to go on).\n");
}

/* Runs a verb. What was printed but could not be written makes a success a failure. */
static int run_verb(int argc, char **argv)
{
    struct err e = {0};
    size_t i = 0, n = sizeof verbs / sizeof *verbs;
    while (i < n && strcmp(argv[0], verbs[i].name) != 0)
        i++;
    if (i == n) {
        fprintf(stderr, "handoff: unknown verb \"%s\"; \"handoff --help\" lists them\n", argv[0]);
        return EXIT_USAGE;
    }
    int status = verbs[i].run(argc, argv);
    if ((status == EXIT_DONE || status == EXIT_CHECK_FAILED) && cli_print(&(struct text){0}, &e))
        return cli_fail(&e);
    return status;
}

int main(int argc, char **argv)
{
    const char *first = argc < 2 ? "" : argv[1];
    cli_program(argv[0]);
    if (argc > 2 && strcmp(first, "help") == 0)
        return run_verb(2, (char *[]){argv[2], "--help", NULL});
    if (argc > 1 && strcmp(first, "--help") != 0 && strcmp(first, "-h") != 0 && strcmp(first, "help") != 0 &&
        strcmp(first, "--version") != 0)
        return run_verb(argc - 1, argv + 1);
    struct err e = {0};
    if (strcmp(first, "--version") == 0)
        printf("handoff %s\n", HANDOFF_VERSION);
    else
        print_help(argc < 2 ? stderr : stdout);
    if (cli_print(&(struct text){0}, &e))
        return cli_fail(&e);
    return argc < 2 ? EXIT_USAGE : EXIT_DONE;
}
