// top_curve.c -- the losses of runs as a plot of characters: one run in dots of braille, several with a letter each. Called
// by top.c.
#include "monitor/top/top_parts.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 8, DOTS_WIDE = 2, DOTS_HIGH = 4 };

typedef struct top_plot {
    int width, height; // in characters, without labels
    double first, last, low, high;
    unsigned char *cell; // [height][width] dots of braille, or the number of a run, from 1
} top_plot;

static bool find_range(const top_run *runs, int count, top_plot *p)
{
    *p = (top_plot){.first = INFINITY, .last = -INFINITY, .low = INFINITY, .high = -INFINITY};
    for (int r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].v->steps; i++) {
            const run_step *s = &runs[r].v->step[i];
            if (!isfinite(s->loss)) continue;
            p->first = fmin(p->first, (double)s->step);
            p->last = fmax(p->last, (double)s->step);
            p->low = fmin(p->low, s->loss);
            p->high = fmax(p->high, s->loss);
        }
    return p->last > p->first;
}

// Means of the losses in each of `columns` columns; NAN where there are none.
static void find_means(const run_view *v, const top_plot *p, int columns, double *mean, int *count)
{
    memset(count, 0, (size_t)columns * sizeof *count);
    for (int i = 0; i < columns; i++) mean[i] = 0;
    for (size_t i = 0; i < v->steps; i++) {
        if (!isfinite(v->step[i].loss)) continue;
        const double at = ((double)v->step[i].step - p->first) / (p->last - p->first);
        const int column = (int)(at * (columns - 1) + 0.5);
        mean[column] += v->step[i].loss;
        count[column]++;
    }
    for (int i = 0; i < columns; i++) mean[i] = count[i] ? mean[i] / count[i] : NAN;
}

// Columns between two that have losses get what a straight line has there.
static void fill_gaps(double *mean, int columns)
{
    int before = -1;
    for (int i = 0; i < columns; i++) {
        if (isnan(mean[i])) continue;
        for (int k = before + 1; before >= 0 && k < i; k++)
            mean[k] = mean[before] + (mean[i] - mean[before]) * (k - before) / (i - before);
        before = i;
    }
}

static int row_of(const top_plot *p, double loss, int rows)
{
    const double up = p->high > p->low ? (loss - p->low) / (p->high - p->low) : 0.5;
    return (int)((1 - up) * (rows - 1) + 0.5);
}

// The dots of a character of braille, by row and column.
static void set_dot(top_plot *p, int x, int y)
{
    static const unsigned char bits[DOTS_HIGH][DOTS_WIDE] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    p->cell[(y / DOTS_HIGH) * p->width + x / DOTS_WIDE] |= bits[y % DOTS_HIGH][x % DOTS_WIDE];
}

static void plot_dots(top_plot *p, const double *mean)
{
    const int rows = p->height * DOTS_HIGH;
    int before = -1;
    for (int x = 0; x < p->width * DOTS_WIDE; x++) {
        if (isnan(mean[x])) continue;
        const int y = row_of(p, mean[x], rows);
        const int step = before < 0 || before == y ? 0 : before < y ? 1 : -1;
        for (int at = step ? before + step : y; step && at != y; at += step) set_dot(p, x, at);
        set_dot(p, x, y);
        before = y;
    }
}

// Runs that meet in a character take turns from column to column.
static void plot_letters(top_plot *p, const double *mean, int run, int count)
{
    for (int x = 0; x < p->width; x++) {
        if (isnan(mean[x])) continue;
        unsigned char *cell = &p->cell[row_of(p, mean[x], p->height) * p->width + x];
        if (!*cell || x % count == run) *cell = (unsigned char)(run + 1);
    }
}

static void add_cell(unsigned char cell, bool dots, text *out)
{
    if (!cell) {
        text_add(out, " ");
    } else if (dots) {
        // U+2800 and the dots.
        const char utf8[] = {(char)0xe2, (char)(0xa0 | cell >> 6), (char)(0x80 | (cell & 0x3f))};
        text_add_bytes(out, utf8, sizeof utf8);
    } else {
        top_tone_add(out, TOP_MARK + cell - 1);
        text_addf(out, "%c", 'a' + cell - 1);
    }
}

static void add_plot(const top_plot *p, bool dots, text *out)
{
    for (int y = 0; y < p->height; y++) {
        char label[24] = "";
        if (y == 0) (void)snprintf(label, sizeof label, "%.4g", p->high);
        if (y == p->height - 1) (void)snprintf(label, sizeof label, "%.4g", p->low);
        top_tone_add(out, TOP_SOFT);
        top_add_right(out, label, LABEL - 1);
        text_add(out, " ");
        top_tone_add(out, TOP_MARK);
        for (int x = 0; x < p->width; x++) add_cell(p->cell[y * p->width + x], dots, out);
        text_add(out, "\n");
    }
    char first[40], last[40];
    (void)snprintf(first, sizeof first, "loss, step %.0f", p->first);
    (void)snprintf(last, sizeof last, "%.0f", p->last);
    top_tone_add(out, TOP_SOFT);
    text_addf(out, "%*s%s", LABEL, "", first);
    top_add_right(out, last, p->width - (int)strlen(first));
    text_add(out, "\n");
}

// `height` has the line of steps below the plot.
status top_add_curves(const top_run *runs, int count, int width, int height, bool is_ascii,
                      text *out, err *e)
{
    status result = OK;
    top_plot p;
    double *mean = NULL;
    int *counts = NULL;
    const bool dots = count == 1 && !is_ascii;
    if (count > TOP_MARKS) count = TOP_MARKS;
    if (!find_range(runs, count, &p)) return OK;
    p.width = width - LABEL - 1;
    p.height = height - 1;
    const int columns = p.width * (dots ? DOTS_WIDE : 1);
    TRY(alloc_zeroed(&p.cell, (size_t)p.width * (size_t)p.height, 1, "a plot", e));
    TRY(alloc_array(&mean, (size_t)columns, sizeof *mean, "a plot", e));
    TRY(alloc_array(&counts, (size_t)columns, sizeof *counts, "a plot", e));
    for (int r = 0; r < count; r++) {
        find_means(runs[r].v, &p, columns, mean, counts);
        fill_gaps(mean, columns);
        if (dots)
            plot_dots(&p, mean);
        else
            plot_letters(&p, mean, r, count);
    }
    add_plot(&p, dots, out);
done:
    free(counts);
    free(mean);
    free(p.cell);
    return result;
}
