// draw.h -- a pipeline's step as a picture: a row for each stage, time to the right, with the share
// of time in which stages are idle.
#ifndef TRIREME_PARALLEL_DRAW_H
#define TRIREME_PARALLEL_DRAW_H

#include "base/text.h"
#include "parallel/simulate.h"

// of_stage[i] and plan_of_stage[i] are of stage i; a training step's lists, and their times.
typedef struct pipeline_picture {
    const schedule *const *of_stage;
    const plan *const *plan_of_stage;
    const simulate_result *times;
} pipeline_picture;

// Lines of at most `columns` characters (40 or more). A pass is a letter, then the last digit of
// its micro-batch where there is room: F forward, B backward or its input half, W weight half, in
// lower case for odd chunks; '.' is idle. What is too long is left out of the middle, at " // ".
// Beneath, the idle share in closed form and as simulated.
void pipeline_draw_text(const pipeline_picture *x, int columns, text *out);

// A self-contained SVG document: a rect of class "op" for every pass of a chunk, coloured by kind
// and chunk, with the number of its micro-batch and a tooltip; a legend; the idle share as title.
void pipeline_draw_svg(const pipeline_picture *x, text *out);

#endif
