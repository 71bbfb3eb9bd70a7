/* grade.h - is this answer right? One grader for each kind of task; the rules are those of the reference harnesses.
 *
 *     struct grade_input in = {.grader = "choice", .output = text, .n_gold = 1, .gold = gold, ...};
 *     if (grade(&in, &arena, &v, &e)) return -1;
 *     if (v.correct) ...
 *
 * Order of operations on a raw output: strip the confidence trailer, strip the thought channel, then grade. Nothing is
 * ever guessed: an output from which no answer can be read is wrong, and its status says so.
 */
#ifndef HANDOFF_GRADE_H
#define HANDOFF_GRADE_H

#include "eval/visible.h"

enum grade_status { GRADE_OK, GRADE_UNPARSED, GRADE_REFUSED, GRADE_TRUNCATED, GRADE_ERROR };
const char *grade_status_name(enum grade_status s);     /* ok, unparsed, refused, truncated, error */

struct grade_input {
    const char *grader;         /* choice, number, text, relaxed, anls, speech, mmlu-pro, mmbench, mmau */
    const char *extract;        /* one of grade_extractors(grader); NULL: the default, the first of them */
    const char *normalizer;     /* speech: whisper (default), whisper-release, open-asr, gigaspeech, none */
    const char *output;         /* the model's raw text */
    int n_gold;
    const char *const *gold;    /* label (or text of the option) for a choice, accepted answers otherwise */
    int n_options;
    const char *const *labels, *const *options;     /* either may be NULL; labels default to A, B, ... */
    double wrong_above;         /* speech: wrong if WER > this */
    bool truncated;             /* the token limit ended the output */
};

/* Strings live in the arena given. */
struct verdict {
    enum grade_status status;
    const char *answer;         /* what was read out of the output; NULL if nothing was */
    const char *rule;           /* the rule that fired, for --explain */
    bool correct;
    double score;               /* 0..1; speech: max(0, 1 - WER) */
    bool scored;                /* false: excluded from scoring (empty reference after normalisation) */
    int edits, words, sub, del, ins;                /* speech */
    const char *reference, *hypothesis;             /* speech: both sides after normalisation */
};
int grade(const struct grade_input *in, struct arena *a, struct verdict *v, struct err *e);

/* Ways to read an answer out of an output; NULL ends the list, which is NULL for an unknown grader.
 *   number    flexible (lm-eval's last number; default), strict (lm-eval's "#### n"), official (the data set's script),
 *             numeric (flexible, compared as decimals), numeric-strict
 *   mmlu-pro  official (three levels; default), strict (first pattern, as lm-eval), lenient (the rules of `choice`)
 *   mmau      official (token sets; default), lenient (the rules of `choice`)
 *   relaxed   official (default), exact-year (a year must match as text)
 *   anls      official (default), paper (collapsed lengths, and a similarity of 0.5 itself counts as 0)
 *   others    standard */
const char *const *grade_extractors(const char *grader);
/* The grader of a task name of DESIGN.md, NULL if there is none. */
const char *grade_task_grader(const char *task);

bool grade_knows_normalizer(const char *name);

/* What other harnesses say about the same output, where that is known; for an input that grade() took. Speech: the
 * answer is the normalised text. */
enum { GRADE_PEERS = 16 };
struct peer { const char *harness; const char *answer; bool correct; };
int grade_peers(const struct grade_input *in, struct arena *a, struct peer out[GRADE_PEERS]);   /* how many */

/* MMBench counts a question only if every rotation is right: true if all n verdicts are. */
bool grade_circular(const bool *correct, int n);

#endif
