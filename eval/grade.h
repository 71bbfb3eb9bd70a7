/* grade.h - is this answer right? One grader for each kind of task; the rules are those of the reference harnesses.
 *
 * Order of operations on a raw output: strip the confidence trailer, strip the thought channel, then grade.
 */
#ifndef HANDOFF_GRADE_H
#define HANDOFF_GRADE_H

#include "engine/base.h"

enum grade_status { GRADE_OK, GRADE_UNPARSED, GRADE_REFUSED, GRADE_TRUNCATED, GRADE_ERROR };
const char *grade_status_name(enum grade_status s);     /* ok, unparsed, refused, truncated, error */

struct grade_input {
    const char *grader;         /* choice, number, text, relaxed, anls, speech, mmlu-pro, mmbench, mmau */
    const char *extract;        /* number: strict, flexible (default), numeric, official; mmau, mmlu-pro: official
                                   (default), lenient; choice: standard (default); NULL: the default */
    const char *normalizer;     /* speech: whisper (default), open-asr, gigaspeech, none */
    const char *output;         /* the model's raw text */
    int n_gold;
    const char *const *gold;    /* label for a choice, accepted answers otherwise */
    int n_options;
    const char *const *labels, *const *options;
    double wrong_above;         /* speech: wrong if WER > this; anls: wrong if the score is below 0.5 */
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
    int edits, words, sub, del, ins;    /* speech */
};
int grade(const struct grade_input *in, struct arena *a, struct verdict *v, struct err *e);

/* The visible answer: the trailer `[[hybrid:confidence=0.1234]]` and thought channels taken off. */
struct visible { const char *text; bool has_trailer, malformed_trailer, truncated_thought; double trailer_confidence; };
void visible_answer(const char *output, struct arena *a, struct visible *v);

#endif
