/* Any bytes as a parquet file: every row read to the end, with pages held and with pages streamed. */
#include "datasets/parquet.h"
#include "tests/fuzz.h"

static void read_all(const uint8_t *data, size_t n, bool streamed)
{
    struct parquet *p;
    struct err e = {0};
    cJSON *row;
    if (parquet_open(&p, data, n, "fuzz", false, &e))
        return;
    if (streamed)
        parquet_stream_from(p, 0);
    for (int i = 0; i < 20000; i++) {
        enum row_result rc = parquet_next(p, &row, &e);
        cJSON_Delete(row);
        if (rc == ROW_END || rc == ROW_FATAL)
            break;
    }
    parquet_close(p);
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    read_all(data, n, false);
    read_all(data, n, true);
    return 0;
}
