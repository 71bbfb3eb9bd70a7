/* base_archive.c - the list of members of a folder, file, tar, tar.gz or zip.
 *
 * tar: ustar with GNU long names and pax "path" and "size" (POSIX.1-2017, pax). An uncompressed tar is mapped and its
 * members are borrowed; a tar.gz is read once from end to end to list and check it. zip goes through libzip, whose
 * consistency check refuses archives whose two directories disagree.
 */
#define _GNU_SOURCE
#include "engine/base_archive.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zip.h>
#include <zlib.h>
#include <zstd.h>

enum form { FORM_FOLDER, FORM_FILE, FORM_TAR, FORM_TAR_GZ, FORM_ZIP };
enum { TAR_BLOCK = 512, FOLDER_DEPTH_MAX = 16, MEMBERS_MAX = 4000000, NAME_MAX_LEN = 4096, RATIO_MAX = 200,
       RATIO_FREE = 1 << 20 };

struct archive {
    enum form form;
    int owners;
    char *path;
    struct arena arena;
    struct member *members;
    size_t n, cap;
    struct mapped map;
    struct gzip *gz;
    zip_t *zip;
    char warning[256];
};

int fault(struct err *e, const char *class_name, const char *fmt, ...)
{
    struct text t = {0};
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(&t, fmt, ap);
    va_end(ap);
    size_t room = e ? sizeof e->msg - 24 : 0;
    if (t.len > room && e) {            /* the class must survive a long message */
        t.len = room;
        t.data[room] = '\0';
    }
    err_input(e, "%s (%s)", t.data, class_name);
    text_free(&t);
    return -1;
}

void release_pages(const void *from, const void *to)
{
    enum { UNIT = 1 << 16 };            /* a multiple of any page size in use */
    uintptr_t begin = ((uintptr_t)from + UNIT - 1) / UNIT * UNIT, end = (uintptr_t)to / UNIT * UNIT;
    if (begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void blob_free(struct blob *b)
{
    if (b->borrowed)
        release_pages(b->data, b->data + b->size);
    map_close(&b->map);
    free(b->own);
    *b = (struct blob){0};
}

bool name_is_safe(const char *name)
{
    if (!*name || *name == '/' || strchr(name, '\\') || (name[0] && name[1] == ':'))
        return false;
    for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2]))
            return false;
    return true;
}

/* "./a//b" as "a/b". */
static char *tidy_name(struct arena *arena, const char *name, size_t len)
{
    char *out = arena_alloc(arena, len + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        size_t end = i;
        while (end < len && name[end] != '/')
            end++;
        bool drop = end == i || (end == i + 1 && name[i] == '.');
        if (!drop) {
            if (n)
                out[n++] = '/';
            memcpy(out + n, name + i, end - i);
            n += end - i;
        }
        i = end + 1;
    }
    return out;
}

/* Files that systems leave behind are no members. */
static bool is_litter(const char *name)
{
    const char *base = path_base(name);
    return base[0] == '.' || strncmp(name, "__MACOSX/", 9) == 0;
}

static int add_member(struct archive *a, const char *name, size_t len, uint64_t size, uint64_t at, struct err *e)
{
    char *copy = arena_strndup(&a->arena, name, len);
    if (strlen(copy) != len || !name_is_safe(copy))
        return fault(e, "E_PATH", "%s: member \"%s\" would leave its folder", a->path, copy);
    if (len > NAME_MAX_LEN || a->n >= MEMBERS_MAX)
        return fault(e, "E_TOO_LARGE", "%s: at most %d members with names of %d bytes are read", a->path, MEMBERS_MAX,
                     NAME_MAX_LEN);
    copy = tidy_name(&a->arena, copy, len);
    if (!*copy)
        return fault(e, "E_PATH", "%s: member \"%s\": the name of a file was expected", a->path, name);
    if (is_litter(copy))
        return 0;
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 64;
        a->members = mem_grow(a->members, a->cap, sizeof *a->members);
    }
    a->members[a->n++] = (struct member){.name = copy, .size = size, .at = at};
    return 0;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct member *)x)->name, ((const struct member *)y)->name);
}

static int sort_members(struct archive *a, struct err *e)
{
    if (a->n)
        qsort(a->members, a->n, sizeof *a->members, by_name);
    for (size_t i = 1; i < a->n; i++)
        if (strcmp(a->members[i - 1].name, a->members[i].name) == 0)
            return fault(e, "E_DUPLICATE", "%s: member \"%s\" occurs twice", a->path, a->members[i].name);
    return 0;
}

