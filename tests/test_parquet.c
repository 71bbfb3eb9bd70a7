/* The parquet reader against the zoo: codecs, encodings, page versions, nulls, nesting, several writers. */
#define _GNU_SOURCE
#include "datasets/parquet.h"
#include "tests/test.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* A sanitizer's own memory is not counted. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

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

/* stream_from: pages of more bytes are not held; 0: as by default, -1: none is. */
static void check_file(const char *name, int64_t stream_from)
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
    if (stream_from)
        parquet_stream_from(p, stream_from < 0 ? 0 : stream_from);
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
        check_file(json_string(o, "file"), 0);
        check_file(json_string(o, "file"), -1);
        cJSON_Delete(o);
        line += len + (line[len] == '\n');
    }
    CHECK(n == 24);
    text_free(&manifest);
}

/* ---- a large file, written here: one required binary column, a page a row, in row groups of 256 ------------------ */

static void put_varint(struct text *t, uint64_t v)
{
    for (; v > 127; v >>= 7)
        text_putc(t, (int)(v & 127) | 128);
    text_putc(t, (int)v);
}

static void put_int(struct text *t, int distance, int type, int64_t v)
{
    text_putc(t, distance << 4 | type);
    put_varint(t, (uint64_t)v << 1);
}

static void put_page_header(struct text *t, int64_t size)
{
    put_int(t, 1, 5, 0);
    put_int(t, 1, 5, size);
    put_int(t, 1, 5, size);
    text_putc(t, 2 << 4 | 12);
    put_int(t, 1, 5, 1);
    put_int(t, 1, 5, 0);
    put_int(t, 1, 5, 3);
    put_int(t, 1, 5, 3);
    text_put(t, "\0\0", 2);
}

static void put_footer(struct text *t, int groups, int rows, const int64_t *begins)
{
    put_int(t, 1, 5, 1);
    text_put(t, "\x19\x2c", 2);                         /* schema: two structs */
    text_put(t, "\x48\x01r\x15\x02\0", 6);            /* name "r", one child */
    text_put(t, "\x15\x0c\x25\0\x18\x05image\0", 12); /* bytes, required */
    put_int(t, 1, 6, (int64_t)groups * rows);
    text_putc(t, 1 << 4 | 9);
    text_putc(t, groups < 15 ? groups << 4 | 12 : 0xfc);
    if (groups >= 15)
        put_varint(t, (uint64_t)groups);
    for (int i = 0; i < groups; i++) {
        int64_t size = begins[i + 1] - begins[i];
        text_put(t, "\x19\x1c\x3c", 3);                  /* columns: one, its metadata */
        put_int(t, 1, 5, 6);
        put_int(t, 3, 5, 0);
        put_int(t, 1, 6, rows);
        put_int(t, 1, 6, size);
        put_int(t, 1, 6, size);
        put_int(t, 2, 6, begins[i]);
        text_put(t, "\0\0", 2);
        put_int(t, 1, 6, size);
        put_int(t, 1, 6, rows);
        text_putc(t, 0);
    }
    text_putc(t, 0);
}

/* Sparse on disk: the values are zeros that nothing writes. */
static bool write_large(const char *path, int groups, int rows, int64_t value)
{
    FILE *f = fopen(path, "wb");
    int64_t *begins = NEW(int64_t, groups + 1), at = 4;
    bool ok = f && fwrite("PAR1", 1, 4, f) == 4;
    for (int g = 0; g < groups; g++) {
        begins[g] = at;
        for (int r = 0; r < rows; r++) {
            struct text t = {0};
            put_page_header(&t, value + 4);
            for (int i = 0; i < 4; i++)
                text_putc(&t, (int)(value >> (8 * i) & 255));
            ok = ok && fseek(f, (long)at, SEEK_SET) == 0 && fwrite(t.data, 1, t.len, f) == t.len;
            at += (int64_t)t.len + value;
            text_free(&t);
        }
    }
    begins[groups] = at;
    struct text t = {0};
    put_footer(&t, groups, rows, begins);
    size_t n = t.len;
    for (int i = 0; i < 4; i++)
        text_putc(&t, (int)(n >> (8 * i) & 255));
    text_puts(&t, "PAR1");
    ok = ok && fseek(f, (long)at, SEEK_SET) == 0 && fwrite(t.data, 1, t.len, f) == t.len && fclose(f) == 0;
    text_free(&t);
    free(begins);
    return ok;
}

static void two_gigabytes(void)
{
    enum { GROUPS = 8, ROWS = 256, VALUE = 1 << 20 };
    char path[] = "/tmp/handoff-parquet-XXXXXX";
    struct mapped map;
    struct parquet *p;
    struct err e = {0};
    struct rusage usage;
    int fd = mkstemp(path), n = 0;
    CHECK(fd >= 0);
    close(fd);
    if (!CHECK(write_large(path, GROUPS, ROWS, VALUE)) || map_open(&map, path, &e))
        return;
    CHECK(map.size > (size_t)2 << 30);
    if (CHECK_MSG(parquet_open(&p, map.data, map.size, "large", true, &e) == 0, "%s", e.msg)) {
        cJSON *row;
        enum row_result rc;
        while ((rc = parquet_next(p, &row, &e)) == ROW_OK) {
            const void *bytes;
            size_t size;
            n += row_bytes(json_get(row, "image"), &bytes, &size) && size == VALUE;
            cJSON_Delete(row);
        }
        CHECK_MSG(rc == ROW_END && n == GROUPS * ROWS, "%d rows: %s", n, e.msg);
        parquet_close(p);
    }
    map_close(&map);
    unlink(path);
    getrusage(RUSAGE_SELF, &usage);
#ifndef SANITIZED
    CHECK_MSG(usage.ru_maxrss < 300 * 1024, "%ld KiB", usage.ru_maxrss);
#endif
}

int main(void)
{
    RUN(zoo);
    RUN(two_gigabytes);
    return test_report();
}
