// estimate.h -- what a job needs of memory on its ranks, before anything starts: the plan of every rank
// that can differ from another one, of which the largest counts.
#ifndef TRIREME_SESSION_NEED_H
#define TRIREME_SESSION_NEED_H

#include "session/session.h"

// Of the rank that needs most.
typedef struct memory_estimate {
    int rank, ranks;
    int coord[AXES], size[AXES]; // where it is
    bool alike;                  // every rank needs as much
    uint64_t bytes[CATEGORIES], total;
    uint64_t file;                     // state in files, beside them
    double sent_bytes[PROCESS_GROUPS]; // bytes that it sends in a step
    uint64_t params;                   // of the whole model
} memory_estimate;

#define MEMORY_ESTIMATE_NO_BUDGET UINT64_MAX // nothing is known of where the ranks will run

// What a rank has before it has anything of the job: a device like the ranks'; the bytes of its
// scratch memory and of the program itself; and what it may use in all. As they were when this was
// opened, without what planning itself takes.
typedef struct memory_estimate_base {
    device *device;
    uint64_t runtime, budget;
} memory_estimate_base;

status memory_estimate_base_open(const job *j, memory_estimate_base *out, err *e);
void memory_estimate_base_close(memory_estimate_base *b); // safe on a zeroed one

// The plan of rank o->rank as trainer_plan makes it, on top of `base`.
status memory_estimate_plan(const trainer_options *o, const memory_estimate_base *base, plan **out,
                            schedule *s, uint64_t *params, double *flops, err *e);
// Ranks that differ in their data-parallel coordinates alone are alike; stages and tensor-parallel
// ranks are not. E_USAGE where the job's keys exclude each other.
status memory_estimate_of(const job *j, const session_inputs *in, int ranks,
                          const memory_estimate_base *base, memory_estimate *out, err *e);
typedef struct micro_search {
    const job *of; // but for its micro-batch
    const session_inputs *in;
    int ranks;
    uint64_t budget;
    const memory_estimate_base *base;
} micro_search;

typedef struct memory_estimate_micro {
    int64_t micro;
    memory_estimate need;
    bool fits, possible;
    err refused; // why it is more than any memory has, or not possible
} memory_estimate_micro;

// train.micro_batch: the largest up to `limit` that fits, of those that the batch rule allows; else
// the smallest. E_FIT, E_USAGE where that one is more than any memory has, or not possible.
status memory_estimate_largest_micro(const micro_search *s, int64_t limit,
                                     memory_estimate_micro *out, err *e);
// "weights 1.2 MiB, gradients 1.2 MiB, …", what is not zero.
void memory_estimate_print(const memory_estimate *n, text *out);
// "on each of 8 ranks", "on rank 5 (pp 1, tp 1), the largest of 8"
void memory_estimate_print_ranks(const memory_estimate *n, text *out);

#endif
