/* Speech normalisers and word error rates against ../shared/metrics/graders_asr.json and ../shared/datasets/scoring. */
#include "eval/align.h"
#include "eval/grade.h"
#include "eval/normalise.h"
#include "tests/metric_cases.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "graders_asr.json"

static struct verdict transcribed(struct arena *a, const char *normalizer, const char *ref, const char *hyp, double tau)
{
    struct verdict v = {0};
    struct err e = {0};
    struct grade_input in = {.grader = "speech", .normalizer = normalizer, .output = hyp, .gold = &ref, .n_gold = 1,
                             .wrong_above = tau};
    CHECK_MSG(grade(&in, a, &v, &e) == 0, "%s", e.msg);
    return v;
}

static void same(const char *id, const char *what, const char *got, const char *want)
{
    CHECK_MSG(want && strcmp(got, want) == 0, "%s: %s is \"%s\", not \"%s\"", id, what, got, want ? want : "(null)");
}

static void same_count(const char *id, const char *what, int got, const cJSON *want, const char *key)
{
    const cJSON *v = json_get(want, key);
    if (v && cJSON_IsNumber(v))
        CHECK_MSG(got == v->valueint, "%s: %s is %d, not %d", id, what, got, v->valueint);
}

/* One side of a case: normalised texts, counts and verdicts at every tau. */
static void check_case(const cJSON *c, const char *normalizer, const cJSON *want, const char *ref_key,
                       const char *hyp_key)
{
    struct arena a = {0};
    const char *id = json_string(c, "id"), *ref = json_string(c, "ref"), *hyp = json_string(c, "hyp");
    struct verdict v = transcribed(&a, normalizer, ref, hyp, 0);
    const cJSON *wer = json_get(want, "wer"), *wrong;
    bool scored = json_get(want, "scored") ? cJSON_IsTrue(json_get(want, "scored")) : cJSON_IsNumber(wer);
    CHECK_MSG(v.scored == scored, "%s: scored", id);
    if (json_string(want, ref_key)) {
        same(id, "reference", v.reference, json_string(want, ref_key));
        same(id, "hypothesis", v.hypothesis, json_string(want, hyp_key));
    }
    same_count(id, "substitutions", v.sub, want, "sub");
    same_count(id, "deletions", v.del, want, "del");
    same_count(id, "insertions", v.ins, want, "ins");
    same_count(id, "edits", v.edits, want, "edits");
    same_count(id, "words", v.words, want, "words");
    CHECK(v.edits == v.sub + v.del + v.ins);
    if (scored)
        CHECK_NEAR((double)v.edits / v.words, wer->valuedouble, 0);
    cJSON_ArrayForEach(wrong, json_get(want, "wrong"))
        if (scored && cJSON_IsBool(wrong)) {
            v = transcribed(&a, normalizer, ref, hyp, strtod(wrong->string, NULL));
            CHECK_MSG(v.correct == cJSON_IsFalse(wrong), "%s: wrong at %s", id, wrong->string);
        }
    arena_free(&a);
}

static void whisper_and_open_asr(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "wer")) {
        const cJSON *want = json_get(c, "expect");
        check_case(c, "whisper", json_get(want, "whisper"), "ref_norm", "hyp_norm");
        check_case(c, "open-asr", json_get(want, "open_asr_leaderboard"), "ref_norm", "hyp_norm");
    }
}

static void open_asr(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "open_asr")) {
        check_case(c, "open-asr", json_get(c, "expect"), "ref_norm", "hyp_norm");
        check_case(c, "whisper", json_get(json_get(c, "peers"), "whisper_jiwer"), "ref_norm", "hyp_norm");
    }
}

static void gigaspeech(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "gigaspeech")) {
        const cJSON *peers = json_get(c, "peers");
        check_case(c, "gigaspeech", json_get(c, "expect"), "ref_post", "hyp_post");
        check_case(c, "open-asr", json_get(peers, "open_asr_leaderboard"), "ref_norm", "hyp_norm");
        check_case(c, "whisper", json_get(peers, "whisper_plain"), "ref_norm", "hyp_norm");
    }
}

static const cJSON *case_of(const char *id)
{
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "wer"))
        if (strcmp(json_string(c, "id"), id) == 0)
            return c;
    return NULL;
}

