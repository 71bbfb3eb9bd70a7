/* svg.h - small plots as SVG (inside reports/ only).
 *
 *     struct plot p = {.out = out, .width = 260, .height = 200, .x0 = 0, .x1 = 1, .y0 = 0, .y1 = 1};
 *     plot_open(&p, "ROC: mmlu", "AUROC .85 for the probe, .90 for entropy");
 *     plot_axes(&p, "right answers flagged", "wrong answers flagged");
 *     plot_line(&p, "probe", points, n);
 *     plot_close(&p);
 *
 * Colours are classes (probe, entropy, random, ideal, right, wrong, s0..s5) that the page's style sheet defines for
 * light and dark; a picture that stands alone carries the same rules. Every picture has a title and a description for
 * screen readers. Coordinates have one decimal, so equal data give equal bytes.
 */
#ifndef HANDOFF_SVG_H
#define HANDOFF_SVG_H

#include "eval/results.h"

struct plot {
    struct text *out;
    double width, height;               /* of the picture */
    double x0, x1, y0, y1;              /* data at the edges of the frame */
    double left, right, top, bottom;    /* margins; 0: usual ones */
    bool alone;                         /* a file of its own: with name space and style */
    bool x_percent, y_percent;          /* tick labels */
};

void plot_open(struct plot *p, const char *title, const char *description);
void plot_axes(struct plot *p, const char *x_label, const char *y_label);
void plot_line(struct plot *p, const char *class, const struct xy *points, int n);
void plot_band(struct plot *p, const char *class, const struct band_row *rows, int n);
void plot_bar(struct plot *p, const char *class, double x_from, double x_to, double y_from, double y_to);
void plot_dot(struct plot *p, const char *class, double x, double y, double radius);
/* In picture coordinates; anchor: start, middle, end. */
void plot_text(struct plot *p, const char *class, double x, double y, const char *anchor, const char *s);
void plot_rule(struct plot *p, const char *class, double x1, double y1, double x2, double y2);
/* Class and label pairs along the top of the frame. */
void plot_legend(struct plot *p, const char *const (*entries)[2], int n);
void plot_close(struct plot *p);
double plot_x(const struct plot *p, double x);
double plot_y(const struct plot *p, double y);

/* &, <, >, " and ' as entities; control characters that XML forbids are left out. */
void put_escaped(struct text *out, const char *s);
/* The rules for the classes, for light and dark. */
extern const char plot_style[];

#endif
