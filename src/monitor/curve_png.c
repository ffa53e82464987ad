// curve_png.c -- draws the loss curve as a picture. The end of a run and `trireme curve` call it. It
// deliberately does not know the log or the format of the picture.
#include "base/alloc.h"
#include "monitor/canvas.h"
#include "monitor/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WIDTH = 960,
    HEIGHT = 540,
    MARGIN_LEFT = 84,
    MARGIN_RIGHT = 30,
    MARGIN_TOP = 44,
    MARGIN_BOTTOM = 60,
    TICKS = 6
};

static const canvas_color paper = 0xffffff, grid = 0xe8e8ec, axis = 0x9a9aa4, words = 0x3c3c46,
                          thin = 0xb4cdea, bold = 0x1f5fa8, dots = 0xd9480f;

// The rectangle inside the axes.
typedef struct curve_frame {
    double left, right, top, bottom; // in pixels
    double x0, x1, y0, y1;           // steps and losses at its edges
} curve_frame;

static double to_x(const curve_frame *f, double step)
{
    return f->left + (step - f->x0) / (f->x1 - f->x0) * (f->right - f->left);
}

// A loss outside the frame is drawn on its edge.
static double to_y(const curve_frame *f, double loss)
{
    double up = fmin(1.0, fmax(0.0, (loss - f->y0) / (f->y1 - f->y0)));
    return f->bottom - up * (f->bottom - f->top);
}

// --- what is shown -----------------------------------------------------------------------------

// A mean over about a fortieth of the run. It is centred, so that it does not lag. At the steep start
// it covers fewer steps, and at the end, where people read the value, only earlier steps. The
// caller frees *out, [count].
static status smooth(const curve_line *l, double **out, err *e)
{
    status result = OK;
    size_t widest = l->count / 80;
    double *sums = NULL;

    TRY(alloc_array(&sums, l->count + 1, sizeof *sums, "a curve", e));
    TRY(alloc_array(out, l->count, sizeof **out, "a curve", e));
    sums[0] = 0.0;
    for (size_t i = 0; i < l->count; i++) sums[i + 1] = sums[i] + l->loss[i];
    for (size_t i = 0; i < l->count; i++) {
        size_t behind = i < widest ? i : widest, ahead = l->count - 1 - i;
        if (ahead > behind) ahead = behind;
        (*out)[i] = (sums[i + ahead + 1] - sums[i - behind]) / (double)(ahead + behind + 1);
    }
done:
    free(sums);
    return result;
}

static void widen(double *low, double *high, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *low = fmin(*low, values[i]);
        *high = fmax(*high, values[i]);
    }
}

// The highest visible loss is that of the smoothed line, so that one spike does not flatten the rest.
static void fit(curve_frame *f, const curve *c, const double *smoothed)
{
    double pad, unused = -INFINITY;

    f->x0 = f->y0 = INFINITY;
    f->x1 = f->y1 = -INFINITY;
    widen(&f->x0, &f->x1, c->train.step, c->train.count);
    widen(&f->x0, &f->x1, c->valid.step, c->valid.count);
    widen(&f->y0, &unused, c->train.loss, c->train.count);
    widen(&f->y0, &f->y1, smoothed, c->train.count);
    widen(&f->y0, &f->y1, c->valid.loss, c->valid.count);
    if (f->x1 - f->x0 < 1.0) {
        f->x0 -= 0.5;
        f->x1 += 0.5;
    }
    pad = fmax(0.03 * (f->y1 - f->y0), 1e-3 * fmax(1.0, fabs(f->y1)));
    f->y0 -= pad;
    f->y1 += pad;
}

// --- axes --------------------------------------------------------------------------------------

// The distance between two ticks: 1, 2 or 5 times a power of ten, so that `range` has about TICKS.
static double tick_step(double range)
{
    double raw = range / TICKS, power = pow(10.0, floor(log10(raw))), lead = raw / power;
    return (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0) * power;
}

static void format_tick(char *out, size_t room, double value, double step)
{
    int decimals = step >= 1.0 ? 0 : (int)ceil(-log10(step) - 1e-9);

    if (fabs(value) < step * 1e-6) value = 0.0;
    if (step >= 1e6) {
        snprintf(out, room, "%.*fm", step < 1e7 ? 1 : 0, value / 1e6);
    } else if (step >= 1e3) {
        snprintf(out, room, "%.0fk", value / 1e3);
    } else {
        snprintf(out, room, "%.*f", decimals, value);
    }
}