/* A corpus' rate is the sum of edits over the sum of words. */
static void corpora(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c, *id;
    cJSON_ArrayForEach(c, json_get(cases_file, "wer_corpora")) {
        static const char *const normalizers[] = {"whisper", "open-asr"};
        static const char *const keys[] = {"whisper_corpus_wer", "oasr_corpus_wer"};
        for (int k = 0; k < 2; k++) {
            double edits = 0, words = 0;
            cJSON_ArrayForEach(id, json_get(c, "case_ids")) {
                struct arena a = {0};
                const cJSON *one = case_of(id->valuestring);
                struct verdict v = transcribed(&a, normalizers[k], json_string(one, "ref"), json_string(one, "hyp"), 0);
                edits += v.scored ? v.edits : 0;
                words += v.scored ? v.words : 0;
                arena_free(&a);
            }
            CHECK_NEAR(edits / words, case_get(json_get(c, "expect"), keys[k]), 0);
        }
    }
}

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

typedef struct runes (*normaliser)(struct arena *a, struct runes s);

static void check_normalised(normaliser f, const char *text, const char *want)
{
    struct arena a = {0};
    char *got = runes_text(&a, f(&a, runes_from(&a, text)));
    same(text, "normalised", got, want);
    arena_free(&a);
}

static void check_english(const cJSON *c)
{
    check_normalised(normalise_whisper, json_string(c, "text"), json_string(c, "whisper"));
    check_normalised(normalise_open_asr, json_string(c, "text"), json_string(c, "leaderboard_2026"));
}

static void check_gigaspeech(const cJSON *c)
{
    check_normalised(normalise_gigaspeech, json_string(c, "text"), json_string(c, "scored"));
}

static double all_edits, all_words;
static void check_wer(const cJSON *c)
{
    if (json_get(c, "corpus_wer")) {
        CHECK_NEAR(all_edits / all_words, case_get(c, "corpus_wer"), 0);
        return;
    }
    struct arena a = {0};
    struct verdict v = transcribed(&a, "none", json_string(c, "reference"), json_string(c, "hypothesis"), 0);
    same_count("wer.jsonl", "errors", v.edits, c, "errors");
    same_count("wer.jsonl", "words", v.words, c, "reference_words");
    all_edits += v.edits;
    all_words += v.words;
    arena_free(&a);
}

static void scoring(void)
{
    if (!each_line("english_normaliser.jsonl", check_english))
        SKIP("../shared/datasets/scoring is absent");
    CHECK(each_line("gigaspeech_text.jsonl", check_gigaspeech));
    CHECK(each_line("wer.jsonl", check_wer));
}

