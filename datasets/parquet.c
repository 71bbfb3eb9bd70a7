/* parquet.c - placeholder until the reader lands: refuses. */
#include "datasets/parquet.h"

int parquet_open(struct parquet **out, const void *data, size_t size, const char *file, bool release, struct err *e)
{
    (void)data, (void)size, (void)release;
    *out = NULL;
    return fault(e, "E_UNSUPPORTED", "%s: parquet is not read yet", file);
}

void parquet_close(struct parquet *p) { (void)p; }
int64_t parquet_rows(const struct parquet *p) { (void)p; return -1; }
enum row_result parquet_next(struct parquet *p, cJSON **value, struct err *e)
{
    (void)p, (void)value, (void)e;
    return ROW_END;
}

bool row_bytes(const cJSON *node, const void **bytes, size_t *n)
{
    (void)node, (void)bytes, (void)n;
    return false;
}