/* ---- folder ------------------------------------------------------------------------------------------------------ */

struct folder { const struct folder *above; dev_t device; ino_t inode; int depth; };

/* Symbolic links in a user's own folder are followed: hub caches consist of them. One that leads back to a folder on
 * the way is not. */
static int list_folder(struct archive *a, const char *folder, const char *prefix, const struct folder *above,
                       struct err *e)
{
    struct stat own;
    if (stat(folder, &own))
        return err_machine(e, "%s", folder);
    struct folder here = {above, own.st_dev, own.st_ino, above ? above->depth + 1 : 0};
    for (const struct folder *f = above; f; f = f->above)
        if (f->device == here.device && f->inode == here.inode)
            return 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return err_machine(e, "%s: cannot be listed", folder);
    int rc = here.depth > FOLDER_DEPTH_MAX ?
             fault(e, "E_TOO_LARGE", "%s: more than %d folders deep", folder, FOLDER_DEPTH_MAX) : 0;
    for (struct dirent *d; !rc && (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        char *path = path_join(folder, d->d_name);
        char *name = *prefix ? path_join(prefix, d->d_name) : mem_strdup(d->d_name);
        struct stat st;
        if (stat(path, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                rc = list_folder(a, path, name, &here, e);
            else if (S_ISREG(st.st_mode) && !strchr(name, '\\'))
                rc = add_member(a, name, strlen(name), (uint64_t)st.st_size, 0, e);
        }
        free(name);
        free(path);
    }
    closedir(dir);
    return rc;
}

/* ---- tar --------------------------------------------------------------------------------------------------------- */

struct tar_header { char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
                    magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12]; };

/* Octal text, or big-endian binary where the first bit is set (GNU). UINT64_MAX if neither. */
static uint64_t tar_number(const char *field, size_t len)
{
    const unsigned char *p = (const unsigned char *)field;
    uint64_t v = 0;
    if (p[0] & 0x80) {
        for (size_t i = 0; i < len; i++) {
            if (v >> 55)
                return UINT64_MAX;
            v = v << 8 | (i ? p[i] : p[i] & 0x3f);
        }
        return v;
    }
    size_t i = 0;
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] && p[i] != ' '; i++) {
        if (p[i] < '0' || p[i] > '7')
            return UINT64_MAX;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    return v;
}

static bool tar_checksum_ok(const struct tar_header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    uint64_t sum = 0, signed_sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        bool own = i >= offsetof(struct tar_header, checksum) && i < offsetof(struct tar_header, type);
        sum += own ? ' ' : p[i];
        signed_sum += own ? (uint64_t)' ' : (uint64_t)(int64_t)(signed char)p[i];
    }
    uint64_t want = tar_number(h->checksum, sizeof h->checksum);
    return want == sum || want == signed_sum;
}

/* Up to n bytes at `at`; fewer only at the end. */
static int64_t tar_read(struct archive *a, uint64_t at, void *buf, size_t n, struct err *e)
{
    if (a->gz)
        return gzip_read(a->gz, at, buf, n, e);
    if (at >= a->map.size)
        return 0;
    size_t rest = a->map.size - (size_t)at;
    n = n < rest ? n : rest;
    memcpy(buf, a->map.data + at, n);
    return (int64_t)n;
}

/* What extension headers say about the next member. */
struct tar_next { struct text name; bool has_size; uint64_t size; };

/* pax records: "LENGTH KEY=VALUE\n". */
static int read_pax(struct archive *a, const char *p, size_t len, struct tar_next *next, struct err *e)
{
    while (len) {
        size_t n = 0, i = 0;
        while (i < len && p[i] >= '0' && p[i] <= '9' && n < (1u << 24))
            n = n * 10 + (size_t)(p[i++] - '0');
        const char *equals = i < len && n <= len && n > i ? memchr(p + i, '=', n - i) : NULL;
        if (!equals || p[i] != ' ' || p[n - 1] != '\n')
            return fault(e, "E_ARCHIVE", "%s: damaged pax header", a->path);
        const char *key = p + i + 1, *value = equals + 1;
        size_t key_len = (size_t)(equals - key), value_len = (size_t)(p + n - 1 - value);
        if (key_len == 4 && memcmp(key, "path", 4) == 0) {
            text_clear(&next->name);
            text_put(&next->name, value, value_len);
        } else if (key_len == 4 && memcmp(key, "size", 4) == 0) {
            next->size = 0;
            next->has_size = value_len > 0 && value_len < 19;
            for (size_t k = 0; k < value_len && next->has_size; k++) {
                next->has_size = value[k] >= '0' && value[k] <= '9';
                next->size = next->size * 10 + (uint64_t)(value[k] - '0');
            }
            if (!next->has_size)
                return fault(e, "E_ARCHIVE", "%s: damaged pax size", a->path);
        }
        p += n;
        len -= n;
    }
    return 0;
}

