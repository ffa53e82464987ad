// canvas.h -- a picture of anti-aliased lines, discs and text in a built-in bitmap font. Coordinates
// are pixels from the top left corner. Pixels outside the picture are not drawn.
#ifndef TRIREME_MONITOR_CANVAS_H
#define TRIREME_MONITOR_CANVAS_H

#include "base/err.h"

#include <stdint.h>

typedef struct canvas {
    int width, height;
    uint8_t *rgb; // owned, [height, width, 3]
} canvas;

typedef uint32_t canvas_color; // 0xRRGGBB

enum { CANVAS_GLYPH_WIDTH = 12 }; // pixels of a character with the gap after it

status canvas_open(canvas *c, int width, int height, canvas_color background, err *e);
void canvas_close(canvas *c); // NULL members allowed
void canvas_line(canvas *c, double x0, double y0, double x1, double y1, double thickness,
                 canvas_color ink);
void canvas_disc(canvas *c, double x, double y, double radius, canvas_color ink);
// `x` and `y` are the top left corner of the first character. The font has a-z, digits and
// .,:-+/%()=; it draws capitals as small letters and any other character as a space.
void canvas_text(canvas *c, int x, int y, const char *s, canvas_color ink);
int canvas_text_width(const char *s);
// Writes a PNG, which appears by a rename. E_IO.
status canvas_write_png(const canvas *c, const char *path, err *e);

#endif
