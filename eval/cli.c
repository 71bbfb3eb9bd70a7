/* cli.c - options and help of the verbs. */
#define _GNU_SOURCE
#include "eval/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void strings_add(struct strings *s, const char *v)
{
    s->at = mem_grow(s->at, (size_t)s->n + 1, sizeof *s->at);
    s->at[s->n++] = v;
}

static const char *program = "handoff";        /* as it was called */

void cli_program(const char *argv0)
{
    if (argv0 && *argv0)
        program = argv0;
}

/* The text with "handoff ..." as it was called here: only behind a quote, or wherever a word begins. */
static void put_commands(struct text *out, const char *s, bool quoted_only)
{
    static const char name[] = "handoff ";
    char before = quoted_only ? ' ' : '"';
    for (; *s; before = *s++) {
        bool begins = before == '"' || (!quoted_only && (before == ' ' || before == '\n'));
        if (begins && strncmp(s, name, sizeof name - 1) == 0) {
            text_puts(out, program);
            s += sizeof name - 2;
        }
        text_putc(out, *s);
    }
}

/* An example as it works here: files that are shipped with the program get their place, unless they lie below. */
static void put_example(struct text *out, const char *s)
{
    static const char *const folders[] = {"datasets/mini", "tests/data"};
    struct text commands = {0};
    put_commands(&commands, s, false);
    const char *at = commands.data;
    while (*at) {
        const char *next = NULL;
        size_t which = 0;
        for (size_t i = 0; i < 2; i++) {
            const char *found = file_exists(folders[i]) ? NULL : strstr(at, folders[i]);
            if (found && (!next || found < next)) {
                next = found;
                which = i;
            }
        }
        text_put(out, at, next ? (size_t)(next - at) : strlen(at));
        if (!next)
            break;
        char *shipped = cli_shipped(folders[which]);
        text_puts(out, shipped ? shipped : folders[which]);
        free(shipped);
        at = next + strlen(folders[which]);
    }
    text_free(&commands);
}

static void print_help(const struct usage *u)
{
    struct text example = {0};
    printf("%s %s %s\n\n%s\n\n", program, u->verb, u->synopsis, u->about);
    int width = 0;
    for (const struct option *o = u->options; o->name; o++) {
        int n = (int)(strlen(o->name) + (o->value ? strlen(o->value) + 1 : 0));
        width = n > width ? n : width;
    }
    for (const struct option *o = u->options; o->name; o++) {
        int n = printf("  %s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("%*s%s\n", width + 4 - n, "", o->help);
    }
    if (u->example) {
        put_example(&example, u->example);
        printf("\nExample:\n  %s\n", example.data);
    }
    text_free(&example);
}

static const struct option *find_option(const struct usage *u, const char *arg, size_t len)
{
    for (const struct option *o = u->options; o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, arg, len) == 0)
            return o;
    return NULL;
}

static int set_number(const struct option *o, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    if (o->kind == OPT_INT) {
        long long v = strtoll(value, &end, 10);
        if (end == value || *end || errno)
            return err_set(e, EXIT_USAGE, "%s: a whole number was expected, not \"%s\"", o->name, value);
        *(int64_t *)o->to = v;
    } else {
        double v = strtod(value, &end);
        if (end == value || *end || !isfinite(v))
            return err_set(e, EXIT_USAGE, "%s: a number was expected, not \"%s\"", o->name, value);
        *(double *)o->to = v;
    }
    return 0;
}

static int set_option(const struct option *o, const char *value, struct err *e)
{
    if ((o->kind == OPT_STRING || o->kind == OPT_STRINGS) && !*value)
        return err_set(e, EXIT_USAGE, "%s: %s was expected, not an empty text", o->name, o->value);
    switch (o->kind) {
    case OPT_FLAG: *(bool *)o->to = true; return 0;
    case OPT_STRING: case OPT_TEXT: *(const char **)o->to = value; return 0;
    case OPT_STRINGS: strings_add(o->to, value); return 0;
    case OPT_INT: case OPT_DOUBLE: return set_number(o, value, e);
    }
    return 0;
}

int cli_parse(const struct usage *u, int argc, char **argv, struct strings *args, struct err *e)
{
    bool options_end = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (!options_end && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            print_help(u);
            return 1;
        }
        if (!options_end && strcmp(arg, "--") == 0) {
            options_end = true;
        } else if (!options_end && arg[0] == '-' && arg[1]) {
            const char *equals = strchr(arg, '=');
            const struct option *o = find_option(u, arg, equals ? (size_t)(equals - arg) : strlen(arg));
            if (!o)
                return err_set(e, EXIT_USAGE, "%s: unknown option %s; see \"handoff %s --help\"", u->verb, arg,
                               u->verb);
            if (o->kind == OPT_FLAG ? equals != NULL : !equals && i + 1 == argc)
                return err_set(e, EXIT_USAGE, "%s: %s; see \"handoff %s --help\"", o->name,
                               equals ? "takes no value" : "a value was expected", u->verb);
            const char *value = o->kind == OPT_FLAG ? NULL : equals ? equals + 1 : argv[++i];
            if (set_option(o, value, e))
                return -1;
        } else if (args) {
            strings_add(args, arg);
        } else {
            return err_set(e, EXIT_USAGE, "%s: unexpected argument \"%s\"; see \"handoff %s --help\"", u->verb, arg,
                           u->verb);
        }
    }
    return 0;
}

int cli_fail(const struct err *e)
{
    struct text message = {0};
    put_commands(&message, e->msg, true);
    fflush(stdout);
    fprintf(stderr, "handoff: %s\n", message.len ? message.data : "");
    text_free(&message);
    return e->code ? e->code : EXIT_MACHINE;
}

int cli_end(int stop, const struct err *e)
{
    return stop > 0 ? EXIT_DONE : cli_fail(e);
}

int cli_print(const struct text *t, struct err *e)
{
    if (t->len && fwrite(t->data, 1, t->len, stdout) != t->len)
        return err_machine(e, "standard output cannot be written");
    return fflush(stdout) || ferror(stdout) ? err_machine(e, "standard output cannot be written") : 0;
}

int cli_range(const char *option, double v, double lo, double hi, struct err *e)
{
    return v >= lo && v <= hi ? 0 : err_set(e, EXIT_USAGE, "%s: a number from %.10g to %.10g was expected, not %.10g",
                                            option, lo, hi, v);
}

char *cli_shipped(const char *name)
{
    static const char *const places[] = {"", "../", "../share/handoff/"};
    char self[4096] = ".";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0)
        self[n] = '\0';
    int dir = (int)(path_base(self) - self);
    struct text path = {0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        text_clear(&path);
        text_printf(&path, "%.*s%s%s", dir, self, places[i], name);
        if (file_exists(path.data))
            return text_take(&path);
    }
    text_free(&path);
    return NULL;
}

static volatile sig_atomic_t stop_asked;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

const volatile sig_atomic_t *cli_catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, hangup;
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &a, NULL);
    return &stop_asked;
}
