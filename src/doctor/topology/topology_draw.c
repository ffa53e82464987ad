// topology_draw.c -- a topology as a picture: boxes within boxes, the sockets side by side, and the paths between devices
// as a table below. Called by `trireme topo --svg`. It appends an SVG document to a text and writes no files.
#include "doctor/topology/topology.h"

#include <string.h>

enum {
    CHARACTER = 7, // pixels of a character of the font, at most
    LINE = 18,     // pixels of a line of text
    GAP = 8,       // between boxes, and between a box and its text
    CELL = 48,     // pixels of a cell of the table
};

typedef struct box {
    int width, height;
} box;

static const char *color_of(topology_kind k)
{
    static const char *const colors[] = {"#ffffff", "#f2f2f2", "#e8eef7", "#dcefe0", "#f7efd9",
                                         "#fdf8ec", "#eeeeee", "#d3ead0", "#e4d9f2", "#f5dede"};
    _Static_assert(sizeof colors / sizeof *colors == TOPOLOGY_KINDS, "each kind has a colour");
    return colors[k];
}

static void add_escaped(text *out, const char *s)
{
    for (; *s; s++)
        if (*s == '&')
            text_add(out, "&amp;");
        else if (*s == '<')
            text_add(out, "&lt;");
        else if (*s == '>')
            text_add(out, "&gt;");
        else if ((unsigned char)*s >= ' ')
            text_add_bytes(out, s, 1);
}

static void add_line(text *out, int x, int y, const char *s)
{
    text_addf(out, "<text x=\"%d\" y=\"%d\">", x, y);
    add_escaped(out, s);
    text_add(out, "</text>\n");
}

// ---- Sizes

static int text_width(const char *s)
{
    return s ? (int)strlen(s) * CHARACTER + 2 * GAP : 0;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static bool has_threads(const topology_item *x)
{
    return x->kind == TOPOLOGY_NUMA || x->kind == TOPOLOGY_CORES;
}

static int head_height(const topology_item *x)
{
    return GAP + LINE * (1 + has_threads(x) + (x->rate != NULL));
}

// The parts of the machine stand side by side, all others below each other.
static box size_of(const topology_item *x)
{
    const bool is_row = x->kind == TOPOLOGY_MACHINE;
    box all = {0, 0};
    for (int i = 0; i < x->parts; i++) {
        const box part = size_of(&x->part[i]);
        all.width = is_row ? all.width + part.width + GAP : larger(all.width, part.width);
        all.height = is_row ? larger(all.height, part.height) : all.height + part.height + GAP;
    }
    all.width = larger(larger(all.width + 2 * GAP, text_width(x->label)), text_width(x->rate));
    if (has_threads(x)) all.width = larger(all.width, text_width(x->threads) + 8 * CHARACTER);
    all.height += head_height(x) + (is_row ? GAP : 0);
    return all;
}

// ---- Boxes

static void draw_item(text *out, const topology_item *x, int left, int top, box size)
{
    int y = top + LINE, part_top = top + head_height(x), part_left = left + GAP;
    text_addf(out,
              "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
              topology_kind_name(x->kind), left, top, size.width, size.height, color_of(x->kind));
    add_line(out, left + GAP, y, x->label);
    if (has_threads(x)) {
        text line = {0};
        text_addf(&line, "threads %s", x->threads);
        add_line(out, left + GAP, y += LINE, line.chars ? line.chars : "");
        text_clear(&line);
    }
    if (x->rate) add_line(out, left + GAP, y + LINE, x->rate);
    for (int i = 0; i < x->parts; i++) {
        box part = size_of(&x->part[i]);
        const int right = left + size.width - GAP;
        if (x->kind != TOPOLOGY_MACHINE) part.width = right - part_left;
        draw_item(out, &x->part[i], part_left, part_top, part);
        if (x->kind == TOPOLOGY_MACHINE)
            part_left += part.width + GAP;
        else
            part_top += part.height + GAP;
    }
}

// ---- The table and the lines below it

static const char *color_of_path(topology_path p)
{
    static const char *const colors[] = {"#ffffff", "#a8d5a2", "#cfe8b5", "#e6edb0",
                                         "#f7e3a6", "#f5cba0", "#efae9f"};
    _Static_assert(sizeof colors / sizeof *colors == TOPOLOGY_PATHS, "each path has a colour");
    return colors[p];
}

static void draw_table(text *out, const topology *t, int left, int top)
{
    for (int row = 0; row <= t->devices; row++)
        for (int column = 0; column <= t->devices; column++) {
            const int x = left + column * CELL, y = top + row * (LINE + 4);
            char letters[16] = "";
            if (row && column) {
                topology_path_text(t, row - 1, column - 1, letters);
                text_addf(out,
                          "<rect class=\"path\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                          "fill=\"%s\"/>\n",
                          x, y, CELL, LINE + 4,
                          color_of_path(t->path[(row - 1) * t->devices + column - 1]));
            } else if (row || column) {
                const topology_device *d = &t->device[row + column - 1];
                snprintf(letters, sizeof letters, "%s%d", d->kind == TOPOLOGY_GPU ? "GPU" : "NIC",
                         d->number % 1000);
            }
            add_line(out, x + 6, y + LINE - 3, letters);
        }
}

static int count_lines(const char *lines)
{
    int count = 0;
    for (; *lines; lines++) count += *lines == '\n';
    return count;
}

static void draw_note(text *out, const char *lines, int left, int top)
{
    while (*lines) {
        const size_t bytes = strcspn(lines, "\n");
        text line = {0};
        text_add_bytes(&line, lines, bytes);
        add_line(out, left, top += LINE, line.chars ? line.chars : "");
        text_clear(&line);
        lines += bytes + (lines[bytes] == '\n');
    }
}

static int note_width(const char *lines)
{
    int width = 0;
    while (*lines) {
        const int bytes = (int)strcspn(lines, "\n");
        width = larger(width, bytes * CHARACTER);
        lines += bytes + (lines[bytes] == '\n');
    }
    return width;
}

status topology_draw(text *out, const topology *t, const char *title, err *e)
{
    const char *const note = t->note.chars ? t->note.chars : "";
    const box machine = size_of(&t->machine);
    const int table = t->devices ? (t->devices + 1) * (LINE + 4) + GAP : 0;
    const int width = larger(larger(machine.width, (t->devices + 1) * CELL),
                             larger(note_width(note), text_width(title))) +
                      2 * GAP;
    const int top = GAP + LINE, below = top + GAP + machine.height + GAP;
    const int height = below + table + count_lines(note) * LINE + GAP;
    text_addf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\">\n<style>text{font:11px monospace;white-space:pre}"
              "rect{stroke:#888}</style>\n<rect x=\"0\" y=\"0\" width=\"%d\" height=\"%d\" "
              "fill=\"#ffffff\" stroke=\"none\"/>\n",
              width, height, width, height, width, height);
    add_line(out, GAP, top, title);
    draw_item(out, &t->machine, GAP, top + GAP, machine);
    if (t->devices) draw_table(out, t, GAP, below);
    draw_note(out, note, GAP, below + table);
    text_add(out, "</svg>\n");
    return text_check(out, e);
}
