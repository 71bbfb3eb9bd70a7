/* peers.h - the rules of other harnesses that ours do not offer (inside eval/), for `grade --explain`.
 *
 * Each looks at the visible answer and returns what that harness reads out of it, NULL if nothing, and whether it
 * counts. Where a harness would guess, nothing was read.
 */
#ifndef HANDOFF_PEERS_H
#define HANDOFF_PEERS_H

#include "eval/grade.h"
#include "eval/match.h"

struct peer_view {
    const struct grade_input *in;
    struct arena *a;
    struct runes text;          /* untrimmed */
    struct labels labels;       /* of the options */
    int gold;                   /* the right option, -1 if none is */
};

typedef const char *peer_rule(const struct peer_view *p, bool *correct);

/* lm-evaluation-harness */
peer_rule lm_eval_first_line, lm_eval_flan, lm_eval_flan_flexible, lm_eval_flan_cot, lm_eval_flan_cot_flexible,
    lm_eval_arc_chat, lm_eval_gsm8k_cot, lm_eval_gsm8k_llama, lm_eval_chartqa;
/* lmms-eval */
peer_rule lmms_choice, lmms_mmbench, lmms_mmau;

#endif
