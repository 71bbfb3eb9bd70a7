/* proof.c - prompts that say something about any model: short, long, with a chat's markers, with a shared beginning. */
#include "eval/proof.h"

const char *const proof_prompts[N_PROOF_PROMPTS] = {
    "<bos>The answer",
    "<bos><|turn>user\nWhich of these is a metal?\nA. oxygen\nB. iron\nC. helium\nD. neon<turn|>\n<|turn>model\n",
    "<bos><|turn>user\nWhich of these is a metal?\nA. carbon\nB. argon\nC. copper\nD. xenon<turn|>\n<|turn>model\n",
    ("<bos>She sold seven apples in the morning and eleven in the afternoon, then two more, then none; the next day she "
     "sold twice as many as on the day before, and on the third day half as many as on the first two days together."),
    "<bos>1, 2, 3, 5, 8, 13, 21"};
