/* Opens any bytes as a GGUF file in two parts: four bytes of length, the first part, the second part. Reads every tensor
 * that comes out of them, and what is odd about them. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "tests/fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/handoff-fuzz-XXXXXX";

static void part_path(char path[64], int number)
{
    snprintf(path, 64, "%s/m-%05d-of-00002.gguf", folder, number);
}

static void remove_all(void)
{
    for (int i = 1; i <= 2; i++) {
        char path[64];
        part_path(path, i);
        unlink(path);
    }
    rmdir(folder);
}

static bool write_part(int number, const uint8_t *data, size_t n)
{
    char path[64];
    part_path(path, number);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written = fd >= 0 && write(fd, data, n) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    return written;
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    static bool made;
    uint32_t first;
    if (!made && !(made = mkdtemp(folder) != NULL && atexit(remove_all) == 0))
        return 0;
    if (n < 4)
        return 0;
    memcpy(&first, data, 4);
    first = first < n - 4 ? first : (uint32_t)(n - 4);
    if (!write_part(1, data + 4, first) || !write_part(2, data + 4 + first, n - 4 - first))
        return 0;
    struct weights *w;
    struct checkpoint_facts facts;
    struct err e = {0};
    char path[64];
    float values[300];
    part_path(path, 1);
    if (weights_open(&w, path, &e))
        return 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        const int64_t all = tensor_elements(t), take = all < 300 ? all : 300;
        tensor_read_f32(t, all - take, take, values);
    }
    checkpoint_facts_read(&facts, path, w, true, &e);
    checkpoint_facts_free(&facts);
    weights_close(w);
    return 0;
}
