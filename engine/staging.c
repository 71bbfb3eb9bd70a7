/* staging.c - a temporary folder that is renamed at the end. A full disk shows in a write, or at the latest in
 * fsync. */
#define _GNU_SOURCE                     /* pwrite, opendir */
#include "engine/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int staging_open(struct staging *s, const char *path, struct err *e)
{
    struct text name = {0}, temporary = {0};
    *s = (struct staging){0};
    text_puts(&name, path);
    while (name.len > 1 && name.data[name.len - 1] == '/')
        name.data[--name.len] = '\0';
    struct stat st;
    if (lstat(name.data, &st) == 0) {
        err_set(e, EXIT_USAGE, "%s: it exists already; a new folder was expected", path);
        text_free(&name);
        return -1;
    }
    text_printf(&temporary, "%s.tmp.%ld", name.data, (long)getpid());
    const int bad = mkdir(temporary.data, 0777) ? err_machine(e, "%s: cannot be made", temporary.data) : 0;
    s->path = text_take(&name);
    s->temporary = text_take(&temporary);
    if (bad) {
        free(s->path);
        free(s->temporary);
        *s = (struct staging){0};
    }
    return bad;
}

int staging_write(const struct staging *s, const char *name, const void *data, size_t n, struct err *e)
{
    char *path = path_join(s->temporary, name);
    const int bad = file_write_atomic(path, data, n, e);
    free(path);
    return bad;
}

void staging_abandon(struct staging *s)
{
    DIR *dir = s->temporary ? opendir(s->temporary) : NULL;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    if (s->temporary)
        rmdir(s->temporary);
    free(s->path);
    free(s->temporary);
    *s = (struct staging){0};
}

int staging_finish(struct staging *s, struct err *e)
{
    const int fd = open(s->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd >= 0 && fsync(fd) == 0 && rename(s->temporary, s->path) == 0;
    if (!ok)
        err_machine(e, "%s: cannot be written", s->path);
    if (fd >= 0)
        close(fd);
    if (!ok) {
        staging_abandon(s);
        return -1;
    }
    free(s->path);
    free(s->temporary);
    *s = (struct staging){0};
    return 0;
}

int staged_open(struct staged_file *f, const struct staging *s, const char *name, struct err *e)
{
    f->path = path_join(s->temporary, name);
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd >= 0)
        return 0;
    err_machine(e, "%s: cannot be written", f->path);
    free(f->path);
    f->path = NULL;
    return -1;
}

int staged_put(const struct staged_file *f, uint64_t at, const void *data, size_t n, struct err *e)
{
    const char *p = data;
    while (n) {
        const ssize_t done = pwrite(f->fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_machine(e, "%s: cannot be written", f->path);
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

int staged_close(struct staged_file *f, struct err *e)
{
    if (!f->path)
        return 0;
    int bad = fsync(f->fd) ? err_machine(e, "%s: cannot be written", f->path) : 0;
    if (close(f->fd) && !bad)
        bad = err_machine(e, "%s: cannot be written", f->path);
    free(f->path);
    f->path = NULL;
    return bad;
}
