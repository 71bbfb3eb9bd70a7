/* `handoff chat`: with what it keeps between turns, each answer is the one that `generate` gives to the whole
 * conversation. */
#define _GNU_SOURCE
#include "engine/base.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECKPOINT "datasets/mini/checkpoint"
#define PICTURE "datasets/mini/docvqa/documents/0001.png"
#define SOUND "datasets/mini/transcribe/test-clean/102/1001/102-1001-0004.flac"

static const char *program(void)
{
    const char *p = getenv("HANDOFF");
    return p ? p : "build/handoff";
}

/* Exit status; what it prints goes to `out`. */
static int run(const char *command, struct text *out)
{
    char part[4096];
    size_t n;
    text_clear(out);
    text_puts(out, "");
    FILE *f = popen(command, "r");
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        text_put(out, part, n);
    int status = f ? pclose(f) : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int chat(const char *options, const char *input, struct text *out)
{
    struct text command = {0};
    text_printf(&command, "printf '%s' | %s chat --model " CHECKPOINT " %s 2>&1", input, program(), options);
    int status = run(command.data, out);
    text_free(&command);
    return status;
}

/* One turn: what is attached, and what is said. */
struct turn { const char *image, *audio, *text; };

static void add_turn(struct text *messages, const struct turn *t)
{
    char *here = realpath(".", NULL);
    text_printf(messages, "%s{\"role\":\"user\",\"content\":[", messages->len > 1 ? "," : "");
    if (t->image)
        text_printf(messages, "{\"type\":\"image\",\"image\":\"%s/%s\"},", here, t->image);
    if (t->audio)
        text_printf(messages, "{\"type\":\"audio\",\"audio\":\"%s/%s\"},", here, t->audio);
    text_printf(messages, "{\"type\":\"text\",\"text\":\"%s\"}]}", t->text);
    free(here);
}

static void generate(const struct text *messages, const char *options, struct text *out)
{
    char path[] = "/tmp/handoff-dialog-XXXXXX";
    struct text command = {0}, file = {0};
    struct err e = {0};
    int fd = mkstemp(path);
    text_printf(&file, "%s]", messages->data);
    CHECK(fd >= 0 && file_write_atomic(path, file.data, file.len, &e) == 0);
    close(fd);
    text_printf(&command, "%s generate --json --max-tokens 1024 --model " CHECKPOINT " --messages %s %s", program(),
                path, options);
    CHECK(run(command.data, out) == 0);
    unlink(path);
    text_free(&command);
    text_free(&file);
}

/* The line of the chat without its last member, byte for byte that of generate; the member's value. */
static int compare_line(const char *line, const struct text *want, int turn)
{
    const char *more = strstr(line, ",\"cached_tokens\":");
    const size_t len = want->len - 2;
    CHECK_MSG(more && (size_t)(more - line) == len && memcmp(line, want->data, len) == 0, "turn %d: %.*s\nnot %s", turn,
              (int)strcspn(line, "\n"), line, want->data);
    return more ? atoi(more + 17) : -1;
}

static void conversation(const char *options)
{
    static const struct turn turns[] = {
        {NULL, NULL, "What is 3 + 4?"}, {NULL, NULL, "And 5 + 6?"}, {PICTURE, NULL, "What is the total?"},
        {NULL, NULL, "Tom has 12 apples and buys 7 more. How many apples has he?"}, {NULL, SOUND, "Transcribe."},
        {NULL, NULL, "Thanks."}};
    const int n = sizeof turns / sizeof *turns;
    struct text input = {0}, out = {0}, messages = {0}, want = {0}, chat_options = {0};
    for (int i = 0; i < n; i++)
        text_printf(&input, "%s%s%s%s%s%s%s\\n", turns[i].image ? "/image " : "", turns[i].image ? turns[i].image : "",
                    turns[i].image ? "\\n" : "", turns[i].audio ? "/audio " : "", turns[i].audio ? turns[i].audio : "",
                    turns[i].audio ? "\\n" : "", turns[i].text);
    text_printf(&chat_options, "--json %s", options);
    CHECK(chat(chat_options.data, input.data, &out) == 0);
    const char *line = out.data;
    text_puts(&messages, "[");
    for (int i = 0; i < n && *line; i++) {
        add_turn(&messages, &turns[i]);
        generate(&messages, options, &want);
        int cached = compare_line(line, &want, i);
        CHECK_MSG(i == 0 ? cached == 0 : cached > 0, "turn %d: %d tokens were kept", i, cached);
        cJSON *answer = cJSON_Parse(want.data);
        text_puts(&messages, ",{\"role\":\"assistant\",\"content\":");
        json_put_string(&messages, json_string(answer, "text"), strlen(json_string(answer, "text")));
        text_puts(&messages, "}");
        cJSON_Delete(answer);
        line += strcspn(line, "\n") + 1;
    }
    CHECK(line == out.data + out.len);
    text_free(&input);
    text_free(&out);
    text_free(&messages);
    text_free(&want);
    text_free(&chat_options);
}

static void same_bits_as_generate(void) { conversation(""); }
static void same_bits_when_drawn(void) { conversation("--temperature 0.7 --top-p 0.95 --seed 5"); }

static void reset_forgets(void)
{
    struct text once = {0}, again = {0};
    CHECK(chat("--json", "What is 3 + 4?\\n", &once) == 0);
    CHECK(chat("--json", "Hello\\n/image " PICTURE "\\n/reset\\nWhat is 3 + 4?\\n/quit\\nnot read\\n", &again) == 0);
    const char *second = strchr(again.data, '\n');
    CHECK_STR(second ? second + 1 : "", once.data);
    text_free(&once);
    text_free(&again);
}

static void as_text(void)
{
    struct text out = {0}, json = {0};
    CHECK(chat("--json", "What is 3 + 4?\\n", &json) == 0);
    cJSON *answer = cJSON_Parse(json.data);
    const double confidence = json_get(answer, "confidence")->valuedouble;
    for (int above = 0; above < 2; above++) {
        struct text want = {0}, options = {0};
        text_printf(&want, "%s\nconfidence %.4f%s\n\n", json_string(answer, "text"), confidence,
                    above ? "" : "  would hand off");
        text_printf(&options, "--threshold %.17g", confidence + (above ? -1e-9 : 1e-9));
        CHECK(chat(options.data, "What is 3 + 4?\\n", &out) == 0);
        CHECK_STR(out.data, want.data);
        text_free(&want);
        text_free(&options);
    }
    CHECK(chat("", "/help\\n", &out) == 0 && strstr(out.data, "/image FILE"));
    cJSON_Delete(answer);
    text_free(&out);
    text_free(&json);
}

static void errors(void)
{
    static const struct { const char *options, *input; int status; const char *says; } cases[] = {
        {"", "/image no-such-file\\n", EXIT_BAD_INPUT, "no-such-file"},
        {"", "/image Makefile\\nHello\\n", EXIT_BAD_INPUT, "Makefile"},
        {"", "/audio " PICTURE "\\nHello\\n", EXIT_BAD_INPUT, PICTURE},
        {"", "/nonsense\\n", EXIT_BAD_INPUT, "was expected"},
        {"", "\\377\\n", EXIT_BAD_INPUT, "line 1: UTF-8"},
        {"", "a\\000b\\n", EXIT_BAD_INPUT, "line 1: UTF-8"},
        {"", "<|image|>\\n", EXIT_BAD_INPUT, "placeholder"},
        {"--threshold 2", "", EXIT_USAGE, "--threshold"},
        {"--max-tokens 0", "", EXIT_USAGE, "--max-tokens"},
    };
    struct text out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = chat(cases[i].options, cases[i].input, &out);
        CHECK_MSG(status == cases[i].status && strstr(out.data, cases[i].says), "%s: status %d: %s", cases[i].input,
                  status, out.data);
    }
    text_free(&out);
}

static void too_long_a_conversation(void)
{
    struct text input = {0}, out = {0};
    text_puts(&input, "Hello\\n");
    for (int i = 0; i < 3000; i++)
        text_puts(&input, "word ");
    text_puts(&input, "\\n");
    CHECK(chat("", input.data, &out) == EXIT_BAD_INPUT && strstr(out.data, "the model takes 2047"));
    text_free(&input);
    text_free(&out);
}

int main(void)
{
    RUN(same_bits_as_generate);
    RUN(same_bits_when_drawn);
    RUN(reset_forgets);
    RUN(as_text);
    RUN(errors);
    RUN(too_long_a_conversation);
    return test_report();
}
