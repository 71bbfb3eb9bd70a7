/* md5.c - MD5 (RFC 1321): FLAC files carry it over their samples, and publishers name it for their files. No security
 * rests on it. */
#include "datasets/reader.h"

#include <math.h>
#include <string.h>

static void block(uint32_t h[4], const uint32_t k[64], const uint8_t *p)
{
    static const uint8_t turns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], m[16];
    for (int i = 0; i < 16; i++)
        m[i] = (uint32_t)p[4 * i + 3] << 24 | (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 1] << 8 | p[4 * i];
    for (int i = 0; i < 64; i++) {
        uint32_t f = i < 16 ? (b & c) | (~b & d) : i < 32 ? (d & b) | (~d & c) : i < 48 ? b ^ c ^ d : c ^ (b | ~d);
        int word = i < 16 ? i : i < 32 ? (5 * i + 1) % 16 : i < 48 ? (3 * i + 5) % 16 : 7 * i % 16;
        uint32_t sum = a + f + m[word] + k[i];
        int turn = turns[i / 16][i % 4];
        a = d;
        d = c;
        c = b;
        b += sum << turn | sum >> (32 - turn);
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
}

void md5_init(struct md5 *s)
{
    *s = (struct md5){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
    for (int i = 0; i < 64; i++)
        s->k[i] = (uint32_t)floor(4294967296.0 * fabs(sin(i + 1.0)));       /* as the standard defines them */
}

void md5_update(struct md5 *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t have = (size_t)(s->n_bytes % 64);
    s->n_bytes += n;
    while (n) {
        size_t take = 64 - have < n ? 64 - have : n;
        memcpy(s->block + have, p, take);
        p += take;
        n -= take;
        have = (have + take) % 64;
        if (have == 0)
            block(s->h, s->k, s->block);
    }
}

void md5_finish(struct md5 *s, uint8_t out[16])
{
    uint64_t bits = s->n_bytes * 8;
    uint8_t pad[72] = {0x80};
    size_t n = 64 - (size_t)((s->n_bytes + 8) % 64);
    for (int i = 0; i < 8; i++)
        pad[n + (size_t)i] = (uint8_t)(bits >> (8 * i));
    md5_update(s, pad, n + 8);
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (8 * (i % 4)));
}
