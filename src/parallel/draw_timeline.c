// draw_timeline.c -- draws a step in time as SVG, with all of its instructions (draw.h). Called by `trireme explain
// --time`. It does not know how the times were computed.
#include "parallel/draw_private.h"

#include "parallel/instructions.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 165, TOP = 56, ROW = 18, BAR = 15, BETWEEN = 8, FOOT = 40, PLOT = 1600, RIGHT = 24 };

typedef enum timeline_kind {
    SHOWS_FORWARD,
    SHOWS_BACKWARD,
    SHOWS_WGRAD,
    SHOWS_CALL,
    SHOWS_MESSAGE,
    SHOWS_COPY,
    SHOWS_OTHER,
    TIMELINE_KINDS
} timeline_kind;

static timeline_kind kind_of(const schedule_instr *i)
{
    const instr_row *row = instr_row_of(i->kind);
    if (row->computes & COMPUTES_FORWARD) return SHOWS_FORWARD;
    if (row->computes & COMPUTES_DGRAD) return SHOWS_BACKWARD;
    if (row->computes) return SHOWS_WGRAD;
    if (instr_is_message(i)) return SHOWS_MESSAGE;
    if (i->calls > 0) return SHOWS_CALL;
    return row->stream == STREAM_COPY ? SHOWS_COPY : SHOWS_OTHER;
}

static draw_paint paint_of(timeline_kind k)
{
    static const draw_paint others[TIMELINE_KINDS] = {
        [SHOWS_CALL] = {.name = "collective", .red = 190, .green = 60, .blue = 60},
        [SHOWS_MESSAGE] = {.name = "message", .red = 150, .green = 90, .blue = 170},
        [SHOWS_COPY] = {.name = "copy", .red = 90, .green = 120, .blue = 130},
        [SHOWS_OTHER] = {.name = "update and other", .red = 120, .green = 120, .blue = 60}};
    if (k == SHOWS_FORWARD) return *draw_paint_of(COMPUTES_FORWARD);
    if (k == SHOWS_BACKWARD) return *draw_paint_of(COMPUTES_DGRAD | COMPUTES_WGRAD);
    if (k == SHOWS_WGRAD) return *draw_paint_of(COMPUTES_WGRAD);
    return others[k];
}

static void add_fill(timeline_kind k, text *out)
{
    const draw_paint p = paint_of(k);
    text_addf(out, "fill=\"#%02x%02x%02x\"", p.red, p.green, p.blue);
}

static int rows_of(const timeline_picture *x)
{
    return x->streams_apart ? STREAMS : 1;
}

static int row_of(const timeline_picture *x, const schedule_instr *i)
{
    return x->streams_apart ? (int)instr_row_of(i->kind)->stream : 0;
}

static int top_of(const timeline_picture *x, int stage, int row)
{
    return TOP + stage * (rows_of(x) * ROW + BETWEEN) + row * ROW;
}

static void add_bar(const timeline_picture *x, int stage, int i, text *out)
{
    const schedule_instr *y = &x->of_stage[stage]->instr[i];
    const simulate_span *t = &x->span[stage][i];
    const double scale = PLOT / x->seconds, width = (t->end - t->start) * scale;
    text_addf(out, "<rect class=\"op\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" ",
              LEFT + t->start * scale, top_of(x, stage, row_of(x, y)), width, BAR);
    add_fill(kind_of(y), out);
    text_add(out, "><title>");
    instr_print(y, out);
    text_addf(out, ": begins at %.3f ms, takes %.3f ms</title></rect>\n", 1e3 * t->start,
              1e3 * (t->end - t->start));
}

static void add_stage(const timeline_picture *x, int stage, text *out)
{
    static const char *const names[STREAMS] = {
        [STREAM_COMPUTE] = "compute", [STREAM_COMM] = "communication", [STREAM_COPY] = "copy"};
    const double visible = 0.02 * x->seconds / PLOT; // a fiftieth of a pixel
    for (int r = 0; r < rows_of(x); r++) {
        const int top = top_of(x, stage, r);
        text_addf(out, "<text x=\"8\" y=\"%d\">", top + BAR - 3);
        if (x->stages > 1) text_addf(out, "stage %d ", stage);
        text_addf(out, "%s</text>\n", x->streams_apart ? names[r] : "");
        text_addf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#eee\"/>\n", LEFT,
                  top, PLOT, BAR);
    }
    for (int i = 0; i < x->of_stage[stage]->count; i++)
        if (x->span[stage][i].end - x->span[stage][i].start > visible) add_bar(x, stage, i, out);
}

// Ticks stand 1, 2 or 5 times a power of ten apart, about ten of them.
static void add_scale(const timeline_picture *x, int bottom, text *out)
{
    const double about = 1e3 * x->seconds / 10, power = pow(10, floor(log10(about)));
    const double apart = about / power < 2 ? power : about / power < 5 ? 2 * power : 5 * power;
    for (int i = 0; i * apart <= 1e3 * x->seconds; i++) {
        const double left = LEFT + PLOT * i * apart / (1e3 * x->seconds);
        text_addf(out,
                  "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\" stroke=\"#bbb\"/>"
                  "<text x=\"%.2f\" y=\"%d\">%.6g ms</text>\n",
                  left, TOP - 6, left, bottom, left + 3, TOP - 10, i * apart);
    }
}

static void add_legend(int top, text *out)
{
    int left = LEFT;
    for (timeline_kind k = 0; k < TIMELINE_KINDS; k++) {
        text_addf(out, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" ", left, top);
        add_fill(k, out);
        text_addf(out, "/><text x=\"%d\" y=\"%d\">%s</text>\n", left + 18, top + 10,
                  paint_of(k).name);
        left += 150;
    }
}

static void add_escaped(text *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '<')
            text_add(out, "&lt;");
        else if (*s == '&')
            text_add(out, "&amp;");
        else
            text_add_bytes(out, s, 1);
    }
}

void timeline_draw_svg(const timeline_picture *x, text *out)
{
    const int bottom = top_of(x, x->stages, 0), width = LEFT + PLOT + RIGHT, height = bottom + FOOT;
    text title = {0};
    add_escaped(&title, x->title);
    text_addf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
              "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
              "<title>%s</title>\n<text x=\"8\" y=\"20\" font-size=\"14\">%s</text>\n",
              width, height, width, height, width, height, title.chars ? title.chars : "",
              title.chars ? title.chars : "");
    add_scale(x, bottom, out);
    for (int k = 0; k < x->stages; k++) add_stage(x, k, out);
    add_legend(bottom + 14, out);
    text_add(out, "</svg>\n");
    if (title.failed) text_fail(out);
    text_clear(&title);
}
