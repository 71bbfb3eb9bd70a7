/* Any bytes as a picture and as a sound: checked and described. */
#include "datasets/reader.h"
#include "tests/fuzz.h"

static int fuzz_one(const uint8_t *data, size_t n)
{
    for (int kind = MODALITY_IMAGE; kind <= MODALITY_AUDIO; kind++) {
        struct sample_media m = {.kind = (enum sample_modality)kind, .bytes = data, .n_bytes = n, .name = "fuzz"};
        struct err e = {0};
        char warning[256] = "";
        if (media_check(&m, warning, sizeof warning, &e) == 0)
            cJSON_Delete(media_describe(&m));
    }
    return 0;
}
