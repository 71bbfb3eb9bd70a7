/* The post-processing of GigaSpeech's own scoring script. */
#include "eval/normalise.h"

static const char *const not_scored[] = {
    "UH", "UHH", "UM", "EH", "MM", "HM", "AH", "HUH", "HA", "ER", "OOF", "HEE", "ACH", "EEE", "EW", "<UNK>", "<COMMA>",
    "<PERIOD>", "<QUESTIONMARK>", "<EXCLAMATIONPOINT>", "<SIL>", "<MUSIC>", "<NOISE>", "<OTHER>"};

struct runes normalise_gigaspeech(struct arena *a, struct runes s)
{
    struct runes upper = runes_upper(a, s), out = {0}, word;
    for (size_t i = 0; i < upper.n; i++)
        upper.at[i] = upper.at[i] == '-' ? ' ' : upper.at[i];
    for (size_t at = 0; runes_word(upper, &at, &word);) {
        bool scored = true;
        for (size_t k = 0; k < sizeof not_scored / sizeof *not_scored && scored; k++)
            scored = !runes_is(word, not_scored[k]);
        if (!scored)
            continue;
        if (out.n)
            runes_put(a, &out, ' ');
        runes_add(a, &out, word);
    }
    return out;
}
