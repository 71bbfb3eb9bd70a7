/* base.c - errors, memory, text and files. JSON is in json.c, SHA-256 in sha256.c. */
#define _GNU_SOURCE
#include "engine/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- errors ---------------------------------------------------------------------------------------------------- */

static void clean_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

static int err_vset(struct err *e, enum exit_status code, const char *fmt, va_list ap)
{
    if (e) {
        e->code = code;
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        clean_line(e->msg);
    }
    return -1;
}

int err_set(struct err *e, enum exit_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_vset(e, code, fmt, ap);
    va_end(ap);
    return -1;
}

int err_input(struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_vset(e, EXIT_BAD_INPUT, fmt, ap);
    va_end(ap);
    return -1;
}

int err_machine(struct err *e, const char *fmt, ...)
{
    const char *reason = strerror(errno);
    va_list ap;
    va_start(ap, fmt);
    err_vset(e, EXIT_MACHINE, fmt, ap);
    va_end(ap);
    if (e) {
        size_t used = strlen(e->msg);
        snprintf(e->msg + used, sizeof e->msg - used, ": %s", reason);
    }
    return -1;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static _Noreturn void out_of_memory(size_t n, size_t size)
{
    fprintf(stderr, "handoff: out of memory (%zu x %zu bytes asked for); what was written is kept\n", n, size);
    exit(EXIT_MACHINE);
}

void *mem_alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        out_of_memory(n, size);
    return p;
}

void *mem_grow(void *p, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        out_of_memory(n, size);
    size_t bytes = n * size;
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        out_of_memory(n, size);
    return p;
}

