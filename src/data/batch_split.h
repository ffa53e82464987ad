// batch_split.h -- how the sequences of a step are divided over data-parallel ranks. Ranks of equal speed
// have equally many. Ranks of unequal speed have micro-batches of unequal size and equally many of them, so
// that all ranks end each micro-batch together and meet in its collectives. config/, train/ and session/
// use it. Pure arithmetic: it knows no job and no device.
//
// The sequences of a step go to the ranks in contiguous runs, in the order of the ranks. A rank's
// micro-batches follow each other in its run.
#ifndef TRIREME_DATA_BATCH_SPLIT_H
#define TRIREME_DATA_BATCH_SPLIT_H

#include "base/err.h"

#include <stdint.h>

typedef struct batch_split {
    int ranks;     // that are data-parallel
    const int *of; // [ranks] sequences of a micro-batch of each rank; NULL: `each`; borrowed
    int64_t each;  // of every rank, where `of` is NULL
} batch_split;

// Sequences of a micro-batch of one rank.
int64_t batch_split_of(const batch_split *s, int rank);
// Sequences of one micro-batch of each rank before this one; `ranks`: of all ranks.
int64_t batch_split_before(const batch_split *s, int rank);
// A rank that has the largest, or the smallest, micro-batches.
int batch_split_largest(const batch_split *s);
int batch_split_smallest(const batch_split *s);

// What ranks of these speeds may have.
typedef struct batch_split_choice {
    const double *speed; // [ranks] sequences per second, in any unit; each above 0
    int ranks;
    int64_t global_batch, most; // sequences of a step; of a micro-batch of a rank, at least 1
    int multiple;               // of which the number of micro-batches is one; 1: any number
} batch_split_choice;

// Sets of[ranks] to the sizes from 1 to `most` with which the slowest rank ends a step first: those whose sum
// divides the global batch, and of which the largest time per sequence is least. Of equal times the one with
// fewest micro-batches wins. Returns the time of that step by the time of an even split; 0: no sum divides the
// global batch. At most BATCH_SPLIT_SUMS sums are tried, from the largest one down.
double batch_split_choose(const batch_split_choice *c, int *of);

enum { BATCH_SPLIT_SUMS = 1 << 16 };

#endif
