/* SPDX-License-Identifier: MIT */
#include "grid.h"
#include "parse.h"
#include <string.h>
#include <threelc/threelc.h>

enum { LEAST_WIDTH = 6 };

bool grid_parse_format(const char *name, report_format *format, char *why)
{
    static const char *const names[] = {"table", "markdown", "csv", "json", NULL};
    int choice;

    if (!parse_choice(name, names, &choice, why))
        return false;
    *format = (report_format)choice;
    return true;
}

/* ---- table ------------------------------------------------------------------------------------------------------ */

/* The text of these columns starts at the left. */
static bool is_left(const grid_column *c)
{
    return c->kind == TEXT;
}

static int longest(const grid *g, size_t column, int least, int most)
{
    char buffer[CELL];
    int width = least;

    for (size_t row = 0; row < g->rows; row++) {
        int len = (int)strlen(g->cell(g->report, row, column, true, buffer));
        width = len > width && len <= most ? len : width;
    }
    return width;
}

/* widths: of all columns. The name is as wide as the longest one that fits. */
static void find_widths(const grid *g, int *widths)
{
    int room = g->width;

    for (size_t column = 0; column < g->column_count; column++) {
        const grid_column *c = &g->columns[column];
        if (!c->shown || column == g->name)
            continue;
        int title = (int)strlen(c->title);
        widths[column] = longest(g, column, title < LEAST_WIDTH ? LEAST_WIDTH : title, is_left(c) ? CELL : 0);
        room -= 1 + widths[column];
    }
    widths[g->name] = longest(g, g->name, (int)strlen(g->columns[g->name].title), room);
}

/* The name is the first column. */
static void print_head(FILE *f, const grid *g, const int *widths, bool second)
{
    fprintf(f, "%-*s", widths[g->name], second ? g->columns[g->name].unit : g->columns[g->name].title);
    for (size_t column = 0; column < g->column_count; column++) {
        const grid_column *c = &g->columns[column];
        if (c->shown && column != g->name)
            fprintf(f, " %*s", is_left(c) ? -widths[column] : widths[column], second ? c->unit : c->title);
    }
    fputc('\n', f);
}

static void print_row(FILE *f, const grid *g, const int *widths, size_t row)
{
    char buffer[CELL];
    int width = widths[g->name];
    const char *text = g->cell(g->report, row, g->name, true, buffer);

    if (strlen(text) > (size_t)width)
        fprintf(f, "%s\n%*s", text, width, "");
    else
        fprintf(f, "%-*s", width, text);
    for (size_t column = 0; column < g->column_count; column++) {
        const grid_column *c = &g->columns[column];
        if (!c->shown || column == g->name)
            continue;
        text = g->cell(g->report, row, column, true, buffer);
        fprintf(f, " %*s", is_left(c) ? -widths[column] : widths[column], *text ? text : "-");
    }
    fputc('\n', f);
}

void grid_table(FILE *f, const grid *g, size_t first, size_t end)
{
    int widths[GRID_COLUMNS];

    find_widths(g, widths);
    print_head(f, g, widths, false);
    print_head(f, g, widths, true);
    for (size_t row = first; row < end; row++)
        print_row(f, g, widths, row);
}

/* ---- Markdown --------------------------------------------------------------------------------------------------- */

static void markdown_head(FILE *f, const grid *g)
{
    fputs("\n|", f);
    for (const grid_column *c = g->columns; c < g->columns + g->column_count; c++) {
        if (c->shown)
            fprintf(f, " %s%s%s |", c->title, *c->unit ? " " : "", c->unit);
    }
    fputs("\n|", f);
    for (const grid_column *c = g->columns; c < g->columns + g->column_count; c++) {
        if (c->shown)
            fputs(is_left(c) ? "---|" : "---:|", f);
    }
    fputc('\n', f);
}

static void markdown_row(FILE *f, const grid *g, size_t row)
{
    char buffer[CELL];

    fputc('|', f);
    for (size_t column = 0; column < g->column_count; column++) {
        if (!g->columns[column].shown)
            continue;
        const char *text = g->cell(g->report, row, column, true, buffer);
        fprintf(f, column == g->name ? " `%s` |" : " %s |", *text ? text : "-");
    }
    fputc('\n', f);
}

void grid_markdown(FILE *f, const grid *g, size_t first, size_t end)
{
    markdown_head(f, g);
    for (size_t row = first; row < end; row++)
        markdown_row(f, g, row);
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

static void csv_field(FILE *f, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++)
        fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', f);
}

void grid_csv(FILE *f, const grid *g)
{
    char buffer[CELL];

    for (size_t column = 0; column < g->column_count; column++)
        fprintf(f, "%s,", g->columns[column].key);
    fputs("version\r\n", f);
    for (size_t row = 0; row < g->rows; row++) {
        for (size_t column = 0; column < g->column_count; column++) {
            csv_field(f, g->cell(g->report, row, column, false, buffer));
            fputs(",", f);
        }
        fprintf(f, "%s\r\n", tlc_version_string());
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at s. 0: it is none; surrogates, overlong forms and codes above U+10FFFF are none. */
static int utf8_length(const unsigned char *s)
{
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    int len = s[0] < 0x80 ? 1 : s[0] >= 0xf8 ? 0 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
    unsigned code = len > 1 ? s[0] & (0x7fu >> len) : s[0];

    for (int i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return len && code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

static void json_string(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', f);
    while (*s) {
        int len = utf8_length(s);
        if (!len)
            fputs("\\ufffd", f); /* a byte of a file name that is not UTF-8 */
        else if (*s < ' ')
            fprintf(f, "\\u%04x", *s);
        else
            fprintf(f, "%s%.*s", *s == '"' || *s == '\\' ? "\\" : "", len, (const char *)s);
        s += len ? len : 1;
    }
    fputc('"', f);
}

void grid_json_text(FILE *f, const char *text)
{
    if (text)
        json_string(f, text);
    else
        fputs("null", f);
}

void grid_json_row(FILE *f, const grid *g, size_t row)
{
    char buffer[CELL];

    for (size_t column = 0; column < g->column_count; column++) {
        const char *text = g->cell(g->report, row, column, false, buffer);
        fprintf(f, "%s\"%s\": ", column ? ", " : "", g->columns[column].key);
        if (!*text)
            fputs("null", f);
        else if (g->columns[column].kind == TEXT)
            json_string(f, text);
        else
            fputs(text, f);
    }
}
