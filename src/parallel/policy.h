// policy.h -- data-parallel strategies by name. A policy is a word of three placements: how Weight,
// Gradient and Optimizer state are kept between uses. The only file, with the configuration
// dialects, that knows the names.
#ifndef TRIREME_PARALLEL_POLICY_H
#define TRIREME_PARALLEL_POLICY_H

#include "parallel/placement.h"

#include <stddef.h>

typedef struct policy {
    const char *name;
    placement weight, gradient, optimizer;
} policy;

// By Trireme's own name; NULL when unknown. Other systems' words for it are config/'s to translate.
const policy *policy_find(const char *name);

#endif
