// policy.h -- data-parallel strategies by name. A policy is a word of three placements: how Weight,
// Gradient and Optimizer state are kept between uses, on one axis of the mesh; a pair of words says
// it for both data-parallel axes. The only file, with the configuration dialects, that knows the
// names.
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

// By Trireme's own name; NULL when unknown. Other systems' words for it are config/'s to translate.
const policy *policy_find(const char *name);
// Row i of the table, NULL beyond it.
const policy *policy_at(size_t i);
// In every state, if the outer axis is sharded so is the inner one, unless the inner axis never
// shards: then parts of parts are nested one way only. E_USAGE names the pair and the state.
status policies_check(const policies *p, err *e);
// Does any of them keep gradients sharded, on an axis of several ranks?
bool policies_shard_gradients(const policies *p, const mesh *m);
// While gradients of several micro-batches are summed locally (no_sync), they are whole summands.
policies policies_no_sync(policies p);

#endif
