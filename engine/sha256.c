/* sha256.c - SHA-256 for fingerprints, by Nettle, which uses the CPU's own instructions for it where there are any. */
#include <nettle/sha2.h>
/* Nettle's headers rename these very names to its own functions. */
#undef sha256_init
#undef sha256_update
#include "engine/base.h"

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct sha256), "struct sha256 must hold Nettle's state");

#include <nettle/sha2.h>

void sha256_init(struct sha256 *s)
{
    nettle_sha256_init((struct sha256_ctx *)s->state);
}

void sha256_update(struct sha256 *s, const void *data, size_t n)
{
    nettle_sha256_update((struct sha256_ctx *)s->state, n, data);
}

void sha256_hex(struct sha256 *s, char out[65])
{
    static const char digit[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_SIZE];
    nettle_sha256_digest((struct sha256_ctx *)s->state, sizeof digest, digest);
    for (int i = 0; i < 64; i++)
        out[i] = digit[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
    out[64] = '\0';
}

void sha256_hex_of(const void *data, size_t n, char out[65])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, data, n);
    sha256_hex(&s, out);
}
