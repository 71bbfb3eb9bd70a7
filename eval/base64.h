/* base64.h - RFC 4648 section 4, with padding (inside eval/ only). */
#ifndef HANDOFF_BASE64_H
#define HANDOFF_BASE64_H

#include "engine/base.h"

/* Appends the text form of n bytes. */
void base64_encode(const void *bytes, size_t n, struct text *out);
/* The bytes of a text: *n of them, the caller frees; NULL if it is not base64. The padding may be left out, line breaks
 * may not stand in it. */
void *base64_decode(const char *s, size_t len, size_t *n);

#endif
