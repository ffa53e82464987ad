// draw.c -- draws a simulated pipeline, as text and as SVG. Called by `trireme explain`. It does
// not know how the times were computed. It appends to a text and writes no files.
#include "parallel/draw_private.h"

#include "parallel/instructions.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// One bar of the picture: one pass of a chunk, which runs its blocks one after the other.
typedef struct draw_bar {
    unsigned computes;
    int micro, chunk, first_block, last_block;
    double start, end;
} draw_bar;

static unsigned computes(const schedule_instr *x)
{
    return instr_row_of(x->kind)->computes;
}

static int stages_of(const pipeline_picture *x)
{
    return x->times->stages;
}

static int chunks_of(const pipeline_picture *x)
{
    return x->plan_of_stage[0]->chunks / stages_of(x);
}

static bool belongs(const draw_bar *b, const schedule_instr *y, int chunk)
{
    return computes(y) == b->computes && y->micro == b->micro && chunk == b->chunk;
}

// Finds the first bar of the stage's list from instruction *next on. *next becomes the instruction
// that follows the bar.
static bool next_bar(const pipeline_picture *x, int stage, int *next, draw_bar *out)
{
    const schedule *s = x->of_stage[stage];
    const plan *p = x->plan_of_stage[stage];
    bool found = false;
    for (; *next < s->count; ++*next) {
        const schedule_instr *y = &s->instr[*next];
        if (computes(y) == COMPUTES_NOTHING) continue;
        const simulate_span *t = &x->times->span[stage][*next];
        const int chunk = plan_chunk_of(p, y->index) / stages_of(x);
        if (found && !belongs(out, y, chunk)) return true;
        if (!found)
            *out = (draw_bar){computes(y), y->micro, chunk, y->index, y->index, t->start, t->end};
        if (y->index < out->first_block) out->first_block = y->index;
        if (y->index > out->last_block) out->last_block = y->index;
        out->end = t->end;
        found = true;
    }
    return found;
}

// The measures of all bars together.
typedef struct draw_extent {
    int bars;
    double mean, shortest; // seconds
    double end;            // end of the last bar
} draw_extent;

static draw_extent measure(const pipeline_picture *x)
{
    draw_extent all = {.shortest = INFINITY};
    draw_bar b;
    for (int i = 0; i < stages_of(x); i++)
        for (int next = 0; next_bar(x, i, &next, &b);) {
            all.bars++;
            all.mean += b.end - b.start;
            all.shortest = fmin(all.shortest, b.end - b.start);
            all.end = fmax(all.end, b.end);
        }
    if (all.bars) all.mean /= all.bars;
    // Very short bars, such as those of a chunk that has only an embedding, do not determine the
    // scale.
    all.shortest = fmax(all.shortest, all.mean / 4);
    return all;
}

static void add_caption(const pipeline_picture *x, text *out)
{
    const plan_options *o = &x->plan_of_stage[0]->o;
    const int chunks = chunks_of(x);
    text_addf(out, "%s, %d stages", pipeline_schedule_name(o->strategy.pipeline.schedule),
              stages_of(x));
    if (chunks > 1) text_addf(out, " of %d chunks", chunks);
    text_addf(out, ", %d micro-batches: bubble %.1f %% analytic, %.1f %% simulated", o->micros,
              100 * pipeline_bubble(o->strategy.pipeline.schedule, stages_of(x), chunks, o->micros),
              100 * x->times->bubble);
}

// ---- How passes look

static const draw_paint PAINTS[] = {
    {COMPUTES_FORWARD, 'F', "forward", 62, 118, 200},
    {COMPUTES_DGRAD | COMPUTES_WGRAD, 'B', "backward", 46, 150, 92},
    {COMPUTES_DGRAD, 'B', "backward, dgrad", 46, 150, 92},
    {COMPUTES_WGRAD, 'W', "backward, wgrad", 214, 140, 40},
};
enum { PAINTS_COUNT = sizeof PAINTS / sizeof *PAINTS };

