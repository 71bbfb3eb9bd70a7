#include "eval/base64.h"

#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t n, struct text *out)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)b[i] << 16 | (i + 1 < n ? (uint32_t)b[i + 1] << 8 : 0) | (i + 2 < n ? b[i + 2] : 0);
        const char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=',
                              i + 2 < n ? digits[v & 63] : '='};
        text_put(out, four, sizeof four);
    }
}

void *base64_decode(const char *s, size_t len, size_t *n)
{
    uint8_t value[256];
    memset(value, 64, sizeof value);
    for (uint8_t i = 0; i < 64; i++)
        value[(unsigned char)digits[i]] = i;
    size_t padded = len;
    while (len > 0 && padded - len < 2 && s[len - 1] == '=')
        len--;
    if (len % 4 == 1 || (padded != len && padded % 4))
        return NULL;
    uint8_t *out = mem_alloc(len / 4 * 3 + 3, 1), *o = out;
    uint32_t held = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t v = value[(unsigned char)s[i]];
        if (v == 64) {
            free(out);
            return NULL;
        }
        held = held << 6 | v;
        if (i % 4)
            *o++ = (uint8_t)(held >> (6 - 2 * (i % 4)));
    }
    *n = (size_t)(o - out);
    return out;
}
