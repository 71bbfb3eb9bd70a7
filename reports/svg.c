/* svg.c - axes, lines, bands, bars and dots. */
#include "reports/svg.h"
#include "reports/table.h"

#include <math.h>
#include <string.h>

const char plot_style[] =
    ":root{--probe:#1f6feb;--entropy:#b35900;--random:#6e7781;--ideal:#1a7f37;--right:#1a7f5a;--wrong:#cf222e;"
    "--s0:#1f6feb;--s1:#b35900;--s2:#1a7f37;--s3:#8250df;--s4:#bf3989;--s5:#57606a;--grid:#d8dee4;--ink:#1f2328;"
    "--soft:#59636e;--paper:#ffffff}"
    "@media(prefers-color-scheme:dark){:root{--probe:#6cb0ff;--entropy:#f0a35e;--random:#9198a1;--ideal:#5bd17f;"
    "--right:#5bd1a5;--wrong:#ff8182;--s0:#6cb0ff;--s1:#f0a35e;--s2:#5bd17f;--s3:#c8a6ff;--s4:#ff9bce;--s5:#b1bac4;"
    "--grid:#343b44;--ink:#e6edf3;--soft:#a6b0bb;--paper:#12161c}}"
    "svg.plot{font:11px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;color:var(--ink)}"
    "svg.plot text{fill:currentColor}svg.plot .tick{fill:var(--soft)}svg.plot .head{font-size:12.5px;font-weight:600}"
    "svg.plot .grid{stroke:var(--grid);stroke-width:1}svg.plot .frame{stroke:var(--soft);stroke-width:1}"
    "svg.plot .line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
    "svg.plot .band{stroke:none;fill-opacity:.16}svg.plot .bar{fill-opacity:.6}"
    "svg.plot .line.random,svg.plot .line.ideal{stroke-width:1.3;stroke-dasharray:4 3}"
    "svg.plot .line.entropy{stroke-dasharray:7 2}"
    "svg.plot .line.probe{stroke:var(--probe)}svg.plot .line.entropy{stroke:var(--entropy)}"
    "svg.plot .line.random{stroke:var(--random)}svg.plot .line.ideal{stroke:var(--ideal)}"
    "svg.plot .line.right{stroke:var(--right)}svg.plot .line.wrong{stroke:var(--wrong)}"
    "svg.plot .fill.probe{fill:var(--probe)}svg.plot .fill.entropy{fill:var(--entropy)}"
    "svg.plot .fill.random{fill:var(--random)}svg.plot .fill.ideal{fill:var(--ideal)}"
    "svg.plot .fill.right{fill:var(--right)}svg.plot .fill.wrong{fill:var(--wrong)}"
    "svg.plot .line.s0{stroke:var(--s0)}svg.plot .line.s1{stroke:var(--s1)}svg.plot .line.s2{stroke:var(--s2)}"
    "svg.plot .line.s3{stroke:var(--s3)}svg.plot .line.s4{stroke:var(--s4)}svg.plot .line.s5{stroke:var(--s5)}"
    "svg.plot .fill.s0{fill:var(--s0)}svg.plot .fill.s1{fill:var(--s1)}svg.plot .fill.s2{fill:var(--s2)}"
    "svg.plot .fill.s3{fill:var(--s3)}svg.plot .fill.s4{fill:var(--s4)}svg.plot .fill.s5{fill:var(--s5)}"
    "svg.plot .published{stroke:var(--soft);stroke-width:2}";

void put_escaped(struct text *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '&')
            text_puts(out, "&amp;");
        else if (c == '<')
            text_puts(out, "&lt;");
        else if (c == '>')
            text_puts(out, "&gt;");
        else if (c == '"')
            text_puts(out, "&quot;");
        else if (c == '\'')
            text_puts(out, "&#39;");
        else if (c >= 0x20 || c == '\n' || c == '\t')
            text_putc(out, c);
    }
}

double plot_x(const struct plot *p, double x)
{
    return p->left + (x - p->x0) / (p->x1 - p->x0) * (p->width - p->left - p->right);
}

double plot_y(const struct plot *p, double y)
{
    return p->height - p->bottom - (y - p->y0) / (p->y1 - p->y0) * (p->height - p->top - p->bottom);
}

void plot_open(struct plot *p, const char *title, const char *description)
{
    p->left = p->left > 0 ? p->left : 42;
    p->right = p->right > 0 ? p->right : 18;
    p->top = p->top > 0 ? p->top : 28;
    p->bottom = p->bottom > 0 ? p->bottom : 36;
    text_printf(p->out, "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 %.0f %.0f\"", p->width, p->height);
    if (p->alone)
        text_printf(p->out, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\"", 2 * p->width,
                    2 * p->height);
    text_puts(p->out, ">");
    text_puts(p->out, "<title>");
    put_escaped(p->out, title);
    text_puts(p->out, "</title><desc>");
    put_escaped(p->out, description);
    text_puts(p->out, "</desc>");
    if (p->alone)
        text_printf(p->out, "<style>%s</style><rect width=\"100%%\" height=\"100%%\" fill=\"var(--paper)\"/>",
                    plot_style);
    plot_text(p, "head", p->left, 15, "start", title);
}

