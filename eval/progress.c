/* progress.c - "mmlu  120/1000  12%  8.1 samples/s  1:48 left", redrawn in place. */
#define _GNU_SOURCE
#include "eval/progress.h"
#include "engine/base.h"

#include <stdio.h>
#include <unistd.h>

void progress_start(struct progress *p, int64_t total)
{
    *p = (struct progress){.shown = isatty(2), .start_ms = clock_ms(), .total = total, .unit = "samples"};
}

static void put_duration(struct text *t, double seconds)
{
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        text_printf(t, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        text_printf(t, "%ld:%02ld", s / 60, s % 60);
}

void progress_update(struct progress *p, const char *what)
{
    double now = clock_ms();
    if (!p->shown || now - p->last_ms < 100)
        return;
    p->last_ms = now;
    int64_t finished = p->before + p->done;
    double elapsed = (now - p->start_ms) / 1e3, rate = elapsed > 0 ? (double)p->done / elapsed : 0;
    struct text line = {0};
    text_printf(&line, "%s  %lld", what, (long long)finished);
    if (p->total > 0)
        text_printf(&line, "/%lld  %lld%%", (long long)p->total, (long long)(100 * finished / p->total));
    text_printf(&line, "  %.1f %s/s", rate, p->unit);
    if (p->total > 0 && p->done > 0) {
        text_puts(&line, "  ");
        put_duration(&line, (double)(p->total - finished) / rate);
        text_puts(&line, " left");
    }
    int width = (int)line.len;
    fprintf(stderr, "\r%s%*s", line.data, p->width > width ? p->width - width : 0, "");
    fflush(stderr);
    p->width = width;
    text_free(&line);
}

void progress_clear(struct progress *p)
{
    if (p->width)
        fprintf(stderr, "\r%*s\r", p->width, "");
    p->width = 0;
}