/* Texts whose results were read off the Python originals. */
static void python_originals(void)
{
    static const struct { const char *text, *whisper, *open_asr; } cases[] = {
        {"nine hundred ninety nine thousand nine hundred and ninety nine", "999999",
         "999999"},
        {"two hundred fifty eleven", "25011",
         "25011"},
        {"two thousand and six million", "6002000",
         "6002000"},
        {"1,2,3 and 12,345,678", "12 3 and 12345678",
         "12 3 and 12345678"},
        {"$2 and 7 cents", "$2.07",
         "$2.07"},
        {"$0.07 or $0.5", "¢7 or ¢5",
         "¢7 or ¢5"},
        {"double oh seven, triple nine", "007999",
         "007999"},
        {"minus five plus 3 negative x", "-5 +3 negative x",
         "-5 +3 negative x"},
        {"twenty twenty one", "2021",
         "2021"},
        {"ten eleven", "1011",
         "1011"},
        {"a hundred thousandths", "a 100 thousandths",
         "a 100 thousandths"},
        {"point five per cent of one point two point three", ".5% of one.2.3",
         ".5% of one.2.3"},
        {"the nineties, the 21st and the ninth", "the 90s the 21st and the ninth",
         "the 90s the 21st and the ninth"},
        {"2.5 hundred decillion", "250000000000000000000000000000000000",
         "250000000000000000000000000000000000"},
        {"one and a half and a half", "one.5",
         "one.5"},
        {"007 and 0.0 million", "7 and 0",
         "7 and 0"},
        {"five o'clock at St. John's", "50 clock at saint john is",
         "50 clock at saint john s"},
        {"[a (b] c) () (d", "c d",
         "cd"},
        {"won't 've he'd been", "will not have he had been",
         "will not have he had been"},
        {"a.m. p.m. e-mail Wi-Fi X-ray", "a m p m e mail wi fi x ray",
         "am pm email wifi xray"},
        {"Łódź Þór straße ﬁn ½ ５", "lodz thor strasse fin one 2 5",
         "lodz thor strasse fin one 25"},
        {"٣ million ٣.٥", "3000000 3 5",
         "3000000 35"},
        {"$$5 %5 5%% £.5", "$5 5 5% .5",
         "$5 5 5% .5"},
        {"B. B. C. and A. I.", "b b c and a i",
         "bbc and a i"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_normalised(normalise_whisper, cases[i].text, cases[i].whisper);
        check_normalised(normalise_open_asr, cases[i].text, cases[i].open_asr);
    }
    check_normalised(normalise_whisper, "'cause I kinda dunno", "because i kind of do not know");
    check_normalised(normalise_whisper_release, "'cause I kinda dunno", "cause i kinda dunno");
}

/* Alignments of equal cost are counted as jiwer and kaldialign count them (both were run on this pair). */
static void ties(void)
{
    struct arena a = {0};
    struct runes ref = runes_from(&a, "a b a"), hyp = runes_from(&a, "a a c");
    struct edits e = align_words(&a, ref, hyp);
    CHECK(e.sub == 2 && e.del == 0 && e.ins == 0);
    e = align_compounds(&a, ref, hyp);
    CHECK(e.sub == 0 && e.del == 1 && e.ins == 1);
    arena_free(&a);
}

/* A compound of any number of parts, on either side. */
static void long_compounds(void)
{
    struct arena a = {0};
    struct text apart = {0}, together = {0};
    text_puts(&apart, "x");
    text_puts(&together, "x ");
    for (int i = 0; i < 200; i++) {
        text_printf(&apart, " w%d", i);
        text_printf(&together, "w%d", i);
    }
    struct runes parts = runes_from(&a, apart.data), one = runes_from(&a, together.data);
    CHECK(align_compounds(&a, one, parts).total == 0 && align_compounds(&a, parts, one).total == 0);
    CHECK(align_words(&a, one, parts).total == 200);
    text_free(&apart);
    text_free(&together);
    arena_free(&a);
}

/* SHA-256 over what Python 3.11 (Unicode 14) makes of every character but NUL and surrogates, a line break behind
 * each:  for c in ...: h.update(f(chr(c)).encode() + b"\n") */
static void every_character(void)
{
    static const struct { struct runes (*f)(struct arena *, struct runes); const char *sha; } cases[] = {
        {runes_lower, "0fd52b670bc397db29b61a6c7472d017db8c761db2e65691a2fae559d55f1e00"},
        {runes_upper, "9696aceb5c227b48a318d16a343a1e8a4008752fac40eb2c84d747f5ba0c3cce"},
        {runes_nfkd, "e06b5b42950c560d0f8a1b2d1c5768f15d3dfec0f24b34ef8fed244b4d2a258e"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct sha256 sha;
        char hex[65];
        sha256_init(&sha);
        for (uint32_t c = 1; c <= 0x10FFFF; c++) {
            if (c >= 0xD800 && c <= 0xDFFF)
                continue;
            struct arena a = {0};
            struct runes made = cases[k].f(&a, (struct runes){.at = &c, .n = 1});
            const char *text = runes_text(&a, made);
            sha256_update(&sha, text, strlen(text));
            sha256_update(&sha, "\n", 1);
            arena_free(&a);
        }
        sha256_hex(&sha, hex);
        CHECK_MSG(strcmp(hex, cases[k].sha) == 0, "%zu: %s", k, hex);
    }
    struct arena a = {0};
    check_normalised(normalise_gigaspeech, "\xEF\xAC\x81n-stra\xC3\x9F""e um", "FIN STRASSE");
    CHECK(runes_upper_length(runes_from(&a, "\xEF\xAC\x81n")) == 3);
    arena_free(&a);
}

int main(void)
{
    RUN(whisper_and_open_asr);
    RUN(open_asr);
    RUN(gigaspeech);
    RUN(corpora);
    RUN(scoring);
    RUN(python_originals);
    RUN(ties);
    RUN(long_compounds);
    RUN(every_character);
    cJSON_Delete(cases_file);
    return test_report();
}