static int read_extension(struct archive *a, char type, uint64_t at, uint64_t size, struct tar_next *next,
                          struct err *e)
{
    if (size > 1 << 20)
        return fault(e, "E_TOO_LARGE", "%s: extension header of %llu bytes", a->path, (unsigned long long)size);
    if (type != 'L' && type != 'x')
        return 0;
    char *buf = mem_alloc((size_t)size + 1, 1);
    int rc = 0;
    int64_t got = tar_read(a, at, buf, (size_t)size, e);
    if (got < 0) {
        rc = -1;
    } else if ((uint64_t)got < size) {
        rc = fault(e, "E_TRUNCATED", "%s: ends inside an extension header", a->path);
    } else if (type == 'x') {
        rc = read_pax(a, buf, (size_t)size, next, e);
    } else {
        text_clear(&next->name);
        text_puts(&next->name, buf);
    }
    free(buf);
    return rc;
}

static void header_name(const struct tar_header *h, struct text *out)
{
    text_clear(out);
    if (memcmp(h->magic, "ustar", 6) == 0 && h->prefix[0]) {
        text_put(out, h->prefix, strnlen(h->prefix, sizeof h->prefix));
        text_putc(out, '/');
    }
    text_put(out, h->name, strnlen(h->name, sizeof h->name));
}

static int check_type(struct archive *a, char type, const char *name, struct err *e)
{
    if (strchr("1", type) || type == '2')
        return fault(e, "E_LINK", "%s: member \"%s\" is a link", a->path, name);
    if (type == '3' || type == '4' || type == '6')
        return fault(e, "E_MEMBER_TYPE", "%s: member \"%s\" is a device or pipe", a->path, name);
    return fault(e, "E_UNSUPPORTED", "%s: member \"%s\" has the unknown type '%c'", a->path, name, type);
}

/* One member with the headers before it: 1 read, 0 the end. *at moves behind it. */
static int tar_member(struct archive *a, uint64_t *at, uint64_t total, struct tar_next *next, struct err *e)
{
    struct tar_header h;
    int64_t got = tar_read(a, *at, &h, sizeof h, e);
    if (got < 0)
        return -1;
    if (got == 0) {
        snprintf(a->warning, sizeof a->warning, "the tar's closing blocks are missing; its members are whole");
        return *at == 0 ? fault(e, "E_TRUNCATED", "%s: empty", a->path) : 0;
    }
    if (got < TAR_BLOCK)
        return fault(e, "E_TRUNCATED", "%s: ends inside a header at byte %llu", a->path, (unsigned long long)*at);
    static const struct tar_header zero;
    if (memcmp(&h, &zero, sizeof h) == 0)
        return 0;
    if (!tar_checksum_ok(&h))
        return fault(e, "E_CHECKSUM", "%s: wrong header checksum at byte %llu", a->path, (unsigned long long)*at);
    uint64_t size = tar_number(h.size, sizeof h.size), body = *at + TAR_BLOCK;
    bool extension = h.type == 'L' || h.type == 'K' || h.type == 'x' || h.type == 'g';
    if (next->has_size && !extension)
        size = next->size;
    if (h.type == '5')
        size = 0;
    if (size > INT64_MAX - TAR_BLOCK || body > INT64_MAX - size - TAR_BLOCK || (total && size > total - body))
        return fault(e, "E_TRUNCATED", "%s: the member at byte %llu is larger than the file", a->path,
                     (unsigned long long)*at);
    *at = body + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    if (extension)
        return read_extension(a, h.type, body, size, next, e) ? -1 : 1;
    if (!next->name.len)
        header_name(&h, &next->name);
    bool is_file = h.type == '0' || h.type == '\0' || h.type == '7';
    int rc = 0;
    if (is_file || h.type == '5') {
        bool safe = next->name.len && strlen(next->name.data) == next->name.len && name_is_safe(next->name.data);
        rc = !safe ? fault(e, "E_PATH", "%s: member \"%s\" would leave its folder", a->path,
                           next->name.len ? next->name.data : "") :
             is_file ? add_member(a, next->name.data, next->name.len, size, body, e) : 0;
    } else {
        rc = check_type(a, h.type, next->name.len ? next->name.data : "", e);
    }
    text_clear(&next->name);
    next->has_size = false;
    return rc ? -1 : 1;
}

