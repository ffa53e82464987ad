// draw_private.h -- how passes look, for the pictures of a pipeline (draw.c) and of a step in time (draw_timeline.c).
#ifndef TRIREME_PARALLEL_DRAW_PRIVATE_H
#define TRIREME_PARALLEL_DRAW_PRIVATE_H

#include "parallel/draw.h"

typedef struct draw_paint {
    unsigned computes;
    char letter;
    const char *name;
    int red, green, blue;
} draw_paint;

// Of a pass that computes this (COMPUTES_ bits).
const draw_paint *draw_paint_of(unsigned computes);

#endif
