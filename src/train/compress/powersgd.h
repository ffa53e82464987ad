// powersgd.h -- PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: Practical low-rank gradient
// compression for distributed optimization", NeurIPS 2019): the arithmetic of one rank. Let M [n, m]
// be this rank's gradient, one summand of the gradient over all ranks. A step computes
//     P [n, r] = M Q, which the ranks sum and which is then made orthonormal;
//     Q [m, r] = M^T P, which the ranks sum;
//     P Q^T [n, m], the part of the sum of all M that lies in the span of P.
// With error feedback, what P Q^T lacks of this rank's M is added to the M of the next step. The
// caller (compress.c) sums over the ranks between the three calls.
//
// The results are those of PyTorch's hook of the same name, but for sums where it has means, and but
// for three cases in which its Gram-Schmidt gives nothing of use. A matrix of zeros gives zeros also
// with epsilon 0. A matrix that is no longer zero starts afresh. The columns of P are orthonormal
// also when M has a lower rank.
#ifndef TRIREME_TRAIN_POWERSGD_H
#define TRIREME_TRAIN_POWERSGD_H

#include "comm/comm.h"
#include "device/kernel_needs.h"
#include "parallel/plan.h"

typedef struct powersgd powersgd;

// The factors of a bucket's matrices, one after the other: F32, count 0 where it has none.
typedef struct powersgd_factors {
    float *items;
    int64_t count;
} powersgd_factors;

// Bytes that powersgd_open will allocate on a device whose kernels have these needs.
uint64_t powersgd_bytes(const plan *p, const kernel_needs *needs);
// `c` gives the memory that is summed over ranks. `p`, `d` and `c` are borrowed.
status powersgd_open(const plan *p, device *d, comm *c, uint64_t seed, powersgd **out, err *e);
void powersgd_close(powersgd *s); // NULL allowed
// See compress_end_step.
void powersgd_end_step(powersgd *s, uint64_t step, bool restart);

// What PowerSGD carries from step to step, for each parameter that it factors.
typedef enum powersgd_part {
    POWERSGD_ERROR, // [rows, cols]; each rank that sums the gradient has its own
    POWERSGD_RIGHT, // Q [cols, rank]; the same on all ranks that sum the gradient
    POWERSGD_START, // [cols, rank]: the random numbers that Q started from; likewise
    POWERSGD_PARTS
} powersgd_part;

// Whether a step has been compressed since the last restart. The same on every rank, also on ranks
// that factor nothing themselves.
bool powersgd_carries(const powersgd *s);
// Elements of one part of row r; 0 where PowerSGD does not factor the row or carries no such part.
int64_t powersgd_part_elements(const plan *p, const plan_row *r, powersgd_part part);
// That part in device memory, F32. The row must be of this rank and have the part.
float *powersgd_part_ptr(powersgd *s, int row, powersgd_part part);
// The caller has filled all parts of all rows: the next step continues from them.
void powersgd_resume(powersgd *s);

// `gradients` [bucket elements of LAYOUT_FULL] F32 holds the full bucket. Returns P, to be summed.
// `step` only has to differ from step to step.
powersgd_factors powersgd_left(powersgd *s, int bucket, const float *gradients, uint64_t step,
                               device_stream *on);
// P has been summed over the ranks. Returns Q, to be summed.
powersgd_factors powersgd_right(powersgd *s, int bucket, const float *gradients, device_stream *on);
// Q has been summed over the ranks. Writes P Q^T into `gradients`, and this rank's error.
void powersgd_product(powersgd *s, int bucket, float *gradients, device_stream *on);

#endif
