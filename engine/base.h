/* base.h - what every room stands on: errors, memory, text, files, JSON.
 *
 * This is the one header that all rooms may include besides their own. It knows nothing about models, data sets or
 * statistics.
 *
 * Errors: a function that can fail returns 0 or -1 (or NULL) and fills `struct err`, whose message is one line that
 * names the file, the place in it and what was expected. main() prints it and exits with `code`.
 *
 * Memory: mem_alloc() and friends never return NULL: a machine without memory ends the program with status 4. Sizes
 * that come from a file must be checked against the file's own size before they are asked for.
 */
#ifndef HANDOFF_BASE_H
#define HANDOFF_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define PRINTF_LIKE(fmt, first)
#endif

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Exit statuses of the program; `struct err` carries one of the last three. */
enum exit_status { EXIT_DONE = 0, EXIT_CHECK_FAILED = 1, EXIT_USAGE = 2, EXIT_BAD_INPUT = 3, EXIT_MACHINE = 4 };

struct err {
    int code;               /* an exit_status; 0: no error */
    char msg[1024];         /* one line, no newline at its end */
};

/* Fills *e (which may be NULL) and returns -1. Control characters in the message are shown as '?', so that a hostile
 * file name or token cannot write to the terminal. */
int err_set(struct err *e, enum exit_status code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The common case: a damaged or unexpected file. */
int err_input(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The common case: the machine failed; appends strerror(errno). */
int err_machine(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- memory ---------------------------------------------------------------------------------------------------- */

void *mem_alloc(size_t n, size_t size);                 /* n * size bytes, zeroed, product checked */
void *mem_grow(void *p, size_t n, size_t size);         /* realloc to n * size bytes, product checked */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t len);
#define NEW(type, n) ((type *)mem_alloc((size_t)(n), sizeof(type)))

/* Many small pieces with one owner; everything is freed at once. */
struct arena { struct arena_block *head; };
void *arena_alloc(struct arena *a, size_t n, size_t size);      /* zeroed, aligned for any type */
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void arena_free(struct arena *a);
#define ARENA_NEW(a, type, n) ((type *)arena_alloc(a, (size_t)(n), sizeof(type)))

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* A growing byte string; data is always followed by a NUL that `len` does not count. {0} is the empty string. */
struct text { char *data; size_t len, cap; };
void text_put(struct text *t, const void *bytes, size_t n);
void text_puts(struct text *t, const char *s);
void text_putc(struct text *t, int c);
void text_printf(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void text_vprintf(struct text *t, const char *fmt, va_list ap);
void text_clear(struct text *t);                        /* empties, keeps the memory */
void text_free(struct text *t);
char *text_take(struct text *t);                        /* the caller frees the result; *t is empty afterwards */

/* Length in bytes of the UTF-8 sequence at s (1..4), 0 if it is not valid UTF-8 (overlong forms, surrogates and
 * values above U+10FFFF are not). *codepoint may be NULL. */
int utf8_decode(const char *s, size_t len, uint32_t *codepoint);
int utf8_encode(uint32_t codepoint, char out[4]);       /* bytes written */
bool utf8_valid(const char *s, size_t len, size_t *bad_at);     /* bad_at may be NULL */

/* Shortest decimal form that reads back to the same double ("0.1", "1e-05"). Finite values only. */
void text_put_double(struct text *t, double v);

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* A file mapped read-only. */
struct mapped { const uint8_t *data; size_t size; char *path; };
int map_open(struct mapped *m, const char *path, struct err *e);
void map_close(struct mapped *m);                       /* harmless on {0} */

/* Whole file as bytes; a file above max_bytes is refused. */
int file_read(const char *path, size_t max_bytes, struct text *out, struct err *e);
/* The next line of a stream without its line feed: 1, 0 at the end, -1 if it is longer than max_bytes or cannot be
 * read. `where` names file and line in messages. */
int line_read(FILE *f, struct text *line, size_t max_bytes, const char *where, struct err *e);
/* Writes to a temporary name beside path, syncs and renames: the file is either the old or the new one. A link stays a
 * link to the new file. What is no regular file (a device, a pipe) is never replaced: the bytes are written into it. */
int file_write_atomic(const char *path, const void *data, size_t n, struct err *e);
/* The same in pieces. After a failed put the file is still open; finish and drop close it, and without finish nothing
 * is left. */
struct file_out { int fd; char *path, *temporary; };
int file_out_open(struct file_out *f, const char *path, struct err *e);
int file_out_put(const struct file_out *f, const void *data, size_t n, struct err *e);
int file_out_finish(struct file_out *f, struct err *e);
void file_out_drop(struct file_out *f);                 /* harmless on {0} and behind finish */
/* Whether the name is taken; a link that leads nowhere takes it as well, so that it is not passed over in silence. */
bool file_exists(const char *path);
bool path_is_dir(const char *path);
char *path_join(const char *dir, const char *name);     /* caller frees */
const char *path_base(const char *path);                /* the part behind the last '/' */

struct sha256 { uint64_t state[16]; };
void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t n);
void sha256_hex(struct sha256 *s, char out[65]);        /* finishes */
void sha256_hex_of(const void *data, size_t n, char out[65]);

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

/* cJSON behind strict reading: valid UTF-8 without a byte order mark, no control characters in strings, no \u0000, no
 * lone surrogates, numbers as RFC 8259 writes them and finite, nesting of at most 256, nothing but blanks behind the
 * value. `where` names the source in messages ("data.jsonl:17"). The caller calls cJSON_Delete(). */
cJSON *json_parse(const char *s, size_t len, const char *where, struct err *e);
cJSON *json_read_file(const char *path, size_t max_bytes, struct err *e);

/* Members of an object, by exact name; NULL (without an error) if absent. */
const cJSON *json_get(const cJSON *object, const char *key);
const char *json_string(const cJSON *object, const char *key);          /* NULL if absent or not a string */
/* Reads a required or defaulted integer in [lo, hi]; an absent key gives fallback, unless that is below lo: then the
 * key is required. `where` names the file. */
int json_int(const cJSON *object, const char *key, int64_t lo, int64_t hi, int64_t fallback, int64_t *out,
             const char *where, struct err *e);

/* Writing: appends the value of a JSON string with its quotes; doubles go through text_put_double, non-finite ones
 * are written as null. json_print appends a cJSON tree in one line with members in their order. */
void json_put_string(struct text *t, const char *s, size_t len);
void json_put_double(struct text *t, double v);
void json_print(struct text *t, const cJSON *value);

/* ---- clock ----------------------------------------------------------------------------------------------------- */

double clock_ms(void);                                  /* monotonic milliseconds */

#endif
