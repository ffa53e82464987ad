// curve.h -- the loss curve of a run, read from its log.jsonl: as a PNG picture and as one line of
// block characters.
#ifndef TRIREME_MONITOR_CURVE_H
#define TRIREME_MONITOR_CURVE_H

#include "base/text.h"

typedef struct curve_line {
    double *step, *loss; // owned
    size_t count, room;
} curve_line;

typedef struct curve {
    curve_line train, valid; // steps rising; only finite losses
} curve;

// Reads the step and eval events of a log.jsonl. Steps that a resumed run did again replace those
// of before; a last line without its end is left out. E_USAGE when the file cannot be read or a
// line is not a JSON object. Owner calls curve_clear, also after a failure.
status curve_read(const char *log_path, curve *out, err *e);
void curve_clear(curve *c);

// Writes a picture of width x height pixels (at least 320 x 200; {0, 0} = 960 x 540): the train
// loss thin and smoothed, the validation losses as points. The file appears by rename. E_USAGE when
// there is nothing to draw.
status curve_draw_png(const curve *c, const char *path, int width, int height, err *e);

// Appends at most `width` block characters of the train loss (three bytes each in UTF-8), low to
// high from the lowest to the highest mean of the pieces. Appends nothing for an empty line.
void curve_sparkline(const curve_line *line, int width, text *out);

#endif
