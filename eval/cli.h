/* cli.h - the command line: options, help, and the verbs (inside eval/ only).
 *
 *     static const struct option options[] = {
 *         {"--limit", OPT_INT, &limit, "N", "first N samples of each task"},
 *         {"--json", OPT_FLAG, &json, NULL, "print JSON"}, {0}};
 *     static const struct usage usage = {"run", "--model M ...", "What it does.", options, "handoff run ..."};
 *     int stop = cli_parse(&usage, argc, argv, &args, &e);
 *     if (stop) return cli_end(stop, &e);
 */
#ifndef HANDOFF_CLI_H
#define HANDOFF_CLI_H

#include <signal.h>
#include <stdio.h>
#include "engine/base.h"

#define HANDOFF_VERSION "0.1"

/* A list of strings that are not owned (they point into argv). */
struct strings { const char **at; int n; };
void strings_add(struct strings *s, const char *v);

/* `to` points to: bool, const char *, struct strings (the option may be repeated), int64_t, double. An OPT_TEXT may be
 * empty, an OPT_STRING (a name, a path) may not. */
enum option_kind { OPT_FLAG, OPT_STRING, OPT_TEXT, OPT_STRINGS, OPT_INT, OPT_DOUBLE };
struct option {
    const char *name;           /* "--limit"; an entry without a name ends the list */
    enum option_kind kind;
    void *to;
    const char *value;          /* what help calls the value: "N"; NULL for flags */
    const char *help;
};

struct usage {
    const char *verb, *synopsis, *about;
    const struct option *options;
    const char *example;        /* one or more lines that work as pasted; help puts in how the program was called */
};

/* What help and messages call the program: argv[0] of main, so that their commands work as pasted. */
void cli_program(const char *argv0);
/* Reads argv[1..]; argv[0] is the verb. Both "--limit 3" and "--limit=3" are understood, "--" ends the options.
 * Whatever is not an option goes to `args` (NULL: none is expected). Returns 0, 1 if --help was printed, -1 on wrong
 * usage with *e filled. */
int cli_parse(const struct usage *u, int argc, char **argv, struct strings *args, struct err *e);
/* For `return cli_end(stop, &e)`: prints the error, if there is one, and gives the exit status. */
int cli_end(int stop, const struct err *e);
/* Prints "handoff: <message>" and returns the error's exit status. */
int cli_fail(const struct err *e);
/* 0 if lo <= v <= hi, else -1 with the option's name and what it takes. */
int cli_range(const char *option, double v, double lo, double hi, struct err *e);
/* Everything in `t` to standard output; -1 if that fails (a full disk, a closed pipe). */
int cli_print(const struct text *t, struct err *e);
/* Path of what ships with the program ("datasets/mini"): beside it, in the folder above (an unfinished build), or
 * installed under share/handoff. The caller frees it; NULL: it is in none of these places. */
char *cli_shipped(const char *name);

/* From now on SIGINT, SIGTERM and SIGHUP (unless nohup has it ignored) set the flag that is returned; a second one ends
 * the program at once. */
const volatile sig_atomic_t *cli_catch_signals(void);

/* The verbs. argv[0] is the verb's name; each returns an exit status. */
int cmd_run(int argc, char **argv);
int cmd_run_endpoint(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_probe_fit(int argc, char **argv);
int cmd_grade(int argc, char **argv);
int cmd_auroc(int argc, char **argv);
int cmd_curve(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_selfcheck(int argc, char **argv);
int cmd_parity(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
