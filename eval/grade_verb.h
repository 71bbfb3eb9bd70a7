/* grade_verb.h - the pieces of the verb `grade` (inside eval/). */
#ifndef HANDOFF_GRADE_VERB_H
#define HANDOFF_GRADE_VERB_H

#include "eval/grade.h"
#include "eval/groups.h"

struct grade_args {
    const char *task, *extract, *normalizer, *write;
    double tau;
    bool explain, calls;
};

bool has_extractor(const char *grader, const char *name);
bool wants_band(const struct grade_args *g);            /* --extract all */

/* A text, or a number as text; NULL for anything else. */
const char *json_scalar(struct arena *a, const cJSON *v);
/* output, gold, labels, options, stop of a line. */
int grade_line_input(const cJSON *line, struct arena *a, struct grade_input *in, const char *where, struct err *e);
/* Calls see(arg, line, "file:number") for every line of a JSONL file. */
int each_json_line(const char *path, int (*see)(void *arg, cJSON *line, const char *where, struct err *e), void *arg,
                   struct err *e);

/* ---- counts by task -------------------------------------------------------------------------------------------- */

enum { BAND_MAX = 8 };
struct score { int64_t n, right, edits, words; struct groups groups; };
struct tally {
    char *task, *grader;
    struct score now, before;
    int64_t changed, unparsed, not_scored;
    int64_t band[BAND_MAX];     /* right answers by extractor, in the order of grade_extractors() */
};
struct tallies { struct tally *at; int n; };

struct tally *tally_of(struct tallies *t, const char *task, const char *grader);
/* One verdict; group: what stands or falls together, or "". */
void tally_add(struct tally *t, const struct verdict *v, const char *group);
/* How often each extractor is right, one after the other. */
int tally_band(struct tally *t, const struct grade_input *in, struct arena *a, struct err *e);
/* Lines for people: circular accuracy, word error rates, the band. */
void tally_print(struct text *out, struct tally *t, bool band, bool before);
void tallies_free(struct tallies *t);

/* ---- whole calls ----------------------------------------------------------------------------------------------- */

struct segment { char *call, *id, *reference, *hypothesis; };
struct calls { struct segment *at; size_t n, cap; };

/* A segment of a recording; hypothesis NULL: it failed and counts as silence. */
void calls_add(struct calls *c, const char *call, const char *id, const char *reference, const char *hypothesis);
/* Calls see(arg, call, its segments, verdict) for every call: its segments joined in the order of their ids, then
 * normalised and aligned as one. Where all segments carry the same reference, that is the call's. */
int calls_grade(struct calls *c, const char *normalizer, double tau,
                int (*see)(void *arg, const char *call, size_t n_segments, const struct verdict *v, struct err *e),
                void *arg, struct err *e);
void calls_free(struct calls *c);

int grade_run(const struct grade_args *g, const char *dir, struct err *e);

#endif
