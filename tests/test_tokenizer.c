/* Tokenizer: golden ids and texts (../shared/model/tokenizer), broken files, long stretches. */
#include "engine/tokenizer.h"
#include "tests/test.h"
#include "tests/tokenizer_lines.h"

#include <stdlib.h>

static const char *const tiny_path = "../shared/model/tiny-a/tokenizer.json";

static struct tokenizer *open_tokenizer(const char *path)
{
    struct tokenizer *t;
    struct err e = {0};
    if (tokenizer_open(&t, path, &e))
        CHECK_MSG(false, "%s", e.msg);
    return t;
}

static void golden_lines_of_the_tiny_tokenizer(void)
{
    if (!file_exists(tiny_path))
        SKIP("../shared is absent");
    struct tokenizer *t = open_tokenizer(tiny_path);
    if (t)
        CHECK(check_lines(t, "../shared/model/tokenizer/tiny-a.jsonl") == 303);
    tokenizer_close(t);
}

static void golden_lines_of_gemma_3(void)
{
    const char *path = getenv("GEMMA3_TOKENIZER");
    path = path ? path : "build/gemma3/tokenizer.json";
    if (!file_exists(path) || !file_exists(tiny_path))
        SKIP("no Gemma 3 tokenizer: run scripts/fetch_gemma3_tokenizer");
    struct tokenizer *t = open_tokenizer(path);
    if (t) {
        CHECK(tokenizer_size(t) >= 262144);
        CHECK(check_lines(t, "../shared/model/tokenizer/gemma3.jsonl") == 303);
    }
    tokenizer_close(t);
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        out[i] = (char)byte;
    }
    return n;
}

static void bytes_that_are_not_utf8(void)
{
    struct text file = {0};
    struct err e = {0};
    if (!file_exists(tiny_path))
        SKIP("../shared is absent");
    struct tokenizer *t = open_tokenizer(tiny_path);
    /* The last case shows a NUL as \u0000, which strict JSON reading refuses; "replaced" is not needed here. */
    CHECK(file_read("../shared/model/tokenizer/tiny-a.invalid_utf8.json", 1 << 20, &file, &e) == 0);
    cJSON *cases = cJSON_ParseWithLength(file.data, file.len);
    const cJSON *c;
    CHECK(cJSON_GetArraySize(cases) == 18);
    cJSON_ArrayForEach(c, cases) {
        char bytes[64];
        struct ids ids = {0};
        size_t n = from_hex(json_string(c, "hex"), bytes);
        tokenize(t, bytes, n, &ids);
        CHECK_MSG(same_ids(&ids, json_get(c, "ids")), "wrong ids of bytes %s", json_string(c, "hex"));
        ids_free(&ids);
    }
    cJSON_Delete(cases);
    text_free(&file);
    tokenizer_close(t);
}

static void pieces_and_special_tokens(void)
{
    if (!file_exists(tiny_path))
        SKIP("../shared is absent");
    struct tokenizer *t = open_tokenizer(tiny_path);
    struct text shown = {0}, hidden = {0};
    struct ids ids = {0};
    CHECK(tokenizer_size(t) == 1024);
    CHECK(tokenizer_find(t, "<bos>") == 2 && tokenizer_find(t, "<no such piece>") == -1);
    CHECK_STR(tokenizer_piece(t, 37), "<turn|>");
    CHECK(!tokenizer_piece(t, -1) && !tokenizer_piece(t, 1024));
    CHECK(tokenizer_is_special(t, 2) && !tokenizer_is_special(t, 5) && !tokenizer_is_special(t, 1 << 30));
    tokenize(t, "<bos>a b<turn|>", 15, &ids);
    detokenize(t, ids.id, ids.n, true, &shown);
    detokenize(t, ids.id, ids.n, false, &hidden);
    CHECK_STR(shown.data, "<bos>a b<turn|>");
    CHECK_STR(hidden.data, "a b");
    text_free(&shown);
    text_free(&hidden);
    ids_free(&ids);
    tokenizer_close(t);
}

