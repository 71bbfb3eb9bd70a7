/* The text graders against ../shared/metrics/graders_text.json and the goldens of ../shared/datasets/scoring. */
#include "eval/grade.h"
#include "tests/metric_cases.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "graders_text.json"

/* Strings of a JSON value (a string, or a list or object of strings) in the arena. */
static const char **strings_of(struct arena *a, const cJSON *v, int *n)
{
    const char **out = ARENA_NEW(a, const char *, cJSON_GetArraySize(v) + 1);
    const cJSON *item;
    *n = 0;
    if (cJSON_IsString(v))
        out[(*n)++] = v->valuestring;
    else
        cJSON_ArrayForEach(item, v)
            out[(*n)++] = item->valuestring;
    return out;
}

static struct verdict graded(struct grade_input *in, struct arena *a, const cJSON *c, const char *output)
{
    struct verdict v = {0};
    struct err e = {0};
    const cJSON *labels = json_get(c, "labels"), *options = json_get(c, "options");
    options = options ? options : json_get(c, "choices");
    if (!in->gold)
        in->gold = strings_of(a, json_get(c, json_get(c, "gold") ? "gold" : "answer"), &in->n_gold);
    if (labels)
        in->labels = strings_of(a, labels, &in->n_options);
    if (options)
        in->options = strings_of(a, options, &in->n_options);
    if (cJSON_IsObject(options)) {
        const char **keys = ARENA_NEW(a, const char *, in->n_options + 1);
        int n = 0;
        const cJSON *item;
        cJSON_ArrayForEach(item, options)
            keys[n++] = item->string;
        in->labels = keys;
    }
    in->output = json_string(c, output);
    CHECK_MSG(grade(in, a, &v, &e) == 0, "%s: %s", in->output, e.msg);
    return v;
}

static void same(const cJSON *c, const char *what, const char *got, const cJSON *want)
{
    const char *text = cJSON_IsString(want) && strcmp(want->valuestring, "[invalid]") ? want->valuestring : NULL;
    const char *id = json_string(c, "id") ? json_string(c, "id") : json_string(c, "prediction");
    CHECK_MSG((!text && !got) || (text && got && strcmp(text, got) == 0), "%s: %s is \"%s\", not \"%s\"", id, what,
              got ? got : "(null)", text ? text : "(null)");
}

static void same_bool(const cJSON *c, const char *what, bool got, const cJSON *want)
{
    const char *id = json_string(c, "id") ? json_string(c, "id") : json_string(c, "prediction");
    CHECK_MSG(want && got == cJSON_IsTrue(want), "%s: %s is %d", id ? id : "", what, got);
}

static void choice_set(const char *name)
{
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, name)) {
        struct arena a = {0};
        struct grade_input in = {.grader = "choice"};
        struct verdict v = graded(&in, &a, c, "output");
        const cJSON *want = json_get(c, "expect");
        same(c, "extract", v.answer, json_get(want, "extract"));
        same(c, "rule", v.rule, json_get(want, "rule"));
        same_bool(c, "correct", v.correct, json_get(want, "correct"));
        CHECK(v.status == (v.answer ? GRADE_OK : GRADE_UNPARSED));
        arena_free(&a);
    }
}

static void mcq(void) { NEED_CASES(FILE_NAME); choice_set("mcq"); }
static void arc(void) { NEED_CASES(FILE_NAME); choice_set("arc"); }

static void mmlu_pro(void)
{
    NEED_CASES(FILE_NAME);
    static const char *const letters[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J"};
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "mmlu_pro")) {
        const cJSON *want = json_get(c, "expect"), *peers = json_get(c, "peers");
        static const char *const extracts[] = {"official", "strict", "lenient"};
        const cJSON *wanted[] = {json_get(want, "extract"), json_get(want, "level1_extract"),
                                 json_get(json_get(peers, "toolkit_mcq_letter"), "extract")};
        for (int k = 0; k < 3; k++) {
            struct arena a = {0};
            struct grade_input in = {.grader = "mmlu-pro", .extract = extracts[k], .labels = letters,
                                     .n_options = json_get(c, "n_options")->valueint};
            struct verdict v = graded(&in, &a, c, "output");
            same(c, extracts[k], v.answer, wanted[k]);
            if (k == 0) {
                same_bool(c, "correct", v.correct, json_get(want, "correct"));
                same_bool(c, "unparsed", v.status == GRADE_UNPARSED, json_get(want, "unparsed"));
            }
            arena_free(&a);
        }
    }
}

