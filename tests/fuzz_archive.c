/* Any bytes as a tar, a tar.gz or a zip (the first byte says which): every member read. */
#define _GNU_SOURCE
#include "engine/base_archive.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    static const char *const ends[] = {".tar", ".tar.gz", ".zip"};
    if (n == 0)
        return 0;
    char path[] = "/tmp/handoff-fuzz-XXXXXX.tar.gz";
    const char *end = ends[data[0] % 3];
    snprintf(path + 24, 8, "%s", end);
    int fd = mkstemps(path, (int)strlen(end));
    if (fd < 0 || write(fd, data + 1, n - 1) != (ssize_t)(n - 1))
        abort();
    close(fd);
    struct archive *a;
    struct err e = {0};
    if (archive_open(&a, path, &e) == 0) {
        for (size_t i = 0; i < archive_count(a) && i < 100; i++) {
            struct blob b;
            const struct member *m = archive_member(a, archive_count(a) - 1 - i);
            if (!name_is_safe(m->name) || archive_find(a, m->name) != m)
                abort();
            if (member_read(a, m, MEMBER_MEDIA_MAX, &b, &e) == 0)
                blob_free(&b);
        }
        archive_close(a);
    }
    unlink(path);
    return 0;
}
