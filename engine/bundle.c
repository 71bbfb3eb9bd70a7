/* bundle.c - folders, zip by libzip, tar and gzip by zlib. Formats of tar: POSIX ustar and pax, GNU long names. */
#define _GNU_SOURCE                     /* opendir, strnlen */
#include "engine/bundle.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

enum { MAX_FILES = 1 << 16, MAX_NAME = 4096, MAX_GROWTH = 200, BLOCK = 512 };

struct file {
    char *name;
    struct mapped content;      /* path NULL: not read yet */
    uint64_t at, size;          /* index in the zip, or offset in the tar */
    uint8_t *own;               /* unpacked; content is mapped or lies within the tar otherwise */
};

enum form { FOLDER, ZIP, TAR };
struct bundle {
    enum form form;
    char *path;
    struct file *file;          /* sorted by name */
    size_t n, cap;
    zip_t *zip;
    struct mapped archive;      /* a tar, maybe compressed */
    uint8_t *unpacked;          /* of a compressed tar */
    const uint8_t *tar;
    uint64_t tar_size;
};

bool bundle_is_archive(const struct mapped *m)
{
    const uint8_t *p = m->data;
    return m->size > 4 && (memcmp(p, "PK\3\4", 4) == 0 || memcmp(p, "\x1f\x8b\x08", 3) == 0 ||
                           (m->size >= BLOCK && memcmp(p + 257, "ustar", 5) == 0));
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

static int add_file(struct bundle *b, const char *name, size_t len, uint64_t at, uint64_t size, struct err *e)
{
    if (b->n == MAX_FILES)
        return err_input(e, "%s: at most %d files were expected", b->path, MAX_FILES);
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 256;
        b->file = mem_grow(b->file, b->cap, sizeof *b->file);
    }
    b->file[b->n++] = (struct file){.name = mem_strndup(name, len), .at = at, .size = size};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

/* Takes off the one folder that all members lie in, if they do, then drops what still lies in a folder. */
static int finish_list(struct bundle *b, struct err *e)
{
    size_t kept = 0, top = 0;
    for (size_t i = 0; i < b->n; i++) {
        while (strncmp(b->file[i].name, "./", 2) == 0)
            memmove(b->file[i].name, b->file[i].name + 2, strlen(b->file[i].name) - 1);
        const char *slash = strchr(b->file[i].name, '/');
        const size_t len = slash ? (size_t)(slash - b->file[i].name) + 1 : 0;
        if (i == 0)
            top = len;
        else if (len != top || strncmp(b->file[i].name, b->file[0].name, top) != 0)
            top = 0;
    }
    for (size_t i = 0; i < b->n; i++) {
        struct file f = b->file[i];
        memmove(f.name, f.name + top, strlen(f.name) - top + 1);
        if (!*f.name || f.name[0] == '.' || strpbrk(f.name, "/\\"))
            free(f.name);
        else
            b->file[kept++] = f;
    }
    b->n = kept;
    if (b->n)
        qsort(b->file, b->n, sizeof *b->file, by_name);
    for (size_t i = 1; i < b->n; i++)
        if (strcmp(b->file[i - 1].name, b->file[i].name) == 0)
            return err_input(e, "%s: %s: it is there twice", b->path, b->file[i].name);
    return 0;
}

static int check_growth(const struct bundle *b, uint64_t unpacked, uint64_t packed, struct err *e)
{
    if (unpacked / MAX_GROWTH > packed + 4096)
        return err_input(e, "%s: members of at most %d times its %llu bytes were expected", b->path, MAX_GROWTH,
                         (unsigned long long)packed);
    return 0;
}

/* ---- folder ---------------------------------------------------------------------------------------------------- */

static int list_folder(struct bundle *b, struct err *e)
{
    DIR *dir = opendir(b->path);
    int bad = 0;
    if (!dir)
        return err_machine(e, "%s: cannot be listed", b->path);
    for (const struct dirent *entry; !bad && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            bad = add_file(b, entry->d_name, strlen(entry->d_name), 0, 0, e);
    closedir(dir);
    if (b->n)
        qsort(b->file, b->n, sizeof *b->file, by_name);
    return bad;
}

/* ---- zip ------------------------------------------------------------------------------------------------------- */

static int list_zip(struct bundle *b, struct err *e)
{
    int code;
    uint64_t all = 0;
    b->zip = zip_open(b->path, ZIP_RDONLY, &code);
    if (!b->zip)
        return err_input(e, "%s: a whole zip archive was expected (libzip: error %d)", b->path, code);
    const zip_int64_t n = zip_get_num_entries(b->zip, 0);
    for (zip_int64_t i = 0; i < n; i++) {
        zip_stat_t st;
        if (zip_stat_index(b->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW, &st) || !(st.valid & ZIP_STAT_NAME) ||
            !(st.valid & ZIP_STAT_SIZE))
            return err_input(e, "%s: member %lld: a name and a size were expected", b->path, (long long)i);
        const size_t len = strnlen(st.name, MAX_NAME);
        if (len == 0 || len == MAX_NAME || st.size > INT64_MAX - all)
            return err_input(e, "%s: member %lld: its name or size is too long", b->path, (long long)i);
        all += st.size;
        if (st.name[len - 1] != '/' && add_file(b, st.name, len, (uint64_t)i, st.size, e))
            return -1;
    }
    return check_growth(b, all, b->archive.size, e);
}

static int read_zip(struct bundle *b, struct file *f, struct err *e)
{
    zip_file_t *z = zip_fopen_index(b->zip, f->at, 0);
    if (!z)
        return err_input(e, "%s: %s: it cannot be unpacked (%s)", b->path, f->name, zip_strerror(b->zip));
    f->own = mem_alloc((size_t)f->size + 1, 1);
    uint64_t done = 0;
    zip_int64_t got = 1;                /* one byte more than it should have, so that its checksum is looked at */
    while (done <= f->size && (got = zip_fread(z, f->own + done, f->size + 1 - done)) > 0)
        done += (uint64_t)got;
    const bool bad = got < 0 || done != f->size;
    if (bad)
        err_input(e, "%s: %s: %llu undamaged bytes were expected", b->path, f->name, (unsigned long long)f->size);
    zip_fclose(z);
    if (bad) {
        free(f->own);
        f->own = NULL;
    }
    return bad ? -1 : 0;
}

/* ---- tar ------------------------------------------------------------------------------------------------------- */

/* Unpacks the whole stream; its members may follow each other as several gzip members. */
static int unpack_gzip(struct bundle *b, struct err *e)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)b->archive.data};
    size_t cap = b->archive.size < ((size_t)1 << 20) ? (size_t)1 << 20 : b->archive.size * 2, size = 0;
    size_t left = b->archive.size;
    int state = Z_OK;
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return err_machine(e, "%s: zlib cannot start", b->path);
    b->unpacked = mem_grow(NULL, cap, 1);
    while (state == Z_OK) {
        if (size == cap && !check_growth(b, cap, b->archive.size, NULL))
            b->unpacked = mem_grow(b->unpacked, cap *= 2, 1);
        if (z.avail_in == 0) {
            z.avail_in = left < INT_MAX ? (uInt)left : INT_MAX;
            left -= z.avail_in;
        }
        const size_t room = cap - size < INT_MAX ? cap - size : INT_MAX;
        z.next_out = b->unpacked + size;
        z.avail_out = (uInt)room;
        state = inflate(&z, Z_NO_FLUSH);
        size += room - z.avail_out;
        if (state == Z_STREAM_END && (z.avail_in || left))
            state = inflateReset(&z);
    }
    inflateEnd(&z);
    b->tar = b->unpacked;
    b->tar_size = size;
    if (check_growth(b, size, b->archive.size, e))
        return -1;
    return state == Z_STREAM_END ? 0 : err_input(e, "%s: a whole gzip stream was expected, it is damaged behind %zu "
                                                 "unpacked bytes", b->path, size);
}