static void mmbench(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "mmbench")) {
        struct arena a = {0};
        struct grade_input in = {.grader = "mmbench"};
        const cJSON *want = json_get(c, "expect");
        struct verdict v = graded(&in, &a, c, "output");
        same(c, "extract", v.answer, json_get(want, "extract"));
        same_bool(c, "correct", v.correct, json_get(want, "correct"));
        same_bool(c, "unparsed", v.status == GRADE_UNPARSED, json_get(want, "needs_judge"));
        in.grader = "choice";
        v = graded(&in, &a, c, "output");
        same(c, "choice", v.answer, json_get(json_get(json_get(c, "peers"), "toolkit_mcq_letter"), "extract"));
        arena_free(&a);
    }
}

static void mmbench_circular(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c, *pass;
    cJSON_ArrayForEach(c, json_get(cases_file, "mmbench_circular")) {
        bool correct[16];
        int n = 0;
        cJSON_ArrayForEach(pass, json_get(c, "passes"))
            correct[n++] = cJSON_IsTrue(json_get(pass, "correct"));
        same_bool(c, "circular", grade_circular(correct, n), json_get(json_get(c, "expect"), "circular_correct"));
    }
}

static void mmau(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "mmau")) {
        struct arena a = {0};
        const cJSON *toolkit = json_get(json_get(c, "peers"), "toolkit_mcq_letter");
        struct grade_input in = {.grader = "mmau"};
        struct verdict v = graded(&in, &a, c, "output");
        same_bool(c, "correct", v.correct, json_get(json_get(c, "expect"), "correct"));
        in.extract = "lenient";
        v = graded(&in, &a, c, "output");
        same(c, "lenient", v.answer, json_get(toolkit, "extract"));
        same_bool(c, "lenient", v.correct, json_get(toolkit, "correct"));
        arena_free(&a);
    }
}

static void gsm8k(void)
{
    NEED_CASES(FILE_NAME);
    static const struct { const char *extract, *answer, *correct; } ways[] = {
        {"strict", "strict_extract", "strict_correct"},
        {"flexible", "flexible_extract", "flexible_correct"},
        {"official", "official_extract", "official_correct"},
        {"numeric", "flexible_extract", "numeric_flexible_correct"},
        {"numeric-strict", "strict_extract", "numeric_strict_correct"}};
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "gsm8k")) {
        const cJSON *want = json_get(c, "expect");
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            struct arena a = {0};
            struct grade_input in = {.grader = "number", .extract = ways[k].extract};
            struct verdict v = graded(&in, &a, c, "output");
            same(c, ways[k].answer, v.answer, json_get(want, ways[k].answer));
            same_bool(c, ways[k].correct, v.correct, json_get(want, ways[k].correct));
            arena_free(&a);
        }
    }
}

static void chartqa(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "chartqa")) {
        struct arena a = {0};
        const cJSON *want = json_get(c, "expect");
        struct grade_input in = {.grader = "relaxed"};
        struct verdict v = graded(&in, &a, c, "output");
        same_bool(c, "correct", v.correct, json_get(want, "correct"));
        in.extract = "exact-year";
        v = graded(&in, &a, c, "output");
        same_bool(c, "exact year", v.correct, json_get(want, "correct_exact_year"));
        arena_free(&a);
    }
}

static void docvqa(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "docvqa")) {
        struct arena a = {0};
        struct grade_input in = {.grader = "anls"};
        struct verdict v = graded(&in, &a, c, "output");
        double want = case_get(json_get(c, "expect"), "anls");
        CHECK_MSG(v.score == want, "%s: %.17g, not %.17g", json_string(c, "id"), v.score, want);
        CHECK(v.correct == (want >= 0.5));
        in.extract = "paper";
        v = graded(&in, &a, c, "output");
        CHECK_NEAR(v.score, case_get(json_get(c, "peers"), "pypi_anls"), 1e-15);
        arena_free(&a);
    }
}

