/* graders.h - the graders behind grade() (inside eval/). Each sets answer, rule, correct and score of the verdict. */
#ifndef HANDOFF_GRADERS_H
#define HANDOFF_GRADERS_H

#include "eval/grade.h"
#include "eval/match.h"

struct grading {
    const struct grade_input *in;
    const char *extract;        /* never NULL */
    struct arena *a;
    struct runes text;          /* the visible answer, untrimmed */
    struct verdict *v;
};

/* An answer was read: it is right if `correct`. */
void verdict_answer(struct grading *g, const char *answer, const char *rule, bool correct);
/* Nothing could be read. */
void verdict_unparsed(struct grading *g, const char *rule);
/* Option k was chosen; -1: unparsed. */
void verdict_option(struct grading *g, const struct labels *l, int k, const char *rule);

struct labels grade_labels(const struct grade_input *in, struct arena *a);
/* Whether option k is the right one. */
bool option_is_gold(const struct grade_input *in, const struct labels *l, int k);
/* Python's float(); false if s is no number. */
bool read_float(struct arena *a, struct runes s, double *value);
/* What lm-eval's exact match compares: everything up to the last `#### `, commas, dollars and one final period go. */
char *exact_form(struct arena *a, const char *s);

void grade_choice(struct grading *g);
void grade_number(struct grading *g);
void grade_mmlu_pro(struct grading *g);
void grade_mmbench(struct grading *g);
void grade_mmau(struct grading *g);
void grade_relaxed(struct grading *g);
void grade_anls(struct grading *g);
void grade_text(struct grading *g);
void grade_speech(struct grading *g);

#endif