/* One bad byte spoils its whole run of byte pieces; the next run starts afresh. */
static void runs_of_byte_pieces(void)
{
    if (!file_exists(tiny_path))
        SKIP("../shared is absent");
    struct tokenizer *t = open_tokenizer(tiny_path);
    int32_t c3 = tokenizer_find(t, "<0xC3>"), a9 = tokenizer_find(t, "<0xA9>"), ff = tokenizer_find(t, "<0xFF>");
    int32_t ids[] = {c3, a9, ff, tokenizer_find(t, "a"), c3, a9, c3};
    struct text good = {0}, bad = {0};
    detokenize(t, ids + 3, 3, true, &good);
    detokenize(t, ids, 7, true, &bad);
    CHECK_STR(good.data, "a\xc3\xa9");
    CHECK_STR(bad.data, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" "a" "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    text_free(&good);
    text_free(&bad);
    tokenizer_close(t);
}

/* A quadratic encoder would need minutes for these. */
static void very_long_stretches(void)
{
    static const char *const unit[] = {"a", " ", "abcdefgh ", "the quick brown fox ", "\xe4\xbd\xa0", "<", "\n"};
    if (!file_exists(tiny_path))
        SKIP("../shared is absent");
    struct tokenizer *t = open_tokenizer(tiny_path);
    for (size_t k = 0; k < sizeof unit / sizeof *unit; k++) {
        struct text s = {0}, back = {0};
        struct ids ids = {0};
        while (s.len < 1000000)
            text_puts(&s, unit[k]);
        tokenize(t, s.data, s.len, &ids);
        detokenize(t, ids.id, ids.n, true, &back);
        CHECK_MSG(back.len == s.len && memcmp(back.data, s.data, s.len) == 0, "unit \"%s\"", unit[k]);
        text_free(&s);
        text_free(&back);
        ids_free(&ids);
    }
    tokenizer_close(t);
}

/* A tokenizer.json with the byte pieces at 0..255, "a" "b" "ab" "abb" behind them, and one part changed: `from` becomes
 * `to`. Returns what reading it says, "" if it was read. */
static char *read_changed(const char *from, const char *to)
{
    static const char begin[] =
        "{\"added_tokens\":[{\"id\":260,\"content\":\"<bos>\",\"normalized\":false,\"special\":true},"
        "{\"id\":261,\"content\":\"bb\",\"special\":false}],"
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"},"
        "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"}},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"dropout\":null,\"vocab\":{";
    struct text plain = {0}, changed = {0};
    struct tokenizer *t = NULL;
    struct err e = {0};
    text_puts(&plain, begin);
    for (int b = 0; b < 256; b++)
        text_printf(&plain, "\"<0x%02X>\":%d,", (unsigned)b, b);
    text_puts(&plain, "\"a\":256,\"b\":257,\"ab\":258,\"abb\":259},\"merges\":[\"a b\",[\"ab\",\"b\"]]}}");
    CHECK_MSG(strstr(plain.data, from) != NULL, "nothing to change: %s", from);
    put_replaced(&changed, plain.data, plain.len, from, to, strlen(to));
    cJSON *json = json_parse(changed.data, changed.len, "t", &e);
    if (CHECK_MSG(json != NULL, "%s", e.msg) && tokenizer_read(&t, json, "t", &e) == 0)
        e.msg[0] = '\0';
    cJSON_Delete(json);
    tokenizer_close(t);
    text_free(&plain);
    text_free(&changed);
    return mem_strdup(e.msg);
}

static void check_damage(const char *from, const char *to, const char *message)
{
    char *got = read_changed(from, to);
    CHECK_STR(got, message);
    free(got);
}

static void damaged_files_are_refused(void)
{
    check_damage("{", "{", "");
    check_damage("\"BPE\"", "\"WordPiece\"", "t: key \"model.type\": \"BPE\" was expected");
    check_damage("\"byte_fallback\":true", "\"byte_fallback\":false",
                 "t: key \"model.byte_fallback\": true was expected");
    check_damage("\"dropout\":null", "\"dropout\":0.1", "t: key \"model.dropout\": null was expected");
    check_damage("\"dropout\":null", "\"ignore_merges\":true", "t: key \"model.ignore_merges\": true is not supported");
    check_damage("\"type\":\"Replace\",\"pattern\":{\"String\":\" \"}", "\"type\":\"NFC\"",
                 "t: key \"normalizer\": Replace of \" \" by U+2581 was expected");
    check_damage("\"Split\"", "\"ByteLevel\"", "t: key \"pre_tokenizer\": null or Split on \" \" was expected");
    check_damage("\"Fuse\"", "\"Strip\"",
                 "t: key \"decoder\": Replace of U+2581, ByteFallback, Fuse were expected");
    check_damage("<0x7F>", "<0x7f>",
                 "t: key \"model.vocab\" lacks the byte piece \"<0x7F>\" that \"byte_fallback\" needs");
    check_damage("\"abb\":259", "\"abb\":258", "t: id 258 is given to both \"ab\" and \"abb\"");
    check_damage("\"abb\":259", "\"ab\":259", "t: \"ab\" appears twice");
    check_damage("\"abb\":259", "\"abb\":-1", "t: id of \"abb\": an integer from 0 to 2097151 was expected");
    check_damage("\"abb\":259", "\"abb\":2097152", "t: id of \"abb\": an integer from 0 to 2097151 was expected");
    check_damage("\"abb\":259", "\"abb\":\"259\"", "t: id of \"abb\": an integer from 0 to 2097151 was expected");
    check_damage("\"a b\"", "\"a c\"", "t: key \"model.merges\": entry 0: \"c\" is not in the vocabulary");
    check_damage("\"a b\"", "\"b a\"", "t: key \"model.merges\": entry 0: \"ba\" is not in the vocabulary");
    check_damage("\"a b\"", "\"ab\"", "t: key \"model.merges\": entry 0: two pieces were expected");
    check_damage("[\"ab\",\"b\"]", "[\"a\",\"b\"]", "t: key \"model.merges\": entry 1 repeats entry 0");
    check_damage("[\"ab\",\"b\"]", "[\"a\",\"b\",\"b\"]", "t: key \"model.merges\": entry 1: two pieces were expected");
    check_damage("\"merges\"", "\"mergers\"", "t: key \"model.merges\": an array was expected");
    check_damage("\"vocab\"", "\"words\"", "t: key \"model.vocab\": an object was expected");
    check_damage("\"id\":261", "\"id\":260", "t: key \"added_tokens\": id 260 appears twice");
    check_damage("\"id\":261", "\"id\":259", "t: id 259 is given to both \"abb\" and \"bb\"");
    check_damage("\"content\":\"bb\"", "\"content\":\"\"", "t: key \"added_tokens\": an entry without \"content\"");
    check_damage("\"normalized\":false", "\"normalized\":true",
                 "t: added token \"<bos>\": \"normalized\": true is not supported");
}

int main(void)
{
    RUN(golden_lines_of_the_tiny_tokenizer);
    RUN(golden_lines_of_gemma_3);
    RUN(bytes_that_are_not_utf8);
    RUN(pieces_and_special_tokens);
    RUN(runs_of_byte_pieces);
    RUN(very_long_stretches);
    RUN(damaged_files_are_refused);
    return test_report();
}
