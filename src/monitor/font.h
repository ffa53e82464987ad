// font.h -- a bitmap font of 5x9 dots. The baseline is below the seventh row.
#ifndef TRIREME_MONITOR_FONT_H
#define TRIREME_MONITOR_FONT_H

#include <stdint.h>

enum { FONT_COLUMNS = 5, FONT_ROWS = 9 };

// The rows of a character from the top, [FONT_ROWS]; bit 4 is the leftmost dot. NULL when the font
// lacks the character. A capital gives its small letter.
const uint8_t *font_glyph(char c);

#endif
