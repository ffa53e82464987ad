// need.h -- what a job needs of memory on its ranks, before anything starts: the plan of every rank
// that can differ from another one, of which the largest counts.
#ifndef TRIREME_SESSION_NEED_H
#define TRIREME_SESSION_NEED_H

#include "session/session.h"

// Of the rank that needs most.
typedef struct need {
    int rank, ranks;
    int at[AXES], size[AXES]; // where it is
    bool alike;               // every rank needs as much
    uint64_t bytes[CATEGORIES], total;
    uint64_t file;       // state in files, beside them
    double moved[LINKS]; // bytes that it sends in a step
    uint64_t params;     // of the whole model
} need;

#define NEED_NO_BUDGET UINT64_MAX // nothing is known of where the ranks will run

// What a rank has before it has anything of the job: a device like the ranks'; the bytes of its
// scratch memory and of the program itself; and what it may use in all. As they were when this was
// opened, without what planning itself takes.
typedef struct need_base {
    device *device;
    uint64_t runtime, budget;
} need_base;

status need_base_open(const job *j, need_base *out, err *e);
void need_base_close(need_base *b); // safe on a zeroed one

// The plan of rank o->rank as trainer_plan makes it, on top of `base`.
status need_plan(const trainer_options *o, const need_base *base, plan **out, schedule *s,
                 uint64_t *params, double *flops, err *e);
// Ranks that differ in their data-parallel coordinates alone are alike; stages and tensor-parallel
// ranks are not. E_USAGE where the job's keys exclude each other.
status need_of(const job *j, const inputs *in, int ranks, const need_base *base, need *out, err *e);
typedef struct micro_search {
    const job *of; // but for its micro-batch
    const inputs *in;
    int ranks;
    uint64_t budget;
    const need_base *base;
} micro_search;

typedef struct need_micro {
    int64_t micro;
    need need;
    bool fits, possible;
    err refused; // why it is more than any memory has, or not possible
} need_micro;

// train.micro_batch: the largest up to `limit` that fits, of those that the batch rule allows; else
// the smallest. E_FIT, E_USAGE where that one is more than any memory has, or not possible.
status need_largest_micro(const micro_search *s, int64_t limit, need_micro *out, err *e);
// "weights 1.2 MiB, gradients 1.2 MiB, …", what is not zero.
void need_print(const need *n, text *out);
// "on each of 8 ranks", "on rank 5 (pp 1, tp 1), the largest of 8"
void need_print_ranks(const need *n, text *out);

#endif
