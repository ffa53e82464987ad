// matrix_cover.h -- for tests: chooses the points of the matrix that are run. All choices are
// deterministic.
#ifndef TRIREME_TESTS_MATRIX_COVER_H
#define TRIREME_TESTS_MATRIX_COVER_H

#include "base/rng.h"
#include "equiv/matrix.h"

typedef struct points {
    point *items; // [count]
    int count, room;
} points;

void points_add(points *l, const point *p); // ignores a point that the list has
void points_clear(points *l);

// A sequence of random numbers.
typedef struct dice {
    rng_key key;
    uint64_t thrown;
} dice;
int dice_throw(dice *d, int sides); // 0 … sides-1
// Draws a legal point with the fixed values of `with`. Returns false if it finds none.
bool points_draw(dice *d, const point *with, const bool fixed[DIMS], point *out);

// Adds points that cover every pair of values of two dimensions that some legal point has.
void matrix_cover(points *out);
// Adds random legal points until the list has `count` of them.
void matrix_sample(points *out, int count, uint64_t seed);
// Adds every policy pair, mesh, schedule, recompute setting and tier, in fp32, with several
// micro-batches.
void matrix_core(points *out);

// Returns the number of pairs of values in `l`. *missing is the number of those that `cover` lacks.
int matrix_pairs(const points *l, const points *cover, int *missing);

#endif