/* Octal digits, or a big-endian number behind a first byte of 0x80. UINT64_MAX: neither. */
static uint64_t tar_number(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    size_t i = 0;
    if (p[0] == 0x80) {
        for (i = 1; i < n; i++)
            v = v > UINT64_MAX >> 9 ? UINT64_MAX >> 9 : v << 8 | p[i];
        return v;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    return i < n && p[i] != '\0' && p[i] != ' ' ? UINT64_MAX : v;
}

static bool tar_checksum_ok(const uint8_t *h)
{
    uint64_t sum = 8 * ' ';
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? 0 : h[i];
    return tar_number(h + 148, 8) == sum;
}

/* The records of a pax header, "27 path=a/b\n", that matter here. */
static void read_pax(const uint8_t *p, uint64_t n, struct text *name, uint64_t *size)
{
    while (n) {
        uint64_t len = 0, i = 0;
        for (; i < n && i < 9 && p[i] >= '0' && p[i] <= '9'; i++)
            len = len * 10 + (uint64_t)(p[i] - '0');
        if (len <= i + 1 || len > n || p[i] != ' ' || p[len - 1] != '\n')
            return;
        const char *key = (const char *)p + i + 1;
        const uint64_t rest = len - i - 2;      /* without the newline */
        if (rest > 5 && rest < MAX_NAME && memcmp(key, "path=", 5) == 0) {
            text_clear(name);
            text_put(name, key + 5, (size_t)rest - 5);
        }
        if (rest > 5 && rest < 24 && memcmp(key, "size=", 5) == 0) {
            *size = 0;
            for (const char *d = key + 5; d < key + rest; d++)
                *size = *d < '0' || *d > '9' || *size > UINT64_MAX / 16 ? UINT64_MAX
                                                                        : *size * 10 + (uint64_t)(*d - '0');
        }
        p += len;
        n -= len;
    }
}

static void tar_name(const uint8_t *h, struct text *name)
{
    const size_t prefix = memcmp(h + 257, "ustar", 6) == 0 ? strnlen((const char *)h + 345, 155) : 0;
    text_clear(name);
    if (prefix) {
        text_put(name, h + 345, prefix);
        text_putc(name, '/');
    }
    text_put(name, h, strnlen((const char *)h, 100));
}

static int list_tar(struct bundle *b, struct err *e)
{
    struct text name = {0}, own_name = {0};
    uint64_t at = 0, own_size = UINT64_MAX;
    int bad = 0;
    while (!bad && b->tar_size - at >= BLOCK && b->tar[at]) {
        const uint8_t *h = b->tar + at;
        const uint8_t type = h[156];
        const bool about_next = type == 'x' || type == 'L';
        const uint64_t size = about_next || own_size == UINT64_MAX ? tar_number(h + 124, 12) : own_size;
        const uint64_t begin = at + BLOCK, room = b->tar_size - begin;
        if (!tar_checksum_ok(h) || size > room) {
            bad = err_input(e, "%s: a whole tar archive was expected, it is damaged at offset %llu", b->path,
                            (unsigned long long)at);
            break;
        }
        if (type == 'x') {
            read_pax(b->tar + begin, size, &own_name, &own_size);
        } else if (type == 'L') {
            text_clear(&own_name);
            text_put(&own_name, b->tar + begin, strnlen((const char *)b->tar + begin, size < MAX_NAME ? size
                                                                                                    : MAX_NAME));
        } else {
            tar_name(h, &name);
            const struct text *full = own_name.len ? &own_name : &name;
            if ((type == '0' || type == '\0') && full->len && strnlen(full->data, full->len) == full->len)
                bad = add_file(b, full->data, full->len, begin, size, e);
            text_clear(&own_name);
            own_size = UINT64_MAX;
        }
        const uint64_t padded = size + (BLOCK - size % BLOCK) % BLOCK;
        at = padded > room ? b->tar_size : begin + padded;
    }
    text_free(&name);
    text_free(&own_name);
    return bad;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static int open_archive(struct bundle *b, struct err *e)
{
    if (map_open(&b->archive, b->path, e))
        return -1;
    const struct mapped *m = &b->archive;
    if (!bundle_is_archive(m))
        return err_input(e, "%s: a folder, or a .zip, .tar or .tar.gz archive, was expected", b->path);
    if (m->data[0] == 'P') {
        b->form = ZIP;
        return list_zip(b, e) || finish_list(b, e);
    }
    b->form = TAR;
    b->tar = m->data;
    b->tar_size = m->size;
    return (m->data[0] == 0x1f && unpack_gzip(b, e)) || list_tar(b, e) || finish_list(b, e);
}

int bundle_open(struct bundle **out, const char *path, struct err *e)
{
    struct bundle *b = NEW(struct bundle, 1);
    b->path = mem_strdup(path);
    const int bad = path_is_dir(path) ? list_folder(b, e) : open_archive(b, e);
    if (bad) {
        bundle_close(b);
        b = NULL;
    }
    *out = b;
    return bad ? -1 : 0;
}

void bundle_close(struct bundle *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++) {
        struct file *f = &b->file[i];
        if (b->form == FOLDER)
            map_close(&f->content);
        else
            free(f->content.path);
        free(f->own);
        free(f->name);
    }
    free(b->file);
    if (b->zip)
        zip_discard(b->zip);
    map_close(&b->archive);
    free(b->unpacked);
    free(b->path);
    free(b);
}

const char *bundle_path(const struct bundle *b)
{
    return b->path;
}

size_t bundle_count(const struct bundle *b)
{
    return b->n;
}

const char *bundle_name(const struct bundle *b, size_t i)
{
    return b->file[i].name;
}

static struct file *find(const struct bundle *b, const char *name)
{
    const struct file key = {.name = (char *)(uintptr_t)name};
    return b->n ? bsearch(&key, b->file, b->n, sizeof key, by_name) : NULL;
}

bool bundle_has(const struct bundle *b, const char *name)
{
    return find(b, name) != NULL;
}

const struct mapped *bundle_file(struct bundle *b, const char *name, struct err *e)
{
    struct file *f = find(b, name);
    if (f->content.path)
        return &f->content;
    char *path = path_join(b->path, name);
    int bad = 0;
    if (b->form == FOLDER) {
        bad = map_open(&f->content, path, e);
        free(path);
    } else if (!(bad = b->form == ZIP && !f->own ? read_zip(b, f, e) : 0)) {
        f->content = (struct mapped){.data = b->form == ZIP ? f->own : b->tar + f->at, .size = (size_t)f->size,
                                     .path = path};
    } else {
        free(path);
    }
    return bad ? NULL : &f->content;
}
