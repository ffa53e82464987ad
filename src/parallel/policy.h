// policy.h -- data-parallel strategies by name. A policy is three placements on one process group:
// how weights, gradients and optimizer state lie between uses. A pair of policies covers the two
// levels of a parameter: the process group that it is sharded over, and the one that it is
// replicated over. Only this module, config/ and session/'s memory fit know the names.
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
#include "base/mesh.h"
#include "parallel/placement.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct policy {
    const char *name;
    placement weight, gradient, optimizer;
} policy;

// The two levels, in the order in which gradients are summed: inner first.
typedef enum policy_level { LEVEL_INNER, LEVEL_OUTER, POLICY_LEVELS } policy_level;

// The process groups of a parameter group: the axes of each level, which flatten into one group.
typedef struct policy_axes {
    mesh_axes level[POLICY_LEVELS];
} policy_axes;

// Those of parameters that every rank of a stage uses: sharded over dp_shard x cp, replicated over dp_replicate.
extern const policy_axes POLICY_AXES;

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
const policy *policies_at(const policies *p, policy_level level);
// Does one of the policies shard gradients over several ranks?
bool policies_shard_gradients(const policies *p, const policy_axes *over, const mesh *m);
// The same policies with PARTIAL gradients: under no_sync every rank sums the gradients of several
// micro-batches locally, at full size.
policies policies_no_sync(policies p);

#endif
