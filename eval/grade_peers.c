/* grade_peers.c - the same output under the rules of other harnesses, where ours offer those rules as a grader, an
 * extractor or a normaliser, or as peers.h has them. They were compared case by case with those harnesses. */
#include "eval/graders.h"
#include "eval/peers.h"

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

/* Rules that are no way of ours to grade. */
static const struct { const char *grader; peer_rule *rule; const char *harness; } others[] = {
    {"choice", lm_eval_first_line, "lm-eval mmlu_generative, first line"},
    {"choice", lm_eval_flan, "lm-eval mmlu_flan_n_shot_generative, strict-match"},
    {"choice", lm_eval_flan_flexible, "lm-eval mmlu_flan_n_shot_generative, flexible-extract"},
    {"choice", lm_eval_flan_cot, "lm-eval mmlu_flan_cot_zeroshot, strict-match"},
    {"choice", lm_eval_flan_cot_flexible, "lm-eval mmlu_flan_cot_zeroshot, flexible-extract"},
    {"choice", lm_eval_arc_chat, "lm-eval arc_challenge_chat"},
    {"choice", lmms_choice, "lmms-eval, reader of choices"},
    {"number", lm_eval_gsm8k_cot, "lm-eval gsm8k_cot, strict-match"},
    {"number", lm_eval_gsm8k_llama, "lm-eval gsm8k_cot_llama, strict-match"},
    {"relaxed", lm_eval_chartqa, "lm-eval chartqa, relaxed_accuracy (wants \"Final Answer:\")"},
    {"mmbench", lmms_mmbench, "lmms-eval MMBench, rules before its judge"},
    {"mmau", lmms_mmau, "lmms-eval MMAU (which guesses where we say nothing)"},
};

int grade_peers(const struct grade_input *in, struct arena *a, struct peer out[GRADE_PEERS])
{
    int n = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
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
    struct visible seen;
    visible_answer(in->output, a, &seen);
    struct peer_view view = {.in = in, .a = a, .text = runes_from(a, seen.untrimmed), .labels = grade_labels(in, a),
                             .gold = -1};
    for (int k = view.labels.n - 1; k >= 0; k--)
        view.gold = option_is_gold(in, &view.labels, k) ? k : view.gold;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].grader, in->grader) == 0) {
            out[n] = (struct peer){.harness = others[i].harness};
            out[n].answer = others[i].rule(&view, &out[n].correct);
            n++;
        }
    return n;
}
