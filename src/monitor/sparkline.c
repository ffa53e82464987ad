// sparkline.c -- writes a loss curve as one line of block characters. The end of a run and `trireme
// curve` call it. It deliberately does not know the terminal: it appends text.
#include "monitor/curve.h"

#include <math.h>

void curve_sparkline(const curve_line *line, int width, text *out)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t pieces = width < 0 ? 0 : (size_t)width;
    double low = INFINITY, high = -INFINITY;

    if (pieces > line->count) pieces = line->count;
    // Each pass computes the means again, so that nothing has to be allocated.
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < pieces; i++) {
            size_t from = i * line->count / pieces, to = (i + 1) * line->count / pieces;
            double sum = 0.0;
            for (size_t j = from; j < to; j++) sum += line->loss[j];
            double mean = sum / (double)(to - from);
            if (pass == 0) {
                low = fmin(low, mean);
                high = fmax(high, mean);
            } else {
                double up = high > low ? (mean - low) / (high - low) : 0.0;
                text_add(out, blocks[(int)(up * 7.0 + 0.5)]);
            }
        }
    }
}
