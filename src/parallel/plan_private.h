// plan_private.h -- shared by plan.c, plan_groups.c, plan_buckets.c and plan_redistribute.c.
#ifndef TRIREME_PARALLEL_PLAN_PRIVATE_H
#define TRIREME_PARALLEL_PLAN_PRIVATE_H

#include "parallel/plan.h"

// Makes p->group from p->o.group. `s` is the job's strategy before strategy_resolve.
status plan_make_groups(plan *p, const strategy *s, err *e);
// Orders the rows of this stage, divides them into buckets, and lays them out in the arrays.
status plan_make_buckets(plan *p, err *e);
// The bytes that a bucket takes in an array in memory: those of plan_bucket_bytes, and those up to the
// place at which the next bucket may start.
size_t plan_placed_bytes(const plan *p, int bucket, plan_array a);
// Whether gradients that are summed over both levels of a group at once are summed in one all-reduce. They are
// where the number of ranks of the inner level is no power of two: sums of so many ranks are no subtrees of
// one sum over all ranks (base/reduce.h).
bool plan_joins_levels(const plan_options *o, const plan_group *g);
status plan_make_redistributions(plan *p, err *e);
void plan_free_redistributions(plan *p);

#endif
