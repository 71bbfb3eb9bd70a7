/* Any bytes as the XML of a workbook: the sheet, a NUL, the shared strings. Every row read. */
#include "datasets/xlsx.h"
#include "tests/fuzz.h"

#include <string.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
    const size_t sheet = nul ? (size_t)(nul - data) : n, rest = nul ? n - sheet - 1 : 0;
    struct xlsx *x;
    struct row row;
    struct err e = {0};
    if (xlsx_parse(&x, "fuzz", nul ? (const char *)nul + 1 : "", rest, (const char *)data, sheet, &e))
        return 0;
    while (xlsx_next(x, &row, &e) == ROW_OK)
        ;
    xlsx_close(x);
    return 0;
}