void plot_text(struct plot *p, const char *class, double x, double y, const char *anchor, const char *s)
{
    text_printf(p->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\"", class, x, y);
    if (strcmp(anchor, "start") != 0)
        text_printf(p->out, " text-anchor=\"%s\"", anchor);
    text_putc(p->out, '>');
    put_escaped(p->out, s);
    text_puts(p->out, "</text>");
}

void plot_rule(struct plot *p, const char *class, double x1, double y1, double x2, double y2)
{
    text_printf(p->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", class, x1, y1, x2, y2);
}

/* The largest of 1, 2 or 5 times a power of ten that gives at least three steps. */
static double tick_step(double range)
{
    double power = pow(10, floor(log10(range)));
    static const double factors[] = {1, 0.5, 0.2, 0.1};
    for (int i = 0; i < 4; i++)
        if (range / (power * factors[i]) >= 3.5)
            return power * factors[i];
    return power * 0.1;
}

static void tick_label(struct text *t, double v, double step, bool percent)
{
    if (percent) {
        put_number(t, step < 0.0099 ? "1%" : "0%", v);
        return;
    }
    put_number(t, step < 0.0099 ? ".3" : step < 0.099 ? ".2" : step < 0.99 ? ".1" : "0", v);
}

void plot_axes(struct plot *p, const char *x_label, const char *y_label)
{
    double right = p->width - p->right, bottom = p->height - p->bottom;
    for (int axis = 0; axis < 2; axis++) {
        double lo = axis ? p->y0 : p->x0, hi = axis ? p->y1 : p->x1, step = tick_step(hi - lo);
        for (double v = ceil(lo / step - 1e-9) * step; v <= hi + 1e-9; v += step) {
            struct text label = {0};
            double at = axis ? plot_y(p, v) : plot_x(p, v);
            tick_label(&label, fabs(v) < 1e-12 ? 0 : v, step, axis ? p->y_percent : p->x_percent);
            if (axis) {
                plot_rule(p, "grid", p->left, at, right, at);
                plot_text(p, "tick", p->left - 5, at + 3.5, "end", label.data);
            } else {
                plot_rule(p, "grid", at, p->top, at, bottom);
                plot_text(p, "tick", at, bottom + 13, "middle", label.data);
            }
            text_free(&label);
        }
    }
    plot_rule(p, "frame", p->left, bottom, right, bottom);
    plot_text(p, "tick", (p->left + right) / 2, p->height - 6, "middle", x_label);
    if (y_label[0]) {
        text_printf(p->out, "<text class=\"tick\" transform=\"translate(10 %.1f) rotate(-90)\" text-anchor=\"middle\">",
                    (p->top + bottom) / 2);
        put_escaped(p->out, y_label);
        text_puts(p->out, "</text>");
    }
}

void plot_line(struct plot *p, const char *class, const struct xy *points, int n)
{
    if (n == 0)
        return;
    text_printf(p->out, "<polyline class=\"line %s\" points=\"", class);
    for (int i = 0; i < n; i++)
        text_printf(p->out, "%s%.1f,%.1f", i ? " " : "", plot_x(p, points[i].x), plot_y(p, points[i].y));
    text_puts(p->out, "\"/>");
}

void plot_band(struct plot *p, const char *class, const struct band_row *rows, int n)
{
    if (n == 0)
        return;
    text_printf(p->out, "<polygon class=\"band fill %s\" points=\"", class);
    for (int i = 0; i < n; i++)
        text_printf(p->out, "%.1f,%.1f ", plot_x(p, rows[i].rate), plot_y(p, rows[i].hi));
    for (int i = n; i-- > 0;)
        text_printf(p->out, "%.1f,%.1f%s", plot_x(p, rows[i].rate), plot_y(p, rows[i].lo), i ? " " : "");
    text_puts(p->out, "\"/>");
}

void plot_bar(struct plot *p, const char *class, double x_from, double x_to, double y_from, double y_to)
{
    double x = plot_x(p, x_from), y = plot_y(p, y_to > y_from ? y_to : y_from);
    text_printf(p->out, "<rect class=\"bar fill %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", class, x,
                y, plot_x(p, x_to) - x, fabs(plot_y(p, y_from) - plot_y(p, y_to)));
}

void plot_dot(struct plot *p, const char *class, double x, double y, double radius)
{
    text_printf(p->out, "<circle class=\"fill %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", class, plot_x(p, x),
                plot_y(p, y), radius);
}

void plot_legend(struct plot *p, const char *const (*entries)[2], int n)
{
    double x = p->left;
    for (int i = 0; i < n; i++) {
        text_printf(p->out, "<line class=\"line %s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", entries[i][0],
                    x, p->top - 10, x + 13, p->top - 10);
        plot_text(p, "tick", x + 16, p->top - 6.5, "start", entries[i][1]);
        x += 25 + 5.4 * text_width(entries[i][1]);
    }
}

void plot_close(struct plot *p)
{
    text_puts(p->out, "</svg>\n");
}
