// matrix_pool.h -- for tests: many points of the matrix, each in a process of its own with a time
// limit, several at once, and each compared with what it must be equal to.
#ifndef TRIREME_TESTS_MATRIX_POOL_H
#define TRIREME_TESTS_MATRIX_POOL_H

#include "equiv/matrix.h"

// A point, how it is run, and what came of it.
typedef struct trial {
    point point;
    bool late;
    int late_order;
    bool passed;
    double seconds;
    difference difference; // from the reference
    char why[400];         // when it did not pass
} trial;

typedef struct pool_options {
    int jobs;           // processes at once
    double limit_s;     // of one run; a run that takes longer is killed and has failed
    const char *folder; // of the file tier
    void (*progress)(void *arg, int done, int count, int failed); // NULL allowed
    void *arg;
} pool_options;

// Runs the trials and the references that they need, and fills in what came of each: EXACT or
// CLOSE, as the matrix says, and in fp32 the reference itself CLOSE to one rank's. Returns how many
// failed. Called by a process that has started no thread.
int pool_run(const pool_options *o, trial *at, int count);

// A folder for the file tier that costs no disk, where there is one.
const char *pool_folder(void);

// As an observer of one run that may break what it runs (a negative control): in a process of its
// own, with a time limit. Fills *out; a run that crashed or took too long has result E_INTERNAL and
// an error that says so.
void pool_run_one(const point *p, const matrix_run *how, double limit_s, outcome *out);

#endif
