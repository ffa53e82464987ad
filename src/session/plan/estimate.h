// estimate.h -- the memory estimate of a job: bytes of its largest rank, known before any rank
// starts. It plans one rank of every kind that can differ in size.
#ifndef TRIREME_SESSION_ESTIMATE_H
#define TRIREME_SESSION_ESTIMATE_H

#include "session/session.h"

// The estimate of the largest rank.
typedef struct memory_estimate {
    int rank, ranks;
    int coord[AXES]; // coordinates of the rank
    mesh mesh;
    bool alike; // every rank has the same total
    uint64_t bytes[CATEGORIES], total;
    // Bytes of the host's memory, of the rank that needs most of it; zeros where that is the device's.
    uint64_t host[CATEGORIES], host_total;
    uint64_t file;                     // bytes of state in files, which the totals leave out
    double sent_bytes[PROCESS_GROUPS]; // bytes that the rank sends in a step
    uint64_t params;                   // parameters of the full model
} memory_estimate;

#define MEMORY_ESTIMATE_NO_BUDGET UINT64_MAX // the ranks run on machines of unknown memory

// The part that does not depend on the plan.
typedef struct memory_estimate_base {
    // Bytes of the program itself, and those that the device takes for itself. Where the host's memory is
    // apart from the device's, the program's are in host_runtime.
    uint64_t runtime, host_runtime;
    uint64_t data;        // bytes of a rank's share of the samples that its host keeps in memory
    uint64_t budget;      // bytes that a rank may use, of the device's memory
    uint64_t host_budget; // likewise of the host's memory; without effect where the two are one
} memory_estimate_base;

// Returns whether the estimate is within `budget` bytes of the device's memory, and within the host's budget of `base`.
bool memory_estimate_fits(const memory_estimate *n, uint64_t budget,
                          const memory_estimate_base *base);
// The bytes by which it is over one of the two, or both.
uint64_t memory_estimate_over(const memory_estimate *n, uint64_t budget,
                              const memory_estimate_base *base);

// Measures the program, and asks for the device's description: ranks are forked later, and no device
// is open until then.
status memory_estimate_read_base(const job *j, const session_inputs *in, memory_estimate_base *out,
                                 err *e);

// The plan and the schedule of rank o->rank, as trainer_plan makes them, with the bytes of `base`.
status memory_estimate_plan(const trainer_options *o, const memory_estimate_base *base, plan **out,
                            schedule *s, uint64_t *params, double *flops, err *e);
// The estimate of the job's largest rank. Ranks that differ only in their data-parallel coordinates
// have the same bytes, so it plans one of them. E_USAGE where the job's keys exclude each other.
status memory_estimate_of(const job *j, const session_inputs *in, int ranks,
                          const memory_estimate_base *base, memory_estimate *out, err *e);

// The job whose micro-batch is searched for.
typedef struct memory_estimate_search {
    const job *job; // its train.micro_batch is not read
    const session_inputs *in;
    int ranks;
    uint64_t budget; // bytes of a rank
    const memory_estimate_base *base;
} memory_estimate_search;

typedef struct memory_estimate_micro {
    int64_t micro; // sequences
    memory_estimate estimate;
    bool fits;
    bool possible; // the plan allows it
    err refused;   // E_FIT: more bytes than any machine has; E_USAGE: the plan does not allow it
} memory_estimate_micro;

// The largest train.micro_batch up to `limit` that fits, of those that the batch rule allows; where
// none fits, the smallest. Returns the error of the smallest where that is E_FIT or E_USAGE.
status memory_estimate_largest_micro(const memory_estimate_search *s, int64_t limit,
                                     memory_estimate_micro *out, err *e);
// Appends "weights 1.2 MiB, gradients 1.2 MiB, …", without the categories that are zero. `bytes` are
// those of the device or of the host.
void memory_estimate_print(const uint64_t bytes[CATEGORIES], text *out);
// Appends "on each of 8 ranks" or "on rank 5 (pp 1, tp 1), the largest of 8".
void memory_estimate_print_ranks(const memory_estimate *n, text *out);

#endif
