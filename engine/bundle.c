/* bundle.c - the files of a folder or archive that lie at its top, or in the one folder that all of an archive's members
 * lie in. */
#include "engine/bundle.h"
#include "engine/base_archive.h"

#include <stdlib.h>
#include <string.h>

struct file {
    const char *name;
    const struct member *member;
    struct blob blob;
    struct mapped content;      /* path NULL: not read yet */
};

struct bundle {
    struct archive *archive;
    struct file *file;          /* sorted by name */
    size_t n;
};

bool bundle_is_archive(const struct mapped *m)
{
    const uint8_t *p = m->data;
    return m->size > 4 && (memcmp(p, "PK\3\4", 4) == 0 || memcmp(p, "\x1f\x8b\x08", 3) == 0 ||
                           (m->size >= 512 && memcmp(p + 257, "ustar", 5) == 0));
}

/* The length of the folder, with its '/', that the names of all members of an archive begin with; 0: there is none. */
static size_t top_folder(const struct archive *a)
{
    size_t top = 0;
    for (size_t i = 0; i < archive_count(a) && !archive_is_folder(a); i++) {
        const char *name = archive_member(a, i)->name, *slash = strchr(name, '/');
        const size_t len = slash ? (size_t)(slash - name) + 1 : 0;
        if (i == 0)
            top = len;
        else if (len != top || strncmp(name, archive_member(a, 0)->name, top) != 0)
            return 0;
    }
    return top;
}

int bundle_open(struct bundle **out, const char *path, struct err *e)
{
    struct bundle *b = NEW(struct bundle, 1);
    *out = NULL;
    int bad = archive_open(&b->archive, path, e);
    if (!bad && strcmp(archive_form(b->archive), "file") == 0)
        bad = err_input(e, "%s: a folder, or a .zip, .tar or .tar.gz archive, was expected", path);
    if (bad) {
        bundle_close(b);
        return -1;
    }
    const size_t n = archive_count(b->archive), top = top_folder(b->archive);
    b->file = NEW(struct file, n);
    for (size_t i = 0; i < n; i++) {
        const struct member *m = archive_member(b->archive, i);
        if (!strchr(m->name + top, '/'))
            b->file[b->n++] = (struct file){.name = m->name + top, .member = m};
    }
    *out = b;
    return 0;
}

void bundle_close(struct bundle *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++) {
        blob_free(&b->file[i].blob);
        free(b->file[i].content.path);
    }
    free(b->file);
    archive_close(b->archive);
    free(b);
}

const char *bundle_path(const struct bundle *b)
{
    return archive_path(b->archive);
}

size_t bundle_count(const struct bundle *b)
{
    return b->n;
}

const char *bundle_name(const struct bundle *b, size_t i)
{
    return b->file[i].name;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static struct file *find(const struct bundle *b, const char *name)
{
    const struct file key = {.name = name};
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
    if (member_read(b->archive, f->member, SIZE_MAX, &f->blob, e))
        return NULL;
    f->content = (struct mapped){.data = (const uint8_t *)(f->blob.size ? f->blob.data : ""), .size = f->blob.size,
                                 .path = path_join(bundle_path(b), name)};
    return &f->content;
}
