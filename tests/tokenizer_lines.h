/* tokenizer_lines.h - a tokenizer against golden lines {"text", "ids", "decoded"} (../shared/model/tokenizer), for the
 * tests of tokenizer.json and of GGUF metadata. */
#ifndef HANDOFF_TESTS_TOKENIZER_LINES_H
#define HANDOFF_TESTS_TOKENIZER_LINES_H

#include "engine/engine.h"
#include "tests/test.h"

#include <stdio.h>

static inline bool same_ids(const struct ids *ids, const cJSON *expected)
{
    if (!cJSON_IsArray(expected) || ids->n != cJSON_GetArraySize(expected))
        return false;
    int i = 0;
    const cJSON *v;
    cJSON_ArrayForEach(v, expected) {
        if (v->valuedouble != ids->id[i++])
            return false;
    }
    return true;
}

/* Copies text, changing each `from` into `to`. */
static inline void put_replaced(struct text *out, const char *s, size_t len, const char *from, const char *to, size_t to_len)
{
    size_t n = strlen(from);
    for (size_t i = 0; i < len;) {
        bool hit = len - i >= n && memcmp(s + i, from, n) == 0;
        text_put(out, hit ? to : s + i, hit ? to_len : 1);
        i += hit ? n : 1;
    }
}

/* Strict JSON has no \u0000, but some golden lines do: U+EBAD stands in for it while the line is read. */
static inline cJSON *parse_line(const char *s, size_t len, const char *where, struct err *e)
{
    struct text line = {0};
    put_replaced(&line, s, len, "\\u0000", "\\uebad", 6);
    cJSON *json = json_parse(line.data, line.len, where, e);
    text_free(&line);
    return json;
}

static inline struct text string_with_nul(const cJSON *line, const char *key)
{
    struct text s = {0};
    const char *shown = json_string(line, key);
    put_replaced(&s, shown, strlen(shown), "\xee\xae\xad", "\0", 1);
    text_put(&s, "", 0);
    return s;
}

static inline void check_line(const struct tokenizer *t, const cJSON *line, const char *where)
{
    struct ids ids = {0};
    struct text decoded = {0}, s = string_with_nul(line, "text"), expected = string_with_nul(line, "decoded");
    tokenize(t, s.data, s.len, &ids);
    CHECK_MSG(same_ids(&ids, json_get(line, "ids")), "%s: wrong ids of \"%.60s\"", where, s.data);
    detokenize(t, ids.id, ids.n, true, &decoded);
    CHECK_MSG(decoded.len == expected.len && memcmp(decoded.data, expected.data, expected.len) == 0,
              "%s: decoded \"%.60s\"", where, decoded.data);
    text_free(&decoded);
    text_free(&s);
    text_free(&expected);
    ids_free(&ids);
}

/* Checks a file of JSON lines; returns how many there were. */
static inline int check_lines(const struct tokenizer *t, const char *path)
{
    struct text file = {0};
    struct err e = {0};
    int n = 0;
    if (file_read(path, (size_t)64 << 20, &file, &e)) {
        CHECK_MSG(false, "%s", e.msg);
        return 0;
    }
    for (const char *at = file.data, *end = at + file.len; at < end; n++) {
        char where[32];
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        snprintf(where, sizeof where, "line %d", n + 1);
        cJSON *line = parse_line(at, (size_t)(stop - at), where, &e);
        if (CHECK_MSG(line != NULL, "%s", e.msg))
            check_line(t, line, where);
        cJSON_Delete(line);
        at = stop + 1;
    }
    text_free(&file);
    return n;
}

#endif
