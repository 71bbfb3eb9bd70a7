/* records.h - the records of a run, read once into compact rows (inside eval/ only).
 *
 *     struct records r;
 *     if (records_open(&r, "runs/q4", &(struct records_options){0}, &e)) return cli_fail(&e);
 *     for (int t = 0; t < r.n_tasks; t++)
 *         for (int64_t i = 0; i < r.tasks[t].n; i++)
 *             use(records_row(&r, t, i));
 *     records_close(&r);
 *
 * A source is a run directory (run.json and records.jsonl), a bare JSONL file, or "-" (standard input). It is read as
 * a stream; what stays in memory is 56 bytes a record and 5 to 11 bytes of indexes, so ten million records need
 * about 630 MB. Texts (output, gold, question) stay in the file: records_text() fetches one line again.
 *
 * What is refused, with file:line and status 3: invalid JSON (NaN among it), a torn line, a missing or mistyped
 * required key, a confidence outside 0..1, a (task, id) that occurs twice. What is not: a last line that is torn in
 * a run directory (the run is still going on) is left out with a note; a record with status "error" or
 * "scored": false is left out and counted.
 */
#ifndef HANDOFF_RECORDS_H
#define HANDOFF_RECORDS_H

#include "engine/base.h"

enum record_flags {
    REC_CORRECT = 1, REC_HAS_CORRECT = 2, REC_HAS_SCORE = 4, REC_HAS_WER = 8, REC_HAS_CONFIDENCE = 16,
    REC_HAS_ENTROPY = 32, REC_UNPARSED = 64, REC_REFUSED = 128, REC_TRUNCATED = 256,
    REC_RUNAWAY = 512,          /* ended by a limit, not by the model */
    REC_REPEATED = 1024,        /* the same question as an earlier one */
    REC_CONTAMINATED = 2048     /* on a list of contaminated questions, or in another split of the set */
};

/* One record; 56 bytes. */
struct record {
    uint64_t key;               /* hash of (task, id): pairs the samples of two runs */
    double confidence;          /* 0..1, if REC_HAS_CONFIDENCE */
    double entropy;             /* nats, the aggregate that was asked for, if REC_HAS_ENTROPY */
    union {
        double score;           /* if REC_HAS_SCORE and not REC_HAS_WER */
        struct { int32_t edits, words; } wer;
    };
    uint32_t group;             /* number in records.group_key, from 1; 0: stands alone */
    uint32_t answer;            /* hash of the parsed answer (the output if there is none); 0: neither */
    float ms;                   /* local time, encode + prefill + decode; 0 if not recorded */
    uint32_t offset_low;        /* of its line in the file, see record_offset */
    uint16_t offset_high;
    uint16_t task;              /* index into tasks */
    uint16_t flags;
};

struct record_task {
    char *name;
    char modality[8];           /* text, image, audio; "" if not recorded */
    int64_t n;                  /* records */
    int64_t n_error;            /* left out: status "error" */
    int64_t n_unscored;         /* left out: "scored": false */
    int64_t first;              /* of its rows: in `order`, or in `rows` if there is no order */
    bool wer, graded;           /* transcription; or some score strictly between 0 and 1 (ANLS) */
};

struct records {
    char *name;                 /* what people call it: the last part of the path, without .jsonl */
    char *path;                 /* the records file; "-" */
    cJSON *stamp;               /* run.json, NULL for bare records */
    int64_t n, n_error, n_unscored;
    struct record *rows;        /* [n], in file order */
    uint32_t *order;            /* [n], rows grouped by task, file order within a task; NULL: they stand so */
    uint64_t *group_key;        /* [n_groups]: hash of the name of group i + 1; NULL unless it was asked for */
    int64_t n_groups;
    int n_tasks;
    struct record_task *tasks;  /* in the publisher's order, others behind them by name */
    uint32_t *slots;            /* hash table over key; row + 1 */
    uint64_t n_slots;
    struct text notes;          /* lines for people: a torn last line, records left out */
};

/* {0} reads the mean entropy and keeps no group_key. */
struct records_options {
    const char *entropy;        /* mean, max, first, sum */
    bool keep_group_keys;
};

int records_open(struct records *r, const char *source, const struct records_options *o, struct err *e);
/* The same from memory, for tests; `name` stands in messages. */
int records_parse(struct records *r, const char *name, const char *data, size_t n, const struct records_options *o,
                  struct err *e);
void records_close(struct records *r);
/* Gives back the rows and their indexes once everything needed was copied out; names, counts and notes stay. The table
 * behind records_find alone goes earlier. */
void records_forget_rows(struct records *r);
void records_forget_keys(struct records *r);
/* Makes that table again. */
void records_index_keys(struct records *r);

static inline uint64_t record_offset(const struct record *row)
{
    return (uint64_t)row->offset_high << 32 | row->offset_low;
}

const struct record *records_row(const struct records *r, int task, int64_t i);
/* The row of the same sample, or NULL. Two different samples share a key with a chance of n^2 / 2^65. */
const struct record *records_find(const struct records *r, uint64_t key);
int records_task(const struct records *r, const char *name);        /* -1 if it has none */
/* Line of a row, for messages (counts again from the start of the file). */
int64_t records_line(const struct records *r, const struct record *row);

/* Texts of many rows: opens the file again once. The tree is the caller's to delete. */
struct records_texts;
struct records_texts *records_texts_open(const struct records *r, struct err *e);
cJSON *records_text(struct records_texts *t, const struct record *row, struct err *e);
void records_texts_close(struct records_texts *t);

/* Wrong, by the definition that every table states: transcription: WER > tau; else not `correct`; else score < cut. */
struct wrong_rule { double tau, cut; };
#define WRONG_RULE_DEFAULT ((struct wrong_rule){0.0, 0.5})
bool record_wrong(const struct record *row, struct wrong_rule rule);
/* 0..1, higher is better: 1 - WER (not below 0), the score, or 1 and 0 for correct and wrong. */
double record_score(const struct record *row);

#endif
