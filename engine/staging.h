/* staging.h - a folder that appears whole or not at all (inside engine/ only): its files are written into a temporary
 * folder beside it, which takes the name when all of them are on disk. */
#ifndef HANDOFF_STAGING_H
#define HANDOFF_STAGING_H

#include "engine/base.h"

/* The folder for `out`: itself, or where that is a folder already "NAME-TYPE" in it. The caller frees it. */
char *staging_target(const char *out, const char *name, const char *type);

struct staging { char *path, *temporary; bool replace; };
/* The parent folder of `path` must exist. If there is something at `path`, wrong usage unless `replace`: then that
 * folder goes, with the files in it, once the new one is whole. */
int staging_open(struct staging *s, const char *path, bool replace, struct err *e);
/* A whole small file. */
int staging_write(const struct staging *s, const char *name, const void *data, size_t n, struct err *e);
/* Syncs and renames. Ends the staging either way; after a failure nothing is left. */
int staging_finish(struct staging *s, struct err *e);
void staging_abandon(struct staging *s);                /* removes what was written; harmless on {0} */

/* A file of it whose parts are written in any order. */
struct staged_file { int fd; char *path; };
int staged_open(struct staged_file *f, const struct staging *s, const char *name, struct err *e);
int staged_put(const struct staged_file *f, uint64_t at, const void *data, size_t n, struct err *e);
int staged_close(struct staged_file *f, struct err *e); /* harmless on a file that is not open (path NULL) */

#endif