static void draw_axes(canvas *c, const curve_frame *f)
{
    char label[40];
    double step = tick_step(f->y1 - f->y0);

    for (double v = ceil(f->y0 / step) * step; v <= f->y1; v += step) {
        double y = floor(to_y(f, v)) + 0.5;
        canvas_line(c, f->left, y, f->right, y, 1.0, grid);
        format_tick(label, sizeof label, v, step);
        canvas_text(c, (int)f->left - 10 - canvas_text_width(label), (int)y - 7, label, words);
    }
    step = fmax(1.0, tick_step(f->x1 - f->x0));
    for (double v = ceil(f->x0 / step) * step; v <= f->x1; v += step) {
        double x = floor(to_x(f, v)) + 0.5;
        canvas_line(c, x, f->top, x, f->bottom, 1.0, grid);
        format_tick(label, sizeof label, v, step);
        canvas_text(c, (int)x - canvas_text_width(label) / 2, (int)f->bottom + 10, label, words);
    }
    canvas_line(c, f->left, f->top, f->left, f->bottom, 1.5, axis);
    canvas_line(c, f->left, f->bottom, f->right, f->bottom, 1.5, axis);
    canvas_text(c, (int)f->left - 10 - canvas_text_width("loss"), 14, "loss", words);
    canvas_text(c, (int)(f->left + f->right - canvas_text_width("step")) / 2, (int)f->bottom + 34,
                "step", words);
}

// --- lines -------------------------------------------------------------------------------------

// Draws at most two segments for each pixel column. Of several points in a column it draws the lowest
// and the highest.
static void draw_line(canvas *c, const curve_frame *f, const double *step, const double *loss,
                      size_t count, double thickness, canvas_color ink)
{
    size_t pieces = (size_t)(f->right - f->left), before = 0;

    if (pieces > count) pieces = count;
    for (size_t i = 0; i < pieces; i++) {
        size_t from = i * count / pieces, to = (i + 1) * count / pieces, low = from, high = from;
        for (size_t j = from; j < to; j++) {
            if (loss[j] < loss[low]) low = j;
            if (loss[j] > loss[high]) high = j;
        }
        size_t ends[] = {low < high ? low : high, low < high ? high : low};
        for (int k = 0; k < 2; k++) {
            canvas_line(c, to_x(f, step[before]), to_y(f, loss[before]), to_x(f, step[ends[k]]),
                        to_y(f, loss[ends[k]]), thickness, ink);
            before = ends[k];
        }
    }
}

static int draw_key(canvas *c, int right, const char *name, double last, double thickness,
                    canvas_color ink)
{
    char label[64];
    snprintf(label, sizeof label, "%s %.3f", name, last);
    int left = right - canvas_text_width(label);
    canvas_text(c, left, 14, label, words);
    canvas_line(c, left - 32, 21.5, left - 12, 21.5, thickness, ink);
    return left - 60;
}

static void draw_keys(canvas *c, const curve_frame *f, const curve *v, const double *smoothed)
{
    int right = (int)f->right;
    if (v->valid.count > 0)
        right = draw_key(c, right, "validation", v->valid.loss[v->valid.count - 1], 5.0, dots);
    if (v->train.count > 0)
        draw_key(c, right, "train, smoothed", smoothed[v->train.count - 1], 3.0, bold);
}

status curve_draw_png(const curve *c, const char *path, int width, int height, err *e)
{
    status result = OK;
    canvas paint = {0};
    double *smoothed = NULL;
    const curve_line *t = &c->train, *v = &c->valid;
    curve_frame f;

    if (width == 0 && height == 0) {
        width = WIDTH;
        height = HEIGHT;
    }
    if (width < 320 || height < 200 || width > 10000 || height > 10000)
        FAIL(E_USAGE, "%s: %dx%d pixels; valid are 320x200 to 10000x10000", path, width, height);
    if (t->count + v->count == 0) FAIL(E_USAGE, "%s: no losses to draw", path);
    TRY(smooth(t, &smoothed, e));
    TRY(canvas_open(&paint, width, height, paper, e));
    f = (curve_frame){
        MARGIN_LEFT, width - MARGIN_RIGHT, MARGIN_TOP, height - MARGIN_BOTTOM, 0, 0, 0, 0};
    fit(&f, c, smoothed);
    draw_axes(&paint, &f);
    draw_line(&paint, &f, t->step, t->loss, t->count, 1.2, thin);
    draw_line(&paint, &f, t->step, smoothed, t->count, 2.2, bold);
    draw_line(&paint, &f, v->step, v->loss, v->count, 1.2, dots);
    for (size_t i = 0; i < v->count; i++)
        canvas_disc(&paint, to_x(&f, v->step[i]), to_y(&f, v->loss[i]), 4.0, dots);
    draw_keys(&paint, &f, c, smoothed);
    TRY(canvas_write_png(&paint, path, e));
done:
    canvas_close(&paint);
    free(smoothed);
    return result;
}
