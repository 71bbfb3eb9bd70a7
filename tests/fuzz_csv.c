/* Any bytes as CSV: every row read; the first byte picks delimiter and quoting. */
#include "datasets/rows.h"
#include "tests/fuzz.h"

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct csv c;
    struct err e = {0};
    if (n == 0)
        return 0;
    csv_init(&c, (const char *)data + 1, n - 1, data[0] & 1 ? '\t' : ',', !(data[0] & 2));
    enum row_result rc;
    while ((rc = csv_next(&c, "fuzz", &e)) == ROW_OK || rc == ROW_REFUSED)
        ;
    csv_free(&c);
    return 0;
}
