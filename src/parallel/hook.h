// hook.h -- which gradients a communication hook compresses, and what the ranks then send. These
// are pure functions of the plan. train/compress.c and train/powersgd.c compress as they say;
// traffic.c counts the bytes.
#ifndef TRIREME_PARALLEL_HOOK_H
#define TRIREME_PARALLEL_HOOK_H

#include "parallel/plan.h"

// The element type in which gradients are sent.
dtype hook_type(const plan *p);

// Whether PowerSGD sends row r's gradient [rows, cols] as two factors of hook_rank columns:
// (rows + cols) rank min_compression_rate < rows cols. It never factors a vector or a frozen
// parameter. Returns false for other hooks.
bool hook_factors_row(const plan *p, const plan_row *r);
// The rank of row r's approximation: the rank of the hook, but at most the smaller dimension of the
// row.
int64_t hook_rank(const plan *p, const plan_row *r);
// The number of elements of both factors of row r; 0 when PowerSGD does not factor it.
int64_t hook_factor_elements(const plan *p, const plan_row *r);

// Whether the factors of group g are summed with its redistribution m. PowerSGD sums them with the
// first redistribution of gradients that communicates: the one after each micro-batch, or else the
// one at the end of the step.
bool hook_sends_factors(const plan *p, const plan_group *g, const plan_redistribution *m);
// The elements that redistribution step m->step[step] communicates for the row at `position` of
// plan->order, when rows are sent one by one. It is empty for a row that PowerSGD factors.
comm_segment hook_row_segment(const plan *p, const plan_redistribution *m, int step, int position);

#endif
