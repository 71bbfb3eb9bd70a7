/* table.c - tables as aligned text, Markdown and CSV. */
#include "reports/table.h"
#include "reports/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void table_column(struct table *t, const char *head, const char *csv, enum table_align align)
{
    t->columns = mem_grow(t->columns, (size_t)t->n_columns + 1, sizeof *t->columns);
    t->columns[t->n_columns++] = (struct table_column){head, csv, align};
}

void table_cell(struct table *t, const char *shown, const char *csv)
{
    t->cells = mem_grow(t->cells, (size_t)t->n_cells + 1, sizeof *t->cells);
    t->cells[t->n_cells++] = (struct table_cell){arena_strndup(&t->arena, shown, strlen(shown)),
                                                 arena_strndup(&t->arena, csv, strlen(csv))};
}

/* RFC 4180: quotes where a comma, a quote or a line break demands them. */
static void put_csv_field(struct text *out, const char *s)
{
    if (!strpbrk(s, ",\"\r\n")) {
        text_puts(out, s);
        return;
    }
    text_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"')
            text_putc(out, '"');
        text_putc(out, *s);
    }
    text_putc(out, '"');
}

void table_text(struct table *t, const char *s)
{
    struct text csv = {0};
    put_csv_field(&csv, s);
    table_cell(t, s, csv.data ? csv.data : "");
    text_free(&csv);
}

void table_int(struct table *t, int64_t v)
{
    char *s = arena_printf(&t->arena, "%" PRId64, v);
    table_cell(t, s, s);
}

/* Formats: places, with '+' before them for a sign, '.' for no zero before the point, '%' behind them for percent. */
void put_number(struct text *out, const char *format, double v)
{
    bool plus = strchr(format, '+') != NULL, percent = strchr(format, '%') != NULL, bare = strchr(format, '.') != NULL;
    int places = atoi(strpbrk(format, "0123456789"));
    struct text s = {0};
    text_printf(&s, "%.*f", places, fabs(percent ? v * 100 : v));
    bool negative = v < 0 && strtod(s.data, NULL) != 0;         /* no "-0.00" */
    text_puts(out, negative ? "-" : plus ? "+" : "");
    text_puts(out, s.data + (bare && s.data[0] == '0' && places > 0));
    if (percent)
        text_putc(out, '%');
    text_free(&s);
}

void put_interval(struct text *out, const char *format, struct interval i)
{
    text_putc(out, '[');
    put_number(out, format, i.lo);
    text_puts(out, ", ");
    put_number(out, format, i.hi);
    text_putc(out, ']');
}

void table_number(struct table *t, double v, const char *format)
{
    struct text shown = {0}, csv = {0};
    if (isnan(v)) {
        table_cell(t, "-", "");
        return;
    }
    put_number(&shown, format, v);
    text_put_double(&csv, v);
    table_cell(t, shown.data, csv.data);
    text_free(&shown);
    text_free(&csv);
}

void table_figure(struct table *t, struct figure f, const char *format)
{
    if (f.why || !isfinite(f.value))
        table_cell(t, "-", "");
    else
        table_number(t, f.value, format);
}

void table_interval(struct table *t, struct interval i, const char *format)
{
    struct text shown = {0}, csv = {0};
    if (i.why || !isfinite(i.lo) || !isfinite(i.hi)) {
        table_cell(t, "-", ",");
        return;
    }
    put_interval(&shown, format, i);
    text_put_double(&csv, i.lo);
    text_putc(&csv, ',');
    text_put_double(&csv, i.hi);
    table_cell(t, shown.data, csv.data);
    text_free(&shown);
    text_free(&csv);
}

void table_rule(struct table *t)
{
    t->rule_before = table_rows(t);
}

int table_rows(const struct table *t)
{
    return t->n_columns ? t->n_cells / t->n_columns : 0;
}

void table_free(struct table *t)
{
    free(t->columns);
    free(t->cells);
    text_free(&t->notes);
    arena_free(&t->arena);
    *t = (struct table){0};
}

void table_p_value(struct table *t, struct figure p)
{
    struct text shown = {0}, csv = {0};
    put_p_value(&shown, p);
    if (!p.why)
        json_put_double(&csv, p.value);
    table_cell(t, shown.data, csv.data ? csv.data : "");
    text_free(&shown);
    text_free(&csv);
}

