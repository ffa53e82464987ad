// policy.h -- data-parallel strategies by name. A policy is three placements on one axis of the
// mesh: how weights, gradients and optimizer state lie between uses. A pair of policies covers both
// data-parallel axes. Only this module, config/ and session/'s memory fit know the names.
//
//   name           weight     gradient   optimizer
//   ddp            REPLICATE  PARTIAL    REPLICATE
//   zero1          REPLICATE  PARTIAL    SHARD
//   zero2          REPLICATE  SHARD      SHARD
//   zero3          SHARD      SHARD      SHARD
//   fsdp_no_sync   SHARD      PARTIAL    SHARD
#ifndef TRIREME_PARALLEL_POLICY_H
#define TRIREME_PARALLEL_POLICY_H

#include "base/err.h"
#include "parallel/mesh.h"
#include "parallel/placement.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct policy {
    const char *name;
    placement weight, gradient, optimizer;
} policy;

// outer: dp_replicate, inner: dp_shard.
typedef struct policies {
    policy outer, inner;
} policies;

// By Trireme's name; NULL when unknown. config/ translates the names of other systems.
const policy *policy_find(const char *name);
// Row i of the table, NULL beyond it.
const policy *policy_row(size_t i);
// Refuses pairs in which the outer axis shards a state and the inner axis does not, except where
// the inner axis shards nothing at all. So the shard of a shard is always taken from the inner
// axis' shard. E_USAGE names both policies and the state.
status policies_check(const policies *p, err *e);
// Does one of the policies shard gradients on an axis of several ranks?
bool policies_shard_gradients(const policies *p, const mesh *m);
// The same policies with PARTIAL gradients: under no_sync every rank sums the gradients of several
// micro-batches locally, at full size.
policies policies_no_sync(policies p);

#endif
