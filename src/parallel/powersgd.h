// powersgd.h -- PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: Practical low-rank gradient
// compression for distributed optimization", NeurIPS 2019), the arithmetic of one rank: a gradient
// M [n, m] of summands becomes P = M Q, summed over ranks and made orthonormal; Q = M^T P, summed
// over ranks; and P Q^T, which is the sum of all M as far as it lies in the span of P. What the
// rank's own M did not bring across is added to the next one (error feedback). Who sums is not
// known here: the caller does (compress.c), between the three thirds.
//
// As PyTorch's hook of the same name, but for sums where it has means, and in three cases where its
// Gram-Schmidt gives nothing of use: a matrix of zeros gives zeros also with epsilon 0, and starts
// afresh when it is no longer zero; the columns of P are orthonormal also when M has a lower rank.
#ifndef TRIREME_PARALLEL_POWERSGD_H
#define TRIREME_PARALLEL_POWERSGD_H

#include "comm/comm.h"
#include "parallel/plan.h"

typedef struct powersgd powersgd;

// The factors of a bucket's matrices, one after the other. count 0: it has none.
typedef struct powersgd_factors {
    float *at;
    int64_t count;
} powersgd_factors;

// Is this row's gradient worth it? (n + m) r min_compression_rate < n m, r the least of n, m and
// the hook's rank; never a vector. False with another hook.
bool powersgd_takes(const plan *p, const plan_row *r);
// Elements of both of its factors; 0 where it is not taken.
int64_t powersgd_factor_elements(const plan *p, const plan_row *r);

// Bytes that powersgd_open will allocate.
uint64_t powersgd_bytes(const plan *p);
// `c` gives the memory of what is summed over ranks; `p`, `d` and `c` are borrowed.
status powersgd_open(const plan *p, device *d, comm *c, uint64_t seed, powersgd **out, err *e);
void powersgd_close(powersgd *s);   // NULL allowed
void powersgd_restart(powersgd *s); // see compress_restart

// What is carried from step to step, by parameter: this rank's error; Q; and what Q started from.
typedef enum powersgd_part {
    POWERSGD_ERROR, // [rows, cols]; each data-parallel rank has its own
    POWERSGD_RIGHT, // [cols, rank]; the same on all of them
    POWERSGD_START, // likewise
    POWERSGD_PARTS
} powersgd_part;

// Is anything carried: has a step been compressed since the last restart? The same on every rank.
bool powersgd_carries(const powersgd *s);
// Elements of a part of a row, 0 where the row is not taken or the hook carries no such part; and
// where they lie on the device, for a row of this rank that has them.
int64_t powersgd_part_elements(const plan *p, const plan_row *r, powersgd_part part);
float *powersgd_part_at(powersgd *s, int row, powersgd_part part);
// All parts of all rows have been filled: the next step goes on from them.
void powersgd_resume(powersgd *s);

// Bucket b, whole, at `at`: P. `step` only has to differ from step to step.
powersgd_factors powersgd_left(powersgd *s, int b, const float *at, uint64_t step,
                               device_stream *on);
// After P has been summed over the ranks: Q.
powersgd_factors powersgd_right(powersgd *s, int b, const float *at, device_stream *on);
// After Q has been summed: the product into `at`, and this rank's error.
void powersgd_product(powersgd *s, int b, float *at, device_stream *on);

#endif