/* To the end of the stream, so that its checksum is known to be right and no member is longer than it. */
static int drain_gzip(struct archive *a, uint64_t at, struct err *e)
{
    uint64_t end = 0;
    char rest[4096];
    int64_t got;
    for (size_t i = 0; i < a->n; i++)
        if (a->members[i].at + a->members[i].size > end)
            end = a->members[i].at + a->members[i].size;
    for (at = at > end ? at : end; (got = gzip_read(a->gz, at, rest, sizeof rest, e)) > 0; at += (uint64_t)got)
        ;
    if (got == 0 && end > 0)
        got = gzip_read(a->gz, end - 1, rest, 1, e) - 1;
    return got == 0 ? 0 : e->code ? -1 : fault(e, "E_TRUNCATED", "%s: the last member is cut", a->path);
}

static int list_tar(struct archive *a, struct err *e)
{
    struct tar_next next = {0};
    uint64_t at = 0, total = a->gz ? 0 : a->map.size;
    int rc;
    if (!a->gz && total == 0)
        return fault(e, "E_TRUNCATED", "%s: empty", a->path);
    while ((rc = tar_member(a, &at, total, &next, e)) > 0)
        ;
    text_free(&next.name);
    return !rc && a->gz ? drain_gzip(a, at, e) : rc;
}

/* ---- zip --------------------------------------------------------------------------------------------------------- */

static int zip_fault(struct archive *a, zip_error_t *z, struct err *e)
{
    int code = zip_error_code_zip(z);
    if (code == ZIP_ER_NOZIP || code == ZIP_ER_EOF)
        return fault(e, "E_TRUNCATED", "%s: a whole zip archive was expected: %s", a->path, zip_error_strerror(z));
    const char *class_name = code == ZIP_ER_CRC ? "E_CHECKSUM" :
                             code == ZIP_ER_ZLIB || code == ZIP_ER_COMPRESSED_DATA ? "E_DECOMPRESS" :
                             code == ZIP_ER_ENCRNOTSUPP || code == ZIP_ER_COMPNOTSUPP || code == ZIP_ER_NOPASSWD ?
                             "E_UNSUPPORTED" : "E_ARCHIVE";
    return fault(e, class_name, "%s: zip: %s", a->path, zip_error_strerror(z));
}

static int list_zip_member(struct archive *a, zip_uint64_t i, struct err *e)
{
    zip_stat_t st;
    if (zip_stat_index(a->zip, i, 0, &st))
        return zip_fault(a, zip_get_error(a->zip), e);
    const char *name = zip_get_name(a->zip, i, ZIP_FL_ENC_RAW);
    if (!name)
        return zip_fault(a, zip_get_error(a->zip), e);
    zip_uint8_t system;
    zip_uint32_t attributes;
    size_t len = strlen(name);
    if (!zip_file_get_external_attributes(a->zip, i, 0, &system, &attributes) && system == ZIP_OPSYS_UNIX) {
        unsigned type = attributes >> 16 & S_IFMT;
        if (type == S_IFLNK)
            return fault(e, "E_LINK", "%s: member \"%s\" is a link", a->path, name);
        if (type && type != S_IFREG && type != S_IFDIR)
            return fault(e, "E_MEMBER_TYPE", "%s: member \"%s\" is a device or pipe", a->path, name);
    }
    if (!name_is_safe(name))
        return fault(e, "E_PATH", "%s: member \"%s\" would leave its folder", a->path, name);
    if (len && name[len - 1] == '/')
        return 0;
    if ((st.valid & ZIP_STAT_ENCRYPTION_METHOD) && st.encryption_method != ZIP_EM_NONE)
        return fault(e, "E_UNSUPPORTED", "%s: member \"%s\" is encrypted", a->path, name);
    zip_uint64_t need = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if ((st.valid & need) != need)
        return fault(e, "E_ARCHIVE", "%s: member \"%s\" has no size", a->path, name);
    if (st.size > RATIO_FREE && st.size / RATIO_MAX > st.comp_size)
        return fault(e, "E_BOMB", "%s: member \"%s\" expands beyond %d:1", a->path, name, RATIO_MAX);
    return add_member(a, name, len, st.size, i, e);
}

