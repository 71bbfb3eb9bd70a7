/* json_out.h - writes JSON with keys in a fixed order and undefined figures explained (inside reports/ only).
 *
 *     struct json_out j = {.out = out};
 *     json_open(&j, NULL, '{');
 *     json_figure(&j, "auroc", f);            -- a number, or null and the object's "why" says why
 *     json_close(&j, '}');
 */
#ifndef HANDOFF_JSON_OUT_H
#define HANDOFF_JSON_OUT_H

#include "eval/results.h"

enum { JSON_OUT_DEPTH = 16 };
struct json_out {
    struct text *out;
    int depth;
    bool comma;
    const char *why[JSON_OUT_DEPTH][8];         /* distinct reasons of the object at each depth */
};

/* key NULL: an element of an array, or the top value. */
void json_open(struct json_out *j, const char *key, char bracket);
void json_close(struct json_out *j, char bracket);
void json_text(struct json_out *j, const char *key, const char *value);         /* NULL: null */
void json_integer(struct json_out *j, const char *key, int64_t value);
void json_number(struct json_out *j, const char *key, double value);            /* not finite: null */
void json_boolean(struct json_out *j, const char *key, bool value);
void json_figure(struct json_out *j, const char *key, struct figure f);
void json_interval(struct json_out *j, const char *key, struct interval i);     /* [lo, hi] */
void json_null(struct json_out *j, const char *key, const char *why);
/* The decisions behind the figures, under "definitions". */
void json_definitions(struct json_out *j, const struct definitions *d);

#endif
