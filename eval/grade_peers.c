/* grade_peers.c - the same output under the rules of other harnesses, where ours offer those rules as an extractor.
 * Their rules were compared case by case in the reference cases of the graders. */
#include "eval/grade.h"

#include <string.h>

static const struct { const char *grader, *extract, *harness; } rules[] = {
    {"number", "strict", "lm-eval gsm8k, strict-match"},
    {"number", "flexible", "lm-eval gsm8k, flexible-extract"},
    {"number", "official", "GSM8K's own script"},
    {"mmlu-pro", "official", "MMLU-Pro's own script (which guesses where we say unparsed)"},
    {"mmlu-pro", "strict", "lm-eval mmlu_pro"},
    {"mmau", "official", "MMAU's own string match"},
    {"relaxed", "official", "ChartQA's relaxed accuracy (pix2struct, VLMEvalKit, lmms-eval)"},
};

int grade_peers(const struct grade_input *in, struct arena *a, struct peer *out, int max)
{
    int n = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && n < max; i++) {
        struct grade_input theirs = *in;
        struct verdict v;
        if (strcmp(rules[i].grader, in->grader) != 0)
            continue;
        theirs.extract = rules[i].extract;
        if (grade(&theirs, a, &v, NULL) == 0)
            out[n++] = (struct peer){rules[i].harness, v.answer, v.correct};
    }
    return n;
}
