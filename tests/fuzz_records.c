/* Any bytes as a record file: no crash, and every line the scanner takes is one that json_parse takes. */
#include "eval/records.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct records r;
    struct err e = {0};
    if (records_parse(&r, "fuzz.jsonl", (const char *)data, n, NULL, &e)) {
        if (!e.code || strchr(e.msg, '\n'))
            abort();
        return 0;
    }
    const char *s = (const char *)data;
    for (size_t at = 0; at < n;) {
        const char *nl = memchr(s + at, '\n', n - at);
        size_t end = nl ? (size_t)(nl - s) : n;
        cJSON *tree = json_parse(s + at, end - at, "fuzz", &e);
        if (!tree)
            abort();
        cJSON_Delete(tree);
        at = end + 1;
    }
    for (int64_t i = 0; i < r.n; i++)
        if (records_find(&r, r.rows[i].key) != &r.rows[i])
            abort();
    records_close(&r);
    return 0;
}
