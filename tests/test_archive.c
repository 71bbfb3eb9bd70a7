/* Archives: random access into tar.gz across restart points and stream borders, names, tar's extensions. */
#define _GNU_SOURCE
#include "engine/base_archive.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum { MEMBERS = 24 };

/* Compressible, but different everywhere. */
static void fill(uint8_t *p, size_t n, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)("abcdefgh"[x >> 29] ^ (i % 977 == 0 ? x >> 16 : 0));
    }
}

static size_t size_of(int i) { return (size_t)(i % 5) * 700001 + (size_t)i * 12345 + 1; }

static void put_header(struct text *t, const char *name, size_t size, char type)
{
    unsigned char h[512] = {0};
    unsigned sum = 0;
    snprintf((char *)h, 100, "%s", name);
    snprintf((char *)h + 100, 8, "0000644");
    snprintf((char *)h + 124, 12, "%011zo", size);
    memset(h + 148, ' ', 8);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
    text_put(t, h, 512);
}

static void put_member(struct text *t, const char *name, const void *bytes, size_t n, char type)
{
    static const char zeros[512];
    put_header(t, name, n, type);
    text_put(t, bytes, n);
    text_put(t, zeros, (512 - n % 512) % 512);
}

static void make_tar(struct text *t)
{
    static const char zeros[1024];
    for (int i = 0; i < MEMBERS; i++) {
        char name[64];
        size_t n = size_of(i);
        uint8_t *bytes = mem_alloc(n, 1);
        snprintf(name, sizeof name, "set/part%02d/m%02d.bin", i % 3, i);
        fill(bytes, n, (uint32_t)i);
        put_member(t, name, bytes, n, '0');
        free(bytes);
    }
    text_put(t, zeros, sizeof zeros);
}

static void write_gz(const char *path, const char *data, size_t n, const char *mode)
{
    gzFile f = gzopen(path, mode);
    CHECK(f != NULL);
    for (size_t at = 0; at < n; at += 1 << 20)
        CHECK(gzwrite(f, data + at, (unsigned)(n - at < 1 << 20 ? n - at : 1 << 20)) > 0);
    gzclose(f);
}

static void check_members(const char *path)
{
    struct archive *a;
    struct err e = {0};
    if (!CHECK_MSG(archive_open(&a, path, &e) == 0, "%s", e.msg))
        return;
    CHECK(archive_count(a) == MEMBERS);
    /* a permutation that jumps back and forth */
    for (int k = 0; k < 2 * MEMBERS; k++) {
        int i = (k * 17 + 5) % MEMBERS;
        char name[64];
        struct blob b;
        snprintf(name, sizeof name, "set/part%02d/m%02d.bin", i % 3, i);
        const struct member *m = archive_find(a, name);
        if (!CHECK_MSG(m != NULL, "%s", name) || !CHECK(member_read(a, m, 1 << 24, &b, &e) == 0))
            continue;
        size_t n = size_of(i);
        uint8_t *want = mem_alloc(n, 1);
        fill(want, n, (uint32_t)i);
        CHECK_MSG(b.size == n && memcmp(b.data, want, n) == 0, "%s differs", name);
        free(want);
        blob_free(&b);
    }
    archive_close(a);
}

static void random_access(void)
{
    char path[] = "/tmp/handoff-archive-XXXXXX.tar.gz";
    struct text tar = {0};
    struct err e = {0};
    close(mkstemps(path, 7));
    make_tar(&tar);
    CHECK(tar.len > (size_t)32 << 20);
    write_gz(path, tar.data, tar.len, "wb1");
    check_members(path);
    /* the same stream as three gzip members behind one another */
    write_gz(path, tar.data, 1000003, "wb1");
    write_gz(path, tar.data + 1000003, 20000000, "ab1");
    write_gz(path, tar.data + 21000003, tar.len - 21000003, "ab1");
    check_members(path);
    path[strlen(path) - 3] = '\0';
    CHECK(file_write_atomic(path, tar.data, tar.len, &e) == 0);
    check_members(path);
    unlink(path);
    path[strlen(path)] = '.';
    unlink(path);
    text_free(&tar);
}

static void long_names(void)
{
    char path[] = "/tmp/handoff-archive-XXXXXX.tar", gnu[301], pax[512], record[600];
    struct text t = {0};
    struct err e = {0};
    struct archive *a;
    close(mkstemps(path, 4));
    memset(gnu, 'g', 300);
    gnu[300] = '\0';
    memcpy(pax, "p/", 2);
    memset(pax + 2, 'x', 200);
    pax[202] = '\0';
    put_member(&t, "././@LongLink", gnu, 301, 'L');
    put_member(&t, "short", "one", 3, '0');
    snprintf(record, sizeof record, "212 path=%s\n", pax);
    put_member(&t, "PaxHeader", record, strlen(record), 'x');
    put_member(&t, "short", "two!", 4, '0');
    put_member(&t, "./._litter", "x", 1, '0');
    CHECK(file_write_atomic(path, t.data, t.len, &e) == 0);
    if (CHECK_MSG(archive_open(&a, path, &e) == 0, "%s", e.msg)) {
        CHECK(archive_count(a) == 2);
        CHECK(archive_find(a, gnu) && archive_find(a, gnu)->size == 3);
        CHECK(archive_find(a, pax) && archive_find(a, pax)->size == 4);
        CHECK(*archive_warning(a));                     /* no closing blocks */
        archive_close(a);
    }
    unlink(path);
    text_free(&t);
}

static void folder_loop(void)
{
    char dir[] = "/tmp/handoff-folder-XXXXXX", path[64], loop[64];
    struct archive *a;
    struct err e = {0};
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/b.txt", dir);
    snprintf(loop, sizeof loop, "%s/again", dir);
    CHECK(file_write_atomic(path, "x", 1, &e) == 0 && symlink(".", loop) == 0);
    if (CHECK_MSG(archive_open(&a, dir, &e) == 0, "%s", e.msg)) {
        CHECK(archive_count(a) == 1 && archive_find(a, "b.txt") != NULL);
        archive_close(a);
    }
    unlink(path);
    unlink(loop);
    rmdir(dir);
}

static void safe_names(void)
{
    CHECK(name_is_safe("a") && name_is_safe("a/b.c") && name_is_safe("..a/b..") && name_is_safe("./a"));
    CHECK(!name_is_safe("") && !name_is_safe("/a") && !name_is_safe("..") && !name_is_safe("a/../b") &&
          !name_is_safe("a/..") && !name_is_safe("a\\b") && !name_is_safe("C:/a"));
}

int main(void)
{
    RUN(random_access);
    RUN(long_names);
    RUN(folder_loop);
    RUN(safe_names);
    return test_report();
}
