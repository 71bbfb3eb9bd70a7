#include "eval/normalise.h"

static const char *const fillers[] = {"hmm", "mm", "mhm", "mmm", "uh", "um", NULL};

static const struct replacement possessive[] = {{"'s", " is", false}};

/* Only in the whisper-normalizer package. */
static const struct replacement informal[] = {
    {"kinda", "kind of", true}, {"sorta", "sort of", true}, {"dunno", "do not know", true}, {"cause", "because", true}};

static struct runes rest(struct arena *a, struct runes s)
{
    s = english_numbers(a, english_symbols(a, english_expand(a, s, possessive, 1)));
    return english_finish(a, replace_words(a, s, &spelling_table, 1));
}

struct runes normalise_whisper(struct arena *a, struct runes s)
{
    return rest(a, replace_all(a, english_strip(a, s, fillers), informal, sizeof informal / sizeof *informal));
}

struct runes normalise_whisper_release(struct arena *a, struct runes s)
{
    return rest(a, english_strip(a, s, fillers));
}
