// matrix_cover.h -- for tests: which points of the matrix are run. All choices are deterministic.
#ifndef TRIREME_TESTS_MATRIX_COVER_H
#define TRIREME_TESTS_MATRIX_COVER_H

#include "equiv/matrix.h"

typedef struct points {
    point *at;
    int count, room;
} points;

void points_add(points *l, const point *p); // once each
void points_clear(points *l);

// Every pair of values of two dimensions that any legal point has, in at least one point.
void matrix_cover(points *out);
// Points drawn at random from all legal ones until there are `count` of them in the list.
void matrix_sample(points *out, int count, uint64_t seed);
// Every policy pair, mesh, schedule, recompute setting and tier, in fp32, with several
// micro-batches.
void matrix_core(points *out);

// How many pairs of values the points have, and how many of those are not in `of`.
int matrix_pairs(const points *l, const points *of, int *missing);

#endif
