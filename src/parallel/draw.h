// draw.h -- a step of a pipeline as a picture: a row for each stage, time to the right, and the
// bubble. `trireme explain` calls it.
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
} pipeline_picture;

// Appends lines of at most `columns` characters (40 or more). A pass is a letter, and the last digit
// of its micro-batch where there is room: F forward, B backward or dgrad, W wgrad; lower case for
// odd chunks; '.' idle. The middle of a picture that is too wide is left out, at " // ". The last
// line says the bubble, analytic and simulated.
void pipeline_draw_text(const pipeline_picture *x, int columns, text *out);

// Appends a self-contained SVG document: a rect of class "op" for every pass of a chunk, coloured by
// what it computes and by chunk, with the number of its micro-batch and a tooltip; a legend; the
// bubble as title.
void pipeline_draw_svg(const pipeline_picture *x, text *out);

#endif
