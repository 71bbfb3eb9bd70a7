/* Transcripts: word error rate after a normaliser. */
#include "eval/align.h"
#include "eval/graders.h"
#include "eval/normalise.h"

#include <string.h>

static struct runes as_is(struct arena *a, struct runes s) { return runes_collapse(a, s); }

static const struct normaliser {
    const char *name;
    struct runes (*normalise)(struct arena *a, struct runes s);
    struct edits (*align)(struct arena *a, struct runes reference, struct runes hypothesis);
} normalisers[] = {{"whisper", normalise_whisper, align_words},
                   {"whisper-release", normalise_whisper_release, align_words},
                   {"open-asr", normalise_open_asr, align_compounds},
                   {"gigaspeech", normalise_gigaspeech, align_words},
                   {"none", as_is, align_words}};

bool grade_knows_normalizer(const char *name)
{
    for (size_t i = 0; i < sizeof normalisers / sizeof *normalisers; i++)
        if (strcmp(name, normalisers[i].name) == 0)
            return true;
    return false;
}

static const struct normaliser *find_normaliser(const char *name)
{
    size_t i = 0;
    while (name && strcmp(name, normalisers[i].name) != 0)
        i++;
    return &normalisers[i];
}

static double rate(struct edits e) { return e.words ? (double)e.total / e.words : 1; }

void grade_speech(struct grading *g)
{
    const struct normaliser *n = find_normaliser(g->in->normalizer);
    struct runes hypothesis = n->normalise(g->a, g->text), reference = {0};
    struct edits best = {0};
    for (int i = 0; i < g->in->n_gold; i++) {
        struct runes one = n->normalise(g->a, runes_from(g->a, g->in->gold[i]));
        struct edits e = n->align(g->a, one, hypothesis);
        if (i == 0 || rate(e) < rate(best)) {
            best = e;
            reference = one;
        }
    }
    struct verdict *v = g->v;
    bool ignored = n->align == align_compounds && runes_is(reference, "ignore time segment in scoring");
    v->scored = best.words > 0 && !ignored;
    verdict_answer(g, runes_text(g->a, runes_trim(g->text)), n->name, v->scored && !(rate(best) > g->in->wrong_above));
    v->score = v->scored && rate(best) < 1 ? 1 - rate(best) : 0;
    v->edits = best.total;
    v->words = best.words;
    v->sub = best.sub;
    v->del = best.del;
    v->ins = best.ins;
    v->reference = runes_text(g->a, reference);
    v->hypothesis = runes_text(g->a, hypothesis);
}