/* ---- other harnesses -------------------------------------------------------------------------------------------- */

static const struct peer *peer_named(const struct peer *p, int n, const char *start)
{
    for (int i = 0; i < n; i++)
        if (strncmp(p[i].harness, start, strlen(start)) == 0)
            return &p[i];
    return NULL;
}

/* What `grade --explain` says of other harnesses is what those harnesses said. */
static void peers(void)
{
    NEED_CASES(FILE_NAME);
    static const struct { const char *set, *grader, *harness, *key; } known[] = {
        {"mcq", "choice", "VLMEvalKit", "vlmevalkit_can_infer"},
        {"mcq", "choice", "MMLU-Pro", "mmlu_pro_official_on_4_options"},
        {"gsm8k", "number", "lm-eval gsm8k, strict", "lm_eval_gsm8k_strict"},
        {"gsm8k", "number", "lm-eval gsm8k, flexible", "lm_eval_gsm8k_flexible"},
        {"gsm8k", "number", "GSM8K", "openai_grade_school_math"},
        {"mmbench", "mmbench", "VLMEvalKit", "vlmevalkit_can_infer"},
        {"mcq", "choice", "lm-eval mmlu_generative", "lm_eval_mmlu_generative_first_line"},
        {"mcq", "choice", "lm-eval mmlu_flan_cot_zeroshot, flexible", "lm_eval_flan_cot_zeroshot_flexible"},
        {"mcq", "choice", "lmms-eval", "lmms_eval_extract_mcq"},
        {"arc", "choice", "lm-eval arc_challenge_chat", "lm_eval_arc_challenge_chat"},
        {"arc", "choice", "lmms-eval", "lmms_eval_extract_mcq"},
        {"gsm8k", "number", "lm-eval gsm8k_cot,", "lm_eval_gsm8k_cot_strict"},
        {"gsm8k", "number", "lm-eval gsm8k_cot_llama", "lm_eval_gsm8k_cot_llama_strict"},
        {"mmbench", "mmbench", "lmms-eval", "lmms_eval_can_infer"},
        {"mmau", "mmau", "lmms-eval", "lmms_eval_mmau"}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        const cJSON *c;
        cJSON_ArrayForEach(c, json_get(cases_file, known[k].set)) {
            struct arena a = {0};
            struct peer p[GRADE_PEERS];
            struct grade_input in = {.grader = known[k].grader};
            graded(&in, &a, c, "output");
            const struct peer *one = peer_named(p, grade_peers(&in, &a, p), known[k].harness);
            const cJSON *want = json_get(json_get(c, "peers"), known[k].key);
            CHECK(one != NULL);
            if (one && want) {
                same(c, known[k].key, one->answer, json_get(want, "extract"));
                if (cJSON_IsBool(json_get(want, "correct")))
                    same_bool(c, known[k].key, one->correct, json_get(want, "correct"));
            }
            arena_free(&a);
        }
    }
}

