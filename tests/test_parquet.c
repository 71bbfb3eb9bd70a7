/* The parquet reader against the zoo: codecs, encodings, page versions, nulls, nesting, several writers. */
#include "datasets/parquet.h"
#include "tests/test.h"

#include <stdlib.h>

#define ZOO "../shared/datasets/parquet_zoo/"

/* Binary cells are {"sha256", "len"} in the expected rows; integers above 2^53 are texts here and numbers there. */
static bool same(const cJSON *want, const cJSON *got)
{
    const void *bytes;
    size_t n;
    if (row_bytes(got, &bytes, &n)) {
        char hex[65];
        sha256_hex_of(bytes, n, hex);
        const char *sha = json_string(want, "sha256");
        return sha && strcmp(sha, hex) == 0 && json_get(want, "len")->valuedouble == (double)n;
    }
    if (cJSON_IsNumber(want) && cJSON_IsString(got))
        return want->valuedouble == strtod(got->valuestring, NULL) && fabs(want->valuedouble) > 9007199254740992.0;
    if (want->type != got->type)
        return false;
    if (cJSON_IsNumber(want))
        return want->valuedouble == got->valuedouble;
    if (cJSON_IsString(want))
        return strcmp(want->valuestring, got->valuestring) == 0;
    if (cJSON_GetArraySize(want) != cJSON_GetArraySize(got))
        return false;
    for (const cJSON *a = want->child, *b = got->child; a; a = a->next, b = b->next) {
        const cJSON *other = cJSON_IsObject(want) ? json_get(got, a->string) : b;
        if (!other || !same(a, other))
            return false;
    }
    return true;
}

static void check_file(const char *name)
{
    char path[256], expected[256];
    struct mapped map;
    struct text want = {0};
    struct err e = {0};
    struct parquet *p;
    cJSON *row;
    int n = 0;
    snprintf(path, sizeof path, ZOO "%s", name);
    snprintf(expected, sizeof expected, ZOO "%.*s.expected.jsonl", (int)strcspn(name, "."), name);
    CHECK(map_open(&map, path, &e) == 0 && file_read(expected, 1 << 26, &want, &e) == 0);
    if (!CHECK_MSG(parquet_open(&p, map.data, map.size, name, true, &e) == 0, "%s: %s", name, e.msg))
        return;
    enum row_result rc;
    char *line = want.data;
    while ((rc = parquet_next(p, &row, &e)) == ROW_OK) {
        size_t len = line && *line ? strcspn(line, "\n") : 0;
        cJSON *o = len ? json_parse(line, len, expected, &e) : NULL;
        if (CHECK_MSG(o != NULL, "%s: row %d was not expected", name, n)) {
            char *text = same(o, row) ? NULL : cJSON_PrintUnformatted(row);
            CHECK_MSG(same(o, row), "%s, row %d: %.300s instead of %.*s", name, n, text ? text : "", (int)len, line);
            free(text);
            line += len + (line[len] == '\n');
        }
        cJSON_Delete(o);
        cJSON_Delete(row);
        n++;
    }
    CHECK_MSG(rc == ROW_END, "%s: %s", name, e.msg);
    CHECK_MSG(!line || !*line, "%s: rows missing behind %d", name, n);
    CHECK(parquet_rows(p) == n);
    parquet_close(p);
    map_close(&map);
    text_free(&want);
}

static void zoo(void)
{
    struct text manifest = {0};
    struct err e = {0};
    if (!file_exists(ZOO "manifest.jsonl"))
        SKIP("no fixtures");
    CHECK_MSG(file_read(ZOO "manifest.jsonl", 1 << 20, &manifest, &e) == 0, "%s", e.msg);
    int n = 0;
    for (char *line = manifest.data; line && *line; n++) {
        size_t len = strcspn(line, "\n");
        cJSON *o = json_parse(line, len, "manifest", &e);
        check_file(json_string(o, "file"));
        cJSON_Delete(o);
        line += len + (line[len] == '\n');
    }
    CHECK(n == 24);
    text_free(&manifest);
}

int main(void)
{
    RUN(zoo);
    return test_report();
}
