/* builtin.h - the suite files that the program carries; the Makefile writes builtin.c from suites/NAME.json. */
#ifndef HANDOFF_DATASETS_BUILTIN_H
#define HANDOFF_DATASETS_BUILTIN_H

#include <stddef.h>

struct builtin_suite { const char *name, *text; size_t size; };
extern const struct builtin_suite builtin_suites[];     /* ends with a name of NULL */

#endif
