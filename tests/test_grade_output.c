/* The trailer, the thought channel and the streaming reader against ../shared/metrics/graders_output.json. */
#include "eval/visible.h"
#include "tests/metric_cases.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "graders_output.json"

static void same_text(const cJSON *want, const char *got, const char *id, const char *what)
{
    const char *text = cJSON_IsString(want) ? want->valuestring : NULL;
    CHECK_MSG((!text && !got) || (text && got && strcmp(text, got) == 0), "%s: %s is \"%s\", not \"%s\"", id, what,
              got ? got : "(null)", text ? text : "(null)");
}

static void thoughts(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "thought")) {
        struct arena a = {0};
        struct visible v;
        const cJSON *want = json_get(c, "expect");
        const char *id = json_string(c, "id");
        visible_answer(json_string(c, "output"), &a, &v);
        same_text(json_get(want, "answer"), v.text, id, "answer");
        same_text(json_get(want, "thought"), v.thought, id, "thought");
        CHECK_MSG(v.truncated_thought == cJSON_IsTrue(json_get(want, "truncated_thought")), "%s: truncated", id);
        CHECK_MSG(v.has_trailer == cJSON_IsNumber(json_get(want, "confidence")), "%s: trailer", id);
        if (v.has_trailer)
            CHECK_NEAR(v.trailer_confidence, case_get(want, "confidence"), 0);
        arena_free(&a);
    }
}

static void trailers(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "trailer")) {
        const char *output = json_string(c, "output"), *id = json_string(c, "id");
        const cJSON *want = json_get(c, "expect");
        enum trailer_status status;
        double confidence = NAN;
        size_t len = trailer_strip(output, strlen(output), &status, &confidence);
        char *answer = mem_strndup(output, len);
        same_text(json_get(want, "answer"), answer, id, "answer");
        same_text(json_get(want, "status"), trailer_status_name(status), id, "status");
        if (status == TRAILER_OK)
            CHECK_NEAR(confidence, case_get(want, "confidence"), 0);
        free(answer);
    }
}

static int characters(const struct text *t)
{
    int n = 0;
    for (size_t i = 0; i < t->len; i++)
        n += ((uint8_t)t->data[i] & 0xC0) != 0x80;
    return n;
}

static void check_end(struct trailer_stream *s, struct text *shown, const cJSON *c)
{
    const cJSON *want = json_get(c, "expect");
    const char *id = json_string(c, "id");
    double confidence = NAN;
    enum trailer_status status = trailer_stream_end(s, shown, &confidence);
    same_text(json_get(want, "visible"), shown->data ? shown->data : "", id, "visible");
    same_text(json_get(want, "status"), trailer_status_name(status), id, "status");
    if (status == TRAILER_OK)
        CHECK_NEAR(confidence, case_get(want, "confidence"), 0);
    text_free(shown);
}

static void streams(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c, *chunk;
    cJSON_ArrayForEach(c, json_get(cases_file, "trailer_stream")) {
        struct trailer_stream s = {0};
        struct text shown = {0};
        const cJSON *counts = json_get(json_get(c, "expect"), "visible_chars_after_chunk");
        int i = 0;
        cJSON_ArrayForEach(chunk, json_get(c, "chunks")) {
            trailer_stream_push(&s, chunk->valuestring, strlen(chunk->valuestring), &shown);
            int want = cJSON_GetArrayItem(counts, i)->valueint;
            CHECK_MSG(characters(&shown) == want, "%s: %d characters after piece %d, not %d", json_string(c, "id"),
                      characters(&shown), i, want);
            i++;
        }
        check_end(&s, &shown, c);
    }
}

static void streams_of_bytes(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c, *chunk;
    cJSON_ArrayForEach(c, json_get(cases_file, "trailer_stream_bytes")) {
        struct trailer_stream s = {0};
        struct text shown = {0};
        cJSON_ArrayForEach(chunk, json_get(c, "chunks_hex")) {
            for (const char *hex = chunk->valuestring; *hex; hex += 2) {
                char two[3] = {hex[0], hex[1], 0}, byte = (char)strtol(two, NULL, 16);
                trailer_stream_push(&s, &byte, 1, &shown);
            }
        }
        check_end(&s, &shown, c);
    }
}

/* Whatever the pieces, a stream ends as the whole text does. */
static void stream_equals_whole(void)
{
    static const char *const texts[] = {
        "", "x\r", "a\n[[hybrid:confidence=0.5000]]\n\n \r\n", "a\n[[hybrid:confidence=0.5000]] b",
        "\n[[hybrid:confidence=0.5000]]\n[[hybrid:confidence=1.0000]]", "[[hybrid:confidence=1.0001]]\n\n",
        "[[[[hybrid:confidence=0.1000]]", "\r\r\n[[hybrid:confidence=0.1000]]", "a\n[[ hybrid \n\t\n",
        "a\n[[hybrid:confidence=0.5000]]\n\n[[hybrid:confidence=0.25"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        struct trailer_stream s = {0};
        struct text shown = {0};
        size_t len = strlen(texts[k]);
        double whole = -1, streamed = -1;
        enum trailer_status status;
        size_t want = trailer_strip(texts[k], len, &status, &whole);
        for (size_t i = 0; i < len; i++)
            trailer_stream_push(&s, texts[k] + i, 1, &shown);
        CHECK_MSG(trailer_stream_end(&s, &shown, &streamed) == status, "text %zu: status", k);
        CHECK_MSG(shown.len == want && (want == 0 || memcmp(shown.data, texts[k], want) == 0), "text %zu: text", k);
        CHECK_NEAR(streamed, whole, 0);
        text_free(&shown);
    }
}

static void trailer_format(void)
{
    NEED_CASES(FILE_NAME);
    const cJSON *c;
    cJSON_ArrayForEach(c, json_get(cases_file, "trailer_format")) {
        char line[64];
        snprintf(line, sizeof line, "[[hybrid:confidence=%.4f]]", case_get(c, "value"));
        enum trailer_status status;
        double back = NAN;
        trailer_strip(line, strlen(line), &status, &back);
        CHECK_MSG(status == TRAILER_OK, "%s", line);
        CHECK_NEAR(back, strtod(json_string(c, "text"), NULL), 0);
    }
}

int main(void)
{
    RUN(thoughts);
    RUN(trailers);
    RUN(streams);
    RUN(streams_of_bytes);
    RUN(stream_equals_whole);
    RUN(trailer_format);
    cJSON_Delete(cases_file);
    return test_report();
}
