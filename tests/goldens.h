/* goldens.h - reading ../shared/model/goldens in tests. */
#ifndef HANDOFF_TESTS_GOLDENS_H
#define HANDOFF_TESTS_GOLDENS_H

#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_FOLDER "../shared/model/"

static const char *const golden_text_cases[] = {
    "text_bytes", "text_code", "text_long", "text_no_bos", "text_one_token", "text_over_window", "text_short",
    "text_unicode", "text_window_edge", "chat_system", "chat_think", "chat_turns_long", "chat_user"};
static const char *const golden_media_cases[] = {
    "image_dot_gray", "image_exif", "image_gray", "image_jpeg", "image_landscape", "image_rgba", "image_wide",
    "audio_odd", "audio_short", "audio_speech", "audio_stereo44k", "mixed_image_audio", "mixed_two_of_each"};
enum { GOLDEN_TEXT_CASES = 13, GOLDEN_MEDIA_CASES = 13 };

static inline struct weights *golden_open(const char *name)
{
    char path[256];
    struct err e = {0};
    struct weights *w;
    snprintf(path, sizeof path, MODEL_FOLDER "goldens/%s.safetensors", name);
    if (weights_open(&w, path, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        exit(1);
    }
    return w;
}

/* Number of elements, 0 if there is no such tensor. */
static inline int64_t golden_count(const struct weights *w, const char *name)
{
    const struct tensor *t = weights_find(w, name);
    return t ? tensor_elements(t) : 0;
}

/* One element of any of the types that goldens have. */
static inline double golden_value(const struct weights *w, const char *name, int64_t i)
{
    const struct tensor *t = weights_find(w, name);
    float f;
    double d;
    int32_t n;
    if (!t || i < 0 || i >= tensor_elements(t)) {
        fprintf(stderr, "golden %s[%lld] is not there\n", name, (long long)i);
        exit(1);
    }
    if (t->type == TENSOR_F32) {
        memcpy(&f, (const uint8_t *)t->data + 4 * i, 4);
        return f;
    }
    if (strcmp(t->type_name, "F64") == 0) {
        memcpy(&d, (const uint8_t *)t->data + 8 * i, 8);
        return d;
    }
    memcpy(&n, (const uint8_t *)t->data + 4 * i, 4);
    return n;
}

#endif