void table_threshold(struct table *t, double threshold)
{
    if (isinf(threshold))
        table_cell(t, "all", "all");
    else if (isnan(threshold))
        table_cell(t, "-", "");
    else
        table_number(t, threshold, ".3");
}

/* ---- width ------------------------------------------------------------------------------------------------------ */

static bool in_ranges(uint32_t c, const uint32_t (*ranges)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

int text_width(const char *s)
{
    static const uint32_t wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xac00, 0xd7a3},
        {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
        {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
    static const uint32_t none[][2] = {{0x300, 0x36f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f},
        {0xfe20, 0xfe2f}};
    int width = 0;
    size_t len = strlen(s);
    for (size_t at = 0; at < len;) {
        uint32_t c;
        int n = utf8_decode(s + at, len - at, &c);
        if (n == 0) {
            at++;
            width++;
            continue;
        }
        at += (size_t)n;
        width += in_ranges(c, none, sizeof none / sizeof *none) ? 0 :
                 in_ranges(c, wide, sizeof wide / sizeof *wide) ? 2 : 1;
    }
    return width;
}

static int *column_widths(const struct table *t)
{
    int *w = NEW(int, t->n_columns);
    for (int c = 0; c < t->n_columns; c++)
        w[c] = text_width(t->columns[c].head);
    for (int i = 0; i < t->n_cells; i++) {
        int n = text_width(t->cells[i].shown);
        if (n > w[i % t->n_columns])
            w[i % t->n_columns] = n;
    }
    return w;
}

static void put_spaces(struct text *out, int n)
{
    while (n-- > 0)
        text_putc(out, ' ');
}

/* ---- terminal --------------------------------------------------------------------------------------------------- */

static void put_aligned(struct text *out, const char *s, int width, enum table_align align, bool last)
{
    int pad = width - text_width(s);
    if (align == ALIGN_RIGHT)
        put_spaces(out, pad);
    text_puts(out, s);
    if (align == ALIGN_LEFT && !last)
        put_spaces(out, pad);
}

enum { NOTE_WIDTH = 98 };

/* Notes are broken between words; what belongs to a line is set in by two columns. */
static void put_notes(struct text *out, const char *s)
{
    int at = 0;
    while (*s) {
        size_t n = strcspn(s, " \n");
        char *word = mem_strndup(s, n);
        int width = text_width(word);
        if (at && at + 1 + width > NOTE_WIDTH) {
            text_puts(out, "\n  ");
            at = 2;
        } else if (at) {
            text_putc(out, ' ');
            at++;
        }
        text_puts(out, word);
        at += width;
        free(word);
        s += n;
        if (*s == '\n') {
            text_putc(out, '\n');
            at = 0;
        }
        s += *s != '\0';
    }
}

void table_terminal(const struct table *t, struct text *out)
{
    int *w = column_widths(t), total = 0;
    if (t->title)
        text_printf(out, "%s\n\n", t->title);
    for (int c = 0; c < t->n_columns; c++) {
        put_aligned(out, t->columns[c].head, w[c], t->columns[c].align, c + 1 == t->n_columns);
        text_puts(out, c + 1 == t->n_columns ? "\n" : "  ");
        total += w[c] + (c ? 2 : 0);
    }
    for (int r = 0; r < table_rows(t); r++) {
        if (r == 0 || r == t->rule_before) {
            for (int i = 0; i < total; i++)
                text_puts(out, "\u2500");
            text_putc(out, '\n');
        }
        for (int c = 0; c < t->n_columns; c++) {
            put_aligned(out, t->cells[r * t->n_columns + c].shown, w[c], t->columns[c].align, c + 1 == t->n_columns);
            text_puts(out, c + 1 == t->n_columns ? "\n" : "  ");
        }
    }
    if (t->notes.len) {
        text_putc(out, '\n');
        put_notes(out, t->notes.data);
    }
    free(w);
}

/* ---- Markdown --------------------------------------------------------------------------------------------------- */

/* Escapes what would break a row or be read as markup. */
static void put_markdown(struct text *out, const char *s)
{
    for (; *s; s++) {
        if (strchr("|\\`*<", *s))
            text_putc(out, '\\');
        text_putc(out, *s == '\n' ? ' ' : *s);
    }
}

void table_markdown(const struct table *t, struct text *out)
{
    if (t->title)
        text_printf(out, "### %s\n\n", t->title);
    for (int c = 0; c < t->n_columns; c++) {
        text_puts(out, "| ");
        put_markdown(out, t->columns[c].head);
        text_putc(out, ' ');
    }
    text_puts(out, "|\n");
    for (int c = 0; c < t->n_columns; c++)
        text_puts(out, t->columns[c].align == ALIGN_RIGHT ? "| ---: " : "| :--- ");
    text_puts(out, "|\n");
    for (int i = 0; i < t->n_cells; i++) {
        text_puts(out, "| ");
        put_markdown(out, t->cells[i].shown);
        text_puts(out, (i + 1) % t->n_columns ? " " : " |\n");
    }
    text_putc(out, '\n');
    if (!t->notes.len)
        return;
    for (const char *s = t->notes.data; *s;) {
        size_t n = strcspn(s, "\n");
        text_puts(out, "- ");
        char *line = mem_strndup(s, n);
        put_markdown(out, line);
        free(line);
        text_putc(out, '\n');
        s += n + (s[n] == '\n');
    }
    text_putc(out, '\n');
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

void table_csv(const struct table *t, struct text *out)
{
    for (int r = -1; r < table_rows(t); r++) {
        bool first = true;
        for (int c = 0; c < t->n_columns; c++) {
            if (!t->columns[c].csv)
                continue;
            text_puts(out, first ? "" : ",");
            text_puts(out, r < 0 ? t->columns[c].csv : t->cells[r * t->n_columns + c].csv);
            first = false;
        }
        text_putc(out, '\n');
    }
}

/* ---- HTML ------------------------------------------------------------------------------------------------------- */

static void put_notes_html(struct text *out, const char *s)
{
    text_puts(out, "<ul class=\"notes\">");
    while (*s) {
        size_t n = strcspn(s, "\n");
        char *line = mem_strndup(s, n);
        text_puts(out, line[0] == '!' ? "<li class=\"alarm\">" : "<li>");
        put_escaped(out, line);
        text_puts(out, "</li>");
        free(line);
        s += n + (s[n] == '\n');
    }
    text_puts(out, "</ul>\n");
}

void table_html(const struct table *t, struct text *out)
{
    text_puts(out, "<div class=\"scroll\" tabindex=\"0\"><table><caption>");
    put_escaped(out, t->title ? t->title : "");
    text_puts(out, "</caption><thead><tr>");
    for (int c = 0; c < t->n_columns; c++) {
        text_printf(out, "<th scope=\"col\"%s>", t->columns[c].align == ALIGN_RIGHT ? " class=\"n\"" : "");
        put_escaped(out, t->columns[c].head);
        text_puts(out, "</th>");
    }
    text_puts(out, "</tr></thead><tbody>\n");
    for (int r = 0; r < table_rows(t); r++) {
        text_puts(out, r && r == t->rule_before ? "<tr class=\"rule\">" : "<tr>");
        for (int c = 0; c < t->n_columns; c++) {
            text_puts(out, c == 0 ? "<th scope=\"row\">" : t->columns[c].align == ALIGN_RIGHT ? "<td class=\"n\">" :
                                                                                             "<td>");
            put_escaped(out, t->cells[r * t->n_columns + c].shown);
            text_puts(out, c == 0 ? "</th>" : "</td>");
        }
        text_puts(out, "</tr>\n");
    }
    text_puts(out, "</tbody></table></div>\n");
    if (t->notes.len)
        put_notes_html(out, t->notes.data);
}

void put_p_value(struct text *t, struct figure p)
{
    if (p.why || !isfinite(p.value))
        text_puts(t, "-");
    else if (p.value < 0.001)
        text_puts(t, "<.001");
    else {
        struct text s = {0};
        text_printf(&s, "%.3f", p.value);
        text_puts(t, p.value < 0.9995 ? s.data + 1 : "1");
        text_free(&s);
    }
}

void table_print(struct table *t, enum report_format format, struct text *out)
{
    if (table_rows(t)) {
        if (out->len && format != FORMAT_HTML)
            text_putc(out, '\n');
        if (format == FORMAT_HTML)
            table_html(t, out);
        else if (format == FORMAT_MARKDOWN)
            table_markdown(t, out);
        else if (format == FORMAT_CSV)
            table_csv(t, out);
        else
            table_terminal(t, out);
    }
    table_free(t);
}
