// fit_search.h -- what to change when a job does not fit: smaller micro-batches, bf16, recompute,
// zero2, zero3, host memory, files; in this order, each on top of those before, as far as it helps.
#ifndef TRIREME_SESSION_LADDER_H
#define TRIREME_SESSION_LADDER_H

#include "session/estimate.h"

typedef struct fit_search {
    job changed; // a plain copy of the job with other values: borrows from it
    memory_estimate need;
    bool fits;
    bool wants_path; // of parallel.offload.path, for a step to files
} fit_search;

// Climbs until the largest rank needs at most `budget`; each step's bytes are those of its plan. A
// step that is not legal for this job, or does not lower them, is left out. Where no step is
// enough, the result is where it needs least.
status fit_search_run(const job *j, const session_inputs *in, int ranks, uint64_t budget,
                      const memory_estimate_base *base, fit_search *out, err *e);
// "--train.micro_batch 2 --parallel.dp zero2 needs 1.20 GiB"
void fit_search_print(const job *j, const fit_search *l, text *out);
// How many ranks, doubled from `ranks`, it takes until `changed` under zero3 needs at most
// `budget`, each with as many sequences as now; 0: more than a mesh has.
status fit_search_ranks(const job *changed, const session_inputs *in, int ranks, uint64_t budget,
                        const memory_estimate_base *base, int *out, err *e);

#endif
