/* datasets.h - the hold-outs as they lie on disk, turned into one `sample` type, and the prompts asked about them.
 *
 *     struct task_spec spec = {.task = "mmlu", .path = "data.tar"};
 *     struct dataset *d;
 *     if (dataset_open(&d, &spec, &e)) ...
 *     struct sample s;
 *     int got;
 *     while ((got = dataset_next(d, &s, &e)) > 0) ...        -- s is valid until the next call
 *
 * Every file is untrusted. A damaged file as a whole fails dataset_open or dataset_next; a damaged row is skipped,
 * counted and reported through dataset_notes, unless it is the reader's only way to keep its place.
 * Nothing is ever extracted to disk.
 */
#ifndef HANDOFF_DATASETS_H
#define HANDOFF_DATASETS_H

#include "engine/base.h"

enum answer_type { ANSWER_CHOICE, ANSWER_NUMBER, ANSWER_TEXT, ANSWER_RELAXED, ANSWER_ANLS, ANSWER_SPEECH };
enum sample_modality { MODALITY_TEXT, MODALITY_IMAGE, MODALITY_AUDIO };
const char *answer_type_name(enum answer_type t);       /* mcq, numeric, text, vqa_relaxed, vqa_anls, asr */
const char *modality_name(enum sample_modality m);      /* text, image, audio */

struct sample_media {
    enum sample_modality kind;
    const void *bytes;          /* encoded, as stored */
    size_t n_bytes;
    const char *name;           /* file or member name, for messages */
    double begin_s, end_s;      /* part of a long recording; end_s = 0: all of it */
};

/* Text is exactly as stored. Pointers live until the next dataset_next. */
struct sample {
    const char *dataset;        /* the name in the normalised form: "mmlu", "arc_easy", "mmbench_en_dev", ... */
    const char *id;             /* unique within its split; see datasets/README.md */
    const char *split, *subject;        /* "" if none */
    const char *group;          /* samples that stand or fall together (rotations, one speaker); "" if none */
    enum sample_modality modality;
    enum answer_type type;
    const char *question;       /* NULL for pure transcription */
    int n_choices;
    const char **choices, **labels;
    int answer_index;           /* -1 if not a choice */
    int n_answers;
    const char **answers;       /* the label for a choice (MMAU: its text, unless graded by "choice"); all accepted
                                   answers otherwise; empty: hidden */
    int n_media;
    struct sample_media *media;
    const char *repeats;        /* id of an earlier sample with the same question, choices and media; NULL */
    const char *contaminated;   /* "list": the list of contaminated questions names it; else the other split that holds
                                   the same question; NULL */
    const cJSON *meta;          /* further fields of that set, may be NULL */
    /* Own questions may differ from row to row; NULL: as the task has it. */
    const char *grader, *prompt;
    const cJSON *messages;      /* a whole conversation to ask instead of one made from the question */
};

/* One task of a run: from --data TASK=PATH, or a line of a suite file. NULL or -1: the default of the format. */
struct task_spec {
    const char *task;           /* its name in the records */
    const char *format;         /* which reader; NULL: named as the task */
    const char *path;
    const char *split;
    const char *system;         /* system message */
    const char *prompt;         /* user turn: {question} {options} {subject} {hint} {label0}... ; see suites/README */
    int shots;                  /* few-shot examples before the question */
    int max_tokens;             /* limit of the answer */
    const char *grader;         /* choice, number, text, relaxed, anls, speech, mmlu-pro, mmbench, mmau */
    const char *extract;        /* variant of the grader */
    const char *normalizer;     /* speech: whisper, open-asr, gigaspeech, none */
    const char *contaminated;   /* file that lists contaminated questions: a line each, ids or questions */
    const char *source;         /* where one gets the data, for the message when it is not there */
};

/* A suite: a built-in name ("mini", "paper") or a JSON file; relative paths are taken from data_root, NULL: the folder
 * of the suite file. Specs and their strings belong to the suite. */
struct suite {
    char *name;
    int n_tasks;
    struct task_spec *tasks;
    struct text missing;        /* for people: tasks left out as their data are not there, where to get them */
    struct arena arena;
};
int suite_open(struct suite *s, const char *name_or_path, const char *data_root, struct err *e);
void suite_close(struct suite *s);
/* "task=path" from the command line, with the defaults of that task. */
int suite_add(struct suite *s, const char *task_equals_path, struct err *e);

struct dataset;
int dataset_open(struct dataset **out, const struct task_spec *spec, struct err *e);
void dataset_close(struct dataset *d);
/* 1: *s is the next sample; 0: the end; -1: the file as a whole is damaged. */
int dataset_next(struct dataset *d, struct sample *s, struct err *e);
int64_t dataset_count(struct dataset *d);               /* samples in all, by a quick pass; -1: unknown */
/* The spec with every default filled in. */
const struct task_spec *dataset_spec(const struct dataset *d);
/* Lines for people: what was found (form, split, rows against the published size), what was skipped and why. */
const char *dataset_notes(const struct dataset *d);
int64_t dataset_read(const struct dataset *d);          /* samples read so far */
int64_t dataset_skipped(const struct dataset *d);       /* rows refused so far */
/* SHA-256 over the normalised samples read so far. */
void dataset_fingerprint(const struct dataset *d, char hex[65]);

/* The conversation to ask: [{"role", "content"}], media as parts {"type": "image"|"audio"} in the order of s->media
 * before the text. Caller deletes. */
cJSON *dataset_prompt(struct dataset *d, const struct sample *s, struct err *e);

/* The same question as plain text without roles: what a harness would feed to a base model. */
int dataset_prompt_text(struct dataset *d, const struct sample *s, struct text *out, struct err *e);
/* What such a harness scores behind that text: " A", " B", ... or, for ARC, the choices. Returns their number. */
int dataset_continuations(const struct sample *s, struct arena *a, const char ***out);

/* One line of the normalised form, as `inspect --data T=PATH --json-lines` prints it. */
void sample_print(const struct sample *s, struct text *out);

/* ---- tables of other tools --------------------------------------------------------------------------------------- */

/* Rows of a file that is no hold-out: .csv or .tsv with a header, .jsonl, .json (a list, or an object that holds one
 * under the key `inside`), .parquet, .xlsx (first sheet), .txt and .log (a text a line). Of a folder, zip or tar all
 * tables but .json, one after another, and every .json below the folder `inside` as a row. */
struct table;
struct table_row {
    const cJSON *value;         /* an object, or a text; lives until the next call */
    const char *file;
    int64_t number;             /* of its line or row, from 1 */
};
int table_open(struct table **out, const char *path, const char *inside, struct err *e);
void table_close(struct table *t);
/* 1: *row is the next; 0: the end; -1: damaged, *e names file and line. */
int table_next(struct table *t, struct table_row *row, struct err *e);

#endif