/* libzip reports a repeated name as an inconsistency: open again without the check only to say which it was. */
static bool zip_has_duplicate(const char *path)
{
    int code;
    bool found = false;
    zip_t *z = zip_open(path, ZIP_RDONLY, &code);
    if (!z)
        return false;
    zip_int64_t n = zip_get_num_entries(z, 0);
    for (zip_int64_t i = 0; i < n && !found; i++) {
        const char *name = zip_get_name(z, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        found = name && zip_name_locate(z, name, ZIP_FL_ENC_RAW) != i;
    }
    zip_discard(z);
    return found;
}

static int list_zip(struct archive *a, struct err *e)
{
    int code;
    a->zip = zip_open(a->path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
    if (!a->zip) {
        if (zip_has_duplicate(a->path))
            return fault(e, "E_DUPLICATE", "%s: a member occurs twice", a->path);
        zip_error_t z;
        zip_error_init_with_code(&z, code);
        zip_fault(a, &z, e);
        zip_error_fini(&z);
        return -1;
    }
    zip_int64_t n = zip_get_num_entries(a->zip, 0);
    for (zip_int64_t i = 0; i < n; i++)
        if (list_zip_member(a, (zip_uint64_t)i, e))
            return -1;
    return 0;
}

/* Method 93, which older builds of libzip do not know. */
static int read_zip_zstd(struct archive *a, const struct member *m, const zip_stat_t *st, char *buf, struct err *e)
{
    zip_file_t *f = zip_fopen_index(a->zip, m->at, ZIP_FL_COMPRESSED);
    if (!f)
        return zip_fault(a, zip_get_error(a->zip), e);
    char *packed = mem_alloc((size_t)st->comp_size + 1, 1);
    zip_int64_t got = zip_fread(f, packed, st->comp_size);
    int rc = got < 0 ? zip_fault(a, zip_file_get_error(f), e) : 0;
    if (!rc && ZSTD_decompress(buf, (size_t)m->size, packed, (size_t)got) != m->size)
        rc = fault(e, "E_DECOMPRESS", "%s: member \"%s\" is damaged", a->path, m->name);
    if (!rc && crc32_z(0, (const Bytef *)buf, (size_t)m->size) != st->crc)
        rc = fault(e, "E_CHECKSUM", "%s: member \"%s\" has a wrong checksum", a->path, m->name);
    free(packed);
    zip_fclose(f);
    return rc;
}

static int read_zip(struct archive *a, const struct member *m, char *buf, struct err *e)
{
    enum { METHOD_ZSTD = 93 };
    zip_stat_t st;
    if (!zip_stat_index(a->zip, m->at, 0, &st) && (st.valid & ZIP_STAT_COMP_METHOD) && st.comp_method == METHOD_ZSTD)
        return read_zip_zstd(a, m, &st, buf, e);
    zip_file_t *f = zip_fopen_index(a->zip, m->at, 0);
    if (!f)
        return zip_fault(a, zip_get_error(a->zip), e);
    uint64_t have = 0;
    zip_int64_t got = 0;
    while (have < m->size && (got = zip_fread(f, buf + have, m->size - have)) > 0)
        have += (uint64_t)got;
    char more;
    int rc = 0;
    if (got >= 0 && have == m->size)
        got = zip_fread(f, &more, 1);           /* the CRC is compared where the data end */
    if (got < 0)
        rc = zip_fault(a, zip_file_get_error(f), e);
    else if (have < m->size || got > 0)
        rc = fault(e, "E_ARCHIVE", "%s: member \"%s\" is not %llu bytes long", a->path, m->name,
                   (unsigned long long)m->size);
    zip_fclose(f);
    return rc;
}

/* ---- the one interface ------------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static int list_file(struct archive *a, struct err *e)
{
    if (map_open(&a->map, a->path, e))
        return -1;
    const uint8_t *p = a->map.data;
    size_t n = a->map.size;
    bool zip_magic = n >= 4 && memcmp(p, "PK", 2) == 0 && (p[2] == 3 || p[2] == 5);
    bool gzip_magic = n >= 2 && p[0] == 0x1f && p[1] == 0x8b;
    bool tar_magic = n >= 262 && memcmp(p + 257, "ustar", 5) == 0;
    if (ends_with(a->path, ".zip") || zip_magic) {
        a->form = FORM_ZIP;
        map_close(&a->map);
        return list_zip(a, e);
    }
    if (ends_with(a->path, ".tar.gz") || ends_with(a->path, ".tgz") || gzip_magic) {
        a->form = FORM_TAR_GZ;
        a->gz = gzip_open(p, n, a->path);
        return list_tar(a, e);
    }
    if (ends_with(a->path, ".tar") || tar_magic) {
        a->form = FORM_TAR;
        return list_tar(a, e);
    }
    a->form = FORM_FILE;
    const char *base = path_base(a->path);
    map_close(&a->map);
    struct stat st;
    if (stat(a->path, &st))
        return err_machine(e, "%s", a->path);
    return add_member(a, base, strlen(base), (uint64_t)st.st_size, 0, e);
}

int archive_open(struct archive **out, const char *path, struct err *e)
{
    struct archive *a = NEW(struct archive, 1);
    a->owners = 1;
    a->path = mem_strdup(path);
    size_t len = strlen(a->path);
    while (len > 1 && a->path[len - 1] == '/')
        a->path[--len] = '\0';
    int rc;
    if (path_is_dir(a->path)) {
        a->form = FORM_FOLDER;
        rc = list_folder(a, a->path, "", NULL, e);
    } else {
        rc = list_file(a, e);
    }
    if (!rc)
        rc = sort_members(a, e);
    if (rc) {
        archive_close(a);
        a = NULL;
    }
    *out = a;
    return rc;
}

struct archive *archive_share(struct archive *a)
{
    a->owners++;
    return a;
}

void archive_close(struct archive *a)
{
    if (!a || --a->owners > 0)
        return;
    if (a->zip)
        zip_discard(a->zip);
    gzip_close(a->gz);
    map_close(&a->map);
    arena_free(&a->arena);
    free(a->members);
    free(a->path);
    free(a);
}

const char *archive_path(const struct archive *a) { return a->path; }
bool archive_is_folder(const struct archive *a) { return a->form == FORM_FOLDER; }
const char *archive_warning(const struct archive *a) { return a->warning; }
size_t archive_count(const struct archive *a) { return a->n; }
const struct member *archive_member(const struct archive *a, size_t i) { return &a->members[i]; }

const char *archive_form(const struct archive *a)
{
    static const char *const names[] = {"folder", "file", "tar", "tar.gz", "zip"};
    return names[a->form];
}

const struct member *archive_find(const struct archive *a, const char *name)
{
    struct member key = {.name = name};
    return a->n ? bsearch(&key, a->members, a->n, sizeof *a->members, by_name) : NULL;
}

int member_read(struct archive *a, const struct member *m, size_t max, struct blob *out, struct err *e)
{
    *out = (struct blob){0};
    bool on_disk = a->form == FORM_FOLDER || a->form == FORM_FILE;
    if (m->size > max && !on_disk)
        return fault(e, "E_TOO_LARGE", "%s: member \"%s\" has %llu bytes, at most %zu are read", a->path, m->name,
                     (unsigned long long)m->size, max);
    if (on_disk) {
        char *path = a->form == FORM_FILE ? mem_strdup(a->path) : path_join(a->path, m->name);
        int rc = map_open(&out->map, path, e);
        free(path);
        if (rc)
            return -1;
        out->data = (const char *)out->map.data;
        out->size = out->map.size;
        return 0;
    }
    if (a->form == FORM_TAR) {
        out->data = (const char *)a->map.data + m->at;
        out->size = (size_t)m->size;
        out->borrowed = true;
        return 0;
    }
    out->own = mem_alloc((size_t)m->size + 1, 1);
    out->data = out->own;
    out->size = (size_t)m->size;
    int rc = 0;
    if (a->form == FORM_ZIP) {
        rc = read_zip(a, m, out->own, e);
    } else {
        int64_t got = gzip_read(a->gz, m->at, out->own, out->size, e);
        if (got >= 0 && (size_t)got < out->size)
            rc = fault(e, "E_TRUNCATED", "%s: member \"%s\" is cut", a->path, m->name);
        rc = got < 0 ? -1 : rc;
    }
    if (rc)
        blob_free(out);
    return rc;
}
