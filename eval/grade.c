#include "eval/grade.h"
#include "eval/graders.h"

#include <string.h>

/* ---- what there is --------------------------------------------------------------------------------------------- */

static const char *const standard[] = {"standard", NULL};
static const char *const number[] = {"flexible", "strict", "official", "numeric", "numeric-strict", NULL};
static const char *const mmlu_pro[] = {"official", "strict", "lenient", NULL};
static const char *const mmau[] = {"official", "lenient", NULL};
static const char *const relaxed[] = {"official", "exact-year", NULL};
static const char *const anls[] = {"official", "paper", NULL};

static const struct grader {
    const char *name;
    void (*grade)(struct grading *g);
    const char *const *extractors;
    bool needs_options;
} graders[] = {
    {"choice", grade_choice, standard, true},     {"number", grade_number, number, false},
    {"text", grade_text, standard, false},        {"relaxed", grade_relaxed, relaxed, false},
    {"anls", grade_anls, anls, false},            {"speech", grade_speech, standard, false},
    {"mmlu-pro", grade_mmlu_pro, mmlu_pro, true}, {"mmbench", grade_mmbench, standard, true},
    {"mmau", grade_mmau, mmau, true}};

static const struct { const char *task, *grader; } tasks[] = {
    {"mmlu", "choice"},        {"arc-easy", "choice"},      {"arc-challenge", "choice"}, {"mmlu-pro", "mmlu-pro"},
    {"gsm8k", "number"},       {"mmbench", "mmbench"},      {"chartqa", "relaxed"},      {"docvqa", "anls"},
    {"mmau", "mmau"},          {"gigaspeech", "speech"},    {"earnings22", "speech"},    {"librispeech", "speech"},
    {"jsonl", "text"}};

static const struct grader *find_grader(const char *name)
{
    for (size_t i = 0; name && i < sizeof graders / sizeof graders[0]; i++)
        if (strcmp(graders[i].name, name) == 0)
            return &graders[i];
    return NULL;
}

const char *const *grade_extractors(const char *grader)
{
    const struct grader *g = find_grader(grader);
    return g ? g->extractors : NULL;
}

const char *grade_task_grader(const char *task)
{
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (strcmp(tasks[i].task, task) == 0)
            return tasks[i].grader;
    return NULL;
}

const char *grade_status_name(enum grade_status s)
{
    static const char *const names[] = {"ok", "unparsed", "refused", "truncated", "error"};
    return names[s];
}

/* ---- verdicts -------------------------------------------------------------------------------------------------- */

void verdict_answer(struct grading *g, const char *answer, const char *rule, bool correct)
{
    g->v->status = GRADE_OK;
    g->v->answer = answer;
    g->v->rule = rule;
    g->v->correct = correct;
    g->v->score = correct;
}

/* An output that the token limit cut off is called truncated rather than unparsed: more tokens might have helped. */
void verdict_unparsed(struct grading *g, const char *rule)
{
    verdict_answer(g, NULL, rule, false);
    g->v->status = g->in->truncated ? GRADE_TRUNCATED : GRADE_UNPARSED;
}

/* A gold answer is a label, or the text of an option in sets without labels. "B" may be both: then it is the label, but
 * for MMAU, whose answers are texts. */
bool option_is_gold(const struct grade_input *in, const struct labels *l, int k)
{
    bool texts_first = strcmp(in->grader, "mmau") == 0;
    for (int i = 0; i < in->n_gold; i++) {
        struct arena a = {0};
        struct runes gold = runes_from(&a, in->gold[i]);
        bool label = false, text = false;
        for (int j = 0; j < l->n; j++) {
            label |= runes_equal(l->label[j], gold);
            text |= l->text && strcmp(l->text[j], in->gold[i]) == 0;
        }
        bool is_text = text && (texts_first || !label);
        bool same = is_text ? strcmp(l->text[k], in->gold[i]) == 0 : runes_equal(l->label[k], gold);
        arena_free(&a);
        if (same)
            return true;
    }
    return false;
}

void verdict_option(struct grading *g, const struct labels *l, int k, const char *rule)
{
    if (k < 0) {
        verdict_unparsed(g, rule);
        return;
    }
    verdict_answer(g, runes_text(g->a, l->label[k]), rule, option_is_gold(g->in, l, k));
}

struct labels grade_labels(const struct grade_input *in, struct arena *a)
{
    struct labels l = {.n = in->n_options, .label = ARENA_NEW(a, struct runes, in->n_options + 1),
                       .lower = ARENA_NEW(a, struct runes, in->n_options + 1), .text = in->options};
    for (int i = 0; i < l.n; i++) {
        const char letter[] = {(char)('A' + i), 0};
        l.label[i] = runes_trim(runes_from(a, in->labels ? in->labels[i] : letter));
        l.lower[i] = runes_lower(a, l.label[i]);
    }
    return l;
}

static int check_input(const struct grade_input *in, const struct grader **grader, const char **extract, struct err *e)
{
    *grader = find_grader(in->grader);
    if (!*grader)
        return err_input(e, "there is no grader \"%s\"", in->grader ? in->grader : "");
    *extract = in->extract ? in->extract : (*grader)->extractors[0];
    bool known = false;
    for (int i = 0; (*grader)->extractors[i] && !known; i++)
        known = strcmp((*grader)->extractors[i], *extract) == 0;
    if (!known)
        return err_input(e, "grader %s has no extractor \"%s\"", in->grader, *extract);
    if (in->normalizer && !grade_knows_normalizer(in->normalizer))
        return err_input(e, "there is no normalizer \"%s\"", in->normalizer);
    if (in->n_gold < 1)
        return err_input(e, "a gold answer is needed");
    if ((*grader)->needs_options && in->n_options < 1)
        return err_input(e, "grader %s needs the options' labels or texts", in->grader);
    if ((*grader)->needs_options && !in->labels && in->n_options > 26)
        return err_input(e, "more than 26 options need labels");
    return 0;
}

int grade(const struct grade_input *in, struct arena *a, struct verdict *v, struct err *e)
{
    const struct grader *grader = NULL;
    const char *extract = NULL;
    *v = (struct verdict){.status = GRADE_ERROR, .scored = true};
    if (check_input(in, &grader, &extract, e))
        return -1;
    struct visible seen;
    visible_answer(in->output, a, &seen);
    struct grading g = {.in = in, .extract = extract, .a = a, .text = runes_from(a, seen.untrimmed), .v = v};
    grader->grade(&g);
    if (seen.truncated_thought)
        v->status = GRADE_TRUNCATED;
    return 0;
}

bool grade_circular(const bool *correct, int n)
{
    int right = 0;
    while (right < n && correct[right])
        right++;
    return n > 0 && right == n;
}
