/* A user's own questions: columns, inferred types, media by path, what is refused. */
#define _GNU_SOURCE
#include "datasets/datasets.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/handoff-own-XXXXXX";

static const char *at(const char *name)
{
    static char path[2][128];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void put(const char *name, const char *text)
{
    struct err e = {0};
    CHECK_MSG(file_write_atomic(at(name), text, strlen(text), &e) == 0, "%s", e.msg);
}

static struct dataset *open_file(const char *name, struct err *e)
{
    struct task_spec spec = {.task = "mine", .format = "jsonl", .path = at(name), .shots = -1};
    struct dataset *d = NULL;
    CHECK_MSG(dataset_open(&d, &spec, e) == 0, "%s", e->msg);
    return d;
}

static void csv(void)
{
    struct err e = {0};
    struct sample s;
    put("q.csv", "id,question,A,B,C,answer,subject\n"
                 "1,\"Which, then?\",one,\"t\"\"wo\",three,B,odd\n"
                 "2,Two options,yes,no,,no,\n"
                 "3,No such answer,yes,no,,Z,\n");
    struct dataset *d = open_file("q.csv", &e);
    if (!d)
        return;
    CHECK(dataset_count(d) == 2);
    CHECK_STR(dataset_spec(d)->grader, "choice");
    CHECK(dataset_next(d, &s, &e) == 1);
    CHECK_STR(s.id, "1");
    CHECK_STR(s.choices[1], "t\"wo");
    CHECK(s.n_choices == 3 && s.answer_index == 1);
    CHECK_STR(s.subject, "odd");
    struct text t = {0};
    CHECK(dataset_prompt_text(d, &s, &t, &e) == 0);
    CHECK_STR(t.data, "Which, then?\n\nA. one\nB. t\"wo\nC. three\n\nAnswer with A, B or C only.");
    text_free(&t);
    CHECK(dataset_next(d, &s, &e) == 1);
    CHECK(s.n_choices == 2);
    CHECK_STR(s.answers[0], "B");
    CHECK(dataset_next(d, &s, &e) == 0);
    CHECK(dataset_skipped(d) == 1 && strstr(dataset_notes(d), "q.csv:4") && strstr(dataset_notes(d), "E_LABEL"));
    dataset_close(d);
}

static void inferred_types(void)
{
    static const struct { const char *line, *grader; enum answer_type type; } cases[] = {
        {"{\"question\":\"1+1\",\"answer\":2}", "number", ANSWER_NUMBER},
        {"{\"question\":\"Name it\",\"answers\":[\"a\",\"b\"]}", "text", ANSWER_TEXT},
        {"{\"question\":\"Name it\",\"answer\":\"a\",\"type\":\"vqa_anls\"}", "anls", ANSWER_ANLS},
        {"{\"question\":\"?\",\"options\":[\"a\",\"b\"],\"answer\":1}", "choice", ANSWER_CHOICE},
        {"{\"question\":\"?\",\"choices\":\"[\\\"a\\\",\\\"b\\\"]\",\"answer\":\"a\"}", "choice", ANSWER_CHOICE},
        {"{\"audio\":\"s.wav\",\"answer\":\"hello\"}", "speech", ANSWER_SPEECH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct sample s;
        put("one.jsonl", cases[i].line);
        struct dataset *d = open_file("one.jsonl", &e);
        if (!d)
            continue;
        CHECK_STR(dataset_spec(d)->grader, cases[i].grader);
        if (cases[i].type != ANSWER_SPEECH) {
            CHECK_MSG(dataset_next(d, &s, &e) == 1 && s.type == cases[i].type, "case %zu: %s", i, dataset_notes(d));
            CHECK_STR(s.id, "mine/0");
        }
        dataset_close(d);
    }
}

static void media_by_path(void)
{
    struct err e = {0};
    struct sample s;
    struct text png = {0};
    CHECK_MSG(file_read("datasets/mini/docvqa/documents/0000.png", 1 << 20, &png, &e) == 0, "%s", e.msg);
    mkdir(at("img"), 0700);
    CHECK(file_write_atomic(at("img/a.png"), png.data, png.len, &e) == 0);
    put("v.jsonl", "{\"id\":\"ok\",\"question\":\"?\",\"image\":\"img/a.png\",\"answer\":\"x\"}\n"
                   "{\"id\":\"two\",\"question\":\"?\",\"images\":[\"img/a.png\",\"./img/a.png\"],\"answer\":\"x\"}\n"
                   "{\"id\":\"out\",\"question\":\"?\",\"image\":\"../a.png\",\"answer\":\"x\"}\n"
                   "{\"id\":\"gone\",\"question\":\"?\",\"image\":\"img/b.png\",\"answer\":\"x\"}\n"
                   "{\"id\":\"ok\",\"question\":\"?\",\"answer\":\"x\"}\n");
    for (int folder = 0; folder < 2; folder++) {        /* the file itself, and the folder it lies in */
        struct task_spec spec = {.task = "mine", .format = "jsonl", .path = folder ? dir : at("v.jsonl"), .shots = -1};
        struct dataset *d;
        if (folder) {
            unlink(at("q.csv"));
            unlink(at("one.jsonl"));
        }
        if (!CHECK_MSG(dataset_open(&d, &spec, &e) == 0, "%s", e.msg))
            continue;
        CHECK(dataset_next(d, &s, &e) == 1 && s.n_media == 1 && s.modality == MODALITY_IMAGE);
        CHECK(s.media[0].n_bytes == png.len && memcmp(s.media[0].bytes, png.data, png.len) == 0);
        CHECK(dataset_next(d, &s, &e) == 1 && s.n_media == 2);
        CHECK(dataset_next(d, &s, &e) == 0);
        const char *notes = dataset_notes(d);
        CHECK_MSG(dataset_skipped(d) == 3 && strstr(notes, "E_PATH") && strstr(notes, "E_MISSING_MEDIA") &&
                  strstr(notes, "E_DUPLICATE"), "%s", notes);
        dataset_close(d);
    }
    text_free(&png);
}

/* Rows of several types in one file: each is graded and asked in its own way, unless the suite says how. */
static void mixed_types(void)
{
    struct err e = {0};
    struct sample s;
    put("mixed.jsonl", "{\"question\":\"Pick\",\"choices\":[\"a\",\"b\"],\"answer\":\"B\"}\n"
                       "{\"question\":\"1+1\",\"answer\":2}\n"
                       "{\"question\":\"Name it\",\"answers\":[\"x\",\"y\"]}\n"
                       "{\"question\":\"Pick too\",\"choices\":[\"a\",\"b\"],\"answer\":\"A\"}\n");
    static const char *const prompts[] = {"Pick\n\nA. a\nB. b\n\nAnswer with A or B only.", "1+1", "Name it",
                                          "Pick too\n\nA. a\nB. b\n\nAnswer with A or B only."};
    static const char *const graders[] = {NULL, "number", "text", NULL};
    struct dataset *d = open_file("mixed.jsonl", &e);
    if (!d)
        return;
    CHECK_STR(dataset_spec(d)->grader, "choice");
    for (int i = 0; i < 4; i++) {
        struct text t = {0};
        CHECK_MSG(dataset_next(d, &s, &e) == 1, "%s", e.msg);
        CHECK(dataset_prompt_text(d, &s, &t, &e) == 0);
        CHECK_STR(t.data, prompts[i]);
        CHECK(graders[i] ? s.grader && strcmp(s.grader, graders[i]) == 0 : s.grader == NULL);
        text_free(&t);
    }
    CHECK(dataset_next(d, &s, &e) == 0 && dataset_skipped(d) == 0);
    dataset_close(d);
    struct task_spec spec = {.task = "mine", .format = "jsonl", .path = at("mixed.jsonl"), .shots = -1,
                             .grader = "text", .prompt = "Q: {question}"};
    CHECK(dataset_open(&d, &spec, &e) == 0 && dataset_next(d, &s, &e) == 1 && dataset_next(d, &s, &e) == 1);
    struct text t = {0};
    CHECK(!s.grader && !s.prompt && dataset_prompt_text(d, &s, &t, &e) == 0);
    CHECK_STR(t.data, "Q: 1+1");
    text_free(&t);
    dataset_close(d);
}

/* A whole conversation with media between its texts. */
static void conversations(void)
{
    struct err e = {0};
    struct sample s;
    struct text wav = {0};
    text_put(&wav, "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x8\0\0\0\0\0\1\0\0\0\1\0", 52);
    CHECK(file_write_atomic(at("a.wav"), wav.data, wav.len, &e) == 0);
    text_free(&wav);
    put("talk.jsonl", "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":["
                      "{\"type\":\"text\",\"text\":\"Listen:\"},{\"type\":\"audio\",\"audio\":\"a.wav\"},"
                      "{\"type\":\"text\",\"text\":\"What was that?\"}]}],\"answer\":\"a bell\"}\n"
                      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"audio\",\"audio\":\"../a.wav\"}]}]}\n"
                      "{\"messages\":[{\"content\":\"x\"}]}\n{\"messages\":[]}\n");
    struct dataset *d = open_file("talk.jsonl", &e);
    if (!d)
        return;
    CHECK(dataset_next(d, &s, &e) == 1);
    CHECK_STR(s.question, "What was that?");
    CHECK(s.n_media == 1 && s.media[0].n_bytes == 52 && s.modality == MODALITY_AUDIO && s.n_answers == 1);
    cJSON *prompt = dataset_prompt(d, &s, &e);
    CHECK(cJSON_GetArraySize(prompt) == 2 && cJSON_Compare(prompt, s.messages, true));
    cJSON_Delete(prompt);
    CHECK(dataset_next(d, &s, &e) == 0 && dataset_skipped(d) == 3);
    CHECK_MSG(strstr(dataset_notes(d), "E_PATH") != NULL, "%s", dataset_notes(d));
    dataset_close(d);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    RUN(csv);
    RUN(inferred_types);
    RUN(media_by_path);
    RUN(mixed_types);
    RUN(conversations);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) ? 1 : test_report();
}
