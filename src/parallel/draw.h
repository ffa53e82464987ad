// draw.h -- draws a step of a pipeline: one row for each stage, with time to the right, and the
// bubble. Called by `trireme explain`.
#ifndef TRIREME_PARALLEL_DRAW_H
#define TRIREME_PARALLEL_DRAW_H

#include "base/text.h"
#include "parallel/simulate.h"

// of_stage[i] and plan_of_stage[i] belong to stage i: the lists of a training step. `times` are
// their simulated times.
typedef struct pipeline_picture {
    const schedule *const *of_stage;
    const plan *const *plan_of_stage;
    const simulate_result *times;
    bool in_seconds; // the times are seconds of a machine; else they have no unit
} pipeline_picture;

// Appends lines of at most `columns` characters (40 or more). A pass is a letter, followed by the
// last digit of its micro-batch if there is room. F is forward, B backward or dgrad, W wgrad; odd
// chunks have lower case; '.' is idle time. If the picture is too wide, " // " replaces its middle.
// Times in seconds get a scale in milliseconds. The last line has the analytic and the simulated bubble.
void pipeline_draw_text(const pipeline_picture *x, int columns, text *out);

// Appends a self-contained SVG document: a rect of class "op" for every pass of a chunk, coloured
// by what it computes and by chunk, with the number of its micro-batch and a tooltip. The document
// also has a legend, and the bubble as its title.
void pipeline_draw_svg(const pipeline_picture *x, text *out);

// A step of any job, with times in seconds.
typedef struct timeline_picture {
    const schedule *const *of_stage; // [stages]
    const plan *const *plan_of_stage;
    int stages;
    const simulate_span *const *span; // [stages][instructions]
    double seconds;                   // of the step
    bool streams_apart;               // streams run side by side, and each has a row
    const char *title;
} timeline_picture;

// Appends a self-contained SVG document, to scale: a row for each stream of each stage, a rect of class "op" for every
// instruction that takes time, with its begin and duration as a tooltip, and a scale in milliseconds.
void timeline_draw_svg(const timeline_picture *x, text *out);

#endif
