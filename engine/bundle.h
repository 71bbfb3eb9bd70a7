/* bundle.h - the plain files of a Cactus bundle by name, wherever they lie (inside engine/ only): in a folder, or in a
 * .zip, .tar or .tar.gz with the files themselves or one folder of them. Other folders within are ignored. Nothing is
 * written to disk; a member is unpacked into memory when it is asked for. */
#ifndef HANDOFF_BUNDLE_H
#define HANDOFF_BUNDLE_H

#include "engine/base.h"

/* Whether a file begins as an archive does. */
bool bundle_is_archive(const struct mapped *m);

struct bundle;
/* A folder, or an archive. One whose members would take more than 200 times its own size is refused. */
int bundle_open(struct bundle **out, const char *path, struct err *e);
void bundle_close(struct bundle *b);                    /* NULL is fine */
const char *bundle_path(const struct bundle *b);
size_t bundle_count(const struct bundle *b);
const char *bundle_name(const struct bundle *b, size_t i);      /* sorted */
bool bundle_has(const struct bundle *b, const char *name);
/* The whole file; its memory and its path (for messages) belong to the bundle. NULL and *e if it cannot be read; the
 * name must be there. */
const struct mapped *bundle_file(struct bundle *b, const char *name, struct err *e);

#endif
