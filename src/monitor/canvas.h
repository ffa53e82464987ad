// canvas.h -- a small picture: anti-aliased lines, discs and text in a built-in bitmap font.
// Coordinates are pixels from the top left corner; whatever lies outside is not drawn.
#ifndef TRIREME_MONITOR_CANVAS_H
#define TRIREME_MONITOR_CANVAS_H

#include "base/err.h"

#include <stdint.h>

typedef struct canvas {
    int width, height;
    uint8_t *rgb; // owned, [height, width, 3]
} canvas;

typedef uint32_t color; // 0xRRGGBB

enum { GLYPH_WIDTH = 12, GLYPH_HEIGHT = 18 }; // of a character, its gap included

status canvas_open(canvas *c, int width, int height, color background, err *e);
void canvas_close(canvas *c); // NULL members allowed
void canvas_line(canvas *c, double x0, double y0, double x1, double y1, double thickness,
                 color ink);
void canvas_disc(canvas *c, double x, double y, double radius, color ink);
// `x`, `y`: the top left corner of the first character. The font has a-z, digits and .,:-+/%()=;
// capitals are drawn as small letters and anything else as a blank.
void canvas_text(canvas *c, int x, int y, const char *s, color ink);
int canvas_text_width(const char *s);
// Writes a PNG by rename. E_IO.
status canvas_write_png(const canvas *c, const char *path, err *e);

#endif