const draw_paint *draw_paint_of(unsigned computes)
{
    int i = 0;
    while (PAINTS[i].computes != computes) i++;
    return &PAINTS[i];
}

// ---- Text

enum { LABEL = 11 }; // columns before the drawing

static const char CUT[] = " // ";

static char letter(const draw_bar *b)
{
    const char c = draw_paint_of(b->computes)->letter;
    return b->chunk & 1 ? (char)tolower(c) : c;
}

static void add_row(const pipeline_picture *x, int stage, double per_second, int width, text *row)
{
    draw_bar b;
    for (int i = 0; i < width; i++) text_add(row, ".");
    for (int next = 0; !row->failed && next_bar(x, stage, &next, &b);) {
        int from = (int)lround(b.start * per_second), to = (int)lround(b.end * per_second);
        for (int i = from; i < to && i < width; i++)
            row->chars[i] = i == from       ? letter(&b)
                            : i == from + 1 ? (char)('0' + b.micro % 10)
                                            : '-';
    }
}

// Appends "|0        |12.5" and so on: a bar stands where its number of milliseconds is.
static void add_scale(double per_second, int width, text *row)
{
    enum { APART = 20 };
    char label[24];
    for (int i = 0; i < width; i++) text_add(row, " ");
    for (int i = 0; !row->failed && i < width; i += APART) {
        const double ms = 1e3 * i / per_second;
        const int bytes = snprintf(label, sizeof label, ms < 100 ? "|%.3g" : "|%.0f", ms);
        if (i + bytes <= width) memcpy(row->chars + i, label, (size_t)bytes);
    }
}

// A row that is wider than `room` loses its middle.
static void add_line(const char *label, const text *row, int room, text *out)
{
    const int width = (int)row->bytes, shown = (room - (int)strlen(CUT)) / 2;
    text_addf(out, "%-*s", LABEL, label);
    if (row->failed)
        text_fail(out);
    else if (width <= room)
        text_add_bytes(out, row->chars, row->bytes);
    else
        text_addf(out, "%.*s%s%s", shown, row->chars, CUT, row->chars + width - shown);
    text_add(out, "\n");
}

void pipeline_draw_text(const pipeline_picture *x, int columns, text *out)
{
    const draw_extent all = measure(x);
    const int room = columns - LABEL;
    // The shortest pass gets two columns. It gets one column if only then the picture fits. If the
    // picture does not fit with one column either, the middle is left out.
    const double units = all.bars ? all.end / all.shortest : 0;
    double per_unit = 2 * units > room && units <= room ? 1 : 2;
    const int width = (int)lround(units * per_unit);
    const double per_second = all.bars ? per_unit / all.shortest : 0;
    for (int i = 0; i <= stages_of(x); i++) {
        text row = {0};
        char label[24];
        snprintf(label, sizeof label, i < stages_of(x) ? "stage %-4d" : "ms", i);
        if (i < stages_of(x))
            add_row(x, i, per_second, width, &row);
        else if (x->in_seconds)
            add_scale(per_second, width, &row);
        if (i < stages_of(x) || x->in_seconds) add_line(label, &row, room, out);
        text_clear(&row);
    }
    add_caption(x, out);
    text_add(out, "\n");
}

// ---- SVG

enum { LEFT = 72, TOP = 40, ROW = 30, BAR = 26, FOOT = 44, NARROW = 640, WIDE = 6000 };

// How much paler the colour of a chunk is: 0 for the first chunk; 1 would be white.
static double paleness(int chunk, int chunks)
{
    return chunks > 1 ? 0.6 * chunk / (chunks - 1) : 0;
}

static void add_fill(const draw_paint *p, int chunk, int chunks, text *out)
{
    const double pale = paleness(chunk, chunks);
    text_addf(out, "fill=\"#%02x%02x%02x\"", p->red + (int)(pale * (255 - p->red)),
              p->green + (int)(pale * (255 - p->green)), p->blue + (int)(pale * (255 - p->blue)));
}

