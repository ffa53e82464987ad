// ladder.h -- what to change when a job does not fit: smaller micro-batches, bf16, recompute,
// zero2, zero3, host memory, files; in this order, each on top of those before, as far as it helps.
#ifndef TRIREME_SESSION_LADDER_H
#define TRIREME_SESSION_LADDER_H

#include "session/need.h"

typedef struct ladder {
    job changed; // a plain copy of the job with other values: borrows from it
    need need;
    bool fits;
    bool wants_path; // of parallel.offload.path, for a step to files
} ladder;

// Climbs until the largest rank needs at most `budget`; each step's bytes are those of its plan. A
// step that is not legal for this job, or does not lower them, is left out. Where no step is
// enough, the result is where it needs least.
status ladder_climb(const job *j, const inputs *in, int ranks, uint64_t budget,
                    const need_base *base, ladder *out, err *e);
// "--train.micro_batch 2 --parallel.dp zero2 needs 1.20 GiB"
void ladder_print(const job *j, const ladder *l, text *out);
// How many ranks, doubled from `ranks`, it takes until `changed` under zero3 needs at most
// `budget`, each with as many sequences as now; 0: more than a mesh has.
status ladder_ranks(const job *changed, const inputs *in, int ranks, uint64_t budget,
                    const need_base *base, int *out, err *e);

#endif
