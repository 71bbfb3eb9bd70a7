/* Any JSON as config.json: taken or refused, never more. */
#include "engine/internal.h"
#include "tests/fuzz.h"

#include <stdlib.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    static struct weights *w;
    struct config c;
    struct err e = {0};
    if (!w) {                                       /* any file with a tensor in it will do */
        static const char file[] = "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
                                   "             \0\0\0\0";
        const char *path = "/tmp/handoff-fuzz-config.safetensors";
        if (file_write_atomic(path, file, 8 + 0x40 + 4, &e) || weights_open(&w, path, &e)) {
            fprintf(stderr, "%s\n", e.msg);
            abort();
        }
    }
    cJSON *json = json_parse((const char *)data, n, "config.json", &e);
    if (json && config_read(&c, json, json, w, "config.json", &e) == 0)
        config_free(&c);
    else if (!e.code)
        abort();
    cJSON_Delete(json);
    return 0;
}
