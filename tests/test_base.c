/* Foundations: strict JSON, UTF-8, doubles that read back, SHA-256, atomic files. */
#define _GNU_SOURCE
#include "engine/base.h"
#include "tests/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool accepts(const char *s, size_t len)
{
    struct err e = {0};
    cJSON *v = json_parse(s, len, "test", &e);
    bool ok = v != NULL;
    cJSON_Delete(v);
    return ok;
}

static void strict_json(void)
{
    static const char *const good[] = {"null", " [1, -0.5e3, \"a\\u00e9\\ud83d\\ude00\"] ", "{\"a\":{\"b\":[]}}",
                                       "\"\xc3\xa9\"", "0", "1e-300"};
    static const char *const bad[] = {"", "[1,]", "{\"a\":1,}", "01", "1e999", "+1", ".5", "1.", "nul", "[1] x",
                                      "\"a\tb\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\x\"", "'a'",
                                      "{a:1}", "\xef\xbb\xbf[]", "\"\xff\"", "\"\xc0\xaf\"", "[", "\"", "NaN",
                                      "[Infinity]", "{\"a\" 1}", "\"\\ud83d\\u0041\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_MSG(accepts(good[i], strlen(good[i])), "refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_MSG(!accepts(bad[i], strlen(bad[i])), "accepted: %s", bad[i]);
    struct text deep = {0};
    for (int i = 0; i < 100000; i++)
        text_putc(&deep, '[');
    CHECK(!accepts(deep.data, deep.len));
    text_free(&deep);
}

static void json_round_trip(void)
{
    const char *line = "{\"s\":\"a\\\"b\\\\\\n\\u0001\xc3\xa9\",\"n\":[0.1,1e-05,123456789012,null,true]}";
    struct err e = {0};
    cJSON *v = json_parse(line, strlen(line), "test", &e);
    struct text out = {0};
    json_print(&out, v);
    CHECK_STR(out.data, line);
    cJSON_Delete(v);
    text_free(&out);
}

static void doubles_read_back(void)
{
    const double values[] = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 0.7812, 123456.789, 2.0 / 3e10};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct text t = {0};
        text_put_double(&t, values[i]);
        CHECK_MSG(strtod(t.data, NULL) == values[i], "%.17g became %s", values[i], t.data);
        text_free(&t);
    }
    struct text t = {0};
    text_put_double(&t, 0.1);
    CHECK_STR(t.data, "0.1");
    text_free(&t);
}

static void utf8(void)
{
    size_t at;
    uint32_t c;
    CHECK(utf8_valid("a\xc3\xa9\xe2\x96\x81\xf0\x9f\x98\x80", 10, NULL));
    CHECK(!utf8_valid("ab\xed\xa0\x80", 5, &at) && at == 2);
    CHECK(!utf8_valid("\xf4\x90\x80\x80", 4, NULL) && !utf8_valid("\xe2\x96", 2, NULL));
    CHECK(utf8_decode("\xf0\x9f\x98\x80", 4, &c) == 4 && c == 0x1f600);
    for (uint32_t point = 0; point < 0x110000; point += point < 0x3000 ? 1 : 97) {
        char bytes[4];
        uint32_t back = 0;
        if (point >= 0xd800 && point < 0xe000)
            continue;
        int n = utf8_encode(point, bytes);
        if (utf8_decode(bytes, (size_t)n, &back) != n || back != point)
            CHECK_MSG(false, "U+%04X does not come back", point);
    }
}

static void sha256(void)
{
    /* FIPS 180-4 examples; a million times 'a' in pieces of 977 bytes */
    char hex[65];
    sha256_hex_of("abc", 3, hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_hex_of("", 0, hex);
    CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    char block[977];
    memset(block, 'a', sizeof block);
    struct sha256 s;
    sha256_init(&s);
    for (size_t left = 1000000; left; left -= left < sizeof block ? left : sizeof block)
        sha256_update(&s, block, left < sizeof block ? left : sizeof block);
    sha256_hex(&s, hex);
    CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void files(void)
{
    char path[] = "/tmp/handoff-test-XXXXXX";
    struct err e = {0};
    struct text t = {0};
    struct mapped m;
    close(mkstemp(path));
    CHECK(!file_write_atomic(path, "hello", 5, &e));
    CHECK(!file_read(path, 5, &t, &e) && t.len == 5);
    CHECK(file_read(path, 4, &t, &e) == -1 && e.code == EXIT_BAD_INPUT);
    CHECK(!map_open(&m, path, &e) && m.size == 5 && memcmp(m.data, "hello", 5) == 0);
    map_close(&m);
    CHECK(map_open(&m, "/tmp", &e) == -1 && e.code == EXIT_BAD_INPUT);
    CHECK(map_open(&m, "/nonexistent/file", &e) == -1 && e.code == EXIT_BAD_INPUT);
    unlink(path);
    text_free(&t);
}

static void what_cannot_be_replaced_is_written_into(void)
{
    char dir[] = "/tmp/handoff-test-XXXXXX", path[64], fifo[64], link[64], got[8] = "";
    struct err e = {0};
    struct stat st;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    CHECK(!mkfifo(fifo, 0600) && !symlink("file", link));
    int reader = open(fifo, O_RDONLY | O_NONBLOCK);
    CHECK(!file_write_atomic(fifo, "hello", 5, &e) && read(reader, got, sizeof got) == 5);
    CHECK(!lstat(fifo, &st) && S_ISFIFO(st.st_mode));
    CHECK(!file_write_atomic(path, "a", 1, &e) && !file_write_atomic(link, "hello", 5, &e));
    CHECK(!lstat(link, &st) && S_ISLNK(st.st_mode));
    CHECK(!stat(path, &st) && st.st_size == 5);
    close(reader);
    unlink(path), unlink(fifo), unlink(link), rmdir(dir);
}

static void lines_have_a_limit(void)
{
    FILE *f = tmpfile();
    struct text line = {0};
    struct err e = {0};
    CHECK(f && fwrite("ab\n\nabcd\nabcde", 1, 14, f) == 14);
    rewind(f);
    CHECK(line_read(f, &line, 4, "f:1", &e) == 1 && strcmp(line.data, "ab") == 0);
    CHECK(line_read(f, &line, 4, "f:2", &e) == 1 && line.len == 0);
    CHECK(line_read(f, &line, 4, "f:3", &e) == 1 && strcmp(line.data, "abcd") == 0);
    CHECK(line_read(f, &line, 4, "f:4", &e) == -1 && strstr(e.msg, "f:4: line of more than 4 bytes"));
    CHECK(line_read(f, &line, 4, "f:5", &e) == 0);
    fclose(f);
    text_free(&line);
}

static void errors_are_one_clean_line(void)
{
    struct err e;
    err_input(&e, "bad\nname\x1b[31m");
    CHECK_STR(e.msg, "bad?name?[31m");
    CHECK(e.code == EXIT_BAD_INPUT);
}

int main(void)
{
    RUN(strict_json);
    RUN(json_round_trip);
    RUN(doubles_read_back);
    RUN(utf8);
    RUN(sha256);
    RUN(files);
    RUN(what_cannot_be_replaced_is_written_into);
    RUN(lines_have_a_limit);
    RUN(errors_are_one_clean_line);
    return test_report();
}
