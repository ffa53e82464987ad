// canvas.c -- draws into a picture and writes it as a PNG. curve_png.c calls it. It deliberately does
// not know losses, axes or runs.
#include "monitor/canvas.h"
#include "base/alloc.h"
#include "base/file.h"
#include "monitor/font.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

status canvas_open(canvas *c, int width, int height, canvas_color background, err *e)
{
    size_t pixels = (size_t)width * (size_t)height;

    *c = (canvas){.width = width, .height = height};
    const status result = alloc_array(&c->rgb, pixels, 3, "a picture", e);
    if (result != OK) return result;
    for (size_t i = 0; i < pixels; i++) {
        c->rgb[3 * i] = (uint8_t)(background >> 16);
        c->rgb[3 * i + 1] = (uint8_t)(background >> 8);
        c->rgb[3 * i + 2] = (uint8_t)background;
    }
    return OK;
}

void canvas_close(canvas *c)
{
    free(c->rgb);
    c->rgb = NULL;
}

static void blend(canvas *c, int x, int y, double cover, canvas_color ink)
{
    if (x < 0 || y < 0 || x >= c->width || y >= c->height || cover <= 0.0) return;
    if (cover > 1.0) cover = 1.0;
    uint8_t *p = c->rgb + 3 * ((size_t)y * (size_t)c->width + (size_t)x);
    for (int i = 0; i < 3; i++) {
        double to = (double)((ink >> (16 - 8 * i)) & 255);
        p[i] = (uint8_t)(p[i] + (to - p[i]) * cover + 0.5);
    }
}

// The distance of the point p from the segment a + t d, 0 <= t <= 1.
static double distance(double px, double py, double ax, double ay, double dx, double dy)
{
    double length = dx * dx + dy * dy, t = 0.0;
    if (length > 0.0) t = ((px - ax) * dx + (py - ay) * dy) / length;
    t = fmin(1.0, fmax(0.0, t));
    return hypot(px - ax - t * dx, py - ay - t * dy);
}

static int clamp(double v, int limit)
{
    return v < 0.0 ? 0 : v > limit ? limit : (int)v;
}

void canvas_line(canvas *c, double x0, double y0, double x1, double y1, double thickness,
                 canvas_color ink)
{
    double reach = thickness / 2.0 + 1.0;
    int left = clamp(fmin(x0, x1) - reach, c->width), right = clamp(fmax(x0, x1) + reach, c->width);
    int top = clamp(fmin(y0, y1) - reach, c->height), low = clamp(fmax(y0, y1) + reach, c->height);

    for (int y = top; y <= low; y++) {
        for (int x = left; x <= right; x++) {
            double d = distance(x + 0.5, y + 0.5, x0, y0, x1 - x0, y1 - y0);
            blend(c, x, y, thickness / 2.0 + 0.5 - d, ink);
        }
    }
}

void canvas_disc(canvas *c, double x, double y, double radius, canvas_color ink)
{
    canvas_line(c, x, y, x, y, 2.0 * radius, ink);
}

static int is_inked(const uint8_t *rows, int x, int y)
{
    return x >= 0 && y >= 0 && x < FONT_COLUMNS && y < FONT_ROWS &&
           (rows[y] >> (FONT_COLUMNS - 1 - x) & 1);
}

// Each dot of the font becomes 2x2 pixels. A pixel of an empty dot gets half the ink when the dots
// beside and above it both have ink, so that slanted strokes look smooth.
static void draw_glyph(canvas *c, int x0, int y0, const uint8_t *rows, canvas_color ink)
{
    for (int y = 0; y < 2 * FONT_ROWS; y++) {
        for (int x = 0; x < 2 * FONT_COLUMNS; x++) {
            int dot = is_inked(rows, x / 2, y / 2);
            int aside = is_inked(rows, x / 2 + (x & 1 ? 1 : -1), y / 2);
            int above = is_inked(rows, x / 2, y / 2 + (y & 1 ? 1 : -1));
            blend(c, x0 + x, y0 + y, dot ? 1.0 : aside && above ? 0.5 : 0.0, ink);
        }
    }
}

void canvas_text(canvas *c, int x, int y, const char *s, canvas_color ink)
{
    for (; *s; s++, x += CANVAS_GLYPH_WIDTH) {
        const uint8_t *rows = font_glyph(*s);
        if (rows) draw_glyph(c, x, y, rows, ink);
    }
}

int canvas_text_width(const char *s)
{
    return (int)strlen(s) * CANVAS_GLYPH_WIDTH;
}

status canvas_write_png(const canvas *c, const char *path, err *e)
{
    status result = OK;
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    png_alloc_size_t bytes;
    void *file = NULL;

    image.width = (png_uint_32)c->width;
    image.height = (png_uint_32)c->height;
    bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    TRY(alloc_array(&file, bytes, 1, path, e));
    if (!png_image_write_to_memory(&image, file, &bytes, 0, c->rgb, 0, NULL))
        FAIL(E_INTERNAL, "%s: libpng: %s", path, image.message);
    TRY(file_replace(path, file, bytes, e));
done:
    png_image_free(&image);
    free(file);
    return result;
}
