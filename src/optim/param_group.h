// param_group.h -- parameter groups: sets of parameters that differ from the job's settings in how
// they are sharded, stored, frozen or updated, as the param_groups of torch.optim and the wrapping
// policies of FSDP do. Called by config/ (the job's `groups`), session/ and train/. A parameter belongs
// to the first group whose pattern matches its name. It knows neither models nor plans.
#ifndef TRIREME_OPTIM_PARAM_GROUP_H
#define TRIREME_OPTIM_PARAM_GROUP_H

#include "optim/optim.h"
#include "parallel/strategy.h"

#include <stdbool.h>

// The settings of one group. Those that the job's `groups` entry does not give are the job's own.
typedef struct param_group {
    // Pattern of tensor names as in model.safetensors; "*" stands for any characters. NULL matches
    // every name. Borrowed, but for those of a job, which owns them.
    const char *match;
    // Of these, it takes those for which `trains` says so, or with of_base the others; NULL: all.
    bool (*trains)(const void *arg, const char *name);
    const void *trains_arg;
    bool of_base;
    bool frozen;                   // no gradient, no optimizer state, no update
    policies dp;                   // data-parallel policies
    policy_axes over;              // the process groups that they are for
    memory_tier tier[PLAN_STATES]; // where its weights, gradients and optimizer state lie
    dtype precision;               // the compute type of its weights
    // STORAGE_NF4: the group has only weights of linear layers. The others that match are in the next group, which has the
    // same pattern.
    storage_type storage;
    optim_config optimizer; // rule and settings; lr is the job's
    double lr_scale;        // factor of the learning rate
} param_group;

// Groups in the order in which they are tried. The last one takes all that is left.
typedef struct param_groups {
    const param_group *items; // [count]
    int count;
} param_groups;

// Returns whether the pattern matches the whole name. "*" stands for any characters, also none and also dots.
bool param_group_matches(const char *pattern, const char *name);
// The index of the first group that takes `name`; -1: none does.
int param_group_find(const param_group *groups, int count, const char *name);

#endif