char *mem_strndup(const char *s, size_t len)
{
    char *copy = mem_alloc(len + 1, 1);
    if (len)
        memcpy(copy, s, len);
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

enum { ARENA_BLOCK = 64 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t used, cap;
    _Alignas(max_align_t) unsigned char bytes[];
};

void *arena_alloc(struct arena *a, size_t n, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    if (size && n > (SIZE_MAX - 2 * align) / size)
        out_of_memory(n, size);
    size_t want = (n * size + align - 1) / align * align;
    struct arena_block *b = a->head;
    if (!b || b->cap - b->used < want) {
        size_t cap = want > ARENA_BLOCK ? want : ARENA_BLOCK;
        b = mem_alloc(1, sizeof *b + cap);
        b->cap = cap;
        b->next = a->head;
        a->head = b;
    }
    void *p = b->bytes + b->used;
    b->used += want;
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *copy = arena_alloc(a, len + 1, 1);
    if (len)
        memcpy(copy, s, len);
    return copy;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    struct text t = {0};
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(&t, fmt, ap);
    va_end(ap);
    char *copy = arena_strndup(a, t.data, t.len);
    text_free(&t);
    return copy;
}

void arena_free(struct arena *a)
{
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

static void text_reserve(struct text *t, size_t more)
{
    if (more > SIZE_MAX / 2 - t->len)
        out_of_memory(more, 1);
    size_t need = t->len + more + 1;
    if (need <= t->cap)
        return;
    size_t cap = t->cap ? t->cap : 64;
    while (cap < need)
        cap += cap / 2;
    t->data = mem_grow(t->data, cap, 1);
    t->cap = cap;
}

void text_put(struct text *t, const void *bytes, size_t n)
{
    text_reserve(t, n);
    if (n)
        memcpy(t->data + t->len, bytes, n);
    t->len += n;
    t->data[t->len] = '\0';
}

void text_puts(struct text *t, const char *s)
{
    text_put(t, s, strlen(s));
}

void text_putc(struct text *t, int c)
{
    char byte = (char)c;
    text_put(t, &byte, 1);
}

void text_vprintf(struct text *t, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    text_reserve(t, n > 0 ? (size_t)n : 0);
    if (n > 0) {
        vsnprintf(t->data + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    t->data[t->len] = '\0';
    va_end(again);
}

void text_printf(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(t, fmt, ap);
    va_end(ap);
}

void text_clear(struct text *t)
{
    t->len = 0;
    if (t->data)
        t->data[0] = '\0';
}

void text_free(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}

char *text_take(struct text *t)
{
    text_reserve(t, 0);
    char *s = t->data;
    s[t->len] = '\0';
    *t = (struct text){0};
    return s;
}

int utf8_decode(const char *s, size_t len, uint32_t *codepoint)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (!len)
        return 0;
    unsigned char lead = (unsigned char)s[0];
    int n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (n == 0 || (size_t)n > len)
        return 0;
    uint32_t c = n == 1 ? lead : lead & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        unsigned char next = (unsigned char)s[i];
        if ((next & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (next & 0x3fu);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    if (codepoint)
        *codepoint = c;
    return n;
}

int utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> n) & 0xff) | (char)c;
    return n;
}

bool utf8_valid(const char *s, size_t len, size_t *bad_at)
{
    size_t i = 0;
    while (i < len) {
        int n = (unsigned char)s[i] < 0x80 ? 1 : utf8_decode(s + i, len - i, NULL);
        if (n == 0) {
            if (bad_at)
                *bad_at = i;
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

void text_put_double(struct text *t, double v)
{
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, v);
        if (strtod(digits, NULL) == v)
            break;
    }
    text_puts(t, digits);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static int open_regular(const char *path, struct stat *st, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? err_input(e, "%s: no such file", path)
                               : err_input(e, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(fd);
        return err_input(e, "%s: a regular file was expected", path);
    }
    return fd;
}

int map_open(struct mapped *m, const char *path, struct err *e)
{
    *m = (struct mapped){0};
    struct stat st;
    int fd = open_regular(path, &st, e);
    if (fd < 0)
        return -1;
    static const uint8_t nothing[1];
    m->data = nothing;
    if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            err_machine(e, "%s: cannot be mapped", path);
            close(fd);
            *m = (struct mapped){0};
            return -1;
        }
        m->data = p;
    }
    close(fd);
    m->size = (size_t)st.st_size;
    m->path = mem_strdup(path);
    return 0;
}

void map_close(struct mapped *m)
{
    if (m->size)
        munmap((void *)(uintptr_t)m->data, m->size);
    free(m->path);
    *m = (struct mapped){0};
}

int file_read(const char *path, size_t max_bytes, struct text *out, struct err *e)
{
    struct stat st;
    int fd = open_regular(path, &st, e);
    if (fd < 0)
        return -1;
    if ((uint64_t)st.st_size > max_bytes) {
        close(fd);
        return err_input(e, "%s: %lld bytes, at most %zu were expected", path, (long long)st.st_size, max_bytes);
    }
    text_clear(out);
    text_reserve(out, (size_t)st.st_size);
    ssize_t n = 0;
    while (out->len < (size_t)st.st_size &&
           (n = read(fd, out->data + out->len, (size_t)st.st_size - out->len)) > 0)
        out->len += (size_t)n;
    out->data[out->len] = '\0';
    close(fd);
    return n < 0 ? err_machine(e, "%s: cannot be read", path) : 0;
}

int line_read(FILE *f, struct text *line, size_t max_bytes, const char *where, struct err *e)
{
    int c = EOF;
    text_clear(line);
    text_put(line, "", 0);
    while ((c = getc_unlocked(f)) != EOF && c != '\n') {
        if (line->len == max_bytes)
            return err_input(e, "%s: line of more than %zu bytes", where, max_bytes);
        text_putc(line, c);
    }
    if (ferror(f))
        return err_machine(e, "%s: cannot be read", where);
    return c == '\n' || line->len > 0;
}

static int write_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t done = write(fd, data, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        data += done;
        n -= (size_t)done;
    }
    return 0;
}

/* A device, a pipe or a socket cannot be replaced: the bytes go into it, and there is no temporary name. What a link
 * points to is replaced, not the link. */
int file_out_open(struct file_out *f, const char *path, struct err *e)
{
    struct stat st;
    struct text temporary = {0};
    const bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    char *behind_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
    *f = (struct file_out){.path = behind_link ? behind_link : mem_strdup(path)};
    if (special) {
        f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } else {
        text_printf(&temporary, "%s.tmp.%ld", f->path, (long)getpid());
        f->temporary = text_take(&temporary);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (f->fd >= 0)
        return 0;
    err_machine(e, "%s: cannot be written", path);
    free(f->path);
    free(f->temporary);
    *f = (struct file_out){0};
    return -1;
}

int file_out_put(const struct file_out *f, const void *data, size_t n, struct err *e)
{
    return write_all(f->fd, data, n) ? err_machine(e, "%s: cannot be written", f->path) : 0;
}

void file_out_drop(struct file_out *f)
{
    if (!f->path)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->temporary)
        unlink(f->temporary);
    free(f->path);
    free(f->temporary);
    *f = (struct file_out){0};
}

int file_out_finish(struct file_out *f, struct err *e)
{
    bool ok = !f->temporary || fsync(f->fd) == 0;
    if (close(f->fd) != 0)
        ok = false;
    f->fd = -1;
    ok = ok && (!f->temporary || rename(f->temporary, f->path) == 0);
    if (!ok)
        err_machine(e, "%s: cannot be written", f->path);
    file_out_drop(f);           /* nothing has the temporary name any more, unless this failed */
    return ok ? 0 : -1;
}

int file_write_atomic(const char *path, const void *data, size_t n, struct err *e)
{
    struct file_out f;
    if (file_out_open(&f, path, e))
        return -1;
    if (file_out_put(&f, data, n, e)) {
        file_out_drop(&f);
        return -1;
    }
    return file_out_finish(&f, e);
}

bool file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

bool path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *path_join(const char *dir, const char *name)
{
    struct text t = {0};
    size_t n = strlen(dir);
    text_printf(&t, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return text_take(&t);
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

double clock_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}
