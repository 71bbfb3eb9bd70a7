/* cmd_tokenize.c - the verb `tokenize`: text on standard input to ids. */
#define _GNU_SOURCE
#include "eval/cli.h"
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 64 << 20 };

static void put_ids(struct text *t, const struct ids *ids)
{
    text_putc(t, '[');
    for (int i = 0; i < ids->n; i++)
        text_printf(t, "%s%d", i ? "," : "", (int)ids->id[i]);
    text_puts(t, "]\n");
}

/* One line of input to one line of ids. */
static int tokenize_line(const struct tokenizer *tok, const char *line, size_t len, bool json, int64_t number,
                         struct err *e)
{
    char where[64];
    snprintf(where, sizeof where, "standard input:%lld", (long long)number);
    cJSON *value = json ? json_parse(line, len, where, e) : NULL;
    if (json && !value)
        return -1;
    int failed = 0;
    struct ids ids = {0};
    struct text out = {0};
    if (json && !cJSON_IsString(value)) {
        failed = err_input(e, "%s: a JSON string was expected", where);
    } else {
        const char *s = json ? value->valuestring : line;
        tokenize(tok, s, json ? strlen(s) : len, &ids);
        put_ids(&out, &ids);
        failed = cli_print(&out, e);
    }
    cJSON_Delete(value);
    ids_free(&ids);
    text_free(&out);
    return failed;
}

static int tokenize_input(const struct tokenizer *tok, bool json, struct err *e)
{
    struct text line = {0}, where = {0};
    int failed = 0;
    for (int64_t number = 1, more = 1; !failed && more == 1; number++) {
        text_clear(&where);
        text_printf(&where, "standard input:%lld", (long long)number);
        more = line_read(stdin, &line, MAX_LINE, where.data, e);
        failed = more == 1 ? tokenize_line(tok, line.data, line.len, json, number, e) : (int)more;
    }
    text_free(&line);
    text_free(&where);
    return failed;
}

int cmd_tokenize(int argc, char **argv)
{
    const char *model = NULL;
    bool json = false;
    const struct option options[] = {
        {"--model", OPT_STRING, &model, "M", "checkpoint folder, bundle, .gguf file, or a tokenizer.json"},
        {"--json-lines", OPT_FLAG, &json, NULL, "each line of input is a JSON string"},
        {0}};
    const struct usage usage = {
        "tokenize", "--model M [--json-lines] < TEXT",
        "Prints one JSON array of token ids per line of input. No <bos> is added; special tokens may be written out.",
        options, "echo '<bos>Hello there' | handoff tokenize --model datasets/mini/checkpoint"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, NULL, &e);
    if (stop)
        return cli_end(stop, &e);
    if (!model) {
        err_set(&e, EXIT_USAGE, "tokenize: --model is missing; see \"handoff tokenize --help\"");
        return cli_fail(&e);
    }
    struct tokenizer *tok = NULL;
    int failed = tokenizer_open(&tok, model, &e) || tokenize_input(tok, json, &e);
    tokenizer_close(tok);
    return failed ? cli_fail(&e) : EXIT_DONE;
}