/* Outputs whose readings were taken from those harnesses' own code; "" for nothing. */
static void peers_read(void)
{
    static const char *const options[] = {"cat", "the dog", "a bird!", "(A) and C"};
    static const struct { const char *output, *gold, *harness, *answer; bool correct; } cases[] = {
        {"The answer is (B).", "B", "lm-eval mmlu_flan_cot_zeroshot, strict", "(B)", true},
        {"The answer is (B)", "B", "lm-eval mmlu_flan_cot_zeroshot, strict", "(B", true},
        {"The answer is B", "B", "lm-eval mmlu_flan_cot_zeroshot, strict", "", false},
        {"The answer: B.\nThe answer is C.", "B", "lm-eval mmlu_flan_cot_zeroshot, strict", "B", true},
        {"Q: The answer is (B).", "B", "lm-eval mmlu_flan_cot_zeroshot, strict", "", false},
        {"(A) or (C)", "C", "lm-eval mmlu_flan_cot_zeroshot, flexible", "(C)", true},
        {"A bird, I think: B", "C", "lm-eval mmlu_flan_cot_zeroshot, flexible", "(C)", true},
        {"So: B", "B", "lm-eval mmlu_flan_cot_zeroshot, flexible", "(B)", true},
        {"(A) or (C)", "A", "lm-eval mmlu_flan_n_shot_generative, flexible", "(A)", true},
        {"(A)\n(B)", "A", "lm-eval mmlu_flan_n_shot_generative, strict", "(A)", true},
        {" (A)", "A", "lm-eval mmlu_flan_n_shot_generative, strict", " (A)", false},
        {"B.\nBecause", "B", "lm-eval mmlu_generative", "B.", true},
        {"The answer is ½B", "B", "lmms-eval", "B", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a = {0};
        struct peer p[GRADE_PEERS];
        struct grade_input in = {.grader = "choice", .output = cases[i].output, .gold = &cases[i].gold, .n_gold = 1,
                                 .options = options, .n_options = 4};
        const struct peer *one = peer_named(p, grade_peers(&in, &a, p), cases[i].harness);
        CHECK(one != NULL);
        CHECK_MSG(one && strcmp(one->answer ? one->answer : "", cases[i].answer) == 0 &&
                  one->correct == cases[i].correct, "%s: %s reads \"%s\"", cases[i].output, cases[i].harness,
                  one && one->answer ? one->answer : "(null)");
        arena_free(&a);
    }
    /* lm-eval's chartqa reads what stands behind "Final Answer:", and judges that as its relaxed rule alone does */
    const cJSON *c;
    NEED_CASES(FILE_NAME);
    cJSON_ArrayForEach(c, json_get(cases_file, "chartqa")) {
        struct arena a = {0};
        struct peer p[GRADE_PEERS];
        struct grade_input in = {.grader = "relaxed"};
        const char *text = json_string(c, "output");
        graded(&in, &a, c, "output");
        const struct peer *one = peer_named(p, grade_peers(&in, &a, p), "lm-eval chartqa");
        same_bool(c, "final answer", one->correct,
                  json_get(json_get(json_get(c, "peers"), "lm_eval_relaxed_explicit_prompt"), "correct"));
        if (!strpbrk(text, "*_[]()") && strcmp(text, " Norway ") != 0) {    /* markdown and blanks go before the rule */
            in.output = arena_printf(&a, "It rises.\n**Final Answer:** %s\n\nDone.", text);
            one = peer_named(p, grade_peers(&in, &a, p), "lm-eval chartqa");
            if (*text && !strstr(text, "nswer"))
                same_bool(c, "relaxed", one->correct,
                          json_get(json_get(json_get(c, "peers"), "lm_eval_relaxed"), "correct"));
        }
        arena_free(&a);
    }
}

/* A gold answer that is one option's label and another option's text. */
static void ambiguous_gold(void)
{
    static const char *const digits[] = {"1", "2", "3", "4"}, *const texts[] = {"4", "3", "2", "1"},
                      *const letters[] = {"B", "C", "A", "D"}, *const one = "1", *const b = "B", *const three = "3";
    static const struct { const char *grader, *output, *const *gold, *const *labels, *const *options; bool right; }
    cases[] = {
        {"choice", "1", &one, digits, texts, true},     {"choice", "4", &one, digits, texts, false},
        {"choice", "2", &three, digits, texts, false},  {"choice", "3", &three, digits, texts, true},
        {"choice", "B", &b, NULL, letters, true},       {"choice", "A", &b, NULL, letters, false},
        {"mmau", "B", &b, NULL, letters, true},         {"mmau", "C", &b, NULL, letters, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a = {0};
        struct verdict v;
        struct grade_input in = {.grader = cases[i].grader, .output = cases[i].output, .gold = cases[i].gold,
                                 .n_gold = 1, .labels = cases[i].labels, .options = cases[i].options, .n_options = 4};
        CHECK(grade(&in, &a, &v, NULL) == 0);
        CHECK_MSG(v.correct == cases[i].right, "%s: %s", cases[i].grader, cases[i].output);
        arena_free(&a);
    }
}

/* ---- ../shared/datasets/scoring -------------------------------------------------------------------------------- */

/* Calls check on each line of a file; false if it is absent. */
static bool each_line(const char *name, void (*check)(const cJSON *line))
{
    char path[256];
    struct text content = {0};
    struct err e = {0};
    snprintf(path, sizeof path, "../shared/datasets/scoring/%s", name);
    if (!file_exists(path))
        return false;
    CHECK_MSG(file_read(path, 1u << 20, &content, &e) == 0, "%s", e.msg);
    for (char *line = content.data; line && *line;) {
        size_t len = strcspn(line, "\n");
        cJSON *c = json_parse(line, len, path, &e);
        CHECK_MSG(c != NULL, "%s", e.msg);
        if (c)
            check(c);
        cJSON_Delete(c);
        line += len + (line[len] == '\n');
    }
    text_free(&content);
    return true;
}

static void score_number(const cJSON *c)
{
    static const char *const ways[] = {"strict", "flexible"};
    for (int k = 0; k < 2; k++) {
        struct arena a = {0};
        char key[32];
        snprintf(key, sizeof key, "%s_correct", ways[k]);
        struct grade_input in = {.grader = "number", .extract = ways[k]};
        struct verdict v = graded(&in, &a, c, "prediction");
        same(c, ways[k], v.answer, json_get(c, ways[k]));
        same_bool(c, key, v.correct, json_get(c, key));
        arena_free(&a);
    }
}

static void score_anls(const cJSON *c)
{
    struct arena a = {0};
    struct grade_input in = {.grader = "anls"};
    in.gold = strings_of(&a, json_get(c, "answers"), &in.n_gold);
    struct verdict v = graded(&in, &a, c, "prediction");
    CHECK_NEAR(v.score, case_get(c, "anls"), 1e-15);
    arena_free(&a);
}

static void score_correct(const cJSON *c)
{
    struct arena a = {0};
    struct grade_input in = {.grader = json_get(c, "choices") ? "mmau" : "relaxed"};
    struct verdict v = graded(&in, &a, c, "prediction");
    same_bool(c, "correct", v.correct, json_get(c, "correct"));
    arena_free(&a);
}

static void score_mmbench(const cJSON *c)
{
    struct arena a = {0};
    static const char *const any[] = {"A"};
    struct grade_input in = {.grader = "mmbench", .gold = any, .n_gold = 1};
    struct verdict v = graded(&in, &a, c, "prediction");
    const cJSON *want = json_get(c, "option");
    if (cJSON_IsString(want) && strcmp(want->valuestring, "Z") == 0)
        CHECK(v.status == GRADE_REFUSED);
    else
        same(c, "option", v.answer, want);
    arena_free(&a);
}

static void score_mmlu_pro(const cJSON *c)
{
    static const char *const letters[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J"};
    for (int k = 0; k < 2; k++) {
        struct arena a = {0};
        struct grade_input in = {.grader = "mmlu-pro", .extract = k ? "official" : "strict", .labels = letters,
                                 .n_options = 10, .gold = letters, .n_gold = 1};
        struct verdict v = graded(&in, &a, c, "text");
        same(c, k ? "level2" : "level1", v.answer, json_get(c, k ? "level2" : "level1"));
        arena_free(&a);
    }
}

static double circular_hits, circular_groups, vanilla_hits;
static void score_circular(const cJSON *c)
{
    if (json_get(c, "circular_accuracy")) {
        CHECK_NEAR(circular_hits / circular_groups, case_get(c, "circular_accuracy"), 0);
        CHECK_NEAR(vanilla_hits / circular_groups, case_get(c, "vanilla_accuracy"), 0);
        return;
    }
    bool correct[16];
    int n = 0;
    const cJSON *truth;
    cJSON_ArrayForEach(truth, json_get(c, "gt")) {
        const cJSON *prediction = cJSON_GetArrayItem(json_get(c, "pred"), n);
        correct[n++] = cJSON_IsString(prediction) && strcmp(prediction->valuestring, truth->valuestring) == 0;
    }
    CHECK(grade_circular(correct, n) == (case_get(c, "hit") == 1));
    circular_groups++;
    circular_hits += grade_circular(correct, n);
    vanilla_hits += correct[0];
}

static void scoring(void)
{
    if (!each_line("gsm8k.jsonl", score_number))
        SKIP("../shared/datasets/scoring is absent");
    CHECK(each_line("anls.jsonl", score_anls));
    CHECK(each_line("relaxed_accuracy.jsonl", score_correct));
    CHECK(each_line("mmau_string_match.jsonl", score_correct));
    CHECK(each_line("mmbench_option.jsonl", score_mmbench));
    CHECK(each_line("mmlu_pro_extract.jsonl", score_mmlu_pro));
    CHECK(each_line("mmbench_circular.jsonl", score_circular));
}

/* ---- what the files do not say --------------------------------------------------------------------------------- */

static struct verdict by_hand(struct arena *a, const char *grader, const char *output, const char *gold)
{
    static const char *const labels[] = {"A", "B", "C"}, *const options[] = {"red", "blue", "green"};
    struct grade_input in = {.grader = grader, .output = output, .gold = &gold, .n_gold = 1, .labels = labels,
                             .options = options, .n_options = 3};
    struct verdict v;
    struct err e = {0};
    CHECK_MSG(grade(&in, a, &v, &e) == 0, "%s", e.msg);
    return v;
}

static void trailer_and_thought_come_off(void)
{
    struct arena a = {0};
    const char *output = "<|channel>thought\nThe answer is A.<channel|>The answer is B.\n[[hybrid:confidence=0.9000]]";
    struct verdict v = by_hand(&a, "choice", output, "B");
    CHECK_STR(v.answer, "B");
    CHECK(v.correct && v.status == GRADE_OK && v.score == 1);
    v = by_hand(&a, "choice", "<|channel>thought\nThe answer is B.", "B");
    CHECK(!v.correct && !v.answer && v.status == GRADE_TRUNCATED);
    arena_free(&a);
}

static void gold_as_text_of_the_option(void)
{
    struct arena a = {0};
    CHECK(by_hand(&a, "choice", "B", "blue").correct);
    CHECK(!by_hand(&a, "choice", "A", "blue").correct);
    arena_free(&a);
}

static void free_text(void)
{
    struct arena a = {0};
    CHECK(by_hand(&a, "text", "  The  RED\nbarn ", "the red barn").correct);
    CHECK(!by_hand(&a, "text", "the red barn.", "the red barn").correct);
    CHECK(by_hand(&a, "text", "ÉTÉ", "été").correct);
    CHECK(by_hand(&a, "text", "ΟΔΟΣ", "οδος").correct);
    CHECK(by_hand(&a, "text", " ", "x").status == GRADE_UNPARSED);
    arena_free(&a);
}

/* VLMEvalKit takes a letter among the last four words only. */
static void mmbench_window(void)
{
    struct arena a = {0};
    CHECK(by_hand(&a, "mmbench", "B what we see", "B").correct);
    CHECK(by_hand(&a, "mmbench", "B is what we see", "B").status == GRADE_UNPARSED);
    arena_free(&a);
}

static void wrong_use(void)
{
    const char *gold[] = {"A"};
    struct arena a = {0};
    struct err e = {0};
    struct verdict v;
    struct grade_input in = {.grader = "choice", .output = "A", .gold = gold, .n_gold = 1};
    CHECK(grade(&in, &a, &v, &e) == -1 && e.code == EXIT_BAD_INPUT);
    in = (struct grade_input){.grader = "number", .extract = "official ", .output = "1", .gold = gold, .n_gold = 1};
    CHECK(grade(&in, &a, &v, &e) == -1 && strstr(e.msg, "official "));
    in = (struct grade_input){.grader = "nonsense", .output = "1", .gold = gold, .n_gold = 1};
    CHECK(grade(&in, &a, &v, &e) == -1 && strstr(e.msg, "nonsense"));
    arena_free(&a);
}

int main(void)
{
    RUN(mcq);
    RUN(arc);
    RUN(gsm8k);
    RUN(mmlu_pro);
    RUN(mmbench);
    RUN(mmbench_circular);
    RUN(mmau);
    RUN(chartqa);
    RUN(docvqa);
    RUN(peers);
    RUN(peers_read);
    RUN(ambiguous_gold);
    RUN(scoring);
    RUN(trailer_and_thought_come_off);
    RUN(gold_as_text_of_the_option);
    RUN(free_text);
    RUN(mmbench_window);
    RUN(wrong_use);
    cJSON_Delete(cases_file);
    return test_report();
}
