/* record_line.h - one line of a record file: a strict JSON scanner that keeps only what a row needs (inside eval/).
 *
 * It accepts exactly what json_parse accepts (see base.h) and builds no tree: about ten times as fast, which decides
 * how long ten million records take.
 */
#ifndef HANDOFF_RECORD_LINE_H
#define HANDOFF_RECORD_LINE_H

#include "eval/records.h"

/* Scratch memory for strings with escapes, and which entropy is wanted. */
struct line_reader { struct text task, id, other; const char *entropy; };

/* What a line says; texts live until the next line_parse. */
struct line_fields {
    struct record row;          /* without offset, task and group */
    uint64_t group_hash;        /* 0: it names no group */
    const char *task, *id;
    size_t task_len, id_len;
    uint64_t task_hash;
    char modality[8];
    bool not_scored;            /* "scored": false: the task's rules leave it out (an empty reference) */
    bool is_error;              /* status "error": nothing but task and id need be there */
};

int line_reader_init(struct line_reader *l, const char *entropy);      /* -1: no such aggregate */
void line_reader_free(struct line_reader *l);
/* The message names the byte and what was expected; the caller puts file and line before it. */
int line_parse(struct line_reader *l, const char *s, size_t len, struct line_fields *f, struct err *e);

#endif
