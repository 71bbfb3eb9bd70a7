/* cmd_import.c - the verb `import`: records from what other tools wrote. */
#include "eval/cli.h"
#include "eval/grade.h"
#include "eval/import.h"

#include <stdlib.h>
#include <string.h>

static const struct import_kind *const kinds[] = {
    &import_lm_eval, &import_lmms_eval, &import_inspect, &import_vlmevalkit, &import_open_asr,
    &import_llama_perplexity, &import_table};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const struct import_kind *find_kind(const char *name)
{
    for (int i = 0; i < N_KINDS; i++)
        if (name && strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

static int check_columns(const struct strings *columns, struct err *e)
{
    static const char *const fields[] = {
        "id", "task", "modality", "group", "subject", "question", "output", "answer", "gold", "stop", "score",
        "correct", "confidence", "entropy.mean", "logprob", "ms", "tokens", "prompt_tokens", "wer.edits", "wer.words"};
    for (int i = 0; i < columns->n; i++) {
        size_t n = strcspn(columns->at[i], "="), f = 0;
        const size_t n_fields = sizeof fields / sizeof *fields;
        while (f < n_fields && (strlen(fields[f]) != n || strncmp(fields[f], columns->at[i], n) != 0))
            f++;
        if (f == n_fields || columns->at[i][n] != '=')
            return err_set(e, EXIT_USAGE, "import: --map %s: FIELD=COLUMN was expected, FIELD one of id task output "
                           "gold correct score confidence entropy.mean group ... (see the README)", columns->at[i]);
    }
    return 0;
}

int cmd_import(int argc, char **argv)
{
    const char *from = NULL, *out = NULL;
    struct strings files = {0}, columns = {0};
    struct import_options o = {0};
    const struct option options[] = {
        {"--from", OPT_STRING, &from, "KIND", "what wrote the files: see above"},
        {"--out", OPT_STRING, &out, "DIR", "the run directory to write"},
        {"--task", OPT_STRING, &o.task, "T", "task of all rows (default: from the rows or the file's name)"},
        {"--verdicts-as-recorded", OPT_FLAG, &o.theirs, NULL, "keep the tool's verdicts instead of grading again"},
        {"--filter", OPT_STRING, &o.filter, "NAME", "lm-eval: rows of this filter (default: the file's first)"},
        {"--normalizer", OPT_STRING, &o.normalizer, "N", "transcriptions: whisper, open-asr, ... as grade has it"},
        {"--map", OPT_STRINGS, &columns, "F=COLUMN", "table: where a field lies, e.g. confidence=scores.p"},
        {0}};
    struct text about = {0};
    text_puts(&about, "Records from what other tools wrote; every verb behind run takes them. Answers are graded by\n"
                      "this program's rules where gold and output are there; each record keeps its origin. KIND:\n");
    for (int i = 0; i < N_KINDS; i++)
        text_printf(&about, "  %-17s %s\n", kinds[i]->name, kinds[i]->help);
    about.data[--about.len] = '\0';
    const struct usage usage = {
        "import", "--from KIND FILE... --out DIR", about.data, options,
        "handoff import --from lm-eval tests/data/import/samples_gsm8k_2026-12-01T06-01-17.jsonl --out /tmp/gsm8k"};
    struct err e = {0};
    int stop = cli_parse(&usage, argc, argv, &files, &e);
    if (!stop) {
        o.kind = find_kind(from);
        o.n_columns = columns.n;
        o.column = columns.at;
        if (!o.kind)
            stop = err_set(&e, EXIT_USAGE, "import: --from: %s is no kind; \"handoff import --help\" lists them",
                           from ? from : "nothing");
        else if (!files.n || !out)
            stop = err_set(&e, EXIT_USAGE, "import: files and --out are needed; see \"handoff import --help\"");
        else if (o.normalizer && !grade_knows_normalizer(o.normalizer))
            stop = err_set(&e, EXIT_USAGE, "import: --normalizer: \"%s\" is none; see \"handoff grade --help\"",
                           o.normalizer);
        else if (columns.n && o.kind != &import_table)
            stop = err_set(&e, EXIT_USAGE, "import: --map goes with --from table");
        else
            stop = check_columns(&columns, &e);
        if (!stop)
            stop = import_files(&o, &files, out, &e) ? -1 : 0;
    }
    free(files.at);
    free(columns.at);
    text_free(&about);
    return stop ? cli_end(stop, &e) : EXIT_DONE;
}
