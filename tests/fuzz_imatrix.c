/* Opens any bytes as an importance matrix, in either form, and looks every entry up. */
#define _GNU_SOURCE                     /* memfd_create */
#include "engine/imatrix.h"
#include "tests/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct imatrix *m;
    struct err e = {0};
    char path[64];
    const int fd = memfd_create("input", 0);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n) {
        close(fd);
        return 0;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (imatrix_open(&m, path, &e) == 0) {
        for (size_t i = 0; i < m->n; i++) {
            const struct imatrix_entry *entry = imatrix_find(m, m->entry[i].name);
            for (int64_t k = 0; k < entry->n; k++)
                if (!(entry->value[k] >= 0))
                    abort();
        }
        imatrix_close(m);
    }
    close(fd);
    return 0;
}
