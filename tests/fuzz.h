/* fuzz.h - a fuzz target is `int fuzz_one(const uint8_t *data, size_t n)` behind this header. Built as a plain
 * program it replays the files named on its command line; built with -fsanitize=fuzzer -DLIBFUZZER it is libFuzzer's. */
#ifndef HANDOFF_FUZZ_H
#define HANDOFF_FUZZ_H

#include <stdio.h>
#include "engine/base.h"

static int fuzz_one(const uint8_t *data, size_t n);

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) { return fuzz_one(data, n); }
#else
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct text content = {0};
        struct err e = {0};
        if (file_read(argv[i], (size_t)64 << 20, &content, &e)) {
            fprintf(stderr, "%s\n", e.msg);
            return 1;
        }
        fuzz_one((const uint8_t *)(content.data ? content.data : ""), content.len);
        text_free(&content);
    }
    return 0;
}
#endif
#endif
