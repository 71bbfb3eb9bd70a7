/* Any bytes as a parquet file: every row read to the end. */
#include "datasets/parquet.h"
#include "tests/fuzz.h"

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct parquet *p;
    struct err e = {0};
    cJSON *row;
    if (parquet_open(&p, data, n, "fuzz", false, &e))
        return 0;
    for (int i = 0; i < 20000; i++) {
        enum row_result rc = parquet_next(p, &row, &e);
        cJSON_Delete(row);
        if (rc == ROW_END || rc == ROW_FATAL)
            break;
    }
    parquet_close(p);
    return 0;
}
