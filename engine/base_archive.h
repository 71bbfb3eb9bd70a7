/* base_archive.h - a folder, a single file, a tar, a tar.gz or a zip, all seen as one list of members by name. Like
 * base.h it is open to all rooms: data sets and bundles of weights come as archives.
 *
 *     struct archive *a;
 *     if (archive_open(&a, "data.tar", &e)) ...
 *     const struct member *m = archive_find(a, "data/test/astronomy_test.csv");
 *     struct blob b;
 *     if (member_read(a, m, MEMBER_TEXT_MAX, &b, &e)) ...
 *
 * Nothing is written to disk. A name that leaves its folder, a link, a device, a damaged structure or an expansion
 * beyond 200:1 refuses the archive as a whole. Messages end in a class such as "(E_PATH)"; see datasets/README.md.
 */
#ifndef HANDOFF_BASE_ARCHIVE_H
#define HANDOFF_BASE_ARCHIVE_H

#include "engine/base.h"

/* Limits: of a picture or sound inside an archive or table, and of a table or list inside an archive. */
#define MEMBER_MEDIA_MAX ((size_t)16 << 20)
#define MEMBER_TEXT_MAX ((size_t)128 << 20)
/* A recording of its own on disk (a whole call, a podcast) is mapped, not read, and may be larger. */
#define RECORDING_MAX ((size_t)1 << 30)

/* err_input with the class of the fault behind the message: "... (E_CSV)". Returns -1. */
int fault(struct err *e, const char *class_name, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Gives the system pages between two addresses of a read-only mapped file back: they are read again when touched, and
 * do not count as the program's memory until then. Harmless on a small range. */
void release_pages(const void *from, const void *to);

/* Bytes that are mapped, owned, or borrowed from the archive. */
struct blob { const char *data; size_t size; struct mapped map; char *own; bool borrowed; };
void blob_free(struct blob *b);

struct member {
    const char *name;           /* relative, '/' between folders */
    uint64_t size;
    uint64_t at;                /* offset in the (decompressed) archive, or index in the zip */
};

struct archive;
int archive_open(struct archive **out, const char *path, struct err *e);
struct archive *archive_share(struct archive *a);       /* one more owner */
void archive_close(struct archive *a);
const char *archive_path(const struct archive *a);
const char *archive_form(const struct archive *a);      /* "folder", "file", "tar", "tar.gz", "zip" */
bool archive_is_folder(const struct archive *a);
const char *archive_warning(const struct archive *a);   /* "" or one line */
/* Members in the byte order of their names, files only. */
size_t archive_count(const struct archive *a);
const struct member *archive_member(const struct archive *a, size_t i);
const struct member *archive_find(const struct archive *a, const char *name);
/* The whole member; one above max bytes is refused (E_TOO_LARGE). */
int member_read(struct archive *a, const struct member *m, size_t max, struct blob *out, struct err *e);
/* Whether a name stays inside its folder: relative, no "..", no backslash, no drive letter, not empty. */
bool name_is_safe(const char *name);

/* A gzip stream with random access: the first pass checks the stream's CRC and keeps restart points on the way. */
struct gzip;
struct gzip *gzip_open(const uint8_t *data, size_t size, const char *path);
void gzip_close(struct gzip *g);
/* Reads up to n decompressed bytes at `at`; fewer only at the end. -1: damaged. */
int64_t gzip_read(struct gzip *g, uint64_t at, void *buf, size_t n, struct err *e);

#endif
