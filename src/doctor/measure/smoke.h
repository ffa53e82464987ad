// smoke.h -- judges the runs of `trireme smoke`: whether losses fall, and where two runs that must have the same bits first
// differ. It runs nothing.
#ifndef TRIREME_DOCTOR_SMOKE_H
#define TRIREME_DOCTOR_SMOKE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// E_NUMERIC where a loss is not finite, or the last one is not below the first one. `run` names the run in the text.
status smoke_check_losses(const char *run, const double *loss, int steps, err *e);
// E_NUMERIC where the first loss of a run is more than a hundredth from that of another run of the same model and batch.
status smoke_check_first(const char *run, double loss, const char *other, double expected, err *e);

typedef struct smoke_difference {
    int64_t elements; // that differ; 0: none
    int64_t first;    // the first of them
    int rank;         // that has the shard of the first one, where ranks shard dim 0 as zero3 does
} smoke_difference;
// Compares the bits of a parameter [count] with `rows` rows after two runs on so many ranks.
smoke_difference smoke_compare(const float *a, const float *b, int64_t count, int64_t rows,
                               int ranks);

#endif
