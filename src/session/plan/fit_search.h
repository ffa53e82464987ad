// fit_search.h -- the memory fit search: changes of a job that does not fit in memory. It tries a
// smaller micro-batch, zero1 and bf16, then policies and recomputation from the cheapest on, then cp 2 to 8,
// host memory and files. The first that fits is taken.
#ifndef TRIREME_SESSION_FIT_SEARCH_H
#define TRIREME_SESSION_FIT_SEARCH_H

#include "session/plan/estimate.h"

typedef struct fit_search {
    job changed;              // a plain copy of the job with other values; it borrows from the job
    memory_estimate estimate; // of `changed`
    bool fits;
    bool needs_path; // state is in files, and the job names no parallel.offload.path
} fit_search;

// Changes the job until the estimate of the largest rank is at most `budget` bytes of the device's
// memory, and within the host's budget of `base`. It leaves out a
// change that the plan refuses or that does not lower the estimate. Where no change is enough, *out
// is the job with the lowest estimate.
status fit_search_run(const job *j, const session_inputs *in, int ranks, uint64_t budget,
                      const memory_estimate_base *base, fit_search *out, err *e);
// Appends "--train.micro_batch 2 --parallel.dp zero2 needs 1.20 GiB".
void fit_search_print(const job *j, const fit_search *l, text *out);
// The smallest number of ranks, doubled from `ranks`, on which `changed` fits under zero3 with the
// same sequences per rank. *out is 0 where a mesh cannot have so many.
status fit_search_ranks(const job *changed, const session_inputs *in, int ranks, uint64_t budget,
                        const memory_estimate_base *base, int *out, err *e);

#endif
