// hook.h -- which gradients a communication hook compresses, and what the ranks then send. These
// are pure functions of the plan. train/compress/compress.c and train/compress/powersgd.c compress as they say;
// calls.c lists the calls.
#ifndef TRIREME_PARALLEL_HOOK_H
#define TRIREME_PARALLEL_HOOK_H

#include "parallel/plan.h"

// The element type in which gradients are sent.
dtype hook_type(const plan *p);
// Whether the plan sums gradients over ranks, and sends them in another form than they have.
bool hook_compresses(const plan *p);

// Whether PowerSGD sends row r's gradient [rows, cols] as two factors of hook_rank columns:
// (rows + cols) rank min_compression_rate < rows cols. It never factors a vector or a frozen
// parameter. Returns false for other hooks.
bool hook_factors_row(const plan *p, const plan_row *r);
// The rank of row r's approximation: the rank of the hook, but at most the smaller dimension of the
// row.
int64_t hook_rank(const plan *p, const plan_row *r);

// Whether the factors of group g are summed with its redistribution m. PowerSGD sums them with the
// first redistribution of gradients that communicates: the one after each micro-batch, or else the
// one at the end of the step.
bool hook_sends_factors(const plan *p, const plan_group *g, const plan_redistribution *m);
// Whether PowerSGD leaves a row of the bucket as it is.
bool hook_leaves_rows(const plan *p, int bucket);
// The number of elements of the left factors of a bucket, and of the right ones.
void hook_factors(const plan *p, int bucket, int64_t *left, int64_t *right);

#endif
