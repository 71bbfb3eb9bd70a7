/* parquet_format.h - the pieces of the parquet reader: footer and page headers, page codecs, value encodings. */
#ifndef HANDOFF_DATASETS_PARQUET_FORMAT_H
#define HANDOFF_DATASETS_PARQUET_FORMAT_H

#include "engine/base_archive.h"

/* ---- parquet_thrift.c: what the file says about itself (parquet.thrift, Thrift compact protocol) ----------------- */

enum pq_type { PQ_BOOLEAN, PQ_INT32, PQ_INT64, PQ_INT96, PQ_FLOAT, PQ_DOUBLE, PQ_BYTES, PQ_FIXED };
enum pq_repetition { PQ_REQUIRED, PQ_OPTIONAL, PQ_REPEATED };
enum pq_codec { PQ_PLAIN_CODEC, PQ_SNAPPY, PQ_GZIP, PQ_LZO, PQ_BROTLI, PQ_LZ4_FRAMED, PQ_ZSTD, PQ_LZ4_RAW };
enum pq_encoding { PQ_PLAIN = 0, PQ_PLAIN_DICTIONARY = 2, PQ_RLE = 3, PQ_BIT_PACKED = 4, PQ_DELTA_BINARY = 5,
                   PQ_DELTA_LENGTH = 6, PQ_DELTA_BYTES = 7, PQ_RLE_DICTIONARY = 8, PQ_STREAM_SPLIT = 9 };
/* What the stored values mean. */
enum pq_meaning { PQ_AS_STORED, PQ_TEXT, PQ_LIST, PQ_MAP, PQ_DECIMAL, PQ_DATE, PQ_TIMESTAMP, PQ_UNSIGNED };

struct pq_element {
    char *name;
    int type;                   /* pq_type; -1: a group */
    int type_length, repetition, n_children, scale, converted;
    enum pq_meaning meaning;
    int64_t per_second;         /* of a timestamp */
};

struct pq_chunk {
    int type, codec;
    int64_t num_values, data_offset, dictionary_offset, compressed_size, uncompressed_size;
    bool encrypted;
};

struct pq_row_group { int64_t num_rows; int n_chunks; struct pq_chunk *chunks; };

struct pq_footer {
    int64_t num_rows;
    int n_elements, n_row_groups;
    struct pq_element *elements;        /* the schema tree in depth-first order */
    struct pq_row_group *row_groups;
};

/* Everything is kept in the arena. */
int pq_read_footer(const uint8_t *data, size_t size, const char *file, struct arena *a, struct pq_footer *out,
                   struct err *e);

struct pq_page {
    int kind;                   /* 0 data, 2 dictionary, 3 data v2; others are to be passed over */
    int64_t uncompressed_size, compressed_size, num_values, num_rows;
    int encoding, definition_encoding, repetition_encoding;
    int64_t definition_bytes, repetition_bytes;         /* v2 */
    bool is_compressed, has_crc;
    uint32_t crc;
};

/* Bytes that the header took, 0 if it is damaged. */
size_t pq_read_page_header(const uint8_t *p, size_t n, struct pq_page *out);

/* ---- parquet_codec.c --------------------------------------------------------------------------------------------- */

/* Decompresses into exactly out_n bytes. */
int pq_decompress(int codec, const uint8_t *in, size_t n, uint8_t *out, size_t out_n, const char *where,
                  struct err *e);

/* A snappy page's length; then its tags: a literal of so many bytes, or a copy from so far back. */
bool pq_snappy_length(const uint8_t **p, const uint8_t *end, uint64_t *length);
bool pq_snappy_tag(const uint8_t **p, const uint8_t *end, size_t *literal, size_t *copy, size_t *distance);

/* ---- parquet_stream.c: a compressed page of which only the value at hand is expanded ------------------------------ */

struct pq_stream;
bool pq_stream_can(int codec);
/* total: bytes that come out. NULL if the page is damaged at its start. */
struct pq_stream *pq_stream_open(int codec, const uint8_t *in, size_t n, uint64_t total);
/* The next n bytes, which live until the next call; NULL if the page is damaged or ends before. */
const uint8_t *pq_stream_read(struct pq_stream *s, size_t n);
bool pq_stream_skip(struct pq_stream *s, uint64_t n);
const uint8_t *pq_stream_at(const struct pq_stream *s);         /* up to where the compressed bytes were used */
void pq_stream_close(struct pq_stream *s);                      /* harmless on NULL */

struct pq_value { union { int64_t i; double f; const uint8_t *bytes; } as; uint32_t n; };

/* The values of a dictionary page: all of them, or of a large page of byte strings those read last. */
struct pq_dictionary { struct pq_value *values; size_t n; struct pq_lazy *lazy; };
/* values is there for all n. false: the page is damaged at its start. */
bool pq_dictionary_stream(struct pq_dictionary *d, int codec, const uint8_t *in, size_t n, uint64_t total);
const uint8_t *pq_dictionary_at(const struct pq_dictionary *d);         /* up to where its bytes were used; or NULL */
/* false: no such value, the page is damaged, or its values are asked for too much out of order. */
bool pq_dictionary_get(struct pq_dictionary *d, uint32_t index, struct pq_value *v);
void pq_dictionary_free(struct pq_dictionary *d);

/* ---- parquet_decode.c: values and levels, one at a time ---------------------------------------------------------- */

/* Runs of equal values and of bit-packed ones, mixed. */
struct pq_hybrid { const uint8_t *p, *end; int width; uint64_t run; uint32_t value; bool packed; uint64_t packed_at; };
void pq_hybrid_start(struct pq_hybrid *h, const uint8_t *p, const uint8_t *end, int width);
bool pq_hybrid_next(struct pq_hybrid *h, uint32_t *value);

struct pq_delta {
    const uint8_t *p, *end;
    uint64_t left, per_mini, in_mini, mini, n_minis;
    int64_t value, min_delta;
    const uint8_t *widths;
    int width;
    uint64_t bit;
    bool first;
};
bool pq_delta_start(struct pq_delta *d, const uint8_t *p, const uint8_t *end);
bool pq_delta_next(struct pq_delta *d, int64_t *value);

struct pq_decoder {
    int type, encoding, width;          /* width: of PQ_FIXED */
    const uint8_t *p, *end;
    uint64_t at, n;                     /* values passed, values in the page (stream split) */
    struct pq_hybrid hybrid;
    struct pq_delta delta, prefix;
    struct pq_dictionary *dictionary;
    struct pq_stream *stream;           /* plain bytes come from here rather than from p; NULL */
    struct text last;                   /* delta bytes: the value before */
    uint8_t scratch[64];
};
/* NULL, or what is wrong: "unsupported ..." for an encoding that is valid but not read. */
const char *pq_decoder_start(struct pq_decoder *d, int type, int width, int encoding, const uint8_t *p,
                             const uint8_t *end, int64_t num_values, struct pq_dictionary *dictionary);
/* Bytes of a value live until the next call, or as long as the page. Of a value of more than MEMBER_MEDIA_MAX bytes a
 * stream gives the length only. */
bool pq_decoder_next(struct pq_decoder *d, struct pq_value *v);
void pq_decoder_free(struct pq_decoder *d);

#endif
