// font.h -- a bitmap font of 5x9 dots, baseline below the seventh row.
#ifndef TRIREME_MONITOR_FONT_H
#define TRIREME_MONITOR_FONT_H

#include <stdint.h>

enum { FONT_COLUMNS = 5, FONT_ROWS = 9 };

// FONT_ROWS rows from the top, the leftmost dot in bit 4; NULL for a character that it lacks.
// Capitals give small letters.
const uint8_t *font_glyph(char c);

#endif
