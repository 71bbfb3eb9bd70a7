/* json_out.c - JSON text from results. */
#include "reports/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void name(struct json_out *j, const char *key)
{
    if (j->comma)
        text_putc(j->out, ',');
    j->comma = true;
    if (key) {
        json_put_string(j->out, key, strlen(key));
        text_putc(j->out, ':');
    }
}

static void note_why(struct json_out *j, const char *why)
{
    const char **list = j->why[j->depth];
    for (int i = 0; i < 8; i++) {
        if (!list[i])
            list[i] = why;
        if (strcmp(list[i], why) == 0)
            return;
    }
}

void json_open(struct json_out *j, const char *key, char bracket)
{
    name(j, key);
    text_putc(j->out, bracket);
    j->depth++;
    memset(j->why[j->depth], 0, sizeof j->why[j->depth]);
    j->comma = false;
}

void json_close(struct json_out *j, char bracket)
{
    const char **list = j->why[j->depth];
    if (bracket == '}' && list[0]) {
        struct text all = {0};
        for (int i = 0; i < 8 && list[i]; i++)
            text_printf(&all, "%s%s", i ? "; " : "", list[i]);
        json_text(j, "why", all.data);
        text_free(&all);
    }
    text_putc(j->out, bracket);
    j->depth--;
    j->comma = true;
}

void json_text(struct json_out *j, const char *key, const char *value)
{
    name(j, key);
    if (value)
        json_put_string(j->out, value, strlen(value));
    else
        text_puts(j->out, "null");
}

void json_integer(struct json_out *j, const char *key, int64_t value)
{
    name(j, key);
    text_printf(j->out, "%" PRId64, value);
}

void json_number(struct json_out *j, const char *key, double value)
{
    name(j, key);
    json_put_double(j->out, value);
}

void json_boolean(struct json_out *j, const char *key, bool value)
{
    name(j, key);
    text_puts(j->out, value ? "true" : "false");
}

void json_null(struct json_out *j, const char *key, const char *why)
{
    name(j, key);
    text_puts(j->out, "null");
    note_why(j, why ? why : "not computed");
}

void json_figure(struct json_out *j, const char *key, struct figure f)
{
    if (f.why || !isfinite(f.value))
        json_null(j, key, f.why);
    else
        json_number(j, key, f.value);
}

void json_interval(struct json_out *j, const char *key, struct interval i)
{
    if (i.why || !isfinite(i.lo) || !isfinite(i.hi)) {
        json_null(j, key, i.why);
        return;
    }
    json_open(j, key, '[');
    json_number(j, NULL, i.lo);
    json_number(j, NULL, i.hi);
    json_close(j, ']');
}
