/* What a client sees of an answer while it grows, against the whole text; base64. */
#include "eval/base64.h"
#include "eval/reply.h"
#include "tests/test.h"

#include <stdlib.h>

static struct tokenizer *tokenizer;

static unsigned next_random(unsigned *state)
{
    return (*state = *state * 1664525u + 1013904223u) >> 8;
}

/* Pushes ids until a stop string; checks that what was sure stays. The caller frees. */
static char *reply_of(const struct ids *ids, const char *const *stops, int n_stops)
{
    struct reply r;
    struct text sure = {0};
    reply_start(&r, tokenizer, stops, n_stops);
    for (int i = 0; i < ids->n && !r.stopped; i++) {
        reply_push(&r, ids->id[i]);
        CHECK(r.sure >= sure.len && (!sure.len || memcmp(r.content.data, sure.data, sure.len) == 0));
        text_clear(&sure);
        text_put(&sure, r.content.data ? r.content.data : "", r.sure);
    }
    reply_end(&r);
    CHECK(r.sure == r.content.len && r.thought.len == 0);
    CHECK(r.sure >= sure.len && (!sure.len || memcmp(r.content.data, sure.data, sure.len) == 0));
    text_free(&sure);
    char *content = mem_strndup(r.content.data ? r.content.data : "", r.content.len);
    reply_free(&r);
    return content;
}

/* Pieces at random, byte pieces often: whole characters, halves of them, and bytes that are none. */
static void random_ids(struct ids *ids, unsigned *random)
{
    const int n = (int)(next_random(random) % 30), size = tokenizer_size(tokenizer);
    ids->n = 0;
    while (ids->n < n) {
        const char *const bytes[] = {"<0xE2>", "<0x9C>", "<0x93>", "<0xC3>", "<0xA9>", "<0x41>"};
        const unsigned kind = next_random(random) % 4;
        int32_t id = (int32_t)(next_random(random) % (unsigned)size);
        if (kind == 0)
            id = tokenizer_find(tokenizer, bytes[next_random(random) % 6]);
        else if (kind == 1)
            for (int i = 0; i < 3; i++)
                ids_push(ids, tokenizer_find(tokenizer, bytes[i]));
        if (id >= 0 && tokenizer_piece(tokenizer, id) && !tokenizer_is_special(tokenizer, id))
            ids_push(ids, id);
    }
}

static void content_is_the_text(void)
{
    unsigned random = 1;
    struct ids ids = {0};
    for (int i = 0; i < 3000; i++) {
        struct text whole = {0};
        random_ids(&ids, &random);
        text_puts(&whole, "");
        detokenize(tokenizer, ids.id, ids.n, true, &whole);
        char *content = reply_of(&ids, NULL, 0);
        CHECK_STR(content, whole.data);
        free(content);
        text_free(&whole);
    }
    ids_free(&ids);
}

/* The content ends before the first place where any of the strings begins that is complete first. */
static void stop_strings_cut(void)
{
    unsigned random = 2;
    struct ids ids = {0};
    int cut = 0;
    for (int i = 0; i < 3000; i++) {
        struct text whole = {0};
        random_ids(&ids, &random);
        text_puts(&whole, "");
        detokenize(tokenizer, ids.id, ids.n, true, &whole);
        if (whole.len < 6 || strlen(whole.data) != whole.len) {        /* a stop string has no NUL */
            text_free(&whole);
            continue;
        }
        size_t at = next_random(&random) % (whole.len - 4), len = 1 + next_random(&random) % 4;
        while (at > 0 && (whole.data[at] & 0xc0) == 0x80)
            at--;
        while ((whole.data[at + len] & 0xc0) == 0x80)
            len++;
        char *stop = mem_strndup(whole.data + at, len);
        const char *const stops[] = {"not in it", stop};
        char *content = reply_of(&ids, stops, 2);
        whole.data[strstr(whole.data, stop) - whole.data] = '\0';
        CHECK_STR(content, whole.data);
        cut++;
        free(content);
        free(stop);
        text_free(&whole);
    }
    CHECK(cut > 1000);
    ids_free(&ids);
}

static void push_text(struct reply *r, const char *text)
{
    struct ids ids = {0};
    tokenize(tokenizer, text, strlen(text), &ids);
    for (int i = 0; i < ids.n; i++)
        reply_push(r, ids.id[i]);
    ids_free(&ids);
}

static void thoughts_are_kept_apart(void)
{
    static const struct { const char *output, *content, *thought; } cases[] = {
        {"<|channel>thought\nCheck the label.<channel|>seven", "seven", "Check the label."},
        {"<|channel>thought\n<channel|>seven", "seven", ""},
        {"<|channel>thought\na<channel|><|channel>thought\nb<channel|>seven", "seven", "ab"},
        {"<|channel>final\nseven", "seven", ""},
        {"seven", "seven", ""},
        {"<|channel>thought\nnever closed", "", "never closed"},
        {"seven<|channel>thought\nlate<channel|>", "seven<|channel>thought\nlate<channel|>", ""},
    };
    if (tokenizer_find(tokenizer, "<|channel>") < 0)
        SKIP("the vocabulary has no channels");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply r;
        reply_start(&r, tokenizer, NULL, 0);
        push_text(&r, cases[i].output);
        reply_end(&r);
        CHECK_STR(r.content.data ? r.content.data : "", cases[i].content);
        CHECK_STR(r.thought.data ? r.thought.data : "", cases[i].thought);
        reply_free(&r);
    }
}

/* RFC 4648, section 10. */
static void base64_vectors(void)
{
    static const char *const vectors[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
                                             {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {"Z", "Zg=", "Zg===", "Z===", "====", "Zm9v\n", "Zm 9v", "Zg==Zg==", "Zm9-", "=Zg="};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        struct text t = {0};
        size_t n = 99;
        base64_encode(vectors[i][0], strlen(vectors[i][0]), &t);
        CHECK_STR(t.data ? t.data : "", vectors[i][1]);
        char *bytes = base64_decode(vectors[i][1], strlen(vectors[i][1]), &n);
        CHECK(bytes && n == strlen(vectors[i][0]) && memcmp(bytes, vectors[i][0], n) == 0);
        free(bytes);
        text_free(&t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n;
        CHECK_MSG(base64_decode(bad[i], strlen(bad[i]), &n) == NULL, "\"%s\" is not base64", bad[i]);
    }
    size_t n = 0;
    uint8_t *all = base64_decode("AP+A", 4, &n);
    CHECK(n == 3 && all[0] == 0 && all[1] == 255 && all[2] == 128);
    free(all);
}

int main(void)
{
    struct err e = {0};
    if (tokenizer_open(&tokenizer, "datasets/mini/checkpoint/tokenizer.json", &e)) {
        printf("%s\n", e.msg);
        return 1;
    }
    RUN(content_is_the_text);
    RUN(stop_strings_cut);
    RUN(thoughts_are_kept_apart);
    RUN(base64_vectors);
    tokenizer_close(tokenizer);
    return test_report();
}
