/* grade_peers.c - the same output under the rules of other harnesses, where ours offer those rules as a grader, an
 * extractor or a normaliser. Their rules were compared case by case in the reference cases of the graders. */
#include "eval/grade.h"

#include <string.h>

/* The output of a task with `grader` judged as `theirs` judges. */
static const struct { const char *grader, *theirs, *extract, *normalizer, *harness; } rules[] = {
    {"choice", "mmbench", NULL, NULL, "VLMEvalKit, rules before its judge"},
    {"choice", "mmlu-pro", "official", NULL, "MMLU-Pro's own script (which guesses where we say unparsed)"},
    {"number", "number", "strict", NULL, "lm-eval gsm8k, strict-match"},
    {"number", "number", "flexible", NULL, "lm-eval gsm8k, flexible-extract"},
    {"number", "number", "official", NULL, "GSM8K's own script"},
    {"mmlu-pro", "mmlu-pro", "official", NULL, "MMLU-Pro's own script (which guesses where we say unparsed)"},
    {"mmlu-pro", "mmlu-pro", "strict", NULL, "lm-eval mmlu_pro"},
    {"mmbench", "mmbench", NULL, NULL, "VLMEvalKit, rules before its judge"},
    {"mmau", "mmau", "official", NULL, "MMAU's own string match"},
    {"relaxed", "relaxed", "official", NULL, "ChartQA's relaxed accuracy (pix2struct, VLMEvalKit, lmms-eval)"},
    {"anls", "anls", "official", NULL, "VLMEvalKit and lmms-eval DocVQA"},
    {"anls", "anls", "paper", NULL, "PyPI anls"},
    {"speech", "speech", NULL, "whisper", "Whisper normaliser and jiwer"},
    {"speech", "speech", NULL, "open-asr", "Open ASR Leaderboard 2026"},
    {"speech", "speech", NULL, "gigaspeech", "GigaSpeech's own script"},
};

int grade_peers(const struct grade_input *in, struct arena *a, struct peer *out, int max)
{
    int n = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && n < max; i++) {
        struct grade_input theirs = *in;
        struct verdict v;
        if (strcmp(rules[i].grader, in->grader) != 0)
            continue;
        theirs.grader = rules[i].theirs;
        theirs.extract = rules[i].extract;
        theirs.normalizer = rules[i].normalizer;
        if (grade(&theirs, a, &v, NULL) == 0)
            out[n++] = (struct peer){rules[i].harness, v.hypothesis ? v.hypothesis : v.answer, v.correct};
    }
    return n;
}
