/* import.h - records from what other tools wrote (inside eval/ only). */
#ifndef HANDOFF_IMPORT_H
#define HANDOFF_IMPORT_H

#include "datasets/datasets.h"
#include "eval/cli.h"

/* One sample as its tool recorded it. Everything lives in the importer's arena; NULL, NAN or -1: not recorded. */
struct import_row {
    const char *id, *task, *modality, *group, *subject, *question, *output, *answer, *stop;
    int n_gold;
    const char **gold;
    int n_options;
    const char **labels, **options;
    double *option_logprob;     /* [n_options] */
    const char *metric;         /* of the tool's own verdict */
    int correct;                /* its verdict */
    double score;               /* 0..1 */
    double confidence, entropy, logprob;
    int64_t tokens, prompt_tokens, wer_edits, wer_words;
    double ms;
    const char *error;
};

struct importer;

/* A tool whose files can be read. */
struct import_kind {
    const char *name;
    const char *inside;         /* for table_open */
    /* 1: *out is a sample, 0: this row is none, -1: damaged; messages need not name the place. */
    int (*row)(struct importer *im, const cJSON *row, struct import_row *out, struct err *e);
    const char *help;
    const char *normalizer;     /* of transcriptions; NULL: the task's */
};
extern const struct import_kind import_lm_eval, import_lmms_eval, import_inspect, import_vlmevalkit, import_open_asr,
                                import_llama_perplexity, import_table;

struct import_options {
    const struct import_kind *kind;
    const char *task;           /* for all rows; NULL: as the file says */
    const char *filter;         /* of lm-eval's rows; NULL: the first that a file has */
    int n_columns;              /* --map FIELD=COLUMN */
    const char **column;
    const char *normalizer;     /* for transcriptions; NULL: the kind's */
    bool theirs;                /* keep the tool's verdicts instead of grading */
};

struct importer {
    const struct import_options *options;
    struct arena arena;         /* of one row */
    const char *file_task;      /* read off the file's name, NULL: none */
    char *filter;
    int64_t index;              /* of the row within its file, from 0 */
    int64_t done, right;        /* running count of llama-perplexity */
};

/* ---- reading JSON that others wrote (import_fields.c) ---------------------------------------------------------- */

/* Member by a path such as "output.choices.0.message"; NULL if any step is missing. */
const cJSON *import_dig(const cJSON *value, const char *path);
/* A text, a number or a truth value as a text in the arena; NULL for anything else. */
const char *import_text(struct importer *im, const cJSON *value);
/* A number, or a text that is one, or true and false; NAN for anything else. */
double import_number(const cJSON *value);
int64_t import_count(const cJSON *value);               /* a whole number from 0 up, -1 for anything else */
/* A list of texts, one text, or a text that holds a list in JSON's or Python's notation. Returns their number. */
int import_list(struct importer *im, const cJSON *value, const char ***out);
/* Options as the hub's data sets have them: `choices` or `options`, a list or {"text", "label"}, or columns A, B, ... */
void import_choices(struct importer *im, const cJSON *doc, struct import_row *out);
/* The task of DESIGN.md that a tool's name for it begins with ("mmlu_astronomy" is mmlu); else the name itself. */
const char *import_task_name(struct importer *im, const char *name);

/* Reads all files and writes the run directory `out`. */
int import_files(const struct import_options *o, const struct strings *files, const char *out, struct err *e);

#endif
