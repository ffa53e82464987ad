// matrix_pair.h -- for tests: random pairs of points of the matrix that must have the same bits, and in
// what each of them is run. All choices follow from a seed.
#ifndef TRIREME_TESTS_MATRIX_PAIR_H
#define TRIREME_TESTS_MATRIX_PAIR_H

#include "equiv/matrix.h"

enum { PAIR_RUN_NAME = 64 };

// Two jobs.
typedef struct pair {
    point point[2];
    matrix_run how[2];
} pair;

// Whether ARCHITECTURE.md ("Same bits") promises the same losses and weights for two points: they train
// the same model on the same sequences, and add the gradients of each parameter in one order.
bool pair_must_equal(const point *a, const point *b);
// Draws pair `number` of a seed.
void pair_draw(uint64_t seed, uint64_t number, pair *out);
// Describes in what a point is run: "threads", "processes", "late device, order 1", "toy".
void pair_describe_run(const matrix_run *how, char out[PAIR_RUN_NAME]);

#endif
