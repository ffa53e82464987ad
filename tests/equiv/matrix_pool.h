// matrix_pool.h -- for tests: runs many points of the matrix and compares each with its reference.
// Every run has its own process and a time limit. Several run at once.
#ifndef TRIREME_TESTS_MATRIX_POOL_H
#define TRIREME_TESTS_MATRIX_POOL_H

#include "equiv/matrix.h"

// A point, how it is run, and its result.
typedef struct trial {
    point point;
    bool late, unkind; // the device
    int late_order;
    bool toy;                       // several ranks use the toy communicator
    const distant_options *distant; // as in matrix_run
    bool passed;
    double seconds;
    difference difference; // from the reference
    char why[400];         // the reason, if the trial failed
} trial;

typedef struct pool_options {
    int jobs;           // processes at once
    double limit_s;     // time limit of one run; the pool kills longer runs, which then failed
    const char *folder; // of the file tier
    void (*progress)(void *arg, int done, int count, int failed); // NULL allowed
    void *arg;
} pool_options;

// Runs the trials and their references and fills in the results. A trial passes if it is EXACT or
// CLOSE to its reference, as the matrix says, and if in fp32 the reference is CLOSE to one rank's
// run. Under a sanitizer a trial passes if it ends well. Returns the number of failed trials. The
// calling process must not have started a thread.
int pool_run(const pool_options *o, trial *items, int count);

// Returns a folder for the file tier, in memory if there is such a folder.
const char *pool_folder(void);

// Runs one point in its own process with a time limit and fills *out. Negative controls use it,
// because it survives a crash of the run: a run that crashed or took too long has result E_INTERNAL
// and an error that says so.
void pool_run_one(const point *p, const matrix_run *how, double limit_s, outcome *out);

#endif
