// curve.h -- the loss curve of a run, read from its log.jsonl: as a PNG picture and as one line of
// block characters.
#ifndef TRIREME_MONITOR_CURVE_H
#define TRIREME_MONITOR_CURVE_H

#include "base/text.h"

typedef struct curve_line {
    double *step, *loss; // [count] owned
    size_t count, room;
} curve_line;

typedef struct curve {
    curve_line train, valid; // steps increase; losses are finite
} curve;

// Reads the step and eval events of a log.jsonl. The steps of a resumed run replace the same steps of
// the earlier run. An unfinished last line is ignored. E_USAGE when the file cannot be read or a line
// is not a JSON object. The owner calls curve_clear, also after a failure.
status curve_read(const char *log_path, curve *out, err *e);
void curve_clear(curve *c);

// Writes a picture of width x height pixels (at least 320 x 200; 0 x 0 means 960 x 540). It shows the
// train loss as a thin line, its smoothed line, and the validation losses as points. The file appears
// by a rename. E_USAGE when there are no losses.
status curve_draw_png(const curve *c, const char *path, int width, int height, err *e);

// Appends the line as at most `width` block characters (three bytes each in UTF-8). Each shows the
// mean of one piece of the line, from the lowest mean to the highest. Appends nothing for an empty
// line.
void curve_sparkline(const curve_line *line, int width, text *out);

#endif
