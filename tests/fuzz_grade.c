/* Any text as a model's output through every grader, extractor and normaliser. The first line is the output; further
 * lines, if there are any, are gold answers and options. */
#include "eval/grade.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 6 };

static void grade_all(const struct grade_input *base)
{
    static const char *const graders[] = {"choice", "number", "text", "relaxed", "anls", "mmlu-pro", "mmbench", "mmau"};
    static const char *const normalizers[] = {"whisper", "whisper-release", "open-asr", "gigaspeech", "none"};
    struct arena a = {0};
    struct grade_input in = *base;
    struct verdict v;
    struct peer peers[GRADE_PEERS];
    for (size_t i = 0; i < sizeof graders / sizeof *graders; i++) {
        in.grader = graders[i];
        for (const char *const *x = grade_extractors(in.grader); *x; x++) {
            in.extract = *x;
            if (grade(&in, &a, &v, NULL) == 0 && (!v.rule || v.score < 0 || v.score > 1))
                abort();
        }
        grade_peers(&in, &a, peers);
    }
    in.grader = "speech";
    in.extract = NULL;
    for (size_t i = 0; i < sizeof normalizers / sizeof *normalizers; i++) {
        in.normalizer = normalizers[i];
        if (grade(&in, &a, &v, NULL) == 0 && v.edits != v.sub + v.del + v.ins)
            abort();
    }
    arena_free(&a);
}

/* However it is cut into pieces, a stream shows what the whole text shows. */
static void stream(const char *text, size_t piece)
{
    struct trailer_stream s = {0};
    struct text shown = {0};
    enum trailer_status whole, streamed;
    double x = 0, y = 0;
    size_t len = strlen(text), want = trailer_strip(text, len, &whole, &x);
    for (size_t i = 0; i < len; i += piece)
        trailer_stream_push(&s, text + i, len - i < piece ? len - i : piece, &shown);
    streamed = trailer_stream_end(&s, &shown, &y);
    if (whole != streamed || x != y || shown.len != want || (want && memcmp(shown.data, text, want) != 0))
        abort();
    text_free(&shown);
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    char *text = mem_strndup((const char *)data, n), *copy = mem_strndup((const char *)data, n);
    const char *lines[MAX_LINES] = {"18", "The answer is (B).", "red", "dark red", "blue", "7.5"};
    int n_lines = 0;
    stream(text, 1);
    stream(text, 5);
    for (char *line = copy; line && n_lines < MAX_LINES;) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        lines[n_lines++] = line;
        line = end;
    }
    struct grade_input in = {.output = lines[0], .gold = lines + 1, .n_gold = 2, .options = lines + 2, .n_options = 4};
    grade_all(&in);
    in.output = text;
    in.labels = (const char *const[]){"1", "2", "10", "B"};
    grade_all(&in);
    free(text);
    free(copy);
    return 0;
}
