/* staging.c - a temporary folder that is renamed at the end, or changes places with the one that it replaces. A full
 * disk shows in a write, or at the latest when all is synced. */
#define _GNU_SOURCE                     /* pwrite, opendir, renameat2, syncfs */
#include "engine/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *staging_target(const char *out, const char *name, const char *type)
{
    struct text t = {0};
    if (!path_is_dir(out))
        return mem_strdup(out);
    text_printf(&t, "%s-%s", name, type);
    char *path = path_join(out, t.data);
    text_free(&t);
    return path;
}

int staging_open(struct staging *s, const char *path, bool replace, struct err *e)
{
    struct text name = {0}, temporary = {0};
    struct stat st;
    *s = (struct staging){0};
    text_puts(&name, path);
    while (name.len > 1 && name.data[name.len - 1] == '/')
        name.data[--name.len] = '\0';
    text_printf(&temporary, "%s.tmp.%ld", name.data, (long)getpid());
    const bool exists = lstat(name.data, &st) == 0;
    int bad = 0;
    if (exists && (!replace || !S_ISDIR(st.st_mode)))
        bad = err_set(e, EXIT_USAGE, "%s: it exists already%s", path, replace ? " and is no folder"
                                                                              : " (--force replaces it)");
    else if (mkdir(temporary.data, 0777))
        bad = err_machine(e, "%s: cannot be made", temporary.data);
    if (bad) {
        text_free(&name);
        text_free(&temporary);
        return -1;
    }
    *s = (struct staging){.path = text_take(&name), .temporary = text_take(&temporary), .replace = exists};
    return 0;
}

int staging_write(const struct staging *s, const char *name, const void *data, size_t n, struct err *e)
{
    struct staged_file f;
    if (staged_open(&f, s, name, e))
        return -1;
    const int bad = staged_put(&f, 0, data, n, e);
    return staged_close(&f, bad ? NULL : e) || bad ? -1 : 0;
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
    const bool ok = fd >= 0 && syncfs(fd) == 0 &&       /* hundreds of files: all at once */
                    renameat2(AT_FDCWD, s->temporary, AT_FDCWD, s->path, s->replace ? RENAME_EXCHANGE
                                                                                    : RENAME_NOREPLACE) == 0;
    if (!ok)
        err_machine(e, "%s: cannot be written", s->path);
    if (fd >= 0)
        close(fd);
    if (!ok || s->replace) {            /* by the temporary name there is now what failed, or what was replaced */
        staging_abandon(s);
        return ok ? 0 : -1;
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
    const int bad = close(f->fd) ? err_machine(e, "%s: cannot be written", f->path) : 0;
    free(f->path);
    f->path = NULL;
    return bad;
}