static void add_bar(const draw_bar *b, int chunks, double left, double width, double top, text *out)
{
    const draw_paint *p = draw_paint_of(b->computes);
    text_addf(out, "<rect class=\"op\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" ", left,
              top, width, BAR);
    add_fill(p, b->chunk, chunks, out);
    text_addf(out, "><title>%s, micro-batch %d, chunk %d, blocks %d to %d</title></rect>\n",
              p->name, b->micro, b->chunk, b->first_block, b->last_block);
    const bool two = b->micro > 9, three = b->micro > 99;
    if (width >= 9 + 6 * two + 6 * three)
        text_addf(out, "<text class=\"micro%s\" x=\"%.2f\" y=\"%.0f\">%d</text>\n",
                  paleness(b->chunk, chunks) > 0.3 ? " dark" : "", left + width / 2,
                  top + BAR / 2 + 4, b->micro);
}

// Whether the picture has such a pass. The legend names only these.
static bool shows(const pipeline_picture *x, unsigned computes)
{
    draw_bar b;
    for (int i = 0; i < stages_of(x); i++)
        for (int next = 0; next_bar(x, i, &next, &b);)
            if (b.computes == computes) return true;
    return false;
}

static void add_legend(const pipeline_picture *x, int top, text *out)
{
    const int chunks = chunks_of(x);
    int left = LEFT;
    for (int i = 0; i < PAINTS_COUNT; i++) {
        if (!shows(x, PAINTS[i].computes)) continue;
        for (int c = 0; c < chunks; c++) {
            text_addf(out, "<rect class=\"key\" x=\"%d\" y=\"%d\" width=\"12\" height=\"14\" ",
                      left, top);
            add_fill(&PAINTS[i], c, chunks, out);
            text_add(out, "/>\n");
            left += 13;
        }
        text_addf(out, "<text x=\"%d\" y=\"%d\">%s%s</text>\n", left + 4, top + 11, PAINTS[i].name,
                  chunks > 1 ? ", by chunk" : "");
        left += 30 + 7 * (int)strlen(PAINTS[i].name) + (chunks > 1 ? 60 : 0);
    }
}

static void add_head(const pipeline_picture *x, int width, int height, text *out)
{
    text_addf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
              "<style>.op{stroke:#fff;stroke-width:.75}.micro{fill:#fff;text-anchor:middle;"
              "font-size:11px;pointer-events:none}.dark,text:not(.micro){fill:#222}</style>\n"
              "<rect class=\"paper\" width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<title>",
              width, height, width, height, width, height);
    add_caption(x, out);
    text_addf(out, "</title>\n<text x=\"%d\" y=\"24\" font-size=\"14\">", LEFT);
    add_caption(x, out);
    text_add(out, "</text>\n");
}

void pipeline_draw_svg(const pipeline_picture *x, text *out)
{
    const draw_extent all = measure(x);
    const int stages = stages_of(x), rows = TOP + stages * ROW;
    const double units = all.bars ? all.end / all.shortest : 0;
    const double plot = fmin(fmax(16 * units, NARROW), WIDE); // 16: room for a number
    const double scale = all.end > 0 ? plot / all.end : 0;
    add_head(x, LEFT + (int)plot + 16, rows + FOOT, out);
    for (int i = 0; i < stages; i++) {
        draw_bar b;
        const int top = TOP + i * ROW;
        text_addf(out, "<text x=\"12\" y=\"%d\">stage %d</text>\n", top + BAR / 2 + 4, i);
        text_addf(out,
                  "<rect class=\"idle\" x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%d\" "
                  "fill=\"#eee\"/>\n",
                  LEFT, top, plot, BAR);
        for (int next = 0; next_bar(x, i, &next, &b);)
            add_bar(&b, chunks_of(x), LEFT + b.start * scale, (b.end - b.start) * scale, top, out);
    }
    add_legend(x, rows + 14, out);
    text_add(out, "</svg>\n");
}
