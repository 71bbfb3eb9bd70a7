/* parquet_codec.c - the compressions of a page. Snappy's format is small enough to be read here. */
#include "datasets/parquet_format.h"

#include <brotli/decode.h>
#include <lz4.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Snappy's raw format: length, then literals and copies from what came out before. */
static bool unsnap(const uint8_t *in, size_t n, uint8_t *out, size_t out_n)
{
    const uint8_t *p = in, *end = in + n;
    uint64_t length = 0;
    size_t have = 0, literal, copy, distance;
    if (!pq_snappy_length(&p, end, &length) || length != out_n)
        return false;
    while (p < end) {
        if (!pq_snappy_tag(&p, end, &literal, &copy, &distance) || literal > (size_t)(end - p) ||
            literal + copy > out_n - have || (copy && (distance == 0 || distance > have)))
            return false;
        memcpy(out + have, p, literal);
        p += literal;
        have += literal;
        for (size_t i = 0; i < copy; i++, have++)       /* may overlap itself */
            out[have] = out[have - distance];
    }
    return have == out_n;
}

static bool gunzip(const uint8_t *in, size_t n, uint8_t *out, size_t out_n)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)out_n};
    if (inflateInit2(&z, 15 + 32) != Z_OK)
        return false;
    int rc = inflate(&z, Z_FINISH);
    while (rc == Z_STREAM_END && z.avail_in && z.avail_out && inflateReset(&z) == Z_OK)     /* several members */
        rc = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_out == 0;
}

int pq_decompress(int codec, const uint8_t *in, size_t n, uint8_t *out, size_t out_n, const char *where, struct err *e)
{
    bool ok = false;
    size_t got = out_n;
    if (codec == PQ_PLAIN_CODEC) {
        ok = n == out_n;
        if (ok && n)
            memcpy(out, in, n);
    } else if (codec == PQ_SNAPPY) {
        ok = unsnap(in, n, out, out_n);
    } else if (codec == PQ_GZIP) {
        ok = gunzip(in, n, out, out_n);
    } else if (codec == PQ_ZSTD) {
        ok = ZSTD_decompress(out, out_n, in, n) == out_n;
    } else if (codec == PQ_BROTLI) {
        ok = BrotliDecoderDecompress(n, in, &got, out) == BROTLI_DECODER_RESULT_SUCCESS && got == out_n;
    } else if (codec == PQ_LZ4_RAW) {
        ok = LZ4_decompress_safe((const char *)in, (char *)out, (int)n, (int)out_n) == (int)out_n;
    } else {
        return fault(e, "E_UNSUPPORTED", "%s: compression %d is not read", where, codec);
    }
    return ok ? 0 : fault(e, "E_DECOMPRESS", "%s: the compressed page is damaged", where);
}
